"""Learned fusion of runs: re-rank the documents of several TREC runs, with weights learned on judged topics.

``structsvm.estimators.fusion`` learns and applies the weights, ``cross_validation`` measures the fusion on held-out
topics, and ``summary`` shows the result. Fusion without learning is in :mod:`structsvm.features.fusion`.
"""

from structsvm.cli.studies.fusion.cross_validation import PoolJudge, cross_validate_fusion
from structsvm.estimators.fusion import FusionModel, fusion_path

__all__ = ["FusionModel", "PoolJudge", "cross_validate_fusion", "fusion_path"]
