"""Measures: slow twins written from the definitions, policies for undefined values, and bad input."""

import math
from decimal import Decimal
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.metrics import ndcg_score

from structsvm import SingleQueryWarning
from structsvm.common.checks import BadInput
from structsvm.metrics import available_metrics, evaluate
from structsvm.metrics.evaluation import evaluate_part
from structsvm.metrics.measures import CONVENTIONS
from tests.refusing import refused, rejections

# ---- slow twins: one query, one loop per document


def ranked(y, s, ties, docid):
    rows = [i for i in range(len(y)) if s[i] != -math.inf]
    if ties == "row":
        return [y[i] for i in sorted(rows, key=lambda i: (-s[i], i))]
    if docid is None:
        return [y[i] for i in sorted(rows, key=lambda i: (-s[i], -i))]
    return [y[i] for i in sorted(rows, key=lambda i: (s[i], docid[i]), reverse=True)]


def slow_dcg(grades, k, convention):
    total = 0.0
    for i, grade in enumerate(grades[:k], start=1):
        gain = max(grade, 0) if convention == "trec" else 2.0 ** max(grade, 0) - 1
        if convention.startswith("letor4"):
            total += gain if i <= 2 else gain * math.log(2) / math.log(i)
        else:
            total += gain / math.log2(i + 1)
    return total


def slow(name, y, s, docid, convention, relevance, ties, max_grade):
    """Return the value of one query, or None if its labels define no value."""
    base, _, depth = name.partition("@")
    k = int(depth) if depth.isdigit() else len(y)
    if convention == "trec":
        s = [float(np.float32(v)) for v in s]
    labels = ranked(y, s, ties, docid)
    n_relevant = sum(v >= relevance for v in y)
    if base in ("ndcg", "dcg", "err"):
        if max(y) <= 0:
            return None
        if base == "err":
            total, reach = 0.0, 1.0
            for i, grade in enumerate(labels[:k], start=1):
                stop = (2.0 ** max(grade, 0) - 1) / 2.0**max_grade
                total += reach * stop / i
                reach *= 1 - stop
            return total
        value = slow_dcg(labels, k, convention)
        if base == "dcg":
            return value
        if convention == "letor4_script" and len(y) < k:
            return 0.0
        return value / slow_dcg(sorted(y, reverse=True), k, convention)
    if base == "roc":
        pairs = [(i, j) for i in range(len(y)) for j in range(len(y)) if y[i] >= relevance > y[j]]
        if not pairs:
            return None
        return sum(1.0 if s[i] > s[j] else 0.5 if s[i] == s[j] else 0.0 for i, j in pairs) / len(pairs)
    if base == "pairs":
        pairs = [(i, j) for i in range(len(y)) for j in range(len(y)) if y[i] > y[j]]
        if not pairs:
            return None
        # the order of equal scores does not count
        return sum(1.0 if s[i] > s[j] else 0.5 if s[i] == s[j] else 0.0 for i, j in pairs) / len(pairs)
    if n_relevant == 0:
        return None
    if base == "rbp":
        p = float(depth)
        return sum((1 - p) * p**i for i, grade in enumerate(labels) if grade >= relevance)
    if base == "iprec":  # the loop of trec_eval, from the last rank to the first
        wanted, found, best = int(float(depth) * n_relevant + 0.9), sum(v >= relevance for v in labels), 0.0
        for i in range(len(labels), 0, -1):
            if found < wanted or found == 0:
                break
            best = max(best, found / i)
            found -= labels[i - 1] >= relevance
        return best
    if base == "bpref":
        above, total, n_other = 0, 0.0, sum(0 <= v < relevance for v in y)
        for grade in labels:
            if grade >= relevance:
                total += 1 - min(above, n_relevant) / min(n_other, n_relevant) if above else 1
            above += 0 <= grade < relevance
        return total / n_relevant
    if base.startswith("set_"):
        found = sum(v >= relevance for v in labels)
        precision, recall = found / max(len(labels), 1), found / n_relevant
        f = 2 * precision * recall / (precision + recall) if found else 0.0
        return {"set_precision": precision, "set_recall": recall, "set_f": f}[base]
    if base == "rprec":
        return sum(v >= relevance for v in labels[:n_relevant]) / n_relevant
    hits = [i for i, grade in enumerate(labels[:k], start=1) if grade >= relevance]
    if base == "map":
        return sum((n + 1) / i for n, i in enumerate(hits)) / n_relevant
    if base == "mrr":
        return 1 / hits[0] if hits else 0.0
    if base == "success":
        return float(bool(hits))
    return len(hits) / (k if base == "precision" else n_relevant)


NAMES = [
    "map",
    "map@3",
    "mrr",
    "mrr@2",
    "precision@4",
    "recall@3",
    "ndcg",
    "ndcg@1",
    "ndcg@5",
    "dcg",
    "dcg@4",
    "err",
    "err@3",
    "roc",
    "pairs",
    "success@1",
    "success@3",
    "rprec",
    "rbp@0.8",
    "set_precision",
    "set_recall",
    "set_f",
]
IN_ONE_ORDER = ["bpref", "iprec@0.0", "iprec@0.3", "iprec@1.0"]
"""Measures without a mean over the orders of tied rows."""

documents = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.integers(-2, 4),
        st.sampled_from([-math.inf, -1.5, 0.0, 0.5, 1.0, 1.0 + 1e-9, 2.0, 3e38]),
        st.text("019aZé", max_size=3),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=100)
@given(
    rows=documents,
    convention=st.sampled_from(sorted(CONVENTIONS)),
    relevance=st.sampled_from([1, 2, 2.5]),
    ties=st.sampled_from(["docid", "row"]),
    with_docid=st.booleans(),
)
@pytest.mark.filterwarnings("ignore:evaluate. the labels define:UserWarning")  # by chance
def test_every_measure_equals_its_slow_twin(rows, convention, relevance, ties, with_docid):
    seen = set()
    rows = [row for row in rows if (row[0], row[3]) not in seen and not seen.add((row[0], row[3]))]
    qid, y, s, docid = map(list, zip(*rows, strict=True))
    options = {"convention": convention, "relevance": relevance, "max_grade": 4}
    for name in NAMES + IN_ONE_ORDER:
        expected = []
        for query in dict.fromkeys(qid):
            at = [i for i in range(len(y)) if qid[i] == query]
            ids = [docid[i] for i in at] if with_docid else None
            expected.append(slow(name, [y[i] for i in at], [s[i] for i in at], ids, ties=ties, **options))
        for empty, value in {"zero": 0.0, "one": 1.0, "skip": math.nan}.items():
            result = evaluate(
                name, y, s, qid=qid, docid=docid if with_docid else None, ties=ties, empty=empty, **options
            )
            filled = [value if v is None else v for v in expected]
            np.testing.assert_allclose(result.per_query, filled, rtol=0, atol=1e-12, err_msg=name)
            assert list(result.query_ids) == list(dict.fromkeys(qid))
            counted = [v for v in filled if not math.isnan(v)]
            assert result.mean == pytest.approx(np.mean(counted) if counted else math.nan, nan_ok=True)


@pytest.mark.parametrize("name", [*NAMES, "precision@200", "ndcg@1000"])
@pytest.mark.parametrize("docid", ["str", "bytes", None])
def test_queries_of_many_lengths_are_sorted_right(name, docid):
    # lengths in several width classes and one larger than a sorting chunk's row, interleaved
    rng = np.random.default_rng(1)
    lengths = [1, 2, 3, 4, 5, 7, 8, 9, 63, 64, 65, 300]
    qid = rng.permutation(np.repeat(np.arange(len(lengths)), lengths))
    y, s = rng.integers(-1, 5, qid.shape[0]), np.round(rng.normal(size=qid.shape[0]), 1)
    s[rng.random(qid.shape[0]) < 0.1] = -np.inf
    ids = rng.permutation(qid.shape[0]).astype(str)
    for array in (qid, y, s):
        array.setflags(write=False)  # what is given is left alone
    docids = {"str": ids, "bytes": ids.astype(bytes), None: None}[docid]
    result = evaluate(name, y, s, qid=qid, docid=docids, ties="docid")
    for query, value in zip(result.query_ids, result.per_query, strict=True):
        at = np.flatnonzero(qid == query)
        twin_ids = None if docid is None else ids[at].tolist()
        expected = slow(name, y[at].tolist(), s[at].tolist(), twin_ids, "trec", 1, "docid", 4)
        assert value == pytest.approx(0.0 if expected is None else expected, abs=1e-12)


def test_values_of_a_query_do_not_depend_on_other_queries():
    rng = np.random.default_rng(2)
    y, s, qid = rng.integers(0, 5, 4000), rng.integers(0, 100, 4000), rng.integers(0, 37, 4000)
    for name in NAMES:
        together = evaluate(name, y, s, qid=qid)
        alone = [evaluate(name, y[qid == q], s[qid == q], qid=0).mean for q in together.query_ids]
        np.testing.assert_array_equal(together.per_query, alone)


def test_several_measures_are_those_one_by_one():
    rng = np.random.default_rng(4)
    y, scores, qid = rng.integers(0, 3, 40), rng.normal(size=40), np.repeat(np.arange(8), 5)
    names = ["map", "nDCG@3"]
    found = evaluate(names, y, scores, qid=qid, convention="letor4")
    assert list(found) == names
    for name in names:
        alone = evaluate(name, y, scores, qid=qid, convention="letor4")
        np.testing.assert_array_equal(found[name].per_query, alone.per_query)
    refused("metric='mpa'", evaluate, ["map", "mpa"], y, scores, qid=qid)
    with pytest.warns(SingleQueryWarning) as caught:
        evaluate(names, y, scores)
    assert len(caught) == 1


def test_names_in_the_list_all_work():
    for name in available_metrics():
        mean = evaluate(name.replace("@k", "@2").replace("@p", "@0.5"), [0, 1, 1], [1, 2, 3], qid=0).mean
        assert 0 < mean <= 1 + 1 / math.log2(3)


test_bad_input = rejections(
    lambda arguments, options: evaluate(*arguments, **{"qid": 0, **options}),
    (("mean", [1], [1]), {}, r"metric='mean': expected one of .*map, .*map@k, .*roc.*"),
    (("roc@5", [1], [1]), {}, "metric='roc@5': expected one of"),
    ((None, [1], [1]), {}, "metric: expected the name of a measure .*, got NoneType"),
    (("precision", [1], [1]), {}, "'precision' requires a cutoff, for example 'precision@10'"),
    *((("ndcg@" + k, [1], [1]), {}, "positive integer after '@'") for k in ("0", "-3", "", "1.5", "２")),
    (("map", [1, 0], [1]), {}, "y_score: expected 2 scores, one for each entry of y_true, got 1"),
    (("map", [], []), {}, "y_true: expected at least one row"),
    (("map", [1, 0], [1, float("nan")]), {}, r"y_score\[1\]: expected a finite number, got nan"),
    (("map", [1, float("nan")], [1, 0]), {}, r"y_true\[1\]: expected a finite grade, got nan"),
    (("map", [1, float("inf")], [1, 0]), {}, r"y_true\[1\]: expected a finite grade, got inf"),
    (("map", ["a", "b"], [1, 0]), {}, "y_true: expected numbers, got <U1"),
    (("map", [1, 0], [1, None]), {}, r"y_score\[1\]: expected a finite number, got nan"),
    (("map", [1, 0], [object(), 1]), {}, "y_score: expected numbers, got object"),
    (("map", [[1], [0]], [1, 0]), {}, r"y_true: expected one number per row .* got shape \(2, 1\)"),
    (("map", 1, 1), {}, r"got shape \(\)"),
    (("map", [1, 0], [1, 0]), {"qid": [1]}, "qid: expected 2 ids"),
    (("map", [1, 0], [1, 0]), {"docid": ["a"]}, "docid: expected 2 ids"),
    (("map", [1, 0], [1, 0]), {"docid": ["a", None]}, r"docid\[1\]: expected a string or an int, got N"),
    (("map", [1, 0], [1, 0]), {"docid": [1.5, 2]}, "docid: expected strings or ints, got float64"),
    (("map", [1, 0], [1, 0]), {"convention": "xyz"}, "convention='xyz': expected one of 'trec', "),
    (("map", [1, 0], [1, 0]), {"empty": "drop"}, "empty='drop': expected one of 'zero', 'one', 'skip'"),
    (("map", [1, 0], [1, 0]), {"ties": "mean"}, "ties='mean': expected one of 'average', 'docid', 'row'"),
    (("map", [1, 0], [1, 0]), {"relevance": 0}, "relevance=0: expected a finite number > 0"),
    (("map", [1, 0], [0, 1e400]), {}, r"y_score\[1\]: expected a finite number, got inf"),
    (("map", [1, 0], [0, 10**400]), {}, r"y_score\[1\]: expected a number up to 1.8e\+308 in magnitude"),
    (("map", [1, 0], [0, Decimal("-1e400")]), {}, r"y_score\[1\]: .* magnitude, got -1E\+400"),
    (("@", [1, 0], [0, 1]), {}, "metric='@': expected one of"),
    (("err", [5, 0], [1, 0]), {}, r"y_true\[0\]: .* <= max_grade = 4, got 5.0; increase max_grade"),
    (("err", [1, 0], [1, 0]), {"max_grade": 0}, r"max_grade=0: expected a number in \(0, 1000\]"),
    (("ndcg", [2000, 0], [1, 0]), {"convention": "burges"}, r"y_true\[0\]: expected a grade <= 1000"),
)


def test_odd_but_legal_docids_and_scores():
    frame = pd.DataFrame({"y": [1, 0], "s": [1.0, 1.0], "qid": ["a", "a"], "doc": [9, 10]})
    # as strings "9" > "10": the relevant row wins the tie
    docid = {"ties": "docid"}
    assert evaluate("mrr", frame["y"], frame["s"], qid=frame["qid"], docid=frame["doc"], **docid).mean == 1.0
    assert evaluate("mrr", [True, False], [1, 1], docid=["10", "9"], qid=0, **docid).mean == 0.5
    y, s = [1, 0, 0], [1.0, 1.0, 1.0]
    variable = np.dtypes.StringDType() if hasattr(np.dtypes, "StringDType") else object
    for ids in (["c", "b", "a"], np.array(["c", "b", "a"], dtype=variable), [b"c", b"b", b"a"]):
        assert evaluate("mrr", y, s, docid=ids, qid=0, **docid).mean == 1.0
    assert evaluate("mrr", y, s, docid=["a", "a", "a"], qid=0, **docid).mean == pytest.approx(1 / 3)
    # nothing retrieved at all: no value for the ranking, but the query counts
    for name in NAMES:
        lost = evaluate(name, [1, 0, 1, 0], [-math.inf, -math.inf, 2, 1], qid=[1, 1, 2, 2], empty="skip")
        assert lost.per_query[0] == (0.5 if name in ("roc", "pairs") else 0.0)


SMALL = st.lists(
    st.tuples(st.integers(-1, 3), st.sampled_from([-math.inf, 0.0, 1.0, 1.0 + 1e-9])), min_size=1, max_size=6
)


@settings(max_examples=25)
@given(rows=SMALL, relevance=st.sampled_from([1, 2]), convention=st.sampled_from(sorted(CONVENTIONS)))
def test_the_average_is_that_of_all_orders(rows, relevance, convention):
    options = {"convention": convention, "relevance": relevance, "max_grade": 4}
    for name in NAMES:
        # scores are compared as doubles
        place = {score: i for i, score in enumerate(sorted({s for _, s in rows} - {-math.inf}))}
        ranks = [(y, place.get(s, s)) for y, s in rows]
        of_orders = [
            slow(name, *map(list, zip(*order, strict=True)), None, ties="row", **options)
            for order in permutations(ranks)
        ]
        expected = 0.0 if of_orders[0] is None else np.mean(of_orders)
        found = evaluate_part(name, *zip(*rows, strict=True), qid=0, ties="average", **options)
        assert found.result.mean == pytest.approx(expected, abs=1e-12), name


def test_a_constant_model_is_not_rewarded_for_the_order_of_rows():
    grades = np.array([0, 0, 1, 5, 10])
    for y in (grades, grades[::-1]):
        with pytest.warns(UserWarning, match="100 % of the pairs .* the mean over all orders"):
            value = evaluate("ndcg", y, np.ones(5), qid=0).mean
        assert value == pytest.approx(ndcg_score([y], [np.ones(5)]))
    # two runs that are all relevant, or all not, are no matter of order
    assert evaluate("map", [1, 1, 0, 0], [2, 2, 1, 1], qid=0).mean == 1.0
    assert evaluate("ndcg", [0.1, 0.1, 0.1, 0], [2, 2, 2, 1], qid=0).mean == 1.0
    assert evaluate("recall@3", [1, 1, 1, 0], [2, 2, 2, 1], qid=0).mean == 1.0


def test_the_rule_for_ties_goes_by_docids_and_convention():
    y, s, docid = [1, 0, 0], [1.0, 1.0, 1.0], ["a", "b", "c"]
    for options, value, rule in [
        ({}, 11 / 18, "the mean over all orders"),
        ({"docid": docid}, 1 / 3, "descending docid"),
        ({"docid": docid, "convention": "letor4"}, 1.0, "the earlier row"),
    ]:
        with pytest.warns(UserWarning, match=rule):
            assert evaluate("mrr", y, s, qid=0, **options).mean == pytest.approx(value)
    # asked for, or of ROC area: no warning; nor up to a tenth of the pairs
    evaluate("mrr", y, s, qid=0, ties="average")
    evaluate("roc", y, s, qid=0)
    scores = np.arange(21.0)
    scores[1] = 0.0
    evaluate("map", np.arange(21) % 2, scores, qid=0)


def test_the_share_of_tied_pairs_is_counted():
    rng = np.random.default_rng(6)
    y, s, qid = rng.integers(0, 3, 60), rng.integers(0, 6, 60).astype(float), rng.integers(0, 5, 60)
    s[::9] = -math.inf
    pairs = [
        s[i] == s[j]
        for i in range(60)
        for j in range(i)
        if qid[i] == qid[j] and y[i] != y[j] and min(s[i], s[j]) > -math.inf
    ]
    assert evaluate_part("map", y, s, qid=qid).ranking.tied_share() == np.mean(pairs)


def test_a_measure_of_ones_own():
    def top_grade(y, scores):
        return float(y[np.argmax(scores)])

    y, s, qid = [1, 0, 2, 3], [0.5, 0.1, 0.7, 0.9], ["b", "a", "b", "a"]
    found = evaluate([top_grade, "map"], y, s, qid=qid)["top_grade"]
    assert (found.name, found.mean, found.per_query.tolist()) == ("top_grade", 2.5, [2.0, 3.0])
    for value in (None, math.nan, np.ones(2)):
        with pytest.raises(BadInput, match=r"<lambda>, query b: expected a finite number from the measure"):
            evaluate(lambda y, scores, value=value: value, y, s, qid=qid)


def test_swapped_labels_and_scores_are_noticed():
    labels = [0, 0, 3]
    for scores in ([-1.5, 0.25, 2.0], [1.5, 0.25, 2.0]):
        evaluate("ndcg@10", labels, scores, qid=0)
        with pytest.warns(UserWarning, match="pass labels first"):
            evaluate("ndcg@10", scores, labels, qid=0, ties="average")
    # scores; ranks from behind; one not retrieved; as many values as there are grades
    for other in ([-1.5, 0.25, 2.5], [-1, 0, 2], [0, -math.inf, 3], [1, 2, 3]):
        evaluate("ndcg@10", [0.5, 0.25, 1.0], other, qid=0)
