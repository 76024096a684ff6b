"""Team-draft logs that an A/B search writes as UBI events."""

import json

import numpy as np
import pytest

from structsvm.checks import BadInput
from structsvm.cli import main
from structsvm.clicks import read_team_draft_ubi
from structsvm.online.clicklog import Click, Impression, write_log
from structsvm.online.interleaving import TeamDraft
from structsvm.online.statistics import analyse, credit_log


def event(action, query, document, ordinal, team=None, **more):
    attributes = {"object": {"object_id": document}, "position": {"ordinal": ordinal}}
    if team is not None:
        attributes["search_config"] = team
    return {"action_name": action, "query_id": query, "event_attributes": attributes, **more}


def drafted(n, seed=0):
    """The same lists as our own log and as UBI events; ranker "a-new" is clicked more."""
    rng = np.random.default_rng(seed)
    names = ("a-new", "b-old")
    impressions, events = [], []
    for number in range(n):
        rankings = [[f"d{d}" for d in rng.permutation(12)] for _ in names]
        shown = TeamDraft().show(rankings, 6, rng).with_impression(str(number))
        team = shown.evidence[0]
        chance = np.where(np.array(team) == 0, 0.4, 0.2)
        ranks = (np.flatnonzero(rng.random(6) < chance) + 1).tolist()
        user = f"u{rng.integers(n // 3)}"
        impressions.append(Impression(shown, tuple(map(Click, ranks)), query="ps4", user=user, rankers=names))
        common = {"client_id": user}
        events.append({"query_id": str(number), "user_query": "ps4", **common})
        for action, places in (("impression", range(1, 7)), ("click", ranks)):
            events += [
                event(action, str(number), shown.documents[k - 1], k, names[team[k - 1]], **common)
                for k in places
            ]
    return impressions, events


def write(path, events):
    path.write_text("".join(json.dumps(e) + "\n" for e in events))
    return path


@pytest.mark.parametrize("cluster", ["auto", "user"])
def test_the_verdict_is_that_of_our_own_log(tmp_path, capsys, cluster):
    impressions, events = drafted(60)
    own = write_log(tmp_path / "own.jsonl", impressions) or tmp_path / "own.jsonl"
    ubi = write(tmp_path / "ubi.ndjson", events)
    log, dropped = read_team_draft_ubi(ubi)
    assert dropped == {}
    assert [i.to_dict() for i in log.impressions] == [i.to_dict() for i in impressions]
    options = [] if cluster == "auto" else ["--cluster", cluster]
    said = []
    for path in (own, ubi):
        assert main(["interleave", "analyse", str(path), *options, "--json"]) == 0
        said.append({k: v for k, v in json.loads(capsys.readouterr().out).items() if k != "log"})
    assert said[0] == said[1]
    assert said[0]["pairs"]
    assert said[0]["cluster"] == "user"
    assert analyse(credit_log(log, cluster=cluster), cluster=cluster).to_dict() == said[0]


DIRT = [
    (event("impression", "q", "a", 1, "new"), "document twice in a list"),
    (event("impression", "q", "z", None, "new"), "impression without an ordinal"),
    (event("click", "q", "never", 1), "click on a document that was not shown"),
    (event("click", "lost", "a", 1), "click on a list without impressions"),
    (event("hover", "q", "a", 1), "event hover"),
    (event("click", None, "a", 1), "event without a query"),
    (event("click", "q", "", 1), "event without a document"),
    (event("click", "q", "a", 1, timestamp="noon"), "event with an invalid time"),
    (event("click", "q", "a", 1, timestamp="2025-01-01T00:00:09Z"), "click before its impression"),
]


@pytest.mark.parametrize(("entry", "reason"), DIRT, ids=[r for _, r in DIRT])
def test_dirt_is_counted_and_changes_nothing_else(tmp_path, entry, reason):
    clean = [
        event("impression", "q", "a", 1, "new", timestamp="2025-01-01T00:00:10Z"),
        event("impression", "q", "b", 2, "old"),
        event("click", "q", "a", 1, timestamp="2025-01-01T00:00:12Z"),
    ]
    log, dropped = read_team_draft_ubi(write(tmp_path / "log.jsonl", [*clean, entry]))
    assert dropped == {reason: 1}
    assert log.impressions[0].shown.documents == ("a", "b")
    assert log.impressions[0].clicks == (Click(1, 2.0),)


def test_lists_of_one_team_are_no_drafts(tmp_path):
    drafted_list = [event("impression", "q", "a", 1, "new"), event("impression", "q", "b", 2, "old")]
    one_team = [event("impression", "p", d, k, "new") for k, d in enumerate("ab", 1)]
    taps = [event("click", "p", "a", 1)]
    log, dropped = read_team_draft_ubi(write(tmp_path / "log.jsonl", [*drafted_list, *one_team, *taps]))
    assert len(log.impressions) == 1
    assert dropped == {
        "list that lacks a ranker, which is no draft": 1,
        "click on a list that is no draft": 1,
    }


@pytest.mark.parametrize("team", [None, "new"])
def test_without_two_configurations_there_is_nothing_to_compare(tmp_path, capsys, team):
    path = write(tmp_path / "log.jsonl", [event("impression", "q", "a", 1, team)])
    with pytest.raises(BadInput, match="expected impressions of two search configurations or more"):
        read_team_draft_ubi(path)
    assert main(["interleave", "analyse", str(path)]) == 2
    assert "expected impressions of two search configurations" in capsys.readouterr().err


def test_the_attribute_can_be_named_and_may_be_of_the_object(tmp_path):
    events = [event("impression", "q", d, k) for k, d in enumerate("ab", 1)]
    for entry, team in zip(events, ("x", "y"), strict=True):
        entry["event_attributes"]["object"]["arm"] = team
    log, _ = read_team_draft_ubi(write(tmp_path / "log.jsonl", events), configuration="arm")
    assert log.rankers == ("x", "y")
