"""The small dual over a working set of cutting planes: solvers with one signature, chosen by name."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from structsvm.common.checks import check_choice
from structsvm.protocols import QPSolver

__all__ = ["SOLVERS", "get_solver"]

SOLVERS = ("active_set", "cvxpy")
"""Names for :func:`get_solver`; each is a module of this package with a function ``solve``."""


def get_solver(name: str) -> QPSolver:
    """Return the solver called ``name``: ``"active_set"`` (our own, the default) or ``"cvxpy"`` (the reference).

    Raises
    ------
    ImportError
        If cvxpy is requested and not installed; the message has the install command.

    Examples
    --------
    >>> import numpy as np
    >>> solve = get_solver("active_set")
    >>> solve(np.eye(1), np.array([1.0]), np.array([0]), np.array([10.0])).value
    0.5
    """
    check_choice("qp", name, SOLVERS)
    module = import_module(f"structsvm.qp.{name}")
    if name == "cvxpy":
        module.require()  # a missing package is reported now, not at the first solve
    return cast(QPSolver, module.solve)
