"""Checks of offsets, sparse matrices and values, which name the first invalid entry."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from structsvm.common.checks import BadInput
from structsvm.common.user_warnings import warn_user as warn_user

DAMAGED = "the data are damaged; create or read them again"
_CHUNK_BYTES = 1 << 20  # bytes checked at a time: a chunk and its mask stay in the cache
_MANY = 1 << 18
"""Number of values from which compiled code computes the ranges of columns, in half of NumPy's time."""


def refuse_first(
    argument: str, values: Any, bad: NDArray[np.bool_], expected: str, remedy: str = "", *, start: int = 0
) -> None:
    """Raise for the first of ``values`` that is ``bad``; ``start`` is the user's index of ``values[0]``."""
    if bad.any():
        row = int(np.argmax(bad))
        raise BadInput(argument, f"expected {expected}, got {values[row]}", remedy, at=f"[{start + row}]")


def refuse_divergence(argument: str, weights: Sequence[NDArray[Any]], after: str, remedy: str) -> None:
    """Raise if training has made a weight infinite or NaN."""
    if not all(np.isfinite(w).all() for w in weights):
        raise BadInput(argument, f"the weights are not finite after {after}", remedy)


def check_offsets(offsets: object, n_rows: int, name: str = "offsets", *, of_all: bool = False) -> None:
    """Raise unless ``offsets`` rise from 0 to at most ``n_rows``, so that ``offsets[i]:offsets[i + 1]`` are rows.

    ``of_all`` is for the argument of a caller whose queries contain all rows.
    """
    remedy = "see QueryData.offsets" if of_all else DAMAGED
    offsets = np.asarray(offsets)
    if offsets.ndim != 1 or offsets.shape[0] == 0 or offsets.dtype.kind not in "iu":
        raise BadInput(
            name, f"expected integers of shape (n + 1,), got {offsets.dtype} {offsets.shape}", remedy
        )
    if offsets[0] != 0:
        raise BadInput(name, f"expected 0, got {offsets[0]}", remedy, at="[0]")
    step = max(1, _CHUNK_BYTES // offsets.itemsize)
    for start in range(0, offsets.shape[0] - 1, step):
        chunk = offsets[start : start + step + 1]
        falls = chunk[1:] < chunk[:-1]
        if falls.any():
            i = start + int(falls.argmax())
            raise BadInput(
                name,
                f"expected at least {offsets[i]}, the entry before it, got {offsets[i + 1]}",
                remedy,
                at=f"[{i + 1}]",
            )
    if offsets[-1] > n_rows or (of_all and offsets[-1] < n_rows):
        raise BadInput(
            name, f"expected {'' if of_all else 'at most '}{n_rows}, got {offsets[-1]}", remedy, at="[-1]"
        )


def check_sparse(X: Any, name: str = "X") -> None:
    """Raise for a sparse matrix whose indices are out of range: SciPy only checks the shapes of its arrays.

    Indices are read once, in chunks. Other types of ``X`` are not checked.
    """
    # bool() avoids a type guard that narrows X to a type without attributes
    if not bool(sparse.issparse(X)) or len(X.shape) != 2:
        return
    n_rows, n_columns = (int(n) for n in X.shape)
    # compressed formats have boundaries of the major axis and indices of the minor one; in BSR both refer to blocks
    if X.format in ("csr", "csc", "bsr"):
        height, width = X.blocksize if X.format == "bsr" else (1, 1)
        major, minor, axis = n_rows // height, n_columns // width, "column"
        if X.format == "csc":
            major, minor, axis = n_columns, n_rows, "row"
        if X.indptr.shape != (major + 1,):
            raise BadInput(f"{name}.indptr", f"expected {major + 1} entries, got {X.indptr.shape}", DAMAGED)
        check_offsets(X.indptr, min(X.indices.shape[0], X.data.shape[0]), f"{name}.indptr")
        _check_range(X.indices[: int(X.indptr[-1])], minor, f"{name}.indices", axis)
    elif X.format == "coo":
        if X.row.shape != X.data.shape or X.col.shape != X.data.shape:
            raise BadInput(
                name,
                f"expected a row and a column for each of {X.data.shape[0]} values, got {X.row.shape[0]} and "
                f"{X.col.shape[0]}",
                DAMAGED,
            )
        _check_range(X.row, n_rows, f"{name}.row", "row")
        _check_range(X.col, n_columns, f"{name}.col", "column")


def first_beyond(X: Any, limit: float = np.inf, *, missing: bool = False) -> tuple[int, int] | None:
    """Return row and column of the first value that is NaN, infinite or above ``limit`` in magnitude, or None.

    With ``missing``, NaN is accepted. ``X``, an array or a CSR matrix, is read in chunks, without a copy.
    """
    matrix = not isinstance(X, np.ndarray)
    values = X.data if matrix else X
    step = max(1, _CHUNK_BYTES // max(1, values[:1].nbytes))
    limit = min(limit, float(np.finfo(values.dtype).max))
    for start in range(0, values.shape[0], step):
        chunk = values[start : start + step]
        # a pass of reductions first; only a chunk with a bad value is searched for its index
        if missing:
            bad = chunk.size and np.fmax.reduce(np.abs(chunk), axis=None) > limit
        else:  # written in this form because comparisons with NaN are False
            bad = chunk.size and not (-limit <= chunk.min() and chunk.max() <= limit)
        if bad:
            at = np.argwhere(np.abs(chunk) > limit if missing else ~(np.abs(chunk) <= limit))[0]
            if not matrix:
                return start + int(at[0]), int(at[1])
            entry = start + int(at[0])
            return int(np.searchsorted(X.indptr, entry, side="right")) - 1, int(X.indices[entry])
    return None


def column_ranges(X: Any, *, missing: bool) -> list[NDArray[np.float64]]:
    """Return the smallest and the largest value of each column, NaN if a value is NaN and not ``missing``."""
    if not isinstance(X, np.ndarray):  # a CSR matrix, of which SciPy makes a copy
        extremes = (X.nanmin, X.nanmax) if missing else (X.min, X.max)
        return [extreme(axis=0).toarray().ravel().astype(np.float64) for extreme in extremes]
    if missing or X.size < _MANY or not X.flags.c_contiguous:
        extremes = (np.fmin, np.fmax) if missing else (np.minimum, np.maximum)
        return [extreme.reduce(X, axis=0).astype(np.float64) for extreme in extremes]
    from structsvm.common.portable.extremes import widen  # loads numba

    low, high = np.full((2, X.shape[1]), [[np.inf], [-np.inf]], dtype=X.dtype)
    widen(X, low, high)
    return [np.where(np.isnan(high), np.nan, low).astype(np.float64), high.astype(np.float64)]


def _check_range(values: NDArray[Any], stop: int, name: str, axis: str) -> None:
    step = max(1, _CHUNK_BYTES // values.itemsize)
    for start in range(0, values.shape[0], step):
        chunk = values[start : start + step]
        if chunk.min() < 0 or chunk.max() >= stop:
            i = start + int(((chunk < 0) | (chunk >= stop)).argmax())
            expected = f"a {axis} from 0 to {stop - 1}" if stop else f"none, because there is no {axis}"
            raise BadInput(name, f"expected {expected}, got {values[i]}", DAMAGED, at=f"[{i}]")
