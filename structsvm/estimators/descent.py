"""What the rankers trained by descent share: checks of their options, and the queries they stop training by."""

from __future__ import annotations

from typing import Any

import numpy as np

from structsvm.estimators.fitted import split_qid
from structsvm.estimators.validation import said_of, validate_rows
from structsvm.protocols import Float, Int
from structsvm.queries import Grouping, group_queries

__all__ = ["check_flag", "check_fraction", "check_number", "choose_held_out", "read_validation"]


def check_number(name: str, value: Any, least: float, *, whole: bool = False, open_end: bool = False) -> None:
    """Refuse what is no finite number from ``least`` on (above it with ``open_end``).

    Raises
    ------
    ValueError
        That names the option.
    """
    kind: Any = (int, np.integer) if whole else (int, float, np.number)
    good = isinstance(value, kind) and not isinstance(value, bool) and np.isfinite(value)
    if not good or value < least or (open_end and value == least):
        what = "a whole number" if whole else "a finite number"
        raise ValueError(f"{name}={value!r}: expected {what} {'>' if open_end else '>='} {least:g}")


def check_flag(name: str, value: Any) -> None:
    """Refuse what is neither True nor False.

    Raises
    ------
    ValueError
        That names the option.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name}={value!r}: expected True or False")


def check_fraction(name: str, value: Any) -> None:
    """Refuse what is no number strictly between 0 and 1.

    Raises
    ------
    ValueError
        That names the option.
    """
    if not (isinstance(value, (int, float, np.number)) and 0 < value < 1):
        raise ValueError(f"{name}={value!r}: expected a number in (0, 1)")


def read_validation(model: Any, validation: Any) -> tuple[Any, Float, Grouping]:
    """Rows of ``validation=(X, y, qid)``, scaled as those that are trained on, their labels, and their queries.

    Raises
    ------
    ValueError
        For anything but such a tuple, for rows that ``fit`` would refuse, and without query ids where ``fit`` has them.
    """
    if not isinstance(validation, (tuple, list)) or len(validation) not in (2, 3):
        shown = f"{len(validation)} of them" if isinstance(validation, (tuple, list)) else repr(validation)
        raise ValueError(
            f"validation: expected rows, labels and query ids as a tuple (X, y, qid), got {shown}"
        )
    X, qid = split_qid(validation[0], validation[2] if len(validation) == 3 else None)
    if qid is None and model._saw_qid:
        raise ValueError(
            "validation: expected query ids, as in fit: (X, y, qid); without them all rows would be ranked as one query"
        )
    with said_of("validation"):
        X, y = validate_rows(model, X, validation[1], qid=qid, order="C", reset=False)
        grouping = group_queries(qid, X.shape[0])
        if model.scaler_ is not None:
            X = model.scaler_.transform(X, qid=qid)
    return X, y, grouping


def choose_held_out(useful: Int, fraction: float, rng: np.random.RandomState) -> Int:
    """A share of the useful queries, at least one, to stop training by; at least one is left to train on.

    Useful are those whose ranking changes the measure that is watched.

    Raises
    ------
    ValueError
        For fewer than two.
    """
    if useful.shape[0] < 2:
        raise ValueError(
            "early_stopping: expected at least 2 queries whose ranking changes the measure, one of them to hold out, "
            f"got {useful.shape[0]}; pass validation=(X, y, qid), or early_stopping=False"
        )
    n = min(max(1, round(float(fraction) * useful.shape[0])), useful.shape[0] - 1)
    return rng.permutation(useful)[:n]
