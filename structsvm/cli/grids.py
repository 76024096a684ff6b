"""Grids of C, spelled alike by every command that chooses one."""

from __future__ import annotations

GRID = "The grid: low:high:number, evenly on a log scale, or a,b,c."


def parse_grid(text: str) -> list[float]:
    """Return the numbers of ``1e-3:1e3:13`` or ``0.1,1,10``."""
    error = ValueError(f"--C: expected low:high:number or a,b,c with numbers > 0, got {text!r}")
    try:
        if ":" in text:
            low, high, number = text.split(":")
            n = int(number)
            ends = float(low), float(high)
            if n < 2 or not 0 < ends[0] < ends[1] < float("inf"):
                raise error
            ratio = ends[1] / ends[0]
            # rounded, so that 0.1 is not 0.10000000000000002 in tables and keys
            values = [float(f"{ends[0] * ratio ** (i / (n - 1)):.12g}") for i in range(n)]
        else:
            values = [float(piece) for piece in text.split(",")]
    except (ValueError, OverflowError):
        raise error from None
    if not all(0 < value < float("inf") for value in values):
        raise error
    return values
