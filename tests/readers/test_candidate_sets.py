"""Candidate sets and their files: errors, round trips, AMBIENT and TREC judgments."""

import gzip

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from structsvm.common.candidates import CandidateSet, check_chosen, check_labels, check_sets
from structsvm.readers import Qrels, Run, candidate_sets, read_qrels, read_run
from tests.refusing import rejected


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: CandidateSet([]), ValueError, "empty candidate set"),
        (lambda: CandidateSet("one text"), TypeError, "single text"),
        (lambda: CandidateSet(None), TypeError, "expected a list of texts, got NoneType"),
        (lambda: CandidateSet({"d1": "a"}), TypeError, "expected a list of texts, got dict"),
        (lambda: CandidateSet(["a", ["b"]]), TypeError, r"texts\[1\]"),
        (lambda: CandidateSet([1, 2]), TypeError, r"texts\[0\]"),
        (lambda: CandidateSet(["a"], titles=["b", "c"]), ValueError, "titles: expected .*, got 2"),
        (lambda: CandidateSet(["a"], titles=iter(["b", "c"])), ValueError, "titles: expected .*, got 2"),
        (lambda: CandidateSet(["a"], titles=[["b"]]), TypeError, "titles: expected text"),
        (lambda: CandidateSet(["a", "b"], ids=["x", "x"]), ValueError, "'x' twice"),
        (lambda: CandidateSet(["a", "b"], ids=[1]), ValueError, "ids"),
        (lambda: CandidateSet(["a"], features=[1.0]), ValueError, "features"),
        (lambda: CandidateSet(["a"], features=[[np.inf]]), ValueError, r"features\[0, 0\]"),
        (lambda: CandidateSet(["a"], features=[["x"]]), ValueError, "features: expected numbers"),
        (lambda: CandidateSet(["a", "b"], features=[[1], [1, 2]]), ValueError, "features: expected numbers"),
        (lambda: CandidateSet(-np.ones((2, 2))), ValueError, "counts >= 0"),
        (lambda: CandidateSet(np.array([[1e308, 1.0]])), ValueError, "up to 2"),
        (lambda: CandidateSet(np.array([[np.nan, 1.0]])), ValueError, "finite counts"),
        (lambda: CandidateSet(np.ones((2, 2)), titles=np.ones((2, 3))), ValueError, "columns of texts"),
        (lambda: CandidateSet(np.ones((2, 2)), vocabulary=["a"]), ValueError, "vocabulary"),
        (lambda: CandidateSet(["a"], vocabulary=["a"]), ValueError, "vocabulary"),
        (lambda: CandidateSet(["a", None, "b"]), TypeError, r"texts\[1\]: .*, got None"),
        (lambda: CandidateSet([["a"], "b"]), TypeError, r"texts\[1\]: .*, got 'b'"),
        (lambda: CandidateSet.from_similarity(np.ones((2, 3))), ValueError, "square matrix, got shape"),
        (lambda: CandidateSet.from_similarity([["a"]]), ValueError, "square matrix of numbers"),
        (lambda: CandidateSet.from_similarity([[1.0, np.nan], [0, 1]]), ValueError, "from -1 to 1"),
        (lambda: CandidateSet.from_similarity([[1.0, 3], [3, 1]]), ValueError, "pass E @ E.T"),
        (lambda: CandidateSet.from_similarity(np.zeros((15, 16))), ValueError, r"\(15, 16\).*pass E @ E.T"),
        (
            lambda: CandidateSet.from_similarity([[1, 0.5], [0.4, 1]]),
            ValueError,
            r"symmetry, .* 0.5 at \[0, 1\]",
        ),
        (
            lambda: CandidateSet.from_similarity([[1, 0.5], [0.5, 0.9]]),
            ValueError,
            r"diagonal, got 0.9 at \[1, 1\]",
        ),
        (lambda: CandidateSet.from_similarity(np.zeros((0, 0))), ValueError, "empty candidate set"),
        (lambda: check_sets(CandidateSet(["a"])), TypeError, "a list of CandidateSet"),
        (lambda: check_sets([]), ValueError, "at least one"),
        (lambda: check_sets(["a"]), TypeError, r"sets\[0\]"),
        (lambda: check_labels([np.ones((2, 1))], [3]), ValueError, r"labels\[0\]: expected 3 rows"),
        (lambda: check_labels([], [3]), ValueError, "expected one for each"),
        (lambda: check_labels([[1, 0, 1]], [3]), ValueError, "n_documents, n_subtopics"),
        (lambda: check_labels([[["x"]]], [1]), ValueError, "numbers"),
        (lambda: check_chosen([0, 7], 5), ValueError, "0 to 4"),
    ],
)
def test_bad_input_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_a_query_is_a_string_and_features_may_be_sparse():
    one = CandidateSet(["a", "b"], query=301, features=csr_matrix([[0.0, 2.0], [1.0, 0.0]]))
    assert one.query == "301"
    assert "301" in repr(one)
    assert one.features.tolist() == [[0, 2], [1, 0]]


def test_json_lines_round_trip(tmp_path):
    path = tmp_path / "sets.jsonl.gz"
    lines = [
        '{"query": "aida", "documents": [{"id": "d1", "text": "Verdi", "title": "opera", "subtopics": ["o", "v"],'
        ' "features": [1, null], "cost": 3}, {"id": "d2", "text": "ship", "subtopics": {"s": 2}, "features": [0.5, 3], '
        '"cost": 0.5}]}',
        "",
        '{"documents": [{"text": ["two", "words"]}, {"id": null, "text": [], "other": 1}]}',
    ]
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + "\r\n".join(lines).encode()))
    first = candidate_sets.read_candidates(path)
    assert first.subtopics == [["o", "v", "s"], []]
    assert first.labels[0].tolist() == [[1, 1, 0], [0, 0, 2]]
    assert first.labels[1].shape == (2, 0)
    assert first.sets[0].titles == ["opera", ""]
    assert (first.sets[1].texts, first.sets[1].ids) == ([["two", "words"], []], ["0", "1"])
    candidate_sets.write_candidates(first, tmp_path / "again.jsonl")
    again = candidate_sets.read_candidates(tmp_path / "again.jsonl")
    for a, b in zip(first.sets, again.sets, strict=True):
        assert (a.texts, a.titles, a.ids, a.query) == (b.texts, b.titles, b.ids, b.query)
    np.testing.assert_array_equal(first.sets[0].features, again.sets[0].features)
    assert [one.costs if one.costs is None else one.costs.tolist() for one in again.sets] == [[3, 0.5], None]
    assert [x.tolist() for x in first.labels] == [x.tolist() for x in again.labels]
    with pytest.raises(ValueError, match="got counts"):
        candidate_sets.write_candidates(
            first._replace(sets=[CandidateSet(np.ones((2, 1)))] * 2), tmp_path / "again.jsonl"
        )
    for bad, message in (
        (first._replace(labels=[first.labels[0][:1], first.labels[1]]), r"labels\[0\]: expected 2 rows"),
        (first._replace(labels=[first.labels[0] * np.nan, first.labels[1]]), "finite values"),
        (first._replace(subtopics=[["o", "v"], []]), r"subtopics\[0\]: expected 3 distinct names"),
        (first._replace(subtopics=[["o", "v", "v"], []]), r"subtopics\[0\]: expected 3 distinct names"),
    ):
        rejected(message, candidate_sets.write_candidates, bad, tmp_path / "again.jsonl")
    assert candidate_sets.read_candidates(tmp_path / "again.jsonl").subtopics == first.subtopics
    path.write_text('{"documents": [{"embedding": [3, 4], "title": "of no text"}]}')
    assert candidate_sets.read_candidates(path).sets[0].similarity.tolist() == [[1.0]]
    (tmp_path / "empty.jsonl").write_text("\n")
    rejected("empty file", candidate_sets.read_candidates, tmp_path / "empty.jsonl")


def test_judgments_with_texts_or_runs():
    qrels = Qrels.from_arrays(
        [1, 1, 1, 2], ["x", "y", "x", "x"], [2, -2, 1, 1], subtopic=["a", "a", "b", "a"]
    )
    runs = [Run.from_arrays([1, 1], ["x", "z"], [2.0, 1.0]), Run.from_arrays([1], ["y"], [5.0])]
    found = candidate_sets.judged_candidates(qrels, runs=runs, texts={"x": "red"})
    assert [s.query for s in found.sets] == ["1"]  # topic 2 has no candidates
    assert found.sets[0].ids == ["x", "y", "z"]
    assert found.sets[0].texts == ["red", "", ""]
    assert found.labels[0].tolist() == [[2, 1], [0, 0], [0, 0]]
    np.testing.assert_array_equal(found.sets[0].features, [[2, np.nan], [np.nan, 5], [1, np.nan]])
    assert candidate_sets.judged_candidates(qrels, runs=runs, relevant_only=True).sets[0].ids == ["x"]
    by_text = candidate_sets.judged_candidates(qrels, texts={"x": "red", "y": "sea"}, titles={"y": "blue"})
    assert [s.ids for s in by_text.sets] == [["x", "y"], ["x"]]
    assert by_text.sets[0].titles == ["", "blue"]
    rejected("got neither", candidate_sets.judged_candidates, qrels)
    rejected("by subtopic", candidate_sets.judged_candidates, Qrels.from_arrays([1], ["x"], [1]), runs=runs)
    rejected("got none", candidate_sets.judged_candidates, qrels, texts={"q": ""})


def ambient(folder, **changed):
    """Write the files of the data set, with rows below a header."""
    rows = {"topics": "1\tAida", "subTopics": "1.1\topera", "results": "1.1\tu\tt\ts", "STRel": "1.1\t1.1"}
    for name, text in (rows | changed).items():
        (folder / f"{name}.txt").write_text(f"header\n{text}\n")
    return folder


def test_ambient_by_hand(tmp_path):
    assert candidate_sets.read_ambient(ambient(tmp_path)).labels[0].tolist() == [[1]]
    ambient(tmp_path, topics="1\tAida\n2\tnobody's", results="1.1\tu\tt\ts\n2.1\tu\tt\ts")
    assert [s.query for s in candidate_sets.read_ambient(tmp_path).sets] == ["Aida", "nobody's"]
    assert [s.query for s in candidate_sets.read_ambient(tmp_path, relevant_only=True).sets] == ["Aida"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"STRel": ""}, "results that cover a subtopic, got none"),
        ({"STRel": "1.1\t1.2"}, "STRel.txt:2: expected a known"),
        ({"results": "1.1\tu\tt\ts\n1.1\tu\tt\ts"}, "results.txt:3: expected each result once, got '1.1'"),
        ({"results": "1.1\tu\tt"}, "results.txt:2: expected 4 columns"),
    ],
)
def test_ambient_errors(tmp_path, changed, message):
    rejected(message, candidate_sets.read_ambient, ambient(tmp_path, **changed), relevant_only=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "got an empty file"),
        ("303i d1 0102\n", "1: expected '<topic> <docid> <bits>'"),
        ("303i d1 010\n\n303i d2 01\n", "3: expected 3 aspects for topic 303, got 2"),
    ],
)
def test_aspect_errors(tmp_path, text, message):
    (tmp_path / "aspects").write_text(text)
    rejected(message, candidate_sets.read_aspects, tmp_path / "aspects")


def test_ambient(shared_data):
    found = candidate_sets.read_ambient(shared_data("ambient"))
    assert len(found.sets) == 44
    assert sum(map(len, found.sets)) == 4400
    assert sum(int(m.sum()) for m in found.labels) == 2257
    assert sum(int(m.any(axis=1).sum()) for m in found.labels) == 2224
    assert all(m.any(axis=0).all() for m in found.labels)
    relevant = candidate_sets.read_ambient(shared_data("ambient"), relevant_only=True)
    assert sum(map(len, relevant.sets)) == 2224
    assert min(map(len, relevant.sets)) == 18
    assert all(m.any(axis=1).all() for m in relevant.labels)


def test_web_track_and_interactive_track(shared_data):
    folder = shared_data("trec_web2012_diversity")
    qrels = read_qrels(folder / "qrels.diversity.txt.gz", subtopics=True)
    run = read_run(folder / "runs" / "indri-ql-catb-filtered.txt.gz")
    found = candidate_sets.judged_candidates(qrels, runs=[run], depth=30)
    assert len(found.sets) == 50
    assert max(map(len, found.sets)) == 30
    assert sum(m.any() for m in found.labels) > 40
    aspects = candidate_sets.read_aspects(shared_data("trec6_8_interactive_aspects/TRECQueryAspects.txt.gz"))
    assert aspects.n_topics == 20
    pool = candidate_sets.judged_candidates(aspects, texts=dict.fromkeys(aspects.docid.tolist(), ""))
    sizes = [len(s) for s in pool.sets]
    assert (min(sizes), max(sizes)) == (22, 243)
    widths = [m.shape[1] for m in pool.labels]
    assert (min(widths), max(widths)) == (7, 56)
