"""The logged record: JSON round trips, later credit by another object, and errors that name bad input."""

import json

import numpy as np
import pytest

from experiments._multileaving import distortion
from structsvm.online.interleaving import (
    SOSM,
    Balanced,
    DocumentConstraints,
    Optimized,
    Probabilistic,
    Shown,
    TeamDraft,
)
from structsvm.online.interleaving.by_name import NAMES, interleaver
from structsvm.online.interleaving.merging import check_rankings
from tests.refusing import called, rejected, rejections

METHODS = [*map(interleaver, NAMES)]


def _name(method):
    return method.name


@pytest.mark.parametrize("method", METHODS, ids=_name)
@pytest.mark.parametrize(
    "documents",
    [
        [3, 1, 2**70, -5],
        ["a", "b,\n", "ü", ""],
        [1, "1", 1.5, False],
        [("q", 1), ("q", (2, "x")), (), 0],
        # ids that Python takes for nothing
        [None, "a", "b"],
        [False, "", None],
    ],
    ids=["int", "str", "mixed", "tuple", "none", "false"],
)
def test_credit_is_the_same_after_json(method, documents):
    shown = method.show([documents, documents[::-1]], length=3, rng=4)
    line = shown.to_json()
    assert "\n" not in line
    assert "impression" not in line  # as long as there is none
    logged = Shown.from_json(line)
    assert logged == shown
    assert logged.clicked(shown.documents[2:]).tolist() == [False, False, True]
    assert sum(p for _, p in method.distribution([documents[:1]] * 2, length=2)) == pytest.approx(1)
    assert [type(d) for d in logged.documents] == [type(d) for d in shown.documents]
    assert Shown.from_dict(json.loads(line)) == shown
    for clicks in ([0, 0, 0], [1, 0, 1], [True, True, True]):
        np.testing.assert_array_equal(method.credit(logged, clicks), method.credit(shown, clicks))


@pytest.mark.parametrize("method", METHODS, ids=_name)
def test_numpy_ids_become_plain_ones(method):
    shown = method.show(np.array([[3, 1, 2], [1, 2, 3]]), length=2, rng=0)
    assert all(type(d) is int for d in shown.documents)
    assert Shown.from_json(shown.to_json()) == shown
    assert all(type(d) is str for d in method.show(np.array([["x", "y"], ["y", "x"]]), rng=0).documents)


@pytest.mark.parametrize(
    ("rankings", "length", "message"),
    [
        ([], 10, "2 rankings"),
        ([["a"]], 10, "2 rankings"),
        ([["a"], []], 10, r"rankings\[1\]: expected at least one document"),
        ([["a", "b"], ["c", "b", "c"]], 10, r"rankings\[1\]: document 'c' occurs twice, at ranks 1 and 3"),
        ([["a"], [["b"]]], 10, r"rankings\[1\]\[0\]: expected a hashable document id, got \['b'\]"),
        ([["a"], [float("nan")]], 10, r"rankings\[1\]\[0\]: expected a document id, got nan"),
        ([["a"], ["b"]], 0, "length=0: expected an integer >= 1"),
        (["ab", "ba"], 2, r"rankings\[0\]: expected a sequence of document ids, got 'ab'"),
        ("ab", 2, "rankings: expected a sequence of rankings"),
    ],
)
def test_bad_rankings_are_named(rankings, length, message):
    """Each method refuses further rankings; see test_every_interleaver_passes."""
    rejected(message, check_rankings, rankings, length)
    with pytest.raises(
        ValueError, match=r"exactly 2 rankings, got 3; use a method for more, such as TeamDraft"
    ):
        check_rankings([["a"], ["b"], ["c"]], 3, pair=True)


@pytest.mark.parametrize("method", METHODS, ids=_name)
def test_bad_clicks_and_foreign_records_are_refused(method):
    shown = method.show([list("abc"), list("bca")], 3, 0)
    for clicks in ([1, 0, 0, 1], [1, 0], [], 1, [[1, 0, 0]]):
        rejected(r"clicks: expected one entry .* 3 shown documents", method.credit, shown, clicks)
    for clicks in ([0, 2, 0], [0, 0.5, 0], [0, -1, 0], ["a", "b", "c"]):
        rejected("clicks: expected 0 or 1", method.credit, shown, clicks)
    other = next(m for m in METHODS if m.name != method.name).show([list("abc"), list("bca")], 3, 0)
    rejected(
        f"expected a record of '{method.name}', got one of '{other.method}'", method.credit, other, [0, 0, 0]
    )
    with pytest.raises(TypeError, match="expected a Shown record"):
        method.credit(shown.to_dict(), [0, 0, 0])


def test_clicked_by_document():
    shown = TeamDraft().show([list("abc"), list("bca")], 3, 0)
    np.testing.assert_array_equal(shown.clicked(["c"]), [d == "c" for d in shown.documents])
    assert not shown.clicked([]).any()
    rejected("document 'x' is not among those shown", shown.clicked, ["x"])


GOOD = json.loads(TeamDraft().show([list("abc"), list("bca")], 3, 0).to_json())


test_broken_records_are_named = rejections(
    lambda change: Shown.from_json(json.dumps({**GOOD, **change})),
    ({"version": 2}, "version: expected `int` <= 1, got 2; log Shown"),
    ({"method": 3}, "method: expected `str`, got 3"),
    ({"documents": []}, "documents: expected `array` of length >= 1"),
    ({"documents": ["a", "b", ["c"]]}, "documents: expected ids"),
    ({"documents": ["a", "b", "a"]}, "document 'a' occurs twice"),
    ({"n_rankers": 1}, "n_rankers: expected `int` >= 2, got 1"),
    ({"n_rankers": True}, "n_rankers: expected `int`, got True"),
    ({"evidence": []}, "evidence: expected `array` of length >= 1"),
    ({"evidence": [[0, 1]]}, r"evidence\[0\]: expected an entry for each of 3 documents"),
    ({"evidence": [[0, 1, "x"]]}, r"evidence\[0\]\[2\]: expected `int \| float \| null`, got 'x'"),
    ({"slack": "no"}, r"slack: expected `int \| float`, got 'no'"),
)


def test_texts_that_are_no_record():
    for text in ("oops", '{"a":' * 100_000):
        rejected(f"expected one line of JSON, got '{text[:60]}", Shown.from_json, text)
    rejected("expected `object`", Shown.from_json, "[1]")
    with pytest.raises(ValueError, match="expected the key 'method', got none; log Shown"):
        Shown.from_dict({k: v for k, v in GOOD.items() if k not in ("method", "evidence")})
    # a record that reads well but does not fit its method
    with pytest.raises(ValueError, match=r"expected 2 row\(s\) of evidence, got 1"):
        Probabilistic().credit(Shown.from_dict({**GOOD, "method": "probabilistic"}), [1, 1, 1])
    with pytest.raises(ValueError, match="expected a rank of the lowest clicked document"):
        Balanced().credit(Shown("balanced", ("a",), 2, ((None,), (None,))), [1])
    with pytest.raises(ValueError, match="expected numbers of at least 0 in the evidence of"):
        SOSM().credit(Shown("sosm", ("a",), 2, ((None,), (1,))), [1])


@pytest.mark.parametrize(
    ("method", "evidence", "message"),
    [
        (TeamDraft(), [[0, 0.5, 1]], "expected teams from 0 to 1, got 0.5"),
        (TeamDraft(), [[0, 1, 2]], "expected teams from 0 to 1, got 2"),
        (TeamDraft(), [[0, 1, 1], [1, 0, 0]], r"expected 1 row\(s\) of evidence, got 2"),
        (Probabilistic(), [[0.5, 0.5, 1e6], [0.5] * 3], "sum to 1 for each document"),
        (Probabilistic(), [[2, 0.5, 0.5], [-1, 0.5, 0.5]], "numbers of at least 0 in the evidence"),
        (Probabilistic(), [[1e11] * 3, [1e11] * 3], "sum to 1 for each document"),
        (
            Optimized(),
            [[0.5, 0, 0], [0.5, 0, 0]],
            r"sum to 0 for each document, got \[\[0.5, 0.0, 0.0\], \[0.5,",
        ),
        (SOSM(), [[1, 0, 0], [1, 1, 0]], r"sum to 1 for each ranker, got \[1.0, 1.0, 0.0\] for ranker 1"),
        (SOSM(), [[2, -1, 0], [1, 0, 0]], "numbers of at least 0"),
        (
            Balanced(),
            [[1, 2, 2], [1, 2, 3]],
            "distinct ranks from 1, or null, in the evidence, got .* for ranker 0",
        ),
        (
            Balanced(),
            [[1, 2, 3], [1, 2, 0]],
            "distinct ranks from 1, or null, in the evidence, got .* for ranker 1",
        ),
        (DocumentConstraints(), [[1, 2, 2.5], [1, 2, 3]], "distinct ranks from 1"),
        (DocumentConstraints(), [[1, 2, 3], [-1, 2, 3]], "distinct ranks from 1"),
    ],
)
def test_evidence_that_the_method_cannot_have_written_is_refused(method, evidence, message):
    record = method.show([list("abc"), list("bca")], 3, 0).to_dict()
    changed = Shown.from_dict({**record, "evidence": evidence})
    for clicks in ([0, 0, 0], [1, 0, 0]):
        rejected(f"shown: .*{message}", method.credit, changed, clicks)


def test_ids_that_json_cannot_keep_are_refused_when_logged():
    shown = TeamDraft().show([[b"a", b"b"], [b"b", b"a"]], rng=0)
    assert TeamDraft().credit(shown, [1, 1]).sum() == 2
    with pytest.raises(TypeError, match="not bytes; use string ids"):
        shown.to_json()


test_bad_settings = rejections(
    called,
    (lambda: Probabilistic(-1), "tau=-1: expected a finite number >= 0"),
    (lambda: Probabilistic(float("nan")), "tau"),
    (lambda: Optimized(max_lists=0), "max_lists=0: expected an integer >= 1"),
    (lambda: Shown.from_dict(GOOD).with_impression(True), "expected a string or an integer, got True"),
)


def test_distortion():
    alone = np.array([[0.5, 0.6, 0.7, 0.5], [0.4, 0.5, 0.6, 0.5], [0.3, 0.4, 0.5, 0.5], [0.5] * 4])
    assert distortion(alone, alone, 0) == 0
    together = alone.copy()
    together[1:, 0] = [0.55, 0.3, 0.51]
    assert distortion(together, alone, 0) == pytest.approx(2 / 3)
    for bad, message in (
        ((alone[:2], alone, 0), "multileaved: expected a square matrix"),
        ((alone, alone[:2, :2], 0), "pairwise: expected the shape"),
        ((alone, alone + 1, 0), "pairwise: expected probabilities"),
        ((alone, alone, 4), "winner=4: expected a ranker from 0 to 3"),
    ):
        rejected(message, distortion, *bad)
