"""A visitor in a real browser reaches the verdict of the demo."""

from __future__ import annotations

import contextlib
import json
import urllib.request

import pytest

from structsvm.live.demo.world import LEARNED
from tests.live.driven_browser import DrivenBrowser
from tests.live.processes import demo_process, wait_until
from tests.test_browser import BROWSER

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium found to look at the pages")

VISIT = """(() => {
    const asked = document.querySelector('.asked img');
    if (!asked || !document.querySelector('form[action="/demo/clicks"] button')) return null;
    const digit = asked.alt.match(/[0-9]/)[0];
    const boxes = [...document.querySelectorAll('input[name=place]')];
    const right = boxes.filter(box => box.ariaLabel.endsWith('a ' + digit));
    right.forEach(box => box.click());
    return [boxes.length, right.length];
})()"""
"""Mark every result that shows the digit asked for; on a busy machine the list may not be recorded."""


@pytest.mark.slow
def test_a_visitor_who_clicks_by_the_labels_sees_the_learned_ranker_win(tmp_path):
    with demo_process() as address, contextlib.closing(DrivenBrowser(tmp_path / "profile")) as browser:

        def winner():
            url = address.replace("/demo", "/v1/experiments/digits/report")
            with urllib.request.urlopen(url, timeout=300) as answer:
                return json.load(answer)["verdict"]["winner"]

        def results():
            browser.open(address)
            return browser.run("document.querySelectorAll('input[name=place]').length")

        def visit():
            seen = browser.run(VISIT)
            if seen is None:
                browser.open(address)
            else:
                browser.follow("document.querySelector('form[action=\"/demo/clicks\"] button').click()")
            return seen

        wait_until(results)
        visits = 0
        while visits < 400 and winner() is None:
            for _ in range(20):
                n_results, n_right = wait_until(visit)
                assert n_results == 10
                assert 0 <= n_right <= 10
                visits += 1
        # a list counts when the time for its clicks is over
        assert wait_until(winner) == LEARNED
        browser.open(address + "/verdict")
        assert f"{LEARNED} wins" in browser.run("document.body.innerText")
