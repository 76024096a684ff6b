"""Comparison of methods for diverse selection: measures, refusals and reports."""

import numpy as np
import pytest

from structsvm import CandidateSet, SVMDiv
from structsvm.cli.studies.diversity import (
    METHODS,
    compare_methods,
    usual_methods,
    with_subtopics,
)
from structsvm.estimators.baselines import XQuAD
from structsvm.readers.candidate_sets import LabelledSets

TEXTS = ["red rose", "red red rose", "blue sea", "green"]
LABELS = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
FOUND = LabelledSets(
    [CandidateSet(TEXTS, query="colours"), CandidateSet(TEXTS[::-1], query="backwards")],
    [LABELS, LABELS[::-1]],
    [["red", "blue", "nobody's"]] * 2,
)


def test_figures_by_hand():
    result = compare_methods(FOUND, methods=["original", "clairvoyant"], k=2)
    assert result.first == "original"
    assert [rows.tolist() for rows in result.chosen["original"]] == [[0, 1], [0, 1]]
    # red weighs 2/3, blue 1/3: the first two documents have red, then blue alone
    np.testing.assert_allclose(result.values["original"]["weighted"], [2 / 3, 1 / 3])
    np.testing.assert_allclose(result.compared["original"], [0.5, 0.5])
    np.testing.assert_allclose(result.values["clairvoyant"]["weighted"], [1, 1])
    original, clairvoyant = result.records()
    assert original["means"]["weighted"] == pytest.approx(0.5)
    assert "p" not in original
    assert (clairvoyant["wins"], clairvoyant["losses"]) == (0, 2)  # of the first against it
    assert (clairvoyant["difference"], clairvoyant["means"]["alpha_ndcg"]) == pytest.approx((-0.5, 1.0))
    columns, rows = result.rows()
    assert [c.name for c in columns][-2:] == ["wins : losses", "p"]
    assert rows[0] == ["original", "0.500", "0.500", f"{original['means']['alpha_ndcg']:.3f}", "", ""]
    assert rows[1][4] == "0 : 2"
    assert result.headline().startswith("Of 1 methods that do not know the subtopics and choose 2 documents")
    assert "mean weighted recall, 0.500" in (
        compare_methods(FOUND, methods=["original"], k=2, loss="weighted").headline()
    )


def test_a_budget_in_place_of_a_number_of_documents():
    costs = [[3.0, 1.0, 2.0, 1.0], [1.0, 2.0, 1.0, 3.0]]
    result = compare_methods(FOUND, methods=["original", "clairvoyant"], k=None, costs=costs, budget=3)
    assert [rows.tolist() for rows in result.chosen["original"]] == [[0], [0, 1]]
    assert [rows.tolist() for rows in result.chosen["clairvoyant"]] == [[1, 2], [2, 1]]
    assert "choose documents with a total cost of at most 3 for each of 2 queries" in result.headline()
    result = compare_methods(FOUND, methods=["original"], k=1, costs=costs, budget=3)
    assert [rows.tolist() for rows in result.chosen["original"]] == [[0], [0]]


def test_methods_by_default_and_the_seed_of_the_random_choice():
    scored = FOUND._replace(sets=[CandidateSet(TEXTS, features=[[1]] * 4, query="colours")] * 2)
    assert list(compare_methods(scored).chosen) == [name for name in METHODS if name != "xquad"]
    silent = FOUND._replace(sets=[CandidateSet(TEXTS), FOUND.sets[1]])
    without = ["bm25 left out: a set has no query", "score left out: documents have no features"]
    assert usual_methods(silent)[1] == without
    assert not {"bm25", "score"} & compare_methods(silent).chosen.keys()
    embedded = FOUND._replace(sets=[CandidateSet.from_similarity(np.eye(4), query="q")] * 2)
    assert usual_methods(embedded)[1][0] == "bm25, coverage, essential left out: documents have no texts"
    assert list(compare_methods(embedded).chosen) == ["random", "original", "mmr", "facility", "clairvoyant"]
    spoken = [CandidateSet.from_similarity(np.eye(4), documents=one) for one in FOUND.sets]
    by_words = [
        compare_methods(FOUND._replace(sets=sets), methods=["bm25"]).chosen for sets in (spoken, FOUND.sets)
    ]
    np.testing.assert_array_equal(*(chosen["bm25"] for chosen in by_words))

    def chosen(seed):
        found = compare_methods(FOUND, methods=["random"], k=3, random_state=seed).chosen["random"]
        return [rows.tolist() for rows in found]

    assert chosen(0) == chosen(0)
    assert chosen(0) != chosen(5)


def test_models_stand_first_and_labelled_methods_see_the_labels():
    model = SVMDiv(k=2).fit(FOUND.sets, FOUND.labels)
    result = compare_methods(FOUND, {"mine": model}, ["xquad"], k=2)
    assert list(result.chosen) == ["mine", "xquad"]
    np.testing.assert_array_equal(result.chosen["mine"][0], model.predict(FOUND.sets, 2)[0])
    np.testing.assert_array_equal(XQuAD(2).predict(FOUND.sets, labels=FOUND.labels), result.chosen["xquad"])


def test_sets_without_a_covered_subtopic():
    further = CandidateSet(["a"]), np.zeros((1, 1)), ["x"]
    more = LabelledSets(*([*known, one] for known, one in zip(FOUND, further, strict=True)))
    assert with_subtopics(more).sets == FOUND.sets


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"methods": ["score"]}, "expected document features that include a score"),
        ({"loss": "ndcg"}, "loss='ndcg': expected one of 'weighted'"),
        ({"methods": ["magic"]}, "method='magic': expected one of .*'random'"),
        ({"models": {"mmr": None}}, "model='mmr': a fixed method has this name"),
        ({"methods": ["mmr"], "k": 0}, "k=0"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        compare_methods(FOUND, **arguments)
