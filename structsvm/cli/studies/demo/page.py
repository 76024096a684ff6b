"""The outcome of a demonstration as a table, as a sentence, and as a self-contained HTML page."""

from __future__ import annotations

from typing import Any

import numpy as np

from structsvm.cli.studies.demo.task import Outcome, Pictures, System, Task
from structsvm.common.names import feature_names
from structsvm.metrics import EvaluationResult, compare, evaluate
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
            row += [
                f"{test.mean_difference:+.4f}",
                f"{test.wins}/{test.losses}",
                pages.p_value(test.p_value),
            ]
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


def measure_headline(outcome: Outcome) -> str:
    """Return in words what it brings to train for average precision instead of ROC area."""
    roc, svm = outcome.learned
    areas = [_roc_area(outcome, system).mean for system in (roc, svm)]
    test = compare(svm.per_query, roc.per_query)
    better = "better" if test.mean_difference > 0 else "worse"
    text = (
        f"Trained for average precision, the same model on the same data ranks {better}: {svm.name} reaches a mean "
        f"average precision of {svm.mean:.4f}, {roc.name} of {roc.mean:.4f} ({test.wins} of {svm.per_query.size} test "
        f"queries better, {test.losses} worse; two-tailed Wilcoxon test, {pages.p_said(test.p_value)})."
    )
    if areas[0] > areas[1]:
        text += (
            f" By ROC area it is the other way round: {areas[1]:.4f} against {areas[0]:.4f}. Each is the better one by "
            "the measure that it was trained for."
        )
    return text


def _roc_area(outcome: Outcome, system: System) -> EvaluationResult:
    test = outcome.task.test
    return evaluate("roc", test.y, system.scores, qid=test.qid)


def page(outcome: Outcome, first: Outcome | None = None) -> str:
    """Return the report, an HTML document that loads nothing; ``first`` shows where the measure matters."""
    columns, rows = results_table(outcome)
    lead, learned, task = headline(outcome), outcome.learned, outcome.task
    tol, histories = learned[0].model.tol, {s.name: s.model.fit_.history for s in learned}
    return pages.render(
        "cli/studies/demo/page.html", title=task.title if first is None else first.task.title,
        lead=lead if first is None else measure_headline(first), headline=lead, task=task, columns=columns, rows=rows,
        measure=None if first is None else _measure_matters(first), baseline=outcome.baseline.name,
        best=[i for i, s in enumerate(outcome.systems) if s.model is not None and s.mean == outcome.best.mean],
        weights=[_weights(task, s) for s in learned], tol=tol, n_shown=_SHOWN,
        gaps=[figures.gap(histories, x=x, tol=tol) for x in ("passes", "seconds")],
        differences=[_difference(s, outcome.baseline) for s in learned],
        examples=[] if task.pictures is None else _examples(outcome, task.pictures),
    )  # fmt: skip


def _measure_matters(outcome: Outcome) -> dict[str, Any]:
    """Return what the page shows of the case in which the measure that is trained for decides."""
    roc, svm = outcome.learned
    rows = []
    for system in outcome.systems:
        weights = ["", ""] if system.model is None else [f"{w:.3f}" for w in system.model.coef_]
        rows.append([system.name, f"{system.mean:.4f}", f"{_roc_area(outcome, system).mean:.4f}", *weights])
    numbers = ("MAP", "ROC area", *(f"weight of {name}" for name in outcome.task.train.feature_names or ()))
    return {
        "description": outcome.task.description, "rows": rows, "best": outcome.systems.index(svm),
        "columns": [pages.Column("System"), *(pages.Column(name, numeric=True) for name in numbers)],
        "names": (svm.name, roc.name), "difference": _difference(svm, roc),
    }  # fmt: skip


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
