"""The web application: which path calls what, and what every answer carries."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from structsvm.live.service import Refused, Service
from structsvm.live.settings import Settings

__all__ = ["ROOMS", "create_app", "endpoint", "json_body"]

ROOMS = ("structsvm.live.proxy", "structsvm.live.ubi", "structsvm.live.pages", "structsvm.live.demo")
"""Modules with routes of their own: each has ``routes(service) -> list[Route]``."""

Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]


def create_app(settings: Settings, service: Service | None = None) -> Starlette:
    """Return the application of one worker.

    Parameters
    ----------
    settings : Settings
    service : Service, optional
        For tests and the demo; by default one on ``settings.store``.
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
    app = Starlette(routes=routes, lifespan=lifespan)
    app.state.service = running
    return app


def endpoint(call: Callable[[Request], Coroutine[Any, Any, Any]], *, scope: str | None) -> Endpoint:
    """Return an endpoint that answers what ``call`` returns (JSON, or a Response) or the error that it raises.

    Parameters
    ----------
    call : async function of the request
    scope : {"show", "click", "read", "admin"} or None
        What the key must allow, where the service needs keys; None: no key.
    """

    async def answer(request: Request) -> Response:
        try:
            found = await call(request)
        except Refused as error:
            return refusal(error)
        return found if isinstance(found, Response) else as_json(found)

    return answer


def refusal(error: Refused) -> Response:
    """The answer to a call that was refused."""
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    body = {"error": {"code": error.code, "message": error.message}}
    return Response(json.dumps(body), error.status, headers, "application/json")


def as_json(value: Any, status: int = 200) -> Response:
    """An answer of JSON."""
    return Response(json.dumps(value, ensure_ascii=False, allow_nan=False), status, None, "application/json")


async def json_body(request: Request) -> Any:
    """Return the JSON of a request's body; Refused for anything else."""
    try:
        return json.loads(await request.body())
    except (ValueError, RecursionError):
        raise Refused(422, "bad_json", "expected a body of JSON") from None


def own_routes(service: Service) -> list[Route]:
    """The API; the other rooms add theirs."""

    async def live(request: Request) -> Any:
        return {"live": True}

    async def ready(request: Request) -> Any:
        found = await service.ready()
        return as_json(found, 200 if found["ready"] else 503)

    async def export(request: Request) -> Any:
        lines = service.export(request.path_params["key"], request.query_params.get("format", "structsvm"))
        return StreamingResponse(lines, media_type="application/x-ndjson")

    return [
        Route("/livez", endpoint(live, scope=None)),
        Route("/readyz", endpoint(ready, scope=None)),
        Route("/v1/experiments/{key}/export", endpoint(export, scope="read")),
    ]
