"""The web application: which path calls what, and what every answer carries."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from sqlalchemy.exc import SQLAlchemyError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from structsvm.live.refused import Refused
from structsvm.live.service import Service
from structsvm.live.settings import Settings, is_loopback

__all__ = ["ROOMS", "create_app", "endpoint", "json_body"]

ROOMS = ("structsvm.live.proxy", "structsvm.live.ubi", "structsvm.live.pages")
"""Modules with routes of their own: each has ``routes(service) -> list[Route]``."""

Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]

CSP = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'self'"
)

_HEADERS = {
    b"content-security-policy": CSP.encode(),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"same-origin",
    b"cache-control": b"no-store",
}
"""What every answer carries unless its route said otherwise."""

_OPEN = ("/v1/clicks", "/v1/ubi/events")
"""Paths that pages of other sites may call: tokens say what they may do."""


def create_app(settings: Settings, service: Service | None = None) -> Starlette:
    """Return the application of one worker.

    Parameters
    ----------
    settings : Settings
    service : Service, optional
        For tests and the demo; by default one on ``settings.store``.

    Examples
    --------
    >>> from structsvm.live import Settings, create_app
    >>> app = create_app(Settings("sqlite:///clicks.db"))
    >>> [route.path for route in app.routes if route.path.startswith("/v1/experiments")][:3]
    ['/v1/experiments/{key}/show', '/v1/experiments/{key}/assign', '/v1/experiments/{key}']
    """
    running = Service(settings) if service is None else service

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await running.start()
        try:
            yield
        finally:
            await running.stop()

    routes = list(own_routes(running))
    for room in ROOMS:
        if find_spec(room) is not None:
            routes.extend(import_module(room).routes(running))
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _plain_error})
    app.add_middleware(_Frame, service=running)
    app.state.service = running
    return app


def endpoint(
    call: Callable[[Request], Coroutine[Any, Any, Any]], *, scope: str | None, limited: bool = False
) -> Endpoint:
    """Return an endpoint that answers what ``call`` returns (JSON, or a Response) or the error that it raises.

    Parameters
    ----------
    call : async function of the request
    scope : {"show", "click", "read", "admin"} or None
        What the key must allow, where the service needs keys; None: no key.
    limited : bool, default=False
        Limit the rate of each address that shows no key for clicks, where the service needs keys.
    """

    async def answer(request: Request) -> Response:
        try:
            if scope is not None:
                check_access(request, scope)
            elif limited:
                _check_rate(request)
            found = await call(request)
        except Refused as error:
            return refusal(error)
        except SQLAlchemyError:
            return refusal(Refused(503, "store", "the store does not answer now", 1))
        except ClientDisconnect:
            return Response(status_code=400)
        return found if isinstance(found, Response) else as_json(found)

    return answer


def check_access(request: Request, scope: str) -> None:
    """Raise Refused unless the caller may; notes whose key it was."""
    service: Service = request.app.state.service
    if request.method not in ("GET", "HEAD"):
        _check_origin(request, service)
    if not service.settings.needs_keys:
        return
    given = request.headers.get("authorization")
    key = service.keys.allows(given, scope)
    if key is None:
        raise Refused(
            401, "key_needed", f"expected 'Authorization: Bearer sk_...' of a key with scope {scope}"
        )
    service.used(key)
    request.state.key = key


def _check_rate(request: Request) -> None:
    """Raise Refused for an address that calls too often."""
    service: Service = request.app.state.service
    if not service.settings.needs_keys:
        return
    given = request.headers.get("authorization")
    if given is not None and (key := service.keys.allows(given, "click")) is not None:
        service.used(key)
        return
    if not service.click_limit.allows("" if request.client is None else request.client.host):
        raise Refused(429, "too_many", "too many calls from this address; send the clicks later", 1)


def _check_origin(request: Request, service: Service) -> None:
    """Raise Refused for a change that a page of another site makes a browser ask for."""
    origin = request.headers.get("origin")
    if origin is None or origin in service.settings.origins:
        return
    if origin.partition("://")[2] != request.headers.get("host"):
        raise Refused(
            403, "foreign_origin", "expected a request of this site, or an origin that the service allows"
        )


def who(request: Request) -> str:
    """Return who calls, for the record of changes."""
    return getattr(request.state, "key", "local")


def refusal(error: Refused) -> Response:
    """Return the answer to a call that was refused."""
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    if error.status == 401:
        headers["WWW-Authenticate"] = 'Basic realm="structsvm live"'
    body = {"error": {"code": error.code, "message": error.message}}
    return Response(json.dumps(body), error.status, headers, "application/json")


async def _plain_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "error")
    answer = refusal(Refused(error.status_code, code, str(error.detail)))
    answer.headers.update(error.headers or {})
    return answer


def as_json(value: Any, status: int = 200) -> Response:
    """Return an answer of JSON."""
    return Response(_ENCODE(value), status, None, "application/json")


async def json_body(request: Request) -> Any:
    """Return the JSON of a request's body; Refused for anything else."""
    try:
        return _DECODE((await request.body()).decode())
    except (ValueError, RecursionError):
        raise Refused(422, "bad_json", "expected a body of JSON") from None


async def object_body(request: Request) -> dict[str, Any]:
    """Return the JSON object of a request's body; Refused for anything else."""
    body = await json_body(request)
    if not isinstance(body, dict):
        raise Refused(422, "bad_json", "expected an object of JSON")
    return body


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


_ENCODE = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_DECODE = json.JSONDecoder(parse_constant=_no_constant).decode

_SHOW = {
    "request_id", "rankings", "length", "offset", "unit", "query", "assignment", "elapsed_ms", "context",
}  # fmt: skip


def _taken(body: dict[str, Any], known: set[str]) -> dict[str, Any]:
    unknown = sorted(set(body) - known)
    if unknown:
        raise Refused(422, "unknown_field", f"expected {', '.join(sorted(known))}, got {unknown[0]!r:.80}")
    return {key: value for key, value in body.items() if value is not None}


def own_routes(service: Service) -> list[Route]:
    """Return the routes of the API; proxy, UBI and pages have their own."""

    async def put(request: Request) -> Any:
        match = request.headers.get("if-match", "").strip('"')
        if match and not (match.isascii() and match.isdigit() and len(match) < 10):
            raise Refused(422, "bad_revision", "If-Match: expected the number of a revision")
        answer = await service.registry.put(
            request.path_params["key"], await json_body(request),
            if_match=int(match) if match else None, who=who(request),
        )  # fmt: skip
        return as_json(answer, 201)

    async def get(request: Request) -> Any:
        return await service.experiment(request.path_params["key"])

    async def every(request: Request) -> Any:
        return {"experiments": await service.experiments()}

    async def state(request: Request) -> Any:
        body = _taken(await object_body(request), {"to", "reason"})
        return await service.registry.set_state(
            request.path_params["key"], body.get("to", ""), reason=body.get("reason", ""), who=who(request)
        )

    async def kill(request: Request) -> Any:
        raw = await request.body()
        body = _taken(await object_body(request), {"reason"}) if raw else {}
        return await service.registry.kill_all(reason=body.get("reason", ""), who=who(request))

    async def assign(request: Request) -> Any:
        body = _taken(await object_body(request), {"request_id", "unit", "context"})
        return await service.assign(request.path_params["key"], body.pop("request_id", None), **body)

    async def show(request: Request) -> Any:
        body = _taken(await object_body(request), _SHOW)
        return await service.show(
            request.path_params["key"], body.pop("request_id", None), body.pop("rankings", None), **body
        )

    async def clicks(request: Request) -> Any:
        body = await object_body(request)
        return await service.clicks(body.get("events"))  # type: ignore[arg-type]

    async def report(request: Request) -> Any:
        return await service.report(request.path_params["key"])

    async def changes(request: Request) -> Any:
        return {"changes": await service.registry.changes(request.path_params["key"])}

    async def export(request: Request) -> Any:
        key, form = request.path_params["key"], request.query_params.get("format", "structsvm")
        if form == "ubi" and find_spec("structsvm.live.ubi") is not None:
            service.known(key)
            lines = import_module("structsvm.live.ubi").lines(service, key)
        else:
            lines = service.export(key, form)
        return StreamingResponse(lines, media_type="application/x-ndjson")

    async def metrics(request: Request) -> Any:
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")

    async def live(request: Request) -> Any:
        return {"live": True}

    async def ready(request: Request) -> Any:
        found = await service.ready()
        return as_json(found, 200 if found["ready"] else 503)

    one = "/v1/experiments/{key}"
    return [
        # the busiest first: routes are tried in this order
        Route(f"{one}/show", endpoint(show, scope="show"), methods=["POST"]),
        Route("/v1/clicks", endpoint(clicks, scope=None, limited=True), methods=["POST"]),
        Route(f"{one}/assign", endpoint(assign, scope="show"), methods=["POST"]),
        Route(one, endpoint(put, scope="admin"), methods=["PUT"]),
        Route(one, endpoint(get, scope="read"), methods=["GET"]),
        Route("/v1/experiments", endpoint(every, scope="read"), methods=["GET"]),
        Route(f"{one}/state", endpoint(state, scope="admin"), methods=["POST"]),
        Route("/v1/kill", endpoint(kill, scope="admin"), methods=["POST"]),
        Route(f"{one}/report", endpoint(report, scope="read"), methods=["GET"]),
        Route(f"{one}/changes", endpoint(changes, scope="read"), methods=["GET"]),
        Route(f"{one}/export", endpoint(export, scope="read"), methods=["GET"]),
        Route("/metrics", endpoint(metrics, scope="read"), methods=["GET"]),
        Route("/livez", endpoint(live, scope=None)),
        Route("/readyz", endpoint(ready, scope=None)),
    ]


class _Frame:
    """What is done around every route: hosts, sizes, headers, CORS and figures."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service = app, service
        settings = service.settings
        self._hosts = {*settings.allowed_hosts, "localhost", "127.0.0.1", "[::1]"}
        if settings.host not in ("0.0.0.0", "::"):
            self._hosts.add(settings.host)
        self._any_host = not is_loopback(settings.host) and not settings.allowed_hosts
        self._largest = settings.max_body
        self._origins = set(settings.origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        host = length = origin = asked = None
        for name, value in scope["headers"]:
            if name == b"host":
                host = value
            elif name == b"content-length":
                length = value
            elif name == b"origin":
                origin = value.decode("latin-1")
            elif name == b"access-control-request-method":
                asked = value
        path = scope["path"]
        shared = origin is not None and origin in self._origins and path in _OPEN
        status = 500

        async def tell(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = message["headers"]
                there = {name for name, _ in headers}
                headers += [(name, value) for name, value in _HEADERS.items() if name not in there]
                if shared:
                    headers += [
                        (b"access-control-allow-origin", (origin or "").encode("latin-1")),
                        (b"vary", b"origin"),
                    ]
            await send(message)

        refused = self._refused(host, length)
        if refused is not None:
            await refusal(refused)(scope, receive, tell)
        elif scope["method"] == "OPTIONS" and asked is not None and path in _OPEN:
            allowed = {
                "access-control-allow-methods": "POST",
                "access-control-allow-headers": "content-type",
                "access-control-max-age": "600",
            }
            await Response(None, 204 if shared else 403, allowed if shared else {})(scope, receive, tell)
        else:
            await self.app(scope, self._limited(receive, length), tell)
        route = scope.get("route")
        self.service.metrics.answered(getattr(route, "path", "other"), status, time.perf_counter() - began)

    def _refused(self, host: bytes | None, length: bytes | None) -> Refused | None:
        if not self._any_host:
            name = (host or b"").decode("latin-1").lower()
            if name.rpartition(":")[0] and not name.endswith("]"):
                name = name.rpartition(":")[0]
            if name not in self._hosts:
                return Refused(421, "unknown_host", "the service is not known by this name (--allowed-host)")
        if length is not None and (not length.isdigit() or int(length) > self._largest):
            return Refused(413, "too_large", f"expected a body of at most {self._largest:,} bytes")
        return None

    def _limited(self, receive: Receive, length: bytes | None) -> Receive:
        """Return ``receive``, which for bodies without a length counts the bytes as they come."""
        if length is not None:
            return receive
        n = 0

        async def count() -> Message:
            nonlocal n
            message = await receive()
            n += len(message.get("body", b""))
            if n > self._largest:
                raise HTTPException(413, f"expected a body of at most {self._largest:,} bytes")
            return message

        return count
