"""Workers, closers and the whole service are killed under load: nothing acknowledged is lost or counted twice."""

import contextlib
import json
import threading
import time
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from sqlalchemy import text

from structsvm.cli import main
from structsvm.live.contract.tokens import Secrets
from structsvm.live.store.opening import open_database
from tests.live.conftest import postgres_server
from tests.live.processes import wait_until
from tests.live.samples import RANKINGS, assert_same_pairs

pytestmark = pytest.mark.slow

N_KILLS = 12


class Load:
    """Visitors in threads: each requests a list until it gets one, then clicks until the clicks are accepted."""

    def __init__(self, served, n_threads=6):
        self.served, self.shown, self.clicked, self.problems = served, {}, [], []
        self.repeats = 0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._visit, args=(k,)) for k in range(n_threads)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error):
        self._stop.set()
        for thread in self._threads:
            thread.join(120)
        assert not any(thread.is_alive() for thread in self._threads)

    def _call(self, path, body):
        """Repeat a call until it is answered by 200; the same body each time."""
        while not self._stop.is_set():
            with contextlib.suppress(OSError, HTTPException, ValueError):
                status, answer = self.served.call("POST", path, body)
                if status == 200 and answer.get("why") != "store":
                    return answer
                if status not in (200, 503):
                    self.problems.append((status, answer))
                    return None
            self.repeats += 1
            time.sleep(0.02)
        return None

    def _visit(self, k):
        rng = np.random.default_rng(k)
        n = 0
        while not self._stop.is_set():
            request = f"{k}-{n}"
            n += 1
            answer = self._call("/v1/experiments/e/show", {"request_id": request, "rankings": RANKINGS})
            if answer is None or answer["token"] is None:
                continue
            self.shown[request] = answer
            # documents of low numbers are liked
            liked = [k + 1 for k, d in enumerate(answer["documents"]) if rng.random() < 2 / (3 + int(d[1:]))]
            for place in liked[:3]:
                event = {"token": answer["token"], "place": place, "action": "click"}
                if self._call("/v1/clicks", {"events": [event]}) is not None:
                    self.clicked.append((answer["token"], place))


def wait_closed(served):
    def report():
        with contextlib.suppress(OSError, HTTPException):  # a busy worker is replaced by its supervisor
            status, found = served.call("GET", "/v1/experiments/e/report")
            return found if status == 200 and not found["pending"] else None

    return wait_until(report)


def stored(url):
    """Return how often each impression and click is stored."""
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
    """Assert that the stored statistics equal those of the exported log and those recomputed from the store."""
    log = tmp_path / "log.jsonl"
    assert main(["live", "export", "e", "--store", url, "-o", str(log)]) == 0
    answer = assert_same_pairs(report, log)
    assert answer["n_impressions"] == report["n_impressions"]
    assert main(["live", "check", "--store", url]) == 0


def wait_for_lists(load, n):
    """Wait until visitors have received further lists."""
    target = len(load.shown) + n
    wait_until(lambda: len(load.shown) >= target, said=load.served.log.read_text)


def kill_under_load(served, load):
    """Repeatedly kill a worker, or all processes, after visitors have received further lists."""
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


def run(served, url, secret, tmp_path):
    served.create(window_s=1.5)
    load = Load(served)
    kill_under_load(served, load)
    report = wait_closed(served)
    n_shown, n_clicks = assert_nothing_lost(url, load, secret)
    assert report["n_impressions"] == n_shown
    served.stop()
    assert_agrees(url, report, tmp_path)
    assert "a worker that died or stopped answering is replaced" in served.log.read_text()
    print(json.dumps([len(load.shown), len(load.clicked), n_shown, n_clicks, load.repeats]))


def test_kills_on_sqlite(serve, store_url, tmp_path):
    run(serve(workers=3), store_url, tmp_path / "live.db.secret", tmp_path)


def test_kills_on_postgres(serve, postgres_url, tmp_path):
    """The lock between writers and closers makes a grace period unnecessary: impressions are closed at once."""
    (tmp_path / "serve.toml").write_text("[serve]\ngrace_s = 0.5\n")
    secret = tmp_path / "secrets"
    options = ("--secret-file", str(secret), "--config", str(tmp_path / "serve.toml"))
    run(serve(postgres_url, workers=3, options=options), postgres_url, secret, tmp_path)


class Engine(BaseHTTPRequestHandler):
    """A search engine whose two addresses return the same documents in opposite orders."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        step = -1 if "new" in self.path else 1
        content = json.dumps({"documents": RANKINGS["prod"][::step], "total": 20}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *words):
        pass


@contextlib.contextmanager
def engine():
    """Yield the address of a running search engine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Engine)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def searched(served, k):
    """Return the list of a search through the proxy, and how it was served."""
    with contextlib.closing(HTTPConnection("127.0.0.1", served.port, timeout=20)) as connection:
        headers = {"X-Structsvm-Search": f"s{k}", "Content-Type": "application/json"}
        connection.request("POST", "/v1/search/p", json.dumps({"q": "lamp", "size": 10}), headers)
        answer = connection.getresponse()
        return json.loads(answer.read())["documents"], answer.headers["X-Structsvm-Serve"]


def test_a_database_that_fails_over_under_load(serve, tmp_path):
    """While PostgreSQL is down the proxy answers with production's list; nothing acknowledged is lost."""
    with postgres_server(tmp_path) as database, engine() as address:
        tables = [f'[engines.{n}]\nkind = "http"\nurl = "{address}/{n}"\n' for n in ("prod", "new")]
        (tmp_path / "serve.toml").write_text("[serve]\ngrace_s = 0.5\n" + "".join(tables))
        url, secret = database.new_database(), tmp_path / "secrets"
        options = ("--secret-file", str(secret), "--config", str(tmp_path / "serve.toml"))
        served = serve(url, workers=2, options=options)
        served.create(window_s=1.5)
        served.create("p", engines={"prod": {"engine": "prod"}, "new": {"engine": "new"}})
        # both processes have to know that the experiment runs
        wait_until(lambda: {searched(served, f"before {k}")[1] for k in range(12)} == {"interleaved"})
        reasons = set()
        with Load(served) as load:
            for _ in range(3):
                wait_for_lists(load, 20)
                database.stop()
                for k in range(5):
                    answer, reason = searched(served, k)
                    assert answer == RANKINGS["prod"]  # unchanged
                    reasons.add(reason)
                database.start()
                served.wait_ready()
            wait_for_lists(load, 20)
        # the budget of a search includes the engines, which a busy machine delays
        assert "production; why=store" in reasons
        assert reasons <= {"production; why=store", "production; why=timeout"}
        assert not load.problems
        assert load.repeats
        report = wait_closed(served)
        n_shown, _ = assert_nothing_lost(url, load, secret)
        served.stop()
        assert_agrees(url, report, tmp_path)
        assert n_shown >= len(load.shown)
