"""The figures of the HTML reports as matplotlib axes, from what fits, models and results hold.

Each function draws on ``ax``, or on a new figure, and returns the axes: titles, limits and saving are matplotlib's.
Lines are told apart by dashes and markers as well as by colour. Needs matplotlib
(``pip install 'structsvm-ranking[plots]'``), which is imported when a figure is made.

>>> ax = differences([0.2, -0.1, 0.0])
>>> ax.get_xlabel(), [float(bar.get_height()) for bar in ax.patches]
('queries, best gain first', [0.2, 0.0, -0.1])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from structsvm.checks import BadInput

if TYPE_CHECKING:
    from structsvm.estimators.fusion import FusionModel
    from structsvm.features.binning import StepFunction
    from structsvm.online.simulation.play import Simulation

__all__ = [
    "against_C",
    "against_features",
    "differences",
    "gap",
    "partial_dependence",
    "precision_recall",
    "regret",
    "step_functions",
    "weights",
]

_LINES = (("-", "o"), ("--", "s"), (":", "D"), ("-.", "^"))
_GAIN, _LOSS = "tab:orange", "tab:blue"


def weights(coef: Any, names: Sequence[str] | None = None, *, top: int = 25, ax: Any = None) -> Any:
    """The largest weights of a linear model as bars, the largest on top: to the right raises the score.

    Parameters
    ----------
    coef : fitted linear model, or array-like of float, shape (n_features,)
        Of a model the names are taken, too. Weights can be compared where the features have one scale.
    names : sequence of str, optional
        Of the features; ``feature 1, feature 2, ...`` by default.
    top : int, default=25
        How many are drawn.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        For another number of names than of weights.
    ImportError
        If matplotlib is missing.

    Examples
    --------
    >>> ax = weights([0.1, -2.0, 1.0], ["length", "spam", "bm25"], top=2)
    >>> [label.get_text() for label in ax.get_yticklabels()], [float(bar.get_width()) for bar in ax.patches]
    (['spam', 'bm25'], [-2.0, 1.0])
    """
    if hasattr(coef, "coef_"):
        names = getattr(coef, "feature_names_in_", None) if names is None else names
        coef = coef.coef_
    values = np.asarray(coef, dtype=np.float64)
    called = [f"feature {j + 1}" for j in range(values.size)] if names is None else list(names)
    if values.shape != (len(called),):
        raise BadInput("names", f"expected one for each weight, got {len(called)} for shape {values.shape}")
    largest = np.argsort(-np.abs(values), kind="stable")[:top]
    ax = _axes(ax)
    ax.barh(
        np.arange(largest.size), values[largest], color=[_GAIN if v > 0 else _LOSS for v in values[largest]]
    )
    ax.set_yticks(np.arange(largest.size), [called[j] for j in largest])
    ax.invert_yaxis()
    ax.axvline(0, color="0.3", lw=0.8)
    ax.set_xlabel("weight" if largest.size == values.size else f"weight, {largest.size} of {values.size}")
    return ax


def step_functions(steps: FusionModel | StepFunction | Sequence[StepFunction], *, ax: Any = None) -> Any:
    """What the score of a base function adds to a document's score (thesis, figure 3.2).

    Parameters
    ----------
    steps : FusionModel, StepFunction or sequence of StepFunction
        Step functions as
        :meth:`BinnedFeatures.step_functions <structsvm.features.binning.BinnedFeatures.step_functions>` and
        :meth:`FusionModel.step_functions <structsvm.estimators.fusion.FusionModel.step_functions>` give them. A
        document that the function did not retrieve gets 0, the dotted line.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ImportError
        If matplotlib is missing.

    Examples
    --------
    >>> from structsvm.features.binning import BinnedFeatures
    >>> binned = BinnedFeatures(n_bins=3).fit([[0.0], [3.0]])
    >>> ax = step_functions(binned.step_functions([0.5, 1.0, -0.25], ["bm25"]))
    >>> print(*ax.lines[0].get_xydata().tolist())
    [0.0, 0.5] [1.0, 0.5] [1.0, 1.5] [2.0, 1.5] [2.0, 1.25] [3.0, 1.25]
    """
    given: Any = steps
    if hasattr(given, "step_functions"):
        given = given.step_functions()
    several: list[Any] = [given] if hasattr(given, "thresholds") else list(given)
    ax = _axes(ax)
    for i, step in enumerate(several):
        ax.plot(*step.outline(), ls=_LINES[i % len(_LINES)][0], label=step.name)
    ax.axhline(0, color="0.3", lw=0.8, ls=":")
    ax.set_xlabel("score by the base function")
    ax.set_ylabel("adds to the document's score")
    _legend(ax)
    return ax


def against_C(
    Cs: Any,
    values: Any = None,
    *,
    chosen: float | None = None,
    measure: str | None = None,
    label: str = "",
    ax: Any = None,
) -> Any:
    """A measure on validation queries against C, with the C chosen.

    Parameters
    ----------
    Cs : fitted StructuralRankerCV, or array-like of float, shape (n_Cs,)
        Of a search the values, the choice and the measure are taken, too.
    values : array-like of float, shape (n_Cs,)
        Needed unless a search is given.
    chosen : float, optional
        One of ``Cs``: marked.
    measure : str, optional
        The name of the y axis; by default that of the search, or ``"MAP"``.
    label : str, optional
        Of the line, where several are drawn on one ``ax``.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If ``chosen`` is none of ``Cs``, or for another number of values.
    ImportError
        If matplotlib is missing.

    Examples
    --------
    >>> ax = against_C([0.1, 1.0, 10.0], [0.5, 0.7, 0.6], chosen=1.0)
    >>> ax.get_xscale(), ax.collections[0].get_offsets().tolist()
    ('log', [[1.0, 0.7]])
    """
    if hasattr(Cs, "scores_") and hasattr(Cs, "Cs_"):
        search = Cs
        Cs, values = search.Cs_, np.nanmean(search.scores_, axis=0) if values is None else values
        chosen = search.C_ if chosen is None else chosen
        measure = search.scoring or search._measure() if measure is None else measure
    elif values is None:
        raise BadInput("values", "expected one for each C, got none", "or give a fitted StructuralRankerCV")
    grid, means = np.asarray(Cs, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if grid.shape != means.shape or grid.ndim != 1:
        raise BadInput("values", f"expected one for each C, got shapes {means.shape} and {grid.shape}")
    order = np.argsort(grid)
    if chosen is not None and chosen not in grid:
        raise BadInput("chosen", "expected one of the values of C", value=chosen)
    ax = _axes(ax)
    style, marker = _LINES[len(ax.lines) % len(_LINES)]
    (line,) = ax.plot(grid[order], means[order], ls=style, marker=marker, ms=4, label=label or "validation")
    if chosen is not None:
        name = f"{label}: chosen".removeprefix(": ")
        ax.scatter(
            [chosen], [means[grid == chosen][0]], s=120, fc="none", ec=line.get_color(), lw=1.8, zorder=3,
            label=f"{name}, C = {chosen:.3g}",
        )  # fmt: skip
    ax.set_xscale("log")
    ax.set_xlabel("C")
    ax.set_ylabel("MAP" if measure is None else measure)
    _legend(ax)
    return ax


def against_features(
    n_features: Any,
    values: Any,
    *,
    chosen: int | None = None,
    measure: str = "MAP",
    label: str = "",
    ax: Any = None,
) -> Any:
    """A measure against the number of features that models use: what each further feature is worth.

    Parameters
    ----------
    n_features : array-like of int, shape (n_models,)
        Weights that are not 0, such as ``numpy.count_nonzero(model.coef_)`` of the models of a path with
        ``penalty=cvxpy.norm1``. Of models with as many features the best value is drawn.
    values : array-like of float, shape (n_models,)
        Of the measure, on queries that the models were not trained on.
    chosen : int, optional
        One of the numbers: marked.
    measure : str, default="MAP"
        The name of the y axis.
    label : str, optional
        Of the line, where several are drawn on one ``ax``.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If ``chosen`` is none of the numbers, or for another number of values.
    ImportError
        If matplotlib is missing.

    Examples
    --------
    >>> ax = against_features([0, 3, 3, 10], [0.2, 0.5, 0.6, 0.6], chosen=3)
    >>> ax.get_xlabel(), ax.lines[0].get_xydata().tolist()
    ('features used', [[0.0, 0.2], [3.0, 0.6], [10.0, 0.6]])
    """
    numbers, found = np.asarray(n_features), np.asarray(values, dtype=np.float64)
    if numbers.shape != found.shape or numbers.ndim != 1:
        raise BadInput("values", f"expected one for each model, got shapes {found.shape} and {numbers.shape}")
    if chosen is not None and chosen not in numbers:
        raise BadInput("chosen", "expected one of the numbers of features", value=chosen)
    each = np.unique(numbers)
    best = np.array([found[numbers == n].max() for n in each])
    ax = _axes(ax)
    style, marker = _LINES[len(ax.lines) % len(_LINES)]
    (line,) = ax.plot(each, best, ls=style, marker=marker, ms=4, label=label or "validation")
    if chosen is not None:
        ax.scatter(
            [chosen], best[each == chosen], s=120, fc="none", ec=line.get_color(), lw=1.8, zorder=3,
            label=f"{label}: chosen, {chosen} features".removeprefix(": "),
        )  # fmt: skip
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_xlabel("features used")
    ax.set_ylabel(measure)
    _legend(ax)
    return ax


def gap(
    fits: Any,
    *,
    x: Literal["passes", "seconds"] = "passes",
    tol: float | None = None,
    ax: Any = None,
) -> Any:
    """The relative duality gap as training went on.

    Parameters
    ----------
    fits : fitted model, Fit, or mapping of str to either
        One, or several by name.
    x : {"passes", "seconds"}, default="passes"
        Passes over the data, or time.
    tol : float, optional
        The tolerance: a dashed line.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        For another ``x``.
    ImportError
        If matplotlib is missing.

    Notes
    -----
    A log axis cannot show a gap of 0, nor the infinite one before there are two bounds: such points are left out.

    Examples
    --------
    >>> from structsvm import SVMMap
    >>> model = SVMMap(C=10).fit([[1.0], [0.0], [0.5]], [1, 0, 0], qid=0)
    >>> ax = gap(model, tol=model.tol)
    >>> ax.get_xlabel(), ax.get_yscale()
    ('passes over the data', 'log')
    """
    axes_names = {"passes": ("n_passes", "passes over the data"), "seconds": ("seconds", "seconds")}
    if x not in axes_names:
        raise BadInput("x", "expected 'passes' or 'seconds'", value=x)
    field, name = axes_names[x]
    given = dict(fits) if isinstance(fits, Mapping) else {"": fits}
    several = {label: getattr(one, "fit_", one) for label, one in given.items()}
    ax = _axes(ax)
    for i, (label, fit) in enumerate(several.items()):
        known = [p for p in fit.history if 0 < p.gap < np.inf]
        style, marker = _LINES[i % len(_LINES)]
        ax.plot(
            [getattr(p, field) for p in known], [p.gap for p in known], ls=style, marker=marker, ms=4, label=label
        )  # fmt: skip
    if tol is not None:
        ax.axhline(tol, color="0.3", lw=0.8, ls="--", label=f"tolerance {tol:g}")
    ax.set_yscale("log")
    if x == "passes":
        ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_xlabel(name)
    ax.set_ylabel("relative duality gap")
    _legend(ax)
    return ax


def differences(values: Any, other: Any = None, *, measure: str | None = None, ax: Any = None) -> Any:
    """One bar a query, sorted from gain to loss.

    Parameters
    ----------
    values : EvaluationResult, or array-like of float, shape (n_queries,)
        A system; alone, per query what it has more than what it is compared with.
    other : EvaluationResult or array-like, optional
        What it is compared with; results are matched by query id.
    measure : str, optional
        What the values are differences in; by default that of the results, or average precision.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ImportError
        If matplotlib is missing.

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
    if other is not None:
        from structsvm.metrics.significance import paired

        a, b = paired(values, other)
        values = (a - b)[~np.isnan(a - b)]
    elif hasattr(values, "per_query"):
        raise BadInput("other", "expected the result to compare with, got none")
    ordered = np.sort(np.asarray(values, dtype=np.float64))[::-1]
    ax = _axes(ax)
    ax.bar(np.arange(ordered.size) + 0.5, ordered, width=0.9, color=np.where(ordered > 0, _GAIN, _LOSS))
    ax.axhline(0, color="0.3", lw=0.8)
    wins, losses = int((ordered > 0).sum()), int((ordered < 0).sum())
    ax.set_title(f"{wins} better, {losses} worse, {ordered.size - wins - losses} equal")
    ax.set_xlim(0, max(1, ordered.size))
    ax.set_xlabel("queries, best gain first")
    ax.set_ylabel(f"difference in {measure}")
    return ax


def precision_recall(curves: Mapping[str, Any], *, ax: Any = None) -> Any:
    """Interpolated precision at recall 0, 0.1, ..., 1.

    Parameters
    ----------
    curves : mapping of str to array-like, shape (11,)
        By system; such as ``FusionResult.precision``, or ``MethodResult.precision()`` of a comparison.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        For another number of values.
    ImportError
        If matplotlib is missing.

    Examples
    --------
    >>> ax = precision_recall({"SVM-map": np.linspace(1, 0, 11)})
    >>> ax.lines[0].get_xydata()[3].round(2).tolist()
    [0.3, 0.7]
    """
    from structsvm.metrics.recall_levels import RECALL_LEVELS

    ax = _axes(ax)
    for i, (name, curve) in enumerate(curves.items()):
        precision = np.asarray(curve, dtype=np.float64)
        if precision.shape != RECALL_LEVELS.shape:
            raise BadInput(name, f"expected precision at 11 levels of recall, got shape {precision.shape}")
        style, marker = _LINES[i % len(_LINES)]
        ax.plot(RECALL_LEVELS, precision, ls=style, marker=marker, ms=4, label=name)
    ax.set_ylim(bottom=0)
    ax.set_xlabel("recall")
    ax.set_ylabel("interpolated precision")
    _legend(ax)
    return ax


def partial_dependence(model: Any, X: Any, features: Sequence[Any], **options: Any) -> Any:
    """The mean score as one feature changes, drawn by scikit-learn's ``PartialDependenceDisplay``.

    Short for ``PartialDependenceDisplay.from_estimator(as_regressor(model), X, features, **options)``
    (:func:`~structsvm.estimators.as_regressor`), with whole numbers turned into floats first, as scikit-learn requires.

    Parameters
    ----------
    model : fitted ranker
        Whose ``predict`` needs no ``qid``: with scaling within queries a score depends on the rest of the query.
    X : array-like or pandas frame, shape (n_rows, n_features)
        Rows over which scores are averaged. A column ``qid`` of a frame is left out.
    features : sequence of int or str, or of pairs of them
        Columns to draw, one axes each; a pair is drawn as a surface.
    **options
        Of ``PartialDependenceDisplay.from_estimator``, such as ``ax``, ``grid_resolution``, or ``kind="both"`` for a
        line per row as well.

    Returns
    -------
    PartialDependenceDisplay
        Its axes are ``axes_``.

    Raises
    ------
    NotFittedError
        Before ``fit``.
    ValueError
        If the model scales within queries.
    ImportError
        If matplotlib is missing.

    Examples
    --------
    >>> from structsvm import SVMMap
    >>> model = SVMMap(C=10).fit([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], [1, 0, 0], qid=0)
    >>> display = partial_dependence(model, [[0.0, 0.0], [1.0, 1.0]], [0], percentiles=(0, 1), grid_resolution=2)
    >>> low, high = display.lines_[0, 0].get_ydata()
    >>> bool(np.isclose(high - low, model.coef_[0]))
    True
    """
    from sklearn.inspection import PartialDependenceDisplay

    from structsvm.estimators import as_regressor

    scores = as_regressor(model)
    if hasattr(X, "columns"):
        rows = X.drop(columns="qid", errors="ignore")
        rows = rows.astype({name: float for name in rows.columns if rows[name].dtype.kind in "iub"})
    else:
        rows = np.asarray(X, dtype=np.float64)
    return PartialDependenceDisplay.from_estimator(scores, rows, features, **options)


def regret(results: Simulation | Mapping[str, Simulation], *, ax: Any = None) -> Any:
    """Mean cumulative regret of bandits over the last four decades of time, with the 95% interval of the mean.

    Parameters
    ----------
    results : Simulation, or mapping of str to Simulation
        One, or several by bandit.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ImportError
        If matplotlib is missing.

    Examples
    --------
    >>> from structsvm.online import simulate
    >>> run = simulate("rucb", [[0.5, 0.8], [0.2, 0.5]], horizon=100, n_runs=3)
    >>> ax = regret({"RUCB": run})
    >>> bool(ax.lines[0].get_ydata()[-1] == run.mean()[-1])
    True
    """
    ax = _axes(ax)
    several = results if isinstance(results, Mapping) else {"": results}
    for i, (name, run) in enumerate(several.items()):
        mean = run.mean()
        keep = (run.times >= run.times[-1] / 1e4) & (mean > 0)
        style, _ = _LINES[i % len(_LINES)]
        (line,) = ax.plot(run.times[keep], mean[keep], ls=style, label=name)
        if len(run.regret) > 1:
            low, high = (edge[keep] for edge in run.interval())
            # a log axis has no 0
            floor = np.maximum(low, mean[keep] / 10)
            ax.fill_between(run.times[keep], floor, high, color=line.get_color(), alpha=0.15, lw=0)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("comparisons")
    ax.set_ylabel("cumulative regret")
    _legend(ax)
    return ax


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'structsvm-ranking[plots]'") from None
    return pyplot.subplots(layout="constrained")[1]


def _legend(ax: Any) -> None:
    """Where there is more than one thing to tell apart."""
    if len(ax.get_legend_handles_labels()[1]) > 1:
        ax.legend()
