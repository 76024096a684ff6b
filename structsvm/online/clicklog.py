"""Click logs as JSON Lines: one impression (a list shown once) per line.

A line has the following keys; other keys are ignored, so a production log may contain more:

=================== ======== ===================================================================================
Key                 Needed   Value
=================== ======== ===================================================================================
``shown``           yes      the record of the list: ``Shown.to_dict()``, or the string ``Shown.to_json()``
``clicks``          no       clicks in their order; ``[]`` if nothing was clicked. Without the key, or with null, the
                             feedback is missing (``missing_feedback``)
``impression``      no       id of the impression, an int or a string, unique for each display of a list; it may
                             be part of the record instead (``Shown.with_impression``)
``rankers``         no       names of the rankers, in the order of the rankings given to ``show``
``offset``          no       number of documents on earlier pages; the list begins at rank ``offset + 1``. It may be
                             part of the record instead, where :func:`write_log` writes it
``same``            no       true if the rankers agreed on the list, so that its clicks compare no rankers: ``analyse``
                             omits the impression, and ``structsvm.clicks`` uses it
``among``           no       in the log of a dueling bandit: the names of all its rankers, the same in every line;
                             ``rankers`` are those compared by this list
``query``           no       id of the query, an int or a string
``session, user``   no       ids, for clustered analysis
``query_words``     no       number of words of the query
``title_bold``      no       for each shown document, its number of bold (matched) words in the title
``abstract_bold``   no       for each shown document, its number of bold words in the abstract
=================== ======== ===================================================================================

A click is an object with ``rank`` (from 1) or ``document`` (its id), and optionally ``time`` (seconds, from any
start), ``dwell`` (seconds) and ``download`` (bool). If each click of a line has a time, the clicks are sorted by time.
Times are between 0 and 1e11 seconds (the year 5138); larger values are refused, since they are in milliseconds or
corrupted.

Log shippers may deliver a line more than once. Lines with the same ``impression`` id that agree in the list, its
evidence, the clicks, the query, the session and the user are one impression: the first line is used, and the others are
counted (``n_repeated``). If the lines do not agree, the log is refused, with the numbers of both lines: either two
impressions have the same id, or the clicks of one impression are on several lines and have to be merged. Lines without
feedback that are left out (``missing_feedback="skip"``) are not compared, so a list may be logged without ``clicks``
when it is shown, and again with its clicks. Lines without an id that are identical to an earlier line are counted
(``n_identical``) and used, since two users may see the same list and click the same documents.

::

    {"shown":{"version":1,"method":"team_draft","documents":["b","a"],"n_rankers":2,"evidence":[[1,0]],
     "impression":"i81f3"},"rankers":["old","new"],"query":"q7","session":"s1","user":"u3",
     "clicks":[{"rank":1,"time":2.5,"dwell":31.0}]}

(This is one line in the file.)
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np
from msgspec import UNSET, DecodeError, Meta, Struct, ValidationError, convert, to_builtins
from msgspec.json import Decoder, decode
from msgspec.structs import force_setattr, replace
from numpy.typing import ArrayLike, NDArray

from structsvm.common.checks import BadInput, check_choice
from structsvm.common.files import read_blocks, replacing
from structsvm.online.impressions.shown import Shown, explain, to_json
from structsvm.online.interleaving.by_name import NAMES, interleaver

__all__ = ["Click", "ClickLog", "Impression", "read_log", "write_log"]

Id = str | int

_EXPECTED = 'expected {"shown": {...}, "clicks": [...], ...}'
_BLOCK = 1 << 20
_LONGEST = 1 << 22
"""Largest number of bytes in a line; parsed JSON takes many times the memory of its text."""

LATEST = 1e11
"""Largest time of a click in seconds, the year 5138 if times start in 1970; larger values are probably milliseconds."""


if TYPE_CHECKING:
    _Rank: TypeAlias = int
    _Record: TypeAlias = Shown
    _Names: TypeAlias = tuple[str, ...]
else:  # in a line, a click may name its document, and the record may be a string; Lines.check completes all
    _Rank, _Record, _Names = Annotated[int, Meta(ge=1)] | None, Shown | str, tuple[str, ...] | None
_Seconds = Annotated[int, Meta(ge=0, le=int(LATEST))] | Annotated[float, Meta(ge=0, le=LATEST)]
_Count = Annotated[int, Meta(ge=0, le=10**9)]


class Click(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """A click on one document of a list.

    Attributes
    ----------
    rank : int
        Rank of the document in the list, from 1.
    time, dwell : float or None
        Time of the click and dwell time on the document, in seconds; None if not logged.
    download : bool or None
        Whether the click led to a download or an equivalent event, such as a purchase; None if not logged.
    document : object
        Used only while a line that names the document instead of its rank is read.

    Examples
    --------
    >>> Click(3, time=1.5, dwell=40.0)
    Click(rank=3, time=1.5, dwell=40.0)
    """

    rank: _Rank = None  # type: ignore[assignment]
    time: _Seconds | None = None
    dwell: _Seconds | None = None
    download: bool | None = None
    document: Any = UNSET


_SAID = ("rankers", "among", "query", "session", "user", "query_words", "title_bold", "abstract_bold")
"""Optional keys of a line that describe the impression, not the list or its clicks."""


class Impression(Struct, frozen=True):
    """A list shown to a user, with the clicks on it.

    Attributes
    ----------
    shown : Shown
        Record of the list.
    clicks : tuple of Click, or None
        Clicks in their order; empty if nothing was clicked, None if the feedback is missing.
    query, session, user : str, int or None
        Ids; None if not logged.
    rankers : tuple of str
        Names of the rankers; empty if not logged.
    among : tuple of str
        Names of all rankers of the bandit that chose ``rankers``; empty without a bandit.
    query_words : int or None
        Number of words of the query.
    title_bold, abstract_bold : tuple of int, or None
        Number of bold words in the title and abstract of each shown document.
    same : bool
        Whether the rankers agreed on the list, so that its clicks do not compare them.

    Examples
    --------
    >>> shown = Shown("team_draft", ("b", "a", "c"), 2, ((1, 0, 1),))
    >>> impression = Impression(shown, (Click(3), Click(1)), user="u1")
    >>> impression.clicked
    array([ True, False,  True])
    >>> Impression.from_dict(impression.to_dict()) == impression
    True
    """

    shown: _Record
    clicks: tuple[Click, ...] | None
    query: Id | None = None
    session: Id | None = None
    user: Id | None = None
    rankers: tuple[str, ...] = ()
    query_words: Annotated[int, Meta(ge=1, le=10**9)] | None = None
    title_bold: tuple[_Count, ...] | None = None
    abstract_bold: tuple[_Count, ...] | None = None
    among: _Names = ()
    same: bool = False

    def __post_init__(self) -> None:
        for key in ("query", "session", "user"):
            _check_id(key, getattr(self, key))

    @property
    def clicked(self) -> NDArray[np.bool_]:
        """Boolean array by rank, True for clicked documents, as an argument of ``Interleaver.credit``."""
        clicked = np.zeros(len(self.shown.documents), dtype=bool)
        clicked[list(clicked_indices(self))] = True
        return clicked

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of the line, without keys for missing values."""
        line: dict[str, Any] = {"shown": self.shown.to_dict()}
        for key in _SAID:
            value = getattr(self, key)
            if value is not None and value != ():
                line[key] = list(value) if isinstance(value, tuple) else value
        line |= {"same": True} if self.same else {}
        if self.clicks is not None:
            line["clicks"] = list(map(to_builtins, self.clicks))
        return line

    @classmethod
    def from_dict(cls, line: Mapping[str, Any]) -> "Impression":
        """Return the impression of the JSON object of a line; raise ValueError if the object is invalid."""
        if not isinstance(line, Mapping):
            raise ValueError(f"{_EXPECTED}, got {line!r:.80}")
        try:
            return Lines().check(convert(line, Line)).to_impression()
        except ValidationError as error:
            raise ValueError(explain(error, line)) from None


class Line(Impression, frozen=True, gc=False):
    """A line of a log; other keys are ignored.

    :meth:`Lines.check` replaces ``shown`` by a record without its id, so that equal lists share one, and moves the id
    to ``impression``.
    """

    clicks: tuple[Click, ...] | None = None
    impression: Id | None = None
    offset: _Count = 0

    def __post_init__(self) -> None:
        """Check nothing: :meth:`Lines.check` does."""

    def to_impression(self) -> Impression:
        """Return the impression that a checked line describes."""
        shown = self.shown if self.impression is None else replace(self.shown, impression=self.impression)
        return Impression(shown, *(getattr(self, name) for name in Impression.__struct_fields__[1:]))


def clicked_indices(one: Impression) -> tuple[int, ...]:
    """Return the indices of the clicked documents, in ascending order."""
    return tuple(sorted({click.rank - 1 for click in one.clicks or ()}))


@dataclass(frozen=True)
class ClickLog:
    """Impressions of one experiment, which has one method and one set of rankers.

    Create it with :func:`read_log` or :meth:`of`.

    Attributes
    ----------
    impressions : tuple of Impression
        Impressions with feedback.
    method : str
        Interleaving method of all impressions.
    rankers : tuple of str
        Names of the rankers; "ranker 1", "ranker 2", ... if the log has none. For a bandit, the names of all its
        rankers; the ``rankers`` of an impression are those that its list compares.
    n_missing_feedback : int
        Number of lines without feedback, which :func:`read_log` left out or used without clicks (``missing_feedback``).
    n_repeated : int
        Number of impressions left out because their id is repeated.
    n_identical : int
        Number of lines without an id that equal an earlier line; they are kept. :meth:`of` does not count them, since
        in a simulation many impressions without ids, users and times are equal.
    source : str
        Prefix of impression numbers in error messages, such as "log.jsonl:".
    numbers : tuple of int
        Line number of each impression in the file (from 1), or its index in the argument of :meth:`of`.

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
    def of(cls, impressions: Iterable[Impression]) -> "ClickLog":
        """Return a log of impressions; impressions without feedback and repeated ids are left out and counted."""
        collected = _Collector("impression ", "skip")
        for number, impression in enumerate(impressions):
            if not isinstance(impression, Impression):
                raise BadInput(
                    "impressions",
                    f"expected Impression objects, got {type(impression).__name__}",
                    "wrap a record, as in Impression(shown, clicks), and read a table with "
                    "structsvm.clicks.read_team_draft_table",
                    at=f"[{number}]",
                )
            collected.add(number, impression, impression.shown.impression)
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
    """Read a click log, plain or compressed by gzip, bzip2 or xz; the module documentation describes the format.

    Parameters
    ----------
    path : str or Path
        File with one impression per line.
    missing_feedback : {"skip", "no_click", "error"}
        Treatment of lines without ``clicks``: leave out the impression (correct if feedback is lost at random), use
        it as an impression without clicks (correct if only clicks are logged), or raise an error.
    max_expansion : float, optional
        Maximum number of bytes of text per byte of a compressed file, as for :func:`structsvm.readers.read_letor`.

    Returns
    -------
    ClickLog

    Raises
    ------
    ValueError
        If a line is not a JSON object of this format, or has an invalid record, an invalid click or a click on a
        document that was not shown; if the method or the rankers change; or if lines with the same impression id do not
        agree. The message gives file and line. Also if the log has no usable impression. Empty lines are skipped.

    Notes
    -----
    Each impression takes about 2 KB of memory. For :func:`analyse`, :func:`read_credits` reads large logs in a
    twentieth of this memory.

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
            line = reader.read(number, raw)
            collected.add(number, line, line.impression, raw)
    return collected.log(str(path))


def numbered_lines(path: Path, max_expansion: float | None = None) -> Iterator[list[tuple[int, bytes]]]:
    """Yield blocks of non-empty lines, each with its line number (from 1); raise BadInput for lines that are too
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
                "check that the file is a click log",
            )
        yield [(at, raw) for at, raw in lines if raw.strip()]


class Lines:
    """Parser of the lines of a log, which checks the record of a frequent list only once."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._decode = Decoder(Line).decode
        self._known: dict[tuple[Any, ...], Shown] = {}
        self._size = 0
        self._rankers: tuple[str, ...] = ()

    def read(self, number: int, raw: bytes) -> Line:
        """Return the content of a line; raise BadInput, with file and line, if it is invalid."""
        # msgspec parses and checks types in one pass; an error is explained only when it occurs
        try:
            return self.check(self._decode(raw))
        except ValidationError as error:
            problem = _explained(raw, error)
        except (UnicodeDecodeError, DecodeError, RecursionError) as error:
            problem = _no_json(raw, error)
        except ValueError as error:
            problem = str(error)
        raise BadInput(f"{self.path}:{number}", f"{problem}") from None

    def check(self, line: Line) -> Line:
        """Complete a decoded line, and return it; raise BadInput if its fields are inconsistent."""
        record = Shown.from_json(line.shown) if isinstance(line.shown, str) else line.shown
        record_id, line_id = record.impression, line.impression
        if line_id is None:
            force_setattr(line, "impression", record_id)
        elif record_id is not None and (type(line_id), line_id) != (type(record_id), record_id):
            raise BadInput(
                "impression",
                f"expected one id, got {line_id!r:.80} on the line and {record_id!r:.80} in the record",
                "log the id once",
            )
        shown = self._shown(record, line.offset)
        force_setattr(line, "shown", shown)
        for key, value in (("query", line.query), ("session", line.session), ("user", line.user)):
            if type(value) is str and "\0" in value:
                _check_id(key, value)
        if line.clicks is not None:
            force_setattr(line, "clicks", _clicks(line.clicks, shown))
        # most lines have the same names, so names are checked only when they change
        rankers = line.rankers
        if rankers and (rankers != self._rankers or len(rankers) != shown.n_rankers):
            _check_names("rankers", tuple(set(rankers)) if line.same else rankers)
            if len(rankers) != shown.n_rankers:
                raise BadInput("rankers", f"expected {shown.n_rankers} distinct names, got {rankers!r:.80}")
            self._rankers = () if line.same else rankers
        force_setattr(line, "among", line.among or ())
        if line.among:
            _check_names("among", line.among)
            if not line.rankers or not set(line.rankers) <= set(line.among):
                raise BadInput("among", f"expected to contain the names of 'rankers', got {line.among!r:.80}")
        n = len(shown.documents)
        for key, counts in (("title_bold", line.title_bold), ("abstract_bold", line.abstract_bold)):
            if counts is not None and len(counts) != n:
                raise BadInput(key, f"expected {n} counts, one per document, got {counts!r:.80}")
        return line

    def _shown(self, record: Shown, offset: int) -> Shown:
        """Return the checked record without its id; ``offset`` may be a key of the line instead of the record."""
        documents, offset = record.documents, offset or record.offset
        key = (record.method, record.n_rankers, documents, record.evidence, record.slack, offset)
        is_plain = set(map(type, documents)) in _PLAIN  # 1, 1.0 and true are equal as keys
        shown = self._known.get(key) if is_plain else None
        if shown is None:
            shown = replace(record, impression=None, offset=offset, arms=None, note=None).checked()
            if shown.method in NAMES:
                interleaver(shown.method).check_logged(shown)
            if is_plain:
                self._size += len(documents) * (1 + len(record.evidence))
                if self._size > _ENTRIES_KEPT:
                    self._known.clear()
                    self._size = 0
                self._known[key] = shown
        return shown


_PLAIN: tuple[set[type], ...] = ({str}, {int})
_ENTRIES_KEPT = 1 << 20
"""Largest total number of documents and of numbers in cached records, about 50 MB."""


def _check_names(key: str, names: tuple[str, ...]) -> None:
    if len(set(names)) != len(names) or not all(map(str.isprintable, names)):
        raise BadInput(key, f"expected distinct, printable names, got {names!r:.80}")


def _explained(raw: bytes, error: ValidationError) -> str:
    """Return the error message of an invalid line, whose text after the invalid value may also be invalid JSON."""
    if raw.lstrip()[:1] != b"{":
        return f"{_EXPECTED}, got {_start(raw)}"
    try:
        return explain(error, decode(raw))
    except (UnicodeDecodeError, DecodeError, RecursionError) as broken:
        return _no_json(raw, broken)


def _no_json(raw: bytes, error: Exception) -> str:
    """Return the error message for bytes that are not JSON."""
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
    """Write impressions as a log for :func:`read_log`; the file is written completely or not at all.

    Raises
    ------
    TypeError
        If a document id cannot be represented in JSON.

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
            file.write(to_json(impression.to_dict()).encode() + b"\n")


class Header:
    """Method and rankers, which are the same for all impressions of a log, and the number of impressions without
    feedback."""

    def __init__(self, source: str, missing_feedback: str) -> None:
        check_choice("missing_feedback", missing_feedback, ("skip", "no_click", "error"))
        self.source, self.missing_feedback = source, missing_feedback
        self.experiment: tuple[str, int, tuple[str, ...]] | None = None
        self.is_duels = False
        """Whether a bandit chose the rankers of each list."""
        self.n_missing = 0

    def admit(self, number: int, one: Impression) -> bool:
        """Return whether to use the impression; raise BadInput if it belongs to another experiment or lacks required
        feedback."""
        shown, among = one.shown, one.among
        experiment = (shown.method, len(among) or shown.n_rankers, among or one.rankers)
        if self.experiment is None:
            self.experiment = experiment
            self.is_duels = bool(among)
        elif experiment != self.experiment or bool(among) != self.is_duels:
            raise BadInput(
                f"{self.source}{number}",
                f"expected {_described(self.experiment)}, as in earlier lines, got {_described(experiment)}",
                "use one log per experiment",
            )
        if one.clicks is None:
            if self.missing_feedback == "error":
                raise BadInput(
                    f"{self.source}{number}",
                    "expected 'clicks', got none",
                    "[] means that nothing was clicked",
                )
            self.n_missing += 1
            return self.missing_feedback != "skip"
        return True

    def names(self, origin: str, n_used: int) -> tuple[str, ...]:
        """Return the names of the rankers; raise BadInput if no impression was used."""
        if not n_used or self.experiment is None:
            left = f" ({self.n_missing} without feedback)" if self.n_missing else ""
            raise BadInput(origin, f"expected impressions with feedback, got none{left}")
        _, n_rankers, rankers = self.experiment
        return rankers or tuple(f"ranker {i + 1}" for i in range(n_rankers))


def said(one: Impression) -> tuple[Any, ...]:
    """Return the fields in which lines with the same impression id must agree."""
    shown, ids = one.shown, (one.query, one.session, one.user)
    return (shown.documents, shown.evidence, one.clicks or (), shown.offset, *ids)


def refuse_disagreement(source: str, first: int, second: int, impression: str) -> None:
    """Raise BadInput for two lines with the same id that do not agree."""
    origin = source.removesuffix(":") if source.endswith(":") else "impressions"
    raise BadInput(
        f"{source}{second}",
        f"expected the impression {impression} to agree with {origin}:{first}, got other clicks or another "
        f"list, query, session or user",
        "give every impression its own id, and log its clicks in one line",
    )


class _Collector:
    """Builder of a log, which checks each impression against the first one, and against earlier ones with the same
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

    def add(self, number: int, one: Impression, name: Id | None, raw: bytes | None = None) -> None:
        if not self.header.admit(number, one):
            return
        # the first impression of an id is kept; later ones have to agree with it
        if name is not None:
            # the key contains the type, since 1 == True in Python
            index = self.index_of.setdefault((type(name), name), len(self.impressions))
            if index < len(self.impressions):
                if said(one) != said(self.impressions[index]):
                    refuse_disagreement(self.source, self.numbers[index], number, f"{name!r:.80}")
                self.n_repeated += 1
                return
        elif raw is not None:
            text = hash(raw.rstrip(b"\r"))
            self.n_identical += text in self.lines
            self.lines.add(text)
        self.impressions.append(one.to_impression() if isinstance(one, Line) else one)
        self.numbers.append(number)

    def log(self, origin: str) -> ClickLog:
        names = self.header.names(origin, len(self.impressions))
        return ClickLog(
            impressions=tuple(self.impressions),
            method=self.impressions[0].shown.method,
            rankers=names,
            n_missing_feedback=self.header.n_missing,
            n_repeated=self.n_repeated,
            n_identical=self.n_identical,
            source=self.source,
            numbers=tuple(self.numbers),
        )


def _described(experiment: tuple[str, int, tuple[str, ...]]) -> str:
    method, n_rankers, rankers = experiment
    of = ", ".join(rankers) if rankers else f"{n_rankers} unnamed rankers"
    return f"{method:.80} of {of:.200}"


def _check_id(key: str, value: object) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise BadInput(key, f"expected a string or an integer, got {value!r:.80}")
    # NumPy drops NUL at the end of a string, which could make two ids equal
    if isinstance(value, str) and "\0" in value:
        raise BadInput(key, f"expected an id without NUL, got {value!r:.80}")


def _clicks(given: tuple[Click, ...], shown: Shown) -> tuple[Click, ...]:
    """Return the clicks with ranks, sorted by time if all clicks have a time."""
    clicks, n = list(given), len(shown.documents)
    for i, click in enumerate(given):
        if (click.rank is None) == (click.document is UNSET):
            raise BadInput(f"clicks[{i}]", "expected an object with either 'rank' or 'document'")
        if click.rank is None:
            clicks[i] = replace(click, rank=1 + _place_of(click.document, shown, i), document=UNSET)
        elif click.rank > n:
            raise BadInput(f"clicks[{i}].rank", f"expected 1 to {n}, got {click.rank}")
    if len(clicks) > 1 and all(click.time is not None for click in clicks):
        clicks.sort(key=lambda click: click.time or 0.0)
    return tuple(clicks)


def _place_of(document: ArrayLike, shown: Shown, i: int) -> int:
    # documents that JSON cannot represent directly, such as tuples, are compared in their encoded form
    # types are compared as well, since 1 == True in Python
    for k, one in enumerate(shown.to_dict()["documents"] if isinstance(document, dict) else shown.documents):
        if one == document and type(one) is type(document):
            return k
    raise BadInput(
        f"clicks[{i}]",
        f"document {document!r:.80} is not among those shown: {shown.to_dict()['documents']!r:.200}",
    )
