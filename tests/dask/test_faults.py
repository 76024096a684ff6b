"""Lost workers, schedulers and clients: every wait ends, and bounds stay valid."""

import contextlib
import os
import pickle
import pkgutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError
from pathlib import Path

import dask
import distributed
import numpy as np
import pytest

from structsvm import QueryData, StructuralRanker
from structsvm.dask import DaskStructuralRanker, cluster, rows
from structsvm.dask.cluster import ClusterError, connected, gather
from structsvm.readers import write_letor, write_store
from tests.refusing import refused
from tests.trainers.problems import bind, objective

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tables(frame, tmp_path_factory):
    """Write files that split queries."""
    folder = tmp_path_factory.mktemp("tables")
    for k in range(6):
        frame.iloc[240 * k + 5 * (k > 0) : 240 * (k + 1) + 5].to_parquet(folder / f"part-{k}.parquet")
    return str(folder / "*.parquet")


def honest(fit, data):
    local = StructuralRanker("map", C=fit.C, tol=1e-7).fit(data.X, data.y, qid=data.qid).fit_
    assert fit.converged
    assert fit.primal == pytest.approx(
        objective(bind((data.X, data.y, data.offsets)), fit.C, fit.w), rel=1e-12
    )
    assert fit.dual <= local.primal * (1 + 1e-12)


def mending(client, **options):
    """Return a ranker that needs many rounds, for files that split queries."""
    return DaskStructuralRanker(
        "map", **{"C": 100.0, "tol": 1e-6, "client": client, "groups": "mend", **options}
    )


def one_worker(client, pid):
    os.kill(pid, signal.SIGKILL)  # of a worker that this test started


def all_but_one(client, pid):
    pids = set(client.run(os.getpid).values()) - {pid}
    pids.discard(min(pids))
    for one in (pid, *pids):
        os.kill(one, signal.SIGKILL)


def restart(client, pid):
    (address,) = [address for address, one in client.run(os.getpid).items() if one == pid]
    client.restart_workers([address], raise_for_error=False, timeout=300)


def wait_in(room, name, folder):
    """Patch ``name`` on a worker: the first call of all workers writes its process id to the folder and waits there."""
    owner, folder = pkgutil.resolve_name(room), Path(folder)
    called = getattr(owner, name)

    def waiting(*arguments, **options):
        with contextlib.suppress(FileExistsError):
            (folder / "first").touch(exist_ok=False)
            (folder / "pid").write_text(str(os.getpid()))
            (folder / "pid").rename(folder / "there")
            while not (folder / "struck").exists():  # for the one that is killed, this has no end
                time.sleep(0.005)
        return called(*arguments, **options)

    setattr(owner, name, waiting)


PLACES = {
    "reading": ("structsvm.dask.sources", "read_units"),
    "descend": ("structsvm.trainers.partitioned.partition.Partition", "descend"),
    "improve": ("structsvm.trainers.partitioned.partition.Partition", "improve"),
    "certify": ("structsvm.trainers.partitioned.partition.Partition", "certify"),
}


@contextlib.contextmanager
def struck(client, moment, blow, folder):
    """Call ``blow`` on the first worker that reaches the moment, while it waits."""
    folder.mkdir()
    client.run(wait_in, *PLACES[moment], str(folder))
    over = threading.Event()

    def strike():
        while not (folder / "there").exists():
            if over.wait(0.005):
                return
        blow(client, int((folder / "there").read_text()))
        (folder / "struck").touch()

    thread = threading.Thread(target=strike)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert (folder / "struck").exists(), f"no {moment} in the fit"


@contextlib.contextmanager
def answers_ready(client, moment, blow, folder):
    """Call ``blow`` on a worker that has the result of a partition, before it is fetched."""
    collect = cluster.collect
    blows = [blow]

    def collected(client, futures, timeout):
        if blows and futures[0].key.startswith("call"):
            holder = next(held[0] for held in client.who_has(futures).values() if held)
            blows.pop()(client, client.run(os.getpid)[holder])
        return collect(client, futures, timeout)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster, "collect", collected)
        yield
    assert not blows, f"no {moment} in the fit"


@pytest.mark.parametrize(
    "moments",
    [
        [("reading", one_worker), ("descend", one_worker), ("certify", one_worker)],
        [("improve", one_worker), ("ready", one_worker), ("certify", restart), ("certify", all_but_one)],
    ],
    ids=["passes", "between"],
)
def test_workers_are_killed_at_any_moment(moments, new_cluster, data, tables, tmp_path):
    """Kill workers in each phase: reading, descent, certificate, small round, and when answers are ready; one that Dask
    restarts; and all but one at once. Enough are left at the end although Dask may not start new ones in time."""
    with new_cluster(4) as client:
        for k, (moment, blow) in enumerate(moments):
            client.wait_for_workers(2, timeout=300)
            place = answers_ready if moment == "ready" else struck
            model = mending(client, tol=1e-4)
            with place(client, moment, blow, tmp_path / str(k)):
                model.fit(tables)
            honest(model.fit_, data)
            assert model.n_lost_ >= (moment != "reading")  # what is read is no answer that is lost


def test_no_scheduler_and_no_workers_are_said(new_cluster, tables, monkeypatch):
    monkeypatch.setattr(cluster, "_NO_WORKER", 2.0)
    with contextlib.ExitStack() as late, new_cluster(1) as client:
        future = client.submit(time.sleep, 60, workers=["tcp://127.0.0.1:1"], pure=False)
        with (
            client.as_current(),
            pytest.raises(ClusterError, match=r"no result from the cluster for 1.5 s"),
        ):
            gather(client, [future], 1.5)
        future.cancel()

        def dismiss(progress):
            client.cluster.scale(0)

        model = mending(client, callback=dismiss)
        with pytest.raises(ClusterError, match="no worker for 2 s"):
            model.fit(tables)

        client.cluster.scale(1)
        client.wait_for_workers(1, timeout=300)
        # the worker looks for its scheduler when it is closed
        late.enter_context(dask.config.set({"distributed.comm.timeouts.connect": "2s"}))
        model.callback = lambda progress: client.cluster.sync(client.cluster.scheduler.close)
        with pytest.raises(ClusterError, match="lost the connection to the scheduler"):
            model.fit(tables)


def slow_call(*arguments):
    """Call a partition, slowly enough for the scheduler to die meanwhile."""
    time.sleep(1.0)
    return rows.call(*arguments)


def test_a_scheduler_that_dies_in_a_round_is_said(new_cluster, tables, tmp_path, monkeypatch):
    from structsvm.dask import cluster as ours

    monkeypatch.setattr(ours, "call", slow_call)
    with contextlib.ExitStack() as late, new_cluster(1, processes=False) as client:
        closing = threading.Timer(0.3, lambda: client.cluster.sync(client.cluster.scheduler.close))

        def begin(progress):
            late.enter_context(dask.config.set({"distributed.comm.timeouts.connect": "2s"}))
            closing.start()

        model = mending(client, checkpoint=tmp_path / "fit.checkpoint", callback=begin)
        with pytest.raises(ClusterError, match=r"lost the connection to the scheduler .* same checkpoint="):
            model.fit(tables)
        closing.join()


@pytest.mark.parametrize(
    "error",
    [
        distributed.comm.CommClosedError("gone"),
        distributed.client.FuturesCancelledError([]),
        CancelledError(),
    ],
)
def test_a_scheduler_that_any_call_misses_is_said(error, client):
    with pytest.raises(ClusterError, match="lost the connection to the scheduler"), connected(client):
        raise error


def test_a_cluster_that_has_no_workers_yet_is_waited_for(new_cluster, data, tables):
    with new_cluster(0) as client:
        client.cluster.adapt(minimum=0, maximum=1, interval="100ms")
        honest(mending(client, C=10.0, tol=1e-3).fit(tables).fit_, data)


def test_files_that_change_during_a_fit_are_noticed(frame, tmp_path):
    """The rows of a lost worker are read again from a file that may have changed meanwhile."""
    from structsvm.dask.sources import pieces

    parquet, text, store = tmp_path / "a.parquet", tmp_path / "a.txt", tmp_path / "a.store"

    def write(frame):
        frame.to_parquet(parquet)
        features = frame[[f"f{j}" for j in range(5)]].to_numpy()
        data = QueryData.from_arrays(features, frame["label"], frame["qid"])
        write_store(data, store)
        write_letor(data, text)

    write(frame)
    sources = [pieces(path, None, None, None, n_threads=2) for path in (parquet, text, store)]
    before = [dask.compute(*source.delayed, scheduler="sync") for source in sources]
    unpickled = [pickle.dumps(part) for part in before[2]]
    assert [sum(part.data.n_rows for part in parts) for parts in before] == [len(frame)] * 3
    write(frame.assign(f0=frame["f0"] * np.float32(1.5)))
    for source, path in zip(sources, (parquet, text, store), strict=True):
        refused(
            f"{path.name}.*: expected a file that is unchanged since this call began",
            dask.compute,
            *source.delayed,
            scheduler="sync",
        )
    refused("expected a file that is unchanged since this call began", pickle.loads, unpickled[0])


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
        command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, timeout=900
    )
    assert run.returncode == -signal.SIGKILL, run.stderr.decode()
    assert path.exists()
    seen = []
    model = mending(client, checkpoint=path, callback=seen.append).fit(tables)
    assert seen[0].n_passes >= 3
    honest(model.fit_, data)
    assert not path.exists()
