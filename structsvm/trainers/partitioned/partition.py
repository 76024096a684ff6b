"""``Partition``: the part of a round that is computed on the machine that holds the rows.

Let ``w`` be the weights of all partitions together and ``w_k`` the part of this partition, whose queries have the
fraction ``M_k`` of the weight of all queries. The local problem is that of CoCoA+ (Ma et al., "Adding vs. averaging in
distributed primal-dual optimization", ICML 2015, equation 5)::

    max  loss_k(a) - w . (w_k(a) - w_k) - s/2 |w_k(a) - w_k|^2,        s = sigma / M_k.

``sigma = 1`` is safe: by the Cauchy-Schwarz inequality, the steps of all partitions together then increase the dual
value by at least the sum of their local gains. As the driver mixes the dual points optimally, a smaller ``sigma`` is
valid, and converges faster. After the substitution ``v = w + s (w_k(a) - w_k)``, and with the masses ``s a``, this is
the problem of :class:`~structsvm.trainers.block_dual.BlockDual` at the trade-off ``sigma C``, with the fixed vector
``w - s w_k`` added to its weights.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from structsvm.common.checks import BadInput
from structsvm.common.portable.sums import dot, norm
from structsvm.protocols import Cut, Float, Int, Separator
from structsvm.queries import unit_weights
from structsvm.trainers.block_dual import BlockDual, cache_size, slot_size
from structsvm.trainers.blocks import Blocks
from structsvm.trainers.newton_on_planes import Segment
from structsvm.trainers.partitioned.columns import Column
from structsvm.trainers.passes import RankingProblem, Tangent, sampled_slope, sampled_squares
from structsvm.trainers.plane_cache import ROUNDING

_ENOUGH_PLANES = 10
"""Number of planes per query that must fit in memory; otherwise consecutive queries are combined into blocks."""

_LARGEST_BLOCK = 64


class Task(NamedTuple):
    """Parameters of the whole problem; they are sent with every call, as a partition may have been rebuilt."""

    C: float
    sigma: float
    share: float
    """Fraction of the weight of all queries that belongs to this partition."""
    fold: int | None
    """Fold whose queries are left out; None for no fold."""


class Description(NamedTuple):
    """Sizes and abilities of a partition."""

    n_queries: int
    n_features: int
    n_blocks: int
    """Number of dual coordinates, which are queries or blocks of queries."""
    mass: float
    """Total weight of the queries."""
    exact: bool
    fits: bool
    """Whether three planes per block fit in memory."""
    smooth: bool
    """Whether the loss is smooth, so that it has a Hessian."""


class _StoredTangent(NamedTuple):
    """The tangent at ``w`` of the problem without the queries of ``fold``."""

    fold: int | None
    w: Float
    problem: RankingProblem
    tangent: Tangent


class Partition:
    """Some queries of a larger problem, whose planes are cached between calls; ``folds`` contains the cross-validation
    fold of each query."""

    # Cached planes improve the results, which are valid without them, so that a partition may be rebuilt from its rows
    # at any time. Every method returns zeros for a partition without weight (``share == 0``), such as a partition whose
    # queries are all in the fold that is left out.

    def __init__(
        self,
        X: Any,
        offsets: Int,
        separator: Separator,
        *,
        weights: Float | None = None,
        folds: Int | None = None,
        n_jobs: int | None = 1,
    ) -> None:
        self._rows, self._offsets, self._separator = X, np.asarray(offsets, dtype=np.int64), separator
        n = self._offsets.shape[0] - 1
        weights = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
        factors = separator.query_weights
        self._weights = weights if factors is None else weights * factors
        self._folds = folds
        self.n_jobs = n_jobs
        self._fold: int | None = None
        self._problem: RankingProblem | None = None
        self._dual: BlockDual | None = None
        self._smooth = hasattr(separator, "tangent")
        self._tangent: _StoredTangent | None = None

    def describe(self, fold: int | None) -> Description:
        """Return the sizes of the problem without the queries of ``fold``."""
        weights = self._weights_without(fold)
        mass = float(weights.sum())
        width = int(self._rows.shape[1])
        if mass == 0.0:
            return Description(weights.shape[0], width, 0, 0.0, self._separator.exact, True, self._smooth)
        problem = self._bound(fold)
        return Description(
            weights.shape[0],
            width,
            problem.n_queries,
            mass,
            problem.exact,
            cache_size(problem) is not None,
            self._smooth,
        )

    def cut(self, task: Task, w: Float) -> Cut:
        """Return the weighted mean of the cuts of this partition's queries at ``w``."""
        if task.share == 0.0:
            return Cut(0.0, np.zeros_like(w))
        return self._bound(task.fold).cut(w)

    def tangent(self, task: Task, w: Float) -> Cut:
        """Return the tangent at ``w`` of this partition's weighted mean loss, which must be smooth; store it for
        :meth:`curve`."""
        if task.share == 0.0:
            return Cut(0.0, np.zeros_like(w))
        weights = unit_weights(self._weights_without(task.fold), self._offsets.shape[0] - 1)
        problem = RankingProblem(
            self._rows, self._offsets, self._separator, weights=weights, n_jobs=self.n_jobs
        )
        tangent = problem.tangent(w)
        self._tangent = _StoredTangent(task.fold, w.copy(), problem, tangent)
        return Cut(tangent.loss, tangent.joint)

    def curve(self, task: Task, w: Float, direction: Float) -> Float:
        """Return the Hessian at ``w`` times ``direction``."""
        if task.share == 0.0:
            return np.zeros_like(w)
        known = self._tangent
        if known is None or known.fold != task.fold or not np.array_equal(known.w, w):
            self.tangent(task, w)
            known = self._tangent
        assert known is not None
        return known.problem.curve(known.tangent, direction)

    def descend(self, task: Task, w: Float, own: Float, target: float | None) -> tuple[Float, Column]:
        """Make one descent pass on the local problem; return the average of its weights, and the new dual point.

        ``w`` is the sum of the parts of all partitions, ``own`` the part of this partition. Unless ``target`` is None,
        sweeps over the cached planes follow until the gap of this partition is at most ``target``.
        """
        if task.share == 0.0:
            return np.zeros_like(w), Column(0.0, np.zeros_like(w), 0.0)
        dual = self._placed(task, w, own)
        average = dual.descend(self._bound(task.fold))
        if target is not None:
            dual.redistribute(task.sigma * target)
        return average, _column(dual, task)

    def certify(
        self, task: Task, point: Float, w: Float, own: Float, target: float | None
    ) -> tuple[float, Column, Column]:
        """Make one pass at ``point``; return ``C`` times the slack, the dual point of its planes, and the best dual
        point."""
        if task.share == 0.0:
            nothing = Column(0.0, np.zeros_like(w), 0.0)
            return 0.0, nothing, nothing
        # ``dual`` has the trade-off sigma C and query weights that sum to one; in the whole problem the trade-off of
        # this partition is C times its share
        dual = self._placed(task, w, own)
        slack, gain, joint = dual.measure(self._bound(task.fold), point)
        # the slack and the cut belong to ``point``; the sweeps only improve the partition's own dual point
        if target is not None:
            dual.redistribute(task.sigma * target)
        scale = task.share / task.sigma
        rounding = ROUNDING * norm(joint) * scale
        return slack * scale, Column(gain * scale, joint * scale, rounding), _column(dual, task)

    def improve(self, task: Task, w: Float, own: Float, target: float) -> Column:
        """Sweep over the cached planes without reading the data; the arguments are those of :meth:`descend`."""
        if task.share == 0.0:
            return Column(0.0, np.zeros_like(w), 0.0)
        dual = self._placed(task, w, own)
        dual.redistribute(task.sigma * target)
        return _column(dual, task)

    def slope(self, task: Task, w: Float, factor: float, among: int) -> tuple[float, float]:
        """Return the weight of a sample of queries, and the inner product of ``w`` and the weighted sum of the joint
        features of the sample at ``factor w``."""
        # ``among`` is the total number of blocks of all partitions, which determines the sampling rate
        if task.share == 0.0:
            return 0.0, 0.0
        share, gain = sampled_slope(self._bound(task.fold), factor * w, w, among=among)
        return task.share * share, task.share * gain

    def along(self, task: Task, w: Float, step: Float, t: float, among: int) -> tuple[float, float, float]:
        """Return three terms of the slope of the objective at ``w + t step``, from the cached planes and a sample."""
        # The terms are the slope of the hinges of the cached planes, the weight of the sample (0 for t = 0), and the
        # weighted sum over the sample of the slopes of the cached planes minus the true slopes.
        if task.share == 0.0:
            return 0.0, 0.0, 0.0
        problem = self._bound(task.fold)
        if self._dual is None:
            slopes, model = np.zeros(problem.n_queries), 0.0
        else:
            slopes = Segment(self._dual.planes, w, step, n_jobs=self.n_jobs or 1).slopes(t)
            model = task.C * task.share * dot(problem.weights, slopes)
        share = above = 0.0
        if t > 0.0:
            share, above = sampled_slope(problem, w + t * step, step, among=among, slopes=slopes)
        return model, task.share * share, task.share * above

    def pull(self, task: Task, among: int) -> tuple[float, int, float]:
        """Return, for solver "auto", the sum of the squared norms of the joint features of a sample at zero weights,
        the size of the sample, and the largest weight of a block."""
        if task.share == 0.0:
            return 0.0, 0, 0.0
        problem = self._bound(task.fold)
        return *sampled_squares(problem, among=among), task.share * float(problem.weights.max())

    def forget(self) -> None:
        """Drop the cached planes and the stored tangent."""
        self._dual = self._tangent = None

    @property
    def n_bytes(self) -> int:
        """Maximum size of the cached planes in bytes."""
        return 0 if self._problem is None else 8 * slot_size(self._problem) * (cache_size(self._problem) or 0)

    def _weights_without(self, fold: int | None) -> Float:
        if fold is None:
            return self._weights
        if self._folds is None:
            raise BadInput("fold", "expected folds of the queries, got none", value=fold)
        return np.where(self._folds == fold, 0.0, self._weights)

    def _bound(self, fold: int | None) -> RankingProblem:
        """Return the problem without the queries of ``fold``, in blocks that are as small as memory allows."""
        if self._problem is None or self._fold != fold:
            weights = unit_weights(self._weights_without(fold), self._offsets.shape[0] - 1)
            problem = RankingProblem(self._rows, self._offsets, self._separator, weights=weights)
            # Double the size of the blocks, up to 64 queries, until the planes of all blocks fit in memory.
            size = 1
            while (cache_size(problem) or 0) < _ENOUGH_PLANES and size < _LARGEST_BLOCK:
                size *= 2
                blocks = Blocks(self._separator, self._offsets, weights, size)
                problem = RankingProblem(self._rows, blocks.offsets, blocks, weights=blocks.weights)
            self._problem, self._fold, self._dual = problem, fold, None
        self._problem.n_jobs = self.n_jobs or 1
        return self._problem

    def _placed(self, task: Task, w: Float, own: Float) -> BlockDual:
        """Return the dual point of the cached planes, with the anchor of the local problem around ``w``."""
        problem = self._bound(task.fold)
        if self._dual is None:
            self._dual = BlockDual(problem, task.sigma * task.C)
        self._dual.rescale(task.sigma * task.C)
        self._dual.place(w - (task.sigma / task.share) * own)
        return self._dual


def _column(dual: BlockDual, task: Task) -> Column:
    # convert masses s a of the local problem (see the module docstring) to masses a of the whole problem
    scale = task.share / task.sigma
    return Column(scale * dual.loss, scale * dual.joint, scale * dual.rounding)


class SerialPartitions:
    """Partitions in this process, which are called one after another."""

    def __init__(self, parts: Sequence[Partition]) -> None:
        self.parts = list(parts)
        self.n_parts = len(self.parts)

    def each(self, method: str, payloads: Sequence[tuple[Any, ...]]) -> list[Any]:
        """See :class:`~structsvm.trainers.partitioned.driver.Partitions`."""
        return [getattr(part, method)(*payload) for part, payload in zip(self.parts, payloads, strict=True)]
