"""User Behavior Insights (UBI 1.3.0): read events, and write queries and events.

The ``query_id`` of UBI is the token of a list, so that events need no other id.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.routing import Route

from structsvm.live.contract.bodies import MAX_IDS, Rejected, Taken
from structsvm.live.contract.calls import Refused
from structsvm.live.contract.conversion import at_path, number_as_text
from structsvm.live.counting.reporting import in_pieces
from structsvm.live.experiment.service import Service
from structsvm.live.web.endpoints import body_of, endpoint

_ANYTHING = msgspec.json.Decoder(Any)
_NO_ACTIONS = frozenset(("impression", "view", "search", "on_search", "query"))


def click_of(event: object) -> dict[str, Any] | None:
    """Return a UBI event as an event of ``POST /v1/clicks``; None if it is not an action on a document."""
    if not isinstance(event, Mapping):
        return None
    action, token = event.get("action_name"), event.get("query_id")
    document = number_as_text(at_path(event, "event_attributes.object.object_id"))
    named = isinstance(action, str) and action not in _NO_ACTIONS
    if not named or not isinstance(token, str) or not isinstance(document, str):
        return None
    return {"token": token, "document": document, "action": "click" if action == "item_click" else action}


def events_of(body: Any) -> list[Any]:
    """Return the events of a body: one event, a list, or ``{"events": [...]}``; raise Refused for anything else."""
    events = body.get("events", body) if isinstance(body, Mapping) else body
    if isinstance(events, Mapping) and "action_name" in events:
        return [events]
    if not isinstance(events, list):
        raise Refused("bad_events", "expected an event, a list of events or an object with a list at events")
    return events


def lines_of(row: Mapping[str, Any], application: str) -> Iterator[dict[str, Any]]:
    """Yield a stored impression as a UBI query, its impression events and its clicks.

    Ordinals count from 1 on the first page; later pages continue where the previous page ended.
    """
    documents, token, shown = row["documents"], row["token"], _iso(row["shown_at"])
    yield {
        "application": application,
        "query_id": token,
        "user_query": row["query"] or "",
        "query_response_id": token,
        "query_response_hit_ids": list(documents),
        "timestamp": shown,
        "query_attributes": {"serve": row["serve"]},
    }
    clicks = [click for click in row["clicks"] if not click["late"]]
    events = [("impression", shown, place) for place in range(1, len(documents) + 1)]
    events += [(click["action"], _iso(click["at"]), click["place"]) for click in clicks]
    for action, at, place in events:
        document = {"object_id": documents[place - 1], "object_id_field": "id"}
        yield {
            "application": application,
            "action_name": action,
            "query_id": token,
            "timestamp": at,
            "event_attributes": {"object": document, "position": {"ordinal": row["offset"] + place}},
        }


def lines(rows: Iterable[Mapping[str, Any]], application: str) -> Iterator[bytes]:
    """Yield impressions (``Service.rows``) as UBI, one JSON object per line, many lines at a time.

    ``structsvm.clicks.read_ubi`` reads these lines.
    """
    return in_pieces(entry for row in rows for entry in lines_of(row, application))


def routes(service: Service) -> list[Route]:
    """Return the route ``POST /v1/ubi/events``."""

    async def events(request: Request) -> Any:
        given = events_of(await body_of(request, _ANYTHING))
        if len(given) > MAX_IDS:
            raise Refused("too_large", f"expected at most {MAX_IDS} events, got {len(given)}")
        # ignore other events: a collector sends all user actions, including those on lists outside any experiment
        clicks = {
            index: click
            for index, event in enumerate(given)
            if (click := click_of(event)) is not None and service.secrets.read(click["token"]) is not None
        }
        taken = Taken()
        if clicks:
            try:
                taken = await service.clicks(list(clicks.values()))
            except Refused as error:
                if error.code != "bad_action":
                    raise
                clicks = {}  # actions that the experiment does not accept
        numbers = list(clicks)
        rejected = [
            Rejected(numbers[one.index], one.code) for one in taken.rejected if one.code != "bad_action"
        ]
        ignored = len(given) - len(clicks) + len(taken.rejected) - len(rejected)
        service.metrics.clicks.labels("ignored").inc(ignored)
        return replace(taken, rejected=rejected, ignored=ignored)

    return [Route("/v1/ubi/events", endpoint(events, scope=None, limited=True), methods=["POST"])]


def _iso(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
