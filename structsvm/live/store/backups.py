"""Regular copies of a SQLite store in a folder."""

import sqlite3
import time
from datetime import UTC, datetime
from pathlib import Path

from structsvm.live.store.sqlite import backup, drop_unit_keys

_STAMP = "%Y%m%dT%H%M%SZ"  # the suffix of a copy's name: its creation time in UTC


class Backups:
    """Regular copies of a store, named ``NAME-20261231T235959Z.db``; the newest are kept."""

    def __init__(self, path: Path, folder: Path, every_s: float, kept: int) -> None:
        self._cleaned: set[tuple[Path, frozenset[int]]] = set()
        self._path, self._folder, self._every, self._kept = path, folder, every_s, kept

    def files(self) -> list[Path]:
        """Return the existing copies, oldest first."""
        files = self._folder.glob(f"{self._path.stem}-*Z{self._path.suffix}")
        return sorted(file for file in files if self._made_at(file) is not None)

    def _made_at(self, file: Path) -> float | None:
        """Return the time in a copy's name, or None; the file's own time changes when a key is deleted."""
        stamp = file.stem.removeprefix(f"{self._path.stem}-")
        try:
            return datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC).timestamp()
        except ValueError:
            return None

    def newest_at(self) -> float | None:
        """Return the time of the newest copy in seconds since 1970; None without a copy."""
        files = self.files()
        return self._made_at(files[-1]) if files else None

    def is_due(self) -> bool:
        """Return whether it is time for the next copy."""
        # ignore copies dated in the future, which were made before the clock was set back
        ages = [time.time() - at for at in map(self._made_at, self.files()) if at is not None]
        return not any(0 <= age < self._every for age in ages)

    def drop_unit_keys(self, ended: frozenset[int]) -> None:
        """Delete, from all copies, the unit keys that are deleted in the store."""
        for file in self.files():
            if (file, ended) not in self._cleaned:
                try:
                    drop_unit_keys(file, ended)
                except sqlite3.OperationalError:
                    if file.exists():
                        raise
        self._cleaned = {(file, ended) for file in self.files()}

    def make(self) -> Path:
        """Make a copy, and delete the oldest copies beyond the limit."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        stamp = datetime.now(UTC).strftime(_STAMP)
        target = self._folder / f"{self._path.stem}-{stamp}{self._path.suffix}"
        backup(self._path, target)
        for old in self.files()[: -self._kept]:
            old.unlink(missing_ok=True)
        return target
