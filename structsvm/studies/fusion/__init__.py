"""Learned fusion of runs: re-rank the documents of several TREC runs by what their scores were worth on judged topics.

``structsvm.estimators.fusion`` learns and applies, ``validation`` says how good it is on topics it has not
seen, ``page`` shows it. Fusion without learning is in :mod:`structsvm.features.fusion`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.estimators.fusion import FusionModel as FusionModel
    from structsvm.estimators.fusion import fusion_path as fusion_path
    from structsvm.studies.fusion.validation import FusionResult as FusionResult
    from structsvm.studies.fusion.validation import PoolJudge as PoolJudge
    from structsvm.studies.fusion.validation import cross_validate_fusion as cross_validate_fusion

__getattr__, __dir__, __all__ = attach(__name__, __file__)
