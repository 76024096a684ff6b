"""Comparison of diverse result sets: models and fixed selection methods on the same labelled sets.

``comparison`` measures them, ``summary`` shows the result. The models are in :mod:`structsvm.estimators.diversity`, the
fixed methods in :mod:`structsvm.estimators.baselines`.
"""

from structsvm.cli.studies.diversity.comparison import (
    METHODS,
    check_names,
    compare_methods,
    usual_methods,
    with_subtopics,
)

__all__ = ["METHODS", "check_names", "compare_methods", "usual_methods", "with_subtopics"]
