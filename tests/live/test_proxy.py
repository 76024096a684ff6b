"""The proxy against stand-in engines that are slow, hang, fail or answer junk: the client always gets its page."""

from __future__ import annotations

import asyncio
import json
import time
from types import SimpleNamespace

import httpx
import pytest
from starlette.applications import Starlette

from structsvm.live.breaker import Breaker
from structsvm.live.engines.calling import Caller
from structsvm.live.proxy import Proxy, routes
from structsvm.live.service import Refused
from structsvm.live.settings import Settings
from structsvm.online.interleaving import TeamDraft

PROD = [f"p{i}" for i in range(120)]
NEW = [f"n{i}" for i in range(60)] + PROD[:60]
BUDGET = 0.15


def hits(ids, first, size, **more):
    page = ids[first : first + size]
    return {
        "took": 3, "timed_out": False, "_shards": {"total": 1, "failed": 0},
        "hits": {
            "total": {"value": len(ids), "relation": "eq"}, "max_score": 1.0,
            "hits": [{"_index": "shop", "_id": i, "_score": 1.0, "_source": {"n": i}} for i in page],
        },
        "aggregations": {"brand": {"buckets": []}}, **more,
    }  # fmt: skip


class Engines:
    """Answers for ``prod`` and ``new``, as told by ``ways``; counts and keeps what was asked."""

    def __init__(self, **ways):
        self.ways = {"prod": "ok", "new": "ok", "third": "ok", **ways}
        self.asked = []

    async def __call__(self, request):
        name = request.url.path.strip("/")
        body = json.loads(request.content)
        self.asked.append((name, body, request))
        ids = PROD if name == "prod" else NEW
        way = self.ways[name]
        if callable(way):
            return way(body)
        if way == "slow":
            await asyncio.sleep(0.5)
        elif way == "late":  # production may take longer than the budget
            await asyncio.sleep(0.25)
        elif way == "hanging":
            await asyncio.sleep(30)
        elif way == "refusing":
            raise httpx.ConnectError("refused", request=request)
        elif way == "cut":
            raise httpx.RemoteProtocolError("cut", request=request)
        elif way == "defect":
            raise RuntimeError("a defect of the client")
        elif way == "timed out":
            raise httpx.ReadTimeout("late", request=request)
        elif isinstance(way, int):
            return httpx.Response(way, json={"error": f"{name} says {way}"}, headers={"Retry-After": "7"})
        elif isinstance(way, bytes):
            return httpx.Response(200, content=way, headers={"content-type": "application/json"})
        return httpx.Response(200, json=hits(ids, body["from"], body["size"]))


class Desk:
    """What the proxy calls of the service, with draws of team draft."""

    def __init__(self, rankers=("prod", "new"), **engines):
        self.settings = SimpleNamespace(
            needs_keys=False, origins=(),
            engines={name: {"kind": "opensearch", "url": f"http://engine/{name}", "timeout_s": 5}
                     for name in ("prod", "new", "third")}
        )  # fmt: skip
        self.tables = {name: {"engine": name} for name in rankers}
        self.rankers, self.calls, self.uncompared = list(rankers), [], []
        self.assigned = {"serve": "interleaved", "rankers": list(rankers), "assignment": "a"}
        self.fault, self.closing = None, []

    async def experiment(self, key):
        if key != "shop":
            raise Refused(404, "unknown_experiment", "no such experiment")
        return {"production": "prod", "rankers": self.rankers, "engines": self.tables, "length": 10}

    async def assign(self, key, request_id, *, unit=None, context=None):
        return self.assigned

    async def show(self, key, request_id, rankings, **options):
        self.calls.append({"request_id": request_id, "rankings": rankings, **options})
        if self.fault is not None:
            raise self.fault
        if self.assigned.get("why") == "control":
            documents = rankings["prod"][options["offset"] : options["offset"] + options["length"]]
            return {"serve": "production", "why": "control", "token": "t", "documents": documents}
        last = options["offset"] + options["length"]
        pair = [rankings[name] for name in self.assigned["rankers"]]
        shown = TeamDraft().show(pair, length=last, rng=7) if len(pair) > 1 else None
        documents = list(pair[0][:last] if shown is None else shown.documents)[options["offset"] :]
        return {"serve": "interleaved" if shown else "winner", "token": "t", "documents": documents}

    def not_compared(self, key, why):
        self.uncompared.append(why)


def run(body, engines=None, desk=None, *, request_id="r1", times=1, budget=20.0, **options):
    """Search, and return the last response, the service and the engines."""
    engines, desk = engines or Engines(), desk or Desk()

    async def all_of_it():
        async with httpx.AsyncClient(transport=httpx.MockTransport(engines)) as client:
            proxy = Proxy(desk, budget_s=budget, caller=Caller(client), **options)
            for _ in range(times):
                start = time.perf_counter()
                answer = await proxy.search("shop", body, unit=None, request_id=request_id)
                desk.took = time.perf_counter() - start
            return answer

    return asyncio.run(all_of_it()), desk, engines


def ids_of(answer):
    return [hit["_id"] for hit in json.loads(answer.body)["hits"]["hits"]]


def served(answer):
    return answer.headers["x-structsvm-serve"]


def test_an_interleaved_page():
    body = {"query": {"match": {"t": "lamp"}}, "aggs": {"brand": {}}, "ext": {"ubi": {"user_query": "lamp"}}}
    answer, desk, engines = run(body)
    shown = TeamDraft().show([PROD[:10], NEW[:10]], length=10, rng=7)
    assert ids_of(answer) == list(shown.documents)
    assert served(answer) == "interleaved"
    found = json.loads(answer.body)
    assert found["hits"]["total"] == {"value": 120, "relation": "eq"}
    assert found["aggregations"] == {"brand": {"buckets": []}}
    assert found["ext"]["ubi"]["query_id"] == "t"
    (call,) = desk.calls
    assert (call["query"], call["assignment"], call["length"], call["offset"]) == ("lamp", "a", 10, 0)
    assert call["rankings"] == {"prod": PROD[:10], "new": NEW[:10]}
    assert 0 < call["elapsed_ms"] < 5000
    bodies = {name: sent for name, sent, _ in engines.asked}
    assert bodies["prod"] == {**body, "from": 0, "size": 10}
    assert "aggs" not in bodies["new"]
    assert desk.uncompared == []


CHALLENGERS = [
    ("slow", "timeout"), ("hanging", "timeout"), ("timed out", "timeout"), ("refusing", "unreachable"),
    ("cut", "unreachable"), ("defect", "error"), (500, "status"), (404, "status"), (302, "status"),
    (b"{", "junk"), (b"", "junk"), (b"[]", "junk"), (b"\xff\xfe", "junk"), (b"[" * 200_000, "junk"),
    (b'{"hits": {"hits": "none"}}', "junk"), (b'{"hits": {"hits": [{"_id": "a"}, {"_id": "a"}]}}', "junk"),
    (json.dumps(hits(NEW, 0, 10, timed_out=True)).encode(), "partial"),
    (json.dumps(hits([], 0, 10)).encode(), "empty"),
]  # fmt: skip


@pytest.mark.parametrize("page", [(0, 10), (0, 3), (10, 10), (115, 10)])
@pytest.mark.parametrize(("way", "why"), CHALLENGERS, ids=lambda v: str(v)[:20])
def test_a_bad_challenger_costs_nothing_but_the_comparison(way, why, page):
    first, size = page
    budget = BUDGET if way in ("slow", "hanging") else 20.0
    answer, desk, _ = run({"from": first, "size": size}, Engines(new=way), budget=budget)
    direct = first + size > 100  # deeper than lists are drafted
    assert answer.status_code == 200
    assert ids_of(answer) == PROD[first : first + size]
    assert served(answer) == f"production; why={'page' if direct else why}"
    assert desk.uncompared == ([] if direct else [why])
    assert desk.calls == []
    assert desk.took < 10  # a hanging engine takes 30
    assert json.loads(answer.body) == hits(PROD, first, size)


def test_an_answer_that_never_ends_is_cut(monkeypatch):
    monkeypatch.setattr("structsvm.live.proxy.MAX_ANSWER", 1000)
    answer, *_ = run({}, Engines(new=json.dumps(hits(NEW, 0, 100)).encode()))
    assert (served(answer), ids_of(answer)) == ("production; why=junk", PROD[:10])


def test_a_challenger_has_until_production_answers():
    answer, desk, _ = run({}, Engines(prod="slow", new="late"), budget=0.01)
    assert (served(answer), desk.uncompared) == ("interleaved", [])
    answer, desk, _ = run({}, Engines(prod="late", new="hanging"), budget=0.01)
    assert (served(answer), desk.uncompared) == ("production; why=timeout", ["timeout"])
    assert desk.took < 10


@pytest.mark.parametrize("status", [400, 429, 500, 503])
def test_an_error_of_production_is_passed_on(status):
    answer, desk, _ = run({}, Engines(prod=status))
    assert answer.status_code == status
    assert json.loads(answer.body) == {"error": f"prod says {status}"}
    assert answer.headers["retry-after"] == "7"
    assert (desk.calls, desk.uncompared) == ([], [])


@pytest.mark.parametrize(("way", "status"), [("refusing", 502), ("cut", 502), ("timed out", 504)])
def test_production_that_cannot_be_reached(way, status):
    with pytest.raises(Refused) as caught:
        run({}, Engines(prod=way, new="hanging"))
    assert caught.value.status == status


@pytest.mark.parametrize("junk", [b"not json", b'{"hits": 3}', b"[]"])
def test_what_production_says_is_not_judged(junk):
    answer, desk, _ = run({}, Engines(prod=junk))
    assert (answer.status_code, answer.body, desk.calls) == (200, junk, [])


def test_nothing_found_by_production_is_the_answer():
    answer, desk, _ = run({}, Engines(prod=json.dumps(hits([], 0, 10)).encode()))
    assert (ids_of(answer), desk.calls) == ([], [])


@pytest.mark.parametrize("n", [1, 4, 9])
def test_a_page_has_the_length_of_productions(n):
    few = json.dumps(hits(PROD[:n], 0, 10)).encode()
    answer, _, _ = run({}, Engines(prod=few))
    assert (len(ids_of(answer)), served(answer)) == (n, "interleaved")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"sort": [{"price": "asc"}]}, "sort"), ({"size": 0, "aggs": {}}, "count"), ({"search_after": [1]}, "page"),
        ({"from": 95, "size": 10}, "page"), ({"collapse": {"field": "b"}}, "group"),
    ],
)  # fmt: skip
def test_lists_that_are_not_the_rankers_to_order(body, why):
    answer, desk, engines = run(body)
    assert served(answer) == f"production; why={why}"
    assert [name for name, *_ in engines.asked] == ["prod"]
    assert {k: v for k, v in engines.asked[0][1].items() if k in body} == body
    assert (desk.calls, desk.uncompared) == ([], [])


def test_a_second_page_needs_the_request_id_and_continues_the_first():
    pages = []
    for first in (0, 10, 20):
        answer, desk, _ = run({"from": first})
        pages += ids_of(answer)
        assert desk.calls[0]["offset"] == first
    assert pages == list(TeamDraft().show([PROD[:30], NEW[:30]], length=30, rng=7).documents)
    answer, _, engines = run({"from": 10}, request_id=None)
    assert (served(answer), ids_of(answer)) == ("production; why=page", PROD[10:20])
    assert len(engines.asked) == 1


def test_a_page_longer_than_what_is_drafted_goes_on_as_productions():
    drafted = list(TeamDraft().show([PROD[:25], NEW[:25]], length=10, rng=7).documents)
    expected = drafted + [name for name in PROD if name not in drafted]
    pages = []
    for first in (0, 25):
        answer, desk, _ = run({"from": first, "size": 25})
        pages += ids_of(answer)
        assert (desk.calls[0]["offset"], desk.calls[0]["length"]) == (0, 10)
    assert pages == expected[:50]


@pytest.mark.parametrize("why", ["share", "killed", "bot", "draft"])
def test_beside_the_experiment_only_production_is_asked(why):
    desk = Desk()
    desk.assigned = {"serve": "production", "why": why, "rankers": ["prod"]}
    answer, desk, engines = run({}, desk=desk)
    assert (served(answer), len(engines.asked), desk.calls) == (f"production; why={why}", 1, [])


def test_control_is_production_with_a_token():
    desk = Desk()
    desk.assigned = {"serve": "production", "why": "control", "rankers": ["prod"]}
    answer, desk, engines = run({"from": 10}, desk=desk)
    assert ids_of(answer) == PROD[10:20]
    assert json.loads(answer.body)["ext"]["ubi"]["query_id"] == "t"
    assert desk.calls[0]["rankings"] == {"prod": PROD[:20]}
    assert len(engines.asked) == 1


def test_a_winner_is_served_with_productions_total():
    desk = Desk()
    desk.assigned = {"serve": "winner", "rankers": ["new"]}
    answer, *_ = run({}, desk=desk)
    assert (ids_of(answer), served(answer)) == (NEW[:10], "winner")
    assert json.loads(answer.body)["hits"]["total"]["value"] == 120


def test_a_duel_of_two_challengers_asks_production_too():
    desk = Desk(("prod", "new", "third"))
    desk.assigned = {"serve": "interleaved", "rankers": ["new", "third"], "assignment": "a"}
    answer, desk, engines = run({}, desk=desk)
    assert sorted(name for name, *_ in engines.asked) == ["new", "prod", "third"]
    assert sorted(desk.calls[0]["rankings"]) == ["new", "prod", "third"]
    assert served(answer) == "interleaved"
    answer, desk, _ = run({}, Engines(third=500), desk=desk)
    assert (ids_of(answer), desk.uncompared) == (PROD[:10], ["status"])


@pytest.mark.parametrize(
    "fault", [Refused(503, "store", "behind"), Refused(422, "x", "y"), OSError("disk full")]
)
def test_a_service_that_cannot_record_serves_production(fault):
    desk = Desk()
    desk.fault = fault
    answer, *_ = run({}, desk=desk)
    assert (answer.status_code, ids_of(answer)) == (200, PROD[:10])
    assert served(answer).startswith("production; why=")


def test_a_stored_list_of_another_search_is_not_shown():
    class Replaying(Desk):
        async def show(self, *args, **options):
            return {"serve": "interleaved", "token": "t", "documents": ["gone"], "replayed": True}

    answer, *_ = run({}, desk=Replaying())
    assert (ids_of(answer), served(answer)) == (PROD[:10], "production; why=replayed")


def test_the_breaker_opens_rests_and_tries_again():
    now = [0.0]
    engines, desk = Engines(new=500), Desk()
    make = lambda: Breaker(failures=5, rest_s=10, clock=lambda: now[0])  # noqa: E731

    async def story():
        async with httpx.AsyncClient(transport=httpx.MockTransport(engines)) as client:
            proxy = Proxy(desk, budget_s=20.0, caller=Caller(client), breaker=make)

            async def one():
                answer = await proxy.search("shop", {"size": 7}, unit=None, request_id=None)
                assert len(ids_of(answer)) == 7
                return served(answer).removeprefix("production; why=")

            assert [await one() for _ in range(7)] == ["status"] * 5 + ["breaker"] * 2
            now[0] = 10.0
            assert [await one() for _ in range(3)] == ["status", "breaker", "breaker"]
            now[0] = 29.0  # twice as long after a try that failed
            assert await one() == "breaker"
            now[0] = 30.0
            engines.ways["new"] = "ok"
            assert [await one() for _ in range(2)] == ["interleaved"] * 2

    asyncio.run(story())
    assert desk.uncompared == ["status"] * 5 + ["breaker"] * 2 + ["status"] + ["breaker"] * 3
    assert sum(name == "new" for name, *_ in engines.asked) == 8


def test_a_request_without_the_text_does_not_open_the_breaker():
    desk = Desk()
    desk.settings.engines["new"]["body"] = {"query": {"match": {"t": "{q}"}}}
    answer, desk, _ = run({"query": {}}, desk=desk, times=7)
    assert (served(answer), desk.uncompared) == ("production; why=unfilled", ["unfilled"] * 7)
    answer, *_ = run({"q": "lamp"}, desk=desk)
    assert served(answer) == "interleaved"


@pytest.mark.parametrize("body", [[], "x", None, 3, {"size": -1}, {"size": "many"}, {"from": True}])
def test_bodies_that_are_no_search(body):
    with pytest.raises(Refused) as caught:
        run(body)
    assert caught.value.status == 422


def test_experiments_without_engines_are_refused():
    desk = Desk()
    desk.tables = None
    with pytest.raises(Refused, match="no engines"):
        run({}, desk=desk)
    desk.tables = {"prod": {"engine": "prod"}, "new": {"engine": "gone"}}
    with pytest.raises(Refused, match="no engine gone"):
        run({}, desk=desk)


def test_parameters_and_headers_of_the_configuration_are_sent_and_those_of_the_client_are_not():
    desk = Desk()
    desk.settings.engines["new"] |= {"url": "http://engine/new?a=1", "headers": {"X-A": "b"}}
    desk.tables["new"]["params"] = {"search_pipeline": "p q"}
    _, _, engines = run({}, desk=desk)
    (request,) = [request for name, _, request in engines.asked if name == "new"]
    assert dict(request.url.params) == {"a": "1", "search_pipeline": "p q"}
    assert request.headers["x-a"] == "b"
    assert "authorization" not in request.headers


def test_the_route_reads_ids_from_headers_or_the_body():
    desk = Desk()
    engines = Engines()
    (route,) = routes(desk)
    app = Starlette(routes=[route])
    app.state.service = desk

    async def ask(**options):
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
            return await client.post("/v1/search/shop", **options)

    proxy = desk.closing[0].__self__
    proxy._caller = Caller(httpx.AsyncClient(transport=httpx.MockTransport(engines)))
    asyncio.run(ask(json={}, headers={"X-Request-Id": "r-7"}))
    asyncio.run(ask(json={"ext": {"ubi": {"query_id": "u-7"}}}))
    assert [call["request_id"] for call in desk.calls] == ["r-7", "u-7"]
    assert asyncio.run(ask(json={}, headers={"X-Request-Id": "x" * 257})).status_code == 422
    assert asyncio.run(ask(json={"ext": {"ubi": {"query_id": 3}}})).status_code == 422
    assert asyncio.run(ask(content=b"{")).status_code == 422
    assert asyncio.run(ask(json={})).headers["x-structsvm-serve"] == "interleaved"
    asyncio.run(proxy.close())


def test_with_the_service_itself(store_url, open_client):
    """Pages of one search continue each other, clicks on them count, and a failing challenger is told."""
    engines = Engines()
    tables = {name: {"kind": "opensearch", "url": f"http://engine/{name}"} for name in ("prod", "new")}
    with open_client(Settings(store_url, grace_s=0.0, close_every_s=3600, engines=tables)) as client:
        proxy = next(one.__self__ for one in client.service.closing if isinstance(one.__self__, Proxy))
        proxy._caller = Caller(httpx.AsyncClient(transport=httpx.MockTransport(engines)))
        proxy.budget_s = 20.0
        client.create(engines={"prod": {"engine": "prod"}, "new": {"engine": "new"}}, window_s=1)

        def search(request_id, **body):
            answer = client.request("POST", "/v1/search/e", body, headers={"X-Request-Id": request_id})
            found = answer.json()
            return [hit["_id"] for hit in found["hits"]["hits"]], found, answer.headers["x-structsvm-serve"]

        first, found, serve = search("r1", size=6)
        assert serve == "interleaved"
        assert search("r1", size=6)[:2] == (first, found)
        second, _, serve = search("r1", size=6, **{"from": 6})
        assert serve == "interleaved"
        assert len({*first, *second}) == 12
        # the whole is what one longer list would be: half of each ranker
        assert abs(sum(name.startswith("n") for name in first + second) - 6) <= 1
        token = found["ext"]["ubi"]["query_id"]
        assert client.click({"token": token, "document": first[2]})[1]["accepted"] == 1
        engines.ways["new"] = 500
        assert search("r2")[0] == PROD[:10]
        engines.ways["new"] = "ok"
        long, _, serve = search("r3", size=25)
        assert (len(set(long)), serve) == (25, "interleaved")
        report = client.wait_closed()
        assert (report["n_impressions"], report["n_clicked"]) == (3, 1)
        assert report["not_compared"] == {"n": 1, "why": {"status": 1}}
        client.call("POST", "/v1/kill")
        assert search("r4")[2] == "production; why=killed"
