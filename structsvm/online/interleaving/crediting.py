"""Credit for clicks: the evidence and clicks of many shown lists as arrays, with one row per list."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.common.checks import BadInput
from structsvm.online.impressions.shown import Shown, check_clicks
from structsvm.protocols import Float, Int

_ENTRIES = 1 << 21
"""Largest number of entries of the evidence, or of pairs of rankers, that are credited at once."""

_CHANGED = "log what show() returns, unchanged"


class ClickedLists(NamedTuple):
    """Shown lists with their clicks; all arrays have one row per list."""

    n_rankers: int
    evidence: Float
    """Evidence of the record, shape (n_lists, n_rows, length); NaN for null, and beyond the end of a shorter list."""
    clicked: NDArray[np.bool_]
    """Whether each document was clicked, shape (n_lists, length)."""
    lengths: Int
    """Number of documents of each list."""

    @property
    def own(self) -> NDArray[np.bool_]:
        """Whether each entry of ``clicked`` is a document, not beyond the end of its list."""
        return np.arange(self.clicked.shape[1]) < self.lengths[:, None]

    def refuse(self, wrong: NDArray[np.bool_], expected: str) -> None:
        """Raise BadInput with the first part of the evidence that is wrong: a list, a row or an entry."""
        if wrong.any():
            at = np.argwhere(wrong)[0]
            part = self.evidence[tuple(at)]
            got = f"{part:g}" if not part.ndim else f"{part[..., : self.lengths[at[0]]].tolist()!r:.200}"
            of = f" for ranker {at[1]}" if wrong.ndim == 2 else ""
            raise BadInput("shown", f"expected {expected}, got {got}{of}", _CHANGED)


class Credits(NamedTuple):
    """Credit of several lists; each array has one row per list."""

    credit: Float
    """Credit of each ranker, shape (n_lists, n_rankers)."""
    outcome: Float
    """Outcome of each pair of rankers in the order of ``itertools.combinations``, from -1 to 1: positive if the first
    ranker is ahead."""
    largest: Float
    """Largest absolute statistic of each list for any clicks; the statistic is the difference in credit of two rankers
    or, for methods with ``draws_outcome``, the outcome."""


@lru_cache(maxsize=64)
def pairs_of(n_rankers: int) -> Any:
    """Return the first and the second ranker of each pair, in the order of ``itertools.combinations``."""
    return np.triu_indices(n_rankers, 1)


def differences(credit: Float) -> Float:
    """Return the difference in credit of each pair of rankers, (n_lists, n_pairs)."""
    i, j = pairs_of(credit.shape[1])
    return credit[:, i] - credit[:, j]


def signs(credit: Float) -> Float:
    """Return the sign of the difference in credit of each pair of rankers, (n_lists, n_pairs)."""
    difference = differences(credit)
    # ties are detected up to rounding: sums of the same credits in a different order may differ in the last digits
    scale = np.abs(credit).max(axis=1, keepdims=True)
    return np.where(np.abs(difference) <= 1e-12 * scale, 0.0, np.sign(difference))


def sums_of_clicked(lists: ClickedLists) -> Float:
    """Return the sum of the evidence of the clicked documents, shape (n_lists, n_rows)."""
    total = np.zeros(lists.evidence.shape[:2])
    # add rank by rank, so that the rounding does not depend on the other lists
    for k in range(lists.clicked.shape[1]):
        total += np.where(lists.clicked[:, None, k], lists.evidence[:, :, k], 0.0)
    return total


def shares_of_largest(lists: ClickedLists, credit: Float, largest: float | Float) -> Float:
    """Return the difference in credit per click of each pair of rankers, as a share of its maximum, ``largest``."""
    # Division by the number of clicks and by a bound that is the same for all lists preserves a mean of zero. The mean
    # of the sign differs from zero if a ranker often wins by a little and rarely loses by much.
    most = lists.clicked.sum(axis=1) * largest
    outcome = differences(credit) / np.where(most > 0, most, np.inf)[:, None]
    lists.refuse(np.abs(outcome).max(axis=1) > 1 + 1e-9, "evidence with smaller differences per click")
    # sums of the same terms in a different order may differ in the last digits
    outcome[np.abs(outcome) <= 1e-12] = 0.0
    return outcome.clip(-1, 1)


def check_sums(lists: ClickedLists, method: str, *, axis: int, total: float, least: float = -np.inf) -> None:
    """Raise BadInput unless the evidence contains numbers of at least ``least`` that sum to ``total`` along ``axis``.

    Axis 1 is the sum over the rankers for each document, and axis 2 the sum over the documents for each ranker.
    """
    own = lists.own[:, None]
    numbers = "numbers" if np.isinf(least) else f"numbers of at least {least:g}"
    # sums must be equal up to rounding relative to the largest number
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.where(own, lists.evidence, 0.0)
        off = np.abs(values.sum(axis=axis) - total) / np.maximum(1.0, np.abs(values).max(axis=axis))
        wrong = ~((off <= 1e-9) & (np.where(own, values, np.inf) >= least).all(axis=axis))
    whose = "each ranker" if axis == 2 else "each document"
    if axis == 1:
        wrong = (wrong & lists.own).any(axis=1)
    lists.refuse(wrong, f"{numbers} in the evidence of {method!r} that sum to {total:g} for {whose}")


def check_teams(lists: ClickedLists) -> Float:
    """Return the team of each document, shape (n_lists, length); raise BadInput for an unknown ranker."""
    team, n = lists.evidence[:, 0], lists.n_rankers
    known = np.isnan(team) | ((team >= 0) & (team < n) & (team == np.floor(team)))
    lists.refuse(~known[:, None], f"teams from 0 to {n - 1}")
    return team


def check_ranks(lists: ClickedLists) -> Float:
    """Return the ranks in the evidence, infinity for null; raise BadInput unless they are distinct integers from 1."""
    ranks = lists.evidence
    in_order = np.sort(ranks, axis=2)  # with NaN at the end
    bad = ((ranks < 1) | (ranks != np.floor(ranks)) & ~np.isnan(ranks)).any(axis=2)
    bad |= (in_order[..., 1:] == in_order[..., :-1]).any(axis=2)
    lists.refuse(bad, "distinct ranks from 1, or null, in the evidence")
    return np.where(np.isnan(ranks), np.inf, ranks)


def one_list(method: object, shown: Shown, clicks: ArrayLike) -> ClickedLists:
    """Return one list of a method with its clicks; raise BadInput if the record or the clicks are invalid."""
    if not isinstance(shown, Shown):
        raise TypeError(f"shown: expected a Shown record (see Shown.from_json), got {shown!r:.80}")
    clicked = check_clicks(clicks, len(shown.documents))
    return clicked_lists(method, [shown], [np.flatnonzero(clicked).tolist()])


def clicked_lists(
    method: Any, records: Sequence[Shown], clicked_indices: Sequence[Sequence[int]]
) -> ClickedLists:
    """Return lists of one method and number of rankers, with the indices of the clicked documents of each."""
    # convert each distinct record only once
    numbers: dict[int, int] = {}
    which = [numbers.setdefault(id(record), len(numbers)) for record in records]
    distinct = records if len(numbers) == len(records) else list({id(one): one for one in records}.values())
    n_rankers, n_rows = distinct[0].n_rankers, 1 if method.is_by_team else distinct[0].n_rankers
    for record in distinct:
        if record.method != method.name:
            raise BadInput(
                "shown",
                f"expected a record of {method.name!r}, got one of {record.method!r}",
                "credit it with the method that showed it",
            )
        if len(record.evidence) != n_rows:
            raise BadInput("shown", f"expected {n_rows} row(s) of evidence, got {len(record.evidence)}")
    sizes = [len(record.documents) for record in distinct]
    lengths, longest = np.array(sizes), max(sizes)
    # a flat list, since NumPy is slow to infer the shape of nested lists
    flat = np.array(
        list(chain.from_iterable(chain.from_iterable(record.evidence for record in distinct))), np.float64
    )
    shape = len(distinct), n_rows, longest
    if min(sizes) == longest:
        evidence = flat.reshape(shape)
    else:
        evidence = np.full(shape, np.nan)
        evidence[np.broadcast_to(np.arange(longest) < lengths[:, None, None], shape)] = flat
    clicked = np.zeros((len(records), longest), dtype=bool)
    clicked[
        np.repeat(np.arange(len(records)), list(map(len, clicked_indices))),
        list(chain.from_iterable(clicked_indices)),
    ] = True
    if distinct is records:
        return ClickedLists(n_rankers, evidence, clicked, lengths)
    return ClickedLists(n_rankers, evidence[which], clicked, lengths[which])


def credit_lists(
    method: Any, records: Sequence[Shown], clicked_indices: Sequence[Sequence[int]], names: Sequence[str]
) -> Credits:
    """Return the credits of lists of one method and number of rankers; an error begins with the name of its list."""
    n_rankers = records[0].n_rankers
    n_pairs = n_rankers * (n_rankers - 1) // 2
    credits = Credits(
        np.empty((len(records), n_rankers)), np.empty((len(records), n_pairs)), np.empty(len(records))
    )
    # lists of similar lengths together, in batches of a limited size
    order = sorted(range(len(records)), key=lambda k: -len(records[k].documents))
    start = 0
    while start < len(order):
        size = max(n_rankers * len(records[order[start]].documents), n_rankers**2)
        some = order[start : start + max(1, _ENTRIES // size)]
        start += len(some)
        parts = [records[k] for k in some], [clicked_indices[k] for k in some]
        try:
            credited = method.credit_many(clicked_lists(method, *parts))
        except ValueError:
            # credit one by one to find the list; the error names what is wrong with it
            for k, record, clicked in zip(some, *parts, strict=True):
                try:
                    method.credit_many(clicked_lists(method, [record], [clicked]))
                except ValueError as error:
                    raise BadInput(names[k], f"{error}") from None
            raise
        for whole, part in zip(credits, credited, strict=True):
            whole[some] = part
    return credits
