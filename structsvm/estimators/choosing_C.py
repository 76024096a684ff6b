"""Selection of C from measures on held-out queries."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import numpy as np

from structsvm.common.checks import BadInput, check_C, check_choice
from structsvm.common.portable.arrays import combine
from structsvm.protocols import Float, Int
from structsvm.trainers.certificate import NothingLearnedWarning

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


class Choice(NamedTuple):
    """The C that was chosen, and the value of each query and C; NaN for queries in no test part.

    Where other things than C were tried, values have an axis for them before the last, and ``best`` is one of them.
    """

    C: float
    values: Float
    best: int
    learned: bool
    """Whether the largest C lowered the objective noticeably in any fold."""

    @contextmanager
    def training(self) -> Iterator[None]:
        """Do not warn of a C that learns nothing if a larger one did: it was chosen by held-out queries."""
        with warnings.catch_warnings():
            if self.learned:
                warnings.simplefilter("ignore", NothingLearnedWarning)
            yield


def choose_C(
    Cs: Float,
    weights: Float,
    folds: Iterable[tuple[Int, Float]],
    *,
    selection: Selection = "max",
    callback: Callable[[int], object] | None = None,
) -> Choice:
    """Choose C from folds, each the numbers of its held-out queries and their values, higher is better.

    Folds may be trained as they are asked for; ``callback`` is told how many are done. Of other things than C the
    first of the best mean is chosen, for its best C.
    """
    values: Float | None = None
    number, idle = 0, set()
    with warnings.catch_warnings():
        warnings.simplefilter("always", NothingLearnedWarning)
        show = warnings.showwarning

        def count(message: Any, category: Any, *where: Any) -> None:
            if category is NothingLearnedWarning:  # of the largest C of the fold after the last
                idle.add(number)
            else:
                show(message, category, *where)

        warnings.showwarning = count  # type: ignore[assignment]
        for number, (testing, found) in enumerate(folds, 1):
            if values is None:
                values = np.full((weights.shape[0], *found.shape[1:]), np.nan)
            values[testing] = found
            _log.info("C: %d folds done", number)
            if callback is not None:
                callback(number)
    assert values is not None  # callers have checked the number of folds
    tested = ~np.isnan(values.reshape(values.shape[0], -1)).any(axis=1)
    if not weights[tested].any():
        raise BadInput("sample_weight", "expected a positive weight in a test part of cv, got zeros only")
    means = np.average(values[tested], weights=weights[tested], axis=0)
    best, curves = 0, values
    if values.ndim > 2:
        best = int(np.argmax(means.max(axis=1) >= means.max() - 1e-12))
        means, curves = means[best], values[:, best]
    C = select_C(Cs, curves[tested], weights[tested], selection=selection)
    say_edge(Cs, means, C)
    return Choice(C, values, best, learned=len(idle) < number)


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
