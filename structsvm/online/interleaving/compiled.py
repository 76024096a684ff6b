"""A million simulated comparisons a second: list, clicks and credit in one compiled walk.

The list is made only as far as the user reads it. The distributions are those of ``TeamDraft``,
``Probabilistic`` and ``SOSM`` with the click models of ``structsvm.online.users``.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from structsvm.checks import BadInput, check_choice, check_whole
from structsvm.online.bandits.policy import pair_indices
from structsvm.online.users.tables import ClickModel, ClickTables, check_grades

__all__ = [
    "LiveComparisons",
    "PairCounts",
    "RankedQueries",
    "compare_pairs",
    "multileave_outcomes",
    "preference_matrix",
]

_PIECE = 1 << 17
"""Comparisons between two looks at the keyboard: half a second at most."""
_CHUNK = 1 << 15
"""Comparisons of a pair that share a stream of random numbers: fixed, so threads cannot change a result."""


@dataclass(frozen=True, eq=False, repr=False)
class RankedQueries:
    """All documents of all queries as ranked by several rankers: what the compiled comparisons read.

    Build it with :meth:`from_scores` or :meth:`from_rankings`; the constructor itself checks nothing.

    Attributes
    ----------
    rankings : ndarray of int32, shape (n_rankers, n_rows)
        ``rankings[r, offsets[q]:offsets[q + 1]]`` are the documents of query ``q``, numbered from 0 within
        the query, best first.
    places : ndarray of int32, shape (n_rankers, n_rows)
        The inverse: the place from 0 of each document.
    grades : ndarray of int64, shape (n_rows,)
        The grade of each document.
    offsets : ndarray of int64, shape (n_queries + 1,)

    Examples
    --------
    >>> ranked = RankedQueries.from_scores([[.1, .9], [.5, .4], [.7, .2]], grades=[0, 1, 2], offsets=[0, 3])
    >>> ranked.rankings
    array([[2, 1, 0],
           [0, 1, 2]], dtype=int32)
    """

    rankings: NDArray[np.int32]
    places: NDArray[np.int32]
    grades: NDArray[np.int64]
    offsets: NDArray[np.int64]

    @property
    def n_rankers(self) -> int:
        """Number of rankers."""
        return int(self.rankings.shape[0])

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return int(self.offsets.shape[0] - 1)

    @classmethod
    def from_scores(
        cls, scores: Any, grades: ArrayLike, offsets: ArrayLike, *, random_state: Any = 0
    ) -> RankedQueries:
        """Rank the documents of each query by each column of ``scores``, highest first.

        Parameters
        ----------
        scores : array-like or CSR matrix, shape (n_rows, n_rankers)
            One column a ranker: ``QueryData.X`` compares single features, as the papers do.
        grades : array-like of int, shape (n_rows,)
            ``QueryData.y``.
        offsets : array-like of int, shape (n_queries + 1,)
            ``QueryData.offsets``. Queries without documents are left out.
        random_state : int or Generator, default 0
            Orders tied documents, once for each ranker and query.

        Raises
        ------
        ValueError
            If shapes do not fit, grades are no integers >= 0 or a score is NaN.
        """
        dense = np.asarray(scores.toarray() if hasattr(scores, "toarray") else scores)
        if dense.ndim != 2 or dense.shape[1] == 0:
            raise BadInput("scores", f"expected a matrix (rows, rankers), got shape {dense.shape}")
        bad = np.argwhere(np.isnan(dense))
        if bad.size:
            raise BadInput("scores", f"expected numbers, got NaN at row {bad[0, 0]}, ranker {bad[0, 1]}")
        checked, starts = _check_layout(grades, offsets, dense.shape[0])
        query = np.repeat(np.arange(starts.shape[0] - 1), np.diff(starts))
        generator = np.random.default_rng(random_state)
        first_row = starts[:-1].repeat(np.diff(starts))
        rankings = np.empty((dense.shape[1], dense.shape[0]), dtype=np.int32)
        for ranker, column in zip(rankings, dense.T, strict=True):
            keys: Any = (generator.random(dense.shape[0]), -column, query)
            ranker[:] = np.lexsort(keys) - first_row
        return cls(rankings, _inverse(rankings, first_row), checked, starts)

    @classmethod
    def from_rankings(cls, rankings: ArrayLike, grades: ArrayLike, offsets: ArrayLike) -> RankedQueries:
        """Take rankings as they are: for each ranker and query a permutation of its documents 0, 1, ...

        Raises
        ------
        ValueError
            If shapes do not fit, grades are no integers >= 0, or a ranking is no permutation.

        Examples
        --------
        >>> ranked = RankedQueries.from_rankings([[0, 1, 1, 0], [1, 0, 0, 1]], [1, 0, 0, 1], [0, 2, 4])
        >>> ranked.n_rankers, ranked.n_queries
        (2, 2)
        """
        given = np.asarray(rankings)
        if given.ndim != 2 or given.shape[0] == 0 or given.dtype.kind not in "iu":
            raise BadInput("rankings", f"expected integers (rankers, rows), got {given.dtype} {given.shape}")
        checked, starts = _check_layout(grades, offsets, given.shape[1])
        first_row = starts[:-1].repeat(np.diff(starts))
        rows = np.sort(given + first_row, axis=1)
        # with its query's first row added, a right ranking sorts to 0, 1, 2, ...; out of range may look right
        sizes = np.diff(starts).repeat(np.diff(starts))
        wrong = (rows != np.arange(given.shape[1])) | (given < 0) | (given >= sizes)
        if wrong.any():
            ranker, row = (int(i) for i in np.argwhere(wrong)[0])
            q = int(np.searchsorted(starts, row, side="right")) - 1
            raise BadInput(
                "rankings",
                f"expected a permutation of the documents 0 to {sizes[row] - 1} of query {q}, got "
                f"{given[ranker, starts[q] : starts[q + 1]].tolist()!r:.80}",
                at=f"[{ranker}]",
            )
        contiguous = np.ascontiguousarray(given, dtype=np.int32)
        return cls(contiguous, _inverse(contiguous, first_row), checked, starts)


class PairCounts(NamedTuple):
    """Results of the comparisons of each pair; arrays of shape (n_pairs,)."""

    n_samples: int
    wins: NDArray[np.int64]
    """Comparisons that the first ranker of the pair won; drawn with the outcome's probability if it is a fraction."""
    losses: NDArray[np.int64]
    """Comparisons that the second ranker won, likewise; the rest are ties."""
    outcome: NDArray[np.float64]
    """Sum of the outcomes, each in [-1, 1]; wins - losses for team draft."""

    @property
    def preference(self) -> NDArray[np.float64]:
        """Estimated probability that the first ranker wins, a tie counting one half."""
        return (1 + self.outcome / self.n_samples) / 2


def compare_pairs(
    ranked: RankedQueries,
    pairs: ArrayLike,
    clicks: ClickModel,
    n_samples: int,
    *,
    method: Literal["team_draft", "probabilistic"] = "probabilistic",
    length: int = 10,
    tau: float = 3.0,
    random_state: int = 0,
    n_jobs: int = 1,
    callback: Callable[[float], object] | None = None,
) -> PairCounts:
    """Interleave each pair of rankers ``n_samples`` times, each time on a random query and with new clicks.

    Parameters
    ----------
    ranked : RankedQueries
    pairs : array-like of int, shape (n_pairs, 2)
        The rankers to compare.
    clicks : ClickModel
        The simulated user, one of ``structsvm.online.users``.
    n_samples : int
        Comparisons of each pair; queries are drawn with replacement.
    method : {"probabilistic", "team_draft"}
        The outcome is ``Probabilistic().outcome(...)[0, 1]`` (exact over assignments) or ``TeamDraft()``'s
        sign. A probabilistic outcome x is a win (x > 0) or a loss with probability ``|x|``, otherwise a tie: its sign
        alone would favour a ranker that wins often and by little.
    length : int, default 10
        Documents shown; fewer where a query has fewer.
    tau : float, default 3
        Of the probabilistic method.
    random_state : int, default 0
    n_jobs : int, default 1
        Threads; the result does not depend on their number.
    callback : callable, optional
        Told the share that is done, every hundred thousand comparisons or so.

    Returns
    -------
    PairCounts

    Raises
    ------
    ValueError
        For an unknown method, a ranker that does not exist, a grade the click model does not know, ``length
        < 1`` or ``n_samples < 1``.

    Examples
    --------
    >>> from structsvm.online.users import CascadeModel
    >>> ranked = RankedQueries.from_rankings([[0, 1], [1, 0]], grades=[1, 0], offsets=[0, 2])
    >>> user = CascadeModel.named("perfect", 2)
    >>> compare_pairs(ranked, [(0, 1)], user, 1000, length=1, method="team_draft").wins
    array([482])
    """
    both = np.asarray(pairs)
    if both.ndim != 2 or both.shape[1] != 2 or (both.size and both.dtype.kind not in "iu"):
        raise BadInput("pairs", f"expected integers of shape (n_pairs, 2), got {both.dtype} {both.shape}")
    both = both.astype(np.int64)
    if both.size and not ((both >= 0) & (both < ranked.n_rankers)).all():
        raise BadInput(
            "pairs", f"expected rankers from 0 to {ranked.n_rankers - 1}, got {both.tolist()!r:.80}"
        )
    check_choice("method", method, ("team_draft", "probabilistic"))
    tables = _tables(ranked, clicks, length, n_samples)
    chunks = -(-n_samples // _CHUNK)
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    first, second = np.repeat(both, chunks, axis=0).T
    counts = np.tile(np.append(np.full(chunks - 1, _CHUNK), n_samples - (chunks - 1) * _CHUNK), both.shape[0])
    seeds: Any = np.random.SeedSequence(random_state).generate_state(first.shape[0], np.uint64)
    n_tasks = first.shape[0]
    wins, losses = np.zeros(n_tasks, dtype=np.int64), np.zeros(n_tasks, dtype=np.int64)
    outcome = np.zeros(n_tasks)
    decay = np.arange(1, np.diff(ranked.offsets).max() + 1, dtype=np.float64) ** -tau

    def run(part: slice) -> None:
        task = first[part], second[part], counts[part], seeds[part]
        if method == "team_draft":
            _team_draft(
                ranked.rankings, ranked.grades, ranked.offsets, *tables, *task, wins[part], losses[part]
            )
        else:
            data = ranked.rankings, ranked.places, ranked.grades, ranked.offsets
            results = wins[part], losses[part], outcome[part]
            _probabilistic(*data, decay, *tables, *task, *results)

    _in_threads(run, n_tasks, min(n_samples, _CHUNK), n_jobs, callback)
    if method == "team_draft":
        outcome[:] = wins - losses
    by_pair = (both.shape[0], chunks)
    return PairCounts(
        n_samples,
        wins.reshape(by_pair).sum(axis=1),
        losses.reshape(by_pair).sum(axis=1),
        outcome.reshape(by_pair).sum(axis=1),
    )


def preference_matrix(
    ranked: RankedQueries,
    clicks: ClickModel,
    n_samples: int,
    *,
    method: Literal["team_draft", "probabilistic"] = "probabilistic",
    length: int = 10,
    tau: float = 3.0,
    random_state: int = 0,
    n_jobs: int = 1,
    callback: Callable[[float], object] | None = None,
) -> NDArray[np.float64]:
    """``[i, j]``: probability that ranker i beats j, estimated by ``n_samples`` interleavings of every pair.

    Parameters and errors as for :func:`compare_pairs`. ``P + P.T == 1`` exactly; the diagonal is 1/2.

    Examples
    --------
    >>> from structsvm.online.users import CascadeModel
    >>> ranked = RankedQueries.from_rankings([[0, 1], [0, 1]], grades=[1, 0], offsets=[0, 2])
    >>> preference_matrix(ranked, CascadeModel.named("perfect", 2), 100)
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    first, second = np.triu_indices(ranked.n_rankers, 1)
    counts = compare_pairs(
        ranked,
        np.column_stack([first, second]),
        clicks,
        n_samples,
        method=method,
        length=length,
        tau=tau,
        random_state=random_state,
        n_jobs=n_jobs,
        callback=callback,
    )
    matrix = np.full((ranked.n_rankers, ranked.n_rankers), 0.5)
    matrix[first, second] = counts.preference
    matrix[second, first] = 1 - counts.preference
    return matrix


def multileave_outcomes(
    ranked: RankedQueries,
    rankers: ArrayLike,
    clicks: ClickModel,
    n_samples: int = 1,
    *,
    method: Literal["sosm", "team_draft"] = "sosm",
    length: int = 10,
    random_state: int = 0,
    n_jobs: int = 1,
) -> NDArray[np.float64]:
    """Multileave the given rankers ``n_samples`` times, each time on a random query and with new clicks.

    Parameters
    ----------
    ranked : RankedQueries
    rankers : array-like of int, shape (n,)
        At least two different rankers.
    clicks, n_samples, length, random_state, n_jobs
        As for :func:`compare_pairs`.
    method : {"sosm", "team_draft"}

    Returns
    -------
    ndarray, shape (n, n)
        Sum of the outcomes: how often ``rankers[i]`` won against ``rankers[j]``, minus how often it lost. Team draft
        counts the sign of the credit; SOSM draws a win with the probability of its outcome.
        ``(1 + outcomes / n_samples) / 2`` estimates the preference matrix under multileaving.

    Raises
    ------
    ValueError
        For an unknown method, rankers that do not exist or repeat, a grade the click model does not know,
        ``length < 1`` or ``n_samples < 1``.

    Examples
    --------
    >>> from structsvm.online.users import CascadeModel
    >>> ranked = RankedQueries.from_rankings([[0, 1, 2], [1, 0, 2], [2, 1, 0]], [1, 0, 0], [0, 3])
    >>> multileave_outcomes(ranked, [0, 1, 2], CascadeModel.named("perfect", 2), 10)
    array([[  0.,  10.,  10.],
           [-10.,   0.,   1.],
           [-10.,  -1.,   0.]])
    """
    chosen = np.asarray(rankers)
    if chosen.ndim != 1 or chosen.shape[0] < 2 or chosen.dtype.kind not in "iu":
        raise BadInput("rankers", f"expected at least 2 rankers as integers, got {chosen!r:.80}")
    if chosen.min() < 0 or chosen.max() >= ranked.n_rankers or np.unique(chosen).shape[0] < chosen.shape[0]:
        raise BadInput(
            "rankers", f"expected different ones from 0 to {ranked.n_rankers - 1}, got {chosen!r:.80}"
        )
    check_choice("method", method, ("sosm", "team_draft"))
    tables = _tables(ranked, clicks, length, n_samples)
    chosen = chosen.astype(np.int64)
    chunk = 256
    n_tasks = -(-n_samples // chunk)
    seeds: Any = np.random.SeedSequence(random_state).generate_state(n_tasks, np.uint64)
    # whole numbers: sums that do not depend on the order in which threads finish
    outcome = np.zeros((chosen.shape[0], chosen.shape[0]), dtype=np.int64)

    def run(part: slice) -> NDArray[np.int64]:
        own = np.zeros_like(outcome)
        for task in range(n_tasks)[part]:
            count = min(chunk, n_samples - task * chunk)
            data = ranked.rankings, ranked.places, ranked.grades, ranked.offsets
            _multileave(*data, *tables, chosen, count, seeds[task], method == "sosm", own)
        return own

    for own in _in_threads(run, n_tasks, chunk, n_jobs):
        outcome += own
    return outcome.astype(np.float64)


class LiveComparisons:
    """Comparisons one at a time: for a random query the rankings of some rankers are merged, and a user clicks.

    Parameters
    ----------
    ranked : RankedQueries
    clicks : ClickModel
    method : {"probabilistic", "team_draft"}
        How two rankings are merged. More than two are merged by team draft and credited by SOSM.
    length : int
        Documents shown.

    Attributes
    ----------
    tables : ClickTables
        Of the user.

    Examples
    --------
    >>> from structsvm.online.users import CascadeModel
    >>> ranked = RankedQueries.from_rankings([[0, 1], [1, 0]], grades=[1, 0], offsets=[0, 2])
    >>> live = LiveComparisons(ranked, CascadeModel.named("perfect", 2), method="team_draft", length=2)
    >>> live.compare((0, 1), np.random.default_rng(0)) in (0.0, 0.5, 1.0)
    True
    """

    def __init__(
        self,
        ranked: RankedQueries,
        clicks: ClickModel,
        *,
        method: Literal["probabilistic", "team_draft"],
        length: int,
    ) -> None:
        self._ranked = ranked
        self._method = method
        self.tables = _tables(ranked, clicks, length, 1)
        self._decay = np.arange(1, np.diff(ranked.offsets).max() + 1, dtype=np.float64) ** -3.0

    def compare(self, arms: tuple[int, ...], rng: np.random.Generator) -> Any:
        """Outcome for two or more different rankers, as :class:`structsvm.online.simulation.worlds.World` has it."""
        data = self._ranked
        seed = rng.integers(0, 2**64, size=1, dtype=np.uint64)
        layout = (data.rankings, data.places, data.grades, data.offsets)
        if len(arms) > 2:
            outcome = np.zeros((len(arms), len(arms)), dtype=np.int64)
            _multileave(*layout, *self.tables, np.array(arms), 1, seed[0], True, outcome)
            return (1 + outcome[pair_indices(len(arms))]) / 2
        wins, losses = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        once = np.ones(1, dtype=np.int64)
        task: list[Any] = [*self.tables, np.array(arms[:1]), np.array(arms[1:]), once, seed, wins, losses]
        if self._method == "team_draft":
            _team_draft(data.rankings, data.grades, data.offsets, *task)
        else:
            task = [*layout, self._decay, *task, np.zeros(1)]
            _probabilistic(*task)
        return float(1 + wins[0] - losses[0]) / 2


def _tables(ranked: RankedQueries, clicks: ClickModel, length: int, n_samples: int) -> ClickTables:
    check_whole("length", length)
    check_whole("n_samples", n_samples)
    # no longer than the longest list that can be shown: a model with a short table need not cover the rest
    tables = clicks.tables(int(min(length, np.diff(ranked.offsets).max())))
    check_grades(ranked.grades, tables.click.shape[0])
    return ClickTables(*(np.ascontiguousarray(table) for table in tables))


def _in_threads(
    run: Callable[[slice], Any],
    n_tasks: int,
    size: int,
    n_jobs: int,
    callback: Callable[[float], object] | None = None,
) -> list[Any]:
    """``run`` on all tasks of ``size`` comparisons, piece by piece: between two pieces there is time for Ctrl-C."""
    step = max(1, _PIECE // size)
    pieces = [slice(a, min(a + step, n_tasks)) for a in range(0, n_tasks, step)]
    tell = callback or (lambda share: None)
    found = []
    if max(1, min(n_jobs, len(pieces))) == 1:
        for piece in pieces:
            found.append(run(piece))
            tell(piece.stop / n_tasks)
        return found
    with ThreadPoolExecutor(n_jobs) as pool:
        try:
            for piece, future in zip(pieces, [pool.submit(run, piece) for piece in pieces], strict=True):
                found.append(future.result())
                tell(piece.stop / n_tasks)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return found


def _check_layout(
    grades: ArrayLike, offsets: ArrayLike, n_rows: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    starts = np.asarray(offsets)
    ok = starts.ndim == 1 and starts.shape[0] >= 2 and starts.dtype.kind in "iu"
    if not ok or starts[0] != 0 or starts[-1] != n_rows or (np.diff(starts) < 0).any():
        raise BadInput("offsets", f"expected integers rising from 0 to {n_rows} (rows), got {starts!r:.80}")
    given = np.asarray(grades)
    if given.shape != (n_rows,):
        raise BadInput("grades", f"expected one grade for each of {n_rows} rows, got shape {given.shape}")
    checked = check_grades(given, int(given.max(initial=0)) + 1 if np.isfinite(given).all() else 1)
    starts = np.unique(starts.astype(np.int64))
    if starts.shape[0] < 2:
        raise BadInput("offsets", "expected at least one query with documents")
    return checked, starts


def _inverse(rankings: NDArray[np.int32], first_row: NDArray[np.int64]) -> NDArray[np.int32]:
    places = np.empty_like(rankings)
    own_place = (np.arange(rankings.shape[1]) - first_row).astype(np.int32)
    for ranking, place in zip(rankings, places, strict=True):
        place[ranking + first_row] = own_place
    return places


# kernels
#
# The state of a random stream is a number that goes in and comes out: an array passed to a function in every step
# would have its references counted, at twice the price of the rest.


@njit(cache=True, nogil=True, error_model="numpy")
def _bits(state: np.uint64) -> tuple[np.uint64, np.uint64]:
    """The next state and 64 random bits: SplitMix64 (Steele, Lea & Flood 2014); a stream for every seed."""
    state += np.uint64(0x9E3779B97F4A7C15)
    z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state, np.uint64(z ^ (z >> np.uint64(31)))


@njit(cache=True, nogil=True, error_model="numpy")
def _uniform(state: np.uint64) -> tuple[np.uint64, float]:
    state, bits = _bits(state)
    return state, np.float64(bits >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _below(state: np.uint64, n: int) -> tuple[np.uint64, int]:
    # 53 bits over n options: an option's probability is off by less than n * 2^-53
    state, u = _uniform(state)
    return state, int(u * n)


@njit(cache=True, nogil=True, error_model="numpy")
def _happens(state: np.uint64, p: float) -> tuple[np.uint64, bool]:
    # sure things, frequent in click models, cost no random number
    if p <= 0.0:
        return state, False
    if p >= 1.0:
        return state, True
    state, u = _uniform(state)
    return state, u < p


@njit(cache=True, nogil=True, error_model="numpy")
def _team_draft(
    rankings: NDArray[np.int32],
    grades: NDArray[np.int64],
    offsets: NDArray[np.int64],
    click: NDArray[np.float64],
    stop_after_click: NDArray[np.float64],
    stop_after_skip: NDArray[np.float64],
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    counts: NDArray[np.int64],
    seeds: NDArray[np.uint64],
    wins: NDArray[np.int64],
    losses: NDArray[np.int64],
) -> None:
    n_queries, length = offsets.shape[0] - 1, click.shape[1]
    longest = 0
    for q in range(n_queries):
        longest = max(longest, offsets[q + 1] - offsets[q])
    seen = np.zeros(longest, dtype=np.int64)  # the number of the comparison that showed the document last
    number = 0
    for task in range(first.shape[0]):
        state = seeds[task]
        a, b = first[task], second[task]
        for _ in range(counts[task]):
            number += 1
            state, q = _below(state, n_queries)
            start = offsets[q]
            pointer_a, pointer_b, difference = start, start, 0
            coins = np.uint64(0)
            turn_a = False
            for k in range(min(length, offsets[q + 1] - start)):
                if k % 128 == 0:
                    state, coins = _bits(state)
                if k % 2 == 0:
                    turn_a = coins & np.uint64(1) == np.uint64(1)
                    coins >>= np.uint64(1)
                else:
                    turn_a = not turn_a
                if turn_a:
                    while seen[rankings[a, pointer_a]] == number:
                        pointer_a += 1
                    document = rankings[a, pointer_a]
                else:
                    while seen[rankings[b, pointer_b]] == number:
                        pointer_b += 1
                    document = rankings[b, pointer_b]
                seen[document] = number
                grade = grades[start + document]
                state, clicked = _happens(state, click[grade, k])
                if clicked:
                    difference += 1 if turn_a else -1
                state, stops = _happens(
                    state, stop_after_click[grade, k] if clicked else stop_after_skip[grade, k]
                )
                if stops:
                    break
            if difference > 0:
                wins[task] += 1
            elif difference < 0:
                losses[task] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _probabilistic(
    rankings: NDArray[np.int32],
    places: NDArray[np.int32],
    grades: NDArray[np.int64],
    offsets: NDArray[np.int64],
    decay: NDArray[np.float64],
    click: NDArray[np.float64],
    stop_after_click: NDArray[np.float64],
    stop_after_skip: NDArray[np.float64],
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    counts: NDArray[np.int64],
    seeds: NDArray[np.uint64],
    wins: NDArray[np.int64],
    losses: NDArray[np.int64],
    outcome: NDArray[np.float64],
) -> None:
    n_queries, length = offsets.shape[0] - 1, click.shape[1]
    total = np.cumsum(decay)
    seen = np.zeros(
        decay.shape[0], dtype=np.int64
    )  # the number of the comparison that showed the document last
    # chance[c]: probability that c of the clicked documents so far came from ranker a
    chance = np.zeros(length + 1)
    number = 0
    for task in range(first.shape[0]):
        state = seeds[task]
        a, b = first[task], second[task]
        for _ in range(counts[task]):
            number += 1
            state, q = _below(state, n_queries)
            start, end = offsets[q], offsets[q + 1]
            mass_a = mass_b = total[end - start - 1]
            skip_a, skip_b = start, start  # everything above has been shown
            n_clicks = 0
            chance[0] = 1.0
            for k in range(min(length, end - start)):
                # one number decides coin and document: its half is the coin, the rest is uniform again
                state, u = _uniform(state)
                u *= 2.0
                if u < 1.0:
                    ranker, skip, goal = a, skip_a, u * mass_a
                else:
                    ranker, skip, goal = b, skip_b, (u - 1.0) * mass_b
                row = skip
                while seen[rankings[ranker, row]] == number:
                    row += 1
                if ranker == a:
                    skip_a = row
                if ranker == b:
                    skip_b = row
                document = rankings[ranker, row]
                goal -= decay[row - start]
                while goal >= 0.0:
                    row += 1
                    if row == end:
                        break  # rounding: the last document not yet shown
                    if seen[rankings[ranker, row]] != number:
                        document = rankings[ranker, row]
                        goal -= decay[row - start]
                seen[document] = number
                weight_a, weight_b = decay[places[a, start + document]], decay[places[b, start + document]]
                grade = grades[start + document]
                state, clicked = _happens(state, click[grade, k])
                if clicked:
                    p = weight_a * mass_b / (weight_a * mass_b + weight_b * mass_a)
                    chance[n_clicks + 1] = chance[n_clicks] * p
                    for c in range(n_clicks, 0, -1):
                        chance[c] = chance[c] * (1.0 - p) + chance[c - 1] * p
                    chance[0] *= 1.0 - p
                    n_clicks += 1
                state, stops = _happens(
                    state, stop_after_click[grade, k] if clicked else stop_after_skip[grade, k]
                )
                if stops:
                    break
                mass_a -= weight_a
                mass_b -= weight_b
            if n_clicks > 0:
                value = 0.0
                for c in range(n_clicks + 1):
                    if 2 * c > n_clicks:
                        value += chance[c]
                    elif 2 * c < n_clicks:
                        value -= chance[c]
                outcome[task] += value
                # not the sign, whose mean need not be zero where that of the outcome is
                state, u = _uniform(state)
                if u < value:
                    wins[task] += 1
                elif u < -value:
                    losses[task] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _multileave(
    rankings: NDArray[np.int32],
    places: NDArray[np.int32],
    grades: NDArray[np.int64],
    offsets: NDArray[np.int64],
    click: NDArray[np.float64],
    stop_after_click: NDArray[np.float64],
    stop_after_skip: NDArray[np.float64],
    rankers: NDArray[np.int64],
    n_samples: int,
    state: np.uint64,
    sosm: bool,
    outcome: NDArray[np.int64],
) -> None:
    n, n_queries, length = rankers.shape[0], offsets.shape[0] - 1, click.shape[1]
    longest = 0
    for q in range(n_queries):
        longest = max(longest, offsets[q + 1] - offsets[q])
    seen = np.zeros(longest, dtype=np.int64)
    pointer = np.zeros(n, dtype=np.int64)
    order = np.arange(n)
    documents = np.zeros(length, dtype=np.int64)
    clicked = np.zeros(length, dtype=np.int64)
    credit = np.zeros(n)
    for number in range(1, n_samples + 1):
        state, q = _below(state, n_queries)
        start = offsets[q]
        shown = min(length, offsets[q + 1] - start)
        pointer[:] = start
        credit[:] = 0.0
        n_clicks = 0
        reading = True
        for k in range(shown):
            # the rankers of a round in random order: one more step of a shuffle for each place
            turn = k % n
            state, step = _below(state, n - turn)
            other = turn + step
            i = order[other]
            order[other] = order[turn]
            order[turn] = i
            while seen[rankings[rankers[i], pointer[i]]] == number:
                pointer[i] += 1
            document = rankings[rankers[i], pointer[i]]
            seen[document] = number
            documents[k] = document
            if not reading:
                continue
            grade = grades[start + document]
            state, clicks = _happens(state, click[grade, k])
            if clicks:
                clicked[n_clicks] = document
                n_clicks += 1
                if not sosm:
                    credit[i] += 1.0
            state, stops = _happens(
                state, stop_after_click[grade, k] if clicks else stop_after_skip[grade, k]
            )
            if stops:
                reading = False
            # teams need no list behind the last click that is possible
            if not reading and not sosm:
                break
        if n_clicks == 0:
            continue
        if sosm:
            for i in range(n):
                for c in range(n_clicks):
                    own = places[rankers[i], start + clicked[c]]
                    rank = 1
                    for k in range(shown):
                        rank += places[rankers[i], start + documents[k]] < own
                    credit[i] += 1.0 / (rank * rank * rank)
        if sosm:
            # wins drawn with the probability of the outcome, as its sign need not be fair; one draw for all pairs
            if shown > 1:
                largest = n_clicks * (1.0 - 1.0 / (shown * shown * shown))
                state, u = _uniform(state)
                for i in range(n):
                    for j in range(i):
                        difference = (credit[i] - credit[j]) / largest
                        if u < difference:
                            outcome[i, j] += 1
                            outcome[j, i] -= 1
                        elif u < -difference:
                            outcome[i, j] -= 1
                            outcome[j, i] += 1
            continue
        for i in range(n):
            for j in range(i):
                if credit[i] > credit[j]:
                    outcome[i, j] += 1
                    outcome[j, i] -= 1
                elif credit[j] > credit[i]:
                    outcome[i, j] -= 1
                    outcome[j, i] += 1
