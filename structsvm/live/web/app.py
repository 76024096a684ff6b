"""The web application: routes, and the middleware of all requests and responses."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from inspect import isawaitable
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from structsvm.live.contract import bodies
from structsvm.live.contract.calls import Refused
from structsvm.live.contract.settings import Settings, is_loopback
from structsvm.live.experiment.service import Service
from structsvm.live.web import pages, proxy, ubi
from structsvm.live.web.endpoints import as_json, body_of, endpoint, is_allowed, refusal, who
from structsvm.live.web.openapi import OPERATIONS

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
"""Headers of every response, unless its route sets its own."""

_PROMETHEUS = "text/plain; version=0.0.4"

_PROBES = ("/livez", "/readyz")
"""Paths that answer under any ``Host``, since probes use the address of a container; ``/metrics`` does if it needs a
key."""

_OPEN = ("/v1/clicks", "/v1/ubi/events")
"""Paths that pages of other sites may call: tokens limit what they may do."""


def create_app(settings: Settings, service: Service | None = None) -> Starlette:
    """Return the application of one worker.

    Parameters
    ----------
    settings : Settings
        Address, store and limits of the service.
    service : Service, optional
        By default a service on ``settings.store``.

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

    app = Starlette(
        routes=[*_own_routes(running), *proxy.routes(running), *ubi.routes(running), *pages.routes(running)],
        lifespan=lifespan,
        exception_handlers={HTTPException: _plain_error},
    )
    app.add_middleware(_Frame, service=running)
    app.state.service = running
    return app


async def _plain_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "error")
    answer = refusal(Refused(code, str(error.detail)), error.status_code)
    answer.headers.update(error.headers or {})
    return answer


def _own_routes(service: Service) -> list[Route]:
    """Return the routes of the API, which openapi.py describes; proxy, UBI and pages define their own."""

    async def put(request: Request, key: str, body: Any) -> Any:
        match = request.headers.get("if-match", "").strip('"')
        if match and not (match.isascii() and match.isdigit() and len(match) < 10):
            raise Refused("bad_revision", "If-Match: expected the number of a revision")
        return await service.registry.put(key, body, if_match=int(match) if match else None, who=who(request))

    def export(request: Request, key: str, body: object) -> Any:
        form = request.query_params.get("format", "structsvm")
        if form not in ("structsvm", "ubi"):
            raise Refused("bad_format", f"expected structsvm or ubi, got {form!r:.80}")
        rows = partial(service.rows, key, tokens=is_allowed(request, "admin"))
        lines = service.export(key) if form == "structsvm" else ubi.lines(rows(), key)
        return StreamingResponse(lines, media_type="application/x-ndjson")

    async def ready(request: Request, key: str, body: object) -> Any:
        found = await service.ready()
        return as_json(found, 200 if found.ready else 503)

    one, registry = "/v1/experiments/{key}", service.registry
    calls: dict[tuple[str, str], Callable[[Request, str, Any], Any]] = {
        # the most frequent calls first, because routes are tried in this order
        ("post", f"{one}/show"): lambda _, key, body: service.show(key, body),
        ("post", "/v1/clicks"): lambda _, key, body: service.clicks(body.events),
        ("post", f"{one}/assign"): lambda _, key, body: service.assign(key, body),
        ("put", one): put,
        ("get", one): lambda _, key, body: service.experiment(key),
        ("get", "/v1/experiments"): lambda *_: service.experiments(),
        ("post", f"{one}/state"): lambda request, key, body: registry.set_state(
            key, body.to, reason=body.reason, who=who(request)
        ),
        ("post", f"{one}/acknowledge"): lambda request, key, body: registry.acknowledge(
            key, body.guardrail, reason=body.reason, who=who(request)
        ),
        ("post", "/v1/kill"): lambda request, _, body: registry.kill_all(
            reason=body.reason, who=who(request)
        ),
        ("get", f"{one}/report"): lambda _, key, body: service.report(key),
        ("get", f"{one}/changes"): lambda _, key, body: registry.changes(key),
        ("get", f"{one}/export"): export,
        ("get", "/metrics"): lambda *_: Response(service.metrics.text(), media_type=_PROMETHEUS),
        ("get", "/livez"): lambda *_: bodies.Live(True),
        ("get", "/readyz"): ready,
    }

    def route(method: str, path: str) -> Route:
        operation, call = OPERATIONS[method, path], calls[method, path]
        # the body of an experiment is decoded to plain values, which check_config converts, as for configuration files
        decoder = msgspec.json.Decoder(Any if operation.body is bodies.Config else operation.body)

        async def answered(request: Request) -> Any:
            body: Any = None
            if operation.body is bodies.Kill and not await request.body():
                body = bodies.Kill()
            elif operation.body is not None:
                body = await body_of(request, decoder)
            found = call(request, request.path_params.get("key", ""), body)
            found = await found if isawaitable(found) else found
            return found if isinstance(found, Response) else as_json(found, operation.status)

        return Route(
            path,
            endpoint(answered, scope=operation.scope, limited=path == "/v1/clicks"),
            methods=[method.upper()],
        )

    return [route(*name) for name in calls]


class _Frame:
    """Middleware of all routes: hosts, sizes, headers, CORS and metrics."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service = app, service
        settings = service.settings
        self._hosts = {*settings.allowed_hosts, "localhost", "127.0.0.1", "[::1]"}
        if settings.host not in ("0.0.0.0", "::"):
            self._hosts.add(settings.host)
        self._any_host = not is_loopback(settings.host) and not settings.allowed_hosts
        self._by_address = _PROBES if settings.keyless else (*_PROBES, "/metrics")
        self._largest, self._largest_search = settings.max_body, settings.max_search_body
        self._origins = set(settings.origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        given, path = Headers(scope=scope), scope["path"]
        if path.startswith("/v1/search/") and path.endswith("/"):
            scope["path"] = path = path.rstrip("/")  # search clients follow no redirect
        origin, asked = given.get("origin"), given.get("access-control-request-method")
        shared = origin in self._origins and path in _OPEN
        status = 500

        async def tell(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = message["headers"]
                there = {name for name, _ in headers}
                headers += [(name, value) for name, value in _HEADERS.items() if name not in there]
                if shared:
                    allowed_origin = (origin or "").encode("latin-1")
                    headers += [(b"access-control-allow-origin", allowed_origin), (b"vary", b"origin")]
            await send(message)

        largest = self._largest_search if path.startswith("/v1/search/") else self._largest
        refused = self._refused(given, largest, self._any_host or path in self._by_address)
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
            await self.app(scope, self._limited(receive, given, largest), tell)
        metrics, route = self.service.metrics, getattr(scope.get("route"), "path", "other")
        metrics.requests.labels(route).observe(time.perf_counter() - began)
        metrics.answers.labels(str(status)).inc()

    def _refused(self, given: Headers, largest: int, any_host: bool) -> Refused | None:
        hosts, length = given.getlist("host"), given.get("content-length")
        if len(hosts) > 1:
            return Refused("bad_host", "expected one Host header, got several")
        if not any_host:
            name = "".join(hosts).lower()
            if name.rpartition(":")[0] and not name.endswith("]"):
                name = name.rpartition(":")[0]
            if name not in self._hosts:
                return Refused("unknown_host", "the service is not known by this name (--allowed-host)")
        if length is not None and (not length.isdecimal() or int(length) > largest):
            return Refused("too_large", f"expected a body of at most {largest:,} bytes")
        return None

    def _limited(self, receive: Receive, given: Headers, largest: int) -> Receive:
        """Return a ``receive`` that counts the bytes of bodies without a length as they arrive."""
        if "content-length" in given:
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
