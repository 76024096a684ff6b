"""``read_queries``: read rows of queries from a store, from tables or from LETOR text."""

from os import PathLike
from pathlib import Path
from typing import Any

from structsvm.common.checks import BadInput
from structsvm.common.files import AnyPath
from structsvm.common.tables.source import Source, source_of
from structsvm.queries import QueryData
from structsvm.readers.store import is_store, open_store
from structsvm.readers.store_place import put_back

_OF_TABLES = ("label", "qid", "docid", "features")


def read_queries(path: AnyPath, **options: Any) -> QueryData:
    """Open a store, or read tables or LETOR text with ``options``, according to the content of ``path``.

    Parameters
    ----------
    path : path
        The folder of a store; Parquet files or CSV files, whose names end in ``.csv`` or ``.tsv`` (a file, a folder or
        a pattern); a file of JSON lines (``.jsonl``, ``.ndjson``); or any other text, which is LETOR.
    **options
        Options of :func:`read_parquet`, :func:`read_csv` or :func:`read_letor`. A store accepts only ``label=None``,
        which makes labels optional in all formats: ``y`` is None without labels.

    Returns
    -------
    QueryData

    Raises
    ------
    FileNotFoundError
        If ``path`` does not exist.
    ValueError
        As for the readers; also for options if ``path`` is a store, and for column names if it is not a table.

    Examples
    --------
    >>> _ = Path("train.txt").write_text("1 qid:3 1:2 2:1\\n")
    >>> read_queries("train.txt")
    QueryData(1 query, 1 row, 2 features, dense float64)
    """
    if isinstance(path, (str, PathLike)) and not isinstance(path, Source):
        put_back(Path(path), is_store)
    source = source_of(path)
    if "one_based" in options and (source.is_table or source.kind in ("store", "folder")):
        raise BadInput("one_based=False", f"requires LETOR text, got {source}")
    if source.is_table:
        from structsvm.readers.tables import read_csv, read_parquet  # Arrow takes some time to load

        return (read_parquet if source.kind == "parquet" else read_csv)(source, **options)
    in_folder = source.kind in ("store", "folder")
    for name in _OF_TABLES:
        if name in options and not (name == "label" and options["label"] is None):
            kind = "a store" if in_folder else "a text file without column names"
            raise BadInput(name, f"requires Parquet files or CSV, got {kind}: {source}")
    if in_folder:
        optional = options.pop("label", "") is None
        if options:
            raise BadInput(
                source.path,
                f"{', '.join(options)}: options for reading text, got a store",
                "pass them when converting",
            )
        data = open_store(source)
        if data.y is None and not optional:
            raise BadInput(
                source.path, "expected labels, got a store without labels", "convert rows with labels"
            )
        return data
    from structsvm.readers.letor import read_letor  # imported late: it loads compiled code

    return read_letor(source, **options)
