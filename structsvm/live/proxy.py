"""The proxy ``POST /v1/search/{key}``: interleaved lists from a search engine, and production's list whenever in doubt.

Production and challengers are asked at the same time. If a challenger is slow, down, or answers something that is no
ranking, the client gets production's answer, byte for byte, within the budget: an experiment never costs a search.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from structsvm.checks import BadInput
from structsvm.live.app import endpoint, json_body
from structsvm.live.breaker import Breaker
from structsvm.live.engines.answers import Query, UnusableAnswer, at_path
from structsvm.live.engines.engine import Engine, engines_of
from structsvm.live.refused import Refused
from structsvm.live.service import Service

if TYPE_CHECKING:  # httpx takes as long to load as all else here, and only services with engines need it
    from structsvm.live.engines.calling import Caller, Raw

__all__ = ["Proxy", "routes"]

BUDGET_S = 0.1
"""How long a challenger may take, from the arrival of the request; longer only while production has not answered."""

MAX_ANSWER = 1 << 24
"""Most bytes of a challenger's answer."""

DEEPEST = 100
"""Documents that are drafted at most; pages behind them are production's."""

_ID = re.compile(r"[\x21-\x7e]{1,256}")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Answer:
    """An engine's answer as it came, and as it is understood."""

    raw: Raw
    parsed: Any
    ranking: dict[str, Mapping[str, Any]]


class Proxy:
    """Asks engines, and merges their answers by what the service says.

    Parameters
    ----------
    service : Service
    budget_s : float, default=0.1
        How long a challenger may take.
    breaker : callable, default=Breaker
        Makes the breaker of each challenger.
    caller : Caller, optional
        For tests.
    """

    def __init__(
        self,
        service: Service,
        *,
        budget_s: float = BUDGET_S,
        breaker: Any = Breaker,
        caller: Caller | None = None,
    ) -> None:
        self.service, self.budget_s, self._make_breaker = service, budget_s, breaker
        self.engines = engines_of(service.settings.engines)
        self.breakers: dict[tuple[str, str], Breaker] = {}
        self._caller = caller

    async def search(self, key: str, body: Any, *, unit: str | None, request_id: str | None) -> Response:
        """Answer a search.

        Parameters
        ----------
        key : str
            Of the experiment.
        body : object
            In the dialect of its engines.
        unit : str or None
        request_id : str or None
            Made up where the client gives none; its second page then is production's.

        Raises
        ------
        Refused
            If the experiment is unknown or has no engines, or the body is not in the dialect.
        """
        start = time.perf_counter()
        experiment = await self.service.experiment(key)
        tables = experiment.get("engines")
        if not tables:
            raise Refused(
                409, "no_engines", f"the experiment {key} has no engines; name one for each of its rankers"
            )
        try:
            engines = {
                ranker: self.engines[tables[ranker]["engine"]].for_ranker(tables[ranker])
                for ranker in experiment["rankers"]
            }
        except KeyError as error:
            raise Refused(
                409, "no_engines", f"the experiment {key}: no engine {error.args[0]} in the configuration"
            ) from None
        production = experiment["production"]
        if not isinstance(body, Mapping):
            raise Refused(422, "bad_body", "expected an object in the dialect of the engine")
        try:
            query = engines[production].dialect.read(body)
        except BadInput as error:
            raise Refused(422, "bad_body", str(error)) from None
        last = query.first + query.size
        obstacle = query.obstacle
        if obstacle is None and (last > DEEPEST or (query.first and request_id is None)):
            obstacle = "page"
        if obstacle is not None:
            return self._as_it_came(await self._production(engines[production], body, query), obstacle)
        context = {"page": 1 + query.first // max(query.size, 1), "sort": None}
        request_id = uuid.uuid4().hex if request_id is None else request_id
        assigned = await self.service.assign(key, request_id, unit=unit, context=context)
        control = assigned.get("why") == "control"
        if assigned["serve"] == "production" and not control:
            answer = await self._production(engines[production], body, query)
            return self._as_it_came(answer, assigned["why"])

        wanted = [ranker for ranker in dict.fromkeys(assigned["rankers"]) if ranker != production]
        main, others, why = await self._ask_all(key, engines, production, wanted, body, query, last, start)
        if not main.ranking:  # production's own error, or a list of nothing, is the answer
            return self._page(engines[production], main, query, "error" if why is None else why)
        if why is not None:
            self.service.not_compared(key, why)
            return self._page(engines[production], main, query, why)
        # a page longer than the lists of the experiment is drafted at its top, and goes on as production's
        drafted = experiment["length"]
        whole_page = query.size <= drafted
        offset = query.first if whole_page else 0
        length = min(query.size if whole_page else drafted, len(main.ranking) - offset)
        if length <= 0:
            return self._page(engines[production], main, query, "page")
        answers = {production: main, **others}
        known = {production: list(main.ranking)}
        known.update({ranker: list(others[ranker].ranking) for ranker in wanted})
        try:
            shown = await self.service.show(
                key,
                request_id,
                known,
                length=length,
                offset=offset,
                unit=unit,
                query=query.text,
                assignment=assigned.get("assignment"),
                elapsed_ms=1000 * (time.perf_counter() - start),
                context=context,
            )
        except Refused as error:
            _log.warning("show was refused: %s", error)
            shown = {"serve": "production", "why": "refused", "token": None}
        except Exception:
            _log.exception("show failed")
            shown = {"serve": "production", "why": "store", "token": None}
        why = shown.get("why", "")
        if shown["serve"] == "production" and shown["token"] is None:
            return self._page(engines[production], main, query, why)
        found: dict[str, Mapping[str, Any]] = {}
        for ranker in (*wanted, production):  # production's own documents where both have one
            found.update(answers[ranker].ranking)
        ids = shown["documents"]
        if not whole_page:
            first = set(ids)
            ids = [*ids, *(name for name in main.ranking if name not in first)][query.first : last]
        if not set(ids) <= set(found):  # a request id that was used for another search
            return self._page(engines[production], main, query, "replayed")
        merged = engines[production].dialect.merge(
            main.parsed,
            [other.parsed for other in others.values()],
            [found[name] for name in ids],
            ids,
            shown["token"],
        )
        return _response(merged, shown["serve"], why)

    async def _ask_all(
        self,
        key: str,
        engines: Mapping[str, Engine],
        production: str,
        wanted: Sequence[str],
        body: Mapping[str, Any],
        query: Query,
        last: int,
        start: float,
    ) -> tuple[_Answer, dict[str, _Answer], str | None]:
        """Return production's answer, those of the challengers, and why they cannot be compared."""
        tasks: dict[str, asyncio.Task[_Answer]] = {}
        why = None
        for ranker in wanted:
            if not self._breaker(key, ranker).allows():
                why = "breaker"
        if why is None:
            for ranker in wanted:
                tasks[ranker] = asyncio.create_task(self._challenger(engines[ranker], body, query, last))
        try:
            main = await self._main(engines[production], body, query, last)
            others: dict[str, _Answer] = {}
            if tasks:
                left = max(start + self.budget_s - time.perf_counter(), 0.0)
                await asyncio.wait(tasks.values(), timeout=left)
            for ranker, task in tasks.items():
                reason = None
                if not task.done():
                    reason = "timeout"
                elif (error := task.exception()) is not None:
                    reason = _reason(error)
                elif main.ranking and not task.result().ranking:
                    why = why or "empty"  # an answer, but nothing to compare
                if reason is None:
                    self._breaker(key, ranker).succeeded()
                    if why is None:
                        others[ranker] = task.result()
                else:
                    why = why or reason
                    if reason != "unfilled":
                        self._breaker(key, ranker).failed()
            return main, others, why
        finally:
            for task in tasks.values():
                task.cancel()

    async def _challenger(self, engine: Engine, body: Mapping[str, Any], query: Query, last: int) -> _Answer:
        sent = engine.request(body, query, 0, last, lean=True)
        raw = await self.caller.post(engine, sent, most=MAX_ANSWER)
        if raw.status != 200:
            raise UnusableAnswer("status", str(raw.status))
        try:
            parsed = json.loads(raw.content)
        except (ValueError, RecursionError):
            raise UnusableAnswer("junk", "no JSON") from None
        ranking = engine.ranking(parsed)
        if len(ranking) > last:  # engines may answer more than was asked for
            ranking = dict(list(ranking.items())[:last])
        return _Answer(raw, parsed, ranking)

    async def _main(self, engine: Engine, body: Mapping[str, Any], query: Query, last: int) -> _Answer:
        """Return production's answer; without a ranking where it cannot be read, and is passed on as it came."""
        raw = await self._production(engine, body, query, 0, last)
        try:
            parsed = json.loads(raw.content) if raw.status == 200 else None
            ranking = {} if parsed is None else engine.ranking(parsed)
        except (ValueError, RecursionError, UnusableAnswer):
            parsed, ranking = None, {}
        return _Answer(raw, parsed, ranking)

    async def _production(
        self,
        engine: Engine,
        body: Mapping[str, Any],
        query: Query,
        first: int | None = None,
        size: int | None = None,
    ) -> Raw:
        first, size = query.first if first is None else first, query.size if size is None else size
        try:
            sent = engine.request(body, query, first, size, lean=False)
        except UnusableAnswer as error:
            raise Refused(422, "bad_body", str(error)) from None
        try:
            return await self.caller.post(engine, sent)
        except UnusableAnswer as error:
            _log.warning("the production engine %s: %s", engine.name, error)
            if error.reason == "timeout":
                raise Refused(504, "engine_timeout", "the production engine did not answer in time") from None
            raise Refused(502, "engine_unreachable", "the production engine cannot be reached") from None

    @property
    def caller(self) -> Caller:
        """What posts to the engines; made when first needed."""
        if self._caller is None:
            from structsvm.live.engines.calling import Caller

            self._caller = Caller()
        return self._caller

    def _breaker(self, key: str, ranker: str) -> Breaker:
        if (key, ranker) not in self.breakers:
            self.breakers[key, ranker] = self._make_breaker()
        return self.breakers[key, ranker]

    def _page(self, engine: Engine, main: _Answer, query: Query, why: str) -> Response:
        """Return the asked page of production's answer, which starts at the first document of all."""
        if query.first == 0 or main.parsed is None or not main.ranking:
            return self._as_it_came(main.raw, why)
        ids = list(main.ranking)[query.first : query.first + query.size]
        trimmed = engine.dialect.with_documents(main.parsed, [main.ranking[name] for name in ids], ids)
        return _response(trimmed, "production", why)

    @staticmethod
    def _as_it_came(raw: Raw, why: str) -> Response:
        headers = {"X-Structsvm-Serve": _served("production", why)}
        if raw.retry_after is not None:
            headers["Retry-After"] = raw.retry_after
        return Response(raw.content, raw.status, headers, raw.kind)

    async def close(self) -> None:
        """Close the connections."""
        if self._caller is not None:
            await self._caller.close()


def routes(service: Service) -> list[Route]:
    """Return the route of the proxy."""
    proxy = Proxy(service)
    service.closing.append(proxy.close)

    async def search(request: Request) -> Response:
        body = await json_body(request)
        ids = request.headers.get("x-request-id") or at_path(body, "ext.ubi.query_id")
        unit = request.headers.get("x-structsvm-unit") or at_path(body, "ext.ubi.client_id")
        return await proxy.search(
            request.path_params["key"],
            body,
            unit=_checked("unit", unit),
            request_id=_checked("request id", ids),
        )

    return [Route("/v1/search/{key}", endpoint(search, scope="show"), methods=["POST"])]


def _checked(name: str, value: Any) -> str | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise Refused(422, "bad_id", f"{name}: expected 1 to 256 visible ASCII characters")
    return value


def _reason(error: BaseException) -> str:
    if isinstance(error, UnusableAnswer):
        return error.reason
    _log.error("a challenger failed", exc_info=error)
    return "error"


def _served(serve: str, why: str) -> str:
    return serve if serve == "interleaved" or not why else f"{serve}; why={why}"


def _response(answer: Any, serve: str, why: str) -> Response:
    text = json.dumps(answer, ensure_ascii=False)
    headers = {"X-Structsvm-Serve": _served(serve, why)}
    return Response(text, 200, headers, "application/json")
