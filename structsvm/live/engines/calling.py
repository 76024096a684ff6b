"""Requests to engines over HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx

from structsvm.live.engines.answers import UnusableAnswer
from structsvm.live.engines.engine import Engine

__all__ = ["Caller", "Raw"]


@dataclass(frozen=True)
class Raw:
    """An answer as it came."""

    status: int
    content: bytes
    kind: str
    retry_after: str | None = None


class Caller:
    """Posts to engines, over connections that are kept.

    Parameters
    ----------
    client : httpx.AsyncClient, optional
        For tests. By default redirects are not followed, and no proxy of the environment is used.
    """

    def __init__(self, client: httpx.AsyncClient | None = None) -> None:
        self._client = client or httpx.AsyncClient(
            follow_redirects=False,
            trust_env=False,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
        )

    async def post(self, engine: Engine, body: Any, *, most: float = float("inf")) -> Raw:
        """Return the answer to ``body``.

        Parameters
        ----------
        engine : Engine
        body : object
            Sent as JSON.
        most : float
            Bytes of the answer, at most.

        Raises
        ------
        UnusableAnswer
            ``"timeout"``, ``"unreachable"``, or ``"junk"`` for an answer that is too long.
        """
        # httpx would replace the parameters of an address by an empty mapping
        url = httpx.URL(engine.url).copy_merge_params(engine.params) if engine.params else engine.url
        parts, size = [], 0
        try:
            async with self._client.stream(
                "POST", url, json=body, headers=engine.headers, timeout=engine.timeout_s
            ) as raw:
                async for part in raw.aiter_bytes():
                    size += len(part)
                    if size > most:
                        raise UnusableAnswer("junk", f"more than {most:,.0f} bytes")
                    parts.append(part)
        except httpx.TimeoutException:
            raise UnusableAnswer("timeout") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise UnusableAnswer("unreachable", str(error)) from None
        kind = raw.headers.get("content-type", "application/json")
        return Raw(raw.status_code, b"".join(parts), kind, raw.headers.get("retry-after"))

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()
