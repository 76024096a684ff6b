"""Queries without a constraint change no default fit."""

import numpy as np
import pytest

from structsvm import SVMNDCG, PairwiseSVM, StructuralRanker, SVMMap, SVMRoc
from structsvm.oracles import get_oracle
from structsvm.readers import make_ranking

LOSSES = ("map", "roc", "ndcg", "ndcg@3", "mrr", "precision@2", "pairs")
MODELS = {
    **{loss: StructuralRanker(loss, tol=1e-9) for loss in LOSSES},
    "SVMMap": SVMMap(tol=1e-9),
    "SVMRoc": SVMRoc(tol=1e-9),
    "SVMNDCG": SVMNDCG(tol=1e-9),
    "hinge, query": PairwiseSVM(normalize="query", tol=1e-9),
    "squared hinge, pairs": PairwiseSVM("squared_hinge", tol=1e-9),
    "squared hinge, query": PairwiseSVM("squared_hinge", normalize="query", tol=1e-9),
}


def with_empty_queries(rng, weighted):
    """Return rows of which some queries have no constraint, the rows of the others, and weights of all rows."""
    data = make_ranking(24, 7, 3, grades=3, noise=1.0, random_state=int(rng.integers(1 << 30)))
    empty = rng.permutation(24)[: rng.integers(1, 20)]
    kept = ~np.isin(data.qid, data.query_ids[empty])
    y = np.where(kept, data.y, rng.choice([0.0, -1.0]))
    weights = rng.integers(1, 5, 24).astype(float) if weighted else np.ones(24)
    weights[rng.choice(empty)] = rng.choice([0.0, 1.0, 100.0])
    return data, y, kept, np.repeat(weights, np.diff(data.offsets))


@pytest.mark.filterwarnings("ignore::structsvm.trainers.NothingLearnedWarning")
@pytest.mark.filterwarnings("ignore:.*quer.*:UserWarning")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_empty_queries_change_no_default_fit(name, weighted):
    rng = np.random.default_rng([len(name), weighted])
    for _ in range(4):
        data, y, kept, weights = with_empty_queries(rng, weighted)
        if len(np.unique(y[kept])) < 2:
            continue
        models = []
        for rows in (kept, slice(None)):
            model = MODELS[name].fit(
                data.X[rows],
                y[rows],
                qid=data.qid[rows],
                sample_weight=weights[rows] if weighted else None,
            )
            models.append((model.fit_, model.n_queries_ - model.n_uninformative_))
        (few, n_few), (all_, n_all) = models
        assert n_few == n_all
        assert all_.primal == pytest.approx(few.primal, rel=1e-8)
        np.testing.assert_allclose(all_.w, few.w, atol=2e-4 * np.abs(few.w).max())


def test_the_default_is_the_usual_C_of_the_queries_with_a_constraint():
    data = make_ranking(40, 10, 5, grades=2, noise=1.0, random_state=0)
    half = data.y * (np.arange(40).repeat(10) % 2)
    for loss in ("map", "ndcg@10"):
        usual = getattr(get_oracle(loss), "usual_C", 1.0)
        used = [StructuralRanker(loss).fit(data.X, y, qid=data.qid).fit_.C for y in (data.y, half)]
        assert used == [usual, 2.0 * usual]
    # a given C means what the objective says
    given = SVMMap(C=2.0, tol=1e-9).fit(data.X, half, qid=data.qid).fit_
    default = SVMMap(tol=1e-9).fit(data.X, half, qid=data.qid).fit_
    assert default.C == given.C
    assert default.primal == given.primal
