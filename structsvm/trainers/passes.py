"""The pass over the data: scores, oracle and combination of rows, chunk by chunk while the rows are in cache.

All reading of features during training happens here; the chunk is the only unit of threading.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from structsvm.common.checks import BadInput
from structsvm.common.machine import count_threads
from structsvm.common.portable.sums import dot, products
from structsvm.protocols import Cut, Float, Int, Problem, Separator
from structsvm.queries import check_offsets, unit_weights
from structsvm.trainers.rows import rows_of, support_of

_Answer = Callable[[Float, int, int, Float, Float], None]
"""Fills one loss per query and one coefficient per row from the scores of ``first:last``, as ``Separator.separate``."""

_CHUNK_BYTES = 1 << 20
"""Size of the rows of a chunk: they are read for scores and again, from the cache, for the joint feature."""

_CUTS_PER_ROWS = 4
"""Largest size of the cuts of a chunk relative to its rows: cuts are written once, so they may be larger."""

_SAMPLE = 256
"""Minimum number of queries that :func:`sample` takes from a problem that has enough."""

_LEAST_TASKS = 4
"""Minimum number of tasks of a :meth:`RankingProblem.part`: some hundred queries of a hundred documents."""

_CHUNKS_PER_TASK = 8
"""Chunks per task of a thread; constant, as sums are added per task and must not depend on ``n_jobs``."""


class Tangent(NamedTuple):
    """The tangent of a smooth ``R`` at a point: ``R = loss - joint . w`` there, and the gradient is ``-joint``."""

    loss: float
    joint: Float
    curvature: Any  #: only for SmoothProblem.curve


class SmoothProblem(Protocol):
    """A convex, once differentiable ``R`` with a generalised second derivative, for Newton's method."""

    n_features: int

    def tangent(self, w: Float) -> Tangent:
        """Return the tangent at ``w``, by one pass over the data."""

    def curve(self, tangent: Tangent, direction: Float) -> Float:
        """Return the second derivative at the point of ``tangent`` times ``direction``, by one pass."""


class SmoothSeparator(Separator, Protocol):
    """A separator of a differentiable loss, for Newton's method; its tangents also have a curvature."""

    def tangent(self, scores: Float, first: int, last: int, loss: Float, coef: Float) -> Any:
        """Do the same as :meth:`separate`, and return the data that :meth:`curve` needs about these scores."""

    def curve(self, curvature: Any, direction: Float, first: int, last: int, coef: Float) -> None:
        """Fill ``coef`` with minus the second derivative times ``direction`` (one number per row)."""


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
        Relative weights, one per query, scaled to sum to one; equal by default.
    n_jobs : int, default=1
        Threads; -1 means all processors. Results are the same for any number.

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
        rows = rows_of(X)
        self.n_queries = int(offsets.shape[0] - 1)
        self.n_features = int(rows.shape[1])
        self.n_bytes = int(rows.nbytes)
        self.exact = separator.exact
        self.smooth = hasattr(separator, "tangent")
        self.n_jobs = count_threads(n_jobs)
        self.weights = unit_weights(weights, self.n_queries)
        self.offsets: Int = np.asarray(offsets, dtype=np.int64)
        self.separator = separator
        self._arrays = rows.row_arrays
        self._score, self._combine, self._query_joint = rows.row_kernels
        self.support = support_of(rows, self.offsets)
        # A chunk should fit in the cache. The cut of a query has a number per feature, so that the cuts of wide sparse
        # rows are larger than the rows and determine the size.
        n_bytes = max(self.n_bytes, 8 * self.n_queries * self.n_features // _CUTS_PER_ROWS)
        self._part = 1
        self.chunk = int(np.clip(_CHUNK_BYTES * self.n_queries // max(1, n_bytes), 1, 1 << 14))

    def part(self, n_parts: int) -> RankingProblem | None:
        """Return the problem of every ``n_parts``-th stretch of queries, weighted to represent all; None if small.

        Only its whole passes (``cut``, ``loss_at_zero``, ``tangent``, ``curve``) refer to the part.
        """
        if len(self._tasks) < _LEAST_TASKS * n_parts:
            return None
        # A shallow copy: the rows and the oracle are the same, only tasks and weights differ. Whole stretches are
        # taken, as a pass over scattered queries would read the memory in between, too.
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
        """Return the loss of ``cut`` at zero weights, without reading the rows: all scores are zero."""
        return self._pass(self.separator.separate, None).loss

    def tangent(self, w: Float) -> Tangent:
        """Return the tangent at ``w`` by one pass over the data, for a ``SmoothSeparator``."""
        separator = cast(SmoothSeparator, self.separator)
        curvatures: dict[int, Any] = {}

        def answer(scores: Float, first: int, last: int, loss: Float, coef: Float) -> None:
            curvatures[first] = separator.tangent(scores, first, last, loss, coef)

        cut = self._pass(answer, w)
        return Tangent(cut.loss, cut.joint, curvatures)

    def curve(self, tangent: Tangent, direction: Float) -> Float:
        """Return the second derivative at the point of ``tangent`` times ``direction``, by one pass."""
        separator = cast(SmoothSeparator, self.separator)

        def answer(scores: Float, first: int, last: int, loss: Float, coef: Float) -> None:
            loss[:] = 0.0
            separator.curve(tangent.curvature[first], scores, first, last, coef)

        return -self._pass(answer, direction).joint

    def _pass(self, answer: _Answer, w: Float | None) -> Cut:
        """Make a pass; without ``w``, all scores and the joint feature are zero, and no row is read."""
        # Chunks are the unit of work on rows, tasks (several chunks) that of threads. A task sums in float64 in the
        # order of its queries, and the sums of the tasks are added in their order: the same bytes for any number of
        # threads.

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
        """Return the coefficients of the rows of ``first:last``; fill ``loss``."""
        n = self.offsets[last] - self.offsets[first]
        # at zero weights (``w`` None) the scores are known
        scores, coef = np.zeros(n), np.empty(n)
        if w is not None:
            self._score(*self._arrays, self.offsets[first], self.offsets[last], w, scores)
            # compiled oracles sort the scores, and could read beyond their arrays
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


def sweep(
    problem: Problem, point: Callable[[], Float], step: int, *, ahead: int, stride: int = 1
) -> Iterator[tuple[int, int, Float, Float]]:
    """Yield ``(first, last, loss, joint)`` of ``step`` queries at a time, in order: one pass, threads run ahead."""
    # A step calls ``point()`` for its ``w`` once the consumer has taken all but ``ahead`` of the steps before it, for
    # any ``n_jobs``: so the results do not depend on ``n_jobs``.

    def cuts(first: int, w: Float) -> tuple[int, int, Float, Float]:
        last = min(first + step, problem.n_queries)
        loss, joint = np.empty(last - first), np.empty((last - first, problem.n_features))
        problem.query_cuts(w, first, last, loss, joint)
        return first, last, loss, joint

    starts = range(0, problem.n_queries, step * stride)
    alone = problem.n_jobs == 1 or ahead == 0 or len(starts) == 1
    threads: Any = nullcontext() if alone else ThreadPoolExecutor(problem.n_jobs)
    with threads as pool:
        # one thread: the same order of starts and results as with a pool, so that results are the same
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
    """Yield the cuts at ``w`` of some queries spread over all, as :func:`sweep` does."""
    # For at least 256 queries (``among``, if the problem is part of a larger one) every (n // 256)-th short stretch is
    # taken, but at least every 32nd. Stretches rather than single queries, as each step has a fixed cost.
    stride = min(max(1, (problem.n_queries if among is None else among) // _SAMPLE), 32)
    step = max(1, min(problem.chunk, problem.n_queries // (8 * stride)))
    return sweep(problem, lambda: w, step, ahead=problem.n_jobs - 1, stride=stride)


def sampled_slope(
    problem: Problem, w: Float, direction: Float, *, among: int | None = None, slopes: Float | None = None
) -> tuple[float, float]:
    """Return the weight of a sample, and its weighted sum of joint features at ``w`` along ``direction``.

    ``slopes`` (one per query of the problem) are added to the features: the excess of a model of these slopes.
    """
    share, gain = 0.0, 0.0
    for first, last, _, joint in sample(problem, w, among=among):
        weights, along = problem.weights[first:last], products(joint, direction)
        share += float(weights.sum())
        gain += dot(weights, along if slopes is None else along + slopes[first:last])
    return share, gain


def sampled_squares(problem: Problem, *, among: int | None = None) -> tuple[float, int]:
    """Return the sum of squared joint features of a sample at zero, and the number of its queries."""
    total, n = 0.0, 0
    for first, last, _, joint in sample(problem, np.zeros(problem.n_features), among=among):
        total += float(np.square(joint).sum())
        n += last - first
    return total, n


def _add_up(parts: Iterable[tuple[float, Float]], n_features: int) -> Cut:
    """Add the parts in their order: sums must not depend on which thread finishes first."""
    total, joint = 0.0, np.zeros(n_features)
    for part_total, part_joint in parts:
        total += part_total
        joint += part_joint
    return Cut(total, joint)
