"""``html_by``: show results in notebooks by a function of ``structsvm.plots``, which is imported only when needed."""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def html_by(name: str) -> Callable[[Any], str]:
    """Return a method ``_repr_html_`` that calls the function ``name`` of ``structsvm.plots.notebook``."""

    def _repr_html_(self: Any) -> str:
        return str(getattr(import_module("structsvm.plots.notebook"), name)(self))

    return _repr_html_
