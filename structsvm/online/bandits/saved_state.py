"""The state of a bandit as JSON text with a digest, and back; a text that was changed in between is refused."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any, Self

import numpy as np

_TYPES = ("float64", "int64", "bool")


class SavedState:
    """Mixin of the bandits: all attributes as JSON."""

    def to_json(self) -> str:
        """Return the whole state as JSON; floats are restored exactly."""
        state = {key: _encode(value) for key, value in vars(self).items()}
        name = type(self).__name__
        return json.dumps({"bandit": name, "state": state, "digest": _digest(name, state)}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return a bandit in the state that :meth:`to_json` wrote; raise ValueError for any other text."""
        try:
            record = json.loads(text)
            name, state, digest = record["bandit"], record["state"], record.get("digest")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(
                f"expected the JSON text of a {cls.__name__} as to_json wrote it, got {text[:60]!r}"
            ) from error
        if name != cls.__name__:
            raise ValueError(
                f"expected the state of a {cls.__name__}, got that of a {name}: use {name}.from_json"
            )
        if not isinstance(state, dict) or digest != _digest(name, state):
            raise ValueError(
                f"state of a {name}: expected the digest that to_json wrote, got another; the text was changed, cut "
                "or written by an earlier version"
            )
        bandit = cls.__new__(cls)
        vars(bandit).update({key: _decode(value) for key, value in state.items()})
        return bandit


def _digest(name: Any, state: Any) -> str:
    return sha256(json.dumps([name, state], sort_keys=True).encode()).hexdigest()[:32]


def _encode(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {"dtype": str(value.dtype), "shape": value.shape, "values": value.ravel().tolist()}
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "to_json"):
        return {"bandit": value.to_json()}
    return value


def _decode(value: Any) -> Any:
    if isinstance(value, dict) and value.get("dtype") in _TYPES:
        return np.array(value["values"], dtype=value["dtype"]).reshape(value["shape"])
    if isinstance(value, dict) and "bandit" in value:
        from structsvm.online.bandits import from_json

        return from_json(value["bandit"])
    return value
