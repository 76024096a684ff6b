"""Position-weighted joint features: NDCG, reciprocal rank and precision at k.

``Psi(x, y) = sum_j alpha(rank_j) phi_j`` with ``alpha`` non-increasing and zero beyond the cut-off. The
target is the mean of ``Psi`` over all rankings sorted by grade: documents of equal grade share the mean
``alpha`` of the positions they fill, so it does not depend on the order of the rows. Each of those rankings
has loss 0, hence the hinge is >= 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

from structsvm.protocols import Float, Int
from structsvm.queries import check_offsets

__all__ = ["NDCG", "PositionSeparator", "PrecisionAt", "ReciprocalRank"]

FeatureDiscount = Literal["log2", "inverse"]


@dataclass(frozen=True)
class NDCG:
    """Loss ``1 - NDCG@k``. A query whose documents all have the same gain carries no constraint.

    Parameters
    ----------
    k : int or None, default=10
        Cut-off of the measure and of the features. None: all positions.
    gain : {"exp2", "linear"}, default="exp2"
        Gain of grade ``y``: ``2^y - 1`` (the usual one for training) or ``y`` (that of trec_eval, the
        default of ``structsvm.metrics``). Negative labels have gain 0.
    feature_discount : {"log2", "inverse"}, default="log2"
        ``alpha(r)`` of the joint feature: ``1 / log2(r + 1)``, as in the measure, or ``1 / r``.

    Raises
    ------
    ValueError
        For a ``k`` below 1 or an unknown name; by ``bind`` if a label is so large that its gain overflows.

    Notes
    -----
    The most violated ranking assigns documents to positions, document ``j`` at ``r`` being worth ``alpha(r)
    s_j - gain_j discount(r) / ideal`` (Chapelle, Le and Smola 2007). When ``alpha`` is the discount of the
    measure the value is a product, ``alpha(r) (s_j - gain_j / ideal)``, and sorting by the bracket is
    exact: one selection of ``k`` of ``n`` documents. Otherwise shortest augmenting paths solve the
    assignment. Documents of one gain differ by score alone, so the best ``k`` of each gain are enough:
    O(k^2 min(n, k * gains)); with ``k=None`` that is O(n^3), to be used on short queries.

    Examples
    --------
    >>> import numpy as np
    >>> separator = NDCG(k=1).bind(np.array([0.0, 1.0]), np.array([0, 2]))
    >>> loss, coef = np.empty(1), np.empty(2)
    >>> separator.separate(np.array([0.0, 0.5]), 0, 1, loss, coef)
    >>> loss, coef
    (array([1.]), array([-1.,  1.]))
    """

    k: int | None = 10
    gain: Literal["exp2", "linear"] = "exp2"
    feature_discount: FeatureDiscount = "log2"

    def __post_init__(self) -> None:
        _check_cut_off(self, self.k)
        _check_name(self, "feature_discount", self.feature_discount, ("log2", "inverse"))
        _check_name(self, "gain", self.gain, ("exp2", "linear"))

    def bind(self, y: Float, offsets: Int) -> PositionSeparator:
        """Bind to labels ``y`` (n_rows,) grouped by ``offsets`` (n_queries + 1,)."""
        check_offsets(offsets, np.shape(y)[0])
        grades = np.maximum(np.asarray(y, dtype=np.float64), 0.0)
        if self.gain == "linear":
            gains = grades
        else:
            with np.errstate(over="ignore"):
                gains = np.exp2(grades) - 1.0
        longest, k = _depth(offsets, self.k)
        with np.errstate(over="ignore"):
            overflows = not np.isfinite(gains.sum())
        if overflows:
            raise ValueError(
                f"NDCG(gain={self.gain!r}): expected labels whose gains have a finite sum, got a label "
                f"{grades.max():g}; use gain='linear' or smaller grades"
            )
        alpha = _position_weights(self.feature_discount, longest, k)
        discount = _position_weights("log2", longest, k)
        members, group_end, target = _rank_ideally(grades, offsets, alpha)
        share, informative = _gain_shares(gains, grades, offsets, members, discount)
        if self.feature_discount == "log2":
            return PositionSeparator(_separate_sorting, offsets, informative, (target, share, alpha, k))
        return PositionSeparator(
            _separate_assigning, offsets, informative, (target, share, alpha, discount, k, members, group_end)
        )


@dataclass(frozen=True)
class ReciprocalRank:
    """Loss ``1 - 1/rank`` of the first relevant document (MRR).

    A query with ``P = 0`` or ``N = 0`` carries no constraint.

    Parameters
    ----------
    k : int or None, default=None
        Cut-off of the measure (no relevant document in the first ``k`` has loss 1) and of the features.
        None: all positions.
    relevance : float, default=1.0
        A document is relevant when its label is at least this.
    feature_discount : {"log2", "inverse"}, default="log2"
        ``alpha(r)`` of the joint feature: ``1 / log2(r + 1)`` or ``1 / r``.

    Raises
    ------
    ValueError
        For a ``k`` below 1 or an unknown name.

    Notes
    -----
    Search over the rank ``r`` of the first relevant document. Given ``r``, exchanging two documents of one
    kind shows that the best non-relevant stand above it, the best relevant at ``r`` and all others sorted
    below. The score part of the value falls as ``r`` moves down from the rank in the list sorted by score,
    so the search starts there and stops when the loss still to be gained cannot pay. From ``r`` to ``r +
    1`` one non-relevant document passes the relevant ones that beat it, which is what a step costs: a sort
    and at most O(P N), usually far less.

    Examples
    --------
    >>> import numpy as np
    >>> separator = ReciprocalRank().bind(np.array([0.0, 1.0]), np.array([0, 2]))
    >>> loss, coef = np.empty(1), np.empty(2)
    >>> separator.separate(np.array([0.0, 0.5]), 0, 1, loss, coef)
    >>> loss, coef.round(3)
    (array([0.5]), array([-0.369,  0.369]))
    """

    k: int | None = None
    relevance: float = 1.0
    feature_discount: FeatureDiscount = "log2"

    def __post_init__(self) -> None:
        _check_cut_off(self, self.k)
        _check_name(self, "feature_discount", self.feature_discount, ("log2", "inverse"))

    def bind(self, y: Float, offsets: Int) -> PositionSeparator:
        """Bind to labels ``y`` (n_rows,) grouped by ``offsets`` (n_queries + 1,)."""
        check_offsets(offsets, np.shape(y)[0])
        relevant = (np.asarray(y) >= self.relevance).astype(np.float64)
        longest, k = _depth(offsets, self.k)
        alpha = _position_weights(self.feature_discount, longest, k)
        reciprocal = _position_weights("inverse", longest, k)
        members, _, target = _rank_ideally(relevant, offsets, alpha)
        n_relevant = _sum_by_query(relevant, offsets)
        informative = (n_relevant > 0) & (n_relevant < np.diff(offsets))
        return PositionSeparator(
            _separate_first_relevant,
            offsets,
            informative,
            (target, alpha, reciprocal, k, members, n_relevant),
        )


@dataclass(frozen=True)
class PrecisionAt:
    """Loss ``1 - t / min(k, P)`` with ``t`` relevant documents in the first ``k``.

    A query carries no constraint when the loss is 0 for every ranking: ``P = 0``, ``N = 0`` or no more than
    ``k`` documents.

    Parameters
    ----------
    k : int, default=10
        Cut-off of the measure and of the features.
    relevance : float, default=1.0
        A document is relevant when its label is at least this.
    feature_discount : {"log2", "inverse"}, default="log2"
        ``alpha(r)`` of the joint feature: ``1 / log2(r + 1)`` or ``1 / r``.

    Raises
    ------
    ValueError
        For a ``k`` below 1 or an unknown name.

    Notes
    -----
    Search over ``t``: the first ``k`` hold the best ``t`` relevant and the best ``k - t`` non-relevant
    documents, sorted by score. The score part falls as ``t`` moves down from its value in the list sorted
    by score; a step replaces the last relevant document by a non-relevant one at place ``k`` and costs
    O(k). With the selection of the best ``k`` of each kind: O(n + k^2).

    Examples
    --------
    >>> import numpy as np
    >>> separator = PrecisionAt(k=1).bind(np.array([0.0, 1.0]), np.array([0, 2]))
    >>> loss, coef = np.empty(1), np.empty(2)
    >>> separator.separate(np.array([0.0, 0.5]), 0, 1, loss, coef)
    >>> loss, coef
    (array([1.]), array([-1.,  1.]))
    """

    k: int = 10
    relevance: float = 1.0
    feature_discount: FeatureDiscount = "log2"

    def __post_init__(self) -> None:
        if self.k is None:
            raise ValueError("PrecisionAt(k=...): expected an int >= 1, got None")
        _check_cut_off(self, self.k)
        _check_name(self, "feature_discount", self.feature_discount, ("log2", "inverse"))

    def bind(self, y: Float, offsets: Int) -> PositionSeparator:
        """Bind to labels ``y`` (n_rows,) grouped by ``offsets`` (n_queries + 1,)."""
        check_offsets(offsets, np.shape(y)[0])
        relevant = (np.asarray(y) >= self.relevance).astype(np.float64)
        longest, k = _depth(offsets, self.k)
        alpha = _position_weights(self.feature_discount, longest, k)
        members, _, target = _rank_ideally(relevant, offsets, alpha)
        n_relevant = _sum_by_query(relevant, offsets)
        lengths = np.diff(offsets)
        informative = (n_relevant > 0) & (n_relevant < lengths) & (lengths > self.k)
        return PositionSeparator(
            _separate_counting, offsets, informative, (target, alpha, k, members, n_relevant)
        )


class PositionSeparator:
    """A position-weighted oracle bound to labels: its kernel and what the kernel needs to know of them."""

    exact = True

    def __init__(
        self,
        kernel: Callable[..., None],
        offsets: Int,
        informative: NDArray[np.bool_],
        settings: tuple[Any, ...],
    ) -> None:
        self._kernel = kernel
        self._offsets = offsets
        self._settings = settings
        self.informative = informative

    def separate(self, scores: Float, first: int, last: int, loss: Float, coef: Float) -> None:
        """See :class:`structsvm.protocols.Separator`."""
        self._kernel(scores, first, last, self._offsets, self.informative, self._settings, loss, coef)


def _check_cut_off(oracle: object, k: int | None) -> None:
    if k is not None and (isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1):
        raise ValueError(f"{type(oracle).__name__}(k=...): expected an int >= 1, got {k!r}")


def _check_name(oracle: object, parameter: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        names = " or ".join(map(repr, known))
        raise ValueError(f"{type(oracle).__name__}({parameter}=...): expected {names}, got {value!r}")


def _depth(offsets: Int, k: int | None) -> tuple[int, int]:
    """Length of the longest query, and how many positions count there."""
    longest = int(np.diff(offsets).max(initial=1))
    return longest, longest if k is None else min(int(k), longest)


def _position_weights(name: FeatureDiscount, longest: int, k: int) -> Float:
    """Weight of position ``r`` at index ``r - 1``; zero beyond ``k``, also just beyond the longest query."""
    rank = np.arange(1.0, longest + 2)
    weights: Float = 1.0 / np.log2(rank + 1.0) if name == "log2" else 1.0 / rank
    weights[k:] = 0.0
    return weights


def _sum_by_query(values: Float, offsets: Int) -> Int:
    running = np.concatenate(([0.0], np.cumsum(values)))
    sums: Int = np.diff(running[offsets]).astype(np.int64)
    return sums


# The sort stands alike in average_precision.py, pairs.py and positions.py (tests/oracles/test_sorting.py): Numba does
# not notice that a kernel in another file was edited, so a cached kernel must not call one.
_BLOCK = 128
"""Values sorted by counting; longer stretches are merged from such blocks."""


@njit(cache=True, nogil=True, error_model="numpy")
def _sort_buffers(n):  # type: ignore[no-untyped-def]
    """What ``_sort_descending`` needs: room for ``n`` values and their rows, for the keys and places of a block."""
    return np.empty(n), np.empty(n, np.int32), np.empty(_BLOCK, np.float32), np.empty(_BLOCK, np.int32)


@njit(cache=True, nogil=True, error_model="numpy")
def _count_places(values, n, keys, places):  # type: ignore[no-untyped-def]
    """For each value how many are larger, after rounding all to float32; False where that leaves ties.

    Rounding keeps the order, so without ties these are the places of a stable sort. Four values share each load, and
    the keys are padded to whole unrolled vectors: short loops would otherwise spend their time on what is left over.
    """
    padded = np.uint64((n + 31) // 32 * 32)
    for i in range(n):
        keys[i] = np.float32(values[i])
    for i in range(np.uint64(n), padded):
        keys[i] = -np.inf
    for i in range(0, n, 4):
        v0, v1, v2, v3 = keys[i], keys[i + 1], keys[i + 2], keys[i + 3]
        p0, p1, p2, p3 = np.int32(0), np.int32(0), np.int32(0), np.int32(0)
        for j in range(padded):
            x = keys[j]
            p0 = np.int32(p0 + np.int32(x > v0))
            p1 = np.int32(p1 + np.int32(x > v1))
            p2 = np.int32(p2 + np.int32(x > v2))
            p3 = np.int32(p3 + np.int32(x > v3))
        places[i], places[i + 1], places[i + 2], places[i + 3] = p0, p1, p2, p3
    total = 0
    for i in range(n):
        total += places[i]
    return total == n * (n - 1) // 2  # of equal keys each has the place of the first: the sum falls short


@njit(cache=True, nogil=True, error_model="numpy")
def _sort_block(values, rows, n, out_values, out_rows):  # type: ignore[no-untyped-def]
    """Descending stable sort of a few values by counting for each how many precede it.

    No branch depends on the data, and the loops run over slices from 0: otherwise a check for negative indices
    keeps the compiler from vectorising them (3 to 5 times slower).
    """
    i = 0
    while i + 3 < n:
        v0, v1, v2, v3 = values[i], values[i + 1], values[i + 2], values[i + 3]
        # among the four: an earlier one precedes a later one that is not larger
        b01, b02, b03 = np.int64(v0 >= v1), np.int64(v0 >= v2), np.int64(v0 >= v3)
        b12, b13, b23 = np.int64(v1 >= v2), np.int64(v1 >= v3), np.int64(v2 >= v3)
        p0, p1, p2, p3 = 3 - b01 - b02 - b03, 2 + b01 - b12 - b13, 1 + b02 + b12 - b23, b03 + b13 + b23
        head = values[:i]
        for j in range(head.shape[0]):
            x = head[j]
            p0 += np.int64(x >= v0)
            p1 += np.int64(x >= v1)
            p2 += np.int64(x >= v2)
            p3 += np.int64(x >= v3)
        tail = values[i + 4 : n]
        for j in range(tail.shape[0]):
            x = tail[j]
            p0 += np.int64(x > v0)
            p1 += np.int64(x > v1)
            p2 += np.int64(x > v2)
            p3 += np.int64(x > v3)
        out_values[p0], out_values[p1], out_values[p2], out_values[p3] = v0, v1, v2, v3
        out_rows[p0], out_rows[p1], out_rows[p2], out_rows[p3] = (
            rows[i],
            rows[i + 1],
            rows[i + 2],
            rows[i + 3],
        )
        i += 4
    while i < n:
        v = values[i]
        place = np.int64(0)
        head = values[:i]
        for j in range(head.shape[0]):
            place += np.int64(head[j] >= v)
        tail = values[i + 1 : n]
        for j in range(tail.shape[0]):
            place += np.int64(tail[j] > v)
        out_values[place] = v
        out_rows[place] = rows[i]
        i += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _merge(source, source_rows, i, i_end, j_end, target, target_rows):  # type: ignore[no-untyped-def]
    """Merge the descending ``source[i:i_end]`` and ``source[i_end:j_end]`` into ``target[i:j_end]``."""
    j = i_end
    for k in range(i, j_end):
        if i < i_end and (j >= j_end or source[i] >= source[j]):
            target[k] = source[i]
            target_rows[k] = source_rows[i]
            i += 1
        else:
            target[k] = source[j]
            target_rows[k] = source_rows[j]
            j += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _sort_descending(values, rows, n, spare):  # type: ignore[no-untyped-def]
    """Stable descending sort of ``values[:n]`` with ``rows[:n]`` in place.

    Small, so that the compiler puts it where it is called.
    """
    spare_values, spare_rows, keys, places = spare
    if n <= _BLOCK and _count_places(values, n, keys, places):
        for i in range(n):
            place = np.uint32(places[i])
            spare_values[place] = values[i]
            spare_rows[place] = rows[i]
        for i in range(n):
            values[i] = spare_values[i]
            rows[i] = spare_rows[i]
    else:
        _sort_with_ties(values, rows, n, spare_values, spare_rows)


@njit(cache=True, nogil=True, error_model="numpy")
def _sort_with_ties(values, rows, n, spare_values, spare_rows):  # type: ignore[no-untyped-def]
    """The same for any values and any number of them, by merging counted blocks."""
    width = _BLOCK
    for start in range(0, n, width):
        m = min(width, n - start)
        _sort_block(values[start:], rows[start:], m, spare_values[start:], spare_rows[start:])
    source, source_rows = spare_values, spare_rows
    target, target_rows = values, rows
    while width < n:
        for start in range(0, n, 2 * width):
            _merge(
                source,
                source_rows,
                start,
                min(start + width, n),
                min(start + 2 * width, n),
                target,
                target_rows,
            )
        source, target = target, source
        source_rows, target_rows = target_rows, source_rows
        width *= 2
    if source is spare_values:
        for i in range(n):
            values[i] = spare_values[i]
            rows[i] = spare_rows[i]


@njit(cache=True, nogil=True, error_model="numpy")
def _top(values, n, k, out_values, out_rows, spare):  # type: ignore[no-untyped-def]
    """The first ``k`` of ``values[:n]`` in descending order, ties by row; the buffers have room for ``n``."""
    if k > 32:
        for i in range(n):
            out_values[i] = values[i]
            out_rows[i] = i
        _sort_descending(out_values, out_rows, n, spare)
        return
    held = 0
    for i in range(n):
        v = values[i]
        if held < k:
            j = held
            held += 1
        elif v > out_values[k - 1]:
            j = k - 1
        else:
            continue
        while j > 0 and out_values[j - 1] < v:
            out_values[j] = out_values[j - 1]
            out_rows[j] = out_rows[j - 1]
            j -= 1
        out_values[j] = v
        out_rows[j] = i


@njit(cache=True, nogil=True, error_model="numpy")
def _rank_ideally(grades, offsets, alpha):  # type: ignore[no-untyped-def]
    """Rows by descending grade, where each grade ends, and every row's mean ``alpha``."""
    longest = alpha.shape[0]
    values, rows = np.empty(longest), np.empty(longest, np.int32)
    spare = _sort_buffers(longest)
    members = np.empty(grades.shape[0], np.int32)
    group_end = np.empty(grades.shape[0], np.int32)
    target = np.empty(grades.shape[0])
    for q in range(offsets.shape[0] - 1):
        row0 = offsets[q]
        n = offsets[q + 1] - row0
        for i in range(n):
            values[i] = grades[row0 + i]
            rows[i] = i
        _sort_descending(values, rows, n, spare)
        start = 0
        while start < n:
            end = start
            total = 0.0
            while end < n and values[end] == values[start]:
                total += alpha[end]
                end += 1
            for i in range(start, end):
                members[row0 + i] = rows[i]
                group_end[row0 + i] = end
                target[row0 + rows[i]] = total / (end - start)
            start = end
    return members, group_end, target


@njit(cache=True, nogil=True, error_model="numpy")
def _gain_shares(gains, grades, offsets, members, discount):  # type: ignore[no-untyped-def]
    """Gains divided by the ideal DCG of the query, and whether the grades of a query differ."""
    share = np.zeros(gains.shape[0])
    informative = np.zeros(offsets.shape[0] - 1, np.bool_)
    for q in range(offsets.shape[0] - 1):
        row0, end = offsets[q], offsets[q + 1]
        if row0 == end or grades[row0 + members[row0]] == grades[row0 + members[end - 1]]:
            continue
        informative[q] = True
        ideal = 0.0
        for i in range(row0, end):
            ideal += gains[row0 + members[i]] * discount[i - row0]
        for i in range(row0, end):
            share[i] = gains[i] / ideal
    return share, informative


@njit(cache=True, nogil=True, error_model="numpy")
def _separate_sorting(scores, first, last, offsets, informative, settings, loss, coef):  # type: ignore[no-untyped-def]
    """NDCG with the discount of the measure: the ranking by ``s_j - gain_j / ideal``."""
    target, share, alpha, depth = settings
    longest = 1
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    key, best = np.empty(longest), np.empty(longest)
    spare = _sort_buffers(longest)
    rows = np.empty(longest, np.int32)
    base = offsets[first]
    for q in range(first, last):
        row0 = offsets[q]
        n = offsets[q + 1] - row0
        a = coef[row0 - base : row0 - base + n]
        loss[q - first] = 0.0
        if not informative[q]:
            a[:] = 0.0
            continue
        s = scores[row0 - base : row0 - base + n]
        gain = share[row0 : row0 + n]
        ideal = target[row0 : row0 + n]
        for i in range(n):
            key[i] = s[i] - gain[i]
            a[i] = ideal[i]
        k = min(depth, n)
        _top(key, n, k, best, rows, spare)
        reached = 0.0
        for p in range(k):
            a[rows[p]] -= alpha[p]
            reached += alpha[p] * gain[rows[p]]
        loss[q - first] = max(0.0, 1.0 - reached)


@njit(cache=True, nogil=True, error_model="numpy")
def _assign(s, gain, alpha, discount, k, m, taken_by, worth, price, path, slack, done):  # type: ignore[no-untyped-def]
    """Best assignment of ``m >= k`` documents to ``k`` positions.

    ``taken_by[1 + j]`` is the position of document ``j``, counted from 1, or 0. Shortest augmenting paths
    with prices (Kuhn-Munkres): position after position finds the cheapest chain of moves that frees a
    document. Document 0 is where a chain starts.
    """
    worth[: k + 1] = 0.0
    taken_by[: m + 1] = 0
    price[: m + 1] = 0.0
    for p in range(1, k + 1):
        taken_by[0] = p
        slack[: m + 1] = np.inf
        done[: m + 1] = False
        here = 0
        while taken_by[here] != 0:
            done[here] = True
            r = taken_by[here]
            step, nearest = np.inf, 0
            for j in range(1, m + 1):
                if not done[j]:
                    reduced = gain[j - 1] * discount[r - 1] - alpha[r - 1] * s[j - 1] - worth[r] - price[j]
                    if reduced < slack[j]:
                        slack[j] = reduced
                        path[j] = here
                    if slack[j] < step:
                        step = slack[j]
                        nearest = j
            for j in range(m + 1):
                if done[j]:
                    worth[taken_by[j]] += step
                    price[j] -= step
                else:
                    slack[j] -= step
            here = nearest
        while here != 0:
            taken_by[here] = taken_by[path[here]]
            here = path[here]


@njit(cache=True, nogil=True, error_model="numpy")
def _separate_assigning(scores, first, last, offsets, informative, settings, loss, coef):  # type: ignore[no-untyped-def]
    """NDCG with features discounted otherwise than the measure: a linear assignment."""
    target, share, alpha, discount, depth, members, group_end = settings
    longest = 1
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    group, best = np.empty(longest), np.empty(longest)
    spare = _sort_buffers(longest)
    rows = np.empty(longest, np.int32)
    chosen = np.empty(longest, np.int32)
    chosen_scores, chosen_gains = np.empty(longest), np.empty(longest)
    taken_by, path = np.empty(longest + 1, np.int64), np.empty(longest + 1, np.int64)
    worth, price, slack = np.empty(longest + 1), np.empty(longest + 1), np.empty(longest + 1)
    done = np.empty(longest + 1, np.bool_)
    base = offsets[first]
    for q in range(first, last):
        row0 = offsets[q]
        n = offsets[q + 1] - row0
        a = coef[row0 - base : row0 - base + n]
        loss[q - first] = 0.0
        if not informative[q]:
            a[:] = 0.0
            continue
        s = scores[row0 - base : row0 - base + n]
        gain = share[row0 : row0 + n]
        a[:] = target[row0 : row0 + n]
        k = min(depth, n)
        n_chosen = 0
        start = 0
        while start < n:
            end = group_end[row0 + start]
            for i in range(start, end):
                group[i - start] = s[members[row0 + i]]
            kept = min(k, end - start)
            _top(group, end - start, kept, best, rows, spare)
            for i in range(kept):
                row = members[row0 + start + rows[i]]
                chosen[n_chosen] = row
                chosen_scores[n_chosen] = s[row]
                chosen_gains[n_chosen] = gain[row]
                n_chosen += 1
            start = end
        _assign(
            chosen_scores,
            chosen_gains,
            alpha,
            discount,
            k,
            n_chosen,
            taken_by,
            worth,
            price,
            path,
            slack,
            done,
        )
        reached = 0.0
        for j in range(n_chosen):
            p = taken_by[j + 1] - 1
            if p >= 0:
                a[chosen[j]] -= alpha[p]
                reached += chosen_gains[j] * discount[p]
        loss[q - first] = max(0.0, 1.0 - reached)


@njit(cache=True, nogil=True, error_model="numpy")
def _separate_first_relevant(  # type: ignore[no-untyped-def]
    scores, first, last, offsets, informative, settings, loss, coef
):
    """Reciprocal rank: search over the number of non-relevant documents above the first relevant one."""
    target, alpha, reciprocal, depth, members, n_relevant = settings
    longest = 1
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    part = np.empty(longest)
    rel, rel_rows = np.empty(longest), np.empty(longest, np.int32)
    non, non_rows = np.empty(longest), np.empty(longest, np.int32)
    spare = _sort_buffers(longest)
    base = offsets[first]
    for q in range(first, last):
        row0 = offsets[q]
        n = offsets[q + 1] - row0
        a = coef[row0 - base : row0 - base + n]
        loss[q - first] = 0.0
        if not informative[q]:
            a[:] = 0.0
            continue
        s = scores[row0 - base : row0 - base + n]
        a[:] = target[row0 : row0 + n]
        k = min(depth, n)
        n_rel = n_relevant[q]
        n_non = n - n_rel
        rel_members = members[row0 : row0 + n_rel]
        non_members = members[row0 + n_rel : row0 + n]
        for i in range(n_rel):
            part[i] = s[rel_members[i]]
        _top(part, n_rel, min(k, n_rel), rel, rel_rows, spare)
        for j in range(n_non):
            part[j] = s[non_members[j]]
        _top(part, n_non, min(k, n_non), non, non_rows, spare)
        # only the first k of each can stand in the first k positions
        n_rel, n_non = min(k, n_rel), min(k, n_non)
        above = 0
        while above < n_non and non[above] > rel[0]:
            above += 1
        best_above = above
        best = -reciprocal[above]
        cost = 0.0
        while above < n_non and -reciprocal[n_non] - cost > best:
            # non-relevant number `above` passes the relevant documents that beat it
            z = non[above]
            i = 0
            while i < n_rel and above + i < k and (i == 0 or rel[i] > z):
                cost += (rel[i] - z) * (alpha[above + i] - alpha[above + i + 1])
                i += 1
            above += 1
            if -reciprocal[above] - cost > best:
                best = -reciprocal[above] - cost
                best_above = above
        loss[q - first] = 1.0 - reciprocal[best_above]
        for j in range(best_above):
            a[non_members[non_rows[j]]] -= alpha[j]
        i, j = 0, best_above
        for p in range(best_above, k):
            if i < n_rel and (i == 0 or j >= n_non or rel[i] >= non[j]):
                a[rel_members[rel_rows[i]]] -= alpha[p]
                i += 1
            else:
                a[non_members[non_rows[j]]] -= alpha[p]
                j += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _separate_counting(scores, first, last, offsets, informative, settings, loss, coef):  # type: ignore[no-untyped-def]
    """Precision at k: search over the number of relevant documents in the first k."""
    target, alpha, k, members, n_relevant = settings
    longest = 1
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    part = np.empty(longest)
    rel, rel_rows = np.empty(longest), np.empty(longest, np.int32)
    non, non_rows = np.empty(longest), np.empty(longest, np.int32)
    spare = _sort_buffers(longest)
    base = offsets[first]
    for q in range(first, last):
        row0 = offsets[q]
        n = offsets[q + 1] - row0
        a = coef[row0 - base : row0 - base + n]
        loss[q - first] = 0.0
        if not informative[q]:
            a[:] = 0.0
            continue
        s = scores[row0 - base : row0 - base + n]
        a[:] = target[row0 : row0 + n]
        n_rel = n_relevant[q]
        n_non = n - n_rel
        rel_members = members[row0 : row0 + n_rel]
        non_members = members[row0 + n_rel : row0 + n]
        for i in range(n_rel):
            part[i] = s[rel_members[i]]
        _top(part, n_rel, min(k, n_rel), rel, rel_rows, spare)
        for j in range(n_non):
            part[j] = s[non_members[j]]
        _top(part, n_non, min(k, n_non), non, non_rows, spare)
        n_rel, n_non = min(k, n_rel), min(k, n_non)
        # t relevant documents in the first k of the list sorted by score
        t = 0
        for p in range(k):
            j = p - t
            if t < n_rel and (j >= n_non or rel[t] > non[j]):
                t += 1
        fewest = max(0, k - n_non)
        best_t = t
        best = -t / n_rel
        cost = 0.0
        above = k - t
        while t > fewest and -fewest / n_rel - cost > best:
            # relevant number t leaves place t + above, the non-relevant below it move up, one more takes
            # place k
            z = rel[t - 1]
            while above > 0 and non[above - 1] < z:
                above -= 1
            for j in range(above, k - t + 1):
                p = t - 1 + j
                cost += (z - non[j]) * (alpha[p] - alpha[p + 1])
            t -= 1
            if -t / n_rel - cost > best:
                best = -t / n_rel - cost
                best_t = t
        loss[q - first] = 1.0 - best_t / n_rel
        i, j = 0, 0
        for p in range(k):
            if i < best_t and (j >= k - best_t or rel[i] >= non[j]):
                a[rel_members[rel_rows[i]]] -= alpha[p]
                i += 1
            else:
                a[non_members[non_rows[j]]] -= alpha[p]
                j += 1
