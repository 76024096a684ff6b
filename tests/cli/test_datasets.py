"""``structsvm datasets``: list, make, describe."""

import json
import subprocess
import sys

import pandas as pd
import pytest

from structsvm.cli import main


def test_make_then_describe(tmp_path, capsys):
    path = tmp_path / "made.txt"
    assert main(["datasets", "make", "ranking", str(path), "-O", "n_queries=7", "-O", "n_docs=4"]) == 0
    capsys.readouterr()
    assert main(["datasets", "describe", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["kind"] == "letor"
    assert found["counts"]["queries"] == 7
    assert found["counts"]["rows"] == 28
    assert main(["datasets", "describe", str(path)]) == 0
    assert "queries: 7" in capsys.readouterr().out


def test_list_names_what_make_takes(capsys):
    assert main(["datasets", "list", "--json"]) == 0
    names = [dataset["name"] for dataset in json.loads(capsys.readouterr().out)]
    assert main(["datasets", "list"]) == 0
    text = capsys.readouterr().out
    assert names
    assert all(name in text for name in names)


@pytest.mark.parametrize("pair", ["n_queries", "colour=red"])
def test_bad_options(pair, tmp_path, capsys):
    assert main(["datasets", "make", "ranking", str(tmp_path / "x"), "-O", pair]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "expected KEY=VALUE" in error
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "pair", ["n_queries=abc", "n_queries=2.5", "n_queries=true", "noise=loud", "noise=[1]"]
)
def test_options_that_are_no_numbers(pair, tmp_path, capsys):
    assert main(["datasets", "make", "ranking", str(tmp_path / "x"), "-O", pair]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"structsvm: error: --option: {pair.partition('=')[0]}=")
    assert ": expected a " in error
    assert " number such as " in error
    assert not list(tmp_path.iterdir())


def test_unknown_name_and_existing_output(tmp_path, capsys):
    assert main(["datasets", "make", "mslr", str(tmp_path / "x")]) == 2
    taken = tmp_path / "taken"
    taken.write_text("mine")
    assert main(["datasets", "make", "ranking", str(taken)]) == 2
    assert taken.read_text() == "mine"
    assert "Traceback" not in capsys.readouterr().err


def test_describe_takes_tables(tmp_path, capsys):
    frame = pd.DataFrame({"query": ["a", "a", "b"], "grade": [2, 0, 0], "bm25": [1.0, 2.0, 3.0]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        command = [
            "datasets",
            "describe",
            str(tmp_path / name),
            "--label",
            "grade",
            "--qid",
            "query",
            "--json",
        ]
        assert main(command) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["kind"] == "table"
        assert found["counts"] == {
            "queries": 2, "rows": 3, "features": 1, "shortest query": 1, "longest query": 2
        }  # fmt: skip
        assert found["labels"] == {"0": 2, "2": 1}
    assert main(["datasets", "describe", str(tmp_path / "t.csv")]) == 2
    assert "expected a column 'qid'" in capsys.readouterr().err


def test_describe_refuses_the_standard_input(capsys):
    assert main(["datasets", "describe", "-"]) == 2
    assert capsys.readouterr().err == (
        "structsvm: error: -: expected a file, got the standard input; write it to a file first\n"
    )


def test_a_table_on_the_standard_input_is_refused_with_the_remedy(tmp_path):
    command = [sys.executable, "-m", "structsvm", "train", "-", "--output", str(tmp_path / "m.npz")]
    done = subprocess.run(
        command, input="label,qid,a\n1,q,0.5\n", capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.endswith("a table has to be a file whose name ends in .csv, .tsv or .parquet\n")
    assert not list(tmp_path.iterdir())
