"""Common parts of dialects: methods, parsed requests, known fields of requests and responses, dotted paths."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from structsvm.common.checks import BadInput
from structsvm.live.contract.conversion import at_path

Object = Mapping[str, Any]
"""An object of JSON."""

MAX_PAGE = 10_000
"""Largest number of documents before a page, and on a page; OpenSearch and Elasticsearch refuse more by default."""

Parameters = Sequence[tuple[str, str]]
"""Names and values in the address of a request."""

Names = Collection[str]

NONE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Query:
    """A client's search: page and text, read from the request body."""

    first: int  # documents before the page
    size: int
    text: str | None = None  # text typed by the user
    reason: str | None = None
    """Why the list comes from production: the first unknown part of the request, as ``kind:name``."""

    @property
    def last(self) -> int:
        """Number of documents up to the end of the page."""
        return self.first + self.size


class UnusableAnswer(Exception):
    """Raised for a response of an engine without a ranking; ``reason`` is one word, for counters and headers."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


class Unknown(UnusableAnswer):
    """Raised for a part of a request or response not known to be safe to merge; the reason is ``kind:name``."""

    def __init__(self, kind: str, name: object) -> None:
        # names come from the client, and the reason becomes a header
        usable = isinstance(name, str) and re.fullmatch(r"[\w.@$-]{1,64}", name, re.ASCII)
        super().__init__(f"{kind}:{name if usable else 'other'}")


class Dialect(Protocol):
    """Requests and responses of one kind of engine; attributes ending in ``_at`` are dotted paths in its responses.

    A list is merged only if each part of the request is known to affect ranking (sent to all engines), to describe a
    single hit or the whole response (taken from production), or to select the page. Otherwise the list comes from
    production.
    """

    label: ClassVar[str]
    identity: ClassVar[str] = "id"
    """Dotted path of the id in a document."""
    addressed: ClassVar[frozenset[str]] = NONE
    """Known parameters of the address."""
    keys: ClassVar[frozenset[str]] = NONE
    """Known keys of a body."""
    replaces: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """For each key of a configured body, the keys of the client's body that it replaces."""
    page_parameters: ClassVar[tuple[str, ...]] = ()
    """Names of the address that select the page, which are left out where other documents are requested."""
    documents_at: ClassVar[str]
    total_at: ClassVar[tuple[str, ...]]
    partial_at: ClassVar[tuple[str, ...]] = ()
    """Paths whose value is true in partial responses."""

    def read(self, body: Object, parameters: Parameters = (), also: Names = NONE) -> Query:
        """Return the client's query, with the reason if only production may answer; names in ``also`` count as
        known."""
        query = self.page(body, dict(parameters))
        try:
            names = [name for name, _ in parameters]
            if len(set(names)) < len(names):
                raise Unknown("parameter", "twice")
            check_known("parameter", names, self.addressed, also)
            check_known("key", body, self.keys, also)
            if query.size == 0:
                raise Unknown("count", "size")
            self.check_values(body, dict(parameters), query.last, also)
        except Unknown as unknown:
            return replace(query, reason=unknown.reason)
        return query

    def page(self, body: Object, parameters: Mapping[str, str]) -> Query:
        """Return a query with the first document and the size of the page; raise BadInput if they are invalid."""

    def check_values(self, body: Object, parameters: Mapping[str, str], last: int, also: Names) -> None:
        """Raise Unknown if a known key has an unknown value; ``last`` is the last document of the page."""

    def check_answer(self, answer: Object, documents: Sequence[Any], also: Names) -> None:
        """Raise Unknown if a response or a document has unknown fields."""

    def is_plain(self, body: Object) -> bool:
        """Return whether the engine can read the client's body unchanged."""
        return True

    def body(self, body: Object, first: int, size: int, *, lean: bool) -> dict[str, Any]:
        """Return the body to send; a lean body asks only for the ranking, not for parts taken from production.

        The documents are those of the client's page, or all up to its end (``first`` is 0); ``size`` may be 0.
        """

    def query(self, body: Object) -> Any:
        """Return the client's query, for ``"{query}"`` in a configured body."""
        return body.get("query")

    def total(self, answer: Object) -> int | None:
        """Return a lower bound on the number of matching documents; None if the response has none."""
        counts = (at_path(answer, path) for path in self.total_at)
        return next((n for n in counts if type(n) is int and n >= 0), None)

    def documents(self, answer: Object) -> Sequence[Any]:
        """Return the documents; raise ``UnusableAnswer`` if they are missing or incomplete."""
        for path in self.partial_at:
            if at_path(answer, path):
                raise UnusableAnswer("partial", f"{path} is {at_path(answer, path)}")
        found = at_path(answer, self.documents_at)
        if not isinstance(found, list):
            raise UnusableAnswer("junk", f"expected a list at {self.documents_at}")
        return found

    def merge(
        self,
        production: Object,
        others: Sequence[Object],
        chosen: Sequence[Object],
        ids: Sequence[str],
        first: int,
    ) -> dict[str, Any]:
        """Return production's response with the chosen documents, without any sign of which ranker retrieved them.

        ``production`` is the response from the first document on, also for a page that begins after ``first`` others.
        """

    def named(self, answer: Object, query_id: str) -> dict[str, Any]:
        """Return a response with the token that clicks refer to."""


def check_known(kind: str, names: Iterable[str], known: Names, also: Names) -> None:
    """Raise Unknown for the first name that is in neither collection."""
    for name in names:
        if name not in known and name not in also:
            raise Unknown(kind, name)


def label_of(reason: str) -> str:
    """Return a reason as a label of metrics; undocumented names become "other", so that labels stay few."""
    kind, colon, name = reason.partition(":")
    return reason if not colon or name in _DOCUMENTED else f"{kind}:other"


_DOCUMENTED = {
    "_explanation",
    "_ltrlog",
    "_name",
    "allowSyntax",
    "analyze_wildcard",
    "analyzer",
    "cache",
    "clustering",
    "collapse",
    "collection",
    "cpuAllowed",
    "cursorMark",
    "debug",
    "debugQuery",
    "default_operator",
    "df",
    "distrib",
    "elevateIds",
    "empty",
    "enableElevation",
    "excludeIds",
    "expand",
    "expand.field",
    "expand.rows",
    "expanded",
    "explain",
    "explainOther",
    "fields",
    "filter",
    "filter_path",
    "forceElevation",
    "format",
    "fq",
    "group",
    "group.field",
    "group.limit",
    "group.main",
    "grouped",
    "HEAD",
    "ignore_throttled",
    "include_named_queries_score",
    "index",
    "inner_hits",
    "json.facet",
    "json.filter",
    "json.query",
    "json.sort",
    "k",
    "knn",
    "lenient",
    "local_parameters",
    "logParamsList",
    "long",
    "ltr_log",
    "matched_queries",
    "memAllowed",
    "min_score",
    "minExactCount",
    "mlt",
    "mlt.fl",
    "moreLikeThis",
    "nextCursorMark",
    "object",
    "pagination_depth",
    "phase_took",
    "pinned",
    "pit",
    "pit_id",
    "profile",
    "qt",
    "queries",
    "rank",
    "rank_window_size",
    "rerank",
    "rescorer",
    "retriever",
    "script_fields",
    "scroll",
    "search_after",
    "search_pipeline",
    "search_type",
    "segmentTerminateEarly",
    "shards",
    "shards.tolerant",
    "size",
    "slice",
    "sort",
    "source",
    "sub_searches",
    "terminate_after",
    "terms",
    "track_scores",
    "transformer",
    "twice",
    "type",
    "useParams",
    "verbose_pipeline",
    "wt",
}
"""Names from the documentation of engines for which production answers alone, and names of this service."""


def page_number(name: str, value: object, default: int) -> int:
    """Return a count of documents from a request: 0 to 10,000, for Solr also as text; else raise BadInput."""
    if value is None:
        return default
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 6:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_PAGE:
        raise BadInput(name, f"expected an integer from 0 to {MAX_PAGE}", value=value)
    return value
