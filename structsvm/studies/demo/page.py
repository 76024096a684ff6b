"""The outcome of a demonstration as a table, as a sentence, and as a self-contained HTML page."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from structsvm import report
from structsvm.common.files import replacing
from structsvm.metrics import EvaluationResult, compare, evaluate
from structsvm.metrics.leaders import leaders
from structsvm.studies.demo.task import Outcome, Pictures, System

__all__ = ["headline", "measure_headline", "results_table", "write_page"]

_SHOWN = 10


def results_table(outcome: Outcome) -> tuple[list[report.Column], list[list[str]]]:
    """Return columns and formatted rows: measure, difference to the baseline, significance, and the cost of the fit.

    Examples
    --------
    >>> from structsvm.studies.demo import results_table, run, spam_task
    >>> columns, rows = results_table(run(spam_task()))
    >>> [column.name for column in columns][:3], rows[-1][:3]
    (['System', 'MAP', 'difference'], ['SVM-map', '0.5361', '+0.1910'])
    """
    columns = [
        report.Column("System"),
        *(
            report.Column(name, numeric=True)
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
                report.p_value(test.p_value),
            ]
        if system.model is None:
            row += ["", "", "", ""]
        else:
            fit = system.model.fit_
            row += [f"{fit.C:g}", f"{fit.gap:.0e}", str(fit.n_passes), f"{fit.seconds:.2f}"]
        rows.append(row)
    return columns, rows


def headline(outcome: Outcome) -> str:
    """Return the result in words, with the models that are as good and the test queries seen in training.

    Examples
    --------
    >>> from structsvm.studies.demo import headline, run, spam_task
    >>> print(headline(run(spam_task())))
    SVM-map reaches a mean average precision of 0.5361 on 200 test queries: significantly better than
    Popularity alone with 0.3450 (two-tailed Wilcoxon test, p < 0.0001).
    """
    best, base = outcome.best, outcome.baseline
    test = compare(best.per_query, base.per_query)
    best_models = leaders({system.name: system.per_query for system in outcome.learned})
    if test.p_value >= 0.05:
        verdict = "no significant difference to"
    else:
        verdict = "significantly better than" if test.mean_difference > 0 else "significantly worse than"
    n = best.per_query.shape[0]
    text = (
        f"{report.listed(best_models.first)} {'reaches' if len(best_models.first) == 1 else 'equally reach'} a mean "
        f"average precision of {best.mean:.4f} on {n} test queries: "
        f"{verdict} {base.name} with {base.mean:.4f} (two-tailed Wilcoxon test, {report.p_said(test.p_value)})."
    )
    if best_models.level:
        means = {system.name: system.mean for system in outcome.learned}
        level = [f"{name} ({means[name]:.4f}, {report.p_said(p)})" for name, p in best_models.level.items()]
        text += f" No significant difference between {report.listed(best_models.first)} and {report.listed(level)}."
    if seen := outcome.task.n_seen:
        text += (
            f" {seen if seen < n else 'All'} of the {n} test queries are training queries: the figures tell how well "
            "the models fit them, not how well they rank new ones."
        )
    return text


def measure_headline(outcome: Outcome) -> str:
    """Return in words what it brings to train for average precision instead of ROC area.

    Examples
    --------
    >>> from structsvm.studies.demo import measure_headline, run, spam_task
    >>> print(measure_headline(run(spam_task())))
    Trained for average precision, the same model on the same data ranks better: SVM-map reaches a mean
    average precision of 0.5361, SVM-roc of 0.4616 (151 of 200 test queries better, 46 worse; two-tailed
    Wilcoxon test, p < 0.0001). By ROC area it is the other way round: 0.8474 against 0.8578. Each is
    the better one by the measure that it was trained for.
    """
    roc, svm = outcome.learned
    areas = [_roc_area(outcome, system).mean for system in (roc, svm)]
    test = compare(svm.per_query, roc.per_query)
    better = "better" if test.mean_difference > 0 else "worse"
    text = (
        f"Trained for average precision, the same model on the same data ranks {better}: {svm.name} reaches a mean "
        f"average precision of {svm.mean:.4f}, {roc.name} of {roc.mean:.4f} ({test.wins} of {svm.per_query.size} test "
        f"queries better, {test.losses} worse; two-tailed Wilcoxon test, {report.p_said(test.p_value)})."
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


def write_page(outcome: Outcome, path: Path, first: Outcome | None = None) -> None:
    """Write the report as one HTML file that loads nothing.

    Parameters
    ----------
    outcome : Outcome
    path : Path
    first : Outcome, optional
        Of :func:`structsvm.studies.demo.spam_task`; the page begins with it.

    Raises
    ------
    OSError
        If the file cannot be written; an earlier file is kept.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from structsvm.studies.demo import run, spam_task, write_page
    >>> path = pathlib.Path(tempfile.mkdtemp(), "page.html")
    >>> write_page(run(spam_task()), path)
    >>> "SVM-map" in path.read_text(encoding="utf-8")
    True
    """
    with replacing(Path(path)) as file:
        file.write(_page(outcome, first).encode())


def _page(outcome: Outcome, first: Outcome | None) -> str:
    columns, rows = results_table(outcome)
    best = [i for i, s in enumerate(outcome.systems) if s.model is not None and s.mean == outcome.best.mean]
    sections = [
        report.section(
            "Result" if first is None else outcome.task.title,
            *([] if first is None else [report.paragraph(headline(outcome))]),
            report.paragraph(outcome.task.description),
            report.table(
                columns, rows, caption=f"Test queries; differences and p against {outcome.baseline.name}",
                highlight=best,
            ),
            report.paragraph(
                "MAP: mean over the test queries of average precision. p: two-tailed Wilcoxon signed rank test over "
                "queries. C was chosen by cross-validation over training queries; gap, passes and seconds are those "
                "of the final fit, compilation included where it was the first.",
                small=True,
            ),
        ),
        report.section("What was learned", *_weights(outcome)),
        report.section("How sure is the optimum", *_convergence(outcome)),
        report.section("Query by query", *_differences(outcome)),
    ]  # fmt: skip
    if outcome.task.pictures is not None:
        sections.append(report.section("Rankings to look at", *_examples(outcome, outcome.task.pictures)))
    if first is None:
        return report.page(outcome.task.title, *sections, lead=headline(outcome))
    return report.page(first.task.title, *_measure_matters(first), *sections, lead=measure_headline(first))


def _measure_matters(outcome: Outcome) -> list[str]:
    """The case in which the measure that is trained for decides."""
    roc, svm = outcome.learned
    rows = []
    for system in outcome.systems:
        weights = ["", ""] if system.model is None else [f"{w:.3f}" for w in system.model.coef_]
        area = _roc_area(outcome, system).mean
        rows.append(
            [
                system.name,
                f"{system.mean:.4f}",
                f"{area:.4f}",
                f"{_spam_share(outcome, system):.0%}",
                *weights,
            ]
        )
    names = outcome.task.train.feature_names or ()
    columns = [
        report.Column("System"),
        *(report.Column(name, numeric=True) for name in ("MAP", "ROC area", "spam in top 5")),
        *(report.Column(f"weight of {name}", numeric=True) for name in names),
    ]
    difference = svm.per_query - roc.per_query
    test = compare(svm.per_query, roc.per_query)
    text = (
        f"{svm.name} against {roc.name}: {test.wins} queries better, {test.losses} worse, {test.ties} equal"
    )
    return [
        report.section(
            "The measure decides",
            report.paragraph(outcome.task.description),
            report.table(columns, rows, caption="Test queries", highlight=[outcome.systems.index(svm)]),
            report.paragraph(
                "MAP: mean over the test queries of average precision. ROC area: share of the pairs of a relevant and "
                "another document that are in the right order. Spam in top 5: share of spam among the first five "
                "documents. C was chosen by cross-validation over training queries, by MAP for both.",
                small=True,
            ),
        ),
        report.section(
            "The same queries, two rankings",
            *_first_documents(outcome),
            report.paragraph(
                f"Average precision of {svm.name} minus that of {roc.name}, one bar per test query. {text}."
            ),
            report.difference_chart(difference.tolist(), y="difference in AP", title=text),
        ),
    ]


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


def _first_documents(outcome: Outcome) -> list[str]:
    """The query in the middle of those that are sorted by the difference, and where the difference is against us."""
    roc, svm = outcome.learned
    test = outcome.task.test
    order = np.argsort(svm.per_query - roc.per_query, kind="stable")
    articles = []
    for text, q in (("middle of the gains", int(order[len(order) // 2])), ("largest loss", int(order[0]))):
        shelves = []
        for system in (roc, svm):
            items = []
            for row in _top(outcome, system, q, _SHOWN):
                hit = bool(test.y[row] >= outcome.task.relevance)
                kind = "relevant" if hit else "spam" if _is_spam(outcome, row) else "other"
                items.append((f"<small>{kind}</small>", hit))
            shelves.append(report.Shelf(system.name, f"AP {system.per_query[q]:.3f}", items))
        articles.append(report.rankings("", f"Query {test.query_ids[q]}: the {text} of {svm.name}", shelves))
    return [report.paragraph(f"The first {_SHOWN} documents, best first."), *articles]


def _weights(outcome: Outcome) -> list[str]:
    if outcome.task.shape is not None:
        images = [
            report.weight_image(
                system.model.coef_.reshape(outcome.task.shape),
                title=f"Weights of {system.name} for each pixel",
                caption=system.name,
            )
            for system in outcome.learned
        ]
        return [
            report.paragraph(
                "One weight per pixel. Minus (blue): a difference here lowers the score, so the pixel tells digits "
                "apart. Plus (orange): a difference here counts for the candidate, given all others. The distances "
                "give every pixel the same weight."
            ),
            report.side_by_side(*images),
        ]
    names = outcome.task.train.feature_names or [
        f"feature {j + 1}" for j in range(outcome.task.train.n_features)
    ]
    lists = []
    for system in outcome.learned:
        top = np.argsort(-np.abs(system.model.coef_), kind="stable")[:25]
        lists.append(
            report.bar_list(
                [names[j] for j in top], system.model.coef_[top].tolist(),
                caption=f"{system.name}: the {top.shape[0]} largest of {len(names)} weights",
            )
        )  # fmt: skip
    scaled = "" if outcome.task.scale == "none" else " Features are standardised, so weights can be compared."
    return [
        report.paragraph(f"A bar to the right raises the score, to the left lowers it.{scaled}"),
        report.side_by_side(*lists),
    ]


def _convergence(outcome: Outcome) -> list[str]:
    history = {
        system.name: [p for p in system.model.fit_.history if 0 < p.gap <= 1] for system in outcome.learned
    }
    passes = [report.Series(name, [p.n_passes for p in h], [p.gap for p in h]) for name, h in history.items()]
    seconds = [report.Series(name, [p.seconds for p in h], [p.gap for p in h]) for name, h in history.items()]
    tol = outcome.learned[0].model.tol
    return [
        report.paragraph(
            "Training stops with a proof: the objective is within the relative duality gap of its optimum. The dashed "
            f"line is the tolerance, {tol:g}."
        ),
        report.side_by_side(
            report.line_chart(passes, x="passes over the data", y="relative gap", log_y=True, mark=tol),
            report.line_chart(seconds, x="seconds", y="relative gap", log_y=True, mark=tol),
        ),
    ]


def _differences(outcome: Outcome) -> list[str]:
    charts = []
    for system in outcome.learned:
        difference = system.per_query - outcome.baseline.per_query
        test = compare(system.per_query, outcome.baseline.per_query)
        text = f"{system.name}: {test.wins} queries better, {test.losses} worse, {test.ties} equal"
        chart = report.difference_chart(difference.tolist(), y="difference in AP", title=text)
        charts.append(report.paragraph(text) + chart)
    return [
        report.paragraph(f"Average precision minus that of {outcome.baseline.name}, one bar per test query."),
        report.side_by_side(*charts),
    ]


def _examples(outcome: Outcome, pictures: Pictures) -> list[str]:
    """Show the queries with the largest gain, two in between, and the largest loss: not only favourable ones."""
    best, base, test = outcome.best, outcome.baseline, outcome.task.test
    order = np.argsort(best.per_query - base.per_query, kind="stable")[::-1]
    positions = {
        "largest gain": 0,
        "upper quarter": len(order) // 4,
        "middle": len(order) // 2,
        "largest loss": -1,
    }
    articles = []
    for place, k in positions.items():
        q = int(order[k])
        rows = slice(int(test.offsets[q]), int(test.offsets[q + 1]))
        shelves = []
        for system in (base, *outcome.learned):
            top = np.argsort(-system.scores[rows], kind="stable")[:_SHOWN]
            items = [
                (
                    report.picture(pictures.candidates[j], alt=f"digit {pictures.candidate_digits[j]}"),
                    bool(test.y[rows][j] >= outcome.task.relevance),
                )
                for j in top
            ]
            shelves.append(report.Shelf(system.name, f"AP {system.per_query[q]:.3f}", items))
        digit = int(pictures.query_digits[q])
        query = report.picture(pictures.queries[q], alt=f"query: digit {digit}")
        articles.append(report.rankings(query, f"A {digit}: the {place} of {best.name}", shelves))
    return [
        report.paragraph(
            f"The first {_SHOWN} answers of each system. A tick and a full frame: the same digit; a cross and a dashed "
            "frame: another one."
        ),
        *articles,
    ]
