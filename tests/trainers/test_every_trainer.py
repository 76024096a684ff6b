"""All trainers: the same optimum, weak duality at every pass, the same bytes for any number of threads."""

import numpy as np
import pytest

from structsvm.readers import make_ranking
from structsvm.trainers.block_dual import BlockDual, cache_size
from structsvm.trainers.certificate import ConvergenceWarning, relative_gap
from structsvm.trainers.choosing_solver import largest_C
from structsvm.trainers.contract import Options, Start
from structsvm.trainers.cuts import CutPool
from structsvm.trainers.frank_wolfe import frank_wolfe
from structsvm.trainers.one_slack import one_slack
from structsvm.trainers.path import fit_path, train
from tests.refusing import refused, rejected, rejections
from tests.trainers.problems import (
    LOSS_NAMES,
    SOLVERS,
    bind,
    check_same_bytes,
    make_problem,
    make_rows,
    objective,
)

# on noisy data the optimum of a loss may be zero weights
pytestmark = pytest.mark.filterwarnings("ignore::structsvm.trainers.NothingLearnedWarning")


@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_all_trainers_reach_the_same_objective(loss, C):
    problem = make_problem(loss)
    fits = [train(problem, C, solver=s, tol=1e-5) for s in SOLVERS]
    fits.append(one_slack(problem, C, Options(tol=1e-4, stabilise=False, max_passes=3000)))
    lower = max(f.dual for f in fits)
    for fit in fits:
        assert fit.converged
        assert fit.gap == relative_gap(fit.primal, fit.dual)
        assert fit.primal == pytest.approx(objective(problem, C, fit.w), rel=1e-12)
        assert fit.dual <= min(f.primal for f in fits) * (1 + 1e-12)
        assert fit.primal <= lower * (1 + 1.1e-4) + 1e-12


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("loss", ["map", "pairs", "ndcg@5"])
def test_weak_duality_at_every_pass(solver, loss):
    problem = make_problem(loss, seed=3)
    optimum = train(problem, 10.0, solver="one_slack", tol=1e-9).dual
    fit = train(problem, 10.0, solver=solver, tol=1e-7)
    assert len(fit.history) >= 2
    for progress in fit.history:
        assert progress.dual <= optimum * (1 + 2e-9)
        assert progress.primal >= optimum * (1 - 1e-12)
    duals = [p.dual for p in fit.history]
    primals = [p.primal for p in fit.history]
    assert duals == sorted(duals)
    assert primals == sorted(primals, reverse=True)
    assert fit.n_passes == fit.history[-1].n_passes
    assert fit.gap == fit.history[-1].gap


@pytest.mark.parametrize("solver", ["one_slack", "frank_wolfe"])
@pytest.mark.parametrize("csr", [False, True])
def test_threads_do_not_change_a_bit(solver, csr, monkeypatch):
    monkeypatch.setattr("structsvm.trainers.passes._CHUNK_BYTES", 4096)  # many chunks, many tasks
    check_same_bytes(
        [train(make_problem(n_queries=150, csr=csr, n_jobs=j), 10.0, solver=solver) for j in (1, 2, 5)]
    )


@pytest.mark.parametrize("solver", SOLVERS)
def test_dense_rows_and_shifts_of_queries_change_nothing(solver):
    X, y, offsets = make_rows(csr=True, n_queries=30)
    shift = np.repeat(np.random.default_rng(8).normal(size=(30, 5)), np.diff(offsets), axis=0)
    a, b, c = (
        train(bind((rows, y, offsets)), 5.0, solver=solver, tol=1e-6).primal
        for rows in (X, X.toarray(), X.toarray() + shift)
    )
    assert [b, c] == pytest.approx([a, a], rel=2e-6)


@pytest.mark.parametrize("solver", SOLVERS)
def test_weights_equal_repetition(solver):
    """A query of weight 2 counts as two equal queries, one of weight 0 as none."""
    data = make_ranking(6, 8, 5, noise=1.0, random_state=5)
    weighted = bind((data.X, data.y, data.offsets), weights=np.array([2.0, 1, 0, 1, 1, 1]))
    rows = np.concatenate([np.arange(*data.offsets[q : q + 2]) for q in (0, 0, 1, 3, 4, 5)])
    repeated = bind((data.X[rows], data.y[rows], data.offsets))
    a, b = (train(problem, 3.0, solver=solver, tol=1e-7) for problem in (weighted, repeated))
    assert a.primal == pytest.approx(b.primal, rel=1e-6)


@pytest.mark.parametrize("qp", ["active_set", "cvxpy"])
@pytest.mark.parametrize("solver", ["one_slack", "n_slack"])
def test_both_qp_solvers(solver, qp):
    assert train(make_problem(seed=11), 10.0, solver=solver, qp=qp, tol=1e-5).converged


@pytest.mark.parametrize("solver", SOLVERS)
def test_path_equals_single_fits_in_fewer_passes(solver):
    problem = make_problem(n_queries=30, seed=12)
    Cs = [0.1, 100.0, 0.01, 0.3, 1.0, 3.0, 0.03, 10.0, 30.0]
    path = list(fit_path(problem, Cs, solver=solver, tol=1e-4))
    single = [train(problem, C, solver=solver, tol=1e-4) for C in sorted(Cs)]
    assert [f.C for f in path] == sorted(Cs)
    for a, b in zip(path, single, strict=True):
        assert a.converged
        assert a.primal == pytest.approx(b.primal, rel=1.1e-4)
        assert a.dual <= b.primal * (1 + 1e-14)
    if solver != "n_slack":
        assert sum(f.n_passes for f in path) < sum(f.n_passes for f in single)


test_bad_options = rejections(
    lambda options: train(make_problem(), **{"C": 1.0, **options}),
    ({"cone": np.ones(4)}, "cone: expected a sign for each of 5 features"),
    ({"cone": np.full(5, 2.0)}, "cone: expected signs -1, 0 and 1, got 2"),
)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("tol", tol) for tol in (-1, 0, float("nan"), float("inf"), "x", None, True)),
        *(("max_passes", n) for n in (0, -1, 1.5, "x", None, True)),
        ("callback", "x"),
        ("stabilise", "no"),
        ("qp", "simplex"),
    ],
)
def test_options_check_their_values(name, value):
    refused(name, Options, **{name: value})
    refused(name, train, make_problem(), 1.0, **{name: value})


test_bad_weights = rejections(
    lambda weights: make_problem(weights=weights),
    *(
        (weights, r"weights(\[0\])?: expected")
        for weights in (np.ones(3), -np.ones(12), np.zeros(12), np.full(12, np.nan))
    ),
)


@pytest.mark.parametrize("csr", [False, True])
@pytest.mark.parametrize("n_queries", [12, 300, 3000])
def test_the_rule_of_auto_sees_the_scale_of_the_features(n_queries, csr):
    X, *rest = make_rows(n_queries=n_queries, csr=csr)
    problem, larger = (bind((rows, *rest)) for rows in (X, X * 8))
    # from a hundred queries on Newton's method over the planes takes over where steps would be too long
    assert (largest_C(problem) == np.inf) == (n_queries >= 100)
    assert largest_C(problem) == pytest.approx(64.0 * largest_C(larger), rel=1e-12)


@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_auto_does_not_stall_at_any_C(loss, noise):
    data = make_ranking(300, 20, 8, noise=noise, random_state=3)
    problem = bind((data.X, data.y, data.offsets), loss)
    for C in (1e3, 1e6, 1e9):
        fit = train(problem, C, max_passes=200 if problem.smooth else 60)
        assert fit.solver == ("newton" if problem.smooth else "frank_wolfe")
        assert fit.converged
        assert fit.primal == pytest.approx(objective(problem, C, fit.w), rel=1e-9)


@pytest.mark.parametrize("loss", ["map", "roc", "pairs"])
@pytest.mark.parametrize("csr", [False, True])
@pytest.mark.parametrize("cone", [None, np.array([1.0, 0.0, -1.0, 1.0, 0.0])])
def test_a_path_changes_over_to_one_slack(loss, csr, cone):
    problem = make_problem(loss, n_queries=30, csr=csr)
    Cs = largest_C(problem) * np.array([0.01, 0.1, 0.5, 1.0, 2.0, 10.0, 100.0])
    bounds, first, fits = [], [], []
    for fit in fit_path(problem, Cs, tol=1e-5, cone=cone, callback=lambda seen: bounds.append(seen.dual)):
        first.append(bounds[:1])
        bounds.clear()
        fits.append(fit)
    # the first cut of one_slack is the dual point of the last C, which is one of the next
    assert first[4][0] >= fits[3].dual * (1 - 1e-9)
    assert [fit.solver for fit in fits] == ["frank_wolfe"] * 4 + ["one_slack"] * 3
    for fit in fits:
        alone = one_slack(problem, fit.C, Options(tol=1e-6, max_passes=5000, cone=cone))
        assert fit.converged
        assert alone.converged
        assert fit.primal == pytest.approx(objective(problem, fit.C, fit.w), rel=1e-12)
        assert alone.dual * (1 - 1e-12) <= fit.primal <= alone.primal * (1 + 1.1e-5)
        assert fit.dual <= alone.primal * (1 + 1e-12)


def test_the_dual_point_of_frank_wolfe_is_a_cut():
    problem = make_problem(n_queries=40, weights=np.random.default_rng(1).random(40))
    state = BlockDual(problem, 3.0)
    for _ in range(3):
        state.descend(problem)
        state.certify(problem, state.w.copy())
    cut = state.cut
    assert 3.0 * cut.joint == pytest.approx(state.w, rel=1e-12)
    rng = np.random.default_rng(0)
    for length in np.logspace(-3, 2, 30):
        w = length * (state.w + 0.3 * rng.normal(size=5))
        exact = problem.cut(w)
        assert cut.loss - cut.joint @ w <= exact.loss - exact.joint @ w + 1e-12
    # at its own weights the cut proves what the dual point proves
    assert 3.0 * (cut.loss - cut.joint @ state.w) + 0.5 * state.w @ state.w == pytest.approx(
        state.value, rel=1e-9
    )


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_auto_converges_on_features_of_any_scale(scale):
    X, *rest = make_rows(n_queries=200, seed=7)
    assert train(bind((X * scale, *rest)), 1.0, max_passes=300).converged


@pytest.mark.parametrize("solver", ["frank_wolfe", "one_slack"])
@pytest.mark.parametrize("all_queries", [False, True])
def test_data_that_are_no_numbers_are_no_optimum(solver, all_queries):
    X, y, offsets = make_rows()
    X[offsets[:-1] if all_queries else [0]] = np.nan
    rejected(
        "X: expected finite features, got a score that is not a number in row 0",
        train,
        bind((X, y, offsets)),
        1.0,
        solver=solver,
    )


@pytest.mark.parametrize("solver", ["frank_wolfe", "one_slack"])
def test_a_guess_that_the_signs_do_not_allow_is_projected(solver):
    problem = make_problem(n_queries=20)
    free = train(problem, 1.0, tol=1e-6).w
    trainer = frank_wolfe if solver == "frank_wolfe" else one_slack
    cone = -np.sign(free)
    fit = trainer(problem, 1.0, Options(cone=cone), Start(free))
    assert fit.converged
    assert (fit.w * cone >= 0).all()


@pytest.mark.parametrize("solver", ["frank_wolfe", "one_slack"])
@pytest.mark.parametrize("Cs", [[0.3, 0.1 * 3, 3.0], [0.7, 0.1 * 7, 7.0], [1e5, np.nextafter(1e5, 2e5), 1e6]])
def test_a_path_over_nearly_equal_C(solver, Cs):
    problem = make_problem(n_queries=40)
    fits = list(fit_path(problem, Cs, solver=solver))
    alone = [next(iter(fit_path(problem, [C], solver=solver))) for C in Cs]
    for fit, single in zip(fits, alone, strict=True):
        assert fit.primal == pytest.approx(single.primal, rel=2e-3)
        assert fit.n_passes <= single.n_passes + 1


def test_the_objective_of_known_weights_at_the_next_C_is_not_rounded_down():
    problem = bind((np.array([[1.0], [0.0]]), np.array([1.0, 0.0]), np.array([0, 2])), "pairs")
    *_, last = fit_path(problem, [10.0, 1e12], solver="frank_wolfe")
    # all hinges are 0 at w = 1; a rounding error of their sum is multiplied by C
    assert last.n_passes == 0
    assert 0.5 <= last.primal <= 0.5 * (1 + 1e-3)


def test_a_step_without_curvature_is_taken_where_it_gains():
    X, *rest = make_rows(n_queries=20)
    fit = train(bind((np.zeros_like(X), *rest)), 1.0, solver="frank_wolfe", max_passes=1, tol=1e-12)
    assert fit.dual == pytest.approx(fit.primal, rel=1e-9)


def test_frank_wolfe_refuses_what_does_not_fit(monkeypatch):
    monkeypatch.setattr("structsvm.trainers.block_dual.MEMORY", 100)
    problem = make_problem()
    problem.n_bytes = 0
    assert cache_size(problem) is None
    assert largest_C(problem) == 0.0
    rejected("use solver='one_slack'", BlockDual, problem, 1.0)


def test_cut_pool_drops_idle_cuts_and_keeps_the_optimum():
    problem = make_problem(n_queries=40, m=8, seed=21)
    pool = CutPool(8)
    fit = one_slack(problem, 100.0, Options(tol=1e-6), Start(kept={"cuts": pool}))
    assert fit.converged
    assert len(pool) < fit.n_passes
    assert pool.value(fit.w) <= (fit.primal - 0.5 * fit.w @ fit.w) / 100.0 * (1 + 1e-9)


def test_descent_ahead_gives_the_same_bytes_for_any_number_of_threads(monkeypatch):
    monkeypatch.setattr("structsvm.trainers.passes._CHUNK_BYTES", 1024)
    fits = []
    for n_jobs in (1, 2, 5):
        problem = make_problem(n_queries=3000, n_jobs=n_jobs, seed=3)
        assert 3000 // 128 // problem.chunk >= 3  # steps are begun before the updates of those ahead of them
        fits.append(frank_wolfe(problem, 10.0, Options(tol=1e-5)))
    assert fits[0].converged
    check_same_bytes(fits)


@pytest.mark.parametrize("max_passes", range(1, 8))
@pytest.mark.parametrize(
    ("solver", "loss", "n_queries", "C"),
    [
        *(
            ("frank_wolfe", "map", 30, 300.0),
            ("frank_wolfe", "mrr", 1200, 1e4),
            ("one_slack", "map", 30, 300.0),
        ),
        *(("n_slack", "map", 30, 300.0), ("newton", "ndcg@5", 30, 1e4), ("newton", "ndcg@5", 1200, 1e4)),
    ],
)
def test_no_trainer_makes_a_pass_too_many_and_all_measure(solver, loss, n_queries, C, max_passes):
    problem = make_problem(loss, n_queries=n_queries, seed=4)
    with pytest.warns(ConvergenceWarning):
        fit = train(problem, C, solver=solver, tol=1e-12, max_passes=max_passes)
    assert fit.n_passes == max_passes or (solver in ("n_slack", "newton") and fit.n_passes < max_passes)
    assert fit.primal == pytest.approx(objective(problem, C, fit.w), rel=1e-12)
