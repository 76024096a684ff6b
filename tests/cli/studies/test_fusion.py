"""Learned fusion: no topic is ranked by a model trained on it, and the measures are those of trec_eval."""

from dataclasses import replace

import numpy as np
import pytest
import pytrec_eval

from structsvm.cli.studies.fusion import LEARNED, cross_validate_fusion
from structsvm.estimators import crossed, fusion_path, select_C
from structsvm.features import BinnedFeatures
from structsvm.metrics import compare, evaluate
from structsvm.oracles import get_oracle
from structsvm.readers import Qrels, Run, candidates, judge_run, read_qrels, read_run
from structsvm.trainers import RankingProblem, train
from tests.refusing import rejected

CS = (0.1, 1.0, 10.0)


def make(n_topics=12, n_docs=20, seed=0):
    """Return two runs with half of the relevant documents each, an incomplete run of noise, and unjudged documents."""
    rng = np.random.default_rng(seed)
    topics = np.repeat([f"t{i}" for i in range(n_topics)], n_docs)
    docid = np.array([f"d{i}-{j}" for i in range(n_topics) for j in range(n_docs)])
    hidden = rng.normal(size=(topics.size, 2))
    grade = (hidden.sum(axis=1) > 1).astype(int) + (hidden.sum(axis=1) > 2.2)
    scale = np.repeat(rng.uniform(1, 100, n_topics), n_docs)  # every topic on a scale of its own
    runs = [
        Run.from_arrays(
            topics, docid, scale * (hidden[:, i] + 0.3 * rng.normal(size=topics.size)), tag=f"half{i}"
        )
        for i in (0, 1)
    ]
    kept = rng.random(topics.size) < 0.6
    runs.append(
        Run.from_arrays(topics[kept], docid[kept], rng.integers(0, 4, kept.sum()).astype(float), tag="noise")
    )
    missed = [f"t{i}" for i in range(n_topics) for _ in range(i % 3)]
    names = [f"missed{i}" for i in range(len(missed))]
    judged = rng.random(topics.size) < 0.9
    qrels = Qrels.from_arrays(
        [*topics[judged], *missed], [*docid[judged], *names], [*grade[judged], *([1] * len(missed))]
    )
    return runs, qrels


@pytest.fixture(scope="module")
def made():
    """Return runs, judgments, and the pool of documents."""
    runs, qrels = make()
    return runs, qrels, candidates(runs, qrels)


@pytest.fixture(scope="module")
def model(made):
    (model,) = fusion_path(made[2], [1.0])
    return model


def as_dict(topics, offsets, docid, values):
    return {
        topic: dict(zip(docid[a:b].tolist(), values[a:b].tolist(), strict=True))
        for topic, a, b in zip(topics.tolist(), offsets[:-1], offsets[1:], strict=True)
    }


def run_dict(run):
    return as_dict(run.topics, run.offsets, run.docid, run.scores)


def test_model_is_the_optimum_on_written_out_indicators(made):
    pool = made[2]
    (model,) = fusion_path(pool, [1.0], tol=1e-6)
    X = BinnedFeatures(within="query").fit(pool.scores, qid=pool.qid).transform(pool.scores, qid=pool.qid)
    problem = RankingProblem(X, pool.offsets, get_oracle("map").bind(pool.y, pool.offsets))
    witness = train(problem, 1.0, tol=1e-6, solver="one_slack")
    assert model.certificate.primal == pytest.approx(witness.primal, rel=3e-6)
    np.testing.assert_allclose(model.predict(pool), X @ model.coef)


def test_step_functions_add_up_to_the_score(made, model):
    run = made[2].select([3])
    low, high = np.nanmin(run.scores, axis=0), np.nanmax(run.scores, axis=0)
    total = np.zeros(run.n_rows)
    for f, step in enumerate(model.step_functions()):
        assert step.name == model.names[f]
        for r, score in enumerate((run.scores[:, f] - low[f]) / (high[f] - low[f])):
            if not np.isnan(score):
                total[r] += step.values[(score > step.thresholds + 1e-12).sum()]
    np.testing.assert_allclose(model.predict(run), total, atol=1e-12)


def named(runs):
    return {run.tag: run for run in runs}


@pytest.mark.parametrize("depth", [7, 1000])
def test_cross_validation_is_the_plain_loop(made, depth):
    runs, qrels, _ = made
    result = cross_validate_fusion(named(runs), qrels, Cs=CS, folds=3, random_state=5, depth=depth)
    pool = candidates([run.top(depth) for run in runs], qrels, depth=depth)
    order = sorted(range(12), key=lambda t: pool.topics[t])
    fold = np.empty(12, dtype=int)
    fold[order] = np.random.default_rng(5).permutation(12) % 3

    def judged(scores):
        found = evaluate("map", **judge_run(pool.to_run(scores).top(depth), qrels)._asdict())
        return dict(zip(found.query_ids, found.per_query, strict=True))

    models = [list(fusion_path(pool.select(fold != k), CS)) for k in range(3)]
    values = np.zeros((12, 3))
    for c in range(3):
        for k in range(3):
            found = judged(models[k][c].predict(pool))
            for t in np.flatnonzero(fold == k):
                values[t, c] = found[pool.topics[t]]
    np.testing.assert_allclose(result.curve, values.mean(axis=0))
    assert result.chosen == tuple(select_C(np.array(CS), values[fold != k]) for k in range(3))
    scores = np.zeros(pool.n_rows)
    for k in range(3):
        rows = np.isin(pool.qid, pool.topics[fold == k])
        scores[rows] = models[k][CS.index(result.chosen[k])].predict(pool)[rows]
    assert result.run.docid.tolist() == pool.to_run(scores).top(depth).docid.tolist()
    # the estimate is the crossing of the estimators with cross-validation, and the measure of the written run
    assert result.estimate.mean == pytest.approx(crossed(np.array(CS), values, fold).mean())
    found = judged(scores)
    np.testing.assert_allclose(
        result.table.results[LEARNED, "map"].per_query, [found[topic] for topic in pool.topics]
    )
    best = [max(named(runs), key=lambda n: alone(result, n)[fold != k].mean()) for k in range(3)]
    assert result.best_on_training == tuple(best)
    baseline = np.array([alone(result, best[k])[t] for t, k in enumerate(fold)])
    difference = result.table.results[LEARNED, "map"].per_query - baseline
    assert result.estimate.difference.mean_difference == pytest.approx(difference.mean())


def alone(result, name):
    return result.table.results[name, "map"].per_query


def test_judgments_of_a_topic_do_not_reach_its_ranking(made):
    """The judgments reach a topic only through the C of its fold, which is fixed here."""
    runs, qrels, pool = made
    before = cross_validate_fusion(named(runs), qrels, Cs=[1.0], folds=4)
    for t in (0, 5):
        rows = slice(pool.offsets[t], pool.offsets[t + 1])
        y = pool.y.copy()
        y[rows] = 1 - (y[rows] > 0)  # relevant documents become irrelevant, and the reverse
        after = cross_validate_fusion(
            named(runs), Qrels.from_arrays(pool.qid, pool.docid, y), Cs=[1.0], folds=4
        )
        ranked = [run_dict(result.run) for result in (before, after)]
        assert ranked[0][pool.topics[t]] == ranked[1][pool.topics[t]]
        assert ranked[0] != ranked[1]  # models of other topics learned from it


def test_result_does_not_depend_on_threads_nor_on_the_order_of_runs_and_topics(made):
    runs, qrels, _ = made
    turned = [
        Run.from_dict({topic: of[topic] for topic in sorted(of, reverse=True)}, tag=run.tag)
        for run, of in ((run, run.to_dict()) for run in runs[::-1])
    ]
    results = [
        cross_validate_fusion(named(order), qrels, Cs=CS, n_jobs=jobs, tol=1e-8)
        for order, jobs in ((runs, 1), (runs, 2), (turned, 2))
    ]
    np.testing.assert_array_equal(results[0].run.scores, results[1].run.scores)
    np.testing.assert_array_equal(results[0].model.coef, results[1].model.coef)
    assert sorted(results[0].chosen) == sorted(results[2].chosen)
    first, third = (run_dict(result.run) for result in (results[0], results[2]))
    for topic, of in first.items():
        assert third[topic] == pytest.approx(of, abs=2e-3)


def test_it_learns_what_there_is_to_learn():
    runs, qrels = make(40, 30, seed=2)
    result = cross_validate_fusion(named(runs), qrels, Cs=CS)
    means = dict(zip(result.table.names, result.table.means()[:, 0], strict=True))
    for name in ("half0", "half1"):
        assert means[LEARNED] > means[name] + 0.05
        assert result.table.comparisons[name, "map"] == compare(
            result.table.results[name, "map"], result.table.results[LEARNED, "map"]
        )
    assert set(result.best_on_training) <= {"half0", "half1"}
    assert "better than the baseline by 0." in "".join(result.lines())
    spread = {s.name: np.ptp(s.values) for s in result.model.step_functions()}
    assert min(spread, key=spread.__getitem__) == "noise"


def test_a_model_ranks_new_runs_in_any_order_and_on_any_scale(made, model):
    pool = candidates(make(seed=9)[0])
    assert model.rank(candidates(make(seed=9)[0][::-1])).docid.tolist() == model.rank(pool).docid.tolist()
    factor = np.repeat(2.0 ** np.arange(pool.n_topics), np.diff(pool.offsets))[:, None]
    np.testing.assert_allclose(model.predict(replace(pool, scores=pool.scores * factor)), model.predict(pool))


def test_refusals(made, model):
    runs, qrels, _ = made
    rejected(r"got none called 'noise' among 'half0', 'half1'", model.predict, candidates(runs[:2], qrels))
    rejected(r"got also 'more'", model.predict, candidates([*runs, replace(runs[0], tag="more")], qrels))
    runs, qrels = make(4)
    pool, few = candidates(runs, qrels), named(runs)
    rejected(r"at least 5 topics of the runs for 5 folds, got 4", cross_validate_fusion, few, qrels)
    rejected("folds=1: expected an integer >= 2", cross_validate_fusion, few, qrels, folds=1)
    rejected("no topic has both relevant and other documents", next, fusion_path(pool, [1.0], relevance=9))


def test_topics_without_judgments_are_left_out_of_learning():
    runs, qrels = make(14)
    topics = np.repeat(qrels.topics, np.diff(qrels.offsets))
    judged = np.isin(topics, [f"t{i}" for i in range(12)])
    fewer = Qrels.from_arrays(topics[judged], qrels.docid[judged], qrels.grades[judged])
    result = cross_validate_fusion(named(runs), fewer, Cs=CS)
    assert (result.run.n_topics, result.pool.n_topics) == (14, 12)
    within = [
        Run.from_dict({topic: run.to_dict()[topic] for topic in fewer.topics}, tag=run.tag) for run in runs
    ]
    judged_only = cross_validate_fusion(named(within), fewer, Cs=CS)
    np.testing.assert_array_equal(judged_only.model.coef, result.model.coef)
    ranked = run_dict(result.run)
    assert run_dict(judged_only.run) == {topic: ranked[topic] for topic in fewer.topics}


def test_a_run_named_as_a_fusion_keeps_its_own_row():
    runs, qrels = make()
    runs[0] = replace(runs[0], tag="CombSUM")
    result = cross_validate_fusion(named(runs), qrels, Cs=CS, folds=3)
    assert "CombSUM" in result.runs
    assert {"CombSUM (of these runs)", "CombMNZ", "RRF"} < set(result.table.names)


@pytest.mark.slow
def test_robust_2003(shared_data):
    """Five real runs on a hundred topics, pooled to 50 documents."""
    folder = shared_data("trec_robust2003")
    qrels = read_qrels(folder / "qrels.txt.gz")
    names = ("pircRBa1", "aplrob03a", "uwmtCR0", "VTcdhgp1", "rutcor03100")
    runs = [read_run(folder / "runs" / f"input.{name}.gz", depth=50) for name in names]
    result = cross_validate_fusion(named(runs), qrels, depth=50, n_jobs=2)
    means = dict(zip(result.table.names, result.table.means()[:, 0], strict=True))
    assert set(result.best_on_training) == {"pircRBa1"}
    assert means[LEARNED] == max(means.values())
    judged = as_dict(qrels.topics, qrels.offsets, qrels.docid, qrels.grades)
    found = pytrec_eval.RelevanceEvaluator(judged, {"map"}).evaluate(run_dict(result.run))
    witness = [found[topic]["map"] for topic in result.pool.topics]
    np.testing.assert_allclose(result.table.results[LEARNED, "map"].per_query, witness, atol=1e-9)
