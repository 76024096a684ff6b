"""Checkpoint file with the results of finished runs of a simulation."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from structsvm.common.array_files import Archive, Damaged, read_json
from structsvm.common.checks import BadInput
from structsvm.common.files import replacing
from structsvm.protocols import Float, Int, World

_MOST_SETTINGS_BYTES = 1 << 28


def fingerprint(fresh: object, world: World, **settings: object) -> str:
    """Return the new bandit, the world and all settings as text; a checkpoint is resumed only if its text is the
    same."""
    # the gaps determine the regret; the matrix, the scores or a live world's fingerprint determine the outcomes
    world_digest = hashlib.sha256(np.ascontiguousarray(world.gaps).tobytes())
    for name in ("preferences", "scores"):
        if getattr(world, name, None) is not None:
            world_digest.update(np.ascontiguousarray(getattr(world, name)).tobytes())
    world_digest.update(getattr(world, "fingerprint", b""))
    settings["state"] = fresh.to_json() if hasattr(fresh, "to_json") else ""
    settings["world"] = world_digest.hexdigest()
    return json.dumps(settings, sort_keys=True, default=str)


class Checkpoint:
    """Results of the finished runs, in memory and, if a path is given, in a file."""

    def __init__(
        self, path: str | os.PathLike[str] | None, settings: str, n_runs: int, n_times: int, n_arms: int
    ) -> None:
        self.path = None if path is None else Path(path)
        self.settings = settings
        self.done = np.zeros(n_runs, dtype=bool)
        self.regret = np.zeros((n_runs, n_times))
        self.winners = np.zeros((n_runs, n_times), dtype=np.int64)
        self.duels = np.zeros((n_arms, n_arms), dtype=np.int64)
        if self.path is not None and self.path.exists():
            self._read(self.path)

    def _read(self, path: Path) -> None:
        # compare the settings before reading the arrays, which may have any shape in another simulation
        try:
            with Archive(path) as saved:
                settings_array = saved.array("settings", most_bytes=_MOST_SETTINGS_BYTES)
                if settings_array.dtype.kind != "U" or settings_array.shape:
                    raise Damaged("settings that are not text")
                saved_settings, here = _meaning(str(settings_array)), _meaning(self.settings)
                arrays = {}
                for name, empty in self._arrays().items() if saved_settings == here else ():
                    header = saved.header(name)
                    if header.dtype != empty.dtype or header.shape != empty.shape:
                        raise Damaged(f"{name}: {header.dtype} {list(header.shape)}")
                    arrays[name] = saved.array(name)
                    if not np.isfinite(arrays[name]).all() or (name != "regret" and (arrays[name] < 0).any()):
                        raise Damaged(f"{name}: impossible values")
        except (Damaged, UnicodeError) as error:
            raise BadInput(
                path,
                f"expected a checkpoint of simulate, got another file ({error!s:.200})",
                "give another path, or delete the file",
            ) from error
        if saved_settings != here:
            differ = [key for key in here if here[key] != saved_settings.get(key)] or ["settings"]
            raise BadInput(
                path,
                f"expected a checkpoint of this simulation, but {', '.join(differ)} differ",
                "give another path, or delete the file",
            )
        vars(self).update(arrays)

    def add(self, run: int, values: Float, answers: Int, duels: Int) -> None:
        """Add the results of a run, and write the file if a path was given."""
        self.done[run] = True
        self.regret[run] = values
        self.winners[run] = answers
        self.duels += duels
        if self.path is not None:
            with replacing(self.path) as file:
                np.savez_compressed(file, settings=np.array(self.settings), **self._arrays())

    def _arrays(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("done", "regret", "winners", "duels")}


def _meaning(settings: str) -> dict[str, Any]:
    """Return the settings and the state of the new bandit as objects, so that the order of keys does not matter."""
    found = read_json(settings.encode())
    if not isinstance(found, dict):
        raise Damaged("settings that are not a JSON object")
    state = found.get("state")
    return found | {"state": read_json(state.encode())} if isinstance(state, str) and state else found
