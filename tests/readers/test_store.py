"""Stores: round trips by memory maps, failures that keep the old store, refused folders."""

import dataclasses
import gzip
import json
import os
import zlib

import numpy as np
import polars as pl
import pytest
from scipy import sparse

from structsvm.queries import QueryData
from structsvm.readers import (
    StoreWriter,
    convert_csv,
    convert_letor,
    convert_parquet,
    letor,
    make_ranking,
    open_store,
    query_writers,
    read_csv,
    read_letor,
    read_parquet,
    read_queries,
    store,
    write_letor,
    write_store,
)
from structsvm.readers.store import check_store
from tests.refusing import rejected


def made(rng, as_sparse=False, dtype=np.float64, ids=None, docid=True, n_queries=6):
    sizes = rng.integers(1, 9, n_queries)
    X = rng.normal(size=(sizes.sum(), 5)).astype(dtype)
    X[rng.random(X.shape) < 0.4] = 0
    X[0, 4] = 1
    names = ids if ids is not None else rng.permutation(100)[:n_queries]
    documents = [f"D{i * i}" for i in range(X.shape[0])] if docid else None
    return QueryData.from_arrays(
        sparse.csr_matrix(X) if as_sparse else X,
        rng.integers(0, 3, X.shape[0]),
        np.repeat(names, sizes),
        docid=documents,
    )


def assert_same(a, b):
    assert sparse.issparse(a.X) == sparse.issparse(b.X)
    assert a.X.dtype == b.X.dtype
    if sparse.issparse(a.X):
        for name in ("data", "indices", "indptr"):
            np.testing.assert_array_equal(getattr(a.X, name), getattr(b.X, name))
        assert a.X.shape == b.X.shape
    else:
        np.testing.assert_array_equal(a.X, b.X)
    for name in ("y", "offsets", "query_ids", "docid", "order"):
        x, y = getattr(a, name), getattr(b, name)
        assert (x is None) == (y is None), name
        if x is not None:
            assert x.dtype == y.dtype, name
            np.testing.assert_array_equal(x, y)


def files(folder):
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize("as_sparse", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("ids", [None, list("abcdëf"), ["q1", "q22", "q333", "1", "2", "3"]])
@pytest.mark.parametrize("block", [1, 200, 1 << 20])
def test_what_is_written_is_opened(tmp_path, monkeypatch, as_sparse, dtype, ids, block):
    monkeypatch.setattr(store, "_BLOCK_BYTES", block)
    data = made(np.random.default_rng(0), as_sparse, dtype, ids, docid=block != 200)
    write_store(data, tmp_path / "a.store")
    back = open_store(tmp_path / "a.store")
    assert_same(back, data)
    for array in (back.X.data if as_sparse else back.X, back.y, back.offsets, back.query_ids):
        assert not array.flags.writeable
        assert isinstance(array.base, np.memmap)
    assert files(tmp_path) == ["a.store"]
    assert not list((tmp_path / "a.store").glob("*.tmp"))
    again = tmp_path / "b.store"
    write_store(back, again)
    assert files(again) == files(tmp_path / "a.store")
    assert all((again / f).read_bytes() == (tmp_path / "a.store" / f).read_bytes() for f in files(again))


@pytest.mark.parametrize("as_sparse", [True, False])
def test_the_order_of_the_source_is_kept_where_it_was_another(tmp_path, as_sparse):
    X = np.arange(1.0, 7.0)[:, None]
    apart = QueryData.from_arrays(sparse.csr_matrix(X) if as_sparse else X, np.arange(6), [3, 1, 3, 2, 1, 3])
    write_store(apart, tmp_path / "a.store")
    back = open_store(tmp_path / "a.store")
    assert_same(back, apart)
    assert back.order.tolist() == [0, 2, 5, 1, 4, 3]
    assert isinstance(back.order.base, np.memmap)
    write_store(apart.select([0, 1, 2]), tmp_path / "b.store")
    assert "order.npy" not in files(tmp_path / "b.store")
    np.save(tmp_path / "a.store" / "order.npy", np.arange(5))
    rejected(r"order\.npy: expected .* as stated", open_store, tmp_path / "a.store")


def test_an_order_has_each_row_once(tmp_path):
    data = QueryData.from_arrays([[1.0], [2.0]], [0, 1])
    for order in ([0, 2], [0, 0], [0]):
        with pytest.raises(ValueError, match="order: expected each of the 2 rows once"):
            write_store(dataclasses.replace(data, order=np.array(order)), tmp_path / "a.store")
    assert files(tmp_path) == []


def test_store_without_entries(tmp_path):
    data = QueryData.from_arrays(sparse.csr_matrix((3, 4)), [0, 1, 0])
    write_store(data, tmp_path / "a.store")
    assert_same(open_store(tmp_path / "a.store"), data)


def test_a_new_store_replaces_an_old_one_that_stays_open(tmp_path):
    path = tmp_path / "a.store"
    first, second = (made(np.random.default_rng(seed)) for seed in (3, 4))
    write_store(first, path)
    opened = open_store(path)
    write_store(second, path)
    assert_same(open_store(path), second)
    assert_same(opened, first)
    assert files(tmp_path) == ["a.store"]


def test_only_stores_are_replaced(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    (tmp_path / "file").write_text("x")
    data = made(np.random.default_rng(5))
    for name in ("mine", "file"):
        with pytest.raises(FileExistsError, match="expected a new name or a store to replace"):
            write_store(data, tmp_path / name)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "x"
    with pytest.raises(OSError, match="absent"):
        write_store(data, tmp_path / "absent" / "a.store")


def test_a_failure_leaves_the_old_store(tmp_path):
    path = tmp_path / "a.store"
    old = made(np.random.default_rng(6))
    write_store(old, path)

    def interrupted():
        with StoreWriter(path, 2) as writer:
            writer.append(np.ones((2, 2)), [0, 1], [2], [1], docid=np.array(["a", "b"]))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert files(tmp_path) == ["a.store"]
    assert_same(open_store(path), old)


def append_all(path, pieces):
    with StoreWriter(path, 2) as writer:
        for piece in pieces:
            writer.append(**piece)


def test_writer_checks_what_it_is_given(tmp_path):
    good = {"X": np.ones((2, 2)), "y": [0, 1], "sizes": [2], "query_ids": [1]}
    bad = {
        "expected a dense array": {"X": sparse.csr_matrix((2, 2))},
        "2 features": {"X": np.ones((2, 3))},
        "1 labels": {"y": [0]},
        "add up to 3": {"sizes": [3]},
        "sizes": {"sizes": [2, 0], "query_ids": [1, 2]},
        "query_ids: expected 1": {"query_ids": [1, 2]},
        r"X\[1, 0\]: expected a finite number, got infinity": {"X": np.array([[1, 2], [np.inf, 0]])},
        r"y\[1\]: expected a finite label, got nan": {"y": [0, np.nan]},
    }
    for message, change in bad.items():
        rejected(message, append_all, tmp_path / "a.store", [{**good, **change}])
    piece = {**good, "docid": np.array(["a", "b"])}
    for pieces, message in (
        ([good, good], "query id twice"),
        ([good, piece], "docid: expected in each piece or in none"),
        ([{**good, "y": None}, good], "y: expected in each piece or in none"),
    ):
        rejected(message, append_all, tmp_path / "a.store", pieces)
    rejected("at least one query", append_all, tmp_path / "a.store", [])
    rejected("dtype", StoreWriter, tmp_path / "a.store", 2, dtype=np.int64)
    assert files(tmp_path) == []


def test_ids_of_several_kinds_become_strings(tmp_path):
    with StoreWriter(tmp_path / "a.store", 1) as writer:
        writer.append(np.ones((1, 1)), [0], [1], [17], docid=np.array(["x"]))
        writer.append(np.ones((1, 1)), [0], [1], ["WT-1"], docid=np.array(["longer"]))
    data = open_store(tmp_path / "a.store")
    assert data.query_ids.tolist() == ["17", "WT-1"]
    assert data.docid.tolist() == ["x", "longer"]


def changed(file, at, value):
    content = bytearray(file.read_bytes())
    content[at : at + len(value)] = value
    file.write_bytes(content)


def description(path):
    return json.loads((path / "meta.json").read_text())


def without_checksums(path):
    """Remove the checksums, as in a store of an earlier version."""
    meta = description(path)
    for spec in (meta, *meta["arrays"].values()):
        del spec["crc32"]
    (path / "meta.json").write_text(json.dumps(meta))


@pytest.mark.parametrize("as_sparse", [True, False])
@pytest.mark.parametrize("block", [1, 1 << 20])
def test_every_byte_of_every_array_is_under_a_checksum(tmp_path, monkeypatch, as_sparse, block):
    monkeypatch.setattr(store, "_BLOCK_BYTES", block)
    data = made(np.random.default_rng(11), as_sparse)
    path = tmp_path / "a.store"
    write_store(dataclasses.replace(data, order=np.arange(data.n_rows)[::-1].copy()), path)
    assert check_store(path)
    rng = np.random.default_rng(12)
    for file in sorted(path.glob("*.npy")):
        content = file.read_bytes()
        assert zlib.crc32(content[256:]) == int(description(path)["arrays"][file.stem]["crc32"], 16)
        for at in rng.integers(256, len(content), 5).tolist():
            changed(file, at, bytes([content[at] ^ (1 << int(rng.integers(8)))]))
            rejected(rf"{file.name}: expected the array that was written", open_store, path)
            file.write_bytes(content)
    assert check_store(path)


def test_a_store_without_checksums_opens_and_check_says_so(tmp_path):
    for as_sparse in (True, False):
        path = tmp_path / f"{as_sparse}.store"
        data = made(np.random.default_rng(14), as_sparse)
        write_store(data, path)
        without_checksums(path)
        assert_same(open_store(path), data)
        assert check_store(path) is False


# conversion
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [1, 64, 1000, 1 << 20])
@pytest.mark.parametrize("options", [{}, {"sparse": True}, {"dtype": np.float32}, {"n_features": 9}])
@pytest.mark.parametrize("docid", [True, False])
def test_conversion_equals_reading(tmp_path, block, options, docid):
    write_letor(
        made(np.random.default_rng(9), ids=["3", "1", "4", "15", "9", "x"], docid=docid), tmp_path / "a.txt"
    )
    convert_letor(tmp_path / "a.txt", tmp_path / "a.store", block_bytes=block, **options)
    assert_same(open_store(tmp_path / "a.store"), read_letor(tmp_path / "a.txt", **options))


@pytest.mark.parametrize("block", [8, 40, 1 << 20])
@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("0 qid:1 1:1\n1 qid:2 1:2\n2 qid:1 1:3\n0 qid:3 1:1\n", None),  # apart
        # the widest feature is not the last
        ("0 qid:1 3:1 1:1\n1 qid:1 9:2 1:1\n0 qid:2 1:1 # 50:1\n0 qid:2 2:1\n", None),
        ("\n# head\n0 qid:1 1:1 # docid = a\n\n1 qid:1 2:1\n# tail", None),
        ("0 1:1\n1 1:2\n0 1:3\n", [1, 2]),
    ],
)
def test_conversion_of_awkward_files(tmp_path, text, sizes, block):
    (tmp_path / "a.txt").write_text(text)
    for as_sparse in (True, False):
        options = {"sparse": as_sparse, "query_sizes": sizes}
        convert_letor(tmp_path / "a.txt", tmp_path / "a.store", block_bytes=block, **options)
        assert_same(open_store(tmp_path / "a.store"), read_letor(tmp_path / "a.txt", **options))


@pytest.mark.parametrize("run_bytes", [1, 1000, 1 << 20])
@pytest.mark.parametrize("spelling", ["{}", "q{}", "{}.0"])
def test_scattered_rows_are_gathered_on_disk_as_in_memory(tmp_path, monkeypatch, run_bytes, spelling):
    """Stores are equal byte for byte; all ids together determine whether ``1.0`` is 1."""
    monkeypatch.setattr(query_writers, "_RUN_BYTES", run_bytes)
    rng = np.random.default_rng(0)
    query = rng.integers(0, 9, 60)
    ids = [spelling.format(q) if q % 2 else f"{q}" for q in query]
    documents = [spelling.format(i) for i in range(60)]
    columns = {"qid": ids, "docid": documents, "label": query % 3, "x": query * 0.5, "z": rng.normal(size=60)}
    pl.DataFrame(columns).write_csv(tmp_path / "t.csv")
    pl.DataFrame(columns).write_parquet(tmp_path / "t.parquet", row_group_size=7)
    (tmp_path / "t.txt").write_text(
        "".join(
            f"{i % 3} qid:{q} {1 + i % 4}:1.5 9:{i} # docid = {d}\n"
            for i, (q, d) in enumerate(zip(ids, documents, strict=True))
        )
    )
    for name, read, convert, more in (
        ("t.csv", read_csv, convert_csv, {}),
        ("t.parquet", read_parquet, convert_parquet, {}),
        ("t.txt", read_letor, convert_letor, {"sparse": True}),
        ("t.txt", read_letor, convert_letor, {"sparse": False}),
    ):
        write_store(read(tmp_path / name, **more), tmp_path / "a.store")
        convert(
            tmp_path / name, tmp_path / "b.store", **more, **({"block_bytes": 300} if name == "t.txt" else {})
        )
        expected, found = (
            {f.name: f.read_bytes() for f in (tmp_path / s).iterdir()} for s in ("a.store", "b.store")
        )
        assert found == expected
        assert "order.npy" in found


def test_conversion_faults_name_the_line_of_the_file(tmp_path):
    lines = [f"0 qid:{i // 4} 1:{i}\n" for i in range(100)]
    lines[70] = "0 qid:17 1:nan\n"
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress("".join(lines).encode()))
    with pytest.raises(ValueError, match=r"a\.txt\.gz:71: expected finite features, got 'nan'"):
        convert_letor(tmp_path / "a.txt.gz", tmp_path / "a.store", block_bytes=50)
    (tmp_path / "b.gz").write_bytes((tmp_path / "a.txt.gz").read_bytes()[:-50])
    rejected(r"b\.gz: expected a complete gzip file", convert_letor, tmp_path / "b.gz", tmp_path / "a.store")
    for text in ("", "# nothing\n"):
        (tmp_path / "c.txt").write_text(text)
        rejected("empty file", convert_letor, tmp_path / "c.txt", tmp_path / "a.store")
    (tmp_path / "c.txt").write_text("0 qid:1\n")
    rejected("at least one feature", convert_letor, tmp_path / "c.txt", tmp_path / "a.store")
    assert not (tmp_path / "a.store").exists()
    assert files(tmp_path) == ["a.txt.gz", "b.gz", "c.txt"]


def test_conversion_of_a_file_that_looks_narrow_and_dense(tmp_path, monkeypatch):
    monkeypatch.setattr(letor, "memory_bytes", lambda: 1e9)
    (tmp_path / "a.txt").write_text(f"1 qid:1 {2**31}:1 1:2\n0 qid:1 1:1\n")
    convert_letor(tmp_path / "a.txt", tmp_path / "a.store")
    assert_same(open_store(tmp_path / "a.store"), read_letor(tmp_path / "a.txt"))
    with pytest.raises(ValueError, match=r"a\.txt:1: a dense matrix of 2 rows and 2147483648 features"):
        convert_letor(tmp_path / "a.txt", tmp_path / "b.store", sparse=False, dtype=np.float64)
    assert files(tmp_path) == ["a.store", "a.txt"]


def test_read_queries_tells_text_from_store(tmp_path):
    data = made(np.random.default_rng(10), docid=False)
    write_letor(data, tmp_path / "a.txt")
    write_store(data, tmp_path / "a.store")
    assert_same(read_queries(tmp_path / "a.txt"), data)
    assert_same(read_queries(str(tmp_path / "a.store")), data)
    assert read_queries(tmp_path / "a.txt", dtype=np.float32).X.dtype == np.float32
    rejected("dtype: options for reading text", read_queries, tmp_path / "a.store", dtype=np.float32)
    with pytest.raises(FileNotFoundError, match="absent"):
        read_queries(tmp_path / "absent")


def test_a_store_that_is_replaced_while_it_is_opened_is_refused(tmp_path, monkeypatch):
    """Arrays of equal shape, too large for a check of their checksums, never come from two stores."""
    monkeypatch.setattr(store, "_CHEAP_BYTES", 0)
    path, mapped = tmp_path / "a.store", store._map
    stores = [QueryData.from_arrays(np.full((4, 2), float(i)), np.full(4, i), [0, 0, 1, 1]) for i in range(2)]
    write_store(stores[0], path)

    def map_and_replace(folder, name, spec):
        array = mapped(folder, name, spec)
        if name == "X":
            write_store(stores[1], path)
        return array

    monkeypatch.setattr(store, "_map", map_and_replace)
    rejected("expected a store that is not replaced while it is opened", open_store, path)


def test_checking_tells_how_much_was_read(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_BLOCK_BYTES", 64)
    data = made(np.random.default_rng(0))
    write_store(data, tmp_path / "a.store")
    told = []
    assert check_store(tmp_path / "a.store", callback=lambda *n: told.append(n))
    done, every = zip(*told, strict=True)
    assert list(done) == sorted(set(done))
    assert set(every) == {done[-1]}
    arrays = (data.X, data.y, data.offsets, data.query_ids, data.docid)
    assert done[-1] == sum(array.nbytes for array in arrays)
    assert len(told) > data.X.nbytes // 64


SPOILED = {
    "rows": made(np.random.default_rng(15)),
    "sparse": QueryData.from_arrays(
        sparse.csr_matrix([[0.0, 0, 1, 0, 0], [1.0, 0, 2, 0, 3]]), [0, 0], ["a", "b"]
    ),
    "document": QueryData.from_arrays([[1.0]], [0], ["q"], docid=["d"]),
    "queries": QueryData.from_arrays(np.ones((3, 1)), [0, 0, 0], ["a", "b", "c"]),
}


@pytest.mark.parametrize(
    ("kind", "name", "content", "message"),
    [
        ("rows", "X", [np.inf], r"X\[0, 0\]: expected a finite number, got infinity"),
        ("rows", "y", [np.inf], r"y\[0\]: expected a finite label, got inf"),
        ("rows", "query_ids", SPOILED["rows"].query_ids[1:2], "query_ids: expected each query once"),
        ("rows", "docid", b"\xff" * 4, "docid: expected text, got invalid characters"),
        ("rows", "order", [5, 5], "order: expected each row once"),
        # the last entry of an array is looked at too, and a query in the middle
        ("sparse", "indices", [2, 0, 4, 2], r"indices\[3\]: expected the columns of a row in order"),
        ("document", "docid", b"\x00\x00\x11\x00", "docid: expected text, got invalid characters"),
        ("queries", "offsets", [0, 1, 1, 3], "offsets: expected queries of at least one row"),
    ],
)
@pytest.mark.parametrize("step", [1, 1 << 16])
def test_check_finds_impossible_values_without_checksums(
    tmp_path, monkeypatch, kind, name, content, message, step
):
    monkeypatch.setattr(store, "_BLOCK_BYTES", 8 * step)
    monkeypatch.setattr(store, "_STRINGS_AT_ONCE", step)
    path, data = tmp_path / "a.store", SPOILED[kind]
    order = np.arange(data.n_rows)[::-1].copy() if kind == "rows" else None
    write_store(dataclasses.replace(data, order=order), path)
    without_checksums(path)
    assert check_store(path) is False
    if not isinstance(content, bytes):
        content = np.array(content, np.load(path / f"{name}.npy").dtype).tobytes()
    changed(path / f"{name}.npy", 256, content)
    rejected(message, check_store, path)


def test_open_store_refuses_a_named_pipe(tmp_path):
    path = tmp_path / "rows.store"
    write_store(make_ranking(2, 3, 2, random_state=0), path)
    (path / "X.npy").unlink()
    os.mkfifo(path / "X.npy")
    rejected(r"X.npy: expected a complete array, got a damaged file \(no file\)", open_store, path)
