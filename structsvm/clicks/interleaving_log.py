"""Read the click logs of interleaving (``structsvm.online``) as counts."""

from collections.abc import Iterable, Iterator
from itertools import chain, compress
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from structsvm.clicks.batches import Batches
from structsvm.clicks.cells import MAX_POSITION, ClickCells, index_in
from structsvm.common.checks import BadInput
from structsvm.online.clicklog import (
    ClickLog,
    Header,
    Impression,
    Line,
    Lines,
    clicked_indices,
    numbered_lines,
    refuse_disagreement,
    said,
)
from structsvm.protocols import Int

_LISTS = 1 << 14  # number of lists held as objects at once


def cells_of_log(log: object, *, max_position: int = MAX_POSITION) -> ClickCells:
    """Count the impressions and clicks of a click log of ``structsvm.online``.

    Interleaving moves documents between positions at random, so an interleaving log determines propensities if the
    rankers are similar but not equal (two unrelated rankers connect positions poorly).

    Parameters
    ----------
    log : ClickLog or path
        A path is read a few thousand lines at a time, by the rules of :func:`structsvm.online.clicklog.read_log`.
        Memory grows with the distinct cells and lists, and by 24 bytes per impression with an id.
    max_position : int, default=1000
        Impressions beyond this position are left out and counted.

    Returns
    -------
    ClickCells
        With sessions. Lists without feedback or a query, and impressions logged again, are left out and counted. Lists
        of later pages begin at their ``offset``; lists on which the rankers agreed count, too.

    Raises
    ------
    BadInput
        If no list has a query.
    ValueError
        If a line is invalid, as for :func:`structsvm.online.clicklog.read_log`; the message names the file and the
        line.

    Examples
    --------
    >>> from structsvm.online.interleaving import Shown
    >>> from structsvm.online.clicklog import Click, ClickLog, Impression
    >>> shown = Shown("team_draft", ("a", "b"), 2, ((0, 1),))
    >>> cells_of_log(ClickLog.of([Impression(shown, (Click(2),), query="q")]))
    ClickCells(1 query, 2 rows, 2 cells, 2 shows, 1 click)
    """
    batches = Batches("log", max_position)
    if isinstance(log, ClickLog):
        batches.dropped.count("list without feedback", log.n_missing_feedback)
        batches.dropped.count("impression logged again", log.n_repeated)
        _add(batches, log.impressions)
    elif isinstance(log, (str, PathLike)):
        _add(batches, _impressions(Path(log), batches))
    else:
        raise BadInput("log", f"expected a ClickLog or a path, got {log!r:.60}")
    return batches.cells()


def _add(batches: Batches, impressions: Iterable[Impression]) -> None:
    for one in impressions:
        if one.query is None:
            batches.dropped.count("list without a query")
            continue
        documents = [str(d) for d in one.shown.documents]
        clicked = [False] * len(documents)
        for k in clicked_indices(one):
            clicked[k] = True
        batches.add(str(one.query), documents, clicked, one.shown.offset)


def _impressions(path: Path, batches: Batches) -> Iterator[Line]:
    """Yield the usable impressions of a file; ``batches`` counts the others by reason."""
    header, seen = Header(f"{path}:", "skip"), _Seen(f"{path}:")
    n_used = 0
    reader = Lines(path)
    held: list[tuple[int, Line]] = []

    def of_held() -> Iterator[Line]:
        first = seen.look(held)
        batches.dropped.count("impression logged again", (~first).sum())
        yield from compress((line for _, line in held), first)
        held.clear()

    for number, raw in chain.from_iterable(numbered_lines(path)):
        line = reader.read(number, raw)
        if not header.admit(number, line):
            continue
        n_used += 1
        if line.impression is None:
            yield line
            continue
        held.append((number, line))
        if len(held) == _LISTS:
            yield from of_held()
    if held:
        yield from of_held()
    batches.dropped.count("list without feedback", header.n_missing)
    header.names(str(path), n_used)


class _Seen:
    """Impression ids seen so far, as arrays: the hash of the id, the hash of the fields that all lines of an id must
    share, and the line number."""

    def __init__(self, source: str) -> None:
        self._source = source
        # arrays of shape (3, n), sorted by the hash of the id, each more than twice as long as the next
        self._parts: list[Int] = []

    def look(self, lines: list[tuple[int, Line]]) -> NDArray[np.bool_]:
        """Return a mask of the first impression of each id; raise if two lines with the same id do not agree."""
        # ids 1 and "1" differ, and hash(-1) == hash(-2): ids are hashed by their repr
        rows = [(hash(repr(one.impression)), hash(said(one)), number) for number, one in lines]
        new = np.array(rows, dtype=np.int64).T
        # the first line of each id, and the hash of its content
        _, first, inverse = np.unique(new[0], return_index=True, return_inverse=True)
        content, line = new[1:, first]
        fresh = np.ones(first.shape[0], dtype=bool)
        for part in self._parts:
            index, known = index_in(part[0], new[0, first])
            content, line = np.where(known, part[1, index], content), np.where(known, part[2, index], line)
            fresh &= ~known
        other = np.flatnonzero(content[inverse] != new[1])
        if other.size:
            at = int(other[0])
            refuse_disagreement(
                self._source, int(line[inverse[at]]), int(new[2, at]), f"{lines[at][1].impression!r:.80}"
            )
        if fresh.any():
            self._parts.append(new[:, first[fresh]])
        while len(self._parts) > 1 and self._parts[-2].shape[1] <= 2 * self._parts[-1].shape[1]:
            joined = np.concatenate([self._parts.pop(-2), self._parts.pop()], axis=1)
            self._parts.append(joined[:, np.argsort(joined[0], kind="stable")])
        return np.asarray(line[inverse] == new[2])
