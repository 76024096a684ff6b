"""Conversion of LETOR text to a store, block by block."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import BadInput
from structsvm.common.files import AnyPath, is_stream, read_blocks
from structsvm.common.tables.ids import IdColumn
from structsvm.queries import widened
from structsvm.readers import letor
from structsvm.readers.query_writers import query_writer, write_in_attempts
from structsvm.readers.store import StoreWriter, place_of, write_store

_BLOCK_BYTES = 1 << 24
_Texts = Callable[[], Iterator[NDArray[np.uint8]]]


def convert_letor(
    source: AnyPath,
    path: AnyPath,
    *,
    block_bytes: int = _BLOCK_BYTES,
    max_expansion: float | None = None,
    **options: Any,
) -> None:
    """Convert LETOR text to a store, block by block: neither the text nor the store has to fit into memory.

    The result is the same as from ``write_store(read_letor(source), path)``. If the rows of a query are not contiguous,
    all rows are sorted in a temporary file as large as the store, in the same folder. Files with ``query_sizes`` and
    streams (pipes) are read whole.

    Parameters
    ----------
    source : path
        LETOR text, plain or compressed.
    path : path
        As for :class:`StoreWriter`; if the conversion fails, no store is left behind.
    block_bytes : int
        Number of bytes of text read at a time; memory use is a few times as large. Each query has to fit into memory.
    max_expansion, **options
        As for :func:`read_letor`.

    Examples
    --------
    >>> from structsvm.readers import open_store
    >>> _ = Path("train.txt").write_text("1 qid:3 1:2 2:1\\n0 qid:3 2:4\\n")
    >>> convert_letor("train.txt", "train.store")
    >>> open_store("train.store").X
    array([[2., 1.],
           [0., 4.]])
    """
    source, path = Path(source), Path(path)
    place_of(path)  # raises before a long text is read
    checked = letor.check_options(**options)
    if checked.with_qid and not is_stream(source):
        texts = partial(read_blocks, source, block_bytes, max_expansion=max_expansion)
        size = letor.Size(0, 0, checked.n_features or 0)
        for text in texts():
            block = letor.Block(text, source)
            if options.get("label", "grade") is None and size.n_rows == 0:
                checked = checked.with_grade_of(block)
            n_rows, n_stated, width, *_ = letor.measure(block, checked)
            size = letor.Size(size.n_rows + n_rows, size.n_stated + n_stated, max(size.width, width))
        if size.n_rows == 0:
            raise BadInput(source, f"expected rows '{letor.GRAMMAR}', got an empty file")
        while size.width > 0:
            try:
                columns = IdColumn(source), IdColumn(source, "docid")
                write_in_attempts(partial(_convert, texts, source, path, checked, size, *columns), columns)
                return
            except _Width as wider:
                size = size._replace(width=wider.args[0])
    write_store(letor.read_letor(source, max_expansion=max_expansion, **options), path)


class _Width(Exception):
    """Raised with the number of features if it differs from the assumed number."""


def _convert(
    texts: _Texts,
    source: Path,
    path: Path,
    options: letor.Options,
    size: letor.Size,
    column: IdColumn,
    documents: IdColumn,
    apart: bool,
) -> None:
    """Make one attempt at the conversion; ``size`` and ``apart`` come from the error of the last attempt."""
    as_sparse = letor.is_sparse(options, size)
    lines = width = 0
    with StoreWriter(path, size.width, dtype=options.dtype, sparse=as_sparse) as writer:
        queries = query_writer(writer, apart, column)
        for text in texts():
            block = letor.Block(text, source, lines)
            lines += int(np.count_nonzero(text == 10))
            try:
                rows = letor.parse(block, replace(options, sparse=as_sparse))
            except letor.TooWide as error:
                if letor.is_sparse(options, size._replace(width=error.width)):
                    raise _Width(error.width) from None  # the text seemed narrow and was read as dense
                raise
            if rows is None:
                continue
            width = max(width, rows.width)
            if width > size.width:
                continue  # read to the end for the width that the next attempt needs
            docid = np.zeros(rows.X.shape[0], dtype="<U1") if rows.docid is None else rows.docid
            documents.look(words := docid.tolist())
            if documents.are_whole:
                docid = np.array(documents.spell(words), dtype=np.str_)
            column.look(rows.ids)
            queries.add(widened(rows.X, size.width), rows.y, docid, column.spell(rows.ids), rows.run_lengths)
        if options.n_features is None and width != size.width:
            raise _Width(width)
        column.settle()
        documents.settle()
        queries.finish()
