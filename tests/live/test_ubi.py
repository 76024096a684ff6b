"""UBI export and import: the reader of click logs reads the export, and events become clicks."""

import json

import numpy as np
import pytest

from structsvm.clicks import cells_of_log, read_ubi
from structsvm.live.web.ubi import click_of, lines
from structsvm.online.clicklog import Impression, read_log
from structsvm.online.statistics import analyse, read_credits
from structsvm.online.statistics.features import psi
from tests.live.samples import assert_same_pairs
from tests.refusing import refused


def event(action="click", query_id="t", document="a", **more):
    return {
        "action_name": action,
        "query_id": query_id,
        "timestamp": "2026-01-01T00:00:00Z",
        "event_attributes": {"object": {"object_id": document}, "position": {"ordinal": 99}},
        **more,
    }


ROWS = [
    {
        "seq": 1,
        "token": "t1",
        "shown_at": 1767225600123,
        "serve": "interleaved",
        "documents": ["a", "b", "c"],
        "offset": 0,
        "query": "lamp",
        "clicks": [
            {"place": 2, "action": "click", "at": 1767225610000, "dwell_s": None, "late": False},
            {"place": 3, "action": "click", "at": 1767229910000, "dwell_s": None, "late": True},
        ],
    },
    {
        "seq": 2,
        "token": "t2",
        "shown_at": 1767225601000,
        "serve": "production",
        "documents": ["b", "é\n\u2028"],
        "offset": 10,
        "query": "lamp",
        "clicks": [],
    },
]


def written(rows):
    return b"".join(lines(rows, "shop"))


def test_what_is_exported_is_read_back(tmp_path):
    path = tmp_path / "ubi.ndjson"
    path.write_bytes(written(ROWS))
    cells = read_ubi(path)
    assert dict(cells.dropped) == {"list with a gap, counted but not used as a session": 1}
    rows = zip(cells.row_query, cells.docid, strict=True)
    shows, clicks = cells.per_row(cells.shows), cells.per_row(cells.clicks)
    found = {docid: (int(shows[i]), int(clicks[i])) for i, (_, docid) in enumerate(rows)}
    assert found == {"a": (1, 0), "b": (2, 1), "c": (1, 0), "é\n\u2028": (1, 0)}
    assert sorted(cells.position.tolist()) == [1, 2, 3, 11, 12]
    entries = [json.loads(line) for line in path.read_text().split("\n") if line]
    assert len(entries) == 2 + 5 + 1
    assert entries[0]["timestamp"] == "2026-01-01T00:00:00.123+00:00"
    assert all(len(entry["query_id"]) <= 100 for entry in entries)


def test_a_long_export_comes_in_chunks():
    sizes = [len(chunk) for chunk in lines(ROWS * 500, "shop")]
    assert len(sizes) > 5
    assert max(sizes) < 70_000


def test_queries_that_were_not_kept_are_empty():
    entries = written([{**ROWS[0], "query": None}]).splitlines()
    assert json.loads(entries[0])["user_query"] == ""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (event(), {"token": "t", "document": "a", "action": "click"}),
        (event("item_click", document=7), {"token": "t", "document": "7", "action": "click"}),
        (event("add_to_cart"), {"token": "t", "document": "a", "action": "add_to_cart"}),
        (event("impression"), None),
        (event("view"), None),
        (event(query_id=None), None),
        (event(action=None), None),
        (event(document=None), None),
        (event(document=True), None),
        (event(document=1.5), None),
        (event(event_attributes=None), None),
        (event(event_attributes={"object": "a"}), None),
        ("x", None),
        ([], None),
    ],
)
def test_events_as_clicks(given, expected):
    assert click_of(given) == expected


def test_one_event_or_a_list_is_taken_and_rejections_keep_their_numbers(client):
    client.create()
    token = client.show(rankings={"prod": ["a", "b"], "new": ["b", "a"]})[1]["token"]
    first, second = event(query_id=token), event(query_id=token, document="b")
    other, gone = event("add_to_cart", token), event(query_id=token, document="z")
    given = [event("impression"), first, 3, event(query_id="of another list"), other, gone, second]
    path = "/v1/ubi/events"
    assert client.call("POST", path, given)[1] == {
        "accepted": 2,
        "duplicate": 0,
        "late": 0,
        "ignored": 4,
        "rejected": [{"index": 5, "code": "bad_document"}],
    }
    status, answer = client.call("POST", path, [event(query_id="of another list"), other])
    assert (status, answer["ignored"]) == (200, 2)
    assert client.call("POST", path, gone)[0] == 422
    assert 'clicks_total{fate="ignored"} 6.0' in client.request("GET", "/metrics").text
    # as navigator.sendBeacon sends it
    assert client.call("POST", path, first, headers={"content-type": "text/plain"})[1]["duplicate"] == 1
    assert client.call("POST", path, event("impression"))[1]["ignored"] == 1
    assert client.call("POST", path, [first] * 1001)[0] == 413
    assert client.call("POST", path, {"events": [first, event("view")]})[1]["ignored"] == 1
    for body in ({}, {"events": 3}, {"events": {"a": 1}}, {"clicks": [first]}, "x", 3, None):
        status, answer = client.call("POST", path, content=json.dumps(body))
        assert (status, answer["error"]["code"]) == (422, "bad_events"), body


def test_with_the_service_itself(client, tmp_path):
    """Events of the lists shown are imported, others ignored, and the export agrees with the click log."""
    client.create(log_query=True)
    lists = [client.show(f"r{k}", query=f"q{k % 3}")[1] for k in range(6)]
    for k, one in enumerate(lists):
        clicked = event(query_id=one["token"], document=one["documents"][k])
        assert client.call("POST", "/v1/ubi/events", clicked)[1]["accepted"] == 1
    bought = event("purchase", query_id=lists[0]["token"], document=lists[0]["documents"][0])
    status, found = client.call("POST", "/v1/ubi/events", [bought, event("view")])
    assert (status, found["ignored"], found["accepted"]) == (200, 2, 0)
    client.wait_closed()
    cells = {
        form: read(client.log(tmp_path / f"{form}.jsonl", form=form))
        for form, read in (("ubi", read_ubi), ("structsvm", cells_of_log))
    }
    ubi, own = cells["ubi"], cells["structsvm"]
    for one in (ubi, own):
        assert (one.n_shows, one.n_clicks, one.n_queries) == (60, 6, 3)
    assert dict(ubi.dropped) == {}


def test_exports_say_where_documents_stood_and_on_which_lists_rankers_agreed(client, tmp_path):
    """Among 12 searches, 6 continue to page 2 and click its first document; rankers agree on every third search."""
    client.create(log_query=True, length=4)
    for k in range(12):
        prod = [f"{k % 3}-{i}" for i in range(8)]
        rankings = {"prod": prod, "new": prod if k % 3 == 0 else prod[::-1]}
        for offset in (0, 4)[: 1 + k % 2]:
            found = client.show(
                f"r{k}", rankings=rankings, length=4, offset=offset, query=f"q{k % 3}", unit=f"u{k}"
            )[1]
            if offset:
                client.click({"token": found["token"], "place": 1})
    report = client.wait_closed()
    assert (report["same"], report["n_impressions"]) == (6, 12)
    for form, read in (("ubi", read_ubi), ("structsvm", cells_of_log)):
        log = client.log(tmp_path / f"{form}.jsonl", form=form)
        cells = read(log)
        shows, clicks = (np.bincount(cells.position, of, 9).tolist() for of in (cells.shows, cells.clicks))
        assert (shows, clicks) == ([0] + [12] * 4 + [6] * 4, [0, 0, 0, 0, 0, 6, 0, 0, 0])
    read = read_log(log)
    assert [(one.shown.offset, one.same) for one in read.impressions].count((4, True)) == 2
    assert [Impression.from_dict(one.to_dict()) for one in read.impressions] == list(read.impressions)
    answer = assert_same_pairs(report, log)
    assert (answer["n_impressions"], answer["n_clicked"]) == (12, 4)
    assert "6 lists were left out, since the rankers agree on them" in answer["notes"]
    assert analyse(read).pairs[0].wins == answer["pairs"][0]["wins"]
    assert psi(read).shape[0] == 12
    only_same = tmp_path / "same.jsonl"
    lines_of_log = log.read_bytes().splitlines(keepends=True)
    only_same.write_bytes(b"".join(line for line in lines_of_log if b'"same":true' in line))
    refused("on which the rankers differ, got 6 on which they agree", read_credits, only_same)
