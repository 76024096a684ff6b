"""The dual point of block-coordinate Frank-Wolfe with planes kept as one coefficient per row.

A plane of query ``q`` is ``joint = X_q' c``. Where the columns are many, ``c`` is much shorter than ``joint``: with
120 rows per query and 13,000 columns it has a hundredth of the numbers. The violation of a plane at ``w`` needs only
the scores ``s = X_q w``:

    violation  loss - joint . w = loss - c . s,

so one read of the rows serves all planes of a query. A step from one plane to another moves ``w`` by ``X_q' (c - c')``
and takes a second read. As steps between cached planes are no cheaper than a search for a new one, there are no sweeps
over the cached planes, and no Newton's method.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from structsvm.common.checks import BadInput
from structsvm.common.kernel import kernel
from structsvm.common.portable.sums import dot
from structsvm.protocols import Float, Int
from structsvm.trainers.passes import RankingProblem, RowCut, run_ahead
from structsvm.trainers.plane_cache import (
    AHEAD,
    CHUNKS_PER_STEP,
    MEMORY,
    DualPoint,
    Planes,
    best_step,
    insert,
    mix,
)

_MOST = 32


def rows_cache_size(problem: Any) -> int | None:
    """Return the number of planes per query that fit in memory as row coefficients, up to 32; None below three."""
    if not isinstance(problem, RankingProblem):
        return None
    n = max(MEMORY, problem.n_bytes // 4) // (8 * max(1, problem.n_rows))
    return int(min(n, _MOST)) if n >= 3 else None


_ALL = np.empty(0, dtype=np.int64)
"""The ``features`` of planes that have all."""


class Moves(NamedTuple):
    """The step of each query of a stretch: mass moves from plane ``worst`` to ``best``."""

    best: Int
    worst: Int
    gain: Float
    """Loss of the best plane less that of the worst."""
    mass: Float
    """Mass that may move at most; 0 for no step."""


class RowDual(DualPoint):
    """The dual point with planes ``(loss, coefficients of the query's rows)``."""

    solves = False
    """Whether the problem over the cached planes can be solved without reading the data."""

    cone: Float | None = None

    def __init__(self, problem: RankingProblem, C: float) -> None:
        super().__init__(problem, C, rows_cache_size(problem), problem.n_rows)
        self._offsets = problem.offsets

    @property
    def planes(self) -> Planes:
        """The cached planes, for the kernels: their columns are the rows of the data."""
        return Planes(self._pool, self._offsets, _ALL, self._loss, self.count, self.cap)

    @property
    def rows(self) -> Float:
        """Return the dual point as one number per row, ``w = X' rows``."""
        out = np.zeros(self._pool.shape[1])
        _mean_rows(self.planes, self._alpha, out)
        return out

    @property
    def cut(self) -> RowCut:
        """The planes' mean by their masses, which bounds the mean hinge from below."""
        cut = RowCut(self.loss / self.C, self.w / self.C)
        cut.rows = self.rows / self.C
        return cut

    def rescale(self, C: float) -> None:
        """Scale the dual point to another C, for which it stays feasible."""
        self.w *= self._rescale(C)

    def move_to(self, problem: RankingProblem) -> None:
        """Continue with the same rows and other columns; the point stays feasible, and ``w`` is computed anew."""
        if not np.array_equal(problem.offsets, self._offsets):
            raise BadInput("problem", "expected the same queries")
        self.w, self._size = np.zeros(problem.n_features), np.zeros(problem.n_features)
        self.best = None
        rows = self.rows

        def part(first: int, last: int, _: Float) -> Float:
            joint = np.zeros(problem.n_features)
            problem.combine(first, last, rows[self._offsets[first] : self._offsets[last]], joint)
            return joint

        step = CHUNKS_PER_STEP * problem.chunk
        for joint in run_ahead(problem, part, lambda: self.w, step, ahead=AHEAD):
            self.w += joint
            self._size += np.abs(joint)

    def descend(self, problem: RankingProblem) -> Float:
        """Make one pass of block updates and return the average of ``w`` over it."""
        # directions are found at a ``w`` that is up to a hundredth of a pass old, exact steps are made along them at
        # the newest
        self._now += 1
        step, ahead = self._pace(problem)

        def directions(first: int, last: int, w: Float) -> tuple[Any, ...]:
            loss, scores, coef = self._look(problem, w, first, last)
            n = last - first
            moves = Moves(np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n), np.empty(n))
            _choose(first, last, scores, loss, coef, self._now, self.planes, self.masses, moves)
            joint = np.empty((n, problem.n_features))
            problem.query_joints(first, last, coef, joint)
            return first, last, joint, moves

        average = np.zeros_like(self.w)
        n_steps = 0
        for first, last, *found in run_ahead(problem, directions, self.w.copy, step, ahead=ahead):
            before = self.w.copy()
            _ascend(self.w, first, last, *found, self._alpha)
            self._size += np.abs(self.w - before)
            n_steps += 1
            average += (self.w - average) / n_steps
        return average

    def certify(self, problem: RankingProblem, w: Float) -> float:
        """Return the primal value at ``w`` after one pass, with a line search towards the dual point of its planes."""
        self._now += 1
        slot = np.empty(problem.n_queries, dtype=np.int64)

        def part(first: int, last: int, w: Float) -> tuple[float, float, Float, Float]:
            loss, scores, coef = self._look(problem, w, first, last)
            rows = np.empty_like(coef)
            slack, gain = _certify(
                first, last, scores, loss, coef, self._now, self.planes, self.masses, slot, rows
            )
            target, present = np.zeros(problem.n_features), np.zeros(problem.n_features)
            problem.combine(first, last, coef, target)
            problem.combine(first, last, rows, present)
            return slack, gain, target, present

        target, present, size = np.zeros_like(w), np.zeros_like(w), np.zeros_like(w)
        slack, gain = 0.0, 0.0
        step = CHUNKS_PER_STEP * problem.chunk
        for part_slack, part_gain, part_target, part_present in run_ahead(
            problem, part, lambda: w, step, ahead=AHEAD
        ):
            slack += part_slack
            gain += part_gain
            target += part_target
            present += part_present
            size += np.abs(part_target) + np.abs(part_present)
        # afresh: thousands of small updates leave a rounding error that would blunt bounds
        direction = target - present
        curvature = dot(direction, direction)
        slope = gain - self.loss - dot(present, direction)
        theta = best_step(slope, curvature)
        self.w, self._size = present + theta * direction, size
        if theta > 0:
            mix(self._alpha, self.cap, slot, theta)
        return 0.5 * dot(w, w) + slack

    def redistribute(self, target: float) -> bool:
        """Return False: planes of rows are not swept (see the module)."""
        return False

    def _look(self, problem: RankingProblem, w: Float, first: int, last: int) -> tuple[Float, Float, Float]:
        """Return losses, scores and coefficients of the planes found at ``w``."""
        n = int(self._offsets[last] - self._offsets[first])
        loss, scores, coef = np.empty(last - first), np.empty(n), np.empty(n)
        problem.row_cuts(w, first, last, loss, scores, coef)
        return loss, scores, coef


@kernel
def _choose(first, last, scores, new_loss, coef, now, planes, masses, moves):  # type: ignore[no-untyped-def]
    """Cache new planes, choose the planes between which mass moves, and fill ``coef`` with the direction."""
    # Only scores are needed here: the violation of a plane of row coefficients c is loss - c . scores. The direction is
    # the difference of the two planes in coefficients; the caller multiplies it with the rows, all queries at once.
    pool, offsets, _, loss, count, cap = planes
    alpha, age = masses
    bests, worsts, gains, available = moves
    size = loss.shape[1]
    violation = np.empty(size + 1)
    shift = offsets[first]
    for q in range(first, last):
        lo, hi, i = offsets[q], offsets[q + 1], q - first
        own = coef[lo - shift : hi - shift]
        best, n = insert(
            scores[lo - shift : hi - shift], pool, lo, hi, loss[q], alpha[q], age[q], count[q], new_loss[i], own,
            violation, now,
        )  # fmt: skip
        count[q] = n
        used, worst = 0.0, -1
        for k in range(n):
            used += alpha[q, k]
            if alpha[q, k] > 0.0:
                age[q, k] = now
                if worst < 0 or violation[k] < violation[worst]:
                    worst = k
        left = cap[q] - used
        if left > 1e-14 * cap[q] and (worst < 0 or violation[size] < violation[worst]):
            worst = size
        if best < size:
            age[q, best] = now
        bests[i], worsts[i], gains[i], available[i] = best, worst, 0.0, 0.0
        own[:] = 0.0
        if worst < 0 or worst == best or violation[best] <= violation[worst]:
            continue
        available[i] = left if worst == size else alpha[q, worst]
        if best < size:
            gains[i] += loss[q, best]
            for r in range(lo, hi):
                own[r - lo] += pool[best, r]
        if worst < size:
            gains[i] -= loss[q, worst]
            for r in range(lo, hi):
                own[r - lo] -= pool[worst, r]


@kernel
def _ascend(w, first, last, joint, moves, alpha):  # type: ignore[no-untyped-def]
    """Make exact steps, one query after the other."""
    # directions were chosen at an older w: the slope along each is computed at the newest, and where it has become
    # negative the query makes no step
    bests, worsts, gains, available = moves
    size = alpha.shape[1]
    for q in range(first, last):
        i = q - first
        if available[i] <= 0.0:
            continue
        direction = joint[i]
        slope = gains[i] - dot(direction, w)
        if slope <= 0.0:
            continue
        curvature = dot(direction, direction)
        mass = available[i]
        if curvature * mass > slope:
            mass = slope / curvature
        if bests[i] < size:
            alpha[q, bests[i]] += mass
        if worsts[i] < size:
            alpha[q, worsts[i]] = 0.0 if mass == available[i] else alpha[q, worsts[i]] - mass
        for j in range(w.shape[0]):
            w[j] += mass * direction[j]


@kernel
def _certify(first, last, scores, new_loss, coef, now, planes, masses, slots, rows):  # type: ignore[no-untyped-def]
    """Cache new planes; fill ``coef`` with the full cap on the most violated, ``rows`` with the present masses.

    Return slack and gain of the most violated.
    """
    pool, offsets, _, loss, count, cap = planes
    alpha, age = masses
    size = loss.shape[1]
    violation = np.empty(size + 1)
    shift = offsets[first]
    slack, gain = 0.0, 0.0
    for q in range(first, last):
        lo, hi = offsets[q], offsets[q + 1]
        own, present = coef[lo - shift : hi - shift], rows[lo - shift : hi - shift]
        best, n = insert(
            scores[lo - shift : hi - shift], pool, lo, hi, loss[q], alpha[q], age[q], count[q], new_loss[q - first],
            own, violation, now,
        )  # fmt: skip
        count[q] = n
        slots[q] = best
        own[:] = 0.0
        if best < size:
            age[q, best] = now
            slack += cap[q] * violation[best]
            gain += cap[q] * loss[q, best]
            for r in range(lo, hi):
                own[r - lo] = cap[q] * pool[best, r]
        present[:] = 0.0
        for k in range(n):
            if alpha[q, k] > 0.0:
                for r in range(lo, hi):
                    present[r - lo] += alpha[q, k] * pool[k, r]
    return slack, gain


@kernel
def _mean_rows(planes, alpha, out):  # type: ignore[no-untyped-def]
    pool, offsets, _, _, count, _ = planes
    for q in range(count.shape[0]):
        for k in range(count[q]):
            if alpha[q, k] > 0.0:
                for r in range(offsets[q], offsets[q + 1]):
                    out[r] += alpha[q, k] * pool[k, r]
