"""The ``_search`` requests and answers of OpenSearch and Elasticsearch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from structsvm.live.engines.answers import NO_PARAMETERS, Dialect, Object, Query, page_number, text_in

_COSTLY = ("aggs", "aggregations", "suggest", "profile")
"""Parts of a request whose answer is taken from production only."""

_TELLING = ("_explanation", "matched_queries", "_search_configuration_id")
"""Parts of a hit that tell which ranker found it."""

_HARMLESS = frozenset(
    (
        "from", "size", "routing", "preference", "request_cache", "ignore_unavailable", "allow_no_indices",
        "expand_wildcards", "timeout", "typed_keys", "rest_total_hits_as_int", "pretty", "human", "error_trace",
        "max_concurrent_shard_requests", "batched_reduce_size", "pre_filter_shard_size",
        "ccs_minimize_roundtrips", "allow_partial_search_results", "cancel_after_time_interval", "_source",
        "_source_includes", "_source_excludes", "version", "seq_no_primary_term",
    )
)  # fmt: skip
"""Parameters of the address that leave the order to the ranker."""

_BY_SCORE = ("_score", ["_score"], [{"_score": "desc"}], [{"_score": {"order": "desc"}}], {"_score": "desc"})


class OpenSearch(Dialect):
    """Bodies of the query DSL, or ``{"q": text, "from": n, "size": n}`` where the configuration has a ``body``.

    In an interleaved answer ``_score`` and ``max_score`` are null, as in lists sorted by a field: scores of two
    rankers cannot be compared, and would tell which ranker a hit is from.

    Examples
    --------
    >>> from structsvm.live.engines import OpenSearch
    >>> OpenSearch().read({"query": {"match": {"title": "lamp"}}, "from": 10, "size": 10})
    Query(first=10, size=10, text=None, obstacle=None)
    >>> OpenSearch().read({"query": {"match_all": {}}, "sort": [{"price": "asc"}]}).obstacle
    'sort'
    """

    label = "opensearch"
    identity = "_id"
    page_parameters = ("from", "size")
    documents_at = "hits.hits"
    total_at = ("hits.total.value", "hits.total")
    partial_at = ("timed_out", "_shards.failed")
    keeps_ext = True

    def read(self, body: Object, parameters: Mapping[str, str] = NO_PARAMETERS) -> Query:
        first = page_number("from", parameters.get("from", body.get("from")), 0)
        size = page_number("size", parameters.get("size", body.get("size")), 10)
        obstacle = None
        if not _HARMLESS.issuperset(parameters):
            obstacle = "parameters"
        elif size == 0:
            obstacle = "count"
        elif body.get("sort") and body["sort"] not in _BY_SCORE:
            obstacle = "sort"
        elif "search_after" in body or "scroll" in body or "slice" in body:
            obstacle = "page"
        elif "collapse" in body:
            obstacle = "group"
        return Query(first, size, text_in(body, "q", "ext.ubi.user_query"), obstacle)

    def is_plain(self, body: Object) -> bool:
        return "q" not in body and (self.keeps_ext or "ext" not in body)

    def body(self, body: Object, first: int, size: int, *, lean: bool) -> dict[str, Any]:
        sent = {name: value for name, value in body.items() if name != "q"}
        sent["from"], sent["size"] = first, size
        if lean:
            for name in _COSTLY:
                sent.pop(name, None)
            sent["track_total_hits"] = False
        if lean or not self.keeps_ext:  # logged once, by production
            sent.pop("ext", None)
        return sent

    def query(self, body: Object) -> Any:
        return body.get("query", None if "q" in body else {"match_all": {}})

    def merge(
        self, production: Object, others: Sequence[Object], chosen: Sequence[Object], ids: Sequence[str]
    ) -> dict[str, Any]:
        hits = [
            {**{name: value for name, value in hit.items() if name not in _TELLING}, "_score": None}
            for hit in chosen
        ]
        return {**production, "hits": {**production["hits"], "hits": hits, "max_score": None}}

    def named(self, answer: Object, query_id: str) -> dict[str, Any]:
        ext = _mapping(answer.get("ext"))
        return {**answer, "ext": {**ext, "ubi": {**_mapping(ext.get("ubi")), "query_id": query_id}}}


def _mapping(value: Any) -> Object:
    return value if isinstance(value, Mapping) else {}


class Elasticsearch(OpenSearch):
    """As OpenSearch, without ``ext``, which Elasticsearch refuses in requests.

    Examples
    --------
    >>> from structsvm.live.engines import Elasticsearch, OpenSearch
    >>> body = {"query": {"match_all": {}}, "ext": {"ubi": {"user_query": "lamp"}}}
    >>> [sorted(dialect.body(body, 0, 10, lean=False)) for dialect in (OpenSearch(), Elasticsearch())]
    [['ext', 'from', 'query', 'size'], ['from', 'query', 'size']]
    """

    label = "elasticsearch"
    keeps_ext = False
