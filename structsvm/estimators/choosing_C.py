"""Select C by the values of a measure on held-out queries; ``cross_validation`` computes these values."""

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import BadInput, check_choice, check_positive
from structsvm.common.portable.arrays import combine
from structsvm.protocols import Float, Int
from structsvm.trainers.certificate import NothingLearnedWarning

_log = logging.getLogger("structsvm")

Selection = Literal["max", "one_se"]
Weights = Float | None
"""One weight per query; None for equal weights."""

Folds = Iterable[tuple[Int, Float]]
"""For each fold, the indices of its held-out queries and the values of the measure for these queries."""

SELECTIONS: tuple[Selection, ...] = ("max", "one_se")


def select_C(Cs: Float, values: Float, weights: Weights = None, *, selection: Selection = "max") -> float:
    """Return the value of C selected by the values of a measure on held-out queries.

    ``"max"`` selects the C with the best mean over queries. ``"one_se"`` selects the smallest C whose mean is at most
    one standard error worse (Breiman, Friedman, Olshen, Stone, Classification and Regression Trees, 1984, section
    3.4.3). The standard error is that of the mean difference between the two C on the same queries, in which the
    difficulty of the queries cancels.

    Parameters
    ----------
    Cs : ndarray, shape (n_Cs,)
        Values of C in ascending order.
    values : ndarray, shape (n_queries, n_Cs)
        Measure of each query for each C; higher is better.
    weights : ndarray, shape (n_queries,), optional
        Weights of the queries, >= 0 and at least one positive. None means equal weights.
    selection : {"max", "one_se"}, default="max"
        Selection rule, see above.

    Returns
    -------
    float

    Examples
    --------
    C=10 is better than C=1 for only one of three queries, by a small margin:

    >>> Cs, values = np.array([0.1, 1.0, 10.0]), np.array([[0.2, 0.5, 0.5], [0.1, 0.8, 0.81], [0.4, 0.6, 0.6]])
    >>> select_C(Cs, values), select_C(Cs, values, selection="one_se")
    (10.0, 1.0)
    """
    check_selection(selection)
    share = np.ones(values.shape[0]) if weights is None else np.asarray(weights, dtype=np.float64)
    counted = share > 0
    values, share = values[counted], share[counted] / share[counted].sum()
    if np.isnan(values).any():
        raise BadInput("values", "expected a number for each C and each query with weight, got NaN")
    means = combine(share, values)
    # of means that are equal up to rounding, select the smallest C, which gives the simplest model
    best = int(np.argmax(means >= means.max() - 1e-12))
    if selection == "max" or values.shape[0] == 1:
        return float(Cs[best])
    # the difficulty of a query is the same for all C, and cancels in the difference from the best C
    lost = values[:, [best]] - values
    mean_lost = combine(share, lost)
    n = values.shape[0]
    error = np.sqrt(n / (n - 1) * combine(np.square(share), np.square(lost - mean_lost)))
    return float(Cs[int(np.argmax(mean_lost <= error + 1e-12))])


def check_selection(selection: str) -> None:
    """Raise ValueError for a name that :func:`select_C` does not support."""
    check_choice("selection", selection, SELECTIONS)


def choose_column(
    Cs: Float, values: Float, weights: Float, *, selection: Selection = "max"
) -> tuple[int, float]:
    """Return the index of the best alternative, such as a number of trees, and the selected C.

    Alternatives are on the second of three axes of ``values``; if there are only two axes, the index is 0.
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
    """Return the value of each query for the C selected on the other folds, so that no query affects its own C.

    The mean of the best column is too high on average, because C was selected on the same values. This function instead
    returns, for each query, the value for the C that :func:`select_C` selects on the queries of the other folds. The
    mean of these values estimates the measure on new queries, without an additional fit.

    Parameters
    ----------
    Cs : ndarray, shape (n_Cs,)
        Values of C in ascending order.
    values : ndarray, shape (n_queries, n_Cs) or (n_queries, n_alternatives, n_Cs)
        Held-out values; higher is better.
    fold : ndarray of int, shape (n_queries,)
        The fold in which each query was held out; -1 for queries that were not held out.
    weights : ndarray, shape (n_queries,), optional
        As in :func:`select_C`.
    selection : {"max", "one_se"}, default="max"
        As in :func:`select_C`.

    Returns
    -------
    ndarray, shape (n_queries,)
        Value of each query; NaN if it was not held out, or if no other fold has a query with positive weight.

    Examples
    --------
    Two folds prefer different values of C, and each has the values for the C selected on the other:

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
    """Return values as :func:`crossed` does, for any choice: ``column(rest)`` chooses on the queries ``rest`` and
    returns the values of all queries for this choice."""
    found = np.full(fold.shape[0], np.nan)
    for number in np.unique(fold[fold >= 0]):
        rest = (fold >= 0) & (fold != number)
        # nothing can be chosen if the other folds have no weight; the values remain NaN
        if weights[rest].any():
            found[fold == number] = column(rest)[fold == number]
    return found


class Choice(NamedTuple):
    """The selected C, and the values of all queries for each C, which are NaN for queries in no test part.

    ``best`` is the index of the selected alternative, see :func:`choose_column`.
    """

    C: float
    values: Float
    best: int
    learned: bool
    """Whether training with the largest C reduced the objective noticeably in at least one fold."""
    fold: Int
    """The fold in which each query was held out; -1 for queries that were not held out."""

    @contextmanager
    def training(self) -> Iterator[None]:
        """Suppress NothingLearnedWarning for the selected C if a larger C did reduce the objective in a fold."""
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
    """Select C by the values of held-out queries, where higher is better.

    ``folds`` may be an iterator that trains lazily. ``callback`` is called with the number of completed folds after
    each fold. Of several alternatives, the one with the best mean (at its best C) is selected, or the first in case of
    ties. If the selected C is at an end of the grid, a message is logged unless the grid is ``fixed``.
    """
    values: Float | None = None
    fold = np.full(weights.shape[0], -1)
    number, idle = 0, set()
    with warnings.catch_warnings(action="always", category=NothingLearnedWarning):
        show = warnings.showwarning

        def count(message: Any, category: Any, *where: Any) -> None:
            if category is NothingLearnedWarning:  # issued for the largest C of a fold
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
    assert values is not None  # callers have checked that there is a fold
    tested = ~np.isnan(values.reshape(values.shape[0], -1)).any(axis=1)
    if not weights[tested].any():
        raise BadInput("sample_weight", "expected a positive weight in a test part of cv, got zeros only")
    means = np.average(values[tested], weights=weights[tested], axis=0)
    best, C = choose_column(Cs, values[tested], weights[tested], selection=selection)
    if not fixed:
        say_edge(Cs, means if means.ndim == 1 else means[best], C)
    return Choice(C, values, best, len(idle) < number, fold)


def check_grid(Cs: object) -> Float:
    """Return the distinct values of C in ascending order; raise BadInput for invalid values."""
    if isinstance(Cs, str) or not isinstance(Cs, Iterable) or not len(Cs):  # type: ignore[arg-type]
        raise BadInput("Cs", "expected a sequence of finite numbers > 0", value=Cs)
    return np.unique([check_positive("C", C) for C in Cs])


def say_edge(Cs: Float, means: Float, chosen: float) -> None:
    """Log a warning if the selected C is at an end of a grid of at least three values, and better than the adjacent
    C."""
    if Cs.size < 3:
        return
    for end, beside, word, verb in ((0, 1, "smallest", "smaller"), (-1, -2, "largest", "larger")):
        if chosen == Cs[end] and means[end] > means[beside]:
            _log.warning(
                "C = %g is the %s value tried; a %s one may be better: widen the grid", chosen, word, verb
            )
