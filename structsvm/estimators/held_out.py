"""Queries for early stopping of rankers trained by descent: given ones, or a share held out."""

from __future__ import annotations

from typing import Any

import numpy as np

from structsvm.checks import BadInput
from structsvm.estimators.fitted import split_qid
from structsvm.estimators.input_rows import naming, validate_rows
from structsvm.features.scaling import scale_rows
from structsvm.protocols import Float, Int
from structsvm.queries import Grouping, group_queries


def read_validation(model: Any, validation: Any) -> tuple[Any, Float, Grouping]:
    """Return rows of ``validation=(X, y, qid)``, scaled like the training rows, with their labels and queries."""
    if not isinstance(validation, (tuple, list)) or len(validation) not in (2, 3):
        shown = f"{len(validation)} of them" if isinstance(validation, (tuple, list)) else repr(validation)
        raise BadInput(
            "validation", f"expected rows, labels and query ids as a tuple (X, y, qid), got {shown}"
        )
    X, qid = split_qid(validation[0], validation[2] if len(validation) == 3 else None)
    if qid is None and model._saw_qid:
        raise BadInput(
            "validation",
            "expected query ids, as in fit: (X, y, qid)",
            "without them all rows would be ranked as one query",
        )
    with naming("validation"):
        X, y = validate_rows(model, X, validation[1], qid=qid, order="C", reset=False)
        grouping = group_queries(qid, X.shape[0])
        if model.scaler_ is not None:
            X = scale_rows(model.scaler_, X, qid)
    return X, y, grouping


def choose_held_out(useful: Int, fraction: float, rng: np.random.RandomState) -> Int:
    """Return a share of the useful queries, at least one, for early stopping; at least one is left to train on.

    A query is useful if its ranking changes the measure.
    """
    if useful.shape[0] < 2:
        raise BadInput(
            "early_stopping",
            "expected at least 2 queries whose ranking changes the measure, one of them to hold out, "
            f"got {useful.shape[0]}",
            "pass {validation=(X, y, qid)}, or {early_stopping=False}",
        )
    n = min(max(1, round(float(fraction) * useful.shape[0])), useful.shape[0] - 1)
    return rng.permutation(useful)[:n]


def unmeasurable(model: Any, name: str, y: Float) -> BadInput:
    """Return the error for validation queries of which no ranking changes the measure, the parameter ``name``."""
    return BadInput(
        "validation",
        f"expected a query whose ranking changes {{{name}}}, got labels {y.min():g} to {y.max():g} (relevant means a "
        f"label >= {model.relevance:g})",
        f"check them, {{{name}}} and {{relevance}}",
        others={name: getattr(model, name)},
    )
