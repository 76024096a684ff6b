"""Synthetic data: planted weights rank them, shares are as documented, chunks change nothing."""

import numpy as np
import pytest

from structsvm.readers import make_ranking, open_store, write_ranking_store
from structsvm.readers.synthetic import planted_weights
from tests.refusing import rejected


def test_noise_makes_grades_uncertain_but_not_random():
    w = planted_weights(8)
    hits = {}
    for noise in (0.0, 0.5, 2.0):
        data = make_ranking(200, 50, 8, noise=noise)
        best = (data.X @ w).reshape(200, 50).argmax(axis=1)
        hits[noise] = data.y.reshape(200, 50)[np.arange(200), best].mean()
    assert hits[0.0] > hits[0.5] > hits[2.0] > 1.0  # the mean grade is 0.68


@pytest.mark.parametrize(
    ("grades", "counts"), [(5, [52, 32, 13, 2, 1]), (4, [52, 32, 13, 3]), (3, [52, 32, 16]), (2, [52, 48])]
)
def test_shares_of_grades(grades, counts):
    data = make_ranking(3, 100, 2, grades=grades)
    for q in range(3):
        assert np.bincount(data.y[100 * q : 100 * q + 100].astype(int)).tolist() == counts


def test_short_queries_have_a_relevant_document_and_another():
    for n_docs in (2, 3, 5):
        y = make_ranking(4, n_docs, 2).y.reshape(4, n_docs)
        assert (y.max(axis=1) > 0).all()
        assert (y.min(axis=1) == 0).all()


def test_seed_decides_and_queries_are_independent_of_their_number():
    a, b = make_ranking(5, 10, 3, random_state=1), make_ranking(9, 10, 3, random_state=1)
    np.testing.assert_array_equal(a.X, b.X[:50])
    np.testing.assert_array_equal(a.y, b.y[:50])
    assert (make_ranking(5, 10, 3, random_state=2).X != a.X).all()


@pytest.mark.parametrize("chunk", [1, 4, None])
def test_store_holds_the_same_data_whatever_the_chunk(tmp_path, chunk):
    write_ranking_store(tmp_path / "a.store", 9, 10, 3, random_state=5, chunk_queries=chunk)
    stored, data = open_store(tmp_path / "a.store"), make_ranking(9, 10, 3, dtype=np.float32, random_state=5)
    for name in ("X", "y", "offsets", "query_ids"):
        np.testing.assert_array_equal(getattr(stored, name), getattr(data, name))
        assert getattr(stored, name).dtype == getattr(data, name).dtype


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_docs": 0}, "n_docs=0: expected an integer >= 1"),
        ({"noise": -1}, "noise"),
        ({"noise": np.nan}, "noise"),
        ({"grades": 6}, "grades=6: expected an integer from 2 to 5"),
        ({"grades": 1}, "grades"),
    ],
)
def test_bad_settings(tmp_path, change, message):
    settings = {"n_queries": 2, "n_docs": 2, "n_features": 2} | change
    rejected(message, make_ranking, **settings)
    rejected(message, write_ranking_store, tmp_path / "a.store", **settings)
