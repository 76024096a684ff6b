"""The driver: runs each round on all partitions, computes the best mix of their dual points, and decides when to stop.

A *descent* round is a pass. Each partition works on its local problem, starting from the weights of the last mix, and
returns the average of its weights over the pass and its new dual point. The mean of these averages has approximately
the right direction; three small rounds set its norm by the slope on a sample of the queries. A *certificate* round is a
pass at this point. It gives the exact primal value, and from each partition two dual points: that of the planes found
in the pass, and the best of the partition. Small rounds follow, which do not read the data: in each, the partitions
move mass among their cached planes. The driver keeps all dual points as
:class:`~structsvm.trainers.partitioned.columns.Columns`. The value of their best mix is the lower bound, and the next
round starts from this mix. Only the weights of the mix are sent to the partitions, not its masses.

If a certificate leaves more than half of the gap, descents end. Each further pass is then a certificate at the best
point of the segment from the best weights so far to those of the mix. A few small rounds search the segment, with
slopes on the cached planes and on a sample. After a certificate that barely reduces the gap, there is another descent.

A round sends three vectors to each partition and at most two back, whatever the number of rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, Unpack, cast

import numpy as np

from structsvm.common.checks import BadInput, check_flag, check_positive
from structsvm.common.machine import memory_bytes
from structsvm.common.portable.sums import combine, dot
from structsvm.protocols import Cut, Float, Problem
from structsvm.qp import get_solver
from structsvm.trainers.certificate import Fit, Recorder, judge, watched
from structsvm.trainers.choosing_solver import FEWEST_QUERIES, TRAINERS, check_solver, largest_C_of
from structsvm.trainers.contract import OptionNames, Options, Start, Trainer
from structsvm.trainers.cuts import CutPool
from structsvm.trainers.partitioned.checkpoint import Checkpoint, other_rows
from structsvm.trainers.partitioned.columns import Columns
from structsvm.trainers.partitioned.partition import Task
from structsvm.trainers.passes import Tangent
from structsvm.trainers.path import extrapolate
from structsvm.trainers.segment_search import FEWEST, best_factor, search_segment

PartitionedSolver = Literal["auto", "partitioned", "one_slack", "newton"]

_SIGMA = 0.3
"""Coefficient of the quadratic term of the local problems, relative to the safe value of 1. The bounds hold for any
coefficient, because the driver computes the best mix. A small coefficient corresponds to a local problem with a smaller
C, whose weights scatter less; the mix and the scaling on a sample compensate for the smaller C. On the data of
``experiments/scale_out_rounds.py`` one partition takes 8, 6, 11, 12 and 20 passes at C = 1000 with 0.125, 0.25, 0.3,
0.5 and 1. With 0.25, several partitions need a third pass at C = 1."""

_SLOW = 0.5
"""Descents end if a certificate leaves more than this fraction of the gap. Each further pass is then a certificate at
the best point of a segment (see the module docstring). With few queries, a sample cannot locate this point, and
descents continue. For 4,000 noisy queries with C = 10^4, this rule reduces the number of passes from 20 to 14 with map
in one partition, and from 60 to 24 with NDCG by positions in six partitions."""

_STALLED = 0.9
"""If a later certificate leaves more than this fraction of the gap, another descent follows, because one plane per
query and pass can be too few. With map, C = 10^4 and 4,000 noisy queries this rule saves 20 of
33 passes."""

_PATIENCE = 6
"""Number of certificates after which one_slack takes over if together they reduce the gap by less than a tenth."""

_SHARE = 0.05
"""Fraction of the gap at which partitions stop moving mass among their cached planes."""

_MIXES = 10
_WORTH = 0.05
"""Maximum number of small rounds after a certificate, and the fraction of the gap by which a round must increase the
lower bound for another round to follow. These rounds do not read the data and save many passes at a large C: with 4,000
queries and C = 1000, they reduce the number from 30 to 16 with one partition, and from 28 to 8 with eight."""

_COLUMNS_EACH = 24
"""Number of columns per partition for which the driver must have memory; columns without mass are dropped after a few
rounds."""

_SAME_SLACK = 1e-9
"""Largest relative difference between a partition's slacks before and after a restart that is attributed to
rounding."""


_TRAINERS = {
    # listed without a function, only for its abilities, because it trains on partitions instead of a problem
    "partitioned": Trainer(cast(Any, None), {"hinge", "qp"}),
    **{name: TRAINERS[name] for name in ("one_slack", "newton")},
}
"""Trainers that can train on partitions."""


class Partitions(Protocol):
    """Partitions of the queries, each a :class:`~structsvm.trainers.partitioned.Partition` on a local or remote
    machine."""

    n_parts: int

    def each(self, method: str, payloads: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call ``method`` of each partition with its payload as arguments; return the results in the order of the
        partitions.

        A call may be repeated, even on a partition that was rebuilt from its rows: the state of a partition improves
        its results, but they are valid without it. Calls of the same partition must not overlap.
        """


def train_partitioned(
    parts: Partitions,
    C: float,
    *,
    solver: PartitionedSolver = "auto",
    positive: bool = False,
    checkpoint: Path | None = None,
    problem: dict[str, Any] | None = None,
    **options: Unpack[OptionNames],
) -> Fit:
    """Minimise ``1/2 ||w||^2 + C * mean slack`` over the queries of all partitions.

    If ``checkpoint`` is given, the fit is saved to this file after each certificate, which requires an additional first
    pass at zero weights. ``problem`` identifies the fit.
    """
    if checkpoint is None:
        return next(fit_path_partitioned(parts, [C], solver=solver, positive=positive, **options))
    check_positive("C", C)
    whole, given = _checked(parts, solver, positive, options)
    if _choose(whole, C, solver, given, keeps=True) != "partitioned":
        raise BadInput("checkpoint", "requires {solver}", others={"solver": "partitioned"})
    columns = Columns(parts.n_parts, whole.n_features)
    record = Start().recorder(cast(Problem, whole), C, given)
    sizes = {"C": C, "n_queries": whole.n_queries, "n_features": whole.n_features}
    kept = Checkpoint(checkpoint, {**sizes, **(problem or {})})
    kept.check_rows(whole.cut(np.zeros(whole.n_features)).joint)
    fit = _fit(whole, columns, record, given, None, kept)
    judge(fit, whole, given.tol)
    if fit.converged:
        kept.remove()
    return fit


def fit_path_partitioned(
    parts: Partitions,
    Cs: Sequence[float],
    *,
    solver: PartitionedSolver = "auto",
    positive: bool = False,
    fold: int | None = None,
    **options: Unpack[OptionNames],
) -> Iterator[Fit]:
    """Train for several values of C in ascending order, without the queries of ``fold``; yield the fits.

    Each fit starts from the results for the previous C.
    """
    if len(Cs) == 0:
        raise BadInput("Cs", "expected at least one value, got none")
    for C in Cs:
        check_positive("C", C)
    whole, given = _checked(parts, solver, positive, options, fold)
    grid = sorted({float(C) for C in Cs})
    chosen = _choose(whole, grid[0], solver, given)
    return watched(_path(whole, grid, chosen, given), whole, grid, given.tol, given.region)


def check_partitioned(solver: str, positive: bool, options: Options) -> Options:
    """Return the options; raise BadInput if the trainer does not support them."""
    check_flag("positive", positive)
    check_solver(solver, options, {"signs"} if positive else set(), _TRAINERS)
    return options


def _checked(
    parts: Partitions, solver: str, positive: bool, options: OptionNames, fold: int | None = None
) -> tuple["_Whole", Options]:
    """Return the partitions as one problem, and the options with sign constraints; invalid options raise before any
    work on partitions."""
    given = check_partitioned(solver, positive, Options(**options))
    whole = _describe(parts, fold)
    return whole, replace(given, cone=np.ones(whole.n_features)) if positive else given


def _path(whole: "_Whole", grid: Sequence[float], chosen: str, options: Options) -> Iterator[Fit]:
    columns, start = Columns(whole.parts.n_parts, whole.n_features), Start()
    for C in grid:
        start.record = None
        start.record = start.recorder(cast(Problem, whole), C, options)
        start.guess = extrapolate(start.past, C)
        if chosen != "partitioned":
            fit = _undivided(whole, chosen, start, options)
        else:
            if start.past:
                columns.rescale(C / start.past[-1].C)
            if len(start.past) > 1 and start.past[-1].n_passes > 1:
                start.guess = (
                    None  # as in frank_wolfe: if the last guess was not within tol, a descent is cheaper
                )
            fit = _fit(whole, columns, start.record, options, start.guess, None)
        start.past.append(fit)
        yield fit


class _Whole(NamedTuple):
    """All partitions as one problem, with the attributes and methods of ``Problem`` that one_slack and newton use."""

    parts: Partitions
    shares: Float
    n_queries: int
    n_blocks: int
    n_features: int
    exact: bool
    fits: bool
    """Whether memory suffices for the planes of every partition and for the columns of the driver."""
    smooth: bool
    fold: int | None

    def tasks(self, C: float) -> list[Task]:
        return [Task(C, _SIGMA, float(share), self.fold) for share in self.shares]

    def cut(self, w: Float) -> Cut:
        """Return the cut at ``w``, the sum of the cuts of the partitions in their order, in one pass."""
        return Cut(*self._sum("cut", w))

    def tangent(self, w: Float) -> Tangent:
        """Return the tangent at ``w`` in one pass; it contains a copy of ``w``, from which :meth:`curve` identifies the
        point."""
        return Tangent(*self._sum("tangent", w), w.copy())

    def _sum(self, method: str, w: Float) -> tuple[float, Float]:
        loss, joint = 0.0, np.zeros(self.n_features)
        parts = self.parts.each(method, [(task, w) for task in self.tasks(1.0)])
        for share, part in zip(self.shares, parts, strict=True):
            loss += share * part.loss
            joint += share * part.joint
        return loss, joint

    def curve(self, tangent: Tangent, direction: Float) -> Float:
        """Return the Hessian times ``direction`` in one pass."""
        total = np.zeros(self.n_features)
        products = self.parts.each(
            "curve", [(task, tangent.curvature, direction) for task in self.tasks(1.0)]
        )
        for share, product in zip(self.shares, products, strict=True):
            total += share * product
        return total


def _describe(parts: Partitions, fold: int | None) -> _Whole:
    described = parts.each("describe", [(fold,)] * parts.n_parts)
    widths = [one.n_features for one in described]
    if len(set(widths)) != 1:
        other = next(i for i, width in enumerate(widths) if width != widths[0])
        raise BadInput(
            "X", f"expected {widths[0]} features, as in partition 0, got {widths[other]} in partition {other}"
        )
    # Weights are relative within each partition; the fraction of the total weight in each partition combines them.
    masses = np.array([one.mass for one in described])
    if not masses.sum() > 0:
        raise BadInput("sample_weight", "expected a query with positive weight, got none")
    columns = 8.0 * _COLUMNS_EACH * parts.n_parts * widths[0]
    return _Whole(
        parts,
        shares=masses / masses.sum(),
        n_queries=sum(one.n_queries for one in described),
        n_blocks=sum(one.n_blocks for one in described),
        n_features=widths[0],
        exact=all(one.exact for one in described),
        fits=all(one.fits for one in described) and columns <= memory_bytes() / 4,
        smooth=all(one.smooth for one in described),
        fold=fold,
    )


def _choose(
    whole: _Whole, C: float, solver: PartitionedSolver, options: Options, *, keeps: bool = False
) -> PartitionedSolver:
    able = check_solver(solver, options, set() if whole.smooth else {"hinge"}, _TRAINERS)
    if solver == "partitioned" and not whole.fits:
        raise BadInput(
            "solver",
            "expected memory for three planes per block of queries on each worker, and for all columns in the "
            "driver",
            "use {solver='one_slack'}",
            value=solver,
        )
    if solver != "auto":
        return solver
    if whole.smooth and "newton" in able and not keeps:
        return "newton"
    if "partitioned" not in able or whole.n_blocks < FEWEST_QUERIES or not whole.fits:
        return "one_slack"
    totals, counts, heaviest = zip(
        *whole.parts.each("pull", [(task, whole.n_blocks) for task in whole.tasks(C)]), strict=True
    )
    return "one_slack" if largest_C_of(max(heaviest), sum(totals), sum(counts)) < C else "partitioned"


def _undivided(whole: _Whole, solver: str, start: Start, options: Options) -> Fit:
    """Train all partitions as one problem by ``solver``; if interrupted, return the best weights so far."""
    record = start.record
    assert record is not None
    try:
        return TRAINERS[solver].fit(cast(Problem, whole), record.C, options, start)
    except KeyboardInterrupt:
        if not np.isfinite(record.primal):
            raise
        record.stopped = True
        return record.finish(solver, n_iterations=len(record.history), n_cuts=len(start.kept.get("cuts", ())))


def _fit(
    whole: _Whole,
    columns: Columns,
    record: Recorder,
    options: Options,
    guess: Float | None,
    kept: Checkpoint | None,
) -> Fit:
    """Train by rounds; if they gain too little, continue with one_slack from the cuts of the rounds and of the best
    mix."""
    rounds = _Rounds(whole, columns, record, options, kept)
    try:
        stuck = rounds.run(guess, options.max_passes)
    except KeyboardInterrupt:
        # no weights were evaluated on these rows, so that there is no result to return
        if not np.isfinite(record.primal) or rounds.unproven:
            raise
        record.stopped, stuck = True, False
    if stuck:
        mix = (columns.value + 0.5 * dot(columns.w, columns.w)) / record.C
        rounds.pool.add(Cut(mix, columns.w / record.C))
        return _undivided(whole, "one_slack", Start(kept={"cuts": rounds.pool}, record=record), options)
    if record.n_passes == 0:
        record.passed(0)
    return record.finish("partitioned", n_iterations=record.n_passes * whole.n_blocks, n_cuts=len(columns))


class _Rounds:
    """The rounds of a fit: descents and certificates, each of which is a pass, and small rounds on the cached
    planes."""

    def __init__(
        self, whole: _Whole, columns: Columns, record: Recorder, options: Options, kept: Checkpoint | None
    ) -> None:
        self.whole, self.columns, self.record, self.kept = whole, columns, record, kept
        self.tasks = whole.tasks(record.C)
        self.pool = CutPool(whole.n_features)
        self.slacks: Float = np.zeros(whole.parts.n_parts)
        """``C`` times the slacks of the partitions at the best weights."""
        self.averaging = self.rescaling = True
        """Whether a descent returns the average of the weights instead of those of the mix, and whether it rescales the
        average on a sample."""
        self.slow = False
        """Whether descents have ended."""
        self.gaps: list[float] = []
        self._qp, self._qp_tol = get_solver(options.qp), min(1e-8, 1e-2 * record.tol)

    @property
    def unproven(self) -> bool:
        """Whether the bounds come from a checkpoint whose slacks no pass has verified on these rows."""
        return self.kept is not None and self.kept.unproven

    def run(self, guess: Float | None, max_passes: int) -> bool:
        """Run rounds until the fit is done; return whether they gained too little, so that one_slack should take
        over."""
        record = self.record
        point = None if guess is None else guess * _length(self.whole, self.tasks, guess)
        if self.kept is not None and self.unproven:
            self.kept.restore(record, self.columns, self.whole.shares)
            self.slacks, point = self.kept.slacks, record.w.copy()
        self.mix()
        # bounds from a checkpoint are verified by at least one pass, even if they are within ``tol``
        while self.unproven or (not record.done and record.n_passes < max_passes):
            if point is None and record.n_passes == max_passes - 1:
                point = self.columns.w.copy()  # no pass would be left to certify the result of a descent
            if point is None:
                point = self.descend()
                if record.done and np.isfinite(record.primal):
                    break
            # after each certificate there are a primal value, the lower bound of the mix, and a state that can be saved
            self.certify(point)
            self.improve()
            record.passed()
            if self.kept is not None:
                self.kept.save(record, self.columns, self.whole.shares, self.slacks)
            self.gaps.append(record.gap)
            if len(self.gaps) > _PATIENCE and record.gap > 0.9 * self.gaps[-1 - _PATIENCE]:
                return True
            point = self.next_point()
        return False

    def mix(self) -> None:
        """Compute the best mix of the columns, and record its value as a lower bound."""
        self.columns.solve(self._qp, self._qp_tol)
        self.record.lower(self.columns.value)

    def missing(self) -> float | None:
        """Return the gap at which partitions stop moving mass, or None before the first certificate."""
        return _SHARE * (self.record.primal - self.columns.value) if np.isfinite(self.record.primal) else None

    def descend(self) -> Float:
        """Make a descent in one pass; return the point to certify."""
        columns, target = self.columns, None if self.averaging else self.missing()
        payloads = [(t, columns.w, columns.own[k], target) for k, t in enumerate(self.tasks)]
        answers = self.whole.parts.each("descend", payloads)
        columns.add([(k, column) for k, (_, column) in enumerate(answers)])
        self.mix()
        point = columns.w.copy()
        if self.averaging:
            point = combine(self.whole.shares, np.array([average for average, _ in answers]))
            if self.rescaling:
                point = point * _length(self.whole, self.tasks, point)
        self.record.passed()
        return point

    def certify(self, point: Float) -> None:
        """Evaluate a point in one pass; store its planes as a cut and as columns, and add the best column of each
        partition."""
        record, columns, kept, target = self.record, self.columns, self.kept, self.missing()
        payloads = [(t, point, columns.w, columns.own[k], target) for k, t in enumerate(self.tasks)]
        answers = self.whole.parts.each("certify", payloads)
        slacks = np.array([slack for slack, _, _ in answers])
        if kept is not None and kept.unproven:
            _check_same(self.whole, kept, slacks)
            kept.unproven = False
        # lower bounds from earlier columns may exceed the hinges from an approximate oracle
        if not self.whole.exact:
            slacks = np.maximum(slacks, columns.hinges(point))
        primal = 0.5 * dot(point, point) + float(slacks.sum())
        if primal >= record.primal:
            # switch between average and mix; stop rescaling, because the sample may not represent the other queries
            self.averaging, self.rescaling = not self.averaging, False
        else:
            self.slacks = slacks
        record.upper(primal, point)
        cuts = [cut for _, cut, _ in answers]
        joint = sum((cut.joint for cut in cuts), 0.0 * point)
        self.pool.add(Cut(sum(cut.loss for cut in cuts) / record.C, joint / record.C))
        columns.add([(k, column) for k, (_, cut, best) in enumerate(answers) for column in (cut, best)])
        self.mix()

    def improve(self) -> None:
        """Run small rounds on the cached planes, each from the last mix, until a round reduces the gap too little."""
        columns = self.columns
        for _ in range(_MIXES):
            left, before = self.record.primal - columns.value, columns.value
            if self.record.done or not np.isfinite(left):
                return
            payloads = [(t, columns.w, columns.own[k], _SHARE * left) for k, t in enumerate(self.tasks)]
            columns.add(list(enumerate(self.whole.parts.each("improve", payloads))))
            self.mix()
            if columns.value - before < _WORTH * left:
                return

    def next_point(self) -> Float | None:
        """Return the point to certify next, or None if a descent should find it."""
        gap, before = self.record.gap, self.gaps[-2] if len(self.gaps) > 1 else np.inf
        many = self.whole.n_blocks >= FEWEST  # with fewer, a segment cannot be searched on a sample
        self.slow = self.slow or (many and len(self.gaps) > 1 and gap > _SLOW * before)
        # after a certificate that barely reduced the gap, a descent adds new planes
        if self.slow and not self.record.done and gap <= _STALLED * before:
            return _between(self.whole, self.tasks, self.record.w, self.columns.w)
        return None


def _check_same(whole: _Whole, kept: Checkpoint, measured: Float) -> None:
    """Raise BadInput if the measured slacks differ from those in the checkpoint, which means that the rows differ."""
    before, now, of = kept.slacks, measured, "partition {}"
    if not kept.same_parts(whole.shares):
        before, now, of = before.sum(keepdims=True), now.sum(keepdims=True), "all partitions"
    if not np.allclose(
        before, now, rtol=_SAME_SLACK, atol=_SAME_SLACK * float(np.abs(before).max(initial=0.0))
    ):
        part = int(np.argmax(np.abs(before - now)))
        raise other_rows(f"the slack of {of.format(part)} was {before[part]:.12g}, is {now[part]:.12g}")


def _length(whole: _Whole, tasks: Sequence[Task], w: Float) -> float:
    """Return the factor of ``w`` that minimises the objective on a sample, computed in at most three small rounds."""

    def sampled(factor: float) -> tuple[float, float]:
        answers = whole.parts.each("slope", [(task, w, factor, whole.n_blocks) for task in tasks])
        return sum(share for share, _ in answers), sum(gain for _, gain in answers)

    return best_factor(tasks[0].C, w, whole.n_blocks, sampled)


def _between(whole: _Whole, tasks: Sequence[Task], w: Float, centre: Float) -> Float:
    """Return the best point between ``w`` and ``centre``, estimated from cached planes and a sample.

    Each slope needs one call to every partition.
    """

    def along(step: Float, t: float) -> tuple[float, float, float]:
        answers = whole.parts.each("along", [(task, w, step, t, whole.n_blocks) for task in tasks])
        model, share, above = (sum(one) for one in zip(*answers, strict=True))
        return model, share, above

    return search_segment(tasks[0].C, w, centre, along)
