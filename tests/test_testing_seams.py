"""The checks of problems, structured models, solvers and worlds accept correct ones and detect faults."""

import dataclasses

import numpy as np
import pytest

from structsvm.online import NormalScores, PreferenceMatrix, Utilities
from structsvm.oracles import StructuredProblem, get_oracle
from structsvm.protocols import Cut
from structsvm.qp import get_solver
from structsvm.readers import make_ranking
from structsvm.testing import check_problem, check_qp_solver, check_structured_model, check_world
from structsvm.trainers import RankingProblem

P = np.array([[0.5, 0.7, 0.8], [0.3, 0.5, 0.6], [0.2, 0.4, 0.5]])


class Largest:
    def joint_feature(self, x, y):
        return np.eye(3)[y] * x[y]

    def loss(self, y_true, y):
        return float(y != y_true)

    def loss_augmented_argmax(self, w, x, y_true):
        return int(np.argmax(w * x + (np.arange(3) != y_true)))

    def argmax(self, w, x):
        return int(np.argmax(w * x))


XS = list(np.random.default_rng(0).uniform(size=(12, 3)))
YS = [int(x.argmax()) for x in XS]


class Wrong(Largest):
    def __init__(self, **methods):
        vars(self).update(methods)


@pytest.mark.parametrize("loss", ["map", "pairs", "ndcg@3"])
def test_ranking_problems_pass(loss):
    rows = make_ranking(30, 6, 4, random_state=1)
    check_problem(RankingProblem(rows.X, rows.offsets, get_oracle(loss).bind(rows.y, rows.offsets)))


def test_structured_problems_pass_and_wrong_ones_do_not():
    check_problem(StructuredProblem(Largest(), XS, YS))
    lazy = StructuredProblem(Wrong(loss_augmented_argmax=lambda w, x, y: int(np.argmax(w * x))), XS, YS)
    larger, heavier = (StructuredProblem(Largest(), XS, YS) for _ in range(2))
    right = larger.cut
    larger.cut = lambda w: Cut(right(w).loss * 1.01, right(w).joint)
    heavier.weights = heavier.weights * 2
    for problem, message in (
        (lazy, "exact: expected no cut above the risk"),
        (larger, "weighted mean"),
        (heavier, "weights: expected a sum of 1"),
    ):
        with pytest.raises(AssertionError, match=message):
            check_problem(problem)


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"loss": lambda y_true, y: 1.0}, "loss"),
        ({"loss": lambda y_true, y: -float(y != y_true)}, "losses >= 0"),
        ({"argmax": lambda w, x: 0}, "argmax: another output has a larger score"),
        (
            {"loss_augmented_argmax": lambda w, x, y: int(np.argmax(w * x))},
            "loss_augmented_argmax: another output",
        ),
        ({"joint_feature": lambda x, y: np.zeros(3 + (x[0] > 0.5))}, "one length"),
    ],
)
def test_structured_models(methods, message):
    check_structured_model(Largest(), XS, YS)
    with pytest.raises(AssertionError, match=message):
        check_structured_model(Wrong(**methods), XS, YS)


def test_solvers_of_the_small_qp():
    solve = get_solver("active_set")
    check_qp_solver(solve)

    def broken(change):
        return lambda *args, **options: change(solve(*args, **options))

    for change, message in [
        (lambda r: r._replace(alpha=0.9 * r.alpha), "value"),
        (lambda r: r._replace(alpha=1.1 * r.alpha), "expected sums|value"),
        (lambda r: r._replace(value=r.value + 1), "value"),
        (lambda r: r._replace(alpha=0 * r.alpha, value=0.0), "duality gap"),
        (lambda r: r._replace(gap=-1.0), "gap: expected at least"),
    ]:
        with pytest.raises(AssertionError, match=message):
            check_qp_solver(broken(change))


def test_worlds():
    for world in (PreferenceMatrix(P), Utilities([0.9, 0.5, 0.4]), NormalScores([1.0, 0.5, 0.2])):
        check_world(world)

    @dataclasses.dataclass
    class Broken:
        gaps: object
        winners: object
        always: object = None
        n_arms = 3

        def compare(self, arms, rng):
            return PreferenceMatrix(P).compare(arms, rng) if self.always is None else self.always

    gaps, first = PreferenceMatrix(P).gaps, np.array([0])
    check_world(Broken(gaps, first))
    for world, message in [
        (Broken(-gaps, first), "gaps: expected 3 numbers >= 0"),
        (Broken(gaps, np.array([1])), "gaps: expected 0 for the winners"),
        (Broken(0 * gaps, np.array([2])), "winners: arm 2 has win rate"),
        (Broken(gaps, first, 1), "do not sum to 1"),
        (Broken(gaps, first, 2), "from 0 to 1"),
        (Broken(gaps, first, 0.5), "set of 3 arms"),
    ]:
        with pytest.raises(AssertionError, match=message):
            check_world(world)
