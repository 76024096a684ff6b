"""Figures of fits, models and results on matplotlib axes.

Each function draws on ``ax``, or on the axes of a new figure if it is None, and returns the axes, so that titles and
limits can be set with matplotlib. Lines differ in dashes and markers as well as in colour. matplotlib is imported when
the first figure is drawn.

>>> ax = differences([0.2, -0.1, 0.0])
>>> ax.get_xlabel(), [float(bar.get_height()) for bar in ax.patches]
('queries, best gain first', [0.2, 0.0, -0.1])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from structsvm.common.checks import BadInput
from structsvm.common.names import feature_names
from structsvm.plots import figures
from structsvm.plots.drawing import draw_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from structsvm.estimators.fusion import FusionModel
    from structsvm.features.binning import StepFunction

    Ax = Axes | None


def weights(coef: ArrayLike, names: Sequence[str] | None = None, *, top: int = 25, ax: Ax = None) -> Axes:
    """Draw the weights of a linear model with the largest absolute values as bars; positive weights point right.

    Parameters
    ----------
    coef : fitted linear model or tree ranker, or array-like of float, shape (n_features,)
        Weights, or a model that contains them with their names (of features, or of the leaves and bins of trees).
        Weights are comparable if the features have the same scale.
    names : sequence of str, optional
        Names of the weights; by default those of the model, or ``feature 1, feature 2, ...``.
    top : int, default=25
        Number of weights to draw.

    Examples
    --------
    >>> ax = weights([0.1, -2.0, 1.0], ["length", "spam", "bm25"], top=2)
    >>> [label.get_text() for label in ax.get_yticklabels()], [float(bar.get_width()) for bar in ax.patches]
    (['spam', 'bm25'], [-2.0, 1.0])
    """
    if hasattr(coef, "coef_"):
        names = figures.weight_names(coef) if names is None else names
        coef = coef.coef_
    elif hasattr(coef, "predict"):
        raise BadInput("coef", f"expected a fitted model with weights, got {type(coef).__name__}")
    values = np.asarray(coef, dtype=np.float64)
    shown = feature_names(names, values.size)
    if values.shape != (len(shown),):
        raise BadInput("names", f"expected a name for each weight, got {len(shown)} for shape {values.shape}")
    return _draw(figures.weights(values, shown, top=top), ax)


def step_functions(steps: FusionModel | StepFunction | Sequence[StepFunction], *, ax: Ax = None) -> Axes:
    """Draw the contribution of each base function to a document's score against its own score (thesis, figure 3.2).

    Parameters
    ----------
    steps : FusionModel, StepFunction or sequence of StepFunction
        A fusion model, or results of the methods ``step_functions`` of ``BinnedFeatures`` and ``FusionModel``. The
        dotted line at 0 is the contribution to documents that a function did not retrieve.

    Examples
    --------
    >>> from structsvm.features.binning import BinnedFeatures
    >>> binned = BinnedFeatures(n_bins=3).fit([[0.0], [3.0]])
    >>> ax = step_functions(binned.step_functions([0.5, 1.0, -0.25], ["bm25"]))
    >>> print(*ax.lines[0].get_xydata().tolist())
    [0.0, 0.5] [1.0, 0.5] [1.0, 1.5] [2.0, 1.5] [2.0, 1.25] [3.0, 1.25]
    """
    # a model has a method that returns its step functions; a step function has thresholds; other input is a sequence
    given: Any = steps
    if hasattr(given, "step_functions"):
        given = given.step_functions()
    several: list[Any] = [given] if hasattr(given, "thresholds") or hasattr(given, "predict") else list(given)
    for one in several:
        if not hasattr(one, "thresholds"):
            raise BadInput("steps", f"expected step functions of BinnedFeatures, got {type(one).__name__}")
    return _draw(figures.step_functions(several), ax)


def against_C(
    Cs: Any,
    values: object = None,
    *,
    chosen: float | None = None,
    measure: str | None = None,
    label: str = "",
    ax: Ax = None,
) -> Axes:
    """Draw a measure on validation queries against C, with a mark at the chosen C.

    Parameters
    ----------
    Cs : fitted StructuralRankerCV or similar, or array-like of float, shape (n_Cs,)
        Values of C. A fitted search also provides ``values``, ``chosen`` and ``measure``; for TreeRankerCV, the values
        are those of the chosen number of trees.
    values : array-like of float, shape (n_Cs,)
        Value of the measure for each C. Required unless a search is given.
    chosen : float, optional
        The value of ``Cs`` to mark; by default that of the search, if any.
    measure : str, optional
        Label of the y axis; by default the measure of the search, or ``"MAP"``.
    label : str, optional
        Label of the line, for several lines on one ``ax``.

    Examples
    --------
    >>> ax = against_C([0.1, 1.0, 10.0], [0.5, 0.7, 0.6], chosen=1.0)
    >>> ax.get_xscale(), ax.collections[0].get_offsets().tolist()
    ('log', [[1.0, 0.7]])
    """
    if hasattr(Cs, "scores_") and hasattr(Cs, "Cs_"):
        search = Cs
        Cs, values = search.Cs_, _means(search) if values is None else values
        chosen = search.C_ if chosen is None else chosen
        measure = search.scoring_ if measure is None else measure
    elif values is None:
        raise BadInput("values", "expected a value for each C", "or pass a fitted StructuralRankerCV")
    grid, means = np.asarray(Cs, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if grid.shape != means.shape or grid.ndim != 1:
        raise BadInput("values", f"expected a value for each C, got shapes {means.shape} and {grid.shape}")
    if chosen is not None and chosen not in grid:
        raise BadInput("chosen", "expected one of the values of C", value=chosen)
    name, ring = label or "validation", "" if chosen is None else f"chosen, C = {chosen:.3g}"
    figure = figures.against_C({name: (grid, means, chosen)}, measure="MAP" if measure is None else measure)
    line = figure.series[0]._replace(ring_name=f"{label}: {ring}" if label else ring)
    return _draw(figure._replace(series=[line]), ax)


def gap(fits: object, *, x: figures.Time = "passes", tol: float | None = None, ax: Ax = None) -> Axes:
    """Draw the relative duality gap during training.

    Parameters
    ----------
    fits : fitted model, Fit, or mapping of str to either
        A single fit, or several fits by name.
    x : {"passes", "seconds"}, default="passes"
        Quantity on the x axis: passes over the data, or time in seconds.
    tol : float, optional
        Tolerance of the fit, drawn as a dashed line.

    Notes
    -----
    Gaps of 0, and the infinite gap before both bounds exist, cannot be shown on a log axis and are left out.

    Examples
    --------
    >>> from structsvm import SVMMap
    >>> model = SVMMap(C=10).fit([[1.0], [0.0], [0.5]], [1, 0, 0], qid=0)
    >>> ax = gap(model, tol=model.tol)
    >>> ax.get_xlabel(), ax.get_yscale()
    ('passes over the data', 'log')
    """
    if x not in ("passes", "seconds"):
        raise BadInput("x", "expected 'passes' or 'seconds'", value=x)
    given = dict(fits) if isinstance(fits, Mapping) else {"": fits}
    histories = {name: history for label, one in given.items() for name, history in _histories(label, one)}
    return _draw(figures.gap(histories, x=x, tol=tol), ax)


def differences(values: Any, other: Any = None, *, measure: str | None = None, ax: Ax = None) -> Axes:
    """Draw the difference of two systems for each query as bars in descending order.

    Parameters
    ----------
    values : EvaluationResult, or array-like of float, shape (n_queries,)
        Values of a system, or the differences if ``other`` is None.
    other : EvaluationResult or array-like, optional
        Values of the system to compare with. Results of ``evaluate`` are matched by query id.
    measure : str, optional
        Name of the measure; by default the measure of the results, or average precision.

    Examples
    --------
    >>> from structsvm.metrics import evaluate
    >>> y, qid = [1, 0, 0, 1], ["a", "a", "b", "b"]
    >>> mine, other = (evaluate("map", y, s, qid=qid) for s in ([2, 1, 1, 2], [2, 1, 2, 1]))
    >>> [float(bar.get_height()) for bar in differences(mine, other).patches]
    [0.5, 0.0]
    """
    if measure is None:
        measure = getattr(values, "name", "average precision")
    results = [hasattr(one, "per_query") for one in (values, other)]
    if all(results):
        a, b = values.paired(other)
        values = a - b
    elif any(results):
        raise BadInput("other", "a second result to compare with is required")
    elif other is not None:
        values = np.asarray(values, dtype=np.float64) - np.asarray(other, dtype=np.float64)
    return _draw(figures.differences(values, measure=measure), ax)


def regret(results: object, *, ax: Ax = None) -> Axes:
    """Draw the mean cumulative regret of bandits over the last four decades of time, with its 95% interval.

    Parameters
    ----------
    results : Simulation, or mapping of str to Simulation
        A single simulation, or several simulations by the name of the bandit.

    Examples
    --------
    >>> from structsvm.online import simulate
    >>> run = simulate("rucb", [[0.5, 0.8], [0.2, 0.5]], horizon=100, n_runs=3)
    >>> ax = regret({"RUCB": run})
    >>> bool(ax.lines[0].get_ydata()[-1] == run.mean()[-1])
    True
    """
    several = results if isinstance(results, Mapping) else {"": results}
    for one in several.values():
        if not hasattr(one, "regret"):
            raise BadInput("results", f"expected simulations of bandits, got {type(one).__name__}")
    return _draw(figures.regret(several), ax)


def _means(search: Any) -> Any:
    """Return the mean measure for each C of a search."""
    # shape (n_Cs,), (n_queries or n_folds, n_Cs) or, for trees, (n_queries, n_numbers_of_trees, n_Cs)
    scores = search.scores_
    if scores.ndim == 3:
        scores = scores[:, search.numbers_of_trees_.tolist().index(search.n_trees_)]
    return scores if scores.ndim == 1 else np.nanmean(scores, axis=0)


def _histories(label: str, model: object) -> list[tuple[str, Any]]:
    """Return the histories of a model by name; an ordinal model has one history for each of its binary models."""
    machines = getattr(model, "fits_", [])
    if len(machines) > 1:
        return [(f"{label} grade {i}".strip(), fit.history) for i, fit in enumerate(machines, 1)]
    fit = machines[0] if machines else getattr(model, "fit_", model)
    if not hasattr(fit, "gap") or not hasattr(fit, "history"):
        raise BadInput(
            "fits",
            f"expected a model with a duality gap, got {type(model).__name__}, which has none",
            "models such as StructuralRanker, PairwiseSVM, OrdinalSVM and TreeRanker have one",
        )
    return [(label, fit.history)]


def _draw(figure: figures.Figure, ax: Ax) -> Axes:
    """Draw a figure on the given axes or on new axes."""
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.subplots(layout="constrained")[1]
    draw_on(figure, ax)
    return ax
