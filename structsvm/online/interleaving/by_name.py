"""Interleaving methods by name."""

from functools import cache
from typing import Any

from structsvm.common.lazy import labels
from structsvm.online import interleaving

_CLASSES = labels(interleaving.__name__, "name")

NAMES = tuple(_CLASSES)
"""The names of the methods."""


@cache
def interleaver(name: str) -> Any:
    """Return the method of a name, with its default settings; only its module is imported."""
    return getattr(interleaving, _CLASSES[name])()
