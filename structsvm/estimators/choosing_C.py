"""Selection of C from measures on held-out queries; the default grid is in ``cross_validation.py``."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import BadInput, check_C, check_choice
from structsvm.common.portable.arrays import combine
from structsvm.protocols import Float, Int
from structsvm.trainers.certificate import NothingLearnedWarning

_log = logging.getLogger("structsvm")

Selection = Literal["max", "one_se"]
Weights = Float | None
"""One weight per query; None for equal weights."""

Folds = Iterable[tuple[Int, Float]]
"""For each fold, the indices of its held-out queries and their values."""

SELECTIONS: tuple[Selection, ...] = ("max", "one_se")


def select_C(Cs: Float, values: Float, weights: Weights = None, *, selection: Selection = "max") -> float:
    """Return the value of C to train with.

    ``"max"`` is the C with the best mean over queries. ``"one_se"`` is the smallest C that is at most one standard
    error worse (Breiman, Friedman, Olshen, Stone, Classification and Regression Trees, 1984, section 3.4.3). The
    standard error refers to the mean difference between the two on the same queries, so that the difficulty of a query,
    the same for all C, cancels.

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

    Examples
    --------
    Three queries, one of which C=10 wins by a small margin:

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
    # paired: the difficulty of a query is the same for all C and cancels in the difference to the best one
    lost = values[:, [best]] - values
    mean_lost = combine(share, lost)
    n = values.shape[0]
    error = np.sqrt(n / (n - 1) * combine(np.square(share), np.square(lost - mean_lost)))
    return float(Cs[int(np.argmax(mean_lost <= error + 1e-12))])


def check_selection(selection: str) -> None:
    """Raise ValueError for a name that :func:`select_C` does not know."""
    check_choice("selection", selection, SELECTIONS)


def choose_column(
    Cs: Float, values: Float, weights: Float, *, selection: Selection = "max"
) -> tuple[int, float]:
    """Return the index of the best alternative and the C to train with.

    Alternatives, such as numbers of trees, have an axis of ``values`` before the last; without it the index is 0.
    """
    best = 0
    if values.ndim > 2:
        means = np.average(values, weights=weights, axis=0).max(axis=1)
        best = int(np.argmax(means >= means.max() - 1e-12))
        values = values[:, best]
    return best, select_C(Cs, values, weights, selection=selection)


def crossed(
    Cs: Float, values: Float, fold: Int, weights: Weights = None, selection: Selection = "max"
) -> Float:
    """Return a value per query for the C that the other folds choose, so that no query affects its own C.

    The mean of the best column is too high on average, as its C was chosen on the same values. Here each query has the
    value of the column that :func:`select_C` chooses on the queries of the other folds: an estimate for a model chosen
    on other queries, without an additional fit.

    Parameters
    ----------
    Cs : ndarray, shape (n_Cs,)
        Ascending.
    values : ndarray, shape (n_queries, n_Cs) or (n_queries, n_alternatives, n_Cs)
        Held-out values, higher is better.
    fold : ndarray of int, shape (n_queries,)
        The fold that each query was held out in; -1 for queries that were not.
    weights : ndarray, shape (n_queries,), optional
        As in :func:`select_C`.
    selection : {"max", "one_se"}, default="max"

    Returns
    -------
    ndarray, shape (n_queries,)
        NaN for queries that were not held out, and if no other fold has a query with positive weight.

    Examples
    --------
    Two folds that prefer different C, so that each gets the C of the other:

    >>> values = np.array([[0.9, 0.2], [0.8, 0.1], [0.3, 0.7], [0.2, 0.6]])
    >>> crossed(np.array([1.0, 10.0]), values, np.array([0, 0, 1, 1]))
    array([0.2, 0.1, 0.3, 0.2])
    """
    share = np.ones(values.shape[0]) if weights is None else weights

    def column(rest: NDArray[np.bool_]) -> Float:
        best, C = choose_column(Cs, values[rest], share[rest], selection=selection)
        others = values if values.ndim == 2 else values[:, best]
        return others[:, int(np.flatnonzero(Cs == C)[0])]

    return crossed_by(column, fold, share)


def crossed_by(column: Callable[[NDArray[np.bool_]], Float], fold: Int, weights: Float) -> Float:
    """Return :func:`crossed` values for any choice; ``column(rest)`` returns all values at the choice on ``rest``."""
    found = np.full(fold.shape[0], np.nan)
    for number in np.unique(fold[fold >= 0]):
        rest = (fold >= 0) & (fold != number)
        # without weight in the other folds nothing can be chosen; the values stay NaN
        if weights[rest].any():
            found[fold == number] = column(rest)[fold == number]
    return found


class Choice(NamedTuple):
    """The chosen C, and the value of each query and C; NaN for queries in no test part.

    ``best`` is the index of the chosen alternative, see :func:`choose_column`.
    """

    C: float
    values: Float
    best: int
    learned: bool
    """Whether the largest C lowered the objective noticeably in any fold."""
    fold: Int
    """The fold that held each query out; -1 for none."""

    @contextmanager
    def training(self) -> Iterator[None]:
        """Suppress the warning for a C that learns nothing if held-out queries preferred it to a larger C."""
        with warnings.catch_warnings():
            if self.learned:
                warnings.simplefilter("ignore", NothingLearnedWarning)
            yield


def choose_C(
    Cs: Float,
    weights: Float,
    folds: Folds,
    *,
    selection: Selection = "max",
    callback: Callable[[int], object] | None = None,
    fixed: bool = False,
) -> Choice:
    """Choose C from folds, which hold the indices and values of held-out queries; higher is better.

    ``folds`` may train lazily; ``callback`` is called with the number of folds done. Among alternatives, the first with
    the best mean (at its best C) is chosen. A C at an end of the grid is logged unless the grid is ``fixed``.
    """
    values: Float | None = None
    fold = np.full(weights.shape[0], -1)
    number, idle = 0, set()
    with warnings.catch_warnings():
        warnings.simplefilter("always", NothingLearnedWarning)
        show = warnings.showwarning

        def count(message: Any, category: Any, *where: Any) -> None:
            if category is NothingLearnedWarning:  # raised after the last fold, for its largest C
                idle.add(number)
            else:
                show(message, category, *where)

        warnings.showwarning = count  # type: ignore[assignment]
        for number, (testing, found) in enumerate(folds, 1):
            if values is None:
                values = np.full((weights.shape[0], *found.shape[1:]), np.nan)
            values[testing], fold[testing] = found, number - 1
            _log.info("C: %d folds done", number)
            if callback is not None:
                callback(number)
    assert values is not None  # not empty: callers have checked the number of folds
    tested = ~np.isnan(values.reshape(values.shape[0], -1)).any(axis=1)
    if not weights[tested].any():
        raise BadInput("sample_weight", "expected a positive weight in a test part of cv, got zeros only")
    means = np.average(values[tested], weights=weights[tested], axis=0)
    best, C = choose_column(Cs, values[tested], weights[tested], selection=selection)
    if not fixed:
        say_edge(Cs, means if means.ndim == 1 else means[best], C)
    return Choice(C, values, best, len(idle) < number, fold)


def check_grid(Cs: Any) -> Float:
    """Return the values of C to try, each once and ascending."""
    if isinstance(Cs, str) or not isinstance(Cs, Iterable) or not len(Cs):  # type: ignore[arg-type]
        raise BadInput("Cs", "expected a sequence of finite numbers > 0", value=Cs)
    return np.unique([check_C(C) for C in Cs])


def say_edge(Cs: Float, means: Float, chosen: float) -> None:
    """Log a warning if the best C is at an end of a grid of at least three values, and better than the next one."""
    if Cs.size < 3:
        return
    for end, beside, word, verb in ((0, 1, "smallest", "smaller"), (-1, -2, "largest", "larger")):
        if chosen == Cs[end] and means[end] > means[beside]:
            _log.warning(
                "C = %g is the %s of the grid: a %s one may rank better; widen the grid", chosen, word, verb
            )
