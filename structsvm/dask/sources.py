"""``pieces``: the input of the estimators as delayed tasks, which load the rows of a partition on a worker."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from structsvm.common.checks import BadInput
from structsvm.common.names import QID
from structsvm.common.tables.frames import release_memory, row_groups_of
from structsvm.common.tables.opening import open_files
from structsvm.common.tables.source import File, matching, source_of
from structsvm.dask.rows import Rows, Stamp, check_stamp, load_store, stamp, to_rows
from structsvm.protocols import Int
from structsvm.queries import QueryData
from structsvm.readers import open_store, read_letor
from structsvm.readers.tables import Layout, layout_of, read_units

_PART_BYTES = 1 << 31
"""Largest size of a partition of files: enough work for a round, but not too much to repeat."""


Units = Sequence[tuple[File, list[int], int]]
"""Files, each with some of its row groups and their number of rows."""


class Pieces(NamedTuple):
    """The partitions of the input, as delayed tasks."""

    delayed: list[Any]
    n_bytes: int | None
    """Size of all rows in memory, if known before they are read; 0 for stores, which are mapped."""
    reload: Any = None
    """For LETOR files, whose width is known only after all files are read: function that takes the width and the format
    and returns the pieces."""


def is_path(X: object) -> bool:
    """Return whether ``X`` is a path or a list of paths."""
    return isinstance(X, (str, PathLike)) or (
        isinstance(X, (list, tuple)) and len(X) > 0 and all(isinstance(x, (str, PathLike)) for x in X)
    )


def _listed(X: Any) -> list[Any]:
    return [X] if isinstance(X, (str, PathLike)) else list(X)


def has_names(X: object) -> bool:
    """Return whether ``X`` has named columns: a frame, or Parquet files."""
    if is_path(X):
        return all(source_of(path).kind == "parquet" for path in _listed(X))
    return _is(X, "dask.dataframe", "npartitions")


def pieces(
    X: Any, y: Any, qid: Any, sample_weight: Any, *, n_threads: int, features: Sequence[str] | None = None
) -> Pieces:
    """Return the partitions of a collection, of delayed partitions, or of files.

    Files are divided into at least ``n_threads`` partitions; ``features`` are the columns of tables to use.
    """
    if is_path(X):
        if sample_weight is not None:
            raise BadInput(
                "sample_weight", "expected none for files; read them with dask.dataframe to add weights"
            )
        return _of_files(X, y, qid, n_threads, features)
    if _is(X, "dask.dataframe", "npartitions"):
        return Pieces(_of_frame(X, y, qid, sample_weight, features), None)
    if _is(X, "dask.array", "chunks"):
        size = None if np.isnan(X.nbytes) else int(X.nbytes)
        return Pieces(_of_array(X, y, qid, sample_weight), size)
    if isinstance(X, (list, tuple)) and len(X) > 0:
        if y is not None or qid is not None or sample_weight is not None:
            raise BadInput("X", "expected delayed partitions that hold labels and ids themselves")
        from dask.delayed import delayed

        make = delayed(_of_anything, pure=False)
        return Pieces([make(part, f"partition {k}") for k, part in enumerate(X)], None)
    raise BadInput(
        "X",
        "expected a dask DataFrame or Array, a list of delayed partitions, or the path of Parquet files, LETOR files "
        f"or stores, got {type(X).__name__}",
        code="dask.dataframe.from_pandas(X, npartitions=4)",
    )


def _is(X: object, module: str, attribute: str) -> bool:
    # compare the module of the class, so that Dask is not imported for other input; frames used to be in dask_expr
    kind = type(X).__module__
    return kind.startswith((module, module.replace("dask.dataframe", "dask_expr"))) and hasattr(X, attribute)


def _of_anything(part: object, place: str) -> Rows:
    """Return the rows of a delayed partition: QueryData, or (X, y, qid) with optional weights."""
    if isinstance(part, QueryData):
        return Rows(part, None, place)
    if isinstance(part, (tuple, list)) and len(part) in (3, 4):
        X, y, qid, weight = [*part, None][:4]
        return to_rows(X, y, qid, weight, place)
    raise BadInput(
        place, f"expected (X, y, qid), (X, y, qid, sample_weight) or QueryData, got {type(part).__name__}"
    )


def _of_frame(
    X: Any, y: ArrayLike, qid: ArrayLike, weight: object, features: Sequence[str] | None
) -> list[Any]:
    import dask.dataframe as dd
    import pandas as pd
    from dask.delayed import delayed

    if not hasattr(X, "columns"):
        raise BadInput("X", "expected a DataFrame, got a Series", code="X.to_frame()")
    columns = list(X.columns)
    taken = []  # columns of labels, ids and weights, which are not features
    given = {"y": y, "qid": qid, "sample_weight": weight}
    if qid is None and QID in columns:
        given["qid"] = QID
    for name, column in given.items():
        if isinstance(column, str):
            if column not in columns:
                raise BadInput(
                    name,
                    f"expected a column of X, got {column!r}; the first columns of X are "
                    + ", ".join(map(repr, columns[:5])),
                )
            given[name] = X[column]
            taken.append(column)
        elif column is not None and not hasattr(column, "npartitions"):
            raise BadInput(
                name,
                "expected a dask Series with the partitions of X, or the name of a column, got "
                f"{type(column).__name__}",
            )
        elif column is not None and column.npartitions != X.npartitions:
            raise BadInput(name, f"expected the {X.npartitions} partitions of X, got {column.npartitions}")
    missing = [name for name in features or () if name not in columns]
    if missing:
        raise BadInput(
            "features",
            f"expected columns of X, got {missing[0]!r}; X has " + ", ".join(map(repr, columns[:5])),
        )
    rows = X[[c for c in columns if c not in taken] if features is None else list(features)]
    # one expression for all four: the optimiser of Dask might partition separate expressions differently
    blocks = dd.map_partitions(
        _Block,
        rows,
        *given.values(),
        meta=pd.Series([], dtype=object),
        enforce_metadata=False,
        align_dataframes=False,
        transform_divisions=False,
    )
    load = delayed(_of_block, pure=False)
    return [load(block, f"partition {k}") for k, block in enumerate(blocks.to_delayed())]


class _Block:
    """One partition of several frames and Series, which Dask passes on unchanged."""

    def __init__(self, X: Any, y: Any, qid: Any, weight: ArrayLike) -> None:
        self.columns = X, y, qid, weight


def _of_block(block: Any, place: str) -> Rows:
    X, y, qid, weight = block.columns
    return to_rows(X, y, qid, weight, place)


def _of_array(X: Any, y: Any, qid: Any, weight: Any) -> list[Any]:
    from dask.delayed import delayed

    if X.ndim != 2:
        raise BadInput("X", f"expected two dimensions, got {X.ndim}")
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    blocks = [list(X.to_delayed().ravel())]
    # chunks of labels, ids and weights are aligned to those of X; chunks of unknown size are compared only by their
    # number
    for name, column in (("y", y), ("qid", qid), ("sample_weight", weight)):
        if column is None:
            blocks.append([None] * len(blocks[0]))
            continue
        if not hasattr(column, "to_delayed"):
            raise BadInput(name, f"expected a dask Array with the chunks of X, got {type(column).__name__}")
        known = not np.isnan([*X.chunks[0], *getattr(column, "chunks", ((np.nan,),))[0]]).any()
        if known and column.shape[0] != X.shape[0]:
            raise BadInput(
                name, f"expected {X.shape[0]} values, one for each row of X, got {column.shape[0]}"
            )
        if known and column.chunks[0] != X.chunks[0]:
            column = column.rechunk(X.chunks[:1])
        parts = list(np.ravel(column.to_delayed()))
        if len(parts) != len(blocks[0]):
            raise BadInput(name, f"expected the {len(blocks[0])} chunks of X, got {len(parts)}")
        blocks.append(parts)
    make = delayed(to_rows, pure=False)
    return [make(*block, f"partition {k}") for k, block in enumerate(zip(*blocks, strict=True))]


def _of_files(X: object, y: Any, qid: Any, n_threads: int, features: Sequence[str] | None) -> Pieces:
    sources = list(map(source_of, _listed(X)))
    for name, column in (("y", y), ("qid", qid)):
        if column is not None and not isinstance(column, str):
            raise BadInput(name, f"expected the name of a column of the files, got {type(column).__name__}")
    if all(source.kind == "parquet" for source in sources):
        tables = [file for source in sources for file in source.files]
        _refuse_twice([file.path for file in tables])
        return _of_tables(tables, y or "label", qid or QID, n_threads, features)
    if y is not None or qid is not None:
        raise BadInput("y", "expected none for text files and stores, which contain labels and ids")
    files = [file for source in sources for file in _matching(source.path)]
    _refuse_twice(files)
    stores = [file for file in files if (file / "meta.json").exists()]
    if stores and len(stores) < len(files):
        other = next(file for file in files if file not in stores)
        raise BadInput("X", f"expected files of one kind, got {stores[0]}, a store, and {other}")
    if stores:
        return _of_stores(stores, n_threads)
    texts = [text for file in files for text in (sorted(file.iterdir()) if file.is_dir() else [file])]
    return _of_texts([text for text in texts if text.is_file()], None, None)


def _refuse_twice(files: Sequence[Path]) -> None:
    """Raise for a file that is given twice, because its rows would count twice."""
    twice = [file for file, n in Counter(file.resolve() for file in files).items() if n > 1]
    if twice:
        raise BadInput(twice[0], "expected each file once, got it twice", "leave one out")


def _matching(path: Path) -> list[Path]:
    """Return the files of a path or pattern; for a folder of stores, the stores."""
    if path.is_dir() and not (path / "meta.json").exists():
        return sorted(meta.parent for meta in path.glob("*/meta.json")) or [path]
    files = [path] if path.exists() else matching(path)
    if not files:
        raise BadInput(path, "expected a file, a folder of files or a pattern, got no matching file")
    return files


def _of_tables(
    files: Sequence[File], label: str, qid: str, n_threads: int, features: Sequence[str] | None
) -> Pieces:
    from dask.delayed import delayed

    try:
        layout = layout_of(open_files(files), label=label, qid=qid, features=features)
    except BadInput as error:
        raise error.recommending("y", instead_of="label") from None
    stamps = {file.path: stamp(file.path) for file in files}
    # units are files with row groups and numbers of rows; partitions are ranges of units
    units = [(file, [k], n) for file in files for k, n in enumerate(row_groups_of(file.path)) if n > 0]
    n_rows = sum(n for _, _, n in units)
    row_bytes = len(layout.features) * layout.dtype.itemsize
    whole = _merged(units)
    if len(whole) >= n_threads and max(n for _, _, n in whole) * row_bytes <= _PART_BYTES:
        units = whole  # files are more likely than row groups to contain whole queries
    size = n_rows * row_bytes
    borders = _borders([n for _, _, n in units], size, n_threads)
    load = delayed(_load_tables, pure=False)
    parts = [
        load(part, layout, {file.path: stamps[file.path] for file, *_ in part})
        for part in [_merged(units[a:b]) for a, b in pairwise(borders)]
    ]
    return Pieces(parts, size)


def _borders(sizes: Sequence[int] | Int, n_bytes: int, n_threads: int) -> list[int]:
    """Return the index at which each part begins, for parts of about equal size, followed by the number of units."""
    # cut where the sum of sizes passes each of n_parts - 1 evenly spaced targets
    n_parts = min(len(sizes), max(n_threads, -(-n_bytes // _PART_BYTES)))
    ends = np.cumsum(sizes)
    targets = ends[-1] * np.arange(1, n_parts) / n_parts
    inner = np.searchsorted(ends, targets) + 1
    return [0, *sorted({int(cut) for cut in inner if 0 < cut < len(sizes)}), len(sizes)]


def _merged(units: Units) -> list[tuple[File, list[int], int]]:
    """Return units with one entry per file, instead of one per row group."""
    merged: list[tuple[File, list[int], int]] = []
    for file, groups, n in units:
        if merged and merged[-1][0] == file:
            merged[-1] = (file, [*merged[-1][1], *groups], merged[-1][2] + n)
        else:
            merged.append((file, groups, n))
    return merged


def _load_tables(units: Units, layout: Layout, stamps: dict[Path, Stamp]) -> Rows:
    # checked again on the worker, and each time that a lost partition is rebuilt
    first, last = units[0][0].path, units[-1][0].path
    for file, expected in stamps.items():
        check_stamp(file, expected)
    tables = open_files([file for file, *_ in units])
    data, _ = read_units([(table, unit[1]) for table, unit in zip(tables, units, strict=True)], layout)
    release_memory()
    return Rows(data, None, str(first) if first == last else f"{first} to {last.name}")


def _of_stores(stores: Sequence[Path], n_threads: int) -> Pieces:
    from dask.delayed import delayed

    make = delayed(load_store, pure=False)
    parts = []
    # stamps before opening: a store that is replaced in between is detected when it is loaded
    stamps = [stamp(store / "meta.json") for store in stores]
    opened = [open_store(store) for store in stores]
    for store, data in zip(stores, opened, strict=True):
        if data.y is None:
            raise BadInput(store, "expected labels, got a store without labels", "convert rows with labels")
    n_all = sum(data.n_rows for data in opened)
    for store, data, noted in zip(stores, opened, stamps, strict=True):
        share = max(1, round(n_threads * data.n_rows / n_all))
        borders = _borders(np.diff(data.offsets), data.X.data.nbytes, share)
        path = str(store.resolve())
        parts += [make(path, a, b, noted) for a, b in pairwise(borders)]
    return Pieces(parts, 0)


def _of_texts(
    files: Sequence[Path], n_features: int | None, as_sparse: bool | None, stamps: Sequence[Stamp] = ()
) -> Pieces:
    from dask.delayed import delayed

    if not files:
        raise BadInput("X", "expected LETOR files, got an empty folder")
    make = delayed(_load_text, pure=False)
    stamps = stamps or [stamp(file) for file in files]
    parts = [make(str(file), n_features, as_sparse, one) for file, one in zip(files, stamps, strict=True)]
    return Pieces(parts, None, lambda width, kind: _of_texts(files, width, kind, stamps))


def _load_text(path: str, n_features: int | None, as_sparse: bool | None, expected: Stamp) -> Rows:
    check_stamp(Path(path), expected)
    options: dict[str, Any] = {} if as_sparse is None else {"sparse": as_sparse}
    return Rows(read_letor(path, n_features=n_features, n_jobs=1, **options), None, path)
