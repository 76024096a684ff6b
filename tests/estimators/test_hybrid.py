"""Hybrid weights: the fusions of engines, emulated in float32 over dictionaries, rank documents like the columns."""

import dataclasses
import json
import sqlite3
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from structsvm.estimators import hybrid_weights
from structsvm.export.hybrid import ENGINES
from structsvm.features.hybrid import NORMALIZERS, clause_columns
from structsvm.metrics import evaluate
from structsvm.queries import QueryData
from structsvm.readers import Qrels, Run, candidates, read_qrels, read_run
from tests.refusing import rejected

F32 = np.float32


def added(lists, values, weights):
    total = {}
    for (ids, _), column, weight in zip(lists, values, weights, strict=True):
        for document, value in zip(ids, column, strict=True):
            total[document] = F32(total.get(document, F32(0)) + F32(weight) * F32(value))
    return total


def opensearch(lists, weights, lower=None):
    """Emulate min-max normalisation and the arithmetic mean: the smallest score becomes .001, equal scores 1."""
    out = []
    for _, s in lists:
        low = np.full_like(s, s.min()) if lower is None else np.where(s > lower, F32(lower), s.min())
        scaled = np.ones_like(s) if s.min() == s.max() else (s - low) / (s.max() - low)
        out.append(np.where(scaled == 0, F32(0.001), scaled))
    return {d: value / F32(sum(map(F32, weights))) for d, value in added(lists, out, weights).items()}


def elasticsearch(lists, weights):
    """Emulate the linear retriever with MinMaxScoreNormalizer: scores within 1e-6 become 1."""
    out = []
    for _, s in lists:
        width = s.max() - s.min()
        out.append(np.ones_like(s) if width < 1e-6 else (s - s.min()) / width)
    return added(lists, out, weights)


def l2(lists, weights):
    return added(lists, [s / F32(np.sqrt((s * s).sum())) for _, s in lists], weights)


def rrf(lists, weights, k=60):
    return added(lists, [1 / (k + np.arange(1, len(s) + 1)) for _, s in lists], weights)


def qdrant(lists, weights, k=1):
    """Emulate the fusion from version 1.17 on: 1 / (rank / weight + k - 1)."""
    out = [1 / (np.arange(1, len(s) + 1) / w + k - 1) for (_, s), w in zip(lists, weights, strict=True)]
    return added(lists, out, np.ones(len(lists)))


EMULATED = {
    "opensearch-hybrid": opensearch,
    "opensearch-lower-bounds": lambda lists, weights: opensearch(lists, weights, lower=0.0),
    "opensearch-l2": l2,
    "opensearch-rrf": rrf,
    "elasticsearch-linear": elasticsearch,
    "elasticsearch-l2": l2,
    "elasticsearch-rrf": rrf,
    "qdrant-rrf": qdrant,
    "weaviate": elasticsearch,
    "vespa": elasticsearch,
    "vespa-rrf": rrf,
    "langchain": rrf,
    "llamaindex": elasticsearch,
    "sql": elasticsearch,
}


def reversed_pairs(to, pool, weights):
    """Return the number of queries with a pair ordered differently than by the engine, beyond float32 rounding."""
    columns = clause_columns(pool.scores, pool.offsets, ENGINES[to].normalizer)
    wrong = 0
    for a, b in zip(pool.offsets[:-1], pool.offsets[1:], strict=True):
        lists, of_lists = [], []
        for s, weight in zip(pool.scores[a:b].T, weights, strict=True):
            later_first = -1 if to != "vespa-rrf" else 1
            order = np.lexsort((later_first * np.arange(b - a), -s))[: np.count_nonzero(~np.isnan(s))]
            if len(order):
                lists.append((order.tolist(), s[order].astype(F32)))
                of_lists.append(weight)
        total = EMULATED[to](lists, of_lists)
        engine = np.array([float(total.get(i, 0)) for i in range(b - a)])
        i, j = np.triu_indices(b - a, 1)
        ours, theirs = (columns[a:b] @ weights)[[i, j]], engine[[i, j]]
        apart = np.abs(theirs[0] - theirs[1]) > 4e-6 * np.abs(engine).max()
        wrong += int(((ours[0] - ours[1]) * (theirs[0] - theirs[1]) < 0)[apart].any())
    return wrong


def lists_of(rng, n=20, size=40, n_runs=4, gain=(3, 1, 0.5)):
    """Return runs of positive scores with missing documents, the last with a few equal scores; and judgments."""
    topics, documents, grades = [], [], []
    runs = [([], [], []) for _ in range(n_runs)]
    for q in range(n):
        grade = rng.integers(0, 3, size) * (rng.random(size) < 0.4)
        topics += [str(q)] * size
        documents += [f"d{i:02}" for i in range(size)]
        grades += grade.tolist()
        for j, columns in enumerate(runs):
            last = j == n_runs - 1
            chosen = np.flatnonzero(rng.random(size) < (0.05 if last else 0.7))
            scores = 7.5 + 0 * chosen if last else 5 + gain[j] * grade[chosen] + rng.gamma(2, 1, len(chosen))
            for kept, more in zip(columns, ([str(q)] * len(chosen), chosen, scores), strict=True):
                kept += list(more)
    named = {
        f"run{j}": Run.from_arrays(t, [f"d{i:02}" for i in d], s, tag=f"run{j}")
        for j, (t, d, s) in enumerate(runs)
    }
    return named, Qrels.from_arrays(topics, documents, grades)


@pytest.mark.parametrize("to", EMULATED)
def test_the_columns_are_those_of_the_engine(to):
    assert set(EMULATED) == set(ENGINES)
    rng = np.random.default_rng(1)
    runs, qrels = lists_of(rng)
    pool = candidates({name: run.top(20) for name, run in runs.items()}, qrels, depth=20)
    assert reversed_pairs(to, pool, rng.dirichlet(np.ones(4))) == 0


def test_a_lower_bound_of_0_takes_scores_of_0_beside_others():
    assert NORMALIZERS["by_max"](np.array([0.0, 2.0]), 1).tolist() == [0.001, 1.0]
    rejected("at least one of them > 0", NORMALIZERS["by_max"], np.zeros(2), 1)


def test_qdrant_is_linear_only_at_k_1():
    rng = np.random.default_rng(1)
    lists = [(list(range(9)), np.arange(9.0)), (list(range(8, -1, -1)), np.arange(9.0))]
    weights = rng.dirichlet(np.ones(2))
    assert qdrant(lists, weights, k=1) == pytest.approx(rrf(lists, weights, k=0))
    assert qdrant(lists, weights, k=61) != pytest.approx(rrf(lists, weights, k=60), rel=0.01)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*the rank column differs from the order")
@pytest.mark.parametrize("to", sorted(set(EMULATED) - {"vespa", "vespa-rrf", "weaviate"}))
def test_trec_dl_in_the_order_of_the_engine(to, shared_data):
    folder = shared_data("trec_dl2020_passage")
    qrels = read_qrels(folder / "qrels.txt.gz")
    names = ("p_bm25", "CoRT-standalone", "p_d2q_bm25", "indri-sdm", "TUW-TK-Sparse")
    if to.startswith("opensearch-l"):
        names = names[:1] + names[2:3]  # scores of the others are negative
    runs = {name: read_run(folder / f"runs/{name}.gz").top(100) for name in names}
    pool = candidates(runs, qrels, depth=100)
    pool = pool.select(pool.judged)
    assert pool.n_topics == 54
    assert reversed_pairs(to, pool, np.random.default_rng(0).dirichlet(np.ones(len(names)))) == 0


@pytest.fixture(scope="module")
def learned():
    runs, qrels = lists_of(np.random.default_rng(0), n=30, gain=(3, 0, 0))
    return hybrid_weights(runs, qrels, to="elasticsearch-linear", depth=30, n_boot=20), runs, qrels


def test_weights_where_one_list_is_better(learned):
    result, runs, qrels = learned
    assert result.weights.argmax() == 0
    assert result.weights.sum() == pytest.approx(1)
    assert np.all([result.weights >= 0, result.lower <= result.upper])
    assert result.advice.startswith(
        "take these weights: ndcg@10 on new queries differs from that of equal weights by +0"
    )
    assert result.against.keys() == {"equal weights", "RRF", "best single list"}
    assert 0 < result.estimate.lower < result.estimate.mean < result.estimate.upper < 1
    equal = result.estimate.mean - result.against["equal weights"].mean_difference
    assert f"ndcg@10 on new queries {result.estimate.mean:.3f} [" in str(result)
    assert f"against equal weights, {equal:.3f}: Comparison(" in str(result)
    assert "against best single list (run0), 0." in str(result)
    again = hybrid_weights(runs, qrels, to="elasticsearch-linear", depth=30, n_boot=20)
    assert np.array_equal(again.lower, result.lower)


def test_advice_names_what_is_better(learned):
    result = learned[0]

    def advice(weights=result.weights, **worse):
        against = {
            name: found._replace(**dict(zip(("mean_difference", "lower", "upper"), worse[key], strict=True)))
            for (name, found), key in zip(result.against.items(), ("equal", "rrf", "alone"), strict=True)
        }
        return dataclasses.replace(result, against=against, weights=np.asarray(weights)).advice

    better, level, worse = (0.02, 0.01, 0.03), (-0.01, -0.03, 0.01), (-0.02, -0.03, -0.01)
    assert advice(equal=better, rrf=better, alone=better) == (
        "take these weights: ndcg@10 on new queries differs from that of equal weights by +0.0200 [+0.0100, +0.0300]"
    )
    assert advice(equal=better, rrf=worse, alone=level).endswith(
        "+0.0300]; RRF is better by 0.0200; run0 alone is better by 0.0100, which is not significant"
    )
    assert ", which is not significant; judge" in advice(equal=level, rrf=level, alone=level)
    assert advice([1, 0, 0, 0], equal=better, rrf=better, alone=better).startswith(
        "take run0 alone: ndcg@10 on"
    )
    assert advice([0.25] * 4, equal=level, rrf=better, alone=better) == (
        "take equal weights: no other weights are better"
    )


def by_hand(pool, to, n_boot, queries, seed=0):
    """Return the average over bootstrap samples of the best weights, by loops, and the values of any weights.

    Other weights than equal ones have to be better by a standard error.
    """
    columns = clause_columns(pool.scores, pool.offsets, ENGINES[to].normalizer)
    n, m = pool.n_topics, pool.n_runs
    qid = np.repeat(np.arange(n), np.diff(pool.offsets))

    def values(weights):
        return evaluate("ndcg@10", pool.y, columns @ weights, qid=qid, ties="average").per_query

    grid = [np.full(m, 1 / m)]
    for share in (0.25, 0.5, 0.75, 0.9, 1):
        grid += [(1 - share) * grid[0] + share * row for row in np.eye(m)]
    table = [values(weights) for weights in grid]
    errors = [stats.sem((row - table[0])[queries]) * len(queries) for row in table]
    rng = np.random.default_rng([seed, len(queries)])
    total = np.zeros(m)
    for counts in rng.multinomial(len(queries), np.full(len(queries), 1 / len(queries)), size=n_boot):
        means = [sum(count * row[q] for count, q in zip(counts, queries, strict=True)) for row in table]
        able = [i for i, mean in enumerate(means) if i == 0 or mean - means[0] >= errors[i]]
        best = next(i for i in able if means[i] >= max(means[j] for j in able) - 1e-9)
        total += grid[best]
    return total / n_boot, values


def test_weights_and_estimate_are_the_plain_loops():
    runs, qrels = lists_of(np.random.default_rng(3), n=13, n_runs=3, gain=(1, 0.5, 0))
    pool = candidates(runs, qrels)
    pool = pool.select(np.argsort(pool.topics))
    result = hybrid_weights(runs, qrels, to="elasticsearch-linear", n_boot=30)
    weights, values = by_hand(pool, "elasticsearch-linear", 30, range(13))
    np.testing.assert_allclose(result.weights, weights)
    fold, held_out = np.random.default_rng(0).permutation(13) % 5, np.zeros(13)
    for k in range(5):
        chosen, _ = by_hand(pool, "elasticsearch-linear", 30, np.flatnonzero(fold != k))
        held_out[fold == k] = values(chosen)[fold == k]
    assert result.estimate.mean == pytest.approx(held_out.mean())
    difference = held_out - values(np.full(3, 1 / 3))
    assert result.against["equal weights"].mean_difference == pytest.approx(difference.mean())


@pytest.mark.parametrize("to", ["opensearch-hybrid", "qdrant-rrf", "sql"])
@pytest.mark.parametrize("with_ids", [True, False])
def test_results_do_not_depend_on_the_order_of_rows(to, with_ids):
    rng = np.random.default_rng(5)
    for _ in range(5):
        runs, qrels = lists_of(rng, n=11, size=15)
        pool = candidates(runs, qrels)
        pool = pool.select(pool.judged)

        def result_of(shuffled, pool=pool):
            rows = [np.arange(a, b) for a, b in pairwise(pool.offsets)]
            topics = rng.permutation(pool.n_topics) if shuffled else np.arange(pool.n_topics)
            order = np.concatenate([rng.permutation(rows[t]) if shuffled else rows[t] for t in topics])
            offsets = np.concatenate(([0], np.cumsum([len(rows[t]) for t in topics])))
            ids = pool.docid[order] if with_ids else None
            scores = pool.scores[order].round(1)  # with ties
            result = hybrid_weights(
                QueryData(scores, pool.y[order], offsets, pool.topics[topics], docid=ids),
                to=to,
                depth=8,
                n_boot=20,
            )
            return [
                *result.weights,
                *result.upper,
                result.estimate.mean,
                result.against["RRF"].mean_difference,
            ]

        assert result_of(True) == result_of(False)
        turned = {
            name: Run.from_dict(dict(list(run.to_dict().items())[::-1]), tag=name)
            for name, run in runs.items()
        }
        both = [hybrid_weights(each, qrels, to=to, depth=8, n_boot=20) for each in (runs, turned)]
        assert both[0].weights.tolist() == both[1].weights.tolist()
        assert both[0].estimate == both[1].estimate


def test_a_table_of_scores_is_the_same(learned):
    result, runs, qrels = learned
    pool = candidates(runs, qrels, depth=40)
    table = QueryData(pool.scores, pool.y, pool.offsets, pool.topics, feature_names=pool.names)
    same = hybrid_weights(table, to="elasticsearch-linear", depth=30, n_boot=20)
    np.testing.assert_allclose(same.weights, result.weights, rtol=1e-12)


def test_holes_that_are_written_as_zeros_are_noticed(learned):
    _, runs, qrels = learned
    pool = candidates(runs, qrels, depth=40)
    table = QueryData(np.nan_to_num(pool.scores), pool.y, pool.offsets, pool.topics)
    with pytest.warns(UserWarning, match=r"many scores are 0: score_1 \(..%\), .*; if the list lacks these"):
        hybrid_weights(table, to="elasticsearch-linear", depth=30, n_boot=2)


def test_ties_are_equal_weights_and_a_certain_choice_is_exact():
    """Lists that agree, and a list that ranks everything right beside useless ones."""
    rng = np.random.default_rng(0)
    y, qid = (rng.random(240) < 0.3).astype(float), np.repeat(np.arange(12), 20)
    result = hybrid_weights(
        QueryData.from_arrays(np.repeat(rng.random((240, 1)), 4, axis=1), y, qid),
        to="opensearch-hybrid",
        n_boot=20,
    )
    assert result.weights.tolist() == [0.25] * 4
    assert result.advice.startswith("take equal weights: no other")
    processor = json.loads(result.text())["phase_results_processors"][0]["normalization-processor"]
    assert processor["combination"]["parameters"]["weights"] == [0.25] * 4
    right = np.column_stack([y * 1e-3 + 1, rng.random((240, 1))])
    right[::20, 0] = 9.0  # an outlier, so that every other weight lets the second list decide
    y[::20] = 1.0
    result = hybrid_weights(QueryData.from_arrays(right, y, qid), to="sql", n_boot=20)
    assert result.weights.tolist() == [1.0, 0.0]
    assert result.advice.startswith(
        "take score_1 alone: ndcg@10 on new queries differs from that of equal weights by +0."
    )


BOUND = '{ "mode": "apply", "min_score": 0.0 }'
TEXTS = {
    "opensearch-hybrid": '"normalization": { "technique": "min_max" }',
    "opensearch-lower-bounds": f'"parameters": {{ "lower_bounds": [ {BOUND}, {BOUND} ] }}',
    "elasticsearch-linear": '{ "linear": { "rank_window_size": 100, "retrievers"',
    "elasticsearch-l2": '"weight": 0.6666666666666666, "normalizer": "l2_norm" }',
    "elasticsearch-rrf": '"weight": 0.6666666666666666 }',
    "vespa": "0.6666666666666666 * normalize_linear(dense)",
    "vespa-rrf": "0.6666666666666666 * reciprocal_rank(dense, 60)",
}
"""The parts in which configurations of one engine differ."""


def test_texts_have_the_weights_in_full():
    weights = [1 / 3, 2 / 3]
    for to, engine in ENGINES.items():
        text = engine.text(["bm25", "dense"], weights, 100, 60)
        assert repr(2 / 3) in text, to
        assert TEXTS.get(to, "") in " ".join(text.split())
        few = to.startswith(("opensearch", "weaviate"))
        assert {6, 99} & set(engine.clauses) == (set() if few else {6, 99})
        if text.startswith("{"):
            json.loads(text)


def test_sql_is_a_min_max_of_the_lists():
    rng = np.random.default_rng(0)
    weights = [0.3, 0.7]
    text = ENGINES["sql"].text(["bm25", "dense"], weights, 20, 60)
    for j, column in ((1, "a"), (2, "b")):
        text = text.replace(f"SCORE_{j}", column).replace(f"MATCH_{j}", f"{column} > 0")
    for trial in range(20):
        a, b = rng.gamma(2, 2, 60), np.full(60, 0.5) if trial % 5 == 0 else rng.beta(2, 2, 60)
        with sqlite3.connect(":memory:") as database:
            database.execute("create table docs(id integer, a real, b real)")
            database.executemany("insert into docs values(?, ?, ?)", zip(range(60), a, b, strict=True))
            rows = dict(database.execute(text).fetchall())
        lists = []
        for column in (a, b):
            order = np.argsort(-column, kind="stable")[:20]
            lists.append((order.tolist(), column[order]))
        expected = elasticsearch(lists, weights)
        assert sorted(rows.values())[::-1] == pytest.approx(sorted(expected.values())[::-1][:10], abs=1e-6)


@pytest.mark.parametrize(
    ("to", "n", "message"),
    [
        ("weaviate", 3, "expected 2 result lists for weaviate, got 3"),
        ("opensearch-hybrid", 6, "expected 2 to 5 .*, got 6"),
        ("vespa", 2, "expected a score of each clause for each document, as vespa computes all"),
        ("solr", 2, "to='solr': expected one of .*'opensearch-hybrid'"),
    ],
)
def test_what_an_engine_does_not_take_is_refused(to, n, message):
    runs, qrels = lists_of(np.random.default_rng(0), n=6, n_runs=n, gain=(1,) * n)
    rejected(message, hybrid_weights, runs, qrels, to=to)


def test_judgments_of_other_documents_and_too_few_queries_are_refused():
    runs, qrels = lists_of(np.random.default_rng(0), n=8)
    other = {topic: {f"x{doc}": grade for doc, grade in of.items()} for topic, of in qrels.to_dict().items()}
    rejected(
        "expected relevant documents among the results, got none",
        hybrid_weights,
        runs,
        Qrels.from_dict(other),
        to="sql",
    )
    rejected("read tables by readers.read_csv", hybrid_weights, pd.DataFrame({"a": [1.0]}), to="sql")
    few = lists_of(np.random.default_rng(0), n=4)
    rejected("expected at least 5 judged queries, got 4", hybrid_weights, *few, to="sql")


def test_vespa_ranks_the_earlier_of_equal_hits_first():
    """A stable sort of the hits, best first, as ``ReciprocalRankNormalizer`` of Vespa does it."""
    rng = np.random.default_rng(0)
    for n in (1, 2, 30):
        scores = np.where(rng.random((n, 2)) < 0.5, 0.0, rng.random((n, 2)).round(1))
        expected = np.empty_like(scores)
        for j in range(2):
            expected[np.argsort(-scores[:, j], kind="stable"), j] = 1 / (60 + np.arange(1, n + 1))
        assert np.array_equal(clause_columns(scores, np.array([0, n]), "hit_ranks", k=60), expected)


def test_vespa_fuses_the_first_hits():
    rng = np.random.default_rng(0)
    n, depth = 12, 20
    relevant = (rng.random(n * 30) < 0.3).astype(float)
    scores = np.abs(rng.normal(size=(n * 30, 2))) + relevant[:, None] * [2.0, 1.0]
    qid = np.repeat(np.arange(n), 30)
    first = np.tile(np.arange(30) < depth, n)
    both = [
        hybrid_weights(
            QueryData.from_arrays(scores[keep], relevant[keep], qid[keep]),
            to="vespa-rrf",
            depth=depth,
            n_boot=2,
        )
        for keep in (np.full(n * 30, True), first)
    ]
    assert np.array_equal(both[0].weights, both[1].weights)
    assert both[0].estimate.mean == both[1].estimate.mean


def test_a_list_of_zeros_has_the_lowest_score_of_opensearch():
    scores = np.array([[3.0, np.nan], [2.0, 0.0], [1.0, 0.0]])
    for normalizer in ("minmax_floor", "l2_floor"):
        assert clause_columns(scores, np.array([0, 3]), normalizer)[:, 1].tolist() == [0.0, 0.001, 0.001]
    scores[1:, 1] = 2.0
    assert clause_columns(scores, np.array([0, 3]), "minmax_floor")[:, 1].tolist() == [0.0, 1.0, 1.0]
