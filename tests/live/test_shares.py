"""Guardrails: no false alarms when the share changes or users come back, and alarms for broken ratios."""

import itertools
import os
import random

import pytest

from structsvm.live.contract.config import check_config, continued
from structsvm.live.counting.closing import Counts
from structsvm.live.counting.guardrails import by_counters
from structsvm.live.store.records import undrawn
from structsvm.online.interleaving import Shown
from tests.live.samples import impression

COUNTED = 500
MORE = int(os.environ.get("STRUCTSVM_EXPERIMENTS", "0"))
"""Experiments of each row of the tables, where few are too few."""


def config(share):
    return check_config({"rankers": ["prod", "new"], "share": share})


class World:
    """Units with buckets visit an experiment whose share changes; lists are closed ``window`` lists later."""

    def __init__(self, share, seed, window=0):
        self.rng = random.Random(seed)
        self.window = window
        self.config = config(share)
        self.counts = Counts(self.config)
        self.units: dict[bytes, int] = {}
        self.pending = []
        self.n = 0

    def change(self, share):
        self.config = continued(self.config, config(share))

    def visit(self, unit, bucket, lost=0.0, seen=lambda control: (undrawn("team_draft", ["a"], 2), ())):
        """Show a list to a unit; ``lost`` is the share of production's lists that the site fails to record.

        ``seen`` returns the record of a list, and where it is clicked.
        """
        share = self.config["share"]
        beside = min(share, 1 - share)
        if bucket >= share + beside or (bucket >= share and self.rng.random() < lost):
            return
        self.n += 1
        chance, epoch = share / (share + beside) if beside else None, self.config.get("epoch", 0)
        control = bucket >= share
        record, clicked = seen(control)
        serve = "control" if control else "same" if None in record.evidence[0] else "interleaved"
        more = {"serve": serve, "chance": chance, "epoch": epoch, "elapsed_ms": 2000 * control}
        self.pending.append(impression(self.n, record, clicked, unit=unit, **more))
        if len(self.pending) == self.window + COUNTED:
            self.count()

    def count(self):
        self.counts.add(self.pending[:COUNTED], self.units)
        self.counts = Counts(self.config, self.counts.to_json())
        self.pending = self.pending[COUNTED:]

    def close(self):
        while self.pending:
            self.count()

    @property
    def alarms(self):
        return self.counts.watches.alarms()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "n"),
    [
        (1.0, 0.5, 200),
        (1.0, 0.2, 60),
        (0.2, 0.8, 300),
        (0.2, 0.8, 2000),
        (0.1, 0.9, 2000),
        (0.5, 0.8, 2000),
        (0.6, 0.2, 2000),
        (0.05, 0.6, 5000),
        (0.2, 0.5, 1000),
        (0.5, 1.0, 500),
        (0.8, 0.8, 2000),
    ],
)
@pytest.mark.parametrize("come_back", [False, True])
def test_a_change_of_the_share_is_no_alarm(before, after, n, come_back):
    """Lists are pending when the share changes; as many follow, of new units or the same."""
    alarms = 0
    for seed in range(MORE or 5):
        world = World(before, seed, window=n)
        buckets = [world.rng.random() for _ in range(n)]
        for k, bucket in enumerate(buckets):
            world.visit(k.to_bytes(8), bucket)
        world.change(after)
        for k in range(n):
            if come_back:
                k = world.rng.randrange(n)
                world.visit(k.to_bytes(8), buckets[k])
            else:
                world.visit((n + k).to_bytes(8), world.rng.random())
        world.close()
        alarms += bool(world.alarms)
    assert alarms == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("users", "lists"),
    [(300, 20_000), (400, 6000), (1000, 30_000), (1500, 6000), (3000, 60_000), (10_000, 60_000)],
)
def test_users_who_come_back_are_no_alarm(users, lists):
    """Each user counts once, whatever the number of users and visits."""
    for seed in range(MORE or 1):
        world = World(0.5, seed)
        buckets = [world.rng.random() for _ in range(users)]
        came = set()
        for _ in range(lists):
            k = world.rng.randrange(users)
            came.add(k)
            world.visit(k.to_bytes(8), buckets[k])
        world.close()
        assert world.alarms == []
        assert world.counts.watches.watches["sample_ratio"].n == len(came)


@pytest.mark.slow
@pytest.mark.parametrize(("share", "most"), [(0.5, 2000), (0.2, 3000), (0.8, 8000)])
def test_a_ratio_that_is_broken_is_an_alarm(share, most):
    """If a third of production's lists is never recorded, an alarm is raised, also after a change of the share."""
    for seed, changed in itertools.product(range(3), (False, True)):
        world = World(0.1 if changed else share, seed)
        if changed:
            for k in range(1000):
                world.visit((10**6 + k).to_bytes(8), world.rng.random())
            world.change(share)
            most *= 2  # those whom the old share reached say less
        shown = 0
        while not world.alarms:
            world.visit(shown.to_bytes(8), world.rng.random(), lost=1 / 3)
            shown += 1
            assert shown < 2 * most / min(1, 2 * share), (share, seed)
        assert world.alarms == ["sample_ratio"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("clickless", "first", "alarms"), [(0.4, 0.5, []), (0.6, 0.5, ["clickless"]), (0.4, 0.6, ["first_place"])]
)
def test_guardrails_give_alarm_where_there_is_harm(clickless, first, alarms):
    world = World(0.5, 0)

    def seen(control):
        team = int(world.rng.random() < first)
        clicked = () if world.rng.random() < (0.4 if control else clickless) else (1,)
        return Shown("team_draft", ("a", "b"), 2, ((team, 1 - team),)), clicked

    for k in range(3000):
        world.visit(k.to_bytes(8), world.rng.random(), seen=seen)
    world.close()
    assert world.alarms == alarms


def test_without_production_beside_it_nothing_is_compared(client):
    client.create(share=0.3, guardrails={"control": False})
    for k in range(300):
        client.show(f"r{k}", unit=f"u{k}")
    found = client.guardrail("sample_ratio", client.wait_closed())
    assert (found["n"], found["alarm"]) == (0, False)


def test_an_alarm_can_be_acknowledged(client):
    """An alarm is acknowledged by a call, or by restarting the killed experiment; later evidence counts."""
    client.create(share=0.5, guardrails={"on_alarm": "kill"})
    write = client.service.store.writing

    def broken(n, first):
        for k in range(first, first + n):
            client.show(f"r{k}", unit=f"u{k}")
        with write.begin() as connection:  # the site loses production's lists
            connection.exec_driver_sql("DELETE FROM impressions WHERE serve = 'control'")
        return client.wait_closed()

    def alarms(report):
        return [one["name"] for one in report["guardrails"] if one["alarm"]]

    assert alarms(broken(150, 0)) == ["sample_ratio"]
    assert client.call("GET", "/v1/experiments/e")[1]["state"] == "killed"
    client.set_state("running")
    assert alarms(client.report()) == []
    client.show("one more", unit="other")
    report = client.wait_closed()
    assert (alarms(report), report["experiment"]["state"]) == ([], "running")
    client.create(share=0.5, state="draft")  # alarms only
    assert alarms(broken(150, 1000)) == ["sample_ratio"]
    path = "/v1/experiments/e/acknowledge"
    assert client.call("POST", path, {"guardrail": "none"})[0] == 422
    changes = client.changes()
    assert client.call("POST", path, {"guardrail": "slow"}) == (200, {"acknowledged": []})
    assert client.changes() == changes
    answer = client.call("POST", path, {"guardrail": "sample_ratio", "reason": "fixed"})
    assert answer == (200, {"acknowledged": ["sample_ratio"]})
    assert alarms(client.report()) == []
    assert client.changes()[0]["reason"] == "fixed"
    assert alarms(broken(150, 2000)) == ["sample_ratio"]


@pytest.mark.parametrize("guardrail", ["not_compared", None])
def test_the_alarm_of_a_share_begins_anew_once_it_is_acknowledged(client, guardrail):
    client.create()
    body = {} if guardrail is None else {"guardrail": guardrail}

    def fail(n):
        client.service.store.count({(client.row().id, "not_compared:timeout"): n})
        found = client.guardrail("not_compared")
        return found["alarm"], found["n"], found["value"]

    for _ in range(2):
        assert fail(199) == (False, 199, 1.0)
        assert fail(1) == (True, 200, 1.0)
        status, answer = client.call("POST", "/v1/experiments/e/acknowledge", body)
        assert (status, answer) == (200, {"acknowledged": ["not_compared"]})
        assert fail(0) == (False, 0, 0.0)
    # there is no alarm to be acknowledged: what was seen so far goes on counting
    assert fail(100) == (False, 100, 1.0)
    assert client.call("POST", "/v1/experiments/e/acknowledge", body)[0] == 200
    assert fail(0) == (False, 100, 1.0)


def test_shares_are_of_what_came_after_the_acknowledgement():
    limits = {"late_limit": 0.02, "not_compared_limit": 0.05}
    figures = {"late": 50, "clicks": 950, "not_compared": 0, "shown": 0}
    counters = {"seen:late_clicks:part": 45, "seen:late_clicks:whole": 500}
    late, none = by_counters(limits, counters, **figures)
    assert (late.n, late.value, late.alarm) == (500, 0.01, False)
    assert (none.n, none.value, none.alarm) == (0, 0.0, False)
    late, _ = by_counters(limits, {}, **figures)
    assert (late.n, late.value, late.alarm) == (1000, 0.05, True)


def test_a_share_changed_over_http_kills_nothing(client):
    """Lists are checked by the share at the time they were shown."""
    client.create(share=1.0, guardrails={"on_alarm": "kill"})
    for k in range(100):
        client.show(f"r{k}", unit=f"u{k}")
    client.create(share=0.5, guardrails={"on_alarm": "kill"}, state="draft")
    for k in range(100):
        client.show(f"s{k}", unit=f"v{k}")
    report = client.wait_closed()
    assert (report["experiment"]["state"], report["experiment"]["revision"]) == ("running", 1)
    watch = client.guardrail("sample_ratio", report)
    assert (watch["alarm"], watch["n"]) == (False, 100)
