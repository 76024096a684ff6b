"""Worlds for simulations of dueling bandits, which define the outcomes of comparisons and the regret of the arms."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from structsvm.common.checks import BadInput, check_choice
from structsvm.common.portable.elementary import expit
from structsvm.online.bandits.policy import pair_indices
from structsvm.protocols import Float


def check_preferences(P: ArrayLike, *, tol: float = 1e-9) -> Float:
    """Return a preference matrix as an array; raise BadInput unless it is square, in [0, 1], with ``P + P' = 1``."""
    try:
        if np.iscomplexobj(P):
            raise TypeError("complex numbers")
        matrix = np.array(P, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BadInput(
            "preference matrix", f"expected a square table of real numbers, got {type(P).__name__} ({error})"
        ) from error
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise BadInput("preference matrix", f"expected shape (K, K) with K >= 1, got {matrix.shape}")
    # negated comparisons, so that NaN is refused as well
    bad = np.argwhere(~((matrix >= 0) & (matrix <= 1)))
    if len(bad):
        i, j = bad[0]
        raise BadInput("preference matrix", f"expected values in [0, 1], got P[{i}, {j}] = {matrix[i, j]:g}")
    # rounding of printed probabilities is accepted
    bad = np.argwhere(np.abs(matrix + matrix.T - 1) > tol)
    if len(bad):
        i, j = bad[0]
        raise BadInput(
            "preference matrix",
            f"expected P[i, j] + P[j, i] = 1, got P[{i}, {j}] + P[{j}, {i}] = {matrix[i, j]:g} + {matrix[j, i]:g}",
            "pass (P + 1 - P.T) / 2 if the matrix contains estimates",
        )
    return matrix


class NoWinner(ValueError):
    """Error for a preference matrix without a Condorcet winner, relative to which regret is defined."""


def condorcet_winner(P: ArrayLike) -> int | None:
    """Return the arm that beats every other arm with probability above 1/2, or None if there is none."""
    matrix = np.asarray(P, dtype=np.float64)
    beats = (matrix > 0.5).sum(axis=1)
    best = int(np.argmax(beats))
    return best if beats[best] == len(matrix) - 1 else None


def _vector(utilities: ArrayLike) -> Float:
    values = np.array(utilities, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all():
        raise BadInput("utilities", f"expected finite numbers, one for each arm, got shape {values.shape}")
    return values


def matrix_above(probability: Float) -> Float:
    """Return the preference matrix whose upper triangle is that of ``probability``."""
    # derive the lower triangle from the upper one, so that P + P' = 1 holds exactly
    upper = np.triu(probability, 1)
    return upper + np.tril(1 - upper.T, -1) + 0.5 * np.eye(len(upper))


class _CoinFlips:
    """Mixin for worlds with a matrix of probabilities."""

    preferences: Float
    scores: Float | None = None

    def compare(self, arms: tuple[int, ...], rng: np.random.Generator) -> Any:
        """Flip an independent coin for each pair of distinct arms; see ``World.compare``."""
        P = self.preferences
        if len(arms) == 2:
            # a comparison of an arm with itself draws no random number, so that compiled forms can skip it
            return 0.5 if arms[0] == arms[1] else float(rng.random() < P[arms[0], arms[1]])
        index = np.array(arms)
        first, second = pair_indices(len(arms))
        return (rng.random(len(first)) < P[index[first], index[second]]).astype(np.float64)


class PreferenceMatrix(_CoinFlips):
    """World of independent coin flips with the probabilities of a matrix.

    Parameters
    ----------
    P : array-like, shape (K, K)
        ``P[i, j]`` is the probability that arm i beats arm j; ``P + P' = 1``.
    utilities : array-like, shape (K,), optional
        Value of each arm, such as its NDCG. Regret is then ``max(utilities) - utilities`` (MDB, eq. 4) instead of
        ``P[a, j] - 1/2`` for the Condorcet winner a.

    Attributes
    ----------
    gaps : ndarray of float64, shape (K,)
        Regret of each arm.
    winners : ndarray of int64
        Indices of the best arms.

    Examples
    --------
    >>> PreferenceMatrix([[0.5, 0.6], [0.4, 0.5]]).gaps
    array([0. , 0.1])
    """

    def __init__(self, P: ArrayLike, *, utilities: ArrayLike | None = None) -> None:
        self.preferences = check_preferences(P)
        self.n_arms = len(self.preferences)
        if utilities is not None:
            values = _vector(utilities)
            if len(values) != self.n_arms:
                raise BadInput("utilities", f"expected one for each of {self.n_arms} arms, got {len(values)}")
            self.gaps = values.max() - values
            self.winners = np.flatnonzero(self.gaps == 0)
            return
        winner = condorcet_winner(self.preferences)
        if winner is None:
            raise NoWinner(
                "preference matrix: expected a Condorcet winner (an arm that beats every other arm), got none; "
                "use PreferenceMatrix(P, utilities=...) to define regret by the utilities of the arms"
            )
        self.gaps = self.preferences[winner] - 0.5
        self.gaps[winner] = 0.0
        self.winners = np.array([winner])


def _gaussian(difference: Float) -> Float:
    from scipy.special import ndtr

    return np.asarray(ndtr(difference / np.sqrt(2)))


LINKS: dict[str, Callable[[Float], Float]] = {
    "linear": lambda difference: (1 + difference) / 2,
    "logistic": lambda difference: np.asarray(expit(difference)),
    "gaussian": _gaussian,
}
"""Functions that map a difference in utilities to the probability of a win (thesis 5.2)."""


class Utilities(_CoinFlips):
    """World of independent coin flips whose probabilities depend on the difference of two utilities.

    Parameters
    ----------
    utilities : array-like, shape (K,)
        Utility of each arm.
    link : {"linear", "logistic", "gaussian"}
        Probability that utility u beats v: ``(1 + u - v)/2``; ``1/(1 + exp(v - u))``; or ``Phi((u - v)/sqrt(2))``, the
        probability for normal scores with unit variance.

    Notes
    -----
    Regret is ``P[a, j] - 1/2`` for an arm a with the highest utility; all arms with this utility are best arms.

    Examples
    --------
    >>> Utilities([0.2, 0.8]).preferences
    array([[0.5, 0.2],
           [0.8, 0.5]])
    """

    def __init__(self, utilities: ArrayLike, link: str = "linear") -> None:
        self.utilities = _vector(utilities)
        check_choice("link", link, LINKS)
        if link == "linear" and np.ptp(self.utilities) > 1:
            spread = np.ptp(self.utilities)
            raise BadInput("utilities", f"the linear link expects a range of at most 1, got {spread:g}")
        self.link = link
        self.n_arms = len(self.utilities)
        self.preferences = matrix_above(LINKS[link](self.utilities[:, None] - self.utilities[None, :]))
        self.winners = np.flatnonzero(self.utilities == self.utilities.max())
        self.gaps = self.preferences[self.winners[0]] - 0.5
        self.gaps[self.winners] = 0.0


class NormalScores(Utilities):
    """World in which each compared arm draws a score from ``N(utility, 1)``; the higher score wins (MDB, 4.1.2).

    The outcomes of the pairs of a set are dependent. A set of two arms is one coin flip with the Gaussian link.

    Parameters
    ----------
    utilities : array-like, shape (K,)
        Mean score of each arm.

    Examples
    --------
    >>> import numpy as np
    >>> NormalScores([3.0, 0.0, -9.0]).compare((0, 1, 2), np.random.default_rng(0))
    array([1., 1., 1.])
    """

    def __init__(self, utilities: ArrayLike) -> None:
        super().__init__(utilities, "gaussian")
        self.scores = self.utilities

    def compare(self, arms: tuple[int, ...], rng: np.random.Generator) -> Any:
        """Draw one score per arm of a set and compare the scores of all pairs; for a single pair, flip a coin."""
        if len(arms) <= 2:
            return super().compare(arms, rng)
        drawn = self.utilities[np.array(arms)] + rng.standard_normal(len(arms))
        first, second = pair_indices(len(arms))
        return (drawn[first] > drawn[second]).astype(np.float64)
