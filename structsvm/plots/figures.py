"""The figures of pages, notebooks and plots as data; ``drawing`` draws them with matplotlib."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from structsvm.common.names import feature_names

_DECADES = 4
"""Powers of ten of time that a chart of regret shows: earlier steps would squeeze the rest."""


class Series(NamedTuple):
    """One line of a chart; ``low`` and ``high`` are the ends of a band around it, ``ring`` marks the point of an x."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    ring: float | None = None
    ring_name: str = ""


class Lines(NamedTuple):
    """Lines over common axes, distinguished by colour, dash and marker."""

    series: Sequence[Series]
    x: str
    y: str
    log_x: bool = False
    log_y: bool = False
    whole_x: bool = False
    """Values of x are whole numbers, and their axis begins at the first of them, not at 0."""
    mark: float | None = None
    """A value of y to mark by a dashed line."""
    mark_name: str = ""
    y_range: tuple[float, float] | None = None
    """Values that the axis of y covers in any case, so that charts side by side can have the same."""
    markers: bool = True


class Bars(NamedTuple):
    """Signed numbers by name."""

    names: Sequence[str]
    values: Sequence[float]
    label: str


class Intervals(NamedTuple):
    """Estimates by name with their intervals, a forest plot; an infinite end is open, NaN ends are not drawn."""

    names: Sequence[str]
    values: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    label: str
    notes: Sequence[str] = ()
    """Texts behind the names, such as ranks."""


class Differences(NamedTuple):
    """One bar per query, in descending order: up is a gain, down a loss."""

    values: Sequence[float]
    y: str
    unit: str = "queries"

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many are gains, losses and neither."""
        wins, losses = sum(v > 0 for v in self.values), sum(v < 0 for v in self.values)
        return wins, losses, len(self.values) - wins - losses


class Histogram(NamedTuple):
    """How many values lie between each two ``edges``."""

    counts: Sequence[float]
    edges: Sequence[float]
    x: str
    y: str


class Matrix(NamedTuple):
    """Numbers as coloured cells, orange above 0 and blue below, the stronger the larger."""

    values: ArrayLike
    title: str


Figure = Lines | Bars | Intervals | Differences | Histogram | Matrix


def weights(coef: ArrayLike, names: Sequence[str], *, top: int) -> Bars:
    """The largest weights of a linear model, the largest first."""
    values = np.asarray(coef, dtype=np.float64)
    largest = np.argsort(-np.abs(values), kind="stable")[:top]
    label = "weight" if largest.size == values.size else f"weight, {largest.size} of {values.size}"
    return Bars([str(names[j]) for j in largest], values[largest].tolist(), label)


def weight_names(model: Any) -> list[str]:
    """Names of the weights of a fitted model: its features, or the leaves and bins of its trees."""
    known = getattr(model, "feature_names_in_", None)
    if hasattr(model, "leaves_"):
        names = feature_names(known, model.n_features_in_)
        return [str(name) for name in model.leaves_.get_feature_names_out(names)]
    return feature_names(known, np.size(model.coef_))


def gap(
    histories: Mapping[str, Iterable[Any]],
    *,
    x: Literal["passes", "seconds"] = "passes",
    tol: float | None = None,
) -> Lines:
    """The relative duality gap as training went on; a log axis cannot show 0, nor the gap before there is a bound."""
    attribute, label = {"passes": ("n_passes", "passes over the data"), "seconds": ("seconds", "seconds")}[x]
    series = []
    for name, history in histories.items():
        known = [step for step in history if 0 < step.gap < np.inf]
        series.append(
            Series(name, [getattr(step, attribute) for step in known], [step.gap for step in known])
        )
    return Lines(
        series, label, "relative duality gap", log_y=True, whole_x=x == "passes", mark=tol,
        mark_name="" if tol is None else f"tolerance {tol:g}",
    )  # fmt: skip


def against_C(curves: Mapping[str, tuple[ArrayLike, ArrayLike, float | None]], *, measure: str) -> Lines:
    """A measure on held-out queries against C: by name the values of C, of the measure, and the C that was chosen."""
    series = []
    for name, (Cs, values, chosen) in curves.items():
        grid, means = np.asarray(Cs, dtype=np.float64), np.asarray(values, dtype=np.float64)
        order = np.argsort(grid)
        series.append(Series(name, grid[order].tolist(), means[order].tolist(), ring=chosen))
    return Lines(series, "C", measure, log_x=True)


def differences(values: ArrayLike, *, measure: str, unit: str = "queries") -> Differences:
    """What each query gains over the system that is compared with."""
    known = np.asarray(values, dtype=np.float64)
    ordered = np.sort(known[~np.isnan(known)])[::-1]
    return Differences(ordered.tolist(), f"difference in {measure}", unit)


def precision_recall(curves: Mapping[str, ArrayLike], *, y_range: tuple[float, float] | None = None) -> Lines:
    """Interpolated precision at recall 0, 0.1, ..., 1."""
    levels = [k / 10 for k in range(11)]
    series = [
        Series(name, levels, np.asarray(curve, dtype=np.float64).tolist()) for name, curve in curves.items()
    ]
    return Lines(series, "recall", "interpolated precision", y_range=y_range)


def step_functions(steps: Iterable[Any], *, y_range: tuple[float, float] | None = None) -> Lines:
    """What the scores of base functions add to a document's score (thesis, figure 3.2)."""
    series = [Series(step.name, *step.outline()) for step in steps]
    return Lines(
        series, "score by the base function", "adds to the score", mark=0.0, y_range=y_range, markers=False
    )


def regret(results: Mapping[str, Any], *, kind: str = "") -> Lines:
    """Mean cumulative regret of bandits over the last decades of time, with the 95% interval of the mean."""
    series = []
    for name, run in results.items():
        mean = run.mean()
        keep = _late(run) & (mean > 0)
        low = high = None
        if len(run.regret) > 1 and keep.any():
            low, high = (edge[keep] for edge in run.interval())
            # the interval of few runs may reach below 0, which a log axis cannot show
            low, high = np.maximum(low, mean[keep].min()).tolist(), high.tolist()
        series.append(Series(name, run.times[keep].tolist(), mean[keep].tolist(), low, high))
    label = f"cumulative regret ({kind})" if kind else "cumulative regret"
    return Lines(series, "comparisons", label, log_x=True, log_y=True)


def right_answers(results: Mapping[str, Any]) -> Lines:
    """The share of the runs that would name a best arm, over the same time and the whole range of shares."""
    series = [
        Series(name, run.times[_late(run)].tolist(), run.accuracy[_late(run)].tolist())
        for name, run in results.items()
    ]
    return Lines(series, "comparisons", "share of right answers", log_x=True, y_range=(0.0, 1.0))


def _late(run: Any) -> Any:
    return run.times >= run.times[-1] / 10.0**_DECADES
