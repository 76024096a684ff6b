"""Parquet files: columns by name, and errors that name the file."""

from functools import partial
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from structsvm import StructuralRanker
from structsvm.common.checks import BadInput
from structsvm.common.tables import frames
from structsvm.common.tables.source import source_of
from structsvm.readers import (
    choosing_columns,
    convert_parquet,
    open_store,
    read_csv,
    read_parquet,
    read_queries,
)
from tests.refusing import refused


def write(path, **columns):
    parquet.write_table(pa.table(columns), path)
    return path


def table(n=10, seed=0, first=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    return {
        "qid": first + np.arange(n) // 4,
        "a": rng.normal(size=n).astype(dtype),
        "label": rng.integers(0, 3, n),
        "b": rng.normal(size=n).astype(dtype),
    }


def test_columns_are_found_by_name_and_files_read_in_order(tmp_path):
    one, two = table(10), table(7, seed=1, first=2)
    write(tmp_path / "p-0.parquet", **one)
    write(tmp_path / "p-1.parquet", **{name: two[name] for name in ("b", "label", "qid", "a")})
    for path in (tmp_path, str(tmp_path / "p-*.parquet")):
        data = read_parquet(path)
        assert data.feature_names == ("a", "b")
        assert data.X.dtype == np.float32
        X = np.concatenate([np.stack([t["a"], t["b"]], axis=1) for t in (one, two)])
        np.testing.assert_array_equal(data.X, X)
        np.testing.assert_array_equal(data.y, np.concatenate([one["label"], two["label"]]))
        # query 2 was cut by the files
        np.testing.assert_array_equal(data.qid, np.concatenate([one["qid"], two["qid"]]))
        assert data.order is None
    assert read_parquet(tmp_path / "p-0.parquet", features=["b"]).X.shape == (10, 1)
    np.testing.assert_array_equal(read_parquet(tmp_path, features=["b", "a"]).X, X[:, ::-1])


def test_ids_of_every_kind_and_rows_that_are_apart(tmp_path):
    ids = ["x", "y", "x", "z", "y", "x"]
    for k, column in enumerate((pa.array(ids), pa.array(ids).dictionary_encode())):
        data = read_parquet(
            write(tmp_path / f"{k}.parquet", qid=column, label=[0, 1, 2, 0, 1, 0], f=np.arange(6.0))
        )
        assert data.query_ids.tolist() == ["x", "y", "z"]
        np.testing.assert_array_equal(data.X.ravel(), [0, 2, 5, 1, 4, 3])
        np.testing.assert_array_equal(data.order, [0, 2, 5, 1, 4, 3])


@pytest.mark.parametrize("dtype", [None, "float32", "float64"])
def test_a_store_is_written_in_pieces(tmp_path, monkeypatch, dtype):
    monkeypatch.setattr(frames, "_ROWS", 3)
    for k in range(3):
        write(tmp_path / f"{k}.parquet", **table(10, seed=k, first=2 * k, dtype=np.float64))
    data = read_parquet(tmp_path)
    convert_parquet(tmp_path, tmp_path / "all.store", dtype=dtype)
    store = open_store(tmp_path / "all.store")
    assert store.X.dtype == np.dtype(dtype or "float64")
    np.testing.assert_array_equal(store.X, data.X.astype(store.X.dtype))
    for part in ("y", "query_ids", "offsets"):
        np.testing.assert_array_equal(getattr(store, part), getattr(data, part))


def test_numbers_of_other_types(tmp_path):
    data = read_parquet(
        write(tmp_path / "t.parquet", qid=[1, 1], label=[True, False], i=[1, 2], o=[True, False])
    )
    assert data.X.dtype == np.float64
    np.testing.assert_array_equal(data.X, [[1, 1], [2, 0]])
    half = write(tmp_path / "h.parquet", qid=[1], label=[0], f=np.array([1.5], dtype=np.float16))
    assert read_parquet(half).X.dtype == np.float32


def test_truth_values_and_whole_ids_are_numbers_in_every_form(tmp_path):
    """A frame with columns of bool and ids of float is the same data as a frame, as Parquet and as CSV."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"qid": [1.0, 1.0, 20.0], "label": [True, False, True], "f": [0.5, 2.0, 1.0]})
    frame["new"] = [True, False, False]
    frame.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "lower.csv").write_text((tmp_path / "t.csv").read_text().lower())
    frame.to_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "lower.csv", "t.parquet"):
        data = read_queries(tmp_path / name)
        assert (data.query_ids.tolist(), data.query_ids.dtype.kind) == ([1, 20], "i")
        assert data.X.tolist() == [[0.5, 1], [2, 0], [1, 0]]
        assert data.y.tolist() == [1, 0, 1]
    model = StructuralRanker().fit(frame[["f", "new"]], frame.label, qid=frame.qid)
    assert model.coef_.tolist() == StructuralRanker().fit(data.X, data.y, qid=data.qid).coef_.tolist()


def bad(change, message):
    return pytest.param(change, message, id=message[:40])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        bad({"label": None}, "two.parquet: expected a column 'label' for the label, got 'qid', 'a', 'b'"),
        bad({"qid": None}, "two.parquet: expected a column 'qid'"),
        bad({"a": None}, "expected the 2 features of .*one.parquet, got no column 'a'"),
        bad({"c": np.ones(10)}, "got an additional column 'c'; write all files with the same columns"),
        bad({"a": ["x"] * 10}, "expected numbers in the column 'a', got string"),
        bad({"label": ["x"] * 10}, "expected numbers in the column 'label' of labels, got string"),
        bad({"a": [1.0] * 9 + [None]}, "two.parquet: row 9, column 'a': expected a finite number, got NaN"),
        bad({"b": [np.inf] + [1.0] * 9}, "row 0, column 'b': expected a finite number, got infinity"),
        bad({"label": [1.0] * 9 + [None]}, "row 9, column 'label': expected a finite label, got nan"),
        bad({"qid": [1] * 8 + [None, 1]}, "row 8, column 'qid': expected a query id, got none"),
        bad({"qid": [0.5] * 10}, "row 0, column 'qid': expected a query id, got 0.5; write ids as integers"),
        bad({"qid": ["7"] * 10}, "column 'qid': expected ids of one type, got numbers and text"),
    ],
)
def test_what_is_wrong_is_said_with_the_file(tmp_path, change, message):
    write(tmp_path / "one.parquet", **table())
    columns = {name: c for name, c in {**table(), **change}.items() if c is not None}
    write(tmp_path / "two.parquet", **columns)
    refused(message, read_parquet, tmp_path)
    refused(message, convert_parquet, tmp_path, tmp_path / "x.store")
    assert not (tmp_path / "x.store").exists()


def test_invalid_parquet_files_are_refused(tmp_path):
    refused(r"none-\*.parquet: expected a table, a folder", read_parquet, tmp_path / "none-*.parquet")
    broken = tmp_path / "b.parquet"
    whole = write(tmp_path / "t.parquet", **table()).read_bytes()
    for content in (b"", b"PAR1", whole[: len(whole) // 2], whole[:-12] + bytes(12)):
        broken.write_bytes(content)
        refused(r"b\.parquet: expected a Parquet file, got one that pyarrow cannot", read_parquet, broken)
    write(tmp_path / "e.parquet", **{k: v[:0] for k, v in table().items()})
    refused(r"e\.parquet: expected rows, got none", read_parquet, tmp_path / "e.parquet")
    with pytest.raises(BadInput, match=r"expected columns of features besides 'label' and 'qid', got none"):
        read_parquet(write(tmp_path / "n.parquet", qid=[1], label=[0]))


def test_damage_in_the_middle_is_met_while_reading(tmp_path):
    path = write(tmp_path / "t.parquet", **table(5000))
    content = bytearray(path.read_bytes())
    content[100:2000] = bytes(1900)
    path.write_bytes(content)
    refused(r"t.parquet: ", read_parquet, path)


def test_the_command_line_takes_patterns_and_names_of_columns(tmp_path, cli):
    for k in (0, 1):
        columns = table(20, seed=k, first=4 * k)
        names = {"qid": "query", "label": "grade"}
        write(Path(f"part-{k}.parquet"), **{names.get(name, name): c for name, c in columns.items()})
    options = "--label grade --qid query"
    assert "9 queries, 40 documents, 2 features" in cli("train 'part-*.parquet' -o m.npz", options)
    cli("predict m.npz 'part-*.parquet' -o s.txt", options)
    assert cli("evaluate 'part-*.parquet' s.txt", options).startswith("map")


def test_the_kind_of_a_source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("odd.name", "logs/B.PARQUET", "logs/a.parquet", "logs/._a.parquet", "br [1]/x.parquet"):
        Path(name).parent.mkdir(exist_ok=True)
        write(Path(name), **table())
    Path("t.txt").write_text("1 qid:1 1:1\n")
    for path, kind, files in (
        ("odd.name", "parquet", ["odd.name"]),
        ("logs", "parquet", ["B.PARQUET", "a.parquet"]),
        ("log?/*", "parquet", ["B.PARQUET", "a.parquet"]),
        ("br [1]", "parquet", ["x.parquet"]),
        ("t.txt", "text", ["t.txt"]),
        ("*.csv", "csv", []),
        (".", "folder", []),
        ("none", "missing", ["none"]),
        ("none.csv", "missing", ["none.csv"]),
        ("*.txt", "missing", ["t.txt"]),
        ("/dev/null", "stream", ["null"]),
    ):
        source = source_of(path)
        assert (source.kind, [file.path.name for file in source.files]) == (kind, files)
        assert source_of(source) is source
    assert read_parquet("logs").n_rows == 20
    refused(
        r"found none; brackets have a meaning in patterns; write br \[\[\]1\]/",
        read_parquet,
        "br [1]/*.parquet",
    )
    assert read_parquet("br [[]1]/*.parquet").n_rows == 10


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_folders_of_columns_are_read_as_columns(tmp_path, form, monkeypatch):
    """pandas, Spark and Hive write columns into the names of folders: in a file and in folders they are equal."""
    pd = pytest.importorskip("pandas")
    rng, quoted = np.random.default_rng(0), partial(quote, safe="")
    for k in range(12):
        ids = ([3, 10, 20], ["a b", "7/8", "é=1"], ["007", "8", "9"], [1.0, 2.0, 3.0])[k % 4]
        n = 30
        frame = pd.DataFrame({"f": rng.normal(size=n).round(3), "label": rng.integers(0, 3, n)})
        frame["qid"], frame["site"] = rng.choice(ids, n), rng.choice([0.5, 2.0], n)
        keys = [["qid"], ["site", "qid"], ["site"]][k % 3]
        folder = tmp_path / f"{k}"
        for values, part in frame.groupby(keys):
            below = folder.joinpath(*(f"{a}={quoted(str(v))}" for a, v in zip(keys, values, strict=True)))
            below.mkdir(parents=True)
            part = part.drop(columns=keys)
            part.to_parquet(below / "p.parquet") if form == "parquet" else part.to_csv(
                below / "p.csv", index=False
            )
        rows = frame.sort_values(keys, key=lambda one: one.astype(str).map(quoted), kind="stable")
        rows[[name for name in rows if name not in keys] + keys].to_csv(tmp_path / "one.csv", index=False)
        read, text = read_queries(folder), read_csv(tmp_path / "one.csv")
        for part in ("feature_names", "query_ids", "X", "y"):
            np.testing.assert_array_equal(getattr(read, part), getattr(text, part))
        convert_parquet(folder, tmp_path / f"{k}.store")
        np.testing.assert_array_equal(open_store(tmp_path / f"{k}.store").X, text.X)
        monkeypatch.chdir(tmp_path)
        assert read_queries(f"{k}/**/*.{form}").query_ids.tolist() == text.query_ids.tolist()
    write(tmp_path / "beside.parquet", **table())
    (tmp_path / "q=1").mkdir()
    write(tmp_path / "q=1" / "x.parquet", **table())
    refused(
        r"expected files or folders 'column=value', got 'beside.parquet' beside 'q=1'", read_queries, tmp_path
    )


@pytest.mark.parametrize("columns", ["", "Unnamed: 0"])
def test_numbers_of_rows_that_pandas_writes_are_no_feature(tmp_path, columns):
    """If rows are sorted by label, row numbers would reveal the label."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"label": [1, 0, 1, 0], "qid": [1, 1, 2, 2], "bm25": [3.0, 1.0, 2.0, 2.5]})
    if columns:
        frame.insert(0, columns, range(4))
    frame.to_csv(tmp_path / "a.csv", index=not columns)
    refused(
        f"a.csv: expected names for all columns, got '{columns}' for column 1, as pandas writes",
        read_csv,
        tmp_path / "a.csv",
    )
    assert read_csv(tmp_path / "a.csv", features=["bm25"]).X.tolist() == [[3.0], [1.0], [2.0], [2.5]]
    if columns:
        frame.to_parquet(tmp_path / "a.parquet")
        refused("got 'Unnamed: 0' for column 1", read_parquet, tmp_path / "a.parquet")


def test_rows_of_parquet_are_counted_over_batches_and_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(frames, "_ROWS", 2)
    parquet.write_table(pa.table({"a": range(9)}), tmp_path / "t.parquet", row_group_size=3)
    for groups, expected in ((None, range(9)), ([1, 2], range(3, 9))):
        batches = frames.parquet_table(tmp_path / "t.parquet").read({"a": "feature"}, row_groups=groups)
        told = [batch.place(row)[1] for batch in batches for row in range(batch.n)]
        assert told == [f"row {row}, " for row in expected]


def test_a_first_line_of_cells_is_no_line_of_names():
    remedy = "write the column names in its first line"
    for names, said in (("label qid 0.5 2", ""), ("1 2 3 x", ""), ("1 7 0.5 x", remedy)):
        assert choosing_columns._without_names(names.split()) == said


def test_mixtures_of_objects_are_named():
    assert frames.arrow_of([0, 2**64 - 1], "t", "a").to_pylist() == [0, 2**64 - 1]
    refused(
        "column 'a': expected 64-bit numbers, text or times, got object",
        frames.arrow_of,
        [object()],
        "t",
        "a",
    )
    refused(
        "column 'a': expected values of one type, got float and str", frames.arrow_of, [1.5, "x"], "t", "a"
    )


def test_whatever_pyarrow_says_of_a_damaged_file_is_told_with_its_name(tmp_path, monkeypatch):
    path = write(tmp_path / "a.parquet", qid=[1, 1], label=[0, 1], f=[0.0, 1.0])

    def refuse(_, **options):  # as of a damaged width of integers
        raise pa.ArrowNotImplementedError("Integers with more than 64 bits not implemented")

    monkeypatch.setattr(parquet, "ParquetFile", refuse)
    refused(r"a\.parquet: expected a Parquet file.*Integers with more than 64 bits", read_parquet, path)


@pytest.mark.parametrize("label", ["label", None])
def test_documents_that_stand_in_a_query_twice_are_said(tmp_path, label):
    (tmp_path / "d.csv").write_text("qid,docid,x,y\nq1,a,1,0\nq1,b,2,1\nq1,a,1.5,2\nq2,a,1,1\nq1,b,.5,1\n")
    pytest.importorskip("pandas").read_csv(tmp_path / "d.csv").to_parquet(tmp_path / "d.parquet")
    columns = {"label": label and "y", "features": ["x"]}

    def stored(path, **options):
        convert_parquet(path, tmp_path / "d.store", **options)
        return open_store(tmp_path / "d.store")

    for read, name in ((read_csv, "d.csv"), (read_parquet, "d.parquet"), (stored, "d.parquet")):
        with pytest.warns(
            UserWarning, match=rf"{name}: 2 documents with several .* document 'a' of query 'q1'"
        ):
            assert read(tmp_path / name, **columns).n_rows == 5


@pytest.mark.parametrize(
    ("mark", "said"), [(";", "by ';': separate them by commas"), ("\t", "tabs: name the file .tsv")]
)
def test_other_separators_are_named(tmp_path, mark, said):
    (tmp_path / "d.csv").write_text(mark.join(["qid", "x", "label"]) + "\n" + mark.join("110") + "\n")
    refused(said, read_csv, tmp_path / "d.csv")
