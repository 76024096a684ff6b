"""The ``_search`` requests and answers of OpenSearch and Elasticsearch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from structsvm.live.engines.answers import (
    NO_PARAMETERS,
    Query,
    UnusableAnswer,
    at_path,
    count_of,
    page_number,
    text_in,
)

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


class OpenSearch:
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

    label: ClassVar[str] = "opensearch"
    identity: ClassVar[str] = "_id"
    page_parameters: ClassVar[tuple[str, ...]] = ("from", "size")
    keeps_ext: ClassVar[bool] = True

    def read(self, body: Mapping[str, Any], parameters: Mapping[str, str] = NO_PARAMETERS) -> Query:
        """Return the page that is asked for, and whether its order is the ranker's to choose."""
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

    def is_plain(self, body: Mapping[str, Any]) -> bool:
        """Return whether the engine can read the client's body as it is."""
        return "q" not in body and (self.keeps_ext or "ext" not in body)

    def total(self, answer: Mapping[str, Any]) -> int | None:
        """Return how many documents there are, at least; None where the answer does not say it."""
        found = at_path(answer, "hits.total")
        found = found.get("value") if isinstance(found, Mapping) else found
        return count_of(found)

    def body(self, body: Mapping[str, Any], first: int, size: int, *, lean: bool) -> dict[str, Any]:
        """Return the body to send; a lean one asks for the ranking only, not for what comes from production."""
        sent = {name: value for name, value in body.items() if name != "q"}
        sent["from"], sent["size"] = first, size
        if lean:
            for name in _COSTLY:
                sent.pop(name, None)
            sent["track_total_hits"] = False
        if lean or not self.keeps_ext:  # logged once, by production
            sent.pop("ext", None)
        return sent

    def query(self, body: Mapping[str, Any]) -> Any:
        """Return what stands for ``"{query}"`` in a configured body."""
        return body.get("query", None if "q" in body else {"match_all": {}})

    def documents(self, answer: Mapping[str, Any]) -> Sequence[Any]:
        """Return the hits; raise ``UnusableAnswer`` where shards failed or time ran out."""
        if answer.get("timed_out") is True or at_path(answer, "_shards.failed"):
            raise UnusableAnswer("partial", "shards failed or timed out")
        hits = at_path(answer, "hits.hits")
        if not isinstance(hits, list):
            raise UnusableAnswer("junk", "expected hits.hits")
        return hits

    def merge(
        self,
        production: Mapping[str, Any],
        others: Sequence[Mapping[str, Any]],
        chosen: Sequence[Mapping[str, Any]],
        ids: Sequence[str],
    ) -> dict[str, Any]:
        """Return production's answer with the chosen hits, which do not tell who found them."""
        hits = [
            {**{name: value for name, value in hit.items() if name not in _TELLING}, "_score": None}
            for hit in chosen
        ]
        return {**production, "hits": {**production["hits"], "hits": hits, "max_score": None}}

    def named(self, answer: Mapping[str, Any], query_id: str | None) -> dict[str, Any]:
        """Return an answer with the token that clicks refer to."""
        if query_id is None:
            return dict(answer)
        ext = _mapping(answer.get("ext"))
        return {**answer, "ext": {**ext, "ubi": {**_mapping(ext.get("ubi")), "query_id": query_id}}}


def _mapping(value: Any) -> Mapping[str, Any]:
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

    label: ClassVar[str] = "elasticsearch"
    keeps_ext: ClassVar[bool] = False
