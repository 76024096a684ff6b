"""Permutation importance: by its definition, on models with known importances."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from structsvm.metrics import evaluate, permutation_importance
from tests.refusing import rejections

rng = np.random.default_rng(0)
X, qid = rng.normal(size=(240, 3)), np.repeat(np.arange(24), 10)
y = (X[:, 0] > 0.8).astype(int)


class First:
    """Scores by the first feature."""

    def predict(self, X):
        return np.asarray(X)[:, 0]


def test_only_what_the_model_uses_counts():
    found = permutation_importance(First(), X, y, qid=qid, n_repeats=3)
    assert found.baseline == evaluate("map", y, X[:, 0], qid=qid).mean
    assert found.losses.shape == (3, 3)
    assert (found.losses[0] > 0.2).all()
    assert (found.losses[1:] == 0).all()
    assert found.order[0] == 0


def test_a_shuffled_ranking_is_as_good_as_chance():
    found = permutation_importance(First(), X, y, qid=qid, n_repeats=40, measure="roc", empty="skip")
    assert found.baseline == 1.0
    assert found.mean[0] == pytest.approx(0.5, abs=0.03)


def test_values_stay_within_their_query():
    # trec_eval compares in single precision, which such shifts use up
    shift = np.repeat(np.arange(24), 10)[:, None] * 1000.0
    assert np.array_equal(
        permutation_importance(First(), X + shift, y, qid=qid, convention="burges").losses,
        permutation_importance(First(), X, y, qid=qid, convention="burges").losses,
    )


def test_rows_in_any_order():
    # the shuffles are other ones; what is constant within queries still counts for nothing
    order = rng.permutation(240)
    constant = np.column_stack([qid.astype(float), X[:, 1]])
    with pytest.warns(UserWarning, match="100 % of the pairs"):
        found = permutation_importance(First(), constant[order], y[order], qid=qid[order], n_repeats=2)
    assert (found.losses == 0).all()


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_keep_names_and_ids(frame):
    found = permutation_importance(First(), frame({"a": X[:, 0], "qid": qid, "b": X[:, 1]}), y, n_repeats=2)
    assert found.names == ("a", "b")
    alone = permutation_importance(First(), X[:, :2], y, qid=qid, n_repeats=2)
    assert np.array_equal(found.losses, alone.losses)


def test_same_seed_same_result():
    again = [permutation_importance(First(), X, y, qid=qid, random_state=s).losses for s in (1, 1, 2)]
    assert np.array_equal(again[0], again[1])
    assert not np.array_equal(again[0], again[2])


test_bad_input = rejections(
    lambda X, options: permutation_importance(First(), X, y, **{"qid": qid, **options}),
    (X, {"qid": None}, "qid"),
    (X, {"n_repeats": 0}, "n_repeats"),
    (X[:, 0], {}, "shape"),
    (X, {"measure": "nothing"}, "metric"),
)
