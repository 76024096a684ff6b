"""Scores, tables and runs of a model on rows with and without labels."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import structsvm
from structsvm.readers import make_ranking, read_queries, read_run

NAMES = ("bm25", "age", "links")
QUERIES = ["007", "red, lamp", "007", "007", "red, lamp"]
DOCUMENTS = ["d1", "x", "d 2", "d1b", "y"]


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """Write a model of three named features, and mixed rows of queries 007 and "red, lamp", with blanks in ids."""
    folder = tmp_path_factory.mktemp("predict")
    data = make_ranking(12, 6, 3, random_state=1)
    ranker = structsvm.StructuralRanker("map", C=10).fit(data.X, data.y, qid=data.qid)
    X = np.array([[2.0, 1, 0], [0, 1, 1], [1, 3, 1], [2, 1, 0], [0, 0, 0.5]])
    scores = ranker.predict(X)
    ranker.feature_names_in_ = np.array(NAMES, dtype=object)
    ranker.save(folder / "m.npz")
    frame = pd.DataFrame(
        {"docid": DOCUMENTS, "links": X[:, 2], "qid": QUERIES, "age": X[:, 1], "bm25": X[:, 0]}
    )
    frame.to_csv(folder / "rows.csv", index=False)
    text = [f"qid:{q} 1:{a} 2:{b} 3:{c}" for q, (a, b, c) in zip("33474", X, strict=True)]
    (folder / "anonymous.txt").write_text("\n".join(text) + "\n")
    (folder / "rows.txt").write_text("".join(f"{line} #docid = d{k}\n" for k, line in enumerate(text)))
    return folder, scores


@pytest.fixture
def predict(room):
    return f"predict {room[0]}/m.npz"


@pytest.fixture
def table(room):
    return room[0] / "rows.csv"


def test_parquet_has_the_rows_of_the_csv(predict, table, cli):
    for name in ("s.csv", "s.parquet"):
        cli(predict, table, f"-o {name}")
    pd.testing.assert_frame_equal(pd.read_parquet("s.parquet"), pd.read_csv("s.csv", dtype={"query": str}))
    assert "expected the name of a file" in cli.refuses(predict, table, "--format parquet -o -")


def test_a_table_without_labels_is_scored_in_its_order(room, predict, table, cli):
    scores = room[1]
    cli(predict, table, "-o s")
    np.testing.assert_array_equal(np.loadtxt("s"), scores)
    out = cli(predict, table, "-o - --format csv")
    cli(predict, table, "-o s.csv")
    assert cli.err == ""
    assert Path("s.csv").read_text() == out
    rows = pd.read_csv(io.StringIO(out), dtype={"query": str, "score": str})
    assert (rows["query"].tolist(), rows["document"].tolist()) == (QUERIES, DOCUMENTS)
    np.testing.assert_array_equal(rows["score"].map(float), scores)
    # the first and the fourth row are equal: they rank in their order
    expected = (-pd.Series(scores)).groupby(QUERIES).rank(method="first")
    assert rows["rank"].tolist() == expected.tolist()


def test_a_store_of_rows_without_labels(predict, table, cli):
    out = cli("convert", table, "rows.store")
    assert "without labels, which train requires and predict does not" in out
    assert read_queries("rows.store", label=None).y is None
    for form in ("scores", "csv"):
        answers = [cli(predict, source, "-o - --format", form) for source in ("rows.store", table)]
        assert answers[0] == answers[1]
    said = cli.refuses("train rows.store -o n.npz")
    assert "expected labels, got a store without labels" in said
    assert "expected a column 'label' for the label" in cli.refuses("train", table, "-o n.npz")
    said = cli.refuses("convert", table, "s.store --label grade")
    assert "expected a column 'grade' for the label" in said


def test_text_as_a_run_that_is_read_back(room, predict, cli):
    folder, scores = room
    cli(predict, folder / "rows.txt", "--format run -o a.run")
    made = read_run(Path("a.run"))
    assert (made.tag, made.topics.tolist()) == ("m", ["3", "4", "7"])
    by_id = dict(zip(made.docid.tolist(), made.scores.tolist(), strict=True))
    assert by_id == {f"d{k}": score for k, score in enumerate(scores.tolist())}
    assert cli(predict, folder / "rows.txt", "--format run -o -") == Path("a.run").read_text()
    out = cli(predict, folder / "anonymous.txt", "--format csv -o -")
    assert "in a table the column given by --docid); rows are numbered" in cli.err
    assert [line.split(",")[:2] for line in out.splitlines()[1:]] == [
        ["3", "1"],
        ["3", "2"],
        ["4", "3"],
        ["7", "4"],
        ["4", "5"],
    ]


def test_a_csv_of_predict_is_evaluated(cli):
    """``evaluate`` reads its column of scores, with or without document ids, and refuses a file of other rows."""
    data = make_ranking(6, 5, 3, random_state=2)
    structsvm.SVMMap().fit(data.X, data.y, qid=data.qid).save("m.npz")
    order = np.random.default_rng(0).permutation(data.n_rows)  # queries apart
    rows = [[f"q {data.qid[i]}", f"d,{i}", data.y[i], *data.X[i]] for i in order]
    pd.DataFrame(rows, columns=["qid", "docid", "label", *"abc"]).to_csv("rows.csv", index=False)
    docid, answers = "--docid docid", set()
    for of_predict, of_evaluate in (("--features a,b,c", ""), (docid, ""), (docid, docid)):
        for form in ("scores", "csv"):
            cli(f"predict m.npz rows.csv --format {form} -o {form}", of_predict)
            answers.add(cli(f"evaluate rows.csv {form} --per-query", of_evaluate))
    assert len(answers) == 1
    lines = Path("csv").read_text().splitlines()
    Path("other").write_text("\n".join([lines[0], lines[2], lines[1], *lines[3:]]) + "\n")
    said = cli.refuses("evaluate rows.csv other", docid)
    assert "other, row " in said
    assert "predict on this file" in said
    Path("short").write_text("\n".join([lines[0], "q,1", *lines[2:]]) + "\n")
    said = cli.refuses("evaluate rows.csv short")
    assert "short:2: expected 4 cells, as in the first line, got 2" in said
