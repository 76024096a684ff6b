"""Counts of what a reader leaves out."""


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
