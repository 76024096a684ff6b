"""``html_by``: show results in notebooks by a function of ``structsvm.plots.notebook``, which is imported when used."""

from collections.abc import Callable
from typing import Any


def html_by(name: str) -> Callable[[Any], str]:
    """Return a method ``_repr_html_`` that calls the function ``name`` of ``structsvm.plots.notebook``."""

    def _repr_html_(self: object) -> str:
        from structsvm.plots import notebook

        return str(getattr(notebook, name)(self))

    return _repr_html_
