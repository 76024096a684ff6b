"""The record of a shown list: all that a method needs to credit clicks later, as an object and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structsvm.checks import BadInput, check_whole

__all__ = ["Shown"]

VERSION = 1
"""Version of the record. Others are refused, as crediting them by new rules would mix two experiments."""

LARGEST = 1e12
"""Largest number in a record, so that sums do not overflow; ranks, probabilities and credits are far below it."""

MAX_RANKERS = 1000
"""Most rankers in a record that is read, as the memory for outcomes grows with the number of their pairs."""

Row = tuple[float | int | None, ...]


@dataclass(frozen=True)
class Shown:
    """One list as shown to a user, with all its method needs to credit clicks on it.

    Attributes
    ----------
    method : str
        The method that made the list, the only one that can credit it.
    documents : tuple
        The ids in the order shown.
    n_rankers : int
        Number of rankings that were merged.
    evidence : tuple of tuples, one entry per document in each
        Team draft: one row, the ranker that contributed each document (None: nobody). The other methods: a
        row for each ranker, with the document's rank in its ranking (balanced, document constraints; None:
        not in it), the probability that it contributed the document (probabilistic) or its credit for a
        click (optimised, SOSM).
    slack : float
        How far the list's distribution is from its method's fairness constraints; 0 except for an optimised
        method whose programme has no solution.
    bound : float
        Largest difference in credit of two rankers for one click, over all lists that could have been shown (optimised;
        1 for the other methods).
    impression : str, int or None
        Id of this showing of the list, given by :meth:`with_impression`. A second line with the same id in a log is a
        repeated line and not counted.

    Examples
    --------
    >>> from structsvm.online.interleaving import TeamDraft
    >>> shown = TeamDraft().show([["a", "b", "c"], ["b", "d", "a"]], length=3, rng=0)
    >>> Shown.from_json(shown.to_json()) == shown
    True
    """

    method: str
    documents: tuple[Hashable, ...]
    n_rankers: int
    evidence: tuple[Row, ...]
    slack: float = 0.0
    bound: float = 1.0
    impression: str | int | None = None

    def with_impression(self, impression: str | int) -> Shown:
        """Return the same record with the id of its impression, such as that of the request it answers.

        Only the caller knows what one impression is, so the id is never made up: an id drawn from ``rng`` would be
        the same for two impressions where ``rng`` is a seed.

        Parameters
        ----------
        impression : str or int
            A different id each time a list is shown.

        Returns
        -------
        Shown

        Examples
        --------
        >>> Shown("team_draft", ("a", "b"), 2, ((0, 1),)).with_impression("request-81f3").to_dict()["impression"]
        'request-81f3'
        """
        return replace(self, impression=check_impression(impression))

    def clicked(self, documents: Iterable[Hashable]) -> NDArray[np.bool_]:
        """Return the clicks vector of a user who clicked on ``documents``; raise ValueError if one was not shown.

        Examples
        --------
        >>> Shown("team_draft", ("a", "b"), 2, ((0, 1),)).clicked(["b"])
        array([False,  True])
        """
        position = {document: k for k, document in enumerate(self.documents)}
        clicks = np.zeros(len(self.documents), dtype=bool)
        for document in documents:
            if document not in position:
                raise BadInput(
                    "clicked", f"document {document!r} is not among those shown: {list(self.documents)}"
                )
            clicks[position[document]] = True
        return clicks

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain lists, numbers and strings, to put in a larger log line."""
        record = {
            "version": VERSION,
            "method": self.method,
            "documents": [_encode(document) for document in self.documents],
            "n_rankers": self.n_rankers,
            "evidence": [list(row) for row in self.evidence],
            "slack": self.slack,
            "bound": self.bound,
        }
        if self.impression is not None:
            record["impression"] = self.impression
        return record

    def to_json(self) -> str:
        """Return the record as one line of JSON; numbers keep every digit, ids their type."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False, separators=(",", ":"))

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Shown:
        """Restore a record from what :meth:`to_dict` returned; raise ValueError with what is wrong."""
        if not isinstance(record, Mapping):
            raise ValueError(
                f"shown record: expected an object with 'method' and 'documents', got {record!r:.80}"
            )
        missing = [
            key for key in ("version", "method", "documents", "n_rankers", "evidence") if key not in record
        ]
        if missing:
            raise ValueError(
                f"shown record: {', '.join(missing)} missing; log what Shown.to_json() returns, unchanged"
            )
        if record["version"] != VERSION:
            raise ValueError(
                f"shown record: expected version {VERSION}, got {record['version']!r:.80}; "
                "credit it with the release that wrote it"
            )
        method, documents, n_rankers = record["method"], record["documents"], record["n_rankers"]
        evidence, slack, bound = record["evidence"], record.get("slack", 0.0), record.get("bound", 1.0)
        if not isinstance(method, str) or not method.isprintable():
            raise ValueError(
                f"shown record: method: expected a string that can be printed, got {method!r:.80}"
            )
        if not isinstance(documents, list) or not documents:
            raise ValueError(f"shown record: documents: expected a list of ids, got {documents!r:.80}")
        if type(n_rankers) is not int or n_rankers < 2:
            raise ValueError(f"shown record: n_rankers: expected an integer >= 2, got {n_rankers!r:.80}")
        if n_rankers > MAX_RANKERS:
            raise ValueError(
                f"shown record: n_rankers: expected at most {MAX_RANKERS}, got {n_rankers!r:.80}; "
                "log what Shown.to_json() returns, unchanged"
            )
        if not _is_number(slack):
            raise ValueError(f"shown record: slack: expected a number, got {slack!r:.80}")
        if not _is_number(bound) or bound <= 0:
            raise ValueError(f"shown record: bound: expected a positive number, got {bound!r:.80}")
        if not isinstance(evidence, list) or not evidence:
            raise ValueError(f"shown record: evidence: expected rows of numbers, got {evidence!r:.80}")
        for i, row in enumerate(evidence):
            if not isinstance(row, list) or len(row) != len(documents):
                raise ValueError(
                    f"shown record: evidence[{i}]: expected an entry for each of {len(documents)} documents, "
                    f"got {row!r:.80}"
                )
            if not all(value is None or _is_number(value) for value in row):
                raise ValueError(
                    f"shown record: evidence[{i}]: expected finite numbers up to {LARGEST:g} or null, got {row!r:.80}"
                )
        ids = tuple(_decode(document) for document in documents)
        check_distinct("shown record: documents", ids)
        impression = record.get("impression")
        if impression is not None:
            check_impression(impression, "shown record: ")
        rows = tuple(tuple(row) for row in evidence)
        return cls(method, ids, n_rankers, rows, float(slack), float(bound), impression)

    @classmethod
    def from_json(cls, text: str) -> Shown:
        """Restore a record from the text of :meth:`to_json`; raise ValueError with what is wrong."""
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:  # ValueError also for a number of too many digits
            raise ValueError(f"shown record: expected one line of JSON, got {text!r:.80} ({error})") from None
        return cls.from_dict(record)


def check_impression(impression: Any, prefix: str = "") -> str | int:
    """Return the id of an impression; raise ValueError unless it is a string or an integer."""
    if isinstance(impression, bool) or not isinstance(impression, (str, int)):
        raise ValueError(f"{prefix}impression: expected a string or an integer, got {impression!r:.80}")
    return impression


def check_rankings(
    rankings: Sequence[Sequence[Hashable]], length: int, *, pair: bool = False
) -> list[tuple[Hashable, ...]]:
    """Return the rankings as tuples of plain ids; raise ValueError with the ranking and document that are wrong."""
    check_whole("length", length)
    if isinstance(rankings, (str, bytes)):
        raise BadInput("rankings", f"expected a sequence of rankings, got {rankings!r:.80}")
    checked = []
    for i, ranking in enumerate(rankings):
        if isinstance(ranking, (str, bytes)):
            raise BadInput(
                "rankings", f"expected a sequence of document ids, got {ranking!r:.80}", at=f"[{i}]"
            )
        # scalars of numpy hash like Python's, but json cannot write them
        ids = tuple(document.item() if isinstance(document, np.generic) else document for document in ranking)
        if not ids:
            raise BadInput("rankings", "expected at least one document, got an empty ranking", at=f"[{i}]")
        check_distinct(f"rankings[{i}]", ids)
        checked.append(ids)
    if pair and len(checked) != 2:
        raise BadInput(
            "rankings",
            f"this method compares exactly 2 rankings, got {len(checked)}",
            "TeamDraft, Probabilistic, Optimized and SOSM take more",
        )
    if len(checked) < 2:
        raise BadInput("rankings", f"expected at least 2 rankings to compare, got {len(checked)}")
    return checked


def check_distinct(argument: str, ids: Sequence[Hashable]) -> None:
    """Raise ValueError with the first document that occurs twice, or that cannot be an id."""
    seen: dict[Hashable, int] = {}
    for k, document in enumerate(ids):
        try:
            first = seen.setdefault(document, k)
        except TypeError:
            raise ValueError(f"{argument}[{k}]: expected a hashable document id, got {document!r}") from None
        if document != document:
            raise ValueError(f"{argument}[{k}]: expected a document id, got {document!r}")
        if first != k:
            raise ValueError(
                f"{argument}: document {document!r} occurs twice, at places {first + 1} and {k + 1}; "
                "remove the duplicate before interleaving"
            )


def check_record(shown: Shown, method: str, *, n_rows: int | None = None) -> None:
    """Raise ValueError unless ``shown`` is a record of ``method`` with ``n_rows`` of evidence (one per ranker)."""
    if not isinstance(shown, Shown):
        raise TypeError(
            f"shown: expected a Shown record (Shown.from_json reads a logged one), got {shown!r:.80}"
        )
    if shown.method != method:
        raise BadInput(
            "shown",
            f"expected a record of {method!r}, got one of {shown.method!r}",
            "credit it with the method that showed it",
        )
    n_rows = shown.n_rankers if n_rows is None else n_rows
    if len(shown.evidence) != n_rows:
        raise BadInput("shown", f"expected {n_rows} row(s) of evidence, got {len(shown.evidence)}")


def ranks_of(ranking: Sequence[Hashable]) -> dict[Hashable, int]:
    """Return the rank of each document, from 1."""
    return {document: k for k, document in enumerate(ranking, start=1)}


def as_rows(values: NDArray[np.float64]) -> tuple[Row, ...]:
    """Return a matrix as the nested tuples of a record."""
    return tuple(tuple(row) for row in values.tolist())


def evidence_matrix(
    shown: Shown, *, axis: int, total: float, least: float = -math.inf
) -> NDArray[np.float64]:
    """Return the evidence of a record as a matrix; raise ValueError if its method cannot have made it."""
    if any(value is None for row in shown.evidence for value in row):
        raise BadInput(
            "shown", f"expected a number for every document in the evidence of {shown.method!r}, got null"
        )
    values = np.array(shown.evidence, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        off = np.abs(values.sum(axis=axis) - total) / np.maximum(1.0, np.abs(values).max(axis=axis))
    wrong = np.flatnonzero(~((off <= 1e-9) & (values >= least).all(axis=axis)))
    if wrong.size:
        whose = f"ranker {wrong[0]}" if axis else f"document {shown.documents[wrong[0]]!r}"
        at_least = "" if math.isinf(least) else f" of at least {least:g}"
        numbers = values[wrong[0]] if axis else values[:, wrong[0]]
        raise BadInput(
            "shown",
            f"expected numbers{at_least} in the evidence of {shown.method!r} that sum to {total:g} for "
            f"{whose}, got {numbers.tolist()!r:.80}",
            "log what show() returns, unchanged",
        )
    return values


def evidence_ranks(shown: Shown) -> tuple[Row, ...]:
    """Return evidence that holds ranks; raise ValueError unless they are null or different whole numbers from 1."""
    for ranker, row in enumerate(shown.evidence):
        held = [value for value in row if value is not None]
        bad = [value for value in held if value < 1 or value != int(value)]
        if bad or len(set(held)) < len(held):
            raise BadInput(
                "shown",
                f"expected different ranks from 1, or null, in the evidence of ranker {ranker}, got {list(row)!r:.80}",
                "log what show() returns, unchanged",
            )
    return shown.evidence


def signs(credit: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return who beats whom by credit: the sign of every difference, (n, n)."""
    difference = credit[:, None] - credit[None, :]
    # sums of the same credits in another order may differ in the last digits
    scale = np.abs(credit).max(initial=0.0)
    return np.where(np.abs(difference) <= 1e-12 * scale, 0.0, np.sign(difference))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= LARGEST


def _encode(document: Hashable) -> Any:
    if document is None or isinstance(document, (bool, int, str)):
        return document
    if isinstance(document, float) and math.isfinite(document):
        return document
    if type(document) is tuple:
        # json reads an array as a list, which cannot be an id
        return {"tuple": [_encode(part) for part in document]}
    raise TypeError(
        f"document {document!r}: JSON keeps None, bool, int, float, str and tuples of them, "
        f"not {type(document).__name__}; rank by a string id instead"
    )


def _decode(value: Any) -> Any:
    if isinstance(value, dict) and list(value) == ["tuple"] and isinstance(value["tuple"], list):
        return tuple(_decode(part) for part in value["tuple"])
    if isinstance(value, (dict, list)) or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"shown record: documents: expected ids, got {value!r:.80}")
    return value
