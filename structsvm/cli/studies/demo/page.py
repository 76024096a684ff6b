"""The result of a demonstration as a table, as a sentence, and as a self-contained HTML page."""

from structsvm.cli.studies.best import best_said
from structsvm.cli.studies.demo.task import Outcome
from structsvm.metrics import compare
from structsvm.metrics.significance import leaders
from structsvm.plots import figures, pages


def results_table(outcome: Outcome) -> tuple[list[pages.Column], list[list[str]]]:
    """Return columns and formatted rows: measure, difference from the baseline, significance, cost of the fit."""
    names = ("MAP", "difference", "better/worse", "p", "C", "gap", "passes", "seconds")
    rows = []
    for system in outcome.systems:
        compared, trained = [""] * 3, [""] * 4
        if system is not outcome.baseline:
            test = compare(system.per_query, outcome.baseline.per_query)
            p = pages.p_value(test.p_value)
            compared = [f"{test.mean_difference:+.4f}", f"{test.wins}/{test.losses}", p]
        if system.model is not None:
            fit = system.model.fit_
            trained = [f"{fit.C:g}", f"{fit.gap:.0e}", str(fit.n_passes), f"{fit.seconds:.2f}"]
        rows.append([system.name, f"{system.mean:.4f}", *compared, *trained])
    return pages.columns("System", numbers=names), rows


def headline(outcome: Outcome) -> str:
    """Return the result in words, with the models that perform equally well."""
    shown = [outcome.baseline, *outcome.learned]
    best = leaders({system.name: system.per_query for system in shown})
    means = {system.name: f"{system.mean:.4f}" for system in shown}
    measure = f"average precision on {shown[0].per_query.shape[0]} test queries"
    return best_said(best, means, measure, baseline=outcome.baseline.name)


def page(outcome: Outcome) -> str:
    """Return the report, a self-contained HTML document."""
    columns, rows = results_table(outcome)
    learned, task = outcome.learned, outcome.task
    tol, histories = learned[0].model.tol, {s.name: s.model.fit_.history for s in learned}
    return pages.render(
        "cli/studies/demo/page.html",
        title=task.title,
        lead=headline(outcome),
        task=task,
        columns=columns,
        rows=rows,
        baseline=outcome.baseline.name,
        best=[
            i for i, s in enumerate(outcome.systems) if s.model is not None and s.mean == outcome.best.mean
        ],
        weights=[figures.Matrix(s.model.coef_.reshape(8, 8), f"Weights of {s.name}") for s in learned],
        tol=tol,
        gaps=[figures.gap(histories, x=x, tol=tol) for x in ("passes", "seconds")],
        differences=[
            figures.differences(s.per_query - outcome.baseline.per_query, measure=f"AP, {s.name}")
            for s in learned
        ],
    )
