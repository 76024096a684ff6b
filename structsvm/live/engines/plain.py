"""A search service of your own: JSON in, JSON with a list of documents out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from structsvm.live.engines.answers import (
    NO_PARAMETERS,
    Query,
    UnusableAnswer,
    count_of,
    page_number,
    text_in,
)


class PlainHTTP:
    """Requests ``{"q": text, "from": n, "size": n, ...}``; answers ``{"documents": [...], ...}``.

    Documents are objects with an ``id``, or the ids themselves. All other fields of the request are passed on, all
    other fields of the answer are production's. ``sort`` in a request means that the user chose an order.

    Examples
    --------
    >>> from structsvm.live.engines import PlainHTTP
    >>> http = PlainHTTP()
    >>> http.read({"q": "lamp", "from": 10, "size": 5})
    Query(first=10, size=5, text='lamp', obstacle=None)
    >>> http.documents({"documents": ["d7", "d2"], "took": 3})
    [{'id': 'd7'}, {'id': 'd2'}]
    """

    label: ClassVar[str] = "http"
    identity: ClassVar[str] = "id"
    page_parameters: ClassVar[tuple[str, ...]] = ()

    def read(self, body: Mapping[str, Any], parameters: Mapping[str, str] = NO_PARAMETERS) -> Query:
        """Return the page that is asked for, and whether its order is the ranker's to choose."""
        first, size = page_number("from", body.get("from"), 0), page_number("size", body.get("size"), 10)
        obstacle = (
            "count" if size == 0 else "sort" if body.get("sort") else "parameters" if parameters else None
        )
        return Query(first, size, text_in(body, "q"), obstacle)

    def is_plain(self, body: Mapping[str, Any]) -> bool:
        """Return whether the service can read the client's body as it is."""
        return True

    def total(self, answer: Mapping[str, Any]) -> int | None:
        """Return how many documents there are; None where the answer does not say it in ``total``."""
        return count_of(answer.get("total"))

    def body(self, body: Mapping[str, Any], first: int, size: int, *, lean: bool) -> dict[str, Any]:
        """Return the body to send; the same for both kinds, as nothing is known of its other fields."""
        return {**body, "from": first, "size": size}

    def query(self, body: Mapping[str, Any]) -> Any:
        """Return what stands for ``"{query}"`` in a configured body."""
        return body.get("query")

    def documents(self, answer: Mapping[str, Any]) -> Sequence[Any]:
        """Return the documents."""
        found = answer.get("documents")
        if not isinstance(found, list):
            raise UnusableAnswer("junk", "expected documents")
        return [{"id": one} if isinstance(one, (str, int)) else one for one in found]

    def merge(
        self,
        production: Mapping[str, Any],
        others: Sequence[Mapping[str, Any]],
        chosen: Sequence[Mapping[str, Any]],
        ids: Sequence[str],
    ) -> dict[str, Any]:
        """Return production's answer with the chosen documents, as ids where it has ids."""
        bare = all(isinstance(one, (str, int)) for one in production["documents"])
        return {**production, "documents": [one["id"] for one in chosen] if bare else list(chosen)}

    def named(self, answer: Mapping[str, Any], query_id: str | None) -> dict[str, Any]:
        """Return an answer with the token that clicks refer to."""
        return dict(answer) if query_id is None else {**answer, "query_id": query_id}
