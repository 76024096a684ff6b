"""What routes call: the service without HTTP. Routes, proxy, pages and the demo know nothing of the store behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from structsvm.live.settings import Settings

__all__ = ["Refused", "Service"]


class Refused(Exception):
    """A call that is answered by an error.

    Parameters
    ----------
    status : int
        The HTTP status: 401, 403, 404, 409, 413, 422 or 503.
    code : str
        One word for programs, ``"unknown_experiment"``.
    message : str
        One sentence for people.
    retry_after : int, optional
        Seconds after which to try again.
    """

    def __init__(self, status: int, code: str, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.retry_after = status, code, message, retry_after


class Service:
    """The calls of the API on plain Python values; each method returns the JSON that its endpoint answers.

    Parameters
    ----------
    settings : Settings
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    async def start(self) -> None:
        """Open the store, and start the writer and the closer."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Write what waits and close the store."""
        raise NotImplementedError

    async def put(
        self, key: str, config: Mapping[str, Any], *, if_match: int | None = None, who: str = "local"
    ) -> dict[str, Any]:
        """Create an experiment, or change it: another meaning makes a new revision with fresh statistics.

        Returns
        -------
        dict
            ``{"key", "revision", "state"}``.
        """
        raise NotImplementedError

    async def set_state(self, key: str, to: str, *, reason: str = "", who: str = "local") -> dict[str, Any]:
        """Set ``running``, ``paused``, ``stopped`` or ``killed``; returns as :meth:`put`."""
        raise NotImplementedError

    async def kill_all(self, *, reason: str = "", who: str = "local") -> dict[str, Any]:
        """Kill every experiment that runs or pauses: ``{"killed": [key, ...]}``."""
        raise NotImplementedError

    async def experiments(self) -> list[dict[str, Any]]:
        """The newest revision of every experiment, by key; each as :meth:`experiment`."""
        raise NotImplementedError

    async def experiment(self, key: str) -> dict[str, Any]:
        """One experiment: ``{"key", "revision", "state", "created_at", **config}``; from memory, at most 1 s old.

        The configuration is complete: defaults are filled in.
        """
        raise NotImplementedError

    async def assign(
        self, key: str, request_id: str, *, unit: str | None = None, context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Say which rankings a request needs; nothing is stored.

        Parameters
        ----------
        key : str
        request_id : str
        unit : str, optional
            User or session: all requests of one unit are in the share, or none. Without it each request for itself.
        context : mapping, optional
            ``{"page": 1, "sort": null, "bot": false}``: a user's own sorting and bots get production.

        Returns
        -------
        dict
            ``{"serve": "interleaved", "rankers": ["prod", "new"], "assignment": "..."}``, ``{"serve": "production",
            "why": "share|control|sort|bot|draft|paused|stopped|killed", "rankers": ["prod"]}`` or, after a decision,
            ``{"serve": "winner", "rankers": ["new"]}``. ``why`` ``"control"``: call :meth:`show` with production's
            ranking all the same, as guardrails compare with it.
        """
        raise NotImplementedError

    async def show(
        self,
        key: str,
        request_id: str,
        rankings: Mapping[str, Sequence[str]],
        *,
        length: int | None = None,
        offset: int = 0,
        unit: str | None = None,
        query: str | None = None,
        assignment: str | None = None,
        elapsed_ms: float | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Merge rankings into one list, record it, and return it.

        Parameters
        ----------
        key, request_id : str
            The same request id is the same impression: the stored list is returned again.
        rankings : mapping of str to sequence of str
            Document ids by ranker, best first; production's must be there.
        length : int, optional
            Documents to show; the experiment's by default.
        offset : int, default=0
            Documents on earlier pages; a multiple of the number of rankers.
        unit, context
            As of :meth:`assign`.
        query : str, optional
            Kept only with ``log_query``.
        assignment : str, optional
            What :meth:`assign` returned; bandits need it.
        elapsed_ms : float, optional
            How long the engines took, for the guardrail.

        Returns
        -------
        dict
            ``{"token": str | None, "query_id": str | None, "serve": "interleaved" | "production" | "winner",
            "why": str (unless interleaved), "documents": [...], "replayed": bool}``. No token: nothing was recorded,
            send no clicks. Which ranker a document is from is never said.
        """
        raise NotImplementedError

    async def clicks(self, events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Record clicks: ``{"token", "document" | "place" (from 1), "action": "click", "dwell_s"?}`` each.

        Returns
        -------
        dict
            ``{"accepted": n, "duplicate": n, "late": n, "rejected": [{"index", "code"}]}``.
        """
        raise NotImplementedError

    def documents_of(self, token: str) -> list[str] | None:
        """The list behind a token if this process showed it lately, else None."""
        raise NotImplementedError

    def not_compared(self, key: str, why: str) -> None:
        """Count a request that got production because the challenger failed: ``"timeout"``, ``"junk"``, ..."""
        raise NotImplementedError

    async def report(self, key: str) -> dict[str, Any]:
        """How an experiment stands.

        Returns
        -------
        dict
            ``experiment`` (as :meth:`experiment`); the fields of ``Analysis.to_dict()`` (before the first closed
            impression ``n_impressions`` 0, ``pairs`` [], ``winner`` and ``leader`` None); and

            * ``verdict``: ``{"winner", "sentence", "p", "decided_at"}``: the always-valid answer;
            * ``pending``: impressions whose window is open; ``late``: clicks after their window; ``same``: lists
              on which the rankers agreed, not compared; ``control``: impressions of production beside it;
              ``not_compared``: ``{"n", "why": {"timeout": 3}}``;
            * ``as_of_seq``, ``as_of`` (ms): the last closed impression; ``lag_s``: how far the closer is behind;
            * ``series``: ``[{"n", "at", "pairs": [{"mean", "lower", "upper", "p"}]}]``, pairs as in ``pairs``;
            * ``guardrails``: ``[{"name", "alarm", "value", "limit", "n", "text"}]``;
            * ``bandit``: None or ``{"policy", "n_duels", "best", "rankers": [{"name", "duels", "wins", "losses",
              "ties", "share", "in_play"}], "wins": [[number]]}``; ``wins[i][j]``: duels that i won of j, ties half;
              ``share``: of the next duels.
        """
        raise NotImplementedError

    def export(self, key: str, format: str = "structsvm") -> AsyncIterator[bytes]:
        """The closed impressions as lines of JSON, a chunk of lines at a time.

        ``"structsvm"`` is the click log that ``structsvm interleave analyse`` reads: its answer is the report's.
        """
        raise NotImplementedError

    def rows(self, key: str) -> AsyncIterator[dict[str, Any]]:
        """The stored impressions of an experiment's newest revision, closed or not, in the order shown.

        Yields
        ------
        dict
            ``{"seq", "token", "shown_at" (ms), "serve", "documents", "query" (None unless logged), "clicks":
            [{"place" (from 1), "action", "at" (ms), "dwell_s", "late"}]}``.
        """
        raise NotImplementedError

    async def ready(self) -> dict[str, Any]:
        """``{"ready": bool, "writer": bool, "last_commit_s": float | None, "closer_lag_s": float}``."""
        raise NotImplementedError
