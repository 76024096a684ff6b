"""The table of trainers, the check that one supports the options, and the rule of "auto"."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from importlib import import_module
from typing import Literal, get_args

import numpy as np

from structsvm.common.checks import check_choice
from structsvm.protocols import Problem
from structsvm.trainers.block_dual import cache_size
from structsvm.trainers.contract import Options, Trainer, refuse
from structsvm.trainers.frank_wolfe import pays
from structsvm.trainers.passes import sampled_squares

Solver = Literal["auto", "one_slack", "n_slack", "frank_wolfe", "newton"]
"""Names of trainers: each is a file in this folder with a function of the same name and ``supports``."""

SOLVERS: tuple[str, ...] = get_args(Solver)


def _trainer(name: str) -> Trainer:
    file = import_module(f"structsvm.trainers.{name}")
    return Trainer(getattr(file, name), frozenset(file.supports))


TRAINERS: dict[str, Trainer] = {name: _trainer(name) for name in SOLVERS if name != "auto"}

_LARGEST_PULL = 20.0
"""Largest change of a query's hinge by its first full step, in units of its loss, for which "auto" picks frank_wolfe:
``C`` times its weight times the squared length of its joint feature, on average over a sample."""


def check_solver(
    solver: str, options: Options, further: Set[str] = frozenset(), among: Mapping[str, Trainer] = TRAINERS
) -> list[str]:
    """Return the trainers that support the options and the ``further`` abilities; raise if ``solver`` does not."""
    check_choice("solver", solver, ("auto", *among))
    needs = options.needs | further
    able = [name for name, trainer in among.items() if needs <= trainer.supports]
    if (solver != "auto" and solver not in able) or not able:
        lacks = needs - among[solver].supports if solver in among else needs
        raise refuse(solver, lacks, able, options)
    return able


def choose(problem: Problem, options: Options, solver: Solver) -> Callable[[float], str]:
    """Return the function from C to the name of the trainer; raise if no trainer supports the options."""
    smooth = bool(getattr(problem, "smooth", False))
    able = check_solver(solver, options, set() if smooth else {"hinge"})
    # "auto": newton takes the fewest passes of smooth losses; else frank_wolfe up to ``largest_C``, then one_slack
    if solver != "auto":
        return lambda C: solver
    if smooth and "newton" in able:
        return lambda C: "newton"
    if "frank_wolfe" not in able:
        return lambda C: "one_slack" if "one_slack" in able else able[0]
    most = largest_C(problem)
    return lambda C: "frank_wolfe" if most >= C or "one_slack" not in able else "one_slack"


def largest_C(problem: Problem) -> float:
    """Return the largest C for which "auto" is ``frank_wolfe`` if not newton: 0 for never, infinity for always."""
    # Below ten queries the planes per query of frank_wolfe are too coarse a model. If Newton's method over the planes
    # can take over, steps may have any length. Otherwise a step is too long if C is large for the number of queries, or
    # the features are large: one_slack becomes faster between 20 and 100, beyond frank_wolfe stalls
    # (experiments/benchmarks/solvers.py), at lower values if a few features are far larger than the others.
    if problem.n_queries < 10 or cache_size(problem) is None:
        return 0.0
    if pays(problem):
        return np.inf
    pull = _pull(problem)
    return _LARGEST_PULL / pull if pull > 0 else np.inf


def _pull(problem: Problem) -> float:
    """Largest weight of a query times the mean squared joint feature of the cuts at zero."""
    total, n = sampled_squares(problem)
    return float(problem.weights.max()) * total / n
