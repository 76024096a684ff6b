"""Kernels of simulated comparisons: team draft or probabilistic for two rankings, team draft or SOSM for several.

The ranker with the larger credit wins a comparison. With ``by_difference``, it wins with a probability equal to the
difference in credit divided by the largest possible difference. All other comparisons are ties.

The state of a random stream is a number that functions take and return. For an array, Numba would count references at
each call, which takes twice as long as the remaining work. These streams differ from the NumPy generators by which
:mod:`~structsvm.online.interleaving.merging` draws lists: with one kind of stream for both, either the simulations or
the lists of a seed would change.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structsvm.common.kernel import kernel
from structsvm.online.interleaving.compiled.ranked_queries import RankedQueries
from structsvm.online.interleaving.probabilistic import add_click, take_result
from structsvm.online.interleaving.sosm import weight
from structsvm.protocols import ClickTables

_EQUAL = 1e-12
"""Differences in credit up to this value, relative to the largest credit, are ties, since the order of a sum changes
its rounding."""


class Tasks(NamedTuple):
    """Comparisons of two rankers, with random streams and results; each array has one entry per task."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    counts: NDArray[np.int64]
    seeds: NDArray[np.uint64]
    wins: NDArray[np.int64]
    losses: NDArray[np.int64]


@kernel
def next_bits(state: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the next state and 64 random bits: SplitMix64 (Steele, Lea & Flood 2014), one stream per seed."""
    state += np.uint64(0x9E3779B97F4A7C15)
    z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state, np.uint64(z ^ (z >> np.uint64(31)))


@kernel
def uniform(state: np.uint64) -> tuple[np.uint64, float]:
    """Return the next state and a uniform number in [0, 1), a multiple of 2^-53."""
    state, bits = next_bits(state)
    return state, np.float64(bits >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@kernel
def below(state: np.uint64, n: int) -> tuple[np.uint64, int]:
    """Return the next state and an integer from 0 to ``n - 1``."""
    # with 53 bits, the probability of each integer is exact up to n * 2^-53
    state, u = uniform(state)
    return state, int(u * n)


@kernel
def happens(state: np.uint64, p: float) -> tuple[np.uint64, bool]:
    """Return the next state and True with probability ``p``."""
    # probabilities of 0 and 1 are frequent in click models and need no random number
    if p <= 0.0:
        return state, False
    if p >= 1.0:
        return state, True
    state, u = uniform(state)
    return state, u < p


@kernel
def look(state: np.uint64, tables: ClickTables, grade: int, k: int) -> tuple[np.uint64, bool, bool]:
    """Return the next state, whether a user clicks the document at rank ``k`` (from 0), and whether the user then
    stops."""
    click, stop_after_click, stop_after_skip = tables
    state, clicks = happens(state, click[grade, k])
    state, stops = happens(state, stop_after_click[grade, k] if clicks else stop_after_skip[grade, k])
    return state, clicks, stops


@kernel
def team_draft(ranked: RankedQueries, tables: ClickTables, longest: int, tasks: Tasks) -> None:
    """Count wins and losses of ``first[task]`` against ``second[task]`` in ``counts[task]`` team drafts.

    No query has more than ``longest`` documents.
    """
    rankings, _, grades, offsets = ranked
    first, second, counts, seeds, wins, losses = tasks
    n_queries, length = offsets.shape[0] - 1, tables[0].shape[1]
    # number of the comparison that last showed each document, so that no array is cleared between comparisons
    last_shown = np.zeros(longest, dtype=np.int64)
    number = 0
    for task in range(first.shape[0]):
        state = seeds[task]
        a, b = first[task], second[task]
        for _ in range(counts[task]):
            number += 1
            state, q = below(state, n_queries)
            start = offsets[q]
            pointer_a, pointer_b, difference = start, start, 0
            # a coin flip decides which ranker picks first in a round of two picks; the other ranker picks second. A
            # 64-bit word contains the coin flips of 128 ranks
            coins = np.uint64(0)
            turn_a = False
            for k in range(min(length, offsets[q + 1] - start)):
                if k % 128 == 0:
                    state, coins = next_bits(state)
                if k % 2 == 0:
                    turn_a = coins & np.uint64(1) == np.uint64(1)
                    coins >>= np.uint64(1)
                else:
                    turn_a = not turn_a
                # pick the best document of the ranking not yet shown; pointers only move down, since all documents
                # above them have been shown
                if turn_a:
                    while last_shown[rankings[a, pointer_a]] == number:
                        pointer_a += 1
                    document = rankings[a, pointer_a]
                else:
                    while last_shown[rankings[b, pointer_b]] == number:
                        pointer_b += 1
                    document = rankings[b, pointer_b]
                last_shown[document] = number
                state, clicked, stops = look(state, tables, grades[start + document], k)
                if clicked:
                    difference += 1 if turn_a else -1
                # no further document can be clicked, so the remaining list is not drafted
                if stops:
                    break
            if difference > 0:
                wins[task] += 1
            elif difference < 0:
                losses[task] += 1


@kernel
def probabilistic(
    ranked: RankedQueries, tables: ClickTables, decay: NDArray[np.float64], by_difference: bool, tasks: Tasks
) -> None:
    """Count wins and losses by probabilistic interleaving, with exact credit over all assignments."""
    # At each rank, a coin flip chooses a ranker, which samples a document not yet shown with probability proportional
    # to ``decay[place]`` (Hofmann, Whiteson & de Rijke 2011).
    rankings, places, grades, offsets = ranked
    first, second, counts, seeds, wins, losses = tasks
    n_queries, length = offsets.shape[0] - 1, tables[0].shape[1]
    # total[k]: sum of the first k + 1 entries of ``decay``, the total weight of a ranking of k + 1 documents
    total = np.cumsum(decay)
    # number of the comparison that last showed each document
    last_shown = np.zeros(decay.shape[0], dtype=np.int64)
    # distribution of the lead of a in clicks; see ``add_click``
    lead = np.zeros(2 * length + 3)
    lead[length + 1] = 1.0
    number = 0
    for task in range(first.shape[0]):
        state = seeds[task]
        a, b = first[task], second[task]
        for _ in range(counts[task]):
            number += 1
            state, q = below(state, n_queries)
            start, end = offsets[q], offsets[q + 1]
            # Invariant: mass_a is the sum of decay over the documents of ranking a not yet shown, and all rows of
            # ranking a before skip_a have been shown; likewise for b.
            mass_a = mass_b = total[end - start - 1]
            skip_a, skip_b = start, start
            n_clicks = 0
            for k in range(min(length, end - start)):
                # One random number gives the coin and the document: the coin is the half of [0, 1) that contains the
                # number, and the position within this half is uniform.
                state, u = uniform(state)
                u *= 2.0
                if u < 1.0:
                    ranker, skip, goal = a, skip_a, u * mass_a
                else:
                    ranker, skip, goal = b, skip_b, (u - 1.0) * mass_b
                row = skip
                while last_shown[rankings[ranker, row]] == number:
                    row += 1
                if ranker == a:
                    skip_a = row
                if ranker == b:
                    skip_b = row
                # invert the distribution: go down the ranking until the weight of documents not shown exceeds goal
                document = rankings[ranker, row]
                goal -= decay[row - start]
                while goal >= 0.0:
                    row += 1
                    if row == end:
                        break  # rounding may move goal past the last document not yet shown
                    if last_shown[rankings[ranker, row]] != number:
                        document = rankings[ranker, row]
                        goal -= decay[row - start]
                last_shown[document] = number
                weight_a, weight_b = decay[places[a, start + document]], decay[places[b, start + document]]
                state, clicked, stops = look(state, tables, grades[start + document], k)
                # a clicked document came from a with probability p, by Bayes' rule with fair coins
                if clicked:
                    p = weight_a * mass_b / (weight_a * mass_b + weight_b * mass_a)
                    add_click(lead, n_clicks, p, 0.0, 1.0 - p, True)
                    n_clicks += 1
                if stops:
                    break
                mass_a -= weight_a
                mass_b -= weight_b
            # credit: P(more clicks of a) - P(more clicks of b)
            if n_clicks > 0:
                ahead, behind = take_result(lead, n_clicks, 2)
                value = ahead - behind
                least = _EQUAL
                if by_difference:
                    state, least = uniform(state)
                if value > least:
                    wins[task] += 1
                elif value < -least:
                    losses[task] += 1


@kernel
def multileave(
    ranked: RankedQueries,
    tables: ClickTables,
    longest: int,
    rankers: NDArray[np.int64],
    n_samples: int,
    state: np.uint64,
    sosm: bool,
    by_difference: bool,
    outcome: NDArray[np.int64],
) -> None:
    """Add the outcome of each pair, 1 or -1, in ``n_samples`` team drafts of several rankings, with credit by teams
    or by SOSM; no query has more than ``longest`` documents."""
    rankings, places, grades, offsets = ranked
    n, n_queries, length = rankers.shape[0], offsets.shape[0] - 1, tables[0].shape[1]
    # number of the comparison that last showed each document
    last_shown = np.zeros(longest, dtype=np.int64)
    pointer = np.zeros(n, dtype=np.int64)
    order = np.arange(n)
    documents = np.zeros(length, dtype=np.int64)
    clicked = np.zeros(length, dtype=np.int64)
    credit = np.zeros(n)
    for number in range(1, n_samples + 1):
        state, q = below(state, n_queries)
        start = offsets[q]
        n_shown = min(length, offsets[q + 1] - start)
        pointer[:] = start
        credit[:] = 0.0
        n_clicks = 0
        reading = True
        for k in range(n_shown):
            # each round has a random order of the rankers, by one step of a Fisher-Yates shuffle per rank
            turn = k % n
            state, step = below(state, n - turn)
            other = turn + step
            i = order[other]
            order[other] = order[turn]
            order[turn] = i
            while last_shown[rankings[rankers[i], pointer[i]]] == number:
                pointer[i] += 1
            document = rankings[rankers[i], pointer[i]]
            last_shown[document] = number
            documents[k] = document
            # SOSM ranks all shown documents, so the list is completed after the user has stopped
            if not reading:
                continue
            state, clicks, stops = look(state, tables, grades[start + document], k)
            if clicks:
                clicked[n_clicks] = document
                n_clicks += 1
                if not sosm:
                    credit[i] += 1.0
            if stops:
                reading = False
            # teams are credited only for clicks, so documents below the last possible click have no effect
            if not reading and not sosm:
                break
        if n_clicks == 0 or (sosm and n_shown == 1):
            continue
        # SOSM: the weight of the rank of a clicked document in the ranker's order of the shown documents; the divisor,
        # the sum of the weights, is omitted, since it is the same for all rankers
        if sosm:
            for i in range(n):
                for c in range(n_clicks):
                    own_rank = places[rankers[i], start + clicked[c]]
                    rank = 1
                    for k in range(n_shown):
                        rank += places[rankers[i], start + documents[k]] < own_rank
                    credit[i] += weight(rank)
        least, largest = _EQUAL, credit.max()
        if sosm and by_difference:  # one random number for all pairs, so that their outcomes are consistent
            largest = n_clicks * (weight(1) - weight(n_shown))
            state, least = uniform(state)
        for i in range(n):
            for j in range(i):
                difference = (credit[i] - credit[j]) / largest
                if abs(difference) > least:
                    sign = 1 if difference > 0.0 else -1
                    outcome[i, j] += sign
                    outcome[j, i] -= sign


def live_arrays(
    ranked: object = None,
    tables: object = None,
    decay: object = None,
    by_teams: bool = False,
    by_difference: bool = False,
) -> Any:
    """Return the arrays and scratch arrays of :func:`interleave` and :func:`merge`; empty arrays without ``ranked``."""
    if ranked is None:
        whole, table, row = np.zeros((0, 0), np.int32), np.zeros((0, 0)), np.zeros(0, np.int64)
        ranked, tables = RankedQueries(whole, whole, row, row), ClickTables(table, table, table)
        decay = np.zeros(0)
    first, second, counts, wins, losses = np.ones((5, 1), np.int64)  # a single comparison
    tasks = Tasks(first, second, counts, np.zeros(1, np.uint64), wins, losses)
    return ranked, tables, decay, by_teams, by_difference, tasks


@kernel(inline="always")
def _seed(rng: np.random.Generator) -> np.uint64:
    """Return the 53 random bits of one number of ``rng`` as the seed of a separate stream."""
    # ``Generator.integers`` would allocate an array for a 64-bit integer, which takes 80 ns
    return np.uint64(rng.random() * 9007199254740992.0)


@kernel(allocates=False)  # the called kernels allocate arrays but do not return them
def interleave(live: Any, first: int, second: int, rng: np.random.Generator) -> float:
    """Return the outcome of one comparison of two rankers, 1 or 0; break ties by a coin flip."""
    ranked, tables, decay, by_teams, by_difference, tasks = live
    tasks.first[0], tasks.second[0], tasks.seeds[0] = first, second, _seed(rng)
    tasks.wins[0] = tasks.losses[0] = 0
    if by_teams:
        team_draft(ranked, tables, decay.shape[0], tasks)
    else:
        probabilistic(ranked, tables, decay, by_difference, tasks)
    if tasks.wins[0] == tasks.losses[0]:
        return 0.0 + (rng.random() < 0.5)
    return float(tasks.wins[0])


@kernel(allocates=False)
def merge(live: Any, rankers: NDArray[np.int64], rng: np.random.Generator, won: NDArray[np.int64]) -> None:
    """Merge more than two rankings by SOSM; set ``won[a, b]``, a < b, to 1 or -1 for ``rankers[a]``, ``rankers[b]``."""
    # Ties are broken by a coin flip per pair.
    ranked, tables, decay, _, by_difference, _ = live
    won[: len(rankers), : len(rankers)] = 0
    multileave(ranked, tables, decay.shape[0], rankers, 1, _seed(rng), True, by_difference, won)
    for a in range(len(rankers)):
        for b in range(a + 1, len(rankers)):
            if won[a, b] == 0:
                won[a, b] = 1 if rng.random() < 0.5 else -1
