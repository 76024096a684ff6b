"""Training over partitions: the optimum is that of one machine, even if partitions lose or corrupt their state."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from experiments._position_ndcg import PositionNDCG
from structsvm.common.checks import BadInput
from structsvm.features.coded_rows import BinnedRows
from structsvm.oracles import get_oracle
from structsvm.trainers import ConvergenceWarning, RankingProblem, fit_path, train
from structsvm.trainers.blocks import Blocks
from structsvm.trainers.partitioned import (
    Partition,
    SerialPartitions,
    fit_path_partitioned,
    train_partitioned,
)
from structsvm.trainers.partitioned.partition import Task
from tests.refusing import refusals, refused, rejected
from tests.trainers.problems import LOSS_NAMES, bind, check_same_bytes, make_rows, objective


def make_data(n_queries=60, **options):
    return make_rows(n_queries, **options)


def split(data, borders, loss="map", weights=None, **options):
    """Return partitions of the queries between borders, and all queries as one problem."""
    X, y, offsets = data
    parts = []
    for first, last in pairwise([0, *borders, offsets.shape[0] - 1]):
        rows, own = slice(offsets[first], offsets[last]), offsets[first : last + 1] - offsets[first]
        each = None if weights is None else weights[first:last]
        oracle = get_oracle(loss) if isinstance(loss, str) else loss
        parts.append(Partition(X[rows], own, oracle.bind(y[rows], own), weights=each, **options))
    return parts


def trained(data, borders, C, *, loss="map", **options):
    return train_partitioned(
        SerialPartitions(split(data, borders, loss)), C, **{"solver": "partitioned"} | options
    )


def check_honest(fit, problem, C, tol=1e-3):
    """Assert that the primal value is that of one machine, and that the dual is at most the optimum."""
    optimum = train(problem, C, solver="one_slack", tol=1e-8)
    assert fit.converged
    assert fit.gap <= tol
    assert fit.primal == pytest.approx(objective(problem, C, fit.w), rel=1e-12)
    assert fit.dual <= optimum.primal * (1 + 1e-12)
    assert fit.primal >= optimum.dual * (1 - 1e-12)
    for progress in fit.history:
        assert progress.dual <= optimum.primal * (1 + 1e-12)
        assert progress.primal >= optimum.dual * (1 - 1e-12)


@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.parametrize("C", [0.1, 30.0])
def test_the_optimum_of_one_machine_for_every_loss(loss, C):
    data = make_data()
    check_honest(trained(data, [7, 8, 40], C, loss=loss, tol=1e-5), bind(data, loss), C, 1e-5)


@pytest.mark.parametrize("kind", ["float32", "csr", "wide csr", "compiled"])
def test_other_rows(kind):
    X, y, offsets = make_data(dtype=np.float32 if kind == "float32" else float, csr=kind == "csr")
    rng = np.random.default_rng(0)
    if kind == "wide csr":
        X = sparse.random(offsets[-1], 400, density=0.02, random_state=1, format="csr")
        y = (rng.random(offsets[-1]) < 0.3).astype(float)
    elif kind == "compiled":
        X = BinnedRows(rng.integers(0, 4, size=(offsets[-1], 3)).astype(np.uint8), np.array([0, 3, 6, 9]))
    data = X, y, offsets
    check_honest(trained(data, [20, 30], 10.0, tol=1e-4), bind(data), 10.0, 1e-4)


def test_weights_of_queries():
    data = make_data()
    weights = np.random.default_rng(1).random(60) * (np.arange(60) % 3 > 0)
    weights[20:30] = 0.0  # a partition whose queries count for nothing
    for loss in ("map", "pairs"):
        parts = SerialPartitions(split(data, [20, 30], loss, weights))
        for solver in ("partitioned", "one_slack"):
            check_honest(
                train_partitioned(parts, 5.0, solver=solver, tol=1e-4), bind(data, loss, weights), 5.0, 1e-4
            )


def test_the_same_bytes_again_and_for_any_number_of_threads(monkeypatch):
    monkeypatch.setattr("structsvm.trainers.passes._CHUNK_BYTES", 2048)
    data = make_data(200)
    fits = [
        train_partitioned(SerialPartitions(split(data, [50, 120], n_jobs=n)), 10.0, solver="partitioned")
        for n in (1, 1, 2, 5)
    ]
    check_same_bytes(fits)


class Faulty(SerialPartitions):
    """Partitions for which a function is called before each call."""

    def __init__(self, parts, happens):
        super().__init__(parts)
        self.happens, self.calls = happens, 0

    def each(self, method, payloads):
        for k, part in enumerate(self.parts):
            self.happens(part, k, self.calls)
        self.calls += 1
        return super().each(method, payloads)


def wipe_all(part, k, calls):
    part.forget()


def wipe_one(part, k, calls):
    if k == calls % 3:
        part.forget()


def corrupt(part, k, calls):
    """Make masses too large, negative or NaN, as no run does."""
    if part._dual is not None:
        rng = np.random.default_rng([k, calls])
        part._dual._alpha *= rng.choice([0.5, 1.0, 3.0, -1.0, np.nan], size=part._dual._alpha.shape)
        part._dual.w += 1.0


@pytest.mark.parametrize("happens", [wipe_all, wipe_one, corrupt])
@pytest.mark.parametrize("C", [1.0, 100.0])
def test_bounds_hold_whatever_partitions_remember(happens, C):
    data = make_data(120)
    fit = train_partitioned(
        Faulty(split(data, [40, 60]), happens), C, solver="partitioned", tol=1e-3, max_passes=400
    )
    check_honest(fit, bind(data), C)


def test_cuts_take_over_where_rounds_bring_nothing():
    data = make_data(300, m=8, seed=3)
    fit = train_partitioned(
        Faulty(split(data, [100, 150]), wipe_all), 300.0, solver="partitioned", tol=1e-5, max_passes=500
    )
    assert fit.solver == "one_slack"
    assert len(fit.history) == fit.n_passes
    check_honest(fit, bind(data), 300.0, 1e-5)


def test_positive_weights_are_those_of_one_machine():
    data = make_data(seed=9)
    fit = trained(data, [20, 30], 10.0, solver="auto", tol=1e-6, positive=True)
    one = train(bind(data), 10.0, tol=1e-6, cone=np.ones(5))
    assert (fit.w >= 0).all()
    assert fit.solver == "one_slack"
    assert fit.primal == pytest.approx(one.primal, rel=2e-6)
    refused("supports signs of weights; use solver='one_slack'", trained, data, [20], 1.0, positive=True)


@pytest.mark.parametrize("solver", ["partitioned", "one_slack"])
def test_a_path_equals_single_fits_in_fewer_passes(solver):
    data = make_data(200)
    Cs = [0.1, 100.0, 0.01, 0.3, 1.0, 3.0, 10.0, 30.0]
    path = list(fit_path_partitioned(SerialPartitions(split(data, [50, 120])), Cs, solver=solver, tol=1e-4))
    assert [fit.C for fit in path] == sorted(Cs)
    single = [trained(data, [50, 120], C, solver=solver, tol=1e-4) for C in sorted(Cs)]
    for a, b in zip(path, single, strict=True):
        assert a.converged
        assert a.primal == pytest.approx(b.primal, rel=1.1e-4)
        assert a.dual <= b.primal
        assert a.primal == pytest.approx(objective(bind(data), a.C, a.w), rel=1e-12)
    assert sum(fit.n_passes for fit in path) < sum(fit.n_passes for fit in single)


def test_leaving_out_a_fold_is_training_on_the_others():
    data = make_data()
    folds = np.arange(60) % 3
    parts, start = [], 0
    for part in split(data, [20, 30]):
        n = part._offsets.shape[0] - 1
        part._folds = folds[start : start + n]
        start += n
        parts.append(part)
    for fold in range(3):
        fits = list(fit_path_partitioned(SerialPartitions(parts), [1.0, 10.0], tol=1e-4, fold=fold))
        weights = (folds != fold).astype(float)
        expected = fit_path(bind(data, weights=weights), [1.0, 10.0], tol=1e-4)
        for a, b in zip(fits, expected, strict=True):
            assert a.primal == pytest.approx(b.primal, rel=2e-4)
            assert a.primal == pytest.approx(objective(bind(data, weights=weights), a.C, a.w), rel=1e-12)


def test_an_approximate_oracle_gives_an_estimate():
    parts = split(make_data(), [20])
    for part in parts:
        part._separator.exact = False
    assert not train_partitioned(SerialPartitions(parts), 1.0, solver="partitioned").certified


def test_short_queries_share_a_coordinate_where_planes_would_not_fit(monkeypatch):
    data = make_data(200)
    # room for one plane a query
    monkeypatch.setattr("structsvm.trainers.block_dual.MEMORY", 8 * 5 * 70)
    parts = split(data, [70, 140])
    said = [part.describe(None) for part in parts]
    assert all(one.n_blocks < one.n_queries and one.fits for one in said)
    check_honest(
        train_partitioned(SerialPartitions(parts), 10.0, solver="partitioned", tol=1e-4),
        bind(data),
        10.0,
        1e-4,
    )


@pytest.mark.parametrize("size", [2, 8, 100])
def test_a_block_is_the_weighted_mean_of_its_queries(size):
    X, y, offsets = make_data(21)
    weights = np.random.default_rng(0).random(21)
    weights[:size] = 0.0 if size == 2 else weights[:size]
    blocks = Blocks(get_oracle("map").bind(y, offsets), offsets, weights, size)
    blocked = RankingProblem(X, blocks.offsets, blocks, weights=blocks.weights)
    single = bind((X, y, offsets), weights=weights)
    for w in np.random.default_rng(1).normal(size=(3, 5)):
        a, b = blocked.cut(w), single.cut(w)
        assert a.loss == pytest.approx(b.loss, rel=1e-12)
        np.testing.assert_allclose(a.joint, b.joint, rtol=1e-10, atol=1e-14)
    loss, joint = np.empty(21), np.empty((21, 5))
    single.query_cuts(w, 0, 21, loss, joint)
    n = blocks.weights.shape[0]
    got, got_joint = np.empty(n), np.empty((n, 5))
    blocked.query_cuts(w, 0, n, got, got_joint)
    for b in range(n):
        rows = slice(b * size, (b + 1) * size)
        if weights[rows].any():
            assert got[b] == pytest.approx(np.average(loss[rows], weights=weights[rows]))
            np.testing.assert_allclose(got_joint[b], np.average(joint[rows], weights=weights[rows], axis=0))


def test_certificates_along_segments_where_rounds_bring_little():
    """With a large C and many small partitions, the last passes are only certificates; each improves the weights."""
    data = make_data(1100, m=20)
    borders = list(range(40, 1100, 40))
    seen, parts = [], Asked(split(data, borders, loss=PositionNDCG(5)))
    check_honest(
        train_partitioned(parts, 300.0, solver="partitioned", tol=1e-3, callback=seen.append),
        bind(data, PositionNDCG(5)),
        300.0,
    )
    first = parts.asked.index("along")
    assert "certify" in parts.asked[first:]
    assert "descend" not in parts.asked[first:]


@pytest.mark.parametrize("loss", ["ndcg@5", "mrr"])
def test_newton_over_partitions_is_newton_on_one_machine(loss):
    data = make_data(200)
    alone = train(bind(data, loss), 10.0, tol=1e-6)
    parts = Asked(split(data, [30, 90], loss=loss))
    fit = train_partitioned(parts, 10.0, tol=1e-6)
    assert fit.solver == "newton"
    assert fit.primal == pytest.approx(alone.primal, rel=1e-6)
    assert fit.dual <= alone.primal
    assert set(parts.asked) == {"describe", "tangent", "curve"}
    assert parts.asked.count("tangent") + parts.asked.count("curve") == fit.n_passes
    fits = list(fit_path_partitioned(parts, [1.0, 10.0], tol=1e-6))
    assert fits[1].primal == pytest.approx(alone.primal, rel=1e-6)
    rejected(
        "solver='newton': expected a trainer that supports losses without a second",
        trained,
        data,
        [30],
        1.0,
        solver="newton",
    )


def test_a_partition_made_anew_knows_its_curvature():
    data = make_data(40, m=4)
    w, direction, task = np.arange(4.0), np.ones(4), Task(1.0, 1.0, 1.0, None)
    (old,), (new,) = split(data, [], loss="ndcg@5"), split(data, [], loss="ndcg@5")
    old.tangent(task, w)
    assert np.array_equal(old.curve(task, w, direction), new.curve(task, w, direction))
    assert not np.array_equal(old.curve(task, 0 * w, direction), new.curve(task, w, direction))


class Asked(SerialPartitions):
    """Partitions that record their calls; a call can interrupt the driver."""

    def __init__(self, parts, at=None, error=None):
        super().__init__(parts)
        self.asked, self.at, self.error = [], at, error

    def each(self, method, payloads):
        self.asked.append(method)
        if len(self.asked) == self.at:
            raise self.error
        return super().each(method, payloads)


# the file is written after at most ten small rounds, from call 4 on
@pytest.mark.parametrize("at", [2, 3, 20, 30])
def test_a_checkpoint_resumes_the_fit(tmp_path, at):
    data, path = make_data(120), tmp_path / "fit.checkpoint"
    options = {"solver": "partitioned", "tol": 1e-6}
    whole = trained(data, [40, 60], 30.0, **options)
    with pytest.raises(RuntimeError, match="gone"):
        train_partitioned(
            Asked(split(data, [40, 60]), at, RuntimeError("gone")), 30.0, checkpoint=path, **options
        )
    seen, written = [], path.exists()
    assert written == (at > 13)
    fit = trained(data, [40, 60], 30.0, checkpoint=path, callback=seen.append, **options)
    check_honest(fit, bind(data), 30.0, 1e-6)
    assert not path.exists()
    assert (seen[0].n_passes > 1) == written  # it went on
    assert fit.primal == pytest.approx(whole.primal, rel=1e-6)


def test_a_checkpoint_of_other_data_or_another_fit_is_refused(tmp_path):
    data, path = make_data(120), tmp_path / "fit.checkpoint"

    def fit(data, C=30.0, **options):
        made_by(data, path, **{"C": C, "tol": 1e-9, "max_passes": 4, **options})

    fit(data)
    kept = path.read_bytes()
    refused(r"C was 30.0, is 10.0; name another file", fit, data, C=10.0)
    X = data[0].copy()
    X[data[2][40] : data[2][60]] *= 1.01
    refused(
        "expected the data for which it was written, got different data: the mean of column 0",
        fit,
        (X, *data[1:]),
        max_passes=10,
    )
    with pytest.raises(BadInput, match=r"requires solver='partitioned'"):
        trained(data, [40], 1.0, solver="one_slack", checkpoint=path)
    assert path.read_bytes() == kept
    path.write_bytes(b"something else")
    refused("expected a checkpoint of a fit", fit, data)
    assert path.read_bytes() == b"something else"


def made_by(data, path, *, C=30.0, **options):
    """Write a checkpoint of a fit that is continued with the given options; return the gap."""
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        return trained(data, [40, 60], C, checkpoint=path, **options).gap


@pytest.mark.parametrize(
    ("solver", "loss"), [("partitioned", "map"), ("one_slack", "map"), ("newton", "ndcg@5")]
)
def test_an_interrupt_keeps_the_best_weights(solver, loss):
    data = make_data()

    def interrupted(at):
        parts = Asked(split(data, [20], loss), at, KeyboardInterrupt())
        return train_partitioned(parts, 100.0, solver=solver, tol=1e-9)

    with pytest.warns(ConvergenceWarning, match="was stopped"):
        fit = interrupted(5)
    assert fit.primal == pytest.approx(objective(bind(data, loss), 100.0, fit.w), rel=1e-12)
    with pytest.raises(KeyboardInterrupt):  # nothing to keep
        interrupted(2)


test_bad_options = refusals(
    lambda options: trained(make_data(), [20], **{"C": 1.0, "solver": "auto", **options}),
    ({"C": 0.0}, "C=0.0: expected"),
    ({"solver": "sgd"}, "solver='sgd': expected one of 'auto', 'partitioned', 'one_slack'"),
    ({"qp": "simplex"}, "qp='simplex'"),
    ({"positive": 1}, "positive=1: expected True or False"),
)


def test_partitions_that_do_not_fit_bound():
    with pytest.raises(BadInput, match="expected 5 features, as in partition 0, got 6 in partition 2"):
        train_partitioned(SerialPartitions([*split(make_data(), [20]), *split(make_data(m=6), [])]), 1.0)
    with pytest.raises(BadInput, match="expected a query with positive weight"):
        train_partitioned(SerialPartitions(split(make_data(), [20], weights=np.zeros(60))), 1.0)
    with pytest.raises(BadInput, match="expected at least one value"):
        fit_path_partitioned(SerialPartitions(split(make_data(), [20])), [])
    with pytest.raises(BadInput, match="expected folds of the queries"):
        list(fit_path_partitioned(SerialPartitions(split(make_data(), [20])), [1.0], fold=1))
