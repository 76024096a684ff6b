"""A client for sites in Python: three calls, with production's list if the service does not respond in time."""

import contextlib
import http.client
import json
import logging
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from structsvm.common.checks import BadInput, check_positive

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Page:
    """The list to show; :meth:`Client.show` describes the fields."""

    documents: tuple[str, ...]
    token: str | None = None
    serve: str = "production"
    why: str | None = None


class Client:
    """Ask a service which list to show, using only the standard library; a failure of the service never raises.

    Parameters
    ----------
    url : str
        Address of the service.
    key : str, optional
        An API key with the scopes ``show`` and ``click``; needed if the service is not on this machine.
    timeout_s : float, default=0.2
        Seconds that a search may wait for the service.
    rest_s : float, default=2.0
        Seconds after a failure during which no request is sent.

    Examples
    --------
    >>> client = Client("http://127.0.0.1:9", timeout_s=0.1)  # no service is running
    >>> client.show("shop", "request-1", {"prod": ["a", "b", "c"], "new": ["b", "d"]}, production="prod", length=2)
    Page(documents=('a', 'b'), token=None, serve='production', why='unreachable')
    """

    def __init__(
        self, url: str, *, key: str | None = None, timeout_s: float = 0.2, rest_s: float = 2
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise BadInput("url", "expected an http or https address", value=url)
        self.url, self.key = url.rstrip("/"), key
        self.timeout_s, self.rest_s = check_positive("timeout_s", timeout_s), rest_s
        self._rests_until = 0.0
        # ignore proxies of the environment, and redirects, which would send the key to another host
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect()).open

    def assign(
        self,
        experiment: str,
        request_id: str,
        *,
        unit: str | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return which rankings a request needs: ``{"serve", "rankers", "assignment"}``.

        With bandits or a small share of traffic, a call before :meth:`show` avoids computing rankings that are not
        shown; for two rankers it is optional. If the service does not answer, return
        ``{"serve": "production", "why": "unreachable"}``, or "refused" as in :meth:`show`.
        """
        answer = self._post(
            f"/v1/experiments/{quote(experiment, safe='')}/assign",
            {"request_id": request_id, "unit": unit, "context": dict(context or {})},
        )
        return {"serve": "production", "why": answer} if isinstance(answer, str) else answer

    def show(
        self,
        experiment: str,
        request_id: str,
        rankings: Mapping[str, Sequence[str]],
        *,
        production: str,
        length: int,
        offset: int = 0,
        unit: str | None = None,
        query: str | None = None,
        assignment: str | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> Page:
        """Return the list to show.

        Parameters
        ----------
        experiment : str
            Key of the experiment.
        request_id : str
            A different id for each search; the same id for its later pages and for a retry.
        rankings : mapping of str to sequence of str
            Document ids by ranker, best first, at least ``offset + length`` of each.
        production : str
            The ranker whose list is shown if the service does not respond.
        length, offset : int
            Number of documents on this page, and on earlier pages.
        unit : str, optional
            User or session, hashed by the service.
        query : str, optional
            Text of the search, kept only if the experiment logs queries.
        assignment : str, optional
            The assignment that :meth:`assign` returned; needed for bandits.
        context : mapping, optional
            ``{"sort": "price", "bot": true}``: searches with user-chosen sorting and searches by bots get production's
            list.

        Returns
        -------
        Page
            ``documents``, ids in the order to show them; ``token``, to send with clicks, None if the list is not part
            of the experiment; ``serve``, ``"interleaved"``, ``"production"`` or ``"winner"``; ``why``, the reason why
            it is not interleaved: ``"unreachable"`` if the service did not answer, ``"refused"`` if the call is
            invalid, such as ids that are not strings or an unknown experiment (the log has the service's answer).
        """
        body = {
            "request_id": request_id,
            "rankings": {name: list(ids) for name, ids in rankings.items()},
            "length": length,
            "offset": offset,
            "unit": unit,
            "query": query,
            "assignment": assignment,
            "context": dict(context or {}),
        }
        given = {name: value for name, value in body.items() if value is not None}
        answer = self._post(f"/v1/experiments/{quote(experiment, safe='')}/show", given)
        if isinstance(answer, str) or not isinstance(answer.get("documents"), list):
            why = answer if isinstance(answer, str) else "unreachable"
            return Page(tuple(rankings[production][offset : offset + length]), why=why)
        documents, serve = tuple(answer["documents"]), answer.get("serve", "production")
        return Page(documents, answer.get("token"), serve, answer.get("why"))

    def click(
        self, token: str, document: str, *, action: str = "click", dwell_s: float | None = None
    ) -> bool:
        """Send a click; return False if the service did not accept it. The same click may be sent again."""
        event: dict[str, Any] = {"token": token, "document": document, "action": action}
        if dwell_s is not None:
            event["dwell_s"] = dwell_s
        return self.clicks([event]) is not None

    def clicks(self, events: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
        """Send events ``{"token", "document" or "place", "action"}``; return None if they were not accepted."""
        answer = self._post("/v1/clicks", {"events": [dict(event) for event in events]})
        return answer if not isinstance(answer, str) and "accepted" in answer else None

    def _post(self, path: str, body: object) -> dict[str, Any] | str:
        """Return the response, or the reason why there is none."""
        if time.monotonic() < self._rests_until:
            return "unreachable"
        headers = {"Content-Type": "application/json"}
        if self.key is not None:
            headers["Authorization"] = f"Bearer {self.key}"
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers, method="POST")
        try:
            with self._open(request, timeout=self.timeout_s) as answer:
                found = json.load(answer)
            return found if isinstance(found, dict) else "unreachable"
        except urllib.error.HTTPError as error:
            text = b""
            with error, contextlib.suppress(OSError, http.client.HTTPException):  # the text may never arrive
                text = error.read(300)
            _log.warning("structsvm live: %s: %s %s", path, error.code, text.decode(errors="replace"))
            if error.code < 500:  # the call is wrong, but the service works
                return "refused" if error.code >= 400 else "unreachable"
        except (OSError, http.client.HTTPException, ValueError) as error:
            _log.warning("structsvm live: %s: %s", path, error)
        self._rests_until = time.monotonic() + self.rest_s
        return "unreachable"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: object, **options: object) -> None:
        """Follow no redirect."""
