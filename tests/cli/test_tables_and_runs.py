"""Tables, TREC files and pipes on the command line: the same numbers as LETOR text, in every command that reads it."""

import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import structsvm
from structsvm import load
from structsvm.cli import main
from structsvm.metrics import compare, evaluate
from structsvm.readers import make_ranking, open_store, read_qrels, read_queries, read_run, write_letor
from tests.cli.test_commands import standard_input
from tests.refusing import rejected

NAMES = ("bm25", "age", "links", "title")
NAMED = f"--features {','.join(NAMES)}"


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """Write the same rows as LETOR text, CSV (commas, tabs, gzip) and Parquet; rows of named queries are mixed."""
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
    frame = pd.DataFrame(
        {
            "docid": docid,
            "age": X[:, 1],
            "label": y,
            "bm25": X[:, 0],
            "qid": qid,
            "title": X[:, 3],
            "links": X[:, 2],
        }
    )
    frame.to_parquet(folder / "rows.parquet")
    for name, comma in (("rows.csv", ","), ("rows.csv.gz", ","), ("rows.tsv", "\t")):
        frame.to_csv(folder / name, sep=comma, index=False)
    return folder


@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv", "rows.csv.gz", "rows.parquet"])
def test_the_path_from_training_to_a_figure(room, name, cli):
    """Rows and scores equal those of LETOR text to the last bit, and the model stores the names of its features."""
    text, read = read_queries(room / "rows.txt"), read_queries(room / name, features=NAMES)
    for part in ("X", "y", "docid", "order"):
        np.testing.assert_array_equal(getattr(read, part), getattr(text, part))
    assert [q.replace(" ", "_") for q in read.query_ids.tolist()] == text.query_ids.tolist()
    assert read.feature_names == NAMES
    for source, scores, features in (("rows.txt", "text", ""), (name, "table", NAMED)):
        cli(f"train {room}/{source} -o {scores}.npz", features)
        cli(f"predict {scores}.npz {room}/{source} -o {scores}")
    # a table of another form and order of columns
    cli(f"predict table.npz {room}/rows.parquet -o again")
    assert Path("text").read_text() == Path("table").read_text() == Path("again").read_text()
    assert structsvm.load("table.npz").feature_names_in_.tolist() == list(NAMES)
    cli(f"convert {room}/{name} rows.store")
    assert open_store(Path("rows.store")).feature_names == ("age", "bm25", "title", "links")
    cli("convert --check rows.store")
    cli("predict table.npz rows.store -o stored")
    np.testing.assert_allclose(np.loadtxt("stored"), np.loadtxt("text"), rtol=1e-12)
    sources = (room / "rows.txt", room / name, "rows.store")
    figures = [cli.json("evaluate", source, "text")["metrics"] for source in sources]
    assert figures[0] == figures[1] == figures[2]


def test_other_commands_read_tables(room, cli):
    for source in ("rows.txt", "rows.csv"):
        cli(
            f"interleave simulate --data {room}/{source}",
            "-o log.jsonl --interleaver team_draft --impressions 50 --clicks perfect",
        )
    cli(
        f"bandit simulate --world {room}/rows.csv",
        "--samples 100 --horizon 200 --runs 2 --algorithms rucb --gap ndcg --jobs 1",
    )
    assert "estimating 6 pairs" in cli.err


# --- TREC files ---


@pytest.fixture
def trec(cli):
    """Write judgments, four runs, and rows with good and bad scores."""
    texts = {
        "qrels": "1 0 a 2\n1 0 b 0\n2 0 c 1\n2 0 d -1\n3 0 e 1\n",
        "run": "1 Q0 b 1 3.0 x\n1 Q0 a 2 2.0 x\n2 Q0 z 1 9 x\n2 Q0 c 2 1 x\n9 Q0 a 1 1 x\n",
        "other": "1 Q0 a 1 3.0 y\n2 Q0 c 1 2.0 y\n3 Q0 e 1 1 y\n",
        "shifted": "2 Q0 c 1 2.0 z\n3 Q0 e 1 1 z\n",
        "rows.txt": "1 qid:1 1:1\n0 qid:1 1:0\n",
        "good": "2\n1\n",
        "bad": "1\n2\n",
    }
    for name, text in texts.items():
        Path(name).write_text(text)


def test_several_runs_stand_in_one_table(trec, cli):
    """The command prints the table of ``evaluate`` in Python; its figures are those of each run alone."""
    measures, files = "--metric map --metric ndcg@10", ("run", "other")
    table = evaluate(read_qrels("qrels"), [read_run(path) for path in files], ["map", "ndcg@10"])
    out = cli("evaluate qrels run other", measures)
    assert out.startswith(f"{table!r}\n\n95% intervals of the means\n")
    low, high = table.results["x", "map"].interval()
    assert out.splitlines()[6].startswith(f"x    {low:.4f} to {high:.4f}  ")
    record = cli.json("evaluate qrels run other --per-query", measures)
    found = record["runs"]
    for name, path in zip("xy", files, strict=True):
        alone = cli.json(f"evaluate qrels {path} --per-query", measures)
        assert list(alone) == [
            "data",
            "scores",
            "convention",
            "relevance",
            "empty",
            "n_queries",
            "n_rows",
            "metrics",
            "intervals",
            "per_query",
        ]
        assert found[name].items() <= alone.items()
    assert list(found) == ["x", "y"]
    for test, measure in zip(record["tests"], ("map", "ndcg@10"), strict=True):
        expected = compare(table.results["y", measure], table.results["x", measure], test="t")
        assert (test["method"], test["baseline"], test["measure"]) == ("y", "x", measure)
        assert test["lower"] == expected.lower
        assert f"{test['difference']:+.4f}  {test['lower']:+.4f} to {test['upper']:+.4f}" in out
    for words, start in (
        ("rows.txt good bad", "run map good 1.0000 bad 0.5000"),
        ("qrels run other --relevance 2 --empty skip", "run map x 0.5000 y 1.0000"),
    ):
        assert cli("evaluate --metric map", words).split()[:6] == start.split()
    assert cli.err == "structsvm: map: 2 of 3 queries left out\n"
    assert "good:1: expected" in cli.refuses("evaluate qrels good")


def test_means_over_different_topics_have_their_number(trec, cli):
    command = "evaluate qrels run {} --metric map --common-topics"
    lines = [line.split()[::2] for line in cli(command.format("other")).splitlines()[:3]]
    assert lines == [["run", "topics"], ["x", "2"], ["y", "3"]]
    assert cli.err.endswith("structsvm: the means are over different topics; all files share 2 of them\n")
    # as many topics, but others
    cli(command.format("shifted"))
    assert "all files share 1 of them" in cli.err
    assert "topics" not in cli("evaluate qrels run other --metric map")


def test_the_gate_opens_where_a_difference_is_surely_above_the_margin(trec, cli):
    """The lower bound over the queries of both runs decides; with a single query there is no decision."""
    command = "evaluate qrels run other --metric map"
    [test] = cli.json(command)["tests"]
    assert test["lower"] < 0 < test["difference"]
    for margin, status in ((-test["lower"] + 1e-9, 0), (-test["lower"] - 1e-9, 3), (0, 3)):
        assert cli.code(command, f"--fail-if-worse {margin!r}") == status
        said = (
            f"y may be worse than x by more than {margin:g}"
            if margin
            else "y is not shown to be better than x"
        )
        assert (said in cli.err) == (status == 3)
    assert "expected several files" in cli.refuses("evaluate rows.txt good --fail-if-worse 0.1")


def test_the_gate_needs_an_interval(trec, cli):
    """Identical rankings, two queries of equal difference, and a single query are no evidence."""
    Path("again").write_text(Path("run").read_text())
    assert cli.code("evaluate qrels run again --metric map --fail-if-worse 0") == 3
    assert "no interval, as all differences are equal" in cli.err
    assert cli.code("evaluate qrels run again --metric map --fail-if-worse 0.01") == 0
    Path("two.qrels").write_text("1 0 a 1\n1 0 b 0\n2 0 a 1\n2 0 b 0\n")
    for name, first in (("worse", "b"), ("better", "a")):
        other = "ab".replace(first, "")
        lines = (f"{q} Q0 {d} {r} {-r} {name}" for q in (1, 2) for r, d in enumerate((first, other)))
        Path(name).write_text("\n".join(lines) + "\n")
    [test] = cli.json("evaluate two.qrels worse better --metric map")["tests"]
    assert (test["difference"], test["lower"], test["t_p_value"], test["p_value"]) == (0.5, None, 0.5, 0.5)
    for margin in (0, 0.1):
        assert cli.code(f"evaluate two.qrels worse better --metric map --fail-if-worse {margin}") == 3
        assert cli.code(f"evaluate rows.txt bad good --fail-if-worse {margin}") == 3


def test_features_numbered_from_0(cli):
    """Weights, scores and folds are the same as with features numbered from 1."""
    write_letor(make_ranking(12, 6, 3, random_state=0), "one.txt")
    text = re.sub(r" (\d+):", lambda match: f" {int(match[1]) - 1}:", Path("one.txt").read_text())
    Path("zero.txt").write_text(text)
    shown = []
    for name, option in (("one", ""), ("zero", "--zero-based")):
        cli(f"train {name}.txt -o {name}.npz --C 1", option)
        cli(f"convert {name}.txt {name}.store", option)
        cli(f"predict one.npz {name}.txt -o {name}", option)
        shown.append(
            (
                Path(name).read_text(),
                load(f"{name}.npz").coef_.tolist(),
                open_store(f"{name}.store").X[:].tolist(),
                cli.json(f"evaluate {name}.txt one", option)["metrics"],
                cli.json(f"search {name}.txt --C 1 --folds 2 --jobs 1 --baseline 1", option),
            )
        )
    assert shown[0] == shown[1]
    assert "; --zero-based is for files that count from 0" in cli.refuses("train zero.txt -o no.npz")
    Path("rows.csv").write_text("label,qid,a,b,c\n1,1,1,2,3\n")
    for refused in ("convert rows.csv a.store", "train one.store -o a.npz", "predict one.npz rows.csv -o a"):
        assert "--zero-based: requires LETOR text, got" in cli.refuses(refused, "--zero-based")


def test_whole_ids_written_as_floats_are_those_of_other_files(cli):
    """From training to evaluation, ``1.0`` in one file matches ``1`` in other files and in judgments."""
    rows = [(q, f"d{q}{d}", d, int(d > q)) for q in (1, 2, 3) for d in range(4)]
    frame = pd.DataFrame(rows, columns=["qid", "docid", "f", "label"])
    frame.to_csv("whole.csv", index=False)
    frame.astype({"qid": float}).to_csv("floats.csv", index=False)
    Path("qrels").write_text("".join(f"{q} 0 {d} {label}\n" for q, d, _, label in rows))
    for name, other in (("whole", "floats"), ("floats", "whole")):
        cli(f"train {name}.csv -o m.npz")
        cli(f"predict m.npz {name}.csv -o {name}-scores.csv")
        cli(f"predict m.npz {name}.csv -o {name}-scores.parquet")
        by_text = cli(f"evaluate {other}.csv {name}-scores.csv")
        assert cli(f"evaluate {other}.csv {name}-scores.parquet") == by_text
        cli(f"predict m.npz {name}.csv --format run -o run")
        cli("evaluate qrels run")
    assert Path("floats-scores.csv").read_text() == Path("whole-scores.csv").read_text()


# --- names of measures ---


@pytest.mark.parametrize(
    ("other", "ours"),
    [
        ("nDCG@10", "ndcg@10"),
        ("ndcg_cut_10", "ndcg@10"),
        ("ndcg_cut.10", "ndcg@10"),
        ("P@5", "precision@5"),
        ("P_5", "precision@5"),
        ("P.5", "precision@5"),
        ("AP", "map"),
        ("AP@3", "map@3"),
        ("map_cut_3", "map@3"),
        ("RR", "mrr"),
        ("RR@10", "mrr@10"),
        ("recip_rank", "mrr"),
        ("R@2", "recall@2"),
        ("recall_2", "recall@2"),
        ("ERR@20", "err@20"),
        ("MAP", "map"),
        ("MRR", "mrr"),
    ],
)
def test_names_of_other_tools(other, ours):
    rng = np.random.default_rng(4)
    y, s, qid = rng.integers(0, 3, 60), rng.normal(size=60), np.arange(60) // 12
    found, known = evaluate(other, y, s, qid=qid), evaluate(ours, y, s, qid=qid)
    assert found.name == other
    np.testing.assert_array_equal(found.per_query, known.per_query)


@pytest.mark.parametrize("name", ["P", "ndcg_cut", "AP(rel=2)", "P_0", "ndcg_10", "recip_rank_5", "P@x"])
def test_invalid_names_of_measures_are_refused(name):
    rejected(r"expected|requires a cutoff", evaluate, name, [1, 0], [1.0, 0.0], qid=0)


# --- pipes, help, completion ---


def test_scores_go_to_standard_output(room, cli):
    cli(f"train {room}/rows.txt -o m.npz")
    cli(f"predict m.npz {room}/rows.txt -o s")
    expected = Path("s").read_text()
    assert cli(f"predict m.npz {room}/rows.txt -o -") == expected
    packed = gzip.compress((room / "rows.txt").read_bytes())
    with standard_input(packed):
        assert cli("predict m.npz - -o -") == expected
    with standard_input(packed[:-20]):  # wrong input: nothing is printed
        cli.refuses("predict m.npz - -o -")


@pytest.mark.skipif(os.name != "posix", reason="pipes of a shell")
def test_a_reader_that_leaves_early_is_no_error(cli):
    """As in ``structsvm predict ... -o - | head``."""
    write_letor(make_ranking(20, 20, 3, random_state=0), "rows.txt")
    cli("train rows.txt -o m.npz")
    # compiled before, of which a process that is the first says so
    cli("predict m.npz rows.txt -o scores")
    reader, writer = os.pipe()
    os.close(reader)
    for arguments in ("predict m.npz rows.txt -o /dev/stdout", "--help"):
        left = subprocess.run(
            [sys.executable, "-m", "structsvm", *arguments.split()],
            stdout=writer,
            stderr=subprocess.PIPE,
            timeout=600,
        )
        assert (left.returncode, left.stderr) == (141, b"")
    os.close(writer)


def test_short_help_and_its_lists(cli):
    for command in ("train", "fuse", "diversify train", "bandit simulate", ""):
        short = cli(command, "-h")
        assert cli(command, "--help") == short
        assert not re.search(r"{[a-z_]+}", short)


@pytest.mark.parametrize(
    ("words", "offered"),
    [("structsvm ", "evaluate"), ("structsvm interleave ", "analyse"), ("structsvm train --sc", "--scale")],
)
def test_shell_completion(words, offered, capsys, monkeypatch):
    """Complete the words as the script that ``--show-completion bash`` prints does."""
    position = str(len(words.split(" ")) - 1)
    asked = {"_STRUCTSVM_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": position}
    for name, value in asked.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        main([])
    assert offered in capsys.readouterr().out.split()
