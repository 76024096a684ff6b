"""``Fit``: what every trainer returns, with its certificate; ``Recorder`` keeps the bounds and says when to stop."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from structsvm.common.checks import BadInput, check_C
from structsvm.common.compiling import clock
from structsvm.common.frames import frame
from structsvm.common.notebook import html_by
from structsvm.common.portable.arrays import norm
from structsvm.protocols import Callback, Float, Progress
from structsvm.queries import warn_user

if TYPE_CHECKING:
    from structsvm.qp.convex import Convex

_TINY = 1e-300
_ROUNDING = 1e-7
"""Relative to the bounds: how far a lower one may stand above an upper one by rounding."""
_FEW = 3.0
"""Multiples of ``tol`` by which a fit must lower the objective from its value at zero to be more than nothing."""
_MOST = 0.01
"""The same share at most, for a large ``tol``."""
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


class NothingLearnedWarning(UserWarning):
    """The weights found, of proven quality, have an objective that is hardly lower than that of ``w = 0``.

    Examples
    --------
    >>> import warnings
    >>> from structsvm import SVMMap
    >>> from structsvm.readers import make_ranking
    >>> data = make_ranking(20, 10, 5, grades=2, random_state=0)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = SVMMap(C=1e-6).fit(data.X, data.y, qid=data.qid)
    >>> print(caught[0].message)
    the best model of this loss on these data is hardly better than none: objective ... against ... at w = 0; ...
    """


def relative_gap(primal: float, dual: float) -> float:
    """Return ``(primal - dual) / max(primal, tiny)``; 0 for bounds that are equal, or crossed by rounding."""
    return max(0.0, primal - dual) / max(primal, _TINY) if primal > dual else 0.0


def check_bounds(primal: float, dual: float, scale: float, *, rounding: float = _ROUNDING) -> None:
    """Raise CertificateError for a lower bound above an upper one, by more than rounding: no optimum is between them.

    ``scale`` is the size of the numbers from whose differences the bounds came; ``rounding`` is relative to ``dual``.
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
        Wall-clock time of the fit, without compilation.
    solver : str
        Which trainer produced it.
    history : tuple of Progress
        The bounds and the seconds after each pass, one entry per pass (newton: a step, of several passes), or one
        entry if no pass was made; the last entry has ``n_passes``, ``primal``, ``dual`` and ``gap`` of the fit.
    gradient_norm : float or None
        Norm of the gradient of the objective at ``w`` over that at zero (newton); None where there is no gradient.
    at_zero : float or None
        The objective at ``w = 0``; None where training did not come by it. Not saved with a model.

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
    at_zero: float | None = field(repr=False, default=None, metadata={"saved": False})

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
    """The best bounds met so far, their history, and the clock; every trainer reports through one."""

    # with ``exact`` False primal values are estimates: one that a later dual value refutes is forgotten

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
        self.at_zero: float | None = None
        self._scale = C
        self.dual = 0.0  # alpha = 0 is always feasible
        self.n_passes = 0
        self.stopped = False
        self.history: list[Progress] = []
        self._start = clock()

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
        """Offer a primal value and the weights that attain it."""
        if np.isnan(primal):
            raise BadInput(
                "problem", "expected finite features and losses, got an objective that is not a number"
            )
        if np.isfinite(primal):
            self._scale = max(self._scale, abs(primal))
        if self.exact:
            check_bounds(primal, self.dual, self._scale)
        if not w.any():
            self.at_zero = primal
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
        self._start = clock() - seconds

    def passed(self, n: int = 1) -> None:
        """Note that ``n`` passes over the data were made, and tell the callback."""
        self.n_passes += n
        progress = Progress(self.n_passes, self.primal, self.dual, self.gap, clock() - self._start)
        self.history.append(progress)
        # one that asked to stop is not asked again: the pass that was due to measure the weights follows unheard
        if self.callback is not None and not self.stopped and self.callback(progress):
            self.stopped = True

    def finish(self, solver: str, *, n_iterations: int, n_cuts: int) -> Fit:
        """The record; warns when the gap was not reached."""
        converged = self.gap <= self.tol
        if not converged:
            ended, remedy = "stopped", "raise max_passes or tol, or scale the features"
            if self.stopped:
                ended, remedy = "was stopped by the callback", "the weights are the best so far"
            warn_user(
                f"{solver} {ended} at relative duality gap {self.gap:.2e} after {self.n_passes} passes "
                f"(tol={self.tol:g}){_loose_bound(self.history)}; {remedy}",
                ConvergenceWarning,
            )
        return Fit(
            w=self.w,
            primal=float(self.primal),
            dual=float(self.dual),
            gap=float(self.gap),
            C=float(self.C),
            converged=converged,
            certified=self.exact,
            n_iterations=n_iterations,
            n_passes=self.n_passes,
            n_cuts=n_cuts,
            seconds=clock() - self._start,
            solver=solver,
            history=tuple(self.history),
            at_zero=None if self.at_zero is None else float(self.at_zero),
        )


def watched(
    fits: Iterable[Fit], problem: Any, Cs: Sequence[float], tol: float, region: Convex | None = None
) -> Iterator[Fit]:
    """Pass on the fits of a path, and judge that of the largest C, which gains most: see :func:`judge`."""
    n = len(set(Cs))
    for i, fit in enumerate(fits, 1):
        if i == n:
            judge(fit, problem, tol, region)
        yield fit


def judge(fit: Fit, problem: Any, tol: float, region: Convex | None = None) -> None:
    """Warn where a converged fit is within a few ``tol`` of the objective at ``w = 0``."""
    share = 1.0 - min(_FEW * tol, _MOST)
    if not (fit.converged and (fit.certified or not fit.w.any())) or fit.primal <= 0.0:
        return  # an approximate oracle may be far off at other weights than zero
    # without a region 1-strongly convex: the best weights are near fit.w, and zero costs their squared length
    if region is None:
        length = norm(fit.w) - math.sqrt(2.0 * max(0.0, fit.primal - fit.dual))
        if fit.primal < share * (fit.dual + 0.5 * max(0.0, length) ** 2):
            return
    zero = fit.at_zero
    if zero is None:
        nothing = np.zeros(problem.n_features)
        if region is not None and region.violation(nothing) > _ROUNDING:
            return  # no weights are not among those to choose from
        loss = problem.loss_at_zero() if hasattr(problem, "loss_at_zero") else problem.cut(nothing).loss
        zero = fit.C * loss + (0.0 if region is None else region.value(nothing))
    if fit.primal < share * zero:
        return
    warn_user(
        f"the best model of this loss on these data is {'hardly' if fit.primal < zero else 'no'} better than none: "
        f"objective {fit.primal:.6g} against {zero:.6g} at w = 0; try a larger C (C={fit.C:g}), another loss or a "
        "scale for the features, and check that the labels belong to the rows",
        NothingLearnedWarning,
    )


def _loose_bound(history: list[Progress]) -> str:
    """Name the bound that is probably loose: the one that moved more in the last quarter of the passes."""
    # Where both distances were measured, and one was twice the other, this was right in 42 of 52 stopped fits; taking
    # the bound that had not moved for longest was right in 12 of 42.
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
