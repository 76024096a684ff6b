"""HTML views of results in notebooks, with charts, tables and lines of numbers.

Each view is a box of pieces from :mod:`structsvm.plots.pages`. Its style sheet applies only inside the box, and text
has the colour of the notebook.
"""

from typing import Any

import numpy as np

from structsvm.common.checks import counted
from structsvm.plots import figures
from structsvm.plots.pages import bar_list, columns, draw, p_value, paragraph, style_in, table


def _box(*pieces: str) -> str:
    return f'<div class="structsvm">{style_in("structsvm")}{"".join(pieces)}</div>'


def fit(result: Any) -> str:
    """Return the view of a fit: the duality gap after each pass."""
    return _box(paragraph(repr(result)), draw(figures.gap({"": result.history})))


def model(estimator: Any, *, top: int = 12) -> str:
    """Return the view of a model: its largest weights by name, and the certificate of its fit."""
    pieces = [draw(figures.weights(estimator.coef_, figures.weight_names(estimator), top=top))]
    certificate = getattr(estimator, "fit_", None)
    if certificate is not None:
        pieces.append(paragraph(repr(certificate)))
    return _box(*pieces)


def evaluation(result: Any, *, bins: int = 10) -> str:
    """Return the view of an evaluation: a histogram of the values per query."""
    # the value of a query that was left out is NaN
    values = np.asarray(result.per_query, dtype=np.float64)
    values = values[~np.isnan(values)]
    pieces = [paragraph(f"{result.name}: {result.mean:.4f}, mean of {counted(query=values.size)}")]
    if values.size:
        counts, edges = np.histogram(values, bins=bins, range=(0.0, max(1.0, float(values.max()))))
        shown = figures.Histogram(counts.tolist(), edges.tolist(), f"{result.name} of a query", "queries")
        pieces.append(draw(shown))
    return _box(*pieces)


def estimate(result: object) -> str:
    """Return the view of an estimate: the score on new queries, and its difference from the baseline."""
    return _box(*(paragraph(line) for line in repr(result).splitlines()))


def simulation(result: object) -> str:
    """Return the view of a simulation: the mean regret against the number of comparisons."""
    return _box(paragraph(repr(result)), draw(figures.regret({"": result})))


def analysis(result: Any) -> str:
    """Return the view of an analysis: its verdict, and a table with one row per pair of rankers."""
    names = columns("pair", numbers=("wins", "losses", "ties", "p", "always-valid p"))
    rows = []
    for pair in result.pairs:
        rows.append(
            [
                f"{pair.a} against {pair.b}",
                str(pair.wins),
                str(pair.losses),
                str(pair.ties),
                p_value(pair.p_value),
                p_value(pair.always_valid_p_value),
            ]
        )
    notes = [paragraph(text, small=True) for text in result.notes]
    return _box(paragraph(repr(result)), table(names, rows, caption=result.estimand), *notes)


def comparison(result: Any) -> str:
    """Return the view of a comparison: difference with interval, numbers of wins, losses and ties, and p-value."""
    cells = {
        "difference": f"{result.mean_difference:+.4f}",
        f"{100 * result.level:g}% interval": "–"
        if result.lower != result.lower
        else f"{result.lower:+.4f} to {result.upper:+.4f}",
        **{name: str(getattr(result, name)) for name in ("wins", "losses", "ties")},
        f"p ({result.test})": p_value(result.p_value),
    }
    return _box(
        table(columns(numbers=cells), [list(cells.values())], caption="Paired comparison over queries")
    )


def importances(result: Any, *, top: int = 20) -> str:
    """Return the view of importances, in descending order."""
    order = result.order[:top]
    caption = f"decrease of {result.measure} if the feature is shuffled, from {result.baseline:.4f}"
    names, means = [result.names[j] for j in order], [float(result.mean[j]) for j in order]
    return _box(bar_list(names, means, caption=caption))


def run_table(result: Any) -> str:
    """Return the view of a run table: the means of the runs, with marks at significant differences."""
    caption = f"means over {len(next(iter(result.results.values())).query_ids)} topics"
    means = table(columns("run", numbers=result.measures), result._cells()[1:], caption=caption)
    return _box(means, *(paragraph(note) for note in result._note()))
