"""``read_clicks``: a click log of any known format, recognised by its name and first line."""

import json
from collections.abc import Callable
from contextlib import suppress
from inspect import signature
from os import PathLike
from pathlib import Path
from typing import Any

from structsvm.clicks.cells import ClickCells
from structsvm.common.checks import BadInput, check_choice
from structsvm.common.files import read_lines, shorten, unpacked
from structsvm.common.lazy import labels
from structsvm.common.tables.source import Source, source_of


def read_clicks(path: str | PathLike[str], format: str = "auto", **options: object) -> ClickCells:
    """Read a click log of any known format.

    Parameters
    ----------
    path : path
        The log file; for a data frame use :func:`read_table`.
    format : {"auto", "ubi", "table", "sessions", "log"}, default="auto"
        ``"auto"`` detects the format from the name (``.parquet``, ``.csv``, ``.tsv``) and the first line: in a
        ``.jsonl`` file, objects with none of UBI's keys are the rows of a table.
    **options
        Options of the reader of the format, such as :func:`read_ubi` or :func:`read_table`; None means the default.

    Returns
    -------
    ClickCells

    Raises
    ------
    BadInput
        If the name and the first line do not determine the format, or if its reader does not take an option.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "log.csv"
    ...     _ = path.write_text("query,document,position,clicked\\nq,a,1,1\\n")
    ...     read_clicks(path)
    ClickCells(1 query, 1 row, 1 cell, 1 show, 1 click)
    """
    import structsvm.clicks

    readers = labels("structsvm.clicks")
    check_choice("format", format, ("auto", *readers))
    if hasattr(path, "columns"):
        raise BadInput("path", "expected a path, got a frame", "read it with structsvm.clicks.read_table")
    source = source_of(path)
    kind = _told(source) if format == "auto" else format
    reader: Callable[..., ClickCells] = getattr(structsvm.clicks, readers[kind])
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in list(signature(reader).parameters)[1:]:
            raise BadInput(
                name,
                f"{source} is read as {kind}, which does not have this option",
                "specify another {format}",
            )
    return reader(source, **given)


def is_ubi(path: Path) -> bool:
    """Return whether the first line of a file is a UBI entry, a bulk action or a ``_search`` response."""
    entry = _entry(_first_line(path))
    some = {"action_name", "user_query", "index", "create", "hits", "_source"}
    return "shown" not in entry and bool(some & set(entry))


def _first_line(path: Path) -> str:
    return next((line for _, line in read_lines(path) if line.strip()), "")


def _entry(line: str) -> dict[str, Any]:
    """Return the JSON object of a line, or an empty dict if the line is not an object."""
    with suppress(ValueError):
        entry = json.loads(line)
        return entry if isinstance(entry, dict) else {}
    return {}


def _told(source: Source) -> str:
    path = source.path
    if source.kind in ("parquet", "csv"):
        return "table"
    first = _first_line(path)
    if first.lstrip().startswith("{"):  # or the first line of a response spread over several lines
        entry = _entry(first)
        if "shown" in entry:
            return "log"
        is_row = (
            unpacked(path.name).endswith(".jsonl") and entry and "query_id" not in entry and not is_ubi(path)
        )
        return "table" if is_row else "ubi"
    if "\t" in first and ":" in first:
        return "sessions"
    if not first:
        raise BadInput(path, "expected a click log, got an empty file")
    raise BadInput(
        path,
        f"expected a click log, got {shorten(first)}",
        "name the log before other files, or specify {format}",
    )
