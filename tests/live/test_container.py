"""The container of the manual answers probes by the address of its pod, and everything else by its name only."""

import contextlib
import json
import re
import subprocess
import sys
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest

from structsvm.cli import main
from tests.live.processes import free_port, wait_until

MANUAL = Path(__file__).parents[2] / "docs" / "live.md"
POD = ("10.42.0.7:8808", "[fd00::7]:8808", "live.default.svc.cluster.local:8808", "live", None)


@pytest.fixture
def call(tmp_path, capsys):
    """Start the container's command and return a function that calls it under a ``Host``."""
    words = [
        word
        for line in re.findall(r"^(?:ENTRYPOINT|CMD) (.*)$", MANUAL.read_text(), re.M)
        for word in json.loads(line)
    ]
    store = f"sqlite:///{tmp_path / 'live.db'}"
    assert main(["live", "init", "--store", store]) == 0
    capsys.readouterr()
    assert main(["live", "key", "add", "--scope", "read", "--store", store]) == 0
    key = re.search(r"sk_\w+", capsys.readouterr().out)[0]
    port = free_port()
    words = [store if word.startswith("sqlite:") else word for word in words[1:]]
    command = [sys.executable, "-m", "structsvm", *words, "--port", str(port)]

    def called(path, host, *, with_key=False):
        with contextlib.closing(HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
            if host is None:  # as HTTP/1.0
                connection._http_vsn, connection._http_vsn_str = 10, "HTTP/1.0"
            connection.putrequest("GET", path, skip_host=True)
            if host is not None:
                connection.putheader("Host", host)
            if with_key:
                connection.putheader("Authorization", f"Bearer {key}")
            connection.endheaders()
            return connection.getresponse().status

    def started():
        with contextlib.suppress(OSError, HTTPException):
            return called("/readyz", "127.0.0.1") == 200

    with subprocess.Popen(command) as process:
        try:
            wait_until(started)
            yield called
        finally:
            process.terminate()


def test_probes_of_the_container(call):
    for host in POD:
        assert [call(path, host) for path in ("/livez", "/readyz", "/metrics")] == [200, 200, 401], host
        assert call("/metrics", host, with_key=True) == 200
        assert call("/v1/experiments", host, with_key=True) == 421, host
    assert call("/v1/experiments", "live.example.org", with_key=True) == 200


def test_without_keys_the_metrics_are_for_known_names_only(client):
    """A page of another site could otherwise read them under a name of its own that resolves to this machine."""
    for path, status in (("/livez", 200), ("/readyz", 200), ("/metrics", 421), ("/v1/experiments", 421)):
        assert client.request("GET", path, headers={"host": "evil.example"}).status_code == status
