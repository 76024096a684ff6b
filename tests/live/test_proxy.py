"""The proxy against stand-in engines that are slow, hang, fail or answer junk: the client always gets its page."""

import asyncio
import copy
import gzip
import itertools
import json
import re
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from starlette.applications import Starlette

from structsvm.cli import main
from structsvm.live.contract.bodies import Assigned, Shown
from structsvm.live.contract.breaker import Breaker
from structsvm.live.engines import Engine, PlainHTTP
from structsvm.live.engines.answers import UnusableAnswer
from structsvm.live.engines.calling import Caller
from structsvm.live.experiment.service import Refused
from structsvm.live.web.proxy import routes
from structsvm.online.interleaving import TeamDraft
from structsvm.online.statistics import read_credits
from tests.live.samples import caller_of

PROD = [f"p{i}" for i in range(120)]
NEW = [f"n{i}" for i in range(60)] + PROD[:60]
BUDGET = 0.15

_PAGE = (Path(__file__).parents[2] / "docs" / "live.md").read_text()
_TROUBLES = _PAGE.partition("## Troubleshooting")[2].partition("\n## ")[0]
REASONS = {word for code in re.findall("`(.*?)`", _TROUBLES) for word in re.findall(r"\w+", code)}
"""Why a list is production's, by the manual; and of what is no trouble:"""
FINE = {"", "share", "control", "bot", "paused", "stopped", "killed"}


TABLES = {
    name: {"kind": "opensearch", "url": f"http://engine/{name}", "timeout_s": 5}
    for name in ("prod", "new", "third")
}
BOTH = {"prod": {"engine": "prod"}, "new": {"engine": "new"}}


def hits(ids, first, size, **more):
    page = ids[first : first + size]
    return {
        "took": 3,
        "timed_out": False,
        "_shards": {"total": 1, "failed": 0},
        "hits": {
            "total": {"value": len(ids), "relation": "eq"},
            "max_score": 1.0,
            "hits": [{"_index": "shop", "_id": i, "_score": 1.0, "_source": {"n": i}} for i in page],
        },
        "aggregations": {"brand": {"buckets": []}},
        **more,
    }


NOTHING = json.dumps(hits([], 0, 10)).encode()


class Engines:
    """Answers for ``prod`` and ``new`` in the given ``ways``; records requests and timeouts."""

    def __init__(self, **ways):
        self.ways = {"prod": "ok", "new": "ok", "third": "ok", **ways}
        self.asked, self.endured = [], []
        self.late = asyncio.Event()

    async def __call__(self, request):
        name = request.url.path.strip("/")
        packed = request.headers.get("content-encoding") == "gzip"
        body = json.loads((gzip.decompress if packed else bytes)(request.content or b"{}"))
        self.asked.append((name, body, request))
        ids = PROD if name == "prod" else NEW
        way = self.ways[name]
        if callable(way):
            return way(body)
        if way == "after the late":
            await self.late.wait()
            await asyncio.sleep(0.1)  # until the other answer has been read
        elif way == "late":  # production may take longer than the budget
            await asyncio.sleep(0.25)
            self.late.set()
        elif way == "hanging":
            await asyncio.sleep(60)
            self.endured.append(name)
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
        return httpx.Response(200, json=hits(ids, int(body.get("from", 0)), int(body.get("size", 10))))


class Desk:
    """The part of the service that the proxy calls, with lists by team draft; attributes can be set."""

    def __init__(self, rankers=("prod", "new"), **given):
        self.settings = SimpleNamespace(
            keyless=True, origins=(), search_header="x-structsvm-search", engines=copy.deepcopy(TABLES)
        )
        self.tables = {name: {"engine": name} for name in rankers}
        self.rankers, self.calls, self.uncompared = list(rankers), [], []
        self.assigned = Assigned("interleaved", list(rankers), "a")
        self.fault, self.shown, self.at_stop, self.counted = None, None, [], []
        counter = SimpleNamespace(inc=lambda: None)
        labels = lambda serve, why: self.counted.append(why) or counter  # noqa: E731
        self.metrics = SimpleNamespace(shown=SimpleNamespace(labels=labels))
        vars(self).update(given)

    async def experiment(self, key):
        if key != "shop":
            raise Refused("unknown_experiment", "no such experiment")
        return {
            "production": "prod",
            "rankers": self.rankers,
            "engines": self.tables,
            "length": 10,
            "method": "team_draft",
        }

    async def assign(self, key, call):
        return self.assigned

    async def show(self, key, call):
        self.calls.append(call)
        if self.fault is not None:
            raise self.fault
        if self.shown is not None:
            return self.shown
        if self.assigned.why == "control":
            return listed(call.rankings["prod"][call.offset : call.last], "production", why="control")
        pair = [call.rankings[name] for name in self.assigned.rankers]
        shown = TeamDraft().show(pair, length=call.last, rng=7) if len(pair) > 1 else None
        documents = list(pair[0][: call.last] if shown is None else shown.documents)[call.offset :]
        return listed(documents, "interleaved" if shown else "winner")

    def not_compared(self, key, why):
        self.uncompared.append(why)


def listed(documents, serve="interleaved", token="t", **more):
    return Shown(token=token, query_id=token, serve=serve, documents=documents, **{"replayed": False, **more})


SEARCH = {"X-Structsvm-Search": "r"}


class Route:
    """The proxy behind its route, without a service."""

    def __init__(self, desk=None, engines=None, budget=20.0):
        self.desk, self.engines = desk or Desk(), engines or Engines()
        app = Starlette(routes=routes(self.desk))
        app.state.service = self.desk
        self.transport = httpx.ASGITransport(app)
        self.proxy = self.desk.at_stop[-1].__self__
        self.proxy.caller, self.proxy.budget_s = caller_of(self.engines), budget

    def ask(self, method="POST", path="/v1/search/shop", **options):
        async def call():
            async with httpx.AsyncClient(transport=self.transport, base_url="http://here") as client:
                return await client.request(method, path, **options)

        return asyncio.run(call())


def run(body, engines=None, desk=None, *, headers=SEARCH, budget=20.0, times=1):
    """Search, and return the last response, the service and the engines."""
    route = Route(desk, engines, budget)
    for _ in range(times):
        answer = route.ask(json=body, headers=headers)
    said = {served(answer).partition("why=")[2], *route.desk.counted, *route.desk.uncompared}
    assert {one.partition(":")[0] for one in said} <= REASONS | FINE
    return answer, route.desk, route.engines


def ids_of(answer):
    return [hit["_id"] for hit in answer.json()["hits"]["hits"]]


def served(answer):
    return answer.headers.get("x-structsvm-serve", "")


def test_an_interleaved_page():
    body = {"query": {"match": {"t": "lamp"}}, "aggs": {"brand": {}}, "ext": {"ubi": {"user_query": "lamp"}}}
    answer, desk, engines = run(body)
    shown = TeamDraft().show([PROD[:10], NEW[:10]], length=10, rng=7)
    assert (ids_of(answer), served(answer)) == (list(shown.documents), "interleaved")
    found = answer.json()
    assert found["hits"]["total"] == {"value": 120, "relation": "eq"}
    assert found["aggregations"] == {"brand": {"buckets": []}}
    assert found["ext"]["ubi"]["query_id"] == "t"
    (call,) = desk.calls
    assert (call.query, call.assignment, call.length, call.offset) == ("lamp", "a", 10, 0)
    assert call.rankings == {"prod": PROD[:10], "new": NEW[:10]}
    assert 0 < call.elapsed_ms < 5000
    bodies = {name: sent for name, sent, _ in engines.asked}
    assert bodies["prod"] == body
    assert "aggs" not in bodies["new"]
    assert desk.uncompared == []


CHALLENGERS = [
    ("hanging", "timeout"),
    ("timed out", "timeout"),
    ("refusing", "unreachable"),
    ("cut", "unreachable"),
    ("defect", "error"),
    (500, "status"),
    (404, "status"),
    (302, "status"),
    (b"{", "junk"),
    (b"", "junk"),
    (b"[]", "junk"),
    (b"\xff\xfe", "junk"),
    (b"[" * 200_000, "junk"),
    (b'{"hits": {"hits": "none"}}', "junk"),
    (b'{"hits": {"hits": [{"_id": "a"}, {"_id": "a"}]}}', "id:twice"),
    (json.dumps(hits(NEW, 0, 10, timed_out=True)).encode(), "partial"),
    (NOTHING, "empty"),
    (lambda _: "é".encode("ascii"), "error"),
]


@pytest.mark.parametrize("page", [(0, 10), (0, 3), (10, 10), (115, 10)])
@pytest.mark.parametrize(("way", "why"), CHALLENGERS, ids=lambda v: str(v)[:20])
def test_a_bad_challenger_costs_nothing_but_the_comparison(way, why, page):
    first, size = page
    budget = BUDGET if way == "hanging" else 20.0
    answer, desk, engines = run({"from": first, "size": size}, Engines(new=way), budget=budget)
    direct = first + size > 100  # deeper than lists are drafted
    assert (answer.status_code, ids_of(answer)) == (200, PROD[first : first + size])
    assert served(answer) == f"production; why={'page' if direct else why}"
    assert desk.uncompared == ([] if direct else [why])
    assert (desk.calls, engines.endured) == ([], [])
    assert answer.json() == hits(PROD, first, size)


def test_an_answer_that_never_ends_is_cut(monkeypatch):
    monkeypatch.setattr("structsvm.live.web.proxy.MAX_ANSWER", 1000)
    answer, *_ = run({}, Engines(new=json.dumps(hits(NEW, 0, 100)).encode()))
    assert (served(answer), ids_of(answer)) == ("production; why=junk", PROD[:10])


def test_a_challenger_has_until_production_answers():
    answer, desk, _ = run({}, Engines(prod="after the late", new="late"), budget=0.01)
    assert (served(answer), desk.uncompared) == ("interleaved", [])
    answer, desk, engines = run({}, Engines(prod="late", new="hanging"), budget=0.01)
    assert (served(answer), desk.uncompared) == ("production; why=timeout", ["timeout"])
    assert engines.endured == []


@pytest.mark.parametrize("way", [400, 429, 500, 503, b"not json", b'{"hits": 3}', b"[]", NOTHING])
def test_what_production_says_is_passed_on_and_not_judged(way):
    answer, desk, _ = run({}, Engines(prod=way))
    if isinstance(way, int):
        assert (answer.status_code, answer.json()) == (way, {"error": f"prod says {way}"})
        assert answer.headers["retry-after"] == "7"
    else:
        assert (answer.status_code, answer.content) == (200, way)
    assert desk.calls == []
    assert desk.uncompared == (["production_junk"] if isinstance(way, bytes) and way != NOTHING else [])


@pytest.mark.parametrize(("way", "status"), [("refusing", 502), ("cut", 502), ("timed out", 504)])
def test_production_that_cannot_be_reached(way, status):
    answer, *_ = run({}, Engines(prod=way, new="hanging"))
    assert answer.status_code == status


@pytest.mark.parametrize("n", [1, 4, 9])
def test_a_page_has_the_length_of_productions(n):
    few = json.dumps(hits(PROD[:n], 0, 10)).encode()
    answer, _, _ = run({}, Engines(prod=few))
    assert (len(ids_of(answer)), served(answer)) == (n, "interleaved")


@pytest.mark.parametrize(
    ("method", "body", "parameters", "why"),
    [
        ("POST", {"sort": [{"price": "asc"}]}, "", "key:sort"),
        ("GET", {"of_tomorrow": 1}, "", "key:of_tomorrow"),
        ("POST", {"from": 95, "size": 10}, "", "page"),
        ("POST", {}, "scroll=1m", "parameter:scroll"),
        ("HEAD", {}, "", "method:HEAD"),
    ],
)
def test_lists_that_are_not_the_rankers_to_order(method, body, parameters, why):
    route = Route()
    answer = route.ask(method, path=f"/v1/search/shop?{parameters}", json=body, headers=SEARCH)
    assert served(answer) == f"production; why={why}"
    ((name, sent, request),) = route.engines.asked
    assert (name, sent, request.method, request.url.query.decode()) == ("prod", body, method, parameters)
    assert (route.desk.calls, route.desk.uncompared) == ([], [])
    assert route.desk.counted == [why.replace("of_tomorrow", "other")]


@pytest.mark.parametrize("wrong", ["second", "always", "within"])
def test_a_kept_connection_that_the_engine_closes_costs_no_search(wrong):
    """An engine that closes connections at their second request, at each one, or within its answer."""
    asked, connections = [], []

    async def engine(reader, writer):
        connections.append(asyncio.current_task())
        for n in itertools.count(1):
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                break
            await reader.readexactly(int(re.search(rb"content-length: (\d+)", head.lower())[1]))
            asked.append(head)
            if wrong == "always" or (wrong == "second" and n == 2):
                break
            length = 100 if wrong == "within" else 2
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n{}" % length)
            if wrong == "within":
                break
        writer.close()

    async def searches():
        server = await asyncio.start_server(engine, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        caller, found, at = Caller(), [], Engine("e", f"http://127.0.0.1:{port}/", PlainHTTP())
        for _ in range(12):
            try:
                found.append((await caller.send(at, b"{}", headers={})).content)
            except UnusableAnswer as error:
                found.append(error.reason)
        await caller.close()
        server.close()
        await asyncio.gather(*connections)
        return found

    expected = {"second": (b"{}", 18), "always": ("unreachable", 24), "within": ("unreachable", 12)}[wrong]
    assert (asyncio.run(searches()), len(asked)) == ([expected[0]] * 12, expected[1])


@pytest.mark.parametrize(
    ("header", "text"),
    [
        (b"lamp", "lamp"),
        ("Straße".encode(), "Straße"),
        ("Straße".encode("latin-1"), "Straße"),
        (b"", None),
        (b"Stra%C3%9Fe", "Straße"),
        (b"100% wool", "100% wool"),
        (b"a+b", "a+b"),
        (b"Stra%DFe", "unfilled"),
    ],
)
def test_what_the_user_typed(header, text):
    answer, desk, _ = run({}, headers={**SEARCH, "X-Structsvm-Query": header})
    if text == "unfilled":
        assert (served(answer), desk.calls) == ("production; why=unfilled", [])
    else:
        assert (served(answer), desk.calls[0].query) == ("interleaved", text)


def test_a_second_page_needs_the_request_id_and_continues_the_first():
    pages = []
    for first in (0, 10, 20):
        answer, desk, _ = run({"from": first})
        pages += ids_of(answer)
        assert desk.calls[0].offset == first
    assert pages == list(TeamDraft().show([PROD[:30], NEW[:30]], length=30, rng=7).documents)
    answer, _, engines = run({"from": 10}, headers=None)
    assert (served(answer), ids_of(answer)) == ("production; why=page", PROD[10:20])
    assert len(engines.asked) == 1


@pytest.mark.parametrize("first", [0, 10])
def test_production_judges_the_content_type(first):
    """Production gets the client's content type on every page; challengers get JSON, as bodies are rewritten."""
    _, _, engines = run({"from": first}, headers={**SEARCH, "content-type": "text/x"})
    kinds = {name: request.headers["content-type"] for name, _, request in engines.asked}
    assert kinds == {"prod": "text/x", "new": "application/json"}


def test_a_page_longer_than_what_is_drafted_goes_on_as_productions():
    drafted = list(TeamDraft().show([PROD[:25], NEW[:25]], length=10, rng=7).documents)
    expected = drafted + [name for name in PROD if name not in drafted]
    pages = []
    for first in (0, 25):
        answer, desk, _ = run({"from": first, "size": 25})
        pages += ids_of(answer)
        assert (desk.calls[0].offset, desk.calls[0].length) == (0, 10)
    assert pages == expected[:50]


def test_control_is_production_with_a_token():
    desk = Desk(assigned=Assigned("production", ["prod"], why="control"))
    answer, desk, engines = run({"from": 10}, desk=desk)
    assert (ids_of(answer), answer.json()["ext"]["ubi"]["query_id"]) == (PROD[10:20], "t")
    assert desk.calls[0].rankings == {"prod": PROD[:20]}
    # the page is the engine's own: of a longer list it may say another largest score
    assert [sent.get("from") for _, sent, *_ in engines.asked] == [0, 10]
    assert answer.json()["hits"] == hits(PROD, 10, 10)["hits"]
    _, _, engines = run({}, desk=desk)
    assert len(engines.asked) == 1


def test_a_control_list_of_another_unit_is_productions_answer():
    """If the search id was stored for a unit in control, another unit in the share gets production, too."""
    answer, *_ = run({}, desk=Desk(shown=listed(PROD[:10], "production", why="control")))
    assert (served(answer), answer.json()["hits"]) == ("production; why=control", hits(PROD, 0, 10)["hits"])


def test_a_winner_is_served_with_productions_total():
    answer, *_ = run({}, desk=Desk(assigned=Assigned("winner", ["new"])))
    assert (ids_of(answer), served(answer)) == (NEW[:10], "winner")
    assert answer.json()["hits"]["total"]["value"] == 120


def test_a_duel_of_two_challengers_asks_production_too():
    desk = Desk(("prod", "new", "third"), assigned=Assigned("interleaved", ["new", "third"], "a"))
    answer, desk, engines = run({}, desk=desk)
    assert sorted(name for name, *_ in engines.asked) == ["new", "prod", "third"]
    assert sorted(desk.calls[0].rankings) == ["new", "prod", "third"]
    assert served(answer) == "interleaved"
    answer, desk, _ = run({}, Engines(third=500), desk=desk)
    assert (ids_of(answer), desk.uncompared) == (PROD[:10], ["status"])


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (Refused("store", "behind"), "refused"),
        (Refused("x", "y"), "refused"),
        (OSError("disk full"), "store"),
        (["gone"], "replayed"),
        ([*PROD[:9], "gone"], "replayed"),
        (PROD[:3], "replayed"),
        (PROD[:12], "replayed"),
    ],
)
def test_a_list_that_is_not_recorded_or_of_another_search_is_not_shown(found, why):
    """A list of another search has other documents, or another length."""
    desk = Desk(shown=listed(found, replayed=True)) if isinstance(found, list) else Desk(fault=found)
    answer, *_ = run({}, desk=desk)
    assert (answer.status_code, ids_of(answer), served(answer)) == (200, PROD[:10], f"production; why={why}")


def test_the_breaker_opens_rests_and_tries_again():
    now = [0.0]
    route = Route(engines=Engines(new=500))
    route.proxy.breakers["shop", "new"] = Breaker(lambda: now[0])

    def whys(n):
        answers = [route.ask(json={"size": 7}, headers=SEARCH) for _ in range(n)]
        assert [len(ids_of(answer)) for answer in answers] == [7] * n
        return [served(answer).removeprefix("production; why=") for answer in answers]

    assert whys(7) == ["status"] * 5 + ["breaker"] * 2
    now[0] = 10.0
    assert whys(3) == ["status", "breaker", "breaker"]
    now[0] = 29.0  # twice as long after a try that failed
    assert whys(1) == ["breaker"]
    now[0] = 30.0
    route.engines.ways["new"] = "ok"
    assert whys(2) == ["interleaved"] * 2
    assert route.desk.uncompared == ["status"] * 5 + ["breaker"] * 2 + ["status"] + ["breaker"] * 3
    assert sum(name == "new" for name, *_ in route.engines.asked) == 8


def test_requests_that_production_refuses_too_do_not_open_the_breaker():
    """A client's mistake does not count against the challenger; its other failures do."""
    _, desk, engines = run({}, Engines(prod=400, new=400), times=9)
    assert desk.uncompared == []
    assert [name for name, *_ in engines.asked].count("new") == 9
    _, _, engines = run({}, Engines(prod=400, new="refusing"), times=9)
    assert [name for name, *_ in engines.asked].count("new") == 5


def test_a_request_without_the_text_does_not_open_the_breaker():
    desk = Desk()
    desk.settings.engines["new"]["body"] = {"query": {"match": {"t": "{q}"}}}
    answer, desk, _ = run({"query": {}}, desk=desk, times=7)
    assert (served(answer), desk.uncompared) == ("production; why=unfilled", ["unfilled"] * 7)
    answer, *_ = run({"q": "lamp"}, desk=desk)
    assert served(answer) == "interleaved"


@pytest.mark.parametrize("first", [0, 10])
def test_a_request_without_the_text_that_production_needs_is_refused(first):
    desk = Desk()
    desk.settings.engines["prod"]["body"] = {"query": {"match": {"t": "{q}"}}}
    answer, *_ = run({"query": {}, "from": first}, desk=desk)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "bad_body")


@pytest.mark.parametrize("tables", [None, {"prod": {"engine": "gone"}, "new": {"engine": "new"}}])
def test_experiments_without_productions_engine_are_refused(tables):
    answer, *_ = run({}, desk=Desk(tables=tables))
    assert answer.status_code == 409
    assert "no engine" in answer.json()["error"]["message"]


@pytest.mark.parametrize("why", [None, "control", "share", "killed", "stopped", "bot", "draft"])
@pytest.mark.parametrize("new", ["new", "gone", "third"])
def test_beside_the_experiment_or_without_a_challengers_engine_only_production_is_asked(why, new):
    """Nothing is recorded, not even for control; answers of production keep their reasons."""
    desk = Desk(tables={"prod": {"engine": "prod"}, "new": {"engine": new}})
    desk.settings.engines["third"]["kind"] = "solr"  # whose documents are no hits
    if why is not None:
        desk.assigned = Assigned("production", ["prod"], why=why)
    answer, desk, engines = run({}, desk=desk)
    if why in (None, "control"):
        if new == "new":
            assert len(desk.calls) == 1
            return
        why = "engines"
    assert (served(answer), ids_of(answer)) == (f"production; why={why}", PROD[:10])
    assert ([name for name, *_ in engines.asked], desk.calls, desk.uncompared) == (["prod"], [], [])


def test_parameters_and_headers_of_the_configuration_are_sent_and_those_of_the_client_are_not():
    desk = Desk()
    desk.settings.engines["new"] |= {"url": "http://engine/new?a=1", "headers": {"X-A": "b"}}
    desk.tables["new"]["params"] = {"search_pipeline": "p q"}
    _, _, engines = run({}, desk=desk, headers={**SEARCH, "authorization": "Bearer x"})
    (request,) = [request for name, _, request in engines.asked if name == "new"]
    assert dict(request.url.params) == {"a": "1", "search_pipeline": "p q"}
    assert request.headers["x-a"] == "b"
    assert "authorization" not in request.headers


def test_the_route_reads_ids_from_headers_or_the_body():
    route = Route()
    route.ask(json={}, headers={"X-Structsvm-Search": "r-7", "X-Structsvm-Unit": "Jörg".encode("latin-1")})
    route.ask(json={"ext": {"ubi": {"query_id": "u-7", "client_id": 123}}})
    route.ask(json={}, headers={"X-Structsvm-Search": "x" * 513, "X-Structsvm-Unit": "a b"})
    assert [call.unit for call in route.desk.calls] == ["Jörg", "123", "a b"]
    assert [call.request_id for call in route.desk.calls[:2]] == ["r-7", "u-7"]
    assert len(route.desk.calls[2].request_id) == 32


UNREADABLE = [
    b"{",
    b"[]",
    b"3",
    b'{"size": -1}',
    b'{"size": "many"}',
    b'{"from": true}',
    b'{"size": 5.0}',
    b"\xff",
    b'{"size": 1, "size": 2}',
    b'{"x": NaN}',
    b"[" * 100_000,
    b'{"index": "a"}\n{"size": 1}\n',
    b" " * (1 << 20) + b"{}",
]


@pytest.mark.parametrize("content", UNREADABLE, ids=lambda v: str(v[:20]))
def test_what_cannot_be_read_is_production_as_it_came(content):
    seen = []

    def engine(request):
        seen.append(request)
        return httpx.Response(418, content=b"\x1f says", headers={"x-own": "1", "content-type": "text/odd"})

    route = Route(engines=engine)
    headers = {"content-type": "application/x-ndjson", "x-opaque-id": "o", "authorization": "secret"}
    answer = route.ask(path="/v1/search/shop?a=b%20c", content=content, headers=headers)
    (request,) = seen
    assert (request.content, request.url.query) == (content, b"a=b%20c")
    assert (request.headers["content-type"], request.headers["x-opaque-id"]) == ("application/x-ndjson", "o")
    assert "authorization" not in request.headers
    assert (answer.status_code, answer.content) == (418, b"\x1f says")
    assert (answer.headers["x-own"], answer.headers["content-type"]) == ("1", "text/odd")
    assert served(answer) == "production; why=body"
    assert (route.desk.calls, route.desk.counted) == ([], ["body"])


def test_parameters_that_do_not_are_passed_on():
    route = Route()
    answer = route.ask(path="/v1/search/shop?size=4&from=4&routing=7", json={}, headers=SEARCH)
    assert (served(answer), len(ids_of(answer))) == ("interleaved", 4)
    for _, body, request in route.engines.asked:
        assert (body["from"], body["size"], request.url.query) == (0, 8, b"routing=7")


def test_methods_and_encodings_of_clients():
    route, body = Route(), {"size": 3}
    packed = gzip.compress(json.dumps(body).encode())
    headers = {**SEARCH, "content-encoding": "gzip", "content-type": "application/json"}
    assert served(route.ask(content=packed, headers=headers)) == "interleaved"
    (request,) = [request for name, _, request in route.engines.asked if name == "prod"]
    assert gzip.decompress(request.content) == b'{"size": 3}'
    for method in ("GET", "POST"):
        for path in ("/v1/search/shop", "/v1/search/shop/_search"):
            answer = route.ask(method, path, json=body, headers=SEARCH)
            assert (answer.status_code, len(ids_of(answer))) == (200, 3)
            assert route.engines.asked[-2][2].method in (method, "POST")
    packed = gzip.compress(json.dumps(hits(PROD, 0, 10)).encode())
    told = {"content-encoding": "gzip"}
    route = Route(engines=lambda _: httpx.Response(200, content=packed, headers=told))
    answer = route.ask(json={}, headers=SEARCH)
    assert served(answer) == "interleaved"
    assert "content-encoding" not in answer.headers


OF_CONTENT = {
    "ETag": '"1"',
    "Content-Digest": "sha-256=:AA==:",
    "Repr-Digest": "sha-256=:AA==:",
    "Digest": "sha-256=AA==",
    "Content-MD5": "AA==",
    "Last-Modified": "Sat, 01 Nov 2025 00:00:00 GMT",
    "Expires": "Sat, 01 Nov 2099 00:00:00 GMT",
    "Age": "7",
    "Cache-Control": "public, max-age=60",
}


def test_a_merged_answer_has_no_headers_of_productions_body():
    """RFC 9110 and 9530; headers that ``Connection`` names are for the connection with the engine only."""
    own = {"Connection": "close, X-Hop", "X-Hop": "1", "X-Kept": "1"}
    route = Route(engines=lambda _: httpx.Response(200, json=hits(PROD, 0, 10), headers=OF_CONTENT | own))
    for headers, how, kept in (
        (SEARCH, "interleaved", set()),
        ({}, "production; why=search_id", {name.lower() for name in OF_CONTENT}),
    ):
        answer = route.ask(json={}, headers=headers)
        assert served(answer) == how
        assert {name.lower() for name in OF_CONTENT} & set(answer.headers) == kept
        assert ("x-hop" in answer.headers, answer.headers["x-kept"]) == (False, "1")


@pytest.mark.parametrize(
    ("accepted", "sent"),
    [
        ("gzip;q=0, identity", "identity"),
        ("gzip; q=0.000", "identity"),
        ("br, GZIP;q=0.5", "gzip"),
        ("deflate,x-gzip", "gzip"),
        ("not-gzip", "identity"),
        ("*", "identity"),
        ("", "identity"),
    ],
)
def test_engines_compress_only_for_clients_that_take_it(accepted, sent):
    route = Route()
    route.ask(json={}, headers={"accept-encoding": accepted})
    asked = {name: request.headers["accept-encoding"] for name, _, request in route.engines.asked}
    assert asked == {"prod": sent, "new": "identity"}


def test_searches_with_a_slash_at_the_end_are_not_redirected(client):
    client.create()
    for path in ("/v1/search/e/", "/v1/search/e/_search/", "/v1/search/e"):
        assert client.call("POST", path, {})[1]["error"]["code"] == "no_engines"


@pytest.mark.parametrize("where", ["prod", "new"])
def test_halves_of_surrogate_pairs_and_huge_numbers_cost_nothing(where):
    """Engines return stored text unchanged, such as half of an emoji."""
    odd = {"prod": hits(PROD, 0, 10), "new": hits(NEW, 0, 10)}[where]
    odd["hits"]["hits"][0]["_source"]["t"] = "cut \ud83d"
    route = Route(engines=Engines(**{where: json.dumps(odd).encode()}))
    answer = route.ask(json={}, headers=SEARCH)
    assert (answer.status_code, served(answer)) == (200, "interleaved")
    assert "\\ud83d" in answer.text
    for number in ("1e400", "NaN", "-Infinity"):
        sound = json.dumps(hits(PROD if where == "prod" else NEW, 0, 10))
        raw = f'{sound[:-1]}, "big": {number}}}'.encode()
        route = Route(engines=Engines(**{where: raw}))
        answer = route.ask(json={}, headers=SEARCH)
        why = "production_junk" if where == "prod" else "junk"
        assert served(answer) == f"production; why={why}"
        assert answer.content == raw if where == "prod" else ids_of(answer) == PROD[:10]
        assert route.desk.uncompared == [why]


def test_a_configured_query_replaces_the_clients():
    desk = Desk()
    desk.settings.engines["new"]["body"] = {"query": {"function_score": {"query": "{query}", "boost": 2}}}
    client = {"bool": {"must": {"match": {"t": "lamp"}}, "filter": {"term": {"a": 1}}}}
    for body, query in (({"query": client}, client), ({}, {"match_all": {}})):
        _, _, engines = run(body, desk=desk)
        sent = {name: one for name, one, _ in engines.asked}
        assert sent["new"]["query"] == {"function_score": {"query": query, "boost": 2}}
        assert sent["prod"] == body


def test_without_an_id_only_lists_without_a_next_page_are_interleaved():
    answer, desk, _ = run({}, headers=None)
    assert (served(answer), desk.calls, desk.counted) == ("production; why=search_id", [], ["search_id"])
    few = json.dumps(hits(PROD[:7], 0, 10)).encode()
    answer, desk, _ = run({}, Engines(prod=few), headers=None)
    assert (served(answer), len(desk.calls)) == ("interleaved", 1)
    untold = json.loads(few)
    del untold["hits"]["total"]
    answer, *_ = run({}, Engines(prod=json.dumps(untold).encode()), headers=None)
    assert served(answer) == "interleaved"
    untold["hits"]["hits"] = hits(PROD, 0, 10)["hits"]["hits"]
    answer, *_ = run({}, Engines(prod=json.dumps(untold).encode()), headers=None)
    assert served(answer) == "production; why=search_id"


def test_reasons_are_logged_with_what_the_engine_said(caplog):
    run({}, Engines(new=400), times=3)
    said = [one.getMessage() for one in caplog.records if "engine new" in one.getMessage()]
    assert said == ['structsvm live: engine new: status: 400 {"error":"new says 400"}']
    caplog.clear()
    twice = json.dumps(hits(["a", "a"], 0, 10)).encode()
    _, desk, _ = run({}, Engines(prod=twice))
    assert "production_id:twice" in caplog.text
    assert (desk.uncompared, desk.counted) == (["production_id:twice"], ["production_id:twice"])
    _, desk, _ = run({}, Engines(prod=503))
    assert "production_status: 503" in caplog.text
    assert (desk.uncompared, desk.counted) == ([], ["production_status"])
    _, desk, _ = run({}, Engines(prod=NOTHING))
    assert desk.counted == ["none"]


def test_with_the_service_itself(open_client):
    """Pages of a search continue each other, clicks on them count, and a failing challenger is reported."""
    engines = Engines()
    with open_client(engines=TABLES) as client:
        client.search_by(engines)
        client.create(engines=BOTH)

        def search(request_id, **body):
            answer = client.request("POST", "/v1/search/e", body, headers={"X-Structsvm-Search": request_id})
            return ids_of(answer), answer.json(), served(answer)

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


@pytest.mark.slow
@pytest.mark.parametrize("method", ["team_draft", "optimized"])
def test_pages_of_a_search_show_each_document_once(method, open_client, tmp_path):
    """This holds for all sizes of pages and lengths of merged lists, as both rankers find the same documents."""
    found = [f"d{k}" for k in range(23)]
    orders = {"prod": found, "new": [found[(7 * k + 3) % 23] for k in range(23)]}

    def engine(request):
        body = json.loads(request.content)
        ids = orders[request.url.path.strip("/")]
        return httpx.Response(200, json=hits(ids, body.get("from", 0), body.get("size", 10)))

    with open_client(engines=TABLES) as client:
        client.search_by(engine)
        n_merged = 0
        for length in range(1, 13) if method == "team_draft" else (1, 4, 7):
            key = f"of-{length}"
            client.create(key, engines=BOTH, length=length, method=method)
            for size in range(1, 16):
                pages = []
                for first in range(0, 23, size):
                    body, headers = {"size": size, "from": first}, {"X-Structsvm-Search": f"s{size}"}
                    answer = client.request("POST", f"/v1/search/{key}", body, headers=headers)
                    assert served(answer) == "interleaved"
                    pages += ids_of(answer)
                assert sorted(pages) == sorted(found), (length, size)
                n_merged += pages != found
            client.wait_closed(key)
            assert read_credits(client.log(tmp_path / f"{key}.jsonl", key)).n_impressions > 0
        assert n_merged > 20


@pytest.mark.parametrize(
    ("body", "headers", "text"),
    [
        ({"ext": {"ubi": {"user_query": "red lamp"}}}, {}, "red lamp"),
        ({"query": {"match_all": {}}}, {"X-Structsvm-Query": "j%C3%B6rg%20lamp"}, "jörg lamp"),
        ({"q": "lamp"}, {}, "lamp"),
    ],
)
def test_a_kept_query_makes_exports_logs_for_click_models(body, headers, text, open_client, tmp_path, capsys):
    """``clicks describe`` reads the export if ``log_query`` stores the query of the request, else refuses it."""
    tables = {name: {**TABLES[name], "body": {"query": {"match": {"t": "{q}"}}}} for name in BOTH}
    with open_client(engines=tables) as client:
        client.search_by(Engines())
        for key in ("kept", "not-kept"):
            client.create(key, engines=BOTH, log_query=key == "kept")
            answer = client.request("POST", f"/v1/search/{key}", body, headers={**SEARCH, **headers})
            assert served(answer) == "interleaved"
            client.click({"token": answer.json()["ext"]["ubi"]["query_id"], "place": 1})
            client.wait_closed(key)
            client.log(tmp_path / f"{key}.jsonl", key)
    assert json.loads((tmp_path / "kept.jsonl").read_text())["query"] == text
    assert main(["clicks", "describe", str(tmp_path / "kept.jsonl")]) == 0
    assert "1 list" in capsys.readouterr().out.replace("impressions", "lists")
    assert main(["clicks", "describe", str(tmp_path / "not-kept.jsonl")]) == 2
    assert "query" in capsys.readouterr().err
