"""Warnings that point to the user's line, outside of this package and of packages that call it."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from structsvm.common.checks import BadInput

_INSIDE = ("structsvm.", "numba.", "contextlib.", "sklearn.utils._set_output.")
"""Modules between this package and the user; scikit-learn wraps each ``transform`` in a function of the last module."""


def warn_user(message: str | BadInput, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that points to the first line outside of the modules in ``_INSIDE``; a message that names
    arguments is a :class:`BadInput`, whose fields the command line spells as options."""
    warning = category(str(message))
    if isinstance(message, BadInput):
        warning.fields = message  # type: ignore[attr-defined]
    warnings.warn(warning, stacklevel=stacklevel_of_user())


def stacklevel_of_user() -> int:
    """Return the ``stacklevel`` with which the caller's warning points to the first line outside of the modules in
    ``_INSIDE``."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and f"{frame.f_globals.get('__name__')}.".startswith(_INSIDE):
        frame, level = frame.f_back, level + 1
    return level


@contextmanager
def ordered_columns() -> Iterator[None]:
    """Ignore scikit-learn's warning about missing feature names, for columns that are in the order of the model."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        yield
