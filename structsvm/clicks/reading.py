"""A click log of any format that this room reads, told by its name and its first line."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from structsvm.checks import BadInput, check_choice
from structsvm.clicks.cells import ClickCells
from structsvm.common.files import read_lines, shorten

__all__ = ["FORMATS", "is_ubi", "read_clicks"]

Format = Literal["auto", "ubi", "table", "sessions", "log"]
FORMATS = ("auto", "ubi", "table", "sessions", "log")


def read_clicks(path: str | PathLike[str], format: Format = "auto", **options: Any) -> ClickCells:
    """Read a click log.

    Parameters
    ----------
    path : path
    format : {"auto", "ubi", "table", "sessions", "log"}, default="auto"
        ``"auto"`` looks at the name (``.parquet``, ``.csv``, ``.tsv``) and the first line.
    **options
        Of :func:`read_ubi` or :func:`read_table`; those that are None are left out.

    Returns
    -------
    ClickCells

    Raises
    ------
    BadInput
        When the format is not told by name and first line, or does not take an option.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "log.csv"
    ...     _ = path.write_text("query,document,position,clicked\\nq,a,1,1\\n")
    ...     read_clicks(path)
    ClickCells(1 queries, 1 rows, 1 cells, 1 shows, 1 clicks)
    """
    check_choice("format", format, FORMATS)
    path = Path(path)
    kind = _told(path) if format == "auto" else format
    given = {name: value for name, value in options.items() if value is not None}
    takes = {"ubi": {"application", "first_position"}, "table": {"session", "first_position"}}.get(
        kind, set()
    )
    for name in given:
        if name not in takes and name not in ("query", "document", "position", "clicked"):
            raise BadInput(
                name, f"{path} is read as {kind}, which does not take it", "state another {format}"
            )
    if kind == "ubi":
        from structsvm.clicks.ubi import read_ubi

        return read_ubi(path, **given)
    if kind == "table":
        from structsvm.clicks.tables import read_table

        return read_table(path, **given)
    if kind == "sessions":
        from structsvm.clicks.session_text import read_sessions

        return read_sessions(path)
    from structsvm.clicks.own_log import cells_of_log

    return cells_of_log(path)


def is_ubi(path: Path) -> bool:
    """Return whether the first line of a text is a UBI entry, a bulk action or an answer of ``_search``."""
    try:
        entry = json.loads(_first_line(path))
    except ValueError:
        return False
    marks = {"action_name", "user_query", "index", "create", "hits"}
    return isinstance(entry, dict) and "shown" not in entry and bool(marks & set(entry))


def _first_line(path: Path) -> str:
    return next((line for _, line in read_lines(path) if line.strip()), "")


def _told(path: Path) -> str:
    name = path.name
    for suffix in (".gz", ".bz2", ".xz"):
        name = name.removesuffix(suffix)
    if name.endswith((".parquet", ".csv", ".tsv")):
        return "table"
    first = _first_line(path)
    if first.lstrip().startswith("{"):
        try:
            entry = json.loads(first)
        except ValueError:
            return "ubi"  # an answer that is broken over lines
        return "log" if "shown" in entry else "ubi"
    if "\t" in first and ":" in first:
        return "sessions"
    raise BadInput(str(path), f"expected a click log, got {shorten(first)}", "state {format}")
