"""``read_feature_log``: the features that a search engine logged for its hits, as training rows."""

from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from structsvm.common.checks import BadInput
from structsvm.common.files import AnyPath, read_objects
from structsvm.queries import QueryData, group_queries, rows_in_groups
from structsvm.readers.qrels import Qrels

_SOLR = "[features]"


def read_feature_log(
    answers: AnyPath | Mapping[Any, Any] | Iterable[tuple[Any, Any]],
    qrels: Qrels | None = None,
    *,
    unmatched: str | Mapping[str, str],
    log: str = "features",
) -> QueryData:
    """Read the features that a search engine logged, so that a model is trained on the values that the engine computes.

    Parameters
    ----------
    answers : path, mapping of query ids to dicts, or iterable of (query id, dict)
        A file of JSON lines, each a response of the engine with the additional key ``qid``; or responses by query id.
        For OpenSearch and Elasticsearch (``ltr_log``) the features are in ``fields._ltrlog`` of a hit, and have no
        ``value`` if they do not match; for Solr they are in ``[features]`` of a document, and are 0 if they do not
        match.
    qrels : Qrels, optional
        Judgments; a hit without a judgment has the label 0.
    unmatched : {"zero", "missing"}, or mapping of feature names to these
        Value of a feature for which a hit has no value: 0, or missing (NaN), which trees and imputers accept. Features
        not in the mapping are "missing". :func:`~structsvm.export.export_model` reads from the trained model which
        features had missing values.
    log : str, default="features"
        For OpenSearch and Elasticsearch: ``name`` in the ``log_specs`` of the request.

    Returns
    -------
    QueryData
        Rows in float64, with document ids, and with feature names in the order in which they first occur.

    Raises
    ------
    BadInput
        For a response without logged features; the message names query and document.

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
    pairs = _of_file(Path(answers)) if isinstance(answers, (str, PathLike)) else answers
    hits = [(qid, *hit) for qid, answer in pairs for hit in _hits(answer, f"query {qid}", log)]
    if not hits:
        raise BadInput("answers", "expected at least one hit with logged features, got none")
    queries, documents, rows = zip(*hits, strict=True)
    names = list(dict.fromkeys(name for row in rows for name in row))
    X = np.array([[row.get(name, np.nan) for name in names] for row in rows], dtype=np.float64)
    if isinstance(unmatched, Mapping) and (unknown := [name for name in unmatched if name not in names]):
        raise BadInput("unmatched", f"expected names of logged features, got {unknown[0]!r}")
    for j, name in enumerate(names):
        if (unmatched if isinstance(unmatched, str) else unmatched.get(name, "missing")) == "zero":
            X[np.isnan(X[:, j]), j] = 0.0
    grades = {} if qrels is None else qrels.to_dict()
    y = [max(0, grades.get(str(q), {}).get(d, 0)) for q, d in zip(queries, documents, strict=True)]
    grouping = group_queries(np.array(queries), len(rows))
    return rows_in_groups(X, np.array(y, dtype=np.float64), grouping, np.array(documents), tuple(names))


def _of_file(path: Path) -> Iterator[tuple[Any, Any]]:
    for place, answer in read_objects(path):
        if "qid" not in answer:
            raise BadInput(place, "expected an answer with the key 'qid'")
        yield answer["qid"], answer


def _hits(answer: Any, place: str, log: str) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield documents and their features; features without a value are NaN."""
    if "hits" in answer:
        for hit in answer["hits"]["hits"]:
            entries = hit.get("fields", {}).get("_ltrlog") or [{}]
            features = next((entry[log] for entry in entries if log in entry), None)
            if features is None:
                problem = f"expected fields._ltrlog with {log!r}, got {list(entries[0])}"
                remedy = "{log} is the name in log_specs of the request"
                raise BadInput(f"{place}, document {hit.get('_id')}", problem, remedy)
            yield str(hit["_id"]), {one["name"]: one.get("value", np.nan) for one in features}
    elif "response" in answer:
        for document in answer["response"]["docs"]:
            if _SOLR not in document:
                problem = f"expected {_SOLR}, as requested in fl"
                raise BadInput(f"{place}, document {document.get('id')}", problem)
            parts = (part.rpartition("=") for part in document[_SOLR].split(",") if part)
            yield str(document["id"]), {name: float(value) for name, _, value in parts}
    else:
        raise BadInput(place, "expected an answer with hits or response")
