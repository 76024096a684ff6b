"""Tables, TREC files and pipes on the command line: the same numbers as LETOR text, in every command that reads it."""

import csv
import gzip
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import structsvm
from structsvm.cli import main
from structsvm.metrics import evaluate
from structsvm.readers import (
    make_ranking,
    open_store,
    read_csv,
    read_qrels,
    read_queries,
    read_run,
    write_letor,
)

pytest.importorskip("pyarrow", reason="pip install 'structsvm-ranking[parquet]'")
NAMES = ("bm25", "age", "links", "title")


def run(*arguments):
    return main([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """The same rows as LETOR text, CSV (commas, tabs, gzip) and Parquet; queries are cut up and have names."""
    from pyarrow import parquet, table

    folder = tmp_path_factory.mktemp("tables")
    data = make_ranking(24, 8, 4, grades=3, noise=0.5, random_state=3)
    order = np.random.default_rng(0).permutation(data.n_rows)
    X, y = data.X[order], data.y[order].astype(int)
    qid = [f"query {q}" for q in data.qid[order]]
    docid = [f"d{row}" for row in order]
    with (folder / "rows.txt").open("w") as file:
        for cells, grade, query, document in zip(X, y, qid, docid, strict=True):
            features = " ".join(f"{j}:{v!r}" for j, v in enumerate(cells.tolist(), 1))
            file.write(f"{grade} qid:{query.replace(' ', '_')} {features} #docid = {document}\n")
    columns = {
        "docid": docid,
        "age": X[:, 1],
        "label": y,
        "bm25": X[:, 0],
        "qid": qid,
        "title": X[:, 3],
        "links": X[:, 2],
    }
    parquet.write_table(table(columns), folder / "rows.parquet")
    lines = [
        list(columns),
        *zip(*(c if isinstance(c, list) else c.tolist() for c in columns.values()), strict=True),
    ]
    for name, comma in (("rows.csv", ","), ("rows.tsv", "\t")):
        with (folder / name).open("w", newline="") as file:
            csv.writer(file, delimiter=comma).writerows(lines)
    (folder / "rows.csv.gz").write_bytes(gzip.compress((folder / "rows.csv").read_bytes()))
    return folder


TABLES = ("rows.csv", "rows.tsv", "rows.csv.gz", "rows.parquet")


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_read_as_the_text(room, name):
    text, read = read_queries(room / "rows.txt"), read_queries(room / name, features=NAMES)
    np.testing.assert_array_equal(read.X, text.X)
    np.testing.assert_array_equal(read.y, text.y)
    np.testing.assert_array_equal(read.docid, text.docid)
    np.testing.assert_array_equal(read.order, text.order)
    assert [q.replace(" ", "_") for q in read.query_ids.tolist()] == text.query_ids.tolist()
    assert read.feature_names == NAMES
    assert read_queries(room / name).feature_names == ("age", "bm25", "title", "links")


@pytest.mark.parametrize("name", TABLES)
def test_the_path_from_training_to_a_figure(room, name, tmp_path, capsys):
    """The scores are those of LETOR text to the last bit, and the model knows its features by name."""
    for source, scores in (("rows.txt", "text"), (name, "table")):
        features = () if source == "rows.txt" else ("--features", ",".join(NAMES))
        model = tmp_path / f"{scores}.npz"
        assert run("train", room / source, "-o", model, *features) == 0
        assert run("predict", model, room / source, "-o", tmp_path / scores) == 0
    assert (tmp_path / "text").read_text() == (tmp_path / "table").read_text()
    assert structsvm.load(tmp_path / "table.npz").feature_names_in_.tolist() == list(NAMES)
    # a table of another form and order of columns
    assert run("predict", tmp_path / "table.npz", room / "rows.parquet", "-o", tmp_path / "again") == 0
    assert (tmp_path / "again").read_text() == (tmp_path / "table").read_text()
    assert run("convert", room / name, tmp_path / "rows.store") == 0
    assert open_store(tmp_path / "rows.store").feature_names == ("age", "bm25", "title", "links")
    assert run("convert", "--check", tmp_path / "rows.store") == 0
    assert run("predict", tmp_path / "table.npz", tmp_path / "rows.store", "-o", tmp_path / "stored") == 0
    np.testing.assert_allclose(np.loadtxt(tmp_path / "stored"), np.loadtxt(tmp_path / "text"), rtol=1e-12)
    capsys.readouterr()
    figures = []
    for source in ("rows.txt", name, tmp_path / "rows.store"):
        assert run("evaluate", room / source, tmp_path / "text", "--json") == 0
        figures.append(json.loads(capsys.readouterr().out)["metrics"])
    assert figures[0] == figures[1] == figures[2]


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_search_and_compare_read_tables(room, name, tmp_path, capsys):
    options = ["--C", "0.1,10", "--folds", 3, "--jobs", 1, "--json"]
    means = []
    for source in ("rows.txt", name):
        features = () if source == "rows.txt" else ("--features", ",".join(NAMES))
        assert run("compare", room / source, *options, *features) == 0
        found = json.loads(capsys.readouterr().out)
        means.append([row["means"] for row in found["rows"]] if "rows" in found else found["methods"])
    assert json.dumps(means[0], sort_keys=True).count("map") == json.dumps(means[1], sort_keys=True).count(
        "map"
    )
    assert run("search", room / name, *options, "--method", "svm-map", "-o", tmp_path / "m.npz") == 0
    assert structsvm.load(tmp_path / "m.npz").feature_names_in_.tolist() == ["age", "bm25", "title", "links"]


def test_folds_of_tables(room, tmp_path, capsys):
    """Parts with their columns in different orders are one benchmark."""
    from pyarrow import parquet

    rows = parquet.read_table(room / "rows.parquet").to_pandas().sort_values(["qid", "docid"])
    (tmp_path / "Fold1").mkdir()
    rows["qid"] = [query.replace(" ", "_") for query in rows["qid"]]
    queries = rows["qid"].unique()
    for k, part in enumerate(("train", "vali", "test")):
        chosen = rows[rows["qid"].isin(queries[k::3])]
        chosen = chosen[list(chosen.columns)[::-1]] if k else chosen
        chosen.to_parquet(tmp_path / "Fold1" / f"{part}.parquet")
        write_letor(
            read_queries(tmp_path / "Fold1" / f"{part}.parquet", features=NAMES), tmp_path / f"{part}.txt"
        )
    assert run("compare", tmp_path / "Fold1", "--C", "1,10", "--jobs", 1, "--json") == 0
    tables = json.loads(capsys.readouterr().out)
    folder = tmp_path / "text" / "Fold1"
    folder.mkdir(parents=True)
    for part in ("train", "vali", "test"):
        (tmp_path / f"{part}.txt").rename(folder / f"{part}.txt")
    assert run("compare", folder, "--C", "1,10", "--jobs", 1, "--json") == 0
    text = json.loads(capsys.readouterr().out)
    for a, b in zip(tables["methods"], text["methods"], strict=True):
        assert a["method"] == b["method"]
        np.testing.assert_allclose(list(a["means"].values()), list(b["means"].values()), rtol=1e-12)


def test_other_commands_read_tables(room, tmp_path, capsys):
    options = ("--interleaver", "team_draft", "--impressions", 50, "--clicks", "perfect")
    for source in ("rows.txt", "rows.csv"):
        out = tmp_path / f"{source}.jsonl"
        assert run("interleave", "simulate", "--data", room / source, "-o", out, *options) == 0
    world = (
        "--samples",
        100,
        "--horizon",
        200,
        "--runs",
        2,
        "--algorithms",
        "rucb",
        "--gap",
        "ndcg",
        "--jobs",
        1,
    )
    assert run("bandit", "simulate", "--world", room / "rows.csv", *world) == 0
    assert "estimating 6 pairs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "t.csv: expected names of columns in the first line, got an empty file"),
        ("qid,label,a\n", "t.csv: expected rows below the names of the columns, got none"),
        ("qid,label\n1,1\n", "expected columns of features besides 'label' and 'qid', got none"),
        ("qid,label,a,a\n1,1,2,3\n", "expected each column once, got 'a' twice"),
        ("query,label,a\n1,1,2\n", "expected a column 'qid' for the qid, got 'query', 'label', 'a'; name it by --qid"),
        ("qid,label,a\n1,1,2\n1,0\n", "t.csv:3: expected 3 cells, as the first line has, got 2"),
        ("qid,label,a\n1,1,x\n", "t.csv:2: column 'a': expected a number, got 'x'; a missing value is an empty cell or "
         "nan, see --fill, and numbers have no thousands separators; name the column of ids by --docid, "),
        ('qid,label,a\n1,1,"1,646.41"\n', "got '1,646.41'; a missing value is an empty cell or nan, see --fill, and "),
        ('qid,label,a\n1,1,"0,5"\n', "column 'a': expected a number, got '0,5'; write numbers with a decimal point"),
        ("qid,label,a\n1,1,1_0\n", "t.csv:2: column 'a': expected a number, got '1_0'"),
        ("qid,label,a\n1,1,\n", "column 'a': expected a finite number, got an empty cell; state a value "
         "for missing ones by --fill"),
        ("qid,label,a\n1,1,inf\n", "t.csv:2: column 'a': expected a finite number, got 'inf'"),
        ("qid,label,a\n1,,2\n", "t.csv:2: column 'label': expected a finite label, got ''; drop the row or grade it"),
        ("qid,label,a\n,1,2\n", "t.csv:2: column 'qid': expected a query id, got none"),
        ('qid,label,a\n1,1,"2\n', "t.csv:2: expected a row of commas (unexpected end of data)"),
        ('qid,docid,a,label\n1,"d,1,1\n1,e,2,0\n1,f",3,0\n1,g,4,1\n',
         "t.csv:2: expected a row on one line, got a quoted field up to line 4; close the quote"),
        ("1 qid:3 1:2\n", "got '1 qid:3 1:2'; name it by --"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_table_is_one_line(tmp_path, capsys, content, message):
    (tmp_path / "t.csv").write_text(content)
    assert run("train", tmp_path / "t.csv", "-o", tmp_path / "m.npz") == 2
    assert run("convert", tmp_path / "t.csv", tmp_path / "t.store") == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(message in line for line in lines)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv"]


def test_the_name_of_a_feature_that_was_probably_meant(room, capsys):
    command = ["train", room / "rows.csv", "-o", room / "no.npz", "--monotone", "bm52:+1"]
    assert run(*command) == 2
    assert "--monotone bm52: expected a feature from 1 to 4, or its name; did you mean 'bm25'?" in (
        capsys.readouterr().err
    )


def test_what_a_spreadsheet_writes_is_read(tmp_path):
    """A byte order mark, quotes, carriage returns, blank lines, a last line without an end, missing cells."""
    path = tmp_path / "t.csv"
    path.write_bytes(b'\xef\xbb\xbf"qid","label","a, b"\r\n"x ""y""",1,2.5\r\n\r\n"x ""y""",0,\r\n7,2,nan')
    data = read_csv(path, fill=-1.0)
    assert data.feature_names == ("a, b",)
    assert data.query_ids.tolist() == ['x "y"', "7"]
    assert data.X.ravel().tolist() == [2.5, -1.0, -1.0]
    assert data.docid is None


def test_a_damaged_table_is_not_taken_for_text(tmp_path, capsys):
    (tmp_path / "bad.parquet").write_text("1 qid:1 1:2\n")
    for command in (
        ("train", "bad.parquet", "-o", "m.npz"),
        ("convert", "bad.parquet", "s.store"),
        ("compare", "bad.parquet"),
    ):
        arguments = [str(tmp_path / a) if "." in a else a for a in command]
        assert main(arguments) == 2
        said = capsys.readouterr().err
        assert "bad.parquet: expected a Parquet file, got one that pyarrow cannot read" in said
        assert "qid:" not in said
    assert [path.name for path in tmp_path.iterdir()] == ["bad.parquet"]


def test_names_of_columns_need_a_table(room, tmp_path, capsys):
    for option in ("--label", "--qid", "--docid", "--features"):
        for command in (
            ("train", room / "rows.txt", "-o", tmp_path / "m.npz"),
            ("convert", room / "rows.txt", tmp_path / "s"),
        ):
            assert run(*command, option, "name") == 2
            assert f"{option}: expected" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


# --- TREC files ---


@pytest.fixture
def trec(tmp_path):
    (tmp_path / "qrels").write_text("1 0 a 2\n1 0 b 0\n2 0 c 1\n2 0 d -1\n3 0 e 1\n")
    (tmp_path / "run").write_text(
        "1 Q0 b 1 3.0 x\n1 Q0 a 2 2.0 x\n2 Q0 z 1 9 x\n2 Q0 c 2 1 x\n9 Q0 a 1 1 x\n"
    )
    return tmp_path


def test_judgments_and_a_run_agree_with_trec_eval(trec, capsys):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    judged = {"1": {"a": 2, "b": 0}, "2": {"c": 1, "d": -1}, "3": {"e": 1}}
    ranked = {"1": {"b": 3.0, "a": 2.0}, "2": {"z": 9.0, "c": 1.0}, "9": {"a": 1.0}}
    names = ("map", "ndcg_cut_10", "recip_rank", "P_5", "recall_5", "ndcg")
    asked = [part for name in names for part in ("--metric", name)]
    assert run("evaluate", trec / "qrels", trec / "run", *asked, "--common-topics", "--json") == 0
    common = json.loads(capsys.readouterr().out)["metrics"]
    measured = pytrec_eval.RelevanceEvaluator(
        judged, {"map", "ndcg_cut", "recip_rank", "P", "recall", "ndcg"}
    ).evaluate(ranked)
    assert sorted(measured) == ["1", "2"]
    for name in names:
        assert common[name] == pytest.approx(np.mean([measured[q][name] for q in measured]), abs=1e-12)
    assert run("evaluate", trec / "qrels", trec / "run", *asked, "--json") == 0
    complete = json.loads(capsys.readouterr().out)
    assert complete["n_queries"] == 3
    for name in names:
        assert complete["metrics"][name] == pytest.approx(common[name] * 2 / 3, abs=1e-12)


def test_several_runs_stand_in_one_table(trec, capsys):
    """The table of ``evaluate`` in Python; figures are those of each run by itself."""
    (trec / "other").write_text("1 Q0 a 1 3.0 y\n2 Q0 c 1 2.0 y\n3 Q0 e 1 1 y\n")
    measures = ("--metric", "map", "--metric", "ndcg@10")
    files = (trec / "run", trec / "other")
    assert run("evaluate", trec / "qrels", *files, *measures) == 0
    table = evaluate(read_qrels(trec / "qrels"), [read_run(path) for path in files], ["map", "ndcg@10"])
    assert capsys.readouterr().out == f"{table!r}\n"
    assert run("evaluate", trec / "qrels", *files, *measures, "--json", "--per-query") == 0
    found = json.loads(capsys.readouterr().out)["runs"]
    for name, path in zip("xy", files, strict=True):
        assert run("evaluate", trec / "qrels", path, *measures, "--json", "--per-query") == 0
        alone = json.loads(capsys.readouterr().out)
        assert list(alone) == [
            "data", "scores", "convention", "relevance", "n_queries", "n_rows", "metrics", "per_query",
        ]  # fmt: skip
        assert found[name].items() <= alone.items()
    assert list(found) == ["x", "y"]


def test_several_files_of_scores_stand_in_one_table(trec, monkeypatch, capsys):
    monkeypatch.chdir(trec)
    (trec / "rows.txt").write_text("1 qid:1 1:1\n0 qid:1 1:0\n")
    (trec / "good").write_text("2\n1\n")
    (trec / "bad").write_text("1\n2\n")
    assert run("evaluate", "rows.txt", "good", "bad", "--metric", "map") == 0
    assert capsys.readouterr().out.split() == ["run", "map", "good", "1.0000", "bad", "0.5000"]
    for arguments, message in (
        (("good", "good"), "expected different files, got the same twice"),
        (("good", "bad", "--per-query"), "--per-query: expected --json with it"),
        (("good", "bad", "--dask", "local"), "--dask: expected one model, got 2"),
    ):
        assert run("evaluate", "rows.txt", *arguments) == 2
        assert message in capsys.readouterr().err


def test_whole_ids_written_as_floats_are_those_of_other_files(tmp_path, capsys):
    """From training to evaluation: ``1.0`` of one file is ``1`` of the others, and of judgments."""
    rows = [(q, f"d{q}{d}", d, int(d > q)) for q in (1, 2, 3) for d in range(4)]
    for name, suffix in (("whole", ""), ("floats", ".0")):
        lines = [f"{q}{suffix},{d},{value},{label}" for q, d, value, label in rows]
        (tmp_path / f"{name}.csv").write_text("\n".join(["qid,docid,f,label", *lines]) + "\n")
    (tmp_path / "qrels").write_text("".join(f"{q} 0 {d} {label}\n" for q, d, _, label in rows))
    for name, other in (("whole", "floats"), ("floats", "whole")):
        model, found = tmp_path / f"{name}.npz", tmp_path / f"{name}-scores.csv"
        assert run("train", tmp_path / f"{name}.csv", "-o", model) == 0
        assert run("predict", model, tmp_path / f"{name}.csv", "-o", found) == 0
        assert run("evaluate", tmp_path / f"{other}.csv", found) == 0
        assert run("predict", model, tmp_path / f"{name}.csv", "--format", "run", "-o", tmp_path / name) == 0
        assert run("evaluate", tmp_path / "qrels", tmp_path / name) == 0
    assert (tmp_path / "floats-scores.csv").read_text() == (tmp_path / "whole-scores.csv").read_text()
    capsys.readouterr()


def test_a_run_that_fits_no_judgments(trec, capsys):
    (trec / "scores").write_text("1\n2\n")
    assert run("evaluate", trec / "qrels", trec / "scores") == 2
    assert "scores:1: expected" in capsys.readouterr().err
    (trec / "rows.txt").write_text(GOOD := "1 qid:1 1:1\n0 qid:1 1:0\n")
    assert run("evaluate", trec / "rows.txt", trec / "scores", "--common-topics") == 2
    assert "--common-topics: expected TREC judgments" in capsys.readouterr().err
    assert GOOD


# --- names of measures ---


@pytest.mark.parametrize(
    ("other", "ours"),
    [
        ("nDCG@10", "ndcg@10"), ("ndcg_cut_10", "ndcg@10"), ("ndcg_cut.10", "ndcg@10"), ("P@5", "precision@5"),
        ("P_5", "precision@5"), ("P.5", "precision@5"), ("AP", "map"), ("AP@3", "map@3"), ("map_cut_3", "map@3"),
        ("RR", "mrr"), ("RR@10", "mrr@10"), ("recip_rank", "mrr"), ("R@2", "recall@2"), ("recall_2", "recall@2"),
        ("ERR@20", "err@20"), ("MAP", "map"), ("MRR", "mrr"),
    ],
)  # fmt: skip
def test_names_of_other_tools(other, ours):
    from structsvm.metrics import evaluate

    rng = np.random.default_rng(4)
    y, s, qid = rng.integers(0, 3, 60), rng.normal(size=60), np.arange(60) // 12
    found, known = evaluate(other, y, s, qid=qid), evaluate(ours, y, s, qid=qid)
    assert found.name == other
    np.testing.assert_array_equal(found.per_query, known.per_query)


@pytest.mark.parametrize(
    "name", ["P", "ndcg_cut", "AP(rel=2)", "Rprec", "P_0", "ndcg_10", "recip_rank_5", "P@x"]
)
def test_names_that_are_none(name):
    from structsvm.metrics import evaluate

    with pytest.raises(ValueError, match=r"expected|needs a cutoff"):
        evaluate(name, [1, 0], [1.0, 0.0], qid=0)


# --- pipes, help, completion ---


def shell(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "structsvm", *map(str, arguments)], capture_output=True, timeout=600, **options
    )


def test_scores_go_to_standard_output(room, tmp_path, capsys):
    assert run("train", room / "rows.txt", "-o", tmp_path / "m.npz") == 0
    assert run("predict", tmp_path / "m.npz", room / "rows.txt", "-o", tmp_path / "s") == 0
    capsys.readouterr()
    assert run("predict", tmp_path / "m.npz", room / "rows.txt", "-o", "-") == 0
    assert capsys.readouterr().out == (tmp_path / "s").read_text()
    packed = gzip.compress((room / "rows.txt").read_bytes())
    piped = shell("predict", tmp_path / "m.npz", "-", "-o", "/dev/stdout", input=packed)
    assert (piped.returncode, piped.stderr) == (0, b"")
    assert piped.stdout.decode() == (tmp_path / "s").read_text()
    # wrong input: nothing is printed
    piped = shell("predict", tmp_path / "m.npz", "-", "-o", "-", input=packed[:-20])
    assert piped.returncode == 2
    assert piped.stdout == b""
    assert piped.stderr.count(b"\n") == 1


@pytest.mark.skipif(os.name != "posix", reason="pipes of a shell")
def test_a_reader_that_leaves_early_is_no_error(tmp_path):
    """As in ``structsvm predict ... -o - | head``."""
    write_letor(make_ranking(20, 20, 3, random_state=0), tmp_path / "rows.txt")
    assert run("train", tmp_path / "rows.txt", "-o", tmp_path / "m.npz") == 0
    # compiled before, of which a process that is the first says so
    assert run("predict", tmp_path / "m.npz", tmp_path / "rows.txt", "-o", tmp_path / "scores") == 0
    reader, writer = os.pipe()
    os.close(reader)
    predict = ["predict", tmp_path / "m.npz", tmp_path / "rows.txt", "-o", "-"]
    for arguments in (predict, ["--help"], ["train", "--help"]):
        command = [sys.executable, "-m", "structsvm", *arguments]
        left = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, timeout=600)
        assert (left.returncode, left.stderr) == (141, b"")
    os.close(writer)


def test_files_in_the_wrong_order_are_said(tmp_path, capsys):
    rows, log = tmp_path / "rows.txt", tmp_path / "log.csv"
    write_letor(make_ranking(20, 20, 3, random_state=0), rows)
    log.write_text("query,doc,position,click,session\n1,a,1,1,1\n")
    assert run("clicks", "train", rows, log, "-o", tmp_path / "m.npz") == 2
    assert "expected a click log, got '0 qid:" in (err := capsys.readouterr().err)
    assert err.endswith("name the log before other files, or state --format\n")
    log.write_text("qid,document,score,rank\n1,a,.5,1\n")
    assert run("evaluate", log, rows) == 2
    assert (
        "name it by --label; it looks like scores of predict, which come after the data"
        in capsys.readouterr().err
    )
    assert run("predict", rows, log, "-o", tmp_path / "scores") == 2
    assert "expected a structsvm model (written by save), got another" in (err := capsys.readouterr().err)
    assert "check the order of the files" in err


def test_short_help_and_paragraphs_that_wrap(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    for command in (("train",), ("fuse",), ("diversify", "train"), ("bandit", "simulate"), ()):
        assert run(*command, "-h") == 0
        short = capsys.readouterr().out
        assert run(*command, "--help") == 0
        assert capsys.readouterr().out == short
        assert not re.search(r"{[a-z_]+}", short)
    assert run("fuse", "-h") == 0
    lines = [line.strip() for line in capsys.readouterr().out.split("╭")[0].splitlines()]
    paragraph = lines[lines.index("") + 1 :]
    # each line of a paragraph but its last could not have taken the first word of the next one
    text = [line for line in paragraph if line]
    for line, following in itertools.pairwise(text):
        if not line.endswith(".") or following.startswith(("Topics", "Runs", "With")):
            assert len(line) + 1 + len(following.split()[0]) > 90


@pytest.mark.parametrize("words", ["structsvm ", "structsvm interleave ", "structsvm train --sc"])
def test_shell_completion(words):
    """What the script that ``--show-completion bash`` prints asks for."""
    expected = {
        "structsvm ": "evaluate",
        "structsvm interleave ": "analyse",
        "structsvm train --sc": "--scale",
    }
    position = str(len(words.split(" ")) - 1)
    asked = {"_STRUCTSVM_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": position}
    found = shell(env={**os.environ, **asked})
    assert found.returncode == 0
    assert expected[words] in found.stdout.decode().split()


def test_outputs_are_there_completely_or_not_at_all(room, tmp_path, monkeypatch, capsys):
    """A disk that fills up in the middle of the scores."""
    assert run("train", room / "rows.csv", "-o", tmp_path / "m.npz") == 0
    (tmp_path / "s").write_text("earlier\n")

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert run("predict", tmp_path / "m.npz", room / "rows.csv", "-o", tmp_path / "s") == 2
    assert (tmp_path / "s").read_text() == "earlier\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.npz", "s"]
    assert Path(tmp_path / "m.npz").exists()


@pytest.mark.parametrize("lines", ["7,d0,0.126,1\n0,d1,0.3,2\n", "0,d0,0,1\n0,d1,0.3,2\n"])
def test_a_table_without_names_is_told(lines, tmp_path, capsys):
    (tmp_path / "rows.csv").write_text(lines)
    assert main(["train", str(tmp_path / "rows.csv"), "-o", str(tmp_path / "model.npz")]) == 2
    assert capsys.readouterr().err.strip().endswith("write the names of the columns in its first line")


def test_train_takes_one_C(tmp_path, capsys):
    (tmp_path / "rows.csv").write_text("label,qid,a\n1,1,2\n0,1,1\n")
    assert main(["train", str(tmp_path / "rows.csv"), "--C", ".1,1", "-o", str(tmp_path / "model.npz")]) == 2
    assert "expected one number, got '.1,1'; structsvm search tries several" in capsys.readouterr().err


def test_columns_that_have_numbers_for_names_are_names(tmp_path, capsys):
    (tmp_path / "rows.csv").write_text("grade,qid,0,1,2,3\n1,1,2,3,4,5\n")
    assert main(["train", str(tmp_path / "rows.csv"), "-o", str(tmp_path / "model.npz")]) == 2
    assert capsys.readouterr().err.strip().endswith("name it by --label")


def test_files_in_the_wrong_order_or_of_another_kind_are_told(trec, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_letor(make_ranking(4, 5, 2, random_state=0), tmp_path / "rows.txt")
    assert run("train", "rows.txt", "-o", "m.npz") == 0
    np.savez(tmp_path / "other.npz", description=np.zeros(2))
    model = "m.npz: expected text, got a model of structsvm; structsvm predict m.npz DATA --output scores.txt"
    stored = "expected the name of a folder, got one of a file; convert makes a store"
    for command, message in (
        ("evaluate rows.txt m.npz", model),
        ("train m.npz -o out.npz", model),
        ("convert m.npz out.store", model),
        (
            "train other.npz -o out.npz",
            "other.npz: expected UTF-8 text, plain or gzip, bzip2, xz, got zip; convert it",
        ),
        (
            "predict rows.txt m.npz -o out.txt",
            "m.npz: expected DATA, got a model; MODEL comes first, DATA second",
        ),
        (
            f"evaluate {trec}/run {trec}/qrels",
            "run: expected judgments, got a TREC run; judgments come first",
        ),
        *(
            (f"convert rows.txt out{kind}", f"out{kind}: {stored}")
            for kind in (".parquet", ".csv", ".tsv", ".txt")
        ),
    ):
        capsys.readouterr()
        assert run(*command.split()) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n"), message in err) == ("", 1, True), err
    assert sorted(path.name for path in tmp_path.glob("out*")) == []


def test_means_over_different_topics_have_their_number(trec, capsys):
    (trec / "other").write_text("1 Q0 a 1 3.0 y\n2 Q0 c 1 2.0 y\n3 Q0 e 1 1 y\n")
    (trec / "shifted").write_text("2 Q0 c 1 2.0 z\n3 Q0 e 1 1 z\n")
    files = (trec / "qrels", trec / "run", trec / "other")
    assert run("evaluate", *files, "--metric", "map", "--common-topics") == 0
    out, err = capsys.readouterr()
    assert [line.split()[::2] for line in out.splitlines()] == [["run", "topics"], ["x", "2"], ["y", "3"]]
    assert err == "structsvm: the means are over different topics, of which 2 are in all\n"
    # as many topics, but others
    assert run("evaluate", *files[:2], trec / "shifted", "--metric", "map", "--common-topics") == 0
    assert "of which 1 are in all" in capsys.readouterr().err
    assert run("evaluate", *files, "--metric", "map") == 0
    assert "topics" not in capsys.readouterr().out


def test_slips_of_predict_and_of_signs(room, tmp_path, capsys):
    model = tmp_path / "m.npz"
    assert run("train", room / "rows.csv", "-o", model) == 0
    assert run("predict", model, room / "rows.csv", "-o", tmp_path / "scores.parquet") == 2
    assert (
        "expected the name of a text file, as scores.txt or scores.csv; or state --format"
        in capsys.readouterr().err
    )
    assert run("predict", model, room / "rows.csv", "-o", tmp_path / "scores.tsv", "--format", "scores") == 0
    (tmp_path / "other.csv").write_text((room / "rows.csv").read_text().replace(",", ";"))
    assert run("predict", model, tmp_path / "other.csv", "-o", tmp_path / "scores") == 2
    assert "its cells seem to be separated by ';': write it with commas" in capsys.readouterr().err
    assert run("train", room / "rows.csv", "-o", model, "--monotone", "bm25:+1,2:-1") == 2
    assert (
        "--monotone bm25:+1,2:-1: expected one feature; repeat --monotone for others"
        in capsys.readouterr().err
    )


def test_files_of_others_in_the_folder_of_a_store_are_kept(room, tmp_path, capsys):
    store = tmp_path / "rows.store"
    assert run("convert", room / "rows.csv", store) == 0
    assert run("convert", room / "rows.csv", store) == 0
    for name in ("notes", "vectors.npy"):
        (store / name).mkdir()
        assert run("convert", room / "rows.csv", store) == 2
        assert (
            f"expected a store alone to replace, got '{name}' in it; move it away" in capsys.readouterr().err
        )
        (store / name).rmdir()
    assert run("convert", room / "rows.csv", store) == 0
