"""The state of a bandit as JSON text, and back; a text that was changed in between is refused."""

from __future__ import annotations

import inspect
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

__all__ = ["dump", "load"]

T = TypeVar("T")

_MOST = (1 << 63) - 1
"""A count at most: what int64 holds."""
_MOST_EXPONENT = 62
"""An exponent at most: 2 to its power is such a count."""


def dump(bandit: Any) -> str:
    """Return the attributes of a bandit as JSON; floats are restored exactly."""
    state = {key: _encode(value) for key, value in vars(bandit).items()}
    return json.dumps({"bandit": type(bandit).__name__, "state": state}, allow_nan=False)


def load(
    cls: type[T],
    text: str,
    *,
    arms: Sequence[str] = (),
    positions: Mapping[str, str] | None = None,
    exponents: Sequence[str] = (),
) -> T:
    """Restore a bandit of a known class from what :func:`dump` returned; raise ValueError unless the state is whole.

    Parameters
    ----------
    cls : type
    text : str
    arms : sequence of str
        Attributes that hold arms, none of them twice: a list (of lists), or one arm, or what a fresh bandit has
        there for none.
    positions : mapping of str to str, optional
        Attributes that hold a position, each with the attribute that holds the list.
    exponents : sequence of str
        Attributes to whose power 2 is raised, to be compared with a count.
    """
    try:
        record = json.loads(text)
        name, state = record["bandit"], record["state"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(
            f"expected the JSON text of a {cls.__name__} as to_json wrote it, got {text[:60]!r}"
        ) from error
    if name != cls.__name__:
        raise ValueError(
            f"expected the state of a {cls.__name__}, got that of a {name}: use {name}.from_json"
        )
    bandit = cls.__new__(cls)
    vars(bandit).update(_checked(cls, state, arms, positions or {}, exponents))
    return bandit


def _checked(
    cls: type, state: Any, arms: Sequence[str], positions: Mapping[str, str], exponents: Sequence[str]
) -> dict[str, Any]:
    """Return the decoded attributes, compared with those of a fresh bandit of the same parameters.

    What does not fit is refused here and not at some later ``select``.
    """

    def fail(expected: str) -> ValueError:
        expected = " ".join(expected.split())  # arrays are shown in several lines
        return ValueError(
            f"state of a {cls.__name__}: expected {expected}; it was changed after to_json wrote it"
        )

    if not isinstance(state, dict):
        raise fail(f"an object with its attributes, got {state!r:.60}")
    values = {}
    for key, value in state.items():
        try:
            values[key] = _decode(value)
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise fail(f"{key!r} as written, got {value!r:.60} ({error})") from error
        # a horizon that is squared again and again outgrows 64 bits, but no float
        if type(values[key]) is int and abs(values[key]) > sys.float_info.max:
            raise fail(f"{key!r} to be at most {sys.float_info.max}, got {value!r:.60}")
    parameters = inspect.signature(cls).parameters
    missing = [key for key, one in parameters.items() if one.default is one.empty and key not in values]
    if missing:
        raise fail(f"the attribute {missing[0]!r}, which is missing")
    # a fresh bandit takes memory by n_arms: compare it with the size of the saved arrays first
    n_arms, largest = values.get("n_arms"), max(map(_extent, values.values()), default=0)
    if isinstance(n_arms, (int, float)):
        for key, value in values.items():
            if n_arms > getattr(value, "n_arms", math.inf):
                raise fail(f"{key!r} to be of {n_arms!r:.60} arms, got {value.n_arms}")
        if n_arms > largest:
            raise fail(f"'n_arms' to be at most the {largest} of its records, got {n_arms!r:.60}")
    try:
        fresh = vars(cls(**{key: values[key] for key in parameters if key in values}))
    except (ValueError, TypeError, AttributeError, MemoryError, ArithmeticError) as error:
        raise fail(f"parameters it can be made with ({error})") from error
    for key in fresh.keys() ^ values.keys():
        raise fail(f"the attribute {key!r}, which is missing" if key in fresh else f"no attribute {key!r}")
    for key, one in fresh.items():
        value = values[key]
        if isinstance(one, np.ndarray):
            if not isinstance(value, np.ndarray) or (value.shape, value.dtype) != (one.shape, one.dtype):
                raise fail(f"{key!r} to be an array of {one.dtype} of shape {one.shape}, got {value!r:.60}")
            if not np.isfinite(value).all():
                raise fail(f"{key!r} to hold finite numbers, got {value!r:.60}")
            if not one.any() and (value < 0).any():  # zero in a fresh bandit: a count, never negative
                raise fail(f"{key!r} to hold counts, none below 0, got {value!r:.60}")
            if not one.any() and (value > _MOST).any():
                raise fail(f"{key!r} to hold counts, none above {_MOST}, got {value!r:.60}")
        elif not (one is None and value is None):
            kind = "a number" if one is None else _kind(one)
            if _kind(value) != kind and not (kind == "a number" and _kind(value) == "a whole number"):
                raise fail(f"{key!r} to be {kind}, got {value!r:.60}")
            if kind == "a whole number" and value < min(one, 0):
                raise fail(f"{key!r} to be at least {min(one, 0)}, got {value!r:.60}")
            if kind == "a whole number" and (one <= 0 or key in exponents):  # of the counts
                most = _MOST_EXPONENT if key in exponents else _MOST
                if value > most:
                    raise fail(f"{key!r} to be at most {most}, got {value!r:.60}")
            if kind == "a number" and key not in parameters and not (one is None or math.isclose(value, one)):
                raise fail(f"{key!r} to be {one!r}, which follows from the parameters, got {value!r:.60}")
            size, right = (
                (value, one) if key == "n_arms" else (getattr(b, "n_arms", None) for b in (value, one))
            )
            if size != right:
                raise fail(f"{key!r} to be of {right} arms, got {size}")
    _check_arms_of(values, fresh, arms, fail)
    for key, of in positions.items():
        n = len(values[of])
        if not 0 <= values[key] < max(n, 1) or (n and values[of][values[key]] == []):
            raise fail(f"{key!r} to be a position in {of!r} (of {n}, filled), got {values[key]!r:.60}")
    return values


def _check_arms_of(
    values: dict[str, Any], fresh: dict[str, Any], keys: Sequence[str], fail: Callable[[str], ValueError]
) -> None:
    """Raise ValueError unless the attributes hold valid arms, none twice, and none is missing."""
    seen: dict[int, str] = {}
    for key in keys:
        if not isinstance(fresh[key], list) and values[key] in (None, -1) and values[key] == fresh[key]:
            continue
        held = values[key] if isinstance(values[key], list) else [values[key]]
        if isinstance(fresh[key], list) and any(isinstance(part, list) for part in fresh[key]):
            for part in held:
                if not isinstance(part, list):
                    raise fail(f"{key!r} to hold lists of arms, got {part!r:.60}")
            held = [arm for part in held for arm in part]
        if not held and fresh[key]:
            raise fail(f"{key!r} to hold at least one arm, got {values[key]!r:.60}")
        for arm in held:
            if type(arm) is not int or not 0 <= arm < values["n_arms"]:
                raise fail(f"{key!r} to hold arms from 0 to {values['n_arms'] - 1}, got {arm!r:.60}")
            if arm in seen:
                where = "twice" if seen[arm] == key else f"that is in {seen[arm]!r} too"
                raise fail(f"{key!r} to hold different arms, got {arm} {where}")
            seen[arm] = key


def _extent(value: Any) -> int:
    """Return the number of arms that a saved value may refer to."""
    if isinstance(value, np.ndarray):
        return max(value.shape, default=0)
    return len(value) if isinstance(value, list) else int(getattr(value, "n_arms", 0))


def _kind(value: Any) -> str:
    """Return the JSON type of a value in words."""
    if isinstance(value, float):
        return "a number" if math.isfinite(value) else "infinite"
    names = {bool: "true or false", int: "a whole number", str: "a text", list: "a list"}
    return names.get(type(value), type(value).__name__)


def _encode(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {"dtype": str(value.dtype), "shape": value.shape, "values": value.ravel().tolist()}
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "to_json"):
        return {"bandit": value.to_json()}
    return value


def _decode(value: Any) -> Any:
    if isinstance(value, dict) and "dtype" in value:
        if value["dtype"] not in ("float64", "int64", "bool", "int32", "float32"):
            raise ValueError("no type of numbers")
        return np.array(value["values"], dtype=value["dtype"]).reshape(value["shape"])
    if isinstance(value, dict) and "bandit" in value:
        from structsvm.online.bandits import from_json

        return from_json(value["bandit"])
    return value
