"""Click logs as JSON Lines: one impression (a list shown once) per line.

Keys of a line; others are ignored, so a production log may have more:

=================== ======== ===================================================================================
Key                 Needed   Value
=================== ======== ===================================================================================
``shown``           yes      the record of the list: ``Shown.to_dict()``, or the string ``Shown.to_json()``
``clicks``          see left clicks in their order; ``[]``: shown and not clicked. No key or null: the feedback is
                             missing (``missing_feedback``)
``impression``      no       id of the impression, an int or a string, different each time a list is shown. Also read
                             from the record, where ``Shown.with_impression`` puts it
``rankers``         no       names of the rankers, in the order of the rankings given to ``show``
``offset``          no       documents on earlier pages of the search: the list begins at position ``offset + 1``
``same``            no       true: the rankers agreed on the list, which compares nothing: ``analyse`` leaves it out,
                             and readers of clicks count it
``among``           no       for lists of a dueling bandit: names of all its rankers, of which ``rankers`` met on this
                             list; the same in every line of a log
``query``           no       id of the query, an int or a string
``session, user``   no       ids, for clustered analysis
``query_words``     no       number of words of the query
``title_bold``      no       for each shown document, its number of bold (matched) words in the title
``abstract_bold``   no       the same in the abstract
=================== ======== ===================================================================================

A click is an object with ``rank`` (from 1) or ``document`` (its id), and optionally ``time`` (seconds, from any
start), ``dwell`` (seconds) and ``download`` (bool). If each click of a line has a time, times give the order. Times lie
between 0 and 1e11 seconds (the year 5138): larger ones are milliseconds, or damaged.

Log shippers deliver lines more than once. Two lines with one ``impression`` id that agree in the list, its evidence,
the clicks, the query, the session and the user are one impression: the first counts, the others are left out and
counted (``n_repeated``). If they do not agree, the log is refused with both lines: two impressions have the same id, or
the clicks of one impression are on several lines and have to be joined. Lines without feedback that are left out
(``missing_feedback="skip"``) are not compared, so a list may be logged when it is shown, without ``clicks``, and again
with them. Lines without an id that equal an earlier one byte for byte are counted (``n_identical``) and used: two users
may do the same.

::

    {"shown":{"version":1,"method":"team_draft","documents":["b","a"],"n_rankers":2,"evidence":[[1,0]],
     "impression":"i81f3"},"rankers":["old","new"],"query":"q7","session":"s1","user":"u3",
     "clicks":[{"rank":1,"time":2.5,"dwell":31.0}]}

(one line in the file).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from msgspec import UNSET, DecodeError, Meta, Struct, ValidationError, convert
from msgspec.json import Decoder, decode
from numpy.typing import NDArray

from structsvm.common.checks import BadInput, check_choice
from structsvm.common.files import read_blocks, replacing
from structsvm.online.interleaving.record import RecordFields, Shown, explain, restore
from structsvm.online.interleaving.team_draft import TeamDraft, check_draft

__all__ = ["Click", "ClickLog", "Impression", "read_log", "write_log"]

Id = str | int

_EXPECTED = 'expected {"shown": {...}, "clicks": [...], ...}'
_BLOCK = 1 << 20
_LONGEST = 1 << 22
"""Largest number of bytes in a line, since parsed JSON takes many times the memory of its text."""

LATEST = 1e11
"""Largest time of a click in seconds, the year 5138 of a clock that starts in 1970; larger values are milliseconds."""


class Click(NamedTuple):
    """A click on one document of a list.

    Attributes
    ----------
    rank : int
        Rank of the document in the list, from 1.
    time, dwell : float or None
        Time of the click and dwell time on the document, in seconds; None if not logged.
    download : bool or None
        Whether the click led to a download (or to what counts as one: a purchase, a play).

    Examples
    --------
    >>> Click(3, time=1.5, dwell=40.0)
    Click(rank=3, time=1.5, dwell=40.0, download=None)
    """

    rank: int
    time: float | None = None
    dwell: float | None = None
    download: bool | None = None


_SAID = ("rankers", "among", "query", "session", "user", "query_words", "title_bold", "abstract_bold")
"""Keys of a line besides the list and its clicks."""


@dataclass(frozen=True)
class Impression:
    """A list shown to a user, with the clicks on it.

    Attributes
    ----------
    shown : Shown
    clicks : tuple of Click, or None
        In their order; empty if nothing was clicked, None if the feedback is missing.
    query, session, user : str, int or None
    rankers : tuple of str
        Names of the rankers; empty if not logged.
    among : tuple of str
        Names of all rankers of the bandit that chose ``rankers``; empty without a bandit.
    query_words : int or None
    title_bold, abstract_bold : tuple of int, or None
        Bold words of each shown document.
    offset : int
        Documents on earlier pages of the search.
    same : bool
        Whether the rankers agreed on the list, which then compares nothing.

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
    among: tuple[str, ...] = ()
    offset: int = 0
    same: bool = False

    def __post_init__(self) -> None:
        for key in ("query", "session", "user"):
            _check_id(key, getattr(self, key))

    @property
    def clicked(self) -> NDArray[np.bool_]:
        """Booleans by rank, True for a clicked document, for ``Interleaver.credit``; repeated clicks count once."""
        places = np.zeros(len(self.shown.documents), dtype=bool)
        for click in self.clicks or ():
            places[click.rank - 1] = True
        return places

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of the line, without keys for missing values."""
        line: dict[str, Any] = {"shown": self.shown.to_dict()}
        for key in _SAID:
            value = getattr(self, key)
            if value is not None and value != ():
                line[key] = list(value) if isinstance(value, tuple) else value
        line |= {"offset": self.offset} if self.offset else {}
        line |= {"same": True} if self.same else {}
        if self.clicks is not None:
            line["clicks"] = [
                {key: value for key, value in click._asdict().items() if value is not None}
                for click in self.clicks
            ]
        return line

    @classmethod
    def from_dict(cls, line: Mapping[str, Any]) -> Impression:
        """Return the impression of an object of a line; raise ValueError for a fault."""
        if not isinstance(line, Mapping):
            raise ValueError(f"{_EXPECTED}, got {line!r:.80}")
        try:
            return Lines().check(convert(line, _Fields)).impression()
        except ValidationError as error:
            raise ValueError(explain(error, line)) from None


class Line(Struct, frozen=True, gc=False):
    """The validated content of a line; ``shown`` lacks the impression id and is shared by equal lists."""

    shown: Shown
    name: Id | None
    clicks: tuple[Click, ...] | None
    about: Impression | _Fields
    """All other fields: ids, names of rankers, words."""

    @classmethod
    def of(cls, one: Impression) -> Line:
        """Return the line of an impression."""
        return cls(one.shown, one.shown.impression, one.clicks, one)

    def impression(self) -> Impression:
        """Return the impression of the line."""
        about = self.about
        if isinstance(about, Impression):
            return about
        shown = self.shown if self.name is None else replace(self.shown, impression=self.name)
        return Impression(
            shown, self.clicks, about.query, about.session, about.user, about.rankers, about.query_words,
            about.title_bold, about.abstract_bold, about.among or (), about.offset, about.same,
        )  # fmt: skip

    def places(self) -> tuple[int, ...]:
        """Return the indices of the clicked documents, in ascending order."""
        if not self.clicks or len(self.clicks) == 1:
            return tuple(click.rank - 1 for click in self.clicks or ())
        return tuple(sorted({click.rank - 1 for click in self.clicks}))


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
        Names; "ranker 1", "ranker 2", ... if the log has none. For a bandit, the names of all its rankers; the
        ``rankers`` of an impression are the rankers that met.
    n_missing_feedback : int
        Lines that were left out, or used without a click, by the option of :func:`read_log`.
    n_repeated : int
        Impressions left out because their id occurred before.
    n_identical : int
        Lines without an id that equal an earlier one; they are used. They are not counted by :meth:`of`, since in a
        simulation many impressions without ids, users and times are equal.
    source : str
        Prefix of the number of an impression in errors, such as "log.jsonl:".
    numbers : tuple of int
        Line of each impression in the file (from 1), or its index in the argument of :meth:`of`.

    Examples
    --------
    >>> from structsvm.online.clicklog import Click, ClickLog, Impression
    >>> from structsvm.online.interleaving import TeamDraft
    >>> shown = TeamDraft().show([["a", "b", "c"], ["b", "d", "a"]], length=3, rng=0)
    >>> log = ClickLog.of(Impression(shown, (Click(rank),), rankers=("old", "new")) for rank in (1, 3, 1))
    >>> log.method, log.rankers, len(log.impressions)
    ('team_draft', ('old', 'new'), 3)
    """

    impressions: tuple[Impression, ...] = field(repr=False)
    method: str
    rankers: tuple[str, ...]
    n_missing_feedback: int = 0
    n_repeated: int = 0
    n_identical: int = 0
    source: str = field(default="impression ", repr=False, compare=False)
    numbers: tuple[int, ...] = field(default=(), repr=False, compare=False)

    @classmethod
    def of(cls, impressions: Iterable[Impression]) -> ClickLog:
        """Return a log of impressions; those without feedback, and repeated ones, are left out and counted."""
        collected = _Collector("impression ", "skip")
        for number, impression in enumerate(impressions):
            if not isinstance(impression, Impression):
                raise BadInput(
                    "impressions",
                    f"expected an Impression each, got {type(impression).__name__}",
                    "wrap a record, as in Impression(shown, clicks), and read a table with "
                    "structsvm.clicks.read_team_draft_table",
                    at=f"[{number}]",
                )
            collected.add(number, Line.of(impression))
        return collected.log("impressions")

    def place(self, k: int) -> str:
        """Return the origin of ``impressions[k]``: "log.jsonl:17", or "impression 16" in memory."""
        return f"{self.source}{self.numbers[k] if self.numbers else k}"


def read_log(
    path: str | Path,
    *,
    missing_feedback: str = "skip",
    max_expansion: float | None = None,
) -> ClickLog:
    """Read a click log (see the module for its format), plain or compressed by gzip, bzip2 or xz.

    Parameters
    ----------
    path : str or Path
    missing_feedback : {"skip", "no_click", "error"}
        Lines without ``clicks``: leave the impression out (correct if feedback is lost at random), use it without a
        click (correct if lists without clicks are not logged), or raise an error.
    max_expansion : float, optional
        As for :func:`structsvm.readers.read_letor`.

    Returns
    -------
    ClickLog

    Raises
    ------
    ValueError
        With file and line, for a line that is not such an object, an invalid record or click, a click on a document
        that was not shown, a change of method or rankers, and an impression id with lines that do not agree. Also for a
        log without a usable impression. Empty lines are skipped.

    Notes
    -----
    Each impression takes about 2 KB. For :func:`analyse`, :func:`read_credits` reads a large log with a twentieth of
    that memory.

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
    path = Path(path)
    collected = _Collector(f"{path}:", missing_feedback)
    reader = Lines(path)
    for lines in numbered_lines(path, max_expansion):
        for number, raw in lines:
            collected.add(number, reader.read(number, raw), raw)
    return collected.log(str(path))


def numbered_lines(path: Path, max_expansion: float | None = None) -> Iterator[list[tuple[int, bytes]]]:
    """Yield blocks of the lines that are not empty, each with its number from 1; raise BadInput if a line is too
    long."""
    number = 0
    for block in read_blocks(path, _BLOCK, max_expansion=max_expansion):
        raws = block.tobytes().removesuffix(b"\n").split(b"\n")
        lines = list(enumerate(raws, number + 1))
        number += len(raws)
        if max(map(len, raws)) > _LONGEST:
            longest, raw = next((at, raw) for at, raw in lines if len(raw) > _LONGEST)
            raise BadInput(
                f"{path}:{longest}",
                f"expected one list and its clicks per line, got {len(raw):,} bytes, more than {_LONGEST:,}",
                "is this a click log?",
            )
        if not all(map(bytes.strip, raws)):
            lines = [(at, raw) for at, raw in lines if raw.strip()]
        yield lines


_Seconds = Annotated[int, Meta(ge=0, le=int(LATEST))] | Annotated[float, Meta(ge=0, le=LATEST)]
_Count = Annotated[int, Meta(ge=0, le=10**9)]


class _ClickFields(Struct, gc=False):
    rank: Annotated[int, Meta(ge=1)] | None = None
    document: Any = UNSET
    time: _Seconds | None = None
    dwell: _Seconds | None = None
    download: bool | None = None


class _Fields(Struct, gc=False):
    """The JSON of a line; other keys are ignored."""

    shown: RecordFields | str
    clicks: list[_ClickFields] | None = None
    impression: Id | None = None
    query: Id | None = None
    session: Id | None = None
    user: Id | None = None
    rankers: tuple[str, ...] = ()
    among: tuple[str, ...] | None = None
    query_words: Annotated[int, Meta(ge=1, le=10**9)] | None = None
    title_bold: tuple[_Count, ...] | None = None
    abstract_bold: tuple[_Count, ...] | None = None
    offset: _Count = 0
    same: bool = False


class Lines:
    """Parser of the lines of a log; the record of a list that is shown often is checked once."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._decode = Decoder(_Fields).decode
        self._known: dict[tuple[Any, ...], Shown] = {}
        self._size = 0
        self._rankers: tuple[str, ...] = ()

    def read(self, number: int, raw: bytes) -> Line:
        """Return a line; raise BadInput with file and line for a fault."""
        # msgspec parses and checks types at once; its errors are explained only when there is one
        try:
            return self.check(self._decode(raw))
        except ValidationError as error:
            problem = _explained(raw, error)
        except (UnicodeDecodeError, DecodeError, RecursionError) as error:
            problem = _no_json(raw, error)
        except ValueError as error:
            problem = str(error)
        raise BadInput(f"{self.path}:{number}", f"{problem}") from None

    def check(self, fields: _Fields) -> Line:
        """Return the line of these fields; raise BadInput if they contradict each other."""
        # The id of the impression may be on the line or in the record. It is stored separately, so that all impressions
        # of one list share its record.
        if isinstance(fields.shown, str):
            shown = Shown.from_json(fields.shown)
            name = shown.impression
            shown = replace(shown, impression=None)
            _check_shown(shown)
        else:
            name = fields.shown.impression
            shown = self._shown(fields.shown)
        if fields.impression is not None:
            if name is not None and (type(fields.impression), fields.impression) != (type(name), name):
                raise BadInput(
                    "impression",
                    f"expected one id, got {fields.impression!r:.80} on the line and {name!r:.80} in the record",
                    "log one of them",
                )
            name = fields.impression
        for key, value in (("query", fields.query), ("session", fields.session), ("user", fields.user)):
            if type(value) is str and "\0" in value:
                _check_id(key, value)
        clicks = None if fields.clicks is None else _clicks(fields.clicks, shown)
        # names are the same on most lines and checked only when they change
        rankers = fields.rankers
        if rankers and (rankers != self._rankers or len(rankers) != shown.n_rankers):
            _check_names("rankers", tuple(set(rankers)) if fields.same else rankers)
            if len(rankers) != shown.n_rankers:
                raise BadInput("rankers", f"expected {shown.n_rankers} different names, got {rankers!r:.80}")
            self._rankers = () if fields.same else rankers
        if fields.among is not None:
            _check_names("among", fields.among)
            if not fields.rankers or not set(fields.rankers) <= set(fields.among):
                raise BadInput(
                    "among", f"expected the names of 'rankers' among them, got {fields.among!r:.80}"
                )
        n = len(shown.documents)
        for key, counts in (("title_bold", fields.title_bold), ("abstract_bold", fields.abstract_bold)):
            if counts is not None and len(counts) != n:
                raise BadInput(key, f"expected {n} counts, one per document, got {counts!r:.80}")
        fields.shown, fields.clicks = "", None  # the line has them, checked
        return Line(shown, name, clicks, fields)

    def _shown(self, record: RecordFields) -> Shown:
        record.impression = None
        documents = record.documents
        if set(map(type, documents)) not in _PLAIN:  # 1, 1.0 and true would be one key
            return _check_shown(restore(record))
        key = (record.method, record.n_rankers, documents, record.evidence, record.slack)
        shown = self._known.get(key)
        if shown is None:
            shown = _check_shown(restore(record))
            self._size += len(documents) * (1 + len(record.evidence))
            if self._size > _ENTRIES_KEPT:
                self._known.clear()
                self._size = 0
            self._known[key] = shown
        return shown


_PLAIN: tuple[set[type], ...] = ({str}, {int})
_ENTRIES_KEPT = 1 << 20
"""Largest number of documents and of numbers in known records, some 50 MB."""


def _check_shown(shown: Shown) -> Shown:
    if shown.method == TeamDraft.name:
        check_draft(shown)
    return shown


def _check_names(key: str, names: tuple[str, ...]) -> None:
    if len(set(names)) != len(names) or not all(map(str.isprintable, names)):
        raise BadInput(key, f"expected different, printable names, got {names!r:.80}")


def _explained(raw: bytes, error: ValidationError) -> str:
    """Return the fault of a line, which may also be invalid JSON after the invalid value."""
    if raw.lstrip()[:1] != b"{":
        return f"{_EXPECTED}, got {_start(raw)}"
    try:
        return explain(error, decode(raw))
    except (UnicodeDecodeError, DecodeError, RecursionError) as broken:
        return _no_json(raw, broken)


def _no_json(raw: bytes, error: Exception) -> str:
    """Return the fault of bytes that are not JSON."""
    try:
        raw.decode()
    except UnicodeDecodeError as wrong:
        return f"expected UTF-8, got {raw[:60]!r} ({wrong.reason})"
    why = "too many brackets" if isinstance(error, RecursionError) else str(error)
    table = not raw.lstrip().startswith((b"{", b"[")) and (b"," in raw or b"\t" in raw)
    reader = "; a table of team-draft lists is read by structsvm.clicks.read_team_draft_table"
    return f"expected one JSON object per line, got {_start(raw)} ({why}){reader if table else ''}"


def _start(raw: bytes) -> str:
    return repr(raw.decode(errors="replace").strip()[:60])


def write_log(path: str | Path, impressions: Iterable[Impression]) -> None:
    """Write impressions as a log for :func:`read_log`; the file appears complete or not at all.

    Raises
    ------
    TypeError
        If JSON cannot represent a document id.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from structsvm.online.interleaving import TeamDraft
    >>> rng = np.random.default_rng(0)
    >>> lists = [TeamDraft().show([["a", "b"], ["b", "c"]], length=2, rng=rng) for _ in range(3)]
    >>> shown = [Impression(one, (Click(1),), query="q", rankers=("old", "new")) for one in lists]
    >>> with TemporaryDirectory() as folder:
    ...     write_log(f"{folder}/log.jsonl", shown)
    ...     log = read_log(f"{folder}/log.jsonl")
    >>> log.rankers, len(log.impressions)
    (('old', 'new'), 3)
    """
    with replacing(Path(path)) as file:
        for impression in impressions:
            line = impression.to_dict()
            text = json.dumps(line, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            file.write(text.encode() + b"\n")


class Header:
    """Method and rankers of a log, which are the same for all impressions, and the number of impressions without
    feedback."""

    def __init__(self, source: str, missing_feedback: str) -> None:
        check_choice("missing_feedback", missing_feedback, ("skip", "no_click", "error"))
        self.source, self.missing_feedback = source, missing_feedback
        self.found: tuple[str, int, tuple[str, ...]] | None = None
        self.is_duels = False
        """Whether a bandit chose the rankers of each list."""
        self.n_missing = 0

    def admit(self, number: int, line: Line) -> bool:
        """Return whether to use the impression; raise BadInput if it belongs to another experiment or lacks
        feedback."""
        shown, among = line.shown, line.about.among or ()
        found = (shown.method, len(among) or shown.n_rankers, among or line.about.rankers)
        if self.found is None:
            self.found = found
            self.is_duels = bool(among)
        elif found != self.found or bool(among) != self.is_duels:
            problem = f"expected {_described(self.found)}, as before, got {_described(found)}"
            raise BadInput(f"{self.source}{number}", problem, "one log holds one experiment")
        if line.clicks is None:
            if self.missing_feedback == "error":
                problem = "expected 'clicks', got none"
                raise BadInput(f"{self.source}{number}", problem, "[] means that nothing was clicked")
            self.n_missing += 1
            return self.missing_feedback != "skip"
        return True

    def names(self, origin: str, n_used: int) -> tuple[str, ...]:
        """Return the names of the rankers; raise BadInput if no impression was used."""
        if not n_used or self.found is None:
            left = f" ({self.n_missing} without feedback)" if self.n_missing else ""
            raise BadInput(origin, f"expected impressions with feedback, got none{left}")
        _, n_rankers, rankers = self.found
        return rankers or tuple(f"ranker {i + 1}" for i in range(n_rankers))


def said(line: Line) -> tuple[Any, ...]:
    """Return the fields in which two lines with one impression id must agree."""
    shown, about = line.shown, line.about
    ids = (about.query, about.session, about.user)
    return (shown.documents, shown.evidence, line.clicks or (), about.offset, *ids)


def refuse_disagreement(source: str, first: int, second: int, impression: str) -> None:
    """Raise BadInput for two lines with one id that do not agree."""
    origin = source.removesuffix(":") if source.endswith(":") else "impressions"
    raise BadInput(
        f"{source}{second}",
        f"expected the impression {impression} as at {origin}:{first}, got other clicks, another "
        f"list, query, session or user",
        "give every impression its own id, and log its clicks in one line",
    )


class _Collector:
    """Builds a log of impressions, each checked against the first impression and against earlier ones with the same
    id."""

    def __init__(self, source: str, missing_feedback: str) -> None:
        self.source = source
        self.header = Header(source, missing_feedback)
        self.impressions: list[Impression] = []
        self.numbers: list[int] = []
        self.index_of: dict[tuple[type, Id], int] = {}
        self.lines: set[int] = set()
        """Hashes of the lines without an id."""
        self.n_repeated = self.n_identical = 0

    def add(self, number: int, line: Line, raw: bytes | None = None) -> None:
        if not self.header.admit(number, line):
            return
        # the first impression of an id is kept; later ones have to agree with it
        name = line.name
        if name is not None:
            # types too: to Python, 1 == True
            index = self.index_of.setdefault((type(name), name), len(self.impressions))
            if index < len(self.impressions):
                if said(line) != said(Line.of(self.impressions[index])):
                    refuse_disagreement(self.source, self.numbers[index], number, f"{name!r:.80}")
                self.n_repeated += 1
                return
        elif raw is not None:
            text = hash(raw.rstrip(b"\r"))
            self.n_identical += text in self.lines
            self.lines.add(text)
        self.impressions.append(line.impression())
        self.numbers.append(number)

    def log(self, origin: str) -> ClickLog:
        names = self.header.names(origin, len(self.impressions))
        return ClickLog(
            tuple(self.impressions),
            self.impressions[0].shown.method,
            names,
            self.header.n_missing,
            self.n_repeated,
            self.n_identical,
            self.source,
            tuple(self.numbers),
        )


def _described(found: tuple[str, int, tuple[str, ...]]) -> str:
    method, n_rankers, rankers = found
    of = ", ".join(rankers) if rankers else f"{n_rankers} unnamed rankers"
    return f"{method:.80} of {of:.200}"


def _check_id(key: str, value: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise BadInput(key, f"expected a string or an integer, got {value!r:.80}")
    # NumPy drops NUL at the end of a string, and two ids may become one
    if isinstance(value, str) and "\0" in value:
        raise BadInput(key, f"expected an id without NUL, got {value!r:.80}")


_new = tuple.__new__  # faster than Click(...), a Python function


def _clicks(given: list[_ClickFields], shown: Shown) -> tuple[Click, ...]:
    """Return the clicks by rank, in the order of their times if all have one."""
    clicks, n = [], len(shown.documents)
    for i, click in enumerate(given):
        rank = click.rank
        if (rank is None) == (click.document is UNSET):
            raise BadInput(f"clicks[{i}]", "expected an object with either 'rank' or 'document'")
        if rank is None:
            rank = 1 + _place_of(click.document, shown, i)
        elif rank > n:
            raise BadInput(f"clicks[{i}].rank", f"expected 1 to {n}, got {rank}")
        clicks.append(_new(Click, (rank, click.time, click.dwell, click.download)))
    if len(clicks) > 1 and all(click.time is not None for click in clicks):
        clicks.sort(key=lambda click: click.time or 0.0)
    return tuple(clicks)


def _place_of(document: Any, shown: Shown, i: int) -> int:
    # documents that JSON cannot represent as such are compared in their encoded form
    encoded = shown.to_dict()["documents"] if isinstance(document, dict) else shown.documents
    # types too: to Python, 1 == True
    for k, one in enumerate(encoded):
        if one == document and type(one) is type(document):
            return k
    problem = f"document {document!r:.80} is not among those shown: {shown.to_dict()['documents']!r:.200}"
    raise BadInput(f"clicks[{i}]", problem)
