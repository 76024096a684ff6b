"""The outcome of a demonstration as a table, as a sentence, and as a self-contained HTML page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from structsvm.cli.studies.demo.task import Outcome, Pictures, System
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
    """Return the result in words, with the models that are as good and the test queries seen in training."""
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
    if seen := outcome.task.n_seen:
        text += (
            f" {seen if seen < n else 'All'} of the {n} test queries are training queries: the figures tell how well "
            "the models fit them, not how well they rank new ones."
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
    return evaluate("roc", test.y, system.scores, qid=test.qid, relevance=outcome.task.relevance)


def page(outcome: Outcome, first: Outcome | None = None) -> str:
    """Return the report, an HTML document that loads nothing; ``first`` shows where the measure matters."""
    columns, rows = results_table(outcome)
    lead = headline(outcome)
    return pages.render(
        "cli/studies/demo/page.html",
        title=outcome.task.title if first is None else first.task.title,
        lead=lead if first is None else measure_headline(first),
        measure=None if first is None else _measure_matters(first),
        headline=lead,
        task=outcome.task,
        columns=columns,
        rows=rows,
        best=[
            i for i, s in enumerate(outcome.systems) if s.model is not None and s.mean == outcome.best.mean
        ],
        baseline=outcome.baseline.name,
        learned=outcome.learned,
        weights=_weights(outcome),
        tol=outcome.learned[0].model.tol,
        gaps=[
            figures.gap(
                {system.name: system.model.fit_.history for system in outcome.learned},
                x=x,
                tol=outcome.learned[0].model.tol,
            )
            for x in ("passes", "seconds")
        ],
        differences=[(system.name, _difference(system, outcome.baseline)) for system in outcome.learned],
        n_shown=_SHOWN,
        examples=[] if outcome.task.pictures is None else _examples(outcome, outcome.task.pictures),
    )


def _measure_matters(outcome: Outcome) -> dict[str, Any]:
    """What the page shows of the case in which the measure that is trained for decides."""
    roc, svm = outcome.learned
    rows = []
    for system in outcome.systems:
        weights = ["", ""] if system.model is None else [f"{w:.3f}" for w in system.model.coef_]
        area, spam = _roc_area(outcome, system).mean, _spam_share(outcome, system)
        rows.append([system.name, f"{system.mean:.4f}", f"{area:.4f}", f"{spam:.0%}", *weights])
    names = outcome.task.train.feature_names or ()
    numbers = ("MAP", "ROC area", "spam in top 5", *(f"weight of {name}" for name in names))
    return {
        "description": outcome.task.description,
        "columns": [pages.Column("System"), *(pages.Column(name, numeric=True) for name in numbers)],
        "rows": rows,
        "best": outcome.systems.index(svm),
        "names": (svm.name, roc.name),
        "examples": _first_documents(outcome),
        "difference": _difference(svm, roc),
    }


def _difference(system: System, other: System) -> figures.Differences:
    return figures.differences(system.per_query - other.per_query, measure="AP")


def _top(outcome: Outcome, system: System, q: int, n: int) -> list[int]:
    test = outcome.task.test
    a, b = int(test.offsets[q]), int(test.offsets[q + 1])
    order = np.argsort(-system.scores[a:b], kind="stable")[:n]
    return [a + int(i) for i in order]


def _is_spam(outcome: Outcome, row: int) -> bool:
    docid = outcome.task.test.docid
    return docid is not None and str(docid[row]).startswith("spam")


def _spam_share(outcome: Outcome, system: System) -> float:
    n = outcome.task.test.n_queries
    rows = [row for q in range(n) for row in _top(outcome, system, q, 5)]
    return sum(_is_spam(outcome, row) for row in rows) / len(rows)


def _shelf(outcome: Outcome, system: System, q: int, shown: Callable[[int], str]) -> pages.Shelf:
    """The first documents of a query as ``shown`` has their rows, and whether they are relevant."""
    y, relevance = outcome.task.test.y, outcome.task.relevance
    items = [(shown(row), bool(y[row] >= relevance)) for row in _top(outcome, system, q, _SHOWN)]
    return pages.Shelf(system.name, f"AP {system.per_query[q]:.3f}", items)


def _first_documents(outcome: Outcome) -> list[tuple[str, str, list[pages.Shelf]]]:
    """The query in the middle of those that are sorted by the difference, and where the difference is against us."""
    roc, svm = outcome.learned
    test, relevance = outcome.task.test, outcome.task.relevance

    def word(row: int) -> str:
        text = "relevant" if test.y[row] >= relevance else "spam" if _is_spam(outcome, row) else "other"
        return f"<small>{text}</small>"

    order = np.argsort(svm.per_query - roc.per_query, kind="stable")
    examples = []
    for text, q in (("middle of the gains", int(order[len(order) // 2])), ("largest loss", int(order[0]))):
        shelves = [_shelf(outcome, system, q, word) for system in (roc, svm)]
        examples.append(("", f"Query {test.query_ids[q]}: the {text} of {svm.name}", shelves))
    return examples


def _weights(outcome: Outcome) -> list[figures.Bars]:
    names = feature_names(outcome.task.train.feature_names, outcome.task.train.n_features)
    lists = []
    for system in outcome.learned:
        bars = figures.weights(system.model.coef_, names, top=25)
        label = f"{system.name}: the {len(bars.values)} largest of {len(names)} weights"
        lists.append(bars._replace(label=label))
    return lists


def _examples(outcome: Outcome, pictures: Pictures) -> list[tuple[str, str, list[pages.Shelf]]]:
    """The queries with the largest gain, two in between, and the largest loss: not only favourable ones."""
    best, base = outcome.best, outcome.baseline

    def candidate(row: int) -> str:
        number = row % int(outcome.task.test.offsets[1])  # all queries have the same candidates
        return pages.picture(pictures.candidates[number], alt=f"digit {pictures.candidate_digits[number]}")

    order = np.argsort(best.per_query - base.per_query, kind="stable")[::-1]
    n = len(order)
    examples = []
    for text, k in {"largest gain": 0, "upper quarter": n // 4, "middle": n // 2, "largest loss": -1}.items():
        q = int(order[k])
        shelves = [_shelf(outcome, system, q, candidate) for system in (base, *outcome.learned)]
        digit = int(pictures.query_digits[q])
        query = pages.picture(pictures.queries[q], alt=f"query: digit {digit}")
        examples.append((query, f"A {digit}: the {text} of {best.name}", shelves))
    return examples
