"""Indicators against their definition, bytes against the matrix that they encode."""

import warnings
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import sklearn
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from structsvm.features.binning import BinnedFeatures, between
from structsvm.features.coded_rows import BinnedRows
from structsvm.features.scaling import minmax_within
from tests.refusing import rejected, rejections


@parametrize_with_checks([BinnedFeatures()])
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings(action="ignore"):
        check(estimator)


scores = arrays(
    np.float64,
    st.tuples(st.integers(1, 30), st.integers(1, 4)),
    elements=st.floats(-1e308, 1e308) | st.just(np.nan) | st.sampled_from([0.0, -0.0, 1.0, 2.0]),
)


def slow_indicators(X, thresholds):
    """Return the indicators by definition: ``f > k``, which is False for a missing score."""
    return np.array(
        [[float(x > k) for x, ks in zip(row, thresholds, strict=True) for k in ks] for row in X.tolist()]
    ).reshape(len(X), -1)


@given(scores, scores, st.integers(1, 60), st.sampled_from(["even", "quantile"]))
@settings(max_examples=200)
def test_indicators_follow_the_definition(train, test, n_bins, spacing):
    binned = BinnedFeatures(n_bins, spacing=spacing).fit(train)
    test = np.resize(test, (len(test), train.shape[1]))
    for X in (train, test):
        made = binned.transform(X)
        assert sparse.issparse(made)
        assert made.dtype == np.float32
        made.check_format(full_check=True)
        np.testing.assert_array_equal(made.toarray(), slow_indicators(X, binned.thresholds_))
    for ks, column in zip(binned.thresholds_, train.T, strict=True):
        assert ks[0] == -np.inf
        assert (np.diff(ks) > 0).all()
        assert len(ks) <= n_bins
        # every threshold tells training scores apart
        present = column[~np.isnan(column)]
        assert all((present <= k).any() and (present > k).any() for k in ks[1:])


def test_even_thresholds():
    column = np.array([2.0, 12.0, np.nan, 3.0])[:, None]
    binned = BinnedFeatures().fit(column)
    np.testing.assert_allclose(binned.thresholds_[0][1:], 2.0 + 0.2 * np.arange(1, 50), rtol=1e-14)
    assert binned.transform(column).toarray().sum(axis=1).tolist() == [1, 50, 0, 5]


def test_quantiles_put_equal_numbers_into_each_bin():
    column = np.random.default_rng(0).lognormal(sigma=3, size=(1000, 1))
    counts = np.bincount(
        BinnedFeatures(10, spacing="quantile").fit(column).transform_rows(column).codes[:, 0]
    )
    assert counts.tolist() == [0] + [100] * 10
    many_of_the_lowest = BinnedFeatures(4, spacing="quantile").fit([[0.0]] * 6 + [[1.0], [2.0], [3.0]])
    assert many_of_the_lowest.thresholds_[0].round(6).tolist() == [-np.inf, 0.5, 1.5]


def neighbours(x, n, kind):
    """Return the ``n``-th number of a dtype after ``x``, or before ``x`` if ``n`` is negative."""
    for _ in range(abs(n)):
        x = np.nextafter(x, kind(np.inf if n > 0 else -np.inf), dtype=kind)
    return x.astype(float)


@given(
    st.lists(st.floats(-1e39, 1e39), min_size=1),
    st.sampled_from([(np.float32, 1), (np.float32, 3), (np.float64, 1), (np.float64, 1000)]),
)
@settings(max_examples=200)
def test_edges_are_between_values_and_sort_copies_in_float32_alike(below, step):
    kind, n = step
    below = np.array(below)
    with np.errstate(over="ignore"):
        below = below.astype(kind).astype(float)
        below = below[np.isfinite(below)]
        above = neighbours(below, n, kind)
        low, high = below.astype(np.float32), above.astype(np.float32)
    edge = between(below, above)
    assert (below <= edge).all()
    assert (edge < above).all()
    apart = (low < high) & np.isfinite(low) & np.isfinite(high)
    edge = edge[apart]
    # the largest float64 that counts as not above the edge in float32, whatever the values are
    assert (edge.astype(np.float32) <= edge).all()
    for n in (-2, -1, 1, 2):
        x = neighbours(edge, n, np.float64)
        assert ((x.astype(np.float32) <= edge) == (x <= edge)).all()


@given(st.lists(st.floats(-10, 10).map(lambda x: round(x, 1)), min_size=1), st.integers(1, 12))
def test_quantiles_by_their_definition(values, n_bins):
    values = np.sort(values)
    shares = [Fraction(int((values <= v).sum()), len(values)) for v in values]
    quantiles = {
        min(v for v, s in zip(values, shares, strict=True) if s >= Fraction(k, n_bins))
        for k in range(1, n_bins)
    }
    expected = [[1 + sum(v > q for q in quantiles if q < values[-1])] for v in values]
    binned = BinnedFeatures(n_bins, spacing="quantile").fit(values[:, None])
    assert binned.transform_rows(values[:, None]).codes.tolist() == expected
    assert binned.transform_rows(values[:, None].astype(np.float32)).codes.tolist() == expected


def test_a_function_without_scores_and_one_with_equal_scores():
    X = np.array([[np.nan, 7.0], [np.nan, 7.0], [np.nan, np.nan]])
    binned = BinnedFeatures().fit(X)
    assert binned.transform(X).toarray().tolist() == [[0, 1], [0, 1], [0, 0]]
    assert binned.transform([[1.0, 8.0]]).toarray().tolist() == [[1, 1]]


# within queries


@given(scores, st.data())
@settings(max_examples=100)
def test_minmax_within_follows_the_definition(X, data):
    cuts = data.draw(st.sets(st.integers(1, max(1, len(X) - 1)), max_size=3))
    offsets = np.array(sorted({0, len(X), *(c for c in cuts if c < len(X))}), dtype=np.int64)
    made = minmax_within(X, offsets)
    for a, b in pairwise(offsets):
        for f in range(X.shape[1]):
            present = X[a:b, f][~np.isnan(X[a:b, f])]
            for i in range(a, b):
                if np.isnan(X[i, f]):
                    assert np.isnan(made[i, f])
                    continue
                low, high = present.min() / 2, present.max() / 2
                expected = (X[i, f] / 2 - low) / (high - low) if high > low else 1.0
                assert made[i, f] == pytest.approx(expected, abs=1e-12)


def test_rows_of_a_query_may_stand_anywhere():
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(60, 3)), np.repeat(["a", "b", "c"], 20)
    X[rng.random(X.shape) < 0.3] = np.nan
    binned = BinnedFeatures(11, within="query").fit(X, qid=qid)
    order = rng.permutation(60)
    np.testing.assert_array_equal(
        binned.transform_rows(X[order], qid=qid[order]).codes, binned.transform_rows(X, qid=qid).codes[order]
    )
    both = BinnedFeatures(11, within="query").fit_transform(X[order], qid=qid[order])
    np.testing.assert_array_equal(both.toarray(), binned.transform(X, qid=qid).toarray()[order])


def test_within_query_insists_on_qid():
    binned = BinnedFeatures(within="query")
    rejected(r"BinnedFeatures\.fit: expected qid", binned.fit, [[1.0], [2.0]])
    binned.fit([[1.0], [2.0]], qid=[1, 1])
    for method in (binned.transform, binned.transform_rows):
        rejected(r"BinnedFeatures\.transform: expected qid", method, [[1.0]])


def test_a_pipeline_passes_qid_along():
    X, qid = [[1.0], [2.0], [10.0], [20.0]], [1, 1, 2, 2]
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(BinnedFeatures(2, within="query"))
        made = pipeline.fit(X, qid=qid).transform(X, qid=qid)
    assert made.toarray().tolist() == [[1, 0], [1, 1], [1, 0], [1, 1]]


test_wrong_options = rejections(
    lambda options, X=((1.0,),): BinnedFeatures(**options).fit(X),
    ({}, [[np.inf]], "infinity"),
    ({"n_bins": 0}, "n_bins=0: expected an integer from 1 to 255"),
    ({"n_bins": 256}, "n_bins=256: expected an integer from 1 to 255"),
    ({"n_bins": 2.5}, "n_bins=2.5: expected an integer"),
    ({"spacing": "log"}, "spacing='log': expected 'even' or 'quantile'"),
    ({"within": "topic"}, "within='topic': expected 'data' or 'query'"),
)


# names and step functions


def test_names_and_step_functions_say_what_the_weights_do():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    X[rng.random(X.shape) < 0.2] = np.nan
    binned = BinnedFeatures(6).fit(X)
    names = binned.get_feature_names_out(["bm25", "lm", "tfidf"])
    w = rng.normal(size=len(names))
    assert names[0] == "bm25>-inf"
    assert names[7] == f"lm>{binned.thresholds_[1][1]:g}"
    steps = binned.step_functions(w, ["bm25", "lm", "tfidf"])
    assert [step.name for step in steps] == ["bm25", "lm", "tfidf"]
    total = np.zeros(len(X))
    for step, column in zip(steps, X.T, strict=True):
        place = np.searchsorted(step.thresholds, column, side="left")
        total += step.values[np.where(np.isnan(column), 0, place)]
    np.testing.assert_allclose(total, binned.transform(X) @ w, rtol=1e-12)
    rejected("coef: expected one weight for each of the 18 indicators", binned.step_functions, w[:-1])


@pytest.mark.parametrize(("low", "names"), [(0.0, ["b>1", "b>2"]), (1e6, ["b>1000001.0", "b>1000002.0"])])
def test_names_of_a_frame_are_kept_with_the_digits_that_differ(low, names):
    binned = BinnedFeatures(3).fit(
        pytest.importorskip("pandas").DataFrame({"a": [0, 0], "b": [low, low + 3]})
    )
    assert binned.get_feature_names_out().tolist()[-2:] == names
    assert [step.name for step in binned.step_functions(np.ones(4))] == ["a", "b"]


# rows as bytes


def random_rows(seed, n_rows=200, n_functions=5, most=50):
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, most + 1, n_functions)
    codes = np.stack([rng.integers(0, c + 1, n_rows) for c in counts], axis=1).astype(np.uint8)
    return rng, BinnedRows(codes, np.concatenate(([0], np.cumsum(counts))))


@pytest.mark.parametrize("most", [1, 50, 255])
def test_bytes_multiply_as_the_matrix_does(most):
    rng, rows = random_rows(most, most=most)
    w = rng.normal(size=rows.shape[1])
    assert rows.shape == rows.tocsr().shape
    assert rows.nbytes == 200 * 5
    np.testing.assert_allclose(rows @ w, rows.tocsr() @ w, rtol=1e-9, atol=1e-9)
    for chosen in (slice(3, 40), np.array([5, 5, 0]), rng.random(200) < 0.5):
        np.testing.assert_array_equal(rows[chosen].tocsr().toarray(), rows.tocsr()[chosen].toarray())
    assert np.shares_memory(rows[3:40].codes, rows.codes)
    with pytest.raises(ValueError, match="w: expected shape"):
        rows @ w[1:]
