"""Small clusters for the tests of this folder."""

import contextlib
import logging
import warnings

import numpy as np
import pytest

pytest.importorskip("distributed", reason="pip install '.[dask]'")
pytest.importorskip("dask.dataframe", reason="pip install '.[dask]'")


@contextlib.contextmanager
def cluster_of(n_workers, **options):
    """Yield the client of a cluster, by default of processes; messages of Dask while it stops are ignored."""
    from distributed import Client, LocalCluster

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with warnings.catch_warnings(action="ignore"):
        cluster = LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
            **options,
        )
        client = Client(cluster, set_as_default=False)
    try:
        yield client
    finally:
        with warnings.catch_warnings(action="ignore"):
            client.close()
            cluster.close()


@pytest.fixture(scope="session")
def new_cluster():
    """Return a context manager of the client of a new cluster, which a test may damage."""
    return cluster_of


@pytest.fixture(scope="module")
def client():
    """Yield the client of workers that are threads of this process, which tasks and results reach as bytes."""
    with cluster_of(2, processes=False, protocol="tcp") as client:
        yield client


@pytest.fixture(scope="session")
def data():
    from structsvm.readers import make_ranking

    return make_ranking(120, 12, 5, noise=1.0, dtype=np.float32, random_state=0)


@pytest.fixture(scope="session")
def frame(data):
    import pandas as pd

    columns = {f"f{j}": data.X[:, j] for j in range(5)}
    return pd.DataFrame(columns).assign(label=data.y.astype(int), qid=data.qid)
