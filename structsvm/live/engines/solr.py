"""Solr: the JSON request API and the answers of search handlers with ``wt=json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from structsvm.common.checks import BadInput
from structsvm.live.engines.answers import NO_PARAMETERS, Dialect, Object, Query, page_number, text_in

_COSTLY = ("facet", "stats", "spellcheck", "debug", "debugQuery", "mlt", "terms")
"""Components whose answer is taken from production only, as parameters: the name, or the name and a point."""

_TRUE = (True, "true", "on")


class Solr(Dialect):
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

    label = "solr"
    documents_at = "response.docs"
    total_at = ("response.numFound",)
    partial_at = ("responseHeader.partialResults",)

    def read(self, body: Object, parameters: Mapping[str, str] = NO_PARAMETERS) -> Query:
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

    def is_plain(self, body: Object) -> bool:
        return not {"q", "from", "size"} & set(body)

    def body(self, body: Object, first: int, size: int, *, lean: bool) -> dict[str, Any]:
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

    def merge(
        self, production: Object, others: Sequence[Object], chosen: Sequence[Object], ids: Sequence[str]
    ) -> dict[str, Any]:
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

    def named(self, answer: Object, query_id: str) -> dict[str, Any]:
        return {**answer, "ubi": {"query_id": query_id}}


def _params(body: Object) -> Object:
    params = body.get("params")
    if params is None:
        return {}
    if not isinstance(params, Mapping):
        raise BadInput("params", "expected an object", value=params)
    return params


def _first(body: Object, params: Object, names: Sequence[str], param: str) -> Any:
    for name in names:
        if body.get(name) is not None:
            return body[name]
    return params.get(param)
