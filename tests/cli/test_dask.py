"""``--dask``: the same model, scores and measures as in one process."""

from pathlib import Path

import numpy as np
import pytest

import structsvm
from structsvm.readers import make_ranking, read_parquet, write_store
from tests.dask.conftest import cluster_of

pytest.importorskip("distributed", reason="pip install '.[dask]'")


@pytest.fixture(scope="module")
def scheduler():
    """Yield the address of a cluster whose workers are threads of this process."""
    with cluster_of(2, processes=False, protocol="tcp") as client:
        yield client.cluster.scheduler_address


@pytest.fixture(autouse=True)
def files(cli):
    """Write two Parquet files between which a query is split, and a store of the same rows."""
    import pandas as pd

    data = make_ranking(60, 10, 4, noise=1.0, random_state=0)
    frame = pd.DataFrame(data.X, columns=list("abcd")).assign(label=data.y, qid=data.qid)
    frame.iloc[:305].to_parquet("part-0.parquet")
    frame.iloc[305:].to_parquet("part-1.parquet")
    write_store(data, "all.store")


def test_train_predict_and_evaluate(scheduler, cli):
    there = f"--dask {scheduler}"
    said = cli.refuses("train 'part-*.parquet' -o m.npz", there)
    assert "is split" in said
    assert "use --groups mend" in said
    assert not Path("m.npz").exists()
    said = cli("train 'part-*.parquet' -o m.npz --groups mend --checkpoint c", there)
    assert "60 queries in 2 partitions, 4 features" in said
    model = structsvm.load("m.npz")
    data = read_parquet("part-*.parquet")
    local = structsvm.StructuralRanker("map").fit(data.X, data.y, qid=data.qid)
    assert model.fit_.primal == pytest.approx(local.fit_.primal, rel=2e-3)
    assert model.feature_names_in_.tolist() == list("abcd")
    for source, extra in (("part-*.parquet", there), ("part-*.parquet", ""), ("all.store", there)):
        cli(f"predict m.npz '{source}' -o s.txt", extra)
        np.testing.assert_allclose(np.loadtxt("s.txt"), data.X @ model.coef_, rtol=1e-9)
    expected = cli.json("evaluate 'part-*.parquet' s.txt")["metrics"]
    found = cli.json("evaluate 'part-*.parquet' m.npz --groups mend", there)["metrics"]
    assert found == pytest.approx(expected)
    cli("train all.store -o n.npz", there)
    assert structsvm.load("n.npz").fit_.primal == pytest.approx(model.fit_.primal, rel=2e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            "--dask HERE --solver n_slack",
            "--solver n_slack: expected one of 'auto', 'partitioned', 'one_slack'",
        ),
        ("--dask HERE --groups cut", "--groups cut: expected one of"),
    ],
)
def test_bad_options(options, message, scheduler, cli):
    assert message in cli.refuses("train all.store -o m.npz", options.replace("HERE", scheduler))
    assert not Path("m.npz").exists()


def test_no_scheduler(cli, monkeypatch):
    monkeypatch.setattr("structsvm.cli.dask._SECONDS", 0.5)
    said = cli.refuses("train all.store -o m.npz --dask tcp://127.0.0.1:9")
    assert "--dask tcp://127.0.0.1:9: expected a scheduler, got no answer" in said
