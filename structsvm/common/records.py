"""Records for ``json.dumps``, which knows neither arrays nor NaN."""

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """Return a value as dicts, lists, strings and numbers: arrays become lists, named tuples and dataclasses dicts, and
    NaN and infinity None."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    elif is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(plain, value))
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value) if isinstance(value, Path) else value
