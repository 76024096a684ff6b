"""Simulations on a backend of joblib give the results of this process."""

import warnings
from functools import partial

import numpy as np
import pytest

from structsvm.checks import BadInput
from structsvm.online import simulate
from structsvm.online.bandits import make

P = [[0.5, 0.6, 0.7], [0.4, 0.5, 0.6], [0.3, 0.4, 0.5]]


def same(a, b):
    np.testing.assert_array_equal(a.regret, b.regret)
    np.testing.assert_array_equal(a.winner, b.winner)
    np.testing.assert_array_equal(a.duels, b.duels)


@pytest.mark.parametrize("bandit", ["rucb", partial(make, "rucb")], ids=["compiled", "uncompiled"])
def test_on_a_dask_client(bandit):
    distributed = pytest.importorskip("distributed", reason="pip install 'structsvm-ranking[dask]'")
    options = {"horizon": 500, "n_runs": 4, "seed": 3}
    expected = simulate(bandit, P, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            distributed.LocalCluster(
                processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0"
            ) as cluster,
            distributed.Client(cluster),
        ):
            same(simulate(bandit, P, n_jobs=-1, backend="dask", **options), expected)
    with pytest.raises(BadInput, match="backend='dask': expected a backend of joblib that can be used"):
        simulate(bandit, P, n_jobs=-1, backend="dask", **options)


def test_on_threads_and_under_an_unknown_name():
    options = {"horizon": 300, "n_runs": 3, "seed": 1}
    same(simulate("savage", P, n_jobs=2, backend="threading", **options), simulate("savage", P, **options))
    with pytest.raises(BadInput, match="backend='cluster': expected a backend of joblib"):
        simulate("savage", P, backend="cluster", **options)
