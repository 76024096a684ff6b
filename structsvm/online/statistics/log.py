"""Click logs of interleaving: JSON Lines, one impression (a list shown once) a line.

The keys of a line; others are ignored, so a production log may carry more:

=================== ======== ===================================================================================
Key                 Needed   Value
=================== ======== ===================================================================================
``shown``           yes      the record of the list: ``Shown.to_dict()``, or the string ``Shown.to_json()``
``clicks``          see left clicks in the order they were made; ``[]``: shown and not clicked. No key or null:
                             the feedback is missing, which is another thing (``missing_feedback``)
``rankers``         no       names of the rankers, in the order of the rankings given to ``show``
``query``           no       id of the query, an int or a string
``session, user``   no       ids, for clustered analysis
``query_words``     no       number of words of the query
``title_bold``      no       for each shown document, its number of bold (matched) words in the title
``abstract_bold``   no       the same in the abstract
=================== ======== ===================================================================================

A click is an object with ``rank`` (from 1) or ``document`` (its id), and where known ``time`` (seconds, from any
start), ``dwell`` (seconds) and ``download`` (bool). Where every click of a line has a time, times tell the order.

::

    {"shown":{"version":1,"method":"team_draft","documents":["b","a"],"n_rankers":2,"evidence":[[1,0]],"slack":0.0},
     "rankers":["old","new"],"query":"q7","session":"s1","user":"u3","clicks":[{"rank":1,"time":2.5,"dwell":31.0}]}

(one line in the file).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structsvm.files import read_blocks, replacing
from structsvm.online.interleaving.shown import Shown

__all__ = ["Click", "ClickLog", "Impression", "read_log", "write_log"]

Id = str | int

_EXPECTED = 'expected {"shown": {...}, "clicks": [...], ...}'
_BLOCK = 1 << 22


class Click(NamedTuple):
    """A click on one document of a list.

    Attributes
    ----------
    rank : int
        Place of the document in the list, from 1.
    time, dwell : float or None
        When, and how long the user stayed, in seconds; None where not logged.
    download : bool or None
        Whether the click led to a download (or to what counts as one: a purchase, a play).
    """

    rank: int
    time: float | None = None
    dwell: float | None = None
    download: bool | None = None


@dataclass(frozen=True)
class Impression:
    """One list shown to one user, and what was clicked.

    Attributes
    ----------
    shown : Shown
    clicks : tuple of Click, or None
        In the order they were made; empty where nothing was clicked, None where nobody knows.
    query, session, user : str, int or None
    rankers : tuple of str
        Names of the rankers; empty where not logged.
    query_words : int or None
    title_bold, abstract_bold : tuple of int, or None
        Bold words of each shown document.

    Examples
    --------
    >>> shown = Shown("team_draft", ("b", "a", "c"), 2, ((1, 0, 1),))
    >>> impression = Impression(shown, (Click(3), Click(1)), user="u1")
    >>> impression.clicked
    array([ True, False,  True])
    >>> Impression.from_dict(impression.to_dict()) == impression
    True
    """

    shown: Shown
    clicks: tuple[Click, ...] | None
    query: Id | None = None
    session: Id | None = None
    user: Id | None = None
    rankers: tuple[str, ...] = ()
    query_words: int | None = None
    title_bold: tuple[int, ...] | None = None
    abstract_bold: tuple[int, ...] | None = None

    @property
    def clicked(self) -> NDArray[np.bool_]:
        """True for each clicked place, as ``Interleaver.credit`` takes it; repeated clicks count once."""
        places = np.zeros(len(self.shown.documents), dtype=bool)
        for click in self.clicks or ():
            places[click.rank - 1] = True
        return places

    def to_dict(self) -> dict[str, Any]:
        """The object of one line; what is not known is left out."""
        line: dict[str, Any] = {"shown": self.shown.to_dict()}
        if self.rankers:
            line["rankers"] = list(self.rankers)
        for key in ("query", "session", "user", "query_words"):
            if getattr(self, key) is not None:
                line[key] = getattr(self, key)
        for key in ("title_bold", "abstract_bold"):
            if getattr(self, key) is not None:
                line[key] = list(getattr(self, key))
        if self.clicks is not None:
            line["clicks"] = [
                {key: value for key, value in click._asdict().items() if value is not None}
                for click in self.clicks
            ]
        return line

    @classmethod
    def from_dict(cls, line: Mapping[str, Any]) -> Impression:
        """The inverse of :meth:`to_dict`; ValueError says what is wrong, KeyError that ``shown`` is missing."""
        if not isinstance(line, Mapping):
            raise ValueError(f"{_EXPECTED}, got {line!r:.80}")
        record = line.get("shown")
        if record is None:
            raise KeyError("shown")
        shown = Shown.from_json(record) if isinstance(record, str) else Shown.from_dict(record)
        n = len(shown.documents)
        clicks = line.get("clicks")
        if clicks is not None and not isinstance(clicks, list):
            raise ValueError(f"clicks: expected a list of clicks or null, got {clicks!r:.80}")
        rankers = line.get("rankers", [])
        if not isinstance(rankers, list) or not all(isinstance(name, str) for name in rankers):
            raise ValueError(f"rankers: expected a list of names, got {rankers!r:.80}")
        if rankers and (len(rankers) != shown.n_rankers or len(set(rankers)) != len(rankers)):
            raise ValueError(f"rankers: expected {shown.n_rankers} different names, got {rankers!r:.80}")
        words = line.get("query_words")
        if words is not None and (type(words) is not int or words < 1):
            raise ValueError(f"query_words: expected an integer >= 1, got {words!r:.80}")
        return cls(
            shown=shown,
            clicks=None if clicks is None else _clicks(clicks, shown),
            query=_id(line, "query"),
            session=_id(line, "session"),
            user=_id(line, "user"),
            rankers=tuple(rankers),
            query_words=words,
            title_bold=_counts(line, "title_bold", n),
            abstract_bold=_counts(line, "abstract_bold", n),
        )


@dataclass(frozen=True)
class ClickLog:
    """The impressions of one experiment: one method, one set of rankers.

    Build it with :func:`read_log` or :meth:`of`.

    Attributes
    ----------
    impressions : tuple of Impression
        All with feedback.
    method : str
        The interleaving method of every record.
    rankers : tuple of str
        Names; "ranker 1", "ranker 2", ... where the log has none.
    n_missing_feedback, n_missing_record : int
        Lines that were left out (or, for feedback, taken as no click) by the policies of :func:`read_log`.
    source : str
        What stands before the number of an impression where an error says which: "log.jsonl:".
    numbers : tuple of int
        Of each impression: its line in the file (from 1), or its place in what :meth:`of` was given (from 0).
    """

    impressions: tuple[Impression, ...] = field(repr=False)
    method: str
    rankers: tuple[str, ...]
    n_missing_feedback: int = 0
    n_missing_record: int = 0
    source: str = field(default="impression ", repr=False, compare=False)
    numbers: tuple[int, ...] = field(default=(), repr=False, compare=False)

    @classmethod
    def of(cls, impressions: Iterable[Impression]) -> ClickLog:
        """A log of impressions in memory; those without feedback are left out and counted.

        Raises
        ------
        ValueError
            If none is left, or they are of different methods or rankers.
        """
        collected = _Collector("impression ", "skip")
        for number, impression in enumerate(impressions):
            collected.add(number, impression)
        return collected.log("impressions", 0)

    def place(self, k: int) -> str:
        """Where ``impressions[k]`` came from: "log.jsonl:17", or "impression 16" of those in memory."""
        return f"{self.source}{self.numbers[k] if self.numbers else k}"

    def clusters(self, by: str) -> list[Id]:
        """The ``user`` or ``session`` of every impression.

        Raises
        ------
        ValueError
            If ``by`` is neither, or an impression has none.
        """
        if by not in ("user", "session"):
            raise ValueError(f"cluster: expected 'user' or 'session', got {by!r}")
        ids = [getattr(impression, by) for impression in self.impressions]
        if None in ids:
            raise ValueError(
                f"cluster: expected a {by!r} in every impression, {self.place(ids.index(None))} has none; "
                "analyse without clusters, or log the id"
            )
        return ids


def read_log(path: str | Path, *, missing_record: str = "error", missing_feedback: str = "skip") -> ClickLog:
    """Read a click log (the module says how it looks), plain or compressed by gzip, bzip2 or xz.

    Parameters
    ----------
    path : str or Path
    missing_record : {"error", "skip"}
        A line without ``shown`` cannot be credited: say so, or count it and go on.
    missing_feedback : {"skip", "no_click", "error"}
        A line without ``clicks``: leave the impression out (right where feedback gets lost by chance), take it
        as a list nobody clicked (right where clicks are logged only when there are some), or refuse.

    Returns
    -------
    ClickLog

    Raises
    ------
    ValueError
        With file and line: a line that is not such an object, a record or click that does not hold, a click on
        a document that was not shown, another method or other rankers than in the lines before. Empty lines
        are passed over; a log without a usable impression is refused.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> line = ('{"shown": {"version": 1, "method": "team_draft", "documents": ["b", "a"], "n_rankers": 2, '
    ...         '"evidence": [[1, 0]], "slack": 0}, "clicks": [{"document": "a"}]}')
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "log.jsonl"
    ...     _ = path.write_text(line)
    ...     log = read_log(path)
    >>> log.method, log.impressions[0].clicks[0].rank
    ('team_draft', 2)
    """
    for name, value, known in (
        ("missing_record", missing_record, ("error", "skip")),
        ("missing_feedback", missing_feedback, ("skip", "no_click", "error")),
    ):
        if value not in known:
            raise ValueError(f"{name}: expected one of {', '.join(known)}, got {value!r}")
    path = Path(path)
    collected = _Collector(f"{path}:", missing_feedback)
    number = n_missing_record = 0
    for block in read_blocks(path, _BLOCK):
        for raw in block.tobytes().removesuffix(b"\n").split(b"\n"):
            number += 1
            if not raw.strip():
                continue
            try:
                collected.add(number, Impression.from_dict(_parse(raw)))
            except KeyError:
                if missing_record == "error":
                    raise ValueError(
                        f"{path}:{number}: {_EXPECTED}, got no 'shown': the record of the list is missing; "
                        'log it with the impression, or pass missing_record="skip"'
                    ) from None
                n_missing_record += 1
            except _Placed:
                raise
            except ValueError as error:
                raise ValueError(f"{path}:{number}: {error}") from None
    return collected.log(str(path), n_missing_record)


def write_log(path: str | Path, impressions: Iterable[Impression]) -> None:
    """Write impressions as a log that :func:`read_log` reads; it appears complete or not at all.

    Raises
    ------
    TypeError
        If a document id is nothing that JSON keeps.
    """
    with replacing(Path(path)) as file:
        for impression in impressions:
            text = json.dumps(
                impression.to_dict(), ensure_ascii=False, allow_nan=False, separators=(",", ":")
            )
            file.write(text.encode() + b"\n")


class _Placed(ValueError):
    """An error that already says where it is."""


class _Collector:
    """Impressions one by one, checked against the first."""

    def __init__(self, source: str, missing_feedback: str) -> None:
        self.source, self.missing_feedback = source, missing_feedback
        self.impressions: list[Impression] = []
        self.numbers: list[int] = []
        self.first: tuple[str, int, tuple[str, ...]] | None = None
        self.n_missing = 0

    def add(self, number: int, impression: Impression) -> None:
        shown = impression.shown
        found = (shown.method, shown.n_rankers, impression.rankers)
        if self.first is None:
            self.first = found
        elif found != self.first:
            raise _Placed(
                f"{self.source}{number}: expected {_say(self.first)}, as before, got {_say(found)}; "
                "one log holds one experiment"
            )
        if impression.clicks is None:
            if self.missing_feedback == "error":
                raise _Placed(
                    f"{self.source}{number}: expected 'clicks', got none; [] says that nothing was clicked"
                )
            self.n_missing += 1
            if self.missing_feedback == "skip":
                return
        self.impressions.append(impression)
        self.numbers.append(number)

    def log(self, place: str, n_missing_record: int) -> ClickLog:
        if not self.impressions or self.first is None:
            left = (f" ({self.n_missing} without feedback)" if self.n_missing else "") + (
                f" ({n_missing_record} without a record)" if n_missing_record else ""
            )
            raise ValueError(f"{place}: expected impressions with feedback, got none{left}")
        method, n_rankers, rankers = self.first
        names = rankers or tuple(f"ranker {i + 1}" for i in range(n_rankers))
        return ClickLog(
            tuple(self.impressions),
            method,
            names,
            self.n_missing,
            n_missing_record,
            self.source,
            tuple(self.numbers),
        )


def _say(found: tuple[str, int, tuple[str, ...]]) -> str:
    method, n_rankers, rankers = found
    return f"{method} of {', '.join(rankers) if rankers else f'{n_rankers} unnamed rankers'}"


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"expected finite numbers, got {name}")


def _parse(raw: bytes) -> Any:
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"expected UTF-8, got {raw[:60]!r} ({error.reason})") from None
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (json.JSONDecodeError, RecursionError) as error:
        why = getattr(error, "msg", "too many brackets")
        raise ValueError(f"expected one JSON object a line, got {text.strip()[:60]!r} ({why})") from None


def _id(line: Mapping[str, Any], key: str) -> Id | None:
    value = line.get(key)
    if value is not None and (isinstance(value, bool) or not isinstance(value, (str, int))):
        raise ValueError(f"{key}: expected a string or an integer, got {value!r:.80}")
    return value


def _counts(line: Mapping[str, Any], key: str, n: int) -> tuple[int, ...] | None:
    value = line.get(key)
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != n or any(type(v) is not int or v < 0 for v in value):
        raise ValueError(f"{key}: expected {n} counts, one a shown document, got {value!r:.80}")
    return tuple(value)


def _clicks(values: Sequence[Any], shown: Shown) -> tuple[Click, ...]:
    clicks = [_click(f"clicks[{i}]", value, shown) for i, value in enumerate(values)]
    if all(click.time is not None for click in clicks):
        clicks.sort(key=lambda click: click.time or 0.0)
    return tuple(clicks)


def _click(place: str, value: Any, shown: Shown) -> Click:
    if not isinstance(value, Mapping) or ("rank" in value) == ("document" in value):
        raise ValueError(f"{place}: expected an object with either 'rank' or 'document', got {value!r:.80}")
    if "rank" in value:
        rank = value["rank"]
        if type(rank) is not int or not 1 <= rank <= len(shown.documents):
            raise ValueError(f"{place}: rank: expected 1 to {len(shown.documents)}, got {rank!r:.80}")
    else:
        document = value["document"]
        encoded = shown.to_dict()["documents"]
        # types too: to Python, 1 == True
        same = [k for k, d in enumerate(encoded) if d == document and type(d) is type(document)]
        if not same:
            raise ValueError(f"{place}: document {document!r:.80} is not among those shown: {encoded!r:.200}")
        rank = same[0] + 1
    times = {}
    for key in ("time", "dwell"):
        number = value.get(key)
        if number is not None and (
            isinstance(number, bool)
            or not isinstance(number, (int, float))
            or not math.isfinite(number)
            or (key == "dwell" and number < 0)
        ):
            raise ValueError(f"{place}: {key}: expected a number of seconds, got {number!r:.80}")
        times[key] = number
    download = value.get("download")
    if download is not None and not isinstance(download, bool):
        raise ValueError(f"{place}: download: expected true or false, got {download!r:.80}")
    return Click(rank, times["time"], times["dwell"], download)
