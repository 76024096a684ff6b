"""Outcomes count in the order of the lists, after their windows: an early click does not count early."""

import json
import math
from contextlib import closing
from itertools import pairwise

import numpy as np
import pytest

from structsvm.cli import main
from structsvm.live.contract.clock import Clock
from structsvm.live.contract.config import check_config
from structsvm.live.counting.closing import Closer, Counts
from structsvm.live.experiment.draw import draw
from structsvm.live.store.opening import connector
from structsvm.online.interleaving import Shown
from tests.live.processes import wait_until
from tests.live.samples import RANKINGS, click_row, impression, shown_row

CONFIG = check_config({"rankers": ["prod", "new"], "window_s": 10, "length": 4})


def simulated(n, seed, delays, window_ms=1_800_000, spacing_ms=3600):
    """Simulate equal rankers, one with later clicks; return the outcomes, and when they are known."""
    rng = np.random.default_rng(seed)
    team = rng.integers(2, size=n)  # of the one clicked document
    clicked = rng.random(n) < 0.4
    shown = np.arange(n) * spacing_ms
    delay = 1000 * rng.exponential(np.array(delays)[team])
    counted = clicked & (delay <= window_ms)
    return np.where(counted, 1 - 2 * team, 0), shown, shown + delay


def impressions(n):
    rng = np.random.default_rng(0)
    for k in range(n):
        shown = draw("team_draft", list(RANKINGS.values()), 4, b"s" * 16, str(k))
        clicked = [place for place in range(1, 5) if rng.random() < 0.3]
        yield impression(k + 1, shown, clicked, serve="interleaved" if rng.random() < 0.8 else "control")


@pytest.mark.slow
def test_batches_change_nothing():
    every = list(impressions(300))
    whole = Counts(CONFIG)
    snapshots = whole.add(every)
    for seed in range(5):
        edges = [0, *sorted(np.random.default_rng(seed).integers(0, 300, size=6).tolist()), 300]
        parts, found = Counts(CONFIG), []
        for start, end in pairwise(edges):
            found += parts.add(every[start:end])
            parts = Counts(CONFIG, parts.to_json())
        assert parts.running.analysis() == whole.running.analysis()
        assert found == snapshots
        ours, theirs = json.loads(parts.to_json()), json.loads(whole.to_json())
        for side in (ours, theirs):
            for pair in side["running"]["pairs"]:
                pair["shown"] = [one and [one[0], pytest.approx(one[1], rel=1e-12)] for one in pair["shown"]]
            for name in ("decided_at", "watches"):
                side.pop(name)
        assert ours == theirs


def test_closing_counts_exactly_the_clicks_within_the_window(opened):
    """Clicks that are repeated or late, with closing in between, give the outcomes of the simulation in its order."""
    store, connection, row, _ = opened
    config = {**CONFIG, "window_s": 60, "length": 2}
    row = store.put("aa", config, state="running", now=1, who="test", what="made")
    n, window = 250, 60_000
    values, shown, arrived = (column.tolist() for column in simulated(n, 3, (5, 90), window, 500))
    rng = np.random.default_rng(3)
    events = [(at, "show", k) for k, at in enumerate(shown)]
    for k, value in enumerate(values):
        if value or rng.random() < 0.3:
            # a click that does not count in the simulation comes late here
            at = arrived[k] if value else shown[k] + window + 1 + rng.integers(100_000)
            events += [(at, "click", k), (at + rng.exponential(40_000), "click", k)]
    events += [(at, "close", 0) for at in range(0, shown[-1] + 3 * window, 7000)]
    now = [0]

    class Own(Clock):
        def now(self):
            return now[0]

    closer = Closer(store, Own(), 0, 1.0)
    counts = []
    for at, kind, k in sorted(events):
        now[0] = int(at)
        if kind == "show":
            record = Shown("team_draft", ("a", "b"), 2, ((0, 1) if values[k] >= 0 else (1, 0),))
            connection.write([shown_row(row, k, now[0], record=record)], [])
        elif kind == "click":
            connection.write([], [click_row(k, 1, now[0], shown=shown[k], closes=shown[k] + window)])
        else:
            closer.run()
            counts.append(store.progress(row.id))
    assert Counts(config, counts[-1].state).running.n_impressions == n
    # after every look: the first outcomes of the simulation, whatever had arrived by then
    for progress in counts:
        if progress.state:
            running = Counts(config, progress.state).running
            first = values[: running.n_impressions]
            expected = {float(v): int(c) for v, c in zip(*np.unique(first, return_counts=True), strict=True)}
            assert running._pairs[0].cells == expected
    assert len({progress.watermark for progress in counts}) > 10


def test_the_closer_does_not_pass_what_is_open(opened):
    """The sequence decides, not the time: an open impression delays the later ones."""
    store, connection, row, _ = opened
    connection.write([shown_row(row, k, at) for k, at in enumerate((10, 20, 500, 30, 40), start=1)], [])
    assert store.announce(row.id, 0, 100, 500) == 2
    assert store.announce(row.id, 2, 100, 500) == 2
    assert store.announce(row.id, 2, 600, 500) == 5


def test_of_two_closers_one_counts(opened):
    store, connection, row, _ = opened
    connection.write([shown_row(row, k, 10) for k in range(1, 6)], [])
    store.announce(row.id, 0, 100, 500)
    progress = store.progress(row.id)
    assert store.save_counts(row.id, progress, "{}")
    assert not store.save_counts(row.id, progress, "{}")
    assert store.progress(row.id).version == 1


def test_the_lease_runs_out(opened):
    store, *_ = opened
    assert store.lease("closer", "a", 1000, 6000)
    assert not store.lease("closer", "b", 2000, 7000)
    assert store.lease("closer", "a", 2000, 7000)
    assert store.lease("closer", "b", 9000, 14000)
    assert not store.lease("closer", "a", 9001, 14001)


def test_the_kill_of_a_guardrail(client, caplog, monkeypatch):
    """The kill is reported to Prometheus and in the log."""
    # the test itself calls what it delays
    monkeypatch.setattr("structsvm.live.experiment.upkeep._WATCH_S", math.inf)
    figure = 'structsvm_live_alarm{experiment="e",guardrail="first_place"} '
    client.create(length=4, guardrails={"on_alarm": "kill", "alpha": 0.5})
    # a draw that always puts production first
    row, now = client.row(), client.service.clock.now()
    with closing(connector(client.service.settings.store)()) as connection:
        connection.write([shown_row(row, k, now) for k in range(60)], [])
    assert client.guardrail("first_place", client.wait_closed())["alarm"]
    assert client.show("r")[1]["why"] == "killed"
    assert client.changes()[0]["who"] == "closer"
    for _ in range(2):
        client.run(client.service.upkeep.watch())
        text = client.request("GET", "/metrics").text
        assert f"{figure}1.0" in text
        for state, value in (("killed", 1.0), ("running", 0.0)):
            assert f'structsvm_live_state{{experiment="e",state="{state}"}} {value}' in text
    said = [one.message for one in caplog.records if one.levelname == "WARNING"]
    assert [text for text in said if "was killed" in text] == [
        "structsvm live: e revision 1 was killed: guardrail: first_place"
    ]
    assert [text for text in said if "alarm" in text] == [
        "structsvm live: e revision 1: guardrail first_place raises an alarm"
    ]
    client.set_state("stopped")
    client.run(client.service.upkeep.watch())
    assert f"{figure}0.0" in client.request("GET", "/metrics").text


def test_a_stopped_experiment_is_closed_and_its_rows_can_go(client, monkeypatch):
    monkeypatch.setattr("structsvm.live.counting.closing._KNOWN_MS", 0)
    client.create(window_s=0.1)
    _, shown = client.show("r1")
    client.click({"token": shown["token"], "place": 1})
    report = client.wait_closed()
    client.set_state("stopped")
    wait_until(lambda: client.service.closer.run() or client.service.store.experiments()[0].closed)
    url = client.service.settings.store
    assert main(["live", "clean", "--store", url, "--days", "1"]) == 0
    assert client.service.store.impressions(1, 0, None)
    assert main(["live", "clean", "--store", url, "--days", "0"]) == 0
    assert not client.service.store.impressions(1, 0, None)
    assert client.report()["pairs"] == report["pairs"]
    assert main(["live", "check", "--store", url]) == 0
