"""The contract of a trainer: a file with one function, ``(problem, C, options, start) -> Fit``, and its ``supports``.

``supports`` names what the function can take. :mod:`~structsvm.trainers.choosing_solver` refuses anything else before
any work, so that a trainer neither checks its options nor ignores any.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict

import numpy as np

from structsvm.common.checks import BadInput, check_flag
from structsvm.protocols import Callback, Float, Problem
from structsvm.qp import get_solver
from structsvm.trainers.certificate import Fit, Recorder

if TYPE_CHECKING:
    from structsvm.qp.convex import Convex

QP = Literal["active_set", "cvxpy"]

ABILITIES = {
    "hinge": "losses without a second derivative",
    "signs": "signs of weights",
    "cone": "linear constraints on weights",
    "region": "convex constraints and penalties",
    "stabilise": "{stabilise}",
    "qp": "{qp}",
}
"""Abilities to list in ``supports``, with the words of error messages. A trainer that lists nothing minimises a
smooth loss plus ``1/2 ||w||^2``."""


class OptionNames(TypedDict, total=False):
    """The fields of :class:`Options`, for type checkers."""

    tol: float
    max_passes: int
    cone: Float | None
    region: Convex | None
    stabilise: bool
    qp: QP
    callback: Callback | None


@dataclass(frozen=True, eq=False)
class Options:
    """Options of training, as one object that every trainer receives; its constructor checks them.

    Parameters
    ----------
    tol : float, default=1e-3
        Relative duality gap to stop at: the objective is then within 0.1 % of its optimum.
    max_passes : int, default=1000
        Maximum number of passes over the data.
    cone : ndarray, shape (n_features,) or (n_constraints, n_features), optional
        Constraints through zero: the sign of each weight, 1 (``w_j >= 0``), -1 (``w_j <= 0``) or 0 (free); or linearly
        independent rows with ``cone @ w >= 0`` (one_slack only).
    region : Convex, optional
        Convex constraints, and a penalty instead of ``1/2 ||w||^2`` (one_slack).
    stabilise : bool, default=True
        Whether one_slack evaluates between the best point so far and the minimiser of its model (Ben-Ameur & Neto
        2007), which moves erratically far from the optimum; False is the textbook method.
    qp : {"active_set", "cvxpy"}, default="active_set"
        Solver of the working-set dual (one_slack, n_slack).
    callback : callable, optional
        Called with the bounds after each pass; a truthy return stops early.

    Examples
    --------
    >>> Options(tol=1e-6).max_passes
    1000
    >>> Options(qp="simplex")
    Traceback (most recent call last):
        ...
    structsvm.common.checks.BadInput: qp='simplex': expected 'active_set' or 'cvxpy'
    """

    tol: float = 1e-3
    max_passes: int = 1000
    cone: Float | None = None
    region: Convex | None = None
    stabilise: bool = True
    qp: QP = "active_set"
    callback: Callback | None = None

    def __post_init__(self) -> None:
        check_flag("stabilise", self.stabilise)
        get_solver(self.qp)
        if self.region is not None and self.cone is not None:
            raise BadInput("cone", "cannot be combined with a region", "pass the signs to the region")

    @property
    def needs(self) -> frozenset[str]:
        """The abilities that a trainer needs for these options."""
        n_axes = 0 if self.cone is None else np.ndim(self.cone)
        requested = {
            "signs": n_axes == 1 and bool(np.any(self.cone)),
            "cone": n_axes > 1,
            "region": self.region is not None,
            "stabilise": not self.stabilise,
            "qp": self.qp != "active_set",
        }
        return frozenset(name for name, is_requested in requested.items() if is_requested)


DEFAULTS = Options()


@dataclass
class Start:
    """Starting point of a fit: results of the fits of the same problem for smaller C."""

    guess: Float | None = None
    """Weights that are probably near the optimum."""
    past: list[Fit] = field(default_factory=list)
    """The fits so far, ascending in C."""
    kept: dict[str, Any] = field(default_factory=dict)
    """State that trainers keep from one C to the next, each under its own name; other trainers may use it, too."""
    record: Recorder | None = None
    """The record of a fit that another trainer, or another process, has begun."""

    def recorder(self, problem: Problem, C: float, options: Options) -> Recorder:
        """Return the record of the fit that has begun, or a new record."""
        if self.record is not None:
            return self.record
        return Recorder(C, options.tol, problem.n_features, options.callback, exact=problem.exact)


class Trainer(NamedTuple):
    """A trainer with the ``ABILITIES`` that it supports."""

    fit: Callable[[Problem, float, Options, Start], Fit]
    supports: Set[str]


def refuse(solver: str, missing: Set[str], able: list[str], options: Options) -> BadInput:
    """Return the error for a trainer that lacks the abilities ``missing``; the trainers ``able`` have all of them."""
    what = " and ".join(text for name, text in ABILITIES.items() if name in missing)
    remedy = f"use {{solver={able[0]!r}}}" if len(able) == 1 else f"use one of {', '.join(map(repr, able))}"
    return BadInput(
        "solver",
        f"expected a trainer that supports {what}",
        remedy if able else "no trainer does",
        value=solver,
        others=vars(options),
    )
