"""Exact selection of the best documents of a candidate set, by branch and bound.

The value of a subset is a coverage function whose elements may have weights of either sign: greedy selection then has
no guarantee, and general integer programming takes minutes for a hundred documents. Small subsets are tractable because
pairs nearly determine the value of a few documents. If ``m`` of the ``r`` documents still to choose cover an element,
``[m > 0]`` is at most ``m - (2 / r) C(m, 2)`` and at least ``(2 m - (2 / t) C(m, 2)) / (t + 1)`` for every integer
``t > 0`` (Dawson and Sankoff 1967), so single gains and the weights shared by pairs bound the value of any choice. The
last three documents are found by visiting all triples:
``w(abc) = sum of gains - sum of weights shared by two + weights shared by three``, the last of which is computed only
if the bound does not exclude the triple.

For subsets of seven documents or more, these bounds are weak. Choosing five of a hundred takes about a tenth of a
second.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structsvm import SVMDiv
from structsvm.common.candidates import CandidateSet, Coverage
from structsvm.common.kernel import kernel
from structsvm.common.portable.sums import matmul, products
from structsvm.oracles.selection import Selection, in_greedy_order, swap
from structsvm.protocols import Float, Int


def exact_choices(model: SVMDiv, sets: list[CandidateSet]) -> list[Selection]:
    """Return the ``model.k`` documents of each set with the largest value by a fitted model."""
    features, benefits = model._word_features(model.levels_), model.benefits_.ravel()
    choices = []
    for one in sets:
        coverage, values = model._value(features, one)
        choices.append(best_subset(coverage, benefits, values, model.k))
    return choices


def best_subset(coverage: Coverage, benefits: Float, values: Float, k: int) -> Selection:
    """Return the best ``k`` documents; the arguments are those of :func:`structsvm.oracles.greedy`.

    They are in the order in which greedy selection would choose them, and optimal up to rounding (1e-12 of the sum of
    all weights).
    """
    start = swap(coverage, benefits, values, k)
    if k >= coverage.n_documents:
        return start
    best = _search(*_elements(coverage, benefits, values, k), k, start.chosen)
    selection = in_greedy_order(coverage, benefits, values, np.sort(best))
    return selection if selection.value > start.value else start


def _elements(coverage: Coverage, benefits: Float, values: Float, k: int) -> tuple[Float, Int, Any, Float]:
    """Return the value of each single document, and weighted elements, one per distinct set of documents."""
    # Elements that occur in the same documents are merged, and their weights are added. An element of only one document
    # is part of the value of this document.
    n = coverage.n_documents
    linear = values + products(coverage.counts, benefits)
    by_documents: dict[bytes, float] = {}
    documents, start = coverage.element_documents, coverage.element_start.tolist()
    gains = benefits[coverage.element_bin]
    owner = np.repeat(np.arange(gains.shape[0]), np.diff(coverage.element_start))
    linear -= np.bincount(documents, weights=gains[owner], minlength=n)
    for e, gain in enumerate(gains.tolist()):
        key = documents[start[e] : start[e + 1]].tobytes()
        by_documents[key] = by_documents.get(key, 0.0) + gain
    sets, weights = [], []
    for key, weight in by_documents.items():
        members = np.frombuffer(key, dtype=np.int32)
        if weight != 0 and members.shape[0] <= n - k:  # an element that every k documents cover is a constant
            sets.append(members)
            weights.append(weight)
    sizes = np.array([0, *(s.shape[0] for s in sets)], dtype=np.int64)
    joined = np.concatenate(sets) if sets else np.zeros(0, dtype=np.int32)
    return linear, np.cumsum(sizes), joined, np.array(weights, dtype=np.float64)


class _Elements(NamedTuple):
    """Weighted elements and the documents that contain them, by document and by element."""

    doc_start: Int
    doc_elements: NDArray[np.int32]
    start: Int
    documents: Any
    weights: Float
    member: NDArray[np.bool_]
    """(n_elements, n_documents)."""


class _Levels(NamedTuple):
    """The remaining candidate documents at each depth of the tree; at depth ``j``, ``j`` documents are chosen."""

    ids: Int
    gain: Float
    """Gain in value from adding each document to the chosen documents."""
    against: Float
    """Absolute value of the part of the gain from elements of negative weight."""
    shared: Float
    """(depths, 2, n, n): weights of uncovered elements that two documents share: positive weights, and negative weights
    without sign."""
    bounds: Float
    """Bound on every choice that includes a document, in descending order."""
    order: Int
    """The documents in the order of the bounds."""
    size: Int
    position: Int
    """Number of documents tried so far at each depth, in order."""
    fixed: Float
    """Value of the chosen documents."""


class _Best(NamedTuple):
    """The path of the search, and the best choice so far."""

    path: Int
    covered: NDArray[np.int32]
    """Depth at which each element was covered, 0 if it is not covered."""
    chosen: Int
    value: Float
    """Number of documents in ``chosen``, an array of length 1."""


def _search(
    linear: Float, element_start: Int, element_documents: Any, weights: Float, k: int, known: Int
) -> Int:
    """Search the tree of partial choices from a known choice; return the best one."""
    n, n_elements, depths = linear.shape[0], weights.shape[0], max(1, k - 2)
    tolerance = 1e-12 * (float(np.abs(linear).sum()) + float(np.abs(weights).sum()))
    element_of = np.repeat(np.arange(n_elements), np.diff(element_start))
    by_document = np.argsort(element_documents, kind="stable")
    member = np.zeros((n_elements, n), dtype=np.bool_)
    member[element_of, element_documents] = True
    elements = _Elements(
        np.append(0, np.cumsum(np.bincount(element_documents, minlength=n))),
        element_of[by_document].astype(np.int32),
        element_start,
        element_documents,
        weights,
        member,
    )
    levels = _Levels(
        np.zeros((depths, n), np.int64),
        np.zeros((depths, n)),
        np.zeros((depths, n)),
        np.zeros((depths, 2, n, n)),
        np.full((depths, n), np.inf),
        np.zeros((depths, n), np.int64),
        np.zeros(depths, np.int64),
        np.zeros(depths, np.int64),
        np.zeros(depths),
    )
    value = linear[known].sum() + weights[member[:, known].any(axis=1)].sum()
    best = _Best(
        np.zeros(max(k, 1), np.int64), np.zeros(n_elements, np.int32), known.copy(), np.array([value])
    )
    # at the root nothing is chosen: two documents share the weights of the elements that both contain
    signed = np.where(member, weights[:, None], 0.0)
    levels.ids[0], levels.size[0] = np.arange(n), n
    levels.gain[0] = linear + signed.sum(axis=0)
    levels.against[0] = np.maximum(-signed, 0.0).sum(axis=0)
    levels.shared[0, 0] = matmul(np.maximum(signed, 0.0).T, member.astype(np.float64))
    levels.shared[0, 1] = matmul(np.maximum(-signed, 0.0).T, member.astype(np.float64))
    _descend(k, tolerance, elements, levels, best, np.empty((3, n)), np.empty((2, n), np.int64))
    return best.chosen


@kernel
def _insert(top, held, most, value):
    """Insert a value into a descending list of at most ``most`` values, which holds ``held``; return its new length."""
    if held < most:
        rank = held
        held += 1
    elif value > top[most - 1]:
        rank = most - 1
    else:
        return held
    while rank > 0 and top[rank - 1] < value:
        top[rank] = top[rank - 1]
        rank -= 1
    top[rank] = value
    return held


@kernel
def _bound(r, n, fixed, gain, against, shared, bounds, order, room):
    """Compute, for each document, a bound on every choice of ``r`` documents that includes it, and sort the bounds."""
    # The inequalities of the module's docstring bound the value of r documents by a sum over singles and pairs. For a
    # fixed document d, the pairs with d are exact. The pairs among the other documents are bounded by half the sum of
    # the best r - 2 pairs of each document (``half``), because each pair is counted from both ends. The best r - 1
    # other documents complete the choice. Each integer t gives a valid bound for elements of negative weight; the
    # minimum over t is used.
    single, half, top = room[0], room[1], room[2]
    bounds[:n] = np.inf
    for t in range(1, min(r, 4)):
        up, down = -2.0 / r, 2.0 / (t * (t + 1.0))
        for d in range(n):
            single[d] = gain[d] + (1.0 - 2.0 / (t + 1.0)) * against[d]
            # half the sum of the best r - 2 pairs
            filled = np.int64(0)
            for other in range(n):
                if other == d:
                    continue
                value = up * shared[0, d, other] + down * shared[1, d, other]
                filled = _insert(top, filled, r - 2, value)
            half[d] = 0.0
            for i in range(filled):
                half[d] += 0.5 * top[i]
        for d in range(n):
            filled = np.int64(0)
            for other in range(n):
                if other == d:
                    continue
                value = single[other] + half[other] + up * shared[0, d, other] + down * shared[1, d, other]
                filled = _insert(top, filled, r - 1, value)
            total = fixed + single[d]
            for i in range(filled):
                total += top[i]
            bounds[d] = min(bounds[d], total)
    # a loop, because slice assignment adds code for error messages about shapes, which takes a second to compile
    for i in range(n):
        single[i] = -bounds[i]
    ranked = np.argsort(single[:n])
    for i in range(n):
        order[i] = ranked[i]
        bounds[i] = -single[ranked[i]]


@kernel(inline="always")
def _finish(r, n, tolerance, fixed, ids, gain, shared, elements, search, after, most):
    """Find the best ``r`` <= 3 of ``n`` documents by trying all; write them to the end of ``best`` if better."""
    # Inclusion-exclusion: the gains of singles, minus the weights shared by two, plus the weights shared by three. The
    # weights shared by three are at most the minimum of the weights that the pairs share, and are computed only if the
    # triple would win with this maximum.
    doc_start, doc_elements, _, _, weights, member = elements
    _, covered, best, state = search
    limit = state[0] + tolerance - fixed
    improved = False
    last = best.shape[0]
    if r == 1:
        for i in range(n):
            if gain[i] > limit:
                limit, improved = gain[i], True
                best[last - 1] = ids[i]
    elif r == 2:
        for i in range(n):
            for j in range(i + 1, n):
                value = gain[i] + gain[j] - shared[0, i, j] + shared[1, i, j]
                if value > limit:
                    limit, improved = value, True
                    best[last - 2], best[last - 1] = ids[i], ids[j]
    else:
        # after[i]: maximum value that a third document adds to the second document i; most[i]: largest absolute
        # negative weight that i shares with another document. Together they exclude most pairs before the third loop.
        for i in range(n):
            after[i] = -np.inf
            most[i] = 0.0
            for j in range(i + 1, n):
                after[i] = max(after[i], gain[j] - shared[0, i, j] + shared[1, i, j])
                most[i] = max(most[i], shared[1, i, j])
        for i in range(n):
            for j in range(i + 1, n):
                pair = gain[i] + gain[j] - shared[0, i, j] + shared[1, i, j]
                if pair + after[j] + most[i] <= limit:
                    continue
                for h in range(j + 1, n):
                    value = (
                        pair + gain[h] - shared[0, i, h] + shared[1, i, h] - shared[0, j, h] + shared[1, j, h]
                    )
                    value_bound = value + min(shared[0, i, j], min(shared[0, i, h], shared[0, j, h]))
                    if value_bound <= limit:
                        continue
                    a, b, c = ids[i], ids[j], ids[h]
                    for entry in range(doc_start[a], doc_start[a + 1]):
                        e = doc_elements[entry]
                        if covered[e] == 0 and member[e, b] and member[e, c]:
                            value += weights[e]
                    if value > limit:
                        limit, improved = value, True
                        best[last - 3], best[last - 2], best[last - 1] = a, b, c
    if improved:
        state[0] = fixed + limit
    return improved


@kernel
def _descend(k, tolerance, elements, levels, search, room, spare):
    """Search the tree depth first; the best choice is in ``search`` at the end."""
    # A document whose bound does not exceed the best value ends the search at its depth, because all later documents
    # have lower bounds. Depth k - 3 is a leaf: the last three documents are found by trying all triples.
    doc_start, doc_elements, element_start, element_documents, weights, _ = elements
    ids, gain, against, shared, bounds, order, size, position, fixed = levels
    path, covered, best, state = search
    local, alive = spare[0], spare[1]
    leaf = max(0, k - 3)
    depth = np.int64(0)
    if leaf > 0:
        _bound(k, size[0], 0.0, gain[0], against[0], shared[0], bounds[0], order[0], room)
    while depth >= 0:
        m, r = size[depth], k - depth
        if depth == leaf:
            if _finish(
                r,
                m,
                tolerance,
                fixed[depth],
                ids[depth],
                gain[depth],
                shared[depth],
                elements,
                search,
                room[0],
                room[1],
            ):
                for j in range(depth):
                    best[j] = path[j]
            back = True
        else:
            i = position[depth]
            back = m - i < r or bounds[depth, i] <= state[0] + tolerance
        if back:
            # undo the choice that led to this depth: ``covered`` has the depth at which each element was covered
            if depth > 0:
                for entry in range(doc_start[path[depth - 1]], doc_start[path[depth - 1] + 1]):
                    if covered[doc_elements[entry]] == depth:
                        covered[doc_elements[entry]] = 0
            depth -= 1
            continue
        # Choose document i. The documents before it were tried with all others, so only later documents whose bounds
        # exceed the best value are passed to the child: each set is visited once.
        position[depth] = i + 1
        chosen = order[depth, i]
        d = ids[depth, chosen]
        child = depth + 1
        n_left = 0
        local[:] = -1
        # ``local`` maps a document to its index in the child, or to -1 if the child does not contain it
        for p in range(i + 1, m):
            if bounds[depth, p] <= state[0] + tolerance:
                break
            other = order[depth, p]
            alive[n_left] = other
            ids[child, n_left] = ids[depth, other]
            local[ids[depth, other]] = n_left
            gain[child, n_left] = gain[depth, other]
            against[child, n_left] = against[depth, other]
            n_left += 1
        for a in range(n_left):
            for b in range(n_left):
                shared[child, 0, a, b] = shared[depth, 0, alive[a], alive[b]]
                shared[child, 1, a, b] = shared[depth, 1, alive[a], alive[b]]
        # the child inherits gains and shared weights, minus those of the elements that d is the first to cover
        path[depth] = d
        size[child] = n_left
        position[child] = 0
        fixed[child] = fixed[depth] + gain[depth, chosen]
        for entry in range(doc_start[d], doc_start[d + 1]):
            e = doc_elements[entry]
            if covered[e] != 0:
                continue
            covered[e] = child
            n_alive = 0
            for q in range(element_start[e], element_start[e + 1]):
                if local[element_documents[q]] >= 0:
                    alive[n_alive] = local[element_documents[q]]
                    n_alive += 1
            # d covers e now: no other document gains its weight, and no two share it
            weight = weights[e]
            side = 0 if weight > 0 else 1
            for a in range(n_alive):
                gain[child, alive[a]] -= weight
                if weight < 0:
                    against[child, alive[a]] += weight
                for b in range(n_alive):
                    shared[child, side, alive[a], alive[b]] -= abs(weight)
        # a leaf does not use bounds
        if child < leaf:
            _bound(
                r - 1,
                size[child],
                fixed[child],
                gain[child],
                against[child],
                shared[child],
                bounds[child],
                order[child],
                room,
            )
        depth = child
