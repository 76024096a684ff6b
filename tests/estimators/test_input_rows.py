"""Bad rows are refused with their place, before anything is allocated or trained."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from structsvm import (
    CoRegularizedSGD,
    LambdaRank,
    OrdinalSVM,
    PairwiseSGD,
    StructuralRanker,
    StructuralRankerCV,
    SVMMap,
    TreeRanker,
)
from structsvm.estimators import input_rows
from structsvm.readers import make_ranking


def rows(n=30, m=4):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, m))
    X[rng.random(X.shape) < 0.3] = 0
    return X, (X[:, 0] > 0).astype(int), [f"q{i % 3}" for i in range(n)]


@pytest.mark.parametrize(("value", "shown"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "-infinity")])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, sparse.csr_matrix, sparse.csc_matrix])
def test_a_value_that_is_missing_is_named_by_row_column_and_query(value, shown, dtype, kind):
    X, y, qid = rows()
    model = StructuralRanker().fit(X, y, qid=qid)
    X[17, 2] = value
    X[23, 0] = value
    bad = kind(X.astype(dtype))
    remedy = "fill missing" if shown == "NaN" else "replace infinite"
    message = rf"^X\[17, 2\], query q2: expected a finite number, got {shown}; {remedy} values first"
    for call in (
        lambda: StructuralRanker().fit(bad, y, qid=qid),
        lambda: StructuralRankerCV(cv=2).fit(bad, y, qid=qid),
        lambda: model.predict(bad, qid=qid),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(ValueError, match=r"^X\[17, 2\]: expected a finite number"):
        model.predict(bad)


def test_a_missing_value_of_a_frame_is_named_by_its_column():
    X, y, qid = rows()
    frame = pd.DataFrame(X, columns=["bm25", "pagerank", "length", "age"])
    frame.loc[5, "pagerank"] = None
    message = r"^X\[5, 1\] \(feature 'pagerank'\), query q2: expected a finite number, got NaN"
    with pytest.raises(ValueError, match=message):
        StructuralRanker().fit(frame, y, qid=qid)
    with pytest.raises(ValueError, match=message):
        StructuralRanker().fit(frame.assign(qid=qid), y)
    with pytest.raises(ValueError, match=message):
        OrdinalSVM().fit(frame, y, qid=qid)


@pytest.mark.parametrize(("value", "shown"), [(np.nan, "NaN"), (np.inf, "infinity")])
def test_a_label_that_is_missing_is_named(value, shown):
    X, y, qid = rows()
    labels = y.astype(float)
    labels[4] = value
    with pytest.raises(ValueError, match=rf"^y\[4\], query q1: expected a finite label, got {shown}; grade"):
        StructuralRanker().fit(X, labels, qid=qid)


@pytest.mark.parametrize("size", [1e101, 1e200, 1e300])
def test_features_whose_squares_overflow_are_one_clear_error(size):
    X, y, qid = rows()
    with pytest.raises(
        ValueError, match=r"^X\[0, 0\], query q0: expected a number up to 1e\+100 in magnitude, got "
    ):
        StructuralRanker().fit(np.abs(X + 1) * size, y, qid=qid)


@pytest.mark.filterwarnings("ignore::structsvm.trainers.certificate.ConvergenceWarning")
@pytest.mark.parametrize("solver", ["one_slack", "n_slack", "frank_wolfe"])
@pytest.mark.parametrize("size", [1e12, 1e99])
def test_large_features_that_are_accepted_train_without_overflow(solver, size):
    X, y, qid = rows()
    model = StructuralRanker(solver=solver, max_passes=30).fit(X * (size / np.abs(X).max()), y, qid=qid)
    assert 0 <= model.fit_.dual <= model.fit_.primal
    assert np.isfinite(model.coef_).all()


def test_more_features_than_memory_are_refused_before_allocation(monkeypatch):
    X = sparse.csr_matrix(([1.0, 1.0, 1.0], ([0, 1, 2], [3, 2**31 - 2, 5])), shape=(4, 2**31 - 1))
    monkeypatch.setattr(input_rows, "memory_bytes", lambda: 16e9)
    message = (
        r"^X: training on 2147483647 features needs at least 412 GB, of which this machine has 16; feature 2147483647, "
        r"the last one used, is used in row 1, query b; number the features without gaps"
    )
    with pytest.raises(ValueError, match=message):
        StructuralRanker().fit(X, [1, 0, 1, 0], qid=["a", "b", "a", "b"])
    for model, size in (
        (PairwiseSGD(), 206),
        (CoRegularizedSGD(), 206),
        (LambdaRank(), 241),
        (LambdaRank(hidden=(4,)), 550),
    ):
        with pytest.raises(
            ValueError, match=rf"^X: training on 2147483647 features needs at least {size} GB"
        ):
            model.fit(X, [1, 0, 1, 0], qid=["a", "b", "a", "b"])
    # what the message says to do, of a narrower matrix: SciPy would hold three numbers for each column
    X = sparse.csr_matrix(([1.0, 1.0, 1.0], ([0, 1, 2], [3, 10**6 - 2, 5])), shape=(4, 10**6))
    used = X[:, np.unique(X.indices)]
    assert StructuralRanker().fit(used, [1, 0, 1, 0], qid=["a", "b", "b", "a"]).coef_.shape == (3,)


@pytest.mark.parametrize(
    "model",
    [PairwiseSGD(n_steps=100), CoRegularizedSGD(n_steps=100), LambdaRank(max_epochs=2)],
    ids=lambda m: type(m).__name__,
)
def test_rows_to_stop_training_by_are_refused_under_their_name(model):
    X, y, qid = rows()
    bad, labels = X.copy(), y.astype(float)
    bad[17, 2], labels[4] = np.nan, np.nan
    cases = [
        ((X, y), r"query ids, as in fit: \(X, y, qid\)"),
        ((X,), "as a tuple .*, got 1 of them"),
        ((X, y, qid, qid), "as a tuple .*, got 4 of them"),
        (0.1, "as a tuple .*, got 0.1"),
        ((X[:, :2], y, qid), "X has 2 features"),
        ((bad, y, qid), r"X\[17, 2\], query q2: expected a finite number, got NaN"),
        ((X, labels, qid), r"y\[4\], query q1: expected a finite label, got NaN"),
        ((X, y[:-1], qid), "inconsistent numbers of samples"),
        ((X, y, qid[:-1]), "qid: expected 30 ids"),
        ((X, 0 * y, qid), "expected a query whose ranking changes"),
    ]
    for given, message in cases:
        with pytest.raises(ValueError, match=f"^validation: .*{message}"):
            model.fit(X, y, qid=qid, validation=given)
    frame = pd.DataFrame(X).rename(columns=str).assign(qid=qid)
    model.fit(frame, y, validation=(frame, y))
    model.fit(X, y, validation=(X, y, 0), qid=0)  # one query, as in training


def test_a_refused_fit_leaves_the_model_as_it_was():
    X, y, qid = rows()
    frame = pd.DataFrame(X).rename(columns=str)
    for model in (StructuralRanker(scale="zscore"), StructuralRankerCV(Cs=[1.0], cv=2, scale="zscore")):
        scores = model.fit(frame, y, qid=qid).predict(frame)
        before = set(vars(model))
        with pytest.raises(ValueError, match="no query carries a constraint"):
            model.fit(np.hstack([X, X]), 0 * y, qid=qid)
        assert (model.predict(frame) == scores).all()
        assert set(vars(model)) == before


def test_weights_whose_sum_overflows():
    X, y, qid = rows()
    weights = np.ones(len(y))
    weights[7] = 1e308
    for model in (StructuralRanker(), PairwiseSGD(n_steps=10), LambdaRank(max_epochs=1), OrdinalSVM()):
        with pytest.raises(
            ValueError, match=r"^sample_weight\[7\]: expected a number up to 1e\+100, got 1e\+308"
        ):
            model.fit(X, y, qid=qid, sample_weight=weights)


RANKERS = [
    StructuralRanker(),
    TreeRanker(n_trees=2, n_leaves=3, min_rows=1),
    PairwiseSGD(n_steps=10),
    LambdaRank(max_epochs=1),
    OrdinalSVM(),
]


@pytest.mark.parametrize("model", RANKERS, ids=lambda m: type(m).__name__)
def test_masked_values_are_refused(model):
    X, y, _ = rows()
    whole = np.ma.masked_array(X, np.zeros(X.shape, dtype=bool))
    ids = np.repeat(np.arange(3), 10)
    mask = np.zeros(X.shape, dtype=bool)
    mask[17, 1] = True
    cells, column = np.ma.masked_array(X, mask), mask[:, 1]
    model.fit(whole, y, qid=ids)
    cases = {
        r"X\[17, 1\]": (cells, y, ids, None),
        r"y\[17\]": (X, np.ma.masked_array(y, column), ids, None),
        r"qid\[17\]": (X, y, np.ma.masked_array(ids, column), None),
        r"sample_weight\[17\]": (X, y, ids, np.ma.masked_array(np.ones(len(y)), column)),
    }
    for place, (a, b, c, d) in cases.items():
        with pytest.raises(ValueError, match=f"^{place}: expected values that are there, got 1 masked ones"):
            model.fit(a, b, qid=c, sample_weight=d)
    with pytest.raises(ValueError, match=r"^X\[17, 1\]: expected values that are there"):
        model.predict(cells)


@pytest.mark.parametrize("model", RANKERS, ids=lambda m: type(m).__name__)
def test_weights_of_zeros_are_refused_by_name(model):
    X, y, qid = rows()
    with pytest.raises(
        ValueError, match=r"^sample_weight: expected at least one positive weight, got zeros only"
    ):
        model.fit(X, y, qid=qid, sample_weight=np.zeros(len(y)))


@pytest.mark.parametrize("model", RANKERS, ids=lambda m: type(m).__name__)
def test_frames_that_are_no_table_of_numbers_are_refused_by_column(model):
    X, y, qid = rows()
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"])
    when = pd.date_range("2020-01-01", periods=len(y))
    cases = {
        "expected each column once, got 'a' twice": frame.set_axis(["a", "a", "c"], axis=1),
        "got datetime64.* in the column 'when'": frame.assign(when=when),
        "got timedelta64.* in the column 'age'": frame.assign(age=when - when[0]),
        "got period.* in the column 'month'": frame.assign(month=when.to_period("M")),
    }
    for message, bad in cases.items():
        with pytest.raises(ValueError, match=f"^X: .*{message}"):
            model.fit(bad, y, qid=qid)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_column_that_is_the_label_is_named(sign):
    data = make_ranking(10, 12, 4, grades=3, random_state=0)
    X = pd.DataFrame(data.X, columns=list("abcd")).assign(label=sign * data.y)
    with pytest.warns(UserWarning, match="X: feature 'label' equals y"):
        SVMMap().fit(X, data.y, qid=data.qid)
    with pytest.warns(UserWarning, match="X: feature 5 equals y"):
        SVMMap().fit(X.to_numpy(), data.y, qid=data.qid)


def test_few_rows_may_equal_the_labels_by_chance():
    input_rows._warn_of_label(np.array([[1.0], [0.0]] * 20), np.array([1.0, 0.0] * 20))
    input_rows._warn_of_label(np.arange(6.0)[:, None], np.arange(6.0))
    input_rows._warn_of_label(np.ones((200, 2)), np.ones(200))
