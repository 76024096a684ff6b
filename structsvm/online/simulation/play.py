"""Play a dueling bandit against a world, many times, and measure its regret."""

from __future__ import annotations

import contextlib
import copy
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.checks import BadInput, check_choice, check_whole
from structsvm.machine import count_threads
from structsvm.online.bandits.policy import pair_indices
from structsvm.online.simulation.checkpoint import Checkpoint, RunState, UnderWay, fingerprint
from structsvm.online.simulation.worlds import PreferenceMatrix, World
from structsvm.protocols import Float, Int

__all__ = [
    "FAST",
    "Exploration",
    "Progress",
    "Simulation",
    "explore",
    "generators",
    "log_grid",
    "regret_of",
    "run_streams",
    "simulate",
    "time_grid",
]

FAST = ("rucb", "rcs", "mergerucb", "rmed1", "mdb", "if1", "if2")
"""Bandits with a compiled form (module ``structsvm.online.bandits.compiled``)."""

_KINDS = ("average", "sum", "weak")
_LONGEST = 10**18
"""Comparisons of a run: more are not counted in 64 bits."""
_SAVE_SECONDS = 30.0
_SAVE_STEPS = 64
"""Steps between two looks at the clock."""


class Progress(NamedTuple):
    """What a callback is told: a run was finished, or (one worker, uncompiled form) has come to ``step``."""

    n_done: int
    n_runs: int
    run: int
    step: int


@dataclass(frozen=True, eq=False)
class Simulation:
    """Regret and answers of ``n_runs`` runs.

    Attributes
    ----------
    times : ndarray of int64, shape (n_times,)
        Numbers of comparisons at which the rest was recorded; the last is the horizon.
    regret : ndarray of float64, shape (n_runs, n_times)
        Cumulative.
    winners : ndarray of int64, shape (n_runs, n_times)
        The bandit's answer at each time.
    correct : ndarray of bool, shape (n_runs, n_times)
        Whether that was one of the best arms.
    duels : ndarray of int64, shape (K, K)
        How often each pair was compared, all runs together; upper triangle, and the diagonal for an arm with
        itself (or alone). In a set every pair counts.
    fast : bool
        Whether the compiled form played.
    """

    times: Int
    regret: Float
    winners: Int
    correct: NDArray[np.bool_]
    duels: Int
    fast: bool

    @property
    def winner(self) -> Int:
        """The answer of each run at the horizon, shape (n_runs,)."""
        return self.winners[:, -1]

    @property
    def accuracy(self) -> Float:
        """Share of runs whose answer was right, shape (n_times,)."""
        return np.asarray(self.correct.mean(axis=0))

    def mean(self) -> Float:
        """Mean cumulative regret, shape (n_times,)."""
        return np.asarray(self.regret.mean(axis=0))

    def interval(self, level: float = 0.95) -> tuple[Float, Float]:
        """Student-t confidence interval of the mean regret: lower and upper, each of shape (n_times,).

        Needs at least two runs; with one the interval is infinite.
        """
        from scipy.special import stdtrit

        n = len(self.regret)
        if n < 2:
            half = np.full(len(self.times), np.inf)
        else:
            half = stdtrit(n - 1, (1 + level) / 2) * self.regret.std(axis=0, ddof=1) / np.sqrt(n)
        return self.mean() - half, self.mean() + half


def run_streams(seed: int, n_runs: float) -> list[np.random.SeedSequence]:
    """The random stream of each run; ValueError for a bad seed or number of runs."""
    return np.random.SeedSequence(check_whole("seed", seed, 0)).spawn(
        check_whole("n_runs", n_runs, floats=True)
    )


def log_grid(horizon: int, n: int = 100) -> Int:
    """About ``n`` whole numbers, evenly spaced on a log scale from 1 to the horizon.

    Examples
    --------
    >>> log_grid(100, 5)
    array([  1,   3,  10,  32, 100])
    """
    return np.unique(np.round(np.geomspace(1, horizon, n)).astype(np.int64))


def regret_of(gaps: Float, arms: tuple[int, ...], kind: str) -> float:
    """Regret of one comparison: "average" (mean gap of those compared), "sum" (pairs only) or "weak" (least
    gap).

    Examples
    --------
    >>> import numpy as np
    >>> [regret_of(np.array([0.0, 0.1, 0.3]), (1, 2), kind) for kind in ("average", "sum", "weak")]
    [0.2, 0.4, 0.1]
    """
    if len(arms) == 2:
        first, second = float(gaps[arms[0]]), float(gaps[arms[1]])
        if kind == "weak":
            return min(first, second)
        return first + second if kind == "sum" else (first + second) / 2
    values = gaps[np.array(arms)]
    if kind == "sum":
        raise ValueError('regret="sum" is for pairs, but the bandit compares sets: use "average" or "weak"')
    return float(values.min() if kind == "weak" else values.mean())


def simulate(
    bandit: Any,
    world: Any,
    *,
    horizon: float,
    n_runs: int = 1,
    seed: int = 0,
    regret: str = "average",
    n_jobs: int | None = None,
    times: ArrayLike | None = None,
    options: dict[str, Any] | None = None,
    fast: bool | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    callback: Callable[[Progress], object] | None = None,
) -> Simulation:
    """Play a bandit in a world for ``horizon`` comparisons, ``n_runs`` times.

    Parameters
    ----------
    bandit : str, object or callable
        A name (``structsvm.online.bandits.NAMES``); a bandit, copied for each run; or a callable
        ``(n_arms, horizon) -> bandit``.
    world : array-like or World
        A square preference matrix with a Condorcet winner, or a world: an object of
        ``structsvm.online.simulation.worlds``, ``InterleavedRankers`` (a data set), or your own.
    horizon : int
        Comparisons in a run, 1 to 10^18; also handed to the bandits that need one.
    n_runs : int, default=1
    seed : int, default=0
        Each run has its own stream spawned from it: the result does not depend on ``n_jobs`` or on the other
        runs.
    regret : {"average", "sum", "weak"}
        Mean of the gaps of those compared; their sum (pairs only); the least of them.
    n_jobs : int, optional
        Workers as in joblib (None is 1, -1 all cores): threads for the compiled forms, processes for the
        others.
    times : array-like of int, optional
        When to record; by default 100 points on a log scale. The horizon is always added.
    options : dict, optional
        Parameters of a bandit given by name, such as ``{"alpha": 0.6}``.
    fast : bool, optional
        By default the compiled form is used when the bandit is given by a name of ``FAST`` and the world has
        a matrix (``PreferenceMatrix``, ``Utilities``, ``NormalScores``). False asks for the uncompiled form.
    checkpoint : path, optional
        Finished runs are kept in this file, and a run of the uncompiled form under way in
        ``<checkpoint>.run<k>``, written every half minute: that much is lost at most. Calling again with the
        same arguments resumes and gives the same result.
    callback : callable, optional
        Told a :class:`Progress` after each run; with one worker and the uncompiled form also at each of
        ``times``.

    Returns
    -------
    Simulation

    Raises
    ------
    ValueError
        For a bad matrix, name, option, horizon, or a checkpoint of another simulation.

    Notes
    -----
    The compiled forms skip the steps in which nothing can change, and spend O(K) on the others. With the same
    seed they play the same duels as the uncompiled ones; RCS does so in distribution only, because it samples
    the winners of the tournament instead of the Beta variables.

    Examples
    --------
    >>> result = simulate("savage", [[0.5, 0.8], [0.2, 0.5]], horizon=1000, n_runs=3, seed=1)
    >>> result.regret.shape, result.winner
    ((3, 75), array([0, 0, 0]))
    """
    place = world if isinstance(world, World) else PreferenceMatrix(world)
    steps, workers = check_whole("horizon", horizon, floats=True), count_threads(n_jobs)
    if steps > _LONGEST:
        raise BadInput("horizon", f"expected at most {_LONGEST:.0e} comparisons, got {horizon:g}")
    streams = run_streams(seed, n_runs)
    n_runs = len(streams)
    _check_regret(regret)
    if regret == "sum" and bandit in ("mdb", "random"):
        raise ValueError(f'regret="sum" is for pairs, but {bandit} compares sets: use "average" or "weak"')
    grid = time_grid(times, steps)
    compiled = _plays_compiled(bandit, place, fast)
    fresh = _maker(bandit, place.n_arms, steps, options)
    first = fresh()  # a bad name or option fails here, before any worker starts
    store = Checkpoint(
        checkpoint, fingerprint(bandit, options, first, place, grid, n_runs, seed, regret, compiled)
    )
    store.read(n_runs, len(grid), place.n_arms)
    todo = [run for run in range(n_runs) if not store.done[run]]

    def tell(run: int, step: int) -> None:
        if callback is not None:
            callback(Progress(int(store.done.sum()), n_runs, run, step))

    def job(run: int, tick: Callable[[int], object] | None = None) -> tuple[int, Float, Int, Int]:
        rngs = generators(streams[run])
        if compiled:
            from structsvm.online.bandits.compiled import play

            return run, *play(bandit, place, steps, grid, _KINDS.index(regret), *rngs, **(options or {}))
        return run, *_play(fresh(), place, grid, regret, rngs, store.under_way(run), tick)

    outcomes: Iterable[tuple[int, Float, Int, Int]]
    if compiled:
        outcomes = _in_threads(job, todo, workers)
    elif workers == 1 or len(todo) <= 1:
        outcomes = (job(run, partial(tell, run)) for run in todo)
    else:
        outcomes = _in_processes(job, todo, workers)
    for run, values, answers, duels in outcomes:
        store.add(run, values, answers, duels)
        tell(run, steps)
    correct = np.isin(store.winners, place.winners)
    return Simulation(grid, store.regret, store.winners, correct, store.duels, compiled)


@dataclass(frozen=True, eq=False)
class Exploration:
    """What exploration cost until the bandit was sure.

    Attributes
    ----------
    steps : ndarray of int64, shape (n_runs,)
        Comparisons.
    regret : ndarray of float64, shape (n_runs,)
    winner : ndarray of int64, shape (n_runs,)
    correct : ndarray of bool, shape (n_runs,)
    """

    steps: Int
    regret: Float
    winner: Int
    correct: NDArray[np.bool_]


def explore(
    bandit: Any,
    world: Any,
    *,
    horizon: float,
    n_runs: int = 1,
    seed: int = 0,
    regret: str = "average",
    n_jobs: int | None = None,
    options: dict[str, Any] | None = None,
    max_steps: float | None = None,
) -> Exploration:
    """Let a bandit explore to its end, past the horizon where it needs to (thesis 5.5: IF1 and IF2).

    Cutting at the horizon, as :func:`simulate` does, hides how much longer one method explores than another.

    Parameters
    ----------
    bandit : str, object or callable
        As for :func:`simulate`, but one that ends: if1, if2, btm, savage, mergerucb.
    world : array-like or World
    horizon : int
        From which the bandit sets its confidence.
    n_runs, seed, regret, n_jobs, options
        As for :func:`simulate`. IF1 and IF2 with the same seed start from the same candidate and order.
    max_steps : int, optional
        Give up after so many comparisons (the answer then is the bandit's best guess).

    Returns
    -------
    Exploration

    Raises
    ------
    ValueError
        For a bad matrix, name, option, horizon, seed, number of runs, workers or steps, an unknown regret, and a bandit
        whose exploration does not end (without an attribute ``finished``).

    Examples
    --------
    >>> explore("if2", [[0.5, 0.9], [0.1, 0.5]], horizon=100).winner
    array([0])
    """
    place = world if isinstance(world, World) else PreferenceMatrix(world)
    _check_regret(regret)
    steps, workers = check_whole("horizon", horizon, floats=True), count_threads(n_jobs)
    streams = run_streams(seed, n_runs)
    limit = 2**62 if max_steps is None else check_whole("max_steps", max_steps, floats=True)
    fresh = _maker(bandit, place.n_arms, steps, options)
    if not hasattr(fresh(), "finished"):
        raise BadInput(
            "bandit", "expected one whose exploration ends (with an attribute finished)", value=bandit
        )
    compiled = bandit in ("if1", "if2") and getattr(place, "preferences", None) is not None

    def job(run: int) -> tuple[int, int, float, int]:
        rng, ties = generators(streams[run])
        policy = fresh()
        if compiled:
            from structsvm.online.bandits.compiled.interleaved_filter import explore as run_filter

            none, nobody = np.zeros(0), np.zeros(0, dtype=np.int64)
            counts = np.zeros((place.n_arms, place.n_arms), dtype=np.int64)
            kind = _KINDS.index(regret)
            return run, *run_filter(policy, place, nobody, kind, rng, ties, none, nobody, counts, limit=limit)
        done, total = 0, 0.0
        while not policy.finished and done < limit:
            duel = policy.select(rng)
            policy.update(duel, place.compare(duel.arms, rng))
            total += regret_of(place.gaps, duel.arms, regret)
            done += 1
        return run, done, total, policy.best(ties)

    outcomes = (_in_threads if compiled else _in_processes)(job, range(len(streams)), workers)
    _, spent, values, answers = (np.array(column) for column in zip(*sorted(outcomes), strict=True))
    return Exploration(spent, values, answers, np.isin(answers, place.winners))


def _in_threads(job: Callable[[int], Any], runs: Sequence[int], workers: int) -> Iterator[Any]:
    """Outcomes of compiled runs as they finish, each in a thread: compiled code does not hear Ctrl-C, the waiting
    main thread does.
    """
    from multiprocessing import TimeoutError as Waiting
    from multiprocessing.pool import ThreadPool

    with ThreadPool(max(1, min(workers, len(runs)))) as pool:
        outcomes = pool.imap_unordered(job, runs)
        for _ in runs:
            outcome = None
            while outcome is None:
                # a signal that comes just before a wait does not end it: waits are short
                with contextlib.suppress(Waiting):
                    outcome = outcomes.next(timeout=0.5)
            yield outcome


def _in_processes(job: Callable[[int], Any], runs: Sequence[int], workers: int) -> Iterator[Any]:
    """Outcomes of uncompiled runs as they finish, each in a process; one worker is this one."""
    from joblib import Parallel, delayed

    pool = Parallel(n_jobs=workers, backend="loky", return_as="generator_unordered")
    yield from pool(delayed(job)(run) for run in runs)


def _check_regret(regret: str) -> None:
    check_choice("regret", regret, _KINDS)


def _plays_compiled(bandit: Any, world: World, fast: bool | None) -> bool:
    """Whether the compiled form plays; ValueError where it is asked for and there is none."""
    can = isinstance(bandit, str) and bandit in FAST and getattr(world, "preferences", None) is not None
    if fast and not can:
        raise ValueError(
            f"fast=True: expected a bandit name among {', '.join(FAST)} and a world with a matrix, "
            f"got {bandit!r} and a {type(world).__name__}"
        )
    return can if fast is None else bool(fast)


def time_grid(times: ArrayLike | None, horizon: int) -> Int:
    """The times to record at, sorted, the horizon among them; ValueError for one outside the run."""
    if times is None:
        return log_grid(horizon)
    asked = np.asarray(times)
    grid = np.unique(np.append(asked, horizon))
    if asked.dtype == bool or (grid != np.floor(grid)).any() or grid[0] < 1 or grid[-1] > horizon:
        raise BadInput("times", f"expected whole numbers from 1 to the horizon {horizon}", value=times)
    return grid.astype(np.int64)


def _maker(bandit: Any, n_arms: int, horizon: int, options: dict[str, Any] | None) -> Callable[[], Any]:
    if isinstance(bandit, str):
        from structsvm.online.bandits import make

        return lambda: make(bandit, n_arms, horizon, **(options or {}))
    if options:
        raise BadInput("options", "for a bandit given by name", "set them on the object, or in the callable")
    if hasattr(bandit, "select") and not isinstance(bandit, type):
        if bandit.n_arms != n_arms:
            raise BadInput(
                "bandit", f"expected one for the world's {n_arms} arms, got one for {bandit.n_arms}"
            )
        return lambda: copy.deepcopy(bandit)
    if callable(bandit):
        return lambda: bandit(n_arms, horizon)
    raise BadInput(
        "bandit", "expected a name, a bandit or a callable (n_arms, horizon) -> bandit", value=bandit
    )


def generators(stream: np.random.SeedSequence) -> tuple[np.random.Generator, np.random.Generator]:
    """One generator plays; the other breaks ties in recorded answers, so that recording does not change the
    play.
    """
    moves, ties = np.random.SeedSequence(stream.entropy, spawn_key=stream.spawn_key).spawn(2)
    return np.random.Generator(np.random.PCG64(moves)), np.random.Generator(np.random.PCG64(ties))


def _play(
    bandit: Any,
    world: World,
    times: Int,
    kind: str,
    generators: tuple[np.random.Generator, np.random.Generator],
    under_way: UnderWay | None,
    tick: Callable[[int], object] | None,
) -> tuple[Float, Int, Int]:
    """One run of the uncompiled form: (regret, winners, duels); ``tick`` is told each of ``times`` but the last."""
    n_times, n_arms = len(times), world.n_arms
    run = RunState(
        bandit,
        *generators,
        regret=np.zeros(n_times),
        winners=np.zeros(n_times, dtype=np.int64),
        duels=np.zeros((n_arms, n_arms), dtype=np.int64),
    )
    if not (hasattr(bandit, "to_json") and hasattr(type(bandit), "from_json")):
        under_way = None
    if under_way is not None:
        under_way.resume(run)
    bandit, rng = run.bandit, run.rng
    last_save = time.monotonic()
    while run.k < n_times:
        due = int(times[run.k])
        duel = bandit.select(rng)
        bandit.update(duel, world.compare(duel.arms, rng))
        run.total += regret_of(world.gaps, duel.arms, kind)
        _count(run.duels, duel.arms)
        run.step += 1
        if run.step == due:
            run.regret[run.k] = run.total
            run.winners[run.k] = bandit.best(run.ties)
            run.k += 1
            try:
                if tick is not None and run.k < n_times:
                    tick(run.step)
            except BaseException:  # a callback that raises loses nothing
                if under_way is not None:
                    under_way.save(run)
                raise
        # only between steps is the state whole: an interrupt within one costs what came after the last save
        if (
            under_way is not None
            and run.step % _SAVE_STEPS == 0
            and time.monotonic() - last_save > _SAVE_SECONDS
        ):
            under_way.save(run)
            last_save = time.monotonic()
    if under_way is not None:
        under_way.path.unlink(missing_ok=True)
    return run.regret, run.winners, run.duels


def _count(duels: Int, arms: tuple[int, ...]) -> None:
    if len(arms) == 2:
        duels[min(arms), max(arms)] += 1
    elif len(arms) == 1:
        duels[arms[0], arms[0]] += 1
    else:
        index = np.sort(np.array(arms))
        first, second = pair_indices(len(index))
        duels[index[first], index[second]] += 1
