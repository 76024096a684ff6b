"""Shared parts of endpoints: access, bodies, responses and refusals."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from structsvm.live.contract.bodies import Error, Problem
from structsvm.live.contract.calls import Refused, wrong_type
from structsvm.live.experiment.service import Service

T = TypeVar("T")
Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]

_FORWARDED = (
    "forwarded",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-forwarded-server",
    "x-real-ip",
    "x-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
)
"""Headers that reverse proxies set: a request with one of them comes from another machine."""


def endpoint(
    call: Callable[[Request], Coroutine[Any, Any, Any]], *, scope: str | None, limited: bool = False
) -> Endpoint:
    """Return an endpoint that responds with the result or error of ``call``; keys need ``scope`` (None: no key)."""

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
            return refusal(Refused("store", "the store does not respond now", 1))
        except ClientDisconnect:
            return Response(status_code=400)
        return found if isinstance(found, Response) else as_json(found)

    return answer


def check_access(request: Request, scope: str) -> None:
    """Raise Refused unless the caller has access; record which key was used."""
    service: Service = request.app.state.service
    if request.method not in ("GET", "HEAD"):
        _check_origin(request, service)
    if _is_local(request, service):
        return
    key = service.registry.keys.allows(_authorization(request), scope)
    if key is None:
        raise Refused(
            "key_needed", f"expected 'Authorization: Bearer sk_...' with a key of the scope {scope}"
        )
    service.upkeep.used(key)
    request.state.key = key


def _check_rate(request: Request) -> None:
    """Raise Refused for an address that calls too often."""
    service: Service = request.app.state.service
    if _is_local(request, service):
        return
    given = _authorization(request)
    if given is not None and (key := service.registry.keys.allows(given, "click")) is not None:
        service.upkeep.used(key)
        return
    if service.registry.keys.refuses(given):
        raise Refused("key_needed", "expected no key or a known key; this key may have been removed")
    if not service.click_limit.allows("" if request.client is None else request.client.host):
        raise Refused("too_many", "too many calls from this address; send the clicks later", 1)


def is_allowed(request: Request, scope: str) -> bool:
    """Return whether a call also has a scope in addition to that required by its endpoint."""
    service: Service = request.app.state.service
    return (
        _is_local(request, service)
        or service.registry.keys.allows(_authorization(request), scope) is not None
    )


def _is_local(request: Request, service: Service) -> bool:
    """Return whether a call needs no key: the operator allows it, and it did not come through a reverse proxy."""
    return service.settings.keyless and not any(name in request.headers for name in _FORWARDED)


def _authorization(request: Request) -> str | None:
    given = request.headers.getlist("authorization")
    if len(given) > 1:
        raise Refused("bad_authorization", "expected one Authorization header")
    return given[0] if given else None


def _check_origin(request: Request, service: Service) -> None:
    """Raise Refused for a change that a browser sends on behalf of another site's page."""
    origin = request.headers.get("origin")
    if origin is None or origin in service.settings.origins:
        return
    if origin.partition("://")[2] != request.headers.get("host"):
        raise Refused("foreign_origin", "expected a request from this site or from an allowed origin")


def who(request: Request) -> str:
    """Return the name of the caller, for the record of changes."""
    return getattr(request.state, "key", "local")


STATUSES = {
    "bad_authorization": 400,
    "bad_host": 400,
    "key_needed": 401,
    "bad_assignment": 403,
    "bad_token": 403,
    "foreign_origin": 403,
    "unknown_experiment": 404,
    "conflict": 409,
    "no_engines": 409,
    "stopped": 409,
    "too_large": 413,
    "unknown_host": 421,
    "too_many": 429,
    "engine_unreachable": 502,
    "store": 503,
    "engine_timeout": 504,
}
"""HTTP status by the code of a refusal; 422 for all others, which name an invalid part of the call."""


def refusal(error: Refused, status: int | None = None) -> Response:
    """Return the response to a call that was refused, by default with the status of its code."""
    status = status or STATUSES.get(error.code, 422)
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    if status == 401:
        headers["WWW-Authenticate"] = 'Basic realm="structsvm live"'
    return Response(
        msgspec.json.encode(Error(Problem(error.code, error.message))), status, headers, "application/json"
    )


def as_json(value: object, status: int = 200) -> Response:
    """Return a JSON response."""
    return Response(msgspec.json.encode(value), status, None, "application/json")


async def body_of(request: Request, decoder: msgspec.json.Decoder[T]) -> T:
    """Return a request's body converted to its type; raise Refused, with the invalid field, if it does not fit."""
    try:
        return decoder.decode(await request.body())
    except msgspec.ValidationError as error:
        raise wrong_type(error) from None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise Refused("bad_json", "expected a JSON body") from None
