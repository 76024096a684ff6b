"""Descriptions of figures as data, for pages, notebooks and axes; ``drawing`` draws them with matplotlib."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from structsvm.common.names import feature_names

_DECADES = 4
"""Number of decades of time in a chart of regret; with more there would be little room for the last ones."""


Time = Literal["passes", "seconds"]


class Series(NamedTuple):
    """A line of a chart; ``low`` and ``high`` bound a band around the line, ``ring`` is the x value to mark."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    ring: float | None = None
    ring_name: str = ""


class Lines(NamedTuple):
    """Lines on common axes, distinguished by colour, dashes and marker."""

    series: Sequence[Series]
    x: str
    y: str
    log_x: bool = False
    log_y: bool = False
    whole_x: bool = False
    """Whether the x values are integers, for which the axis has integer ticks."""
    mark: float | None = None
    """The y value of a dashed horizontal line, if any."""
    mark_name: str = ""
    y_range: tuple[float, float] | None = None
    """Range that the y axis must cover, so that charts side by side are comparable."""
    markers: bool = True


class Bars(NamedTuple):
    """Signed numbers with names, drawn as horizontal bars."""

    names: Sequence[str]
    values: Sequence[float]
    label: str


class Intervals(NamedTuple):
    """Named estimates with intervals (a forest plot); an interval with a NaN end is not drawn."""

    names: Sequence[str]
    values: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    label: str
    notes: Sequence[str] = ()
    """Texts to show after the names, such as ranks."""


class Differences(NamedTuple):
    """Differences per query, drawn as bars in descending order; positive differences are gains."""

    values: Sequence[float]
    y: str
    unit: str = "queries"

    @property
    def counts(self) -> tuple[int, int, int]:
        """Numbers of positive, negative and zero differences."""
        wins, losses = sum(v > 0 for v in self.values), sum(v < 0 for v in self.values)
        return wins, losses, len(self.values) - wins - losses


class Histogram(NamedTuple):
    """Numbers of values between consecutive ``edges``."""

    counts: Sequence[float]
    edges: Sequence[float]
    x: str
    y: str


class Matrix(NamedTuple):
    """Matrix of numbers, drawn as cells: orange above 0 and blue below, stronger for larger absolute values."""

    values: ArrayLike
    title: str


Figure = Lines | Bars | Intervals | Differences | Histogram | Matrix


def weights(coef: ArrayLike, names: Sequence[str], *, top: int) -> Bars:
    """Return the ``top`` weights of a linear model by absolute value, in descending order."""
    values = np.asarray(coef, dtype=np.float64)
    largest = np.argsort(-np.abs(values), kind="stable")[:top]
    label = "weight" if largest.size == values.size else f"weight, {largest.size} of {values.size}"
    return Bars([str(names[j]) for j in largest], values[largest].tolist(), label)


def weight_names(model: Any) -> list[str]:
    """Return the names of the weights of a fitted model: its features, or the leaves and bins of its trees."""
    known = getattr(model, "feature_names_in_", None)
    if hasattr(model, "leaves_"):
        names = feature_names(known, model.n_features_in_)
        return [str(name) for name in model.leaves_.get_feature_names_out(names)]
    return feature_names(known, np.size(model.coef_))


def gap(histories: Mapping[str, Iterable[Any]], *, x: Time = "passes", tol: float | None = None) -> Lines:
    """Return the relative duality gap during training, excluding 0 and infinity, which a log axis cannot show."""
    attribute, label = {"passes": ("n_passes", "passes over the data"), "seconds": ("seconds", "seconds")}[x]
    series = []
    for name, history in histories.items():
        known = [step for step in history if 0 < step.gap < np.inf]
        times = [getattr(step, attribute) for step in known]
        series.append(Series(name, times, [step.gap for step in known]))
    return Lines(
        series,
        label,
        "relative duality gap",
        log_y=True,
        whole_x=x == "passes",
        mark=tol,
        mark_name="" if tol is None else f"tolerance {tol:g}",
    )


def against_C(curves: Mapping[str, tuple[ArrayLike, ArrayLike, float | None]], *, measure: str) -> Lines:
    """Return lines of a measure on held-out queries against C; ``curves`` maps names to grid, values and chosen C."""
    series = []
    for name, (Cs, values, chosen) in curves.items():
        grid, means = np.asarray(Cs, dtype=np.float64), np.asarray(values, dtype=np.float64)
        order = np.argsort(grid)
        series.append(Series(name, grid[order].tolist(), means[order].tolist(), ring=chosen))
    return Lines(series, "C", measure, log_x=True)


def differences(values: ArrayLike, *, measure: str, unit: str = "queries") -> Differences:
    """Return the differences per query in descending order, without missing values."""
    known = np.asarray(values, dtype=np.float64)
    ordered = np.sort(known[~np.isnan(known)])[::-1]
    return Differences(ordered.tolist(), f"difference in {measure}", unit)


def step_functions(steps: Iterable[Any], *, y_range: tuple[float, float] | None = None) -> Lines:
    """Return the contributions of base functions to a document's score (thesis, figure 3.2)."""
    series = [Series(step.name, *step.outline()) for step in steps]
    labels = "score by the base function", "contribution to the score"
    return Lines(series, *labels, mark=0.0, y_range=y_range, markers=False)


def regret(results: Mapping[str, Any], *, kind: str = "") -> Lines:
    """Return the mean cumulative regret of bandits over the last decades of time, with its 95% interval."""
    series = []
    for name, run in results.items():
        # keep late times with a positive mean, which a log axis can show
        mean = run.mean()
        keep = _late(run) & (mean > 0)
        low = high = None
        if len(run.regret) > 1 and keep.any():
            low, high = (edge[keep] for edge in run.interval())
            # with few runs the interval may extend below 0, which a log axis cannot show
            low, high = np.maximum(low, mean[keep].min()).tolist(), high.tolist()
        series.append(Series(name, run.times[keep].tolist(), mean[keep].tolist(), low, high))
    label = f"cumulative regret ({kind})" if kind else "cumulative regret"
    return Lines(series, "comparisons", label, log_x=True, log_y=True)


def right_answers(results: Mapping[str, Any]) -> Lines:
    """Return the share of runs that name a best arm, over the same range of time as in :func:`regret`."""
    series = [
        Series(name, run.times[_late(run)].tolist(), run.accuracy[_late(run)].tolist())
        for name, run in results.items()
    ]
    return Lines(series, "comparisons", "share of right answers", log_x=True, y_range=(0.0, 1.0))


def _late(run: Any) -> Any:
    """Return a mask of the times in the last decades."""
    return run.times >= run.times[-1] / 10.0**_DECADES
