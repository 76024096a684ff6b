"""Rows without labels: all readers accept them with ``label=None``, and commands for clicks do not need labels."""

from dataclasses import replace

import numpy as np
import pytest

from structsvm import QueryData, readers
from structsvm.cli import main
from structsvm.common.checks import BadInput
from structsvm.readers.store import check_store
from tests.refusing import refused

QID, X = np.array([1, 1, 2, 1]), np.array([[0.5, 1.0], [2.0, 0.25], [3.0, 1.0], [4.0, 0.5]])


def write(folder, kind, labels=None, name="label"):
    """Write the rows, with ``labels`` or without; return the file."""
    path = folder / f"rows.{kind}"
    if kind == "txt":
        grades = [""] * 4 if labels is None else [f"{y} " for y in labels]
        lines = [f"{g}qid:{q} 1:{a} 2:{b}" for g, q, (a, b) in zip(grades, QID, X.tolist(), strict=True)]
        path.write_text("# a comment\n\n" + "\n".join(lines) + "\n")
    elif kind == "store":
        data = QueryData.from_arrays(X, [0] * 4 if labels is None else labels, QID)
        readers.write_store(data if labels is not None else replace(data, y=None), path)
    else:
        pd = pytest.importorskip("pandas")
        given = {} if labels is None else {name: labels}
        frame = pd.DataFrame({"qid": QID, "a": X[:, 0], "b": X[:, 1], **given})
        frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    return path


@pytest.mark.parametrize("kind", ["csv", "parquet", "txt", "store"])
def test_each_reader_takes_rows_without_labels(tmp_path, kind):
    path = write(tmp_path, kind)
    refused(
        r"expected (a column 'label' for the label|'<grade> qid|labels, got a store)",
        readers.read_queries,
        path,
    )
    data = readers.read_queries(path, label=None)
    assert data.y is None
    assert data.select([1]).y is None
    np.testing.assert_array_equal(data.X, X[[0, 1, 3, 2]])
    np.testing.assert_array_equal(data.qid, QID[[0, 1, 3, 2]])
    described = readers.describe(path)
    assert (described.counts["rows"], described.labels) == (4, {})


@pytest.mark.parametrize("kind", ["csv", "parquet", "txt", "store"])
def test_optional_labels_are_read_where_there_are_some(tmp_path, kind):
    data = readers.read_queries(write(tmp_path, kind, [2, 0, 1, 1]), label=None)
    assert data.y.tolist() == [2, 0, 1, 1]
    assert data.n_features == 2


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_column_that_is_named_has_to_be_there(tmp_path, kind):
    with pytest.raises(BadInput, match="expected a column 'grade' for the label, got 'qid', 'a', 'b'"):
        readers.read_queries(write(tmp_path, kind), label="grade")


@pytest.mark.parametrize(
    ("kind", "convert"),
    [("csv", readers.convert_csv), ("parquet", readers.convert_parquet), ("txt", readers.convert_letor)],
)
def test_rows_without_labels_are_converted_and_written(tmp_path, kind, convert):
    convert(write(tmp_path, kind), tmp_path / "a.store", label=None)
    assert check_store(tmp_path / "a.store")
    data = readers.open_store(tmp_path / "a.store")
    assert data.y is None
    np.testing.assert_array_equal(data.X, X[[0, 1, 3, 2]])
    readers.write_letor(data, tmp_path / "b.txt")
    assert (tmp_path / "b.txt").read_text().startswith("qid:1 1:0.5 2:1\n")
    np.testing.assert_array_equal(readers.read_letor(tmp_path / "b.txt", label=None).X, data.X)


def test_text_by_blocks_and_by_sizes_of_queries(tmp_path):
    path = tmp_path / "long.txt"
    path.write_text("".join(f"qid:{q // 3} 1:{q} 2:1\n" for q in range(200)))
    readers.convert_letor(path, tmp_path / "long.store", label=None, block_bytes=300)
    data = readers.open_store(tmp_path / "long.store")
    assert (data.y, data.n_queries, data.X[:, 0].tolist()) == (None, 67, list(range(200)))
    path.write_text("1:1 2:2\n1:3 2:1\n")
    assert readers.read_letor(path, query_sizes=[2], label=None).y is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("qid:1 1:2\n1 qid:1 1:3\n", r":2: expected 'qid:<id> <k>:<v> ...', got '1' in place of"),
        ("1 qid:1 1:2\nqid:1 1:3\n", r":2: expected '<grade> qid:<id> <k>:<v> ...', got 'qid:1'"),
        ("qid:1 1:2\nnan qid:1 1:3\n", r":2: expected 'qid:<id> <k>:<v> ...', got 'nan' in place of"),
    ],
)
def test_grades_on_some_rows_only_are_refused(tmp_path, text, message):
    path = tmp_path / "mixed.txt"
    path.write_text(text)
    refused(message, readers.read_letor, path, label=None)


def test_parquet_files_have_labels_in_all_or_in_none(tmp_path):
    write(tmp_path, "parquet").rename(tmp_path / "b.parquet")
    write(tmp_path, "parquet", [0, 1, 0, 1]).rename(tmp_path / "a.parquet")
    refused(
        r"b.parquet: expected the columns of .*a.parquet, got no column 'label'",
        readers.read_queries,
        tmp_path,
        label=None,
    )
    (tmp_path / "b.parquet").rename(tmp_path / "0.parquet")
    refused(
        r"a.parquet: expected the columns of .*0.parquet, got an additional column 'label'",
        readers.read_queries,
        tmp_path,
        label=None,
    )


def test_clicks_need_no_labels(tmp_path, capsys):
    """No label is required, because naming a column as the label would silently remove it from the features."""
    rows = [(q, d, d / 10, 1 - d / 10) for q in range(8) for d in range(6)]
    data = tmp_path / "rows.csv"
    data.write_text("qid,docid,a,b\n" + "".join(f"{q},{d},{a},{b}\n" for q, d, a, b in rows))
    rng = np.random.default_rng(0)
    shows = [
        (q, d, k, s) for q in range(8) for s in range(30) for k, d in enumerate(rng.permutation(6)[:3], 1)
    ]
    lines = [f"{q},{d},{k},{s},{int(rng.random() < 0.1 + d / 8)}\n" for q, d, k, s in shows]
    (tmp_path / "log.csv").write_text("query,document,position,session,clicked\n" + "".join(lines))
    log, model = str(tmp_path / "log.csv"), str(tmp_path / "m.npz")
    assert main(["clicks", "train", log, str(data), "-o", model, "--C", "1"]) == 0
    assert main(["clicks", "evaluate", log, model, str(data), "--k", "3", "--session", "session"]) == 0
    assert "new DCG@3" in capsys.readouterr().out
    import structsvm

    assert list(structsvm.load(model).feature_names_in_) == ["a", "b"]
