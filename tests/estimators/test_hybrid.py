"""Hybrid weights: the fusions of engines, emulated in float32 over dictionaries, rank documents like the columns."""

import json
import sqlite3

import numpy as np
import pandas as pd
import pytest

from structsvm.estimators import hybrid_weights
from structsvm.export.hybrid import ENGINES
from structsvm.features.hybrid import NORMALIZERS, clause_columns
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
@pytest.mark.filterwarnings("ignore:.*the rank column contradicts the order")
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


def test_weights_are_learned_where_one_list_is_better(learned):
    result, runs, qrels = learned
    assert result.weights.argmax() == 0
    assert result.weights.sum() == pytest.approx(1)
    assert np.all([result.weights >= 0, result.lower <= result.upper])
    beaten = result.against | {"RRF": result.against["RRF"]._replace(mean_difference=-0.02, upper=-0.01)}
    assert "RRF is better by 0.0200" in type(result)(**vars(result) | {"against": beaten}).advice
    assert result.advice.startswith("take the learned weights: +")
    assert result.against.keys() == {"equal weights", "RRF", "best single list"}
    assert 0 < result.estimate.lower < result.estimate.mean < result.estimate.upper < 1
    equal = result.estimate.mean - result.against["equal weights"].mean_difference
    assert f"ndcg@10 on new queries {result.estimate.mean:.3f} [" in str(result)
    assert f"against equal weights, {equal:.3f}: Comparison(" in str(result)
    assert "against best single list (run0), 0." in str(result)
    assert np.array_equal(result.recommended, result.weights)
    again = hybrid_weights(runs, qrels, to="elasticsearch-linear", depth=30, n_boot=20)
    assert np.array_equal(again.lower, result.lower)


def test_a_table_of_scores_is_the_same(learned):
    result, runs, qrels = learned
    pool = candidates(runs, qrels, depth=40)
    table = QueryData(pool.scores, pool.y, pool.offsets, pool.topics, feature_names=pool.names)
    same = hybrid_weights(table, to="elasticsearch-linear", depth=30, n_boot=2)
    np.testing.assert_allclose(same.weights, result.weights, rtol=1e-12)


def test_holes_that_are_written_as_zeros_are_noticed(learned):
    _, runs, qrels = learned
    pool = candidates(runs, qrels, depth=40)
    table = QueryData(np.nan_to_num(pool.scores), pool.y, pool.offsets, pool.topics)
    with pytest.warns(UserWarning, match=r"many scores are 0: score_1 \(..%\), .*; if the list lacks these"):
        hybrid_weights(table, to="elasticsearch-linear", depth=30, n_boot=2)


def test_equal_weights_are_kept_where_nothing_better_is_shown():
    runs, qrels = lists_of(np.random.default_rng(2), n=12, gain=(1, 1, 1))
    result = hybrid_weights(runs, qrels, to="opensearch-hybrid", n_boot=5)
    assert not result.better
    assert result.recommended.tolist() == [0.25] * 4
    assert result.advice.startswith("keep equal weights: the learned ones are not shown to be better")
    processor = json.loads(result.text())["phase_results_processors"][0]["normalization-processor"]
    assert processor["combination"]["parameters"]["weights"] == [0.25] * 4
    # two resamples: of one nothing is learned, which are equal weights, of the other the last list alone
    worse = lists_of(np.random.default_rng(0), n=12, gain=(-3, -3, -3))
    result = hybrid_weights(*worse, to="sql", n_boot=2)
    assert result.lower == pytest.approx([0.25 * 0.025] * 3 + [0.25 + 0.75 * 0.025])


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
        ("weaviate", 3, "expected 2 for weaviate, got 3"),
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
    message = "expected relevant documents among the results, got none"
    rejected(message, hybrid_weights, runs, Qrels.from_dict(other), to="sql")
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
