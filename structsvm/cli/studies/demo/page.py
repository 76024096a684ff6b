"""The outcome of a demonstration as a table, as a sentence, and as a self-contained HTML page."""

from __future__ import annotations

import numpy as np

from structsvm.cli.studies.demo.task import Outcome, Pictures, System, Task
from structsvm.common.names import feature_names
from structsvm.metrics import compare
from structsvm.metrics.significance import leaders
from structsvm.plots import figures, pages

_SHOWN = 10


def results_table(outcome: Outcome) -> tuple[list[pages.Column], list[list[str]]]:
    """Return columns and formatted rows: measure, difference to the baseline, significance, and the cost of the fit."""
    columns = [
        pages.Column("System"),
        *(
            pages.Column(name, numeric=True)
            for name in ("MAP", "difference", "better/worse", "p", "C", "gap", "passes", "seconds")
        ),
    ]
    rows = []
    for system in outcome.systems:
        row = [system.name, f"{system.mean:.4f}"]
        if system is outcome.baseline:
            row += ["", "", ""]
        else:
            test = compare(system.per_query, outcome.baseline.per_query)
            row += [f"{test.mean_difference:+.4f}", f"{test.wins}/{test.losses}", pages.p_value(test.p_value)]
        if system.model is None:
            row += ["", "", "", ""]
        else:
            fit = system.model.fit_
            row += [f"{fit.C:g}", f"{fit.gap:.0e}", str(fit.n_passes), f"{fit.seconds:.2f}"]
        rows.append(row)
    return columns, rows


def headline(outcome: Outcome) -> str:
    """Return the result in words, with the models that are as good."""
    best, base = outcome.best, outcome.baseline
    test = compare(best.per_query, base.per_query)
    best_models = leaders({system.name: system.per_query for system in outcome.learned})
    if test.p_value >= 0.05:
        verdict = "no significant difference to"
    else:
        verdict = "significantly better than" if test.mean_difference > 0 else "significantly worse than"
    n = best.per_query.shape[0]
    text = (
        f"{pages.listed(best_models.first)} {'reaches' if len(best_models.first) == 1 else 'equally reach'} a mean "
        f"average precision of {best.mean:.4f} on {n} test queries: "
        f"{verdict} {base.name} with {base.mean:.4f} (two-tailed Wilcoxon test, {pages.p_said(test.p_value)})."
    )
    if best_models.level:
        means = {system.name: system.mean for system in outcome.learned}
        level = [f"{name} ({means[name]:.4f}, {pages.p_said(p)})" for name, p in best_models.level.items()]
        text += (
            f" No significant difference between {pages.listed(best_models.first)} and {pages.listed(level)}."
        )
    return text


def page(outcome: Outcome) -> str:
    """Return the report, an HTML document that loads nothing."""
    columns, rows = results_table(outcome)
    learned, task = outcome.learned, outcome.task
    tol, histories = learned[0].model.tol, {s.name: s.model.fit_.history for s in learned}
    return pages.render(
        "cli/studies/demo/page.html", title=task.title, lead=headline(outcome), task=task, columns=columns, rows=rows,
        baseline=outcome.baseline.name,
        best=[i for i, s in enumerate(outcome.systems) if s.model is not None and s.mean == outcome.best.mean],
        weights=[_weights(task, s) for s in learned], tol=tol, n_shown=_SHOWN,
        gaps=[figures.gap(histories, x=x, tol=tol) for x in ("passes", "seconds")],
        differences=[_difference(s, outcome.baseline) for s in learned],
        examples=[] if task.pictures is None else _examples(outcome, task.pictures),
    )  # fmt: skip


def _difference(system: System, other: System) -> figures.Differences:
    return figures.differences(system.per_query - other.per_query, measure=f"AP, {system.name}")


def _weights(task: Task, system: System) -> figures.Figure:
    """Return the weights as an image where there is one per pixel, else as bars."""
    if task.shape is not None:
        return figures.Matrix(system.model.coef_.reshape(task.shape), f"Weights of {system.name}")
    names = feature_names(task.train.feature_names, task.train.n_features)
    return figures.weights(system.model.coef_, names, top=25)._replace(label=f"Weights of {system.name}")


def _examples(outcome: Outcome, pictures: Pictures) -> list[tuple[str, str, list[pages.Shelf]]]:
    """Return the queries with the largest gain, two in between, and the largest loss: not only favourable ones."""
    best, base, test = outcome.best, outcome.baseline, outcome.task.test
    n_candidates = int(test.offsets[1])  # all queries have the same
    order = np.argsort(best.per_query - base.per_query, kind="stable")[::-1]
    examples = []
    for text, k in {"largest gain": 0, "upper quarter": len(order) // 4, "middle": len(order) // 2,
                    "largest loss": -1}.items():  # fmt: skip
        q = int(order[k])
        first, shelves = int(test.offsets[q]), []
        for system in (base, *outcome.learned):
            top = np.argsort(-system.scores[first : first + n_candidates], kind="stable")[:_SHOWN].tolist()
            items = [
                (
                    pages.picture(pictures.candidates[i], alt=f"digit {pictures.candidate_digits[i]}"),
                    bool(test.y[first + i] >= 1),
                )
                for i in top
            ]
            shelves.append(pages.Shelf(system.name, f"AP {system.per_query[q]:.3f}", items))
        digit = int(pictures.query_digits[q])
        query = pages.picture(pictures.queries[q], alt=f"query: digit {digit}")
        examples.append((query, f"A {digit}: the {text} of {best.name}", shelves))
    return examples
