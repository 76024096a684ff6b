"""Ranking measures: values per query and their means, and tests of differences between systems.

>>> from structsvm.metrics import evaluate
>>> evaluate("map", [1, 0, 1, 0], [0.9, 0.8, 0.7, 0.1], qid=[1, 1, 2, 2]).per_query
array([1., 1.])
"""

from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.metrics.diversity import (
        alpha_ndcg as alpha_ndcg,
        subtopic_recall as subtopic_recall,
        weighted_subtopic_loss as weighted_subtopic_loss,
    )
    from structsvm.metrics.estimates import Estimate as Estimate
    from structsvm.metrics.evaluation import available_metrics as available_metrics, evaluate as evaluate
    from structsvm.metrics.importance import permutation_importance as permutation_importance
    from structsvm.metrics.results import EvaluationResult as EvaluationResult
    from structsvm.metrics.run_table import RunTable as RunTable
    from structsvm.metrics.scoring import make_scorer as make_scorer
    from structsvm.metrics.significance import Comparison as Comparison, compare as compare
    from structsvm.metrics.tests import holm as holm

__getattr__, __dir__, __all__ = attach(__name__)
