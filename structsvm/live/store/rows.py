"""Rows that the writer stores, and its results; the same for every database."""

from typing import NamedTuple, Protocol

ACCEPTED, DUPLICATE, LATE, GONE = range(4)
"""Result of storing a click: stored, duplicate, stored after its window, or without its impression."""


class StoreDown(Exception):
    """The database cannot be written: it is unavailable, full, locked, or too slow."""


class ShownRow(NamedTuple):
    """An impression to store."""

    id: bytes
    experiment: int
    shown_at: int
    unit: bytes | None
    serve: str
    record: str
    rankings: str | None
    query: str | None
    elapsed_ms: int | None
    chance: float | None = None
    epoch: int = 0


class ClickRow(NamedTuple):
    """A click to store."""

    id: bytes
    place: int
    action: str
    at: int
    dwell: float | None
    shown_at: int
    """Time at which its list was shown: after a restore, another list may have the id of a lost list."""
    closes_at: int
    """End of the window of its impression."""


class Stored(NamedTuple):
    """The impression that is already stored under the id of a new one."""

    shown_at: int
    serve: str
    record: str


class HotConnection(Protocol):
    """A connection of one thread for the two inserts that most requests need."""

    def write(self, shown: list[ShownRow], clicks: list[ClickRow]) -> tuple[list[Stored | None], list[int]]:
        """Return the earlier record of each impression (None if it is new), and the result of each click.

        Everything is stored in one transaction, which is on disk on return; otherwise StoreDown is raised.
        """
        ...

    def close(self) -> None:
        """Close the connection; never raises."""
        ...
