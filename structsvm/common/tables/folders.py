"""Columns stated by the names of folders, as Hive, Spark and pandas write them: ``qid=3/part-0.parquet``."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute

from structsvm.common.checks import BadInput
from structsvm.common.files import shorten
from structsvm.common.tables.batches import Batch, Role, Table
from structsvm.common.tables.columns import number_of, to_arrow
from structsvm.common.tables.ids import settled
from structsvm.common.tables.source import File
from structsvm.common.tables.text import arrow_text

_Ids = Mapping[str, Mapping[str, Any]]
"""The id of each word, by column."""


def folder_columns(files: Sequence[File]) -> _Ids:
    """Return the ids that the names of the folders of all files stand for: like those of a text file, they are
    integers if all are."""
    columns: dict[str, dict[str, Any]] = {}
    for name, _ in files[0].folders:
        words = list(dict.fromkeys(dict(file.folders)[name] for file in files))
        ids = settled([word for word in words if word], files[0].path, name)
        columns[name] = dict(zip(filter(None, words), ids.tolist(), strict=True))
    return columns


def with_folders(table: Table, file: File, columns: _Ids) -> Table:
    """Return a table with the columns that its folders state."""
    words = dict(file.folders)
    if not words:
        return table
    if (twice := next((name for name in words if name in table.names), None)) is not None:
        raise BadInput(
            file.path,
            f"expected the column {shorten(twice)} in the names of folders or in the file, got both",
            "drop one of them",
        )

    # text: the ids of all files are settled together; typed files: each by itself
    ids = columns if table.kinds is not None else {key: {} for key in words}

    def read(roles: Mapping[str, Role], *, row_groups: Sequence[int] | None = None) -> Iterator[Batch]:
        inside = {name: role for name, role in roles.items() if name not in words}
        # a file is read for the number of its rows if no column of its own is requested
        for batch in table.read(inside or {table.names[0]: "category"}, row_groups=row_groups):
            stated = {
                name: _constant(words[name], roles[name], ids[name], batch.n)
                for name in words
                if name in roles
            }
            written = batch.written

            def as_written(row: int, name: str, written: Any = written) -> str:
                return words[name] if name in words else written(row, name)

            yield replace(batch, columns={**batch.columns, **stated}, written=written and as_written)

    kinds = table.kinds
    if kinds:
        of_words = {
            name: pa.float64() if all(number_of(word) is not None for word in ids) else pa.string()
            for name, ids in columns.items()
        }
        kinds = {**kinds, **of_words}
    return replace(table, names=[*table.names, *words], read=read, kinds=kinds)


def _constant(word: str, role: Role, ids: Mapping[str, Any], n: int) -> Any:
    """Return ``n`` rows of a word, as a number or an integer id if its role is one; an empty word is missing."""
    if role == "number" and (value := number_of(word)) is not None:
        return to_arrow(np.full(n, value))
    if role == "id" and ids and all(isinstance(own, int) for own in ids.values()):
        return to_arrow(np.full(n, ids.get(word, 0), dtype=np.int64), np.full(n, word in ids))
    return compute.take(arrow_text([word]), to_arrow(np.zeros(n, dtype=np.int64)))
