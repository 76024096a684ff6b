"""The experiments on the baselines: their parts by hand, and one small run from end to end that resumes."""

import numpy as np
import pytest
from scipy import stats


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


@pytest.fixture
def gradients(load):
    return load("lambdarank_gradients")
