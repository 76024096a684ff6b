"""Team-draft logs of other programs, as UBI events and as tables: the log that the same lists make as JSON Lines."""

import json

import numpy as np
import pandas as pd
import pytest

from structsvm.cli import main
from structsvm.clicks import read_team_draft_table, read_team_draft_ubi
from structsvm.online.clicklog import Click, Impression, read_log, write_log
from structsvm.online.interleaving import TeamDraft
from structsvm.online.statistics import analyse
from tests.clicks.events import event, write
from tests.refusing import refused, rejected

RANKERS = ("new", "old")
LACKING = "list that lacks a ranker, so it is not a team draft"


def lists(n=100):
    """Return lists of two rankers with clicks, more of them for the first."""
    rng = np.random.default_rng(0)
    made = []
    for number in range(n):
        shown = TeamDraft().show([list("abcdef"), list("cadbfe")], 4, rng).with_impression(str(number))
        chance = np.where(np.array(shown.evidence[0]) == 0, 0.6, 0.3)
        clicks = map(Click, (np.flatnonzero(rng.random(4) < chance) + 1).tolist())
        made.append(Impression(shown, tuple(clicks), query="ps4", user=f"u{number % 40}", rankers=RANKERS))
    return made


def hits(made):
    """Yield impression, rank, document, team, click flag and user of each hit."""
    for one in made:
        for k, (document, team) in enumerate(zip(one.shown.documents, one.shown.evidence[0], strict=True)):
            name = None if team is None else RANKERS[team]
            yield one.shown.impression, k + 1, document, name, int(one.clicked[k]), one.user


def table(made):
    columns = ["list_id", "rank", "doc", "team", "click", "user_id"]
    return pd.DataFrame(hits(made), columns=columns).assign(query="ps4").sample(frac=1, random_state=0)


def events(made):
    for one in made:
        yield {"query_id": one.shown.impression, "user_query": one.query, "client_id": one.user}
    for name, rank, document, team, clicked, user in hits(made):
        for action in ("impression", "click")[: 1 + clicked]:
            yield event(action, name, document, rank, team, client_id=user)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "ndjson"])
def test_the_verdict_is_that_of_our_own_log(tmp_path, capsys, suffix):
    made, path = lists(), tmp_path / f"log.{suffix}"
    write_log(tmp_path / "own.jsonl", made)
    if suffix == "ndjson":
        log, dropped = read_team_draft_ubi(write(path, events(made)))
        assert ([one.to_dict() for one in log.impressions], dropped) == ([one.to_dict() for one in made], {})
    elif suffix == "parquet":
        table(made).to_parquet(path)
    else:
        named = table(made).rename(columns={"team": "side", "list_id": "serp"})
        named.to_csv(path, index=False, sep="\t" if suffix == "tsv" else ",")
    columns = ["--columns", "team=side,impression=serp"] if suffix.endswith("sv") else []
    answers = []
    for log, more in ((tmp_path / "own.jsonl", []), (path, columns)):
        assert main(["interleave", "analyse", str(log), "--json", *more]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[0]["cluster"] == "user"
    for name in ("winner", "fixed_sample_winner", "n_impressions", "n_clusters", "n_clicked"):
        assert answers[0][name] == answers[1][name]
    assert answers[0]["pairs"][0]["mean"] == pytest.approx(answers[1]["pairs"][0]["mean"], rel=1e-12)


def test_a_list_of_impressions_is_a_log():
    made = lists()
    read = read_team_draft_table(table(made).sort_index())
    assert analyse(made) == analyse(iter(made)) == analyse(read.log) == analyse(read)


def test_why_no_winner_is_named():
    made = lists(300)
    answer = analyse(made)
    assert "none named as users return, see notes and cluster='auto'" in repr(answer)
    assert "are from a user seen before" in answer._repr_html_()
    assert "users return" not in repr(analyse(made, cluster="auto"))


def test_a_path_in_place_of_a_log_names_its_reader(tmp_path):
    path = tmp_path / "log.csv"
    table(lists(20)).to_csv(path, index=False)
    refused(r"log: expected a log, got the path '.*; read it with read_log or", analyse, path)
    rejected(r"log.csv:1: expected one JSON .* is read by .*read_team_draft_table", read_log, path)


def test_dirt_of_tables_is_counted():
    frame = pd.DataFrame(
        {
            "impression": [1, 1, 1, 2, 2, None, 3, 3],
            "rank": [0, 1, 2, 0, 1, 0, 0, 1],
            "clicked": [0, 1, 0, 1, 0, 1, 0, 0],
            "document": ["a", "b", "a", "a", "b", "a", "c", "d"],
            "team": ["x", "y", "y", "x", "x", "y", "y", None],
        }
    )
    log, dropped = read_team_draft_table(frame)
    missing = "row without an impression, a document or a rank"
    assert dropped == {missing: 1, "document twice in a list": 1, LACKING: 1}
    assert [one.shown.evidence for one in log.impressions] == [((0, 1),), ((1, None),)]
    assert log.impressions[0].clicks == (Click(2),)


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
def test_dirt_of_events_is_counted_and_changes_nothing_else(tmp_path, entry, reason):
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
    entries = [event("impression", "q", "a", 1, "new"), event("impression", "q", "b", 2, "old")]
    entries += [event("impression", "p", d, k, "new") for k, d in enumerate("ab", 1)]
    log, dropped = read_team_draft_ubi(write(tmp_path / "log.jsonl", [*entries, event("click", "p", "a", 1)]))
    assert len(log.impressions) == 1
    assert dropped == {LACKING: 1, "click on a list that is not a team draft": 1}


@pytest.mark.parametrize("team", [None, "new"])
def test_without_two_configurations_there_is_nothing_to_compare(tmp_path, capsys, team):
    path = write(tmp_path / "log.jsonl", [event("impression", "q", "a", 1, team)])
    assert main(["interleave", "analyse", str(path)]) == 2
    assert "expected impressions of at least two search configurations" in capsys.readouterr().err


def test_the_attribute_can_be_named_and_may_be_of_the_object(tmp_path):
    entries = [event("impression", "q", d, k) for k, d in enumerate("ab", 1)]
    for entry, team in zip(entries, ("x", "y"), strict=True):
        entry["event_attributes"]["object"]["arm"] = team
    log, _ = read_team_draft_ubi(write(tmp_path / "log.jsonl", entries), configuration="arm")
    assert log.rankers == ("x", "y")


TWO = pd.DataFrame(
    {"impression": [1, 1], "rank": [1, 2], "document": ["a", "b"], "team": ["x", "y"], "clicked": [0, 1]}
)
SEARCH = TWO.rename(columns={"impression": "search", "document": "doc"})


@pytest.mark.parametrize(
    ("frame", "columns", "message"),
    [
        (TWO.assign(team="x"), None, r"team: expected at least two teams, got \['x'\]"),
        (
            TWO.assign(clicked=3),
            None,
            "column 'clicked': expected 0 or 1, got 3; write 1 for repeated clicks",
        ),
        (TWO.assign(team=["x", None], impression=None), None, "team: expected at least two teams, got none"),
        (
            SEARCH,
            None,
            "table: expected a column 'impression' for the impression, got 'search', 'rank', 'doc', 'team', 'clicked'; "
            r"rename it to a usual name \(impression, impression_id, list, list_id\), or name it with columns=, such "
            "as impression=NAME",
        ),
        (
            SEARCH.rename(columns={"doc": "sku"}),
            None,
            "table: expected a column 'impression' for the impression, got 'search', 'rank', 'sku', 'team', ",
        ),
        (
            SEARCH,
            {"impression": "other"},
            "table: expected a column 'other' for the impression, .*, or name it with columns=",
        ),
        (SEARCH, {"list": "search"}, r"columns: expected some of impression, document, .*, got 'list'"),
    ],
)
def test_what_is_no_table_of_drafts_is_refused(frame, columns, message):
    refused(message, read_team_draft_table, frame, columns=columns)
    assert len(read_team_draft_table(SEARCH, columns={"impression": "search"}).log.impressions) == 1


def drafts(rankers, n=200, length=6):
    """Return lists of the given rankers, which are equally good, as rows of a table."""
    rng = np.random.default_rng(1)
    for k in range(n):
        shown = TeamDraft().show([list(rng.permutation(list("abcdefgh"))) for _ in rankers], length, rng)
        for rank, (document, team) in enumerate(zip(shown.documents, shown.evidence[0], strict=True), 1):
            yield f"{''.join(rankers)}{k}", rank, document, rankers[team], int(rng.random() < 0.3)


def drafted_table(*rows):
    return pd.DataFrame(
        [row for one in rows for row in one], columns=["impression", "rank", "document", "team", "clicked"]
    )


@pytest.mark.parametrize("length", [2, 6])
def test_a_table_of_two_experiments_is_refused(length):
    frame = drafted_table(drafts("AB", length=length), drafts("AC", length=length))
    refused(
        r"team: .* drafted from all of 'A', 'B', 'C', got 200 of 'A', 'B'; 200 of 'A', 'C'; correct .*",
        read_team_draft_table,
        frame,
    )


@pytest.mark.parametrize("rows", [slice(0, 6), slice(0, 1)], ids=["list", "row"])
def test_a_misspelled_ranker_is_refused(rows):
    frame = drafted_table(drafts("AB"))
    frame.loc[frame.index[rows], "team"] = frame.team[rows].replace({"A": "a", "B": "b"})
    refused(
        r"team: expected lists .*, got 199 of .*; 1 of .*; correct misspelled", read_team_draft_table, frame
    )


def test_lists_with_fewer_places_than_rankers_are_drafts():
    log, dropped = read_team_draft_table(drafted_table(drafts("ABC", length=2)))
    assert (len(log.impressions), dropped) == (200, {})
    log, dropped = read_team_draft_table(drafted_table(drafts("ABC"), drafts("AB", n=20)))
    assert (len(log.impressions), dropped) == (200, {LACKING: 20})


@pytest.mark.parametrize("kind", ["frame", "csv"])
def test_unknown_clicks_and_a_log_of_clicks_alone_are_refused(tmp_path, kind):
    def read(frame):
        if kind == "frame":
            return read_team_draft_table(frame)
        frame.to_csv(tmp_path / "log.csv", index=False)
        return read_team_draft_table(tmp_path / "log.csv")

    frame = drafted_table(drafts("AB"))
    message = r"column 'clicked': expected 0 or 1, got (an empty cell|a missing value); leave out rows"
    refused(message, read, frame.assign(clicked=frame.clicked.where(frame["rank"] < 5)))
    message = r"clicked: expected rows without a click, too, got clicks in all .* rows"
    refused(message, read, frame[frame.clicked == 1])
    if kind == "csv":
        short = frame.assign(clicked=frame.clicked.where(frame.clicked == 1).astype("Int64"))
        assert read(short).log.impressions == read(frame).log.impressions
