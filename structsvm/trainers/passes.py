"""The pass over the data: per chunk of rows, compute scores, call the oracle, and combine the rows while they are
cached.

Only this module reads the features during training.
"""

import copy
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple, Protocol, Self, cast

import numpy as np

from structsvm.common.checks import BadInput
from structsvm.common.machine import count_threads
from structsvm.common.portable.sums import dot, products
from structsvm.protocols import Cut, Float, Int, Problem, Separator
from structsvm.queries import check_offsets, unit_weights
from structsvm.trainers.row_kernels import rows_of, support_of

_Answer = Callable[[Float, int, int, Float, Float], None]
"""Function that fills one loss per query and one coefficient per row from the scores of queries ``first:last``, with
the signature of ``Separator.separate``."""

_CHUNK_BYTES = 1 << 20
"""Size in bytes of the rows of a chunk, which must stay in the cache: they are read for the scores, then for the joint
feature."""

_CUTS_PER_ROWS = 4
"""Maximum ratio of the size of the cuts of a chunk to the size of its rows; cuts may be larger because they are written
only once."""

_SAMPLE = 256
"""Minimum number of queries in a sample of :func:`sample`, if the problem has at least as many."""

_LEAST_TASKS = 4
"""Minimum number of tasks in a :meth:`RankingProblem.part`, which is a few hundred queries of a hundred documents."""

_CHUNKS_PER_TASK = 8
"""Number of chunks in a task, the unit of work of a thread; constant, because the order of summation must not depend on
``n_jobs``."""


class Tangent(NamedTuple):
    """The tangent of a smooth ``R`` at a point ``w``, where ``R = loss - joint . w`` and the gradient is ``-joint``."""

    loss: float
    joint: Float
    curvature: Any  #: data that ``SmoothProblem.curve`` needs at this point


class SmoothProblem(Protocol):
    """A convex and differentiable ``R`` with a generalised Hessian, for Newton's method."""

    n_features: int

    def tangent(self, w: Float) -> Tangent:
        """Return the tangent at ``w``, in one pass over the data."""

    def curve(self, tangent: Tangent, direction: Float) -> Float:
        """Return the product of the Hessian at the point of ``tangent`` and ``direction``, in one pass."""


class SmoothSeparator(Separator, Protocol):
    """A separator of a differentiable loss, for Newton's method; its tangents also have a curvature."""

    def tangent(self, scores: Float, first: int, last: int, loss: Float, coef: Float) -> Any:
        """Fill ``loss`` and ``coef`` as :meth:`separate` does; return the data that :meth:`curve` needs for these
        scores."""

    def curve(self, curvature: object, direction: Float, first: int, last: int, coef: Float) -> None:
        """Fill ``coef`` with ``-H direction``, where H is the Hessian with respect to the scores and ``direction`` has
        one number per row."""


class RankingProblem:
    """The weighted mean hinge of a ranking oracle over grouped rows, as a :class:`~structsvm.protocols.Problem` for
    trainers.

    Parameters
    ----------
    X : ndarray (n_rows, n_features) of float32/float64, C-ordered, or CSR matrix, or CompiledRows
        Features, which may be a memory map; they are not copied.
    offsets : ndarray of int64, shape (n_queries + 1,)
        Rows ``offsets[q]:offsets[q + 1]`` are query ``q``.
    separator : Separator
        The oracle, bound to the labels of these rows.
    weights : ndarray, shape (n_queries,), optional
        Relative weights of the queries, which are scaled to a sum of one. None means equal weights.
    n_jobs : int, default=1
        Number of threads; -1 means one per processor. The results do not depend on it.

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
        check_offsets(offsets, int(X.shape[0]), of_all=True)
        self.rows = rows = rows_of(X)
        self.n_queries = int(offsets.shape[0] - 1)
        self.n_features = int(rows.shape[1])
        self.n_bytes = int(rows.nbytes)
        self.exact = separator.exact
        self.smooth = hasattr(separator, "tangent")
        self.n_jobs = count_threads(n_jobs)
        self.weights = unit_weights(weights, self.n_queries)
        self.masses = masses(separator, np.ones(self.n_queries) if weights is None else np.asarray(weights))
        self.offsets: Int = np.asarray(offsets, dtype=np.int64)
        self.separator = separator
        self._arrays = rows.row_arrays
        self._score, self._combine, self._query_joint = rows.row_kernels
        self.support = support_of(rows, self.offsets)
        # A chunk should fit in the cache. The cut of a query has one number per feature, so that for wide sparse rows
        # the cuts are larger than the rows and determine the size of a chunk.
        n_bytes = max(self.n_bytes, 8 * self.n_queries * self.n_features // _CUTS_PER_ROWS)
        self._part = 1
        self.chunk = int(np.clip(_CHUNK_BYTES * self.n_queries // max(1, n_bytes), 1, 1 << 14))

    def part(self, n_parts: int) -> Self | None:
        """Return the problem over every ``n_parts``-th task, with its weights scaled to sum to one; None if there are
        too few tasks.

        Only the methods that make a whole pass (``cut``, ``loss_at_zero``, ``tangent``, ``curve``) are restricted to
        the part.
        """
        if len(self._tasks) < _LEAST_TASKS * n_parts:
            return None
        # The copy is shallow: it shares the rows and the oracle, and only tasks and weights differ. Whole tasks are
        # taken, because a pass over scattered queries would also read the memory between them.
        out = copy.copy(self)
        out._part = n_parts
        kept = np.zeros(self.n_queries, dtype=bool)
        for begin in out._tasks:
            kept[begin : begin + self.chunk * _CHUNKS_PER_TASK] = True
        share = self.weights[kept].sum()
        if share == 0.0:
            return None
        out.weights = np.where(kept, self.weights, 0.0) / share
        return out

    @property
    def _tasks(self) -> range:
        return range(0, self.n_queries, self.chunk * _CHUNKS_PER_TASK)[:: self._part]

    def cut(self, w: Float) -> Cut:
        """See :class:`structsvm.protocols.Problem`."""
        return self._pass(self.separator.separate, w)

    def loss_at_zero(self) -> float:
        """Return the loss of ``cut`` at zero weights without reading the rows, as all scores are zero."""
        return self._pass(self.separator.separate, None).loss

    def tangent(self, w: Float) -> Tangent:
        """Return the tangent at ``w`` in one pass over the data; requires a ``SmoothSeparator``."""
        separator = cast(SmoothSeparator, self.separator)
        curvatures: dict[int, Any] = {}

        def answer(scores: Float, first: int, last: int, loss: Float, coef: Float) -> None:
            curvatures[first] = separator.tangent(scores, first, last, loss, coef)

        cut = self._pass(answer, w)
        return Tangent(cut.loss, cut.joint, curvatures)

    def curve(self, tangent: Tangent, direction: Float) -> Float:
        """Return the product of the Hessian at the point of ``tangent`` and ``direction``, in one pass."""
        separator = cast(SmoothSeparator, self.separator)

        def answer(scores: Float, first: int, last: int, loss: Float, coef: Float) -> None:
            loss[:] = 0.0
            separator.curve(tangent.curvature[first], scores, first, last, coef)

        return -self._pass(answer, direction).joint

    def _pass(self, answer: _Answer, w: Float | None) -> Cut:
        """Make a pass; if ``w`` is None, all scores and the joint feature are zero and no row is read."""
        # A chunk is the unit of work on rows, a task of several chunks is the unit of work of threads. A task adds up
        # its queries in order, in float64, and the sums of the tasks are also added in order. The result is therefore
        # the same, byte for byte, for any number of threads.

        def part(begin: int) -> tuple[float, Float]:
            total, joint = 0.0, np.zeros(self.n_features)
            end = min(begin + self.chunk * _CHUNKS_PER_TASK, self.n_queries)
            for first in range(begin, end, self.chunk):
                last = min(first + self.chunk, end)
                loss = np.empty(last - first)
                coef = self._coefficients(answer, w, first, last, loss)
                if w is not None:
                    self._combine(*self._arrays, self.offsets, first, last, self.weights, coef, joint)
                total += dot(self.weights[first:last], loss)
            return total, joint

        tasks = self._tasks
        if self.n_jobs == 1 or len(tasks) == 1:
            return _add_up(map(part, tasks), self.n_features)
        with ThreadPoolExecutor(min(self.n_jobs, len(tasks))) as pool:
            return _add_up(pool.map(part, tasks), self.n_features)

    def _coefficients(self, answer: _Answer, w: Float | None, first: int, last: int, loss: Float) -> Float:
        """Return the coefficients of the rows of queries ``first:last``, and fill ``loss``."""
        n = self.offsets[last] - self.offsets[first]
        # None means zero weights, at which all scores are zero
        scores, coef = np.zeros(n), np.empty(n)
        if w is not None:
            self._score(*self._arrays, self.offsets[first], self.offsets[last], w, scores)
            # compiled oracles sort the scores; with NaN they could read beyond their arrays
            missing = np.isnan(scores)
            if missing.any():
                row = int(self.offsets[first]) + int(np.argmax(missing))
                raise BadInput(
                    "X", f"expected finite features, got a score that is not a number in row {row}"
                )
        answer(scores, first, last, loss, coef)
        return coef

    def query_cuts(self, w: Float, first: int, last: int, loss: Float, joint: Float) -> None:
        """See :class:`structsvm.protocols.Problem`."""
        for begin in range(first, last, self.chunk):
            end = min(begin + self.chunk, last)
            queries = slice(begin - first, end - first)
            coef = self._coefficients(self.separator.separate, w, begin, end, loss[queries])
            self._query_joint(*self._arrays, self.offsets, begin, end, coef, joint[queries])


def masses(separator: Separator, weights: Float) -> tuple[float, float]:
    """Return the total weight of the queries, and the weight of the queries with a constraint."""
    return float(weights.sum()), float(weights[np.asarray(separator.informative)].sum())


def sweep(
    problem: Problem, point: Callable[[], Float], step: int, *, ahead: int, stride: int = 1
) -> Iterator[tuple[int, int, Float, Float]]:
    """Yield ``(first, last, loss, joint)`` for ``step`` queries at a time, in order, while threads compute up to
    ``ahead`` further steps."""
    # ``point()`` is called for the ``w`` of a step when the consumer has taken all but ``ahead`` of the previous steps,
    # whatever ``n_jobs`` is, so that the results do not depend on it.

    def cuts(first: int, w: Float) -> tuple[int, int, Float, Float]:
        last = min(first + step, problem.n_queries)
        loss, joint = np.empty(last - first), np.empty((last - first, problem.n_features))
        problem.query_cuts(w, first, last, loss, joint)
        return first, last, loss, joint

    starts = range(0, problem.n_queries, step * stride)
    alone = problem.n_jobs == 1 or ahead == 0 or len(starts) == 1
    threads: Any = nullcontext() if alone else ThreadPoolExecutor(problem.n_jobs)
    with threads as pool:
        # a single thread starts and yields steps in the same order as a pool, so that the results are the same
        begin: Any = cuts if pool is None else partial(pool.submit, cuts)
        begun: deque[Any] = deque()
        for first in starts:
            begun.append(begin(first, point()))
            if len(begun) > ahead:
                yield begun.popleft() if pool is None else begun.popleft().result()
        for one in begun:
            yield one if pool is None else one.result()


def sample(
    problem: Problem, w: Float, *, among: int | None = None
) -> Iterator[tuple[int, int, Float, Float]]:
    """Sample queries at regular intervals, and yield their cuts at ``w`` in the form of :func:`sweep`."""
    # For n >= 256 queries (``among``, if the problem is part of a larger one), take every (n // 256)-th short range of
    # queries, but at least every 32nd. Ranges are taken instead of single queries because each step has a fixed cost.
    stride = min(max(1, (problem.n_queries if among is None else among) // _SAMPLE), 32)
    step = max(1, min(problem.chunk, problem.n_queries // (8 * stride)))
    return sweep(problem, lambda: w, step, ahead=problem.n_jobs - 1, stride=stride)


def sampled_slope(
    problem: Problem, w: Float, direction: Float, *, among: int | None = None, slopes: Float | None = None
) -> tuple[float, float]:
    """Return the weight of a sample, and the weighted sum of the products of ``direction`` with its joint features at
    ``w``.

    If ``slopes`` of a model (one per query of the problem) are given, they are added to the products: the sum is then
    the excess of the model's slope over the true slope.
    """
    share, gain = 0.0, 0.0
    for first, last, _, joint in sample(problem, w, among=among):
        weights, along = problem.weights[first:last], products(joint, direction)
        share += float(weights.sum())
        gain += dot(weights, along if slopes is None else along + slopes[first:last])
    return share, gain


def sampled_squares(problem: Problem, *, among: int | None = None) -> tuple[float, int]:
    """Return the sum of the squared norms of the joint features of a sample at zero weights, and the size of the
    sample."""
    total, n = 0.0, 0
    for first, last, _, joint in sample(problem, np.zeros(problem.n_features), among=among):
        total += float(np.square(joint).sum())
        n += last - first
    return total, n


def _add_up(parts: Iterable[tuple[float, Float]], n_features: int) -> Cut:
    """Add the parts in their order, so that the sum does not depend on which thread finishes first."""
    total, joint = 0.0, np.zeros(n_features)
    for part_total, part_joint in parts:
        total += part_total
        joint += part_joint
    return Cut(total, joint)
