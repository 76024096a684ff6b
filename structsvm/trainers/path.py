"""Train for one C, or for a path of values of C, each starting from the results for the previous one."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Unpack

import numpy as np

from structsvm.common.checks import BadInput, check_positive
from structsvm.common.portable.elementary import exp, log
from structsvm.common.portable.sums import dot, norm
from structsvm.protocols import Float, Problem
from structsvm.qp.cone import check_cone, project
from structsvm.trainers.certificate import Fit, watched
from structsvm.trainers.choosing_solver import TRAINERS, Solver, choose
from structsvm.trainers.contract import OptionNames, Options, Start


def fit_path(
    problem: Problem, Cs: Sequence[float], *, solver: Solver = "auto", **options: Unpack[OptionNames]
) -> Iterator[Fit]:
    """Train for several values of C in ascending order, and yield each fit as soon as it is done.

    Each fit starts from the results for the previous C: ``one_slack`` keeps its cuts, which do not depend on C;
    ``frank_wolfe`` keeps its cached planes and its dual point, which is scaled to the next C and remains feasible;
    ``newton`` keeps its weights. ``n_slack`` starts from zero for each C. If "auto" changes from ``frank_wolfe`` to
    ``one_slack``, the last dual point becomes the first cut.

    Parameters
    ----------
    problem : Problem
        Problem whose regularised objective is minimised.
    Cs : sequence of float
        Positive values of the trade-off, in any order; they are visited in ascending order.
    solver : str, default="auto"
        Name of the trainer; all trainers reach the same optimum. "one_slack" uses cutting planes of the mean hinge;
        "n_slack" uses cutting planes of each query and is suitable for a few hundred queries; "frank_wolfe" updates one
        query at a time; "newton" supports only smooth losses. "auto" picks newton for smooth losses. For other losses
        it picks frank_wolfe, but one_slack if there are fewer than ten queries, if memory does not suffice for three
        planes per query, or if C is large for the number of queries. It picks only trainers that support the options.
    **options
        Fields of :class:`~structsvm.trainers.Options`: ``tol``, ``max_passes``, ``callback`` and others.

    Yields
    ------
    Fit
        The fit for each C, in ascending order of C.

    Raises
    ------
    BadInput
        If the trainer does not support an option; raised before training starts.

    Warns
    -----
    ConvergenceWarning
        If training ended with a gap above ``tol``, because of ``max_passes``, the callback, or rounding.
    NothingLearnedWarning
        If the final objective is within a few ``tol`` of its value at ``w = 0``.

    Examples
    --------
    >>> import numpy as np
    >>> from structsvm.oracles.average_precision import AveragePrecision
    >>> from structsvm.trainers.passes import RankingProblem
    >>> X, y, offsets = np.array([[1.0], [0.0]]), np.array([1.0, 0.0]), np.array([0, 2])
    >>> problem = RankingProblem(X, offsets, AveragePrecision().bind(y, offsets))
    >>> [round(fit.primal, 4) for fit in fit_path(problem, [0.1, 1.0], tol=1e-6)]
    [0.03, 0.0312]
    """
    if len(Cs) == 0:
        raise BadInput("Cs", "expected at least one value, got none")
    for C in Cs:
        check_positive("C", C)
    given = Options(**options)
    trainer = choose(problem, given, solver)
    if given.cone is not None:
        cone = check_cone(given.cone, problem.n_features)
        given = replace(given, cone=None if cone.ndim == 1 and not cone.any() else cone)
    return watched(_fits(problem, sorted(set(Cs)), given, trainer), problem, Cs, given.tol, given.region)


def _fits(
    problem: Problem, Cs: Sequence[float], options: Options, trainer: Callable[[float], str]
) -> Iterator[Fit]:
    # all fits share one Start: a trainer stores its state in it, from which the next trainer starts
    start = Start()
    for C in Cs:
        start.guess = extrapolate(start.past, C)
        # a guess can be projected on a cone, but there is no projection on a region
        if start.guess is not None:
            start.guess = project(start.guess, options.cone) if options.region is None else None
        fit = TRAINERS[trainer(C)].fit(problem, C, options, start)
        start.past.append(fit)
        yield fit


_APART = 1e-3
"""Minimum difference of log C between two fits from which weights are extrapolated."""


def extrapolate(past: Sequence[Fit], C: float) -> Float | None:
    """Extrapolate the weights at C from the last three fits, as their direction and log norm are smooth in log C."""
    # Lagrange interpolation through up to three points: direction and log norm at log C are sums of those of the fits,
    # weighted by ``shares``, which sum to one. From a single fit, the norm is assumed to be proportional to C, as it is
    # for small C. Of several nearly equal values of C only the last is used, because their differences are mainly
    # rounding.
    past = past[-3:]
    past = [fit for i, fit in enumerate(past) if all(abs(log(fit.C / p.C)) > _APART for p in past[i + 1 :])]
    norms = np.array([norm(fit.w) for fit in past])
    if len(past) == 0 or (norms == 0).any():
        return None
    logs = log([fit.C for fit in past])
    shares = np.array(
        [np.prod((log(C) - np.delete(logs, i)) / (logs[i] - np.delete(logs, i))) for i in range(len(past))]
    )
    direction = sum(share * fit.w / length for share, fit, length in zip(shares, past, norms, strict=True))
    growth = C / past[0].C if len(past) == 1 else 1.0
    length = float(exp(dot(shares, log(norms))) * growth)
    guess = np.asarray(direction / norm(direction) * length)
    return guess if np.isfinite(guess).all() else None


def train(problem: Problem, C: float, *, solver: Solver = "auto", **options: Unpack[OptionNames]) -> Fit:
    """Minimise ``1/2 ||w||^2 + C * mean hinge`` of a problem for one C.

    Parameters
    ----------
    problem : Problem
        Problem whose regularised objective is minimised.
    C : float
        Trade-off between the penalty and the mean hinge, > 0.
    solver, **options
        As for :func:`fit_path`.

    Returns
    -------
    Fit

    Warns
    -----
    ConvergenceWarning, NothingLearnedWarning
        As for :func:`fit_path`.

    Examples
    --------
    >>> import numpy as np
    >>> from structsvm.oracles.average_precision import AveragePrecision
    >>> from structsvm.trainers.passes import RankingProblem
    >>> X, y, offsets = np.array([[1.0], [0.0]]), np.array([1.0, 0.0]), np.array([0, 2])
    >>> fit = train(RankingProblem(X, offsets, AveragePrecision().bind(y, offsets)), C=1.0)
    >>> fit.w.round(3), round(fit.primal, 4), fit.converged
    (array([0.25]), 0.0312, True)
    """
    return next(fit_path(problem, [C], solver=solver, **options))
