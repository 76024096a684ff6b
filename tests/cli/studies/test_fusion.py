"""Learned fusion: no topic is ranked by a model trained on it, and the measures are those of trec_eval."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import pytrec_eval

from structsvm.cli.studies.fusion import PoolJudge, cross_validate_fusion, fusion_path
from structsvm.cli.studies.fusion.cross_validation import LEARNED
from structsvm.cli.studies.fusion.summary import as_record, headline, table
from structsvm.features.binning import BinnedFeatures
from structsvm.features.scaling import minmax_within
from structsvm.metrics import compare, evaluate, holm
from structsvm.oracles import get_oracle
from structsvm.plots.pages import p_value
from structsvm.readers import make_runs
from structsvm.readers.qrels import Qrels, read_qrels
from structsvm.readers.run_features import candidates, judge_run
from structsvm.readers.runs import Run, read_run
from structsvm.trainers.passes import RankingProblem
from structsvm.trainers.path import train
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


@pytest.mark.parametrize("depth", [None, 7])
@pytest.mark.parametrize("measure", ["map", "ndcg@5", "mrr"])
def test_judge_is_the_evaluation_of_the_run(made, measure, depth):
    _, qrels, pool = made
    scores = np.random.default_rng(1).integers(0, 5, pool.n_rows).astype(float)  # many ties
    scores[::7] = np.nan
    run = pool.to_run(scores)
    witness = evaluate(measure, **judge_run(run.top(depth) if depth else run, qrels)._asdict(), ties="docid")
    order = [witness.query_ids.tolist().index(topic) for topic in pool.topics]
    judge = PoolJudge(pool, qrels, depth=depth)
    np.testing.assert_allclose(judge(scores, measure), witness.per_query[order])


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


def test_nested_cross_validation_is_the_plain_loop(made):
    _, qrels, pool = made
    result = cross_validate_fusion(pool, qrels, Cs=CS, folds=3, random_state=5)
    judge = PoolJudge(pool, qrels)
    rng = np.random.default_rng(5)
    fold = rng.permutation(12) % 3
    assert fold.tolist() == result.fold.tolist()
    for k in range(3):
        training, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        inside = rng.permutation(training.size) % 3
        values = np.zeros((pool.n_topics, 3))
        for j in range(3):
            fitted, held = training[inside != j], training[inside == j]
            for c, model in enumerate(fusion_path(pool.select(fitted), CS)):
                values[held, c] = judge(model.predict(pool))[held]
        means = values[training].mean(axis=0)
        assert result.chosen[k] == CS[int(np.argmax(means >= means.max() - 1e-12))]
        models = dict(zip(CS, fusion_path(pool.select(training), CS), strict=True))
        for t in test:
            rows = slice(pool.offsets[t], pool.offsets[t + 1])
            np.testing.assert_allclose(result.scores[rows], models[result.chosen[k]].predict(pool)[rows])
            np.testing.assert_allclose(result.curve[t], [judge(m.predict(pool))[t] for m in models.values()])
    np.testing.assert_allclose(result.values[LEARNED], judge(result.scores))


def test_judgments_of_a_topic_do_not_reach_its_ranking(made):
    _, qrels, pool = made
    before = cross_validate_fusion(pool, qrels, Cs=CS, folds=4)
    changed = 0
    for t in (0, 5):
        rows = slice(pool.offsets[t], pool.offsets[t + 1])
        y = pool.y.copy()
        y[rows] = 1 - (y[rows] > 0)  # what was relevant is not, and the reverse
        other = Qrels.from_arrays(pool.qid, pool.docid, y)
        after = cross_validate_fusion(replace(pool, y=y), other, Cs=CS, folds=4)
        same_fold = before.fold == before.fold[t]
        for s in np.flatnonzero(same_fold):
            mine = slice(pool.offsets[s], pool.offsets[s + 1])
            np.testing.assert_array_equal(after.scores[mine], before.scores[mine])
        changed += not np.array_equal(after.scores, before.scores)
    assert changed == 2  # the others did learn from it


def test_result_does_not_depend_on_threads_nor_on_the_order_of_runs(made, monkeypatch):
    path = "structsvm.cli.studies.fusion.cross_validation.fusion_path"
    monkeypatch.setattr(path, partial(fusion_path, tol=1e-8))
    runs, qrels, _ = made
    results = [
        cross_validate_fusion(candidates(order, qrels), qrels, Cs=CS, n_jobs=jobs)
        for order, jobs in ((runs, 1), (runs, 2), (runs[::-1], 2))
    ]
    np.testing.assert_array_equal(results[0].scores, results[1].scores)
    np.testing.assert_array_equal(results[0].model.coef, results[1].model.coef)
    assert results[0].chosen == results[2].chosen
    np.testing.assert_allclose(results[2].scores, results[0].scores, atol=2e-3)


def test_it_learns_what_there_is_to_learn():
    runs, qrels = make(40, 30, seed=2)
    result = cross_validate_fusion(candidates(runs, qrels), qrels, Cs=CS)
    means = {name: values.mean() for name, values in result.values.items()}
    assert result.best_run in ("half0", "half1")
    assert means[LEARNED] > means[result.best_run] + 0.05
    assert result.against(result.best_run) == compare(result.values[LEARNED], result.values[result.best_run])
    assert "significantly better than the best of 3 single runs" in headline(result)
    assert "(p < 0.0001); " in headline(result)
    spread = {s.name: np.ptp(s.values) for s in result.model.step_functions()}
    assert min(spread, key=spread.__getitem__) == "noise"


def test_a_model_ranks_new_runs_in_any_order_and_on_any_scale(made, model):
    pool = candidates(make(seed=9)[0])
    other = candidates(make(seed=9)[0][::-1])
    assert model.rank(other).docid.tolist() == model.rank(pool).docid.tolist()
    factor = np.repeat(2.0 ** np.arange(pool.n_topics), np.diff(pool.offsets))[:, None]
    np.testing.assert_allclose(model.predict(replace(pool, scores=pool.scores * factor)), model.predict(pool))


def test_refusals(made, model):
    runs, qrels, _ = made
    rejected(r"got none called 'noise' among 'half0', 'half1'", model.predict, candidates(runs[:2], qrels))
    rejected(r"got also 'more'", model.predict, candidates([*runs, replace(runs[0], tag="more")], qrels))
    runs, qrels = make(4)
    pool = candidates(runs, qrels)
    rejected(r"at least 5 topics of the runs for 5 x 3 folds, got 4", cross_validate_fusion, pool, qrels)
    rejected("folds=1: expected an integer >= 2", cross_validate_fusion, pool, qrels, folds=1)
    rejected("no topic has both relevant and other documents", next, fusion_path(pool, [1.0], relevance=9))


def test_topics_without_judgments_are_left_out_of_learning():
    runs, qrels = make(14)
    topics = np.repeat(qrels.topics, np.diff(qrels.offsets))
    judged = np.isin(topics, [f"t{i}" for i in range(12)])
    fewer = Qrels.from_arrays(topics[judged], qrels.docid[judged], qrels.grades[judged])
    pool = candidates(runs, fewer)
    result = cross_validate_fusion(pool, fewer, Cs=CS)
    assert (pool.n_topics, result.pool.n_topics) == (14, 12)
    alone = cross_validate_fusion(pool.select(pool.judged), fewer, Cs=CS)
    np.testing.assert_array_equal(alone.scores, result.scores)


def test_record_and_table_say_the_same(made):
    _, qrels, pool = made
    result = cross_validate_fusion(pool, qrels, Cs=CS, folds=3)
    record = as_record(result, per_query=True)
    assert len(record["per_query"][LEARNED]) == 12
    assert record["systems"][0]["mean"] == max(s["mean"] for s in record["systems"])
    tests = [s for s in record["systems"] if s["name"] != LEARNED]
    tests += [record["best_on_training"], record["best_sum_on_training"]]
    adjusted = holm([test["p_value"] for test in tests])
    np.testing.assert_allclose([test["holm"] for test in tests], adjusted)
    columns, rows = table(result)
    assert columns[-1].name == "Holm"
    assert sorted(row[-1] for row in rows if row[-1]) == sorted(map(p_value, adjusted[:-2]))


def test_a_run_named_as_a_fusion_keeps_its_own_row():
    runs, qrels = make()
    runs[0] = replace(runs[0], tag="CombSUM")
    result = cross_validate_fusion(candidates(runs, qrels), qrels, Cs=CS, folds=3)
    assert "CombSUM" in result.runs
    assert {"CombSUM (of these runs)", "CombMNZ", "RRF"} < result.values.keys()


@pytest.mark.slow
def test_robust_2003(shared_data):
    """Five real runs on a hundred topics, pooled to 50 documents."""
    folder = shared_data("trec_robust2003")
    qrels = read_qrels(folder / "qrels.txt.gz")
    names = ("pircRBa1", "aplrob03a", "uwmtCR0", "VTcdhgp1", "rutcor03100")
    runs = [read_run(folder / "runs" / f"input.{name}.gz", depth=50) for name in names]
    result = cross_validate_fusion(candidates(runs, qrels, depth=50), qrels, depth=50, n_jobs=2)
    assert result.best_run == "pircRBa1"
    assert result.values[LEARNED].mean() > result.values["pircRBa1"].mean()
    for name in ("CombSUM", "CombMNZ", "RRF"):
        assert result.against(name).mean_difference > 0
    run = result.pool.to_run(result.scores).top(50)
    judged = as_dict(qrels.topics, qrels.offsets, qrels.docid, qrels.grades)
    found = pytrec_eval.RelevanceEvaluator(judged, {"map"}).evaluate(run_dict(run))
    witness = [found[topic]["map"] for topic in result.pool.topics]
    np.testing.assert_allclose(result.values[LEARNED], witness, atol=1e-9)


def test_the_weighted_sum_that_one_could_have_chosen():
    """Compare topic by topic with the definition: weights and the number of runs come from the training topics."""
    runs, qrels, _ = make_runs(n_topics=9, random_state=3)
    pool = candidates(runs, qrels)
    result = cross_validate_fusion(pool, qrels, Cs=CS, folds=3)
    known, judge = result.pool, PoolJudge(result.pool, qrels)
    scaled = minmax_within(known.scores, known.offsets)
    for k in range(3):
        training = np.flatnonzero(result.fold != k)
        means = {i: np.mean([result.values[n][t] for t in training]) for i, n in enumerate(known.names)}
        order = sorted(means, key=lambda i: -means[i])
        found = {}
        for m in (1, 2, 3):
            total = [
                sum(means[i] * row[i] for i in order[:m] if row[i] == row[i])
                if any(row[i] == row[i] for i in order[:m])
                else np.nan
                for row in scaled
            ]
            found[m] = judge(np.array(total), "map")
        best = max(found, key=lambda m: np.mean(found[m][training]))
        assert result.sum_sizes[k] == best
        np.testing.assert_allclose(result.best_sum[result.fold == k], found[best][result.fold == k])
