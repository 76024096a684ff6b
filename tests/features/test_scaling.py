"""Scaling within queries and over the data, against the definitions written out."""

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.pipeline import make_union
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from structsvm import QueryData, QueryScaler
from structsvm.features import BinnedFeatures
from structsvm.features.scaling import with_percentiles
from tests.refusing import rejected, rejections


def slow(x, method):
    """Scale one feature of one query by the definition."""
    if method == "percentile":
        if len(x) == 1:
            return [0.5]
        return [(sum(o < v for o in x) + (sum(o == v for o in x) - 1) / 2) / (len(x) - 1) for v in x]
    if min(x) == max(x):
        return [0.0] * len(x)
    if method == "minmax":
        return [(v - min(x)) / (max(x) - min(x)) for v in x]
    mean = sum(x) / len(x)
    deviation = (sum((v - mean) ** 2 for v in x) / len(x)) ** 0.5
    return [(v - mean) / deviation for v in x]


@pytest.mark.parametrize("method", ["minmax", "zscore", "percentile"])
def test_each_query_by_its_own_figures(method):
    rng = np.random.default_rng(0)
    qid = rng.permutation(np.repeat([5, 1, 9, 3], [1, 2, 7, 20]))  # a single document, mixed rows
    X = np.column_stack([rng.normal(size=30), rng.integers(0, 3, 30), np.full(30, 0.1), 1e8 + rng.random(30)])
    scaled = QueryScaler(method).fit_transform(X, qid=qid)
    for q in np.unique(qid):
        for j in range(4):
            np.testing.assert_allclose(
                scaled[qid == q, j], slow(list(X[qid == q, j]), method), rtol=1e-6, atol=1e-12
            )
    constant = 0.5 if method == "percentile" else 0.0
    assert (scaled[:, 2] == constant).all()
    assert (scaled[qid == 5] == constant).all()
    if method != "zscore":
        assert scaled.min() == 0
        assert scaled.max() == 1  # exactly: division, not multiplication by a reciprocal


@pytest.mark.parametrize("method", ["minmax", "zscore", "percentile"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_missing_values_stay_and_leave_the_others_their_figures(method, dtype):
    rng = np.random.default_rng(4)
    qid = rng.permutation(np.repeat([5, 1, 9, 3], [1, 4, 7, 20]))
    X = np.column_stack([rng.normal(size=32), rng.integers(0, 3, 32), np.full(32, 0.1)]).astype(dtype)
    missing = rng.random(X.shape) < 0.4
    missing[qid == 1, 0] = True  # the function retrieved nothing for this query
    missing[qid == 9, 1] = np.arange(7) > 0  # and one document for that
    X[missing] = np.nan
    scaled = QueryScaler(method).fit_transform(X, qid=qid)
    np.testing.assert_array_equal(np.isnan(scaled), missing)
    assert scaled.dtype == dtype
    for q in np.unique(qid):
        for j in range(3):
            there = (qid == q) & ~missing[:, j]
            expected = slow(X[there, j].astype(float).tolist(), method) if there.any() else []
            np.testing.assert_allclose(scaled[there, j], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("method", ["minmax", "zscore"])
def test_missing_values_over_the_data(method):
    scaler = QueryScaler(method, within="data").fit(
        np.array([[1.0, np.nan, 5.0], [3.0, np.nan, np.nan], [np.nan, np.nan, 5.0]])
    )
    scaled = scaler.transform([[3.0, 8.0, np.nan], [2.0, np.nan, 6.0]])
    column = {"minmax": [1.0, 0.5], "zscore": [1.0, 0.0]}[method]
    np.testing.assert_array_equal(scaled, [[column[0], 0.0, np.nan], [column[1], np.nan, 0.0]])


def test_scaled_scores_are_binned_as_binning_within_queries_does():
    rng = np.random.default_rng(5)
    scores = rng.normal(size=(60, 4))
    scores[rng.random(scores.shape) < 0.3] = np.nan
    qid = np.repeat(np.arange(4), 15)
    apart = BinnedFeatures(10).fit_transform(QueryScaler().fit_transform(scores, qid=qid))
    together = BinnedFeatures(10, within="query").fit_transform(scores, qid=qid)
    np.testing.assert_array_equal(apart.toarray(), together.toarray())


@pytest.mark.parametrize(("method", "reference"), [("minmax", MinMaxScaler()), ("zscore", StandardScaler())])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_over_the_data_as_scikit_learn_scales(method, reference, dtype):
    rng = np.random.default_rng(1)
    train, test = (rng.normal(3, 2, size=(n, 6)).astype(dtype) for n in (50_000, 9))
    scaled = QueryScaler(method, within="data").fit(train).transform(test)
    assert scaled.dtype == dtype
    np.testing.assert_allclose(
        scaled, reference.fit(train.astype(np.float64)).transform(test), rtol=1e-4, atol=1e-6
    )


def test_a_feature_constant_in_training_stays_zero():
    scaler = QueryScaler("zscore", within="data").fit(np.full((7, 1), 0.1))
    np.testing.assert_array_equal(scaler.transform([[0.1], [3.0]]), [[0.0], [0.0]])


def test_input_is_left_alone():
    X = np.arange(12.0).reshape(6, 2)
    X.flags.writeable = False
    for scaler in (QueryScaler(), QueryScaler(within="data")):
        scaler.fit_transform(X, qid=[0, 0, 0, 1, 1, 1])


test_bad_input_is_refused = rejections(
    lambda scaler, X: scaler.fit(X),
    (QueryScaler("rank"), [[1.0]], "method='rank': expected one of 'minmax'"),
    (QueryScaler(within="topic"), [[1.0]], "within='topic': expected 'query' or 'data'"),
    (QueryScaler("percentile", within="data"), [[1.0]], "expected within='query'"),
    (QueryScaler(), sparse.csr_array(np.eye(2)), "expected a dense matrix.*X.toarray"),
    (QueryScaler(), [[np.inf]], "infinity"),
)


def test_transform_insists_on_qid_where_fit_saw_it():
    X, qid = np.arange(4.0).reshape(4, 1), [0, 0, 1, 1]
    scaler = QueryScaler().fit(X, qid=qid)
    rejected("expected qid, as in fit", scaler.transform, X)
    rejected("qid: expected 4 ids", scaler.transform, X, qid=[0, 1])
    QueryScaler(within="data").fit(X, qid=qid).transform(X)  # its figures are known


def test_columns_keep_their_names():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"bm25": [1.0, 3.0, 2.0], "age": [5.0, 5.0, 1.0]})
    scaler = QueryScaler().fit(frame)
    assert scaler.get_feature_names_out().tolist() == ["bm25", "age"]
    assert QueryScaler().fit(frame.to_numpy()).get_feature_names_out().tolist() == ["x0", "x1"]
    expected = scaler.transform(frame, qid=[1, 1, 1])
    framed = scaler.set_output(transform="pandas").transform(frame, qid=[1, 1, 1])
    assert list(framed) == ["bm25", "age"]
    np.testing.assert_array_equal(framed, expected)


@pytest.mark.parametrize("csr", [False, True])
def test_percentiles_as_further_features(csr):
    rng = np.random.default_rng(3)
    X, qid = rng.integers(0, 4, size=(30, 3)).astype(np.float32), rng.integers(0, 5, size=30)
    data = QueryData.from_arrays(
        sparse.csr_matrix(X) if csr else X, rng.integers(0, 2, size=30), qid, feature_names=("a", "b", "c")
    )
    both = with_percentiles(data)
    assert both.feature_names == ("a", "b", "c", "a.percentile", "b.percentile", "c.percentile")
    assert both.X.dtype == np.float32
    with sklearn.config_context(enable_metadata_routing=True):
        union = make_union("passthrough", QueryScaler("percentile"))
        expected = union.fit_transform(X[both.order], qid=qid[both.order])
    np.testing.assert_array_equal(both.X, expected)
    np.testing.assert_array_equal(both.X[:, :3], X[both.order])
    np.testing.assert_array_equal(both.order, data.order)
    np.testing.assert_array_equal(both.y, data.y)
    rejected(r"names that end in \.percentile", with_percentiles, both)


@pytest.mark.parametrize("within", ["query", "data"])
@pytest.mark.parametrize("method", ["zscore", "minmax"])
def test_numbers_whose_square_overflows_are_refused(method, within):
    """The standard deviation would be infinite, and the scaled feature 0."""
    X = np.array([[1.0, 2e200], [np.nan, 0.0]])
    rejected(
        r"X\[0, 1\]: expected a number up to 1e\+100 in magnitude, got 2e\+200",
        QueryScaler(method, within=within).fit,
        X,
    )
    assert QueryScaler("percentile").fit_transform(X, qid=[1, 1])[:, 1].tolist() == [1.0, 0.0]
