"""Runs beside judgments: the rows to evaluate on, and pools against their definition."""

import numpy as np
import pytest

from structsvm.metrics import evaluate
from structsvm.queries import QueryData
from structsvm.readers import Qrels, Run, candidates, judge_run, read_qrels, read_run
from tests.refusing import rejected


def random_runs(seed, n_runs=4, n_topics=5):
    """Return runs as ``{topic: {docid: score}}``, with ties, missing topics, and topics without judgments."""
    rng = np.random.default_rng(seed)
    runs = []
    for _ in range(n_runs):
        run = {}
        for t in rng.permutation(n_topics)[: rng.integers(1, n_topics + 1)]:
            docs = rng.choice(30, rng.integers(1, 25), replace=False)
            run[f"t{t}"] = {f"d{d}": float(rng.integers(-3, 4)) for d in docs}
        runs.append(run)
    qrels = {
        f"t{t}": {f"d{d}": int(rng.integers(-1, 3)) for d in rng.choice(35, 12, replace=False)}
        for t in rng.permutation(n_topics + 2)[: n_topics + 1]
    }
    return runs, qrels


def build(seed):
    runs, qrels = random_runs(seed)
    objects = [Run.from_dict(run, tag=f"r{i}") for i, run in enumerate(runs)]
    return runs, qrels, objects, Qrels.from_dict(qrels)


def ranked(docs):
    return sorted(docs, key=lambda d: (docs[d], d), reverse=True)


@pytest.mark.parametrize("depth", [1, 3, 1000])
def test_a_pool_is_what_its_definition_says(depth):
    for seed in range(20):
        runs, qrels, objects, judgments = build(seed)
        pool = candidates(objects, judgments, depth=depth)
        assert set(pool.topics) == {t for run in runs for t in run}
        for t, topic in enumerate(pool.topics):
            a, b = pool.offsets[t], pool.offsets[t + 1]
            expected = sorted({d for run in runs for d in ranked(run.get(topic, {}))[:depth]})
            assert pool.docid[a:b].tolist() == expected
            assert pool.judged[t] == (topic in qrels)
            assert pool.y[a:b].tolist() == [qrels.get(topic, {}).get(d, 0) for d in expected]
            truth = [[run.get(topic, {}).get(d, np.nan) for run in runs] for d in expected]
            np.testing.assert_array_equal(pool.scores[a:b], truth)
            assert (pool.qid[a:b] == topic).all()


def test_the_order_of_the_runs_changes_columns_alone():
    _, _, objects, judgments = build(3)
    pool, back = candidates(objects, judgments), candidates(objects[::-1], judgments)
    order = [pool.topics.tolist().index(t) for t in back.topics]
    np.testing.assert_array_equal(pool.select(order).scores, back.scores[:, ::-1])
    assert pool.select(order).docid.tolist() == back.docid.tolist()


def test_selections():
    _, _, objects, judgments = build(5)
    pool = candidates({"a": objects[0], "b": objects[1], "c": objects[2]}, judgments)
    assert pool.names == ("a", "b", "c")
    training = pool.select(pool.judged)
    assert training.topics.tolist() == [t for t, j in zip(pool.topics, pool.judged, strict=True) if j]
    assert training.judged.all()
    assert pool.select([-1]).docid.tolist() == pool.docid[pool.offsets[-2] :].tolist()
    two = pool.select_runs(["c", "a"])
    np.testing.assert_array_equal(two.scores, pool.scores[:, [2, 0]])
    assert two.names == ("c", "a")
    rejected("names: expected some of a, b, c, got 'd'", pool.select_runs, ["d"])
    data = QueryData.from_arrays(np.nan_to_num(pool.scores), pool.y, pool.qid, docid=pool.docid)
    assert data.order is None  # already grouped: nothing is copied
    assert data.offsets.tolist() == pool.offsets.tolist()


def test_scores_of_candidates_make_a_run_and_nan_leaves_out():
    runs, _, objects, _ = build(7)
    pool = candidates(objects)
    again = pool.to_run(pool.scores[:, 1], tag="again")
    for t, a, b in zip(again.topics, again.offsets[:-1], again.offsets[1:], strict=True):
        assert again.docid[a:b].tolist() == ranked(runs[1][t])
    assert again.n_rows == objects[1].n_rows
    rejected("scores: expected one for each of the", pool.to_run, np.zeros(3))


def test_names_are_distinct_tags():
    one = [Run.from_arrays([1], ["d"], [1.0], tag=tag) for tag in ("x", "x", "y", "x", "x#2")]
    assert candidates(one).names == ("x", "x#2", "y", "x#3", "x#2#2")


def test_what_cannot_be_pooled():
    _, _, runs, _ = build(0)
    other = Qrels.from_arrays(["<script>"], ["d"], [1])
    by_subtopic = Qrels.from_arrays([1], ["d"], [1], subtopic=[1])
    for call, message in (
        (lambda: candidates([]), "runs: expected at least one"),
        (lambda: candidates(runs, depth=0), "depth=0: expected an integer >= 1"),
        (
            lambda: candidates(runs, other),
            "qrels: expected judgments of the runs' topics .*got those of '<script>'",
        ),
        (
            lambda: judge_run(runs[0], other),
            "at least one judged topic, got none; the judged topics are '<sc",
        ),
        (lambda: candidates(runs, by_subtopic), "got judgments by subtopic"),
        (lambda: judge_run(runs[0], by_subtopic), "got judgments by subtopic"),
    ):
        rejected(message, call)
    assert not candidates(runs).judged.any()


@pytest.mark.filterwarnings("ignore:.* have equal scores:UserWarning")
@pytest.mark.parametrize("complete", [True, False])
def test_judged_rows_give_the_figures_of_trec_eval(complete):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    compared = 0
    for seed in range(25):
        runs, qrels, objects, judgments = build(seed)
        for docs in qrels.values():  # pytrec_eval writes out of bounds if no grade of a topic is >= 0
            docs[min(docs)] = max(0, docs[min(docs)])
        judgments = Qrels.from_dict(qrels)
        run = runs[seed % 4]
        if not run.keys() & qrels.keys():
            continue
        truth = pytrec_eval.RelevanceEvaluator(qrels, {"map", "ndcg"}).evaluate(run)
        judged = judge_run(objects[seed % 4], judgments, complete=complete)
        for name in ("map", "ndcg"):
            result = evaluate(name, **judged._asdict())
            assert set(result.query_ids) == (set(qrels) if complete else set(truth))
            for topic, value in zip(result.query_ids, result.per_query, strict=True):
                assert value == pytest.approx(truth.get(topic, {name: 0.0})[name], abs=1e-12)
                compared += topic in truth
    assert compared > 50


def test_average_precision_of_a_submitted_run(shared_data):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    folder = shared_data("trec_robust2003")
    run_path, qrels_path = folder / "runs" / "input.pircRBa1.gz", folder / "qrels.txt.gz"
    run, qrels = read_run(run_path), read_qrels(qrels_path)
    result = evaluate("map", **judge_run(run, qrels)._asdict())
    truth = pytrec_eval.RelevanceEvaluator(qrels.to_dict(), {"map"}).evaluate(run.to_dict())
    assert result.mean == pytest.approx(0.3100, abs=1e-4)
    np.testing.assert_allclose(
        result.per_query, [truth[t]["map"] for t in result.query_ids], rtol=0, atol=1e-12
    )


def test_a_run_of_other_ids_than_the_judged_is_said():
    judged = [f"ft-{i}" for i in range(10)]
    qrels = Qrels.from_arrays(["t"] * 10, judged, [1, 0] * 5)
    other = [name.upper() for name in judged]
    message = (
        "ranks no judged document; .* topic t has the judged documents 'ft-0', .*, and the ranked ones 'FT-"
    )
    with pytest.warns(UserWarning, match=message):
        judge_run(Run.from_arrays(["t"] * 10, other, range(10)), qrels)
    judge_run(Run.from_arrays(["t"] * 10, [*other[1:], "ft-1"], range(10)), qrels)
