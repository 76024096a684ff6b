"""A fit in a file: the driver's bounds, weights and columns after each pass, so that another process can go on."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from structsvm.checks import BadInput
from structsvm.common.arrays import Archive, Damaged, read_json
from structsvm.common.files import replacing
from structsvm.protocols import Float, Progress
from structsvm.trainers.certificate import Recorder
from structsvm.trainers.partitioned.columns import Columns

__all__ = ["Checkpoint"]

_FORMAT = "structsvm-checkpoint"
_COLUMNS = ("joint", "loss", "rounding", "group", "alpha", "idle")


class Checkpoint:
    """File of a fit: reads what :meth:`save` wrote last, if the file is there, and writes the next state.

    Parameters
    ----------
    path : Path
    problem : dict
        What tells one fit from another, of plain values: the file must say the same.

    Attributes
    ----------
    found : bool
        Whether there is a fit to go on with.
    slacks : ndarray, shape (n_parts,)
        Of each partition at the best weights; the first pass must find them again.

    Raises
    ------
    ValueError
        For a file that is no checkpoint, a damaged one, or that of another fit.
    """

    def __init__(self, path: Path, problem: dict[str, Any]) -> None:
        self._path, self._problem = path, problem
        self._arrays: dict[str, Any] = {}
        self.found = path.exists()
        self.slacks: Float = np.empty(0)
        if not self.found:
            return
        try:
            with Archive(path) as archive:
                said = read_json(archive.array("description").tobytes())
                if said.get("format") != _FORMAT:
                    raise Damaged("another kind of file")
                self._arrays = {
                    name: archive.array(name) for name in ("w", "slacks", "shares", "history", *_COLUMNS)
                }
        except (Damaged, AttributeError) as error:
            raise BadInput(
                path,
                f"expected a checkpoint of a fit, got something else ({error})",
                "name another file, or delete it",
            ) from None
        other = [name for name, value in problem.items() if said["problem"].get(name) != value]
        if other:
            name = other[0]
            raise BadInput(
                path,
                f"expected a checkpoint of this fit, got that of another: {name} was {said['problem'].get(name)!r}, "
                f"is {problem[name]!r}",
                "name another file, or delete it",
            )
        self.slacks = self._arrays["slacks"]

    def same_parts(self, shares: Float) -> bool:
        """Return whether the partitions are those of the file."""
        kept = self._arrays["shares"]
        return kept.shape == shares.shape and bool(np.allclose(kept, shares, rtol=1e-12, atol=0.0))

    def restore(self, record: Recorder, columns: Columns, shares: Float) -> None:
        """Set bounds and columns to what they were; the columns only if the partitions are the same."""
        history = self._arrays["history"]
        record.history = [Progress(int(n), *map(float, rest)) for n, *rest in history]
        last = record.history[-1]
        record.n_passes, record.primal, record.dual = last.n_passes, last.primal, last.dual
        record.w = np.array(self._arrays["w"])
        record.begun(last.seconds)
        if self.same_parts(shares):
            columns.restore(self._arrays)

    def save(self, record: Recorder, columns: Columns, shares: Float, slacks: Float) -> None:
        """Replace the file; an interrupted call leaves the old one."""
        said = json.dumps({"format": _FORMAT, "problem": self._problem})
        buffer = io.BytesIO()
        np.savez(
            buffer,
            description=np.frombuffer(said.encode(), dtype=np.uint8),
            w=record.w,
            slacks=slacks,
            shares=shares,
            history=np.array(record.history, dtype=np.float64),
            **columns.state(),
        )
        with replacing(self._path) as file:
            file.write(buffer.getvalue())

    def remove(self) -> None:
        """Delete the file, when the fit is done."""
        self._path.unlink(missing_ok=True)
