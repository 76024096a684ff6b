"""Simulated comparisons, a million per second: list, clicks and credit in one compiled pass.

A list is built only as far as the user reads it. The distributions are those of ``TeamDraft``, ``Probabilistic`` and
``SOSM`` with the click models of ``structsvm.online.users``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.common.checks import BadInput, check_choice, check_whole
from structsvm.common.portable.elementary import power
from structsvm.online.bandits.policy import pair_indices
from structsvm.online.interleaving.compiled.kernels import (
    interleave,
    live_arrays,
    merge,
    multileave,
    probabilistic,
    team_draft,
)
from structsvm.online.interleaving.compiled.ranked_queries import RankedQueries
from structsvm.online.users.click_tables import check_grades
from structsvm.protocols import ClickModel, ClickTables

_PIECE = 1 << 17
"""Comparisons per compiled call, at most half a second, since Ctrl-C is noticed only between calls."""
_CHUNK = 1 << 15
"""Comparisons of a pair per random stream; constant, so that results do not depend on the number of threads."""

Credit = Literal["sign", "difference"]


class PairCounts(NamedTuple):
    """Results of the comparisons of each pair, in arrays of shape (n_pairs,)."""

    n_samples: int
    wins: NDArray[np.int64]
    """Comparisons that the first ranker of the pair won."""
    losses: NDArray[np.int64]
    """Comparisons that the second ranker won; the rest are ties."""

    @property
    def preference(self) -> NDArray[np.float64]:
        """Estimated probability that the first ranker wins; a tie counts one half."""
        return (1 + (self.wins - self.losses) / self.n_samples) / 2


def compare_pairs(
    ranked: RankedQueries,
    pairs: ArrayLike,
    clicks: ClickModel,
    n_samples: int,
    *,
    method: Literal["team_draft", "probabilistic"] = "probabilistic",
    length: int = 10,
    tau: float = 3.0,
    credit: Credit = "sign",
    random_state: int = 0,
    n_jobs: int = 1,
    callback: Callable[[float], object] | None = None,
) -> PairCounts:
    """Interleave each pair of rankers ``n_samples`` times, each on a random query with new clicks.

    The ranker with more credit wins. With probabilistic interleaving, that is the ranker that is more likely to have
    contributed more of the clicked documents; with ``credit="difference"`` it wins with a probability equal to the
    difference of the two probabilities. ``callback`` is called with the share of comparisons made.
    """
    both = np.asarray(pairs)
    if both.ndim != 2 or both.shape[1] != 2 or (both.size and both.dtype.kind not in "iu"):
        raise BadInput("pairs", f"expected integers of shape (n_pairs, 2), got {both.dtype} {both.shape}")
    both = both.astype(np.int64)
    if both.size and not ((both >= 0) & (both < ranked.n_rankers)).all():
        most = ranked.n_rankers - 1
        raise BadInput("pairs", f"expected rankers from 0 to {most}, got {both.tolist()!r:.80}")
    check_choice("method", method, ("team_draft", "probabilistic"))
    check_choice("credit", credit, get_args(Credit))
    tables = _tables(ranked, clicks, length, n_samples)
    # a task is a chunk of the comparisons of one pair, with a random stream of its own
    chunks = -(-n_samples // _CHUNK)
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    first, second = np.repeat(both.T, chunks, axis=1)
    counts = np.tile(np.append(np.full(chunks - 1, _CHUNK), n_samples - (chunks - 1) * _CHUNK), both.shape[0])
    seeds: Any = np.random.SeedSequence(random_state).generate_state(first.shape[0], np.uint64)
    n_tasks = first.shape[0]
    wins, losses = np.zeros(n_tasks, dtype=np.int64), np.zeros(n_tasks, dtype=np.int64)
    # rank^-tau for the ranks of the longest query
    decay = power(np.arange(1, np.diff(ranked.offsets).max() + 1), -tau)

    def run(part: slice) -> None:
        task = first[part], second[part], counts[part], seeds[part]
        if method == "team_draft":
            team_draft(ranked, tables, *task, wins[part], losses[part])
        else:
            probabilistic(ranked, tables, decay, credit == "difference", *task, wins[part], losses[part])

    _in_threads(run, n_tasks, min(n_samples, _CHUNK), n_jobs, callback)
    by_pair = (counted.reshape(both.shape[0], chunks).sum(axis=1) for counted in (wins, losses))
    return PairCounts(n_samples, *by_pair)


def preference_matrix(
    ranked: RankedQueries, clicks: ClickModel, n_samples: int, **options: Any
) -> NDArray[np.float64]:
    """Return the probability that ranker i beats ranker j, estimated by ``n_samples`` interleavings of every pair.

    Parameters and ``options`` as for :func:`compare_pairs`. ``P + P.T == 1`` exactly; the diagonal is 1/2.
    """
    first, second = pair_indices(ranked.n_rankers)
    share = compare_pairs(ranked, np.column_stack([first, second]), clicks, n_samples, **options).preference
    matrix = np.full((ranked.n_rankers, ranked.n_rankers), 0.5)
    matrix[first, second] = share
    matrix[second, first] = 1 - share
    return matrix


def multileave_outcomes(
    ranked: RankedQueries,
    rankers: ArrayLike,
    clicks: ClickModel,
    n_samples: int = 1,
    *,
    method: Literal["sosm", "team_draft"] = "sosm",
    length: int = 10,
    credit: Credit = "sign",
    random_state: int = 0,
    n_jobs: int = 1,
) -> NDArray[np.float64]:
    """Return the wins of ``rankers[i]`` over ``rankers[j]`` minus its losses, in ``n_samples`` multileavings.

    Each is on a random query, with new clicks. The ranker with more credit wins; with ``credit="difference"`` and SOSM
    it wins with a probability equal to the difference, as a share of the largest possible. ``(1 + outcomes / n_samples)
    / 2`` estimates the preference matrix under multileaving.
    """
    chosen = np.asarray(rankers)
    if chosen.ndim != 1 or chosen.shape[0] < 2 or chosen.dtype.kind not in "iu":
        raise BadInput("rankers", f"expected at least 2 rankers as integers, got {chosen!r:.80}")
    if chosen.min() < 0 or chosen.max() >= ranked.n_rankers or np.unique(chosen).shape[0] < chosen.shape[0]:
        most = ranked.n_rankers - 1
        raise BadInput("rankers", f"expected different ones from 0 to {most}, got {chosen!r:.80}")
    check_choice("method", method, ("sosm", "team_draft"))
    check_choice("credit", credit, get_args(Credit))
    tables = _tables(ranked, clicks, length, n_samples)
    # a task is a number of samples with a random stream of its own
    chosen = chosen.astype(np.int64)
    chunk = 256
    n_tasks = -(-n_samples // chunk)
    seeds: Any = np.random.SeedSequence(random_state).generate_state(n_tasks, np.uint64)
    # integers, of which the sum does not depend on the order in which threads finish
    outcome = np.zeros((chosen.shape[0], chosen.shape[0]), dtype=np.int64)

    def run(part: slice) -> NDArray[np.int64]:
        part_outcome = np.zeros_like(outcome)
        for task in range(n_tasks)[part]:
            count = min(chunk, n_samples - task * chunk)
            by = method == "sosm", credit == "difference"
            multileave(ranked, tables, chosen, count, seeds[task], *by, part_outcome)
        return part_outcome

    for part_outcome in _in_threads(run, n_tasks, chunk, n_jobs):
        outcome += part_outcome
    return outcome.astype(np.float64)


def distortion(multileaved: ArrayLike, pairwise: ArrayLike, winner: int) -> float:
    """Return the share of the other rankers that beat the Condorcet winner in multileaving but not in pairs.

    ``[i, j]`` estimates the probability that ranker i beats j when all are multileaved, and when the two alone are
    interleaved (Brost, Seldin, Cox & Lioma, "Multi-dueling bandits", CIKM 2016, 4.2.6 and Table 3).
    """
    together, alone = np.asarray(multileaved, dtype=np.float64), np.asarray(pairwise, dtype=np.float64)
    for name, matrix in (("multileaved", together), ("pairwise", alone)):
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] < 2:
            raise BadInput(name, f"expected a square matrix of at least 2 rankers, got shape {matrix.shape}")
        if not ((matrix >= 0) & (matrix <= 1)).all():
            raise BadInput(name, "expected probabilities between 0 and 1")
    if together.shape != alone.shape:
        raise BadInput("pairwise", f"expected the shape of multileaved, {together.shape}, got {alone.shape}")
    if not 0 <= winner < together.shape[0]:
        raise BadInput("winner", f"expected a ranker from 0 to {together.shape[0] - 1}", value=winner)
    others = np.arange(together.shape[0]) != winner
    return float(((together[:, winner] > 0.5) & (alone[:, winner] <= 0.5))[others].mean())


class LiveComparisons:
    """Single comparisons: merges the rankings of some rankers for a random query and simulates the clicks of a user."""

    def __init__(
        self,
        ranked: RankedQueries,
        clicks: ClickModel,
        *,
        method: Literal["probabilistic", "team_draft"],
        length: int,
        credit: Credit = "sign",
    ) -> None:
        check_choice("credit", credit, get_args(Credit))
        self.ranked = ranked
        self.method, self.credit = method, credit
        self._tables = _tables(ranked, clicks, length, 1)
        self._decay = power(np.arange(1, np.diff(ranked.offsets).max() + 1), -3)

    def compare(self, arms: tuple[int, ...], rng: np.random.Generator) -> Any:
        """Merge the rankings of ``arms`` for a random query and simulate clicks; see ``World.compare``."""
        if len(arms) < 2 or (len(arms) == 2 and arms[0] == arms[1]):
            return 0.5  # no random number is drawn for an arm against itself
        if len(arms) == 2:
            return interleave(self.live_arrays(), arms[0], arms[1], rng)
        won = np.zeros((len(arms), len(arms)), dtype=np.int64)
        merge(self.live_arrays(), np.array(arms), rng, won)
        return (1 + won[pair_indices(len(arms))]) / 2

    def live_arrays(self) -> Any:
        """Return the arrays for comparisons by compiled bandits, with new scratch in each call."""
        by = self.method == "team_draft", self.credit == "difference"
        return live_arrays(self.ranked, self._tables, self._decay, *by)


def _tables(ranked: RankedQueries, clicks: ClickModel, length: int, n_samples: int) -> ClickTables:
    check_whole("length", length)
    check_whole("n_samples", n_samples)
    # the longest list that can be shown: a model with a short table need not cover ``length``
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
    """Run all tasks of ``size`` comparisons in threads, in pieces, so that Ctrl-C is noticed between them."""
    step = max(1, _PIECE // size)
    # results are in the order of the pieces, so that they do not depend on the threads
    pieces = [slice(a, min(a + step, n_tasks)) for a in range(0, n_tasks, step)]

    def reported(results: Iterable[Any]) -> Iterator[Any]:
        for piece, result in zip(pieces, results, strict=True):
            if callback is not None:
                callback(piece.stop / n_tasks)
            yield result

    if n_jobs <= 1 or len(pieces) <= 1:  # a pool would double the time of a small call
        return list(reported(map(run, pieces)))
    with ThreadPoolExecutor(n_jobs) as pool:
        try:
            return list(reported(pool.map(run, pieces)))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
