"""The pass over the data: scores, oracle and combination of rows, chunk by chunk while the rows are in cache.

Everything that reads ``X`` during training is here, and the chunk is the only unit of threading.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse

from structsvm.machine import count_threads
from structsvm.protocols import CompiledRows, Cut, Float, Int, Problem, Separator
from structsvm.queries import check_offsets, check_sparse, unit_weights

__all__ = ["RankingProblem", "sample", "sweep"]

Separate = Callable[[Float, int, int, Float, Float], None]
"""From the scores of the queries ``first:last`` to a number a query and a coefficient a row: ``Separator.separate``."""

_CHUNK_BYTES = 1 << 20
"""Rows worked on at once: they are read twice, the second time from the cache."""

_CUTS_PER_ROWS = 4
"""Cuts are written once: they may take this much more room than the rows."""

_SAMPLE = 256
"""Queries enough to tell the scale of a problem."""

_CHUNKS_PER_TASK = 8
"""Chunks a thread takes at a time. Fixed: partial sums are added per task, and must not depend on n_jobs."""


class RankingProblem:
    """The sum of hinges of a ranking oracle over grouped rows: what the trainers work on.

    Parameters
    ----------
    X : ndarray (n_rows, n_features) of float32/float64, C-ordered, or CSR matrix, or CompiledRows
        Features; read, never copied. May be a memory map.
    offsets : ndarray of int64, shape (n_queries + 1,)
        Rows ``offsets[q]:offsets[q + 1]`` are query ``q``.
    separator : Separator
        The oracle bound to the labels of these rows.
    weights : ndarray, shape (n_queries,), optional
        Relative weights of the queries, scaled to sum to one; equal by default.
    n_jobs : int, default=1
        Threads; -1 means all processors. Results are the same for any number.

    Raises
    ------
    ValueError
        For weights that are not one a query, finite, >= 0 and somewhere positive, for ``n_jobs=0``, and for offsets or
        CSR indices that point outside of ``X``: they are read once, before any compiled code goes by them.

    Attributes
    ----------
    See :class:`structsvm.protocols.Problem`.

    Examples
    --------
    >>> from structsvm.oracles.average_precision import AveragePrecision
    >>> X, offsets = np.array([[1.0], [0.0]]), np.array([0, 2])
    >>> problem = RankingProblem(X, offsets, AveragePrecision().bind(np.array([0.0, 1.0]), offsets))
    >>> problem.cut(np.zeros(1))
    Cut(loss=0.5, joint=array([-2.]))
    """

    def __init__(
        self, X: Any, offsets: Int, separator: Separator, *, weights: Any = None, n_jobs: int | None = 1
    ) -> None:
        check_offsets(offsets, int(X.shape[0]))
        check_sparse(X)
        self.n_queries = int(offsets.shape[0] - 1)
        self.n_features = int(X.shape[1])
        self.exact = separator.exact
        self.n_jobs = count_threads(n_jobs)
        self.weights = unit_weights(weights, self.n_queries)
        self._offsets = np.asarray(offsets, dtype=np.int64)
        self._separator = separator
        self.support: tuple[Int, Int] | None = None
        self._score: Any
        self._combine: Any
        self._query_joint: Any
        if isinstance(X, (sparse.csr_matrix, sparse.csr_array)):
            self._score, self._combine, self._query_joint = _csr_scores, _csr_combine, _csr_query_joint
            self._rows: tuple[Any, ...] = (X.data, X.indices, X.indptr)
            n_bytes = X.data.nbytes + X.indices.nbytes
            if self.n_features > 256:
                self.support = _feature_support(X.indices, X.indptr, self._offsets, self.n_features)
        elif isinstance(X, CompiledRows):
            self._score, self._combine, self._query_joint = X.row_kernels
            self._rows = X.row_arrays
            n_bytes = X.nbytes
        else:
            self._score, self._combine, self._query_joint = _scores, _combine, _query_joint
            self._rows = (np.asarray(X),)
            n_bytes = X.shape[0] * X.shape[1] * X.itemsize
        self.n_bytes = int(n_bytes)
        # a query's cut has a number for each feature: of wide sparse rows the cuts are larger than the rows
        n_bytes = max(n_bytes, 8 * self.n_queries * self.n_features // _CUTS_PER_ROWS)
        self.chunk = int(np.clip(_CHUNK_BYTES * self.n_queries // max(1, n_bytes), 1, 1 << 14))

    def _answer(self, separate: Separate, w: Float, first: int, last: int, loss: Float) -> Float:
        """Coefficients of the rows of ``first:last``; fills ``loss``."""
        start, stop = self._offsets[first], self._offsets[last]
        scores = np.empty(stop - start)
        coef = np.empty(stop - start)
        self._score(*self._rows, start, stop, w, scores)
        separate(scores, first, last, loss, coef)
        return coef

    def cut(self, w: Float) -> Cut:
        """See :class:`structsvm.protocols.Problem`."""
        return self._pass(self._separator.separate, w)

    def curve(self, direction: Float) -> Float:
        """Second derivative of ``R``, at the ``w`` last given to :meth:`cut`, times ``direction``: one pass.

        For separators that have a method ``curve`` (:class:`~structsvm.oracles.squared_pairs.SquaredPairSeparator`).
        """
        return -self._pass(self._separator.curve, direction).joint  # type: ignore[attr-defined]

    def _pass(self, separate: Separate, w: Float) -> Cut:
        def part(begin: int) -> tuple[float, Float]:
            total, joint = 0.0, np.zeros(self.n_features)
            end = min(begin + self.chunk * _CHUNKS_PER_TASK, self.n_queries)
            for first in range(begin, end, self.chunk):
                last = min(first + self.chunk, end)
                loss = np.empty(last - first)
                coef = self._answer(separate, w, first, last, loss)
                self._combine(*self._rows, self._offsets, first, last, self.weights, coef, joint)
                total += float(self.weights[first:last] @ loss)
            return total, joint

        tasks = range(0, self.n_queries, self.chunk * _CHUNKS_PER_TASK)
        if self.n_jobs == 1 or len(tasks) == 1:
            return _add_up(map(part, tasks), self.n_features)
        with ThreadPoolExecutor(min(self.n_jobs, len(tasks))) as pool:
            return _add_up(pool.map(part, tasks), self.n_features)

    def query_cuts(self, w: Float, first: int, last: int, loss: Float, joint: Float) -> None:
        """See :class:`structsvm.protocols.Problem`."""
        for begin in range(first, last, self.chunk):
            end = min(begin + self.chunk, last)
            coef = self._answer(self._separator.separate, w, begin, end, loss[begin - first : end - first])
            self._query_joint(
                *self._rows, self._offsets, begin, end, coef, joint[begin - first : end - first]
            )


def sweep(
    problem: Problem, point: Callable[[], Float], step: int, *, ahead: int, stride: int = 1
) -> Iterator[tuple[int, int, Float, Float]]:
    """One pass with threads ahead of the consumer: yields ``(first, last, loss, joint)`` of ``step`` queries, in order.

    ``point()`` is asked for ``w`` when a step is begun, which is when the consumer has taken all but ``ahead`` of the
    steps before it: whatever ``problem.n_jobs``, so the results are the same for any number of threads.
    """

    def cuts(first: int, w: Float) -> tuple[int, int, Float, Float]:
        last = min(first + step, problem.n_queries)
        loss = np.empty(last - first)
        joint = np.empty((last - first, problem.n_features))
        problem.query_cuts(w, first, last, loss, joint)
        return first, last, loss, joint

    starts = range(0, problem.n_queries, step * stride)
    if problem.n_jobs == 1 or ahead == 0 or len(starts) == 1:
        begun: deque[tuple[int, int, Float, Float]] = deque()
        for first in starts:
            begun.append(cuts(first, point()))
            if len(begun) > ahead:
                yield begun.popleft()
        yield from begun
        return
    with ThreadPoolExecutor(problem.n_jobs) as pool:
        pending: deque[Future[tuple[int, int, Float, Float]]] = deque()
        for first in starts:
            pending.append(pool.submit(cuts, first, point()))
            if len(pending) > ahead:
                yield pending.popleft().result()
        for result in pending:
            yield result.result()


def sample(problem: Problem, w: Float) -> Iterator[tuple[int, int, Float, Float]]:
    """The cuts at ``w`` of some queries spread over all, 256 at least where there are so many: as :func:`sweep`.

    From 256 queries on every ``n // 256``-th short stretch is taken, every 32nd at the most.
    """
    stride = min(max(1, problem.n_queries // _SAMPLE), 32)
    step = max(1, min(problem.chunk, problem.n_queries // (8 * stride)))
    return sweep(problem, lambda: w, step, ahead=problem.n_jobs - 1, stride=stride)


def _add_up(parts: Iterable[tuple[float, Float]], n_features: int) -> Cut:
    """In the order of the parts: sums must not depend on which thread is done first."""
    total, joint = 0.0, np.zeros(n_features)
    for part_total, part_joint in parts:
        total += part_total
        joint += part_joint
    return Cut(total, joint)


def _feature_support(
    indices: NDArray[Any], indptr: NDArray[Any], offsets: Int, n_features: int
) -> tuple[Int, Int]:
    """Sorted distinct features of each query: a cut of the query has no other non-zero entry."""
    counts, seen = np.zeros(offsets.shape[0], dtype=np.int64), np.full(n_features, -1, dtype=np.int64)
    _count_support(indices, indptr, offsets, seen, counts)
    start = np.cumsum(counts).astype(np.int64)
    features = np.empty(int(start[-1]), dtype=np.int64)
    seen[:] = -1
    _fill_support(indices, indptr, offsets, seen, start, features)
    return start, features


# Sums are float64 whatever the type of X. Reassociation lets them vectorise; NaN and infinity keep their meaning.


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _scores(X, start, stop, w, out):  # type: ignore[no-untyped-def]
    m = X.shape[1]
    r = start
    while r + 4 <= stop:  # four rows share the loads of w
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for j in range(m):
            v = w[j]
            s0 += X[r, j] * v
            s1 += X[r + 1, j] * v
            s2 += X[r + 2, j] * v
            s3 += X[r + 3, j] * v
        i = r - start
        out[i], out[i + 1], out[i + 2], out[i + 3] = s0, s1, s2, s3
        r += 4
    while r < stop:
        s0 = 0.0
        for j in range(m):
            s0 += X[r, j] * w[j]
        out[r - start] = s0
        r += 1


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _add_rows(X, start, stop, coef, shift, factor, joint):  # type: ignore[no-untyped-def]
    """``joint += factor * sum_r coef[r - shift] * X[r]``."""
    m = X.shape[1]
    r = start
    while r + 4 <= stop:  # four rows share the load and store of joint
        i = r - shift
        a0, a1, a2, a3 = coef[i] * factor, coef[i + 1] * factor, coef[i + 2] * factor, coef[i + 3] * factor
        for j in range(m):
            joint[j] += (X[r, j] * a0 + X[r + 1, j] * a1) + (X[r + 2, j] * a2 + X[r + 3, j] * a3)
        r += 4
    while r < stop:
        a0 = coef[r - shift] * factor
        for j in range(m):
            joint[j] += X[r, j] * a0
        r += 1


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _combine(X, offsets, first, last, weights, coef, joint):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        _add_rows(X, offsets[q], offsets[q + 1], coef, offsets[first], weights[q], joint)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _query_joint(X, offsets, first, last, coef, joint):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        row = joint[q - first]
        row[:] = 0.0
        _add_rows(X, offsets[q], offsets[q + 1], coef, offsets[first], 1.0, row)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _csr_scores(data, indices, indptr, start, stop, w, out):  # type: ignore[no-untyped-def]
    for r in range(start, stop):
        total = 0.0
        for i in range(indptr[r], indptr[r + 1]):
            total += data[i] * w[indices[i]]
        out[r - start] = total


@njit(cache=True, nogil=True)
def _csr_combine(data, indices, indptr, offsets, first, last, weights, coef, joint):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        for r in range(offsets[q], offsets[q + 1]):
            a = coef[r - offsets[first]] * weights[q]
            if a != 0.0:
                for i in range(indptr[r], indptr[r + 1]):
                    joint[indices[i]] += a * data[i]


@njit(cache=True, nogil=True)
def _csr_query_joint(data, indices, indptr, offsets, first, last, coef, joint):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        row = joint[q - first]
        row[:] = 0.0
        for r in range(offsets[q], offsets[q + 1]):
            a = coef[r - offsets[first]]
            if a != 0.0:
                for i in range(indptr[r], indptr[r + 1]):
                    row[indices[i]] += a * data[i]


@njit(cache=True, nogil=True)
def _count_support(indices, indptr, offsets, seen, counts):  # type: ignore[no-untyped-def]
    for q in range(offsets.shape[0] - 1):
        for i in range(indptr[offsets[q]], indptr[offsets[q + 1]]):
            if seen[indices[i]] != q:
                seen[indices[i]] = q
                counts[q + 1] += 1


@njit(cache=True, nogil=True)
def _fill_support(indices, indptr, offsets, seen, start, features):  # type: ignore[no-untyped-def]
    for q in range(offsets.shape[0] - 1):
        k = start[q]
        for i in range(indptr[offsets[q]], indptr[offsets[q + 1]]):
            if seen[indices[i]] != q:
                seen[indices[i]] = q
                features[k] = indices[i]
                k += 1
        features[start[q] : start[q + 1]].sort()
