"""``Fit``, the certified result of every trainer, and ``Recorder``, which keeps the bounds during a fit and decides
when to stop."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from structsvm.common.checks import BadInput, check_positive
from structsvm.common.compiling import clock
from structsvm.common.frames import frame
from structsvm.common.portable.arrays import norm
from structsvm.plots.html_by import html_by
from structsvm.protocols import Callback, Float, Progress
from structsvm.qp.convex import Convex
from structsvm.queries import warn_user

_TINY = 1e-300
_BOUND_ROUNDING = 1e-7
"""Relative amount by which a lower bound may exceed an upper bound because of rounding."""
_LEAST_GAIN = 3.0
"""Minimum relative reduction of the objective from its value at zero weights, in multiples of ``tol``; for a smaller
reduction, a NothingLearnedWarning is issued."""
_LARGEST_GAIN = 0.01
"""Upper limit on the minimum relative reduction, for a large ``tol``."""
_CANCELLATION = 1e-11
"""Rounding error of bounds near zero, relative to the larger of ``C`` and the largest primal value so far; bounds are
differences of numbers of this size."""


class CertificateError(ValueError):
    """Raised if a lower bound on the optimum exceeds an upper bound, which means that the data or the oracle is wrong.

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
    """Issued if training ended before the relative duality gap reached ``tol``.

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
    """Issued if the weights are optimal within ``tol``, but their objective is barely lower than that of ``w = 0``.

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
    the optimal weights are hardly better than zero weights for this loss and data: ... against ... at w = 0; ...
    """


def relative_gap(primal: float, dual: float) -> float:
    """Return ``(primal - dual) / primal``, or 0 if the bounds are equal or rounding makes the dual bound the larger
    one."""
    return max(0.0, primal - dual) / max(primal, _TINY) if primal > dual else 0.0


def check_bounds(primal: float, dual: float, scale: float, *, rounding: float = _BOUND_ROUNDING) -> None:
    """Raise CertificateError if a lower bound exceeds an upper bound by more than rounding.

    ``scale`` is the magnitude of the numbers that were subtracted to obtain the bounds; ``rounding`` is the tolerance
    relative to ``dual``.
    """
    if dual > primal + rounding * abs(dual) + _CANCELLATION * scale:
        raise CertificateError(
            f"certificate: expected the primal value to be at least the dual one, got {primal:g} below {dual:g}: the "
            "data are damaged or changed during training (structsvm convert --check reads a store), or the oracle does "
            "not find the most violated output (structsvm.testing.check_oracle checks it; an approximate oracle needs "
            "exact = False)"
        )


@dataclass(frozen=True, eq=False)
class Fit:
    """A trained weight vector with the certificate of its quality.

    Attributes
    ----------
    w : ndarray of float64, shape (n_features,)
        The weights with the lowest primal value.
    primal : float
        ``1/2 ||w||^2 + C * mean slack`` at ``w``; an upper bound on the optimum if ``certified``.
    dual : float
        Best dual value: a lower bound on the optimum.
    gap : float
        ``(primal - dual) / primal``: ``primal`` exceeds the optimum by at most this fraction of ``primal``.
    C : float
        Trade-off between the penalty and the mean slack.
    converged : bool
        Whether ``gap <= tol``.
    certified : bool
        False if the oracle is approximate: ``primal`` may then be less than the true objective at ``w``.
    n_iterations : int
        Number of steps of the trainer: cuts (one_slack), added constraints (n_slack), block updates (frank_wolfe),
        Newton steps (newton).
    n_passes : int
        Number of passes over the data, both for training (with updates after a few queries or after all queries) and
        for measuring the primal value; each pass calls the oracle once per query.
    n_cuts : int
        Number of cuts held at the end.
    seconds : float
        Wall-clock time of the fit, without compilation.
    solver : str
        Name of the trainer.
    history : tuple of Progress
        Bounds and seconds after each pass (newton: after each step, which takes several passes), or one entry if no
        pass was made. The last entry has the ``n_passes``, ``primal``, ``dual`` and ``gap`` of the fit.
    gradient_norm : float or None
        Norm of the gradient of the objective at ``w``, divided by the norm at zero weights (newton); None for other
        trainers.
    at_zero : float or None
        The objective at ``w = 0``; None if training did not evaluate it. Not saved with a model.

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
        """Return the history as a pandas DataFrame: bounds, gap and seconds, one row per pass."""
        fields = ("primal", "dual", "gap", "seconds")
        return frame(
            {name: [getattr(step, name) for step in self.history] for name in fields},
            index=[step.n_passes for step in self.history],
            index_name="passes",
        )

    _repr_html_ = html_by("fit")


class Recorder:
    """The best bounds so far, their history, and the clock of a fit; every trainer reports its bounds to a recorder."""

    # An approximate oracle may miss the most violated output, so that primal values may be too small. If ``exact`` is
    # False, a primal value below a later dual value is discarded, because the dual value proves it wrong.

    def __init__(
        self, C: float, tol: float, n_features: int, callback: Callback | None = None, *, exact: bool = True
    ) -> None:
        check_positive("C", C)
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
        """Whether training should stop because the gap is at most ``tol`` or the callback requested it."""
        return self.stopped or self.gap <= self.tol

    def lower(self, dual: float) -> None:
        """Record a dual value; raise CertificateError if it exceeds an exact primal value."""
        self.dual = max(self.dual, dual)
        if self.exact:
            check_bounds(self.primal, self.dual, self._scale)
        elif self.dual > self.primal * (1 + 1e-9):
            self.primal = np.inf

    def upper(self, primal: float, w: Float) -> None:
        """Record a primal value and the weights that attain it."""
        if np.isnan(primal):
            raise BadInput(
                "problem", "expected finite features and losses, got an objective that is not a number"
            )
        # bounds may be small differences of values of this size, whose rounding errors check_bounds must allow
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
        """Replace the best weights by other weights, such as sparse ones, if their gap is within ``tol``; otherwise do
        nothing."""
        if relative_gap(primal, self.dual) <= self.tol:
            check_bounds(primal, self.dual, self._scale)
            self.primal = primal
            self.w = w.copy()

    def begun(self, seconds: float) -> None:
        """Start the clock at ``seconds``, the time that the fit has already taken in another process."""
        self._start = clock() - seconds

    def passed(self, n: int = 1) -> None:
        """Count ``n`` passes over the data, and call the callback with the bounds."""
        self.n_passes += n
        progress = Progress(self.n_passes, self.primal, self.dual, self.gap, clock() - self._start)
        self.history.append(progress)
        # After a callback requests a stop, it is not called again, although one more pass measures the final weights.
        if self.callback is not None and not self.stopped and self.callback(progress):
            self.stopped = True

    def finish(
        self, solver: str, *, n_iterations: int, n_cuts: int, gradient_norm: float | None = None
    ) -> Fit:
        """Return the fit; warn if the gap or, if given, the relative norm of the gradient exceeds ``tol``."""
        converged = self.gap <= self.tol and (gradient_norm is None or gradient_norm <= self.tol)
        if not converged:
            norm_text = "" if gradient_norm is None else f"relative gradient norm {gradient_norm:.2e} and "
            ended, remedy = "stopped", "raise max_passes or tol, or scale the features"
            if self.stopped:
                ended, remedy = "was stopped by the callback", "the weights are the best so far"
            warn_user(
                f"{solver} {ended} at {norm_text}relative duality gap {self.gap:.2e} after {self.n_passes} passes "
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
            gradient_norm=gradient_norm,
            at_zero=None if self.at_zero is None else float(self.at_zero),
        )


def watched(
    fits: Iterable[Fit], problem: object, Cs: Sequence[float], tol: float, region: Convex | None = None
) -> Iterator[Fit]:
    """Yield the fits of a path; call :func:`judge` on the fit for the largest C, which reduces the objective most."""
    n = len(set(Cs))
    for i, fit in enumerate(fits, 1):
        if i == n:
            judge(fit, problem, tol, region)
        yield fit


def nothing_learned(tol: float) -> float:
    """Return the fraction of the objective at zero weights from which an objective counts as hardly lower."""
    return 1.0 - min(_LEAST_GAIN * tol, _LARGEST_GAIN)


def judge(fit: Fit, problem: Any, tol: float, region: Convex | None = None) -> None:
    """Warn if the objective of a converged fit is within a few ``tol`` of its value at ``w = 0``."""
    share = nothing_learned(tol)
    if not (fit.converged and (fit.certified or not fit.w.any())) or fit.primal <= 0.0:
        return  # at nonzero weights an approximate oracle may have a large error
    # Without a region the objective is 1-strongly convex. The norm of the optimal weights is then at least ``length``,
    # and the objective at zero is at least the optimum plus half the square of ``length``. This bound often makes a
    # pass at zero unnecessary.
    if region is None:
        length = norm(fit.w) - math.sqrt(2.0 * max(0.0, fit.primal - fit.dual))
        if fit.primal < share * (fit.dual + 0.5 * max(0.0, length) ** 2):
            return
    zero = fit.at_zero
    if zero is None:
        nothing = np.zeros(problem.n_features)
        if region is not None and region.violation(nothing) > _BOUND_ROUNDING:
            return  # zero weights are not allowed
        loss = problem.loss_at_zero() if hasattr(problem, "loss_at_zero") else problem.cut(nothing).loss
        zero = fit.C * loss + (0.0 if region is None else region.value(nothing))
    if fit.primal < share * zero:
        return
    warn_user(
        f"the optimal weights are {'hardly' if fit.primal < zero else 'no'} better than zero weights for this "
        f"loss and data: objective {fit.primal:.6g} against {zero:.6g} at w = 0; try a larger C (C={fit.C:g}), another "
        "loss or scaled features, and check that the labels belong to the rows",
        NothingLearnedWarning,
    )


def _loose_bound(history: list[Progress]) -> str:
    """Return a phrase that names the probably loose bound: the bound that changed more in the last quarter of the
    passes."""
    # In 52 stopped fits one bound was at least twice as far from the optimum as the other: this rule named it in 42 of
    # them. Naming the bound that had been constant for longest was right in 12 of 42.
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
