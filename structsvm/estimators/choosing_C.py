"""Selection of C from measures on held-out queries."""

from __future__ import annotations

import logging
from typing import Literal

import numpy as np

from structsvm.checks import check_choice
from structsvm.common.portable.arrays import combine
from structsvm.protocols import Float

__all__ = ["SELECTIONS", "Selection", "check_selection", "say_edge", "select_C"]

_log = logging.getLogger("structsvm")

Selection = Literal["max", "one_se"]
SELECTIONS: tuple[Selection, ...] = ("max", "one_se")


def select_C(
    Cs: Float, values: Float, weights: Float | None = None, *, selection: Selection = "max"
) -> float:
    """Return the value of C to train with.

    ``"max"`` is the C of the best mean over queries. ``"one_se"`` is the smallest C that is at most one standard error
    worse (Breiman, Friedman, Olshen, Stone, Classification and Regression Trees, 1984, section 3.4.3). The standard
    error is that of the mean difference between the two on the same queries, so that the difficulty of a query, the
    same for all C, cancels.

    Parameters
    ----------
    Cs : ndarray, shape (n_Cs,)
        Ascending.
    values : ndarray, shape (n_queries, n_Cs)
        Higher is better.
    weights : ndarray, shape (n_queries,), optional
        Numbers >= 0, at least one of them positive; all one by default.
    selection : {"max", "one_se"}, default="max"

    Returns
    -------
    float

    Raises
    ------
    ValueError
        For any other ``selection``.

    Examples
    --------
    Three queries, of which C=10 wins one by a hair:

    >>> Cs, values = np.array([0.1, 1.0, 10.0]), np.array([[0.2, 0.5, 0.5], [0.1, 0.8, 0.81], [0.4, 0.6, 0.6]])
    >>> select_C(Cs, values), select_C(Cs, values, selection="one_se")
    (10.0, 1.0)
    """
    check_selection(selection)
    share = np.ones(values.shape[0]) if weights is None else np.asarray(weights, dtype=np.float64)
    counted = share > 0
    values, share = values[counted], share[counted] / share[counted].sum()
    means = combine(share, values)
    # equal up to rounding counts as equal: the smaller C is the simpler model
    best = int(np.argmax(means >= means.max() - 1e-12))
    if selection == "max" or values.shape[0] == 1:
        return float(Cs[best])
    lost = values[:, [best]] - values
    mean_lost = combine(share, lost)
    n = values.shape[0]
    error = np.sqrt(n / (n - 1) * combine(np.square(share), np.square(lost - mean_lost)))
    return float(Cs[int(np.argmax(mean_lost <= error + 1e-12))])


def check_selection(selection: str) -> None:
    """Raise ValueError for a name that :func:`select_C` does not know."""
    check_choice("selection", selection, SELECTIONS)


def say_edge(Cs: Float, means: Float, chosen: float) -> None:
    """Say by the log of the package that the best C is at an end of the grid: a better one may lie beyond.

    Nothing is said of a grid of fewer than three values, which was not meant to be searched, nor where the next value
    is as good.
    """
    if Cs.size < 3:
        return
    for end, beside, word, verb in ((0, 1, "smallest", "smaller"), (-1, -2, "largest", "larger")):
        if chosen == Cs[end] and means[end] > means[beside]:
            _log.warning(
                "C = %g is the %s of the grid: a %s one may rank better; widen Cs", chosen, word, verb
            )
