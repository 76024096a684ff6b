"""Data for a service and its store, engines without sockets, and reports in the form of the service."""

import inspect
import math

import httpx
import pytest

from structsvm.live.engines.calling import Caller
from structsvm.live.store.records import StoredImpression
from structsvm.live.store.rows import ClickRow, ShownRow
from structsvm.online.interleaving import Shown
from structsvm.online.statistics import analyse, read_credits

RANKINGS = {"prod": [f"d{k}" for k in range(20)], "new": [f"d{k}" for k in reversed(range(20))]}
RECORD = Shown("team_draft", ("a", "b", "c", "d"), 2, ((0, 1, 1, 0),))
NOW = 1767225600000


def assert_same_pairs(report, log):
    """Assert that a report has the figures of the exported log; return the analysis of the log."""
    answer = analyse(read_credits(log)).to_dict()
    for ours, theirs in zip(report["pairs"], answer["pairs"], strict=True):
        for name, value in theirs.items():
            plain = isinstance(value, (str, type(None)))
            assert ours[name] == (value if plain else pytest.approx(value, rel=1e-12, abs=1e-12)), name
    return answer


def caller_of(answer):
    """Return a caller of engines whose requests are answered by a function, as bytes on a wire."""

    class Transport(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request):
            await request.aread()
            found = answer(request)
            found = await found if inspect.isawaitable(found) else found
            stream = httpx.ByteStream(b"".join(found.stream))
            return httpx.Response(found.status_code, headers=found.headers, stream=stream)

    return Caller(httpx.AsyncClient(transport=Transport()))


def shown_row(row, k, at=1000, *, record=RECORD, unit=None):
    """Return the row of impression number ``k`` of an experiment, for the store."""
    return ShownRow(k.to_bytes(16), row.id, at, unit, "interleaved", record.to_json(), None, None, 7)


def click_row(k, place, at=1500, *, action="click", dwell=None, shown=1000, closes=2000):
    """Return the row of a click on impression number ``k``, for the store."""
    return ClickRow(k.to_bytes(16), place, action, at, dwell, shown, closes)


def impression(seq, record=RECORD, clicked=(), **more):
    """Return a stored impression with clicks at given ranks."""
    fields = dict.fromkeys(StoredImpression._fields) | {
        "seq": seq,
        "id": bytes(16),
        "shown_at": seq,
        "epoch": 0,
    }
    clicks = tuple((place, "click", 1000, None, 0) for place in clicked)
    return StoredImpression(**{**fields, "serve": "interleaved", "record": record, "clicks": clicks, **more})


def report(key="shop-search", names=("prod", "new ranker"), n=1200, bandit=None, **more):
    """Return a report of the rankers ``names``."""
    pairs, series = [], []
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            pairs.append(
                {
                    "a": a,
                    "b": b,
                    "wins": n // 4,
                    "losses": n // 3,
                    "ties": n - n // 4 - n // 3,
                    "mean": -0.084,
                    "always_valid_lower": -0.15,
                    "always_valid_upper": -0.02,
                    "always_valid_p_value": 0.0123,
                    "always_valid_queries_needed": 900.4,
                }
            )
    k, at = 1, 1
    while at <= n:
        half = 2.2 / math.sqrt(at)
        mean = -0.084 + 0.4 * math.sin(k) / math.sqrt(at)
        entry = {"mean": mean, "lower": max(-1.0, mean - half), "upper": min(1.0, mean + half), "p": 0.5}
        series.append({"n": at, "at": NOW, "pairs": [entry] * len(pairs)})
        k, at = k + 1, max(at + 1, int(at * 1.05))
    sentence = f"{names[1]} wins over {names[0]} (always-valid p = 0.0123)."
    return {
        "experiment": {
            "key": key,
            "revision": 2,
            "state": "running",
            "created_at": NOW - 86_400_000,
            "kind": "bandit" if bandit else "interleaving",
            "rankers": list(names),
            "production": names[0],
            "method": "team_draft",
            "length": 10,
            "share": 0.2,
            "window_s": 1800,
            "alpha": 0.05,
        },
        "verdict": {"winner": names[1], "sentence": sentence, "p": 0.0123, "decided_at": NOW - 60_000},
        "n_impressions": n,
        "n_clicked": n // 2,
        "pairs": pairs,
        "notes": ["A note about the log."],
        "series": series,
        "pending": 37,
        "late": 3,
        "same": 12,
        "control": 40,
        "as_of": NOW - 5000,
        "lag_s": 1.25,
        "bandit": bandit,
        "not_compared": {"n": 9, "why": {"timeout": 7, "junk": 2}},
        "guardrails": [
            {
                "name": "first_place",
                "alarm": False,
                "value": 0.51,
                "limit": 0.001,
                "n": n,
                "text": "each ranker is first equally often",
            },
            {
                "name": "late_clicks",
                "alarm": True,
                "value": 0.031,
                "limit": 0.02,
                "n": 100,
                "text": "clicks after their window, of all clicks",
            },
            {
                "name": "latency",
                "alarm": False,
                "value": None,
                "limit": 20.0,
                "n": 0,
                "text": "answers slower than 20 ms, more than of production alone",
            },
        ],
        **more,
    }


def empty(**more):
    """Return the report before the first impression is closed."""
    return report(
        n=0,
        pairs=[],
        series=[],
        as_of=None,
        guardrails=[],
        notes=[],
        verdict={
            "winner": None,
            "sentence": "Not decided: nothing is closed yet.",
            "p": None,
            "decided_at": None,
        },
        n_clicked=0,
        pending=4,
        not_compared={"n": 0, "why": {}},
        **more,
    )


def bandit(names=("bm25", "ltr-1", "ltr-2", "dense", "hybrid")):
    """Return the report of a bandit with a few rankers still in play."""
    rankers = [
        {
            "name": name,
            "duels": 100 * (i + 1),
            "wins": 30 * (i + 1),
            "losses": 50,
            "ties": 20 + 20 * i,
            "share": i / 5,
            "in_play": i > 2,
        }
        for i, name in enumerate(names)
    ]
    wins = [[10.5 * (i + 1) if i != j else 0 for j in range(len(names))] for i in range(len(names))]
    state = {"policy": "rucb", "n_duels": 1500, "best": names[-1], "rankers": rankers, "wins": wins}
    return report(
        "contenders",
        names,
        bandit=state,
        verdict={
            "winner": None,
            "sentence": "Not decided: hybrid leads, and dense is still in play.",
            "p": None,
            "decided_at": None,
        },
    )
