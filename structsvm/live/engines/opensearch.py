"""The ``_search`` requests and responses of OpenSearch and Elasticsearch."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from structsvm.live.contract.conversion import listed, text_in
from structsvm.live.engines.answers import Dialect, Names, Object, Query, Unknown, check_known, page_number

_RANKS = {"query", "post_filter", "rescore", "indices_boost", "runtime_mappings"}
"""Keys that determine the order; sent to all engines."""

_OF_HITS = {
    "_source",
    "fields",
    "stored_fields",
    "docvalue_fields",
    "highlight",
    "version",
    "seq_no_primary_term",
}
"""Keys that describe each hit separately; sent to all engines."""

_WHOLE = {"aggs", "aggregations", "suggest", "track_total_hits", "stats"}
"""Keys whose results concern the whole search and come from production."""

_KEYS = _RANKS | _OF_HITS | _WHOLE | {"from", "size", "timeout", "q", "ext"}

_RETRIEVERS = {
    "standard": {"query", "filter"},
    "knn": {
        "field",
        "query_vector",
        "query_vector_builder",
        "k",
        "num_candidates",
        "similarity",
        "filter",
        "rescore_vector",
    },
    "rrf": {"retrievers", "rank_window_size", "filter", "rank_constant"},
    "linear": {"retrievers", "rank_window_size", "filter", "normalizer"},
}
"""Known retrievers, and the keys of each."""

_ANSWER = {
    "took",
    "timed_out",
    "_shards",
    "_clusters",
    "hits",
    "aggregations",
    "suggest",
    "terminated_early",
    "num_reduce_phases",
    "ext",
}
_HIT = {
    "_index",
    "_type",
    "_id",
    "_score",
    "_source",
    "fields",
    "highlight",
    "_version",
    "_seq_no",
    "_primary_term",
    "_routing",
    "_ignored",
}


class OpenSearch(Dialect):
    """Bodies of the query DSL, or ``{"q": text, "from": n, "size": n}`` if the configuration has a ``body``.

    In an interleaved response ``_score`` and ``max_score`` are null, as in lists sorted by a field: scores of two
    rankers cannot be compared, and would reveal the ranker of a hit.

    Examples
    --------
    >>> from structsvm.live.engines import OpenSearch
    >>> OpenSearch().read({"query": {"match": {"title": "lamp"}}, "from": 10, "size": 10})
    Query(first=10, size=10, text=None, reason=None)
    >>> OpenSearch().read({"query": {"match_all": {}}, "sort": [{"price": "asc"}]}).reason
    'key:sort'
    """

    label = "opensearch"
    identity = "_id"
    addressed = frozenset(
        (
            "from",
            "size",
            "routing",
            "preference",
            "request_cache",
            "ignore_unavailable",
            "allow_no_indices",
            "expand_wildcards",
            "timeout",
            "typed_keys",
            "rest_total_hits_as_int",
            "pretty",
            "human",
            "error_trace",
            "max_concurrent_shard_requests",
            "batched_reduce_size",
            "pre_filter_shard_size",
            "ccs_minimize_roundtrips",
            "allow_partial_search_results",
            "cancel_after_time_interval",
            "_source",
            "_source_includes",
            "_source_excludes",
            "version",
            "seq_no_primary_term",
        )
    )
    keys = frozenset(_KEYS | {"derived"})
    # engines refuse a retriever together with the fields that it replaces
    replaces: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "query": ("query", "retriever"),
        "rescore": ("rescore",),
        "knn": ("knn",),
        "retriever": ("retriever", "query", "knn", "rescore"),
    }
    page_parameters = ("from", "size")
    documents_at = "hits.hits"
    total_at = ("hits.total.value", "hits.total")
    partial_at = ("timed_out", "_shards.failed")
    reads_ubi = True
    """Whether the engine takes ``ext.ubi`` in a request."""

    def page(self, body: Object, parameters: Mapping[str, str]) -> Query:
        return Query(
            page_number("from", parameters.get("from", body.get("from")), 0),
            page_number("size", parameters.get("size", body.get("size")), 10),
            text_in(body, "q", "ext.ubi.user_query"),
        )

    def check_values(self, body: Object, parameters: Mapping[str, str], last: int, also: Names) -> None:
        check_known("ext", _mapping(body.get("ext")), ("ubi",), also)
        for name in ("query", "post_filter", "rescore", "knn", "retriever"):
            _check_names(body.get(name), also)
        # the order of a fusion depends on its window, so all pages must use the same window
        hybrid = _mapping(body.get("query")).get("hybrid")
        if hybrid is not None:
            _check_window("pagination_depth", _mapping(hybrid), last)
        for one in listed(body.get("knn")):
            _check_window("k", _mapping(one), last)
        if "retriever" in body:
            _check_retriever(body["retriever"], last, also)

    def check_answer(self, answer: Object, documents: Sequence[Any], also: Names) -> None:
        check_known("answer", answer, _ANSWER, also)
        check_known("answer", _mapping(answer.get("ext")), ("ubi",), also)
        for hit in documents:
            check_known("hit", hit, _HIT, also)
            if "_ltrlog" in _mapping(hit.get("fields")):
                raise Unknown("hit", "_ltrlog")

    def is_plain(self, body: Object) -> bool:
        return "q" not in body and (self.reads_ubi or "ubi" not in _mapping(body.get("ext")))

    def body(self, body: Object, first: int, size: int, *, lean: bool) -> dict[str, Any]:
        left_out = {"q", "ext", *_WHOLE} if lean else {"q"}  # searches are logged only once, by production
        sent = {name: value for name, value in body.items() if name not in left_out}
        sent |= {"from": first, "size": size} | ({"track_total_hits": False} if lean else {})
        if "ext" in sent and not self.reads_ubi:
            kept = {name: value for name, value in _mapping(sent.pop("ext")).items() if name != "ubi"}
            sent |= {"ext": kept} if kept else {}
        return sent

    def query(self, body: Object) -> Any:
        return body.get("query", None if "q" in body else {"match_all": {}})

    def merge(
        self,
        production: Object,
        others: Sequence[Object],
        chosen: Sequence[Object],
        ids: Sequence[str],
        first: int,
    ) -> dict[str, Any]:
        hits = [{**hit, "_score": None} for hit in chosen]
        return {**production, "hits": {**production["hits"], "hits": hits, "max_score": None}}

    def named(self, answer: Object, query_id: str) -> dict[str, Any]:
        ext = _mapping(answer.get("ext"))
        return {**answer, "ext": {**ext, "ubi": {**_mapping(ext.get("ubi")), "query_id": query_id}}}


class Elasticsearch(OpenSearch):
    """Like OpenSearch, but with ``knn`` and ``retriever``, and without ``ext.ubi``, which Elasticsearch refuses.

    Examples
    --------
    >>> from structsvm.live.engines import Elasticsearch, OpenSearch
    >>> body = {"query": {"match_all": {}}, "ext": {"ubi": {"user_query": "lamp"}}}
    >>> [sorted(dialect.body(body, 0, 10, lean=False)) for dialect in (OpenSearch(), Elasticsearch())]
    [['ext', 'from', 'query', 'size'], ['from', 'query', 'size']]
    """

    label = "elasticsearch"
    keys = frozenset(_KEYS | {"knn", "retriever"})
    reads_ubi = False


def _mapping(value: object) -> Object:
    return value if isinstance(value, Mapping) else {}


def _check_window(name: str, part: Object, last: int) -> None:
    """Raise Unknown unless a window reaches the last document of the page."""
    value = part.get(name)
    if type(value) is not int or value < last:
        raise Unknown("window", name)


def _check_names(part: object, also: Names) -> None:
    """Raise Unknown for named queries: hits list the names, which another ranker's query would lack."""
    waiting = [part]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            check_known("query", [name for name in ("inner_hits", "_name") if name in part], (), also)
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


def _check_retriever(node: object, last: int, also: Names) -> None:
    """Raise Unknown for an unknown retriever, or one whose window ends before the document ``last``."""
    if not isinstance(node, Mapping):
        raise Unknown("key", "retriever")
    if "retriever" in node:  # an entry of a fusion, with its weight
        check_known("retriever", node, ("retriever", "weight", "normalizer"), also)
        node = _mapping(node["retriever"])
    for kind, given in node.items():
        given = _mapping(given)
        check_known("retriever", (kind,), _RETRIEVERS, also)
        check_known("retriever", given, _RETRIEVERS.get(kind, ()), also)
        if last and kind != "standard":
            _check_window("k" if kind == "knn" else "rank_window_size", given, last)
        for one in listed(given.get("retrievers")):
            _check_retriever(one, 0, also)  # pages are cut from the outermost window
