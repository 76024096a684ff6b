"""The web application: which path calls what, and what every answer carries."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from structsvm.live import bodies, pages, proxy, ubi
from structsvm.live.endpoints import (
    as_json,
    body_of,
    endpoint,
    fields_of,
    is_allowed,
    json_body,
    refusal,
    who,
)
from structsvm.live.refused import Refused
from structsvm.live.service import Service
from structsvm.live.settings import Settings, is_loopback

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

    routes = [*_own_routes(running), *proxy.routes(running), *ubi.routes(running), *pages.routes(running)]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _plain_error})
    app.add_middleware(_Frame, service=running)
    app.state.service = running
    return app


async def _plain_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "error")
    answer = refusal(Refused(error.status_code, code, str(error.detail)))
    answer.headers.update(error.headers or {})
    return answer


_DECODERS: dict[type, msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind)
    for kind in (bodies.Show, bodies.Assign, bodies.Clicks, bodies.SetState, bodies.Kill, bodies.Acknowledge)
}


def _own_routes(service: Service) -> list[Route]:
    """Return the routes of the API; proxy, UBI and pages have their own."""

    def key(request: Request) -> str:
        return str(request.path_params["key"])

    async def fields(request: Request, kind: type) -> dict[str, Any]:
        return fields_of(await body_of(request, _DECODERS[kind]))

    async def put(request: Request) -> Any:
        match = request.headers.get("if-match", "").strip('"')
        if match and not (match.isascii() and match.isdigit() and len(match) < 10):
            raise Refused(422, "bad_revision", "If-Match: expected the number of a revision")
        answer = await service.registry.put(
            key(request), await json_body(request), if_match=int(match) if match else None, who=who(request)
        )
        return as_json(answer, 201)

    async def get(request: Request) -> Any:
        return await service.experiment(key(request))

    async def every(request: Request) -> Any:
        return {"experiments": await service.experiments()}

    async def state(request: Request) -> Any:
        body = await fields(request, bodies.SetState)
        return await service.registry.set_state(key(request), **body, who=who(request))

    async def acknowledge(request: Request) -> Any:
        body = await fields(request, bodies.Acknowledge)
        return await service.registry.acknowledge(key(request), **body, who=who(request))

    async def kill(request: Request) -> Any:
        body = await fields(request, bodies.Kill) if await request.body() else {}
        return await service.registry.kill_all(**body, who=who(request))

    async def assign(request: Request) -> Any:
        return await service.assign(key(request), **await fields(request, bodies.Assign))

    async def show(request: Request) -> Any:
        return await service.show(key(request), **await fields(request, bodies.Show))

    async def clicks(request: Request) -> Any:
        return await service.clicks(**await fields(request, bodies.Clicks))

    async def report(request: Request) -> Any:
        return await service.report(key(request))

    async def changes(request: Request) -> Any:
        return {"changes": await service.registry.changes(key(request))}

    async def export(request: Request) -> Any:
        form = request.query_params.get("format", "structsvm")
        if form == "ubi":
            lines = ubi.lines(service.rows(key(request), tokens=is_allowed(request, "admin")), key(request))
        else:
            lines = service.export(key(request), form)
        return StreamingResponse(lines, media_type="application/x-ndjson")

    async def metrics(request: Request) -> Any:
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")

    async def live(request: Request) -> Any:
        return {"live": True}

    async def ready(request: Request) -> Any:
        found = await service.ready()
        return as_json(found, 200 if found["ready"] else 503)

    one = "/v1/experiments/{key}"
    calls = [
        # the busiest first: routes are tried in this order
        ("POST", f"{one}/show", show, "show"), ("POST", "/v1/clicks", clicks, None),
        ("POST", f"{one}/assign", assign, "show"), ("PUT", one, put, "admin"), ("GET", one, get, "read"),
        ("GET", "/v1/experiments", every, "read"), ("POST", f"{one}/state", state, "admin"),
        ("POST", f"{one}/acknowledge", acknowledge, "admin"), ("POST", "/v1/kill", kill, "admin"),
        ("GET", f"{one}/report", report, "read"), ("GET", f"{one}/changes", changes, "read"),
        ("GET", f"{one}/export", export, "read"), ("GET", "/metrics", metrics, "read"),
        ("GET", "/livez", live, None), ("GET", "/readyz", ready, None),
    ]  # fmt: skip
    return [
        Route(path, endpoint(call, scope=scope, limited=call is clicks), methods=[method])
        for method, path, call, scope in calls
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
                host = value if host is None else b","
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
        if host == b",":
            return Refused(400, "bad_host", "expected one Host header, got several")
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
