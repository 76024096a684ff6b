"""Record of a shown list, as an object and as JSON, with everything that its method needs to credit clicks later."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from msgspec import DecodeError, Meta, Struct, ValidationError, convert
from msgspec.json import decode
from numpy.typing import ArrayLike, NDArray

from structsvm.common.checks import BadInput, check_whole

VERSION = 1
"""Version of the record format. Other versions are refused, since their clicks are credited by different rules."""

LARGEST = 1e12
"""Largest number allowed in a record, so that sums do not overflow; valid ranks and credits are much smaller."""

MAX_RANKERS = 1000
"""Largest number of rankers in a record; outcomes take memory for each pair of rankers."""

Row = tuple[float | int | None, ...]
_Number = Annotated[int, Meta(ge=-(10**12), le=10**12)] | Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]


class RecordFields(Struct, gc=False):
    """The JSON of a record."""

    version: Annotated[int, Meta(ge=VERSION, le=VERSION)]
    method: str
    documents: Annotated[tuple[Any, ...], Meta(min_length=1)]
    n_rankers: Annotated[int, Meta(ge=2, le=MAX_RANKERS)]
    evidence: Annotated[tuple[tuple[_Number | None, ...], ...], Meta(min_length=1)]
    slack: _Number = 0.0
    impression: str | int | None = None


@dataclass(frozen=True)
class Shown:
    """Record of a list shown to a user, with everything that its method needs to credit clicks.

    Attributes
    ----------
    method : str
        Name of the method that merged the list; only this method can credit its clicks.
    documents : tuple
        Document ids, in the order shown.
    n_rankers : int
        Number of rankings that were merged.
    evidence : tuple of tuples, one entry per document in each
        For team draft, one row with the index of the ranker that contributed each document, or None for no ranker. For
        other methods, a row per ranker: the rank of each document in its ranking, or None if it is missing (balanced,
        document constraints), the probability that the ranker contributed the document (probabilistic), or the credit
        of the ranker for a click (optimized, SOSM).
    slack : float
        Largest violation of the fairness constraints by the distribution of lists; 0 unless the method is
        ``"optimized"`` and its linear program has no solution.
    impression : str, int or None
        Id of this impression, set by :meth:`with_impression`. Later lines of a log with the same id are repeats and do
        not count.

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
    impression: str | int | None = None

    def with_impression(self, impression: str | int) -> Shown:
        """Return the record with an impression id, which must be unique for each display of a list.

        The caller supplies the id, since an id drawn from ``rng`` would repeat if ``rng`` is a seed.

        Examples
        --------
        >>> Shown("team_draft", ("a", "b"), 2, ((0, 1),)).with_impression("request-81f3").to_dict()["impression"]
        'request-81f3'
        """
        if isinstance(impression, bool) or not isinstance(impression, (str, int)):
            raise BadInput("impression", f"expected a string or an integer, got {impression!r:.80}")
        return replace(self, impression=impression)

    def clicked(self, documents: Iterable[Hashable]) -> NDArray[np.bool_]:
        """Return clicks on ``documents`` as a boolean array by rank; raise BadInput if a document was not shown.

        Examples
        --------
        >>> Shown("team_draft", ("a", "b"), 2, ((0, 1),)).clicked(["b"])
        array([False,  True])
        """
        position = {document: k for k, document in enumerate(self.documents)}
        clicks = np.zeros(len(self.documents), dtype=bool)
        for document in documents:
            if document not in position:
                shown = list(self.documents)
                raise BadInput("clicked", f"document {document!r} is not among those shown: {shown}")
            clicks[position[document]] = True
        return clicks

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain lists, numbers and strings, for a line of a log."""
        record = {
            "version": VERSION,
            "method": self.method,
            "documents": [_encode(document) for document in self.documents],
            "n_rankers": self.n_rankers,
            "evidence": [list(row) for row in self.evidence],
            "slack": self.slack,
        }
        if self.impression is not None:
            record["impression"] = self.impression
        return record

    def to_json(self) -> str:
        """Return the record as one line of JSON; numbers are written with full precision, and ids keep their type."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False, separators=(",", ":"))

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Shown:
        """Return the record that :meth:`to_dict` returned; raise ValueError, with the reason, for any other input."""
        try:
            return restore(convert(record, RecordFields))
        except ValidationError as error:
            raise ValueError(explain(error, record, "shown record: ")) from None

    @classmethod
    def from_json(cls, text: str) -> Shown:
        """Return the record that :meth:`to_json` returned; raise ValueError, with the reason, for any other input."""
        try:
            try:
                return restore(decode(text, type=RecordFields))
            except (
                ValidationError
            ) as error:  # the text after the invalid value may not be JSON, which is reported first
                raise ValueError(explain(error, decode(text), "shown record: ")) from None
        except (DecodeError, RecursionError) as error:
            raise BadInput("shown record", f"expected one line of JSON, got {text!r:.80} ({error})") from None


def restore(fields: RecordFields) -> Shown:
    """Return the record of validated fields; raise BadInput if the fields are inconsistent."""
    if not fields.method.isprintable():
        raise BadInput("shown record", f"method: expected a printable string, got {fields.method!r:.80}")
    # msgspec has checked types and ranges; check lengths and ids
    n = len(fields.documents)
    for i, row in enumerate(fields.evidence):
        if len(row) != n:
            problem = f"evidence[{i}]: expected an entry for each of {n} documents, got {list(row)!r:.80}"
            raise BadInput("shown record", problem)
    # strings are plain ids; other types may be encoded tuples or invalid ids
    ids = fields.documents
    if set(map(type, ids)) != {str}:
        ids = tuple(map(_decode, ids))
    if len(set(ids)) < n:
        check_distinct("shown record: documents", ids)
    slack = float(fields.slack)
    return Shown(fields.method, ids, fields.n_rankers, fields.evidence, slack, fields.impression)


def explain(error: ValidationError, value: Any, prefix: str = "") -> str:
    """Return a message with the path of the invalid value, what msgspec expected, the value and a remedy."""
    # msgspec's errors end with the path of the invalid value, such as "$.clicks[2].rank"
    what, _, path = str(error).partition(" - at `$")
    path = path.removesuffix("`").removeprefix(".")
    # follow the path to the invalid value
    for key, index in re.findall(r"(\w+)|\[(\d+)\]", path):
        value = value[key] if key else value[int(index)]
    if path == "shown" or path.startswith("shown."):
        prefix, path = "shown record: ", path.removeprefix("shown").removeprefix(".")
    got = f"{value!r:.80}"
    if what.startswith("Object missing"):
        what, got = f"Expected the key {what.split('`')[1]!r}", "none"
    # replace the type in "Expected `int`, got `str`" by the value, which is more informative
    problem = what[:1].lower() + what[1:].partition(", got ")[0]
    remedy = "; log Shown.to_json() unchanged, or use a table" if prefix or got == "none" else ""
    return f"{prefix}{path}{': ' if path else ''}{problem}, got {got}{remedy}"


def check_rankings(
    rankings: Sequence[Sequence[Hashable]], length: int, *, pair: bool = False
) -> list[tuple[Hashable, ...]]:
    """Return the rankings as tuples of plain ids; raise BadInput, with the ranking and document, if one is invalid."""
    check_whole("length", length)
    if isinstance(rankings, (str, bytes)):
        raise BadInput("rankings", f"expected a sequence of rankings, got {rankings!r:.80}")
    checked = []
    for i, ranking in enumerate(rankings):
        if isinstance(ranking, (str, bytes)):
            problem = f"expected a sequence of document ids, got {ranking!r:.80}"
            raise BadInput("rankings", problem, at=f"[{i}]")
        # NumPy scalars have the same hash as Python scalars, but json cannot write them
        ids = tuple(document.item() if isinstance(document, np.generic) else document for document in ranking)
        if not ids:
            raise BadInput("rankings", "expected at least one document, got an empty ranking", at=f"[{i}]")
        check_distinct(f"rankings[{i}]", ids)
        checked.append(ids)
    if pair and len(checked) != 2:
        expected = f"this method compares exactly 2 rankings, got {len(checked)}"
        raise BadInput("rankings", expected, "use TeamDraft, Probabilistic, Optimized or SOSM for more")
    if len(checked) < 2:
        raise BadInput("rankings", f"expected at least 2 rankings to compare, got {len(checked)}")
    return checked


def check_distinct(argument: str, ids: Sequence[Hashable]) -> None:
    """Raise BadInput for the first document that occurs twice or is not a valid id."""
    seen: dict[Hashable, int] = {}
    for k, document in enumerate(ids):
        try:
            first = seen.setdefault(document, k)
        except TypeError:
            raise BadInput(f"{argument}[{k}]", f"expected a hashable document id, got {document!r}") from None
        if document != document:  # NaN
            raise BadInput(f"{argument}[{k}]", f"expected a document id, got {document!r}")
        if first != k:
            problem = f"document {document!r} occurs twice, at ranks {first + 1} and {k + 1}"
            raise BadInput(argument, problem, "remove the duplicate before interleaving")


def check_record(shown: Shown, method: str, *, n_rows: int | None = None) -> None:
    """Raise BadInput unless ``shown`` is a record of ``method`` with ``n_rows`` rows of evidence (one per ranker)."""
    if not isinstance(shown, Shown):
        raise TypeError(f"shown: expected a Shown record (see Shown.from_json), got {shown!r:.80}")
    if shown.method != method:
        problem = f"expected a record of {method!r}, got one of {shown.method!r}"
        raise BadInput("shown", problem, "credit it with the method that showed it")
    n_rows = shown.n_rankers if n_rows is None else n_rows
    if len(shown.evidence) != n_rows:
        raise BadInput("shown", f"expected {n_rows} row(s) of evidence, got {len(shown.evidence)}")


def check_clicks(clicks: ArrayLike, length: int) -> NDArray[np.bool_]:
    """Return ``clicks`` as a boolean array, one entry per shown document; raise BadInput for other input."""
    values = np.asarray(clicks)
    if values.shape != (length,):
        raise BadInput(
            "clicks",
            f"expected one entry (0 or 1) for each of the {length} shown documents, got an array of "
            f"shape {values.shape}",
        )
    bad = [click for click in values.tolist() if click not in (0, 1)]
    if bad:
        raise BadInput("clicks", f"expected 0 or 1 for each shown document, got {bad[0]!r}")
    return values.astype(bool)


def clicks_on(
    shown: Shown, method: str, clicks: ArrayLike, *, n_rows: int | None = None
) -> NDArray[np.bool_]:
    """Return the clicks on a record of ``method``; raise BadInput if record or clicks are invalid."""
    check_record(shown, method, n_rows=n_rows)
    return check_clicks(clicks, len(shown.documents))


def ranks_of(ranking: Sequence[Hashable]) -> dict[Hashable, int]:
    """Return the rank of each document, from 1."""
    return {document: k for k, document in enumerate(ranking, start=1)}


def as_rows(values: NDArray[np.float64]) -> tuple[Row, ...]:
    """Return a matrix as nested tuples, for a record."""
    return tuple(tuple(row) for row in values.tolist())


def evidence_matrix(
    shown: Shown, *, axis: int, total: float, least: float = -math.inf
) -> NDArray[np.float64]:
    """Return the evidence of a record as a matrix; raise BadInput if its sums or signs are invalid for its method."""
    if any(value is None for row in shown.evidence for value in row):
        raise BadInput("shown", f"expected numbers in the evidence of {shown.method!r}, got null")
    values = np.array(shown.evidence, dtype=np.float64)
    # sums along ``axis`` must equal ``total``, up to rounding relative to the largest number
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


def evidence_ranks(shown: Shown) -> list[list[float]]:
    """Return the ranks of a record, infinity for null; raise BadInput unless they are distinct integers from 1."""
    ranks = []
    for ranker, row in enumerate(shown.evidence):
        held = [value for value in row if value is not None]
        bad = [value for value in held if value < 1 or value != int(value)]
        if bad or len(set(held)) < len(held):
            raise BadInput(
                "shown",
                f"expected distinct ranks from 1, or null, in the evidence of ranker {ranker}, got {list(row)!r:.80}",
                "log what show() returns, unchanged",
            )
        ranks.append([math.inf if value is None else value for value in row])
    return ranks


def signs(credit: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sign of the difference in credit of each pair of rankers, (n, n)."""
    difference = credit[:, None] - credit[None, :]
    # ties are detected up to rounding: sums of the same credits in a different order may differ in the last digits
    scale = np.abs(credit).max(initial=0.0)
    return np.where(np.abs(difference) <= 1e-12 * scale, 0.0, np.sign(difference))


def share_of_largest(credit: NDArray[np.float64], n_clicks: int, largest: float) -> NDArray[np.float64]:
    """Return the difference in credit per click of each pair of rankers, as a share of its maximum.

    ``credit`` is (n_rankers,), or (n_lists, n_rankers) for lists with ``n_clicks`` clicks each.
    """
    # Division by the number of clicks and by a bound that is the same for all lists preserves a mean of zero. The mean
    # of the sign differs from zero if a ranker often wins by a little and rarely loses by much.
    difference = credit[..., :, None] - credit[..., None, :]
    if n_clicks == 0 or not largest:
        return np.zeros_like(difference)
    outcome = difference / (n_clicks * largest)
    if np.abs(outcome).max() > 1 + 1e-9:
        raise BadInput(
            "shown",
            f"expected credits that differ by at most {largest:g} per click, got {credit.tolist()!r:.80} "
            f"for {n_clicks} clicks",
            "log what show() returns, unchanged",
        )
    # sums of the same terms in a different order may differ in the last digits
    outcome[np.abs(outcome) <= 1e-12] = 0.0
    return outcome.clip(-1, 1)


def _encode(document: Hashable) -> Any:
    if document is None or isinstance(document, (bool, int, str)):
        return document
    if isinstance(document, float) and math.isfinite(document):
        return document
    if type(document) is tuple:
        # json reads an array as a list, which is not hashable
        return {"tuple": [_encode(part) for part in document]}
    raise TypeError(
        f"document {document!r}: a record can store None, bool, int, float, str and tuples of them, "
        f"not {type(document).__name__}; use string ids"
    )


def _decode(value: Any) -> Any:
    if isinstance(value, dict) and list(value) == ["tuple"] and isinstance(value["tuple"], list):
        return tuple(_decode(part) for part in value["tuple"])
    if isinstance(value, (dict, list)) or (isinstance(value, float) and not math.isfinite(value)):
        raise BadInput("shown record", f"documents: expected ids, got {value!r:.80}")
    return value
