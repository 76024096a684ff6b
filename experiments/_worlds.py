"""Problems of the papers on dueling bandits, and the shares of subsets of arms with a winner or a total order."""

from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.common.checks import BadInput, check_choice
from structsvm.common.portable.elementary import geomspace
from structsvm.online.simulation.worlds import LINKS, check_preferences, matrix_above
from structsvm.protocols import Float

SYNTHETIC: dict[str, Float] = {
    **{
        f"{good}good{poor}poor": np.array([0.8] + [0.7] * (good - 1) + [0.2] * poor)
        for good, poor in [
            *((1, 5), (1, 50), (1, 200)),
            *((2, 4), (11, 40), (41, 160)),
            *((3, 3), (21, 30), (81, 120)),
        ]
    },
    **{f"arith{n + 1}": np.append(0.8, np.linspace(0.7, 0.2, n)) for n in (5, 50, 200)},
    **{f"geom{n + 1}": np.append(0.8, geomspace(0.7, 0.2, n)) for n in (5, 50, 200)},
}
"""The fifteen problems of MDB, Table 1: utilities, the best arm first."""


def synthetic_utilities(name: str, rng: np.random.Generator | None = None) -> Float:
    """Return the utilities of one of the fifteen problems of MDB's Table 1, for :class:`NormalScores`."""
    check_choice("name", name, SYNTHETIC)
    utilities = SYNTHETIC[name].copy()
    return utilities if rng is None else utilities[rng.permutation(len(utilities))]


def worst_case(n_arms: int, epsilon: float = 0.1) -> Float:
    """Return the lower-bound instance of the thesis: i beats j > i with ``1/2 + epsilon`` (Theorem 5, Fig. 5.1)."""
    return matrix_above(np.full((n_arms, n_arms), 0.5 + epsilon))


def bradley_terry(n_arms: int, epsilon: float, rng: np.random.Generator) -> Float:
    """Return a random Bradley-Terry world in which arm 0 beats all others by ``epsilon`` (thesis 5.5.1, Fig. 5.2)."""
    weights = rng.random(n_arms)
    # solves w0 / (w0 + w) = 1/2 + epsilon for the strongest rival w
    weights[0] = weights[1:].max(initial=1e-300) * (1 + 2 * epsilon) / (1 - 2 * epsilon)
    return matrix_above(weights[:, None] / (weights[:, None] + weights[None, :]))


def value_preferences(values: ArrayLike, *, scale: float = 1.0, link: str = "logistic") -> Float:
    """Return the preference matrix of users who prefer the ranker with the higher value on a query (thesis, 5.5.2)."""
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or not np.isfinite(table).all():
        raise BadInput("values", f"expected finite numbers (rankers, queries), got shape {table.shape}")
    check_choice("link", link, LINKS)
    # queries are equally likely, so preferences are means of the link over queries; one row at a time saves memory
    P = np.full((len(table), len(table)), 0.5)
    for i in range(len(table) - 1):
        P[i, i + 1 :] = LINKS[link](scale * (table[i] - table[i + 1 :])).mean(axis=1)
        P[i + 1 :, i] = 1 - P[i, i + 1 :]
    return P


@dataclass(frozen=True, eq=False)
class SubsetShares:
    """Shares of subsets of each size with a Condorcet winner (exact) and a total order (estimated); RCS, Fig. 1."""

    sizes: NDArray[np.int64]
    condorcet: NDArray[np.float64]
    total_order: NDArray[np.float64]


def subset_shares(
    P: ArrayLike, sizes: ArrayLike | None = None, *, n_subsets: int = 10_000, random_state: int = 0
) -> SubsetShares:
    """Return the probability that a random subset of arms has a Condorcet winner, and a total order (RCS, 6.1)."""
    matrix = check_preferences(P)
    k = len(matrix)
    chosen = np.arange(1, k + 1) if sizes is None else np.atleast_1d(np.asarray(sizes)).astype(np.int64)
    if len(chosen) == 0 or chosen.min() < 1 or chosen.max() > k:
        raise BadInput("sizes", f"expected integers from 1 to {k}", value=sizes)
    beats = matrix > 0.5
    degree = [int(d) for d in beats.sum(axis=1)]
    # arm i wins the subsets in which it beats all others: comb(degree, m - 1) of comb(k, m) subsets of size m
    condorcet = np.array([sum(comb(d, m - 1) for d in degree) / comb(k, m) for m in chosen.tolist()])
    rng = np.random.default_rng(random_state)
    ordered = np.zeros(len(chosen))
    for index, m in enumerate(chosen.tolist()):
        if m <= 1:
            ordered[index] = 1.0
            continue
        for _ in range(n_subsets):
            subset = rng.choice(k, size=m, replace=False)
            wins = np.sort(beats[np.ix_(subset, subset)].sum(axis=1))
            ordered[index] += (wins == np.arange(m)).all()
        ordered[index] /= n_subsets
    return SubsetShares(chosen, condorcet, ordered)
