"""The result of a learned fusion as a table, in words, and as a record."""

from collections.abc import Sequence
from typing import Any

from structsvm.cli.studies.fusion.cross_validation import LEARNED, FusionResult
from structsvm.metrics import Comparison, compare, holm
from structsvm.plots import pages
from structsvm.protocols import Float


def table(result: FusionResult) -> tuple[list[pages.Column], list[list[str]]]:
    """Return columns and formatted rows, best system first.

    The columns include the gain of the learned fusion over each system, with its p-value and Holm's correction.
    """
    names = (pages.measure_name(result.measure), "gain", "better/worse", "p", "Holm")
    columns = pages.columns("system", numbers=names)
    tests, rows = _tests(result), []
    for name in _ordered(result):
        row = [_kind(result, name), f"{result.values[name].mean():.4f}", "", "", "", ""]
        if name != LEARNED:
            test, adjusted = tests[name]
            p_values = map(pages.p_value, (test.p_value, adjusted))
            row[2:] = [f"{test.mean_difference:+.4f}", f"{test.wins}/{test.losses}", *p_values]
        rows.append(row)
    return columns, rows


def as_record(result: FusionResult, *, per_query: bool = False) -> dict[str, Any]:
    """Return the result, unrounded, as plain objects."""
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
        "measure": result.measure,
        "loss": result.model.loss,
        "relevance": result.model.relevance,
        "depth": result.model.depth,
        "n_topics": result.pool.n_topics,
        "n_documents": result.pool.n_rows,
        "runs": list(result.runs),
        "best_run": result.best_run,
        "systems": systems,
        "best_on_training": {
            "folds": list(names),
            "mean": float(held_out.mean()),
            **_as_entry(*tests[_RUN]),
        },
        "best_sum_on_training": {
            "folds": list(result.sum_sizes),
            "mean": float(result.best_sum.mean()),
            **_as_entry(*tests[_SUM]),
        },
        "C": {
            "grid": list(result.Cs),
            "held_out": result.curve.mean(axis=0).tolist(),
            "folds": list(result.chosen),
            "final": fit.C,
        },
        "gap": fit.gap,
    }
    if per_query:
        record["topics"] = result.pool.topics.tolist()
        record["per_query"] = {name: values.tolist() for name, values in result.values.items()}
    return record


_RUN, _SUM = 0, 1
"""Alternatives chosen on the training topics: the best run, and the weighted sum of the best runs."""


def _tests(result: FusionResult) -> dict[str | int, tuple[Comparison, float]]:
    """Return the test of the learned fusion against each system and each choice on the training topics, with the
    p-value corrected for all of them by Holm's method."""
    learned = result.values[LEARNED]
    found: dict[str | int, Comparison] = {
        name: result.against(name) for name in result.values if name != LEARNED
    }
    found[_RUN], found[_SUM] = compare(learned, result.on_training[1]), compare(learned, result.best_sum)
    adjusted = holm([test.p_value for test in found.values()]).tolist()
    return {name: (test, p) for (name, test), p in zip(found.items(), adjusted, strict=True)}


def _as_entry(test: Comparison, adjusted: float) -> dict[str, Any]:
    return {
        "gain": test.mean_difference,
        "wins": test.wins,
        "losses": test.losses,
        "ties": test.ties,
        "p_value": test.p_value,
        "holm": adjusted,
    }


def headline(result: FusionResult) -> str:
    """Return the result in words: the learned fusion compared with the alternatives that could be chosen in advance."""
    tests, best, runs = _tests(result), result.best_run, list(result.runs)
    others = [name for name in result.values if name != LEARNED and name not in result.runs]
    rival = max(others, key=lambda name: float(result.values[name].mean()))
    names, held_out = result.on_training
    chosen, sizes = list(dict.fromkeys(names)), sorted(set(result.sum_sizes))
    beside: tuple[tuple[str, Float, str | int], ...] = (
        (f"the best of {len(runs)} single runs, {_equal(result, best, runs)}", result.values[best], best),
        (f"the run that is best on the training topics ({_by_fold(chosen)})", held_out, _RUN),
        (
            f"the weighted sum of the best runs on the training topics ({_by_fold(sizes)} of them)",
            result.best_sum,
            _SUM,
        ),
        (f"the best fusion without learning, {_equal(result, rival, others)}", result.values[rival], rival),
    )
    mean, measure = result.values[LEARNED].mean(), pages.measure_name(result.measure)
    findings = [
        f"{_verdict(*tests[key])} {what}, with {values.mean():.4f} ({pages.p_said(tests[key][1])})"
        for what, values, key in beside
    ]
    text = (
        f"On {result.pool.n_topics} topics that the model had not seen, learned fusion has a {measure} of {mean:.4f}: "
        f"{'; '.join(findings)}; two-tailed Wilcoxon tests, Holm's correction."
    )
    if result.whole_runs:
        text += f" Fusions rank {result.model.depth} documents per topic; single runs are measured with all of theirs."
    return text


def _by_fold(values: Sequence[object]) -> str:
    return pages.listed([str(value) for value in values]) + (", by fold" if len(values) > 1 else "")


def _equal(result: FusionResult, best: str, names: list[str]) -> str:
    """Return ``best`` and the systems with the same mean, which a headline would otherwise omit."""
    mean = result.values[best].mean()
    return pages.listed(
        [best, *(n for n in names if n != best and abs(result.values[n].mean() - mean) <= 1e-12)]
    )


def _ordered(result: FusionResult) -> list[str]:
    return sorted(result.values, key=lambda name: -float(result.values[name].mean()))


def _kind(result: FusionResult, name: str) -> str:
    return f"{name} (run)" if name in result.runs else name


def _verdict(test: Comparison, adjusted: float) -> str:
    if adjusted >= 0.05:
        return "not significantly different from"
    return "significantly better than" if test.mean_difference > 0 else "significantly worse than"
