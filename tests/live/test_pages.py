"""The pages of the service: contents, layout on a phone, and names from outside that stay text."""

import re

import pytest

from structsvm.live.web.pages.band import band_over_time
from structsvm.live.web.pages.experiments import experiment_page, overview_page
from structsvm.live.web.pages.formats import address, ago, count, moment, percent
from tests.live import samples
from tests.test_browser import BROWSER, DARK, EVIL, LIGHT, seen

LONG = "ranker-" + "x" * 70


def page_of(one, **options):
    return experiment_page(one, now_ms=samples.NOW, **options)


def hostile():
    """Return a report in which every text is hostile."""
    one = samples.report(EVIL, (EVIL + "1", EVIL + "2", LONG))
    for guard in one["guardrails"]:
        guard["name"], guard["text"] = EVIL, EVIL
    one["verdict"] = {**one["verdict"], "winner": EVIL, "sentence": EVIL}
    one["not_compared"]["why"] = {EVIL: 3}
    one["notes"] = [EVIL]
    one["experiment"]["method"] = EVIL
    return one


def hostile_bandit():
    one = samples.bandit([*(f"{EVIL}{i}" for i in range(4)), LONG])
    one["bandit"]["policy"] = EVIL
    return one


def overview(*reports):
    return overview_page(reports, now_ms=samples.NOW)


PAGES = {
    "one": (lambda: page_of(samples.report()), 1, "shop-search"),
    "three": (lambda: page_of(samples.report(names=("a", "b", "c"))), 3, "shop-search"),
    "hostile": (lambda: page_of(hostile()), 3, EVIL),
    "hostile bandit": (lambda: page_of(hostile_bandit()), 0, "contenders"),
    "overview": (
        lambda: overview(samples.report(), samples.empty(), samples.bandit(), hostile(), hostile_bandit()),
        0,
        "Experiments",
    ),
}


@pytest.mark.skipif(BROWSER is None, reason="no chromium found to look at the pages")
@pytest.mark.parametrize("name", list(PAGES))
@pytest.mark.parametrize(("width", "scheme"), [(390, DARK), (1200, LIGHT)])
def test_pages_in_a_browser(name, width, scheme, tmp_path):
    make, charts, title = PAGES[name]
    found = seen(
        make().replace("<body>", '<body><p hidden style="stroke: var(--s0)">'), tmp_path, width, scheme
    )
    assert (found["title"], found["charts"]) == (title, charts)
    if "hostile" in name or name == "overview":
        assert EVIL in found["text"]


def text_of(page):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page[page.index("<body>") :]))


def test_the_verdict_comes_first_and_every_figure_is_there():
    page = page_of(samples.report())
    text = text_of(page)
    assert text.index("new ranker wins over prod (always-valid p = 0.0123).") < 150
    for said in (
        "running",
        "decided: new ranker",
        "1 guardrail alarm",
        "1,200",
        "37",
        "5 s ago",
        "300",
        "0.0123",
        "−0.15 to −0.02",
        "901",
        "ALARM",
        "late_clicks",
        "7 timeout, 2 junk",
    ):
        assert said in text, said
    assert text.index("late_clicks") < text.index("first_place")  # an alarm, and what is fine
    assert '<meta http-equiv="refresh" content="10">' in page
    assert 'http-equiv="refresh"' not in page_of(samples.report(), refresh=None)
    assert "<script" not in page


ALONE = samples.bandit()
for ranker in ALONE["bandit"]["rankers"]:
    ranker["in_play"] = ranker["name"] == "hybrid"


@pytest.mark.parametrize(
    ("page", "said"),
    [
        (
            page_of(samples.empty()),
            ["Not decided: nothing is closed yet.", "window of 1800 s", "never", "No guardrail is set."],
        ),
        (page_of(samples.bandit()), ["Still in play: dense and hybrid.", "1,500 duels by rucb"]),
        (page_of(ALONE), ["Only hybrid is still in play."]),
        (
            overview(samples.report("a/b?#"), samples.bandit()),
            ["2 of 2 running, 1 decided, 2 with a guardrail alarm."],
        ),
        (overview(), ["No experiment yet"]),
    ],
)
def test_what_pages_say(page, said):
    text = text_of(page)
    assert [one for one in said if one not in text] == []
    assert "nan" not in text.lower()
    assert ('href="/e/a%2Fb%3F%23"' in page) == ("a/b?#" in text)


def test_the_band_leaves_out_what_has_no_interval():
    chart = band_over_time(
        [(1, 0.1, None, None), (10, 0.1, -0.5, 0.7), (100, 0.1, -0.2, 0.4), (1000, 0.1, 0.05, 0.15)], "a", "b"
    )
    assert "a against b after 1,000 impressions: +0.1, between +0.05 and +0.15" in chart
    assert "No impression is closed" in band_over_time([], "a", "b")
    assert "<svg" in band_over_time([(7, 0.0, -1.0, 1.0)], "a", "b")


@pytest.fixture
def get(client):
    """Opens a page of a service with an experiment and a bandit."""
    client.create("a")
    client.create("b", kind="bandit")
    return lambda path: client.request("GET", path)


def test_routes(get):
    assert "2 of 2 running" in get("/").text
    assert "<h1>b</h1>" in get("/e/b").text
    assert 'content="3"' in get("/e/a?refresh=3").text
    assert 'http-equiv="refresh"' not in get("/?refresh=0").text
    assert 'content="10"' in get("/?refresh=x").text
    assert get("/client.js").headers["content-type"].startswith("text/javascript")
    assert len(get("/client.js").text.splitlines()) <= 44
    assert get("/openapi.json").json()["openapi"].startswith("3.1")
    assert get("/favicon.ico").headers["content-type"].startswith("image/")


def test_a_report_that_fails_hides_no_other(get, client, monkeypatch, caplog):
    report = client.service.report

    async def fails(key):
        if key == "a":
            raise ValueError("a defect")
        return await report(key)

    monkeypatch.setattr(client.service, "report", fails)
    text = get("/").text
    assert "1 of 1 running" in text
    assert "The report failed; see the log of the service." in text
    assert 'href="/e/b"' in text
    assert "no report of a" in caplog.text


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (address("shop/new"), "/e/shop%2Fnew"),
        (count(12345), "12,345"),
        (count(None), "–"),
        (count(2.5), "2.5"),
        (percent(0.0123), "1.2 %"),
        (percent(0.5), "50 %"),
        (percent(None), "–"),
        (ago(0, 90_000), "2 min ago"),
        (ago(0, 5_000), "5 s ago"),
        (ago(None, 0), "never"),
        (ago(0, 7_300_000), "2 h ago"),
        (moment(1767225600123), "2026-01-01 00:00:00 UTC"),
    ],
)
def test_how_figures_and_times_are_said(found, expected):
    assert found == expected
