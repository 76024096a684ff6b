"""The proxy ``/v1/search/{key}``: interleaved lists from a search engine, or production's response if in doubt.

Production and challengers are queried at the same time. If a challenger is slow, down, or responds without a ranking,
the client gets production's response, unchanged, within the budget: no search fails because of an experiment. A
request that cannot be read, or that contains anything that might affect the order, is sent to production unchanged.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
import uuid
from collections import ChainMap, defaultdict
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from structsvm.live.contract.bodies import Assign, Show, Shown
from structsvm.live.contract.breaker import Breaker
from structsvm.live.contract.calls import Refused
from structsvm.live.contract.config import is_text
from structsvm.live.engines.answers import Unknown, UnusableAnswer, label_of
from structsvm.live.engines.engine import Engine, engines_of
from structsvm.live.experiment.service import Service
from structsvm.live.web.endpoints import endpoint
from structsvm.live.web.searches import UNREADABLE, Asked, no_constant

if TYPE_CHECKING:  # httpx loads slowly; only services with engines need it
    from structsvm.live.engines.calling import Caller, Raw

BUDGET_S = 0.1
"""Seconds from the arrival of the request that a challenger may take; more if production takes longer."""

MAX_ANSWER = 1 << 24
"""Maximum number of bytes read from a response."""

_OF_CONTENT = frozenset(
    (
        b"accept-ranges",
        b"age",
        b"cache-control",
        b"content-digest",
        b"content-encoding",
        b"content-md5",
        b"digest",
        b"etag",
        b"expires",
        b"last-modified",
        b"repr-digest",
    )
)
"""Headers that describe production's body or how long it may be stored (RFC 9110, 9111, 9530): a merged answer has
another body, and a token for one search."""

_TOLD_S = 60.0
"""Seconds during which each reason is logged at most once per engine."""

_log = logging.getLogger("structsvm.live")


@dataclass(frozen=True)
class _Answer:
    """An engine's unparsed response with its ranking, or ``why`` there is no ranking."""

    raw: Raw
    parsed: Any = None
    ranking: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    why: str | None = None


class Proxy:
    """Queries engines, and merges their responses in the order that the service has drafted."""

    def __init__(self, service: Service) -> None:
        self.service, self.budget_s = service, BUDGET_S
        self.engines = engines_of(service.settings.engines)
        self.breakers: defaultdict[tuple[str, str], Breaker] = defaultdict(Breaker)
        """Keyed by experiment and ranker."""
        self._told: dict[tuple[str, ...], float] = {}

    async def search(self, key: str, asked: Asked) -> Response:
        """Answer a search; raise Refused if the experiment is unknown, or production's engine is unknown or
        unavailable."""
        experiment = await self.service.experiment(key)
        engines = self._engines_of(key, experiment)
        production = experiment["production"]
        engine = engines[production]
        asked = asked.of_engine(engine)
        query = asked.query
        if query.reason is not None:
            return await self._page(engine, asked, query.reason)
        context = {"page": 1 + query.first // max(query.size, 1), "sort": None}
        request_id = uuid.uuid4().hex if asked.search is None else asked.search
        assigned = await self.service.assign(key, Assign(request_id, asked.unit, context))
        control = assigned.why == "control"
        if assigned.serve == "production" and not control:
            return await self._page(engine, asked, assigned.why or "")
        if len(engines) < len(experiment["rankers"]):  # not a control list either, as nothing is interleaved
            return await self._page(engine, asked, "engines")

        wanted = [ranker for ranker in dict.fromkeys(assigned.rankers) if ranker != production]
        main, others, why = await self._ask_all(key, engines, production, wanted, asked)
        unreadable = main.why is not None and main.why.startswith(("production_junk", "production_id:"))
        if unreadable or (main.why is None and why is not None):
            self.service.not_compared(key, label_of(main.why or why or ""))
        # respond with production's own error or empty list
        why = main.why or why
        if why is None and asked.search is None:  # the next page would not continue this one
            total = engine.dialect.total(main.parsed)
            more = len(main.ranking) >= query.last if total is None else total > query.last
            why = "search_id" if more else None
        # a merged list that is shorter than the page, or has no later pages, is followed by the rest of production's
        whole = query.size <= experiment["length"] and experiment["method"] == "team_draft"
        offset = query.first if whole else 0
        length = min(query.size, experiment["length"], len(main.ranking) - offset)
        if why is not None or length <= 0:
            return await self._page(engine, asked, why or "page", main)
        call = Show(
            request_id=request_id,
            rankings={
                production: list(main.ranking),
                **{name: list(others[name].ranking) for name in wanted},
            },
            length=length,
            offset=offset,
            unit=asked.unit,
            query=_kept(query.text),
            assignment=assigned.assignment,
            elapsed_ms=1000 * (time.perf_counter() - asked.arrived),
            context=context,
        )
        shown = await self._show(key, call)
        why = shown.why or ""
        if shown.serve == "production" and shown.token is None:
            return await self._page(engine, asked, why, main, counted=why != "refused")
        ids = shown.documents or []
        of_another = shown.replayed and len(ids) != length
        if not whole:
            ids = list(dict.fromkeys([*ids, *main.ranking]))[query.first : query.last]
        # the first mapping that has a document is used: production's before that of others
        hits = ChainMap(main.ranking, *(others[ranker].ranking for ranker in reversed(wanted)))
        if of_another or not set(ids) <= set(hits):  # the id was used for another search
            return await self._page(engine, asked, "replayed", main)
        if control or why == "control":  # also if this search's list was stored as a control for another unit
            return await self._control(engine, asked, main, ids, shown.token or "")
        merged = engine.dialect.merge(
            main.parsed,
            [other.parsed for other in others.values()],
            [hits[name] for name in ids],
            ids,
            query.first,
        )
        if shown.token is not None:  # the list of a winner has no token
            merged = engine.dialect.named(merged, shown.token)
        return self._response(merged, main.raw, shown.serve, why)

    async def _show(self, key: str, call: Show) -> Shown:
        """Return the list to show, or production's list if it cannot be recorded for any reason."""
        try:
            return await self.service.show(key, call)
        except Refused as error:
            _log.warning("show was refused: %s", error)
            why = "refused"
        except Exception:
            _log.exception("show failed")
            why = "store"
        return Shown(token=None, query_id=None, serve="production", why=why, documents=None, replayed=False)

    async def _control(
        self, engine: Engine, asked: Asked, main: _Answer, ids: Sequence[str], token: str
    ) -> Response:
        """Return production's own page, with the token of its list."""
        if asked.query.first:  # engines may return other values with a later page, such as the largest score
            main = self._read(engine, await self._production(engine, asked))
        if list(main.ranking)[: asked.query.size] != list(ids):  # the id was used for another search
            why = main.why or "replayed"
            self.service.metrics.shown.labels("production", label_of(why)).inc()
            return _as_it_came(main.raw, why)
        return self._response(engine.dialect.named(main.parsed, token), main.raw, "production", "control")

    def _engines_of(self, key: str, experiment: Mapping[str, Any]) -> dict[str, Engine]:
        """Return production's engine and the configured challengers' engines of the same kind."""
        tables = experiment.get("engines")
        if not tables:
            raise Refused(
                "no_engines", f"the experiment {key} has no engines; name one for each of its rankers"
            )
        known = {
            ranker: self.engines[tables[ranker]["engine"]].for_ranker(tables[ranker])
            for ranker in experiment["rankers"]
            if tables[ranker]["engine"] in self.engines
        }
        main = known.get(experiment["production"])
        if main is None:
            raise Refused(
                "no_engines",
                f"the experiment {key}: no engine {tables[experiment['production']]['engine']} in the configuration",
            )
        return {name: one for name, one in known.items() if one.dialect.label == main.dialect.label}

    async def _ask_all(
        self, key: str, engines: Mapping[str, Engine], production: str, wanted: Sequence[str], asked: Asked
    ) -> tuple[_Answer, dict[str, _Answer], str | None]:
        """Return the responses of production and challengers, and the reason if they cannot be compared."""
        # ask every breaker, because asking starts the trial after a pause
        allowed = [self.breakers[key, ranker].allows() for ranker in wanted]
        why = None if all(allowed) else "breaker"
        tasks = {
            ranker: asyncio.create_task(self._challenger(engines[ranker], asked))
            for ranker in wanted
            if why is None
        }
        try:
            main = await self._main(engines[production], asked)
            others: dict[str, _Answer] = {}
            if tasks:
                left = max(asked.arrived + self.budget_s - time.perf_counter(), 0.0)
                await asyncio.wait(tasks.values(), timeout=left)
            for ranker, task in tasks.items():
                late = UnusableAnswer("timeout", f"no answer within {self.budget_s:g} s")
                error = task.exception() if task.done() else late
                if error is None:
                    self.breakers[key, ranker].succeeded()
                    others[ranker] = task.result()
                    if main.ranking and not others[ranker].ranking:
                        why = why or "empty"  # a response without anything to compare
                    continue
                # other errors, such as encoding errors, have a different "reason"
                reason = error.reason if isinstance(error, UnusableAnswer) else "error"
                if reason == "error":
                    _log.error("a challenger failed", exc_info=error)
                self._tell(engines[ranker], reason, str(error))
                why = why or reason
                # a problem that production also has is not the challenger's fault
                of_both = reason == main.why or (reason == "status" and main.why == "production_status")
                if reason != "unfilled" and not of_both:
                    self.breakers[key, ranker].failed()
            return main, others, why
        finally:
            for task in tasks.values():
                task.cancel()

    async def _challenger(self, engine: Engine, asked: Asked) -> _Answer:
        last = asked.query.last
        headers = {**asked.headers, "accept-encoding": "identity"}
        if "json" not in headers.get("content-type", ""):
            headers["content-type"] = "application/json"
        raw = await self._send(engine, asked, 0, last, headers, lean=True, most=MAX_ANSWER)
        if raw.status != 200:
            raise UnusableAnswer("status", f"{raw.status} {_excerpt(raw)}")
        parsed = _parsed(raw.text(MAX_ANSWER))
        # engines may return more than was requested
        return _Answer(raw, parsed, dict(islice(engine.ranking(parsed).items(), last)))

    async def _main(self, engine: Engine, asked: Asked) -> _Answer:
        """Return production's response from the first document on, without a ranking if it cannot be read."""
        if asked.query.first == 0:
            return self._read(engine, await self._production(engine, asked))
        call = self._send(engine, asked, 0, asked.query.last, asked.headers)
        return self._read(engine, await self._guarded(engine, call))

    def _read(self, engine: Engine, raw: Raw) -> _Answer:
        """Return production's response with its ranking, if it can be read."""
        if raw.status != 200:
            self._tell(engine, "production_status", f"{raw.status} {_excerpt(raw)}")
            return _Answer(raw, why="production_status")
        try:
            parsed = _parsed(raw.text(MAX_ANSWER))
            ranking = engine.ranking(parsed)
        except Unknown as unknown:
            return _Answer(raw, why=unknown.reason)
        except UnusableAnswer as error:
            why = f"production_{error.reason}" if error.reason.startswith("id:") else "production_junk"
            self._tell(engine, why, str(error))
            return _Answer(raw, why=why)
        return _Answer(raw, parsed, ranking, None if ranking else "none")

    async def _production(self, engine: Engine, asked: Asked) -> Raw:
        """Return production's response to the request, which is unchanged unless the configuration adds to it."""
        query = asked.query
        if query is UNREADABLE or (not engine.body and engine.dialect.is_plain(asked.body or {})):
            headers, parameters = {**asked.headers, **asked.encoding}, asked.without(tuple(engine.params))
            call = self.caller.send(
                engine, asked.raw, method=asked.method, headers=headers, parameters=parameters
            )
        else:
            call = self._send(engine, asked, query.first, query.size, asked.headers)
        return await self._guarded(engine, call)

    async def _send(
        self,
        engine: Engine,
        asked: Asked,
        first: int,
        size: int,
        headers: Mapping[str, str],
        *,
        lean: bool = False,
        most: float = float("inf"),
    ) -> Raw:
        """Request the documents ``first`` to ``first + size`` from an engine."""
        sent = engine.request(asked.body or {}, asked.query, first, size, lean=lean)
        headers = {"content-type": "application/json", **headers}
        parameters = asked.without((*engine.dialect.page_parameters, *engine.params))
        return await self.caller.send(
            engine, json.dumps(sent).encode(), headers=headers, parameters=parameters, most=most
        )

    async def _guarded(self, engine: Engine, call: Awaitable[Raw]) -> Raw:
        try:
            return await call
        except UnusableAnswer as error:
            if error.reason == "unfilled":
                raise Refused("bad_body", str(error)) from None
            self._tell(engine, f"production_{error.reason}", str(error))
            if error.reason == "timeout":
                raise Refused("engine_timeout", "the production engine did not answer in time") from None
            raise Refused("engine_unreachable", "the production engine cannot be reached") from None

    @cached_property
    def caller(self) -> Caller:
        """Connections to the engines, opened when first needed."""
        from structsvm.live.engines.calling import Caller

        return Caller()

    def _tell(self, engine: Engine, reason: str, said: str) -> None:
        """Log why an engine's response cannot be used, with its status and text, at most once a minute per reason."""
        now, name = time.monotonic(), (engine.name, reason)
        if now - self._told.get(name, -_TOLD_S) >= _TOLD_S:
            self._told[name] = now
            said = said.removeprefix(f"{reason.removeprefix('production_')}: ")
            _log.warning("structsvm live: engine %s: %s: %s", engine.name, reason, said[:500])

    async def _page(
        self, engine: Engine, asked: Asked, why: str, main: _Answer | None = None, *, counted: bool = False
    ) -> Response:
        """Return production's own response: ``main``, or a new one if that is None or a later page was requested."""
        raw = await self._production(engine, asked) if main is None or asked.query.first else main.raw
        if not counted:
            self.service.metrics.shown.labels("production", label_of(why)).inc()
        return _as_it_came(raw, why)

    def _response(self, answer: object, production: Raw, serve: str, why: str) -> Response:
        try:  # ASCII, because lone surrogates, which engines keep, cannot be encoded
            content = json.dumps(answer, allow_nan=False).encode()
        except (ValueError, RecursionError):
            return _as_it_came(production, "junk")
        headers = [(name, value) for name, value in production.headers if name not in _OF_CONTENT]
        return _response(200, content, headers, serve, why)

    async def close(self) -> None:
        """Close the connections."""
        if "caller" in vars(self):
            await self.caller.close()


def routes(service: Service) -> list[Route]:
    """Return the routes of the proxy."""
    proxy = Proxy(service)
    service.at_stop.append(proxy.close)

    async def search(request: Request) -> Response:
        asked = await Asked.of(request, service.settings.search_header)
        return await proxy.search(request.path_params["key"], asked)

    answer = endpoint(search, scope="show")
    paths = ("/v1/search/{key}", "/v1/search/{key}/_search")
    return [Route(path, answer, methods=["POST", "GET"]) for path in paths]


_ANSWER = json.JSONDecoder(parse_constant=no_constant).decode
_HUGE = re.compile(rb"\d[eE]\+?\d{3}")
"""Matches numbers that may be too large for a float, and some strings."""


def _parsed(content: bytes) -> Any:
    """Return the JSON of a response; raise UnusableAnswer unless it is valid and can be serialised again."""
    try:
        found = _ANSWER(content.decode())
        if _HUGE.search(content):
            json.dumps(found, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise UnusableAnswer("junk", f"invalid JSON: {error}"[:200]) from None
    return found


def _kept(text: str | None) -> str | None:
    return text if text is not None and len(text) <= 2000 and is_text(text) else None


def _excerpt(raw: Raw) -> str:
    try:
        return " ".join(raw.text(MAX_ANSWER)[:400].decode(errors="replace").split())
    except UnusableAnswer as error:
        return str(error)


def _as_it_came(raw: Raw, why: str) -> Response:
    return _response(raw.status, raw.content, raw.headers, "production", why)


def _response(
    status: int, content: bytes, headers: Sequence[tuple[bytes, bytes]], serve: str, why: str
) -> Response:
    answer = Response(content, status)
    served = serve if serve == "interleaved" or not why else f"{serve}; why={why}"
    answer.raw_headers = [*headers, (b"x-structsvm-serve", served.encode())]
    if status >= 200 and status not in (204, 304):
        answer.raw_headers.append((b"content-length", str(len(content)).encode()))
    return answer
