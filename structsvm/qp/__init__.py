"""Solvers of the small dual problem over a working set of cutting planes; all have the same signature."""

from importlib import import_module
from typing import cast

from structsvm.common.checks import check_choice
from structsvm.protocols import QPSolver

__all__ = ["SOLVERS", "get_solver"]

SOLVERS = ("active_set", "cvxpy")
"""Names that :func:`get_solver` accepts; each is a module of this package with a function ``solve``."""


def get_solver(name: str) -> QPSolver:
    """Return the solver called ``name``, either ``"active_set"`` (implemented in this package) or ``"cvxpy"`` (a
    reference).

    Raises
    ------
    ImportError
        If cvxpy is requested and not installed; the message contains the install command.

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
        module.require()  # report a missing package now, not at the first solve
    return cast(QPSolver, module.solve)
