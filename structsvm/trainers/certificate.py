"""``Fit``: what every trainer returns, with its certificate; ``Recorder`` keeps the bounds and says when to stop."""

from __future__ import annotations

import sys
import time
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from structsvm.checks import BadInput, check_C
from structsvm.common.frames import frame
from structsvm.common.notebook import html_by
from structsvm.protocols import Callback, Float, Progress
from structsvm.trainers.rows import rows_of

__all__ = [
    "CertificateError",
    "ConvergenceWarning",
    "Fit",
    "Recorder",
    "check_bounds",
    "relative_gap",
    "users_stacklevel",
]

_TINY = 1e-300
_ROUNDING = 1e-7
"""Relative to the bounds: how far a lower one may stand above an upper one by rounding."""
_CANCELLED = 1e-11
"""Relative to ``C`` and the largest value met: bounds near zero are differences of numbers of that size."""


class CertificateError(ValueError):
    """A lower bound on the optimum is above an upper one: what they were computed from is wrong.

    Examples
    --------
    >>> import numpy as np
    >>> from structsvm.oracles import StructuredProblem
    >>> from structsvm.trainers import train
    >>> class Sign:
    ...     def joint_feature(self, x, y):
    ...         return x * y
    ...     def loss(self, y_true, y):
    ...         return float(y != y_true)
    ...     def loss_augmented_argmax(self, w, x, y_true):
    ...         return -y_true if not w.any() else y_true  # not the maximum
    ...     def argmax(self, w, x):
    ...         return 1 if w @ x > 0 else -1
    >>> problem = StructuredProblem(Sign(), [np.array([2.0]), np.array([1.0])], [1, -1])
    >>> train(problem, C=0.01)
    Traceback (most recent call last):
        ...
    structsvm.trainers.certificate.CertificateError: certificate: expected the primal value ...
    """


class ConvergenceWarning(UserWarning):
    """Training ended before the relative duality gap reached ``tol``.

    Examples
    --------
    >>> import warnings
    >>> from structsvm import SVMMap
    >>> from structsvm.readers import make_ranking
    >>> data = make_ranking(20, 10, 5, grades=2, random_state=0)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = SVMMap(C=100, max_passes=2).fit(data.X, data.y, qid=data.qid)
    >>> caught[0].category.__name__, model.fit_.converged
    ('ConvergenceWarning', False)
    """


def relative_gap(primal: float, dual: float) -> float:
    """``(primal - dual) / max(primal, tiny)``, zero when both vanish.

    Bounds that are the other way round count as equal: :func:`check_bounds` has refused what is not rounding.

    Examples
    --------
    >>> relative_gap(2.0, 1.0), relative_gap(0.0, 0.0)
    (0.5, 0.0)
    """
    return max(0.0, primal - dual) / max(primal, _TINY) if primal > dual else 0.0


def check_bounds(primal: float, dual: float, scale: float, *, rounding: float = _ROUNDING) -> None:
    """Refuse a lower bound above an upper one, by more than rounding: there is no optimum between them.

    Parameters
    ----------
    primal, dual : float
        Upper and lower bound.
    scale : float
        Size of the numbers that were subtracted from each other to get them.
    rounding : float
        Relative to ``dual``.

    Raises
    ------
    CertificateError

    Examples
    --------
    >>> check_bounds(1.0, 1.0 + 1e-12, 1.0)
    >>> check_bounds(0.5, 1.0, 1.0)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    CertificateError: certificate: expected the primal value to be at least the dual one, got 0.5 below 1
    """
    if dual > primal + rounding * abs(dual) + _CANCELLED * scale:
        raise CertificateError(
            f"certificate: expected the primal value to be at least the dual one, got {primal:g} below {dual:g}: the "
            "data are damaged or changed during training (structsvm convert --check reads a store), or the oracle does "
            "not find the most violated output (structsvm.testing.check_oracle; one that only approximates it has "
            "exact = False)"
        )


@dataclass(frozen=True, eq=False)
class Fit:
    """A trained weight vector with the proof of how good it is.

    Attributes
    ----------
    w : ndarray of float64, shape (n_features,)
        The weights with the lowest primal value found.
    primal : float
        ``1/2 ||w||^2 + C * mean slack`` at ``w``: an upper bound on the optimum when ``certified``.
    dual : float
        Best dual value: a lower bound on the optimum.
    gap : float
        ``(primal - dual) / primal``: the optimum is within this relative distance.
    C : float
        The trade-off the fit is for.
    converged : bool
        Whether ``gap <= tol``.
    certified : bool
        False when the oracle is approximate: ``primal`` is then an estimate from below.
    n_iterations : int
        Steps of the trainer: cuts (one_slack), added constraints (n_slack), block updates (frank_wolfe).
    n_passes : int
        Passes over the data: how often every query's most violated output was asked for, be it to train, query by
        query or all at once, or to measure the primal value.
    n_cuts : int
        Cuts held at the end.
    seconds : float
        Wall-clock time of the fit.
    solver : str
        Which trainer produced it.
    history : tuple of Progress
        The bounds and the seconds after each pass, one entry per pass (newton: a step, of several passes), or one
        entry if no pass was made; the last entry has ``n_passes``, ``primal``, ``dual`` and ``gap`` of the fit.
    gradient_norm : float or None
        Norm of the gradient of the objective at ``w`` over that at zero (newton); None where there is no gradient.
    dual_rows : ndarray of float64, shape (n_rows,), or None
        The dual point as a coefficient per row: its weights are ``X' dual_rows``, its value is ``dual``, or below 0
        where ``dual`` is 0. None where the trainer did not keep planes as coefficients of rows. Not saved with a model.

    Examples
    --------
    >>> from structsvm import SVMMap
    >>> from structsvm.readers import make_ranking
    >>> data = make_ranking(20, 10, 5, grades=2, random_state=0)
    >>> fit = SVMMap(C=1).fit(data.X, data.y, qid=data.qid).fit_
    >>> fit.converged, fit.gap <= 1e-3, fit.dual <= fit.primal
    (True, True, True)
    >>> len(fit.history) == fit.n_passes, fit.w.shape
    (True, (5,))
    """

    w: Float
    primal: float
    dual: float
    gap: float
    C: float
    converged: bool
    certified: bool
    n_iterations: int
    n_passes: int
    n_cuts: int
    seconds: float
    solver: str
    history: tuple[Progress, ...] = field(repr=False, default=())
    gradient_norm: float | None = None
    dual_rows: Float | None = field(repr=False, default=None, metadata={"saved": False})

    def gain_bound(self, columns: Any) -> float:
        """Return how much lower the optimum may be, at most, once these columns are added to the features.

        With the dual point ``g``, of value ``dual`` for the present features, and the new columns ``Z``, the same point
        is feasible for both together and has the value ``dual - 1/2 ||Z' g||^2``: the new optimum is not below that,
        the old one not above ``primal``. Columns whose bound is below ``tol * primal`` are not worth adding.

        Parameters
        ----------
        columns : ndarray or CSR matrix, shape (n_rows, n_columns), or CompiledRows
            Of the rows trained on, in their order.

        Returns
        -------
        float
            ``primal - dual + 1/2 ||Z' g||^2``.

        Raises
        ------
        ValueError
            Where ``dual_rows`` are not known, and for another number of rows.

        Examples
        --------
        >>> fit = Fit(np.array([1.0]), 0.75, 0.75, 0.0, 1.0, True, True, 1, 1, 1, 0.0, "frank_wolfe",
        ...           dual_rows=np.array([0.5, -0.5]))
        >>> fit.gain_bound(np.array([[1.0], [0.0]])), fit.gain_bound(np.array([[1.0], [1.0]]))
        (0.125, 0.0)
        """
        if self.dual_rows is None:
            raise BadInput(
                "dual_rows", "expected a fit that kept them", "train a TreeRanker, or {planes='rows'}"
            )
        rows = rows_of(columns)
        n = self.dual_rows.shape[0]
        if rows.shape[0] != n:
            raise BadInput("columns", f"expected the {n} rows trained on, got {rows.shape[0]}")
        gain = np.zeros(rows.shape[1])
        combine = rows.row_kernels[1]
        combine(*rows.row_arrays, np.array([0, n]), 0, 1, np.ones(1), self.dual_rows, gain)
        return float(max(0.0, self.primal - self.dual) + 0.5 * gain @ gain)

    def __repr__(self) -> str:
        ended = "" if self.converged else ", tolerance not reached"
        bound = "gap" if self.certified else "estimated gap"
        passes = f"{self.n_passes} pass{'' if self.n_passes == 1 else 'es'}"
        return (
            f"Fit(C={self.C:g}, objective {self.primal:.6g}, {bound} {self.gap:.1e} after {passes} "
            f"by {self.solver}{ended}, {self.w.size} weights)"
        )

    def to_frame(self) -> Any:
        """Return the history as a pandas frame: bounds, gap and seconds, a row per pass."""
        fields = ("primal", "dual", "gap", "seconds")
        return frame(
            {name: [getattr(step, name) for step in self.history] for name in fields},
            index=[step.n_passes for step in self.history],
            index_name="passes",
        )

    _repr_html_ = html_by("fit")


class Recorder:
    """Keeps the best bounds met so far, their history, and the clock; every trainer reports through one.

    Parameters
    ----------
    C, tol : float
        Trade-off, and relative duality gap to reach.
    n_features : int
        Length of the weights.
    callback : callable, optional
        Told a :class:`~structsvm.protocols.Progress` after each pass; truthy asks to stop.
    exact : bool, default=True
        Whether primal values are; an estimate that a later dual value refutes is forgotten.

    Raises
    ------
    ValueError
        For a C that is not positive and finite.
    """

    def __init__(
        self, C: float, tol: float, n_features: int, callback: Callback | None = None, *, exact: bool = True
    ) -> None:
        check_C(C)
        self.C = C
        self.exact = exact
        self.tol = tol
        self.callback = callback
        self.w: Float = np.zeros(n_features)
        self.primal = np.inf
        self._scale = C
        self.dual = 0.0  # alpha = 0 is always feasible
        self.n_passes = 0
        self.stopped = False
        self.history: list[Progress] = []
        self._start = time.perf_counter()

    @property
    def gap(self) -> float:
        return relative_gap(self.primal, self.dual) if np.isfinite(self.primal) else np.inf

    @property
    def done(self) -> bool:
        """Whether to stop: the gap is reached or the callback asked to."""
        return self.stopped or self.gap <= self.tol

    def lower(self, dual: float) -> None:
        """Offer a dual value; CertificateError if it is above an exact primal one."""
        self.dual = max(self.dual, dual)
        if self.exact:
            check_bounds(self.primal, self.dual, self._scale)
        elif self.dual > self.primal * (1 + 1e-9):
            # outputs found since then would have raised the estimate: its point was never that good
            self.primal = np.inf

    def upper(self, primal: float, w: Float) -> None:
        """Offer a primal value and the weights that attain it.

        CertificateError if it is exact and below the dual one, ValueError if it is not a number.
        """
        if np.isnan(primal):
            raise BadInput(
                "problem", "expected finite features and losses, got an objective that is not a number"
            )
        if np.isfinite(primal):
            self._scale = max(self._scale, abs(primal))
        if self.exact:
            check_bounds(primal, self.dual, self._scale)
        if primal < self.primal:
            self.primal = primal
            self.w = w.copy()

    def replace(self, primal: float, w: Float) -> None:
        """Offer weights that are preferred to the best ones as long as their gap is within ``tol``."""
        if relative_gap(primal, self.dual) <= self.tol:
            check_bounds(primal, self.dual, self._scale)
            self.primal = primal
            self.w = w.copy()

    def begun(self, seconds: float) -> None:
        """Set the clock: so many seconds were spent on this fit before."""
        self._start = time.perf_counter() - seconds

    def passed(self, n: int = 1) -> None:
        """Note that ``n`` passes over the data were made, and tell the callback."""
        self.n_passes += n
        progress = Progress(
            self.n_passes, self.primal, self.dual, self.gap, time.perf_counter() - self._start
        )
        self.history.append(progress)
        # one that asked to stop is not asked again: the pass that was due to measure the weights follows unheard
        if self.callback is not None and not self.stopped and self.callback(progress):
            self.stopped = True

    def finish(
        self, solver: str, *, n_iterations: int, n_cuts: int, exact: bool, dual_rows: Float | None = None
    ) -> Fit:
        """The record; warns when the gap was not reached."""
        converged = self.gap <= self.tol
        if not converged:
            ended, remedy = "stopped", "raise max_passes or tol, or scale the features"
            if self.stopped:
                ended, remedy = "was stopped by the callback", "the weights are the best so far"
            warnings.warn(
                f"{solver} {ended} at relative duality gap {self.gap:.2e} after {self.n_passes} passes "
                f"(tol={self.tol:g}){_loose_bound(self.history)}; {remedy}",
                ConvergenceWarning,
                stacklevel=users_stacklevel(),
            )
        return Fit(
            w=self.w,
            primal=float(self.primal),
            dual=float(self.dual),
            gap=float(self.gap),
            C=float(self.C),
            converged=converged,
            certified=exact,
            n_iterations=n_iterations,
            n_passes=self.n_passes,
            n_cuts=n_cuts,
            seconds=time.perf_counter() - self._start,
            solver=solver,
            history=tuple(self.history),
            dual_rows=dual_rows,
        )


def _loose_bound(history: list[Progress]) -> str:
    """Which bound is probably the farther from the optimum: the one that moved more in the last quarter of the passes.

    Where both distances were measured, and one was twice the other, that was right in 42 of 52 stopped fits; the
    bound that had not moved for longest was the loose one in 12 of 42 only. Empty where neither moved, or there are
    too few passes to tell.

    Examples
    --------
    >>> _loose_bound([Progress(i, 2.0, d, 0.0, 0.0) for i, d in enumerate([0.0, 0.5, 0.7, 0.8])])
    ', the lower bound (dual) is probably the loose one'
    """
    if len(history) < 4:
        return ""
    before, now = history[-1 - len(history) // 4], history[-1]
    if not np.isfinite(before.primal):
        return ""
    fell, rose = before.primal - now.primal, now.dual - before.dual
    if not max(fell, rose) > 0 or fell == rose:
        return ""
    name = "upper bound (primal)" if fell > rose else "lower bound (dual)"
    return f", the {name} is probably the loose one"


def users_stacklevel() -> int:
    """The ``stacklevel`` at which the caller's warning points to the first line outside this package."""
    level, frame = 2, sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("structsvm."):
        level, frame = level + 1, frame.f_back
    return level
