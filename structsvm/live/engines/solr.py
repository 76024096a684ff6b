"""Solr: the JSON request API and the responses of search handlers with ``wt=json``."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from structsvm.common.checks import BadInput
from structsvm.live.contract.conversion import listed, text_in
from structsvm.live.engines.answers import Dialect, Names, Object, Query, Unknown, check_known, page_number

_PARAMS = frozenset(
    (
        # parameters that affect ranking, sent to all engines
        "q",
        "q.op",
        "q.alt",
        "df",
        "defType",
        "qf",
        "pf",
        "pf2",
        "pf3",
        "ps",
        "ps2",
        "ps3",
        "qs",
        "mm",
        "mm.autoRelax",
        "tie",
        "bq",
        "bf",
        "boost",
        "uf",
        "sow",
        "stopwords",
        "lowercaseOperators",
        "fq",
        "rq",
        "NOW",
        "TZ",
        # paging, texts and formats of a response
        "start",
        "rows",
        "sort",
        "fl",
        "wt",
        "indent",
        "omitHeader",
        "echoParams",
        "json.nl",
        "timeAllowed",
        "user_query",
        "ubi",
        "hl",
        "facet",
        "stats",
        "spellcheck",
    )
)
"""Known parameters; ``_OF_COMPONENT`` matches those of components, such as ``hl.fl``, also per field
(``f.price.facet.range.gap``)."""

_OF_COMPONENT = re.compile(r"(hl|facet|stats|spellcheck)\..+|f\.[\w-]+\.(hl|facet|stats)\..+", re.ASCII)
_WHOLE = re.compile(r"ubi|(f\.[\w-]+\.)?(facet|stats|spellcheck)(\..+)?", re.ASCII)
"""Parameters whose results concern the whole search and come from production."""

_TAGGED = re.compile(r"\{!tag=[\w,.-]+\}")
_FIELDS = re.compile(r"[\w*?.,\s-]*")

_ANSWER = {
    "responseHeader",
    "response",
    "facets",
    "facet_counts",
    "stats",
    "spellcheck",
    "highlighting",
    "ubi",
}


class Solr(Dialect):
    """Bodies of the JSON request API (``query``, ``limit``, ``offset``, ``sort``, ``params``), or ``{"q": text,
    "from": n, "size": n}``.

    Parameters in ``params`` are understood, too (``q``, ``start``, ``rows``, ``sort``). Highlighting of documents that
    only the challenger retrieved is taken from its response. Interleaved documents omit ``score``.

    Examples
    --------
    >>> from structsvm.live.engines import Solr
    >>> solr = Solr()
    >>> solr.read({"query": "lamp", "params": {"start": 20, "rows": 5}})
    Query(first=20, size=5, text='lamp', reason=None)
    >>> solr.read({"query": "lamp", "sort": "price asc"}).reason
    'key:sort'
    """

    label = "solr"
    addressed = frozenset(("wt", "indent", "fl", "omitHeader", "json.nl"))
    keys = frozenset(
        ("query", "filter", "offset", "limit", "fields", "sort", "facet", "params", "q", "from", "size")
    )
    replaces: ClassVar[Mapping[str, tuple[str, ...]]] = {"query": ("query",)}
    documents_at = "response.docs"
    total_at = ("response.numFound",)
    partial_at = ("responseHeader.partialResults",)

    def page(self, body: Object, parameters: Mapping[str, str]) -> Query:
        params = _params(body)
        return Query(
            page_number("offset", _first(body, params, ("offset", "from"), "start"), 0),
            page_number("limit", _first(body, params, ("limit", "size"), "rows"), 10),
            text_in(body, "q", "params.user_query", "query", "params.q"),
        )

    def check_values(self, body: Object, parameters: Mapping[str, str], last: int, also: Names) -> None:
        params = _params(body)
        check_known("param", (name for name in params if not _OF_COMPONENT.fullmatch(name)), _PARAMS, also)
        for kind, given in (("filter", body.get("filter")), ("fq", params.get("fq"))):
            for one in listed(given):
                if isinstance(one, Mapping) and len(one) == 1 and next(iter(one)).startswith("#"):
                    (one,) = one.values()
                if not isinstance(one, str):
                    raise Unknown(kind, "object")
                tag = _TAGGED.match(one)
                if "{!" in one[tag.end() if tag else 0 :]:
                    raise Unknown(kind, "local_parameters")
        fields = [("fields", body.get("fields")), ("fl", params.get("fl")), ("fl", parameters.get("fl"))]
        for kind, given in fields:
            for one in listed(given):
                if not isinstance(one, str) or not _FIELDS.fullmatch(one):
                    raise Unknown(kind, "transformer")
        for kind, given in (("key", body.get("sort")), ("param", params.get("sort"))):
            if given and (not isinstance(given, str) or " ".join(given.split()).lower() != "score desc"):
                raise Unknown(kind, "sort")
        if any(given.get("wt", "json") != "json" for given in (params, parameters)):
            raise Unknown("param", "wt")

    def check_answer(self, answer: Object, documents: Sequence[Any], also: Names) -> None:
        check_known("answer", answer, _ANSWER, also)
        for document in documents:
            if any(name.startswith("[") and name not in also for name in document):
                raise Unknown("hit", "transformer")

    def is_plain(self, body: Object) -> bool:
        return not {"q", "from", "size"} & set(body)

    def body(self, body: Object, first: int, size: int, *, lean: bool) -> dict[str, Any]:
        left_out = {"q", "from", "size", "params", *(("facet",) if lean else ())}
        sent = {name: value for name, value in body.items() if name not in left_out}
        if "q" in body:
            sent.setdefault("query", body["q"])
        params = {
            name: value
            for name, value in _params(body).items()
            if name not in ("start", "rows") and not (lean and _WHOLE.fullmatch(name))
        }
        sent |= {"params": params} if params else {}
        return sent | {"offset": first, "limit": size}

    def merge(
        self,
        production: Object,
        others: Sequence[Object],
        chosen: Sequence[Object],
        ids: Sequence[str],
        first: int,
    ) -> dict[str, Any]:
        docs = [{name: value for name, value in doc.items() if name != "score"} for doc in chosen]
        answer = {**production, "response": {**production["response"], "docs": docs, "start": first}}
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
