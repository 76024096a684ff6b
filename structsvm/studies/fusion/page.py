"""The result of a learned fusion as a table, as records, and as a self-contained HTML page."""

from __future__ import annotations

from typing import Any

import numpy as np

from structsvm import report
from structsvm.features.binning import StepFunction
from structsvm.metrics.recall_levels import RECALL_LEVELS
from structsvm.studies.fusion.cross_validation import LEARNED, FusionResult

__all__ = ["as_record", "headline", "page", "table"]

_SHOWN_STEPS, _FIRST_STEPS = 24, 6
_SHOWN_TOPICS = 500


def table(result: FusionResult) -> tuple[list[report.Column], list[list[str]]]:
    """Return columns and formatted rows, best system first.

    They have the gain of the learned fusion over each system, with its p-value.
    """
    names = (_label(result.measure), "gain", "better/worse", "p")
    columns = [report.Column("system"), *(report.Column(name, numeric=True) for name in names)]
    rows = []
    for name in _ordered(result):
        row = [_kind(result, name), f"{result.values[name].mean():.4f}", "", "", ""]
        if name != LEARNED:
            test = result.against(name)
            row[2:] = [
                f"{test.mean_difference:+.4f}",
                f"{test.wins}/{test.losses}",
                report.p_value(test.p_value),
            ]
        rows.append(row)
    return columns, rows


def as_record(result: FusionResult, *, per_query: bool = False) -> dict[str, Any]:
    """Return the same, unrounded, as plain objects."""
    systems: list[dict[str, Any]] = []
    for name in _ordered(result):
        entry: dict[str, Any] = {"name": name, "single_run": name in result.runs}
        entry["mean"] = float(result.values[name].mean())
        if name != LEARNED:
            test = result.against(name)
            entry |= {
                "gain": test.mean_difference, "wins": test.wins, "losses": test.losses, "ties": test.ties,
                "p_value": test.p_value,
            }  # fmt: skip
        systems.append(entry)
    fit = result.model.certificate
    record: dict[str, Any] = {
        "measure": result.measure, "loss": result.model.loss, "relevance": result.model.relevance,
        "depth": result.model.depth, "n_topics": result.pool.n_topics, "n_documents": result.pool.n_rows,
        "runs": list(result.runs), "best_run": result.best_run, "systems": systems,
        "C": {
            "grid": list(result.Cs), "held_out": result.curve.mean(axis=0).tolist(), "folds": list(result.chosen),
            "final": fit.C,
        },
        "gap": fit.gap,
    }  # fmt: skip
    if per_query:
        record["topics"] = result.pool.topics.tolist()
        record["per_query"] = {name: values.tolist() for name, values in result.values.items()}
    return record


def headline(result: FusionResult) -> str:
    """Return the result in two sentences."""
    best, test = result.best_run, result.against(result.best_run)
    equal = report.listed(_equal(result, best, list(result.runs)))
    mean = result.values[LEARNED].mean()
    text = (
        f"On {result.pool.n_topics} topics that the model had not seen, learned fusion has a {_label(result.measure)} "
        f"of {mean:.4f}: {_verdict(test)} the best of {len(result.runs)} single runs, {equal}, with "
        f"{result.values[best].mean():.4f} (two-tailed Wilcoxon test, {report.p_said(test.p_value)})."
    )
    others = [name for name in result.values if name != LEARNED and name not in result.runs]
    rival = max(others, key=lambda name: float(result.values[name].mean()))
    test = result.against(rival)
    return (
        f"{text} It is {_verdict(test)} {report.listed(_equal(result, rival, others))}, the best fusion without "
        "learning, with "
        f"{result.values[rival].mean():.4f} ({report.p_said(test.p_value)})."
    )


def _equal(result: FusionResult, best: str, names: list[str]) -> list[str]:
    """Return ``best`` and the systems of the same mean, which a headline would otherwise omit."""
    mean = result.values[best].mean()
    return [
        best, *(n for n in names if n != best and abs(result.values[n].mean() - mean) <= 1e-12)
    ]  # fmt: skip


def page(result: FusionResult, title: str = "Learned fusion of runs") -> str:
    """Return the report: systems, measure against C, weights as step functions, precision and recall, and topics."""
    columns, rows = table(result)
    best = result.best_run
    curve = result.curve.mean(axis=0)
    sections = [
        report.section(
            "Result",
            report.table(
                columns, rows, caption=f"{_label(result.measure)} over {result.pool.n_topics} topics",
                highlight=_ordered(result).index(LEARNED),
            ),
            report.paragraph(
                "gain: learned fusion minus the system. better/worse: topics. p: two-tailed Wilcoxon signed rank test "
                "over topics, not corrected for the number of systems. The best single run is known only afterwards, "
                "and on these very topics: the comparison with it favours it. Relevant documents that no run found "
                "count as missed by all.",
                small=True,
            ),
        ),
        report.section(
            f"{_label(result.measure)} against C",
            report.paragraph(
                f"Held-out topics. The model kept, for topics to come, has C = {result.model.certificate.C:.3g}. Each "
                "topic was ranked with a C chosen on other topics: "
                + ", ".join(f"{C:.3g} in fold {k + 1}" for k, C in enumerate(result.chosen))
                + "."
            ),
            report.line_chart(
                [report.Series("held-out topics, the C kept ringed", result.Cs, curve.tolist())],
                x="C", y=_label(result.measure), log_x=True, rings=[result.model.certificate.C],
            ),
        ),
        report.section("What was learned", *_weights(result)),
        report.section("How sure is the optimum", *_gap(result)),
        report.section(
            "Precision and recall",
            report.paragraph("Mean over the topics that have a relevant document."),
            report.line_chart(
                [
                    report.Series(name, RECALL_LEVELS.tolist(), precision.tolist())
                    for name, precision in result.precision.items()
                ],
                x="recall", y="interpolated precision",
            ),
        ),
        report.section("Topic by topic", *_differences(result, best)),
    ]  # fmt: skip
    return report.page(title, *sections, lead=headline(result))


def _label(measure: str) -> str:
    """Return the name of a measure as papers write it."""
    return measure.replace("map", "MAP").replace("mrr", "MRR").replace("ndcg", "NDCG")


def _value(measure: str) -> str:
    """Format the measure of one topic."""
    return {"map": "average precision", "mrr": "reciprocal rank"}.get(measure, _label(measure))


def _ordered(result: FusionResult) -> list[str]:
    return sorted(result.values, key=lambda name: -float(result.values[name].mean()))


def _kind(result: FusionResult, name: str) -> str:
    return f"{name} (run)" if name in result.runs else name


def _verdict(test: Any) -> str:
    if test.p_value >= 0.05:
        return "not significantly different from"
    return "significantly better than" if test.mean_difference > 0 else "significantly worse than"


def _weights(result: FusionResult) -> list[str]:
    steps = sorted(result.model.step_functions(), key=lambda step: -_spread(step))
    within = result.model.binning.within == "query"
    low = min(float(step.values.min()) for step in steps)
    high = max(float(step.values.max()) for step in steps)
    charts = [
        report.step_chart(step.name, step.outline(), y_range=(min(0.0, low), max(0.0, high)))
        for step in steps[:_SHOWN_STEPS]
    ]  # fmt: skip
    left_out = len(steps) - len(charts)
    return [
        report.paragraph(
            "What a run's score adds to the score of a document; nothing where the run does not have it. "
            + ("Scores are brought to [0, 1] within each topic. " if within else "")
            + "The model of all judged topics; the runs that can move a document most come first, all on one scale."
        ),
        report.bar_list(
            [step.name for step in steps], [_spread(step) for step in steps],
            caption="From the least to the most that each run can add",
        ),
        report.side_by_side(*charts[:_FIRST_STEPS]),
        *([report.details("The other runs", report.side_by_side(*rest))] if (rest := charts[_FIRST_STEPS:]) else []),
        *([report.paragraph(f"{left_out} runs that add less are not drawn.", small=True)] if left_out else []),
    ]  # fmt: skip


def _gap(result: FusionResult) -> list[str]:
    fit = result.model.certificate
    history = [p for p in fit.history if 0 < p.gap <= 1]
    name = f"C = {fit.C:.3g}"
    charts = [
        report.line_chart(
            [report.Series(name, at, [p.gap for p in history])], x=x, y="relative gap", log_y=True
        )
        for x, at in (
            ("passes over the data", [p.n_passes for p in history]),
            ("seconds", [p.seconds for p in history]),
        )
    ]
    return [
        report.paragraph(
            "How far at most the objective of the model kept was from its optimum, as training went on; it starts "
            f"from what smaller values of C left behind, and ends at {fit.gap:.1e}."
        ),
        *([report.side_by_side(*charts)] if history else []),
    ]


def _spread(step: StepFunction) -> float:
    return float(step.values.max() - step.values.min())


def _differences(result: FusionResult, best: str) -> list[str]:
    difference = result.values[LEARNED] - result.values[best]
    test = result.against(best)
    text = f"Against {best}: {test.wins} topics better, {test.losses} worse, {test.ties} equal"
    order = np.argsort(-difference, kind="stable")
    shown = order if order.shape[0] <= _SHOWN_TOPICS else np.r_[order[:250], order[-250:]]
    rows = [
        [
            str(result.pool.topics[t]), f"{result.values[LEARNED][t]:.4f}", f"{result.values[best][t]:.4f}",
            f"{difference[t]:+.4f}",
        ]
        for t in shown
    ]  # fmt: skip
    columns = [
        report.Column("topic"),
        *(report.Column(name, numeric=True) for name in (LEARNED, best, "difference")),
    ]
    return [
        report.paragraph(text),
        report.difference_chart(
            difference.tolist(), y=f"difference in {_value(result.measure)}", title=text, unit="topics"
        ),
        report.details(
            "The numbers",
            report.table(columns, rows, caption=f"{_value(result.measure)} of each topic, best gain first"),
        ),
    ]
