"""Learning to rank with structural SVMs: exact optimum, with a certificate, at memory speed.

Names are loaded when first used, so that ``import structsvm`` is quick: numba, scikit-learn, cvxpy and matplotlib
come with the first thing that needs them.

Where a docstring says "the thesis" it is Y. Yue, "New learning frameworks for information retrieval", PhD thesis,
Cornell University, 2011.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from structsvm._version import __version__

if TYPE_CHECKING:
    from structsvm.candidates import CandidateSet
    from structsvm.clicks.svm import ClickSVM
    from structsvm.estimators.accuracy import AccuracySVM
    from structsvm.estimators.co_regularized import CoRegularizedSGD
    from structsvm.estimators.cross_validation import StructuralRankerCV
    from structsvm.estimators.diversity import SVMDiv
    from structsvm.estimators.lambdarank import LambdaRank
    from structsvm.estimators.ordinal import OrdinalSVM
    from structsvm.estimators.pairwise import PairwiseSVM
    from structsvm.estimators.pairwise_sgd import PairwiseSGD
    from structsvm.estimators.structural import SVMNDCG, StructuralRanker, SVMMap, SVMRoc
    from structsvm.features.scaling import QueryScaler
    from structsvm.persistence import load
    from structsvm.queries import QueryData

_HOME = {
    "AccuracySVM": "structsvm.estimators.accuracy",
    "CandidateSet": "structsvm.candidates",
    "ClickSVM": "structsvm.clicks.svm",
    "CoRegularizedSGD": "structsvm.estimators.co_regularized",
    "LambdaRank": "structsvm.estimators.lambdarank",
    "load": "structsvm.persistence",
    "OrdinalSVM": "structsvm.estimators.ordinal",
    "PairwiseSGD": "structsvm.estimators.pairwise_sgd",
    "PairwiseSVM": "structsvm.estimators.pairwise",
    "QueryData": "structsvm.queries",
    "QueryScaler": "structsvm.features.scaling",
    "StructuralRanker": "structsvm.estimators.structural",
    "StructuralRankerCV": "structsvm.estimators.cross_validation",
    "SVMDiv": "structsvm.estimators.diversity",
    "SVMMap": "structsvm.estimators.structural",
    "SVMNDCG": "structsvm.estimators.structural",
    "SVMRoc": "structsvm.estimators.structural",
}

_ROOMS = (
    "baselines", "clicks", "estimators", "features", "metrics", "online", "oracles", "qp", "readers", "testing",
    "trainers",
)  # fmt: skip

__all__ = [
    "SVMNDCG",
    "AccuracySVM",
    "CandidateSet",
    "ClickSVM",
    "CoRegularizedSGD",
    "LambdaRank",
    "OrdinalSVM",
    "PairwiseSGD",
    "PairwiseSVM",
    "QueryData",
    "QueryScaler",
    "SVMDiv",
    "SVMMap",
    "SVMRoc",
    "StructuralRanker",
    "StructuralRankerCV",
    "__version__",
    "load",
]


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
