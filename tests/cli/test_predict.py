"""Scores, tables and runs of a model on rows with and without labels."""

import csv
import io

import numpy as np
import pytest

import structsvm
from structsvm.cli import main
from structsvm.readers import make_ranking, read_queries, read_run

NAMES = ("bm25", "age", "links")
DOCID = ("--docid", "docid")


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """A model of three named features, and rows in a mixed order: queries 007 and "red, lamp", ids with blanks."""
    folder = tmp_path_factory.mktemp("predict")
    data = make_ranking(12, 6, 3, random_state=1)
    ranker = structsvm.StructuralRanker("map", C=10).fit(data.X, data.y, qid=data.qid)
    X = np.array([[2.0, 1, 0], [0, 1, 1], [1, 3, 1], [2, 1, 0], [0, 0, 0.5]])
    scores = ranker.predict(X)
    ranker.feature_names_in_ = np.array(NAMES, dtype=object)
    ranker.save(folder / "m.npz")
    ids = ["007", "red, lamp", "007", "007", "red, lamp"]
    documents = ["d1", "x", "d 2", "d1b", "y"]
    lines = [["docid", "links", "qid", "age", "bm25"]]
    lines += [[d, x[2], q, x[1], x[0]] for d, q, x in zip(documents, ids, X.tolist(), strict=True)]
    with (folder / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows(lines)
    text = [
        f"qid:{q} 1:{a} 2:{b} 3:{c} #docid = d{k}"
        for k, (q, (a, b, c)) in enumerate(zip("33474", X, strict=True))
    ]
    (folder / "rows.txt").write_text("\n".join(text) + "\n")
    (folder / "anonymous.txt").write_text("\n".join(line.partition(" #")[0] for line in text) + "\n")
    return folder, scores, ids, documents


@pytest.mark.parametrize("options", [(), ("--features", "bm25,age,links")])
def test_an_empty_table_is_said_in_one_line(room, tmp_path, capsys, options):
    (tmp_path / "e.csv").write_bytes(b"")
    code, _, err = run(
        capsys, "predict", room[0] / "m.npz", tmp_path / "e.csv", "-o", tmp_path / "s", *options
    )
    assert code == 2
    assert err.endswith("e.csv: expected names of columns in the first line, got an empty file\n")
    assert err.count("\n") == 1
    assert run(capsys, "train", tmp_path / "e.csv", "-o", tmp_path / "m", "--categorical", "a")[2] == err


def test_a_table_without_labels_is_scored_in_its_order(room, tmp_path, capsys):
    folder, scores, ids, documents = room
    assert run(capsys, "predict", folder / "m.npz", folder / "rows.csv", "-o", tmp_path / "s")[0] == 0
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "s"), scores)
    code, out, _ = run(capsys, "predict", folder / "m.npz", folder / "rows.csv", "-o", "-", "--format", "csv")
    assert code == 0
    assert run(capsys, "predict", folder / "m.npz", folder / "rows.csv", "-o", tmp_path / "s.csv")[::2] == (
        0,
        "",
    )
    assert (tmp_path / "s.csv").read_text() == out
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(row["query"], row["document"]) for row in rows] == list(zip(ids, documents, strict=True))
    np.testing.assert_array_equal([float(row["score"]) for row in rows], scores)
    of_query = np.array(ids) == "007"
    # the first and the fourth row are equal: they rank in their order
    expected = np.argsort(np.argsort(-scores[of_query], kind="stable"), kind="stable") + 1
    assert [int(row["rank"]) for row in rows if row["query"] == "007"] == expected.tolist()
    assert sorted(int(row["rank"]) for row in rows if row["query"] != "007") == [1, 2]


def test_a_store_of_rows_without_labels(room, tmp_path, capsys):
    folder, *_ = room
    code, out, _ = run(capsys, "convert", folder / "rows.csv", tmp_path / "rows.store")
    assert code == 0
    assert "without labels, which training needs and predict does not" in out
    assert read_queries(tmp_path / "rows.store", label=None).y is None
    for form in ("scores", "csv"):
        for source in (tmp_path / "rows.store", folder / "rows.csv"):
            options = ("-o", tmp_path / f"{source.name}.{form}", "--format", form)
            assert run(capsys, "predict", folder / "m.npz", source, *options)[0] == 0
        assert (tmp_path / f"rows.store.{form}").read_text() == (tmp_path / f"rows.csv.{form}").read_text()
    code, _, err = run(capsys, "train", tmp_path / "rows.store", "-o", tmp_path / "n.npz")
    assert code == 2
    assert "expected labels, got a store of rows without" in err
    code, _, err = run(capsys, "train", folder / "rows.csv", "-o", tmp_path / "n.npz")
    assert code == 2
    assert "expected a column 'label' for the label" in err


def test_a_label_that_is_named_has_to_be_there(room, tmp_path, capsys):
    folder, *_ = room
    code, _, err = run(capsys, "convert", folder / "rows.csv", tmp_path / "s.store", "--label", "grade")
    assert code == 2
    assert "expected a column 'grade' for the label" in err


def test_text_as_a_run_that_is_read_back(room, tmp_path, capsys):
    folder, scores, *_ = room
    command = ("predict", folder / "m.npz", folder / "rows.txt", "--format", "run", "-o")
    assert run(capsys, *command, tmp_path / "a.run")[0] == 0
    made = read_run(tmp_path / "a.run")
    assert (made.tag, made.topics.tolist()) == ("m", ["3", "4", "7"])
    by_id = dict(zip(made.docid.tolist(), made.scores.tolist(), strict=True))
    assert by_id == {f"d{k}": score for k, score in enumerate(scores.tolist())}
    code, out, _ = run(capsys, *command, "-")
    assert (code, out) == (0, (tmp_path / "a.run").read_text())
    code, out, err = run(
        capsys, "predict", folder / "m.npz", folder / "anonymous.txt", "--format", "csv", "-o", "-"
    )
    assert (code, "in a table the column of --docid); rows are numbered" in err) == (0, True)
    assert [line.split(",")[:2] for line in out.splitlines()[1:]] == [
        ["3", "1"], ["3", "2"], ["4", "3"], ["7", "4"], ["4", "5"],
    ]  # fmt: skip


def test_a_csv_of_predict_is_evaluated(tmp_path, capsys):
    """By its column of scores, whether rows have document ids or not; that of other rows is refused."""
    data = make_ranking(6, 5, 3, random_state=2)
    structsvm.SVMMap().fit(data.X, data.y, qid=data.qid).save(tmp_path / "m.npz")
    order = np.random.default_rng(0).permutation(data.n_rows)  # queries apart
    rows = [["qid", "docid", "label", *"abc"]]
    rows += [[f"q {data.qid[i]}", f"d,{i}", data.y[i], *data.X[i]] for i in order]
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    answers = set()
    for k, (of_predict, of_evaluate) in enumerate([((), ()), (DOCID, ()), (DOCID, DOCID)]):
        options = of_predict or ("--features", "a,b,c")
        for form in ("scores", "csv"):
            command = ("predict", tmp_path / "m.npz", tmp_path / "rows.csv", "--format", form, *options)
            assert run(capsys, *command, "-o", tmp_path / f"{form}{k}")[0] == 0
            code, out, err = run(
                capsys,
                "evaluate",
                tmp_path / "rows.csv",
                tmp_path / f"{form}{k}",
                "--per-query",
                *of_evaluate,
            )
            assert code == 0, err
            answers.add(out)
    assert len(answers) == 1
    lines = (tmp_path / "csv2").read_text().splitlines()
    (tmp_path / "other").write_text("\n".join([lines[0], lines[2], lines[1], *lines[3:]]) + "\n")
    code, _, err = run(capsys, "evaluate", tmp_path / "rows.csv", tmp_path / "other", *DOCID)
    assert (code, "other, row " in err, "predict on this file" in err) == (2, True, True)
    (tmp_path / "short").write_text("\n".join([lines[0], "q,1", *lines[2:]]) + "\n")
    code, _, err = run(capsys, "evaluate", tmp_path / "rows.csv", tmp_path / "short")
    assert (code, "short:2: expected one finite number, the score of row 1" in err) == (2, True)


@pytest.mark.parametrize(
    ("source", "form", "said"),
    [
        ("anonymous.txt", "run", "expected the id of each document for a run"),
        ("rows.csv", "run", "without white space or NUL, got 'red, lamp'; take --format csv"),
        ("rows.csv", "json", "--format json: expected one of scores, csv, run"),
    ],
)
def test_what_cannot_be_written(room, tmp_path, capsys, source, form, said):
    folder, *_ = room
    code, out, err = run(
        capsys, "predict", folder / "m.npz", folder / source, "--format", form, "-o", tmp_path / "x"
    )
    assert (code, out) == (2, "")
    assert said in err
    assert not (tmp_path / "x").exists()
