"""A custom search service that receives JSON and returns JSON with a list of documents."""

from collections.abc import Mapping, Sequence
from typing import Any

from structsvm.live.contract.conversion import text_in
from structsvm.live.engines.answers import Dialect, Object, Query, page_number


class PlainHTTP(Dialect):
    """Requests ``{"q": text, "from": n, "size": n}``; responses ``{"documents": [...], ...}``.

    Documents are objects with an ``id``, or the ids themselves. Other fields of a request are known, and passed on, if
    the configuration lists them in ``also``. All other fields of the response come from production.

    Examples
    --------
    >>> from structsvm.live.engines import PlainHTTP
    >>> http = PlainHTTP()
    >>> http.read({"q": "lamp", "from": 10, "size": 5})
    Query(first=10, size=5, text='lamp', reason=None)
    >>> http.documents({"documents": ["d7", "d2"], "took": 3})
    [{'id': 'd7'}, {'id': 'd2'}]
    """

    label = "http"
    keys = frozenset(("q", "from", "size"))
    documents_at = "documents"
    total_at = ("total",)

    def page(self, body: Object, parameters: Mapping[str, str]) -> Query:
        return Query(
            page_number("from", body.get("from"), 0),
            page_number("size", body.get("size"), 10),
            text_in(body, "q"),
        )

    def body(self, body: Object, first: int, size: int, *, lean: bool) -> dict[str, Any]:
        # lean bodies are not shorter, as nothing is known about the other fields
        return {**body, "from": first, "size": size}

    def documents(self, answer: Object) -> Sequence[Any]:
        return [{"id": one} if isinstance(one, (str, int)) else one for one in super().documents(answer)]

    def merge(
        self,
        production: Object,
        others: Sequence[Object],
        chosen: Sequence[Object],
        ids: Sequence[str],
        first: int,
    ) -> dict[str, Any]:
        # return bare ids if production does
        bare = all(isinstance(one, (str, int)) for one in production["documents"])
        return {**production, "documents": [one["id"] for one in chosen] if bare else list(chosen)}

    def named(self, answer: Object, query_id: str) -> dict[str, Any]:
        return {**answer, "query_id": query_id}
