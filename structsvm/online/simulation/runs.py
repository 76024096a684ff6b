"""Runs of a bandit in a world: random streams, times to record, regret, and workers."""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from structsvm.common.checks import BadInput, check_whole
from structsvm.common.portable.elementary import geomspace
from structsvm.online.bandits.by_name import make
from structsvm.online.bandits.policy import pair_indices
from structsvm.online.simulation.worlds import PreferenceMatrix
from structsvm.protocols import Float, Int, World

REGRETS = ("average", "sum", "weak")
"""Types of regret of a comparison: the mean gap of its arms, the sum of the gaps of a pair, or the smallest gap."""


def as_world(world: Any) -> World:
    """Return ``world`` if it is a world, otherwise the world of a square preference matrix."""
    return world if isinstance(world, World) else PreferenceMatrix(world)


def run_streams(seed: int, n_runs: float) -> list[np.random.SeedSequence]:
    """Return the random stream of each run; raise BadInput for an invalid seed or number of runs."""
    return np.random.SeedSequence(check_whole("seed", seed, 0)).spawn(
        check_whole("n_runs", n_runs, floats=True)
    )


def log_grid(horizon: int, n: int = 100) -> Int:
    """Return about ``n`` integers from 1 to the horizon, evenly spaced on a log scale."""
    return np.unique(np.round(geomspace(1, horizon, n)).astype(np.int64))


def time_grid(times: ArrayLike | None, horizon: int) -> Int:
    """Return the sorted times to record, including the horizon; raise BadInput for a time outside the run."""
    if times is None:
        return log_grid(horizon)
    # refuse booleans, which would count as integers
    asked = np.asarray(times)
    grid = np.unique(np.append(asked, horizon))
    if asked.dtype == bool or (grid != np.floor(grid)).any() or grid[0] < 1 or grid[-1] > horizon:
        raise BadInput("times", f"expected integers from 1 to the horizon {horizon}", value=times)
    return grid.astype(np.int64)


def generators(stream: np.random.SeedSequence) -> tuple[np.random.Generator, np.random.Generator]:
    """Return the generator of the duels, and another generator that breaks ties when the best arm is recorded.

    With separate generators, recording does not change the duels.
    """
    # spawn from a copy, since spawning changes the state of a SeedSequence
    moves, ties = np.random.SeedSequence(stream.entropy, spawn_key=stream.spawn_key).spawn(2)
    return np.random.Generator(np.random.PCG64(moves)), np.random.Generator(np.random.PCG64(ties))


def bandit_maker(bandit: Any, n_arms: int, horizon: int, options: dict[str, Any] | None) -> Callable[[], Any]:
    """Return a function that creates the bandit of a run; raise BadInput for an invalid ``bandit``."""
    if isinstance(bandit, str):
        return lambda: make(bandit, n_arms, horizon, **(options or {}))
    if options:
        raise BadInput("options", "apply only to bandits given by name", "set them on the object or callable")
    if hasattr(bandit, "select") and not isinstance(bandit, type):
        if bandit.n_arms != n_arms:
            raise BadInput("bandit", f"expected {n_arms} arms, as in the world, got {bandit.n_arms}")
        return lambda: copy.deepcopy(bandit)
    if callable(bandit):
        return lambda: bandit(n_arms, horizon)
    raise BadInput(
        "bandit", "expected a name, a bandit or a callable (n_arms, horizon) -> bandit", value=bandit
    )


def regret_of(gaps: Float, arms: tuple[int, ...], kind: str) -> float:
    """Return the regret of a comparison; ``kind`` is one of :data:`REGRETS`."""
    if kind == "sum" and len(arms) != 2:
        raise BadInput("regret", "'sum' is for pairs, got a set", "use {regret='average'} or 'weak'")
    if len(arms) == 2:  # pairs are frequent, so their regret is computed without an array
        first, second = float(gaps[arms[0]]), float(gaps[arms[1]])
        return min(first, second) if kind == "weak" else (first + second) / (1 if kind == "sum" else 2)
    values = gaps[np.array(arms)]
    return float(values.min() if kind == "weak" else values.mean())


def play_literally(
    bandit: Any,
    world: World,
    times: Int,
    kind: str,
    generators: tuple[np.random.Generator, np.random.Generator],
    tick: Callable[[int], object] | None,
) -> tuple[Float, Int, Int]:
    """Play one run of the uncompiled form and return (regret, winners, duels).

    ``tick`` is called with each of ``times`` except the last.
    """
    rng, ties = generators
    regret, winners = np.zeros(len(times)), np.zeros(len(times), dtype=np.int64)
    duels = np.zeros((world.n_arms, world.n_arms), dtype=np.int64)
    total, step = 0.0, 0
    for k, due in enumerate(times.tolist()):
        # play until the next time to record
        while step < due:
            duel = bandit.select(rng)
            bandit.update(duel, world.compare(duel.arms, rng))
            total += regret_of(world.gaps, duel.arms, kind)
            _count(duels, duel.arms)
            step += 1
        regret[k], winners[k] = total, bandit.best(ties)
        if tick is not None and k + 1 < len(times):
            tick(step)
    return regret, winners, duels


def _count(duels: Int, arms: tuple[int, ...]) -> None:
    # counts are in the upper triangle; a set counts for each of its pairs, a single arm on the diagonal
    if len(arms) <= 2:
        duels[min(arms), max(arms)] += 1
    else:
        index = np.sort(np.array(arms))
        first, second = pair_indices(len(index))
        duels[index[first], index[second]] += 1


def in_processes(job: Callable[[int], Any], runs: Sequence[int], n_jobs: int) -> Iterator[Any]:
    """Yield the results of runs as worker processes finish them."""
    from joblib import Parallel, delayed

    pool = Parallel(n_jobs=n_jobs, backend="loky", return_as="generator_unordered")
    yield from pool(delayed(job)(run) for run in runs)
