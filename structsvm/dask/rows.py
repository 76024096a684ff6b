"""Objects on workers: the rows of a partition, and the partition of the training problem."""

import dataclasses
import sys
import threading
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from structsvm import queries
from structsvm.common.checks import BadInput
from structsvm.common.tables.ids import Spelling
from structsvm.estimators.linear import linear_scores
from structsvm.features.scaling import QueryScaler, scale_rows
from structsvm.oracles import get_oracle
from structsvm.protocols import Float
from structsvm.readers import open_store
from structsvm.trainers.partitioned import Partition
from structsvm.trainers.passes import masses

Stamp = tuple[int, int]
"""Size of a file, and checksum of its first and last 64 KB; the metadata of Parquet are at the end. A change in between
that keeps the size is not noticed."""

Dealt = tuple[int, int] | None
"""Number of folds, and the seed; None without folds."""

_ENDS = 1 << 16


def stamp(file: Path) -> Stamp:
    """Return the stamp of a file, by which a worker notices another version; times would differ between copies."""
    with file.open("rb") as raw:
        checksum = zlib.crc32(raw.read(_ENDS))
        size = raw.seek(0, 2)
        raw.seek(max(0, size - _ENDS))
        return size, zlib.crc32(raw.read(_ENDS), checksum)


def check_stamp(file: Path, expected: Stamp) -> None:
    """Raise if a file has changed since the call began, because partitions would mix rows of both versions."""
    if stamp(file) != expected:
        raise BadInput(
            file,
            "expected a file that is unchanged since this call began, got a changed one",
            "call again to read the new file",
        )


@dataclass
class Rows:
    """Rows of one partition, grouped by query; ``place`` names the partition in messages.

    Rows that are mapped from a store have its path, range of queries and stamp in ``origin``: instead of being sent to
    another worker, they are mapped there.
    """

    data: queries.QueryData
    weight: Float | None
    place: str
    origin: tuple[str, int, int, Stamp] | None = None

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        if self.origin is not None:
            state["data"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if self.origin is not None:
            self.data = load_store(*self.origin).data

    def __sizeof__(self) -> int:
        return 64 + (0 if self.origin is not None else n_bytes(self.data))

    def query_weights(self) -> Float:
        """Return the mean weight of the rows of each query."""
        lengths = np.diff(self.data.offsets)
        if self.weight is None:
            return np.ones(lengths.shape[0])
        return np.asarray(np.add.reduceat(self.weight, self.data.offsets[:-1]) / lengths)


class Summary(NamedTuple):
    """Sizes, columns and ids of a partition."""

    place: str
    n_rows: int
    n_features: int
    names: tuple[str, ...] | None
    ids: str
    """"strings" or "integers"."""
    spelling: Spelling
    kind: str
    """``"CSR"`` or ``"dense"``."""
    n_bytes: int
    first: Any
    last: Any
    """Ids of the first and the last query."""
    least: Any
    most: Any
    """Smallest and largest id."""


Summaries = Sequence[Summary]


def n_bytes(data: queries.QueryData) -> int:
    """Return the size of features and labels in bytes."""
    X = data.X
    parts = [X.data, X.indices, X.indptr] if bool(sparse.issparse(X)) else [X]
    size = sum(part.nbytes for part in parts)
    return int(size + data.y.nbytes)


def to_rows(X: object, y: ArrayLike, qid: ArrayLike, weight: object, place: str) -> Rows:
    """Return the rows of a block of frames, arrays or CSR matrices, after checks.

    Row labels (an index) are ignored. Float32 is kept, other numbers become float64.
    """
    try:
        return _to_rows(X, y, qid, weight, place)
    except BadInput as error:
        raise error.within(place) from None
    except (ValueError, TypeError) as error:
        raise BadInput(place, f"{error}") from None


def _to_rows(X: Any, y: ArrayLike, qid: Any, weight: Any, place: str) -> Rows:
    names = None
    if hasattr(X, "columns"):
        names = tuple(str(name) for name in X.columns)
        for name, kind in zip(X.columns, X.dtypes, strict=True):
            if getattr(kind, "kind", "O") not in "biuf":
                raise BadInput(
                    "X", f"expected numbers in the column {str(name)!r}, got {kind}", "drop or encode it"
                )
        # float32 only if all columns are; pandas would otherwise choose a common type itself
        narrow = all(getattr(kind, "kind", "") == "f" and kind.itemsize <= 4 for kind in X.dtypes)
        X = X.to_numpy(dtype=np.float32 if narrow else np.float64, na_value=np.nan)
    X = queries.check_features(X)
    n_rows = int(X.shape[0])
    labels = _column("y", y, n_rows)
    bad = queries.first_beyond(X, queries.LARGEST)
    if bad is not None:
        column = f"{bad[1]}" if names is None else repr(names[bad[1]])
        raise BadInput(
            "X",
            f"row {bad[0]}, column {column}: expected a finite number up to {queries.LARGEST:g}, got "
            f"{queries.value_at(X, *bad)}",
            "fill missing values first",
        )
    if qid is None:
        raise BadInput("qid", "expected the query of each row, got none")
    # weights of rows; those of queries, their means, are computed when the rows are in their final partition
    weights = None
    if weight is not None:
        weights = _column("sample_weight", weight, n_rows)
        queries.refuse_first("sample_weight", weights, weights < 0, "a number >= 0")
    return _grouped(X, labels, qid, weights, names, place)


def _grouped(X: Any, y: Float, ids: Any, weight: Float | None, names: Any, place: str) -> Rows:
    """Return checked rows, grouped by query."""
    data = queries.rows_in_groups(X, y, queries.group_queries(ids, int(X.shape[0])), feature_names=names)
    return Rows(data, weight if weight is None or data.order is None else weight[data.order], place)


def _column(name: str, values: ArrayLike, n_rows: int) -> Float:
    if values is None:
        raise BadInput(name, "expected one number per row, got none")
    if hasattr(values, "to_numpy"):
        values = values.to_numpy(dtype=np.float64, na_value=np.nan)
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (n_rows,):
        raise BadInput(name, f"expected {n_rows} values, one for each row of X, got shape {array.shape}")
    queries.refuse_first(name, array, ~np.isfinite(array), "a finite number")
    return array


def summary(rows: Rows) -> Summary:
    """Return sizes, columns and ids of the rows."""
    data, ids = rows.data, rows.data.query_ids
    ordered = np.sort(ids)
    first, last, least, most = (ids[0], ids[-1], ordered[0], ordered[-1]) if data.n_queries else (None,) * 4
    return Summary(
        place=rows.place,
        n_rows=data.n_rows,
        n_features=data.n_features,
        names=data.feature_names,
        ids="strings" if ids.dtype.kind == "U" else "integers",
        spelling=Spelling.of(ids),
        kind="CSR" if sparse.issparse(data.X) else "dense",
        n_bytes=n_bytes(data),
        first=_plain(first),
        last=_plain(last),
        least=_plain(least),
        most=_plain(most),
    )


def _plain(value: object) -> Any:
    return value.item() if hasattr(value, "item") else value


def take_query(rows: Rows, query: ArrayLike) -> Rows:
    """Return the rows of one query."""
    return _select(rows, rows.data.query_ids == query)


def _select(rows: Rows, chosen: Any) -> Rows:
    data = rows.data
    mask = np.repeat(chosen, np.diff(data.offsets))
    weight = None if rows.weight is None else rows.weight[mask]
    return Rows(data.select(chosen), weight, rows.place)


def join(first: Rows, *others: Rows, drop: Sequence[Any] = ()) -> Rows:
    """Return the rows of several partitions as one; leave out the queries ``drop`` of the first partition.

    The rows of the first partition are copied only if others are added or queries are left out.
    """
    remaining = _select(first, ~np.isin(first.data.query_ids, list(drop))) if drop else first
    parts = [remaining, *others]
    if len(parts) == 1:
        return parts[0]
    X, ids, labels = (
        queries.stacked([getattr(part.data, name) for part in parts]) for name in ("X", "qid", "y")
    )
    weight = queries.stacked([part.weight for part in parts])
    return _grouped(X, labels, ids, weight, first.data.feature_names, first.place)


def scored(rows: Rows, coef: Float, scaler: QueryScaler | None) -> Rows:
    """Return rows with their score as the only feature, for evaluation."""
    data = rows.data
    X = scaled(data, scaler) if data.n_rows else data.X
    column = linear_scores(X, coef)[:, np.newaxis]
    only_scores = queries.QueryData(
        column, np.asarray(data.y), np.asarray(data.offsets), np.asarray(data.query_ids)
    )
    return Rows(only_scores, rows.weight, rows.place)


def scaled(data: queries.QueryData, scaler: QueryScaler | None) -> Any:
    """Return the features for the trainer: scaled, which copies them, or unchanged."""
    return data.X if scaler is None else scale_rows(scaler, data.X, data.qid)


class Facts(NamedTuple):
    """Counts and sizes of a partition that are reported before training."""

    n_queries: int
    n_uninformative: int
    n_bytes: int
    labels: tuple[float, float]
    masses: tuple[float, float]
    """Total weight of the queries, and weight of the queries with a constraint."""
    n_plane_bytes: int = 0
    """Largest size of cached planes; 0 until the problem is bound."""


class Held:
    """A partition of the training problem on its worker.

    Its planes are a cache, which is neither sent to another worker nor written to disk: a copy begins without planes.
    ``folds`` is the number of folds and the seed; the fold of a query only depends on its id.
    """

    def __init__(self, rows: Rows, loss: Any, relevance: float, scaler: Any, folds: Dealt) -> None:
        self._arguments = rows, loss, relevance, scaler, folds
        # calls run in threads of the worker, and change the cached planes
        self.lock = threading.Lock()
        data = rows.data
        separator = get_oracle(loss, relevance=relevance).bind(np.asarray(data.y), data.offsets)
        weights = rows.query_weights()
        # a query of weight 0 gives no constraint, either
        informative = np.asarray(separator.informative) & (weights > 0)
        size = (0 if rows.origin else n_bytes(data)) + (0 if scaler is None else int(data.X.nbytes))
        labels = float(data.y.min()), float(data.y.max())
        factors = separator.query_weights
        mass = masses(separator, weights if factors is None else weights * factors)
        self.facts = Facts(data.n_queries, int((~informative).sum()), size, labels, mass)
        self._weights, self._folds = weights, _folds(data.query_ids, folds)
        self._scaled = scaled(data, scaler)
        self.part = Partition(self._scaled, data.offsets, separator, weights=weights, folds=self._folds)

    def queries(self) -> tuple[queries.QueryData, Float, Any]:
        """Return the training rows, and the weight and fold of each query."""
        return dataclasses.replace(self._arguments[0].data, X=self._scaled), self._weights, self._folds

    def __getstate__(self) -> Any:
        return self._arguments

    def __setstate__(self, arguments: object) -> None:
        self.__init__(*arguments)  # type: ignore[misc]

    def __sizeof__(self) -> int:
        return sys.getsizeof(self._arguments[0]) + self.part.n_bytes


def _folds(ids: ArrayLike, folds: Dealt) -> Any:
    if folds is None:
        return None
    # multiplicative hashing by an odd constant near 2^64 / golden ratio: similar ids get dissimilar high bits
    n, seed = folds
    mixed = hashes(ids) ^ np.random.default_rng(seed).integers(2**64, dtype=np.uint64)
    with np.errstate(over="ignore"):
        mixed = mixed * np.uint64(0x9E3779B97F4A7C15)
    return ((mixed >> np.uint64(32)) % np.uint64(n)).astype(np.int64)


def hashes(ids: Any) -> Any:
    """Return a 64-bit hash of each id, the same in all processes and for integers of any width."""
    from pandas.util import hash_array

    ids = widened(np.asarray(ids))
    return hash_array(ids.astype(object) if ids.dtype.kind in "US" else ids, categorize=False)


def widened(ids: Any) -> Any:
    """Return signed ids as int64: pandas hashes the bytes of numbers, which for -1 differ between widths."""
    return ids.astype(np.int64) if ids.dtype.kind == "i" else ids


def unique_hashes(rows: Rows, bucket: int, n_buckets: int) -> Any:
    """Return the hashes of query ids that are in a bucket."""
    values = hashes(rows.data.query_ids)
    return values[values % np.uint64(n_buckets) == np.uint64(bucket)]


def ids_of_hashes(rows: Rows, wanted: Any) -> dict[int, Any]:
    """Return the ids that have one of the wanted hashes, by hash."""
    values = hashes(rows.data.query_ids)
    at = np.flatnonzero(np.isin(values, wanted))
    return {int(values[i]): _plain(rows.data.query_ids[i]) for i in at}


def hold(rows: Rows, *problem: Any) -> Held:
    """Return the partition of the problem; runs on the worker of its rows."""
    try:
        return Held(rows, *problem)
    except BadInput as error:
        raise error.within(rows.place) from None


def facts(held: Held) -> Facts:
    """Return the counts and sizes of a partition, after binding its problem."""
    with held.lock:
        held.part.describe(None)
        return held.facts._replace(n_plane_bytes=held.part.n_bytes)


def call(held: Held, method: str, payload: tuple[Any, ...], parts_per_worker: int) -> Any:
    """Return the result of a method of the partition, run with its share of the threads of this worker."""
    from distributed import get_worker

    threads = get_worker().state.nthreads
    with held.lock:
        held.part.n_jobs = max(1, threads // max(1, parts_per_worker))
        return getattr(held.part, method)(*payload)


def load_store(path: str, first: int, last: int, expected: Stamp) -> Rows:
    """Map some queries of a store, which has the same path on every worker."""
    meta = Path(path, "meta.json")
    if not meta.exists():
        raise BadInput(
            Path(path),
            "expected the store on the worker, but it does not exist",
            "keep stores where every worker reaches them under the same path",
        )
    check_stamp(meta, expected)
    data = open_store(path).select(np.arange(first, last))
    check_stamp(meta, expected)  # checked again, because the store may be replaced while it is opened
    return Rows(data, None, f"{path}, queries {first} to {last - 1}", (path, first, last, expected))
