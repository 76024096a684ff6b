"""The experiments on the baselines: their parts by hand, and one small run from end to end that resumes."""

import json

import numpy as np
import pytest
from scipy import stats

from structsvm.metrics import evaluate
from structsvm.queries import QueryData


@pytest.fixture
def lcra(load):
    return load("lcra_letor")


def tiny(lcra):
    return lcra.Plan(
        n_steps=200, eta_0=(0.1,), lam=(1e-2,), mu=(0.1,), shares=(0.2, 0.5), views=(2,), varied_mu=(0.1,)
    )


def test_a_split_has_the_sizes_of_the_protocol_and_mixes_nothing(lcra, monkeypatch):
    bench = lcra.Bench(lcra.make_views(0, n_queries=50, length=8, width=4))
    seen = []
    train = lcra.train

    def spy(setting, known, rest, n_steps, seed):
        seen.append((setting, set(known.qid), set(rest.qid)))
        return train(setting, known, rest, n_steps, seed)

    monkeypatch.setattr(lcra, "train", spy)
    result = lcra.trial(bench, tiny(lcra), 3)
    test = set(result["test"])
    assert len(test) == 15
    for _, known, rest in seen:
        assert not known & rest
        assert not (known | rest) & test
    final = [(s, known, rest) for s, known, rest in seen if len(known) + len(rest) == 35]
    assert {len(known) for s, known, _ in final if s.l == 1} == {7}
    assert {len(known) for s, known, _ in final if s.views is None} >= {7, 35}  # SPD, and with all labels
    assert set(result["methods"]) == {
        f"{m} {w}"
        for m in ("LCRA-1-5", "LCRA-1-1", "SPD", "SPD-MV", "SPD, all labels")
        for w in ("last", "average")
    }


def test_last_and_averaged_weights_are_those_of_the_estimator(lcra):
    bench = lcra.Bench(lcra.make_views(0, n_queries=20, length=8, width=4))
    known, rest = bench.part(np.arange(5)), bench.part(np.arange(5, 20))
    setting = lcra.Setting(0.1, 1e-2, 0.1, 5, 3)
    coefs = lcra.train(setting, known, rest, 500, 7)
    for name, average in (("last", False), ("average", True)):
        model = lcra.CoRegularizedSGD(
            3, l=5, mu=0.1, lam=1e-2, eta_0=0.1, n_steps=500, random_state=7, average=average
        )
        model.fit(known.X, known.y, qid=known.qid, X_unlabeled=rest.X, qid_unlabeled=rest.qid)
        assert coefs[name] == pytest.approx(model.coef_, abs=1e-15)


def test_intervals(lcra):
    d = np.array([0.1, 0.3, -0.1, 0.2, 0.0])
    found = lcra.difference(d, 0.3)
    low, high = stats.t.interval(0.95, 4, loc=d.mean(), scale=stats.sem(d))
    assert (found.mean - found.narrow, found.mean + found.narrow) == pytest.approx((low, high))
    # Nadeau and Bengio: 1/J + n_test/n_train in place of 1/J
    assert found.wide / found.narrow == pytest.approx(np.sqrt((1 / 5 + 3 / 7) / (1 / 5)))


def test_a_run_resumes_and_says_the_same(lcra, argv, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(lcra, "QUICK", tiny(lcra))
    monkeypatch.setattr(lcra, "data_sets", lambda run: [(lcra.MADE, lcra.make_views(0, 30, 8, 4))])
    argv(f"lcra_letor --quick --runs 2 --out {tmp_path}")
    lcra.main()
    first = json.loads((tmp_path / "lcra_letor.json").read_text())
    monkeypatch.setattr(lcra, "trial", None)  # nothing is computed again
    lcra.main()
    again = json.loads((tmp_path / "lcra_letor.json").read_text())
    for record in (first, again):
        for part in record["parts"].values():
            del part["cpu seconds"]
    timeless = [{k: v for k, v in record.items() if "seconds" not in k} for record in (first, again)]
    assert timeless[0] == timeless[1]
    text = (tmp_path / "lcra_letor.md").read_text()
    assert "LCRA-1-5 – SPD-MV" in text
    assert (tmp_path / "lcra_letor.png").exists()


@pytest.fixture
def gradients(load):
    return load("lambdarank_gradients")


@pytest.mark.slow
def test_smoothed_gradient_is_that_of_the_smoothed_measure(gradients):
    data = gradients.beyond_linear(0, n_queries=10, length=8)
    scene = gradients.Scene(data, data.X, ("ndcg@10",))
    w = np.random.default_rng(1).normal(size=10)
    samples = gradients.smoothed_gradients(scene, w, 3000, np.random.default_rng(2))[:, 0]
    g = samples.mean(axis=0)
    error = samples.std(axis=0, ddof=1) / np.sqrt(3000)
    assert abs(g @ w) < 1e-9 * np.linalg.norm(w)  # along w no ranking changes

    # the smoothed measure itself, by its definition, a little up and down one direction across w
    u = gradients.across(w, np.random.default_rng(3))
    u /= np.linalg.norm(u)
    size, h, values = gradients.SMOOTHING / np.sqrt(10), 0.02, []
    rng = np.random.default_rng(4)
    for _ in range(3000):
        z = size * gradients.across(w, rng)
        up, down = (w + s * h * np.linalg.norm(w) * u + z for s in (1, -1))
        values.append((scene.values(up)[0] - scene.values(down)[0]) / (2 * h))
    slope, slack = np.mean(values), np.std(values, ddof=1) / np.sqrt(3000)
    assert abs(slope) > 4 * slack  # there is something to agree on
    assert g @ u == pytest.approx(
        slope, abs=4 * (slack + float(np.sqrt((error**2) @ (u**2)))) + 0.05 * abs(slope)
    )


def test_values_are_those_of_training(gradients):
    data = gradients.beyond_linear(0, n_queries=20, length=8)
    scores = data.X[:, 0]
    _, values = gradients.forces(scores, data.y, data.offsets, gradients.Utility.of("ndcg@10"))
    assert gradients.measured("ndcg@10", data, scores) == pytest.approx(values.mean())
    assert evaluate("ndcg@10", data.y, scores, qid=data.qid).mean != pytest.approx(values.mean())


def test_ways_to_choose_a_linear_ranker_by_hand(load):
    """Two splits, with a test part of one query whose relevant document is the second of three."""
    linear = load("linear_search")
    test = QueryData.from_arrays(np.zeros((3, 1)), np.array([0.0, 1, 0]), np.zeros(3))
    means, scores = np.zeros((2, 8, 11)), np.zeros((8, 11, 3))
    means[:, 3, 2] = 0.6  # values and percentiles together are a choice of their own
    means[0, 1, 3], means[1, 1, 3], means[1, 4, 5] = 0.5, 0.1, 0.4
    means[0, 0, 0] = means[1, 0, 0] = 0.3  # with several deals as good as the first: 0.3 against 0.3 and 0.2
    scores[1, 3], scores[4, 0], scores[0, 0] = [1, 0, 0], [0, 3, 0], [0, 1, 2]
    values = np.random.default_rng(0).random((8, 11, 2))
    found = {"means": means, "one_se": np.full((2, 8), 2), "scores": scores, "values": values}
    by_name = linear.by_strategy([found], [test], 0)
    np.testing.assert_array_equal(by_name["best mean"], values[[1], 3])
    np.testing.assert_array_equal(by_name["one standard error"], values[[1], 2])
    np.testing.assert_array_equal(by_name["best mean of 2 deals"], values[[0], 0])
    np.testing.assert_array_equal(by_name["values and percentiles"], values[[3], 2])
    # scores 1, 4, 2: the best C of the others is the first, where all but that of the fifth choice are zero
    assert by_name["average"][0].tolist() == [1.0, 1.0]
    assert linear.by_strategy([found], [test], 1)["best mean"].tolist() == [values[4, 5].tolist()]
