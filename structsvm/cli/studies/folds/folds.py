"""Sources of training, validation and test queries: benchmark folders, parts to rotate, or one file split into
parts."""

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import sparse

from structsvm import readers
from structsvm.common.checks import BadInput
from structsvm.common.files import is_packed
from structsvm.common.tables.source import Source, source_of
from structsvm.features.scaling import filled, medians
from structsvm.queries import QueryData, offsets_of, stacked, widened

_VALIDATION = ("vali", "valid", "validation")
_BLOCK = 1 << 22

Fill = float | Literal["median", "keep"] | None
Stamp = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class Part:
    """Queries on disk: all queries of several files, in order, or some queries of one file, by number."""

    files: tuple[Path, ...]
    queries: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Fold:
    """Queries to train on, choose C on, and test on; ``test`` is None in a search."""

    name: str
    train: Part
    validation: Part
    test: Part | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        return tuple(part for part in (self.train, self.validation, self.test) if part is not None)


class FoldData(NamedTuple):
    """A fold in memory or mapped from disk; all parts have the same features."""

    train: QueryData
    validation: QueryData
    test: QueryData | None


def find_folds(
    data: Path,
    *,
    n_folds: int = 5,
    random_state: int = 0,
    validation: Path | None = None,
    test: bool = True,
    columns: Mapping[str, Any] | None = None,
) -> tuple[Fold, ...]:
    """Return the folds that ``data`` holds or can be split into.

    ==========================================  =======================================================
    ``data``                                    folds
    ==========================================  =======================================================
    folder with ``Fold1``, ``Fold2``, ...       each with ``train``, ``vali`` and ``test``
    folder with ``train``, ``vali``, ``test``   this fold
    folder with ``S1`` ... ``Sn``, n >= 3       fold 1 trains on S1 ... S(n-2), chooses on S(n-1), tests on Sn;
                                                the next fold starts one part later (LETOR 4.0)
    one file or store                           its queries, shuffled and assigned to parts S1 ... Sn
    ==========================================  =======================================================

    Parts are LETOR/SVMlight texts with any extension, tables (``.csv``, ``.tsv``, Parquet) or stores.
    """
    data = Path(data)
    sources = [source_of(path) for path in (data, validation) if path is not None]
    for source in sources:
        if source.kind == "missing":
            raise FileNotFoundError(
                f"{source}: expected a file or folder of LETOR data, but it does not exist"
            )
    if validation is not None:
        return (Fold("all", Part((data,)), Part((validation,))),)
    if data.is_dir() and sources[0].kind != "store" and not _is_one_table(sources[0]):
        return tuple(fold if test else replace(fold, test=None) for fold in _in_folder(data))
    return _cut(sources[0], n_folds, random_state, test, dict(columns or {}))


def _is_one_table(source: Source) -> bool:
    """Return whether the files of a folder are one table, rather than the parts of a benchmark."""
    names = [_stem(file.path) for file in source.files]
    return bool(names) and not any(re.fullmatch(r"train|test|s\d+", name) for name in names)


def _in_folder(data: Path) -> tuple[Fold, ...]:
    inside = [path for path in data.iterdir() if not path.name.startswith(".")]
    folds = sorted(
        (p for p in inside if p.is_dir() and re.fullmatch(r"fold[ _-]?\d+", p.name, re.IGNORECASE)),
        key=lambda p: int(re.findall(r"\d+", p.name)[0]),
    )
    if folds:
        return tuple(_one_fold(folder.name, folder) for folder in folds)
    if any(_stem(path) == "train" for path in inside):
        return (_one_fold(data.name, data),)
    parts = {int(_stem(p)[1:]): p for p in inside if re.fullmatch(r"s\d+", _stem(p))}
    n = len(parts)
    if n >= 3 and sorted(parts) == list(range(1, n + 1)):
        ring = [parts[i + 1] for i in range(n)] * 2
        ends = (0, n - 2, n - 1, n)
        return tuple(
            Fold(f"Fold{k + 1}", *(Part(tuple(ring[k + a : k + b])) for a, b in pairwise(ends)))
            for k in range(n)
        )
    names = ", ".join(sorted(path.name for path in inside)[:6]) or "nothing"
    raise BadInput(
        data, f"expected Fold1, Fold2, ... or train, vali, test or parts S1, S2, S3, ..., got {names}"
    )


def _one_fold(name: str, folder: Path) -> Fold:
    parts = []
    for stems in (("train",), _VALIDATION, ("test",)):
        matching = sorted(path for path in folder.iterdir() if _stem(path) in stems)
        if len(matching) != 1:
            got = ", ".join(path.name for path in matching) or "none"
            raise BadInput(folder, f"expected one file or store called {stems[0]}.*, got {got}")
        parts.append(Part((matching[0],)))
    return Fold(name, *parts)


def _stem(path: Path) -> str:
    return path.name.split(".")[0].lower()


def _cut(
    source: Source, n_folds: int, random_state: int, test: bool, columns: dict[str, Any]
) -> tuple[Fold, ...]:
    # missing features do not matter, as only queries are counted
    options = {**columns, "features": ()} if source.is_table else columns
    options.pop("categorical", None)
    n_queries = _read(source, 0.0, options).n_queries
    least = 3 if test else 2
    if not least <= n_folds <= n_queries:
        why = ", as each fold needs parts for training, validation and test" if test else ""
        raise BadInput(
            "folds", f"expected {least} to {n_queries}, the number of queries in {source}{why}", value=n_folds
        )
    dealt = np.array_split(np.random.default_rng(random_state).permutation(n_queries), n_folds)

    def part(numbers: range) -> Part:
        chosen = np.sort(np.concatenate([dealt[i % n_folds] for i in numbers]))
        return Part((source.path,), tuple(chosen.tolist()))

    ends = (0, n_folds - 2, n_folds - 1, n_folds) if test else (0, n_folds - 1, n_folds)
    return tuple(
        Fold(f"Fold{k + 1}", *(part(range(k + a, k + b)) for a, b in pairwise(ends))) for k in range(n_folds)
    )


def load_fold(fold: Fold, fill: Fill = None, columns: Mapping[str, Any] | None = None) -> FoldData:
    """Read the parts of a fold.

    Tables are read with the given ``columns`` (see :func:`find_folds`) and the categories of the training part.
    ``fill="median"`` replaces missing features by the medians of the training part, ``fill="keep"`` leaves NaN.
    """
    named = tuple(
        (name, tuple(value) if name in ("features", "categorical") else value)
        for name, value in sorted((columns or {}).items())
    )
    return _loaded(fold, fill, named, tuple(_stamp(file) for part in fold.parts for file in part.files))


@lru_cache(maxsize=1)  # a worker trains the methods of a fold one after the other
def _loaded(
    fold: Fold, fill: Fill, columns: tuple[tuple[str, Any], ...], stamps: tuple[Stamp, ...]
) -> FoldData:
    options = dict(columns)
    if "categorical" in options:
        from structsvm.readers.categories import category_features

        # a file split into folds also has words of other queries, but they are constant in training and get no weight
        options["features"] = category_features(fold.train.files, **options)
    number = math.nan if isinstance(fill, str) else fill
    parts: list[QueryData] = []
    for part in fold.parts:
        parts.append(_load(part, number, options))
        options = _same_features(parts[0], options)
    if shared := _in_two(parts):
        raise BadInput(
            fold.name,
            f"expected each query in only one of its parts, got query {shared[0]!r} in two",
            "models would be tested on training queries",
        )
    if fill == "median":
        values = medians(parts[0], fold.train.files[0])
        parts = [filled(part, values) for part in parts]
    width = max(part.n_features for part in parts)
    as_sparse = sparse.issparse(parts[0].X)
    train, validation, *test = (_fit_to(part, width, as_sparse) for part in parts)
    return FoldData(train, validation, test[0] if test else None)


def _same_features(first: QueryData, columns: dict[str, Any]) -> dict[str, Any]:
    """Return the options ``columns`` with the feature names of the first part, in their order, if there are any."""
    return columns if first.feature_names is None else {**columns, "features": first.feature_names}


def _read(source: Source, fill: float | None, columns: Mapping[str, Any]) -> QueryData:
    is_store = source.kind == "store"
    filling: dict[str, Any] = {} if fill is None or is_store else {"fill": fill}
    if "categorical" in columns:
        from structsvm.readers.categories import read_categories

        options = {name: columns[name] for name in columns if name not in ("categorical", "features")}
        return read_categories(source, columns["features"], **options, **filling)
    if is_store and "features" in columns:  # the features of an earlier part
        data = readers.read_queries(source)
        if data.feature_names not in (None, columns["features"]):
            raise BadInput(
                source.path, "expected the features of the other parts, in their order, got others"
            )
        return data
    return readers.read_queries(source, **columns, **filling)


def _load(part: Part, fill: float | None, columns: dict[str, Any]) -> QueryData:
    pieces: list[QueryData] = []
    for path in part.files:
        pieces.append(_read(source_of(path), fill, columns))
        columns = _same_features(pieces[0], columns)
    if part.queries is not None:
        return pieces[0].select(np.asarray(part.queries))
    if len(pieces) == 1:
        return pieces[0]
    width = max(piece.n_features for piece in pieces)
    as_sparse = sparse.issparse(pieces[0].X)
    pieces = [_fit_to(piece, width, as_sparse) for piece in pieces]
    if shared := _in_two(pieces):
        names = ", ".join(map(str, part.files))
        raise BadInput(names, f"expected distinct queries, got query {shared[0]!r} in two of these files")
    docids = [piece.docid for piece in pieces]
    X, y = (stacked([getattr(piece, name) for piece in pieces]) for name in ("X", "y"))
    offsets = offsets_of(np.concatenate([np.diff(piece.offsets) for piece in pieces]))
    ids = np.concatenate([piece.query_ids.astype(str) for piece in pieces])
    docid = None if any(d is None for d in docids) else stacked(docids)
    return QueryData(X, y, offsets, ids, docid, None, pieces[0].feature_names)


def _in_two(pieces: Sequence[QueryData]) -> list[str]:
    """Return the ids of queries that are in more than one piece."""
    ids, counts = np.unique(np.concatenate([p.query_ids.astype(str) for p in pieces]), return_counts=True)
    return list(map(str, ids[counts > 1]))


def _fit_to(data: QueryData, width: int, as_sparse: bool) -> QueryData:
    """Return the same rows with ``width`` features (omitted features are 0) as a dense or CSR matrix."""
    X: Any = data.X
    if bool(sparse.issparse(X)) != as_sparse:
        X = sparse.csr_matrix(X) if as_sparse else X.toarray()
    X = widened(X, width)
    return data if X is data.X else replace(data, X=X)


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file, or of the names and bytes of the files of a store."""
    return _digest(path, _stamp(path))


def _stamp(path: Path) -> Stamp:
    """Return values that change when the file or store is written to."""
    return tuple((str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in _files(path))


def size_of(path: Path) -> int:
    """Return the size of a file or a store in bytes; a compressed file counts five times."""
    return (5 if is_packed(path) else 1) * sum(file.stat().st_size for file in _files(path))


def _files(path: Path) -> list[Path]:
    if not path.exists():
        return [file.path for file in source_of(path).files]
    return sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]


@lru_cache(maxsize=64)  # cached, as several folds share a file
def _digest(path: Path, stamp: Stamp) -> str:
    digest = hashlib.sha256()
    for file in _files(path):
        if path.is_dir():
            digest.update(f"{file.relative_to(path)}\0{file.stat().st_size}\0".encode())
        with file.open("rb") as source:
            while block := source.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()
