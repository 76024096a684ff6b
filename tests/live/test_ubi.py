"""UBI in and out: what is written is read back by the reader of click logs, and events become clicks."""

import asyncio
import json
from types import SimpleNamespace

import httpx
import pytest
from starlette.applications import Starlette

from structsvm.clicks import cells_of_log, read_ubi
from structsvm.live.ubi import click_of, lines, routes


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


class Desk:
    def __init__(self):
        self.events = []

    async def clicks(self, events):
        self.events += events
        rejected = [{"index": i, "code": "bad_token"} for i, e in enumerate(events) if e["token"] == "forged"]
        return {"accepted": len(events) - len(rejected), "duplicate": 0, "late": 0, "rejected": rejected}


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


def post(desk, **options):
    async def ask():
        app = Starlette(routes=routes(desk))
        desk.settings = SimpleNamespace(keyless=True)
        app.state.service = desk
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.post("/v1/ubi/events", **options)

    return asyncio.run(ask())


def test_one_event_or_a_list_is_taken_and_rejections_keep_their_numbers():
    desk = Desk()
    found = post(desk, json=[event("impression"), event(), 3, event(query_id="forged"), event(document="b")])
    assert found.json() == {
        "accepted": 2, "duplicate": 0, "late": 0, "ignored": 2, "rejected": [{"index": 3, "code": "bad_token"}],
    }  # fmt: skip
    assert [e["document"] for e in desk.events] == ["a", "a", "b"]
    # as navigator.sendBeacon sends it
    found = post(desk, content=json.dumps(event()), headers={"content-type": "text/plain"})
    assert found.json()["accepted"] == 1
    assert post(desk, json=event("impression")).json()["ignored"] == 1


def test_too_many_events_are_refused():
    desk = Desk()
    assert post(desk, json=[event()] * 1001).status_code == 413
    assert desk.events == []


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
        path = tmp_path / f"{form}.jsonl"
        path.write_bytes(client.request("GET", f"/v1/experiments/e/export?format={form}").content)
        cells[form] = read(path)
    ubi, own = cells["ubi"], cells["structsvm"]
    assert (
        (ubi.n_shows, ubi.n_clicks, ubi.n_queries) == (own.n_shows, own.n_clicks, own.n_queries) == (60, 6, 3)
    )
    assert dict(ubi.dropped) == {}
