"""An engine of the configuration: its address, its dialect, and its additions to each request."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

import msgspec

from structsvm.common.checks import BadInput, check_choice
from structsvm.common.lazy import labelled, labels
from structsvm.live.contract.bodies import MAX_ID, EngineUse
from structsvm.live.contract.conversion import at_path, converted, merged_mappings, number_as_text
from structsvm.live.engines.answers import NONE, Dialect, Query, UnusableAnswer


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    """An engine in the configuration file."""

    kind: str
    url: str
    body: dict[str, Any] = {}
    headers: dict[str, str] = {}
    headers_env: dict[str, str] = {}
    id: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=600)] = 30.0
    also: list[str] = []


@dataclass(frozen=True)
class Engine:
    """One ranker behind an address.

    Attributes
    ----------
    name : str
        Name in the configuration.
    url : str
        Address of the search endpoint, with parameters that are always needed, such as ``search_pipeline``.
    dialect : Dialect
        Reads requests and responses of this kind of engine.
    body : dict
        Merged into the body of every request; ``query``, ``rescore``, ``knn`` and ``retriever`` replace the client's.
        The string ``"{q}"`` in it stands for the text typed by the user, ``"{query}"`` for the client's query, so that
        it can be wrapped.
    headers : dict of str to str
        Sent with every request; secrets come from the environment (``headers_env``).
    id : str
        Dotted path of a document's id in a hit.
    timeout_s : float
        Seconds that production may take; challengers have the budget of the proxy.
    also : frozenset of str
        Names in requests and responses that are known not to affect the order.
    params : dict of str to str
        Parameters of the address, besides those in ``url``.

    Examples
    --------
    >>> engine = Engine.of("new", {"kind": "opensearch", "url": "http://127.0.0.1:9200/shop/_search",
    ...                            "body": {"query": {"match": {"title": "{q}"}}}})
    >>> engine.request({"q": "lamp"}, engine.dialect.read({"q": "lamp"}), 0, 10, lean=True)["query"]
    {'match': {'title': 'lamp'}}
    """

    name: str
    url: str
    dialect: Dialect
    body: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    id: str = "id"
    timeout_s: float = 30.0
    also: frozenset[str] = NONE
    params: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, table: object, environment: Mapping[str, str] | None = None) -> Self:
        """Return the engine of a table of the configuration.

        Raises
        ------
        BadInput
            For an unknown key or an invalid value, and for an environment variable that is not set.
        """
        path = f"engines.{name}"
        variables = os.environ if environment is None else environment
        given = converted(table, _Table, path)
        check_choice(f"{path}.kind", given.kind, tuple(labels("structsvm.live.engines")))
        dialect: Dialect = labelled("structsvm.live.engines")[given.kind]()
        parts = urlsplit(given.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadInput(f"{path}.url", "expected an http or https address", value=given.url)
        if parts.username is not None or parts.password is not None:
            raise BadInput(f"{path}.url", "expected no password in the address", "use headers_env")
        headers = dict(given.headers)
        for header, variable in given.headers_env.items():
            if variable not in variables:
                raise BadInput(f"{path}.headers_env.{header}", f"environment variable {variable} is not set")
            headers[header] = variables[variable]
        return cls(
            name=name,
            url=given.url,
            dialect=dialect,
            body=given.body,
            headers=headers,
            id=given.id or dialect.identity,
            timeout_s=given.timeout_s,
            also=frozenset(given.also),
        )

    def for_ranker(self, table: Mapping[str, Any]) -> Self:
        """Return the engine with the additions of one ranker to its requests.

        Parameters
        ----------
        table : mapping
            ``{"engine": name, "body": {...}, "params": {...}}`` of an experiment; never an address or a header.

        Raises
        ------
        BadInput
            For an unknown key or an invalid value.

        Examples
        --------
        >>> engine = Engine.of("shop", {"kind": "http", "url": "http://127.0.0.1:9/s", "body": {"k": 1}})
        >>> engine.for_ranker({"engine": "shop", "body": {"model": "new"}}).body
        {'k': 1, 'model': 'new'}
        """
        use = converted(table, EngineUse, f"engines: {self.name}")
        return replace(self, body=merged_mappings(self.body, use.body), params={**self.params, **use.params})

    def hash(self) -> str:
        """Return a hash of the settings that decide the ranking: kind, path of the address, body, parameters and id.

        The host is left out, so that an engine may move; headers and timeouts do not change the ranking.
        """
        parts = urlsplit(self.url)
        settings = [self.dialect.label, parts.path, parts.query, self.body, self.params, self.id]
        return blake2b(json.dumps(settings, sort_keys=True).encode(), digest_size=8).hexdigest()

    def request(
        self, body: Mapping[str, Any], query: Query, first: int, size: int, *, lean: bool
    ) -> dict[str, Any]:
        """Return the body to send for documents ``first`` to ``first + size``.

        Raises
        ------
        UnusableAnswer
            ``"unfilled"``, if the configured body needs a text or query that the request does not have.
        """
        sent = self.dialect.body(body, first, size, lean=lean)
        if not self.body:
            return sent
        known = {"{q}": query.text, "{query}": self.dialect.query(body)}
        for name in self.body:
            for replaced in self.dialect.replaces.get(name, ()):
                sent.pop(replaced, None)
        return merged_mappings(sent, _filled(self.body, known))

    def ranking(self, answer: object) -> dict[str, Mapping[str, Any]]:
        """Return the documents of a response by id, best first; raise UnusableAnswer for ids that cannot be used,
        and Unknown for parts that are not known to be safe to merge.
        """
        if not isinstance(answer, Mapping):
            raise UnusableAnswer("junk", "expected an object")
        hits: dict[str, Mapping[str, Any]] = {}
        documents = self.dialect.documents(answer)
        for document in documents:
            name = number_as_text(at_path(document, self.id))
            reason = _fault_of(name, hits)
            if reason is not None:
                raise UnusableAnswer(
                    f"id:{reason}",
                    f"expected distinct ids of 1 to {MAX_ID} characters at {self.id}, got {name!r:.80}",
                )
            hits[name] = document
        self.dialect.check_answer(answer, documents, self.also)
        return hits


def _fault_of(name: object, hits: Mapping[str, Any]) -> str | None:
    """Return a one-word reason why a value cannot be the id of another document, or None."""
    if not isinstance(name, str):
        return "type"
    if not name:
        return "empty"
    if len(name) > MAX_ID:
        return "long"
    return "twice" if name in hits else None


def engines_of(tables: object, environment: Mapping[str, str] | None = None) -> dict[str, Engine]:
    """Return the engines of the table ``engines`` of a configuration, by name."""
    if not isinstance(tables, Mapping):
        raise BadInput("engines", "expected a table of engines", value=tables)
    return {str(name): Engine.of(str(name), table, environment) for name, table in tables.items()}


def engine_hashes(engines: Mapping[str, Any], tables: Mapping[str, Any]) -> dict[str, str]:
    """Return :meth:`Engine.hash` of each ranker; raise BadInput for unknown engines or different dialects.

    Parameters
    ----------
    engines : mapping of ranker to ``{"engine": name, "body": {...}, "params": {...}}``
    tables : mapping
        The table ``engines`` of the configuration file.

    Examples
    --------
    >>> engine_hashes({"old": {"engine": "shop"}}, {})
    Traceback (most recent call last):
    structsvm.common.checks.BadInput: engines.old: no engine 'shop' in the configuration; add [engines.shop] there
    """
    known, found = engines_of(tables), {}
    for ranker, table in engines.items():
        name = converted(table, EngineUse, f"engines.{ranker}").engine
        if name not in known:
            raise BadInput(
                f"engines.{ranker}", f"no engine {name!r} in the configuration", f"add [engines.{name}] there"
            )
        found[ranker] = known[name].for_ranker(table)
    kinds = {engine.dialect.label for engine in found.values()}
    if len(kinds) > 1:
        raise BadInput(
            "engines", f"expected engines of one kind, as answers are merged; got {', '.join(sorted(kinds))}"
        )
    return {ranker: engine.hash() for ranker, engine in found.items()}


def with_hashes(config: dict[str, Any], tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of an experiment with the hashes of the settings that determine how its engines rank."""
    if config["engines"] is None:
        return config
    return {**config, "engine_hashes": engine_hashes(config["engines"], tables)}


def _filled(part: object, known: Mapping[str, Any]) -> Any:
    if isinstance(part, Mapping):
        return {name: _filled(value, known) for name, value in part.items()}
    if isinstance(part, list):
        return [_filled(value, known) for value in part]
    if isinstance(part, str) and part in known:
        if known[part] is None:
            raise UnusableAnswer("unfilled", f"the request has nothing for {part}")
        return known[part]
    return part
