"""Diverse result sets compared: models and fixed ways of choosing on the same labelled sets.

``comparison`` measures, ``page`` shows it. The models are of :mod:`structsvm.estimators.diversity`, the fixed ways of
:mod:`structsvm.baselines`.
"""

from structsvm.studies.diversity.comparison import (
    METHODS,
    WITH_LABELS,
    DiversityResult,
    check_names,
    compare_methods,
    with_subtopics,
)

__all__ = ["METHODS", "WITH_LABELS", "DiversityResult", "check_names", "compare_methods", "with_subtopics"]
