"""Readers of logs: the formats, real files, and all defects that a log may have."""

import inspect
import json
import re
from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pytest

import structsvm.clicks
from structsvm.clicks import (
    ClickCells,
    batches,
    cells_of_log,
    interleaving_log,
    read_clicks,
    read_sessions,
    read_table,
    read_ubi,
    tables,
    ubi,
    ubi_entries,
)
from structsvm.common import files
from structsvm.common.checks import BadInput
from structsvm.common.lazy import labels
from structsvm.common.tables import text
from structsvm.online import clicklog
from structsvm.online.clicklog import Click, Impression, read_log, write_log
from structsvm.online.interleaving import Shown
from tests.clicks.events import event, write
from tests.refusing import refused, rejected

HEAD = "query,document,position,clicked\n"  # of a table


def counts(cells):
    query = cells.query_ids[cells.row_query]
    return {
        (str(query[r]), str(cells.docid[r]), int(k)): (int(n), int(c))
        for r, k, n, c in zip(cells.row, cells.position, cells.shows, cells.clicks, strict=True)
    }


def query(query_id="1", text="ps4", **more):
    return {"query_id": query_id, "user_query": text, **more}


def impression(documents, *clicks, query=None, name=None):
    """Return a list of our own log, with clicks at positions counted from 1."""
    documents = tuple(documents)
    shown = Shown("team_draft", documents, 2, (tuple(k % 2 for k in range(len(documents))),))
    shown = shown if name is None else shown.with_impression(name)
    return Impression(shown, tuple(map(Click, clicks)), query=query)


CLEAN = [
    query(),
    event("impression"),
    event("impression", document="b", ordinal=2),
    event("click", document="b", ordinal=2),
    query("2"),
    event("view", "2", "b", 1),
    event("view", "2", "a", 2),
    event("item_click", "2", "b", 1),
]
EXPECTED = {
    ("ps4", "a", 1): (1, 0),
    ("ps4", "b", 2): (1, 1),
    ("ps4", "b", 1): (1, 1),
    ("ps4", "a", 2): (1, 0),
}


ANSWER = {"took": 1, "hits": {"hits": [{"_source": e} for e in CLEAN]}}
DUMP = [{"_index": "ubi", "_id": "1", "_source": e} for e in CLEAN]
AS_TEXT = json.loads(re.sub(r'("ordinal": )(\d+)', r'\1"\2"', json.dumps(CLEAN)))
BULK = [line for e in CLEAN for line in ({"index": {"_index": "ubi", "_id": "1"}}, e)]


# one a line, events before their queries, in bulk format, by elasticdump, as an answer on one line or over several
@pytest.mark.parametrize("entries", [CLEAN, CLEAN[::-1], BULK, DUMP, AS_TEXT, [ANSWER], ANSWER])
def test_the_forms_of_ubi_agree(tmp_path, entries):
    path = tmp_path / "log.json"
    path.write_text(json.dumps(entries, indent=1)) if entries is ANSWER else write(path, entries)
    assert outcome(read_ubi(path)) == (EXPECTED, {}, 2)


_AGAIN = "earlier entry of a query logged several times"


def response(ids, query_id="1", **more):
    return {**query(query_id), "query_response_hit_ids": list(ids), **more}


def clicked(document, ordinal):
    return event("click", "1", document, ordinal)


@pytest.mark.parametrize(
    ("entries", "shows", "clicks", "dropped"),
    [
        # the second page of a search, asked for under the same id
        ([response("abc"), response("def"), clicked("d", 4)], "111111", "000100", {}),
        ([response("abc"), response("def"), clicked("d", None)], "111111", "000100", {}),
        # the same page again, with one document new; another text
        ([response("abc"), response("abd"), clicked("d", 3)], "111", "001", {_AGAIN: 1}),
        ([response("abc", user_query="p"), response("def"), clicked("d", 1)], "111", "100", {_AGAIN: 1}),
        # a document that is shown twice
        (
            [query(), *(event("impression", "1", d, k) for k, d in enumerate("abca", 1)), clicked("a", 4)],
            "0111",
            "0001",
            {"document twice in a list": 1, "list with a gap, counted but not used as a session": 1},
        ),
    ],
)
def test_clicks_stand_where_their_events_say(tmp_path, entries, shows, clicks, dropped):
    cells = read_ubi(write(tmp_path / "log.json", entries))
    found = [
        "".join(map(str, np.bincount(cells.position, of)[1:].astype(int)))
        for of in (cells.shows, cells.clicks)
    ]
    assert found == [shows, clicks.ljust(len(shows), "0")]
    assert {k: n for k, n in cells.dropped.items() if not k.startswith("list without impressions")} == dropped


def test_a_page_that_reorders_the_response_is_refused_but_for_a_few_clicks(tmp_path):
    clicks = [event("click", str(k), "a", 1) for k in range(60)]
    clicks[7] = event("click", "7", "a", 3)
    lists = [response("abc", str(k)) for k in range(60)]
    cells = read_ubi(write(tmp_path / "few.json", lists + clicks))
    assert cells.dropped["click at another position than its document"] == 1
    assert cells.clicks.sum() == 59
    clicks[:3] = [event("click", str(k), "a", 3) for k in range(3)]
    with pytest.raises(BadInput, match="got 4 of 60 elsewhere; a page that reorders the response"):
        read_ubi(write(tmp_path / "many.json", lists + clicks))


def test_clicks_below_the_length_name_it(tmp_path):
    ids = [f"a{k}" for k in range(24)]
    path = write(
        tmp_path / "log.json", [response(ids), clicked("a19", 20), clicked("a3", 4), clicked("b", 5)]
    )
    cells = read_ubi(path)
    assert cells.clicks.sum() == 1
    assert cells.dropped["click below the first 10 ids of its response (length=10)"] == 1
    assert cells.dropped["click on a document that was not shown"] == 1
    assert read_ubi(path, length=24).clicks.sum() == 2


def test_clicks_tell_how_ordinals_count_where_there_are_no_impressions(tmp_path):
    entries = [response("abc"), event("click", ordinal=0), response("abc", "2"), event("click", "2", "c", 2)]
    cells = read_ubi(write(tmp_path / "log.json", entries))
    assert np.bincount(cells.position, cells.clicks).tolist() == [0, 1, 0, 1]
    with pytest.raises(BadInput, match="returned imply 0: 1 events agree with it"):
        read_ubi(write(tmp_path / "other.json", entries[2:]), first_position=1)


DIRT = [
    (event("search"), "event search"),
    ({**event("click"), "query_id": None}, "event without a query"),
    (event("impression", "nobody"), "event whose query is not in the log"),
    ({**event("impression"), "event_attributes": None}, "event without a document"),
    ({**event("impression"), "event_attributes": {"object": "a"}}, "event without a document"),
    (event("impression", ordinal=None), "impression without an ordinal"),
    (event("impression", document="z", ordinal=10**30), "impression without an ordinal"),
    (event("impression", document="z", ordinal=10**9), "position out of range"),
    (event("impression", document="z", ordinal=-5), "position out of range"),
    (event("impression", document="z", ordinal=2), "position of a list taken twice"),
    (event("impression", ordinal=3), "document twice in a list"),
    (event("impression"), "impression logged again for the same session and query"),
    (event("click", document="never"), "click on a document that was not shown"),
    (event("click", document="b", ordinal=2), "repeated click"),
    (event("click", document="b", ordinal=None), "repeated click"),
    (event("click", timestamp="yesterday"), "event with an invalid time"),
    (event("click", timestamp=1e300), "event with an invalid time"),
    (query("3"), "query without a shown list"),
    (query("4", ""), "query without id or text"),
]


@pytest.mark.parametrize(("entry", "reason"), DIRT, ids=[r for _, r in DIRT])
def test_dirt_is_counted_and_changes_nothing_else(tmp_path, entry, reason):
    assert outcome(read_ubi(write(tmp_path / "a.jsonl", [*CLEAN, entry]))) == (EXPECTED, {reason: 1}, 2)


def test_a_click_before_its_impression_is_left_out(tmp_path):
    entries = [
        query(),
        event("impression", timestamp="2025-01-01T00:00:10Z"),
        event("click", timestamp=1735689600000),
    ]
    cells = read_ubi(write(tmp_path / "a.jsonl", entries))
    assert counts(cells) == {("ps4", "a", 1): (1, 0)}
    assert dict(cells.dropped) == {"click before its impression": 1}
    entries[2]["timestamp"] = "2025-01-01T00:00:11+00:00"
    assert counts(read_ubi(write(tmp_path / "a.jsonl", entries))) == {("ps4", "a", 1): (1, 1)}


def test_response_ids_stand_in_for_impressions(tmp_path):
    cells = read_ubi(
        write(
            tmp_path / "a.jsonl",
            [query(query_response_hit_ids=["a", "b", "c"]), event("click", document="b", ordinal=None)],
        ),
        length=2,
    )
    assert counts(cells) == {("ps4", "a", 1): (1, 0), ("ps4", "b", 2): (1, 1)}
    assert dict(cells.dropped) == {"list without impressions, taken as the first 2 ids of its response": 1}


def test_the_base_is_not_guessed(tmp_path):
    zero = [
        query(query_response_hit_ids=["a", "b"]),
        event("impression", ordinal=0),
        event("impression", document="b"),
    ]
    path = write(tmp_path / "a.jsonl", zero)
    refused(r"first_position: expected 0 or 1, as .* holds both positions \(None from 0\)", read_ubi, path)
    assert counts(read_ubi(path, first_position=0)) == {("ps4", "a", 1): (1, 0), ("ps4", "b", 2): (1, 0)}
    with pytest.raises(BadInput, match="first_position=1: the ids that queries of 'None' returned imply 0"):
        read_ubi(path, first_position=1)


@pytest.mark.parametrize("line", [b"null", b" null", b'{"query_id": "\xe9"}', b'{"query_id": ', b"[1]", b"7"])
@pytest.mark.parametrize("first", [True, False])
def test_broken_lines_are_named(tmp_path, line, first):
    path = tmp_path / "a.jsonl"
    good = json.dumps(query()).encode()
    path.write_bytes(b"\n".join([line, good] if first else [good, line]) + b"\n")
    expected = "JSON objects, one per line, or a response of _search" if first else "a JSON object"
    rejected(rf"a.jsonl:{2 - first}: expected {expected}", read_ubi, path)


@pytest.mark.parametrize("entries", [[], [event("click")], [query()]])
def test_without_a_list_there_is_nothing_to_count(tmp_path, entries):
    with pytest.raises(BadInput, match=r"a.jsonl: expected (UBI queries|impressions), got none"):
        read_ubi(write(tmp_path / "a.jsonl", entries))


def outcome(cells):
    return counts(cells), dict(cells.dropped), cells.sessions.n_sessions


def test_blocks_parts_and_entries_of_odd_types_change_nothing(tmp_path, monkeypatch):
    odd = [
        event("impression", ordinal="3rd"),
        event("impression", document=7),
        event("click", query=5),
        event(["click"]),
        {"index": {"_index": "x"}},
        {"query_id": "1", "event_attributes": []},
        {"took": 3, "user_query": ["a"]},
        {"event_attributes": {"object": None}, "action_name": "click", "query_id": "2"},
    ]
    rng = np.random.default_rng(0)
    entries = [
        e for i in range(30) for e in (query(str(i)), event("impression", str(i), "ab"[i % 2]), odd[i % 8])
    ]
    entries.append(event("impression", "7", "far", 5000))
    path = write(tmp_path / "log.jsonl", [entries[i] for i in rng.permutation(len(entries))])
    whole = outcome(read_ubi(path))
    assert (
        whole[1].items()
        >= {
            "query without id or text": 7,
            "event without a document": 3,
            "event ['click']": 4,
            "impression without an ordinal": 4,
            "click on a document that was not shown": 4,
        }.items()
    )
    for module, name, size in (
        (ubi_entries, "_BLOCK", 1500),
        (ubi_entries, "_ENTRIES", 7),
        (ubi, "_PART", 4),
    ):
        monkeypatch.setattr(module, name, size)
        assert outcome(read_ubi(path)) == whole


def test_the_public_sample(shared_data):
    path = shared_data("ubi_sample/ubi_queries_events.ndjson")
    refused(r"\(Chorus from 1, esci_ubi_sample from 0\)", read_ubi, path)
    cells = read_ubi(path, application="esci_ubi_sample", first_position=0)
    assert (cells.n_shows, cells.n_clicks, cells.sessions.n_sessions) == (1000, 60, 200)
    both = read_ubi(path, first_position={"Chorus": 1, "esci_ubi_sample": 0})
    chorus = read_ubi(path, application="Chorus")
    assert both.n_shows == chorus.n_shows + cells.n_shows
    assert both.n_clicks == chorus.n_clicks + cells.n_clicks


def test_sessions(shared_data):
    cells = read_sessions(shared_data("yandex_sessions/train.txt.gz"))
    assert cells.sessions.n_sessions == 35_064
    assert (cells.n_queries, cells.n_shows) == (20, 350_640)


def random_table(rng, n_lists=400):
    rows = []
    for s in range(n_lists):
        q = int(rng.integers(0, 5))
        for k, d in enumerate(rng.permutation(6)[: rng.integers(1, 5)]):
            rows.append((f"q{q}", f"d{d}", k + 1, int(rng.random() < 0.3), s))
    return pd.DataFrame(rows, columns=["query", "document", "position", "clicked", "session"])


@pytest.mark.parametrize("kind", ["pandas", "polars", "parquet", "csv", "tsv.gz"])
@pytest.mark.parametrize("batch", [7, 1 << 20])
def test_tables_of_all_kinds_agree(tmp_path, monkeypatch, kind, batch):
    monkeypatch.setattr(tables, "BATCH", batch)
    frame = random_table(np.random.default_rng(0))
    whole = ClickCells.from_arrays(
        *(frame[c].to_numpy() for c in ("query", "document", "position", "clicked")),
        session=frame["session"].to_numpy(),
    )
    given = frame
    if kind == "polars":
        given = pl.from_pandas(frame)
    elif kind == "parquet":
        given = tmp_path / "t.parquet"
        pl.from_pandas(frame).write_parquet(given)
    elif kind != "pandas":
        given = tmp_path / f"t.{kind}"
        frame.to_csv(given, index=False, sep="\t" if "tsv" in kind else ",")
    cells = read_table(given, session="session")
    assert counts(cells) == counts(whole)
    assert repr(cells.sessions) == repr(whole.sessions)
    assert counts(read_table(given)) == counts(whole)


@pytest.mark.parametrize("ids", [int, str])
def test_lists_that_are_apart_in_a_file_are_one_or_refused(tmp_path, monkeypatch, ids):
    frame = random_table(np.random.default_rng(1), 40)
    frame["session"] = frame["session"].map(ids)
    pl.from_pandas(frame.sample(frac=1, random_state=0)).write_parquet(tmp_path / "t.parquet")
    assert repr(read_table(tmp_path / "t.parquet", session="session").sessions) == repr(
        read_table(frame, session="session").sessions
    )
    monkeypatch.setattr(tables, "BATCH", 20)
    refused(
        r"expected each list in adjacent rows, got \d+ .*; sort the rows by 'session'",
        read_table,
        tmp_path / "t.parquet",
        session="session",
    )


@pytest.mark.parametrize(
    "text", ["a,b\rc,d\n", '"dune,d1,1,0\nq,d2,2,0\nx",d1,1,0\n', '"' + "x" * 140_000 + "\n"]
)
def test_stray_quotes_and_ends_of_lines_lose_no_rows(tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_text(HEAD + text, newline="")
    refused(r"t.csv:2: expected (a row of commas|an id, got a quoted)", read_table, path)
    path.write_text(HEAD + '"dune, part ""two""",d1,1,0\n')
    assert read_table(path).query_ids.tolist() == ['dune, part "two"']


def test_users_and_probabilities_of_tables(tmp_path, monkeypatch):
    rng = np.random.default_rng(2)
    frame = random_table(rng)
    frame["user"] = [f"u{s % 9}" if s % 5 else None for s in frame["session"]]
    frame["p"] = rng.integers(1, 5, len(frame)) / 4
    expected = read_table(frame, session="session", cluster="user", probability="p")
    assert expected.cluster_ids.tolist() == [f"u{i}" for i in range(9)]
    assert expected.dropped["list without a user, taken as independent"] == 80
    frame.to_csv(tmp_path / "t.csv", index=False)
    for batch in (7, 1 << 20):
        monkeypatch.setattr(tables, "BATCH", batch)
        cells = read_table(tmp_path / "t.csv", session="session", cluster="user", probability="p")
        assert (counts(cells), cells.dropped) == (counts(expected), expected.dropped)
        sums = [
            np.add.reduceat(one.sessions.probability, one.sessions.offsets[:-1]) for one in (cells, expected)
        ]
        users = [one.sessions.cluster for one in (cells, expected)]
        assert Counter(zip(users[0], sums[0], strict=True)) == Counter(zip(users[1], sums[1], strict=True))
    refused("cluster: expected the column of the session too", read_table, frame, cluster="user")
    frame.loc[3, "p"] = 0.0
    with pytest.raises(BadInput, match=r"table: row 3, column 'p': expected a number in \(0, 1\], got 0"):
        read_table(frame, session="session", probability="p")


@pytest.mark.parametrize("number", [int, float])
def test_rows_without_a_session_are_no_list(tmp_path, monkeypatch, number):
    monkeypatch.setattr(tables, "BATCH", 5)
    frame = random_table(np.random.default_rng(3), 60)
    frame["session"] = [number(s) if s % 2 else "" for s in frame["session"]]
    frame.to_csv(tmp_path / "t.csv", index=False)
    cells = read_table(tmp_path / "t.csv", session="session")
    assert (cells.sessions.n_sessions, cells.n_shows) == (30, len(frame))
    alone = "impression without a session, counted but in no list"
    assert cells.dropped[alone] == (frame["session"] == "").sum()


def test_a_list_longer_than_a_part_is_one_list(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "BATCH", 2)
    for queries in ("q", "qr"):
        rows = (f"1,{q},{d},{k},0\n" for q in queries for k, d in enumerate("abcde", 1))
        (tmp_path / "t.csv").write_text("session," + HEAD + "".join(rows))
        cells = read_table(tmp_path / "t.csv", session="session")
        assert (cells.sessions.n_sessions, cells.n_shows) == (len(queries), 5 * len(queries))


def test_ids_of_files_are_of_one_type(tmp_path):
    row = {"query": ["q"], "position": [1], "clicked": [1]}
    for name, document in (("a", 1), ("b", 2), ("c", "3")):
        pl.DataFrame(row | {"document": [document]}).write_parquet(tmp_path / f"{name}.parquet")
    refused("column 'document': expected ids of one type, got numbers and text", read_table, tmp_path)


@pytest.mark.parametrize("ids", [[1, 2**63 + 5], [1, 2**53 + 1, None]])
def test_large_ids_in_columns_of_objects_are_not_rounded(ids):
    column = pd.Series(ids * 2, dtype=object)
    frame = pd.DataFrame(
        {"query": 1, "document": column, "position": 1, "clicked": 0, "session": range(len(column))}
    )
    assert list(map(int, read_table(frame, session="session").docid)) == [i for i in ids if i]
    frame["document"] = pd.Series([2**70, *ids[1:], *ids], dtype=object)
    assert str(2**70) in read_table(frame, session="session").docid
    frame["document"] = pd.Series([10**80, *ids[1:], *ids], dtype=object)
    with pytest.raises(BadInput, match=f"column 'document': expected 64-bit integers, got {10**80}"):
        read_table(frame, session="session")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (HEAD + "1,2\n", "t.csv:2: expected 4 cells, as in the first line, got 2"),
        (HEAD + "1,2,x,0\n", "t.csv:2: column 'position': expected a number, got 'x'"),
        (HEAD + "1,2,,true\n\n1,3,2,yes\n", "t.csv:4: column 'clicked': .* got 'yes'; write 1 for a"),
        ("query,document\n", "expected a column 'position'"),
        (HEAD, "t.csv: expected impressions, got none"),
        (HEAD + "1,2,1,0\n1,3,2,5\n", "t.csv:3: column 'clicked': expected 0 or 1, got '5'; write 1 for"),
        (
            HEAD[:-1] + ",p\n1,2,1,0,.5\n1,3,2,1,\n",
            r"t.csv:3: column 'p': expected a number in \(0, 1\], got an empty cell",
        ),
    ],
)
def test_bad_tables_of_text(tmp_path, content, message):
    (tmp_path / "t.csv").write_text(content)
    refused(message, read_table, tmp_path / "t.csv", probability="p" if ",p\n" in content else None)


def test_what_is_no_table(tmp_path):
    (tmp_path / "t.parquet").write_text("no")
    for table, message in (
        (tmp_path / "t.parquet", "expected a Parquet file"),
        ([1], "table: expected a pandas or polars frame, an Arrow table, or a path, got list"),
    ):
        refused(message, read_table, table)


@pytest.mark.parametrize("second", ["1", "2"])
@pytest.mark.parametrize("zero_first", [True, False])
def test_parts_of_a_file_count_positions_alike(tmp_path, monkeypatch, second, zero_first):
    """A part without position 0 counts from 0 if the file does."""
    monkeypatch.setattr(tables, "BATCH", 2)
    halves = ["q,a,0,0\nr,a,0,1\n", f"q,b,{second},1\nr,b,{second},0\n"]
    path = tmp_path / "t.csv"
    path.write_text(HEAD + "".join(halves if zero_first else halves[::-1]))
    refused("first_position: expected 0 or 1, as position 0 occurs in some, but not all", read_table, path)
    shows, clicks, _ = read_table(path, first_position=0).per_position()
    assert shows.tolist() == [2, *[0] * (int(second) - 1), 2]
    assert clicks.tolist() == [1, *[0] * (int(second) - 1), 1]
    path.write_text(HEAD + halves[1] * 2)
    shows, *_ = read_table(path).per_position()  # no position 0 anywhere: from 1
    assert shows.tolist() == [*[0] * (int(second) - 1), 4]


@pytest.mark.parametrize("held", [1, 7, 10_000])
def test_own_logs_count_each_impression_once(tmp_path, monkeypatch, held):
    """Logs in a file and in memory are counted as with a dictionary."""
    monkeypatch.setattr(interleaving_log, "_LISTS", held)
    monkeypatch.setattr(batches, "BATCH", 20)
    rng = np.random.default_rng(1)
    made, shows, clicks = [], Counter(), Counter()
    for name in [
        *range(98),
        -1,
        -2,
        *(str(i) for i in range(100)),
    ]:  # 1 and "1" are two impressions; -1 hashes as -2
        documents, click = rng.permutation(["a", "b", "c"]).tolist(), int(rng.integers(1, 4))
        made.append(impression(documents, click, click, query=f"q{rng.integers(3)}", name=name))
        cells = [(made[-1].query, d, k) for k, d in enumerate(documents, 1)]
        shows.update(cells)
        clicks[cells[click - 1]] += 1
    lines = [made[i] for i in rng.permutation(np.concatenate([np.arange(200), rng.integers(0, 200, 60)]))]
    unanswered = Impression(made[5].shown, None, query="q0")  # shown, and logged again with its clicks
    nameless, path = impression("a"), tmp_path / "log.jsonl"
    write_log(path, [unanswered, *lines, nameless])
    dropped = {"impression logged again": 60, "list without feedback": 1, "list without a query": 1}
    for log in (path, read_log(path)):
        found = outcome(cells_of_log(log))
        assert found == ({key: (n, clicks[key]) for key, n in shows.items()}, dropped, 200)
    at = lines.index(made[3])
    other = Impression(made[3].shown, (), query=made[3].query)
    for entries, message in (
        ([*lines, other], rf"log.jsonl:261: expected the impression 3 to agree with .*log.jsonl:{at + 1}"),
        ([unanswered], r"expected impressions with feedback, got none \(1 without feedback\)"),
        ([nameless], r"got none that can be counted.*list without a query"),
    ):
        write_log(path, entries)
        rejected(message, cells_of_log, path)


def repeated_log(path, kind, times):
    """Return a log of 60 distinct lists, each repeated ``times`` times."""
    rng = np.random.default_rng(2)
    lists = [(f"q{i % 7}", rng.permutation(8).tolist(), int(rng.integers(8))) for i in range(60)] * times
    if kind == "table":
        rows = [
            f"{number},{q},d{d},{k + 1},{int(k == clicked)}\n"
            for number, (q, documents, clicked) in enumerate(lists)
            for k, d in enumerate(documents)
        ]
        path.write_text("session,query,document,position,clicked\n" + "".join(rows))
    elif kind == "sessions":
        path.write_text("".join(f"{q}\t{','.join(map(str, d))} : {d[c]};\n" for q, d, c in lists))
    else:
        names = range(len(lists)) if kind == "log with ids" else [None] * len(lists)
        made = zip(lists, names, strict=True)
        write_log(path, [impression(map(str, d), c + 1, query=q, name=name) for (q, d, c), name in made])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "per_list"), [("table", 0), ("sessions", 0), ("log", 0), ("log with ids", 60)]
)
def test_memory_does_not_grow_with_the_log(tmp_path, monkeypatch, kind, per_list):
    import tracemalloc

    monkeypatch.setattr(batches, "BATCH", 1 << 10)
    monkeypatch.setattr(tables, "BATCH", 1 << 10)
    monkeypatch.setattr(interleaving_log, "_LISTS", 1 << 7)
    monkeypatch.setattr(files, "_READ_BYTES", 1 << 12)
    monkeypatch.setattr(text, "_BLOCK", 1 << 12)
    monkeypatch.setattr(clicklog, "_BLOCK", 1 << 12)
    peaks, cells = [], []
    for times in (1, 10, 100):  # the first reading imports and compiles
        path = tmp_path / "log.txt"
        repeated_log(path, kind, times)
        format = kind.split()[0]
        tracemalloc.start()
        cells.append(read_clicks(path, format, **({"session": "session"} if kind == "table" else {})))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # 5,400 more lists of 8 documents: as objects they would take over 2 MB
    assert peaks[2] - peaks[1] <= 400_000 + per_list * 5_400, [f"{p:,}" for p in peaks]
    assert (cells[2].shows == 10 * cells[1].shows).all()
    assert cells[2].sessions.n_distinct == 60


@pytest.mark.parametrize("block", [1, 1 << 23])
def test_an_empty_click_is_zero_only_where_no_zero_is_written(tmp_path, monkeypatch, block):
    monkeypatch.setattr(text, "_BLOCK", block)
    path = tmp_path / "log.csv"
    path.write_text(HEAD + "q,a,1,1\nq,b,2,\n")
    assert (read_table(path).n_shows, read_table(path).n_clicks) == (2, 1)
    for zero in ("0.00", "false", "0"):
        for rows in ([f"a,1,{zero}", "b,2,", "c,3,1"], ["a,1,1", "b,2,", "c,3,", f"d,4,{zero}"]):
            path.write_text(HEAD + "".join(f"q,{row}\n" for row in rows))
            refused(
                "log.csv:3: column 'clicked': expected 0 or 1, got an empty cell; leave", read_table, path
            )
    refused(
        r"table: row 1, column 'clicked': expected 0 or 1, got a missing value; leave",
        read_table,
        pd.read_csv(path),
    )


def test_json_objects_without_keys_of_ubi_are_rows_of_a_table(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"query": "q", "document": "a", "position": 1, "clicked": 1}\n')
    assert counts(read_clicks(path)) == counts(read_clicks(path, "table"))
    path.write_text('{"query_id": "1", "results": ["a"]}\n')
    refused(r"log.jsonl: expected UBI queries, got none.* needs format=table", read_clicks, path)


def test_every_reader_of_clicks_is_a_format_by_its_name():
    exported = {name: getattr(structsvm.clicks, name) for name in structsvm.clicks.__all__}
    readers = {
        name.removeprefix("read_").removeprefix("cells_of_"): name
        for name, member in exported.items()
        if inspect.isfunction(member)
        and inspect.signature(member, eval_str=True).return_annotation is structsvm.clicks.ClickCells
        and name != "read_clicks"
    }
    assert readers == labels("structsvm.clicks")
    told = re.findall(r'"(\w+)"', re.search("format : {.*", read_clicks.__doc__)[0])
    assert {*told} == {"auto", *readers}, "the line 'format : {...}' of read_clicks lists all formats"


def test_batches_that_would_write_ids_differently_are_refused(tmp_path, monkeypatch):
    """In one batch, ``7.0`` beside ``a`` is text; a batch that has only ``7.0`` would write 7."""
    monkeypatch.setattr(batches, "BATCH", 2)
    (tmp_path / "s.txt").write_text("7.0\td,e : d;\nq\t1.0,a : a;\nq\t1.0,2.0 : 1.0;\n")
    refused("s.txt: expected ids as integers, as '1', got '1.0'", read_sessions, tmp_path / "s.txt")
