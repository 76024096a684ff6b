"""Interleaved lists as tables: the log that the same lists make as JSON Lines."""

import json

import numpy as np
import pandas as pd
import pytest

from structsvm.checks import BadInput
from structsvm.cli import main
from structsvm.clicks import read_team_draft_table
from structsvm.online.clicklog import Click, Impression, read_log, write_log
from structsvm.online.interleaving import TeamDraft
from structsvm.online.statistics import analyse


def lists(n=300):
    rng = np.random.default_rng(0)
    made = []
    for k in range(n):
        shown = TeamDraft().show([list("abcdef"), list("cadbfe")], 4, rng).with_impression(k)
        clicks = tuple(
            Click(r) for r in range(1, 5) if rng.random() < (0.6 if shown.evidence[0][r - 1] == 1 else 0.3)
        )
        made.append(Impression(shown, clicks, query=k % 7, user=f"u{k % 50}", rankers=("new", "old")))
    return made


def table(made):
    rows = []
    for one in made:
        for k, (document, team) in enumerate(zip(one.shown.documents, one.shown.evidence[0], strict=True)):
            name = None if team is None else ("new", "old")[team]
            rows.append(
                (one.shown.impression, k + 1, document, name, int(one.clicked[k]), one.user, one.query)
            )
    columns = ["list_id", "rank", "doc", "team", "click", "user_id", "query"]
    return pd.DataFrame(rows, columns=columns).sample(frac=1, random_state=0)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
def test_the_verdict_is_that_of_the_log(tmp_path, capsys, suffix):
    made = lists()
    write_log(tmp_path / "log.jsonl", made)
    frame, path = table(made), tmp_path / f"log.{suffix}"
    frame.to_parquet(path) if suffix == "parquet" else frame.to_csv(
        path, index=False, sep="\t" if suffix == "tsv" else ","
    )
    answers = []
    for log in (tmp_path / "log.jsonl", path):
        assert main(["interleave", "analyse", str(log), "--json"]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    for answer in answers:
        del answer["log"]
    assert answers[0]["cluster"] == "user"
    for name in ("winner", "n_impressions", "n_clusters", "n_clicked"):
        assert answers[0][name] == answers[1][name]
    assert answers[0]["pairs"][0]["mean"] == pytest.approx(answers[1]["pairs"][0]["mean"], rel=1e-12)


def test_a_list_of_impressions_is_a_log():
    made = lists(100)
    read = read_team_draft_table(table(made))
    assert analyse(made) == analyse(iter(made)) == analyse(read.log) == analyse(read)


def test_why_no_winner_is_named():
    answer = analyse(lists())
    assert "none named as users come again, see notes and cluster='auto'" in repr(answer)
    assert "are of a user seen before" in answer._repr_html_()
    assert "come again" not in repr(analyse(lists(), cluster="auto"))


def test_a_path_in_place_of_a_log_names_its_reader(tmp_path):
    path = tmp_path / "log.csv"
    table(lists(20)).to_csv(path, index=False)
    with pytest.raises(BadInput, match=r"log: expected a log, got the path '.*; read it by read_log or"):
        analyse(path)
    with pytest.raises(
        ValueError, match=r"log.csv:1: expected one JSON .* is read by .*read_team_draft_table"
    ):
        read_log(path)


def test_dirt_is_counted():
    frame = pd.DataFrame({
        "impression": [1, 1, 1, 2, 2, None, 3, 3], "rank": [0, 1, 2, 0, 1, 0, 0, 1],
        "clicked": [0, 1, 0, 1, 0, 1, 0, 0], "document": ["a", "b", "a", "a", "b", "a", "c", "d"],
        "team": ["x", "y", "y", "x", "x", "y", "y", None],
    })  # fmt: skip
    log, dropped = read_team_draft_table(frame)
    assert dropped == {
        "row without an impression, a document or a rank": 1, "document twice in a list": 1,
        "list that lacks a ranker, which is no draft": 1,
    }  # fmt: skip
    assert [one.shown.evidence for one in log.impressions] == [((0, 1),), ((1, None),)]
    assert log.impressions[0].clicks == (Click(2),)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"team": "x"}, r"team: expected two teams or more, got \['x'\]"),
        ({"clicked": 3}, "clicked: expected 0 or 1, got 3; count clicks of one list once"),
        ({"team": ["x", None], "impression": None}, "team: expected two teams or more, got none"),
    ],
)
def test_what_is_no_draft_is_refused(change, message):
    frame = pd.DataFrame(
        {"impression": [1, 1], "rank": [1, 2], "document": ["a", "b"], "team": ["x", "y"], "clicked": [0, 1]}
    )
    with pytest.raises(BadInput, match=message):
        read_team_draft_table(frame.assign(**change))


def test_columns_are_named_or_found():
    frame = pd.DataFrame(
        {"search": [1, 1], "rank": [1, 2], "doc": ["a", "b"], "team": ["x", "y"], "clicked": [0, 1]}
    )
    with pytest.raises(
        BadInput,
        match="table: expected a column 'impression', got search, rank, doc, team, clicked; rename it to impression or "
        r"a usual name \(impression_id, list, list_id\), or state columns=",
    ):
        read_team_draft_table(frame)
    with pytest.raises(
        BadInput, match=r"table: expected a column 'other', got search, .*; state others by columns="
    ):
        read_team_draft_table(frame, columns={"impression": "other"})
    assert len(read_team_draft_table(frame, columns={"impression": "search"}).log.impressions) == 1
    with pytest.raises(BadInput, match=r"columns: expected some of impression, document, .*, got 'list'"):
        read_team_draft_table(frame, columns={"list": "search"})


def drafts(rankers, n=200, length=6):
    """Lists of these rankers, which are equally good, as rows of a table."""
    rng = np.random.default_rng(1)
    for k in range(n):
        shown = TeamDraft().show([list(rng.permutation(list("abcdefgh"))) for _ in rankers], length, rng)
        for rank, (document, team) in enumerate(zip(shown.documents, shown.evidence[0], strict=True), 1):
            yield f"{''.join(rankers)}{k}", rank, document, rankers[team], int(rng.random() < 0.3)


def drafted_table(*rows):
    names = ["impression", "rank", "document", "team", "clicked"]
    return pd.DataFrame([row for one in rows for row in one], columns=names)


@pytest.mark.parametrize("length", [2, 6])
def test_a_table_of_two_experiments_is_refused(length):
    frame = drafted_table(drafts("AB", length=length), drafts("AC", length=length))
    expected = r"team: .* drafted from all of 'A', 'B', 'C', got 200 of 'A', 'B'; 200 of 'A', 'C'; correct .*"
    with pytest.raises(BadInput, match=expected):
        read_team_draft_table(frame)


@pytest.mark.parametrize("rows", [slice(0, 6), slice(0, 1)], ids=["list", "row"])
def test_a_misspelled_ranker_is_refused(rows):
    frame = drafted_table(drafts("AB"))
    frame.loc[frame.index[rows], "team"] = frame.team[rows].replace({"A": "A ", "B": "b"})
    with pytest.raises(
        BadInput, match=r"team: expected lists .*, got 199 of .*; 1 of .*; correct misspelled"
    ):
        read_team_draft_table(frame)


def test_lists_with_fewer_places_than_rankers_are_drafts():
    log, dropped = read_team_draft_table(drafted_table(drafts("ABC", length=2)))
    assert (len(log.impressions), dropped) == (200, {})
    log, dropped = read_team_draft_table(drafted_table(drafts("ABC"), drafts("AB", n=20)))
    assert (len(log.impressions), dropped) == (200, {"list that lacks a ranker, which is no draft": 20})


@pytest.mark.parametrize("kind", ["frame", "csv"])
def test_unknown_clicks_and_a_log_of_clicks_alone_are_refused(tmp_path, kind):
    def read(frame):
        if kind == "frame":
            return read_team_draft_table(frame)
        frame.to_csv(tmp_path / "log.csv", index=False)
        return read_team_draft_table(tmp_path / "log.csv")

    frame = drafted_table(drafts("AB"))
    unknown = frame.assign(clicked=frame.clicked.where(frame["rank"] < 5))
    with pytest.raises(
        BadInput, match=r"clicked: expected 0 or 1, got (an empty cell|nan).*; leave out rows"
    ):
        read(unknown)
    with pytest.raises(
        BadInput, match=r"clicked: expected rows without a click, too, got clicks in all .* rows"
    ):
        read(frame[frame.clicked == 1])
    if kind == "csv":
        short = frame.assign(clicked=frame.clicked.where(frame.clicked == 1).astype("Int64"))
        assert read(short).log.impressions == read(frame).log.impressions
