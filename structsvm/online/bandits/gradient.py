"""Dueling bandits over a continuous space of weights: gradient descent by comparisons with a neighbouring point."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from structsvm.common.checks import BadInput, check_choice, check_positive, check_whole
from structsvm.common.portable.arrays import norm
from structsvm.online.bandits.policy import SavedState
from structsvm.protocols import Float


class Probe(NamedTuple):
    """The current point, its (projected) neighbour, and the unit vector towards the neighbour."""

    w: Float
    candidate: Float
    direction: Float


class GradientDescent(SavedState):
    """Common implementation of DBGD, BGD1 and BGD2 (thesis, Algorithm 7 and section 6.3.1).

    Parameters
    ----------
    w : array-like, shape (d,)
        Initial point.
    delta : float
        Distance of the neighbour from the current point.
    gamma : float
        Step size.
    radius : float, optional
        Points are projected onto the ball of this radius. None normalises them to length 1, which suits linear rankers,
        for which only the direction matters.
    feedback : {"win", "probability", "advantage"}
        Type of outcome that :meth:`update` expects.

    Notes
    -----
    For d dimensions and T comparisons in a ball of radius R, the thesis uses ``gamma = R/sqrt(T)`` and
    ``delta = T^(-1/4) delta_L sqrt(0.4 R d)``; :func:`dbgd_step_sizes` returns the step sizes of its theorems. One
    comparison may cover many queries, whose results are all passed to ``update``. The neighbour wins if it wins more
    than half of them; after a tie the point does not change.

    Examples
    --------
    See :func:`structsvm.online.bandits.DBGD` and :func:`structsvm.online.bandits.BGD1`.
    """

    def __init__(
        self, w: ArrayLike, *, delta: float, gamma: float, radius: float | None = None, feedback: str = "win"
    ) -> None:
        self.delta = check_positive("delta", delta)
        self.gamma = check_positive("gamma", gamma)
        self.radius = None if radius is None else check_positive("radius", radius)
        check_choice("feedback", feedback, ("win", "probability", "advantage"))
        self.feedback = feedback
        start = np.array(w, dtype=np.float64)
        if start.ndim != 1 or len(start) == 0 or not np.isfinite(start).all():
            raise BadInput("w", f"expected a vector of finite numbers, got shape {start.shape}")
        if radius is None and not start.any():
            raise BadInput("w", "expected a direction, got the zero vector", "give another w, or {radius}")
        self.t = 0
        self.w = self._project(start)

    def _project(self, w: Float) -> Float:
        # the zero vector has no direction: keep the current point
        length = norm(w)
        if self.radius is None:
            return w / length if length > 0 else self.w
        return w * (self.radius / length) if length > self.radius else w

    def select(self, rng: np.random.Generator) -> Probe:
        """Return the current point with a neighbour in a uniformly random direction."""
        # the direction of a standard normal vector is uniform on the sphere
        direction = rng.standard_normal(len(self.w))
        direction /= norm(direction)
        return Probe(self.w, self._project(self.w + self.delta * direction), direction)

    def update(self, probe: Probe, outcome: object) -> None:
        """Move the current point according to the outcome, or to the mean of the outcomes of several queries.

        With feedback "win", an outcome states whether the neighbour won. With "probability" and "advantage", it is the
        probability that the *current point* wins, which BGD observes.
        """
        self.t += 1
        value = float(np.mean(np.asarray(outcome, dtype=np.float64)))
        if not 0.0 <= value <= 1.0:
            raise BadInput("outcome", "expected numbers in [0, 1]", value=outcome)
        # a step along the sampled direction, towards the neighbour if positive, before the projection
        sizes = {"win": float(value > 0.5), "probability": -value, "advantage": -(value - 0.5)}
        if step := self.gamma * sizes[self.feedback]:
            self.w = self._project(self.w + step * probe.direction)

    def best(self, rng: np.random.Generator | None = None) -> Float:
        """Return the current point."""
        return self.w


def DBGD(w: ArrayLike, *, delta: float, gamma: float, radius: float | None = None) -> GradientDescent:
    """Return dueling bandit gradient descent, which observes the winners of comparisons (thesis, Algorithm 7).

    Examples
    --------
    >>> import numpy as np
    >>> from structsvm.online.bandits import DBGD
    >>> rng, descent = np.random.default_rng(0), DBGD(np.zeros(2), delta=0.5, gamma=0.1, radius=5)
    >>> for _ in range(500):
    ...     probe = descent.select(rng)
    ...     descent.update(probe, probe.candidate[0] > probe.w[0])  # users want the first feature
    >>> bool(descent.best()[0] > 4)
    True
    """
    return GradientDescent(w, delta=delta, gamma=gamma, radius=radius, feedback="win")


def BGD1(w: ArrayLike, *, delta: float, gamma: float, radius: float | None = None) -> GradientDescent:
    """Return bandit gradient descent on observations of ``P(w beats w')`` (thesis 6.3.1, after Flaxman et al.).

    Examples
    --------
    >>> import numpy as np
    >>> from structsvm.online.bandits import BGD1
    >>> rng, descent = np.random.default_rng(0), BGD1(np.zeros(2), delta=0.5, gamma=0.2, radius=5)
    >>> for _ in range(2000):
    ...     probe = descent.select(rng)
    ...     descent.update(probe, 0.5 + 0.4 * (probe.w[0] - probe.candidate[0]))  # P(present point wins)
    >>> bool(descent.best()[0] > 4)
    True
    """
    return GradientDescent(w, delta=delta, gamma=gamma, radius=radius, feedback="probability")


def BGD2(w: ArrayLike, *, delta: float, gamma: float, radius: float | None = None) -> GradientDescent:
    """Return bandit gradient descent on ``P(w beats w') - 1/2`` (thesis 6.3.1).

    Examples
    --------
    See :func:`structsvm.online.bandits.BGD1`, which takes the same outcomes.
    """
    return GradientDescent(w, delta=delta, gamma=gamma, radius=radius, feedback="advantage")


def dbgd_step_sizes(
    lipschitz: float, *, dimension: int, radius: float, horizon: float
) -> tuple[float, float]:
    """Return the ``delta`` and ``gamma`` of :func:`DBGD` for which the thesis bounds the regret (Theorem 7).

    Parameters
    ----------
    lipschitz : float
        ``L = L_sigma L_v``, the Lipschitz constant of the probability that a point wins. ``L_sigma`` is the constant of
        the link (1/4 for the logistic link) and ``L_v`` that of the value function.
    dimension : int
        ``d``, the number of weights.
    radius : float
        ``R``, the radius of the ball onto which :func:`DBGD` projects.
    horizon : int
        ``T``, the number of comparisons.

    Notes
    -----
    ``gamma = R / sqrt(T)`` and ``delta = sqrt(2 R d / (13 L)) / T^(1/4)``. The expected regret from ``w = 0``, summed
    over both points of each comparison, is then at most ``2 lambda T^(3/4) sqrt(26 R d L)`` if
    ``delta < L_sigma / (L_v L_2)``, where ``L_2`` is the Lipschitz constant of the derivative of the link and
    ``lambda`` decreases to 1 as T increases.

    Examples
    --------
    >>> delta, gamma = dbgd_step_sizes(0.25, dimension=8, radius=2, horizon=10_000)
    >>> round(delta, 4), round(gamma, 4)
    (0.3138, 0.02)
    """
    d, steps = check_whole("dimension", dimension), check_whole("horizon", horizon, floats=True)
    L, R = check_positive("lipschitz", lipschitz), check_positive("radius", radius)
    fourth_root = math.sqrt(math.sqrt(steps))
    return math.sqrt(2 * R * d / (13 * L)) / fourth_root, R / fourth_root**2
