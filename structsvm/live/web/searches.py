"""Searches as clients send them to the proxy: headers, parameters, and a body if every engine would read it alike."""

import json
import re
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, unquote_to_bytes

from starlette.requests import Request

from structsvm.common.checks import BadInput
from structsvm.live.contract.bodies import MAX_ID
from structsvm.live.contract.config import is_name
from structsvm.live.contract.conversion import at_path, number_as_text
from structsvm.live.engines.answers import Query
from structsvm.live.engines.engine import Engine

MAX_READ = 1 << 20
"""Maximum number of bytes read from a request; longer requests go to production unchanged."""

DEEPEST = 100
"""Maximum number of drafted documents; later pages come from production."""

_PASSED = ("accept", "accept-language", "content-type", "x-opaque-id", "traceparent", "tracestate")
"""Request headers that are forwarded to engines, besides those of the encoding."""

UNREADABLE = Query(0, 0, None, "body")
"""The query of a request that cannot be read."""


@dataclass(frozen=True)
class Asked:
    """A search as sent by the client; ``body`` is None if it cannot be read, ``query`` is the requested search."""

    raw: bytes
    body: Mapping[str, Any] | None
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    encoding: Mapping[str, str] = field(default_factory=dict)
    parameters: str = ""
    unit: str | None = None
    search: str | None = None
    text: str | None = None
    query: Query = UNREADABLE
    arrived: float = field(default_factory=time.perf_counter)

    @classmethod
    async def of(cls, request: Request, search_header: str = "x-structsvm-search") -> Self:
        """Read a request; malformed parts raise no error."""
        raw, given = await request.body(), request.headers
        coding = given.get("content-encoding")
        body = _object(raw, coding)

        def one(header: str, path: str) -> str | None:
            return _name(given.get(header)) or _name(at_path(body, path))

        headers = {name: given[name] for name in _PASSED if name in given}
        headers["accept-encoding"] = "gzip" if _takes_gzip(given.getlist("accept-encoding")) else "identity"
        return cls(
            raw=raw,
            body=body,
            method=request.method,
            headers=headers,
            encoding={} if coding is None else {"content-encoding": coding},
            parameters=request.scope["query_string"].decode("latin-1"),
            unit=one("x-structsvm-unit", "ext.ubi.client_id"),
            search=one(search_header, "ext.ubi.query_id"),
            text=_text_of(given.get("x-structsvm-query")),
        )

    def of_engine(self, engine: Engine) -> Self:
        """Return the request as an engine reads it; ``query.reason`` says why only production may answer, or is
        None."""
        if self.body is None:
            return self
        try:
            query = engine.dialect.read(
                self.body, parse_qsl(self.parameters, keep_blank_values=True), engine.also
            )
        except (BadInput, ValueError, RecursionError):
            return self
        reason = query.reason
        if self.method == "HEAD":
            reason = "method:HEAD"
        elif reason is None and "\ufffd" in (self.text or ""):
            reason = "unfilled"
        elif reason is None and (query.last > DEEPEST or (query.first and self.search is None)):
            reason = "page"
        return replace(self, query=replace(query, text=self.text or query.text, reason=reason))

    def without(self, names: Sequence[str]) -> str:
        """Return the parameters of the address without the given names."""
        parts = self.parameters.split("&") if self.parameters else []
        return "&".join(part for part in parts if unquote(part.partition("=")[0]) not in names)


def _object(raw: bytes, coding: str | None) -> Mapping[str, Any] | None:
    """Return the JSON object of a request's body, or None if an engine might parse it differently."""
    try:
        if coding is not None:
            if coding.lower() not in ("gzip", "deflate"):
                return None
            packed = zlib.decompressobj(47)
            raw = packed.decompress(raw, MAX_READ + 1)
            if not packed.eof or packed.unused_data:
                return None
        if len(raw) > MAX_READ:
            return None
        if not raw.strip():
            return {}
        found = _REQUEST(raw.decode())
    except (ValueError, RecursionError, zlib.error):
        return None
    return found if isinstance(found, dict) else None


def _takes_gzip(accepted: Sequence[str]) -> bool:
    """Return whether a client lists gzip with a weight above 0 (RFC 9110, 12.5.3)."""
    listed = re.findall(r"(?:^|,)\s*(?:x-)?gzip\s*(?:;\s*q=([\d.]+)\s*)?(?=,|$)", ",".join(accepted).lower())
    return any(weight.strip("0.") or not weight for weight in listed)


def no_constant(name: str) -> Any:
    """Raise ValueError for NaN and Infinity, which Python would parse."""
    raise ValueError(f"{name} is not a number in JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice")
    return found


_REQUEST = json.JSONDecoder(parse_constant=no_constant, object_pairs_hook=_once).decode


def _text_of(header: str | None) -> str | None:
    """Return the text typed by the user: UTF-8, percent-encoded or not, or plain Latin-1; other bytes become U+FFFD."""
    if header is None:
        return None
    raw = header.encode("latin-1")  # headers are decoded as Latin-1
    decoded = unquote_to_bytes(raw)
    try:
        return decoded.decode()
    except UnicodeDecodeError:
        return header if decoded == raw else decoded.decode(errors="replace")


def _name(value: object) -> str | None:
    """Return an id sent by a client: text unchanged, integers as text, and the hash of ids that are too long."""
    value = number_as_text(value)
    if not isinstance(value, str) or not value:
        return None
    if len(value) > MAX_ID or not is_name(value):
        return blake2b(value.encode(errors="surrogatepass"), digest_size=16).hexdigest()
    return value
