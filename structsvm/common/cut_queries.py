"""Queries that the folds of scikit-learn's cross-validation cut: rows in the training part and in the test part."""

from __future__ import annotations

import sys
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from structsvm.common.names import QID
from structsvm.common.rows import warn_user

_TRAINED_ON: WeakKeyDictionary[Any, NDArray[Any]] = WeakKeyDictionary()
"""Ids by model, as long as scikit-learn is between training and measuring it."""


def note_queries(model: Any, X: Any, qid: Any) -> None:
    """Keep the ids that a model was trained on where it is going to be measured on others."""
    _TRAINED_ON.pop(model, None)
    if _in_cross_validation():
        ids = getattr(X, "get", lambda _: None)(QID) if qid is None else qid
        if ids is not None and np.ndim(ids) == 1:
            _TRAINED_ON[model] = np.asarray(ids)


def warn_of_cut_queries(model: Any, qid: Any) -> None:
    """Warn where a query that the model is measured on is among those that it was trained on."""
    steps = getattr(model, "steps", None)
    before = _TRAINED_ON.get(steps[-1][1] if steps else model)
    if before is None or qid is None or np.ndim(qid) != 1 or not _in_cross_validation():
        return
    now = np.asarray(qid)
    if np.array_equal(before, now):  # the training part, by return_train_score
        return
    shared = np.intersect1d(before, now)
    if shared.size:
        warn_user(
            f"cross-validation: {shared.size} of {np.unique(now).size} queries of a test part have rows in its "
            f"training part, too, such as {shared[0]}, so that scores are not those of whole queries; split by query: "
            "cv=QueryKFold()",
        )


def _in_cross_validation() -> bool:
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_name == "_fit_and_score" and frame.f_globals.get("__name__", "").startswith(
            "sklearn."
        ):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
