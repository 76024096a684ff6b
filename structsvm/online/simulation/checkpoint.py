"""Files of a simulation: its finished runs, and the state of an unfinished run."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from structsvm.common.arrays import Archive, Damaged, read_json
from structsvm.common.checks import BadInput
from structsvm.common.files import replacing
from structsvm.protocols import Float, Int, World

_MOST_SETTINGS_BYTES = 1 << 28


def fingerprint(fresh: Any, world: World, **settings: Any) -> str:
    """Return the new bandit, the world and all settings as text; a checkpoint is resumed only if the text is the
    same."""
    # gaps for the regret, the matrix or scores for the outcomes, and the fingerprint of a live world
    world_digest = hashlib.sha256(np.ascontiguousarray(world.gaps).tobytes())
    for name in ("preferences", "scores"):
        if getattr(world, name, None) is not None:
            world_digest.update(np.ascontiguousarray(getattr(world, name)).tobytes())
    world_digest.update(getattr(world, "fingerprint", b""))
    settings["state"] = fresh.to_json() if hasattr(fresh, "to_json") else ""
    settings["world"] = world_digest.hexdigest()
    return json.dumps(settings, sort_keys=True, default=str)


class Checkpoint:
    """Results of the finished runs, in memory and, with a path, in a file."""

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
                    raise Damaged("settings that are no text")
                saved_settings, here = _meaning(str(settings_array)), _meaning(self.settings)
                arrays = {}
                for name, empty in self._arrays().items() if saved_settings == here else ():
                    header = saved.header(name)
                    if header.dtype != empty.dtype or header.shape != empty.shape:
                        raise Damaged(f"{name}: {header.dtype} {list(header.shape)}")
                    arrays[name] = saved.array(name)
                    if not np.isfinite(arrays[name]).all() or (name != "regret" and (arrays[name] < 0).any()):
                        raise Damaged(f"{name}: values that it cannot have")
        except (Damaged, UnicodeError) as error:
            problem = f"expected a checkpoint of simulate, got another file ({error!s:.200})"
            raise BadInput(path, problem, "give another path, or delete the file") from error
        if saved_settings != here:
            differ = [key for key in here if here[key] != saved_settings.get(key)] or ["settings"]
            problem = f"expected a checkpoint of this simulation, but {', '.join(differ)} differ"
            raise BadInput(path, problem, "give another path, or delete the file")
        vars(self).update(arrays)
        self.settings = str(settings_array)  # unfinished runs refer to this text

    def under_way(self, run: int) -> UnderWay:
        """Return the file of an unfinished run."""
        path = None if self.path is None else self.path.with_name(f"{self.path.name}.run{run}")
        return UnderWay(path, hashlib.sha256(self.settings.encode()).hexdigest())

    def add(self, run: int, values: Float, answers: Int, duels: Int) -> None:
        """Add the results of a run, and write the file if there is one."""
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
    """Return the settings with the state of the new bandit as objects, so that the order of keys does not matter."""
    found = read_json(settings.encode())
    if not isinstance(found, dict):
        raise Damaged("settings that are no JSON object")
    state = found.get("state")
    return found | {"state": read_json(state.encode())} if isinstance(state, str) and state else found


@dataclass(slots=True)
class RunState:
    """State of a run between two of its steps."""

    bandit: Any
    rng: np.random.Generator  # generator of the duels
    ties: np.random.Generator  # generator of ties in the recorded answers
    regret: Float  # (n_times,), recorded up to k
    winners: Int  # likewise
    duels: Int  # (K, K)
    total: float = 0.0  # regret so far
    step: int = 0  # comparisons made
    k: int = 0  # times recorded

    def to_dict(self) -> dict[str, Any]:
        """Return the state as JSON-serialisable values, with the bandit as its ``to_json`` text."""
        return {
            "bandit": self.bandit.to_json(),
            "total": self.total,
            "step": self.step,
            "k": self.k,
            "rng": self.rng.bit_generator.state,
            "ties": self.ties.bit_generator.state,
            "regret": self.regret[: self.k].tolist(),
            "winners": self.winners[: self.k].tolist(),
            "duels": [[int(i), int(j), int(self.duels[i, j])] for i, j in np.argwhere(self.duels)],
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Restore the state that :meth:`to_dict` returned.

        Raise ValueError, KeyError, TypeError or IndexError for anything else.
        """
        self.bandit = type(self.bandit).from_json(saved["bandit"])
        self.rng.bit_generator.state, self.ties.bit_generator.state = saved["rng"], saved["ties"]
        self.total, self.step, self.k = saved["total"], saved["step"], saved["k"]
        # a wrong length would surface only when the run ends
        n_times = len(self.regret)
        if not (0 <= self.k < n_times and len(saved["regret"]) == len(saved["winners"]) == self.k):
            raise ValueError(f"{self.k} of {n_times} times recorded")
        self.regret[: self.k], self.winners[: self.k] = saved["regret"], saved["winners"]
        for i, j, n in saved["duels"]:
            self.duels[i, j] = n


@dataclass(frozen=True)
class UnderWay:
    """File of an unfinished run, with a digest of the settings of its simulation; without a path nothing is saved."""

    path: Path | None
    of: str = ""

    def _broken(self, why: object) -> ValueError:
        return BadInput(
            str(self.path),
            f"expected an unfinished run of this simulation, got another file ({why})",
            "give another path, or delete the file to start the run again",
        )

    def resume(self, run: RunState) -> None:
        """Restore ``run`` from the file, if there is one; raise BadInput for a file of another run."""
        if self.path is None or not self.path.exists():
            return
        try:
            saved = read_json(self.path.read_bytes())
        except Damaged as error:
            raise self._broken(error) from error
        if not isinstance(saved, dict) or saved.get("of") != self.of:
            raise self._broken("of other settings")
        try:
            run.restore(saved)
        except (ValueError, KeyError, TypeError, IndexError, OverflowError, AttributeError) as error:
            raise self._broken(error) from error

    def save(self, run: RunState) -> None:
        """Write the state of ``run``; the file appears complete or not at all."""
        if self.path is None:
            return
        with replacing(self.path) as file:
            file.write(json.dumps({"of": self.of, **run.to_dict()}).encode())
