"""A store that version 0.1 wrote gives the report, the exports and the duels that it gave then."""

import json
import sqlite3
from contextlib import closing

import pytest

from structsvm.live.counting.reporting import check_experiment
from structsvm.online.clicklog import Impression
from tests.online.test_samples import SAMPLES, assert_figures

EXPECTED = json.loads((SAMPLES / "expected.json").read_text())["store"]


@pytest.fixture
def client(tmp_path, open_client):
    with closing(sqlite3.connect(tmp_path / "live.db")) as store:
        store.executescript((SAMPLES / "store.sql").read_text())
    with open_client() as started:
        yield started


@pytest.mark.parametrize("key", EXPECTED)
def test_a_store_is_read_as_when_it_was_written(client, key):
    expected, service = EXPECTED[key], client.service
    report = client.report(key)
    assert report["bandit"] == expected["report"]["bandit"]
    assert_figures(report, expected["report"])
    assert list(service.rows(key, tokens=False)) == expected["rows"]
    lines = [json.loads(line) for line in b"".join(service.export(key)).splitlines()]
    assert list(map(Impression.from_dict, lines)) == list(map(Impression.from_dict, expected["export"]))
    n, problems = check_experiment(service.store, service.registry.known(key).row)
    assert (n, problems) == (report["as_of_seq"] - min(row["seq"] for row in expected["rows"]) + 1, [])


def test_open_lists_of_a_store_are_closed_and_shown_again(client):
    """The same request gets the same list and token; its clicks count when its window ends."""
    rankings = {name: ["a", "b", "c"][:: -1 if name == "new" else 1] for name in ("prod", "new", "third")}
    seen = {key: [one.id for one in client.stored(key)] for key in EXPECTED}
    assert client.report("drafts")["pending"] == 3
    for k in range(3):
        status, shown = client.show(f"open {k}", "drafts", rankings)
        assert status == 200
        if shown["token"]:
            assert shown["replayed"]
            client.click({"token": shown["token"], "document": "b"})
    assert seen == {key: [one.id for one in client.stored(key)] for key in EXPECTED}
    report = client.wait_closed("drafts")
    before = EXPECTED["drafts"]["report"]
    assert report["n_impressions"] + report["control"] + report["same"] == 3 + (
        before["n_impressions"] + before["control"] + before["same"]
    )
