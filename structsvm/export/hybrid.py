"""Hybrid queries: the fusion method of each engine, and the configuration that sets its weights."""

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

from structsvm.export.bodies import vespa_profile

Text = Callable[[Sequence[str], Sequence[float], int, int], str]
"""Function that returns the text to write, given the names and weights of the clauses, the depth of their lists and the
``k`` of reciprocal ranks."""


class Engine(NamedTuple):
    """Fusion method of an engine: its normalizer of scores in ``structsvm.features.hybrid``, and its configuration."""

    normalizer: str
    text: Text
    clauses: range = range(2, 100)
    complete: bool = False
    """Whether the engine computes the score of each clause for all documents, including those outside its list."""


def _json(content: object) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _processor(names: Sequence[str], kind: str, content: object) -> str:
    """Return a search pipeline of OpenSearch with one processor."""
    return _json(
        {"description": "clauses: " + ", ".join(names), "phase_results_processors": [{kind: content}]}
    )


def _opensearch(technique: str, **options: object) -> Text:
    def text(names: Sequence[str], weights: Sequence[float], depth: int, k: int) -> str:
        normalization = {"technique": technique}
        if options:  # a lower bound for each clause
            normalization["parameters"] = {"lower_bounds": [options] * len(names)}  # type: ignore[assignment]
        mean = {"technique": "arithmetic_mean", "parameters": {"weights": list(weights)}}
        return _processor(
            names, "normalization-processor", {"normalization": normalization, "combination": mean}
        )

    return text


def _opensearch_rrf(names: Sequence[str], weights: Sequence[float], depth: int, k: int) -> str:
    rrf = {"technique": "rrf", "rank_constant": k, "parameters": {"weights": list(weights)}}
    return _processor(names, "score-ranker-processor", {"combination": rrf})


def _elasticsearch(kind: str, normalizer: str | None = None) -> Text:
    def text(names: Sequence[str], weights: Sequence[float], depth: int, k: int) -> str:
        more = {} if normalizer is None else {"normalizer": normalizer}
        retrievers = [
            {"retriever": {"standard": {"query": {"QUERY": name}}}, "weight": weight} | more
            for name, weight in zip(names, weights, strict=True)
        ]
        options = {"rank_window_size": depth} | ({"rank_constant": k} if kind == "rrf" else {})
        return _json({"retriever": {kind: options | {"retrievers": retrievers}}})

    return text


def _qdrant(names: Sequence[str], weights: Sequence[float], depth: int, k: int) -> str:
    # Qdrant ranks from 0 and adds 1 / (k + rank): with k = 1 these are reciprocal ranks
    prefetch = [{"query": name, "using": name, "limit": depth} for name in names]
    return _json({"prefetch": prefetch, "query": {"rrf": {"k": 1, "weights": list(weights)}}})


def _weaviate(names: Sequence[str], weights: Sequence[float], depth: int, k: int) -> str:
    return (
        f"collection.query.hybrid(query=query, alpha={weights[1]!r}, fusion_type=HybridFusion.RELATIVE_SCORE)"
        f"  # alpha: the weight of the second clause, which must be the vectors, {names[1]}\n"
    )


def _langchain(names: Sequence[str], weights: Sequence[float], depth: int, k: int) -> str:
    return f"EnsembleRetriever(retrievers=[{', '.join(names)}], weights={list(weights)!r}, c={k})\n"


def _llamaindex(names: Sequence[str], weights: Sequence[float], depth: int, k: int) -> str:
    return (
        f"QueryFusionRetriever([{', '.join(names)}], retriever_weights={list(weights)!r}, mode='relative_score', "
        f"num_queries=1, similarity_top_k={depth})\n"
    )


def _vespa(function: str) -> Text:
    def text(names: Sequence[str], weights: Sequence[float], depth: int, k: int) -> str:
        rest = f", {k}" if function == "reciprocal_rank" else ""
        terms = [f"{w!r} * {function}({name}{rest})" for name, w in zip(names, weights, strict=True)]
        return vespa_profile("hybrid", terms, depth)

    return text


def _sql(names: Sequence[str], weights: Sequence[float], depth: int, k: int) -> str:
    # min-max scaling of each list by window functions; SCORE_j and MATCH_j have to be filled in by the user
    width = "max(s) OVER () - min(s) OVER ()"
    lists = ",\n".join(
        f"list_{j} AS (  -- {name}\n  SELECT id, CASE WHEN {width} < 1e-6 THEN 1 ELSE (s - min(s) OVER ()) / ({width}) "
        f"END AS v\n  FROM (SELECT id, SCORE_{j} AS s FROM docs WHERE MATCH_{j} ORDER BY s DESC LIMIT {depth}) AS t)"
        for j, name in enumerate(names, 1)
    )
    parts = "\n  UNION ALL ".join(
        f"SELECT id, {w!r} * v AS v FROM list_{j}" for j, w in enumerate(weights, 1)
    )
    return (
        f"WITH {lists}\nSELECT id, sum(v) AS score FROM (\n  {parts}\n) AS u "
        "GROUP BY id ORDER BY score DESC LIMIT 10\n"
    )


ENGINES: dict[str, Engine] = {
    "opensearch-hybrid": Engine("minmax_floor", _opensearch("min_max"), range(2, 6)),
    "opensearch-lower-bounds": Engine(
        "by_max", _opensearch("min_max", mode="apply", min_score=0.0), range(2, 6)
    ),
    "opensearch-l2": Engine("l2_floor", _opensearch("l2"), range(2, 6)),
    "opensearch-rrf": Engine("ranks", _opensearch_rrf, range(2, 6)),
    "elasticsearch-linear": Engine("minmax_near", _elasticsearch("linear", "minmax")),
    "elasticsearch-l2": Engine("l2", _elasticsearch("linear", "l2_norm")),
    "elasticsearch-rrf": Engine("ranks", _elasticsearch("rrf")),
    "qdrant-rrf": Engine("inverse_ranks", _qdrant),
    "weaviate": Engine("minmax", _weaviate, range(2, 3)),
    "vespa": Engine("minmax", _vespa("normalize_linear"), complete=True),
    "vespa-rrf": Engine("hit_ranks", _vespa("reciprocal_rank"), complete=True),
    "langchain": Engine("ranks", _langchain),
    "llamaindex": Engine("minmax", _llamaindex),
    "sql": Engine("minmax_near", _sql),
}
"""Fusion methods of engines, by their names in ``hybrid_weights``."""
