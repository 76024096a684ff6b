"""``html_by``: views of results in notebooks that name a function of ``structsvm.plots`` without importing it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def html_by(name: str) -> Callable[[Any], str]:
    """Return a method ``_repr_html_`` that calls the function ``name`` of ``structsvm.plots.notebook``."""

    def _repr_html_(self: Any) -> str:
        return str(getattr(import_module("structsvm.plots.notebook"), name)(self))

    return _repr_html_
