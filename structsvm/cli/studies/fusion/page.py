"""The result of a learned fusion as a table, as records, and as a self-contained HTML page."""

from __future__ import annotations

from typing import Any

from structsvm.cli.studies.fusion.cross_validation import LEARNED, FusionResult
from structsvm.features.binning import StepFunction
from structsvm.metrics import Comparison, compare, holm
from structsvm.plots import figures, pages


def table(result: FusionResult) -> tuple[list[pages.Column], list[list[str]]]:
    """Return columns and formatted rows, best system first.

    They have the gain of the learned fusion over each system, with its p-value and Holm's correction.
    """
    names = (pages.measure_name(result.measure), "gain", "better/worse", "p", "Holm")
    columns = [pages.Column("system"), *(pages.Column(name, numeric=True) for name in names)]
    tests, rows = _tests(result), []
    for name in _ordered(result):
        row = [_kind(result, name), f"{result.values[name].mean():.4f}", "", "", "", ""]
        if name != LEARNED:
            test, adjusted = tests[name]
            row[2:] = [
                f"{test.mean_difference:+.4f}",
                f"{test.wins}/{test.losses}",
                pages.p_value(test.p_value),
                pages.p_value(adjusted),
            ]
        rows.append(row)
    return columns, rows


def as_record(result: FusionResult, *, per_query: bool = False) -> dict[str, Any]:
    """Return the same, unrounded, as plain objects."""
    tests, systems = _tests(result), list[dict[str, Any]]()
    for name in _ordered(result):
        entry: dict[str, Any] = {"name": name, "single_run": name in result.runs}
        entry["mean"] = float(result.values[name].mean())
        if name != LEARNED:
            entry |= _as_entry(*tests[name])
        systems.append(entry)
    fit = result.model.certificate
    names, held_out = result.on_training
    record: dict[str, Any] = {
        "measure": result.measure, "loss": result.model.loss, "relevance": result.model.relevance,
        "depth": result.model.depth, "n_topics": result.pool.n_topics, "n_documents": result.pool.n_rows,
        "runs": list(result.runs), "best_run": result.best_run, "systems": systems,
        "best_on_training": {
            "folds": list(names), "mean": float(held_out.mean()), **_as_entry(*tests[_RUN]),
        },
        "best_sum_on_training": {
            "folds": list(result.sum_sizes), "mean": float(result.best_sum.mean()), **_as_entry(*tests[_SUM]),
        },
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


_RUN, _SUM = 0, 1
"""What one could have chosen on the training topics: the best run, and the weighted sum of the best ones."""


def _tests(result: FusionResult) -> dict[str | int, tuple[Comparison, float]]:
    """Return the test of the learned fusion against each system and what one could have chosen in training, with its
    p-value by Holm for all of them."""
    learned = result.values[LEARNED]
    found: dict[str | int, Comparison] = {
        name: result.against(name) for name in result.values if name != LEARNED
    }
    found[_RUN], found[_SUM] = compare(learned, result.on_training[1]), compare(learned, result.best_sum)
    adjusted = holm([test.p_value for test in found.values()]).tolist()
    return {name: (test, p) for (name, test), p in zip(found.items(), adjusted, strict=True)}


def _as_entry(test: Comparison, adjusted: float) -> dict[str, Any]:
    return {
        "gain": test.mean_difference, "wins": test.wins, "losses": test.losses, "ties": test.ties,
        "p_value": test.p_value, "holm": adjusted,
    }  # fmt: skip


def headline(result: FusionResult) -> str:
    """Return the result in words."""
    tests, best = _tests(result), result.best_run
    equal = pages.listed(_equal(result, best, list(result.runs)))
    mean, measure = result.values[LEARNED].mean(), pages.measure_name(result.measure)
    text = (
        f"On {result.pool.n_topics} topics that the model had not seen, learned fusion has a {measure} "
        f"of {mean:.4f}: {_verdict(*tests[best])} the best of {len(result.runs)} single runs, {equal}, with "
        f"{result.values[best].mean():.4f} (two-tailed Wilcoxon test, Holm's correction, "
        f"{pages.p_said(tests[best][1])})."
    )
    names, held_out = result.on_training
    chosen = list(dict.fromkeys(names))
    by_fold = ", by fold" if len(chosen) > 1 else ""
    text += (
        f" Choosing the run that is best on the training topics ({pages.listed(chosen)}{by_fold}) would have given "
        f"{held_out.mean():.4f}, and learned fusion is {_verdict(*tests[_RUN])} that "
        f"({pages.p_said(tests[_RUN][1])})."
    )
    sizes = pages.listed(list(map(str, sorted(set(result.sum_sizes)))))
    by_fold = ", by fold" if len(set(result.sum_sizes)) > 1 else ""
    text += (
        f" The weighted sum of the runs that are best there ({sizes} of them{by_fold}) would have given "
        f"{result.best_sum.mean():.4f}: learned fusion is {_verdict(*tests[_SUM])} that "
        f"({pages.p_said(tests[_SUM][1])})."
    )
    others = [name for name in result.values if name != LEARNED and name not in result.runs]
    rival = max(others, key=lambda name: float(result.values[name].mean()))
    text += (
        f" Learned fusion is {_verdict(*tests[rival])} {pages.listed(_equal(result, rival, others))}, the best fusion "
        f"without learning, with {result.values[rival].mean():.4f} ({pages.p_said(tests[rival][1])})."
    )
    if result.whole_runs:
        text += f" Fusions rank {result.model.depth} documents per topic; single runs are measured with all of theirs."
    return text


def _equal(result: FusionResult, best: str, names: list[str]) -> list[str]:
    """Return ``best`` and the systems of the same mean, which a headline would otherwise omit."""
    mean = result.values[best].mean()
    return [
        best, *(n for n in names if n != best and abs(result.values[n].mean() - mean) <= 1e-12)
    ]  # fmt: skip


def page(result: FusionResult, title: str = "Learned fusion of runs") -> str:
    """Return the report: systems, measure against C, weights as step functions, precision and recall, differences."""
    columns, rows = table(result)
    best, fit, measure = result.best_run, result.model.certificate, pages.measure_name(result.measure)
    steps = sorted(result.model.step_functions(), key=lambda step: -_spread(step))
    ends = [0.0, *(float(end) for step in steps for end in (step.values.min(), step.values.max()))]
    y_range = min(ends), max(ends)
    return pages.render(
        "cli/studies/fusion/page.html", title=title, lead=headline(result), result=result, columns=columns, rows=rows,
        learned=_ordered(result).index(LEARNED), measure=measure, fit=fit, best=best,
        curve=figures.against_C({"": (result.Cs, result.curve.mean(axis=0), fit.C)}, measure=measure),
        worth=figures.Bars(
            [step.name for step in steps], [_spread(step) for step in steps],
            "From the least to the most that each run can add",
        ),
        steps=[figures.step_functions([step], y_range=y_range) for step in steps],
        gaps=[figures.gap({"": fit.history}, x=x) for x in ("passes", "seconds")],
        precision=figures.precision_recall(result.precision),
        differences=figures.differences(
            result.values[LEARNED] - result.values[best], measure=_value(result.measure), unit="topics"
        ),
    )  # fmt: skip


def _value(measure: str) -> str:
    """Format the measure of one topic."""
    return {"map": "average precision", "mrr": "reciprocal rank"}.get(measure, pages.measure_name(measure))


def _ordered(result: FusionResult) -> list[str]:
    return sorted(result.values, key=lambda name: -float(result.values[name].mean()))


def _kind(result: FusionResult, name: str) -> str:
    return f"{name} (run)" if name in result.runs else name


def _verdict(test: Comparison, adjusted: float) -> str:
    if adjusted >= 0.05:
        return "not significantly different from"
    return "significantly better than" if test.mean_difference > 0 else "significantly worse than"


def _spread(step: StepFunction) -> float:
    return float(step.values.max() - step.values.min())
