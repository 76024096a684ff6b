"""Reader of votes, and the commands on them."""

import json

import numpy as np
import pytest

from structsvm.common.checks import BadInput
from structsvm.online.arena import arena, read_votes
from tests.laws import LAW
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


def containers(columns, folder):
    """Return a table of votes in every form in which it may be given."""
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    frame = pandas.DataFrame(columns)
    frame.to_csv(folder / "v.csv", index=False)
    frame.to_csv(folder / "v.tsv", index=False, sep="\t")
    frame.to_parquet(folder / "v.parquet")
    frame.to_json(folder / "v.jsonl", orient="records", lines=True)
    paths = [folder / name for name in ("v.csv", "v.tsv", "v.parquet", "v.jsonl")]
    return [frame, frame.astype(str), polars.DataFrame(columns), columns, *paths]


def outcome(source):
    """Return the winner of each vote, its name or "tie", or "refused"."""
    try:
        votes = read_votes(source)
    except BadInput as error:
        return "refused" if "one meaning" in str(error) else "unknown"
    names = [name.removesuffix(".0") for name in votes.models]
    won = zip(votes.share, votes.first, votes.second, strict=True)
    return [names[i] if s == 1 else names[j] if s == 0 else "tie" if s == 0.5 else s for s, i, j in won]


@pytest.mark.parametrize("n_cases", [200, pytest.param(10_000, marks=LAW)])
def test_a_number_means_the_same_in_every_container(tmp_path, n_cases) -> None:
    """Models are numbered from ``low``; the twin lists the readings that fit all rows."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(n_cases)
    counts = {"read": 0, "refused": 0, "unknown": 0}
    for case in range(n_cases):
        low, n = int(rng.integers(3)), int(rng.integers(1, 5))
        pairs = [low + rng.choice(2 + rng.integers(2), 2, replace=False) for _ in range(n)]
        a, b = ([int(pair[side]) for pair in pairs] for side in (0, 1))
        form = rng.integers(4)
        choices = [[0, 1], [0, 0.5, 1], [1, 1.5, 2], None][form]
        winner = [int(rng.choice(pair)) if choices is None else float(rng.choice(choices)) for pair in pairs]
        if form == 0 and rng.random() < 0.5:
            winner = list(map(int, winner))
        columns = {"a": a, "b": b, "winner": winner}
        frame = pandas.DataFrame(columns)
        sources = containers(columns, tmp_path) if case % 10 == 0 else [frame, frame.astype(str), columns]
        results = [outcome(source) for source in sources]
        assert all(one == results[0] for one in results), (a, b, winner, results)
        as_names = [str(int(w)) if w in pair else None for w, pair in zip(winner, pairs, strict=True)]
        top = 2 if min(winner) >= 1 and max(winner) <= 2 else 1
        shares = [(2 - w if top == 2 else w) for w in winner]
        as_shares = [{1: str(i), 0: str(j), 0.5: "tie"}.get(s) for s, i, j in zip(shares, a, b, strict=True)]
        both = list(zip(as_names, as_shares, strict=True))
        if results[0] == "refused":
            assert any(None not in one and one[0] != one[1] for one in both), (a, b, winner)
        elif results[0] != "unknown":
            assert all(found in one for found, one in zip(results[0], both, strict=True)), (a, b, winner)
            assert results[0] in (as_names, as_shares) or None in as_names
            if None not in as_names and None not in as_shares:  # both readings fit all rows: they must agree
                assert as_names == as_shares, (a, b, winner)
        counts[results[0] if isinstance(results[0], str) else "read"] += 1
    assert min(counts["read"], counts["refused"]) > n_cases / 10, counts


def test_forms_of_winners(tmp_path, cli) -> None:
    pair = {"a": ["x"] * 5, "b": ["y"] * 5}
    words = ["bothbad", "tie (bothbad)", "equal", "Both_Bad", "model_a"]
    assert read_votes({**pair, "winner": words}).share.tolist() == [0.5, 0.5, 0.5, 0.5, 1.0]
    preference = {"generator_1": ["x"] * 4, "generator_2": ["y"] * 4, "preference": [1.0, 2.0, 1.5, None]}
    for source in containers(preference, tmp_path):
        votes = read_votes(source)
        assert votes.share.tolist() == [1.0, 0.0, 0.5]
        assert votes.dropped == {"vote without a winner": 1}
    one_hot = {
        "model_a": ["x"] * 4,
        "model_b": ["y"] * 4,
        "winner_model_a": [1, 0, 0, 0],
        "winner_model_b": [0, 1, 0, 0],
        "winner_tie": [0, 0, 1, 0],
    }
    frame, _, *sources = containers(one_hot, tmp_path)  # text of a frame is no number
    for source in (frame, *sources):
        votes = read_votes(source)
        assert votes.share.tolist() == [1.0, 0.0, 0.5]
        assert votes.dropped == {"vote without a winner": 1}
    refused(
        "row 2, column 'winner_tie': expected one winner",
        read_votes,
        {**one_hot, "winner_model_b": [0, 1, 1, 0]},
    )
    refused(
        "column 'winner_model_a': expected 0 or 1", read_votes, {**one_hot, "winner_model_a": [0, 2, 0, 0]}
    )
    assert read_votes(
        {"a": ["gpt-1", "gpt-1.0"], "b": ["gpt-1.0", "gpt-1"], "winner": ["gpt-1.0", "gpt-1.0"]}
    ).share.tolist() == [0.0, 1.0]
    for word in ("0_1", "70%", "A>>B", "none"):
        refused("expected 'a', 'b', 'tie'", read_votes, {"a": ["x"], "b": ["y"], "winner": [word]})


def test_votes_without_a_winner_are_left_out_and_counted(tmp_path, cli) -> None:
    path = tmp_path / "votes.csv"
    rows = [f"{a},{b},{winner},q{k}" for k in range(9) for a, b, winner in (("x", "y", "x"), ("y", "x", ""))]
    path.write_text("\n".join(["a,b,winner,question", *rows, "z,x,error,q1"]) + "\n")
    votes = read_votes(path)
    assert (len(votes), votes.models, votes.dropped) == (9, ["x", "y"], {"vote without a winner": 10})
    assert "note: left out: vote without a winner (10)" in cli(f"arena report {path} --order random")
    assert cli.json(f"arena report {path} --order random")["dropped"] == {"vote without a winner": 10}
    assert cli.code("arena next", path, "-n 1") == 0
    assert "left out: vote without a winner (10)" in cli.err
    path.write_text("a,b,winner\nx,y,\n")
    refused(
        r"expected at least one vote, got none; left out: vote without a winner \(1\)",
        arena,
        read_votes(path),
    )


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
    with pytest.raises(BadInput, match=r"expected some of a, b, winner, .*, question, judge, time, got 'c'"):
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
    assert json.loads(cli.out)["best"] == ["long"]
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
