"""The page of ``structsvm diversify compare``: which subtopics each method's documents cover, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from structsvm.report import Column, page, paragraph, section, table

if TYPE_CHECKING:
    from structsvm.candidates import CandidateSet
    from structsvm.estimators.diversity import SVMDiv
    from structsvm.protocols import Float, Int
    from structsvm.readers.candidate_sets import LabelledSets

__all__ = ["comparison_page", "coverage_matrix"]

# a full block with the ranks in it, or a dash: nothing is said by colour alone
_COVERED = (
    "text-align:center;padding:.2rem .3rem;background:var(--hit);color:var(--back);font-weight:700;"
    "border:2px solid var(--card)"
)
_MISSED = "text-align:center;padding:.2rem .3rem;color:var(--soft);border:2px solid var(--card)"
# long names are cut and break, the whole one is in the title: nine methods beside them then fit on a page
_NAME = "white-space:normal;min-width:9em;max-width:15em"
_NAME_LENGTH = 45


def comparison_page(
    name: str,
    k: int,
    found: LabelledSets,
    chosen: Mapping[str, Sequence[Int]],
    losses: Mapping[str, Float],
    rows: Sequence[Mapping[str, Any]],
    models: Mapping[str, SVMDiv],
    n_queries: int,
) -> str:
    """The complete HTML page; queries on which the methods differ most come first."""
    import numpy as np

    first = next(iter(chosen))
    best = min((row for row in rows if row["method"] != "clairvoyant"), key=lambda row: row["weighted_loss"])
    lead = (
        f"Of {len(chosen)} methods that choose {k} documents for each of {len(found.sets)} queries, "
        f"{best['method']} misses least: {best['weighted_loss']:.1%} of the subtopics, by weight."
    )
    measures = table(
        [
            Column("method"),
            *(
                Column(c, numeric=True)
                for c in ("loss", "subtopic recall", "alpha-NDCG", "wins : losses", "p")
            ),
        ],
        [
            [
                str(row["method"]),
                f"{row['weighted_loss']:.3f}",
                f"{row['subtopic_recall']:.3f}",
                f"{row['alpha_ndcg']:.3f}",
                f"{row['wins']} : {row['losses']}" if "wins" in row else "",
                f"{row['p']:.2g}" if "p" in row else "",
            ]
            for row in rows
        ],
        caption=f"Means over the queries; wins, losses and p (Wilcoxon) of {first} against the others",
        highlight=next(i for i, row in enumerate(rows) if row is best),
    )
    notes = paragraph(
        "The loss is the share of subtopics that the documents do not cover, each weighing as many candidates as "
        "cover it. Clairvoyant and xquad look at the subtopics.",
        small=True,
    )
    spread = np.ptp(np.array([losses[m] for m in chosen if m != "clairvoyant"]), axis=0)
    shown = np.argsort(-spread, kind="stable")[:n_queries].tolist()
    pieces = []
    for i in shown:
        one = found.sets[i]
        title = one.query or f"set {i + 1}"
        own = {m: rows_of[i] for m, rows_of in chosen.items()}
        parts = [coverage_matrix(title, one, found.labels[i], found.subtopics[i], own)]
        parts += [_reasons(m, model, one, k) for m, model in models.items()]
        pieces.append(section(title, *parts))
    return page(f"Diverse results: {name}", section("All queries", measures, notes), *pieces, lead=lead)


def coverage_matrix(
    title: str, candidates: CandidateSet, labels: Float, subtopics: Sequence[str], chosen: Mapping[str, Int]
) -> str:
    """Subtopics by methods: a full cell has the ranks of the documents that cover the subtopic, an empty one a dash.

    Parameters
    ----------
    title : str
        Of the query; escaped here, as all texts are.
    candidates : CandidateSet
    labels : array-like, shape (n_documents, n_subtopics)
    subtopics : sequence of str
    chosen : mapping of method to the rows chosen, in order
    """
    import numpy as np

    covers = np.asarray(labels) > 0
    weight = covers.sum(axis=0)
    order = [j for j in np.argsort(-weight, kind="stable").tolist() if weight[j] > 0]
    head = "".join(
        f'<th scope="col" style="text-align:center;padding:.35rem .3rem">{escape(m)}</th>' for m in chosen
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
        f"{title}: {len(order)} subtopics of {len(candidates)} candidates; cells have the ranks of the documents "
        "that cover the subtopic"
    )
    return (
        # outside of the box that scrolls, as in report.table
        f"<figure><figcaption>{caption}</figcaption>"
        f'<div class="scroll" tabindex="0" role="region" aria-label="{caption}"><table>'
        f'<thead><tr><th scope="col">subtopic</th><th scope="col" class="n">candidates</th>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div></figure>"
    )


def _reasons(name: str, model: SVMDiv, candidates: CandidateSet, k: int) -> str:
    """The words behind a model's choice."""
    rows = []
    for rank, reason in enumerate(model.explain(candidates, k, n_words=8), start=1):
        words = ", ".join(f"{word} ({_signed(benefit)})" for word, _, benefit in reason.words)
        rows.append([f"{rank}. {reason.id}", f"{reason.gain:.2f}", words])
    columns = [
        Column("document"),
        Column("gain", numeric=True),
        Column("words it is the first to cover, and their worth"),
    ]
    inner = table(columns, rows, caption=f"Why {name} chose these documents")
    return f"<details><summary>The words behind {escape(name)}</summary>{inner}</details>"


def _signed(value: float) -> str:
    return f"{value:+.2g}".replace("-", "−")
