"""A comparison as a table, as records, and as an HTML page: which subtopics each method covers, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from structsvm.cli.studies.diversity.comparison import WITH_LABELS, DiversityResult
from structsvm.common.candidates import CandidateSet
from structsvm.metrics.significance import Leaders, leaders
from structsvm.plots import pages
from structsvm.protocols import Float, Int

if TYPE_CHECKING:
    from structsvm.estimators.diverse_ranker import DiverseRanker
    from structsvm.estimators.diversity import SVMDiv


def table(result: DiversityResult) -> tuple[list[pages.Column], list[list[str]]]:
    """Return columns and formatted rows, one per method: means over the sets, and how the first method compares."""
    names = ("loss", "subtopic recall", "alpha-NDCG", "wins : losses", "p")
    columns = [pages.Column("method"), *(pages.Column(name, numeric=True) for name in names)]
    rows = []
    for entry in as_records(result):
        row = [
            entry["method"],
            *(f"{entry[m]:.3f}" for m in ("weighted_loss", "subtopic_recall", "alpha_ndcg")),
        ]
        tested = "p" in entry
        row.append(f"{entry['wins']} : {entry['losses']}" if tested else "")
        row.append(pages.p_value(entry["p"]) if tested else "")
        rows.append(row)
    return columns, rows


def as_records(result: DiversityResult) -> list[dict[str, Any]]:
    """Return the same, unrounded, as plain objects."""
    records = []
    for name in result.chosen:
        entry: dict[str, Any] = {
            "method": name,
            "weighted_loss": float(result.losses[name].mean()),
            "subtopic_recall": float(result.recalls[name].mean()),
            "alpha_ndcg": float(result.alpha_ndcgs[name].mean()),
        }
        if name in result.models:
            entry["trained_on"] = result.seen[name]
        if name != result.first:
            test = result.against(name)
            entry |= {"wins": test.wins, "losses": test.losses, "p": test.p_value}
        records.append(entry)
    return records


def page(result: DiversityResult, name: str, n_sets: int = 12) -> str:
    """Return an HTML document: the table, then the ``n_sets`` sets on which the methods differ most."""
    columns, rows = table(result)
    sets = []
    for i in _most_telling(result, n_sets):
        candidates = result.labelled.sets[i]
        chosen = {method: rows[i] for method, rows in result.chosen.items()}
        reasons = {name: _reasons(model, candidates, result.k) for name, model in result.models.items()}
        covered = coverage_table(result.labelled.labels[i], result.labelled.subtopics[i], chosen)
        sets.append((candidates.query or f"set {i + 1}", len(candidates), covered, reasons))
    return pages.render(
        "cli/studies/diversity/page.html", title=f"Diverse results: {name}", lead=headline(result), columns=columns,
        rows=rows, result=result, best=[list(result.chosen).index(name) for name in _leaders(result).first],
        sets=sets, Column=pages.Column, marks=result.degrees is not None,
        of_sets=[pages.Column("subtopic"), *(pages.Column(name, True) for name in ("candidates", *result.chosen))],
    )  # fmt: skip


def headline(result: DiversityResult) -> str:
    """Return the result in words: the best method, those as good, and the sets seen in training."""
    best = _leaders(result)
    n = len(result.labelled.sets)

    def mean(name: str) -> str:
        return f"{result.losses[name].mean():.1%}"

    text = (
        f"Of {len(result.chosen)} methods that choose {result.k} documents for each of {n} queries, "
        f"{pages.listed(best.first)} {'misses' if len(best.first) == 1 else 'equally miss'} least: "
        f"{mean(best.first[0])} of {'the marked' if result.degrees else 'the subtopics, by weight'}"
    )
    if best.level:
        level = [f"{name} ({mean(name)}, {pages.p_said(p)})" for name, p in best.level.items()]
        text += f"; no significant difference to {pages.listed(level)}"
    elif best.p_values:
        text += ", significantly less than each of the others"
    if best.p_values:
        text += f" ({pages.tests_said(len(best.p_values))})"
    return " ".join([f"{text}.", *seen_in_training(result)])


def seen_in_training(result: DiversityResult) -> list[str]:
    """Return a sentence for each model that was, or may have been, trained on sets that it is measured on."""
    n = len(result.labelled.sets)
    sentences = []
    for name, seen in result.seen.items():
        if seen is None:
            sentences.append(
                f"The file of {name} does not say what it was trained on: on its training queries a model does better "
                "than on new ones."
            )
        elif seen:
            sentences.append(
                f"{name} was trained on {seen if seen < n else 'all'} of these {n} queries: its figures tell how well "
                "it fits them, not how well it does on new ones."
            )
    return sentences


def coverage_table(labels: Float, subtopics: Sequence[str], chosen: Mapping[str, Int]) -> list[list[str]]:
    """Return a row per subtopic, the one that most candidates cover first, and the shares covered by weight.

    Labels have shape (n_documents, n_subtopics); cells have the ranks of the rows that each method chose.
    """
    covers = np.asarray(labels) > 0
    weight = covers.sum(axis=0)
    rows = []
    for j in np.argsort(-weight, kind="stable").tolist():
        if weight[j]:
            ranks = [" ".join(map(str, np.flatnonzero(covers[picks, j]) + 1)) for picks in chosen.values()]
            rows.append([subtopics[j], str(weight[j]), *(text or "–" for text in ranks)])
    total = max(1, int(weight.sum()))
    shares = [weight[covers[picks].any(axis=0)].sum() / total for picks in chosen.values()]
    return [*rows, ["covered, by weight", "", *(f"{share:.0%}" for share in shares)]]


def _rivals(result: DiversityResult) -> list[str]:
    """Return all methods but those that use the subtopics as input, unless there are no others."""
    return [name for name in result.chosen if name not in WITH_LABELS] or list(result.chosen)


def _leaders(result: DiversityResult) -> Leaders:
    """Return the rivals of least loss."""
    return leaders({name: -result.losses[name] for name in _rivals(result)})


def _most_telling(result: DiversityResult, n_sets: int) -> list[int]:
    """Return the sets on which the losses of the rivals differ most."""
    losses = np.array([result.losses[name] for name in _rivals(result)])
    order: list[int] = np.argsort(-np.ptp(losses, axis=0), kind="stable").tolist()
    return order[:n_sets]


def _reasons(model: DiverseRanker | SVMDiv, candidates: CandidateSet, k: int) -> list[list[str]]:
    """Return rows with the reasons for a model's choice."""
    reasons: Any = model.explain(candidates, k)
    return [
        [
            f"{rank}. {reason.id}",
            f"{reason.gain:.2f}",
            ", ".join(f"{part} ({_signed(amount)})" for part, amount in reason.parts[:8]),
        ]
        for rank, reason in enumerate(reasons, start=1)
    ]


def _signed(value: float) -> str:
    return f"{value:+.2g}".replace("-", "−")
