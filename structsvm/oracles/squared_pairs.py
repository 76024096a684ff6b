"""Squared hinge on pairs of documents with different grades, and its curvature, by counting (Lee & Lin 2014)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structsvm.common.kernel import kernel
from structsvm.oracles.pairs import Pairs
from structsvm.protocols import Float, Int
from structsvm.queries import check_offsets

__all__ = ["Curvature", "SquaredPairSeparator", "SquaredPairs"]


@dataclass(frozen=True)
class SquaredPairs:
    """Squared hinge loss on all pairs of a query with different grades.

    For every pair with ``y_i > y_j`` the loss is ``max(0, 1 - (s_i - s_j))^2``; the loss of a query is the mean over
    its pairs. As a convex function is the maximum of its tangents, the "most violated output" is the tangent at the
    scores, and any trainer can minimise it. As it is differentiable, it also has a curvature, for
    :func:`structsvm.trainers.newton.newton`.

    Parameters
    ----------
    normalize : {"pairs", "query"}, default="pairs"
        As in :class:`~structsvm.oracles.pairs.Pairs`.

    Raises
    ------
    ValueError
        For any other ``normalize``.

    Notes
    -----
    Pairs are never listed. The violated pairs of a document are consecutive in the documents sorted by score; sums over
    those of a lower grade are prefix sums in a Fenwick tree over the grades: O(n log n) for any number of grades (Lee &
    Lin, Large-scale linear RankSVM, Neural Computation 2014). For few pairs per document, comparing them all is faster.

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
        Pairs(self.normalize)  # raises for the same values as Pairs

    def bind(self, y: Float, offsets: Int) -> SquaredPairSeparator:
        """Bind to labels ``y`` (n_rows,) grouped by ``offsets`` (n_queries + 1,)."""
        check_offsets(offsets, np.shape(y)[0])
        return SquaredPairSeparator(y, offsets, normalize=self.normalize)


class SquaredPairSeparator:
    """The tangent of the squared hinge on pairs, and products with its second derivative at the same scores.

    Parameters
    ----------
    y : ndarray of float64, shape (n_rows,)
        Only the order of the labels inside a query matters.
    offsets : ndarray of int64, shape (n_queries + 1,)
    normalize : {"pairs", "query"}

    Attributes
    ----------
    pair_counts, query_weights
        As in :class:`~structsvm.oracles.pairs.PairSeparator`.
    """

    exact = True

    def __init__(self, y: Float, offsets: Int, *, normalize: Literal["pairs", "query"]) -> None:
        pairs = Pairs(normalize).bind(y, offsets)
        self.informative = pairs.informative
        self.pair_counts = pairs.pair_counts
        self.query_weights = pairs.query_weights
        self._labels = (offsets, pairs.members, pairs.lower, pairs.pair_counts)

    def separate(self, scores: Float, first: int, last: int, loss: Float, coef: Float) -> None:
        """Fill the tangent, ``value = loss - scores . coef``; see :class:`structsvm.protocols.Separator`."""
        self.tangent(scores, first, last, loss, coef)

    def tangent(self, scores: Float, first: int, last: int, loss: Float, coef: Float) -> Curvature:
        """See :class:`structsvm.protocols.SmoothSeparator`."""
        n = scores.shape[0]
        curvature = Curvature(np.empty(n), np.empty(n), np.empty(n, np.int32))
        _tangent(scores, first, last, *self._labels, _COMPARED_PAIRS, *curvature, loss, coef)
        return curvature

    def curve(self, curvature: Curvature, direction: Float, first: int, last: int, coef: Float) -> None:
        """See :class:`structsvm.protocols.SmoothSeparator`.

        A pair exactly at its margin counts as not violated.
        """
        _curvature(direction, first, last, *self._labels, _COMPARED_PAIRS, *curvature, coef)


class Curvature(NamedTuple):
    """Data of the scores of some queries for products with the second derivative, by grade within each query."""

    scores: Float
    degrees: Float
    """Number of violated pairs of each document."""
    orders: NDArray[np.int32]
    """Documents by descending score, for queries whose pairs are not compared one by one."""


_COMPARED_PAIRS = 100
"""Most pairs per document for which comparing them one by one, which vectorises, is faster than the Fenwick tree."""


@kernel(fastmath={"reassoc", "contract", "nsz"})
def _pull_all(v, lower, n, pull, degree):  # type: ignore[no-untyped-def]
    """Sum the violations of each place (negative as the worse one), count its violated pairs, and sum the squares.

    Four places at a time are compared with everything below their grade: they share the loads, and no branch depends on
    data.
    """
    total = 0.0
    pull[:n] = 0.0
    degree[:n] = 0.0
    start = 0
    while start < n:
        end = lower[start]
        tail = v[end:n]
        tail_pull, tail_degree = pull[end:n], degree[end:n]
        i = start
        while i + 3 < end:
            l0, l1, l2, l3 = v[i] - 1.0, v[i + 1] - 1.0, v[i + 2] - 1.0, v[i + 3] - 1.0
            p0, p1, p2, p3 = 0.0, 0.0, 0.0, 0.0
            d0, d1, d2, d3 = 0.0, 0.0, 0.0, 0.0
            for j in range(tail.shape[0]):
                x = tail[j]
                b0, b1, b2, b3 = x > l0, x > l1, x > l2, x > l3
                h0 = x - l0 if b0 else 0.0
                h1 = x - l1 if b1 else 0.0
                h2 = x - l2 if b2 else 0.0
                h3 = x - l3 if b3 else 0.0
                c0 = 1.0 if b0 else 0.0
                c1 = 1.0 if b1 else 0.0
                c2 = 1.0 if b2 else 0.0
                c3 = 1.0 if b3 else 0.0
                p0 += h0
                p1 += h1
                p2 += h2
                p3 += h3
                d0 += c0
                d1 += c1
                d2 += c2
                d3 += c3
                total += (h0 * h0 + h1 * h1) + (h2 * h2 + h3 * h3)
                tail_pull[j] -= (h0 + h1) + (h2 + h3)
                tail_degree[j] += (c0 + c1) + (c2 + c3)
            pull[i] += p0
            pull[i + 1] += p1
            pull[i + 2] += p2
            pull[i + 3] += p3
            degree[i] += d0
            degree[i + 1] += d1
            degree[i + 2] += d2
            degree[i + 3] += d3
            i += 4
        while i < end:
            l0, p0, d0 = v[i] - 1.0, 0.0, 0.0
            for j in range(tail.shape[0]):
                b0 = tail[j] > l0
                h0 = tail[j] - l0 if b0 else 0.0
                c0 = 1.0 if b0 else 0.0
                p0 += h0
                d0 += c0
                total += h0 * h0
                tail_pull[j] -= h0
                tail_degree[j] += c0
            pull[i] += p0
            degree[i] += d0
            i += 1
        start = end
    return total


@kernel(fastmath={"reassoc", "contract", "nsz"})
def _sum_all(v, z, lower, n, out):  # type: ignore[no-untyped-def]
    """Sum ``z`` over the partners in violated pairs of each place."""
    out[:n] = 0.0
    start = 0
    while start < n:
        end = lower[start]
        tail, tail_z, tail_out = v[end:n], z[end:n], out[end:n]
        i = start
        while i + 3 < end:
            l0, l1, l2, l3 = v[i] - 1.0, v[i + 1] - 1.0, v[i + 2] - 1.0, v[i + 3] - 1.0
            z0, z1, z2, z3 = z[i], z[i + 1], z[i + 2], z[i + 3]
            s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
            for j in range(tail.shape[0]):
                x, y = tail[j], tail_z[j]
                b0, b1, b2, b3 = x > l0, x > l1, x > l2, x > l3
                s0 += y if b0 else 0.0
                s1 += y if b1 else 0.0
                s2 += y if b2 else 0.0
                s3 += y if b3 else 0.0
                t0 = z0 if b0 else 0.0
                t1 = z1 if b1 else 0.0
                t2 = z2 if b2 else 0.0
                t3 = z3 if b3 else 0.0
                tail_out[j] += (t0 + t1) + (t2 + t3)
            out[i] += s0
            out[i + 1] += s1
            out[i + 2] += s2
            out[i + 3] += s3
            i += 4
        while i < end:
            l0, z0, s0 = v[i] - 1.0, z[i], 0.0
            for j in range(tail.shape[0]):
                b0 = tail[j] > l0
                s0 += tail_z[j] if b0 else 0.0
                tail_out[j] += z0 if b0 else 0.0
            out[i] += s0
            i += 1
        start = end


@kernel
def _number_grades(lower, n, grade):  # type: ignore[no-untyped-def]
    """Number the grade of each place from 1, the best; return how many there are."""
    n_grades = 0
    start = 0
    while start < n:
        n_grades += 1
        end = lower[start]
        grade[start:end] = n_grades
        start = end
    return n_grades


@kernel
def _sums_below(v, z, order, grade, n_grades, n, tree, counts, out, out_counts):  # type: ignore[no-untyped-def]
    """Sum ``z`` over, and count, the worse partners in violated pairs of each place."""
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
    """Sum ``z`` over, and count, the better partners in violated pairs of each place."""
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
def _tangent(  # type: ignore[no-untyped-def]
    scores,
    first,
    last,
    offsets,
    members,
    lower,
    pair_counts,
    compared_pairs,
    centred,
    degrees,
    orders,
    loss,
    coef,
):
    longest = 1
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    pull = np.empty(longest)
    below, above, n_below, n_above = (
        np.empty(longest),
        np.empty(longest),
        np.empty(longest),
        np.empty(longest),
    )
    grade = np.empty(longest, np.int64)
    tree, counts = np.empty(longest + 1), np.empty(longest + 1)
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
        mean = s.mean()  # only differences matter, and they are most precise near zero
        for p in range(n):
            v[p] = s[rows[p]] - mean
        if pair_counts[q] <= compared_pairs * n:
            value = _pull_all(v, lower[row0 : row0 + n], n, pull, degree)
        else:
            order = orders[row0 - base : row0 - base + n]
            order[:] = np.argsort(-v)
            n_grades = _number_grades(lower[row0 : row0 + n], n, grade)
            _sums_below(v, v, order, grade, n_grades, n, tree, counts, below, n_below)
            _sums_above(v, v, order, grade, n_grades, n, tree, counts, above, n_above)
            value = 0.0
            for p in range(n):
                # a pair's square is its violation h times 1 - v_i + v_j
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
        # coefficients sum to zero, so subtracting the mean from the scores does not matter
        loss[q - first] = unit * value + moment


@kernel
def _curvature(  # type: ignore[no-untyped-def]
    direction,
    first,
    last,
    offsets,
    members,
    lower,
    pair_counts,
    compared_pairs,
    centred,
    degrees,
    orders,
    coef,
):
    longest = 1
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    z, below, above, unused = np.empty(longest), np.empty(longest), np.empty(longest), np.empty(longest)
    grade = np.empty(longest, np.int64)
    tree, counts = np.empty(longest + 1), np.empty(longest + 1)
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
            n_grades = _number_grades(lower[row0 : row0 + n], n, grade)
            _sums_below(v, z, order, grade, n_grades, n, tree, counts, below, unused)
            _sums_above(v, z, order, grade, n_grades, n, tree, counts, above, unused)
        unit = 2.0 / pair_counts[q]
        for p in range(n):
            a[rows[p]] = unit * (below[p] + above[p] - degree[p] * z[p])
