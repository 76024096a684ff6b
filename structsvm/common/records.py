"""Records for ``json.dumps``, which knows neither arrays nor NaN."""

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

_Record = TypeVar("_Record")


def plain(record: _Record) -> _Record:
    """Return a value as dicts, lists, strings and numbers: arrays become lists, named tuples and dataclasses dicts, and
    NaN and infinity None."""
    value: Any = record
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    elif is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        value = {key: plain(each) for key, each in value.items()}
    elif isinstance(value, (list, tuple)):
        value = list(map(plain, value))
    elif isinstance(value, float) and not math.isfinite(value):
        value = None
    return str(value) if isinstance(value, Path) else value  # type: ignore[return-value]
