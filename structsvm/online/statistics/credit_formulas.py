"""Credit many impressions at once, by applying the formulas of the methods to whole columns.

Invalid impressions, and those that the formulas do not cover, are credited one by one by their method.
"""

from collections.abc import Sequence
from itertools import chain, combinations
from typing import Any, NamedTuple

import numpy as np

from structsvm.common.checks import BadInput
from structsvm.common.lazy import labelled
from structsvm.online.interleaving import SOSM, Interleaver, Optimized, Probabilistic, Shown, TeamDraft
from structsvm.online.interleaving.probabilistic import duel_probabilities
from structsvm.online.interleaving.record import share_of_largest
from structsvm.online.interleaving.sosm import largest_difference
from structsvm.protocols import Float

METHODS: dict[str, Interleaver] = {
    name: method() for name, method in labelled("structsvm.online.interleaving", "name").items()
}
"""The methods whose logs can be analysed, by name."""

DRAWN = tuple(name for name, method in METHODS.items() if getattr(method, "draws_outcome", False))
"""Methods whose outcome has mean zero for indifferent users, but is not symmetric and may have a non-zero median."""

_TEAM_DRAFT, _PROBABILISTIC, _OPTIMIZED, _SOSM = (
    method.name for method in (TeamDraft, Probabilistic, Optimized, SOSM)
)
_ENTRIES = 1 << 22
"""Largest number of entries of a table; probabilistic credit needs one per impression, pair of rankers and click."""


class Rows(NamedTuple):
    """Impressions to credit, as columns, because Python's garbage collector would visit every row object."""

    numbers: list[int]
    records: list[Shown]
    """Lists shown; equal lists of a file share one record."""
    places: list[tuple[int, ...]]
    """Indices of the clicked documents, increasing."""


class Credits(NamedTuple):
    """Credit of several impressions; each array has one row per impression."""

    credit: Float  # (n, n_rankers)
    outcome: Float  # (n, n_pairs)
    largest: Float  # bound of the credit of a ranker for any clicks; 0 for the methods of ``DRAWN``


def credit_rows(method: str, n_rankers: int, rows: Rows, source: str) -> Credits:
    """Credit impressions of one method, for each pair of rankers in the order of ``combinations``."""
    n, pairs = len(rows.numbers), list(combinations(range(n_rankers), 2))
    made = Credits(np.empty((n, n_rankers)), np.empty((n, len(pairs))), np.zeros(n))
    # group impressions by the numbers of documents, clicks and rows of evidence, so that each group is an array
    groups: dict[tuple[int, int, int], list[int]] = {}
    for k, (record, clicks) in enumerate(zip(rows.records, rows.places, strict=True)):
        groups.setdefault((len(record.documents), len(clicks), len(record.evidence)), []).append(k)
    for (_, n_clicked, n_evidence), members in groups.items():
        # limit the batch size, since a table has entries for all pairs of rankers
        step = max(1, _ENTRIES // (max(n_evidence, n_rankers) ** 2 * (2 * n_clicked + 1)))
        for start in range(0, len(members), step):
            some = members[start : start + step]
            columns = _credit_alike(
                method, n_rankers, pairs, [rows.records[k] for k in some], [rows.places[k] for k in some]
            )
            if columns is None:
                for k in some:
                    _credit_one(method, n_rankers, pairs, rows, k, source, made)
            else:
                for whole, part in zip(made, columns, strict=True):
                    whole[some] = part
    return made


class CreditRow(NamedTuple):
    """One impression to credit; errors refer to it by ``number``."""

    number: int
    documents: Sequence[Any]
    evidence: Sequence[Sequence[Any]]
    places: Sequence[int]
    """Indices of the clicked documents, increasing."""


def credit_impressions(method: str, n_rankers: int, rows: Sequence[CreditRow]) -> Credits:
    """Credit impressions of one method, given as rows, by :func:`credit_rows`."""
    columns = Rows(
        [row.number for row in rows],
        [Shown(method, tuple(row.documents), n_rankers, tuple(map(tuple, row.evidence))) for row in rows],
        [tuple(row.places) for row in rows],
    )
    return credit_rows(method, n_rankers, columns, "impression ")


def _credit_one(
    method: str, n_rankers: int, pairs: list[tuple[int, int]], rows: Rows, k: int, source: str, to: Credits
) -> None:
    """Credit impression ``k`` by its method, which raises BadInput for an invalid record."""
    shown = rows.records[k]
    clicked = np.zeros(len(shown.documents), dtype=bool)
    clicked[list(rows.places[k])] = True
    try:
        to.credit[k] = METHODS[method].credit(shown, clicked)
        matrix = METHODS[method].outcome(shown, clicked)
    except ValueError as error:
        raise BadInput(f"{source}{rows.numbers[k]}", f"{error}") from None
    to.outcome[k] = [matrix[pair] for pair in pairs]
    if method not in DRAWN:
        to.largest[k] = len(shown.documents)


def _credit_alike(
    method: str,
    n_rankers: int,
    pairs: list[tuple[int, int]],
    records: list[Shown],
    clicks: list[tuple[int, ...]],
) -> Credits | None:
    """Return the credit of impressions with the same numbers of documents and clicks; None if there is no formula."""
    # None is also returned if a record is invalid: the method then credits the impressions one by one and raises an
    # error with the reason.
    n_rows = 1 if method == _TEAM_DRAFT else n_rankers
    if method not in (_TEAM_DRAFT, _PROBABILISTIC, _OPTIMIZED, _SOSM) or len(records[0].evidence) != n_rows:
        return None
    # convert each distinct record only once
    which_of: dict[int, int] = {}
    which = np.array([which_of.setdefault(id(record), len(which_of)) for record in records])
    distinct = dict(zip(which.tolist(), records, strict=True)).values()
    try:
        # a flat list, since NumPy is slow to infer the shape of nested lists
        flat = list(chain.from_iterable(chain.from_iterable(record.evidence for record in distinct)))
        values = np.array(flat, dtype=np.float64).reshape(len(which_of), n_rows, -1)
    except (OverflowError, ValueError):
        return None
    places = np.array(clicks, dtype=np.int64).reshape(len(clicks), 1, -1)
    i, j = np.array(pairs).T
    if method == _TEAM_DRAFT:
        team = values[:, 0]
        known = ~np.isnan(team)
        if not ((team >= 0) & (team < n_rankers) & (team == np.floor(team)))[known].all():
            return None
        clicked = np.take_along_axis(team[which], places[:, 0], axis=1)
        credit = np.stack([(clicked == ranker).sum(axis=1) for ranker in range(n_rankers)], axis=1)
        credit = credit.astype(np.float64)
        # the size of the largest team bounds the difference in clicks
        most = np.stack([(team == ranker).sum(axis=1) for ranker in range(n_rankers)]).max(axis=0)
        return Credits(credit, np.sign(credit[:, i] - credit[:, j]), most.astype(np.float64)[which])
    if not (np.abs(values) <= 1e12).all():
        return None
    # the checks of ``evidence_matrix``: probabilities sum to 1 per document (probabilistic) or per ranker (SOSM), and
    # centred credits to 0
    total, axis = {_PROBABILISTIC: (1.0, 1), _OPTIMIZED: (0.0, 1), _SOSM: (1.0, 2)}[method]
    off = np.abs(values.sum(axis=axis) - total) / np.maximum(1.0, np.abs(values).max(axis=axis))
    if not (off <= 1e-9).all() or (method != _OPTIMIZED and not (values >= 0).all()):
        return None
    clicked = np.take_along_axis(values[which], places, axis=2)
    unused = np.zeros(len(records))
    if method == _PROBABILISTIC:
        wins = duel_probabilities(clicked)
        return Credits(wins.sum(axis=2) / (n_rankers - 1), wins[:, i, j] - wins[:, j, i], unused)
    credit = clicked.sum(axis=2)
    # centred credits are 1 / rank minus the mean; for one click, those of two rankers differ by less than 1
    largest = 1.0 if method == _OPTIMIZED else largest_difference(values.shape[2])
    try:
        outcome = share_of_largest(credit, places.shape[2], largest)
    except BadInput:  # crediting one by one raises this error with the number of the impression
        return None
    return Credits(credit, outcome[:, i, j], unused)
