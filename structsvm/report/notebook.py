"""Small pictures of results for notebooks: one chart and one line of numbers each.

They are pieces of :mod:`structsvm.report.html` in a box of their own, whose style sheet holds inside the box only: it
cannot change the notebook around it. Light and dark follow the notebook's own colours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from structsvm.common.escaping import escape
from structsvm.report.charts import HEIGHT, WIDTH, Axis, Frame, svg
from structsvm.report.html import Column, Series, bar_list, line_chart, p_value, table

__all__ = ["analysis", "evaluation", "fit", "importances", "model", "simulation"]

_STYLE = """
.structsvm{font:14px/1.45 system-ui,sans-serif;max-width:40rem;color:inherit}
.structsvm figure{margin:.4rem 0}
.structsvm svg{width:100%;max-width:27rem;height:auto;display:block}
.structsvm svg text{font-size:11px;fill:currentColor}
.structsvm .grid{stroke:currentColor;opacity:.15}
.structsvm .axis{stroke:currentColor;opacity:.6;fill:none}
.structsvm .mark{stroke:currentColor;opacity:.7;stroke-dasharray:4 3}
.structsvm .line{fill:none;stroke-width:1.8}
.structsvm .line,.structsvm circle,.structsvm rect,.structsvm .dot{stroke:#3b7dd8}
.structsvm circle,.structsvm rect,.structsvm .dot{fill:#3b7dd8}
.structsvm .s1 *{stroke:#d97b16;fill:#d97b16}
.structsvm .s2 *{stroke:#3a9d5d;fill:#3a9d5d}
.structsvm .s3 *{stroke:#9b5fc0;fill:#9b5fc0}
.structsvm g .line{fill:none}
.structsvm ul{list-style:none;padding:0;margin:.2rem 0}
.structsvm .key{width:34px;display:inline-block;vertical-align:middle;margin-right:.4rem}
.structsvm .bars li{display:flex;gap:.5rem;align-items:center}
.structsvm .name{flex:0 0 8rem;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.structsvm .track{position:relative;flex:1;height:.8rem}
.structsvm .bar{position:absolute;top:0;bottom:0;background:#3b7dd8}
.structsvm .bar.neg{background:#d97b16}
.structsvm th,.structsvm td{padding:.2rem .6rem;white-space:nowrap}
.structsvm .n{min-width:4rem;text-align:right}
.structsvm figcaption{opacity:.75;font-size:12px}
.structsvm p{margin:.2rem 0}
"""


def _box(*pieces: str) -> str:
    return f'<div class="structsvm"><style>{_STYLE}</style>{"".join(pieces)}</div>'


def _line(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def fit(result: Any) -> str:
    """The gap after each pass."""
    known = [step for step in result.history if 0 < step.gap < math.inf]
    chart = line_chart(
        [Series("gap", [step.n_passes for step in known], [step.gap for step in known])],
        x="passes over the data", y="relative duality gap", log_y=True,
    )  # fmt: skip
    return _box(_line(repr(result)), chart)


def model(estimator: Any, *, top: int = 12) -> str:
    """The largest weights by name, and the certificate."""
    coef = np.asarray(estimator.coef_, dtype=np.float64)
    names = feature_names(estimator, coef.size)
    largest = np.argsort(-np.abs(coef), kind="stable")[:top]
    caption = f"weights, {largest.size} of {coef.size}" if largest.size < coef.size else "weights"
    certificate = getattr(estimator, "fit_", None)
    pieces = [bar_list([names[j] for j in largest], coef[largest].tolist(), caption=caption)]
    if certificate is not None:
        pieces.append(_line(repr(certificate)))
    return _box(*pieces)


def evaluation(result: Any, *, bins: int = 10) -> str:
    """A histogram of the values per query."""
    values = np.asarray(result.per_query, dtype=np.float64)
    values = values[~np.isnan(values)]
    lines = [_line(f"{result.name}: {result.mean:.4f}, mean of {values.size} queries")]
    if values.size:
        top = max(1.0, float(values.max()))
        counts, edges = np.histogram(values, bins=bins, range=(0.0, top))
        lines.append(_histogram(counts, edges, x=f"{result.name} of a query", y="queries"))
    return _box(*lines)


def _histogram(counts: Any, edges: Any, *, x: str, y: str) -> str:
    frame = Frame(
        Axis(float(edges[0]), float(edges[-1]), log=False), Axis(0.0, float(counts.max()), log=False)
    )
    parts = [frame.grid(x, y)]
    for n, low, high in zip(counts, edges, edges[1:], strict=False):
        (left, bottom), (right, level) = frame.at(low, 0.0), frame.at(high, float(n))
        parts.append(
            f'<rect x="{left + 1}" y="{level}" width="{max(0.0, right - left - 2):.1f}" height="{bottom - level:.1f}"/>'
        )
    title = f"{y} by {x}: " + ", ".join(str(int(n)) for n in counts)
    return f"<figure>{svg(WIDTH, HEIGHT, title, ''.join(parts))}</figure>"


def simulation(result: Any) -> str:
    """Mean regret against comparisons."""
    mean = result.mean()
    chart = line_chart(
        [Series("mean regret", result.times.tolist(), mean.tolist())],
        x="comparisons", y="cumulative regret", log_x=True,
    )  # fmt: skip
    return _box(_line(repr(result)), chart)


def analysis(result: Any) -> str:
    """The verdict, and a row per pair."""
    columns = [Column("pair"), Column("wins", True), Column("losses", True), Column("ties", True),
               Column("p", True), Column("always-valid p", True)]  # fmt: skip
    rows = []
    for pair in result.pairs:
        always = pair.always_valid_p_value
        rows.append([
            f"{pair.a} against {pair.b}", str(pair.wins), str(pair.losses), str(pair.ties), p_value(pair.p_value),
            "–" if always is None else p_value(always),
        ])  # fmt: skip
    return _box(_line(repr(result)), table(columns, rows, caption=result.estimand))


def importances(result: Any, *, top: int = 20) -> str:
    """How much of the measure each feature is worth, the largest first."""
    order = result.order[:top]
    bars = bar_list(
        [result.names[j] for j in order], [float(result.mean[j]) for j in order],
        caption=f"{result.measure} lost when the feature is shuffled; {result.baseline:.4f} with all",
    )  # fmt: skip
    return _box(bars)


def feature_names(estimator: Any, n_features: int) -> Sequence[str]:
    """Names of the features a model was fitted to; numbers from 1 where it had none."""
    names = getattr(estimator, "feature_names_in_", None)
    return [f"feature {j + 1}" for j in range(n_features)] if names is None else [str(name) for name in names]
