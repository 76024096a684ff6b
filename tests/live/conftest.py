"""A service on a temporary store: in this process without sockets, or as real processes on loopback."""

import asyncio
import contextlib
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs the extra 'live'")
pytest.importorskip("sqlalchemy", reason="needs the extra 'live'")

from structsvm.live.contract.config import check_config
from structsvm.live.contract.settings import Settings
from structsvm.live.store import sqlite
from structsvm.live.store.opening import connector, open_database, prepare
from structsvm.live.web.app import create_app
from tests.live.processes import free_port, wait_until
from tests.live.samples import RANKINGS, caller_of


@pytest.fixture(scope="module", autouse=True)
def patience():
    """Let threads of a service in this process wait up to ten minutes for the lock, because the machine may be busy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite, "BUSY_S", 600.0)
        yield


WINDOW_S = 60.0
"""Of experiments in this process, whose clock is put forward."""


class Client:
    """Calls an application in this process; ``call("POST", path, body)`` returns status and JSON."""

    def __init__(self, app, loop):
        import httpx

        self.app, self.loop = app, loop
        self.longest = 0.0
        self.service = app.state.service
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1")

    @property
    def proxy(self):
        return next(one.__self__ for one in self.service.at_stop if hasattr(one.__self__, "breakers"))

    def search_by(self, engine):
        """Let a function answer the requests of the proxy."""
        self.proxy.caller, self.proxy.budget_s = caller_of(engine), 20.0

    def run(self, awaitable):
        return self.loop.run_until_complete(awaitable)

    def request(self, method, path, body=None, *, content=None, headers=None):
        if body is not None:
            content = json.dumps(body)
        return self.run(self.http.request(method, path, content=content, headers=headers))

    def call(self, method, path, body=None, **options):
        answer = self.request(method, path, body, **options)
        return answer.status_code, answer.json()

    def create(self, key="e", state="running", **config):
        config = {"rankers": ["prod", "new"], "window_s": WINDOW_S, **config}
        self.longest = max(self.longest, config["window_s"])
        status, answer = self.call("PUT", f"/v1/experiments/{key}", config)
        assert status == 201, answer
        return answer if state == "draft" else self.set_state(state, key)

    def set_state(self, state, key="e"):
        status, answer = self.call("POST", f"/v1/experiments/{key}/state", {"to": state})
        assert status == 200, answer
        return answer

    def show(self, request_id="r", key="e", rankings=RANKINGS, **more):
        return self.call(
            "POST", f"/v1/experiments/{key}/show", {"request_id": request_id, "rankings": rankings, **more}
        )

    def calls(self, method, path, bodies):
        """Make many calls at once; return their JSON."""

        async def one(body):
            return (await self.http.request(method, path, content=json.dumps(body))).json()

        async def every():
            return await asyncio.gather(*(one(body) for body in bodies))

        return self.run(every())

    def click(self, *events):
        return self.call("POST", "/v1/clicks", {"events": list(events)})

    def report(self, key="e"):
        status, answer = self.call("GET", f"/v1/experiments/{key}/report")
        assert status == 200, answer
        return answer

    def guardrail(self, name, report=None):
        return next(one for one in (report or self.report())["guardrails"] if one["name"] == name)

    def changes(self, key="e"):
        return self.call("GET", f"/v1/experiments/{key}/changes")[1]["changes"]

    def export(self, key="e", form="structsvm"):
        return self.request("GET", f"/v1/experiments/{key}/export?format={form}").content

    def log(self, path, key="e", form="structsvm"):
        """Write the export to a file, and return its path."""
        path.write_bytes(self.export(key, form))
        return path

    def row(self, key="e"):
        return self.service.registry.known(key).row

    def stored(self, key="e"):
        return self.service.store.impressions(self.row(key).id, 0, None)

    def let_windows_pass(self):
        """Advance the clock of the service, so that no window ends because a busy machine is slow."""
        self.service.clock._last += round(1000 * self.longest)

    def wait_until(self, condition, **options):
        """Let the service work until a condition holds; see :func:`wait_until`."""
        return wait_until(condition, pause=lambda seconds: self.run(asyncio.sleep(seconds)), **options)

    def wait_closed(self, key="e"):
        """Let the windows pass and run the closer until nothing is pending."""

        def closed():
            self.let_windows_pass()
            self.service.upkeep.flush()
            self.service.closer.run()
            self.run(self.service.registry.refresh())  # what the service does once a second
            return not self.report(key)["pending"]

        self.wait_until(closed)
        return self.report(key)


@pytest.fixture
def store_url(tmp_path):
    return f"sqlite:///{tmp_path / 'live.db'}"


@contextlib.contextmanager
def running_client(settings, make):
    """Yield a client of a started service; the closer runs when the test calls it, or every ``close_every_s``."""
    prepare(settings.store)
    loop = asyncio.new_event_loop()
    app = make(settings)
    lifespan = app.router.lifespan_context(app)
    loop.run_until_complete(lifespan.__aenter__())
    client = Client(app, loop)
    try:
        yield client
    finally:
        loop.run_until_complete(client.http.aclose())
        loop.run_until_complete(lifespan.__aexit__(None, None, None))
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


@pytest.fixture
def open_client(store_url):
    """Return a function that opens a client of this store, with further settings if given."""
    # patient: the machine that tests may be busy
    usual = {"keyless": True, "grace_s": 0.0, "close_every_s": 3600, "behind_s": 10.0}

    def opened(store=store_url, make=create_app, **settings):
        return running_client(Settings(store, **(usual | settings)), make)

    return opened


@pytest.fixture
def client(open_client):
    with open_client() as started:
        yield started


class Served:
    """``structsvm live serve`` as processes; tests kill no other processes."""

    def __init__(self, url, log, *, workers=1, keys=False, options=()):
        self.log, self.port = log, free_port()
        self.command = [
            sys.executable,
            "-m",
            "structsvm",
            "live",
            "serve",
            "--host",
            "127.0.0.1",
            "--port",
            str(self.port),
            "--store",
            url,
            "--workers",
            str(workers),
            *options,
            *(() if keys else ("--no-keys",)),
        ]
        self.start()

    def start(self):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, start_new_session=True)
        self.wait_ready()

    def wait_ready(self):
        def ready():
            with contextlib.suppress(OSError, HTTPException):
                return self.call("GET", "/readyz")[0] == 200

        wait_until(ready, said=self.log.read_text)

    def children(self):
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        found = []
        for pid in map(int, path.read_text().split()):
            with contextlib.suppress(OSError):
                if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
        return found

    def kill_worker(self, which):
        """Kill one worker as soon as one is running; the supervisor replaces it."""

        def killed():
            if workers := self.children():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(workers[which % len(workers)], signal.SIGKILL)
                    return True
            return False

        wait_until(killed, said=self.log.read_text)

    def kill(self):
        """Kill all processes, and return whether they were alive."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.wait() == -signal.SIGKILL

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def call(self, method, path, body=None):
        with contextlib.closing(HTTPConnection("127.0.0.1", self.port, timeout=20)) as connection:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    def create(self, key="e", **config):
        assert self.call("PUT", f"/v1/experiments/{key}", {"rankers": ["prod", "new"], **config})[0] == 201
        assert self.call("POST", f"/v1/experiments/{key}/state", {"to": "running"})[0] == 200


@pytest.fixture
def serve(tmp_path, store_url):
    """Return a function that starts services, which end after the test."""
    started = []

    def start(url=store_url, **options):
        started.append(Served(url, tmp_path / "served.log", **options))
        return started[-1]

    yield start
    for served in started:
        served.stop()


class PostgresServer:
    """A PostgreSQL server in a folder, which may be stopped as by a crash, and started again."""

    def __init__(self, programs, folder, identity):
        self.programs, self.folder, self.identity, self.port = programs, folder, identity, free_port()
        self.data = str(folder / "data")
        self._run("initdb", "-D", self.data, "-U", "live", "--auth=trust", "-E", "UTF8")
        self.start()

    @property
    def url(self):
        return f"postgresql://live@127.0.0.1:{self.port}/postgres"

    def start(self):
        options = f"-p {self.port} -h 127.0.0.1 -k {self.folder} -c max_connections=200"
        self._run("pg_ctl", "-D", self.data, "-w", "-l", str(self.folder / "log"), "start", "-o", options)

    def stop(self):
        self._run("pg_ctl", "-D", self.data, "-m", "immediate", "stop")

    def new_database(self):
        import psycopg

        name = f"t{time.time_ns()}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url.rpartition("/")[0] + f"/{name}"

    def _run(self, program, *words):
        subprocess.run(
            [str(self.programs / program), *words],
            user=self.identity,
            check=True,
            capture_output=True,
            cwd="/",
            env={**os.environ, "LC_ALL": "C"},
            timeout=120,
        )


@contextlib.contextmanager
def postgres_server(folder):
    """Yield a PostgreSQL server of its own; skip the test where there is no PostgreSQL."""
    pytest.importorskip("psycopg", reason="needs the extra 'live-postgres'")
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda f: int(f.parent.name))
    found = shutil.which("initdb", path=str(folders[-1]) if folders else None)
    if found is None:
        pytest.skip("needs PostgreSQL (Debian: apt install postgresql)")
    identity = None
    if os.geteuid() == 0:  # it refuses to run as root
        try:
            user = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("needs a user 'postgres' where the tests run as root")
        identity = user.pw_uid
        # below /tmp every folder on the way is closed to others
        folder = Path("/tmp") / f"structsvm-postgres-{os.getpid()}-{time.time_ns()}"
        folder.mkdir(mode=0o700)
        os.chown(folder, user.pw_uid, user.pw_gid)
    server = PostgresServer(Path(found).parent, folder, identity)
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    """Yield a PostgreSQL server for this test run."""
    with postgres_server(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture
def postgres_url(postgres):
    """Return the URL of an empty database."""
    return postgres.new_database()


@pytest.fixture(params=["store_url", "postgres_url"], ids=["sqlite", "postgres"])
def opened(request):
    """Yield a store of each kind, a connection of its writer, and a running experiment."""
    url = request.getfixturevalue(request.param)
    prepare(url)
    config = check_config({"rankers": ["prod", "new"], "window_s": 10, "length": 4})
    with contextlib.closing(open_database(url)) as store, contextlib.closing(connector(url)()) as connection:
        row = store.put("e", config, state="running", now=1, who="test", what="made")
        yield store, connection, row, url
