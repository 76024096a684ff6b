"""Reports of the analysis of a click log: text for a terminal, and an HTML page."""

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from structsvm.common.portable.elementary import geomspace
from structsvm.online.clicklog import ClickLog
from structsvm.online.evidence.always_valid import confidence_sequence
from structsvm.online.statistics.analysis import Analysis, PairComparison
from structsvm.online.statistics.credited_log import CreditedLog, credit_log
from structsvm.plots import pages

_LOOKS = 40
"""Number of points per curve on the page; each point requires the computation of an interval."""

_WIDEST = 8.0
"""Intervals wider than this multiple of the last interval are not drawn, since they would flatten the curve."""


def summary(answer: Analysis) -> list[str]:
    """Return the analysis as lines for a terminal: log, winner, further queries needed, and results of each pair."""
    clusters = "" if answer.n_clusters is None else f" by {answer.n_clusters:,} {answer.cluster}s"
    out = [
        f"log        {answer.n_impressions:,} impressions of {answer.method}{clusters}, "
        f"{answer.n_clicked:,} with clicks, {answer.n_missing_feedback:,} without feedback",
        f"measures   {answer.estimand}",
        f"winner     {_headline(answer)}",
        f"more       {_more(answer)}",
    ]
    for pair in answer.pairs:
        facts = (f"  {name:<14}{text}" for name, text in _facts(answer, pair))
        out += ["", f"{pair.a} against {pair.b}", *facts]
    return out + ([""] + [f"note: {text}" for text in answer.notes] if answer.notes else [])


def page(
    name: str, log: ClickLog | CreditedLog, answer: Analysis, *, weights: ArrayLike | None = None
) -> str:
    """Return the analysis as an HTML page, with the always-valid intervals of each pair as the log grows."""
    if isinstance(log, ClickLog):
        log = credit_log(log, cluster=answer.cluster, weights=weights)
    column = {pair: k for k, pair in enumerate(combinations(log.rankers, 2))}
    sections = []
    for pair in answer.pairs:
        pieces = [
            pages.table(
                [pages.Column("Figure"), pages.Column("Value")], _facts(answer, pair), caption="Results"
            ),
            pages.paragraph(
                f"Difference: {answer.estimand}, {pair.a} minus {pair.b}. p: p-values of several tests; the "
                f"{pair.test} test decides. Always valid results hold however often the log is analysed.",
                small=True,
            ),
        ]
        # the curve requires the impressions; the table above requires only the analysis
        k = column[pair.a, pair.b]
        if len(log.pairs[k].delta):
            values = log.pairs[k].delta / log.bound
            clusters = log.clusters_of(k)
            n = len(values) if clusters is None else int(clusters.max()) + 1
            looks = np.unique(geomspace(min(10, n), n, _LOOKS).astype(int))
            sequence = confidence_sequence(values, alpha=answer.alpha, looks=looks, clusters=clusters)
            # intervals after few queries are so wide that they would flatten the rest of the curve
            width = sequence.upper - sequence.lower
            drawn = width <= _WIDEST * width[-1]
            sure = f"{100 * (1 - answer.alpha):g}%"
            lines = [
                pages.Series(
                    label, looks[drawn].tolist(), (log.bound * getattr(sequence, part)[drawn]).tolist()
                )
                for part, label in (
                    ("mean", "difference so far"),
                    ("lower", f"lower end of its {sure} interval"),
                    ("upper", f"upper end of its {sure} interval"),
                )
            ]
            units = "queries" if clusters is None else f"{answer.cluster}s"
            order = "as the log grew" if clusters is None else f"{units} taken in random order"
            pieces += [
                pages.line_chart(lines, x=units, y="difference per query", log_x=True, mark=0.0),
                pages.paragraph(
                    f"Difference: {answer.estimand}, {order}; above 0 it favours {pair.a}, "
                    f"below 0 {pair.b}. The interval is a confidence sequence: with {sure} confidence it contains the "
                    f"true difference at every number of {units} at once, so the log may be analysed at any "
                    "time; where 0 is outside the interval, the difference is significant.",
                    small=True,
                ),
            ]
        sections.append(pages.section(f"{pair.a} against {pair.b}", *pieces))
    notes = [pages.paragraph(text, small=True) for text in answer.notes]
    more = _more(answer)
    figures = f"All results refer to the {answer.estimand}."
    lead = f"Winner: {_headline(answer)}. {more[0].upper()}{more[1:]}. {figures}"
    return pages.page(f"Interleaving: {name}", *sections, *notes, lead=lead)


def _headline(answer: Analysis) -> str:
    # the winner that is valid at every look, or that of a log of fixed size; otherwise the leader and its open pairs
    over = "" if answer.n_clusters is None else f" over {answer.cluster}s"
    corrected = over + (f", corrected by {answer.correction}" if len(answer.pairs) > 1 else "")
    if all(pair.leader is None for pair in answer.pairs):
        return "not decided; no ranker is ahead"
    if not answer.independent:
        return f"none named, as the same users return (see the note); {answer.leader} leads"
    fixed = answer.fixed_sample_winner
    won = [q for q in answer.pairs if fixed in (q.a, q.b)]
    tested = f"p {pages.p_value(max(q.p_value for q in won))}, {_tests(won)}{corrected}" if won else ""
    if answer.winner is not None:
        shown = f" ({tested})" if fixed == answer.winner else ""
        return f"{answer.winner}{shown}, valid even if the log is analysed while it grows"
    if fixed is not None:
        return (
            f"not decided at every look, as the always-valid p is not yet significant; {fixed} ({tested}) if the size "
            "of the log was fixed in advance"
        )
    tied = [q for q in answer.pairs if q.p_value > answer.alpha and answer.leader in (q.a, q.b)]
    if not tied:
        return f"not decided; {answer.leader} leads the most pairs, but loses to another ranker"
    others = ", ".join(q.b if q.a == answer.leader else q.a for q in tied)
    p = min(q.p_value for q in tied)
    least = " at least" if len(tied) > 1 else ""
    return (
        f"not decided; {answer.leader} leads, but does not differ significantly from {others} "
        f"(p{least} {pages.p_value(p)}, {_tests(tied)}{corrected})"
    )


def _tests(pairs: Sequence[PairComparison]) -> str:
    """Return the names of the tests that decided the pairs."""
    return " and ".join(f"{name} test" for name in dict.fromkeys(pair.test for pair in pairs))


def _more(answer: Analysis) -> str:
    needed = answer.more_queries()
    if needed == 0:
        return "no more queries needed" + (
            "" if answer.winner else " if the size of the log was fixed in advance"
        )
    if math.isinf(needed):
        ahead = [pair.leader for pair in answer.pairs if answer.leader in (pair.a, pair.b)]
        why = f"{answer.leader} does not lead every pair"
        if not answer.independent:
            return "no number of queries can be predicted: queries of one user depend on each other"
        if set(ahead) == {answer.leader}:
            why = f"the mean does not favour {answer.leader}"
        elif all(pair.leader is None for pair in answer.pairs):
            why = "no ranker is ahead"
        return f"no number of queries can be predicted: {why}"
    return (
        f"about {needed:,.0f} more queries for p <= {answer.alpha:g}{_by_t(answer)} with power {answer.power:g}, "
        "if the queries so far are typical"
    )


def _by_t(answer: Analysis) -> str:
    """Return the name of the test to which numbers of queries refer, for reports in which another test decides."""
    return "" if answer.test in ("t", "z") else " by the t test"


def _facts(answer: Analysis, pair: PairComparison) -> list[tuple[str, str]]:
    sure = f"{100 * (1 - answer.alpha):g}%"
    within = f"{pair.lower:+.4g} to {pair.upper:+.4g}"
    interval = "no interval, as all values are equal" if math.isnan(pair.lower) else within
    facts = [
        ("queries", f"{pair.a} ahead in {pair.wins:,}, {pair.b} in {pair.losses:,}; {pair.ties:,} ties"),
        (
            "difference",
            f"{pair.mean:+.4g} {answer.statistic} per query ({sure}: {interval}"
            f"; at all times: {pair.always_valid_lower:+.4g} to {pair.always_valid_upper:+.4g})",
        ),
        (
            "p",
            ", ".join(f"{name} {pages.p_value(p)}" for name, p in pair.p_values.items())
            + (f"; {pair.test} corrected {pages.p_value(pair.p_value)}" if len(answer.pairs) > 1 else ""),
        ),
    ]
    if answer.n_clusters is not None and pair.unit_wins is not None:
        counts = f"{pair.a} ahead in {pair.unit_wins:,}, {pair.b} in {pair.unit_losses:,}, which the sign test counts"
        facts.insert(1, (f"{answer.cluster}s", counts))
    facts.append(("always valid", f"p {pages.p_value(pair.always_valid_p_value)}"))
    # two numbers of queries: for a size fixed in advance, and for looks at any time
    needs = []
    if not math.isinf(pair.queries_needed):
        needs.append(
            f"{math.ceil(pair.queries_needed):,} queries in all to detect this difference{_by_t(answer)} with power "
            f"{answer.power:g} if their number is fixed in advance"
        )
    if not math.isinf(pair.always_valid_queries_needed):
        needs.append(
            f"about {math.ceil(pair.always_valid_queries_needed):,} queries if the log is analysed at any time"
        )
    if needs:
        facts.append(("needs", "; ".join(needs)))
    return facts
