"""Binary rows stored as integer codes: leaf numbers of trees, and the number of bin edges that each value exceeds."""

from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from structsvm.common.checks import BadInput
from structsvm.common.kernel import kernel
from structsvm.protocols import Float, Int
from structsvm.queries import check_offsets, offsets_of


class LeafRows:
    """Binary rows stored as integer codes: leaf numbers of trees, then the number of edges exceeded in each feature.

    Code ``c`` stands for the columns ``starts[c]:starts[c + 1]``. Each of the first ``n_pairs`` bytes holds the codes
    of two trees.
    """

    ndim = 2
    dtype = np.dtype(np.float32)

    def __init__(
        self, codes: NDArray[Any], starts: Int, n_trees: int, *, n_pairs: int = 0, checked: bool = False
    ) -> None:
        self._kept = np.ascontiguousarray(codes)
        self._n_pairs = int(n_pairs)
        self.starts = np.asarray(starts, dtype=np.int64)
        self.n_trees = int(n_trees)
        # the kernels' tables have one entry per leaf of a tree; a binned feature has one entry more than edges
        self._table_starts = self.starts + np.maximum(0, np.arange(self.starts.shape[0]) - self.n_trees)
        if checked:
            return
        if self._kept.dtype not in (np.uint8, np.uint16) or self._kept.ndim != 2:
            raise BadInput("codes", f"expected a matrix of bytes, got {self._kept.dtype} {self._kept.shape}")
        n_codes = self._kept.shape[1] + self._n_pairs
        if self.starts.shape != (n_codes + 1,) or not 0 <= 2 * self._n_pairs <= self.n_trees <= n_codes:
            raise BadInput(
                "starts",
                f"expected one per column of codes, plus the end, got codes {self._kept.shape}, "
                f"{self._n_pairs} pairs and starts {self.starts.shape}",
            )
        check_offsets(self.starts, int(self.starts[-1]), "starts")
        most = np.diff(self.starts) - (np.arange(n_codes) < self.n_trees)
        step = max(1, (1 << 20) // max(1, n_codes))
        for start in range(0, len(self), step):
            codes = self[start : start + step].codes
            beyond = codes > most
            if beyond.any():
                row, c = (int(i) for i in np.argwhere(beyond)[0])
                kind = "leaf number" if c < self.n_trees else "count of edges"
                raise BadInput(
                    "codes",
                    f"expected a {kind} up to {most[c]}, got {codes[row, c]}",
                    at=f"[{start + row}, {c}]",
                )

    @property
    def codes(self) -> NDArray[Any]:
        """Return the leaf numbers of all trees, then the counts of edges; a copy if two codes share a byte."""
        return self._kept if self._n_pairs == 0 else self._columns(np.arange(self.starts.shape[0] - 1))

    def _columns(self, chosen: Int) -> NDArray[Any]:
        """Return the codes of the chosen trees and binned features, unpacked."""
        paired = chosen < 2 * self._n_pairs
        codes = self._kept[:, np.where(paired, chosen // 2, chosen - self._n_pairs)]
        codes[:, paired] >>= 4 * (chosen[paired] % 2).astype(np.uint8)
        codes[:, paired] &= 15
        return codes

    @property
    def shape(self) -> tuple[int, int]:
        return int(self._kept.shape[0]), int(self.starts[-1])

    @property
    def nbytes(self) -> int:
        return int(self._kept.nbytes)

    @property
    def row_arrays(self) -> tuple[Any, ...]:
        """Return the arrays that the kernels of :attr:`row_kernels` take as their first arguments."""
        return self._kept, self.starts, self._table_starts

    @property
    def row_kernels(self) -> tuple[Any, Any, Any]:
        """Return compiled functions for the scores, the weighted sum of rows, and the sum of rows per query."""
        return _leaf_scores, _leaf_combine, _leaf_query_joint

    def __len__(self) -> int:
        return int(self._kept.shape[0])

    def __getitem__(self, rows: Any) -> Self:
        """Return the rows selected by a slice (without a copy), indices or a mask."""
        some = copy(self)
        some._kept = np.ascontiguousarray(self._kept[rows])
        return some

    def __matmul__(self, w: Float) -> Float:
        """Return the scores ``X w``, shape (n_rows,)."""
        weights = np.asarray(w, dtype=np.float64)
        if weights.shape != (self.shape[1],):
            raise BadInput("w", f"expected shape ({self.shape[1]},), got {weights.shape}")
        out = np.empty(len(self))
        self.row_kernels[0](*self.row_arrays, 0, len(self), weights, out)
        return out

    def of_trees(self, first: int, last: int) -> "LeafRows":
        """Return the rows restricted to the trees ``first:last`` and all bins."""
        if not 0 <= first <= last <= self.n_trees:
            raise BadInput("trees", f"expected a range in 0:{self.n_trees}, got {first}:{last}")
        chosen = np.r_[first:last, self.n_trees : self.starts.shape[0] - 1]
        starts = offsets_of(np.diff(self.starts)[chosen])
        codes = self._columns(chosen)
        n_pairs = (last - first) // 2 if self._n_pairs else 0
        if n_pairs:
            kept = np.empty((len(self), chosen.shape[0] - n_pairs), dtype=np.uint8)
            pack(codes, n_pairs, kept)
            codes = kept
        return LeafRows(codes, starts, last - first, n_pairs=n_pairs, checked=True)

    def tocsr(self) -> sparse.csr_matrix:
        """Return the rows as a CSR matrix of float32 ones."""
        counts = self.n_trees + self._kept[:, self.n_trees - self._n_pairs :].sum(axis=1, dtype=np.int64)
        indptr = np.concatenate(([0], np.cumsum(counts)))
        n_ones = int(indptr[-1])
        kind: Any = np.int32 if max(n_ones, self.shape[1]) < 2**31 else np.int64
        indices = np.empty(n_ones, dtype=kind)
        _fill_columns(self._kept, self.starts, self.n_trees, indices)
        return sparse.csr_matrix(
            (np.ones(n_ones, dtype=np.float32), indices, indptr.astype(kind)), shape=self.shape
        )

    def __repr__(self) -> str:
        rows, columns = self.shape
        n_bins = self.starts.shape[0] - 1 - self.n_trees
        return f"LeafRows({rows} rows, {self.n_trees} trees, {n_bins} binned features, {columns} columns)"


class BinnedRows(LeafRows):
    """Threshold indicators with one byte per function: the number of its thresholds that the score exceeds."""

    # with 50 thresholds a score takes 1 byte instead of about 200 in CSR, and one look-up instead of 25 products

    def __init__(self, codes: NDArray[np.uint8], starts: Int) -> None:
        super().__init__(np.asarray(codes, dtype=np.uint8), starts, 0)

    def __repr__(self) -> str:
        return (
            f"BinnedRows({self.shape[0]} rows, {self.codes.shape[1]} functions, {self.shape[1]} indicators)"
        )


def pack(codes: NDArray[Any], n_pairs: int, out: NDArray[Any]) -> None:
    """Pack the first ``2 * n_pairs`` codes into ``n_pairs`` bytes of ``out``; the remaining codes follow them."""
    np.left_shift(codes[:, 1 : 2 * n_pairs : 2], 4, out=out[:, :n_pairs])
    out[:, :n_pairs] |= codes[:, : 2 * n_pairs : 2]
    out[:, n_pairs:] = codes[:, 2 * n_pairs :]


# The signatures match those of the CSR kernels, with (codes, starts, base) instead of (data, indices, indptr). All
# kernels use a flat table with an entry for each value of each code; the entries of code c begin at base[c]. A leaf has
# one column and one entry; a count of edges, which starts at 0, has one entry more than edges. The first n_pairs bytes
# of a row hold two codes each, so byte c >= n_pairs holds code c + n_pairs. Indices into the table are unsigned,
# because Numba tests each signed index for being negative: this makes a pass a quarter faster.

_U = np.uint64


@kernel
def _leaf_scores(codes, starts, base, start, stop, w, out):  # type: ignore[no-untyped-def]
    n = starts.shape[0] - 1
    n_pairs = n - codes.shape[1]
    table = np.empty(base[n])
    n_trees = n - (base[n] - starts[n])
    for k in range(starts[n_trees]):
        table[k] = w[k]
    # a value that exceeds k edges has ones in the columns of these edges: its entry is the sum of their weights
    for c in range(n_trees, n):
        total = 0.0
        table[base[c]] = 0.0
        for k in range(starts[c], starts[c + 1]):
            total += w[k]
            table[base[c] + k - starts[c] + 1] = total
    r = start
    while r + 4 <= stop:  # four rows share the loads of base, and their sums do not depend on each other
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for p in range(n_pairs):
            b, d = _U(base[2 * p]), _U(base[2 * p + 1])
            c0, c1, c2, c3 = codes[r, p], codes[r + 1, p], codes[r + 2, p], codes[r + 3, p]
            s0 += table[b + _U(c0 & 15)]
            s1 += table[b + _U(c1 & 15)]
            s2 += table[b + _U(c2 & 15)]
            s3 += table[b + _U(c3 & 15)]
            s0 += table[d + _U(c0 >> 4)]
            s1 += table[d + _U(c1 >> 4)]
            s2 += table[d + _U(c2 >> 4)]
            s3 += table[d + _U(c3 >> 4)]
        for c in range(n_pairs, n - n_pairs):
            b = _U(base[c + n_pairs])
            s0 += table[b + _U(codes[r, c])]
            s1 += table[b + _U(codes[r + 1, c])]
            s2 += table[b + _U(codes[r + 2, c])]
            s3 += table[b + _U(codes[r + 3, c])]
        i = r - start
        out[i], out[i + 1], out[i + 2], out[i + 3] = s0, s1, s2, s3
        r += 4
    while r < stop:
        s0 = 0.0
        for p in range(n_pairs):
            s0 += table[base[2 * p] + (codes[r, p] & 15)]
            s0 += table[base[2 * p + 1] + (codes[r, p] >> 4)]
        for c in range(n_pairs, n - n_pairs):
            s0 += table[base[c + n_pairs] + codes[r, c]]
        out[r - start] = s0
        r += 1


@kernel(inline="always")
def _leaf_add(codes, starts, base, start, stop, coef, shift, sums, joint):  # type: ignore[no-untyped-def]
    """Add ``sum_r coef[r - shift] * X[r]`` to ``joint``; ``sums`` is scratch space, zero before and after."""
    n = starts.shape[0] - 1
    n_pairs = n - codes.shape[1]
    n_trees = n - (base[n] - starts[n])
    # add to one table entry per code, then transfer entries to columns: far fewer additions than rows times columns
    for r in range(start, stop):
        a = coef[r - shift]
        if a != 0.0:
            for p in range(n_pairs):
                sums[_U(base[2 * p]) + _U(codes[r, p] & 15)] += a
                sums[_U(base[2 * p + 1]) + _U(codes[r, p] >> 4)] += a
            for c in range(n_pairs, n - n_pairs):
                sums[_U(base[c + n_pairs]) + _U(codes[r, c])] += a
    for k in range(starts[n_trees]):
        joint[k] += sums[k]
        sums[k] = 0.0
    for c in range(n_trees, n):
        # from the highest edge down: a row counts in the column of every edge that it exceeds
        total = 0.0
        for k in range(starts[c + 1] - 1, starts[c] - 1, -1):
            entry = base[c] + k - starts[c] + 1
            total += sums[entry]
            joint[k] += total
            sums[entry] = 0.0
        sums[base[c]] = 0.0


@kernel
def _leaf_combine(codes, starts, base, offsets, first, last, weights, coef, joint):  # type: ignore[no-untyped-def]
    sums = np.zeros(base[-1])
    # multiply the coefficients by the query weights first, so that entries are transferred to columns only once
    scaled = np.empty(offsets[last] - offsets[first])
    for q in range(first, last):
        for r in range(offsets[q], offsets[q + 1]):
            scaled[r - offsets[first]] = weights[q] * coef[r - offsets[first]]
    _leaf_add(codes, starts, base, offsets[first], offsets[last], scaled, offsets[first], sums, joint)


@kernel
def _leaf_query_joint(codes, starts, base, offsets, first, last, coef, joint):  # type: ignore[no-untyped-def]
    sums = np.zeros(base[-1])
    for q in range(first, last):
        row = joint[q - first]
        row[:] = 0.0
        _leaf_add(codes, starts, base, offsets[q], offsets[q + 1], coef, offsets[first], sums, row)


@kernel
def _fill_columns(codes, starts, n_trees, indices):  # type: ignore[no-untyped-def]
    n = starts.shape[0] - 1
    n_pairs = n - codes.shape[1]
    i = 0
    for r in range(codes.shape[0]):
        for p in range(n_pairs):
            indices[i] = starts[2 * p] + (codes[r, p] & 15)
            indices[i + 1] = starts[2 * p + 1] + (codes[r, p] >> 4)
            i += 2
        for c in range(2 * n_pairs, n):
            code = codes[r, c - n_pairs]
            if c < n_trees:
                indices[i] = starts[c] + code
                i += 1
            else:
                for k in range(code):
                    indices[i] = starts[c] + k
                    i += 1
