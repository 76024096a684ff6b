"""Workers are killed, all but one, the scheduler dies, the client dies: no wait is endless, and bounds stay true."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from structsvm import StructuralRanker
from structsvm.dask import DaskStructuralRanker
from structsvm.dask.cluster import ClusterError, gather

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tables(frame, tmp_path_factory):
    """Files that cut queries."""
    folder = tmp_path_factory.mktemp("tables")
    for k in range(6):
        frame.iloc[240 * k + 5 * (k > 0) : 240 * (k + 1) + 5].to_parquet(folder / f"part-{k}.parquet")
    return str(folder / "*.parquet")


def honest(fit, data):
    one = StructuralRanker("map")._bind(data, np.ones(data.n_queries))
    cut = one.cut(fit.w)
    local = StructuralRanker("map", C=fit.C, tol=1e-7).fit(data.X, data.y, qid=data.qid).fit_
    assert fit.converged
    assert fit.primal == pytest.approx(
        0.5 * fit.w @ fit.w + fit.C * (cut.loss - cut.joint @ fit.w), rel=1e-12
    )
    assert fit.dual <= local.primal * (1 + 1e-12)


def kill(pids):
    for pid in pids:
        os.kill(pid, signal.SIGKILL)  # of workers that this test started


def test_workers_are_killed_in_the_middle(new_cluster, data, tables):
    """One of three before a descent, one before a certificate, one while it works; then all but one at once."""
    with new_cluster(3) as client:

        def at_pass(number, count, later=0.0):
            def strike(progress):
                if progress.n_passes == number:
                    pids = list(client.run(os.getpid).values())[:count]
                    if later:
                        threading.Timer(later, kill, [pids]).start()
                    else:
                        kill(pids)

            return strike

        for number, count, later in ((1, 1, 0.0), (2, 1, 0.0), (1, 1, 0.02), (2, 2, 0.0)):
            client.wait_for_workers(3, timeout=60)
            model = DaskStructuralRanker(
                "map", C=100.0, tol=1e-4, client=client, groups="mend", callback=at_pass(number, count, later)
            )
            honest(model.fit(tables).fit_, data)


def test_no_scheduler_and_no_workers_are_said(new_cluster, data, tables, monkeypatch):
    from structsvm.dask import cluster as ours

    monkeypatch.setattr(ours, "_NO_WORKER", 2.0)
    with new_cluster(1) as client:
        future = client.submit(time.sleep, 60, workers=["tcp://127.0.0.1:1"], pure=False)
        with (
            client.as_current(),
            pytest.raises(ClusterError, match=r"nothing came from the cluster for 1.5 s"),
        ):
            gather(client, [future], 1.5)
        future.cancel()

        def dismiss(progress):
            client.cluster.scale(0)

        model = DaskStructuralRanker("map", C=100.0, tol=1e-6, client=client, groups="mend", callback=dismiss)
        started = time.monotonic()
        with pytest.raises(ClusterError, match="no worker for 2 s"):
            model.fit(tables)
        assert time.monotonic() - started < 60

        client.cluster.scale(1)
        client.wait_for_workers(1, timeout=60)
        model.callback = lambda progress: client.cluster.sync(client.cluster.scheduler.close)
        with pytest.raises(ClusterError, match="lost the connection to the scheduler"):
            model.fit(tables)


SCRIPT = """
import os, signal, sys
from structsvm.dask import DaskStructuralRanker
from distributed import Client

def die(progress):
    if progress.n_passes == 4:
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    with Client(sys.argv[1]) as client:
        DaskStructuralRanker("map", C=100.0, tol=1e-6, client=client, groups="mend", checkpoint=sys.argv[3],
                             callback=die).fit(sys.argv[2])
"""


def test_a_client_that_is_killed_resumes_from_its_checkpoint(client, data, tables, tmp_path):
    script, path = tmp_path / "fit.py", tmp_path / "fit.checkpoint"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), client.scheduler.address, tables, str(path)]
    run = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, timeout=300
    )
    assert run.returncode == -signal.SIGKILL, run.stderr.decode()
    assert path.exists()
    seen = []
    model = DaskStructuralRanker(
        "map", C=100.0, tol=1e-6, client=client, groups="mend", checkpoint=path, callback=seen.append
    ).fit(tables)
    assert seen[0].n_passes >= 3
    honest(model.fit_, data)
    assert not path.exists()
