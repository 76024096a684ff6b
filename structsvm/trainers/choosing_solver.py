"""The table of trainers, the check that one supports the options, and the rule of "auto"."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from importlib import import_module
from typing import Any, Literal, get_args

import numpy as np

from structsvm.common.checks import BadInput, check_choice
from structsvm.protocols import Problem
from structsvm.trainers.block_dual import cache_size
from structsvm.trainers.contract import DEFAULTS, Options, Trainer, refuse
from structsvm.trainers.frank_wolfe import pays
from structsvm.trainers.passes import sampled_squares
from structsvm.trainers.row_planes import rows_cache_size

Solver = Literal["auto", "one_slack", "n_slack", "frank_wolfe", "newton"]
"""Names of trainers: each is a file of this folder, with a function of the same name and ``supports``."""

SOLVERS: tuple[str, ...] = get_args(Solver)


def _trainer(name: str) -> Trainer:
    file = import_module(f"structsvm.trainers.{name}")
    return Trainer(getattr(file, name), frozenset(file.supports))


TRAINERS: dict[str, Trainer] = {name: _trainer(name) for name in SOLVERS if name != "auto"}

_LARGEST_PULL = 20.0
"""Largest change of a query's hinge by its first full step, in units of its loss, for which "auto" picks frank_wolfe:
``C`` times its weight times the squared length of its joint feature, on average over a sample."""

_FEWEST_BY_ROWS = 512
"""Fewest queries for frank_wolfe with planes kept as row coefficients."""


def check_solver(
    solver: str,
    options: Options,
    further: Set[str] = frozenset(),
    among: Mapping[str, Trainer] = TRAINERS,
) -> list[str]:
    """Return the trainers that support the options and ``further`` abilities; raise if ``solver`` does not."""
    check_choice("solver", solver, ("auto", *among))
    needs = options.needs | further
    # "auto" may ignore the request for row coefficients of planes where another trainer is much faster
    needs -= {"rows"} if solver == "auto" else set()
    able = [name for name, trainer in among.items() if needs <= trainer.supports]
    if (solver != "auto" and solver not in able) or not able:
        lacks = needs - among[solver].supports if solver in among else needs
        raise refuse(solver, lacks, able, options)
    return able


def choose(problem: Problem, options: Options, solver: Solver) -> Callable[[float], str]:
    """Return the function from C to the name of the trainer; raise if no trainer supports the options."""
    smooth = bool(getattr(problem, "smooth", False))
    able = check_solver(solver, options, set() if smooth else {"hinge"})
    if options.planes == "rows":
        _check_rows(problem, solver)
    # "auto": newton takes the fewest passes of smooth losses; else frank_wolfe up to ``largest_C``, then one_slack
    if solver != "auto":
        return lambda C: solver
    if smooth and "newton" in able:
        return lambda C: "newton"
    if "frank_wolfe" not in able:
        return lambda C: "one_slack" if "one_slack" in able else able[0]
    most = largest_C(problem, options)
    return lambda C: "frank_wolfe" if most >= C or "one_slack" not in able else "one_slack"


def _check_rows(problem: Any, solver: str) -> None:
    """Raise if planes cannot be coefficients of rows: the problem has no rows, or does not keep their coefficients."""
    if not hasattr(problem, "row_cuts"):
        raise BadInput("planes", "expected 'auto' for a problem without rows", value="rows")
    if solver not in ("auto", "frank_wolfe") and not problem.keep_rows:
        raise BadInput(
            "planes",
            "expected a problem that keeps coefficients of its rows with {solver}",
            "make it with {keep_rows=True}",
            value="rows",
            others={"solver": solver},
        )


def largest_C(problem: Problem, options: Options = DEFAULTS) -> float:
    """Return the largest C for which "auto" is ``frank_wolfe`` where not newton: 0 if never, infinite if always."""
    # For fewer than ten queries the planes that frank_wolfe keeps per query are too coarse a model. Where Newton's
    # method over the planes can take over (``pays``), steps of any length do no harm. It cannot over planes of rows,
    # and few queries then need many passes. In between, a step is too long where C is large for the number of queries,
    # or the features are large: with a pull of 20 to 100 one_slack becomes faster, beyond 100 frank_wolfe stalls
    # (experiments/benchmarks/solvers.py), and sooner where a few features are far larger than the others.
    as_vectors = options.planes != "rows" and cache_size(problem) is not None
    by_rows = options.cone is None and rows_cache_size(problem) is not None
    if problem.n_queries < 10 or not (as_vectors or by_rows):
        return 0.0
    if as_vectors and pays(problem):
        return np.inf
    if options.planes == "rows" and problem.n_queries < _FEWEST_BY_ROWS:
        return 0.0
    pull = _pull(problem)
    return _LARGEST_PULL / pull if pull > 0 else np.inf


def _pull(problem: Problem) -> float:
    """Largest weight of a query times the mean squared joint feature of the cuts at zero."""
    total, n = sampled_squares(problem)
    return float(problem.weights.max()) * total / n
