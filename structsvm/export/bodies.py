"""Containers of exported models: compact JSON, Solr models, Vespa rank profiles, ONNX graphs."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from structsvm.common.extras import extra, needed
from structsvm.common.row_checks import warn_user
from structsvm.export.target import Target

_LARGEST_SOLR_MODEL = 900_000
"""Maximum bytes of a model for Solr: all models of a collection share a ZooKeeper node, by default of at most 1 MB."""


def as_json(content: object) -> bytes:
    """Return JSON without white space: models with many trees are large, and the stores of engines are small."""
    return json.dumps(content, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()


def solr_feature(name: str, normalizer: str = "", **figures: float) -> dict[str, Any]:
    """Return a feature of a Solr model with a normalizer; Solr parses its numbers from strings."""
    params = {key: repr(float(value)) for key, value in figures.items()}
    norm = {"norm": {"class": f"org.apache.solr.ltr.norm.{normalizer}", "params": params}}
    return {"name": name, **(norm if normalizer else {})}


def solr_model(kind: str, target: Target, features: list[dict[str, Any]], params: dict[str, Any]) -> bytes:
    """Return a model for the store of Solr; warn if it is so large that SolrCloud may lose it."""
    head = {"class": f"org.apache.solr.ltr.model.{kind}", "name": target.name}
    store = {} if target.store is None else {"store": target.store}
    content = as_json(head | store | {"features": features, "params": params})
    if len(content) > _LARGEST_SOLR_MODEL:
        warn_user(
            f"{target.name}: {len(content) / 1e6:.1f} MB, but SolrCloud by default stores at most 1 MB of models per "
            "collection, and silently drops more; serve the file with a DefaultWrapperModel, or grow fewer trees"
        )
    return content


def vespa_profile(name: str, terms: Sequence[str], rerank_count: int | None = None) -> str:
    """Return a rank profile with one term of the expression per line, so that it can be read and edited.

    With a ``rerank_count`` the expression belongs to the global phase, because only the container has all candidates
    of a query.
    """
    phase = "first-phase" if rerank_count is None else "global-phase"
    count = "" if rerank_count is None else f"        rerank-count: {rerank_count}\n"
    lines = "\n            + ".join(terms)
    body = f"{count}        expression {{\n            {lines}\n        }}"
    return f"rank-profile {name} {{\n    {phase} {{\n{body}\n    }}\n}}\n"


def import_onnx() -> Any:
    """Return the package onnx; raise ImportError with the command that installs it."""
    with needed("an export to ONNX", extra("export")):
        import onnx
    return onnx


def onnx_model(
    name: str,
    nodes: Sequence[Any],
    constants: Mapping[str, Any],
    opsets: Mapping[str, int],
    ir_version: int,
    **properties: Any,
) -> bytes:
    """Return a checked model with the input ``features`` and the output ``scores``; properties are stored as JSON."""
    # float64 throughout, so that scores equal those of predict
    onnx = import_onnx()
    helper, double = onnx.helper, onnx.TensorProto.DOUBLE
    n_features = len(properties["feature_names"])
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("features", double, ["rows", n_features])],
        [helper.make_tensor_value_info("scores", double, ["rows"])],
        [onnx.numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()],
    )
    versions = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    model = helper.make_model(graph, producer_name="structsvm", ir_version=ir_version, opset_imports=versions)
    helper.set_model_props(model, {key: json.dumps(content) for key, content in properties.items()})
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())
