"""Tables as plain text."""

from collections.abc import Iterator, Sequence

from structsvm.common.escaping import printable


def aligned(rows: Sequence[Sequence[str]], numeric: Sequence[bool]) -> Iterator[str]:
    """Yield the lines of a table, so that copied text stays aligned; cells of ``numeric`` columns are flush right."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        placed = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        )
        yield "  ".join(placed).rstrip()
