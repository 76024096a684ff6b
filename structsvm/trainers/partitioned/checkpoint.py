"""Checkpoint of a fit: the bounds, weights and columns after each pass, from which another process can continue."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from structsvm.common.array_files import Archive, Damaged, read_json
from structsvm.common.checks import BadInput
from structsvm.common.files import replacing
from structsvm.protocols import Float, Progress
from structsvm.trainers.certificate import Recorder
from structsvm.trainers.partitioned.columns import Columns

_FORMAT = "structsvm-checkpoint"
_COLUMNS = ("joint", "loss", "rounding", "group", "alpha", "idle")


_SAME_COLUMN, _COLUMN_ROUNDING = 1e-9, 1e-12
"""Tolerances for the rounding differences of a column mean between partitionings of the same rows: relative to the
mean, and relative to the largest mean."""


def other_rows(difference: str) -> BadInput:
    """Return the error for a checkpoint that was written for different rows."""
    return BadInput(
        "checkpoint",
        f"expected the data for which it was written, got different data: {difference}",
        "delete the checkpoint",
    )


def _check_shapes(arrays: dict[str, Any]) -> None:
    """Raise Damaged unless the arrays have matching shapes and finite numbers."""
    n_parts, m = arrays["shares"].size, arrays["w"].size
    shapes: dict[str, tuple[int, ...]] = {
        "shares": (n_parts,),
        "slacks": (n_parts,),
        "w": (m,),
        "at_zero": (m,),
    }
    n = arrays["loss"].size
    shapes |= dict.fromkeys(_COLUMNS, (n,)) | {"joint": (n, m)}
    shapes["history"] = (arrays["history"].shape[0] if arrays["history"].ndim else 0, len(Progress._fields))
    for name, shape in shapes.items():
        array = arrays[name]
        # infinite values are valid, because the first passes have no upper bound
        if array.shape != shape or array.dtype.kind not in "fi" or np.isnan(array).any():
            raise Damaged(f"{name} of shape {array.shape}, or with entries that are not numbers")
    if not shapes["history"][0] or not np.isfinite(arrays["history"][-1]).all():
        raise Damaged("no pass")
    if n and not (arrays["group"].min() >= 0 and arrays["group"].max() < n_parts):
        raise Damaged("columns of missing partitions")


class Checkpoint:
    """Checkpoint file of a fit, from which the last saved state is read if the file exists.

    ``problem`` identifies the fit. After a restart, the first pass must measure the same ``slacks`` as those in the
    file.
    """

    def __init__(self, path: Path, problem: dict[str, Any]) -> None:
        self._path, self._problem = path, problem
        self._arrays: dict[str, Any] = {}
        self._at_zero: Float = np.empty(0)
        self.unproven = path.exists()
        """Whether the state comes from the file and no pass has verified its slacks on the current rows."""
        self.slacks: Float = np.empty(0)
        if not self.unproven:
            return
        try:
            with Archive(path) as archive:
                described = read_json(archive.array("description").tobytes())
                if described.get("format") != _FORMAT:
                    raise Damaged("another kind of file")
                other = dict(described["problem"])
                names = ("w", "at_zero", "slacks", "shares", "history", *_COLUMNS)
                self._arrays = {name: archive.array(name) for name in names}
                _check_shapes(self._arrays)
        except (Damaged, AttributeError, KeyError, TypeError) as error:
            raise BadInput(
                path,
                f"expected a checkpoint of a fit, got something else ({error})",
                "name another file, or delete it",
            ) from None
        for name, value in problem.items():
            if other.get(name) != value:
                raise BadInput(
                    path,
                    f"expected a checkpoint of this fit, got one of another fit: {name} was {other.get(name)!r}, is "
                    f"{value!r}",
                    "name another file, or delete it",
                )
        self.slacks = self._arrays["slacks"]

    def check_rows(self, at_zero: Float) -> None:
        """Raise BadInput if the joint features at zero weights differ from those in the file."""
        # at zero weights every column has an effect; slacks at other weights do not depend on columns with weight zero
        self._at_zero = at_zero
        if not self.unproven:
            return
        before = self._arrays["at_zero"]
        if before.shape != at_zero.shape:
            raise other_rows(f"{before.size} features, now {at_zero.size}")
        allowed = _SAME_COLUMN * np.abs(before) + _COLUMN_ROUNDING * float(np.abs(before).max(initial=0.0))
        changed = ~(np.abs(before - at_zero) <= allowed)
        if changed.any():
            j = int(np.flatnonzero(changed)[0])
            raise other_rows(
                f"the mean of column {j} at zero weights was {before[j]:.12g}, is {at_zero[j]:.12g}"
            )

    def same_parts(self, shares: Float) -> bool:
        """Return whether the partitions have the same shares of the weight as in the file."""
        kept = self._arrays["shares"]
        return kept.shape == shares.shape and bool(np.allclose(kept, shares, rtol=1e-12, atol=0.0))

    def restore(self, record: Recorder, columns: Columns, shares: Float) -> None:
        """Restore the bounds, and also the columns if the partitions are the same."""
        # Columns are valid only for the same partitions. Bounds are valid for all rows, however they are partitioned.
        history = self._arrays["history"]
        record.history = [Progress(int(n), *map(float, rest)) for n, *rest in history]
        last = record.history[-1]
        record.n_passes, record.primal, record.dual = last.n_passes, last.primal, last.dual
        record.w = np.array(self._arrays["w"])
        record.begun(last.seconds)
        if self.same_parts(shares):
            columns.restore(self._arrays)

    def save(self, record: Recorder, columns: Columns, shares: Float, slacks: Float) -> None:
        """Replace the file with the current state; if interrupted, keep the previous file."""
        described = json.dumps({"format": _FORMAT, "problem": self._problem})
        buffer = io.BytesIO()
        np.savez(
            buffer,
            description=np.frombuffer(described.encode(), dtype=np.uint8),
            w=record.w,
            at_zero=self._at_zero,
            slacks=slacks,
            shares=shares,
            history=np.array(record.history, dtype=np.float64),
            **columns.state(),
        )
        # write to a temporary file in the same folder, then rename it
        with replacing(self._path) as file:
            file.write(buffer.getvalue())

    def remove(self) -> None:
        """Delete the file; called when the fit has converged."""
        self._path.unlink(missing_ok=True)
