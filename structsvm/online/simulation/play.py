"""Simulation of a dueling bandit in a world, with its regret up to a horizon."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.common.checks import BadInput, check_choice, check_fraction, check_whole
from structsvm.common.frames import frame
from structsvm.common.machine import count_threads, in_threads
from structsvm.common.records import plain
from structsvm.online.simulation import runs
from structsvm.online.simulation.checkpoint import Checkpoint, fingerprint
from structsvm.plots.html_by import html_by
from structsvm.protocols import Float, Int

_LONGEST = 10**18
"""Maximum number of comparisons per run, so that regret and counts fit in 64 bits."""


class RunProgress(NamedTuple):
    """Argument of the callback: a run has finished or, with one worker and the uncompiled form, reached ``step``."""

    n_done: int
    n_runs: int
    run: int
    step: int


@dataclass(frozen=True, eq=False)
class Simulation:
    """Regret and best arms of several runs of a bandit.

    Attributes
    ----------
    times : ndarray of int64, shape (n_times,)
        Numbers of comparisons after which regret and best arm were recorded; the last is the horizon.
    regret : ndarray of float64, shape (n_runs, n_times)
        Cumulative regret of each run at each time.
    winners : ndarray of int64, shape (n_runs, n_times)
        Best arm according to the bandit at each time.
    correct : ndarray of bool, shape (n_runs, n_times)
        Whether the arm in ``winners`` is one of the best arms of the world.
    duels : ndarray of int64, shape (K, K)
        Number of comparisons of each pair in all runs, in the upper triangle; the diagonal counts arms that were
        compared with themselves or played alone. Each pair of a compared set counts once.
    compiled : bool
        Whether the compiled form was used.

    Examples
    --------
    >>> from structsvm.online import simulate
    >>> run = simulate("rucb", [[0.5, 0.8], [0.2, 0.5]], horizon=1000, n_runs=5, times=[100, 1000], seed=0)
    >>> run.winners[:, -1].tolist()  # the answer of each run at the end
    [0, 0, 0, 0, 0]
    >>> early, late = run.mean()
    >>> bool(late < 10 * early)  # ten times the comparisons cost less than ten times the regret
    True
    """

    times: Int
    regret: Float
    winners: Int
    correct: NDArray[np.bool_]
    duels: Int
    compiled: bool

    def __repr__(self) -> str:
        runs = f"{len(self.regret)} run{'' if len(self.regret) == 1 else 's'}"
        return (
            f"Simulation({runs} of {self.times[-1]} comparisons, regret {self.mean()[-1]:.4g}, "
            f"right in {self.accuracy[-1]:.0%}, {self.duels.shape[0]} arms)"
        )

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with mean regret, its 95% interval and accuracy, one row per recorded time."""
        low, high = self.interval()
        return frame(
            {"regret": self.mean(), "lower": low, "upper": high, "accuracy": self.accuracy},
            index=self.times,
            index_name="comparisons",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the means, the answer of each run and the last interval as plain objects for ``json.dumps``."""
        regret, (low, high) = self.mean(), (ends[-1] for ends in self.interval())
        return plain(
            {
                "regret": regret[-1],
                "interval": (low, high) if np.isfinite(low) else None,
                "accuracy": self.accuracy[-1],
                "winners": self.winner,
                "times": self.times,
                "mean_regret": regret,
            }
        )

    _repr_html_ = html_by("simulation")

    @property
    def winner(self) -> Int:
        """Best arm according to each run at the horizon, shape (n_runs,)."""
        return self.winners[:, -1]

    @property
    def accuracy(self) -> Float:
        """Share of runs with a correct best arm, shape (n_times,)."""
        return np.asarray(self.correct.mean(axis=0))

    def mean(self) -> Float:
        """Return the mean cumulative regret, shape (n_times,)."""
        return np.asarray(self.regret.mean(axis=0))

    def interval(self, level: float = 0.95) -> tuple[Float, Float]:
        """Return Student's t interval of the mean regret as its lower and upper ends, each of shape (n_times,).

        With a single run, the interval is infinite.
        """
        from scipy.special import stdtrit

        check_fraction("level", level)
        n = len(self.regret)
        if n < 2:
            return np.full(len(self.times), -np.inf), np.full(len(self.times), np.inf)
        half = stdtrit(n - 1, (1 + level) / 2) * self.regret.std(axis=0, ddof=1) / np.sqrt(n)
        return self.mean() - half, self.mean() + half


def simulate(
    bandit: object,
    world: object,
    *,
    horizon: float,
    n_runs: int = 1,
    seed: int = 0,
    regret: str = "average",
    n_jobs: int | None = None,
    times: ArrayLike | None = None,
    options: dict[str, Any] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    callback: Callable[[RunProgress], object] | None = None,
) -> Simulation:
    """Simulate ``n_runs`` runs of a bandit in a world, each of ``horizon`` comparisons.

    Parameters
    ----------
    bandit : str, object or callable
        A short name (a key of ``structsvm.online.bandits.NAMES``); a bandit, which is copied for each run; or a
        callable ``(n_arms, horizon) -> bandit``, such as ``partial(make, "rucb")``. The compiled form of a bandit given
        by name, if it has one, is used in worlds with a matrix (``PreferenceMatrix``, ``Utilities``, ``NormalScores``)
        and in ``InterleavedRankers``.
    world : array-like or World
        A square preference matrix with a Condorcet winner, or a world: an object of
        ``structsvm.online.simulation.worlds``, ``InterleavedRankers`` (a data set), or your own.
    horizon : int
        Number of comparisons per run, 1 to 10^18; also the horizon of bandits that require one.
    n_runs : int, default=1
        Number of independent runs.
    seed : int, default=0
        Each run has its own random stream, spawned from the seed, so results do not depend on ``n_jobs`` or on
        other runs.
    regret : {"average", "sum", "weak"}
        Regret of a comparison: the mean of the gaps of its arms, their sum (pairs only), or the smallest gap.
    n_jobs : int, optional
        Number of workers as in joblib (None means 1, -1 all cores): threads for compiled forms, processes for other
        bandits.
    times : array-like of int, optional
        Numbers of comparisons at which to record; by default 100 points on a log scale. The horizon is always added.
    options : dict, optional
        Parameters of the bandit, if it is given by name, such as ``{"alpha": 0.6}``.
    checkpoint : path, optional
        File for the results of finished runs. A call with the same arguments plays only the remaining runs, and gives
        the same result as an uninterrupted call.
    callback : callable, optional
        Called with a :class:`RunProgress` after each run; with one worker and the uncompiled form, also at each of
        ``times``.

    Returns
    -------
    Simulation

    Notes
    -----
    Compiled forms skip steps in which nothing can change. With the same seed, they play the same duels as the
    uncompiled forms, except that RCS agrees only in distribution, since it samples winners of the tournament, not Beta
    variables.

    Examples
    --------
    >>> result = simulate("savage", [[0.5, 0.8], [0.2, 0.5]], horizon=1000, n_runs=3, seed=1)
    >>> result.regret.shape, result.winner
    ((3, 75), array([0, 0, 0]))
    """
    world = runs.as_world(world)
    steps, workers = check_whole("horizon", horizon, 1, _LONGEST, floats=True), count_threads(n_jobs)
    streams = runs.run_streams(seed, n_runs)
    n_runs = len(streams)
    check_choice("regret", regret, runs.REGRETS)
    grid = runs.time_grid(times, steps)
    fresh = runs.bandit_maker(bandit, world.n_arms, steps, options)
    # refuse an invalid name or option before any worker starts
    first = fresh()
    who = bandit if isinstance(bandit, str) else type(first).__name__
    if regret == "sum" and getattr(first, "compares_sets", False):
        raise BadInput(
            "regret", f"'sum' is for pairs, but {who} compares sets", "use {regret='average'} or 'weak'"
        )
    # compiled forms require a world with a matrix or with live comparisons
    playable = getattr(world, "preferences", None) is not None or hasattr(world, "live_arrays")
    plays_compiled = isinstance(bandit, str) and hasattr(first, "compiled") and playable
    settings = fingerprint(
        first,
        world,
        bandit=who,
        options=options or {},
        times=grid.tolist(),
        n_runs=n_runs,
        seed=seed,
        regret=regret,
        compiled=plays_compiled,
    )
    store = Checkpoint(checkpoint, settings, n_runs, len(grid), world.n_arms)
    # skip the runs that the checkpoint contains
    todo = [run for run in range(n_runs) if not store.done[run]]

    def report(run: int, step: int) -> None:
        if callback is not None:
            callback(RunProgress(int(store.done.sum()), n_runs, run, step))

    def job(run: int, tick: Callable[[int], object] | None = None) -> tuple[int, Float, Int, Int]:
        # create the generators and the bandit in the worker, so that runs share no state
        rngs = runs.generators(streams[run])
        if plays_compiled:
            from structsvm.online.bandits.compiled.run import begin

            played = begin(world, grid, regret, *rngs)
            import_module(first.compiled).play(fresh(), played)
            return run, played.regret, played.winners, played.duels
        return run, *runs.play_literally(fresh(), world, grid, regret, rngs, tick)

    # Compiled forms release the GIL and run in threads, other bandits run in processes. Only a run in this process can
    # report its steps to the callback.
    outcomes: Iterable[tuple[int, Float, Int, Int]]
    if plays_compiled:
        outcomes = in_threads(job, todo, workers)
    elif workers == 1 or len(todo) <= 1:
        outcomes = (job(run, partial(report, run)) for run in todo)
    else:
        outcomes = runs.in_processes(job, todo, workers)
    for run, values, answers, duels in outcomes:
        store.add(run, values, answers, duels)
        report(run, steps)
    return Simulation(
        grid, store.regret, store.winners, np.isin(store.winners, world.winners), store.duels, plays_compiled
    )
