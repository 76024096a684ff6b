"""``--dask``: the same model, scores and measures as in one process."""

import json
from pathlib import Path

import numpy as np
import pytest

import structsvm
from structsvm.cli import main
from structsvm.readers import make_ranking, read_parquet, write_store

pytest.importorskip("distributed", reason="pip install 'structsvm-ranking[dask]'")


@pytest.fixture(scope="module")
def scheduler():
    """A cluster whose workers are threads of this process; the command reaches it by its address."""
    import logging
    import warnings

    from distributed import LocalCluster

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cluster = LocalCluster(
            processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0", protocol="tcp",
            silence_logs=logging.CRITICAL,
        )  # fmt: skip
    yield cluster.scheduler_address
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cluster.close()


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Two Parquet files, of which the border cuts a query, and a store of the same rows."""
    import pandas as pd

    monkeypatch.chdir(tmp_path)
    data = make_ranking(60, 10, 4, noise=1.0, random_state=0)
    frame = pd.DataFrame(data.X, columns=list("abcd")).assign(label=data.y, qid=data.qid)
    frame.iloc[:305].to_parquet("part-0.parquet")
    frame.iloc[305:].to_parquet("part-1.parquet")
    write_store(data, "all.store")
    return tmp_path


def test_train_predict_and_evaluate(files, scheduler, capsys):
    there = ["--dask", scheduler]
    assert main(["train", "part-*.parquet", "-o", "m.npz", *there]) == 2
    assert "is cut" in (error := capsys.readouterr().err)
    assert "use --groups mend" in error
    assert not Path("m.npz").exists()
    assert (
        main(["train", "part-*.parquet", "-o", "m.npz", *there, "--groups", "mend", "--checkpoint", "c"]) == 0
    )
    said = capsys.readouterr().out
    assert "60 queries in 2 partitions, 4 features" in said
    model = structsvm.load("m.npz")
    data = read_parquet("part-*.parquet")
    local = structsvm.StructuralRanker("map").fit(data.X, data.y, qid=data.qid)
    assert model.fit_.primal == pytest.approx(local.fit_.primal, rel=2e-3)
    assert model.feature_names_in_.tolist() == list("abcd")
    for source, extra in (("part-*.parquet", there), ("part-*.parquet", []), ("all.store", there)):
        assert main(["predict", "m.npz", source, "-o", "s.txt", *extra]) == 0
        np.testing.assert_allclose(np.loadtxt("s.txt"), data.X @ model.coef_, rtol=1e-9)
    capsys.readouterr()
    assert main(["evaluate", "part-*.parquet", "s.txt", "--json"]) == 0
    expected = json.loads(capsys.readouterr().out)["metrics"]
    assert main(["evaluate", "part-*.parquet", "m.npz", *there, "--groups", "mend", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"] == pytest.approx(expected)
    assert main(["train", "all.store", "-o", "n.npz", *there]) == 0
    assert structsvm.load("n.npz").fit_.primal == pytest.approx(model.fit_.primal, rel=2e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dask", "nowhere"], "--dask nowhere: expected local, or the address of a scheduler"),
        (["--checkpoint", "c"], "--checkpoint: expected --dask with it"),
        (["--groups", "mend"], "--groups: expected --dask with it"),
        (
            ["--dask", "SCHEDULER", "--solver", "n_slack"],
            "--solver n_slack: expected auto, partitioned or one_slack",
        ),
        (["--dask", "SCHEDULER", "--groups", "cut"], "--groups cut: expected one of"),
    ],
)
def test_bad_options(options, message, files, scheduler, capsys):
    options = [scheduler if option == "SCHEDULER" else option for option in options]
    assert main(["train", "all.store", "-o", "m.npz", *options]) == 2
    assert message in capsys.readouterr().err
    assert not Path("m.npz").exists()


def test_no_scheduler(files, monkeypatch, capsys):
    from structsvm.cli import dask

    monkeypatch.setattr(dask, "_SECONDS", 0.5)
    assert main(["train", "all.store", "-o", "m.npz", "--dask", "tcp://127.0.0.1:9"]) == 2
    assert "--dask tcp://127.0.0.1:9: expected a scheduler there, got no answer" in capsys.readouterr().err


def test_workers_that_end_late_do_not_fail_a_command_that_is_done(files, monkeypatch, capsys):
    from distributed import LocalCluster

    class Slow(LocalCluster):
        def __init__(self, **options):
            super().__init__(processes=False, n_workers=1, **options)

        def close(self, timeout=None):
            super().close(timeout)
            raise TimeoutError

    monkeypatch.setattr("distributed.LocalCluster", Slow)
    assert main(["train", "all.store", "-o", "m.npz", "--dask", "local"]) == 0
    assert structsvm.load("m.npz").fit_.converged
