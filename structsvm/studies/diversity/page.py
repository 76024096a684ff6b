"""A comparison as a table, as records, and as an HTML page: which subtopics each method covers, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from structsvm import report
from structsvm.candidates import CandidateSet
from structsvm.common.escaping import escape
from structsvm.metrics.leaders import Leaders, leaders
from structsvm.protocols import Float, Int
from structsvm.studies.diversity.comparison import WITH_LABELS, DiversityResult

if TYPE_CHECKING:
    from structsvm.estimators.diversity import SVMDiv

__all__ = ["as_records", "coverage_matrix", "headline", "page", "seen_in_training", "table"]

# cells show ranks or a dash, so that nothing is shown by colour alone
_COVERED = (
    "text-align:center;padding:.2rem .3rem;background:var(--hit);color:var(--back);font-weight:700;"
    "border:2px solid var(--card)"
)
_MISSED = "text-align:center;padding:.2rem .3rem;color:var(--soft);border:2px solid var(--card)"
# long names are cut or broken, with the whole name as title, so that nine methods fit on a page
_NAME = "white-space:normal;min-width:9em;max-width:15em"
_NAME_LENGTH = 45


def table(result: DiversityResult) -> tuple[list[report.Column], list[list[str]]]:
    """Return columns and formatted rows, one per method: means over the sets, and how the first method compares."""
    names = ("loss", "subtopic recall", "alpha-NDCG", "wins : losses", "p")
    columns = [report.Column("method"), *(report.Column(name, numeric=True) for name in names)]
    rows = []
    for entry in as_records(result):
        row = [
            entry["method"],
            *(f"{entry[m]:.3f}" for m in ("weighted_loss", "subtopic_recall", "alpha_ndcg")),
        ]
        tested = "p" in entry
        row.append(f"{entry['wins']} : {entry['losses']}" if tested else "")
        row.append(report.p_value(entry["p"]) if tested else "")
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
    """Return an HTML document: the table, then the ``n_sets`` sets on which the methods differ most.

    Parameters
    ----------
    result : DiversityResult
    name : str
        Name of the data.
    n_sets : int, default=12
    """
    columns, rows = table(result)
    measures = report.table(
        columns,
        rows,
        caption=f"Means over the queries; wins, losses and p (Wilcoxon) of {result.first} against the others",
        highlight=[list(result.chosen).index(name) for name in _leaders(result).first],
    )
    notes = report.paragraph(
        "The loss is the share of subtopics that the documents do not cover, each weighing as many candidates as "
        "cover it. Subtopic recall is the share that they cover, all weighing the same; alpha-NDCG also discounts "
        "lower ranks and subtopics seen before. Clairvoyant and xquad look at the subtopics. p is two-tailed and not "
        "corrected for the number of methods.",
        small=True,
    )
    pieces = [_one_set(result, i) for i in _most_telling(result, n_sets)]
    lead = report.section("All queries", measures, notes)
    return report.page(f"Diverse results: {name}", lead, *pieces, lead=headline(result))


def headline(result: DiversityResult) -> str:
    """Return the result in words: the best method, those as good, and the sets seen in training."""
    best = _leaders(result)
    n = len(result.found.sets)

    def mean(name: str) -> str:
        return f"{result.losses[name].mean():.1%}"

    text = (
        f"Of {len(result.chosen)} methods that choose {result.k} documents for each of {n} queries, "
        f"{report.listed(best.first)} {'misses' if len(best.first) == 1 else 'equally miss'} least: "
        f"{mean(best.first[0])} of the subtopics, by weight"
    )
    if best.level:
        level = [f"{name} ({mean(name)}, {report.p_said(p)})" for name, p in best.level.items()]
        text += f"; no significant difference to {report.listed(level)}"
    elif best.n_tested:
        text += ", significantly less than each of the others"
    if best.n_tested:
        several = f", not corrected for {best.n_tested} comparisons" if best.n_tested > 1 else ""
        text += f" (two-tailed Wilcoxon test over the queries{several})"
    return " ".join([f"{text}.", *seen_in_training(result)])


def seen_in_training(result: DiversityResult) -> list[str]:
    """Return a sentence for each model that was, or may have been, trained on sets that it is measured on."""
    n = len(result.found.sets)
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


def coverage_matrix(
    title: str, candidates: CandidateSet, labels: Float, subtopics: Sequence[str], chosen: Mapping[str, Int]
) -> str:
    """Return a table of subtopics by methods: a cell has the ranks of the documents that cover the subtopic.

    Parameters
    ----------
    title : str
        Title of the query; escaped here, as all texts are.
    candidates : CandidateSet
    labels : array-like, shape (n_documents, n_subtopics)
    subtopics : sequence of str
    chosen : mapping of method to the rows chosen, in order
    """
    covers = np.asarray(labels) > 0
    weight = covers.sum(axis=0)
    order = [j for j in np.argsort(-weight, kind="stable").tolist() if weight[j] > 0]
    head = "".join(
        f'<th scope="col" style="text-align:center;padding:.35rem .2rem">{escape(m)}</th>' for m in chosen
    )
    body = []
    for j in order:
        cells = []
        for method, rows in chosen.items():
            ranks = [str(r + 1) for r in np.flatnonzero(covers[rows, j]).tolist()]
            if ranks:
                ids = ", ".join(candidates.ids[rows[int(r) - 1]] for r in ranks)
                label = f"{method}: covered by rank {', '.join(ranks)} ({ids})"
                text = escape(label)
                cells.append(
                    f'<td style="{_COVERED}" title="{text}" aria-label="{text}">{" ".join(ranks)}</td>'
                )
            else:
                label = escape(f"{method}: not covered")
                cells.append(f'<td style="{_MISSED}" title="{label}" aria-label="{label}">–</td>')
        text = subtopics[j]
        if len(text) > _NAME_LENGTH:
            text = text[: _NAME_LENGTH - 1] + "…"
        body.append(
            f'<tr><th scope="row"><div style="{_NAME}" title="{escape(subtopics[j])}">{escape(text)}</div></th>'
            f'<td class="n">{weight[j]}</td>{"".join(cells)}</tr>'
        )
    total = max(1, int(weight.sum()))
    shares = "".join(
        f'<td style="text-align:center">{weight[covers[rows].any(axis=0)].sum() / total:.0%}</td>'
        for rows in chosen.values()
    )
    body.append(f'<tr class="best"><th scope="row">covered, by weight</th><td></td>{shares}</tr>')
    caption = escape(
        f"{len(order)} subtopics of {len(candidates)} candidates; cells have the ranks of the documents "
        "that cover the subtopic"
    )
    return (
        # outside of the scrolling box, as in report.table
        f"<figure><figcaption>{caption}</figcaption>"
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(title)}: {caption}"><table>'
        f'<thead><tr><th scope="col">subtopic</th><th scope="col" class="n">candidates</th>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div></figure>"
    )


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


def _one_set(result: DiversityResult, i: int) -> str:
    """Show who covers what in set ``i``, and the words behind the models' choices."""
    candidates = result.found.sets[i]
    title = candidates.query or f"set {i + 1}"
    chosen = {method: rows[i] for method, rows in result.chosen.items()}
    matrix = coverage_matrix(title, candidates, result.found.labels[i], result.found.subtopics[i], chosen)
    reasons = (_reasons(name, model, candidates, result.k) for name, model in result.models.items())
    return report.section(title, matrix, *reasons)


def _reasons(name: str, model: SVMDiv, candidates: CandidateSet, k: int) -> str:
    """Show the words behind a model's choice."""
    rows = []
    for rank, reason in enumerate(model.explain(candidates, k, n_words=8), start=1):
        words = ", ".join(f"{word} ({_signed(benefit)})" for word, _, benefit in reason.words)
        rows.append([f"{rank}. {reason.id}", f"{reason.gain:.2f}", words])
    columns = [
        report.Column("document"),
        report.Column("gain", numeric=True),
        report.Column("words it is the first to cover, and their worth"),
    ]
    inner = report.table(columns, rows, caption=f"Why {name} chose these documents")
    return f"<details><summary>The words behind {escape(name)}</summary>{inner}</details>"


def _signed(value: float) -> str:
    return f"{value:+.2g}".replace("-", "−")
