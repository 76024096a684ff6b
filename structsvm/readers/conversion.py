"""Conversion of LETOR text to a store, block by block: neither has to fit into memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np

from structsvm.common.files import is_stream, read_blocks
from structsvm.readers import letor
from structsvm.readers.store import Apart, QueryWriter, StoreWriter, place_of, write_store

_BLOCK_BYTES = 1 << 26


def convert_letor(
    source: str | PathLike[str],
    path: str | PathLike[str],
    *,
    n_features: int | None = None,
    dtype: Any = np.float64,
    sparse: bool | Literal["auto"] = "auto",
    one_based: bool = True,
    fill: float | None = None,
    query_sizes: str | PathLike[str] | Iterable[int] | None = None,
    label: Literal["grade"] | None = "grade",
    n_jobs: int | None = -1,
    block_bytes: int = _BLOCK_BYTES,
    max_expansion: float | None = None,
) -> None:
    """Convert LETOR text to a store, block by block: neither has to fit into memory.

    The result is that of ``write_store(read_letor(source), path)``. Files in which the rows of some query are not
    contiguous, files with ``query_sizes``, and streams (pipes) are read whole.

    Parameters
    ----------
    source : path
    path : path
        The store; see :class:`structsvm.readers.StoreWriter`.
    n_features, dtype, sparse, one_based, fill, query_sizes, label, n_jobs
        As for :func:`structsvm.readers.read_letor`.
    block_bytes : int
        Bytes of text read at a time; memory use is a few times as much. Each query has to fit.
    max_expansion : float, optional
        As for :func:`structsvm.readers.read_letor`.

    Raises
    ------
    ValueError
        As :func:`structsvm.readers.read_letor`; no store is then left behind.
    FileExistsError, OSError
        As :class:`structsvm.readers.StoreWriter`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from structsvm.readers import open_store
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "train.txt").write_text("1 qid:3 1:2 2:1\\n0 qid:3 2:4\\n")
    >>> convert_letor(folder / "train.txt", folder / "train.store")
    >>> open_store(folder / "train.store").X
    array([[2., 1.],
           [0., 4.]])
    """
    source = Path(source)
    place_of(Path(path))  # before a long text is read
    letor.check_fill(fill, dtype, store=True)
    options = letor.check_options(
        n_features, dtype, sparse, one_based, fill, with_qid=query_sizes is None, n_jobs=n_jobs
    )
    if query_sizes is None and not is_stream(source):
        size = letor.Size(0, 0, n_features or 0)
        for text in read_blocks(source, block_bytes, max_expansion=max_expansion):
            if label is None and size.n_rows == 0:
                options = replace(options, with_grade=letor.has_grade(text, options))
            block = letor.measure(text, options, letor.Place(source, 0))[0]
            size = letor.Size(
                size.n_rows + block.n_rows, size.n_stated + block.n_stated, max(size.width, block.width)
            )
        if size.n_rows == 0:
            raise ValueError(f"{source}: expected rows '{letor.GRAMMAR}', got an empty file")
        while size.width > 0:
            try:
                _convert(source, Path(path), options, size, block_bytes, max_expansion)
                return
            except _Width as wider:
                size = size._replace(width=wider.width)
            except Apart:
                break
    data = letor.read_letor(
        source,
        n_features=n_features,
        dtype=dtype,
        sparse=sparse,
        one_based=one_based,
        fill=fill,
        query_sizes=query_sizes,
        label=label,
        n_jobs=n_jobs,
        max_expansion=max_expansion,
    )
    write_store(data, path)


class _Width(Exception):
    """Raised when the largest feature index is not at the position assumed."""

    def __init__(self, width: int) -> None:
        self.width = width


def _convert(
    source: Path,
    path: Path,
    options: letor.Options,
    size: letor.Size,
    block_bytes: int,
    max_expansion: float | None,
) -> None:
    """Make one attempt at a file of contiguous queries; the last query of a block waits for the next block."""
    as_sparse = letor.is_sparse(options, size)
    block_options = replace(options, sparse=as_sparse)
    lines = width = 0
    with StoreWriter(path, size.width, dtype=options.dtype, sparse=as_sparse) as writer:
        queries = QueryWriter(writer, letor.identify)
        for text in read_blocks(source, block_bytes, max_expansion=max_expansion):
            place = letor.Place(source, lines)
            lines += int(np.count_nonzero(text == 10))
            try:
                rows = letor.parse(text, block_options, place)
            except letor.TooWide as error:
                if letor.is_sparse(options, size._replace(width=error.width)):
                    raise _Width(error.width) from None  # it seemed narrow, and so was read as dense
                raise
            if rows is None:
                continue
            width = max(width, rows.width)
            if width > size.width:
                continue  # read to the end for the width that the next attempt needs
            docid = np.zeros(rows.X.shape[0], dtype="<U1") if rows.docid is None else rows.docid
            queries.add(_widen(rows.X, size.width), rows.y, docid, rows.ids, rows.run_lengths)
        if options.n_features is None and width != size.width:
            raise _Width(width)
        queries.finish()


def _widen(X: Any, width: int) -> Any:
    if X.shape[1] == width:
        return X
    if not isinstance(X, np.ndarray):
        X.resize((X.shape[0], width))
        return X
    wide = np.zeros((X.shape[0], width), dtype=X.dtype)
    wide[:, : X.shape[1]] = X
    return wide
