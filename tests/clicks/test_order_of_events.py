"""Logs with times give the same result whatever the order of their lines."""

import json

import numpy as np
import pandas as pd
import pytest

from structsvm.clicks import judgments, read_table, read_team_draft_table, read_team_draft_ubi, read_ubi
from structsvm.common.checks import BadInput
from structsvm.online.arena import read_votes
from tests.clicks.events import event, write
from tests.laws import LAW

cases = pytest.mark.parametrize("n_cases", [80, pytest.param(10_000, marks=LAW)])


def shuffled(rows, rng):
    """Return the rows in the order of time, reversed, and in a random order."""
    return rows, rows[::-1], [rows[k] for k in rng.permutation(len(rows))]


def outcome(read, source, **options):
    """Return all that a reader returns, or its error."""
    try:
        found = read(source, **options)
    except BadInput as error:
        return str(error)
    if hasattr(found, "log"):
        return [one.to_dict() for one in found.log.impressions], dict(found.dropped)
    return contents(found)


def contents(found):
    if hasattr(found, "__dict__"):
        return {name: contents(value) for name, value in vars(found).items()}
    return found.tolist() if isinstance(found, np.ndarray) else found


def visits(rng):
    """Return the entries of a random UBI log in the order of their times, with the team of each document.

    A query id is searched repeatedly: with the same ids, as a next page, or with another text. Its impressions fire
    again, sometimes with other ordinals, before and after its clicks.
    """
    entries = []
    for moment in np.sort(rng.choice(10**6, 40, replace=False))[: rng.integers(5, 40)]:
        number, page = str(rng.integers(3)), int(rng.integers(2))
        documents = [f"{'ab'[page]}{k}" for k in rng.permutation(5)[: rng.integers(1, 6)]]
        stamp = {"timestamp": int(moment) if rng.random() < 0.97 else "yesterday"}
        who = {"client_id": f"u{rng.integers(2)}", "session_id": f"s{rng.integers(2)}"}
        kind = rng.random()
        if kind < 0.3:
            text = ("lamp", "lamps")[int(rng.random() < 0.3)]
            hits = {"query_response_hit_ids": documents} if rng.random() < 0.8 else {}
            entries.append({"query_id": number, "user_query": text, "timestamp": int(moment)} | hits)
        elif kind < 0.6 and number != "2":  # all at one time; the third query logs no impressions
            twice = documents[: rng.random() < 0.2]  # at two ranks
            for rank, document in enumerate(documents + twice, 1 + 5 * page):
                entries.append(
                    event(
                        "impression",
                        number,
                        document,
                        rank,
                        ("new", "old")[int(rng.random() < 0.5)],
                        **who,
                        **stamp,
                    )
                )
        else:
            ordinal = int(rng.integers(1, 9)) if rng.random() < 0.2 else None
            entries.append(event("click", number, documents[0], ordinal, **who, **stamp))
    return entries


@cases
def test_ubi_cells_and_team_drafts(tmp_path, n_cases):
    rng = np.random.default_rng(n_cases)
    n_read = {read_ubi: 0, read_team_draft_ubi: 0}
    for _ in range(n_cases):
        path, orders = tmp_path / "log.ndjson", shuffled(visits(rng), rng)
        for read, options in ((read_ubi, {"first_position": 1, "length": 4}), (read_team_draft_ubi, {})):
            results = [outcome(read, write(path, entries), **options) for entries in orders]
            assert results[0] == results[1] == results[2], orders[0]
            n_read[read] += not isinstance(results[0], str)
    assert min(n_read.values()) > n_cases / 4, "most logs must be usable"


def test_ubi_judgments_of_a_larger_log(tmp_path):
    rng = np.random.default_rng(0)
    entries = []
    for number in range(60):
        for one in visits(rng):
            if one["timestamp"] != "yesterday":
                time = int(one["timestamp"]) + number * 10**6
                entries.append(one | {"query_id": f"{number}-{one['query_id']}", "timestamp": time})
            if one.get("action_name") == "click":  # clicks count at the places of their documents
                del one["event_attributes"]["position"]
    found = []
    for order in shuffled(entries, rng):
        cells = read_ubi(write(tmp_path / "log.ndjson", order), first_position=1)
        found.append(contents(judgments(cells, "sdbn")))
    assert found[0] == found[1] == found[2]


@cases
def test_tables_of_lists_that_were_logged_again(tmp_path, n_cases):
    rng = np.random.default_rng(n_cases)
    columns = ["session", "query", "document", "position", "clicked", "time"]
    for _ in range(n_cases // 20):
        rows = []
        for moment in np.sort(rng.choice(10**6, 20 * 8, replace=False)):
            query, session = rng.integers((20, 3))
            clicked = rng.random(4) < 0.4
            for position, document in enumerate(rng.permutation(4)):
                click, time = int(clicked[position]), 1.7e9 + moment
                rows.append((session, f"q{query}", f"d{document}", position + 1, click, time))
        results = []
        for order in shuffled(rows, rng):
            frame = pd.DataFrame(order, columns=columns)
            frame.to_csv(tmp_path / "log.csv", index=False)
            for source in (frame, tmp_path / "log.csv"):
                results.append(outcome(read_table, source, session="session", time="time"))
        assert all(one == results[0] for one in results)


@cases
def test_team_drafts_of_lists_that_were_logged_again(n_cases):
    rng = np.random.default_rng(n_cases)
    n_read = 0
    for _ in range(n_cases):
        n = int(rng.integers(8, 30))
        rows = [
            {
                "impression": f"i{rng.integers(3)}",
                "document": f"d{rng.integers(4)}",
                "rank": int(rng.integers(1, 4)),
                "team": ("new", "old")[int(rng.integers(2))],
                "clicked": int(rng.random() < 0.3),
                "user": f"u{rng.integers(2)}",
                "timestamp": None if k == 0 else 1.7e9 + moment,
            }
            for k, moment in enumerate(np.sort(rng.choice(10**6, n, replace=False)))
        ]
        results = [outcome(read_team_draft_table, pd.DataFrame(order)) for order in shuffled(rows, rng)]
        assert results[0] == results[1] == results[2], json.dumps(rows)
        n_read += not isinstance(results[0], str)
    assert n_read > n_cases / 4, "most logs must be usable"


def test_votes_with_times():
    rng = np.random.default_rng(0)
    for _ in range(200):
        n = int(rng.integers(2, 12))
        time = 1.7e9 + np.sort(rng.choice(10**6, n, replace=False))
        first = rng.integers(0, 3, n)
        rows = [
            {"a": f"m{i}", "b": f"m{(i + 1) % 3}", "winner": w, "question": f"q{q}", "time": t}
            for i, w, q, t in zip(
                first, rng.choice(["a", "b", "tie"], n), rng.integers(0, 3, n), time, strict=True
            )
        ]
        results = [outcome(read_votes, pd.DataFrame(order)) for order in shuffled(rows, rng)]
        assert results[0] == results[1] == results[2], json.dumps(rows)
