"""The web application: which path calls what, and what every answer carries."""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar

import msgspec
from sqlalchemy.exc import SQLAlchemyError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from structsvm.live import bodies
from structsvm.live.config import problem_of
from structsvm.live.refused import Refused
from structsvm.live.service import Service
from structsvm.live.settings import Settings, is_loopback

__all__ = ["ROOMS", "create_app", "endpoint", "json_body"]

ROOMS = ("structsvm.live.proxy", "structsvm.live.ubi", "structsvm.live.pages")
"""Modules with routes of their own: each has ``routes(service) -> list[Route]``."""

T = TypeVar("T")
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

_FORWARDED = (
    "forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-forwarded-server",
    "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip",
)  # fmt: skip
"""Headers of reverse proxies: who sends one is somewhere else."""

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
    """Return an endpoint that answers what ``call`` returns or raises; its key must allow ``scope`` (None: no key)."""

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
    if _is_local(request, service):
        return
    key = service.keys.allows(_authorization(request), scope)
    if key is None:
        raise Refused(
            401, "key_needed", f"expected 'Authorization: Bearer sk_...' of a key with scope {scope}"
        )
    service.used(key)
    request.state.key = key


def _check_rate(request: Request) -> None:
    """Raise Refused for an address that calls too often."""
    service: Service = request.app.state.service
    if _is_local(request, service):
        return
    given = _authorization(request)
    if given is not None and (key := service.keys.allows(given, "click")) is not None:
        service.used(key)
        return
    if not service.click_limit.allows("" if request.client is None else request.client.host):
        raise Refused(429, "too_many", "too many calls from this address; send the clicks later", 1)


def _is_local(request: Request, service: Service) -> bool:
    """Return whether a call needs no key: the operator said so, and no reverse proxy let it in."""
    return service.settings.keyless and not any(name in request.headers for name in _FORWARDED)


def _authorization(request: Request) -> str | None:
    given = request.headers.getlist("authorization")
    if len(given) > 1:
        raise Refused(400, "bad_authorization", "expected one header Authorization")
    return given[0] if given else None


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
    return await body_of(request, _ANYTHING)


async def body_of(request: Request, decoder: msgspec.json.Decoder[T]) -> T:
    """Return a request's body as its type; Refused, with the field that is wrong, for anything else."""
    try:
        return decoder.decode(await request.body())
    except msgspec.ValidationError as error:
        place, said = problem_of(error)
        first = re.split(r"[.\[]", place)[0] or "json"
        code = "unknown_field" if "unknown field" in said else f"bad_{first}"
        raise Refused(422, code, f"{place or 'body'}: {said}") from None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise Refused(422, "bad_json", "expected a body of JSON") from None


def fields_of(body: Any) -> dict[str, Any]:
    """Return the fields that a body has."""
    given = {name: getattr(body, name) for name in body.__struct_fields__}
    return {name: value for name, value in given.items() if value is not None}


_ENCODE = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_ANYTHING = msgspec.json.Decoder(Any)
_SHOW = msgspec.json.Decoder(bodies.Show)
_ASSIGN = msgspec.json.Decoder(bodies.Assign)
_CLICKS = msgspec.json.Decoder(bodies.Clicks)
_STATE = msgspec.json.Decoder(bodies.SetState)
_KILL = msgspec.json.Decoder(bodies.Kill)
_ACKNOWLEDGE = msgspec.json.Decoder(bodies.Acknowledge)


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
        body = await body_of(request, _STATE)
        return await service.registry.set_state(
            request.path_params["key"], body.to, reason=body.reason, who=who(request)
        )

    async def acknowledge(request: Request) -> Any:
        body = await body_of(request, _ACKNOWLEDGE)
        return await service.registry.acknowledge(
            request.path_params["key"], body.guardrail, reason=body.reason, who=who(request)
        )

    async def kill(request: Request) -> Any:
        body = await body_of(request, _KILL) if await request.body() else bodies.Kill()
        return await service.registry.kill_all(reason=body.reason, who=who(request))

    async def assign(request: Request) -> Any:
        return await service.assign(request.path_params["key"], **fields_of(await body_of(request, _ASSIGN)))

    async def show(request: Request) -> Any:
        return await service.show(request.path_params["key"], **fields_of(await body_of(request, _SHOW)))

    async def clicks(request: Request) -> Any:
        return await service.clicks((await body_of(request, _CLICKS)).events)

    async def report(request: Request) -> Any:
        return await service.report(request.path_params["key"])

    async def changes(request: Request) -> Any:
        return {"changes": await service.registry.changes(request.path_params["key"])}

    async def export(request: Request) -> Any:
        key, form = request.path_params["key"], request.query_params.get("format", "structsvm")
        if form == "ubi" and find_spec("structsvm.live.ubi") is not None:
            service.known(key)
            tokens = (
                _is_local(request, service)
                or service.keys.allows(_authorization(request), "admin") is not None
            )
            lines = import_module("structsvm.live.ubi").lines(service, key, tokens=tokens)
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
        Route(f"{one}/acknowledge", endpoint(acknowledge, scope="admin"), methods=["POST"]),
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
        self._largest, self._largest_search = settings.max_body, settings.max_search_body
        self._origins = set(settings.origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        host = length = origin = asked = None
        for name, value in scope["headers"]:
            if name == b"host":
                host = value if host is None else b"?"  # two of them: nobody is meant
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

        largest = self._largest_search if path.startswith("/v1/search/") else self._largest
        refused = self._refused(host, length, largest)
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
            await self.app(scope, self._limited(receive, length, largest), tell)
        route = scope.get("route")
        self.service.metrics.answered(getattr(route, "path", "other"), status, time.perf_counter() - began)

    def _refused(self, host: bytes | None, length: bytes | None, largest: int) -> Refused | None:
        if not self._any_host:
            name = (host or b"").decode("latin-1").lower()
            if name.rpartition(":")[0] and not name.endswith("]"):
                name = name.rpartition(":")[0]
            if name not in self._hosts:
                return Refused(421, "unknown_host", "the service is not known by this name (--allowed-host)")
        if length is not None and (not length.isdigit() or int(length) > largest):
            return Refused(413, "too_large", f"expected a body of at most {largest:,} bytes")
        return None

    def _limited(self, receive: Receive, length: bytes | None, largest: int) -> Receive:
        """Return ``receive``, which for bodies without a length counts the bytes as they come."""
        if length is not None:
            return receive
        n = 0

        async def count() -> Message:
            nonlocal n
            message = await receive()
            n += len(message.get("body", b""))
            if n > largest:
                raise HTTPException(413, f"expected a body of at most {largest:,} bytes")
            return message

        return count
