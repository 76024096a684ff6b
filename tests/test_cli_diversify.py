"""``structsvm diversify``: train, apply and compare on files, and what they refuse."""

import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from structsvm import CandidateSet, SVMDiv, load
from structsvm.baselines import MMR
from structsvm.cli import main
from structsvm.cli.diversity_page import coverage_matrix
from structsvm.metrics import weighted_subtopic_loss
from structsvm.readers import read_ambient, read_candidates, read_run, write_candidates
from structsvm.readers.candidate_sets import LabelledSets

DATA = Path(__file__).parents[2] / "shared" / "data"
ODD = '<script>alert("x")</script>'


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Labelled sets in a file: a document has the words of its subtopic and rare ones of its own."""
    rng = np.random.default_rng(0)
    found = LabelledSets([], [], [])
    for q in range(12):
        topics = rng.choice(4, size=10, p=[0.4, 0.3, 0.2, 0.1])
        texts = [
            " ".join(
                [f"topic{t}word{j}" for j in range(6) if rng.random() < 0.8]
                + [f"rare{d}x{j}" for j in range(d)]
            )
            for d, t in enumerate(topics)
        ]
        found.sets.append(CandidateSet(texts, ids=[f"d{q}-{d}" for d in range(10)], query=f"query {q}"))
        found.labels.append(np.eye(4)[topics])
        found.subtopics.append([f"subtopic {t}" for t in range(4)])
    path = tmp_path_factory.mktemp("diversify") / "sets.jsonl"
    write_candidates(found, path)
    return path


@pytest.fixture(scope="module")
def model(made):
    path = made.parent / "svmdiv.npz"
    assert (
        main(["diversify", "train", str(made), "-o", str(path), "-k", "3", "--C", "10", "--jobs", "1"]) == 0
    )
    return path


def test_train_is_the_estimator(made, model):
    found = read_candidates(made)
    own = SVMDiv(C=10, k=3).fit(found.sets, found.labels)
    np.testing.assert_allclose(load(model).coef_, own.coef_)


def test_train_chooses_C_and_takes_levels(made, tmp_path, capsys):
    path = tmp_path / "m.npz"
    options = ["-k", "3", "--C", "100", "--C", "0.001", "--folds", "3", "--feature", "centroid"]
    options += [
        "--level",
        "appears",
        "--level",
        "count:2",
        "--level",
        "share:.2",
        "--positive",
        "--jobs",
        "1",
    ]
    assert main(["diversify", "train", str(made), "-o", str(path), *options]) == 0
    text = capsys.readouterr().out
    chosen = load(path)
    losses = {
        float(line.split()[0][2:]): float(line.split()[2]) for line in text.splitlines() if "held-out" in line
    }
    assert set(losses) == {0.001, 100.0}
    assert losses[chosen.C] == min(losses.values())
    assert [str(level) for level in chosen.levels_] == ["appears", "count >= 2", "share >= 0.2"]
    assert chosen.document_coef_.shape == (1,)
    assert chosen.guarantee_ is not None


def test_apply_writes_choices_reasons_and_a_run(made, model, tmp_path, capsys):
    out, run = tmp_path / "out.jsonl", tmp_path / "out.run"
    assert main(["diversify", "apply", str(model), str(made), "-o", str(out), "--run", str(run)]) == 0
    found, chooser = read_candidates(made), load(model)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    read = read_run(run)
    for i, (one, rows) in enumerate(zip(found.sets, chooser.predict(found.sets), strict=True)):
        ids = [one.ids[d] for d in rows]
        assert [entry["id"] for entry in lines[i]["chosen"]] == ids
        assert lines[i]["query"] == one.query
        topic = read.topics.tolist().index(f"query_{i}")
        assert read.docid[read.offsets[topic] : read.offsets[topic + 1]].tolist() == ids
    assert all(len(e["words"]) <= 5 for line in lines for e in line["chosen"])
    assert any(word.startswith("topic") for e in lines[0]["chosen"] for word, *_ in e["words"])
    assert "36 documents" in capsys.readouterr().out


def test_the_standard_input_is_a_file_like_any_other(made, model, tmp_path):
    answers = [tmp_path / "file.jsonl", tmp_path / "stdin.jsonl"]
    assert main(["diversify", "apply", str(model), str(made), "-o", str(answers[0])]) == 0
    done = subprocess.run(
        [sys.executable, "-m", "structsvm", "diversify", "apply", str(model), "-", "-o", str(answers[1])],
        input=made.read_bytes(), capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert answers[1].read_bytes() == answers[0].read_bytes()


def test_apply_keeps_to_the_budget(made, model, tmp_path):
    out = tmp_path / "out.jsonl"
    assert main(["diversify", "apply", str(model), str(made), "-o", str(out), "--budget", "12"]) == 0
    found = read_candidates(made)
    for one, line in zip(found.sets, out.read_text().splitlines(), strict=True):
        chosen = json.loads(line)["chosen"]
        length = dict(zip(one.ids, (len(t.split()) for t in one.texts), strict=True))
        assert [e["cost"] for e in chosen] == [length[e["id"]] for e in chosen]
        assert 0 < sum(e["cost"] for e in chosen) <= 12
        assert all(len(e["words"]) <= 5 for e in chosen)
        assert any(e["words"] for e in chosen)


def test_compare_measures_every_method(made, model, tmp_path, capsys):
    page = tmp_path / "page.html"
    command = ["diversify", "compare", str(made), "-m", str(model), "-k", "3", "--report", str(page)]
    assert main([*command, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    by_name = {entry["method"]: entry for entry in answer["methods"]}
    assert set(by_name) == {
        "svmdiv", "random", "original", "bm25", "coverage", "essential", "mmr", "facility", "clairvoyant"
    }  # fmt: skip
    found = read_candidates(made)
    for name, chooser in (("svmdiv", load(model)), ("mmr", MMR(3))):
        expected = weighted_subtopic_loss(found.labels, chooser.predict(found.sets, 3)).mean()
        assert by_name[name]["weighted_loss"] == pytest.approx(expected)
    assert by_name["clairvoyant"]["losses"] == max(entry.get("losses", 0) for entry in answer["methods"])
    assert "p" not in by_name["svmdiv"]
    assert main(command) == 0
    assert "clairvoyant" in capsys.readouterr().out
    text = page.read_text()
    assert text.count("<figcaption>query ") == 12  # not in the box that scrolls
    assert "The words behind svmdiv" in text


class Cells(HTMLParser):
    """Rows of the table, with what a screen reader says of each cell."""

    def __init__(self):
        super().__init__()
        self.rows, self.tags = [], set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append([dict(attrs).get("aria-label"), ""])

    def handle_data(self, text):
        if self.rows and self.rows[-1]:
            self.rows[-1][-1][1] += text


def test_the_matrix_says_who_covers_what():
    one = CandidateSet(["a", "b", "c"], ids=["x", "y", ODD])
    labels = [[1, 0, 0], [1, 1, 0], [0, 1, 0]]
    names = ["first", ODD, "nobody's"]
    chosen = {"A": np.array([2, 1]), ODD: np.array([0])}
    html = coverage_matrix(ODD, one, np.array(labels, dtype=float), names, chosen)
    cells = Cells()
    cells.feed(html)
    assert "script" not in cells.tags
    head, *rows = cells.rows
    assert [text for _, text in head] == ["subtopic", "candidates", "A", ODD]
    assert [[text for _, text in row] for row in rows] == [
        ["first", "2", "2", "1"],
        [ODD, "2", "1 2", "–"],
        ["covered, by weight", "", "100%", "50%"],
    ]
    assert rows[0][2][0] == "A: covered by rank 2 (y)"
    assert rows[1][2][0] == f"A: covered by rank 1, 2 ({ODD}, y)"
    assert rows[1][3][0] == f"{ODD}: not covered"
    long = "n" * 80
    html = coverage_matrix("q", one, np.array(labels, dtype=float), [long, "b", "c"], chosen)
    cells = Cells()
    cells.feed(html)
    assert cells.rows[1][0][1] == "n" * 44 + "…"
    assert f'title="{long}"' in html  # nothing is lost


def test_sets_without_subtopics_are_left_out_of_measures(made, model, tmp_path, capsys):
    path = tmp_path / "sets.jsonl"
    path.write_text(made.read_text() + json.dumps({"documents": [{"text": "red"}, {"text": "blue"}]}) + "\n")
    assert main(["diversify", "compare", str(path), "-m", str(model), "--method", "original"]) == 0
    assert "12 queries (1 without subtopics left out)" in capsys.readouterr().out
    run = tmp_path / "run"
    assert main(["diversify", "apply", str(model), str(path), "--run", str(run)]) == 0
    assert "13" in read_run(run).topics.tolist()  # without a query: the number of the set


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "{data}", "-o", "{out}", "--level", "big"], "--level big: expected appears, title"),
        (["train", "{data}", "-o", "{out}", "--level", "count:x"], "--level count:x"),
        (["train", "{data}", "-o", "{out}", "--level", "count"], "--level count"),
        (["train", "{data}", "-o", "{out}", "--level", "share:7"], "expected a share"),
        (["train", "{data}", "-o", "{out}", "--level", "title"], "expected a candidate set with titles"),
        (["train", "{data}", "-o", "{out}", "--C", "-1"], "expected a finite number > 0"),
        (["train", "{data}", "-o", "{out}", "--C", "1", "--C", "2", "--folds", "90"], "--folds 90"),
        (["train", "{data}", "-o", "{out}", "--loss", "hinge"], "expected one of 'weighted', 'unweighted'"),
        (["train", "{data}", "-o", "{out}", "-k", "90"], "no candidate set carries a constraint"),
        (["train", "{data}", "-o", "{data}"], "another file than the input"),
        (["train", "{none}", "-o", "{out}"], "got nothing there"),
        (["train", "{bad}", "-o", "{out}"], "bad.jsonl:2: expected JSON"),
        (["train", "{empty}", "-o", "{out}"], "got an empty file"),
        (["apply", "{model}", "{data}"], "expected --output, --run or both"),
        (["apply", "{model}", "{data}", "-o", "{out}", "--run", "{out}"], "expected two files"),
        (["apply", "{model}", "{data}", "-o", "{out}", "-k", "0"], "expected a whole number >= 1"),
        (["apply", "{model}", "{data}", "-o", "{out}", "--budget", "-3"], "budget"),
        (["apply", "{model}", "{data}", "--run", "{out}", "--budget", "0"], "below every document"),
        (["apply", "{model}", "{twice}", "--run", "{out}"], "got 'aida' twice"),
        (["apply", "{data}", "{data}", "-o", "{out}"], "expected a structsvm model"),
        (["compare", "{data}", "--method", "magic"], "--method magic: expected one of random"),
        (["compare", "{twice}", "--method", "mmr"], "expected documents with subtopics"),
        (["compare", "{data}", "-m", "{model}", "-m", "{model}"], "got one twice"),
        (["compare", "{data}", "-m", "{mmr}"], "not named as a method, got 'mmr'"),
        (["compare", "{data}", "-m", "{model}", "--queries", "-1"], "greater than or equal to 0"),
        (["apply", "{model}", "{data}", "-o", "{out}", "--words", "-1"], "greater than or equal to 0"),
        (["compare", "{data}", "-m", "{model}", "--report", "{model}"], "another file than the input"),
    ],
)  # fmt: skip
def test_bad_input(arguments, message, made, model, tmp_path, capsys):
    names = {"data": made, "model": model, "out": tmp_path / "out"}
    for name, text in (
        ("bad", made.read_text().splitlines()[0] + "\n{nonsense\n"),
        ("empty", ""),
        ("twice", '{"query": "aida", "documents": [{"text": "a"}]}\n' * 2),
    ):
        names[name] = tmp_path / f"{name}.jsonl"
        names[name].write_text(text)
    names["none"] = tmp_path / "none"
    names["mmr"] = tmp_path / "mmr.npz"
    names["mmr"].write_bytes(model.read_bytes())
    before = made.read_bytes(), model.read_bytes()
    capsys.readouterr()
    assert main(["diversify", *(a.format(**names) for a in arguments)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error
    assert not names["out"].exists()
    assert (made.read_bytes(), model.read_bytes()) == before


def test_ambient_end_to_end(tmp_path, capsys):
    if not (DATA / "ambient").is_dir():
        pytest.skip("AMBIENT is not there")
    found = read_ambient(DATA / "ambient", relevant_only=True)
    path, model = tmp_path / "ambient.jsonl", tmp_path / "m.npz"
    write_candidates(LabelledSets(*(column[:8] for column in found)), path)
    assert main(["diversify", "train", str(path), "-o", str(model), "--jobs", "1"]) == 0
    page = tmp_path / "page.html"
    assert (
        main(["diversify", "compare", str(path), "-m", str(model), "--report", str(page), "--queries", "2"])
        == 0
    )
    assert page.read_text().count("The words behind m<") == 2
    assert "clairvoyant" in capsys.readouterr().out
