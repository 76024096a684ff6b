"""Logs of events: the order of their events, and counts of what a reader leaves out."""

from typing import Any

import numpy as np

from structsvm.protocols import Int


class Dropped(dict[str, int]):
    """Counts of items left out of a log, by reason."""

    def count(self, reason: str, n: int = 1) -> None:
        """Add to the count of a reason."""
        if n:
            self[reason] = self.get(reason, 0) + int(n)

    def said(self) -> str:
        """Return the reasons and their counts as text, the most frequent first; empty if nothing was left out."""
        counts = sorted(self.items(), key=lambda item: (-item[1], item[0]))
        return "left out: " + ", ".join(f"{reason} ({n:,})" for reason, n in counts) if counts else ""


def by_time(time: Any, *ties: Any) -> Int:
    """Return the order of events by time, then by each array of ``ties``, then by their place in the file.

    Readers sort events in this order before they take the first or the last one. Events without a time, given as minus
    infinity, come first.
    """
    return np.lexsort((*reversed(ties), time))
