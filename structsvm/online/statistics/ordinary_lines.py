"""Lines of click logs in the form that is written, read by few steps.

Whatever is unusual, right or wrong, is left to :meth:`Impression.from_dict`, which also knows the errors. A list that
is shown often is in the log often: what stands before the id of the impression is parsed and checked once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from structsvm.online.clicklog import DECODER, LATEST
from structsvm.online.interleaving import TeamDraft

__all__ = ["OrdinaryLines", "Record", "content_of"]

_STRINGS, _INTEGERS, _NUMBERS = {str}, {int}, {int, float, type(None)}
_NOBODY = {None}
_NONE: list[str] = []
_IDS = (str, int, type(None))
_BYTES_KEPT = 1 << 23
"""Of the texts of known records, which take some eight times the memory when parsed."""

Id = str | int
_Click = tuple[int, Any, Any, Any]
"""Rank, time, dwell, download."""
_decode = DECODER.raw_decode


class Record:
    """The evidence of a shown list; lines with the same text share one.

    Attributes
    ----------
    documents : tuple
    evidence : tuple of tuples
    bound : float
    said : int
        Hash of documents and evidence.
    unchecked : bool
        Whether the numbers of the evidence may be out of range.
    """

    __slots__ = ("bound", "documents", "evidence", "said", "unchecked")

    def __init__(
        self,
        documents: tuple[Any, ...],
        evidence: tuple[tuple[Any, ...], ...],
        bound: float,
        unchecked: bool = False,
    ) -> None:
        self.documents, self.evidence, self.bound, self.unchecked = documents, evidence, bound, unchecked
        self.said = hash((documents, evidence))


class Ordinary(NamedTuple):
    """What is kept of a line."""

    record: Record
    places: tuple[int, ...]
    """Clicked ones from 0, increasing."""
    name: Id | None
    content: int
    """Hash of what two lines with one id have to agree in; 0 without an id."""
    user: Id | None
    session: Id | None


_new = tuple.__new__  # Ordinary(...) goes through a Python function


def content_of(
    said: int,
    clicks: tuple[Any, ...],
    query: str | int | None,
    session: str | int | None,
    user: str | int | None,
) -> int:
    """Hash of what two lines with one impression id have to agree in; a click is (rank, time, dwell, download)."""
    return hash((said, clicks, query, session, user))


class OrdinaryLines:
    """Reads lines of one method and its rankers.

    Parameters
    ----------
    method : str
    n_rankers : int
    rankers : list of str
        As every line has them; empty: no line does.
    """

    def __init__(self, method: str, n_rankers: int, rankers: list[str]) -> None:
        self.method, self.n_rankers, self.rankers = method, n_rankers, rankers
        self._known: dict[bytes, Record] = {}
        self._seen: set[int] = set()
        self._room = _BYTES_KEPT

    def read(self, raw: bytes) -> Ordinary | None:
        """The line, if it is an ordinary one."""
        # the record, up to the id of its impression where it has one, in the order in which it is written
        evidence_end = raw.find(b"]]") + 2
        stop = raw.find(b"}", evidence_end) + 1
        named = raw.rfind(b'"impression"', evidence_end, stop)
        if named >= 0:
            stop, opening = named, '{"shown":{'
        else:
            opening = '{"shown":{}'
        start = raw[:stop]
        record = self._known.get(start)
        try:
            if record is not None:
                rest = opening + raw[stop:].decode()
                # an escape or a second "shown" could hide another record
                if "\\" not in rest and rest.find('"shown"', 9) < 0:
                    line, end = _decode(rest)
                    shown = line["shown"]
                    name = shown.get("impression")
                    if len(shown) == (name is not None) and (end == len(rest) or rest[end:] == "\r"):
                        return self._beside(line, record, name)
            text = raw.decode()
            line, end = _decode(text)
            if (end != len(text) and text[end:] != "\r") or "\\u0000" in text:
                return None
            shown = line["shown"]
            record = self._record(shown)
            if record is None:
                return None
            self._learn(start, named >= 0, record)
            return self._beside(line, record, shown.get("impression"))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def _learn(self, start: bytes, is_named: bool, record: Record) -> None:
        """Keep the record of a text that came before."""
        key = hash(start)
        if key not in self._seen:
            if len(self._seen) >= 1 << 16:
                self._seen.clear()
            self._seen.add(key)
            return
        if len(start) > self._room:
            self._known.clear()
            self._room = _BYTES_KEPT
            if len(start) > self._room:
                return
        try:
            whole = (start + (b'"":0}}' if is_named else b"}")).decode()
            line, end = _decode(whole)
            shown = line["shown"]
            if end != len(whole) or len(line) != 1 or "impression" in shown:
                return
            alone = self._record(shown)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return  # the record goes on, or has not begun
        if alone is not None and (alone.said, alone.bound) == (record.said, record.bound):
            self._known[start] = record
            self._room -= len(start)

    def _record(self, shown: dict[str, Any]) -> Record | None:
        """What stands under "shown", if it is an ordinary record."""
        documents, evidence = shown["documents"], shown["evidence"]
        slack, bound = shown.get("slack", 0.0), shown.get("bound", 1.0)
        n = len(documents)
        if (
            type(documents) is not list
            or type(evidence) is not list
            or not evidence
            or set(map(type, documents)) not in (_STRINGS, _INTEGERS)
            or len(set(documents)) != n
            or shown["version"] != 1
            or shown["method"] != self.method
            or type(shown["n_rankers"]) is not int
            or shown["n_rankers"] != self.n_rankers
            or type(slack) not in (int, float)
            or not -1e12 <= slack <= 1e12
            or type(bound) not in (int, float)
            or not 0 < bound <= 1e12
        ):
            return None
        for row in evidence:
            if type(row) is not list or len(row) != n or not set(map(type, row)) <= _NUMBERS:
                return None
        if self.method == TeamDraft.name and n > 1 and len(set(evidence[0]) - _NOBODY) < 2:
            return None  # perhaps no draft
        return Record(tuple(documents), tuple(map(tuple, evidence)), bound, unchecked=True)

    def _beside(self, line: dict[str, Any], record: Record, name: Any) -> Ordinary | None:
        """The clicks and ids beside a record."""
        of_line = line.get
        query, session, user, own = (
            of_line("query"),
            of_line("session"),
            of_line("user"),
            of_line("impression"),
        )
        clicks = line["clicks"]
        if own is not None:
            if name is not None:
                return None
            name = own
        if (
            type(clicks) is not list
            or of_line("rankers", _NONE) != self.rankers
            or type(query) not in _IDS
            or type(session) not in _IDS
            or type(user) not in _IDS
            or type(name) not in _IDS
            or "among" in line
            or "query_words" in line
            or "title_bold" in line
            or "abstract_bold" in line
        ):
            return None
        n = len(record.documents)
        made: list[_Click] = []
        for click in clicks:
            if type(click) is not dict:
                return None
            of_click = click.get
            rank, time, dwell, download = (
                of_click("rank"),
                of_click("time"),
                of_click("dwell"),
                of_click("download"),
            )
            if "rank" in click:
                if type(rank) is not int or not 0 < rank <= n or "document" in click:
                    return None
            else:
                document = click["document"]
                if type(document) is not type(record.documents[0]):
                    return None
                rank = record.documents.index(document) + 1
            if time is not None and (type(time) not in (int, float) or not 0 <= time <= LATEST):
                return None
            if dwell is not None and (type(dwell) not in (int, float) or not 0 <= dwell <= LATEST):
                return None
            if download is not None and type(download) is not bool:
                return None
            made.append((rank, time, dwell, download))
        return _kept(record, made, name, query, session, user)


def _kept(
    record: Record,
    clicks: list[_Click],
    name: Id | None,
    query: Id | None,
    session: Id | None,
    user: Id | None,
) -> Ordinary:
    places = [click[0] - 1 for click in clicks]
    if len(clicks) > 1:
        if all(click[1] is not None for click in clicks):
            clicks.sort(key=_time)
        places = sorted(set(places))
    content = 0 if name is None else content_of(record.said, tuple(clicks), query, session, user)
    return _new(Ordinary, (record, tuple(places), name, content, user, session))


def _time(click: _Click) -> Any:
    return click[1]
