"""``structsvm diversify``: train, apply and compare on files, and what they refuse."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

from structsvm import CandidateSet, SVMDiv, load
from structsvm.baselines import MMR
from structsvm.cli import main
from structsvm.estimators import cross_validate_C
from structsvm.features import Level
from structsvm.metrics import weighted_subtopic_loss
from structsvm.readers import read_ambient, read_candidates, read_run, write_candidates
from structsvm.readers.candidate_sets import LabelledSets
from structsvm.studies.diversity import METHODS


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
    options = ["-k", "3", "--C", "0.001,100", "--folds", "3", "--feature", "centroid"]
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


def test_the_rule_that_chooses_C(made, tmp_path, capsys):
    found, rng = read_candidates(made), np.random.default_rng(1)
    # half of the labels are noise, so that the values of C differ by little
    noisy = [np.where(rng.random((10, 1)) < 0.5, rng.permutation(one), one) for one in found.labels]
    found = found._replace(labels=noisy)
    data = tmp_path / "noisy.jsonl"
    write_candidates(found, data)
    found = read_candidates(data)
    Cs, chosen = [0.001, 0.1, 1.0, 10.0, 100.0], {}
    words = SVMDiv(k=3, levels=[Level.appears()])
    for selection in ("max", "one_se"):
        path = tmp_path / f"{selection}.npz"
        options = ["-k", "3", "--folds", "3", "--jobs", "1", "--selection", selection, "--level", "appears"]
        options += ["--C", ",".join(str(C) for C in Cs)]
        assert main(["diversify", "train", str(data), "-o", str(path), *options]) == 0
        chosen[selection] = load(path).C
        own = cross_validate_C(words, found.sets, found.labels, Cs, folds=3, selection=selection)
        assert chosen[selection] == own.C
    assert chosen["one_se"] < chosen["max"]


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
    assert any(word.startswith("near ") for e in lines[0]["chosen"] for word, *_ in e["words"])
    assert "36 documents" in capsys.readouterr().out


@pytest.mark.slow
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


def test_the_help_names_every_method(capsys):
    assert main(["diversify", "compare", "--help"]) == 0
    text = " ".join(re.sub(r"[│|]", " ", capsys.readouterr().out).split())
    assert f"{', '.join(METHODS)}; several" in text


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
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("clairvoyant"))
    entry = by_name["clairvoyant"]
    assert line.split()[1:7] == [
        f"{entry['weighted_loss']:.3f}", f"{entry['subtopic_recall']:.3f}", f"{entry['alpha_ndcg']:.3f}",
        str(entry["wins"]), ":", str(entry["losses"]),
    ]  # fmt: skip
    text = page.read_text()
    # not in the box that scrolls
    assert len(re.findall(r"<figcaption>\d+ subtopics of \d+ candidates; cells have the ranks", text)) == 12
    assert len(re.findall('aria-label="query [^"]*: [0-9]+ subtopics of', text)) == 12
    assert "The words behind svmdiv" in text


def test_compare_chooses_as_many_as_the_model_was_trained_for(made, model, capsys):
    for options, k in ([["-m", str(model)], 3], [["-m", str(model), "-k", "4"], 4], [["--method", "mmr"], 5]):
        assert main(["diversify", "compare", str(made), *options, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["k"] == k


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
        (["train", "{data}", "-o", "{out}", "--C", "-1"], "--C: expected low:high:number or a,b,c with numbers > 0"),
        (["train", "{data}", "-o", "{out}", "--C", "1,2", "--folds", "90"], "--folds 90"),
        (["train", "{data}", "-o", "{out}", "--loss", "hinge"], "expected one of 'weighted', 'unweighted'"),
        (["train", "{data}", "-o", "{out}", "-k", "90"], "no candidate set carries a constraint"),
        (["train", "{data}", "-o", "{data}"], "another file than the input"),
        (["train", "{none}", "-o", "{out}"], "got nothing there"),
        (["train", "{bad}", "-o", "{out}"], "bad.jsonl:2: expected JSON"),
        (["train", "{empty}", "-o", "{out}"], "got an empty file"),
        (["apply", "{model}", "{vectors}", "-o", "{out}"], "taken in Python, by CandidateSet.from_similarity"),
        (["apply", "{embedded}", "{data}", "-o", "{out}"], "expected sets of given similarities, as in training, got"),
        (["apply", "{model}", "{data}"], "expected --output, --run or both"),
        (["apply", "{model}", "{data}", "-o", "{out}", "--run", "{out}"], "expected two files"),
        (["apply", "{model}", "{data}", "-o", "{out}", "-k", "0"], "expected a whole number >= 1"),
        (["apply", "{model}", "{data}", "-o", "{out}", "--budget", "-3"], "budget"),
        (["apply", "{model}", "{data}", "--run", "{out}", "--budget", "0"], "below every document"),
        (["apply", "{model}", "{twice}", "--run", "{out}"], "got 'aida' twice"),
        (["apply", "{data}", "{data}", "-o", "{out}"], "expected a structsvm model"),
        (["compare", "{data}", "--method", "magic"], "--method magic: expected one of 'random'"),
        (["compare", "{twice}", "--method", "mmr"], "expected documents with subtopics"),
        (["compare", "{data}", "-m", "{model}", "-m", "{model}"], "got one twice"),
        (["compare", "{data}", "-m", "{mmr}"], "--model mmr: expected a name that no fixed method has"),
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
        ("vectors", '{"documents": [{"id": "d", "embedding": [1, 0]}]}\n'),
        ("twice", '{"query": "aida", "documents": [{"text": "a"}]}\n' * 2),
    ):
        names[name] = tmp_path / f"{name}.jsonl"
        names[name].write_text(text)
    names["none"] = tmp_path / "none"
    names["mmr"] = tmp_path / "mmr.npz"
    names["mmr"].write_bytes(model.read_bytes())
    given = [CandidateSet.from_similarity([[1, 0.9, 0], [0.9, 1, 0], [0, 0, 1]])] * 2
    names["embedded"] = tmp_path / "embedded.npz"
    SVMDiv(k=2).fit(given, [[[1, 0], [1, 0], [0, 1]]] * 2).save(names["embedded"])
    before = made.read_bytes(), model.read_bytes()
    capsys.readouterr()
    assert main(["diversify", *(a.format(**names) for a in arguments)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error
    assert not names["out"].exists()
    assert (made.read_bytes(), model.read_bytes()) == before


def test_ambient_end_to_end(tmp_path, capsys, shared_data):
    found = read_ambient(shared_data("ambient"), relevant_only=True)
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


def test_the_best_method_is_one_that_does_not_look_at_the_subtopics(made, tmp_path, capsys):
    command = ["diversify", "compare", str(made), "-k", "3", "--report", str(tmp_path / "page.html")]
    chosen = ["xquad", "random", "clairvoyant"]
    assert main(command + [w for m in chosen for w in ("--method", m)]) == 0
    assert "random misses least" in (tmp_path / "page.html").read_text()
    capsys.readouterr()
