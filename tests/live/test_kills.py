"""Workers, closers and the whole service are killed under load: nothing acknowledged is lost or counted twice."""

import contextlib
import json

import pytest
from sqlalchemy import text

from structsvm.cli import main
from structsvm.live.draw import Secrets
from structsvm.live.store.opening import open_database
from structsvm.online.statistics import analyse, read_credits
from tests.live.processes import wait_until

pytestmark = pytest.mark.slow

N_KILLS = 12


def wait_closed(served):
    def report():
        status, found = served.call("GET", "/v1/experiments/e/report")
        return found if status == 200 and not found["pending"] else None

    return wait_until(report)


def stored(url):
    """How often each impression and click is stored."""
    with contextlib.closing(open_database(url)) as store, store.reading.connect() as connection:
        shown = [bytes(row[0]) for row in connection.execute(text("SELECT id FROM impressions"))]
        clicks = connection.execute(
            text("SELECT i.id, c.place FROM clicks c JOIN impressions i ON i.seq = c.impression")
        )
        return shown, [(bytes(row[0]), row[1]) for row in clicks]


def assert_nothing_lost(url, load, secret):
    signer = Secrets.of_file(secret)
    shown, clicks = stored(url)
    assert len(set(shown)) == len(shown)
    assert len(set(clicks)) == len(clicks)
    acknowledged = {signer.read(answer["token"]).impression for answer in load.shown.values()}
    assert len(acknowledged) == len(load.shown)
    assert acknowledged <= set(shown)
    assert {(signer.read(token).impression, place) for token, place in load.clicked} <= set(clicks)
    return len(shown), len(clicks)


def assert_agrees(url, report, tmp_path):
    """The folded statistics are those of the exported log, and everything recomputes."""
    log = tmp_path / "log.jsonl"
    assert main(["live", "export", "e", "--store", url, "-o", str(log)]) == 0
    answer = analyse(read_credits(log)).to_dict()
    assert answer["n_impressions"] == report["n_impressions"]
    for ours, theirs in zip(report["pairs"], answer["pairs"], strict=True):
        for name, value in theirs.items():
            expected = (
                value if isinstance(value, (str, type(None))) else pytest.approx(value, rel=1e-12, abs=1e-12)
            )
            assert ours[name] == expected, name
    assert main(["live", "check", "--store", url]) == 0


def wait_for_lists(load, n):
    """Wait until visitors have got further lists."""
    target = len(load.shown) + n
    wait_until(lambda: len(load.shown) >= target, said=load.served.log.read_text)


def kill_under_load(served, load):
    """Kill a worker, or all processes, each time visitors have got some more lists."""
    with load:
        for k in range(N_KILLS):
            wait_for_lists(load, 10 + k)
            if k % 6 == 2:
                assert served.kill()
                served.start()
            else:
                served.kill_worker(k)
        served.wait_ready()
        wait_for_lists(load, 10)
    assert not load.problems


def run(served, url, secret, make_load, tmp_path):
    config = {"rankers": ["prod", "new"], "production": "prod", "window_s": 1.5}
    assert served.call("PUT", "/v1/experiments/e", config)[0] == 201
    assert served.call("POST", "/v1/experiments/e/state", {"to": "running"})[0] == 200
    load = make_load(served)
    kill_under_load(served, load)
    report = wait_closed(served)
    n_shown, n_clicks = assert_nothing_lost(url, load, secret)
    assert report["n_impressions"] == n_shown
    served.stop()
    assert_agrees(url, report, tmp_path)
    assert "a worker that had died, or answered no more, is replaced" in served.log.read_text()
    return len(load.shown), len(load.clicked), n_shown, n_clicks, load.repeats


def test_kills_on_sqlite(serve, make_load, tmp_path):
    url, secret = f"sqlite:///{tmp_path / 'live.db'}", tmp_path / "live.db.secret"
    print(json.dumps(run(serve(url), url, secret, make_load, tmp_path)))


def test_kills_on_postgres(serve, make_load, postgres_url, tmp_path):
    secret = tmp_path / "secrets"
    served = serve(postgres_url, secret=secret, options=("--config", str(no_grace(tmp_path))))
    print(json.dumps(run(served, postgres_url, secret, make_load, tmp_path)))


def no_grace(folder):
    """Settings that close at once: with the lock between writers and closers no time is needed for safety."""
    path = folder / "serve.toml"
    path.write_text("[serve]\ngrace_s = 0.5\n")
    return path
