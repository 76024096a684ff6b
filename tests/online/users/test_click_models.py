"""Click models: exact probabilities; ``tests/testing/test_online.py`` checks that clicks follow them."""

from itertools import product

import numpy as np
import pytest

from structsvm.online.users import CascadeUser, DependentClickUser, PositionBasedUser
from structsvm.online.users.cascade import CASCADE_TABLES
from tests.refusing import called, rejections

MODELS = {
    **{f"{name}-{n}": CascadeUser.named(name, n) for name, n in CASCADE_TABLES},
    "informational-any": CascadeUser.named("informational", 3, stop="any"),
    "position": PositionBasedUser([0.1, 0.7, 0.95], [1.0, 0.6, 0.4, 0.3, 0.1]),
    "dependent": DependentClickUser([0.1, 0.7, 0.95], [0.9, 0.5, 0.4, 0.2, 0.1]),
}


def _literal(model, grades: list[int], clicks: tuple[int, ...], k: int = 0) -> float:
    """Return the likelihood from rank ``k`` on, by explicit steps (read, click, leave) without tables."""
    if k == len(grades):
        return 1.0
    if isinstance(model, CascadeUser):
        click, stop = model.click_probability[grades[k]], model.stop_probability[grades[k]]
        leaves = (stop if model.stop == "any" else 0.0, stop)
    elif isinstance(model, PositionBasedUser):
        click, leaves = model.examination[k] * model.attraction[grades[k]], (0.0, 0.0)
    else:
        click, leaves = model.attraction[grades[k]], (0.0, 1 - model.continuation[k])
    leave = leaves[clicks[k]]
    rest = leave * (not any(clicks[k + 1 :])) + (1 - leave) * _literal(model, grades, clicks, k + 1)
    return (click if clicks[k] else 1 - click) * rest


@pytest.mark.parametrize("name", MODELS)
def test_likelihood_is_that_of_the_story(name):
    """``tests/testing`` checks for all users that it sums to one, and that ``probability`` is its marginal."""
    model = MODELS[name]
    n = len(model.tables(1).click)
    grades = [n - 1, 0, 1, 0, n - 1]
    for clicks in product((0, 1), repeat=len(grades)):
        assert model.likelihood(grades, clicks) == pytest.approx(_literal(model, grades, clicks), abs=1e-15)


def test_published_tables():
    user = CascadeUser.named("perfect", 5)
    assert user.click_probability == (0, 0.2, 0.4, 0.8, 1)
    assert user.stop_probability == (0,) * 5
    assert user.click([], 0).shape == (0,)
    assert user.likelihood([], []) == 1
    # the first document always ends the session of a user who surely clicks and surely leaves
    np.testing.assert_array_equal(CascadeUser([0, 1], [0, 1]).probability([1, 1, 1]), [1, 0, 0])


test_bad_input_is_named = rejections(
    called,
    (lambda: CascadeUser([0.1, 1.2], [0, 0]), r"click_probability\[1\]: expected a prob.*got 1.2"),
    (lambda: CascadeUser([0.1, float("nan")], [0, 0]), r"click_probability\[1\]"),
    (lambda: CascadeUser([0.1, 0.2], [0]), "stop_probability: expected one entry for each of the 2 grades"),
    (lambda: CascadeUser([0.1], [0], "never"), "stop='never': expected 'click' or 'any'"),
    (lambda: CascadeUser([], []), "click_probability: expected a row"),
    (lambda: CascadeUser.named("perfekt", 2), "no cascade model 'perfekt'.*perfect, navigational"),
    (lambda: CascadeUser.named("perfect", 4), "2, 3 or 5 grades"),
    (lambda: MODELS["perfect-2"].click([0, 2]), r"grades\[1\]: expected an integer from 0 to 1.*got 2"),
    (lambda: MODELS["perfect-2"].probability([0.5]), r"grades\[0\]: .* got 0.5"),
    (lambda: MODELS["perfect-2"].probability([-1]), r"grades\[0\]: .* got -1"),
    (lambda: MODELS["perfect-2"].probability(["1"]), "grades: expected integers"),
    (lambda: MODELS["perfect-2"].probability([[0, 1]]), "grades: expected one grade per rank"),
    (lambda: MODELS["perfect-2"].likelihood([0, 1], [1]), "clicks: expected one entry"),
    (lambda: MODELS["perfect-2"].likelihood([0, 1], ["0", "1"]), "clicks: expected 0 or 1 .* got '0'"),
    (lambda: MODELS["position"].click([0] * 6), "examination: the table covers 5 rank.* but the list has 6"),
    (lambda: MODELS["dependent"].click([0] * 6), "continuation: the table covers 5 rank"),
)
