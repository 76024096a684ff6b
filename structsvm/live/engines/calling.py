"""Requests to engines over HTTP."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from structsvm.live.engines.answers import UnusableAnswer
from structsvm.live.engines.engine import Engine

_OWN = frozenset(
    name.encode()
    for name in (
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "upgrade",
        "transfer-encoding",
        "content-length",
        "server",
        "date",
        "set-cookie",
        "content-security-policy",
        "access-control-allow-origin",
        "x-structsvm-serve",
    )
)
"""Headers that belong to the connection with the engine, or that this service sets itself."""


_CLOSED = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)
"""Errors of a connection that the engine has closed."""


@dataclass(frozen=True)
class Raw:
    """An unparsed response with the headers to pass on."""

    status: int
    content: bytes
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)

    def text(self, most: int) -> bytes:
        """Return the body without its encoding; raise UnusableAnswer for more than ``most`` bytes."""
        encoding = next((value for name, value in self.headers if name == b"content-encoding"), b"identity")
        found = self.content
        if encoding.lower() in (b"gzip", b"x-gzip", b"deflate"):
            try:
                packed = zlib.decompressobj(47)
                found = packed.decompress(self.content, most + 1)
            except zlib.error as error:
                raise UnusableAnswer("junk", f"{encoding.decode('latin-1')}: {error}") from None
            if len(found) <= most and not packed.eof:
                raise UnusableAnswer("junk", f"{encoding.decode('latin-1')}: cut off")
        elif encoding.lower() != b"identity":
            raise UnusableAnswer("junk", f"encoded by {encoding.decode('latin-1')}")
        if len(found) > most:
            raise UnusableAnswer("junk", f"more than {most:,} bytes")
        return found


class Caller:
    """Sends requests to engines over persistent connections, without redirects or proxies from the environment."""

    def __init__(self, client: httpx.AsyncClient | None = None) -> None:
        if client is not None:
            self._clients = [client, client]
            return
        verify = httpx.create_ssl_context(trust_env=False)
        limits = (httpx.Limits(max_connections=None, max_keepalive_connections=kept) for kept in (64, 0))
        self._clients = [httpx.AsyncClient(verify=verify, trust_env=False, limits=one) for one in limits]

    async def send(
        self,
        engine: Engine,
        content: bytes,
        *,
        method: str = "POST",
        headers: Mapping[str, str],
        parameters: str = "",
        most: float = float("inf"),
    ) -> Raw:
        """Send a body; return a response of at most ``most`` bytes.

        An engine may close a persistent connection just as a request is sent. If no response has begun, the request is
        sent once more over a new connection.
        """
        # given an empty mapping, httpx would remove the parameters of an address
        url = str(httpx.URL(engine.url).copy_merge_params(engine.params)) if engine.params else engine.url
        if parameters:
            url += ("&" if "?" in url else "?") + parameters
        sent: Any = {
            "content": content,
            "headers": {**headers, **engine.headers},
            "timeout": engine.timeout_s,
        }
        begun = False
        for again, client in enumerate(self._clients):
            parts, size = [], 0
            try:
                async with client.stream(method, url, **sent) as raw:
                    begun = True
                    async for part in raw.aiter_raw():
                        size += len(part)
                        if size > most:
                            raise UnusableAnswer("junk", f"more than {most:,.0f} bytes")
                        parts.append(part)
                break
            except httpx.TimeoutException:
                raise UnusableAnswer("timeout", f"no answer in {engine.timeout_s:g} s") from None
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                if begun or again or not isinstance(error, _CLOSED):
                    raise UnusableAnswer("unreachable", f"{type(error).__name__}: {error}") from None
        named = raw.headers.get("connection", "").lower().encode("latin-1").split(b",")
        own = _OWN.union(name.strip() for name in named)
        passed = [(name.lower(), value) for name, value in raw.headers.raw if name.lower() not in own]
        return Raw(raw.status_code, b"".join(parts), passed)

    async def close(self) -> None:
        """Close the connections."""
        for client in self._clients:
            await client.aclose()
