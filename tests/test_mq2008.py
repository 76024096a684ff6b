"""The main job on real data: LETOR 4.0 MQ2008, five folds, C chosen on the validation part."""

import numpy as np

from structsvm.metrics import evaluate
from structsvm.oracles import get_oracle
from structsvm.queries import QueryData
from structsvm.readers import read_letor
from structsvm.trainers.passes import RankingProblem
from structsvm.trainers.path import fit_path


def test_svm_map_on_five_folds(shared_data):
    """Above the published RankSVM-Struct (0.4696) and the 0.475 that exact training on a full grid should reach."""
    parts = [read_letor(shared_data(f"letor4_mq2008/S{i}.txt.gz")) for i in range(1, 6)]

    def mean_ap(part, w):
        return evaluate("map", part.y, part.X @ w, qid=part.qid, convention="letor4").mean

    tests = []
    for fold in range(5):
        three = [parts[(fold + i) % 5] for i in range(3)]
        train = QueryData.from_arrays(
            np.vstack([p.X for p in three]),
            np.concatenate([p.y for p in three]),
            np.concatenate([p.qid for p in three]),
        )
        validation, test = parts[(fold + 3) % 5], parts[(fold + 4) % 5]
        separator = get_oracle("map").bind(train.y, train.offsets)
        fits = list(
            fit_path(RankingProblem(train.X, train.offsets, separator), np.logspace(-2, 5, 22).tolist())
        )
        assert all(fit.gap <= 1e-3 for fit in fits)
        best = max(fits, key=lambda fit: mean_ap(validation, fit.w))
        tests.append(mean_ap(test, best.w))
    assert np.mean(tests) >= 0.475
