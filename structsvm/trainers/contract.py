"""The interface of a trainer: a file with one function, ``(problem, C, options, start) -> Fit``, and its ``supports``.

``supports`` names the abilities of the function. :mod:`~structsvm.trainers.choosing_solver` refuses options that need
other abilities before training starts, so that a trainer neither checks its options nor ignores any.
"""

from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypedDict

import numpy as np

from structsvm.common.checks import BadInput, check_callback, check_flag, check_fraction, check_whole
from structsvm.protocols import Callback, Float, Problem
from structsvm.qp import get_solver
from structsvm.qp.convex import Convex
from structsvm.trainers.certificate import Fit, Recorder

QP = Literal["active_set", "cvxpy"]

ABILITIES = {
    "hinge": "losses without a second derivative",
    "signs": "signs of weights",
    "cone": "linear constraints on weights",
    "region": "convex constraints and penalties",
    "stabilise": "{stabilise}",
    "qp": "{qp}",
}
"""Abilities to list in ``supports``, with their descriptions in error messages. A trainer that lists none minimises a
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
    """Training options, which every trainer receives as one object; the constructor checks them.

    Parameters
    ----------
    tol : float, default=1e-3
        Relative duality gap, in (0, 1), at which training stops. With the default the objective is within 0.1 % of its
        optimum.
    max_passes : int, default=1000
        Maximum number of passes over the data.
    cone : ndarray, shape (n_features,) or (n_constraints, n_features), optional
        Homogeneous constraints, either the sign of each weight, 1 (``w_j >= 0``), -1 (``w_j <= 0``) or 0 (free), or a
        matrix with linearly independent rows for ``cone @ w >= 0``. None means no constraint.
    region : Convex, optional
        Convex constraints and a penalty in place of ``1/2 ||w||^2``. None means neither.
    stabilise : bool, default=True
        Whether a cutting-plane method evaluates a point between the best point so far and the minimiser of its model
        (Ben-Ameur & Neto 2007). Far from the optimum this minimiser moves erratically. False is the textbook method,
        which evaluates the minimiser.
    qp : {"active_set", "cvxpy"}, default="active_set"
        Solver of the working-set dual of cutting-plane methods.
    callback : callable, optional
        Function called with a :class:`~structsvm.protocols.Progress` after each pass; training stops if it returns a
        true value.

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
        check_fraction("tol", self.tol)
        check_whole("max_passes", self.max_passes)
        check_callback("callback", self.callback)
        check_flag("stabilise", self.stabilise)
        get_solver(self.qp)
        if self.region is not None and self.cone is not None:
            raise BadInput("cone", "cannot be combined with a region", "pass the signs to the region")

    @property
    def needs(self) -> frozenset[str]:
        """The abilities that these options require of a trainer."""
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
    """Starting point of a fit: the results of earlier fits of the same problem for smaller values of C."""

    guess: Float | None = None
    """Weights that are probably near the optimum, or None."""
    past: list[Fit] = field(default_factory=list)
    """The fits so far, ascending in C."""
    kept: dict[str, Any] = field(default_factory=dict)
    """State that trainers keep from one C to the next, by name; other trainers may use it as well."""
    record: Recorder | None = None
    """The record of a fit that another trainer or another process has begun, or None."""

    def recorder(self, problem: Problem, C: float, options: Options) -> Recorder:
        """Return the record of a fit that has begun, if there is one, or a new record."""
        if self.record is not None:
            return self.record
        return Recorder(C, options.tol, problem.n_features, options.callback, exact=problem.exact)


class Trainer(NamedTuple):
    """The function of a trainer, with the names in ``ABILITIES`` that it supports."""

    fit: Callable[[Problem, float, Options, Start], Fit]
    supports: Set[str]


def refuse(solver: str, missing: Set[str], able: list[str], options: Options) -> BadInput:
    """Return the error for a trainer without the abilities ``missing``; ``able`` names the trainers that have all of
    them."""
    what = " and ".join(text for name, text in ABILITIES.items() if name in missing)
    remedy = f"use {{solver={able[0]!r}}}" if len(able) == 1 else f"use one of {', '.join(map(repr, able))}"
    return BadInput(
        "solver",
        f"expected a trainer that supports {what}",
        remedy if able else "no trainer does",
        value=solver,
        others=vars(options),
    )
