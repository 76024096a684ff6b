"""UBI in and out: what is written is read back by the reader of click logs, and events become clicks."""

import json

import pytest

from structsvm.clicks import cells_of_log, read_ubi
from structsvm.live.ubi import click_of, lines


def event(action="click", query_id="t", document="a", **more):
    return {
        "action_name": action, "query_id": query_id, "timestamp": "2026-01-01T00:00:00Z",
        "event_attributes": {"object": {"object_id": document}, "position": {"ordinal": 99}}, **more,
    }  # fmt: skip


ROWS = [
    {"seq": 1, "token": "t1", "shown_at": 1767225600123, "serve": "interleaved", "documents": ["a", "b", "c"],
     "query": "lamp", "clicks": [
         {"place": 2, "action": "click", "at": 1767225610000, "dwell_s": None, "late": False},
         {"place": 3, "action": "click", "at": 1767229910000, "dwell_s": None, "late": True}]},
    {"seq": 2, "token": "t2", "shown_at": 1767225601000, "serve": "production", "documents": ["b", "é\n\u2028"],
     "query": "lamp", "clicks": []},
]  # fmt: skip


def written(rows):
    return b"".join(lines(rows, "shop"))


def test_what_is_exported_is_read_back(tmp_path):
    path = tmp_path / "ubi.ndjson"
    path.write_bytes(written(ROWS))
    cells = read_ubi(path)
    assert dict(cells.dropped) == {}
    rows = zip(cells.row_query, cells.docid, strict=True)
    shows, clicks = cells.per_row(cells.shows), cells.per_row(cells.clicks)
    found = {docid: (int(shows[i]), int(clicks[i])) for i, (_, docid) in enumerate(rows)}
    assert found == {"a": (1, 0), "b": (2, 1), "c": (1, 0), "é\n\u2028": (1, 0)}
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
        (event("impression"), None), (event("view"), None), (event(query_id=None), None), (event(action=None), None),
        (event(document=None), None), (event(document=True), None), (event(document=1.5), None),
        (event(event_attributes=None), None), (event(event_attributes={"object": "a"}), None), ("x", None), ([], None),
    ],
)  # fmt: skip
def test_events_as_clicks(given, expected):
    assert click_of(given) == expected


def test_one_event_or_a_list_is_taken_and_rejections_keep_their_numbers(client):
    client.create()
    token = client.show(rankings={"prod": ["a", "b"], "new": ["b", "a"]})[1]["token"]
    first, second = event(query_id=token), event(query_id=token, document="b")
    given = [event("impression"), first, 3, event(query_id="forged"), second]
    path = "/v1/ubi/events"
    assert client.call("POST", path, given)[1] == {
        "accepted": 2, "duplicate": 0, "late": 0, "ignored": 2, "rejected": [{"index": 3, "code": "bad_token"}],
    }  # fmt: skip
    # as navigator.sendBeacon sends it
    assert client.call("POST", path, first, headers={"content-type": "text/plain"})[1]["duplicate"] == 1
    assert client.call("POST", path, event("impression"))[1]["ignored"] == 1
    assert client.call("POST", path, [first] * 1001)[0] == 413


def test_with_the_service_itself(client, tmp_path):
    """Events of the lists shown are taken, others ignored, and the export has what the click log has."""
    client.create(log_query=True)
    lists = [client.show(f"r{k}", query=f"q{k % 3}")[1] for k in range(6)]
    for k, one in enumerate(lists):
        given = event(query_id=one["token"], document=one["documents"][k])
        assert client.call("POST", "/v1/ubi/events", given)[1]["accepted"] == 1
    bought = event("purchase", query_id=lists[0]["token"], document=lists[0]["documents"][0])
    status, found = client.call("POST", "/v1/ubi/events", [bought, event("view")])
    assert (status, found["ignored"], found["accepted"]) == (200, 2, 0)
    assert client.call("POST", "/v1/ubi/events", event(query_id="forged"))[0] == 403
    client.wait_closed()
    cells = {}
    for form, read in (("ubi", read_ubi), ("structsvm", cells_of_log)):
        cells[form] = read(client.log(tmp_path / f"{form}.jsonl", form=form))
    ubi, own = cells["ubi"], cells["structsvm"]
    for one in (ubi, own):
        assert (one.n_shows, one.n_clicks, one.n_queries) == (60, 6, 3)
    assert dict(ubi.dropped) == {}
