"""How good a ranking is: values per query, their mean, and whether a difference between systems is real.

>>> from structsvm.metrics import evaluate
>>> evaluate("map", [1, 0, 1, 0], [0.9, 0.8, 0.7, 0.1], qid=[1, 1, 2, 2]).per_query
array([1., 1.])
"""

from structsvm.metrics.conventions import CONVENTIONS, Convention
from structsvm.metrics.diversity import (
    alpha_ndcg,
    subtopic_recall,
    unweighted_subtopic_loss,
    weighted_subtopic_loss,
)
from structsvm.metrics.evaluation import EvaluationResult, available_metrics, evaluate
from structsvm.metrics.ndeval import ndeval
from structsvm.metrics.scoring import make_scorer
from structsvm.metrics.significance import Comparison, compare

__all__ = [
    "CONVENTIONS",
    "Comparison",
    "Convention",
    "EvaluationResult",
    "alpha_ndcg",
    "available_metrics",
    "compare",
    "evaluate",
    "make_scorer",
    "ndeval",
    "subtopic_recall",
    "unweighted_subtopic_loss",
    "weighted_subtopic_loss",
]
