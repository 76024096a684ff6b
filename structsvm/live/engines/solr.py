"""Solr: the JSON request API and the answers of search handlers with ``wt=json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from structsvm.checks import BadInput
from structsvm.live.engines.answers import (
    NO_PARAMETERS,
    Query,
    UnusableAnswer,
    at_path,
    count_of,
    page_number,
    text_in,
)

_COSTLY = ("facet", "stats", "spellcheck", "debug", "debugQuery", "mlt", "terms")
"""Components whose answer is taken from production only, as parameters: the name, or the name and a point."""

_TRUE = (True, "true", "on")


class Solr:
    """Bodies of the JSON request API (``query``, ``limit``, ``offset``, ``sort``, ``params``), or ``{"q": text,
    "from": n, "size": n}``.

    Parameters in ``params`` are understood, too (``q``, ``start``, ``rows``, ``sort``). Highlighting of documents that
    only the challenger found is taken from its answer. ``score`` is left out of interleaved documents.

    Examples
    --------
    >>> from structsvm.live.engines import Solr
    >>> solr = Solr()
    >>> solr.read({"query": "lamp", "params": {"start": 20, "rows": 5}})
    Query(first=20, size=5, text='lamp', obstacle=None)
    >>> solr.read({"query": "lamp", "sort": "price asc"}).obstacle
    'sort'
    """

    label: ClassVar[str] = "solr"
    identity: ClassVar[str] = "id"
    page_parameters: ClassVar[tuple[str, ...]] = ()

    def read(self, body: Mapping[str, Any], parameters: Mapping[str, str] = NO_PARAMETERS) -> Query:
        """Return the page that is asked for, and whether its order is the ranker's to choose."""
        params = _params(body)
        first = page_number("offset", _first(body, params, ("offset", "from"), "start"), 0)
        size = page_number("limit", _first(body, params, ("limit", "size"), "rows"), 10)
        sort = _first(body, params, ("sort",), "sort")
        obstacle = None
        if not {"wt", "indent", "fl", "omitHeader", "json.nl"}.issuperset(parameters):
            obstacle = "parameters"
        elif size == 0:
            obstacle = "count"
        elif sort and (not isinstance(sort, str) or " ".join(sort.split()).lower() != "score desc"):
            obstacle = "sort"
        elif params.get("cursorMark"):
            obstacle = "page"
        elif params.get("group") in _TRUE or "{!collapse" in str(body.get("filter", "")) + str(
            params.get("fq")
        ):
            obstacle = "group"
        return Query(first, size, text_in(body, "q", "params.user_query", "query", "params.q"), obstacle)

    def is_plain(self, body: Mapping[str, Any]) -> bool:
        """Return whether Solr can read the client's body as it is."""
        return not {"q", "from", "size"} & set(body)

    def total(self, answer: Mapping[str, Any]) -> int | None:
        """Return how many documents there are; None where the answer does not say it."""
        return count_of(at_path(answer, "response.numFound"))

    def body(self, body: Mapping[str, Any], first: int, size: int, *, lean: bool) -> dict[str, Any]:
        """Return the body to send; a lean one asks for the ranking only, not for what comes from production."""
        sent = {name: value for name, value in body.items() if name not in ("q", "from", "size")}
        if "q" in body:
            sent.setdefault("query", body["q"])
        params = {name: value for name, value in _params(body).items() if name not in ("start", "rows")}
        if lean:
            sent.pop("facet", None)
            params = {name: value for name, value in params.items() if name.split(".")[0] not in _COSTLY}
            params.pop("ubi", None)
        if params:
            sent["params"] = params
        else:
            sent.pop("params", None)
        sent["offset"], sent["limit"] = first, size
        return sent

    def query(self, body: Mapping[str, Any]) -> Any:
        """Return what stands for ``"{query}"`` in a configured body."""
        return body.get("query")

    def documents(self, answer: Mapping[str, Any]) -> Sequence[Any]:
        """Return the documents; raise ``UnusableAnswer`` for partial results."""
        if at_path(answer, "responseHeader.partialResults"):
            raise UnusableAnswer("partial", "partial results")
        docs = at_path(answer, "response.docs")
        if not isinstance(docs, list):
            raise UnusableAnswer("junk", "expected response.docs")
        return docs

    def merge(
        self,
        production: Mapping[str, Any],
        others: Sequence[Mapping[str, Any]],
        chosen: Sequence[Mapping[str, Any]],
        ids: Sequence[str],
    ) -> dict[str, Any]:
        """Return production's answer with the chosen documents, which do not tell who found them."""
        docs = [{name: value for name, value in doc.items() if name != "score"} for doc in chosen]
        answer = {**production, "response": {**production["response"], "docs": docs}}
        answer["response"].pop("maxScore", None)
        if isinstance(production.get("highlighting"), Mapping):
            known: dict[str, Any] = {}
            for one in (*others, production):
                found = one.get("highlighting")
                known.update(found if isinstance(found, Mapping) else {})
            answer["highlighting"] = {name: known[name] for name in ids if name in known}
        return answer

    def named(self, answer: Mapping[str, Any], query_id: str | None) -> dict[str, Any]:
        """Return an answer with the token that clicks refer to."""
        return dict(answer) if query_id is None else {**answer, "ubi": {"query_id": query_id}}


def _params(body: Mapping[str, Any]) -> Mapping[str, Any]:
    params = body.get("params")
    if params is None:
        return {}
    if not isinstance(params, Mapping):
        raise BadInput("params", "expected an object", value=params)
    return params


def _first(body: Mapping[str, Any], params: Mapping[str, Any], names: Sequence[str], param: str) -> Any:
    for name in names:
        if body.get(name) is not None:
            return body[name]
    return params.get(param)
