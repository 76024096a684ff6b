"""Training for one C, or a path that reuses everything found for one C at the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from structsvm.common.checks import BadInput, check_C
from structsvm.common.portable.elementary import exp, log
from structsvm.common.portable.sums import dot, norm
from structsvm.protocols import Callback, Float, Problem
from structsvm.qp.cone import check_cone, project
from structsvm.qp.convex import Convex
from structsvm.trainers.certificate import Fit, watched
from structsvm.trainers.choosing_solver import Solver, check_options, largest_C
from structsvm.trainers.cuts import CutPool
from structsvm.trainers.frank_wolfe import BlockDual, PlaneKind, dual_of, frank_wolfe
from structsvm.trainers.n_slack import n_slack
from structsvm.trainers.newton import newton_fits
from structsvm.trainers.one_slack import one_slack
from structsvm.trainers.passes import SmoothProblem
from structsvm.trainers.row_planes import RowDual


def fit_path(
    problem: Problem,
    Cs: Sequence[float],
    *,
    solver: Solver = "auto",
    tol: float = 1e-3,
    max_passes: int = 1000,
    cone: Float | None = None,
    region: Convex | None = None,
    stabilise: bool = True,
    qp: Literal["active_set", "cvxpy"] = "active_set",
    planes: PlaneKind = "auto",
    callback: Callback | None = None,
) -> Iterator[Fit]:
    """Train for several values of C, smallest first; yields a fit for each as soon as it is done.

    Cuts do not depend on C: ``one_slack`` keeps its working set, ``frank_wolfe`` its cached planes and the dual
    point, scaled to the next C (still feasible), ``newton`` its weights. ``n_slack`` starts afresh for each. Where
    "auto" changes from ``frank_wolfe`` to ``one_slack``, the first cut is the dual point found so far.

    Parameters
    ----------
    problem : Problem
        What to minimise.
    Cs : sequence of float
        Values of the trade-off, each > 0; visited in ascending order whatever the order given.
    solver : {"auto", "one_slack", "n_slack", "frank_wolfe", "newton"}, default="auto"
        All reach the same optimum: by cutting planes of the mean hinge, or of each query (for a few hundred), by
        updates of one query at a time, and by Newton's method (smooth losses only). "auto" is newton for smooth losses;
        else frank_wolfe, or one_slack below ten queries, with rows in ``cone`` or a ``region``, without memory for
        three planes per query, and where C is large for the number of queries.
    tol : float, default=1e-3
        Relative duality gap to stop at: the objective is then within 0.1 % of its optimum.
    max_passes : int, default=1000
        Passes over the data at most.
    cone : ndarray, shape (n_features,) or (n_constraints, n_features), optional
        Constraints through zero: the sign of each weight, 1 (``w_j >= 0``), -1 (``w_j <= 0``) or 0 (free); or linearly
        independent rows with ``cone @ w >= 0``, by one_slack only.
    region : Convex, optional
        Convex constraints, and a penalty in place of ``1/2 ||w||^2`` (one_slack).
    stabilise : bool, default=True
        Whether one_slack evaluates between the best point so far and the minimiser of its model (Ben-Ameur & Neto
        2007), which far from the optimum jumps about; False is the textbook method.
    qp : {"active_set", "cvxpy"}, default="active_set"
        Solver of the working-set dual (one_slack, n_slack).
    planes : {"auto", "rows"}, default="auto"
        How frank_wolfe keeps planes: as vectors where these fit in memory, or always as coefficients of the rows, which
        gives the fit its ``dual_rows``.
    callback : callable, optional
        Told the bounds after each pass; a truthy return stops early.

    Yields
    ------
    Fit
        In ascending order of C.

    Warns
    -----
    ConvergenceWarning
        If training ended before the gap was ``tol``: by ``max_passes``, the callback, or rounding.
    NothingLearnedWarning
        If the objective is within a few ``tol`` of its value at ``w = 0``.

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
        check_C(C)
    check_options(solver, cone=cone, region=region, stabilise=stabilise, qp=qp)
    if cone is not None:
        cone = check_cone(cone, problem.n_features)
        if cone.ndim == 1 and not cone.any():
            cone = None  # all are free
    smooth = getattr(problem, "smooth", False)
    if solver == "newton" and not smooth:
        raise BadInput(
            "solver", "expected a loss with a second derivative", "use {solver='auto'}", value=solver
        )
    if solver == "newton" or (solver == "auto" and smooth and cone is None and region is None):
        fits = newton_fits(cast(SmoothProblem, problem), Cs, tol, max_passes, None, callback)
    else:
        options = _Options(tol, max_passes, cone, region, stabilise, qp, planes, callback)
        fits = _Path(problem, options).fits(Cs, solver)
    return watched(fits, problem, Cs, tol, region)


class _Options(NamedTuple):
    """Those of :func:`fit_path`."""

    tol: float
    max_passes: int
    cone: Float | None
    region: Convex | None
    stabilise: bool
    qp: Literal["active_set", "cvxpy"]
    planes: PlaneKind
    callback: Callback | None


class _Path:
    """The fits of a path, ascending in C, with what each leaves to the next; a method per trainer, by its name."""

    def __init__(self, problem: Problem, options: _Options) -> None:
        self.problem, self.options = problem, options
        self.pool = CutPool(problem.n_features)
        self.dual: BlockDual | RowDual | None = None
        self.past: list[Fit] = []

    def fits(self, Cs: Sequence[float], solver: Solver) -> Iterator[Fit]:
        options = self.options
        most = 0.0
        if solver == "auto":
            most = largest_C(self.problem, cone=options.cone, region=options.region, planes=options.planes)
        for C in sorted(set(Cs)):
            chosen = ("frank_wolfe" if most >= C else "one_slack") if solver == "auto" else solver
            guess = _extrapolate(self.past[-3:], C)
            if guess is not None:  # a region need not hold what is between its points and beyond
                guess = project(guess, options.cone) if options.region is None else None
            fit = getattr(self, chosen)(C, guess)
            self.past.append(fit)
            yield fit

    def frank_wolfe(self, C: float, guess: Float | None) -> Fit:
        if self.dual is None:
            self.dual = dual_of(self.problem, C, self.options.planes, cone=self.options.cone)
        # one pass tells whether a guess is within tol, and often it is; after one that was not, descending straight
        # away is cheaper
        if len(self.past) > 1 and self.past[-1].n_passes > 1:
            guess = None
        return frank_wolfe(
            self.problem, C, dual=self.dual, w0=guess, **self._named("tol max_passes callback")
        )

    def one_slack(self, C: float, guess: Float | None) -> Fit:
        if self.dual is not None:  # its point is a mixture of cuts, and so a cut
            self.pool.add(self.dual.cut)
            self.dual = None
        options = self._named("tol max_passes stabilise cone region qp callback")
        return one_slack(self.problem, C, w0=guess, pool=self.pool, **options)

    def n_slack(self, C: float, guess: Float | None) -> Fit:
        return n_slack(self.problem, C, **self._named("tol max_passes cone qp callback"))

    def _named(self, names: str) -> dict[str, Any]:
        return {name: getattr(self.options, name) for name in names.split()}


_APART = 1e-3
"""Least difference of log C between two fits from which the next is guessed."""


def _extrapolate(past: Sequence[Fit], C: float) -> Float | None:
    """Guess the weights at C from the last fits: the path is smooth in log C, in direction and in log norm."""
    # from a single fit the norm is taken to grow with C, as it does where C is small
    # of nearly equal C the last one: their differences are rounding
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


def train(
    problem: Problem,
    C: float,
    *,
    solver: Solver = "auto",
    tol: float = 1e-3,
    max_passes: int = 1000,
    cone: Float | None = None,
    region: Convex | None = None,
    stabilise: bool = True,
    qp: Literal["active_set", "cvxpy"] = "active_set",
    planes: PlaneKind = "auto",
    callback: Callback | None = None,
) -> Fit:
    """Minimise ``1/2 ||w||^2 + C * mean hinge`` of a problem for one C.

    Parameters
    ----------
    problem : Problem
        What to minimise.
    C : float
        Trade-off, > 0.
    solver, tol, max_passes, cone, region, stabilise, qp, planes, callback
        As for :func:`fit_path`.

    Returns
    -------
    Fit

    Warns
    -----
    ConvergenceWarning, NothingLearnedWarning
        As :func:`fit_path`.

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
    fits = fit_path(
        problem,
        [C],
        solver=solver,
        tol=tol,
        max_passes=max_passes,
        cone=cone,
        region=region,
        stabilise=stabilise,
        qp=qp,
        planes=planes,
        callback=callback,
    )
    return next(fits)
