"""The description of the API: every route is in it, every example is answered as it says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
import pytest

import structsvm.live
from structsvm.live.engines.calling import Caller
from structsvm.live.settings import Settings

DOCUMENT = json.loads((Path(structsvm.live.__file__).parent / "openapi.json").read_text())
EXAMPLE_TOKEN = "kq2sT0kenOfTheList"
METHODS = ("get", "put", "post", "delete", "patch")
PAGES = {("get", path) for path in ("/", "/e/{key}", "/client.js", "/openapi.json")}
OPERATIONS = {
    (method, path): {**one, "parameters": [*item.get("parameters", ()), *one.get("parameters", ())]}
    for path, item in DOCUMENT["paths"].items()
    for method, one in item.items()
    if method in METHODS
}


def problems(value, schema, place="$"):
    """What of ``value`` is not as its schema says: the parts of JSON Schema that the document uses."""
    if "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    for part in schema.get("allOf", ()):
        yield from problems(value, part, place)
    if "anyOf" in schema and all(list(problems(value, part, place)) for part in schema["anyOf"]):
        yield f"{place}: none of anyOf"
    kinds = {
        "object": dict, "array": list, "string": str, "boolean": bool, "null": type(None), "integer": int,
        "number": (int, float),
    }  # fmt: skip
    kind = schema.get("type")
    if kind is not None and (
        not isinstance(value, kinds[kind]) or (isinstance(value, bool) and kind in ("integer", "number"))
    ):
        yield f"{place}: {value!r:.60} is no {kind}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place}: {value!r:.60} is none of {schema['enum']}"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{place}: {value!r:.60} does not match"
    if isinstance(value, dict):
        known = schema.get("properties", {})
        yield from (f"{place}: {name} is missing" for name in schema.get("required", ()) if name not in value)
        more = schema.get("additionalProperties", True)
        for name, one in value.items():
            if name in known:
                yield from problems(one, known[name], f"{place}.{name}")
            elif more is False:
                yield f"{place}: {name} is not known"
            elif more is not True:
                yield from problems(one, more, f"{place}.{name}")
    elif isinstance(value, list) and "items" in schema:
        for k, one in enumerate(value):
            yield from problems(one, schema["items"], f"{place}[{k}]")
    for name, wrong in (
        ("minimum", lambda v, x: v < x), ("maximum", lambda v, x: v > x), ("maxLength", lambda v, x: len(v) > x),
        ("minLength", lambda v, x: len(v) < x), ("maxItems", lambda v, x: len(v) > x),
        ("minItems", lambda v, x: len(v) < x), ("exclusiveMinimum", lambda v, x: v <= x),
        ("exclusiveMaximum", lambda v, x: v >= x),
    ):  # fmt: skip
        if name in schema and wrong(value, schema[name]):
            yield f"{place}: {value!r:.60} against {name} {schema[name]}"


def json_of(part):
    return part.get("content", {}).get("application/json", {})


def examples_of(part):
    return {name: one["value"] for name, one in json_of(part).get("examples", {}).items()}


def test_the_validator_notices():
    schema = DOCUMENT["components"]["schemas"]["Config"]
    assert not list(problems({"rankers": ["a", "b"]}, schema))
    for bad in ({}, {"rankers": ["a"]}, {"rankers": ["a", "b"], "x": 1}, {"rankers": ["a", "b"], "share": 2},
                {"rankers": ["a", "b"], "alpha": 1}, {"rankers": ["a", 3]}, {"rankers": ["a", "b"], "kind": "x"},
                {"rankers": ["a", "b"], "engines": 3}, {"rankers": ["a", "b"], "length": True}):  # fmt: skip
        assert list(problems(bad, schema)), bad


def test_references_lead_somewhere_and_operations_have_names():
    text = json.dumps(DOCUMENT)
    for name in re.findall(r'"#/components/schemas/(\w+)"', text):
        assert name in DOCUMENT["components"]["schemas"]
    names = [one["operationId"] for one in OPERATIONS.values()]
    assert len(set(names)) == len(names)
    for (_, path), one in OPERATIONS.items():
        named = {p["name"] for p in one["parameters"] if p["in"] == "path"}
        assert named == set(re.findall(r"{(\w+)}", path))


@pytest.mark.parametrize(("method", "path"), list(OPERATIONS), ids=str)
def test_examples_are_as_their_schemas_say(method, path):
    one = OPERATIONS[method, path]
    parts = [one["requestBody"]] if "requestBody" in one else []
    for part in [*parts, *one["responses"].values()]:
        for name, value in examples_of(part).items():
            assert list(problems(value, json_of(part)["schema"])) == [], name
    assert method == "get" or examples_of(one["requestBody"])


class Engine:
    """Finds twenty documents, for every ranker in another order."""

    async def __call__(self, request):
        body = json.loads(request.content)
        ids = [f"d{k}" for k in range(20)]
        if "search_pipeline" in request.url.params:
            ids = ids[::-1]
        hits = [{"_id": name, "_score": 1.0} for name in ids[body["from"] : body["from"] + body["size"]]]
        return httpx.Response(200, json={"timed_out": False, "hits": {"total": {"value": 20}, "hits": hits}})


@pytest.fixture
def client(store_url, open_client):
    engines = {"shop": {"kind": "opensearch", "url": "http://engine/shop/_search"}}
    engines["shop"]["body"] = {"query": {"match": {"title": "lamp"}}}
    with open_client(Settings(store_url, grace_s=0.0, close_every_s=3600, engines=engines)) as started:
        proxy = next(one.__self__ for one in started.service.closing if hasattr(one.__self__, "breakers"))
        proxy._caller = Caller(httpx.AsyncClient(transport=httpx.MockTransport(Engine())))
        yield started


def test_every_route_is_described(client):
    found = set()
    for route in client.app.routes:
        path = re.sub(r"{(\w+):path}", r"{\1}", route.path)
        found |= {(method.lower(), path) for method in route.methods - {"HEAD"}}
    assert found - PAGES == set(OPERATIONS)


# an order in which each call has what it needs
STORY = [
    ("put", "/v1/experiments/{key}"), ("post", "/v1/experiments/{key}/state"), ("post", "/v1/experiments/{key}/assign"),
    ("post", "/v1/experiments/{key}/show"), ("post", "/v1/clicks"), ("post", "/v1/ubi/events"),
    ("post", "/v1/search/{key}"), ("get", "/v1/experiments"), ("get", "/v1/experiments/{key}"),
    ("get", "/v1/experiments/{key}/report"), ("get", "/v1/experiments/{key}/changes"),
    ("get", "/v1/experiments/{key}/export"), ("get", "/metrics"), ("get", "/livez"), ("get", "/readyz"),
    ("post", "/v1/kill"),
]  # fmt: skip


def test_every_example_is_answered_as_described(client):
    assert set(STORY) == set(OPERATIONS)
    token = None
    for method, path in STORY:
        one = OPERATIONS[method, path]
        given = examples_of(one["requestBody"]) if "requestBody" in one else {"none": None}
        for name, body in given.items():
            key = name.replace(" ", "-") if method == "put" else "engines"
            if token is not None:
                body = json.loads(json.dumps(body).replace(EXAMPLE_TOKEN, token))
            answer = client.request(method.upper(), path.replace("{key}", key), body)
            (status,) = [int(code) for code in one["responses"] if code.startswith("2")]
            assert answer.status_code == status, (method, path, name, answer.text)
            described = json_of(one["responses"][str(status)])
            if described:
                assert list(problems(answer.json(), described["schema"])) == [], (method, path, name)
            if path.endswith("/show") and token is None:
                token = answer.json()["token"]
                assert token is not None
            elif path.startswith("/v1/search"):
                expected = "production; why=sort" if "sort" in body else "interleaved"
                assert answer.headers["x-structsvm-serve"] == expected
    assert client.call("POST", "/v1/experiments/none/state", {"to": "running"})[0] == 404


def test_refusals_are_errors_as_described(client):
    for method, path, body in [
        ("PUT", "/v1/experiments/e", {"rankers": ["a"]}), ("GET", "/v1/experiments/none/report", None),
        ("POST", "/v1/experiments/none/show", {"request_id": "r", "rankings": {}}), ("POST", "/v1/clicks", {}),
        ("POST", "/v1/search/none", {}), ("POST", "/v1/ubi/events", [{}] * 1001), ("GET", "/nowhere", None),
    ]:  # fmt: skip
        answer = client.request(method, path, body)
        assert 400 <= answer.status_code < 500
        assert list(problems(answer.json(), DOCUMENT["components"]["schemas"]["Error"])) == []
