"""``structsvm diversify``: train, apply and compare on files, and what they refuse."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from structsvm import CandidateSet, DiverseRanker, SVMDiv, load
from structsvm.cli import main
from structsvm.cli.studies.diversity import METHODS
from structsvm.estimators import cross_validate_C
from structsvm.estimators.baselines import MMR, TopScores
from structsvm.features import Level, soft_subtopics
from structsvm.metrics import subtopic_recall, weighted_subtopic_loss
from structsvm.readers import LabelledSets, read_ambient, read_candidates, read_run, write_candidates
from tests.cli.test_commands import standard_input


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Write labelled sets to a file; a document has the words of its subtopic and unique rare words."""
    rng = np.random.default_rng(0)
    found = LabelledSets([], [], [])
    for q in range(12):
        topics = rng.choice(4, size=10, p=[0.4, 0.3, 0.2, 0.1])
        texts = []
        for d, t in enumerate(topics):
            own = [f"topic{t}word{j}" for j in range(6) if rng.random() < 0.8]
            texts.append(" ".join(own + [f"rare{d}x{j}" for j in range(d)]))
        found.sets.append(CandidateSet(texts, ids=[f"d{q}-{d}" for d in range(10)], query=f"query {q}"))
        found.labels.append(np.eye(4)[topics])
        found.subtopics.append([f"subtopic {t}" for t in range(4)])
    path = tmp_path_factory.mktemp("diversify") / "sets.jsonl"
    write_candidates(found, path)
    return path


@pytest.fixture(scope="module")
def model(made):
    path = made.parent / "svmdiv.npz"
    assert main(f"diversify train {made} -o {path} --method svmdiv -k 3 --C 10 --jobs 1".split()) == 0
    return path


def test_train_is_the_estimator_chooses_C_and_takes_levels(made, model, cli):
    found = read_candidates(made)
    own = SVMDiv(C=10, k=3).fit(found.sets, found.labels)
    np.testing.assert_allclose(load(model).coef_, own.coef_)
    levels = "--level appears --level count:2 --level share:.2 --feature centroid --positive"
    text = cli(
        "diversify train", made, "-o m.npz --method svmdiv -k 3 --C 0.001,100 --folds 3 --jobs 1", levels
    )
    chosen = load("m.npz")
    lines = [line.split() for line in text.splitlines() if "held-out" in line]
    losses = {float(line[0][2:]): float(line[2]) for line in lines}
    assert set(losses) == {0.001, 100.0}
    assert losses[chosen.C] == min(losses.values())
    assert [str(level) for level in chosen.levels_] == ["appears", "count >= 2", "share >= 0.2"]
    assert chosen.document_coef_.shape == (1,)
    assert chosen.guarantee_ is not None
    found = read_candidates(made)
    titled = [CandidateSet(one.texts, titles=one.texts, ids=one.ids) for one in found.sets]
    write_candidates(found._replace(sets=titled), Path("titled.jsonl"))
    cli("diversify train titled.jsonl -o m.npz -k 3 --jobs 1 --method svmdiv --level svm-div")
    assert load("m.npz").levels == "svm-div"


def test_marks_of_passages_with_embeddings(cli):
    """Training, choice within a budget and comparison are those of the estimator."""
    rng = np.random.default_rng(0)
    with Path("past.jsonl").open("w") as past, Path("new.jsonl").open("w") as new:
        for q in range(16):
            center, fact = rng.normal(size=(6, 8)), rng.integers(0, 6, size=12)
            documents = []
            for d in range(12):
                useful = fact[d] < 3
                documents.append(
                    {
                        "id": f"p{d}",
                        "text": "word " * int(rng.integers(3, 9)),
                        "embedding": (center[fact[d]] + 0.3 * rng.normal(size=8)).tolist(),
                        "features": [float(useful + 0.4 * rng.normal())],
                    }
                )
                documents[-1]["subtopics"] = [f"fact {fact[d]}" if q > 7 else "useful"] if useful else []
            (past if q < 8 else new).write(
                json.dumps({"query": f"question {q}", "documents": documents}) + "\n"
            )
    found, test = read_candidates(Path("past.jsonl")), read_candidates(Path("new.jsonl"))
    vectors = np.array(
        [d["embedding"] for d in json.loads(Path("past.jsonl").read_text().splitlines()[0])["documents"]]
    )
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(found.sets[0].similarity, vectors @ vectors.T, atol=1e-12)
    assert found.sets[0].documents.texts[0].startswith("word")
    assert "DiverseRanker, C=1" in cli("diversify train past.jsonl -o m.npz -k 3 --marks judged")
    marks = [labels.any(axis=1) for labels in found.labels]
    own = DiverseRanker(3).fit(found.sets, soft_subtopics(found.sets, marks))
    np.testing.assert_array_equal(load("m.npz").coef_, own.coef_)
    cli("diversify train past.jsonl -o c.npz -k 3 --marks clicks")
    clicked = DiverseRanker(3, rounds=0).fit(found.sets, soft_subtopics(found.sets, marks, complete=False))
    np.testing.assert_array_equal(load("c.npz").coef_, clicked.coef_)
    cli("diversify apply m.npz new.jsonl -o out.jsonl --budget 14")
    lengths = [[len(text.split()) for text in one.documents.texts] for one in test.sets]
    for line, one, rows in zip(
        Path("out.jsonl").read_text().splitlines(),
        test.sets,
        own.predict(test.sets, costs=lengths, budget=14),
        strict=True,
    ):
        chosen = json.loads(line)["chosen"]
        assert [entry["id"] for entry in chosen] == [one.ids[d] for d in rows]
        assert all(entry["gain"] == pytest.approx(sum(entry["parts"].values())) for entry in chosen)
    answer = cli("diversify compare new.jsonl -m m.npz --method mmr --tune past.jsonl")
    assert "past.jsonl: no set has more than one subtopic, which is treated as a mark" in cli.err
    tuned = MMR(3).fit(found.sets, soft_subtopics(found.sets, marks))
    assert "3 documents per query; wins and p: subtopic recall of m against the others" in answer
    rows = {line.split("  ")[0]: line.split() for line in answer.splitlines()}
    expected = subtopic_recall(test.labels, tuned.predict(test.sets)).mean()
    assert rows["tuned mmr"][2] == f"{expected:.3f}"
    within = cli.json("diversify compare new.jsonl -m m.npz --method score --tune past.jsonl --budget 14")
    past = [[len(text.split()) for text in one.documents.texts] for one in found.sets]
    tuned.fit(found.sets, soft_subtopics(found.sets, marks), costs=past, budget=14)
    expected = [
        subtopic_recall(test.labels, one.predict(test.sets, costs=lengths, budget=14)).mean()
        for one in (own, tuned, TopScores())
    ]
    assert [entry["means"]["unweighted"] for entry in within["methods"]] == pytest.approx(expected)
    by_marks = cli.json("diversify compare past.jsonl -m m.npz --method mmr --marks judged")
    assert by_marks["methods"][0]["means"]["unweighted"] == pytest.approx(
        own.score(found.sets, soft_subtopics(found.sets, marks))
    )


def test_the_rule_that_chooses_C(made, cli):
    found, rng = read_candidates(made), np.random.default_rng(1)
    # half of the labels are noise, so that the values of C differ by little
    noisy = [np.where(rng.random((10, 1)) < 0.5, rng.permutation(one), one) for one in found.labels]
    write_candidates(found._replace(labels=noisy), Path("noisy.jsonl"))
    found = read_candidates(Path("noisy.jsonl"))
    Cs, chosen = [0.001, 0.1, 1.0, 10.0, 100.0], {}
    words = SVMDiv(k=3, levels=[Level.appears()])
    options = f"--method svmdiv -k 3 --folds 3 --jobs 1 --level appears --C {','.join(map(str, Cs))}"
    for rule in ("max", "one_se"):
        cli(f"diversify train noisy.jsonl -o m.npz {options} --selection {rule}")
        chosen[rule] = load("m.npz").C
        own = cross_validate_C(words, found.sets, found.labels, Cs, folds=3, selection=rule)
        assert chosen[rule] == own.C
    assert chosen["one_se"] < chosen["max"]


def test_apply_writes_choices_reasons_and_a_run(made, model, cli):
    assert "36 documents" in cli("diversify apply", model, made, "-o out.jsonl --run out.run")
    found, chooser = read_candidates(made), load(model)
    lines = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    read = read_run(Path("out.run"))
    for i, (one, rows) in enumerate(zip(found.sets, chooser.predict(found.sets), strict=True)):
        ids = [one.ids[d] for d in rows]
        assert [entry["id"] for entry in lines[i]["chosen"]] == ids
        assert lines[i]["query"] == one.query
        topic = read.topics.tolist().index(f"query_{i}")
        assert read.docid[read.offsets[topic] : read.offsets[topic + 1]].tolist() == ids
    assert all(len(e["words"]) <= 5 for line in lines for e in line["chosen"])
    assert any(word.startswith("near ") for e in lines[0]["chosen"] for word, *_ in e["words"])


def test_the_standard_input_is_a_file_like_any_other(made, model, cli):
    cli("diversify apply", model, made, "-o file.jsonl")
    with standard_input(made.read_bytes()):
        cli("diversify apply", model, "- -o stdin.jsonl")
    assert Path("stdin.jsonl").read_bytes() == Path("file.jsonl").read_bytes()


def test_apply_keeps_to_the_budget(made, model, cli):
    cli("diversify apply", model, made, "-o out.jsonl --budget 12")
    found = read_candidates(made)
    for one, line in zip(found.sets, Path("out.jsonl").read_text().splitlines(), strict=True):
        chosen = json.loads(line)["chosen"]
        length = dict(zip(one.ids, (len(t.split()) for t in one.texts), strict=True))
        assert [e["cost"] for e in chosen] == [length[e["id"]] for e in chosen]
        assert 0 < sum(e["cost"] for e in chosen) <= 12
        assert all(len(e["words"]) <= 5 for e in chosen)
        assert any(e["words"] for e in chosen)


def test_costs_are_those_that_the_documents_state(made, model, cli):
    found = read_candidates(made)
    lines = [json.loads(line) for line in made.read_text().splitlines()]
    for line in lines:
        for number, document in enumerate(line["documents"]):
            document["cost"] = 2.5 + number
    Path("costs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    cli("diversify apply", model, "costs.jsonl -o out.jsonl --budget 12")
    costs = [np.arange(10) + 2.5] * 12
    for line, rows in zip(
        Path("out.jsonl").read_text().splitlines(),
        load(model).predict(found.sets, costs=costs, budget=12),
        strict=True,
    ):
        assert [(e["id"][-1], e["cost"]) for e in json.loads(line)["chosen"]] == [
            (str(d), d + 2.5) for d in rows
        ]
    assert "at most 2 documents with a total cost of at most 12 per query" in cli(
        "diversify compare costs.jsonl --method original --budget 12 -k 2"
    )
    Path("some.jsonl").write_text(Path("costs.jsonl").read_text() + made.read_text().splitlines()[0] + "\n")
    refused = cli.refuses("diversify apply", model, "some.jsonl -o no.jsonl --budget 12")
    assert "--budget: expected costs in all sets or in none, got 12 with costs" in refused


def test_compare_measures_every_method(made, model, cli):
    command = f"diversify compare {made} -m {model} -k 3"
    answer = cli.json(command)
    by_name = {entry["method"]: entry for entry in answer["methods"]}
    assert set(by_name) == {
        "svmdiv",
        "random",
        "original",
        "bm25",
        "coverage",
        "essential",
        "mmr",
        "facility",
        "clairvoyant",
    }
    found = read_candidates(made)
    for name, chooser in (("svmdiv", load(model)), ("mmr", MMR(3))):
        expected = 1 - weighted_subtopic_loss(found.labels, chooser.predict(found.sets, 3)).mean()
        assert by_name[name]["means"]["weighted"] == pytest.approx(expected)
    assert by_name["clairvoyant"]["losses"] == max(entry.get("losses", 0) for entry in answer["methods"])
    assert "p" not in by_name["svmdiv"]
    line = next(line for line in cli(command).splitlines() if line.startswith("clairvoyant"))
    entry = by_name["clairvoyant"]
    assert line.split()[1:4] == [
        f"{entry['means'][name]:.3f}" for name in ("unweighted", "weighted", "alpha_ndcg")
    ]
    assert line.split()[4:7] == [str(entry["wins"]), ":", str(entry["losses"])]
    # the best method is one that does not look at the subtopics
    assert "random has the best mean alpha-NDCG" in cli(
        "diversify compare", made, "-k 3 --loss alpha_ndcg --method random,clairvoyant"
    )
    assert "random has the best mean subtopic recall" in cli(
        "diversify compare", made, "-k 3 --method xquad,random,clairvoyant"
    )


def test_compare_chooses_as_many_as_the_model_was_trained_for_and_names_all_methods(made, model, cli):
    text = " ".join(re.sub(r"[│|]", " ", cli("diversify compare --help")).split())
    assert f"{', '.join(METHODS)}; separate several" in text
    for options, k in ((f"-m {model}", 3), (f"-m {model} -k 4", 4), ("--method mmr", 5)):
        assert cli.json("diversify compare", made, options)["k"] == k


def test_sets_without_subtopics_are_left_out_of_measures(made, model, cli):
    more = json.dumps({"documents": [{"text": "red"}, {"text": "blue"}]})
    Path("sets.jsonl").write_text(f"{made.read_text()}{more}\n")
    out = cli(f"diversify compare sets.jsonl -m {model} --method original")
    assert "12 queries (1 without subtopics left out)" in out
    cli(f"diversify apply {model} sets.jsonl --run run")
    assert "13" in read_run(Path("run")).topics.tolist()  # without a query: the number of the set


def test_ambient_end_to_end(cli, shared_data):
    found = read_ambient(shared_data("ambient"), relevant_only=True)
    write_candidates(LabelledSets(*(column[:8] for column in found)), Path("ambient.jsonl"))
    cli("diversify train ambient.jsonl -o m.npz --method svmdiv --jobs 1")
    assert "clairvoyant" in cli("diversify compare ambient.jsonl -m m.npz")
