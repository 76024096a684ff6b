"""The description of the API matches the service: it has every route, and every answer has its type."""

import json
import re

import httpx
import msgspec
import pytest

from structsvm.live.contract import bodies
from structsvm.live.web.openapi import OPERATIONS, document

FILES = {("get", path) for path in ("/", "/e/{key}", "/client.js", "/openapi.json", "/favicon.ico")}
DOCUMENT = document()


def engine(request):
    """Return twenty documents, in a different order for each ranker."""
    step = -1 if "search_pipeline" in request.url.params else 1
    hits = [{"_id": f"d{k}", "_score": 1.0} for k in range(20)][::step]
    return httpx.Response(200, json={"hits": {"total": {"value": 20}, "hits": hits[:3]}})


@pytest.fixture
def client(open_client):
    with open_client(
        engines={"shop": {"kind": "opensearch", "url": "http://engine/shop/_search"}}
    ) as started:
        started.search_by(engine)
        yield started


def test_every_route_is_described_with_its_key(client):
    found = set()
    for route in client.app.routes:
        path = re.sub(r"{(\w+):path}", r"{\1}", route.path)
        found |= {(method.lower(), path) for method in route.methods - {"HEAD"}}
    assert found - FILES == set(OPERATIONS)
    client.create()
    # a call that a reverse proxy passes on needs the key, or none
    for (method, path), one in OPERATIONS.items():
        address, headers = path.replace("{key}", "e"), {"x-forwarded-for": "1"}
        answer = client.request(method.upper(), address, {} if method != "get" else None, headers=headers)
        assert (answer.status_code == 401) == (one.scope is not None), path
        if one.scope is not None:
            assert f"scope {one.scope}" in answer.json()["error"]["message"]


def test_references_lead_somewhere_and_operations_have_names():
    for name in re.findall(r'"#/components/schemas/(\w+)"', json.dumps(DOCUMENT)):
        assert name in DOCUMENT["components"]["schemas"]
    every = [one for item in DOCUMENT["paths"].values() for one in item.values()]
    assert len({one["operationId"] for one in every}) == len(every)
    for one in every:
        assert all(status.startswith(("2", "4", "5")) for status in one["responses"])


EVERYTHING = {
    "kind": "interleaving",
    "rankers": ["prod", "new"],
    "production": "prod",
    "method": "team_draft",
    "length": 10,
    "share": 1.0,
    "window_s": 0.2,
    "unit": "user",
    "alpha": 0.01,
    "actions": {"click": 1, "hover": 0},
    "log_query": True,
    "log_rankings": False,
    "guardrails": {"control": True, "on_alarm": "kill"},
    "engines": None,
    "stop": {"max_impressions": 100_000, "on_winner": "keep"},
}
ENGINES = {"prod": {"engine": "shop"}, "new": {"engine": "shop", "params": {"search_pipeline": "ltr"}}}
RANKINGS = {"prod": ["d1", "d2", "d3", "d4", "d5", "d6"], "new": ["d2", "d9", "d1", "d7", "d3", "d8"]}
# in an order in which each call has what it needs
STORY = [
    (
        "put",
        "/v1/experiments/{key}",
        [
            EVERYTHING,
            {"rankers": ["prod", "new"], "engines": ENGINES},
            {"kind": "bandit", "rankers": ["prod", "a", "b"], "policy": "rucb"},
            {"rankers": ["prod", "new"], "window_s": 0.2},
        ],
    ),
    (
        "post",
        "/v1/experiments/{key}/state",
        [{"to": "running"}, {"to": "paused", "reason": "a sale"}, {"to": "running"}],
    ),
    (
        "post",
        "/v1/experiments/{key}/assign",
        [{"request_id": "r", "unit": "s"}, {"request_id": "q", "context": {"sort": "price"}}],
    ),
    (
        "post",
        "/v1/experiments/{key}/show",
        [
            {"request_id": "r", "unit": "s", "rankings": RANKINGS, "length": 3},
            {"request_id": "r", "unit": "s", "rankings": RANKINGS, "length": 2, "offset": 4},
            {
                "request_id": "r2",
                "rankings": RANKINGS,
                "query": "lamp",
                "elapsed_ms": 31.5,
                "context": {"page": 1},
            },
        ],
    ),
    (
        "post",
        "/v1/clicks",
        [
            {"events": [{"token": "TOKEN", "place": 1}]},
            {"events": [{"token": "TOKEN", "place": 2, "dwell_s": 12.5}, {"token": "forged"}]},
        ],
    ),
    (
        "post",
        "/v1/ubi/events",
        [
            {
                "action_name": "click",
                "query_id": "TOKEN",
                "event_attributes": {"object": {"object_id": "d1"}},
            },
            [{"action_name": "impression", "query_id": "TOKEN"}],
            {"events": [{"action_name": "impression", "query_id": "TOKEN"}]},
        ],
    ),
    ("get", "/v1/experiments", [None]),
    ("get", "/v1/experiments/{key}", [None]),
    ("get", "/v1/experiments/{key}/report", [None]),
    ("post", "/v1/experiments/{key}/acknowledge", [{"guardrail": "slow", "reason": "a deployment"}, {}]),
    ("get", "/v1/experiments/{key}/changes", [None]),
    ("get", "/v1/experiments/{key}/export", [None]),
    ("get", "/metrics", [None]),
    ("get", "/livez", [None]),
    ("get", "/readyz", [None]),
    ("post", "/v1/kill", [{"reason": "the shop is slow"}, None]),
]


def answered(client, method, path, key, body):
    one = OPERATIONS[method, path]
    answer = client.request(method.upper(), path.replace("{key}", key), body)
    assert answer.status_code == one.status, (path, body, answer.text)
    if isinstance(one.answer, type) and issubclass(one.answer, msgspec.Struct):
        msgspec.convert(answer.json(), one.answer)
    return answer


def test_every_answer_has_its_type(client):
    told = {(method, path) for method, path, _ in STORY}
    assert told == {name for name in OPERATIONS if "search" not in name[1]}
    token = "TOKEN"
    for method, path, given in STORY:
        for body in given:
            body = json.loads(json.dumps(body).replace("TOKEN", token))
            answer = answered(client, method, path, "e", body)
            if path.endswith("/show"):
                token = answer.json()["token"] if token == "TOKEN" else token
            if path == "/v1/ubi/events":
                client.wait_closed()
    assert answered(client, "get", "/v1/experiments/{key}/report", "e", None).json()["n_impressions"]


def test_answers_of_bandits_and_the_proxy(client):
    client.create("b", kind="bandit", rankers=["prod", "x", "y"])
    body = client.call("POST", "/v1/experiments/b/assign", {"request_id": "r"})[1]
    rankings = {name: ["d1", "d2"] if k else ["d2", "d3"] for k, name in enumerate(body["rankers"])}
    rankings.setdefault("prod", ["d4"])
    client.show("r", "b", rankings, assignment=body["assignment"])
    client.wait_closed("b")
    report = answered(client, "get", "/v1/experiments/{key}/report", "b", None)
    assert report.json()["bandit"]["n_duels"] == 1
    client.create("p", engines=ENGINES)
    for method, path in (one for one in OPERATIONS if "search" in one[1]):
        answer = client.request(
            method.upper(), path.replace("{key}", "p"), {"size": 3}, headers={"x-structsvm-search": "s"}
        )
        assert (answer.status_code, answer.headers["x-structsvm-serve"]) == (200, "interleaved")


BANDIT = {"kind": "bandit", "rankers": ["prod", "a", "b"]}


def test_refusals_are_errors_as_described(client):
    client.create()
    show = {"request_id": "r", "rankings": RANKINGS}
    for method, path, body, code in [
        ("PUT", "/v1/experiments/e", {"rankers": ["a"]}, "bad_experiment"),
        ("PUT", "/v1/experiments/b", {**BANDIT, "policy_options": {"alpha": 1e13}}, "bad_experiment"),
        ("GET", "/v1/experiments/none/report", None, "unknown_experiment"),
        ("POST", "/v1/experiments/none/show", show, "unknown_experiment"),
        ("POST", "/v1/experiments/e/show", {**show, "length": "3"}, "bad_length"),
        ("POST", "/v1/experiments/e/show", {**show, "rankings": {"prod": ["a", 3]}}, "bad_rankings"),
        ("POST", "/v1/experiments/e/show", {**show, "lenght": 3}, "unknown_field"),
        ("POST", "/v1/experiments/e/show", {"rankings": {}}, "bad_request_id"),
        ("POST", "/v1/experiments/e/state", {"to": "gone"}, "bad_to"),
        ("POST", "/v1/clicks", {}, "bad_events"),
        ("POST", "/v1/clicks", [], "bad_json"),
        ("POST", "/v1/search/none", {}, "unknown_experiment"),
        ("POST", "/v1/ubi/events", [{}] * 1001, "too_large"),
        ("GET", "/nowhere", None, "not_found"),
    ]:
        answer = client.request(method, path, body)
        assert 400 <= answer.status_code < 500
        assert msgspec.convert(answer.json(), bodies.Error).error.code == code, answer.text


BOUNDS = [
    (part, name, bounds[key], step)
    for part in ("Config", "Guardrails", "Stop")
    for name, kind in DOCUMENT["components"]["schemas"][part]["properties"].items()
    for bounds in (kind, *kind.get("anyOf", ()))
    for key, step in (("minimum", -1), ("maximum", 1))
    if key in bounds
]


@pytest.mark.parametrize(("part", "name", "bound", "step"), BOUNDS)
def test_what_the_description_takes_the_service_takes(client, part, name, bound, step):
    """Numbers at the bounds of the description are accepted, numbers beyond them refused."""
    config = {"rankers": ["prod", "new"]} | ({**BANDIT, "policy": "btm"} if name == "horizon" else {})
    for value, status in ((bound, 201), (bound + step, 422)):
        given = {name: value} if part == "Config" else {part.lower(): {name: value}}
        assert client.call("PUT", f"/v1/experiments/{name}", config | given)[0] == status, value
