"""Simulated comparisons, with list, clicks and credit in one compiled pass (about a million comparisons per second).

A list is built only as far as the simulated user reads it. The distributions agree with ``TeamDraft``,
``Probabilistic`` and ``SOSM`` and the click models of ``structsvm.online.users``.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.common.checks import BadInput, check_choice, check_whole
from structsvm.common.machine import in_threads
from structsvm.common.portable.elementary import power
from structsvm.online.interleaving.compiled import kernels
from structsvm.online.interleaving.compiled.ranked_queries import RankedQueries
from structsvm.online.interleaving.crediting import pairs_of
from structsvm.online.interleaving.probabilistic import Probabilistic
from structsvm.online.users.click_tables import check_grades
from structsvm.protocols import ClickModel, ClickTables

_PIECE = 1 << 17
"""Number of comparisons per compiled call, which takes at most 0.5 s, since Ctrl-C takes effect only between calls."""
_CHUNK = 1 << 15
"""Number of comparisons of a pair per random stream; fixed, so that results do not depend on the number of threads."""

Credit = Literal["sign", "difference"]


class PairCounts(NamedTuple):
    """Results of the comparisons of each pair, in arrays of shape (n_pairs,)."""

    n_samples: int
    wins: NDArray[np.int64]
    """Number of comparisons that the first ranker of the pair won."""
    losses: NDArray[np.int64]
    """Number of comparisons that the second ranker won; the remaining comparisons are ties."""

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
    tau: float = Probabilistic.tau,
    credit: Credit = "sign",
    random_state: int = 0,
    n_jobs: int = 1,
    callback: Callable[[float], object] | None = None,
) -> PairCounts:
    """Interleave each pair of rankers ``n_samples`` times, each time for a random query with new simulated clicks.

    The ranker with more credit wins. With probabilistic interleaving, this is the ranker that is more likely to have
    contributed more of the clicked documents; with ``credit="difference"``, it wins with a probability equal to the
    difference between this probability and that of the other ranker. ``callback`` is called with the share of
    comparisons completed.
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
    tables = tables_for(ranked, clicks, length, n_samples)
    # a task is a chunk of the comparisons of one pair, with its own random stream
    chunks = -(-n_samples // _CHUNK)
    first, second = np.repeat(both.T, chunks, axis=1)
    counts = np.tile(np.append(np.full(chunks - 1, _CHUNK), n_samples - (chunks - 1) * _CHUNK), both.shape[0])
    seeds: Any = np.random.SeedSequence(random_state).generate_state(first.shape[0], np.uint64)
    n_tasks = first.shape[0]
    tasks: Any = kernels.Tasks(first, second, counts, seeds, *np.zeros((2, n_tasks), dtype=np.int64))
    # rank^-tau for the ranks of the longest query
    decay = power(np.arange(1, np.diff(ranked.offsets).max() + 1), -tau)

    # combine tasks into compiled calls of at most _PIECE comparisons
    size = max(1, _PIECE // min(n_samples, _CHUNK))

    def run(start: int) -> None:
        own = kernels.Tasks(*(column[start : start + size] for column in tasks))
        if method == "team_draft":
            kernels.team_draft(ranked, tables, len(decay), own)
        else:
            kernels.probabilistic(ranked, tables, decay, credit == "difference", own)

    pieces = range(0, n_tasks, size)
    # starting a pool would double the time of a small call
    done = map(run, pieces) if n_jobs <= 1 or len(pieces) <= 1 else in_threads(run, pieces, n_jobs)
    for k, _ in enumerate(done, 1):
        if callback is not None:
            callback(k / len(pieces))
    by_pair = (counted.reshape(both.shape[0], chunks).sum(axis=1) for counted in (tasks.wins, tasks.losses))
    return PairCounts(n_samples, *by_pair)


def preference_matrix(
    ranked: RankedQueries, clicks: ClickModel, n_samples: int, **options: Any
) -> NDArray[np.float64]:
    """Return the probability that ranker i beats ranker j, estimated from ``n_samples`` interleavings of each pair.

    Parameters and ``options`` are as for :func:`compare_pairs`. ``P + P.T == 1`` exactly; the diagonal is 1/2.
    """
    first, second = pairs_of(ranked.n_rankers)
    share = compare_pairs(ranked, np.column_stack([first, second]), clicks, n_samples, **options).preference
    matrix = np.full((ranked.n_rankers, ranked.n_rankers), 0.5)
    matrix[first, second] = share
    matrix[second, first] = 1 - share
    return matrix


class LiveComparisons:
    """Single comparisons, which merge the rankings of several rankers for a random query and simulate clicks."""

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
        self._tables = tables_for(ranked, clicks, length, 1)
        self._decay = power(np.arange(1, np.diff(ranked.offsets).max() + 1), -Probabilistic.tau)

    def compare(self, arms: tuple[int, ...], rng: np.random.Generator) -> Any:
        """Merge the rankings of ``arms`` for a random query and simulate clicks; see ``World.compare``."""
        if len(arms) < 2 or (len(arms) == 2 and arms[0] == arms[1]):
            return 0.5  # a comparison of an arm with itself draws no random number
        if len(arms) == 2:
            return kernels.interleave(self.live_arrays(), arms[0], arms[1], rng)
        won = np.zeros((len(arms), len(arms)), dtype=np.int64)
        kernels.merge(self.live_arrays(), np.array(arms), rng, won)
        return (1 + won[pairs_of(len(arms))]) / 2

    def live_arrays(self) -> Any:
        """Return the arrays for comparisons in compiled bandits; each call allocates new scratch arrays."""
        return kernels.live_arrays(
            self.ranked, self._tables, self._decay, self.method == "team_draft", self.credit == "difference"
        )


def tables_for(ranked: RankedQueries, clicks: ClickModel, length: int, n_samples: int) -> ClickTables:
    """Return the tables of a click model for the longest list; raise for an invalid length, ``n_samples`` or grade."""
    check_whole("length", length)
    check_whole("n_samples", n_samples)
    # request only as many ranks as a list can have: a click model with fixed parameters may cover fewer than ``length``
    tables = clicks.tables(int(min(length, np.diff(ranked.offsets).max())))
    check_grades(ranked.grades, tables.click.shape[0])
    return ClickTables(*(np.ascontiguousarray(table) for table in tables))
