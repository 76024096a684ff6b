"""One rule for ids, numbers and times in CSV, JSON lines, Parquet, frames, Arrow and dictionaries."""

import datetime
import decimal
import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

from structsvm import QueryData, StructuralRanker
from structsvm.clicks import read_table, read_team_draft_table
from structsvm.common.checks import BadInput
from structsvm.common.tables import text
from structsvm.common.tables.columns import ids, numbers, times
from structsvm.common.tables.opening import open_tables
from structsvm.readers import (
    Qrels,
    Run,
    convert_csv,
    convert_letor,
    convert_parquet,
    open_store,
    read_csv,
    read_letor,
    read_parquet,
    read_queries,
)
from tests.refusing import refused, rejected

NOON = datetime.datetime(2026, 3, 1, 12)
SECONDS = 1772366400.0
GAP = float("nan")

# values; what they are as ids, as numbers and as times: a list, or a part of the refusal
TYPED = {
    "int": ([1, 2], [1, 2], [1, 2], [1, 2]),
    "int with a gap": (pd.array([1, None], dtype="Int64"), "got none", [1, GAP], [1, GAP]),
    "uint64": (
        np.array([1, 2**63 + 1], dtype=np.uint64),
        [1, 2**63 + 1],
        [1, 2.0**63],
        "in seconds, as before",
    ),
    "whole floats": ([1.0, 2.0], [1, 2], [1, 2], [1, 2]),
    "float with a gap": ([1.0, GAP], "got none", [1, GAP], [1, GAP]),
    "large float": (
        [2.0**53, 1.0],
        "distinct ids are equal in float64",
        [2.0**53, 1],
        "in microseconds, as before",
    ),
    "large float32": (
        np.float32([2.0**24, 1]),
        "distinct ids are equal in float32",
        [2.0**24, 1],
        [2.0**24, 1],
    ),
    "fraction": ([0.5, 1.0], "got 0.5", [0.5, 1], [0.5, 1]),
    "infinite": ([1.0, np.inf], "got inf", [1, np.inf], [1, np.inf]),
    "decimal": ([decimal.Decimal(1), decimal.Decimal(2)], [1, 2], [1, 2], [1, 2]),
    "decimal fraction": ([decimal.Decimal("1.5"), decimal.Decimal(2)], "got decimal", [1.5, 2], [1.5, 2]),
    "bool": ([True, False], "got bool", [1, 0], "got bool"),
    "text": (["a", "007"], ["a", "007"], "got string", "got 'a'"),
    "empty text": (["a", ""], "got none", "got string", "got 'a'"),
    "text with a gap": (["a", None], "got none", "got string", "got 'a'"),
    "text of numbers": (["1", "2.5"], ["1", "2.5"], "got string", [1, 2.5]),
    "text of times": (
        ["2026-03-01T12:00Z", "2026-03-01 14:00+02:00"],
        None,
        "got string",
        [SECONDS, SECONDS],
    ),
    "time": ([NOON, None], "got timestamp", "got timestamp", [SECONDS, GAP]),
    "time with a zone": ([NOON.astimezone(datetime.UTC)] * 2, "got timestamp", "got timestamp", None),
    "date": ([NOON.date()] * 2, "got date32", "convert times to days", [SECONDS - 43200] * 2),
    "milliseconds": ([1772366400000, 0], [1772366400000, 0], [1772366400000, 0], [SECONDS, 0]),
    "nanoseconds": ([10**9 * int(SECONDS)] * 2, None, None, [SECONDS] * 2),
    "two units": ([1772366400, 1772366400000], None, None, "times in seconds, as before, got 1772366400000"),
    "bytes": ([b"a", b"b"], "got binary", "got binary", "got binary"),
    "list": ([[1], [2]], "got (large_)?list", "got (large_)?list", "got (large_)?list"),
    "span": ([datetime.timedelta(1)] * 2, "got duration", "got duration", "got duration"),
    "nothing": ([None, None], "got none", [GAP, GAP], [GAP, GAP]),
}
# cells of CSV, likewise
WRITTEN = {
    "1 1.0": (["1", "1.0"], [1, 1], [1, 1]),
    "007 7": (["007", "7"], ["007", "7"], [7, 7]),
    "rounded": (["1.73e+18", "2"], "as a column of floats is written", [1.73e18, 2]),
    "2^53.0": (["9007199254740992.0", "1.0"], "'9007199254740992.0'"[1:-1], [2.0**53, 1]),
    "2^53+1": (["9007199254740993", "1"], [9007199254740993, 1], [2.0**53, 1]),
    "2^63": (["9223372036854775808", "1"], ["9223372036854775808", "1"], [2.0**63, 1]),
    "hexadecimal": (["1e5", "ab"], ["1e5", "ab"], "got 'ab'"),
    "fractions": (["1.5", "2.0"], ["1.5", "2.0"], [1.5, 2]),
    "01.0 2.0": (["01.0", "2.0"], ["01.0", "2.0"], [1, 2]),
    "1.00 2.0": (["1.00", "2.0"], ["1.00", "2.0"], [1, 2]),
    "1.0 x": (["1.0", "x"], ["1.0", "x"], "got 'x'"),
    "minus 0": (["-0", "0"], ["-0", "0"], [0, 0]),
    "blanks": ([" a", "a "], ["a", "a"], "got ' a'"),
    "gap": (["", "1"], "got none", [GAP, 1]),
    "nan among numbers": (["NaN", "1.5"], "expected an id, got NaN, a missing value", [GAP, 1.5]),
    "truth": (["True", "false"], ["True", "false"], [1, 0]),
    "comma": (['"1,5"', "2"], ["1,5", "2"], "a decimal point"),
    "underscore": (["1_0", "2"], ["1_0", "2"], "got '1_0'"),
    "nan(1)": (["nan(1)", "2"], ["nan(1)", "2"], "got 'nan"),
}


def column_of(source, role):
    """Return the only column of a table."""
    (table,) = open_tables(source)
    (batch,) = table.read({"v": role})
    if role == "id":
        return [one if isinstance(one, str) else int(one) for one in ids(batch, "v", "an id").to_pylist()]
    return (numbers(batch, "v") if role == "number" else times(batch, "v")[0]).tolist()


def check(source, role, expected):
    if isinstance(expected, str):
        with pytest.raises(BadInput, match=expected.replace("nan(", r"nan\(").replace("+", r"\+")) as caught:
            column_of(source, role)
        assert "column 'v': expected" in str(caught.value)
    elif role == "id" and expected is not None:
        assert column_of(source, role) == expected  # not as floats
    elif expected is not None:
        np.testing.assert_array_equal(column_of(source, role), expected)


@pytest.mark.parametrize("carrier", ["pandas", "polars", "arrow", "dictionary", "parquet"])
@pytest.mark.parametrize("kind", TYPED)
def test_each_type_in_each_role(tmp_path, kind, carrier):
    values, *expected = TYPED[kind]
    array = pa.array(values, from_pandas=True)
    if carrier == "polars" and kind == "nothing":
        expected[0] = "got none"
    source = {
        "pandas": lambda: pd.DataFrame({"v": values}),
        "polars": lambda: pl.from_arrow(pa.table({"v": array})),
        "arrow": lambda: pa.table({"v": array}),
        "dictionary": lambda: {"v": values},
        "parquet": lambda: tmp_path / "t.parquet",
    }[carrier]()
    if carrier == "parquet":
        parquet.write_table(pa.table({"v": array}), source)
    for role, one in zip(("id", "number", "time"), expected, strict=True):
        check(source, role, one)


@pytest.mark.parametrize("carrier", ["pandas", "polars", "arrow"])
def test_values_of_categories_have_the_roles_of_their_type(carrier):
    for values, expected in ((["b", "a", "b"], ["b", "a", "b"]), ([3, 5, 3], [3, 5, 3])):
        source = {
            "pandas": lambda v=values: pd.DataFrame({"v": pd.Series(v, dtype="category")}),
            "polars": lambda v=values: pl.DataFrame(
                {"v": pl.Series(v, dtype=pl.Categorical) if v[0] == "b" else v}
            ),
            "arrow": lambda v=values: pa.table({"v": pa.array(v).dictionary_encode()}),
        }[carrier]()
        check(source, "id", expected)
    check(pl.DataFrame({"v": pl.Series(["a", "b"], dtype=pl.Enum(["b", "a"]))}), "id", ["a", "b"])


@pytest.mark.parametrize("values", [[1, "1"], [True, 2, "x"], [object(), 1]])
def test_a_mixture_of_types_is_refused(values):
    refused(
        r"table: column 'v': expected (values of one type, got|64-bit numbers)",
        column_of,
        pd.DataFrame({"v": pd.Series(values, dtype=object)}),
        "id",
    )


@pytest.mark.parametrize("kind", WRITTEN)
def test_cells_of_text_in_each_role(tmp_path, kind):
    cells, as_ids, as_numbers = WRITTEN[kind]
    path = tmp_path / "t.csv"
    path.write_text("v,w\n" + "".join(f"{cell},\n" for cell in cells))
    check(path, "number", as_numbers)
    path.write_text("qid,label,x\n" + "".join(f"{cell},0,1\n" for cell in cells))
    if isinstance(as_ids, str):
        refused(as_ids.replace("+", r"\+"), read_csv, path)
        return
    found = read_csv(path).qid.tolist()
    assert (found, *map(type, found)) == (as_ids, *map(type, as_ids))
    if len(set(as_ids)) == len(as_ids):  # else a document would have two rows
        path.write_text("qid,docid,label,x\n" + "".join(f"q,{cell},0,{k}\n" for k, cell in enumerate(cells)))
        assert read_csv(path).docid.tolist() == list(map(str, as_ids))
    if '"' not in cells[0] and " " not in cells[0]:  # LETOR text has no quotes
        (tmp_path / "t.txt").write_text("".join(f"0 qid:{cell} 1:1\n" for cell in cells))
        assert read_letor(tmp_path / "t.txt").qid.tolist() == as_ids
        for convert, source in ((convert_letor, "t.txt"), (convert_csv, "t.csv")):
            convert(tmp_path / source, tmp_path / "s.store")
            read = {"t.txt": read_letor, "t.csv": read_csv}[source](tmp_path / source)
            store = open_store(tmp_path / "s.store")
            assert store.query_ids.tolist() == read.query_ids.tolist()
            assert store.docid is None or store.docid.tolist() == read.docid.tolist()


def test_json_lines_are_tables(tmp_path):
    rows = [
        {"qid": "a", "x": 1, "label": 1, "t": None},
        {"qid": "b", "label": 0, "x": 2.5},
        {"qid": "a", "x": 3, "label": 0},
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    data = read_queries(path, features=["x"])
    assert (data.X.ravel().tolist(), data.query_ids.tolist(), data.order.tolist()) == (
        [1, 3, 2.5],
        ["a", "b"],
        [0, 2, 1],
    )
    path.write_text('{"qid": 1, "x": 1, "label": 0}\n\n{"qid": 1, "x": "2", "label": 0}\n')
    refused(r"rows.jsonl: column 'x': expected values of one type, got int and str", read_queries, path)
    path.write_text('{"qid": 1, "x": 1, "label": 0}\n{"qid": 1, "x": 2 "label": 0}\n')
    refused(r"rows.jsonl:2: expected a JSON object, got", read_queries, path)


def test_folders_of_csv_are_one_table(tmp_path):
    for k in range(3):
        (tmp_path / f"part-{k}.csv").write_text(f"qid,x,label\n{k},{k},1\n{k + 1},9,0\n")
    assert read_queries(tmp_path).X.ravel().tolist() == [0, 9, 1, 9, 2, 9]
    assert read_queries(f"{tmp_path}/part-[01].csv").n_rows == 4
    (tmp_path / "part-2.csv").write_text("qid,y,label\n1,2,1\n")
    refused(r"part-2.csv: expected the 1 feature of .*part-0.csv, got no column 'x'", read_queries, tmp_path)
    (tmp_path / "part-2.csv").write_text("qid,x,label\na,2,1\n")
    assert read_queries(tmp_path).query_ids.tolist() == ["0", "1", "2", "a"]


def test_zstd_and_what_a_spreadsheet_writes(tmp_path):
    with pa.CompressedOutputStream(f"{tmp_path}/t.csv.zst", "zstd") as file:
        file.write(b'\xef\xbb\xbf"qid",x,label\r\n' + b"1,2,0\r\n" * 1000)
    assert read_queries(tmp_path / "t.csv.zst").n_rows == 1000
    cut = tmp_path / "cut.csv.zst"
    cut.write_bytes((tmp_path / "t.csv.zst").read_bytes()[:-5])
    rejected(r"cut.csv.zst: expected an intact zstd file, got a damaged one \(Truncated", read_queries, cut)


def test_the_first_wrong_line_is_told_whatever_the_column(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    for block in (1 << 23, 40):
        monkeypatch.setattr(text, "_BLOCK", block)
        path.write_text("qid,label,a,b\n" + "1,0,1,2\n" * 5 + "1,0,1,x\n" + "1,0,y,2\n" * 3 + "1,0\n")
        refused(r"t.csv:7: column 'b': expected a number, got 'x'", read_csv, path)


def test_gaps_in_labels_that_are_not_needed(tmp_path):
    (tmp_path / "t.csv").write_text("qid,label,a\n1,,1\n1,2,2\n2,inf,1\n")
    with pytest.raises(BadInput, match=r"t.csv:4: column 'label': expected a finite label, got 'inf'"):
        read_csv(tmp_path / "t.csv", label=None)
    (tmp_path / "t.csv").write_text("qid,label,a\n1,,1\n1,2,2\n")
    assert read_csv(tmp_path / "t.csv", label=None).y is None
    convert_csv(tmp_path / "t.csv", tmp_path / "s.store", label=None)
    assert (open_store(tmp_path / "s.store").y, open_store(tmp_path / "s.store").n_rows) == (None, 2)


def test_missing_and_float_ids_of_judgments_and_runs():
    for docno in ([None, "x"], [GAP, 2.0], [b"a", b"b"], [1.5, 2.0]):
        refused(
            "column 'docno': expected the id of a document, got",
            Run.from_frame,
            pd.DataFrame({"qid": ["a", "a"], "docno": docno, "score": [2.0, 1.0]}),
        )
        with pytest.raises(BadInput, match=r"docid\[\d\]: expected the id of a document, got"):
            Run.from_arrays(["a", "a"], docno, [2.0, 1.0])
        with pytest.raises(BadInput, match=r"docid\[\d\]: expected an int or a string, got"):
            QueryData.from_arrays([[1.0], [2.0]], [0, 1], [7, 7], docid=docno)
    whole = Run.from_arrays([1.0, 1.0], [101.0, 102.0], [2.0, 1.0])
    assert whole.to_dict() == {"1": {"101": 2.0, "102": 1.0}}
    with pytest.raises(BadInput, match="row 2, column 'qid': expected the id of a topic, got none"):
        Qrels.from_frame(pd.DataFrame({"qid": ["a", "b", GAP], "docno": "x", "label": 1}))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, dict])
def test_result_frames_of_pyterrier(frame):
    columns = {
        "qid": ["1", "1"],
        "docid": [4, 17],
        "docno": ["D4", "D17"],
        "rank": [1, 0],
        "score": [2.0, 3.0],
    }
    run = Run.from_frame(frame(columns | {"query": ["red shoes", "red shoes"]}))
    assert run.to_dict() == {"1": {"D17": 3.0, "D4": 2.0}}


@pytest.mark.parametrize("factor", [1, 10**3, 10**6, 10**9])
@pytest.mark.parametrize("carrier", ["frame", "csv", "parquet"])
def test_since_and_until_in_every_unit(tmp_path, factor, carrier):
    rng = np.random.default_rng(0)
    when = 1767225600 + rng.integers(0, 100 * 86400, 500)
    frame = pd.DataFrame(
        {"query": 1, "document": rng.integers(0, 9, 500), "position": 1, "clicked": 0, "t": when * factor}
    )
    source = frame if carrier == "frame" else tmp_path / f"t.{carrier}"
    if carrier == "csv":
        frame.to_csv(source, index=False)
    elif carrier == "parquet":
        frame.to_parquet(source)
    limit = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)
    expected = int((when >= limit.timestamp()).sum())
    for since in ("2026-03-01", limit, limit.timestamp() * factor, f"{limit.timestamp() * 1000:.0f}"):
        cells = read_table(source, time="t", between=(since, None))
        assert (cells.n_shows, cells.dropped["row before since"]) == (expected, 500 - expected)
    assert cells.guessed.get("time", "").endswith("seconds") == (factor > 1)


def test_ids_of_click_logs_written_as_floats(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("query,document,position,clicked\nq,101.0,1,1\nq,7,2,0\n")
    assert read_table(path).docid.tolist() == ["101", "7"]
    assert read_table(pd.read_csv(path, dtype={"document": str})).docid.tolist() == ["101", "7"]
    path.write_text("query,document,position,clicked\nq,101.0,1,1\nq,x,2,0\n")
    assert read_table(path).docid.tolist() == ["101.0", "x"]
    path.write_text("query,document,position,clicked\nq,7.0,1,1\nq,7,2,0\nq,nan,3,0\n")
    cells = read_table(path)
    assert (cells.docid.tolist(), cells.shows.tolist()) == (["7"], [1, 1])
    assert cells.dropped == {"missing query or document": 1}
    path.write_text("query,document,position,clicked\nq,1.7e+18,1,1\nq,2,2,0\n")
    refused("column 'document': expected .*as a column of floats is written", read_table, path)


def test_a_click_on_a_later_row_of_a_document_counts():
    """Later events of a document may be further rows, at the same position or another."""
    rows = {
        "list": [1, 1, 1, 2, 2],
        "rank": [1, 2, 3, 1, 2],
        "document": list("abaab"),
        "team": list("xyxxy"),
    }
    frame = pd.DataFrame(rows | {"clicked": [0, 0, 1, 0, 1]})
    log, dropped = read_team_draft_table(frame)
    assert [[click.rank for click in one.clicks] for one in log.impressions] == [[1], [2]]
    assert dropped == {"document twice in a list": 1}
    cells = read_table(frame.assign(query="q"), session="list", position="rank")
    assert (cells.clicks.tolist(), cells.dropped["document twice in a list"]) == ([1, 1], 1)


def test_frames_whose_columns_are_numbers_go_by_name_or_are_refused():
    rng = np.random.default_rng(0)
    X, qid = pd.DataFrame(rng.normal(size=(60, 3))), np.repeat(np.arange(6), 10)
    y = (X[0] > 0).astype(int)
    by_place = StructuralRanker().fit(X, y, qid=qid)
    np.testing.assert_array_equal(by_place.predict(X), by_place.predict(X.to_numpy()))
    named = X.set_axis([10, 20, 30], axis=1)
    for frame in (X[[2, 1, 0]], named):
        refused(
            "X: expected columns as in training, which had no names, got a frame", by_place.predict, frame
        )
    by_name = StructuralRanker().fit(named, y, qid=qid)
    np.testing.assert_array_equal(by_name.predict(named), by_place.predict(X))
    rejected("feature names should match", by_name.predict, named[[30, 20, 10]])


SPELLINGS = {
    "query": ["query", "qid", "QID", "query_id", "Query_ID", "Query-Id", "topic"],
    "document": ["document", "docid", "doc_id", "Doc ID", "DOCNO", "product_id"],
    "label": ["label", "Grade", "relevance", "rel"],
}


def test_usual_names_mean_the_same_in_every_reader(tmp_path):
    """Rows, clicks, judgments, runs and team drafts know the same names, in any spelling and order."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        query, document, label = (str(rng.choice(names)) for names in SPELLINGS.values())
        frame = pd.DataFrame(
            {query: ["q1", "q1", "q2"], document: ["a", "b", "a"], label: [1, 0, 1], "position": [1, 2, 1]}
        )
        frame = frame[list(rng.permutation(frame.columns))]
        frame.to_csv(tmp_path / "t.csv", index=False)
        rows = read_csv(tmp_path / "t.csv")
        assert rows.feature_names == ("position",)
        assert (rows.query_ids.tolist(), rows.docid.tolist(), rows.y.tolist()) == (
            ["q1", "q2"],
            ["a", "b", "a"],
            [1, 0, 1],
        )
        judged = {"q1": {"a": 1, "b": 0}, "q2": {"a": 1}}
        assert Qrels.from_frame(frame).to_dict() == judged
        assert Run.from_frame(frame.rename(columns={label: "Score"})).to_dict() == judged
        shown = frame.rename(columns={label: str(rng.choice(["clicked", "Click", "clicks", "is-click"]))})
        cells = read_table(shown)
        assert (set(cells.query_ids.tolist()), cells.n_clicks) == ({"q1", "q2"}, 2)


def test_several_usual_names_are_refused_and_an_own_or_given_name_wins(tmp_path):
    row = {"query": ["x"], "query_id": ["y"], "Grade": [1.0], "relevance": [2.0], "f": [0.5]}
    path = tmp_path / "t.csv"
    pd.DataFrame(row).to_csv(path, index=False)
    refused(
        "t.csv: expected one column for 'label', got 'Grade' and 'relevance'; name it with label=",
        read_csv,
        path,
    )
    options = {"label": "Grade", "features": ["f"]}
    refused("expected one column for 'qid', got 'query' and 'query_id'", read_csv, path, **options)
    data = read_csv(path, qid="query_id", **options)
    assert (data.query_ids.tolist(), data.y.tolist()) == (["y"], [1.0])
    assert read_csv(path, qid="query", label=None, features=["f", "relevance"]).y.tolist() == [1.0]
    pd.DataFrame(row | {"qid": ["z"], "label": [3.0]}).to_csv(path, index=False)
    data = read_csv(path, features=["relevance"])
    assert (data.query_ids.tolist(), data.y.tolist(), data.X.tolist()) == (["z"], [3.0], [[2.0]])
    frame = pd.DataFrame({"docid": [0], "docno": ["d"], "query": ["words"], "qid": ["7"], "score": [1.0]})
    assert Run.from_frame(frame).to_dict() == {"7": {"d": 1.0}}  # of PyTerrier


def test_the_index_of_pandas_is_no_feature_unless_it_has_a_role(tmp_path):
    frame = pd.DataFrame({"qid": [1, 1, 2], "docid": list("abc"), "label": [1, 0, 1], "f": [1.0, 2.0, 3.0]})
    frame["row"] = [3, 1, 2]
    path = tmp_path / "t.parquet"
    for index in (["row"], ["row", "qid"], ["qid", "row", "docid"]):
        frame.set_index(index).to_parquet(path)
        data = read_parquet(path)
        assert (data.feature_names, data.query_ids.tolist(), data.docid.tolist()) == (
            ("f",),
            [1, 2],
            list("abc"),
        )
        assert read_parquet(path, features=["row"]).X.ravel().tolist() == [3, 1, 2]
        convert_parquet(path, tmp_path / "t.store")
        assert open_store(tmp_path / "t.store").feature_names == ("f",)
