"""Count logs in parts, so that memory does not grow with their length."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from structsvm.clicks.cells import MAX_POSITION, ClickCells
from structsvm.common.checks import BadInput
from structsvm.common.event_logs import Dropped
from structsvm.common.tables.ids import Spelling

BATCH = 1 << 20
"""Number of impressions counted at once."""


class Parts:
    """Counts of a log, accumulated part by part."""

    def __init__(self) -> None:
        self._parts: list[tuple[int, ClickCells]] = []

    def add(self, part: ClickCells) -> None:
        """Add one part."""
        # join parts of equal size, as in merge sort, so that each impression is copied a logarithmic number of times
        size = 1
        while self._parts and self._parts[-1][0] <= size:
            before, other = self._parts.pop()
            part, size = ClickCells.concatenate([other, part]), size + before
        self._parts.append((size, part))

    def whole(self, source: str, dropped: Dropped) -> ClickCells:
        """Return the counts of all parts, and add their omissions to ``dropped``; raise if there are no counts."""
        if not self._parts:
            raise BadInput(source, "expected impressions, got none that can be counted", dropped.said())
        cells = ClickCells.concatenate([part for _, part in self._parts])
        for reason, count in cells.dropped.items():
            dropped.count(reason, count)
        return replace(cells, dropped=dropped)


class Batches:
    """Count the lists that a reader yields, in batches of bounded size."""

    def __init__(self, source: str, max_position: int = MAX_POSITION) -> None:
        self.dropped = Dropped()
        self._options: dict[str, Any] = {"first_position": 1, "max_position": max_position}
        self._source, self._parts, self._lists = source, Parts(), 0
        self._spellings: tuple[list[Spelling], ...] = ([], [])
        self._columns: tuple[list[Any], ...] = ([], [], [], [], [])

    def add(
        self, query: ArrayLike, documents: Sequence[Any], clicked: Sequence[bool], offset: int = 0
    ) -> None:
        """Add one list of documents, from position ``offset + 1`` on.

        A list with an ``offset``, such as a second page, is counted and reported as a list with a gap, not as a
        session.
        """
        n = len(documents)
        values: tuple[Any, ...] = (
            [query] * n,
            documents,
            range(offset + 1, offset + n + 1),
            clicked,
            [self._lists] * n,
        )
        for column, more in zip(self._columns, values, strict=True):
            column.extend(more)
        self._lists += 1
        if len(self._columns[0]) >= BATCH:
            self._count()

    def cells(self) -> ClickCells:
        """Return the counts of all lists."""
        if self._columns[0]:
            self._count()
        for spellings in self._spellings:
            whole, pointed = ([one[k] for one in spellings if one[k]] for k in range(2))
            if whole and pointed:
                raise BadInput(
                    self._source,
                    f"expected ids as integers, as {whole[0]!r}, got {pointed[0]!r}",
                    "write ids as integers or text",
                )
        cells = self._parts.whole(self._source, self.dropped)
        return cells if cells.gapped and cells.gapped.n_sessions else replace(cells, gapped=None)

    def _count(self) -> None:
        *columns, session = self._columns
        try:
            part = ClickCells.from_arrays(*columns, session=session, **self._options)
            for spellings, ids in zip(self._spellings, (part.query_ids, part.docid), strict=True):
                spellings.append(Spelling.of(ids))
            self._parts.add(part)
        except BadInput as error:
            raise error if error.argument != "log" else error.renamed(self._source) from None
        for column in self._columns:
            column.clear()
