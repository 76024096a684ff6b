"""A visitor in a real browser reaches the verdict of the demo."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request

import pytest

from structsvm.live.demo.world import LEARNED
from tests.live.driven_browser import DrivenBrowser
from tests.test_browser import BROWSER

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium found to look at the pages")

VISIT = """(() => {
    const digit = document.querySelector('.asked img').alt.match(/[0-9]/)[0];
    const boxes = [...document.querySelectorAll('input[name=place]')];
    const right = boxes.filter(box => box.ariaLabel.endsWith('a ' + digit));
    right.forEach(box => box.click());
    document.querySelector('form[action="/demo/clicks"] button').click();
    return [boxes.length, right.length];
})()"""
"""Mark every result that shows the digit asked for, and go on."""


@pytest.mark.slow
def test_a_visitor_who_clicks_by_the_labels_sees_the_learned_ranker_win(tmp_path):
    command = [sys.executable, "-m", "structsvm", "live", "demo", "--port", "0"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as demo:
        browser = None
        try:
            address = re.search(r"http://127\.0\.0\.1:\d+/demo", demo.stdout.readline())[0]
            browser = DrivenBrowser(tmp_path / "profile")

            def winner():
                url = address.replace("/demo", "/v1/experiments/digits/report")
                with urllib.request.urlopen(url, timeout=300) as answer:
                    return json.load(answer)["verdict"]["winner"]

            end = time.monotonic() + 300
            browser.open(address)
            while not browser.run("document.querySelectorAll('input[name=place]').length"):
                assert time.monotonic() < end
                time.sleep(0.2)
                browser.open(address)
            visits = 0
            while visits < 400 and winner() is None:
                for _ in range(20):
                    n_results, n_right = browser.run(VISIT, loads=True)
                    assert n_results == 10
                    assert 0 <= n_right <= 10
                    visits += 1
            end = time.monotonic() + 300
            while winner() is None and time.monotonic() < end:
                time.sleep(0.5)  # a list counts when the time for its clicks is over
            assert winner() == LEARNED
            browser.open(address + "/verdict")
            assert f"{LEARNED} wins" in browser.run("document.body.innerText")
        finally:
            if browser is not None:
                browser.close()
            demo.send_signal(signal.SIGINT)
            _, errors = demo.communicate(timeout=120)
        assert (demo.returncode, errors) == (0, "")
