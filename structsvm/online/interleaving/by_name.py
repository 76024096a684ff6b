"""Interleaving methods by name."""

from functools import cache

from structsvm.common.lazy import labels
from structsvm.online import interleaving
from structsvm.online.interleaving.merging import Merging

_CLASSES = labels(interleaving.__name__, "name")

NAMES = tuple(_CLASSES)
"""The names of the methods."""


@cache
def interleaver(name: str) -> Merging:
    """Return the method of a name, with its default settings; only its module is imported."""
    method: Merging = getattr(interleaving, _CLASSES[name])()
    return method
