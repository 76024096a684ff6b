"""``check_world``: the properties that a world for simulated bandits must have."""

from itertools import combinations

import numpy as np

from structsvm.protocols import World
from structsvm.testing.require import Requirement


def check_world(world: World, *, n_comparisons: int = 400, random_state: int = 0) -> None:
    """Check a custom world (:class:`structsvm.protocols.World`).

    Gaps are not negative, and 0 for the winners. Outcomes are numbers from 0 to 1, one per pair of a set, and the same
    for the same seed. The order of the arms of a pair does not matter. No winner loses to another arm more often than
    chance allows.

    Parameters
    ----------
    world : World
        World to check.
    n_comparisons : int, default=400
        Number of comparisons of each pair of arms, among at most five arms.
    random_state : int, default=0
        Seed.

    Examples
    --------
    >>> from structsvm.online import PreferenceMatrix
    >>> check_world(PreferenceMatrix([[0.5, 0.7], [0.3, 0.5]]))
    """
    require = Requirement(type(world).__name__)
    require.members(World, world)
    n, gaps, winners = world.n_arms, np.asarray(world.gaps), np.asarray(world.winners)
    require(gaps.shape == (n,) and (gaps >= 0).all(), f"gaps: expected {n} numbers >= 0, got {gaps}")
    require(
        winners.size > 0 and bool(np.isin(winners, np.arange(n)).all()),
        f"winners: expected arms from 0 to {n - 1}, got {winners}",
    )
    require(not gaps[winners].any(), f"gaps: expected 0 for the winners, got {gaps[winners]}")
    # the winners first, then others in order of their numbers
    arms = list(dict.fromkeys([*winners.tolist(), *range(n)]))[:5]
    allowed = 5 * np.sqrt(0.25 / n_comparisons)  # five standard deviations of a share of wins

    def share(first: int, second: int) -> float:
        outcomes = []
        for seed in (random_state, random_state):
            rng = np.random.default_rng([seed, first, second])
            outcomes.append([float(world.compare((first, second), rng)) for _ in range(n_comparisons)])
        require(outcomes[0] == outcomes[1], "compare: expected the same outcomes for the same seed")
        right = all(0 <= outcome <= 1 for outcome in outcomes[0])
        require(right, "compare: expected outcomes from 0 to 1")
        return float(np.mean(outcomes[0]))

    # each pair in both orders: the shares of wins sum to one
    for first, second in combinations(arms, 2):
        forth, back = share(first, second), share(second, first)
        require(
            abs(forth + back - 1) <= 2 * allowed,
            f"compare: win rates {forth:.2f} of arm {first} and {back:.2f} of {second} do not sum to 1",
        )
        if first in winners and second not in winners:
            require(forth >= 0.5 - allowed, f"winners: arm {first} has win rate {forth:.2f} over {second}")
    # a comparison of a set has an outcome per pair
    if len(arms) > 2:
        outcome = np.asarray(
            world.compare(tuple(arms), np.random.default_rng(random_state)), dtype=np.float64
        )
        pairs = len(arms) * (len(arms) - 1) // 2
        right = outcome.shape == (pairs,) and bool(((outcome >= 0) & (outcome <= 1)).all())
        require(right, f"compare: expected {pairs} outcomes from 0 to 1 for a set of {len(arms)} arms")
