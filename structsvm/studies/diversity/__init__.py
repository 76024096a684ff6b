"""Comparison of diverse result sets: models and fixed methods of choosing on the same labelled sets.

``comparison`` measures them, ``page`` shows the result. The models are in :mod:`structsvm.estimators.diversity`, the
fixed methods in :mod:`structsvm.baselines`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.studies.diversity.comparison import METHODS as METHODS
    from structsvm.studies.diversity.comparison import WITH_LABELS as WITH_LABELS
    from structsvm.studies.diversity.comparison import DiversityResult as DiversityResult
    from structsvm.studies.diversity.comparison import check_names as check_names
    from structsvm.studies.diversity.comparison import compare_methods as compare_methods
    from structsvm.studies.diversity.comparison import with_subtopics as with_subtopics

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "structsvm.studies.diversity.comparison": (
            "METHODS WITH_LABELS DiversityResult check_names compare_methods with_subtopics"
        ),
    },
)
