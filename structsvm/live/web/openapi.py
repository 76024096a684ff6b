"""The description of the API (OpenAPI 3.1), generated from the types of its bodies and responses."""

import re
from typing import Any, NamedTuple

import msgspec

from structsvm.live.contract import bodies


class Operation(NamedTuple):
    """A call: its summary, the scope of its key, and the types of its body and response (or a content type)."""

    summary: str
    scope: str | None = None
    body: Any = None
    answer: Any = None
    refusals: tuple[int, ...] = (404, 422)
    description: str = ""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


_SEARCH = Operation(
    "Search through the proxy",
    "show",
    dict[str, Any],
    dict[str, Any],
    (404, 409, 502, 504),
    "The body is a request of the engine, such as one to _search of OpenSearch; that of a custom service is "
    '{"q", "from", "size"}. The answer is production\'s, with hits in drafted order where the list is interleaved: '
    "see the header X-Structsvm-Serve. Requests that cannot be read, and errors of the engine, are passed on.",
    headers=(
        (
            "X-Structsvm-Search",
            "Id of the search, shared by its pages; without it, lists with a next page are not interleaved.",
        ),
        ("X-Structsvm-Unit", "User or session."),
        (
            "X-Structsvm-Query",
            "The text typed by the user, percent-encoded, if the body does not contain it.",
        ),
    ),
)

_ONE = "/v1/experiments/{key}"
OPERATIONS: dict[tuple[str, str], Operation] = {
    ("get", "/v1/experiments"): Operation(
        "The newest revision of every experiment", "read", answer=bodies.Experiments, refusals=()
    ),
    ("put", _ONE): Operation(
        "Create or change an experiment",
        "admin",
        bodies.Config,
        bodies.Revision,
        (409, 422, 503),
        "A change of meaning starts a new revision with fresh statistics; share, guardrails, stop and the log_ fields "
        "may change without one.",
        201,
        (("If-Match", "The revision to change, 0 for none; 409 if the current revision differs."),),
    ),
    ("get", _ONE): Operation("One experiment with all defaults", "read", answer=bodies.Experiment),
    ("post", f"{_ONE}/state"): Operation(
        "Run, pause, stop or kill",
        "admin",
        bodies.SetState,
        bodies.Revision,
        (404, 409, 422),
        "Workers follow within a second. A killed experiment serves production at once, and may be restarted "
        "within a day; a stopped one cannot be restarted.",
    ),
    ("post", f"{_ONE}/acknowledge"): Operation(
        "Acknowledge alarms",
        "admin",
        bodies.Acknowledge,
        bodies.Acknowledged,
        description="Guardrails that raised an alarm are restarted.",
    ),
    ("post", "/v1/kill"): Operation(
        "Kill every experiment that is running or paused", "admin", bodies.Kill, bodies.Killed, (422,)
    ),
    ("post", f"{_ONE}/assign"): Operation(
        "Which rankings a request needs",
        "show",
        bodies.Assign,
        bodies.Assigned,
        description="Nothing is recorded. The call avoids computing rankings that are not shown; bandits require it.",
    ),
    ("post", f"{_ONE}/show"): Operation(
        "Merge rankings into the list to show, and record it",
        "show",
        bodies.Show,
        bodies.Shown,
        (403, 404, 422, 503),
        "A request id identifies an impression: retries get the stored list. Further pages use the same id and "
        "an offset. If the list cannot be recorded in time, production's list is returned.",
    ),
    ("post", "/v1/clicks"): Operation(
        "Record clicks",
        None,
        bodies.Clicks,
        bodies.Taken,
        (401, 403, 413, 422, 429, 503),
        "Events are {token, document or place, action, dwell_s}. The token authorises the call, so that browsers need "
        "no key. Bodies of any content type are read as JSON, as sendBeacon sends text/plain. A repeated event "
        "counts once.",
    ),
    ("post", "/v1/ubi/events"): Operation(
        "Record clicks sent as UBI events",
        None,
        dict[str, Any] | list[dict[str, Any]],
        bodies.Taken,
        (401, 403, 413, 422, 429, 503),
        "query_id is the token, object_id the document. The body is one event, a list of at most 1,000 events, or an "
        "object with such a list under the key events. Events of other lists, and actions that the experiment does not "
        "accept, are ignored.",
    ),
    **{
        (method, path): _SEARCH
        for path in ("/v1/search/{key}", "/v1/search/{key}/_search")
        for method in ("post", "get")
    },
    ("get", f"{_ONE}/report"): Operation("Report of an experiment", "read", answer=bodies.Report),
    ("get", f"{_ONE}/changes"): Operation("Changes of an experiment", "read", answer=bodies.Changes),
    ("get", f"{_ONE}/export"): Operation(
        "Closed lists and their clicks, one JSON object per line",
        "read",
        answer="application/x-ndjson",
        description="format=structsvm (default) or ubi. UBI events have tokens for keys of the scope admin only.",
    ),
    ("get", "/metrics"): Operation("Metrics for Prometheus", "read", answer="text/plain", refusals=()),
    ("get", "/livez"): Operation("Whether the process answers", answer=bodies.Live, refusals=()),
    ("get", "/readyz"): Operation(
        "Whether lists can be recorded and counting keeps up", answer=bodies.Ready, refusals=(503,)
    ),
}
"""All calls by method and path; pages and files are not described."""

_SAID = {
    401: "A key with the required scope is needed, or the key is unknown",
    403: "This service did not issue the token or assignment",
    404: "No such experiment",
    409: "Another revision or state, or no engines",
    413: "The body is too large",
    422: "The request is invalid; the message says why",
    429: "Too many calls from this address",
    502: "The production engine cannot be reached",
    503: "The store does not respond; see Retry-After",
    504: "The production engine did not respond in time",
}


def document() -> dict[str, Any]:
    """Return the OpenAPI description."""
    types = {t for one in OPERATIONS.values() for t in (one.body, one.answer) if isinstance(t, type)}
    types = {t for t in types if issubclass(t, msgspec.Struct)} | {bodies.Error, bodies.Click}
    _, components = msgspec.json.schema_components(
        sorted(types, key=lambda t: t.__name__), ref_template="#/components/schemas/{name}"
    )
    paths: dict[str, Any] = {}
    for (method, path), one in OPERATIONS.items():
        paths.setdefault(path, {})[method] = _described(method, path, one)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "structsvm live",
            "version": "1",
            "description": "Experiments on live traffic: which ranker do users prefer? Three calls (assign, show, "
            "clicks), or the proxy in front of a search engine.",
        },
        "servers": [{"url": "http://127.0.0.1:8808"}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "sk_<id>_<secret>, from `structsvm live init` or `structsvm live key add`. Browsers "
                    "send it as the password of HTTP Basic.",
                }
            },
        },
    }


def _described(method: str, path: str, one: Operation) -> dict[str, Any]:
    last = path.rstrip("/").rpartition("/")[2]
    name = {"{key}": "Experiment" if "experiments" in path else "Search"}.get(last, last.strip("_").title())
    described: dict[str, Any] = {
        "operationId": f"{method}{name}{'Alias' if path.endswith('/_search') else ''}",
        "summary": one.summary,
        "responses": {str(one.status): {"description": "Done", **_content(one.answer)}},
        "security": [] if one.scope is None else [{"key": [one.scope]}],
    }
    if one.description:
        described["description"] = one.description
    for status in one.refusals if one.scope is None else (401, *one.refusals):
        described["responses"][str(status)] = {
            "description": _SAID[status],
            **_content(bodies.Ready if path == "/readyz" else bodies.Error),
        }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "maxLength": 64}}
        for name in re.findall(r"{(\w+)}", path)
    ]
    parameters += [
        {"name": name, "in": "header", "description": said, "schema": {"type": "string"}}
        for name, said in one.headers
    ]
    if parameters:
        described["parameters"] = parameters
    if one.body is not None and method != "get":
        described["requestBody"] = {"required": one.body is not bodies.Kill, **_content(one.body)}
    return described


def _content(kind: object) -> dict[str, Any]:
    if isinstance(kind, str):
        return {"content": {kind: {"schema": {"type": "string"}}}}
    (schema,), _ = msgspec.json.schema_components([kind], ref_template="#/components/schemas/{name}")
    return {"content": {"application/json": {"schema": schema}}}
