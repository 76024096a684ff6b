"""The service without HTTP; routes, proxy and pages call it and never access the store."""

import asyncio
import contextlib
import json
import sys
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace
from sqlalchemy.exc import SQLAlchemyError

from structsvm.live.contract import bodies
from structsvm.live.contract.bodies import MAX_ID, Assign, Show
from structsvm.live.contract.calls import Refused, check_show, check_texts
from structsvm.live.contract.clock import Clock
from structsvm.live.contract.metrics import Metrics
from structsvm.live.contract.rate_limit import RateLimit
from structsvm.live.contract.settings import Settings
from structsvm.live.contract.tokens import Secrets, Token, hashed_unit, impression_id
from structsvm.live.counting import reporting
from structsvm.live.counting.closing import Closer
from structsvm.live.experiment.assign import Assigned, Experiment, Policy, assign, duel_seed
from structsvm.live.experiment.draw import draw, page_of
from structsvm.live.experiment.registry import Registry
from structsvm.live.experiment.upkeep import Upkeep
from structsvm.live.store.opening import connector, open_database
from structsvm.live.store.records import ExperimentRow, undrawn
from structsvm.live.store.rows import ACCEPTED, DUPLICATE, GONE, LATE, ClickRow, ShownRow, StoreDown
from structsvm.live.store.writer import Writer
from structsvm.online.impressions.shown import Shown
from structsvm.online.interleaving.by_name import interleaver
from structsvm.protocols import Duel

CLICKS_BEHIND_S = 5.0
"""Seconds that storing clicks may take; more than for lists, because no user waits for them."""

_BEHIND_S = 60.0
"""Seconds, in addition to two windows, that closing may be behind before the service counts as not ready."""

_LISTS = 10_000
"""Number of lists kept in memory, for clicks that name a document instead of a rank."""


class Service:
    """The calls of the API without HTTP; each method returns the response of its endpoint, a type of ``bodies``.

    Parameters
    ----------
    settings : Settings
        Address, store and limits of the service.

    Examples
    --------
    >>> import asyncio, tempfile
    >>> from structsvm.live import Service, Settings
    >>> from structsvm.live.contract.bodies import Show
    >>> from structsvm.live.store.opening import prepare
    >>> async def first_list(url):
    ...     service = Service(Settings(url))
    ...     await service.start()
    ...     await service.registry.put("shop", {"rankers": ["prod", "new"], "production": "prod"})
    ...     await service.registry.set_state("shop", "running")
    ...     found = await service.show("shop", Show("request-1", {"prod": ["a", "b"], "new": ["a", "c"]}, length=2))
    ...     await service.stop()
    ...     return found
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = prepare(f"sqlite:///{folder}/clicks.db")
    ...     found = asyncio.run(first_list(f"sqlite:///{folder}/clicks.db"))
    >>> found.serve, found.documents[0]
    ('interleaved', 'a')
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.metrics, self.clock = Metrics(), Clock()
        self.store = store = open_database(settings.store)
        self.writer = Writer(connector(settings.store))
        self.registry = Registry(store, self.clock, settings.engines)
        self.closer = Closer(store, self.clock, settings.grace_ms, settings.close_every_s)
        self.upkeep = Upkeep(settings, self.registry, self.writer, self.closer, self.metrics)
        self.click_limit = RateLimit(settings.click_rate)
        self._lists: OrderedDict[bytes, list[str]] = OrderedDict()
        self.at_stop: list[Callable[[], Awaitable[None]]] = []
        """Callbacks that run when the service stops, such as those that close connections."""

    async def start(self) -> None:
        """Read the secrets and the store, and start the writer, the closer and the loops beside requests."""
        # switch threads often, so that requests do not wait for the threads of the writer and the closer
        sys.setswitchinterval(0.001)
        self.secrets = Secrets.of_file(self.settings.secret_path)
        self.clock.keep_above(await asyncio.to_thread(self.store.last_shown_at))
        self.writer.start()
        await self.registry.refresh()
        self.closer.start()
        self.upkeep.start()

    async def stop(self) -> None:
        """Store pending requests, and close the store."""
        await self.upkeep.end_loops()
        for close in self.at_stop:
            await close()
        await asyncio.to_thread(self.closer.stop)
        await self.writer.stop()
        with contextlib.suppress(SQLAlchemyError):
            await asyncio.to_thread(self.upkeep.flush)
        self.store.close()

    async def experiments(self) -> dict[str, list[dict[str, Any]]]:
        """Return ``{"experiments": [...]}``: the newest revision of each, by key, as :meth:`experiment` returns it."""
        await self.registry.refresh()
        return {"experiments": [one.row.to_dict() for _, one in sorted(self.registry.by_key.items())]}

    async def experiment(self, key: str) -> dict[str, Any]:
        """Return ``{"key", "revision", "state", "created_at", **config}`` of an experiment.

        The result comes from memory and is at most 1 s old. It includes the defaults of the configuration.
        """
        return (await self.registry.found(key)).row.to_dict()

    async def assign(self, key: str, call: Assign) -> bodies.Assigned:
        """Return which rankings a request needs; nothing is stored.

        If ``why`` is ``"control"``, call :meth:`show` with production's ranking nevertheless, as guardrails compare
        with such lists.
        """
        experiment = await self.registry.found(key)
        check_texts(call)
        assigned = assign(experiment, call)
        if assigned.serve == "interleaved" and experiment.policy is not None:
            duel = await self._duel(experiment.row, experiment.policy, call.request_id)
            assigned = assigned._replace(arms=duel.arms, note=duel.note)
        names = [experiment.config["rankers"][arm] for arm in dict.fromkeys(assigned.arms)]
        if assigned.serve != "interleaved":
            return bodies.Assigned(assigned.serve, names, why=assigned.why)
        sealed = {"e": experiment.row.id, "r": call.request_id, "a": assigned.arms, "n": assigned.note}
        return bodies.Assigned(assigned.serve, names, self.secrets.seal(sealed))

    async def _duel(self, row: ExperimentRow, policy: Policy, request_id: str) -> Duel:
        """Return the duel of a request; all pages share the duel of the first page."""
        first = impression_id(row.salt, request_id, 0)
        duel = policy.duels.get(first)
        if duel is None:
            with contextlib.suppress(SQLAlchemyError):
                duel = await asyncio.to_thread(self.store.duel, first)
            if duel is None:
                return policy.duels.get(first) or policy.choose(first, duel_seed(row.salt, request_id))
            policy.remember(first, duel)
        return duel

    async def show(self, key: str, call: Show) -> bodies.Shown:
        """Merge rankings into one list, record it, and return it; a repeated request id gets the stored list again.

        The result never reveals the ranker of a document. Besides the reasons of :meth:`assign`, ``why`` may be "store"
        (the store accepts nothing now), "empty" (an empty ranking) or "page" (a page that cannot continue the previous
        one). The types of ``call`` are not checked again: decode it, or convert a dict with ``msgspec.convert``.
        """
        experiment = await self.registry.found(key)
        check_texts(call)
        check_show(call, experiment.config)
        assigned = self._assigned(experiment, call)
        if assigned.serve != "interleaved" and assigned.why != "control":
            return self._unrecorded(experiment, call, assigned)
        drawn = await self._drawn(experiment, call, assigned)
        if isinstance(drawn, str):
            return self._unrecorded(experiment, call, assigned._replace(serve="production", why=drawn))
        record, serve = drawn
        revision, config = experiment.row, experiment.config
        # units are hashed with the experiment's key, and are not stored once this key is deleted
        unit = (
            None
            if call.unit is None or revision.unit_key is None
            else hashed_unit(revision.unit_key, call.unit)
        )
        row = ShownRow(
            id=impression_id(revision.salt, call.request_id, call.offset),
            experiment=revision.id,
            shown_at=self.clock.now(),
            unit=unit,
            serve=serve,
            record=record.to_json(),
            rankings=json.dumps(call.rankings, ensure_ascii=False) if config["log_rankings"] else None,
            query=call.query if config["log_query"] else None,
            elapsed_ms=None if call.elapsed_ms is None else round(call.elapsed_ms),
            chance=assigned.chance,
            epoch=config.get("epoch", 0),
        )
        try:
            earlier = await self.writer.show(row, self.settings.behind_s)
        except StoreDown as error:
            if self.settings.strict:
                raise Refused("store", "the list cannot be recorded now", 1) from error
            return self._unrecorded(experiment, call, assigned._replace(serve="production", why="store"))
        stored = row if earlier is None else earlier
        documents = list(record.documents) if earlier is None else json.loads(earlier.record)["documents"]
        self._lists[row.id] = documents
        if len(self._lists) > _LISTS:
            self._lists.popitem(last=False)
        token = self.secrets.token(Token(row.experiment, len(documents), stored.shown_at, row.id))
        why = "control" if stored.serve == "control" else None
        return self._answer(
            "production" if why else "interleaved", why, documents, token, replayed=earlier is not None
        )

    async def clicks(self, events: Sequence[Any]) -> bodies.Taken:
        """Record clicks, each of the form ``{"token", "document" | "place" (from 1), "action": "click", "dwell_s"?}``.

        Events that are not of this form are rejected one by one; if all are rejected, the call is refused.
        """
        now = self.clock.now()
        tokens = [
            self.secrets.read(event.get("token")) if isinstance(event, dict) else None for event in events
        ]
        signed = [(event, token) for event, token in zip(events, tokens, strict=True) if token is not None]
        await self.registry.know({token.experiment for _, token in signed})
        lists = {token.impression: self._lists.get(token.impression) for _, token in signed}
        named = {token.impression for event, token in signed if "document" in event}
        if unknown := [impression for impression in named if lists[impression] is None]:
            lists |= await asyncio.to_thread(self.store.documents, unknown)
        rejected: list[bodies.Rejected] = []
        rows: dict[int, ClickRow] = {}
        for k, (event, token) in enumerate(zip(events, tokens, strict=True)):
            place = "bad_token" if token is None else self._place(event, token, lists)
            if isinstance(place, str):
                rejected.append(bodies.Rejected(k, place))
                continue
            assert token is not None
            dwell = event.get("dwell_s")
            rows[k] = ClickRow(
                id=token.impression,
                place=place,
                action=event.get("action", "click"),
                # the clocks of two machines may differ, but no click precedes its list
                at=max(now, token.shown_at),
                dwell=None if dwell is None else float(dwell),
                shown_at=token.shown_at,
                closes_at=token.shown_at + self.registry.by_id[token.experiment].row.window_ms,
            )
        fates: list[int] = []
        if rows:
            try:
                fates = await self.writer.click(list(rows.values()), CLICKS_BEHIND_S)
            except StoreDown as error:
                raise Refused("store", "clicks cannot be recorded now; send them again", 1) from error
        rejected += [
            bodies.Rejected(k, "unknown_impression")
            for k, fate in zip(rows, fates, strict=True)
            if fate == GONE
        ]
        rejected.sort(key=lambda one: one.index)
        taken = bodies.Taken(fates.count(ACCEPTED), fates.count(DUPLICATE), fates.count(LATE), rejected)
        for outcome, n in (
            ("accepted", taken.accepted),
            ("duplicate", taken.duplicate),
            ("late", taken.late),
            ("rejected", len(rejected)),
        ):
            if n:
                self.metrics.clicks.labels(outcome).inc(n)
        if len(rejected) == len(events):
            codes = {one.code for one in rejected}
            if codes == {"bad_token"}:
                raise Refused("bad_token", "no click was accepted: the token was not issued by this service")
            raise Refused(
                codes.pop() if len(codes) == 1 else "bad_clicks", f"no click was accepted: {rejected[0].code}"
            )
        return taken

    def not_compared(self, key: str, why: str) -> None:
        """Count a request that got production's list because the challenger failed: ``"timeout"``, ``"junk"``, ..."""
        self.upkeep.counts[self.registry.known(key).row.id, f"not_compared:{why}"] += 1
        self.metrics.not_compared.labels(why).inc()

    async def report(self, key: str) -> bodies.Report:
        """Return the report of an experiment."""
        row = (await self.registry.found(key)).row
        return await asyncio.to_thread(self.registry.reports.of, row, self.clock.now())

    def export(self, key: str) -> Iterator[bytes]:
        """Return the closed impressions as lines of a click log, a chunk of lines at a time.

        From this log ``structsvm interleave analyse`` computes the figures of the report.
        """
        return reporting.lines_of(self.store, self.registry.known(key).row)

    def rows(self, key: str, *, tokens: bool = True) -> Iterator[dict[str, Any]]:
        """Return the closed impressions of an experiment's newest revision, in the order shown.

        Without ``tokens`` the hash of each impression replaces its token, because readers must not send clicks.

        Yields
        ------
        dict
            ``{"seq", "token", "shown_at" (ms), "serve", "documents", "offset" (of later pages), "query" (None unless
            logged), "clicks": [{"place" (from 1), "action", "at" (ms), "dwell_s", "late"}]}``.
        """
        return reporting.rows(self.store, self.registry.known(key).row, self.secrets if tokens else None)

    async def ready(self) -> bodies.Ready:
        """Return whether lists can be recorded and closed, and what prevents it."""
        committed = self.writer.last_commit
        rows = {number: one.row for number, one in self.registry.by_id.items()}
        lags: dict[int, float] = {}
        try:
            lags = await asyncio.wait_for(asyncio.to_thread(self.closer.lags, rows), 2.0)
            reads = True
        except (SQLAlchemyError, OSError, TimeoutError):
            reads = False
        writes = self.writer.alive and self.writer.failing is None
        # without stopped and killed experiments, which may wait for the operator
        going = [row for row in rows.values() if row.state in ("running", "paused")]
        in_time = all(lags.get(row.id, 0.0) < 2 * row.config["window_s"] + _BEHIND_S for row in going)
        closes = self.closer.alive and {"", *(row.title for row in going)}.isdisjoint(self.closer.failing)
        return bodies.Ready(
            ready=reads and writes and in_time and closes,
            writer=writes,
            closer=self.closer.alive,
            closing_fails=dict(self.closer.failing),
            last_commit_s=None if committed is None else round(time.monotonic() - committed, 3),
            closer_lag_s=round(max(lags.values(), default=0.0), 3),
        )

    def _assigned(self, experiment: Experiment, call: Show) -> Assigned:
        """Return the assignment of a request, with its duel if it has one."""
        assigned = assign(experiment, call)
        if call.assignment is not None:
            sealed = self.secrets.unseal(call.assignment)
            if sealed is None or sealed["e"] != experiment.row.id or sealed["r"] != call.request_id:
                raise Refused("bad_assignment", "the assignment is for another request or experiment")
            if assigned.serve == "interleaved":
                assigned = assigned._replace(arms=tuple(sealed["a"]), note=sealed["n"])
        elif assigned.serve == "interleaved" and experiment.policy is not None:
            raise Refused("no_assignment", "a bandit requires the assignment that assign returned")
        return assigned

    async def _drawn(self, experiment: Experiment, call: Show, assigned: Assigned) -> tuple[Shown, str] | str:
        """Return the record of a list and how it is served, or the reason why it cannot be drawn."""
        config, rankings, offset, last = experiment.config, call.rankings, call.offset, call.last
        method, names = config["method"], [config["rankers"][arm] for arm in assigned.arms]
        missing = [name for name in dict.fromkeys(names) if name not in rankings]
        if missing:
            raise Refused("missing_ranking", f"rankings: the key {missing[0]!r:.80} is missing")
        if not rankings.get(config["production"], ["-"]):
            return "empty"
        chosen = [rankings[name] for name in names]
        if assigned.why == "control":
            if not (page := chosen[0][offset:last]):
                return "page"
            return undrawn(method, page, len(config["rankers"]), offset=offset), "control"
        by_team = interleaver(method).is_by_team
        if not all(chosen):
            self.not_compared(experiment.row.key, "empty")
            return "empty"
        if offset and not by_team:
            return "page"
        duel: dict[str, Any] = (
            {} if experiment.policy is None else {"arms": assigned.arms, "note": assigned.note}
        )
        top = [ranking[:last] for ranking in chosen]
        if all(ranking == top[0] for ranking in top):
            if not (page := top[0][offset:]):
                return "page"
            return undrawn(method, page, len(chosen), offset=offset, **duel), "same"
        arguments = (method, chosen, last, experiment.row.salt, call.request_id)
        # in a thread unless it is team draft: the linear programme of the optimised method takes milliseconds
        shown = draw(*arguments) if by_team else await asyncio.to_thread(draw, *arguments)
        shown = page_of(shown, offset)
        if not shown.documents:
            return "page"
        return replace(shown, **duel), "interleaved"

    def _unrecorded(self, experiment: Experiment, call: Show, assigned: Assigned) -> bodies.Shown:
        """Return one ranker's list, which is not stored."""
        name = experiment.config["production"]
        if assigned.serve == "winner":
            name = experiment.config["rankers"][assigned.arms[0]]
            if name not in call.rankings:
                name, assigned = experiment.config["production"], assigned._replace(serve="production")
        ranking = call.rankings.get(name)
        return self._answer(
            assigned.serve, assigned.why, None if ranking is None else ranking[call.offset : call.last]
        )

    def _answer(
        self,
        serve: bodies.Served,
        why: str | None,
        documents: list[str] | None,
        token: str | None = None,
        *,
        replayed: bool = False,
    ) -> bodies.Shown:
        """Count a list that is shown, and return the response."""
        self.metrics.shown.labels(serve, why or "").inc()
        return bodies.Shown(
            token=token, query_id=token, serve=serve, why=why, documents=documents, replayed=replayed
        )

    def _place(
        self, event: Mapping[str, Any], token: Token, lists: Mapping[bytes, list[str] | None]
    ) -> int | str:
        """Return the rank of a click, from 1, or its error code; ``lists`` holds the documents by impression."""
        experiment, documents = self.registry.by_id.get(token.experiment), lists[token.impression]
        action, dwell = event.get("action", "click"), event.get("dwell_s")
        place, document = event.get("place"), event.get("document")
        if experiment is None:
            return "unknown_impression"
        if type(action) is not str or action not in experiment.config["actions"]:
            return "bad_action"
        if dwell is not None and (type(dwell) not in (int, float) or not 0 <= dwell <= 1e9):
            return "bad_dwell"
        if place is not None:
            usable = type(place) is int and 1 <= place <= token.n_documents and "document" not in event
            return place if usable else "bad_place"
        if type(document) is not str or len(document) > MAX_ID:
            return "bad_document"
        if documents is None:
            return "unknown_impression"
        return documents.index(document) + 1 if document in documents else "bad_document"
