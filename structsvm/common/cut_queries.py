"""Warning about queries that the folds of scikit-learn's cross-validation split.

A split query has rows in the training part and in the test part, so that its score does not refer to a whole query. No
scikit-learn callback sees both parts, so a model records its query ids in ``fit``, and its scorer compares the query
ids of the test part with the recorded ones.
"""

import sys
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.common.row_checks import warn_user
from structsvm.common.tables.ids import qid_of

_TRAINED_ON: WeakKeyDictionary[Any, NDArray[Any]] = WeakKeyDictionary()
"""Query ids of each model's training part, kept from ``fit`` until the model is scored."""


def note_queries(model: Any, X: Any, qid: Any) -> None:
    """Record the query ids that a model is trained on during scikit-learn's cross-validation."""
    _TRAINED_ON.pop(model, None)
    if _in_cross_validation():
        ids = qid_of(X, qid)
        if ids is not None and np.ndim(ids) == 1:
            _TRAINED_ON[model] = np.asarray(ids)


def warn_of_cut_queries(model: object, qid: ArrayLike) -> None:
    """Warn if a query on which the model is scored also has rows among its training data."""
    # scikit-learn may score a pipeline, of which only the last step has recorded its query ids
    steps = getattr(model, "steps", None)
    before = _TRAINED_ON.get(steps[-1][1] if steps else model)
    if before is None or qid is None or np.ndim(qid) != 1 or not _in_cross_validation():
        return
    now = np.asarray(qid)
    if np.array_equal(before, now):  # the training part itself, with return_train_score=True
        return
    shared = np.intersect1d(before, now)
    if shared.size:
        warn_user(
            f"cross-validation: {shared.size} of {np.unique(now).size} queries of a test part, such as {shared[0]}, "
            "also have rows in the training part, so that scores do not refer to whole queries; split by query: "
            "cv=QueryKFold()"
        )


def _in_cross_validation() -> bool:
    # _fit_and_score is the function of scikit-learn that fits and scores one split
    frame = sys._getframe(2)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if frame.f_code.co_name == "_fit_and_score" and module.startswith("sklearn."):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
