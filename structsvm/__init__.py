"""Learning to rank with structural SVMs: exact optimum, with a certificate, at memory speed.

Names are loaded when first used, so that ``import structsvm`` is quick: numba, scikit-learn, cvxpy and matplotlib
come with the first thing that needs them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from structsvm._version import __version__

if TYPE_CHECKING:
    from structsvm.estimators.cross_validation import StructuralRankerCV
    from structsvm.estimators.structural import SVMNDCG, StructuralRanker, SVMMap, SVMRoc
    from structsvm.features.scaling import QueryScaler
    from structsvm.persistence import load
    from structsvm.queries import QueryData

_HOME = {
    "QueryData": "structsvm.queries",
    "QueryScaler": "structsvm.features.scaling",
    "StructuralRanker": "structsvm.estimators.structural",
    "StructuralRankerCV": "structsvm.estimators.cross_validation",
    "SVMMap": "structsvm.estimators.structural",
    "SVMNDCG": "structsvm.estimators.structural",
    "SVMRoc": "structsvm.estimators.structural",
    "load": "structsvm.persistence",
}

_ROOMS = ("estimators", "features", "metrics", "online", "oracles", "qp", "readers", "testing", "trainers")

__all__ = [
    "SVMNDCG", "QueryData", "QueryScaler", "SVMMap", "SVMRoc", "StructuralRanker", "StructuralRankerCV",
    "__version__", "load",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    elif name in _ROOMS:
        value = import_module(f"structsvm.{name}")
    else:
        raise AttributeError(f"module 'structsvm' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_ROOMS})
