"""``Blocks``: treat consecutive queries as one dual coordinate, so that cached planes of wide problems fit in
memory."""

import numpy as np

from structsvm.protocols import Float, Int, Separator
from structsvm.trainers.passes import RankingProblem


class Blocks:
    """Separator whose queries are blocks of ``size`` consecutive queries of another separator, so that fewer planes are
    cached."""

    # The hinge of a block is the weighted mean of the hinges of its queries. It is itself a maximum over outputs: an
    # output of a block combines one output of each of its queries.

    query_weights: Float | None = None

    def __init__(self, separator: Separator, offsets: Int, weights: Float, size: int) -> None:
        self.exact = separator.exact
        starts = np.arange(0, weights.shape[0], size)
        self.offsets: Int = np.append(offsets[:-1][::size], offsets[-1])
        self.weights: Float = np.add.reduceat(weights, starts)
        self.informative = np.logical_or.reduceat(np.asarray(separator.informative), starts)
        whole = np.repeat(self.weights, size)[: weights.shape[0]]
        self._share: Float = np.divide(weights, whole, out=np.zeros_like(weights), where=whole > 0)
        self._lengths = np.diff(offsets)
        self._separator, self._size, self._n = separator, size, weights.shape[0]

    def separate(self, scores: Float, first: int, last: int, loss: Float, coef: Float) -> None:
        """See :class:`structsvm.protocols.Separator`."""
        a, b = first * self._size, min(last * self._size, self._n)
        each = np.empty(b - a)
        self._separator.separate(scores, a, b, each, coef)
        share = self._share[a:b]
        coef *= np.repeat(share, self._lengths[a:b])
        loss[:] = np.add.reduceat(each * share, np.arange(0, b - a, self._size))


def in_blocks(problem: RankingProblem, n_blocks: int) -> RankingProblem:
    """Return the problem with at least ``n_blocks`` blocks in place of its queries."""
    size = problem.n_queries // n_blocks
    blocks = Blocks(problem.separator, problem.offsets, problem.weights, size)
    return RankingProblem(problem.rows, blocks.offsets, blocks, weights=blocks.weights, n_jobs=problem.n_jobs)
