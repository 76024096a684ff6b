"""The demo decides where there is something to decide, stays undecided where there is nothing, and its pages work."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import subprocess
import urllib.request
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from structsvm.live.demo import create_demo, pages
from structsvm.live.demo.session import Session
from structsvm.live.demo.world import EUCLIDEAN, LEARNED, TWINS, ClickTraining, World
from structsvm.online.clicklog import Click, Impression
from structsvm.online.interleaving import TeamDraft
from structsvm.online.statistics.credit_formulas import CreditRow
from structsvm.online.statistics.running import RunningStatistics
from tests.live import samples
from tests.live.driven_browser import DrivenBrowser
from tests.live.processes import demo_process, wait_until
from tests.test_browser import BROWSER, DARK, FLAGS, LIGHT, seen


@pytest.fixture(scope="module")
def world():
    made = World.make()
    made.learn_from_labels()
    return made


def play(world, pair, n_visits, seed, clicks):
    """Statistics after visits; a decision at any of them is kept."""
    rng, draft = np.random.default_rng(seed), TeamDraft()
    rows = []
    for k in range(n_visits):
        query = int(rng.choice(world.queries))
        shown = draft.show([world.ranking(name, query, rng) for name in pair], length=10, rng=rng)
        places = [place - 1 for place in clicks(query, shown.documents, rng)]
        rows.append(CreditRow(k, shown.documents, shown.evidence, places, 1.0))
    running = RunningStatistics("team_draft", pair, length=10)
    running.add(rows)
    return running


def test_the_task(world):
    assert world.noisy.sum() == 24
    assert not set(world.queries) & set(world.documents)
    assert not (set(world.queries) | set(world.documents)) & set(np.concatenate(world.training))
    assert np.array_equal(world.clean[:, ~world.noisy], world.seen[:, ~world.noisy])
    assert world.precision(LEARNED) > world.precision(EUCLIDEAN) + 0.08
    counts = np.abs(world.weights[LEARNED])
    assert counts[world.noisy].mean() < counts[~world.noisy].mean() / 3
    again = World.make()
    assert np.array_equal(again.seen, world.seen)
    assert not np.array_equal(World.make(1).noisy, world.noisy)


def test_visitors_that_know_the_digits_decide_for_the_learned_ranker(world):
    def exactly(query, documents, rng):
        return [place for place, grade in enumerate(world.grades(query, documents), 1) if grade]

    for clicks in (exactly, world.clicks):
        ends = [play(world, (EUCLIDEAN, LEARNED), 400, seed, clicks).decision for seed in range(10)]
        assert sum(end is not None and end["winner"] == LEARNED for end in ends) >= 9
        assert np.median([400 if end is None else end["n"] for end in ends]) <= 200


@pytest.mark.slow
def test_nothing_wins_between_twins(world):
    runs = [play(world, TWINS, 1000, seed, world.clicks) for seed in range(20)]
    assert sum(run.decision is None for run in runs) >= 19
    # the lists differ, or nothing would be compared
    rng = np.random.default_rng(0)
    tops = [[world.ranking(name, int(query), rng)[:10] for name in TWINS] for query in world.queries]
    assert np.mean([a == b for one, other in tops for a, b in zip(one, other, strict=True)]) < 0.5


def records_of(world, n, seed=0):
    """Lines of a click log of simulated visitors."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        query = int(rng.choice(world.queries))
        pair = [world.ranking(name, query) for name in (EUCLIDEAN, LEARNED)]
        shown = TeamDraft().show(pair, length=10, rng=rng)
        clicks = tuple(Click(place) for place in world.clicks(query, shown.documents, rng))
        yield Impression(shown, clicks, query=f"d{query}").to_dict()


def test_clicks_alone_teach_what_is_noise():
    world = World.make(3)
    world.learn_from_labels()
    found = world.learn_from_clicks("clicks-1", records_of(world, 150))
    assert (found.n_impressions, found.estimated) == (150, True)
    assert world.precision("clicks-1") > world.precision(EUCLIDEAN) + 0.05
    assert len(found.looks) == 10
    few = world.learn_from_clicks("clicks-2", records_of(world, 3))
    assert (few.estimated, set(few.looks)) == (False, {1.0})


@pytest.mark.slow
def test_the_whole_story(open_client):
    """Wait, search and click as a person, let visitors decide, train from their clicks, and let the bandit choose."""
    demo = partial(create_demo, window_s=1, visits_per_s=1e6)
    with open_client(make=demo, grace_s=0.05, close_every_s=0.05) as client:
        session, rng = client.app.state.demo, np.random.default_rng(0)
        visitors = lambda n, *stage: client.run(visits(session, n, rng, *stage))  # noqa: E731

        def post(path, **form):
            answer = client.run(client.http.post(path, data=form))
            return answer.status_code, answer.headers.get("location"), answer.text

        first = client.request("GET", "/demo")
        assert first.status_code == 200
        assert "Reading images" in first.text
        assert post("/demo/train")[0] == 200
        client.wait_until(lambda: session.ready)

        def token():  # none where the list was not on disk in time, on a busy machine
            return re.search(r'name="token" value="([^"]+)"', client.request("GET", "/demo").text)

        clicked = {"token": client.wait_until(token)[1], "place": ["1", "3", "77", "x"]}
        assert post("/demo/clicks", **clicked)[:2] == (303, "/demo")
        assert "no clicks are closed yet" in post("/demo/train")[2]

        asked = 0

        def enough():  # lists that are not on disk in time, on a busy machine, are not counted
            nonlocal asked
            asked += 20
            visitors(20)
            return client.report("digits")["n_impressions"] > 200

        client.wait_until(enough)
        visitors(20, "twins")
        client.wait_until(lambda: client.report("digits")["pending"] == 0)
        found = client.report("digits")
        assert found["verdict"]["winner"] == LEARNED
        assert 200 < found["n_impressions"] <= asked + 1
        assert client.report("twins")["verdict"]["winner"] is None
        for path, framed in (("/demo", "none"), ("/demo/verdict", "self")):
            panel = client.request("GET", path)
            assert f"frame-ancestors '{framed}'" in panel.headers["content-security-policy"]
        assert "decided: learned" in panel.text

        assert (post("/demo/train")[0], session.stage) == (303, "contenders")
        (training,) = session.trainings
        # the page that was asked for above is an impression, too, which may be closed by now
        assert training.n_impressions - found["n_impressions"] in (0, 1)
        assert "clicks-1" in client.request("GET", "/demo/train").text

        def dueled():  # lists that are not on disk in time, on a busy machine, are no duels
            visitors(10)
            return client.report("contenders")["bandit"]["n_duels"] > 20

        client.wait_until(dueled)
        assert client.report("contenders")["experiment"]["rankers"] == [EUCLIDEAN, LEARNED, "clicks-1"]
        assert "Still in play" in client.request("GET", "/demo/verdict").text
        post("/demo/train")
        assert client.report("contenders")["experiment"]["revision"] == 2

        for name, value in [("visitors", "on"), ("stage", "twins"), ("stage", "nonsense")]:
            assert post("/demo/switch", **{name: value})[0] == 303
        assert (session.visitors, session.stage) == (True, "twins")
        before = session.visits
        client.wait_until(lambda: session.visits > before + 5)
        foreign = {"Origin": "http://elsewhere.example"}
        assert (
            client.request("POST", "/demo/switch", content="visitors=off", headers=foreign).status_code == 403
        )
        assert session.visitors


async def visits(session, n, *options):
    await asyncio.gather(*(session.visit(*options) for _ in range(n)))


def test_a_demo_that_cannot_start_says_so(open_client, monkeypatch):
    def broken(self):
        raise MemoryError("too small a machine")

    monkeypatch.setattr(World, "learn_from_labels", broken)
    with open_client(make=create_demo) as client:
        client.wait_until(lambda: client.app.state.demo.problem is not None)
        page = client.request("GET", "/demo").text
    assert "The demo cannot start: too small a machine" in page
    assert "refresh" not in page


@pytest.mark.skipif(BROWSER is None, reason="no chromium found to look at the pages")
@pytest.mark.parametrize(("width", "scheme"), [(390, DARK), (1200, LIGHT)])
@pytest.mark.parametrize("name", ["search", "verdict", "bandit verdict", "train"])
def test_pages_in_a_browser(name, width, scheme, world, tmp_path):
    session = Session(SimpleNamespace())
    session.world = world
    session.trainings = [ClickTraining("learned", 300, 900, (1.0, 0.8, 0.7), True)]
    if name == "search":
        query = int(world.queries[0])
        found = {"query": query, "documents": world.ranking(LEARNED, query)[:10], "token": "t"}
        text = pages.search_page(session, found)
        assert text.count('type="checkbox"') == 10
        text = text.replace('src="/demo/verdict"', "")
    elif name == "train":
        text = pages.train_page(session, waiting=12, problem="a problem")
    else:
        found = samples.bandit() if name.startswith("bandit") else samples.report()
        text = pages.verdict_panel(session, found)
    text = text.replace("<body>", '<body><p hidden style="stroke: var(--s0)">')
    seen(text, tmp_path, width, scheme)


@pytest.mark.slow
def test_the_command_answers_fast_shows_its_frame_and_ends(tmp_path):
    with demo_process() as address:

        def text():
            with urllib.request.urlopen(address, timeout=300) as answer:
                return answer.read().decode()

        first = text()
        assert "Reading images" in first or "Which of these" in first
        wait_until(lambda: "Which of these" in text())
        if BROWSER is not None:
            flags = [*FLAGS, "--enable-logging=stderr", f"--user-data-dir={tmp_path / 'profile'}"]
            command = [BROWSER, *flags, "--dump-dom", address]
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
            assert done.stdout.count('type="checkbox"') == 10
            assert "CONSOLE" not in done.stderr


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
@pytest.mark.skipif(BROWSER is None, reason="no chromium found to look at the pages")
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
