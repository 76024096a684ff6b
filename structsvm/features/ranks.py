"""``Ranks``: each value mapped to an integer, the number of edges of its feature that it exceeds.

A condition ``x <= edge`` on a value is equivalent to a condition on its rank, which takes two bytes. The rank is looked
up: a monotone map sends each value to one of a few hundred cells, a table contains the number of edges in the cells
below, and the few edges in the value's own cell are compared with the value. The map is linear either in the value or
in its bits (nearly a logarithm), whichever leaves fewer edges in the fullest cell.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structsvm.common.interpreted import run
from structsvm.common.kernel import kernel
from structsvm.protocols import Float, Int
from structsvm.queries import offsets_of

_CELLS_PER_EDGE = 16
_MOST_CELLS = 1 << 16
_TILE = 16
"""Number of features copied at once: the values of a row then fill one or two cache lines."""


class Ranks:
    """Map from values of features of one dtype to ranks: 0 for NaN, else 1 plus the number of edges exceeded.

    ``code_type`` holds every rank, and a number that is higher than all ranks.
    """

    def __init__(self, edges: Sequence[NDArray[Any]], kind: Any) -> None:
        self.code_type: Any = np.uint16 if max(map(len, edges), default=0) < (1 << 16) - 2 else np.uint32
        grids = [_grid(one, np.dtype(kind)) for one in edges]
        padded = [
            np.concatenate([one, np.full(2 * grid.step, np.inf)])
            for one, grid in zip(edges, grids, strict=True)
        ]
        # stored in the dtype of the values, because compiled code widens mixed types to 64 bits
        self.arrays = (
            _flat(padded, kind),
            offsets_of(list(map(len, padded))),
            _flat([grid.below for grid in grids], self.code_type),
            offsets_of([len(grid.below) for grid in grids]),
            np.array([grid.linear for grid in grids], dtype=np.bool_),
            np.array([grid.low for grid in grids], dtype=kind),
            np.array([grid.scale for grid in grids], dtype=kind),
            np.array([grid.below.shape[0] - 1 for grid in grids], dtype=kind),
            np.array([grid.key_low for grid in grids], dtype=np.int64),
            np.array([grid.shift for grid in grids], dtype=np.int64),
            np.array([grid.step for grid in grids], dtype=np.int64),
        )


def rounded_down(edges: Float, kind: Any) -> NDArray[Any]:
    """Return, per edge, the largest number of a dtype that is at most the edge; values of the dtype compare alike with
    both."""
    if np.dtype(kind) == np.float64:
        return edges
    with np.errstate(over="ignore"):
        near = edges.astype(np.float32)
        return np.where(near > edges, np.nextafter(near, np.float32(-np.inf)), near).astype(np.float32)


def rounding_to(threshold: object) -> Float:
    """Return the largest float64 that, rounded to float32, is at most the float32 ``threshold``."""
    low = np.asarray(threshold, dtype=np.float32)
    with np.errstate(over="ignore"):
        high = np.nextafter(low, np.float32(np.inf)).astype(np.float64)
    # the largest float32 rounds up to infinity from the midpoint between it and 2**128
    high = np.where(np.isinf(high), 2.0**128, high)
    middle = 0.5 * (low.astype(np.float64) + high)  # exact; a tie goes to the number with an even last bit
    even = low.view(np.int32) & 1 == 0
    return np.where(even, middle, np.nextafter(middle, -np.inf))


class _Grid(NamedTuple):
    """Cells of a feature: the number of edges below each cell, and the map from values to cells."""

    below: Int
    linear: bool
    low: float
    scale: float
    key_low: int
    shift: int
    step: int
    """The largest power of two up to the number of edges in one cell: the first stride of a binary search."""


def _grid(edges: NDArray[Any], kind: np.dtype[Any]) -> _Grid:
    n = edges.shape[0]
    if n == 0:
        return _Grid(np.zeros(1, dtype=np.int64), True, 0.0, 0.0, 0, 0, 0)
    n_cells = min(_MOST_CELLS, 1 << int(_CELLS_PER_EDGE * n - 1).bit_length())
    # adding 0 turns negative zero, whose bits differ from those of zero, into zero
    edges = edges.astype(kind) + kind.type(0)
    cells = np.empty(n, dtype=np.uint32)
    last = kind.type(n_cells - 1)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        scale = last / (edges[-1] - edges[0])
    if not np.isfinite(scale):
        scale = kind.type(0)
    run(_place_linear, 1e-6 * n, edges, n, edges[0], scale, last, cells)
    by_value = np.bincount(cells, minlength=n_cells)
    bits: Any = np.int32 if kind == np.float32 else np.int64
    keys = edges.view(bits)
    mask = np.iinfo(bits).max
    keys = np.where(keys < 0, keys ^ mask, keys).astype(np.int64) >> (0 if bits is np.int32 else 32)
    key_low = int(keys[0])
    shift = max(0, int(keys[-1] - key_low).bit_length() - (n_cells.bit_length() - 1))
    run(_place_by_bits, 1e-6 * n, edges.view(bits), n, key_low, shift, n_cells - 1, cells)
    by_bits = np.bincount(cells, minlength=n_cells)
    linear = bool(by_value.max() <= by_bits.max())
    count = by_value if linear else by_bits
    step = 1 << (int(count.max()).bit_length() - 1)
    below = np.concatenate(([0], np.cumsum(count)[:-1])).astype(np.int64)
    return _Grid(below, linear, float(edges[0]), float(scale), key_low, shift, step)


def _flat(parts: Sequence[NDArray[Any]], kind: Any) -> NDArray[Any]:
    return np.concatenate([*parts, np.empty(0)]).astype(kind)


@kernel
def _place_linear(values, n, low, scale, last, cells):  # type: ignore[no-untyped-def]
    zero = low - low
    for i in range(n):
        x = (values[i] - low) * scale
        x = x if x > zero else zero  # also for NaN
        x = x if x < last else last
        cells[i] = np.uint32(np.int32(x))


@kernel
def _place_by_bits(bits, n, key_low, shift, last, cells):  # type: ignore[no-untyped-def]
    """Find cells by the leading bits; in negative numbers the bits below the sign are flipped, so that keys ascend."""
    if bits.itemsize == 4:
        for i in range(n):
            b = np.int64(bits[i])
            key = (b ^ ((b >> 63) & 0x7FFFFFFF)) - key_low
            cells[i] = np.uint32(min(max(key, 0) >> shift, last))
    else:
        for i in range(n):
            b = bits[i]
            key = ((b ^ ((b >> 63) & 0x7FFFFFFFFFFFFFFF)) >> 32) - key_low
            cells[i] = np.uint32(min(max(key, 0) >> shift, last))


@kernel(inline="always")
def _rank(values, n, cells, edges, first_edge, below, first_cell, step, codes, f):  # type: ignore[no-untyped-def]
    """Fill ``codes[f]`` with ranks: the number of edges in lower cells, plus those exceeded in the value's own cell."""
    # indices are unsigned: with signed indices compiled code would test for negative values, which count from the end
    none, one, two = np.uint64(0), np.uint64(1), np.uint64(2)
    start = np.uint64(first_edge)
    cell = np.uint64(first_cell)
    if step == 0:
        for i in range(n):
            codes[f, i] = one if values[i] == values[i] else none
    elif step == 1:
        for i in range(n):
            v = values[i]
            at = start + np.uint64(below[cell + np.uint64(cells[i])])
            at += one if v > edges[at] else none
            codes[f, i] = at - start + one if v == v else none
    elif step == 2:
        for i in range(n):
            v = values[i]
            at = start + np.uint64(below[cell + np.uint64(cells[i])])
            at += two if v > edges[at + one] else none
            at += one if v > edges[at] else none
            codes[f, i] = at - start + one if v == v else none
    else:
        # binary search by halving strides; edges are padded with infinity, so that the search stays in its feature
        for i in range(n):
            v = values[i]
            at = start + np.uint64(below[cell + np.uint64(cells[i])])
            stride = np.uint64(step)
            while stride > none:
                at += stride if v > edges[at + (stride - one)] else none
                stride >>= one
            codes[f, i] = at - start + one if v == v else none


@kernel
def fill_ranks(X, first, n, used, arrays, columns, bits, cells, codes):  # type: ignore[no-untyped-def]
    """Fill ``codes[s, :n]`` with the ranks of the values ``X[first:first + n, used[s]]``."""
    # ``columns`` is scratch space of 16 rows, and ``bits`` a view of the same memory as integers
    edges, edge_starts, below, cell_starts, linear, low, scale, last, key_low, shift, step = arrays
    for tile in range(0, used.shape[0], _TILE):
        width = min(_TILE, used.shape[0] - tile)
        for i in range(n):
            for s in range(width):
                columns[s, i] = X[first + i, used[tile + s]]
        for s in range(width):
            f = tile + s
            if step[f] > 0:
                if linear[f]:
                    _place_linear(columns[s], n, low[f], scale[f], last[f], cells)
                else:
                    _place_by_bits(bits[s], n, key_low[f], shift[f], np.int64(last[f]), cells)
            _rank(columns[s], n, cells, edges, edge_starts[f], below, cell_starts[f], step[f], codes, f)
