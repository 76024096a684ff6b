"""Workers are killed, all but one, the scheduler dies, the client dies: no wait is endless, and bounds stay true."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import dask
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


def one_worker(client):
    kill(list(client.run(os.getpid).values())[:1])


def all_but_one(client):
    kill(list(client.run(os.getpid).values())[:-1])


def restart(client):
    client.restart_workers([next(iter(client.run(os.getpid)))], raise_for_error=False, timeout=60)


@pytest.mark.parametrize(
    "moments",
    [
        [("reading", one_worker), ("descend", one_worker), ("certify", one_worker)],
        [("improve", one_worker), ("ready", one_worker), ("certify", restart), ("certify", all_but_one)],
    ],
    ids=["passes", "between"],
)
def test_workers_are_killed_at_any_moment(moments, new_cluster, data, tables, monkeypatch):
    """While files are read, in a descent, a certificate and a small round, and when answers are ready; one that Dask
    restarts; and all but one at once. Enough are left at the end although Dask may not start new ones in time."""
    from structsvm.dask import cluster as ours

    each, collect = ours.DaskPartitions.each, ours.collect
    blows = {}

    def struck(moment):
        return blows.pop(moment, lambda client: None)

    def watched(parts, method, payloads):
        timer = threading.Timer(0.005, struck(method), [parts._client])  # while partitions work, or wait
        timer.start()
        answers = each(parts, method, payloads)
        timer.join()
        return answers

    def collected(client, futures, timeout):
        struck("ready")(client)
        return collect(client, futures, timeout)

    monkeypatch.setattr(ours.DaskPartitions, "each", watched)
    with new_cluster(4) as client:
        lost = 0
        for moment, blow in moments:
            client.wait_for_workers(2, timeout=60)
            blows[moment] = blow
            if moment == "reading":
                threading.Timer(0.02, struck(moment), [client]).start()
            if moment == "ready":
                monkeypatch.setattr(ours, "collect", collected)
            model = DaskStructuralRanker("map", C=100.0, tol=1e-4, client=client, groups="mend")
            honest(model.fit(tables).fit_, data)
            assert not blows, f"no {moment} in the fit"
            lost += model.n_lost_
        assert lost >= 2


def test_no_scheduler_and_no_workers_are_said(new_cluster, data, tables, monkeypatch):
    from structsvm.dask import cluster as ours

    monkeypatch.setattr(ours, "_NO_WORKER", 2.0)
    with contextlib.ExitStack() as late, new_cluster(1) as client:
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
        # the worker looks for its scheduler when it is closed
        late.enter_context(dask.config.set({"distributed.comm.timeouts.connect": "2s"}))
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
