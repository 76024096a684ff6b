"""``read_feature_log``: the features that a search engine logged for its hits, as training rows."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from structsvm.common.checks import BadInput
from structsvm.common.files import AnyPath, plain_float, read_objects, shorten
from structsvm.common.tables.ids import id_texts
from structsvm.queries import QueryData, group_queries, rows_in_groups
from structsvm.readers.qrels import Qrels

_SOLR = "[features]"


def read_feature_log(
    answers: AnyPath | Mapping[Any, Any] | Iterable[tuple[Any, Any]],
    qrels: Qrels | None = None,
    *,
    unmatched: str | Mapping[str, str],
    log: str = "features",
    id: str = "id",
    separators: tuple[str, str] = ("=", ","),
) -> QueryData:
    """Read the features that a search engine logged, so that a model is trained on the values that the engine computes.

    Parameters
    ----------
    answers : path, mapping of query ids to dicts, or iterable of (query id, dict)
        A file of JSON lines, each a response of the engine with the additional key ``qid``; or responses by query id.
        For OpenSearch and Elasticsearch (``ltr_log``) the features are in ``fields._ltrlog`` of a hit, and have no
        ``value`` if they do not match; ``extra_logging`` is skipped. For Solr they are in ``[features]`` of a document,
        also of grouped answers, and are 0 if they do not match. The ``qid`` of a response of ``_msearch`` is the list
        of the query ids of its ``responses``.
    qrels : Qrels, optional
        Judgments of at least one of the queries; a hit without a judgment has the label 0.
    unmatched : {"zero", "missing"}, or mapping of feature names to these
        Value of a feature for which a hit has no value: 0, or missing (NaN), which trees and imputers accept; a logged
        NaN stays NaN. Features not in the mapping are "missing". :func:`~structsvm.export.export_model` reads from the
        trained model which features had missing values.
    log : str, default="features"
        For OpenSearch and Elasticsearch: ``name`` in the ``log_specs`` of the request.
    id : str, default="id"
        For Solr: the ``uniqueKey`` of the schema.
    separators : (str, str), default=("=", ",")
        For Solr: ``csvKeyValueDelimiter`` and ``csvFeatureSeparator`` of the feature transformer.

    Returns
    -------
    QueryData
        Rows in float64, with document ids, and with feature names in the order in which they first occur.

    Raises
    ------
    BadInput
        For a response without logged features, one that timed out or lacks shards, a value that is not a number, a
        feature or document that occurs twice, or judgments of other queries; the message names query and document.

    Examples
    --------
    >>> entry = [{"name": "title", "value": 2.5}, {"name": "price"}]
    >>> hits = [{"_id": "a", "fields": {"_ltrlog": [{"features": entry}]}}]
    >>> data = read_feature_log([("q1", {"hits": {"hits": hits}})], unmatched={"price": "missing"})
    >>> data.feature_names, data.X
    (('title', 'price'), array([[2.5, nan]]))
    >>> read_feature_log([(7, {"response": {"docs": [{"id": "a", "[features]": "f(a=1)=1.5"}]}})], unmatched="zero").X
    array([[1.5]])
    """
    given = [unmatched] if isinstance(unmatched, str) else list(unmatched.values())
    if bad := [how for how in given if how not in ("zero", "missing")]:
        raise BadInput("unmatched", f"expected 'zero' or 'missing', got {bad[0]!r}")
    if isinstance(answers, Mapping):
        answers = answers.items()
    if len(set(separators)) < 2 or not all(separators):
        raise BadInput("separators", "expected two different texts", value=separators)
    pairs = _of_file(Path(answers)) if isinstance(answers, (str, PathLike)) else answers
    read = _Reader(log, id, *separators)
    hits = [
        (qid, *hit) for qid, answer in _single(pairs) for hit in read.hits(answer, f"query {_shown(qid)}")
    ]
    if not hits:
        raise BadInput("answers", "expected at least one hit with logged features, got none")
    qids, hit_ids, rows = zip(*hits, strict=True)
    grouping = group_queries(qids, len(rows))
    queries, documents = id_texts("qid", qids), id_texts("docid", hit_ids)
    for (query, document), n in Counter(zip(queries, documents, strict=True)).items():
        if n > 1:
            raise BadInput(
                f"query {_shown(query)}, document {_shown(document)}",
                "expected each document of a query once, got it twice",
                "leave out repeated answers",
            )
    names = list(dict.fromkeys(name for row in rows for name in row))
    if isinstance(unmatched, Mapping) and (unknown := [name for name in unmatched if name not in names]):
        raise BadInput("unmatched", f"expected names of logged features, got {unknown[0]!r}")
    how = dict.fromkeys(names, unmatched) if isinstance(unmatched, str) else unmatched
    fill = {name: 0.0 if how.get(name) == "zero" else np.nan for name in names}
    cells = [[fill[name] if row.get(name) is None else row[name] for name in names] for row in rows]
    X = np.array(cells, dtype=np.float64)
    grades = {} if qrels is None else qrels.to_dict()
    if qrels is not None and not grades.keys() & set(queries):
        raise BadInput(
            "qrels",
            "expected judgments of at least one query of the answers, got none",
            f"a query of the answers is {queries[0]!r:.60}",
        )
    y = [max(0, grades.get(q, {}).get(d, 0)) for q, d in zip(queries, documents, strict=True)]
    return rows_in_groups(X, np.array(y, dtype=np.float64), grouping, np.array(documents), tuple(names))


def _of_file(path: Path) -> Iterator[tuple[Any, Any]]:
    for place, answer in read_objects(path):
        if "qid" not in answer:
            raise BadInput(place, "expected an answer with the key 'qid'")
        yield answer["qid"], answer


def _single(pairs: Iterable[Any]) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """Yield the query id and answer of each search; a response of ``_msearch`` has several."""
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise BadInput("answers", f"expected pairs of a query id and an answer, got {pair!r:.60}")
        qid, answer = pair
        if not isinstance(answer, Mapping):
            raise BadInput(f"query {_shown(qid)}", f"expected an answer as an object, got {answer!r:.60}")
        if "responses" in answer:
            answers = _part(answer, "responses", list, f"query {_shown(qid)}")
            if not isinstance(qid, (tuple, list)) or len(qid) != len(answers):
                raise BadInput(
                    "answers",
                    f"expected a list of query ids, one for each of the {len(answers)} responses, got {qid!r:.60}",
                )
            yield from _single(zip(qid, answers, strict=True))
        elif isinstance(qid, (bool, np.bool_)) or not isinstance(qid, (str, int, float, np.generic)):
            raise BadInput("answers", f"expected query ids as text or numbers, got {qid!r:.60}")
        else:
            yield qid, answer


def _shown(name: object) -> str:
    text = str(name)
    return text[:80] if text.isprintable() else f"{text!r:.80}"


_EXPECTED: dict[type, str] = {dict: "an object", list: "a list", str: "a text"}


def _part(holder: object, key: str, kind: type, place: str, default: object = None) -> Any:
    """Return ``holder[key]``; raise unless ``holder`` is an object and the value has the given type."""
    value = holder.get(key, default) if isinstance(holder, Mapping) else holder
    if not isinstance(holder, Mapping) or not isinstance(value, kind):
        raise BadInput(place, f"expected {key!r} to be {_EXPECTED[kind]}, got {value!r:.60}")
    return value


class _Reader:
    """Reader of the hits of an answer."""

    def __init__(self, log: str, id: str, equals: str, comma: str) -> None:
        self._log, self._id, self._equals, self._comma = log, id, equals, comma

    def hits(
        self, answer: Mapping[str, Any], place: str
    ) -> Iterator[tuple[str | int, dict[str, float | None]]]:
        """Yield documents and their features; features without a value are None."""
        shards, header = answer.get("_shards"), answer.get("responseHeader")
        if (
            answer.get("timed_out")
            or (isinstance(shards, Mapping) and shards.get("failed"))
            or (isinstance(header, Mapping) and header.get("partialResults"))
        ):
            raise BadInput(
                place,
                "expected a complete answer, got one that timed out or lacks shards",
                "search again, or leave it out",
            )
        if "hits" in answer:
            for hit in _part(_part(answer, "hits", dict, place), "hits", list, place):
                document, where = self._document(hit, "_id", place, "")
                yield document, _values(self._logged(hit, where), where)
            return
        for docs in self._lists(answer, place):
            for hit in docs:
                document, where = self._document(hit, self._id, place, "{id} is the uniqueKey of the schema")
                yield document, _values(self._pairs(hit, where), where)

    def _document(self, hit: object, key: str, place: str, remedy: str) -> tuple[str | int, str]:
        """Return the id of a hit, and its place in errors."""
        if not isinstance(hit, Mapping):
            raise BadInput(place, f"expected each hit to be an object, got {hit!r:.60}")
        value = hit.get(key)
        if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
            raise BadInput(
                place,
                f"expected a document id {key!r}, got {value!r:.60} among {', '.join(map(repr, hit)):.80}",
                remedy,
            )
        return value, f"{place}, document {_shown(value)}"

    def _logged(self, hit: Mapping[str, Any], place: str) -> Iterator[tuple[str, Any]]:
        """Yield the features that the plugin of OpenSearch and Elasticsearch logged."""
        entries = _part(hit, "fields", dict, place, {}).get("_ltrlog") or [{}]
        entries = entries if isinstance(entries, list) else [entries]
        logged = [entry for entry in entries if isinstance(entry, Mapping) and self._log in entry]
        if not logged:
            names = [name for entry in entries if isinstance(entry, Mapping) for name in entry]
            raise BadInput(
                place,
                f"expected fields._ltrlog with {self._log!r}, got {names!r:.80}",
                "{log} is the name in log_specs of the request",
            )
        for feature in _part(logged[0], self._log, list, place):
            name = _part(feature, "name", str, place)
            if name != "extra_logging":
                yield name, feature.get("value")

    def _lists(self, answer: Mapping[str, Any], place: str) -> Iterator[list[Any]]:
        """Yield the lists of documents of an answer of Solr: one, or one for each group."""
        if "response" in answer:
            yield _part(_part(answer, "response", dict, place), "docs", list, place)
        elif "grouped" in answer:
            for field in _part(answer, "grouped", dict, place):
                parts = _part(answer["grouped"], field, dict, place)
                for group in _part(parts, "groups", list, place, [parts]):
                    yield _part(_part(group, "doclist", dict, place), "docs", list, place)
        else:
            raise BadInput(place, "expected an answer with hits, response or grouped")

    def _pairs(self, document: Mapping[str, Any], place: str) -> Iterator[tuple[str, str]]:
        """Yield the features that Solr logged."""
        if _SOLR not in document:
            raise BadInput(place, f"expected {_SOLR}, as requested in fl")
        for part in _part(document, _SOLR, str, place).split(self._comma):
            name, equals, value = part.strip().rpartition(self._equals)
            if part.strip():
                if not (equals and name):
                    raise BadInput(
                        place,
                        f"expected {_SOLR} as a{self._equals}1.0{self._comma}b{self._equals}2.0, got {shorten(part)}",
                        "give {separators}, csvKeyValueDelimiter and csvFeatureSeparator of the request",
                    )
                yield name, value


def _values(features: Iterable[tuple[str, Any]], place: str) -> dict[str, float | None]:
    """Return the values of features as numbers, None for missing values."""
    values: dict[str, float | None] = {}
    for name, value in features:
        if name in values:
            raise BadInput(place, f"expected each feature once, got {shorten(name)} twice")
        try:
            number = plain_float(value) if isinstance(value, str) else value
            values[name] = None if number is None else float(number)
        except (TypeError, ValueError, OverflowError):
            raise BadInput(
                place, f"expected a number for the feature {shorten(name)}, got {value!r:.60}"
            ) from None
    return values
