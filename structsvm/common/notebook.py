"""What a notebook shows of a result: made by the room of reports, which results know by the names of its functions."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def html_by(name: str) -> Callable[[Any], str]:
    """Return a ``_repr_html_`` that calls the function ``name`` of ``structsvm.plots.notebook`` with the result."""

    def _repr_html_(self: Any) -> str:
        made: str = getattr(import_module("structsvm.plots.notebook"), name)(self)
        return made

    return _repr_html_
