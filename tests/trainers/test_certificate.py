"""Common properties of trainers: the history, the number of passes, warnings, errors."""

import inspect
import warnings

import numpy as np
import pytest
from scipy import sparse

from structsvm import StructuralRanker
from structsvm.common.checks import BadInput
from structsvm.oracles import get_oracle
from structsvm.protocols import Cut
from structsvm.trainers import RankingProblem, fit_path, train
from structsvm.trainers.certificate import CertificateError, ConvergenceWarning, Recorder
from tests.refusing import refused, rejected
from tests.trainers.problems import SOLVERS, bind, make_problem


def arrays(seed=0, n_queries=20, n_docs=12, m=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * n_docs, m))
    y = (X[:, 0] + rng.normal(size=X.shape[0]) > 0.5).astype(float)
    return X, y, np.arange(0, X.shape[0] + 1, n_docs)


class Counted:
    """A ranking problem that counts how often each query was separated."""

    def __init__(self, problem):
        self.problem = problem
        self.asked = np.zeros(problem.n_queries, dtype=int)

    def __getattr__(self, name):
        return getattr(self.problem, name)

    def cut(self, w) -> Cut:
        self.asked += 1
        return self.problem.cut(w)

    def query_cuts(self, w, first, last, loss, joint):
        self.asked[first:last] += 1
        self.problem.query_cuts(w, first, last, loss, joint)


def counted(**options):
    return Counted(bind(arrays(**options)))


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("max_passes", [1, 2, 5, 1000])
def test_a_pass_asks_for_every_query_once_and_has_one_entry(solver, max_passes):
    problem = counted()
    told = []
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        fit = train(problem, 10.0, solver=solver, tol=1e-4, max_passes=max_passes, callback=told.append)
    assert (problem.asked == fit.n_passes).all()
    assert [p.n_passes for p in fit.history] == list(range(1, fit.n_passes + 1))
    assert tuple(told) == fit.history
    assert fit.history[-1][1:4] == (fit.primal, fit.dual, fit.gap)
    assert fit.n_passes <= max_passes + 1 or fit.converged


class Forgetful:
    """A separator that sometimes reports that no output is violated."""

    exact = False
    query_weights = None

    def __init__(self, separator, seed):
        self.informative, self.separator = separator.informative, separator
        self.rng = np.random.default_rng(seed)

    def separate(self, scores, first, last, loss, coef):
        self.separator.separate(scores, first, last, loss, coef)
        if self.rng.random() < 0.5:
            loss[:] = 0.0
            coef[:] = 0.0


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_last_entry_is_the_result_for_an_oracle_that_forgets(solver):
    X, y, offsets = arrays(seed=1)
    for seed in range(30):
        separator = Forgetful(get_oracle("map").bind(y, offsets), seed)
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            fit = train(RankingProblem(X, offsets, separator), 10.0, solver=solver, max_passes=3 + seed % 7)
        assert np.isfinite(fit.primal)
        assert fit.primal >= fit.dual * (1 - 1e-9)
        assert not fit.certified
        assert fit.history[-1][:4] == (fit.n_passes, fit.primal, fit.dual, fit.gap)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_callback_that_stops_is_named_and_not_asked_again(solver):
    for after in (1, 2, 3):
        told = []

        def stop(progress, told=told, after=after):
            told.append(progress)
            return len(told) == after

        with pytest.warns(
            ConvergenceWarning, match=f"{solver} was stopped by the callback at relative .* so far"
        ):
            fit = train(counted(), 1000.0, solver=solver, tol=1e-9, callback=stop)
        assert len(told) == after
        assert fit.n_passes <= after + 2
        assert np.isfinite(fit.primal)


def line():
    """Return the line number of the caller."""
    return inspect.currentframe().f_back.f_lineno


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_warning_points_to_the_line_of_the_user(solver):
    X, y, offsets = arrays()
    qid = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    model = StructuralRanker(solver=solver, C=1000.0, tol=1e-9, max_passes=2)
    with pytest.warns(ConvergenceWarning, match=f"{solver} stopped at .*raise max_passes") as caught:
        model.fit(X, y, qid=qid)
    assert [(w.filename, w.lineno) for w in caught] == [(__file__, line() - 1)]
    with pytest.warns(ConvergenceWarning) as caught:
        train(counted(), 1000.0, solver=solver, tol=1e-9, max_passes=2)
    assert [(w.filename, w.lineno) for w in caught] == [(__file__, line() - 1)]


REFUSED = [
    ({"solver": "sgd"}, r"solver='sgd': expected one of 'auto', .*'one_slack'"),
    (
        {"solver": "n_slack", "cone": np.eye(2)},
        r"solver='n_slack': expected a trainer that supports linear constraints on weights; use .*'one_slack'",
    ),
    ({"solver": "frank_wolfe", "cone": np.eye(2)}, r"solver='frank_wolfe': expected .* linear constraints"),
    (
        {"solver": "newton", "cone": np.ones(2)},
        r"solver='newton': expected .* signs.*; use one of .*'one_slack'",
    ),
    (
        {"solver": "n_slack", "region": object()},
        r"supports convex constraints and penalties; use .*'one_slack'",
    ),
    ({"solver": "auto", "cone": np.ones(2), "region": object()}, r"cone: cannot be combined with a region"),
    ({"solver": "n_slack", "stabilise": False}, r"supports stabilise=False; use .*'one_slack'"),
    ({"solver": "auto", "stabilise": "x"}, r"stabilise='x': expected True or False"),
    ({"solver": "frank_wolfe", "qp": "cvxpy"}, r"supports qp='cvxpy'; use one of .*'one_slack', .*'n_slack'"),
    ({"solver": "auto", "qp": "osqp"}, r"qp='osqp': expected 'active_set' or 'cvxpy'"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_options_are_checked_before_anything_is_done(options, message):
    with pytest.raises(BadInput, match=message):
        fit_path(object(), [1.0], **options)  # at once: not when the first fit is asked for
    if not {"cone", "region"} & set(options):  # estimators have none
        refused(message, StructuralRanker(**options).fit, "no data are looked at", None)


def test_newton_needs_a_second_derivative():
    refused(
        r"solver='newton': expected .* losses without a second derivative; use one of",
        train,
        make_problem("map"),
        1.0,
        solver="newton",
    )


@pytest.mark.parametrize("option", [{"stabilise": False}, {"qp": "cvxpy"}])
def test_auto_picks_a_trainer_that_supports_the_options(option):
    for loss in ("map", "ndcg@5"):
        assert train(make_problem(loss), 1.0, **option).solver == "one_slack"


@pytest.mark.parametrize("Cs", [[], [0.0], [1.0, -1.0], [np.inf], [np.nan]])
def test_a_path_needs_values_of_C(Cs):
    rejected(r"Cs?(=.*)?: expected", fit_path, object(), Cs)


# -- bounds that cannot be ---------------------------------------------------------------------------------------


def test_a_dual_value_above_the_primal_one_is_an_error_and_rounding_is_none():
    for low_first in (True, False):
        record = Recorder(1.0, 1e-3, 2)
        offers = [lambda r: r.lower(0.8), lambda r: r.upper(0.7, np.ones(2))]
        offers = offers if low_first else offers[::-1]
        offers[0](record)
        with pytest.raises(CertificateError, match=r"got 0\.7 below 0\.8: the data are damaged"):
            offers[1](record)
    record = Recorder(1.0, 1e-3, 2)
    record.upper(0.7, np.ones(2))
    record.lower(0.7 * (1 + 1e-12))
    assert record.gap == 0.0
    assert record.done


def test_an_estimate_of_an_approximate_oracle_that_is_refuted_is_forgotten():
    record = Recorder(1.0, 1e-3, 2, exact=False)
    record.upper(0.7, np.ones(2))
    record.lower(0.8)
    assert record.primal == np.inf
    assert record.gap == np.inf


class Shirking:
    """A separator that claims to be exact, but finds no violated output after ``n`` calls."""

    def __init__(self, separator, n):
        self.separator, self.left, self.exact = separator, n, True

    def __getattr__(self, name):
        return getattr(self.separator, name)

    def separate(self, scores, first, last, loss, coef):
        self.left -= 1
        self.separator.separate(scores, first, last, loss, coef)
        if self.left < 0:
            loss[:], coef[:] = 0.0, 0.0


# frank_wolfe counts the planes it has met too, so its bounds do not cross where an oracle forgets some
@pytest.mark.parametrize("solver", ["one_slack", "n_slack"])
def test_an_oracle_that_misses_the_most_violated_output_gets_no_certificate(solver):
    X, y, offsets = arrays()
    problem = RankingProblem(X, offsets, Shirking(get_oracle("map").bind(y, offsets), 4))
    with pytest.raises(CertificateError, match="does not find the most violated output"):
        train(problem, 10.0, solver=solver, tol=1e-6)


def test_a_problem_checks_its_indices_before_any_compiled_code_uses_them():
    X, y, offsets = arrays()
    separator, rows = get_oracle("map").bind(y, offsets), sparse.csr_matrix(X)
    rows.indices[7] = 10**6
    rejected(r"X\.indices\[7\]: expected .*; the data are damaged", RankingProblem, rows, offsets, separator)
    offsets[2] = offsets[-1] + 12
    rejected(r"offsets\[\d+\]: expected .*; see QueryData.offsets", RankingProblem, X, offsets, separator)


@pytest.mark.parametrize(
    ("primals", "duals", "expected"),
    [
        ([9, 5, 4, 4], [1, 1, 1, 2], "the lower bound (dual) is probably the loose one"),
        ([9, 9, 9, 8], [1, 2, 3, 3], "the upper bound (primal) is probably the loose one"),
        (
            [9, 9, 9, 9, 9, 9, 8, 8],
            [1, 1, 1, 1, 1, 3, 3, 3.5],
            "the upper bound (primal) is probably the loose one",
        ),
        ([9, 8, 7, 7], [1, 2, 3, 3], None),
        ([9, 8, 7, 6], [1, 2, 3, 4], None),
        ([9, 8, 7], [1, 1, 1], None),
        ([np.inf, np.inf, np.inf, 7], [1, 1, 1, 1], None),
    ],
)
def test_a_stopped_fit_names_the_bound_that_moved_more_lately(primals, duals, expected):
    record = Recorder(1.0, 1e-3, 1)
    for primal, dual in zip(primals, duals, strict=True):
        record.upper(float(primal), np.zeros(1))
        record.lower(float(dual))
        record.passed()
    with pytest.warns(ConvergenceWarning) as warned:
        record.finish("name", n_iterations=0, n_cuts=0)
    text = str(warned[0].message)
    if expected is None:
        assert "bound" not in text
    else:
        assert expected in text
