"""Names of the trainers, the options that each takes, and the largest C for which "auto" runs frank_wolfe."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from structsvm.common.checks import BadInput, check_choice, check_flag
from structsvm.protocols import Float, Problem
from structsvm.qp import get_solver
from structsvm.qp.convex import Convex
from structsvm.trainers.frank_wolfe import PlaneKind, cache_size, pays
from structsvm.trainers.passes import sampled_squares
from structsvm.trainers.row_planes import rows_cache_size

Solver = Literal["auto", "one_slack", "n_slack", "frank_wolfe", "newton"]
SOLVERS: tuple[str, ...] = get_args(Solver)

_LARGEST_PULL = 20.0
"""Largest change of a query's hinge by its first full step, in units of its loss, for which "auto" picks frank_wolfe:
``C`` times its weight times the squared length of its joint feature, on average over a sample."""

_FEWEST_BY_ROWS = 512
"""Fewest queries for frank_wolfe with planes kept as row coefficients."""


def check_options(
    solver: str,
    *,
    cone: Float | None = None,
    region: Convex | None = None,
    stabilise: bool = True,
    qp: str = "active_set",
) -> None:
    """Raise for options that :func:`train` cannot follow, before any data are looked at."""
    check_choice("solver", solver, SOLVERS)
    check_flag("stabilise", stabilise)
    if cone is not None and np.ndim(cone) != 1 and solver not in ("auto", "one_slack"):
        raise BadInput(
            "cone",
            "got rows with {solver}",
            "only {solver='one_slack'} supports them; signs go with any",
            others={"solver": solver},
        )
    if region is not None and solver not in ("auto", "one_slack"):
        raise BadInput(
            "region",
            "got {solver}",
            "only {solver='one_slack'} takes convex constraints and penalties",
            others={"solver": solver},
        )
    if region is not None and cone is not None:
        raise BadInput("cone", "expected no signs beside a region", "give them to the region")
    if cone is not None and solver == "newton":
        raise BadInput(
            "cone", "got signs with {solver}", "any other solver takes them", others={"solver": solver}
        )
    get_solver(qp)


def largest_C(
    problem: Problem,
    *,
    cone: Float | None = None,
    region: Convex | None = None,
    planes: PlaneKind = "auto",
) -> float:
    """Return the largest C for which "auto" is ``frank_wolfe`` where not newton: 0 if never, infinite if always."""
    # frank_wolfe knows neither rows of a cone nor regions; below ten queries its planes per query are too coarse a
    # model. Where Newton's method over the planes can take over, steps may carry as far as they like; with planes of
    # rows it cannot, and few queries need many passes. Otherwise a step carries too far where C is large for the number
    # of queries, or the features are large: between 20 and 100 the two change places, beyond frank_wolfe stalls
    # (experiments/benchmarks/solvers.py), at lower values where a few features are far larger than the others.
    general = region is not None or (cone is not None and cone.ndim == 2)
    as_vectors = planes != "rows" and cache_size(problem) is not None
    by_rows = cone is None and rows_cache_size(problem) is not None
    if general or problem.n_queries < 10 or not (as_vectors or by_rows):
        return 0.0
    if as_vectors and pays(problem):
        return np.inf
    if planes == "rows" and problem.n_queries < _FEWEST_BY_ROWS:
        return 0.0
    pull = _pull(problem)
    return _LARGEST_PULL / pull if pull > 0 else np.inf


def _pull(problem: Problem) -> float:
    """Largest weight of a query times the mean squared joint feature of the cuts at zero."""
    total, n = sampled_squares(problem)
    return float(problem.weights.max()) * total / n
