"""Reader of votes, and the commands on them."""

import json

import numpy as np
import pytest

from structsvm.common.checks import BadInput
from structsvm.online.arena import arena, read_votes
from tests.refusing import refused


def test_votes_are_equal_from_every_file_type_and_frame(tmp_path) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns = {
        "a": ["x", "y", "z"],
        "b": ["y", "x", "x"],
        "winner": ["x", "tie", "b"],
        "question": ["q1", "q2", "q1"],
    }
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    files = {"v.csv": ",", "v.tsv": "\t"}
    for name, mark in files.items():
        lines = [mark.join(columns), *(mark.join(row.values()) for row in rows)]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    (tmp_path / "v.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    frame = pandas.DataFrame(columns)
    frame.to_parquet(tmp_path / "v.parquet")
    sources = [tmp_path / name for name in (*files, "v.jsonl", "v.parquet")]
    for source in (columns, frame, polars.DataFrame(columns), *sources):
        votes = read_votes(source)
        assert votes.models == ["x", "y", "z"]
        assert votes.share.tolist() == [1.0, 0.5, 0.0]
        assert votes.question.tolist() == [0, 1, 0]
        assert votes.questions == ("q1", "q2")


def test_shares_names_positions_and_aliases() -> None:
    votes = read_votes(
        {"model_a": ["x"] * 5, "model_b": ["y"] * 5, "winner": ["model_b", "tie (bothbad)", "y", "0.25", "1"]}
    )
    assert votes.share.tolist() == [0.0, 0.5, 0.0, 0.25, 1.0]
    assert read_votes(
        {"left": [7], "right": [8], "winner": [0.5]}, columns={"a": "left", "b": "right"}
    ).models == ["7", "8"]
    numbers = read_votes({"a": ["x", "y"], "b": ["y", "x"], "winner": np.array([1.0, 0.25])})
    assert numbers.share.tolist() == [1.0, 0.25]


def test_votes_are_sorted_by_time_and_missing_questions_stand_alone() -> None:
    votes = read_votes(
        {
            "a": ["x", "y", "x"],
            "b": ["y", "x", "y"],
            "winner": ["a", "a", "b"],
            "tstamp": [1.7e9 + 5, 1.7e9, 1.7e9 + 2],
            "question": [None, "q", None],
        }
    )
    assert votes.first.tolist() == [0, 1, 1]
    assert votes.models == ["y", "x"]
    assert len(set(votes.question.tolist())) == 3
    empty = read_votes({"a": ["x"], "b": ["y"], "winner": ["a"], "question": [None]})
    assert empty.question is None


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("votes.tsv", b'a\tb\twinner\nx\t"y"z\ta\n', r"expected a row of tabs \(.* expected after"),
        ("votes.jsonl", b'{"a": "x", "b": "\xc0", "winner": "x"}\n', "expected a JSON object, got"),
    ],
)
def test_damaged_files_are_refused_in_one_printable_line(tmp_path, name, content, message) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=message) as caught:
        read_votes(tmp_path / name)
    assert str(caught.value).isprintable()


def test_missing_columns_are_named(tmp_path) -> None:
    refused(
        "expected a column 'winner' for the winner, got 'a', 'b', 'w'",
        read_votes,
        {"a": ["x"], "b": ["y"], "w": ["a"]},
    )
    with pytest.raises(BadInput, match="column 'winner': expected texts or numbers, got list"):
        read_votes({"a": ["x"], "b": ["y"], "winner": [["a"]]})
    with pytest.raises(BadInput, match="expected a time, got none"):
        read_votes({"a": ["x"], "b": ["y"], "winner": ["a"], "time": [None]})
    with pytest.raises(BadInput, match="expected keys among a, b, winner, question, judge, time, got 'c'"):
        read_votes({"a": ["x"], "b": ["y"], "winner": ["a"]}, columns={"c": "a"})


def test_a_judges_scores_as_votes(shared_data) -> None:
    """Eight models, 1,014 tasks: the strongest by mean score leads, and Elo-like strengths follow the win rates."""
    scores = np.genfromtxt(
        shared_data("votes/wildbench_scores.csv.gz"), delimiter=",", names=True, dtype=None, encoding=None
    )
    models = [name for name in scores.dtype.names if name != "question"]
    table = np.array([[row[name] for name in models] for row in scores], dtype=float)
    rng = np.random.default_rng(0)
    rows: dict[str, list] = {"a": [], "b": [], "winner": [], "question": []}
    for task in rng.permutation(len(table))[:500]:
        i, j = rng.choice(len(models), 2, replace=False)
        if not np.isnan(table[task, [i, j]]).any():
            rows["a"].append(models[i])
            rows["b"].append(models[j])
            rows["winner"].append(float((np.sign(table[task, i] - table[task, j]) + 1) / 2))
            rows["question"].append(f"task {task}")
    found = arena(read_votes(rows), order="random")
    means = np.nanmean(table, axis=0)
    assert found.models[-1] == models[int(means.argmin())]
    assert (
        np.corrcoef(
            [row["strength"] for row in found.rows()],
            [means[models.index(row["model"])] for row in found.rows()],
        )[0, 1]
        > 0.9
    )


def test_commands_lead_from_no_votes_to_a_verdict(tmp_path, cli) -> None:
    votes, models, questions = tmp_path / "votes.csv", tmp_path / "models.txt", tmp_path / "questions.txt"
    votes.write_text("a,b,question,winner\n")
    models.write_text("short\nlong\nsteps\n")
    questions.write_text("".join(f"q{k}\n" for k in range(200)))
    strength = {"short": 0.0, "long": 2.5, "steps": 0.3}
    rng = np.random.default_rng(0)
    for _ in range(20):
        code = cli.code(
            "arena next", votes, "--models", models, "--questions", questions, "-n 20 --order random"
        )
        assert code == 0, cli.err
        lines = cli.out.splitlines()
        assert lines[0] == "a,b,question"
        with votes.open("a") as file:
            for line in lines[1:]:
                a, b, _ = line.split(",")
                won = rng.random() < 1 / (1 + np.exp(strength[b] - strength[a]))
                file.write(f"{line},{'a' if won else 'b'}\n")
        code = cli.code("arena report", votes, "--order random --fail-if-undecided")
        if code == 0:
            break
        assert code == 3
    assert "long is best: it beats each of the 2 others (error at most 5%, however often you look)" in cli.out
    page = tmp_path / "page.html"
    assert cli.code("arena report", votes, "--order random --json --report", page) == 0
    record = json.loads(cli.out)
    assert record["best"] == ["long"]
    assert "long is best" in page.read_text()
    pairs = cli(f"arena next {votes} -n 2 --alpha 1e-9").splitlines()
    assert pairs[0] == "a,b,question"
    assert all(line.endswith(",") for line in pairs[1:])
    own = votes.read_text().replace("a,b,question,winner", "left,right,question,better")
    (tmp_path / "own.csv").write_text(own.replace(",a\n", ",left\n").replace(",b\n", ",right\n"))
    renamed = cli.json(
        f"arena report {tmp_path / 'own.csv'} --columns a=left,b=right --columns winner=better"
    )
    assert renamed["best"] == cli.json("arena report", votes)["best"]
    assert cli.code("arena report", votes, "--columns a:left") == 2
    assert "--columns a:left: expected ROLE=NAME" in cli.err
