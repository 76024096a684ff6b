"""Learned fusion of runs: re-rank the documents of several TREC runs, with weights learned on judged topics.

``structsvm.estimators.fusion`` learns and applies it, ``validation`` measures it on held-out topics, and ``page`` shows
the result. Fusion without learning is in :mod:`structsvm.features.fusion`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.estimators.fusion import FusionModel as FusionModel
    from structsvm.estimators.fusion import fusion_path as fusion_path
    from structsvm.studies.fusion.cross_validation import FusionResult as FusionResult
    from structsvm.studies.fusion.cross_validation import PoolJudge as PoolJudge
    from structsvm.studies.fusion.cross_validation import cross_validate_fusion as cross_validate_fusion

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "structsvm.estimators.fusion": "FusionModel fusion_path",
        "structsvm.studies.fusion.cross_validation": "FusionResult PoolJudge cross_validate_fusion",
    },
)
