"""Answers of the calls of the service, and the data they store."""

import contextlib
import json
import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from structsvm.cli import main
from structsvm.live.contract.config import check_config
from structsvm.live.counting.closing import next_snapshot
from structsvm.live.engines.engine import with_hashes
from structsvm.live.experiment.registry import follow_engines
from structsvm.live.store.opening import open_database, prepare
from structsvm.live.store.records import FORGOTTEN
from structsvm.online.clicklog import read_log
from structsvm.online.interleaving.by_name import interleaver
from structsvm.online.statistics import analyse, read_credits
from tests.live.samples import RANKINGS, assert_same_pairs


def test_a_request_is_one_impression(client):
    client.create()
    status, first = client.show("r1")
    assert status == 200
    assert first["serve"] == "interleaved"
    assert len(first["documents"]) == 10
    assert first["query_id"] == first["token"]
    assert not first["replayed"]
    status, again = client.show("r1")
    assert again == {**first, "replayed": True}
    # other rankings under the same id: what was shown is shown again
    status, other = client.show("r1", rankings={"prod": ["x", "y"], "new": ["y", "x"]})
    assert other == {**first, "replayed": True}
    assert client.report()["pending"] == 1
    figures = client.request("GET", "/metrics").text
    assert 'structsvm_live_not_compared_total{why="timeout"} 0.0' in figures
    assert 'structsvm_live_shown_total{serve="interleaved",why=""} 3.0' in figures
    assert 'route="/v1/experiments/{key}/show"' in figures
    assert client.call("GET", "/livez") == (200, {"live": True})
    status, ready = client.call("GET", "/readyz")
    assert (status, ready["ready"], ready["writer"]) == (200, True, True)
    # other requests draw other lists from the same rankings
    assert len({tuple(client.show(f"other {k}")[1]["documents"]) for k in range(9)}) > 1


def test_clicks_count_once_and_only_in_time(client):
    client.create()
    _, shown = client.show("r1")
    token = shown["token"]
    event = {"token": token, "place": 2, "action": "click"}
    assert client.click(event)[1] == {"accepted": 1, "duplicate": 0, "late": 0, "rejected": []}
    same = {"token": token, "document": shown["documents"][1], "dwell_s": 3.5}
    assert client.click(event, same)[1] == {"accepted": 0, "duplicate": 2, "late": 0, "rejected": []}
    before = client.wait_closed()
    assert client.click({"token": token, "place": 5})[1]["late"] == 1
    after = client.report()
    assert after["late"] == 1
    assert after["pairs"] == before["pairs"]
    client.service.closer.run()
    assert client.report()["pairs"] == before["pairs"]


def test_actions_that_do_not_count_are_no_clicks_and_guardrails_have_their_limits(client):
    client.create(
        actions={"click": 1, "hover": 0}, guardrails={"clickless_margin": 0.07, "slow_margin": 0.08}
    )
    for request, action in (("r1", "hover"), ("r2", "click")):
        event = {"token": client.show(request)[1]["token"], "place": 1, "action": action}
        assert client.click(event)[1]["accepted"] == 1
    report = client.wait_closed()
    assert (report["n_impressions"], report["n_clicked"]) == (2, 1)
    limits = {guardrail["name"]: guardrail["limit"] for guardrail in report["guardrails"]}
    assert (limits["clickless"], limits["slow"], limits["first_place"]) == (0.07, 0.08, 0.0)
    assert [len(json.loads(line)["clicks"]) for line in client.export().splitlines()] == [0, 1]


def test_a_document_is_found_after_a_restart(client):
    client.create(window_s=5)
    _, shown = client.show("r1")
    client.service._lists.clear()  # as in another worker
    events = [{"token": shown["token"], "document": d} for d in (shown["documents"][3], "none")]
    assert client.click(*events)[1]["rejected"] == [{"index": 1, "code": "bad_document"}]
    assert client.click({"token": shown["token"], "place": 4})[1]["duplicate"] == 1


def click_some(client, shown, liked):
    """Click on the documents of a list that are liked, if any."""
    events = [{"token": shown["token"], "document": d} for d in shown["documents"] if liked(d)]
    if events:
        client.click(*events)


@pytest.mark.parametrize("method", ["team_draft", "optimized"])
@pytest.mark.parametrize("n_rankers", [2, 3])
def test_the_export_says_what_the_report_says(client, tmp_path, method, n_rankers):
    names = ["prod", "new", "third"][:n_rankers]
    client.create(rankers=names, method=method, length=4)
    rng = np.random.default_rng(0)
    for k in range(40):
        rankings = {name: [f"d{d}" for d in rng.permutation(6)] for name in names}
        rankings["new"].sort(key=lambda d: int(d[1:]) + rng.normal())
        _, shown = client.show(f"r{k}", rankings=rankings)
        click_some(client, shown, lambda d: rng.random() < 1 / (1 + int(d[1:])))
    report = client.wait_closed()
    answer = assert_same_pairs(report, client.log(tmp_path / "log.jsonl"))
    assert answer["n_impressions"] == 40 - report["same"]
    for name, value in json.loads(json.dumps(answer)).items():
        if name != "pairs":
            assert report[name] == value, name
    # a decision is final, and the evidence may have fallen since
    assert report["winner"] in (None, report["verdict"]["winner"])


def test_the_second_page_goes_on_from_the_first(client):
    client.create(length=6)
    for k in range(30):
        _, first = client.show(f"r{k}", length=6)
        _, second = client.show(f"r{k}", length=4, offset=6)
        assert second["serve"] == "interleaved"
        assert second["token"] != first["token"]
        assert not set(first["documents"]) & set(second["documents"])
        _, odd = client.show(f"r{k}", length=4, offset=5)
        assert odd["documents"] == [first["documents"][5], *second["documents"][:3]]
    client.wait_closed()
    teams = [line["shown"]["evidence"][0] for line in map(json.loads, client.export().splitlines())]
    # the second pick of a round that the page before has begun is no coin's any more
    assert all(len({a, b}) == 2 and who is None for who, a, b, _ in teams[2::3])
    assert all(None not in own for own in teams[::3] + teams[1::3])


def test_what_is_not_compared(client):
    client.create()
    _, answer = client.show("r1", rankings={"prod": ["a", "b"], "new": []})
    assert (answer["serve"], answer["why"], answer["token"]) == ("production", "empty", None)
    assert answer["documents"] == ["a", "b"]
    _, answer = client.show("r2", rankings={"prod": [], "new": ["a"]})
    assert (answer["serve"], answer["documents"]) == ("production", [])
    client.service.not_compared("e", "timeout")
    client.service.upkeep.flush()
    assert client.report()["not_compared"] == {"n": 2, "why": {"empty": 1, "timeout": 1}}


def test_equal_rankings_are_shown_and_told_apart(client):
    client.create()
    _, shown = client.show("r1", rankings={"prod": ["a", "b", "c"], "new": ["a", "b", "c"]})
    assert shown["serve"] == "interleaved"
    assert shown["documents"] == ["a", "b", "c"]
    assert client.click({"token": shown["token"], "place": 1})[1]["accepted"] == 1
    client.show("r2")
    report = client.wait_closed()
    assert (report["same"], report["n_impressions"]) == (1, 1)


def test_share_and_control(client):
    client.create(share=0.25)
    served = {}
    path, n = "/v1/experiments/e", 400
    ids = [{"request_id": f"r{k}", "unit": f"u{k}"} for k in range(n)]
    every = client.calls("POST", f"{path}/assign", ids)
    first = client.calls("POST", f"{path}/show", [{**one, "rankings": RANKINGS} for one in ids])
    again = [{"request_id": f"s{k}", "unit": f"u{k}", "rankings": RANKINGS} for k in range(n)]
    for assigned, shown, later in zip(every, first, client.calls("POST", f"{path}/show", again), strict=True):
        kind = shown["serve"] if shown["serve"] == "interleaved" else shown["why"]
        assert assigned["serve"] == shown["serve"]
        assert assigned.get("why") == shown.get("why")
        assert (shown["token"] is None) == (kind == "share")
        if kind != "interleaved":
            assert shown["documents"] == RANKINGS["prod"][:10]
        served[kind] = served.get(kind, 0) + 1
        # the unit decides, whatever the request
        assert later["serve"] == shown["serve"]
    assert served["interleaved"] == pytest.approx(100, abs=45)
    assert served["control"] == pytest.approx(100, abs=45)
    report = client.wait_closed()
    assert report["control"] == 2 * served["control"]
    assert report["n_impressions"] == 2 * served["interleaved"]
    ratio = client.guardrail("sample_ratio", report)
    assert ratio["n"] == served["interleaved"] + served["control"]
    assert not ratio["alarm"]


def test_states(client):
    client.create(state="draft")
    for state in ("draft", "running", "paused", "running", "killed"):
        if state != "draft":
            assert client.set_state(state)["state"] == state
        _, shown = client.show(f"r {state}")
        if state == "running":
            assert shown["serve"] == "interleaved"
        else:
            assert (shown["serve"], shown["why"], shown["token"]) == ("production", state, None)
            assert shown["documents"] == RANKINGS["prod"][:10]
    client.set_state("stopped")
    assert client.call("POST", "/v1/experiments/e/state", {"to": "running"})[0] == 409
    changes = [change["what"] for change in client.changes()]
    assert changes[:2] == ["killed -> stopped", "running -> killed"]


def test_kill_switch(client, monkeypatch):
    """Kill all but drafts, and one that another worker stops at the same moment."""
    client.create("a")
    client.create("b", state="draft")
    client.create("between")
    client.create("c", state="paused")
    set_state, other = client.service.store.set_state, client.row("between").id

    def after_another_worker(experiment, state, **how):
        set_state(other, "stopped", **how)
        return set_state(experiment, state, **how)

    monkeypatch.setattr(client.service.store, "set_state", after_another_worker)
    assert client.call("POST", "/v1/kill", {"reason": "fire"})[1] == {"killed": ["a", "c"]}
    assert client.show(key="a")[1]["why"] == "killed"


def test_revisions(client):
    assert client.create(window_s=60)["revision"] == 1
    _, shown = client.show("r1")
    put = {"rankers": ["prod", "new"], "window_s": 60}
    path = "/v1/experiments/e"
    # what does not change the meaning goes on
    expected = {"key": "e", "revision": 1, "state": "running"}
    assert client.call("PUT", path, {**put, "share": 0.5})[1] == expected
    assert client.call("PUT", path, {**put, "length": 5}, headers={"If-Match": "2"})[0] == 409
    assert client.call("PUT", path, {**put, "length": 5}, headers={"If-Match": "1"})[1]["revision"] == 2
    assert client.report()["pending"] == 0
    # clicks on lists of the earlier revision still count there
    assert client.click({"token": shown["token"], "place": 1})[1]["accepted"] == 1
    _, fresh = client.show("r1")
    assert not fresh["replayed"]
    assert len(fresh["documents"]) == 5


SHOP = {"kind": "opensearch", "url": "http://127.0.0.1:9200/shop/_search"}


def test_another_ranker_is_another_revision(open_client):
    """Changes that affect rankings start new statistics; a new address of the engine does not."""
    with open_client(engines={"shop": SHOP, "other": {**SHOP, "body": {"min_score": 1}}}) as client:

        def revision(new, **more):
            return client.create(state="draft", engines={"prod": {"engine": "shop"}, "new": new}, **more)[
                "revision"
            ]

        boosted = {"engine": "shop", "body": {"boost": 2}}
        assert revision(boosted) == 1
        assert revision(boosted, share=0.5) == 1
        assert revision({**boosted, "body": {"boost": 3}}) == 2
        assert revision({**boosted, "body": {"boost": 3}, "params": {"routing": "x"}}) == 3
        assert revision({**boosted, "engine": "other"}) == 4
        assert revision({**boosted, "engine": "other"}, unit="user") == 5
        assert revision({**boosted, "engine": "other"}, unit="user") == 5


@pytest.fixture
def store(store_url):
    prepare(store_url)
    with contextlib.closing(open_database(store_url)) as opened:
        yield opened


def test_an_engine_that_changes_in_the_file_makes_a_new_revision(store):
    used = {"prod": {"engine": "shop"}, "new": {"engine": "shop", "body": {"boost": 2}}}
    config = with_hashes(check_config({"rankers": ["prod", "new"], "engines": used}), {"shop": SHOP})
    row = store.put("e", config, state="running", now=1, who="w", what="made")

    def after(table):
        follow_engines(store, {} if table is None else {"shop": table}, 2)
        (now,) = store.experiments()
        return now.revision, now.state

    assert after(SHOP) == (1, "running")
    moved = {"url": "http://127.0.0.2:9200/shop/_search", "timeout_s": 3, "headers": {"x": "y"}}
    assert after({**SHOP, **moved}) == (1, "running")
    assert after(None) == (1, "running")
    table = SHOP
    other = {"body": {"size": 3}, "url": "http://127.0.0.1:9200/shop2/_search", "id": "x"}
    for revision, (name, value) in enumerate(other.items(), start=2):
        table = {**table, name: value}
        assert after(table) == (revision, "running")
    assert store.experiments(newest=False)[0].state == "stopped"
    assert store.progress(row.id).version == 0
    # a revision of an earlier release: what it was is not known, so nothing has changed
    (now,) = store.experiments()
    old = {k: v for k, v in now.config.items() if k != "engine_hashes"}
    store.put("e", old, fresh=False, state="running", now=1, who="w", what="made")
    assert after(SHOP) == (4, "running")
    assert after({**SHOP, "id": "x"}) == (5, "running")


def test_engines_that_are_gone_are_told(store):
    used = {"prod": {"engine": "shop"}, "new": {"engine": "other"}}
    for key, stop in (("a", {}), ("b", {"on_winner": "serve_winner"})):
        config = {"rankers": ["prod", "new"], "engines": used, "stop": stop}
        store.put(key, with_hashes(check_config(config), {"shop": SHOP, "other": SHOP}), now=1, who="w")
    assert follow_engines(store, {"shop": SHOP, "other": SHOP}, 2) == []
    said = follow_engines(store, {"shop": SHOP}, 2)
    assert ["no engine 'other' in the configuration" in line for line in said] == [True, True]
    assert ["production's list (why=engines)" in line for line in said] == [True, True]
    for row in store.experiments():
        store.set_state(row.id, "stopped", now=2, who="w", reason="")
    (said,) = follow_engines(store, {"shop": SHOP}, 2)  # the winner of the other may be the one that is gone
    assert said.startswith("b: ")
    said = follow_engines(store, {"other": SHOP}, 2)
    assert ["refused (409)" in line for line in said] == [True, True]
    assert [row.revision for row in store.experiments()] == [1, 1]


def test_units_cannot_be_joined(client):
    """Between experiments a unit has different hashes, and after the end its key is gone."""
    client.create("a")
    client.create("b")
    units = set()
    for key in ("a", "b"):
        client.show("r", key=key, unit="user 17")
        (one,) = client.stored(key)
        units.add(one.unit)
        assert client.service.store.forget(client.row(key).id, one.unit) == 1
        assert client.stored(key)[0].unit == FORGOTTEN
    assert len(units) == 2
    client.set_state("stopped", "a")
    assert client.row("a").unit_key is None


def test_a_winner_is_served_where_the_experiment_says_so(client):
    client.create(length=2, stop={"on_winner": "serve_winner"})
    rankings = {"prod": ["a", "b"], "new": ["b", "a"]}
    for k in range(40):
        _, shown = client.show(f"r{k}", rankings=rankings)
        teams = client.service.store.impressions(1, k, None, 1)[0].record.evidence[0]
        client.click({"token": shown["token"], "place": 1 + teams.index(1)})
    report = client.wait_closed()
    assert (report["verdict"]["winner"], report["winner"]) == ("new", "new")
    _, shown = client.show("later", rankings=rankings)
    assert (shown["serve"], shown["documents"], shown["token"]) == ("winner", ["b", "a"], None)
    _, assigned = client.call("POST", "/v1/experiments/e/assign", {"request_id": "x"})
    assert (assigned["serve"], assigned["rankers"]) == ("winner", ["new"])


def test_an_experiment_stops_at_max_impressions(client):
    client.create(stop={"max_impressions": 5})
    for k in range(8):
        client.show(f"r{k}")
    client.wait_closed()
    assert client.show("late")[1]["why"] == "stopped"


def test_no_query_unless_asked(client):
    client.create("a")
    client.create("b", log_query=True, log_rankings=True)
    for key, kept in (("a", None), ("b", "secret words")):
        client.show("r", key=key, query="secret words")
        (one,) = client.stored(key)
        assert one.query == kept
        assert (one.rankings is None) == (kept is None)


def test_the_bandit_learns_in_order(client):
    client.create(kind="bandit", rankers=["prod", "b", "c"], policy="rucb")
    assert client.show("r", rankings={"prod": ["x"], "b": ["y"]})[1]["error"]["code"] == "no_assignment"
    rng = np.random.default_rng(0)
    for batch in range(4):
        for k in range(40):
            request = f"{batch}-{k}"
            _, assigned = client.call("POST", "/v1/experiments/e/assign", {"request_id": request})
            # the better the ranker, the more of its documents are liked
            rankings = {
                name: [f"{name}{d}" for d in range(12)] if len(assigned["rankers"]) > 1 else ["z"]
                for name in assigned["rankers"]
            }
            _, shown = client.show(request, rankings=rankings, assignment=assigned["assignment"])
            assert shown["serve"] == "interleaved", shown
            click_some(client, shown, lambda d: d[:1] == "c" and rng.random() < 0.5)
        report = client.wait_closed()
    bandit = report["bandit"]
    assert bandit["n_duels"] == 160
    assert bandit["best"] == "c"
    wins = np.array(bandit["wins"])
    ours = {one["name"]: one for one in bandit["rankers"]}
    duels = sum(one["duels"] for one in bandit["rankers"])
    assert duels == pytest.approx(320, abs=160)  # a ranker against itself counts once
    assert wins[2, 0] + wins[0, 2] > 0
    assert ours["c"]["wins"] > ours["c"]["losses"]
    assert sum(one["share"] for one in bandit["rankers"]) == pytest.approx(1)
    # the policy has seen what the table shows, with a coin for each tie, which the table counts as half
    policy = client.service.registry.known("e").policy.bandit.bandit
    assert policy.t == 160
    np.testing.assert_array_equal(policy.wins, policy.wins.round())
    np.testing.assert_array_equal(policy.wins + policy.wins.T, wins + wins.T)
    by_coin = 2 * (policy.wins - wins)[np.triu_indices(3, 1)]
    n_ties = sum(one["ties"] for one in bandit["rankers"]) / 2
    assert 0 < np.abs(by_coin).sum() < n_ties  # some to each side
    # counts again from the store, the coins fall as they did
    assert main(["live", "check", "--store", client.service.settings.store]) == 0


@pytest.mark.parametrize("on_winner", ["keep", "serve_winner"])
def test_a_bandit_that_decides_ends_the_comparison(client, on_winner):
    """Users like the documents of only one ranker; with ``keep``, the bandit then plays only this ranker."""
    options = {"kind": "bandit", "rankers": ["prod", "b", "c"], "policy": "best"}
    client.create(policy_options={"alpha": 0.4}, stop={"on_winner": on_winner}, **options)
    decided = 'structsvm_live_decided{experiment="e"} '
    for k in range(300):
        _, assigned = client.call("POST", "/v1/experiments/e/assign", {"request_id": f"r{k}"})
        rankings = {name: [f"{name}{d}" for d in range(9)] for name in assigned["rankers"]}
        _, shown = client.show(f"r{k}", rankings=rankings, assignment=assigned["assignment"])
        best = max({*rankings} - {"prod"}, default="none")
        click_some(client, shown, lambda d, best=best: d[0] == best)
        if k % 5 == 4:
            verdict = client.wait_closed()["verdict"]
            client.run(client.service.upkeep.watch())
            figure = float(client.request("GET", "/metrics").text.partition(decided)[2].split()[0])
            assert figure == (verdict["winner"] is not None)
            if figure:
                break
    assert verdict["winner"] == "c"
    assert re.fullmatch(
        r"c is best: it wins more than 50% of its duels against every other ranker. \d+ duels show "
        "it, .* 0.4, at any number of looks.",
        verdict["sentence"],
    )
    _, assigned = client.call("POST", "/v1/experiments/e/assign", {"request_id": "later"})
    served, state = ("interleaved", "running") if on_winner == "keep" else ("winner", "stopped")
    assert (assigned["serve"], assigned["rankers"], client.row().state) == (served, ["c"], state)
    options["stop"] = {"on_winner": "serve_winner"}
    for wrong in ({"policy": "rucb"}, {"policy_options": {"top": 2}}):
        status, answer = client.call("PUT", "/v1/experiments/x", {**options, **wrong})
        assert (status, "expected keep, as" in answer["error"]["message"]) == (422, True)


@pytest.mark.parametrize("policy", ["rucb", "best"])
def test_a_tie_is_half_a_win_of_best_and_a_coin_by_the_id_of_the_impression_elsewhere(client, policy):
    client.create(kind="bandit", rankers=["prod", "b", "c"], policy=policy)
    for k in range(40):
        _, assigned = client.call("POST", "/v1/experiments/e/assign", {"request_id": f"r{k}"})
        rankings = {name: [f"{name}{d}" for d in range(9)] for name in assigned["rankers"]}
        client.show(f"r{k}", rankings=rankings, assignment=assigned["assignment"])
    client.wait_closed()
    expected = np.zeros((3, 3))
    for one in client.stored("e"):
        a, b = one.record.arms
        coin = np.random.default_rng(int.from_bytes(one.id)).random() < 0.5
        won = 0.5 if policy == "best" else float(coin)
        expected[a, b] += won
        expected[b, a] += 1 - won
    np.fill_diagonal(expected, 0)
    np.testing.assert_array_equal(client.service.registry.known("e").policy.bandit.bandit.wins, expected)


@pytest.mark.parametrize("policy", ["rmed1", "if2"])
def test_a_bandit_spreads_while_outcomes_are_out_and_a_search_keeps_its_rankers(client, policy):
    client.create(kind="bandit", rankers=list("abcde"), policy=policy, horizon=1000, length=3)

    def assigned(k, **context):
        body = {"request_id": f"r{k}", "context": context}
        return client.call("POST", "/v1/experiments/e/assign", body)[1]["rankers"]

    first = [assigned(k) for k in range(40)]
    pairs = Counter(tuple(sorted(pair)) for pair in first)
    assert len(pairs) == (10 if policy == "rmed1" else 4)  # the candidate of IF2 meets each other one
    assert max(pairs.values()) <= 10
    assert [assigned(k) for k in range(40)] == first  # tries of the same searches
    for k, pair in enumerate(first):
        assignment = client.call("POST", "/v1/experiments/e/assign", {"request_id": f"r{k}"})[1]["assignment"]
        rankings = {name: [f"{name}{d}" for d in range(9)] for name in {*pair, "a"}}
        client.show(f"r{k}", rankings=rankings, assignment=assignment)
    known = client.service.registry.known
    client.run(client.service.registry.refresh())
    assert len(known("e").policy.bandit.out) == 40  # each counted once
    client.wait_closed()
    assert known("e").policy.bandit.out == []
    known("e").policy.duels.clear()  # as on another worker
    assert [assigned(k, page=2) for k in range(40)] == first


@pytest.mark.parametrize("method", ["team_draft", "optimized"])
def test_the_export_of_a_bandit_says_what_its_table_says(client, tmp_path, method):
    names = ["prod", "b", "c", "d"]
    client.create(kind="bandit", rankers=names, policy="rucb", method=method, length=4)
    rng = np.random.default_rng(3)
    for k in range(60):
        _, assigned = client.call("POST", "/v1/experiments/e/assign", {"request_id": f"r{k}"})
        rankings = {name: [f"d{d}" for d in rng.permutation(8)] for name in assigned["rankers"]}
        _, shown = client.show(
            f"r{k}", rankings=rankings, assignment=assigned["assignment"], unit=f"u{k % 9}"
        )
        click_some(client, shown, lambda d: rng.random() < 0.4)
    bandit = client.wait_closed()["bandit"]
    log = client.log(tmp_path / "log.jsonl")
    read = read_log(log)
    assert read.rankers == tuple(names)
    assert len(read.impressions) <= bandit["n_duels"] == 60
    answer = analyse(read_credits(log), correction="none")
    assert answer == analyse(read, correction="none")
    n_met = 0
    for pair in answer.pairs:
        i, j = names.index(pair.a), names.index(pair.b)
        n = pair.wins + pair.losses + pair.ties
        n_met += n
        ahead = 0.0  # by the sign of each outcome, also where it is a fraction
        for one in read.impressions:
            if set(one.rankers) == {pair.a, pair.b}:
                outcome = interleaver(method).outcome(one.shown, one.clicked)
                ahead += np.sign(outcome[one.rankers.index(pair.a), one.rankers.index(pair.b)])
        assert bandit["wins"][i][j] - bandit["wins"][j][i] == ahead
        assert method != "team_draft" or ahead == pair.wins - pair.losses
    assert n_met == len(read.impressions)
    assert analyse(read_credits(log, cluster="session"), cluster="session").n_clusters <= 9
    assert main(["interleave", "analyse", str(log)]) == 0


@pytest.mark.parametrize("unit", ["session", "user", "request"])
def test_the_export_has_units_to_be_analysed_together(client, tmp_path, unit, capsys):
    """Units are exported as keyed hashes; forgotten units are left out, with their lists."""
    client.create(unit=unit, log_query=True)
    store = client.service.settings.store
    for k in range(12):
        _, shown = client.show(f"r{k}", unit=f"u{k % 4}", query="lamp")
        client.click({"token": shown["token"], "place": 1 + k % 3})
    assert main(["live", "export", "e", "--store", store, "-o", str(tmp_path / "none.jsonl")]) == 0
    said = capsys.readouterr()
    assert ("left out: 12 pending impressions" in said.err, said.out.endswith(": 0 lists\n")) == (True, True)
    report = client.wait_closed()
    log = client.log(tmp_path / "log.jsonl")
    assert b'"u' not in log.read_bytes().replace(b'"user"', b"")
    caution = report["caution"]
    assert caution is None if unit == "request" else caution.endswith(f"--cluster {unit}.")
    if unit == "request":
        assert "session" not in json.loads(log.read_text().splitlines()[0])
        return
    answer = analyse(read_credits(log, cluster=unit), cluster=unit)
    assert (answer.n_clusters, answer.n_impressions) == (4, report["n_impressions"])
    assert main(["live", "forget", "e", "u1", "--store", store]) == 0
    assert main(["live", "forget", "e", "u1", "--store", store]) == 0
    assert capsys.readouterr().out == "3 impressions\nno impression of e has the unit 'u1'\n"
    assert main(["live", "export", "e", "--store", store, "-o", str(log)]) == 0
    said = capsys.readouterr()
    assert said.err == "structsvm: left out: 3 impressions of units that were forgotten\n"
    assert said.out.endswith(": 9 lists\n")
    assert log.read_bytes() == client.export()
    assert main(["interleave", "analyse", str(log), "--cluster", unit]) == 0
    assert main(["clicks", "describe", str(log)]) == 0
    assert len({one["query_id"] for one in map(json.loads, client.export(form="ubi").splitlines())}) == 9


def test_an_assignment_is_for_its_request(client):
    client.create(kind="bandit")
    for longest in ("\u0436" * 512, "\x01" * 512, "r1"):
        _, assigned = client.call("POST", "/v1/experiments/e/assign", {"request_id": longest})
        sealed = assigned["assignment"]
        assert client.show(longest, rankings=RANKINGS, assignment=sealed)[0] == 200
    for request, assignment in (("r2", sealed), ("r1", sealed[:-4]), ("r1", sealed[:-2] + "AA"), ("r1", "")):
        status, answer = client.show(request, rankings=RANKINGS, assignment=assignment)
        assert (status, answer["error"]["code"]) == (403, "bad_assignment"), (request, assignment)


def test_series_grows_slowly():
    n, found = 0, []
    while n < 10**7:
        n = next_snapshot(n)
        found.append(n)
    assert len(found) < 350
    assert all(b > a for a, b in pairwise(found))
    # the grid is the same wherever one asks
    assert all(next_snapshot(n - 1) == n for n in found[1:])
