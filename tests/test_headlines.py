"""Headlines of studies: they name equal methods, respect tests, and mention training data."""

from pathlib import Path

import numpy as np
import pytest

from structsvm import CandidateSet, SVMDiv, load
from structsvm.cli.studies import demo
from structsvm.cli.studies.diversity import compare_methods
from structsvm.cli.studies.folds import Measures, MethodResult, Results
from structsvm.cli.studies.folds.page import headline as of_methods
from structsvm.metrics import compare
from structsvm.metrics.significance import leaders
from structsvm.readers import LabelledSets, make_ranking, write_candidates, write_letor

RNG = np.random.default_rng(0)
LOW = RNG.uniform(0.2, 0.6, 30)
NOISE = np.where(np.arange(30) % 2, 0.05, -0.05) * RNG.uniform(0.5, 1.5, 30)
VALUES = {"low": LOW, "near": LOW + 0.2 + NOISE, "top": LOW + 0.205, "twin": LOW + 0.205}


def test_leaders_by_hand():
    found = leaders(VALUES)
    assert found.first == ("top", "twin")
    assert list(found.level) == ["near"]
    near, low = (compare(VALUES["top"], VALUES[name]).p_value for name in ("near", "low"))
    assert found.p_values == {"near": max(near, 2 * low), "low": 2 * low}  # by Holm, low being the smaller
    assert found.level["near"] >= 0.05 > found.p_values["low"]
    assert leaders({"only": LOW}) == (("only",), {})
    assert leaders({"a": LOW, "b": LOW[::-1]}).first == ("a", "b")  # sums in another order


def results(values, baseline):
    cells = {
        name: {
            "C": 1.0,
            "gap": 1e-4,
            "seconds": 0.1,
            "converged": True,
            "test": {
                "values": {"map": v.tolist()},
                "query_ids": [str(i) for i in range(len(v))],
                "constant": [],
            },
        }
        for name, v in values.items()
    }
    found = tuple(MethodResult(name, (cell,)) for name, cell in cells.items())
    return Results(found, Measures(report=("map",)), ("Fold1",), (baseline,), 0, 1)


@pytest.mark.parametrize(
    ("chosen", "baseline", "said", "unsaid"),
    [
        (
            ["low", "near", "top", "twin"],
            "low",
            [
                "top and twin equally have the best mean map on 30 test queries",
                "significantly better than the baseline low (",
                "no significant difference from near (",
                "corrected for 4 comparisons by Holm's method",
            ],
            ["each of the others"],
        ),
        (
            ["near", "top"],
            "near",
            ["top has the best mean map", "no significant difference from near ("],
            ["significantly better", "corrected"],
        ),
        (["low", "top"], "low", ["significantly better than the baseline low ("], ["no significant"]),
        (["low", "top"], "top", ["significantly better than each of the others"], ["baseline"]),
        (["top", "twin"], "top", ["top and twin equally have the best"], ["significant", "Wilcoxon"]),
    ],
)
def test_compare(chosen, baseline, said, unsaid):
    text = of_methods(results({name: VALUES[name] for name in chosen}, baseline))
    assert [part for part in said if part not in text] == []
    assert [part for part in unsaid if part in text] == []


def test_search_names_equals(cli):
    write_letor(make_ranking(12, 6, 1, random_state=0), "rows.txt")  # any ranker of one feature is the same
    command = "search rows.txt --folds 2 --C 1 --jobs 1 --method svm-roc --method svm-map"
    record = cli.json(command)
    assert record["methods"][0]["means"] == record["methods"][1]["means"]
    assert record["equal"] == ["svm-map"]
    assert "Equal to the best: svm-map" in cli(command)


def system(name, values, model=True):
    return demo.System(name, values, values, object() if model else None)


@pytest.fixture(scope="module")
def sets():
    """Return four training sets and four new ones; first documents cover one subtopic, so that most are equal."""
    rng = np.random.default_rng(0)
    found = LabelledSets([], [], [])
    for q in range(8):
        words = ["red", "rose", "blue", "sea", "sky"]
        texts = [" ".join(rng.choice(words, 3)) + f" w{q}{d}" for d in range(8)]
        found.sets.append(CandidateSet(texts, query=f"q{q}"))
        found.labels.append(rng.integers(0, 2, (8, 3)).astype(float) + np.eye(8, 3))
        found.subtopics.append(["a", "b", "c"])
    return found


def part(found, chosen):
    return LabelledSets(*([member[i] for i in chosen] for member in found))


def test_diversify_says_which_sets_a_model_was_trained_on(sets, cli):
    for name, chosen in (("train", range(4)), ("all", range(8)), ("new", range(4, 8))):
        write_candidates(part(sets, chosen), Path(f"{name}.jsonl"))
    cli("diversify train train.jsonl -o mine.npz -k 2 --jobs 1")
    for name, n, said in (("train", 4, "all of these 4"), ("all", 4, "4 of these 8"), ("new", 0, None)):
        command = f"diversify compare {name}.jsonl --model mine.npz --method random -k 2"
        text = cli(command)
        assert (f"mine was trained on {said} queries" in text) == (said is not None)
        assert ("was trained on" in text) == (said is not None)
        assert cli.json(command)["methods"][0]["trained_on"] == n
    earlier = load("mine.npz")  # a file of an earlier version
    del earlier.fingerprints_
    result = compare_methods(sets, {"mine": earlier}, ["random"], k=2)
    assert result.seen == {"mine": None}
    assert "The file of mine does not record its training queries" in result.headline()


def test_fingerprints_are_of_the_texts():
    words = [["red", "rose"], ["blue"]]
    counts = np.array([[1, 0, 2], [0, 1, 0]])
    for texts in (["red rose", "blue"], words, counts):
        one = CandidateSet(texts, query="a")
        assert one.fingerprint == CandidateSet(texts[::-1], ids=["x", "y"], query="b").fingerprint
        assert one.fingerprint != CandidateSet(texts[:1]).fingerprint
    model = SVMDiv(k=1, C=10).fit([CandidateSet(words)] * 2, [[[1, 1], [0, 0]]] * 2)
    assert model.fingerprints_ == (CandidateSet(words).fingerprint,) * 2
