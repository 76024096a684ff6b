"""Learned fusion of runs: re-rank the documents of several TREC runs by what their scores were worth on judged topics.

``model`` learns and applies, ``validation`` says how good it is on topics it has not seen, ``page`` shows it. Fusion
without learning is in :mod:`structsvm.features.fusion`.
"""

from structsvm.estimators.fusion import FusionModel, fusion_path
from structsvm.studies.fusion.validation import FusionResult, PoolJudge, cross_validate_fusion

__all__ = ["FusionModel", "FusionResult", "PoolJudge", "cross_validate_fusion", "fusion_path"]
