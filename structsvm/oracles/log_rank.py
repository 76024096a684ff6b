"""The log-rank loss, a smooth convex bound on 1 - NDCG@k, on 1 - MRR and on 1 - precision, with its curvature.

Let ``s`` be the scores of a query, and let the thresholds ``t`` be its grades above the lowest grade. The loss is::

    R(s) = sum_t omega_t / P_t * sum_{i: y_i >= t} log2(1 + sum_{j: y_j < t} exp(s_j - s_i))

where ``P_t`` is the number of documents with ``y >= t``. The argument of the logarithm is at least the rank of ``i``
among the documents below the threshold. ``omega_t`` is the contribution of the threshold to the ideal DCG, normalised
so that ``NDCG@k`` is the mean over thresholds, weighted by ``omega``, of the binary NDCG@k for ``y >= t``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import BadInput, check_choice, check_whole
from structsvm.common.kernel import kernel
from structsvm.common.portable.compiled import exp, log, log1p
from structsvm.common.portable.elementary import LN2, exp2, log2
from structsvm.oracles.grades import by_grade
from structsvm.protocols import Float, Int
from structsvm.queries import labels_of, places_in, query_pieces, row_groups


@dataclass(frozen=True)
class NDCG:
    """The log-rank loss over all grades, a smooth convex bound on ``1 - NDCG@k``.

    A query whose documents all have the same gain has no constraint.

    Parameters
    ----------
    k : int or None, default=10
        Cut-off of NDCG, which determines the weight of each grade. None means all positions.
    gain : {"exp2", "linear"}, default="exp2"
        Gain of grade ``y``: ``2^y - 1``, which is usual for training, or ``y``, which is used by trec_eval and is the
        default of ``structsvm.metrics``. Negative labels have gain 0.

    Notes
    -----
    The loss of a relevant document is the logarithm of a soft rank among the worse documents. At equal scores the
    negative gradient is proportional to the mean of the relevant documents minus the mean of the others. The optimal
    weights are therefore zero only if the two means are equal, whatever the length of the queries. The hinge of NDCG
    with position features, in contrast, compares each relevant document with the best of the others
    (``docs/theory/log_rank.md``).

    This is not a structural SVM, because there is no most violated ranking. As its tangents are cuts, every trainer can
    minimise it, including ``solver="newton"``, because it has a Hessian. An evaluation takes O(documents x grades) per
    query.

    Examples
    --------
    >>> import numpy as np
    >>> separator = NDCG(k=1).bind(np.array([0.0, 1.0]), np.array([0, 2]))
    >>> loss, coef = np.empty(1), np.empty(2)
    >>> separator.separate(np.zeros(2), 0, 1, loss, coef)
    >>> loss, coef.round(4)  # log2(2), and its slope
    (array([1.]), array([-0.7213,  0.7213]))
    """

    label: ClassVar[str] = "ndcg"
    usual_C: ClassVar[float] = 10.0
    cutoff: ClassVar[str] = "optional"

    k: int | None = 10
    gain: Literal["exp2", "linear"] = "exp2"

    def __post_init__(self) -> None:
        if self.k is not None:
            check_whole("k", self.k, remedy="None means the whole ranking")
        check_choice("gain", self.gain, ("exp2", "linear"))

    def bind(self, y: Float, offsets: Int) -> LogRankSeparator:
        """Bind to labels ``y`` (n_rows,) grouped by ``offsets`` (n_queries + 1,)."""
        return LogRankSeparator(
            y, offsets, self.k, lambda part: np.maximum(part, 0.0), linear=self.gain == "linear"
        )


@dataclass(frozen=True)
class ReciprocalRank:
    """The log-rank loss of the relevant documents; half of it bounds ``1 - 1/rank`` of the first relevant document
    (MRR).

    The objective is that of :class:`PrecisionAt`; only the measure by which a ranker is evaluated differs. A query has
    no constraint if all its documents are relevant or none is.

    Parameters
    ----------
    k : int or None, default=None
        Cut-off of the measure, which does not affect training.
    relevance : float, default=1.0
        Lowest label of a relevant document.

    Examples
    --------
    >>> import numpy as np
    >>> separator = ReciprocalRank().bind(np.array([0.0, 1.0, 0.0]), np.array([0, 3]))
    >>> loss, coef = np.empty(1), np.empty(3)
    >>> separator.separate(np.zeros(3), 0, 1, loss, coef)
    >>> loss.round(3), coef.round(3)
    (array([1.585]), array([-0.481,  0.962, -0.481]))
    """

    label: ClassVar[str] = "mrr"
    usual_C: ClassVar[float] = 10.0
    cutoff: ClassVar[str] = "optional"

    k: int | None = None
    relevance: float = 1.0

    def __post_init__(self) -> None:
        if self.k is not None:
            check_whole("k", self.k, remedy="None means the whole ranking")

    def bind(self, y: Float, offsets: Int) -> LogRankSeparator:
        """Bind to labels ``y`` (n_rows,) grouped by ``offsets`` (n_queries + 1,)."""
        return LogRankSeparator(
            y, offsets, None, lambda part: (part >= self.relevance).astype(np.float64), linear=True
        )


@dataclass(frozen=True)
class PrecisionAt:
    """The log-rank loss of the relevant documents, for precision at ``k``.

    With ``P`` relevant documents, of which ``r`` are among the first ``k``, it bounds ``1 - r / min(k, P)``. The
    objective is that of :class:`ReciprocalRank`. For graded labels, :class:`NDCG` is usually better, even for
    precision.

    Parameters
    ----------
    k : int, default=10
        Cut-off of the measure, which does not affect training.
    relevance : float, default=1.0
        Lowest label of a relevant document.

    Examples
    --------
    >>> PrecisionAt(k=5).bind(np.array([0.0, 1.0, 0.0]), np.array([0, 3])).informative
    array([ True])
    """

    label: ClassVar[str] = "precision"
    usual_C: ClassVar[float] = 10.0
    cutoff: ClassVar[str] = "required"

    k: int = 10
    relevance: float = 1.0

    def __post_init__(self) -> None:
        check_whole("k", self.k)

    def bind(self, y: Float, offsets: Int) -> LogRankSeparator:
        """Bind to labels ``y`` (n_rows,) grouped by ``offsets`` (n_queries + 1,)."""
        return ReciprocalRank(relevance=self.relevance).bind(y, offsets)


class LogRankSeparator:
    """Tangents of the log-rank loss, and products with its Hessian at the same scores.

    ``grade`` converts labels to nonnegative grades. ``k`` is the cut-off of the DCG that determines the weights of the
    thresholds. If ``linear`` is True, the gain is the grade itself instead of ``2^y - 1``.
    """

    exact = True
    query_weights: Float | None = None

    def __init__(
        self, y: Any, offsets: Int, k: int | None, grade: Callable[[Float], Float], *, linear: bool
    ) -> None:
        labels = labels_of(y, offsets)
        self._longest = int(np.diff(offsets).max(initial=1))
        members = np.empty(labels.shape[0], np.uint16 if self._longest <= 1 << 16 else np.int32)
        discount = 1.0 / log2(np.arange(2.0, self._longest + 2.0))
        if k is not None:
            discount[k:] = 0.0
        parts, total = [(np.zeros(0), np.zeros(0, np.int32), np.zeros(1, np.int64))], 0.0
        for first, last in query_pieces(offsets):
            rows, own = slice(offsets[first], offsets[last]), offsets[first : last + 1] - offsets[first]
            grades = grade(labels[rows])
            order = by_grade(grades, own)
            members[rows] = order.members
            gains = grades if linear else exp2(grades) - 1.0
            with np.errstate(over="ignore"):
                total += float(gains.sum())
            if not np.isfinite(total):
                raise BadInput(
                    "y",
                    f"expected labels whose gains have a finite sum, got a label {grades.max():g}",
                    "use linear gains or smaller grades",
                    code="NDCG(gain='linear')",
                )
            parts.append(_thresholds(gains, own, order.members, order.lower, discount))
        shares, steps, counts = map(np.concatenate, zip(*parts, strict=True))
        self.informative = counts[1:] > 0
        self._labels = offsets, members, np.cumsum(counts), steps, shares

    def separate(self, scores: Float, first: int, last: int, loss: Float, coef: Float) -> None:
        """Fill the tangent, ``value = loss - scores . coef``; see :class:`structsvm.protocols.Separator`."""
        self.tangent(scores, first, last, loss, coef)

    def tangent(self, scores: Float, first: int, last: int, loss: Float, coef: Float) -> Float:
        """See ``structsvm.trainers.passes.SmoothSeparator``."""
        curvature = np.empty(scores.shape[0])
        _tangent(scores, first, last, self._labels, self._room(), curvature, loss, coef)
        return curvature

    def curve(self, curvature: Float, direction: Float, first: int, last: int, coef: Float) -> None:
        """See ``structsvm.trainers.passes.SmoothSeparator``."""
        _curvature(direction, first, last, self._labels, self._room(), curvature, coef)

    def _room(self) -> Float:
        """Return buffers for one query; they are not allocated in the kernels, which would then take long to
        compile."""
        return np.empty((4, self._longest))


# Documents are in descending order of grade, so that a threshold is an index b: the documents before b are better, the
# documents from b on are worse. share_b = omega / (b ln 2) is the weight of the natural logarithm of one document.
# ``shares`` holds these weights for all thresholds, starting at ``begins[q]`` for query q. ``steps`` holds the indices
# b, starting at ``begins[q] + q``, with the number of documents after the last index of a query. With e_p = exp(s_p)
# and B_b the sum of e_p over p >= b, the loss of a query is
#
#     R = sum_b share_b sum_{i < b} log(1 + B_b / e_i),
#
# and the terms of its derivatives for each threshold b are, with g_i = B_b / (e_i + B_b),
#
#     -share_b g_i  for s_i of a better document,     share_b (e_j / B_b) sum_{i < b} g_i  for s_j of a worse document.

_WIDE = 300.0
"""Largest range of the scores of a query for which exp(score - maximum) is used without rescaling, as exp(300) is far
from overflow. For a wider range each threshold has its own scale, which costs one exponential per document and
threshold."""

_FULL = 1e150
"""Product of factors above which its logarithm is taken. Multiplying it by another factor, which is at most exp(300)
times the number of documents, must not overflow."""


def _thresholds(
    gains: Float, offsets: Int, members: NDArray[np.int32], lower: NDArray[np.int32], discount: Float
) -> tuple[Float, NDArray[np.int32], Int]:
    """Return the ``shares`` and ``steps`` of some queries, and the number of thresholds of each query."""
    # omega_t = (gain_t - gain_below) * (IDCG of the binary labels y >= t) / (IDCG of the grades); the sum over t is one
    query, ranks = row_groups(offsets), places_in(offsets) - 1
    ideal = np.append(0.0, np.cumsum(discount))
    ranked = gains[offsets[query] + members]
    best = np.bincount(query, ranked * discount[ranks], offsets.shape[0] - 1)
    below = 1 + np.flatnonzero((ranks[1:] > 0) & (lower[1:] != lower[:-1]))
    step, b = ranked[below - 1] - ranked[below], ranks[below]
    shares = (step / best[query[below]]) * ideal[b] / (b * LN2)
    counts = np.bincount(query[below], minlength=offsets.shape[0] - 1)
    return shares, np.insert(b, np.cumsum(counts), np.diff(offsets)).astype(np.int32), counts


@kernel(inline="always")
def _scale_below(v, b, n):  # type: ignore[no-untyped-def]
    """Return the largest score from index ``b`` on, and the sum of exp(score - largest) from ``b`` on."""
    top = v[b]
    for p in range(b + 1, n):
        top = max(top, v[p])
    total = 0.0
    for p in range(b, n):
        total += exp(v[p] - top)
    return top, total


@kernel
def _tangent(scores, first, last, labels, room, kept, loss, coef):  # type: ignore[no-untyped-def]
    """Fill ``loss`` and ``coef`` with the tangents, and ``kept`` with exp(score - maximum) per query, or with
    score - maximum if the range is wide."""
    # ``pull`` is the negative gradient per document, in descending order of grade. Products with the Hessian need the
    # same exponentials, which ``kept`` stores. Exponentials are always positive and relative scores never are, so that
    # the sign of the first entry of a query tells which of the two is stored.
    offsets, members, begins, steps, shares = labels
    v, inverse, pull, worse = room[0], room[1], room[2], room[3]
    base = offsets[first]
    for q in range(first, last):
        row0 = offsets[q]
        n = offsets[q + 1] - row0
        a = coef[row0 - base : row0 - base + n]
        loss[q - first] = 0.0
        if begins[q] == begins[q + 1]:
            a[:] = 0.0
            continue
        s = scores[row0 - base : row0 - base + n]
        rows, share = members[row0 : row0 + n], shares[begins[q] : begins[q + 1]]
        e = kept[row0 - base : row0 - base + n]
        thresholds, n_thresholds = steps[begins[q] + q :], begins[q + 1] - begins[q]
        top, low = s[0], s[0]
        for p in range(n):
            top, low = max(top, s[p]), min(low, s[p])
        value = 0.0
        for p in range(n):
            v[p] = s[rows[p]] - top
            pull[p] = 0.0
        if top - low <= _WIDE:
            for p in range(n):
                e[p] = exp(v[p])
                inverse[p] = 1.0 / e[p]
            # Visit the thresholds from the lowest grade up, so that B_b is extended by one grade at a time and O(n)
            # exponentials suffice.
            below = 0.0
            for m in range(n_thresholds - 1, -1, -1):
                b = thresholds[m]
                for p in range(b, thresholds[m + 1]):
                    below += e[p]
                c = share[m]
                c_below = c * below
                # take one logarithm of a product instead of many logarithms, as long as the product does not overflow
                total, product, logs = 0.0, 1.0, 0.0
                for i in range(b):
                    factor = 1.0 + below * inverse[i]
                    part = inverse[i] / factor
                    total += part
                    pull[i] += c_below * part
                    product *= factor
                    if product > _FULL:
                        logs += log(product)
                        product = 1.0
                value += c * (logs + log(product))
                worse[m] = c * total
            # A worse document is below all thresholds above its grade: keep a running sum from the highest threshold
            # down.
            falling = 0.0
            for m in range(n_thresholds):
                falling += worse[m]
                for p in range(thresholds[m], thresholds[m + 1]):
                    pull[p] -= falling * e[p]
        else:
            # Compute the same sums relative to the largest worse score of each threshold. log(1 + z) is computed from z
            # or from 1/z, whichever is at most one, so that no exponential overflows.
            for p in range(n):  # a loop, as a slice assignment takes a second longer to compile
                e[p] = v[p]
            for m in range(n_thresholds):
                b = thresholds[m]
                c = share[m]
                highest, below = _scale_below(v, b, n)
                total, logs = 0.0, 0.0
                for i in range(b):
                    x = v[i] - highest
                    small = exp(-abs(x))
                    if x >= 0.0:
                        z = below * small
                        logs += log1p(z)
                        part = z / (1.0 + z)
                    else:
                        logs += log(below + small) - x
                        part = below / (below + small)
                    pull[i] += c * part
                    total += part
                value += c * logs
                for p in range(b, n):
                    pull[p] -= c * total * (exp(v[p] - highest) / below)
        moment = 0.0
        for p in range(n):
            moment += pull[p] * v[p]
            a[rows[p]] = pull[p]
        # the coefficients sum to zero, so that subtracting the largest score does not change the moment
        loss[q - first] = max(0.0, value + moment)


@kernel
def _curvature(direction, first, last, labels, room, kept, coef):  # type: ignore[no-untyped-def]
    """Fill ``coef`` with the negative Hessian times ``direction``."""
    # For one logarithm with g = B / (e_i + B), let mean be the mean of the direction z over the worse documents,
    # weighted by e_j / B. The product of the Hessian with z is g (1 - g) (z_i - mean) at the better document i, and
    # (e_j / B) times g (z_j - mean) - g (1 - g) (z_i - mean) at a worse document j.
    offsets, members, begins, steps, shares = labels
    z, out, degrees, pulls = room[0], room[1], room[2], room[3]
    base = offsets[first]
    for q in range(first, last):
        row0 = offsets[q]
        n = offsets[q + 1] - row0
        a = coef[row0 - base : row0 - base + n]
        if begins[q] == begins[q + 1]:
            a[:] = 0.0
            continue
        s = direction[row0 - base : row0 - base + n]
        rows, share = members[row0 : row0 + n], shares[begins[q] : begins[q + 1]]
        e = kept[row0 - base : row0 - base + n]
        thresholds, n_thresholds = steps[begins[q] + q :], begins[q + 1] - begins[q]
        for p in range(n):
            z[p] = s[rows[p]]
            out[p] = 0.0
        # As in ``_tangent``, a loop from the lowest threshold up handles the better documents, and stores in
        # ``degrees`` and ``pulls`` the sums of g and of the terms without z_j. A loop from the highest threshold down
        # then handles the worse documents.
        if e[0] > 0.0:
            below, moment = 0.0, 0.0
            for m in range(n_thresholds - 1, -1, -1):
                b = thresholds[m]
                for p in range(b, thresholds[m + 1]):
                    below += e[p]
                    moment += e[p] * z[p]
                c = share[m]
                mean = moment / below
                # (e_i unit) (below unit) is g (1 - g), computed without cancellation in 1 - g
                total, turn = 0.0, 0.0
                for i in range(b):
                    unit = 1.0 / (e[i] + below)
                    part = (e[i] * unit) * (below * unit) * (z[i] - mean)
                    out[i] -= c * part
                    total += unit
                    turn += part
                degrees[m] = c * total
                pulls[m] = c * (total * mean + turn / below)
            degree, pulled = 0.0, 0.0
            for m in range(n_thresholds):
                degree += degrees[m]
                pulled += pulls[m]
                for p in range(thresholds[m], thresholds[m + 1]):
                    out[p] -= e[p] * (degree * z[p] - pulled)
        else:
            # wide range: ``e`` contains scores, and each threshold is scaled by its largest worse score
            for m in range(n_thresholds):
                b = thresholds[m]
                c = share[m]
                highest, below = _scale_below(e, b, n)
                mean = 0.0
                for p in range(b, n):
                    mean += exp(e[p] - highest) * z[p]
                mean /= below
                total, turn = 0.0, 0.0
                for i in range(b):
                    x = e[i] - highest
                    small = exp(-abs(x))
                    better, worse = (1.0, below * small) if x >= 0.0 else (small, below)
                    unit = 1.0 / (better + worse)
                    part = (better * unit) * (worse * unit) * (z[i] - mean)
                    out[i] -= c * part
                    total += worse * unit
                    turn += part
                for p in range(b, n):
                    out[p] -= c * (exp(e[p] - highest) / below) * (total * (z[p] - mean) - turn)
        for p in range(n):
            a[rows[p]] = out[p]
