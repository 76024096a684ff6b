"""Record of a shown list, as an object and as JSON, with everything that its method needs to credit clicks later."""

import json
import math
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Self

import numpy as np
from msgspec import DecodeError, Meta, Struct, ValidationError, convert
from msgspec.json import decode
from msgspec.structs import replace
from numpy.typing import ArrayLike, NDArray

from structsvm.common.checks import BadInput

VERSION = 1
"""Version of the record format. Other versions are refused, since their clicks are credited by different rules."""

LARGEST = 1e12
"""Largest number allowed in a record, so that sums do not overflow; valid ranks and credits are much smaller."""

MAX_RANKERS = 1000
"""Largest number of rankers in a record; outcomes take memory for each pair of rankers."""

Row = tuple[float | int | None, ...]
_Number = Annotated[int, Meta(ge=-(10**12), le=10**12)] | Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
_Count = Annotated[int, Meta(ge=0, le=10**9)]


class Shown(Struct, frozen=True, gc=False):
    """Record of a list shown to a user, with everything that its method needs to credit clicks.

    The record has one form, in a line of a log, in the store of the live service and in its exports: the JSON object of
    :meth:`to_dict`.

    Attributes
    ----------
    method : str
        Name of the method that merged the list; only this method can credit its clicks.
    documents : tuple
        Document ids, in the order shown.
    n_rankers : int
        Number of rankings that were merged.
    evidence : tuple of tuples, one entry per document in each
        If the method is by teams, as team draft is, one row with the index of the ranker that contributed each
        document, or None for no ranker. Otherwise a row per ranker, whose entries the class of the method describes.
    slack : float
        Largest violation of the fairness constraints by the distribution of lists; 0 unless the method is
        ``"optimized"`` and its linear program has no solution.
    impression : str, int or None
        Id of this impression, set by :meth:`with_impression`. Later lines of a log with the same id are repeats and do
        not count.
    offset : int
        Number of documents on earlier pages of the search; the list begins at rank ``offset + 1``.
    arms : tuple of int, or None
        For a list that a bandit requested: the indices of the merged rankers among all its rankers.
    note : object
        Note of the bandit on this duel, as in :class:`structsvm.protocols.Duel`.
    version : int
        Version of the record format.

    Examples
    --------
    >>> from structsvm.online.interleaving import TeamDraft
    >>> shown = TeamDraft().show([["a", "b", "c"], ["b", "d", "a"]], length=3, rng=0)
    >>> Shown.from_json(shown.to_json()) == shown
    True
    """

    method: str
    documents: Annotated[tuple[Any, ...], Meta(min_length=1)]
    n_rankers: Annotated[int, Meta(ge=2, le=MAX_RANKERS)]
    evidence: Annotated[tuple[tuple[_Number | None, ...], ...], Meta(min_length=1)]
    slack: _Number = 0.0
    impression: str | int | None = None
    offset: _Count = 0
    arms: tuple[_Count, ...] | None = None
    note: Any = None
    version: Annotated[int, Meta(ge=VERSION, le=VERSION)] = VERSION

    def with_impression(self, impression: str | int) -> Self:
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
            "version": self.version,
            "method": self.method,
            "documents": [_encode(document) for document in self.documents],
            "n_rankers": self.n_rankers,
            "evidence": [list(row) for row in self.evidence],
            "slack": self.slack,
        }
        for name in ("impression", "arms", "note"):
            if (value := getattr(self, name)) is not None:
                record[name] = list(value) if name == "arms" else value
        return record | {"offset": self.offset} if self.offset else record

    def to_json(self) -> str:
        """Return the record as one line of JSON; numbers are written with full precision, and ids keep their type."""
        return to_json(self.to_dict())

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "Shown":
        """Return the record that :meth:`to_dict` returned; raise ValueError, with the reason, for any other input."""
        try:
            return convert(record, Shown).checked()
        except ValidationError as error:
            raise ValueError(explain(error, record, "shown record: ")) from None

    @classmethod
    def from_json(cls, text: str) -> "Shown":
        """Return the record that :meth:`to_json` returned; raise ValueError, with the reason, for any other input."""
        try:
            try:
                return decode(text, type=Shown).checked()
            except ValidationError as error:
                # the text after the invalid value may not be JSON, which is reported first
                raise ValueError(explain(error, decode(text), "shown record: ")) from None
        except (DecodeError, RecursionError) as error:
            raise BadInput("shown record", f"expected one line of JSON, got {text!r:.80} ({error})") from None

    def checked(self) -> Self:
        """Return a decoded record with its document ids restored; raise BadInput if its fields are inconsistent."""
        if not self.method.isprintable():
            raise BadInput("shown record", f"method: expected a printable string, got {self.method!r:.80}")
        # msgspec has checked types and ranges; check lengths and ids
        n, ids = len(self.documents), self.documents
        for i, row in enumerate(self.evidence):
            if len(row) != n:
                raise BadInput(
                    "shown record",
                    f"evidence[{i}]: expected an entry for each of {n} documents, got {list(row)!r:.80}",
                )
        # strings are plain ids; other types may be encoded tuples or invalid ids
        if set(map(type, ids)) != {str}:
            ids = tuple(map(_decode, ids))
        if len(set(ids)) < n:
            check_distinct("shown record: documents", ids)
        if ids is self.documents and type(self.slack) is float:
            return self
        return replace(self, documents=ids, slack=float(self.slack))


to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
"""Function that writes a record, or a line that contains one, as JSON."""


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
            raise BadInput(
                argument,
                f"document {document!r} occurs twice, at ranks {first + 1} and {k + 1}",
                "remove the duplicate before interleaving",
            )


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


def _decode(value: object) -> Any:
    if isinstance(value, dict) and list(value) == ["tuple"] and isinstance(value["tuple"], list):
        return tuple(_decode(part) for part in value["tuple"])
    if isinstance(value, (dict, list)) or (isinstance(value, float) and not math.isfinite(value)):
        raise BadInput("shown record", f"documents: expected ids, got {value!r:.80}")
    return value
