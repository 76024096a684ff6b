"""The demo of ``experiments/live_demo`` as a process: search, click, let visitors decide, and train from the clicks."""

import json
import re
import socket
import subprocess
import sys
import urllib.parse
import urllib.request

import pytest

from tests.live.processes import DEMO, demo_process, wait_until


def test_a_taken_port_is_told_in_one_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = subprocess.run(
            [sys.executable, DEMO, "--port", str(port)], capture_output=True, text=True, check=False
        )
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.count("\n") == 1
    assert f"got {port} (address already in use)" in found.stderr


@pytest.mark.slow
def test_visitors_decide_for_the_learned_ranker_and_their_clicks_train_another():
    with demo_process() as address:

        def page(path="", **form):
            body = urllib.parse.urlencode(form, doseq=True).encode() if form else None
            with urllib.request.urlopen(address + path, body, timeout=300) as answer:
                return answer.read().decode()

        def report(key):
            with urllib.request.urlopen(
                address.replace("/demo", f"/v1/experiments/{key}/report"), timeout=300
            ) as answer:
                return json.load(answer)

        def token():  # none where a list was not on disk in time, on a busy machine
            return re.search(r'name="token" value="([^"]+)"', page())

        assert re.search("Reading images|Which of these", page())
        found = wait_until(token)
        assert page().count('type="checkbox"') == 10
        assert "Which of these" in page("/clicks", token=found[1], place=["1", "3", "77", "x"])
        assert "Simulated visitors: on" in page("/switch", visitors="on")
        wait_until(lambda: report("digits")["verdict"]["winner"] == "learned")
        assert "decided: learned" in page("/verdict")
        assert "clicks-1" in page("/train", train="now")
        assert report("contenders")["experiment"]["rankers"] == ["euclidean", "learned", "clicks-1"]
