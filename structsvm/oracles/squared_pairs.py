"""Squared hinge on pairs of documents with different grades, and its Hessian, in O(n log n) (Lee & Lin 2014)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structsvm.common.kernel import kernel
from structsvm.common.portable.lanes import gate, load, positive, spread, store, total, zero
from structsvm.oracles.pairs import Pairs
from structsvm.protocols import Float, Int
from structsvm.queries import labels_of, row_groups


@dataclass(frozen=True)
class SquaredPairs:
    """Squared hinge loss on all pairs of a query with different grades.

    For every pair with ``y_i > y_j`` the loss is ``max(0, 1 - (s_i - s_j))^2``; the loss of a query is the mean over
    its pairs. A convex function is the maximum of its tangents, so that the tangent at the scores takes the role of the
    most violated output, and any trainer can minimise the loss. As the loss is differentiable, with a generalised
    Hessian, ``solver="newton"`` also supports it.

    Parameters
    ----------
    normalize : {"pairs", "query"}, default="pairs"
        Whether the objective is the mean over pairs or over queries, as in :class:`~structsvm.oracles.pairs.Pairs`.

    Notes
    -----
    If the documents are sorted by score, the candidates for violated pairs with a document are consecutive. Sums over
    the candidates of a lower grade are prefix sums in a Fenwick tree over the grades. An evaluation takes O(n log n)
    for any number of grades (Lee & Lin, Large-scale linear RankSVM, Neural Computation 2014). For few pairs per
    document, it is faster to compare all pairs.

    Examples
    --------
    >>> import numpy as np
    >>> separator = SquaredPairs().bind(np.array([2.0, 1.0, 0.0]), np.array([0, 3]))
    >>> loss, coef = np.empty(1), np.empty(3)
    >>> separator.separate(np.array([1.0, 0.5, 0.0]), 0, 1, loss, coef)
    >>> (3 * coef).round(9), (3 * loss).round(9)  # two pairs violated by 1/2; loss - scores . coef is the value
    (array([ 1.,  0., -1.]), array([1.5]))
    """

    normalize: Literal["pairs", "query"] = "pairs"

    def __post_init__(self) -> None:
        Pairs(self.normalize)  # check the value as Pairs does

    def bind(self, y: Float, offsets: Int) -> SquaredPairSeparator:
        """Bind to labels ``y`` (n_rows,) grouped by ``offsets`` (n_queries + 1,)."""
        return SquaredPairSeparator(labels_of(y, offsets), offsets, normalize=self.normalize)


class SquaredPairSeparator:
    """Tangents of the squared hinge on pairs, and products with its Hessian at the same scores."""

    exact = True

    def __init__(self, y: Float, offsets: Int, *, normalize: Literal["pairs", "query"]) -> None:
        pairs = Pairs(normalize).bind(y, offsets)
        self.informative = pairs.informative
        self.pair_counts = pairs.pair_counts
        self.query_weights = pairs.query_weights
        start = offsets[row_groups(offsets)]
        number = np.cumsum(np.diff(start + pairs.order.lower, prepend=-1) > 0)
        grades = number - number[start] + 1  # from 1 for the best grade of the query
        self._labels = (offsets, pairs.order, grades)
        self._longest = int(np.diff(offsets).max(initial=1))

    def separate(self, scores: Float, first: int, last: int, loss: Float, coef: Float) -> None:
        """Fill the tangent, ``value = loss - scores . coef``; see :class:`structsvm.protocols.Separator`."""
        self.tangent(scores, first, last, loss, coef)

    def tangent(self, scores: Float, first: int, last: int, loss: Float, coef: Float) -> Curvature:
        """See ``structsvm.trainers.passes.SmoothSeparator``."""
        n = scores.shape[0]
        curvature = Curvature(np.empty(n), np.empty(n), np.empty(n, np.int32))
        room = np.empty((7, self._longest + 1))  # a kernel that allocates takes longer to compile
        _tangent(scores, first, last, self._labels, _COMPARED_PAIRS, tuple(curvature), room, loss, coef)
        return curvature

    def curve(self, curvature: Curvature, direction: Float, first: int, last: int, coef: Float) -> None:
        """See ``structsvm.trainers.passes.SmoothSeparator``; a pair exactly at its margin is not violated."""
        room = np.empty((6, self._longest + 1))
        _curvature(direction, first, last, self._labels, _COMPARED_PAIRS, tuple(curvature), room, coef)


class Curvature(NamedTuple):
    """What products with the Hessian need, computed at the scores of some queries; documents are in order of grade
    in each query."""

    scores: Float
    degrees: Float
    """Number of violated pairs of each document."""
    orders: NDArray[np.int32]
    """Documents in descending order of score, for queries that use the Fenwick tree."""


_COMPARED_PAIRS = 100
"""Maximum number of pairs per document for which vectorised comparisons are faster than the Fenwick tree."""


@kernel(inline="always")
def _pull_all(v, lower, n, pull, degree):  # type: ignore[no-untyped-def]
    """Sum the violations of each document and count its violated pairs; return the sum of the squared violations."""
    # A violation counts as negative for the worse document of its pair.
    # Documents are in descending order of grade; ``lower[i]`` is the first index of a lower grade than that of ``i``.
    # Four documents of a grade at a time (h0 to h3) are compared with eight documents of lower grades: they share loads
    # and stores, and no branch depends on the data. The last one to three documents of a grade are compared one at a
    # time; padding them to four with infinite limits takes a tenth longer for queries of 20 documents.
    # A violation h = max(0, s_j - (s_i - 1)) pulls i up and j down; ``gate(h, ones)`` is 1 if h > 0, else 0, and counts
    # the pair.
    value = 0.0
    ones = spread(1.0)
    pull[:n] = 0.0
    degree[:n] = 0.0
    start = 0
    while start < n:
        end = lower[start]
        whole = n - (n - end) % 8
        i = start
        while i < end:
            rows = 4 if i + 4 <= end else 1
            l0 = v[i] - 1.0
            l1, l2, l3 = (v[i + 1] - 1.0, v[i + 2] - 1.0, v[i + 3] - 1.0) if rows == 4 else (l0, l0, l0)
            p0, p1, p2, p3 = zero(), zero(), zero(), zero()
            d0, d1, d2, d3 = zero(), zero(), zero(), zero()
            square = zero()
            if rows == 4:
                m0, m1, m2, m3 = spread(l0), spread(l1), spread(l2), spread(l3)
                for j in range(end, whole, 8):
                    x = load(v, j)
                    h0, h1, h2, h3 = positive(x - m0), positive(x - m1), positive(x - m2), positive(x - m3)
                    c0, c1, c2, c3 = gate(h0, ones), gate(h1, ones), gate(h2, ones), gate(h3, ones)
                    p0 = p0 + h0
                    p1 = p1 + h1
                    p2 = p2 + h2
                    p3 = p3 + h3
                    d0 = d0 + c0
                    d1 = d1 + c1
                    d2 = d2 + c2
                    d3 = d3 + c3
                    square = square + ((h0 * h0 + h1 * h1) + (h2 * h2 + h3 * h3))
                    store(pull, j, load(pull, j) - ((h0 + h1) + (h2 + h3)))
                    store(degree, j, load(degree, j) + ((c0 + c1) + (c2 + c3)))
                pull[i + 1] += total(p1)
                pull[i + 2] += total(p2)
                pull[i + 3] += total(p3)
                degree[i + 1] += total(d1)
                degree[i + 2] += total(d2)
                degree[i + 3] += total(d3)
            else:
                m0 = spread(l0)
                for j in range(end, whole, 8):
                    h0 = positive(load(v, j) - m0)
                    c0 = gate(h0, ones)
                    p0 = p0 + h0
                    d0 = d0 + c0
                    square = square + h0 * h0
                    store(pull, j, load(pull, j) - h0)
                    store(degree, j, load(degree, j) + c0)
            pull[i] += total(p0)
            degree[i] += total(d0)
            value += total(square)
            # up to seven remaining documents of lower grades do not fill a vector
            for a in range(i, i + rows):
                for j in range(whole, n):
                    h = v[j] - (v[a] - 1.0)
                    if h > 0.0:
                        value += h * h
                        pull[a] += h
                        pull[j] -= h
                        degree[a] += 1.0
                        degree[j] += 1.0
            i += rows
        start = end
    return value


@kernel
def _sum_all(v, z, lower, n, out):  # type: ignore[no-untyped-def]
    """Sum ``z`` over the other documents of the violated pairs of each document."""
    # uses the same blocks as ``_pull_all``; ``gate(e, y)`` is y where e > 0, else zero
    out[:n] = 0.0
    start = 0
    while start < n:
        end = lower[start]
        whole = n - (n - end) % 8
        i = start
        while i < end:
            rows = 4 if i + 4 <= end else 1
            if rows == 4:
                m0, m1 = spread(v[i] - 1.0), spread(v[i + 1] - 1.0)
                m2, m3 = spread(v[i + 2] - 1.0), spread(v[i + 3] - 1.0)
                z0, z1, z2, z3 = spread(z[i]), spread(z[i + 1]), spread(z[i + 2]), spread(z[i + 3])
                s0, s1, s2, s3 = zero(), zero(), zero(), zero()
                for j in range(end, whole, 8):
                    x, y = load(v, j), load(z, j)
                    e0, e1, e2, e3 = x - m0, x - m1, x - m2, x - m3
                    s0 = s0 + gate(e0, y)
                    s1 = s1 + gate(e1, y)
                    s2 = s2 + gate(e2, y)
                    s3 = s3 + gate(e3, y)
                    t = (gate(e0, z0) + gate(e1, z1)) + (gate(e2, z2) + gate(e3, z3))
                    store(out, j, load(out, j) + t)
                out[i] += total(s0)
                out[i + 1] += total(s1)
                out[i + 2] += total(s2)
                out[i + 3] += total(s3)
            else:
                m0, z0, s0 = spread(v[i] - 1.0), spread(z[i]), zero()
                for j in range(end, whole, 8):
                    e0 = load(v, j) - m0
                    s0 = s0 + gate(e0, load(z, j))
                    store(out, j, load(out, j) + gate(e0, z0))
                out[i] += total(s0)
            # up to seven remaining documents of lower grades do not fill a vector
            for a in range(i, i + rows):
                for j in range(whole, n):
                    if v[j] - (v[a] - 1.0) > 0.0:
                        out[a] += z[j]
                        out[j] += z[a]
            i += rows
        start = end


@kernel
def _sums_below(v, z, order, grade, n_grades, n, tree, counts, out, out_counts):  # type: ignore[no-untyped-def]
    """For each document, count the violated pairs with a worse document, and sum ``z`` over these worse documents."""
    # Documents are visited in descending order of score. The documents in violated pairs with i have scores above
    # v_i - 1, so that each document is added to the tree once, in the same order. The tree (Fenwick 1994) is indexed by
    # grade, where 1 is the best: entry g holds the sums over the g & -g grades that end at g. Subtracting the documents
    # whose grade is at least that of i from all added documents leaves the worse documents.
    tree[: n_grades + 1] = 0.0
    counts[: n_grades + 1] = 0.0
    total, number = 0.0, 0.0
    added = 0
    for a in range(n):
        i = order[a]
        limit = v[i] - 1.0
        while added < n and v[order[added]] > limit:
            j = order[added]
            total += z[j]
            number += 1.0
            g = grade[j]
            while g <= n_grades:
                tree[g] += z[j]
                counts[g] += 1.0
                g += g & -g
            added += 1
        s, c = total, number
        g = grade[i]
        while g > 0:
            s -= tree[g]
            c -= counts[g]
            g -= g & -g
        out[i] = s
        out_counts[i] = c


@kernel
def _sums_above(v, z, order, grade, n_grades, n, tree, counts, out, out_counts):  # type: ignore[no-untyped-def]
    """For each document, count the violated pairs with a better document, and sum ``z`` over these better documents."""
    # mirrors ``_sums_below``: visits documents in ascending order of score, and sums over the grades above that of j
    tree[: n_grades + 1] = 0.0
    counts[: n_grades + 1] = 0.0
    left = n - 1
    for a in range(n - 1, -1, -1):
        j = order[a]
        while left >= 0 and v[j] > v[order[left]] - 1.0:
            i = order[left]
            g = grade[i]
            while g <= n_grades:
                tree[g] += z[i]
                counts[g] += 1.0
                g += g & -g
            left -= 1
        s, c = 0.0, 0.0
        g = grade[j] - 1
        while g > 0:
            s += tree[g]
            c += counts[g]
            g -= g & -g
        out[j] = s
        out_counts[j] = c


@kernel
def _tangent(scores, first, last, labels, compared_pairs, curvature, room, loss, coef):  # type: ignore[no-untyped-def]
    """Fill ``loss`` and ``coef`` with the tangents, and ``curvature`` with the data for products with the Hessian."""
    offsets, (members, lower, pair_counts), grades = labels
    centred, degrees, orders = curvature
    pull, below, above, n_below, n_above = room[0], room[1], room[2], room[3], room[4]
    tree, counts = room[5], room[6]
    base = offsets[first]
    for q in range(first, last):
        row0 = offsets[q]
        n = offsets[q + 1] - row0
        a = coef[row0 - base : row0 - base + n]
        loss[q - first] = 0.0
        if pair_counts[q] == 0:
            a[:] = 0.0
            continue
        s = scores[row0 - base : row0 - base + n]
        rows = members[row0 : row0 + n]
        v, degree = centred[row0 - base : row0 - base + n], degrees[row0 - base : row0 - base + n]
        mean = 0.0  # of the scores; it is subtracted because differences of scores are most accurate near 0
        for p in range(n):
            mean += s[p]
        mean /= n
        for p in range(n):
            v[p] = s[rows[p]] - mean
        if pair_counts[q] <= compared_pairs * n:
            value = _pull_all(v, lower[row0 : row0 + n], n, pull, degree)
        else:
            order = orders[row0 - base : row0 - base + n]
            for p in range(n):
                pull[p] = -v[p]
            ranked = np.argsort(pull[:n])
            for p in range(n):  # a loop, as a slice assignment takes a second longer to compile
                order[p] = ranked[p]
            grade, n_grades = grades[row0 : row0 + n], grades[row0 + n - 1]
            _sums_below(v, v, order, grade, n_grades, n, tree, counts, below, n_below)
            _sums_above(v, v, order, grade, n_grades, n, tree, counts, above, n_above)
            value = 0.0
            for p in range(n):
                # For a violated pair, h = 1 - v_i + v_j; ``up`` is the sum of h over the violated pairs in which i is
                # the better document. The sum of all h^2 is sum_i up_i - sum_p pull_p v_p, as h^2 = h - h v_i + h v_j.
                up = n_below[p] * (1.0 - v[p]) + below[p]
                pull[p] = up - (n_above[p] * (1.0 + v[p]) - above[p])
                degree[p] = n_below[p] + n_above[p]
                value += up - pull[p] * v[p]
            value = max(0.0, value)
        unit = 1.0 / pair_counts[q]
        moment = 0.0
        for p in range(n):
            c = 2.0 * unit * pull[p]
            moment += c * v[p]
            a[rows[p]] = c
        # the coefficients sum to zero, so that subtracting the mean of the scores does not change the moment
        loss[q - first] = unit * value + moment


@kernel
def _curvature(direction, first, last, labels, compared_pairs, curvature, room, coef):  # type: ignore[no-untyped-def]
    """Fill ``coef`` with the negative Hessian times ``direction``."""
    # The Hessian of sum h^2 is 2 (diag(degree) - A), with A_ij = A_ji = 1 for violated pairs (Lee & Lin 2014), so that
    # a product needs only the sum of ``direction`` over the other documents of the violated pairs of each document.
    offsets, (members, lower, pair_counts), grades = labels
    centred, degrees, orders = curvature
    z, below, above, unused, tree, counts = room[0], room[1], room[2], room[3], room[4], room[5]
    base = offsets[first]
    for q in range(first, last):
        row0 = offsets[q]
        n = offsets[q + 1] - row0
        a = coef[row0 - base : row0 - base + n]
        if pair_counts[q] == 0:
            a[:] = 0.0
            continue
        s = direction[row0 - base : row0 - base + n]
        rows = members[row0 : row0 + n]
        v, degree = centred[row0 - base : row0 - base + n], degrees[row0 - base : row0 - base + n]
        for p in range(n):
            z[p] = s[rows[p]]
        if pair_counts[q] <= compared_pairs * n:
            _sum_all(v, z, lower[row0 : row0 + n], n, below)
            above[:n] = 0.0
        else:
            order = orders[row0 - base : row0 - base + n]
            grade, n_grades = grades[row0 : row0 + n], grades[row0 + n - 1]
            _sums_below(v, z, order, grade, n_grades, n, tree, counts, below, unused)
            _sums_above(v, z, order, grade, n_grades, n, tree, counts, above, unused)
        unit = 2.0 / pair_counts[q]
        for p in range(n):
            a[rows[p]] = unit * (below[p] + above[p] - degree[p] * z[p])
