"""Impressions collected from a reader, counted a batch at a time: memory does not grow with the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from structsvm.checks import BadInput
from structsvm.clicks.cells import ClickCells, Dropped

_BATCH = 1 << 20  # impressions counted at once


class Batches:
    """Count lists as a reader yields them."""

    def __init__(self, place: str) -> None:
        self.dropped = Dropped()
        self._place = place
        self._columns: tuple[list[Any], ...] = ([], [], [], [], [])
        self._parts: list[tuple[int, ClickCells]] = []
        self._lists = 0

    def add(
        self, query: Any, documents: Sequence[Any], positions: Sequence[Any], clicked: Sequence[Any]
    ) -> None:
        """Take one list."""
        n = len(documents)
        for column, values in zip(
            self._columns, ([query] * n, documents, positions, clicked, [self._lists] * n), strict=True
        ):
            column.extend(values)
        self._lists += 1
        if len(self._columns[0]) >= _BATCH:
            self._count()

    def cells(self) -> ClickCells:
        """Return the counts of all lists."""
        if self._columns[0]:
            self._count()
        if not self._parts:
            raise BadInput(
                self._place, "expected shown lists, got none that can be counted", self.dropped.said()
            )
        whole = ClickCells.concatenate([part for _, part in self._parts])
        for reason, count in whole.dropped.items():
            self.dropped.count(reason, count)
        return replace(whole, dropped=self.dropped, gapped=None)

    def _count(self) -> None:
        query, document, position, clicked, session = self._columns
        try:
            part = ClickCells.from_arrays(
                query, document, position, clicked, session=session, first_position=1
            )
        except BadInput as error:
            raise error if error.argument != "log" else error.renamed(self._place) from None
        for column in self._columns:
            column.clear()
        # equal sizes are joined, as in merge sort: each impression is touched a logarithmic number of times
        size = 1
        while self._parts and self._parts[-1][0] <= size:
            before, other = self._parts.pop()
            part, size = ClickCells.concatenate([other, part]), size + before
        self._parts.append((size, part))
