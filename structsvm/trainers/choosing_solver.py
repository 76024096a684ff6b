"""The table of trainers, the check that a trainer supports the options, and the rule that "auto" follows."""

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
"""Names of the trainers. Each has a file in this folder that defines a function of the same name and ``supports``."""

SOLVERS: tuple[str, ...] = get_args(Solver)


def _trainer(name: str) -> Trainer:
    file = import_module(f"structsvm.trainers.{name}")
    return Trainer(getattr(file, name), frozenset(file.supports))


TRAINERS: dict[str, Trainer] = {name: _trainer(name) for name in SOLVERS if name != "auto"}

FEWEST_QUERIES = 10
"""Fewest queries or blocks for which "auto" picks a trainer with a few planes for each."""

_LARGEST_PULL = 20.0
"""Largest mean change of a query's hinge after its first full step, in units of its loss, for which "auto" picks
frank_wolfe. The change is estimated as ``C`` times the largest query weight times the mean squared norm of the joint
features of a sample."""


def check_solver(
    solver: str, options: Options, further: Set[str] = frozenset(), among: Mapping[str, Trainer] = TRAINERS
) -> list[str]:
    """Return the names of the trainers that support the options and the ``further`` abilities; raise BadInput if
    ``solver`` does not."""
    check_choice("solver", solver, ("auto", *among))
    needs = options.needs | further
    able = [name for name, trainer in among.items() if needs <= trainer.supports]
    if (solver != "auto" and solver not in able) or not able:
        lacks = needs - among[solver].supports if solver in among else needs
        raise refuse(solver, lacks, able, options)
    return able


def choose(problem: Problem, options: Options, solver: Solver) -> Callable[[float], str]:
    """Return a function from C to the name of the trainer; raise BadInput if no trainer supports the options."""
    smooth = bool(getattr(problem, "smooth", False))
    able = check_solver(solver, options, set() if smooth else {"hinge"})
    # "auto": newton needs the fewest passes for smooth losses; for others, frank_wolfe does up to ``largest_C``, and
    # one_slack above it
    if solver != "auto":
        return lambda C: solver
    if smooth and "newton" in able:
        return lambda C: "newton"
    if "frank_wolfe" not in able:
        return lambda C: "one_slack" if "one_slack" in able else able[0]
    most = largest_C(problem)
    return lambda C: "frank_wolfe" if most >= C or "one_slack" not in able else "one_slack"


def largest_C(problem: Problem) -> float:
    """Return the largest C for which "auto" picks ``frank_wolfe`` for a loss that is not smooth: 0 for never, infinity
    for always."""
    # With fewer than ten queries, the few planes per query of frank_wolfe are too coarse a model. If Newton's method
    # over the planes can take over, any C is suitable. Otherwise steps are too long if C is large for the number of
    # queries or the features are large: one_slack becomes faster where C times the pull is between 20 and 100, and
    # above that range frank_wolfe stalls (experiments/benchmarks/solvers.py), even earlier if a few features are far
    # larger than others.
    if problem.n_queries < FEWEST_QUERIES or cache_size(problem) is None:
        return 0.0
    if pays(problem):
        return np.inf
    return largest_C_of(float(problem.weights.max()), *sampled_squares(problem))


def largest_C_of(heaviest: float, total: float, n: int) -> float:
    """Return the largest C for which steps are not too long, given the largest query weight, and the sum of the squared
    norms of ``n`` joint features at zero weights."""
    pull = heaviest * total / max(1, n)
    return _LARGEST_PULL / pull if pull > 0 else np.inf
