"""Options for constraints on linear weights: signs per feature, and constraints and penalties written in cvxpy."""

import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from structsvm.common.checks import BadInput
from structsvm.common.names import did_you_mean
from structsvm.protocols import Float
from structsvm.qp.convex import Convex, places_of, position_of
from structsvm.queries import refuse_number

Monotone = Mapping[Any, int] | Sequence[int] | None
"""The sign of each weight, or a mapping from feature names or column indices to signs; None for unconstrained
weights."""

Constraints = Callable[[Any], Any] | None
"""Function from the cvxpy variable ``w`` to a list of cvxpy constraints."""

Penalty = Callable[[Any], Any] | None
"""Function from the cvxpy variable ``w`` to a convex cvxpy expression that replaces ``1/2 ||w||^2``."""


def check_weights(model: Any) -> set[str]:
    """Raise BadInput for options that no data can make valid; return the abilities that the options require of
    trainers."""
    signed = check_signs(model.monotone_constraints)
    if model.positive and signed:
        raise BadInput(
            "monotone_constraints",
            "expected no signs, as all weights are constrained to be >= 0",
            "leave out {positive=True}",
        )
    for name in ("constraints", "penalty"):
        function = getattr(model, name)
        if function is not None and not callable(function):
            raise BadInput(name, "expected a function of the cvxpy variable w", value=function)
    if model.constraints is not None or model.penalty is not None:
        return {"region"}
    return {"signs"} if model.positive else signed


def check_signs(monotone: Monotone) -> set[str]:
    """Raise BadInput unless ``monotone`` is None, a sequence of signs, or a mapping to signs; return the abilities that
    the signs require of trainers."""
    monotone = _by_key(monotone)
    if monotone is None:
        return set()
    if isinstance(monotone, (str, bytes)) or not (
        isinstance(monotone, (Mapping, Sequence)) or np.ndim(monotone) == 1
    ):
        raise BadInput(
            "monotone_constraints",
            "expected -1, 0 or 1 for each feature, or a mapping from names or columns to signs",
            value=monotone,
        )
    items = monotone.items() if isinstance(monotone, Mapping) else enumerate(monotone)
    for key, sign in items:
        if isinstance(sign, bool) or not isinstance(sign, numbers.Real) or sign not in (-1, 0, 1):
            raise BadInput("monotone_constraints", f"expected -1, 0 or 1, got {sign!r}", at=f"[{key!r}]")
    return {"signs"}


def _by_key(monotone: object) -> Any:
    """Return a pandas Series as a mapping, because its labels identify the features; return other values unchanged."""
    if isinstance(monotone, Mapping) or not (hasattr(monotone, "items") and hasattr(monotone, "index")):
        return monotone
    if not monotone.index.is_unique:
        twice = monotone.index[monotone.index.duplicated()][0]
        raise BadInput("monotone_constraints", "expected each feature once", at=f"[{twice!r}]")
    return dict(monotone.items())


def signs_by_feature(
    monotone: Monotone, n_features: int, names: Any, column_numbers: tuple[int, ...] | None = None
) -> Float | None:
    """Return the sign of each weight, or None if all are free; :func:`check_weights` must have checked ``monotone``."""
    if monotone is None:
        return None
    monotone = _by_key(monotone)
    signs, told = np.zeros(n_features), set()
    if not isinstance(monotone, Mapping):
        if len(monotone) != n_features:
            raise BadInput(
                "monotone_constraints",
                f"expected one sign for each of {n_features} features, got {len(monotone)}",
            )
        signs[:] = monotone
    else:
        places = places_of(names)
        for key, sign in monotone.items():
            refuse_number("monotone_constraints", key, column_numbers)
            column = column_of("monotone_constraints", key, n_features, places, f"[{key!r}]")
            if column in told:
                raise _twice(key)
            told.add(column)
            signs[column] = sign
    return signs if signs.any() else None


def _twice(key: object) -> BadInput:
    return BadInput(
        "monotone_constraints", "this feature already has a sign", "name it once", at=f"[{key!r}]"
    )


def numbered_signs(signs: Mapping[str, int], n_features: int, names: Sequence[str] | None) -> dict[int, int]:
    """Return a mapping from columns to signs, for features given by name or by number from 1, as in data files."""
    columns: dict[int, int] = {}
    called = places_of(names) or {}
    for feature, sign in signs.items():
        if feature in called:
            column = called[feature]
        elif feature.isascii() and feature.isdigit() and 1 <= int(feature) <= n_features:
            column = int(feature) - 1
        else:
            raise BadInput(
                "monotone_constraints",
                f"expected a feature from 1 to {n_features}{', or its name' if called else ''}",
                did_you_mean(feature, called),
                value=feature,
            )
        if column in columns:
            raise _twice(feature)
        columns[column] = sign
    return columns


def compile_weights(model: Any, n_features: int) -> tuple[Float | None, Convex | None]:
    """Return (signs, None), or (None, region) with a region that includes the signs, for constraints or a penalty.

    Set the attributes ``constraints_`` and ``penalty_`` of the model, which describe the region.
    """
    names, numbers = getattr(model, "feature_names_in_", None), getattr(model, "_numbers_", None)
    if model.positive:
        signs: Float | None = np.ones(n_features)
    else:
        signs = signs_by_feature(model.monotone_constraints, n_features, names, numbers)
    if model.constraints is None and model.penalty is None:
        return signs, None
    by = "positive=True" if model.positive else "monotone_constraints"
    given = model.constraints, model.penalty, signs, names
    region = Convex(n_features, *given, column_numbers=numbers, signs_by=by)
    model.constraints_, model.penalty_ = region.constraints, region.penalty
    return None, region


def column_of(argument: str, key: object, n_features: int, places: Mapping[str, int] | None, at: str) -> int:
    """Return the column of a feature given by name or number; errors cite the expression ``at`` within the argument."""
    if isinstance(key, str):
        return position_of(key, places, argument, at)
    if not isinstance(key, numbers.Integral) or isinstance(key, bool) or not 0 <= int(key) < n_features:
        raise BadInput(argument, f"expected a name or a column from 0 to {n_features - 1}", at=at)
    return int(key)
