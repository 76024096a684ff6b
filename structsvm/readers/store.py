"""The store: a folder of ``.npy`` files that opens in milliseconds at any size, because its data are not read.

``meta.json`` contains format, version, the dtype, shape and CRC-32 of each array, and its own CRC-32; the arrays are
mapped read-only. Values are validated when they are written, but files may be damaged afterwards. Opening therefore
checks the sizes, the checksums of arrays of up to 8 MB, and the boundaries of queries and of sparse rows, on which
compiled code relies; ``check_store`` reads everything.
"""

import contextlib
import json
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse as scipy_sparse

from structsvm import queries
from structsvm.common.array_files import Damaged, read_header, read_json
from structsvm.common.checks import BadInput
from structsvm.common.files import AnyPath, destination, permissions
from structsvm.readers.store_place import discard, new_part, put_back, put_in_place

_FORMAT = "structsvm-store"
_VERSION = 1
_META = "meta.json"
_HEADER_BYTES = 256
_BLOCK_BYTES = 1 << 26
_STRINGS_AT_ONCE = 1 << 16
_ROWS_AT_ONCE = 1 << 26
_CHEAP_BYTES = 1 << 23
"""Arrays of up to 8 MB are compared with their checksums on opening, which takes a few milliseconds each."""

_MOST_META_BYTES = 1 << 20

_TYPES = {
    "X": "<f[48]",
    "data": "<f[48]",
    "indices": "<i[48]",
    "indptr": "<i[48]",
    "y": "<f8",
    "offsets": "<i8",
    "order": "<i8",
    "query_ids": ".[iuU].*",
    "docid": ".U.*",
    "feature_names": ".U.*",
}
"""Dtypes that the arrays of a store may have, as regular expressions."""

_MATRIX = {"dense": {"X"}, "csr": {"data", "indices", "indptr"}}


def open_store(path: AnyPath) -> queries.QueryData:
    """Open a store; ``X`` (or the parts of a CSR ``X``), labels and ids are read-only memory maps.

    Parameters
    ----------
    path : path
        Folder that :func:`write_store`, :func:`convert_letor` or a :class:`StoreWriter` wrote.

    Returns
    -------
    QueryData

    Raises
    ------
    FileNotFoundError
        If there is no such folder.
    ValueError
        If the folder is not a store or has a later version, or a file is missing, truncated, damaged or belongs
        to another store.

    Notes
    -----
    For a large store only the sizes, the boundaries of the queries (and of the rows of a CSR ``X``) and the checksums
    of the arrays of up to 8 MB are checked; ``structsvm convert --check`` reads everything. The indices of a CSR
    ``X`` are checked where they are used.

    Examples
    --------
    >>> from structsvm.queries import QueryData
    >>> write_store(QueryData.from_arrays([[1.0], [2.0]], [0, 1], [7, 7]), "train.store")
    >>> open_store("train.store")
    QueryData(1 query, 2 rows, 1 feature, dense float64)
    """
    return _opened(Path(path))[2]


def _opened(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]], queries.QueryData]:
    """Return the description, the arrays and the data of the store at ``path``."""
    put_back(path, is_store)
    meta = _read_meta(path)
    arrays = {name: _map(path, name, spec) for name, spec in _stated(path, meta)[1].items()}
    data = _data(path, meta, arrays)
    if _read_meta(path) != meta:  # including checksums, so that all arrays belong to one store
        raise BadInput(
            path, "expected a store that is not replaced while it is opened, got a new one", "open it again"
        )
    return meta, arrays, data


def _data(path: Path, meta: dict[str, Any], arrays: dict[str, Any]) -> queries.QueryData:
    """Check the arrays that ``meta`` describes, and return them as data."""
    shape, specs = _stated(path, meta)
    for name, array in arrays.items():
        if array.nbytes <= _CHEAP_BYTES:
            _compare(path, name, array, specs[name])
    try:
        if meta["kind"] == "dense":
            X: Any = arrays["X"]
        else:
            queries.check_offsets(arrays["indptr"], specs["data"]["shape"][0], "indptr")
            # the constructor would read the indices to check them
            X = scipy_sparse.csr_matrix(shape, dtype=arrays["data"].dtype)
            X.data, X.indices, X.indptr = arrays["data"], arrays["indices"], arrays["indptr"]
            X.has_sorted_indices = X.has_canonical_format = True
            if X.indices.nbytes <= _CHEAP_BYTES:
                queries.check_sparse(X)
        offsets = arrays["offsets"]
        queries.check_offsets(offsets, shape[0])
        if offsets[-1] != shape[0] or (offsets[1:] == offsets[:-1]).any():
            raise BadInput("offsets", f"expected queries of at least one row that end at row {shape[0]}")
    except BadInput as error:
        raise _damaged(path, error.fault) from None
    names = arrays.get("feature_names")
    y: Any = arrays.get("y")
    return queries.QueryData(
        X,
        y,
        offsets,
        arrays["query_ids"],
        arrays.get("docid"),
        arrays.get("order"),
        None if names is None else tuple(names.tolist()),
    )


def check_store(path: AnyPath, *, callback: Callable[[int, int], None] | None = None) -> bool:
    """Read a whole store; raise unless it agrees with its checksums and contains only valid values.

    Return whether all arrays have checksums. Stores of earlier versions have none, so that a change to another valid
    value is not detected. ``callback(n_bytes, n_all)`` is called after each block.
    """
    path = Path(path)
    meta, mapped, data = _opened(path)
    n_all, done = sum(array.nbytes for array in mapped.values()), 0

    def tell(n_bytes: int) -> None:
        nonlocal done
        done += n_bytes
        if callback is not None:
            callback(done, n_all)

    for name, array in mapped.items():
        _compare(path, name, array, meta["arrays"][name], tell)
    try:
        queries.check_sparse(data.X)
        if (bad := queries.first_beyond(data.X, missing=True)) is not None:
            raise queries.bad_value(data.X, *bad)
        if bool(scipy_sparse.issparse(data.X)):
            _check_ascending(data.X)
        if data.y is not None:
            queries.refuse_first("y", data.y, ~np.isfinite(data.y), "a finite label")
        for name in ("query_ids", "docid"):
            _check_text(name, getattr(data, name))
        if data.feature_names is not None:
            _check_text("feature_names", np.array(data.feature_names))
        if np.unique(data.query_ids).size != data.n_queries:
            raise BadInput("query_ids", "expected each query once, got one twice")
        if data.order is not None and not np.array_equal(np.sort(data.order), np.arange(data.n_rows)):
            raise BadInput("order", "expected each row once")
    except BadInput as error:
        raise _damaged(path, error.fault) from None
    return "crc32" in meta and all("crc32" in spec for spec in meta["arrays"].values())


def write_store(data: queries.QueryData, path: AnyPath) -> None:
    """Write a store, in chunks, as a :class:`StoreWriter` does.

    ``order`` is stored only if rows of a query were not contiguous in the source, so that scores can be written in the
    order of the source.

    Parameters
    ----------
    data : QueryData
        Rows to write.
    path : path
        As for :class:`StoreWriter`.

    Examples
    --------
    >>> from structsvm.queries import QueryData
    >>> write_store(QueryData.from_arrays([[1.0], [2.0]], [0, 1], [7, 7]), "train.store")
    >>> sorted(file.name for file in Path("train.store").iterdir())
    ['X.npy', 'meta.json', 'offsets.npy', 'query_ids.npy', 'y.npy']
    """
    is_csr = scipy_sparse.issparse(data.X)
    with StoreWriter(
        path, data.n_features, dtype=data.X.dtype, sparse=is_csr, feature_names=data.feature_names
    ) as writer:
        row_bytes = max(1, (data.X.data.nbytes if is_csr else data.X.nbytes) // max(1, data.n_rows))
        for first, last in queries.query_pieces(data.offsets, max(1, _BLOCK_BYTES // row_bytes)):
            part, rows = data.select(np.arange(first, last)), slice(data.offsets[first], data.offsets[last])
            order = None if data.order is None else data.order[rows]
            writer.append(
                part.X, part.y, np.diff(part.offsets), part.query_ids, docid=part.docid, order=order
            )


class StoreWriter:
    """Write a store piece by piece, each of whole queries; the store may be larger than memory.

    Use it as a context manager. The folder is built under a temporary name beside ``path`` and renamed when the block
    succeeds; only then is an earlier store at ``path`` replaced. If the block fails, nothing remains.

    Parameters
    ----------
    path : path
        Folder to create or replace, by convention called ``<name>.store``.
    n_features : int
        Number of columns of ``X``.
    dtype : {float64, float32}
        Type in which ``X`` is stored.
    sparse : bool
        Whether the pieces of ``X`` are CSR matrices.
    feature_names : sequence of str, optional
        Names of the features, one per feature.

    Raises
    ------
    FileExistsError
        If ``path`` exists and is not a store.
    OSError
        If the folder cannot be written or the disk is full.

    Examples
    --------
    >>> with StoreWriter("big.store", n_features=2, dtype=np.float32) as writer:
    ...     for q in range(3):
    ...         writer.append(np.ones((4, 2), np.float32), [0, 0, 1, 2], sizes=[4], query_ids=[q])
    >>> open_store("big.store")
    QueryData(3 queries, 12 rows, 2 features, dense float32)
    """

    def __init__(
        self,
        path: AnyPath,
        n_features: int,
        *,
        dtype: DTypeLike = np.float64,
        sparse: bool = False,
        feature_names: Sequence[str] | None = None,
    ) -> None:
        self.path = Path(path)
        self.n_features = int(n_features)
        self.dtype = np.dtype(dtype)
        self.sparse = sparse
        if self.dtype not in (np.float32, np.float64):
            raise BadInput("dtype", "expected float32 or float64", value=self.dtype)
        self.feature_names = None if feature_names is None else tuple(map(str, feature_names))
        if self.feature_names is not None and len(self.feature_names) != self.n_features:
            raise BadInput(
                "feature_names", f"expected {self.n_features}, one per feature, got {len(self.feature_names)}"
            )
        self._part: Path  # set on entering the ``with`` block
        self._target = self.path
        self._files: dict[str, IO[bytes]] = {}
        self._crc: dict[str, int] = {}
        self._sizes: list[NDArray[np.int64]] = []
        self._ids: list[NDArray[Any]] = []
        self._docid_width = 0  # docids are not stored if all are empty
        self._n_rows = self._n_stored = 0

    def __enter__(self) -> Self:
        self._target = place_of(self.path)
        try:
            part = new_part(self._target)
        except OSError as error:
            raise OSError(error.errno, f"cannot write here ({error.strerror})", str(self.path)) from error
        self._part = part
        return self

    def append(
        self,
        X: Any,
        y: Any,
        sizes: Any,
        query_ids: Any,
        *,
        docid: NDArray[np.str_] | None = None,
        order: NDArray[np.int64] | None = None,
    ) -> None:
        """Append whole queries. ``y``, ``docid`` and ``order`` are given in every call or in none.

        Parameters
        ----------
        X : ndarray or CSR matrix, shape (n, n_features)
            Features; NaN is a missing value, which trees accept.
        y : array-like, shape (n,), or None
            Labels.
        sizes : array-like of int, shape (k,)
            Number of rows of each query, >= 1; the sum is n.
        query_ids : array-like of int or str, shape (k,)
            Ids of the queries.
        docid : array-like of str, shape (n,), optional
            Ids of the documents; not stored if all are empty.
        order : array-like of int, shape (n,), optional
            The index of each row in the source, if the source has a different order.
        """
        n = int(X.shape[0])
        labelled = y is not None
        y = np.asarray(y if labelled else np.zeros(n), dtype=np.float64)
        sizes = np.asarray(sizes, dtype=np.int64)
        query_ids = np.asarray(query_ids)
        if scipy_sparse.issparse(X) != self.sparse:
            raise BadInput(
                "X", f"expected a {'CSR matrix' if self.sparse else 'dense array'}, got {type(X).__name__}"
            )
        if X.shape[1] != self.n_features or y.shape != (n,) or sizes.sum() != n or (sizes < 1).any():
            raise BadInput(
                "X",
                f"expected {self.n_features} features, one label per row, and sizes >= 1 of all queries, got "
                f"{X.shape}, {y.shape[0]} labels and sizes that add up to {sizes.sum()}",
            )
        if query_ids.shape != sizes.shape:
            raise BadInput("query_ids", f"expected {sizes.shape[0]}, one per query, got {query_ids.shape[0]}")
        for name, given in (("docid", docid is not None), ("y", labelled), ("order", order is not None)):
            if self._n_rows and given != (name in self._files):
                raise BadInput(name, "expected in each piece or in none, got it in some")
        if (
            bad := queries.first_beyond(X.tocsr() if self.sparse else np.asarray(X), missing=True)
        ) is not None:
            raise queries.bad_value(X, *bad, at=f"[{self._n_rows + bad[0]}, {bad[1]}]")
        queries.refuse_first("y", y, ~np.isfinite(y), "a finite label", start=self._n_rows)
        with naming(self.path):
            if self.sparse:
                X = X.tocsr()
                if not X.has_canonical_format:
                    X = X.copy()
                    X.sum_duplicates()
                self._n_stored += X.data.size
                self._write("data", X.data.astype(self.dtype, copy=False))
                self._write("indices", X.indices.astype(np.int32, copy=False))
                self._write("row_nnz", np.diff(X.indptr).astype(np.int64, copy=False))
            else:
                self._write("X", np.ascontiguousarray(X, dtype=self.dtype))
            if labelled:
                self._write("y", y)
            if order is not None:
                if np.shape(order) != (n,):
                    raise BadInput(
                        "order", f"expected each of the {n} rows once, got shape {np.shape(order)}"
                    )
                self._write("order", np.asarray(order, dtype=np.int64))
            if docid is not None:
                # the final width is known only at the end; until then each piece is saved with its own width
                words = np.asarray(docid).astype(np.str_)
                if (words != "").any():
                    self._docid_width = max(self._docid_width, words.dtype.itemsize // 4)
                file = self._open("docid")
                for a in range(0, n, _STRINGS_AT_ONCE):
                    np.save(file, words[a : a + _STRINGS_AT_ONCE])
        self._sizes.append(sizes)
        self._ids.append(query_ids)
        self._n_rows += n

    def _open(self, name: str) -> IO[bytes]:
        assert hasattr(self, "_part"), "append requires a StoreWriter in a with block"
        if name not in self._files:
            # unbuffered: the pieces are large, and each write reports its own failure
            buffering = -1 if name == "docid" else 0
            self._files[name] = (self._part / f"{name}.tmp").open("xb", buffering=buffering)
            if name != "docid":
                self._files[name].write(b"\0" * _HEADER_BYTES)
        return self._files[name]

    def temporary(self, name: str) -> IO[bytes]:
        """Return a new file beside the arrays, which is removed when the ``with`` block ends."""
        self._files[name] = (self._part / f"{name}.tmp").open("w+b")
        return self._files[name]

    def _write(self, name: str, array: NDArray[Any]) -> None:
        file = self._open(name)
        view = array.reshape(-1).view(np.uint8).data
        self._crc[name] = zlib.crc32(view, self._crc.get(name, 0))
        while view:  # a write to a file may be partial, and always is beyond 2 GB
            view = view[file.write(view) :]

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if kind is None:
                with naming(self.path):
                    self._finish()
        finally:
            for file in self._files.values():
                # a failed flush has been reported, or is being reported
                with contextlib.suppress(OSError):
                    file.close()
            discard(self._part)

    def _finish(self) -> None:
        part = self._part
        if self._n_rows == 0:
            raise BadInput(self.path, "expected at least one query, got none")
        arrays: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
        if self.sparse:
            nnz = self._n_stored
            index = np.dtype(np.int32 if nnz < 2**31 and self.n_features < 2**31 else np.int64)
            arrays["data"] = (self.dtype, (nnz,))
            self._finish_sparse(index)
            arrays["indices"], arrays["indptr"] = (index, (nnz,)), (index, (self._n_rows + 1,))
        else:
            arrays["X"] = (self.dtype, (self._n_rows, self.n_features))
        of_rows = {"y": np.dtype(np.float64), "order": np.dtype(np.int64)}
        arrays |= {name: (dtype, (self._n_rows,)) for name, dtype in of_rows.items() if name in self._files}
        if "order" in arrays:
            self._check_order()
        if self._docid_width:
            arrays["docid"] = (np.dtype(f"<U{self._docid_width}"), (self._n_rows,))
            self._finish_docid(arrays["docid"][0])
        ids = self._ids
        if any(i.dtype.kind not in "iu" for i in ids):
            # not astype, which reserves space for the longest possible integer
            ids = [np.array([str(word) for word in i.tolist()]) for i in ids]
        small = {"offsets": queries.offsets_of(np.concatenate(self._sizes)), "query_ids": np.concatenate(ids)}
        if self.feature_names:
            small["feature_names"] = np.array(self.feature_names, dtype=np.str_)
        if np.unique(small["query_ids"]).size != small["query_ids"].size:
            raise BadInput(self.path, "expected each query in one piece, got a query id twice")
        for name, array in small.items():
            self._write(name, array.view(np.uint8) if array.dtype.kind == "U" else array)
            arrays[name] = (array.dtype, array.shape)
        for name, (dtype, shape) in arrays.items():
            file = self._files.pop(name)
            file.seek(0)
            file.write(_header(dtype, shape))
            file.flush()
            os.fsync(file.fileno())
            file.close()
            (part / f"{name}.tmp").rename(part / f"{name}.npy")
        meta = {
            "format": _FORMAT,
            "version": _VERSION,
            "kind": "csr" if self.sparse else "dense",
            "n_rows": self._n_rows,
            "n_features": self.n_features,
            "arrays": {
                name: {"dtype": dtype.str, "shape": list(shape), "crc32": f"{self._crc.get(name, 0):08x}"}
                for name, (dtype, shape) in arrays.items()
            },
        }
        meta["crc32"] = _meta_crc(meta)
        with (part / _META).open("w") as text:
            text.write(json.dumps(meta, indent=1) + "\n")
            text.flush()
            os.fsync(text.fileno())
        for left in part.glob("*.tmp"):
            left.unlink()
        of_folder, of_file = permissions(self._target), permissions(self._target / _META)
        if of_folder is not None and of_file is not None:
            for written in part.iterdir():
                written.chmod(of_file)
            part.chmod(of_folder)
        put_in_place(part, self._target, is_store)

    def _check_order(self) -> None:
        """Raise for an order that lacks or repeats a row; a limited number of rows is checked at a time."""
        for first in range(0, self._n_rows, _ROWS_AT_ONCE):
            there = np.zeros(min(_ROWS_AT_ONCE, self._n_rows - first), dtype=np.bool_)
            with (self._part / "order.tmp").open("rb") as file:
                file.seek(_HEADER_BYTES)
                while (block := np.fromfile(file, np.int64, _STRINGS_AT_ONCE)).size:
                    there[block[(block >= first) & (block < first + there.size)] - first] = True
            if not there.all():
                raise BadInput("order", f"expected each of the {self._n_rows} rows once")

    def _finish_sparse(self, index: np.dtype[Any]) -> None:
        """Write the row counts as ``indptr``, and the indices as int64 if there are too many entries for 32 bits."""
        counts = np.fromfile(self._part / "row_nnz.tmp", dtype=np.int64, offset=_HEADER_BYTES)
        self._write("indptr", np.concatenate(([0], np.cumsum(counts))).astype(index))
        if index == np.int64:
            narrow = self._part / "narrow.tmp"
            self._files.pop("indices").close()
            self._crc.pop("indices", None)
            (self._part / "indices.tmp").rename(narrow)
            with narrow.open("rb") as file:
                file.seek(_HEADER_BYTES)
                while (block := np.fromfile(file, np.int32, _BLOCK_BYTES // 4)).size:
                    self._write("indices", block.astype(np.int64))

    def _finish_docid(self, dtype: np.dtype[Any]) -> None:
        """Write the pieces, each with its own width, into one array."""
        self._files.pop("docid").close()
        pieces = self._part / "pieces.tmp"
        (self._part / "docid.tmp").rename(pieces)
        raw = (self._part / "docid.tmp").open("xb", buffering=0)
        raw.write(b"\0" * _HEADER_BYTES)
        self._files["docid"] = raw
        done = 0
        with pieces.open("rb") as file:
            while done < self._n_rows:
                words = np.load(file)
                self._write("docid", words.astype(dtype).view(np.uint8))
                done += words.shape[0]


def place_of(path: Path) -> Path:
    """Return the folder that writing a store to ``path`` creates or replaces."""
    try:
        place = destination(path)
    except OSError as error:
        raise OSError(error.errno, f"cannot write here ({error.strerror})", str(path)) from error
    if place.exists() and not is_store(place):
        raise FileExistsError(
            f"{path}: expected a new name or a store to replace, got another file or folder; choose another name"
        )
    if others := _no_part_of(place):
        raise FileExistsError(
            f"{path}: expected a store to replace, got {others[0]!r} beside its files; move it away"
        )
    return place


def _no_part_of(store: Path) -> list[str]:
    """Return the names in the folder of a store that its description does not list; none while another writer
    replaces the store."""
    try:
        own = {_META, *(f"{name}.npy" for name in _read_meta(store)["arrays"])}
        return sorted({each.name for each in store.iterdir()} - own)
    except (ValueError, OSError):
        return []


def is_store(path: Path) -> bool:
    try:
        _read_meta(path)
    except (ValueError, OSError):
        return False
    return True


def _read_meta(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise FileNotFoundError(f"{path}: expected a store (a folder with {_META}), but it does not exist")
    try:
        with (path / _META).open("rb") as file:
            raw = file.read(_MOST_META_BYTES + 1)
        if len(raw) > _MOST_META_BYTES:
            raise Damaged(f"more than {_MOST_META_BYTES} bytes")
        meta = read_json(raw)
    except (OSError, Damaged) as error:
        raise _unfit(path, f"a store (a folder with {_META})", f"no readable {_META}") from error
    is_one = isinstance(meta, dict) and meta.get("format") == _FORMAT
    if not is_one or not isinstance(meta.get("arrays"), dict):
        raise _unfit(path / _META, f"the description of a {_FORMAT}", "another file")
    if type(meta.get("version")) is not int or meta["version"] != _VERSION:  # True and 1.0 equal 1
        raise _unfit(path, f"store version {_VERSION}", f"{meta.get('version')!r:.40}")
    return dict(meta)


def _unfit(place: Path | str, expected: str, got: str) -> ValueError:
    return ValueError(f"{place}: expected {expected}, got {got}; convert the data again")


def _damaged(path: Path, what: str) -> ValueError:
    return _unfit(path, "a store as it was written", f"a damaged one ({what})")


def _meta_crc(meta: dict[str, Any]) -> str:
    """Return the CRC-32 of the description without its own entry, independent of the layout of the JSON text."""
    rest = {key: value for key, value in meta.items() if key != "crc32"}
    return f"{zlib.crc32(json.dumps(rest, sort_keys=True).encode()):08x}"


def _stated(path: Path, meta: dict[str, Any]) -> tuple[tuple[int, int], dict[str, Any]]:
    """Return (rows, features) and the arrays of a description; raise unless they are consistent."""

    def fail(what: str) -> ValueError:
        return _unfit(path / _META, "the description of a store", f"a damaged one ({what})")

    if "crc32" in meta and meta["crc32"] != _meta_crc(meta):
        raise fail("its checksum differs")
    stated: Any = [meta.get(key) for key in ("n_rows", "n_features", "kind", "arrays")]
    n_rows, n_features, kind, specs = stated
    for name, number, least in (("n_rows", n_rows, 1), ("n_features", n_features, 0)):
        if type(number) is not int or not least <= number < 2**62:
            raise fail(f"{name} {number!r:.40}")
    if not isinstance(kind, str) or kind not in _MATRIX:
        raise fail(f"kind {kind!r:.40}")
    needed = _MATRIX[kind] | {"offsets", "query_ids"}
    if not needed <= set(specs) <= needed | {"y", "docid", "order", "feature_names"}:
        raise fail(f"arrays {', '.join(sorted(specs)):.80}")
    for name, spec in specs.items():
        if not isinstance(spec, dict):
            raise fail(f"{name}: {spec!r:.40}")
        dtype, shape = spec.get("dtype"), spec.get("shape")
        is_shape = isinstance(shape, list) and all(type(n) is int for n in shape)
        if not isinstance(dtype, str) or not is_shape:
            raise fail(f"{name}: {dtype!r:.40} of shape {shape!r:.40}")
        if not re.fullmatch(_TYPES[name], dtype):
            raise fail(f"{name}: {dtype!r:.40}")
    n_stored = specs["data"]["shape"] if kind == "csr" else None
    shapes = {
        "X": [n_rows, n_features],
        "data": n_stored,
        "indices": n_stored,
        "indptr": [n_rows + 1],
        "y": [n_rows],
        "docid": [n_rows],
        "order": [n_rows],
        "feature_names": [n_features],
    }
    for name, spec in specs.items():
        shape = spec["shape"]
        if len(shape) != (2 if name == "X" else 1) or (name in shapes and shape != shapes[name]):
            raise fail(f"{name} of shape {shape!s:.40}, with {n_rows} rows and {n_features} features")
    if specs["offsets"]["shape"][0] != specs["query_ids"]["shape"][0] + 1:
        raise fail("offsets that do not fit query_ids")
    if kind == "csr" and specs["indices"]["dtype"] != specs["indptr"]["dtype"]:
        raise fail("indices and indptr of different types")
    return (n_rows, n_features), specs


def _map(path: Path, name: str, spec: dict[str, Any]) -> NDArray[Any]:
    """Map an array; raise unless its header agrees with ``meta.json`` and the file is complete."""
    file = path / f"{name}.npy"
    try:
        if not stat.S_ISREG(file.stat().st_mode):  # checked first, because opening a pipe would block
            raise Damaged("no file")
        # the size of the open file, because the name may already refer to another file
        with file.open("rb") as raw:
            header = read_header(raw)
            found = f"{header.dtype.str} {list(header.shape)}{', columns first' if header.fortran else ''}"
            if (stated := f"{spec['dtype']} {spec['shape']}") != found:
                raise _unfit(file, f"{stated} as stated in {_META}", found)
            size, whole = os.fstat(raw.fileno()).st_size, header.start + header.n_bytes
            if size != whole:
                raise _unfit(file, f"a complete array of {whole} bytes", f"a damaged file of {size}")
            # the memmap stays the base of the array, because slicing a memmap object is slow
            mapped: Any = np.memmap(raw, header.dtype, "r", header.start, header.shape)
            return np.asarray(mapped.view(np.ndarray))
    except FileNotFoundError as error:
        raise _unfit(path, f"{name}.npy in this store", "no such file") from error
    except Damaged as error:
        raise _unfit(file, "a complete array", f"a damaged file ({error})") from error


def _compare(path: Path, name: str, array: Any, spec: Any, tell: Any = lambda n_bytes: None) -> None:
    """Raise if the array contradicts a stated checksum."""
    if "crc32" not in spec:
        tell(array.nbytes)
        return
    found, flat = 0, array.reshape(-1)
    step = max(1, _BLOCK_BYTES // max(1, flat.itemsize))
    for start in range(0, flat.shape[0], step):
        block = flat[start : start + step]
        found = zlib.crc32(block.view(np.uint8).data, found)
        tell(block.nbytes)
    if spec["crc32"] != f"{found:08x}":
        place, differs = f"{path / name}.npy", "a damaged one (its checksum differs)"
        raise _unfit(place, "the array that was written", differs)


def _check_ascending(X: Any) -> None:
    """Raise for rows whose columns are not in strictly ascending order."""
    step = max(1, _BLOCK_BYTES // X.indices.itemsize)
    for start in range(0, X.indices.shape[0] - 1, step):
        chunk = X.indices[start : start + step + 1]
        falls = start + 1 + np.flatnonzero(chunk[1:] <= chunk[:-1])
        inside = X.indptr[np.searchsorted(X.indptr, falls)] != falls  # no row begins at the index
        if inside.any():
            raise BadInput(
                "indices", "expected the columns of a row in order, each once", at=f"[{falls[inside][0]}]"
            )


def _check_text(name: str, words: NDArray[Any] | None) -> None:
    """Raise for invalid code points, naming the array."""
    if words is None or words.dtype.kind != "U" or words.dtype.itemsize == 0:
        return
    for start in range(0, words.shape[0], _STRINGS_AT_ONCE):
        if words[start : start + _STRINGS_AT_ONCE].view(np.uint32).max(initial=0) > 0x10FFFF:
            raise BadInput(name, "expected text, got invalid characters")


def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Return a version 1.0 ``.npy`` header, padded to the reserved number of bytes."""
    text = repr({"descr": dtype.str, "fortran_order": False, "shape": shape}).encode()
    room = _HEADER_BYTES - 10
    return b"\x93NUMPY\x01\x00" + room.to_bytes(2, "little") + text.ljust(room - 1) + b"\n"


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the path of the store to errors of the operating system."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(
            error.errno, f"store not written, an earlier store is unchanged ({error.strerror})", str(path)
        ) from error
