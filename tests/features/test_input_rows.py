"""Bad rows raise errors that name the row, before anything is allocated or trained."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

from structsvm import (
    AccuracySVM,
    CoRegularizedSGD,
    LambdaRank,
    OrdinalSVM,
    PairwiseSGD,
    PairwiseSVM,
    QueryData,
    StructuralRanker,
    StructuralRankerCV,
    SVMMap,
    TreeRanker,
)
from structsvm.common.candidates import CandidateSet, check_labels
from structsvm.features import input_rows
from structsvm.readers import make_ranking, open_store, store, write_store
from tests.refusing import rejected
from tests.trainers.problems import SOLVERS


def rows(n=30, m=4):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, m))
    X[rng.random(X.shape) < 0.3] = 0
    return X, (X[:, 0] > 0).astype(int), np.array([f"q{i % 3}" for i in range(n)])


RANKERS = [
    StructuralRanker(),
    StructuralRankerCV(Cs=[1.0], cv=2),
    AccuracySVM(),
    OrdinalSVM(),
    PairwiseSVM(),
    PairwiseSGD(n_steps=10),
    CoRegularizedSGD(n_steps=10),
    LambdaRank(max_epochs=1),
    TreeRanker(n_trees=2, n_leaves=3, min_rows=1),
]


def put(array, place, value):
    copy = np.array(array, dtype=object if isinstance(value, str) else None)
    copy[place] = value
    return copy


def masked(array, place):
    mask = np.zeros(array.shape, dtype=bool)
    mask[place] = True
    return np.ma.masked_array(array, mask)


def damaged(X, kind, layout):
    """Return sparse rows with indices outside the matrix."""
    X = getattr(sparse, f"{layout}_matrix")(X)
    if kind == "column":
        X.indices[5] = 10**7
    else:
        X.indptr[2] = X.indptr[-1] + 10**6
    return X


def bad_features(X, missing):
    """Return rows that no ranker accepts, with their messages; ``missing`` includes NaN."""
    frame = pd.DataFrame(X, columns=["bm25", "pagerank", "length", "age"])
    when = pd.date_range("2020-01-01", periods=len(X))
    if missing:
        said = r"X\[17, 1\] \(feature 'pagerank'\), query q2: expected a finite number, got NaN; fill missing"
        yield said, frame.assign(pagerank=put(X[:, 1], 17, np.nan))
        shown = {
            np.nan: ("NaN", "fill missing"),
            np.inf: ("infinity", "replace inf"),
            -np.inf: ("-inf", "replace inf"),
        }
        kinds = (np.asfortranarray, np.float32, sparse.csr_matrix, sparse.csc_matrix)
        for value, kind in product(shown, kinds):
            bad = kind(put(put(X, (17, 2), value), (23, 0), value))
            yield r"X\[17, 2\], query q2: expected a finite number, got {}.*; {}".format(*shown[value]), bad
        for layout, kind in product(("csr", "csc"), ("column", "pointer")):
            yield r"X\.ind(ices|ptr)\[-?\d+\]: expected .*; the data are damaged", damaged(X, kind, layout)
    yield "X: expected each column once, got 'a' twice", frame.set_axis(["a", "a", "b", "c"], axis=1)
    for kind, column in (
        ("datetime64", when),
        ("timedelta64", when - when[0]),
        ("period", when.to_period("M")),
    ):
        yield f"X: .*got {kind}.* in the column 'age'", frame.assign(age=column)
    for size in (1e101, 1e200, 1e300):
        yield r"X\[0, 0\], query q0: expected a number up to 1e\+100 in magnitude, got ", np.abs(X + 1) * size
    yield r"X\[17, 1\]: expected values without a mask, got 1 masked ones", masked(X, (17, 1))
    yield "Expected 2D array", X[:, 0]
    yield "Found array with 0 feature", X[:, :0]


def bad_arguments(X, y, qid):
    """Return arguments of ``fit`` that no ranker accepts, with their messages."""
    ones, number = np.ones(len(y)), np.arange(len(y)) % 3
    for value, said in ((np.nan, "NaN"), (np.inf, "infinity")):
        yield rf"y\[4\], query q1: expected a finite label, got {said}; grade", {"y": put(y * 1.0, 4, value)}
    yield r"y\[4\], query q1: expected a number as the label, got 'good'", {"y": put(y, 4, "good")}
    yield r"y\[0\], query q0: expected a number", {"y": np.where(y > 0, "good", "bad")}
    yield "Found input variables with inconsistent numbers of samples", {"y": y[:-1]}
    yield "y should be a 1d array", {"y": np.column_stack([y, y])}
    for n in (0, 1):
        yield "Found array with .* minimum of 2 is required", {"X": X[:n], "y": y[:n], "qid": qid[:n]}
    yield "qid: expected 30 ids, one for each row of X, got 29", {"qid": qid[:-1]}
    yield r"qid: expected one id per row .* got shape \(30, 2\)", {"qid": np.stack([qid, qid], axis=1)}
    for value in (np.nan, np.inf):
        yield rf"qid\[7\]: expected an int or a string, got {value}", {"qid": put(number * 1.0, 7, value)}
    yield r"qid\[0\]: expected an int or a string, got 0.5", {"qid": number + 0.5}
    for name, values in {"y": y, "qid": number, "sample_weight": ones}.items():
        yield rf"{name}\[17\]: expected values without a mask, got 1 masked ones", {name: masked(values, 17)}
    for said, weights in (
        (r"\[0\]: expected a number >= 0, got -1", -ones),
        (r"\[7\]: expected a number up to 1e\+100, got 1e\+308", put(ones, 7, 1e308)),
        (": expected at least one positive weight, got zeros only", 0 * ones),
        (": expected one weight per row, 30, got one per query, 3", ones[:3]),
        (".shape == .*, expected", ones[:4]),
        (" contains NaN", put(ones, 3, np.nan)),
    ):
        yield f"(Input )?sample_weight{said}", {"sample_weight": weights}


@pytest.mark.parametrize("model", RANKERS, ids=lambda m: type(m).__name__)
def test_bad_rows_are_refused_by_place(model):
    X, y, qid = rows()
    sound = {"X": X, "y": y, "qid": qid, "sample_weight": None}
    cases = [(said, {"X": bad}) for said, bad in bad_features(X, not isinstance(model, TreeRanker))]
    for said, changes in [*cases, *bad_arguments(X, y, qid)]:
        rejected(f"^{said}", clone(model).fit, **sound | changes)
    fitted = clone(model).fit(**sound | {"X": np.ma.masked_array(X, np.zeros(X.shape, dtype=bool))})
    for said, changes in cases:
        if not hasattr(changes["X"], "columns"):  # which names would be compared with those of fit
            rejected(f"^{said}", fitted.predict, changes["X"], qid=qid)


def test_no_query_is_named_where_none_is_given():
    X, y, qid = rows()
    with pytest.raises(ValueError, match=r"^X\[17, 2\]: expected a finite number"):
        StructuralRanker().fit(X, y, qid=qid).predict(put(X, (17, 2), np.nan))


@pytest.mark.filterwarnings("ignore::structsvm.trainers.certificate.ConvergenceWarning")
@pytest.mark.parametrize("solver", SOLVERS)
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
        r"the last one used, occurs in row 1, query b; number the features without gaps"
    )
    rejected(message, StructuralRanker().fit, X, [1, 0, 1, 0], qid=["a", "b", "a", "b"])
    for model, size in (
        (PairwiseSGD(), 206),
        (CoRegularizedSGD(), 206),
        (LambdaRank(), 241),
        (LambdaRank(hidden=(4,)), 550),
    ):
        rejected(
            rf"^X: training on 2147483647 features needs at least {size} GB",
            model.fit,
            X,
            [1, 0, 1, 0],
            qid=["a", "b", "a", "b"],
        )
    # what the message says to do, of a narrower matrix: SciPy would hold three numbers for each column
    X = sparse.csr_matrix(([1.0, 1.0, 1.0], ([0, 1, 2], [3, 10**6 - 2, 5])), shape=(4, 10**6))
    assert StructuralRanker().fit(
        X[:, np.unique(X.indices)], [1, 0, 1, 0], qid=["a", "b", "b", "a"]
    ).coef_.shape == (3,)


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
        rejected(f"^validation: .*{message}", model.fit, X, y, qid=qid, validation=given)
    frame = pd.DataFrame(X).rename(columns=str).assign(qid=qid)
    model.fit(frame, y, validation=(frame, y))
    model.fit(X, y, validation=(X, y, 0), qid=0)  # one query, as in training


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


def test_a_store_with_indices_out_of_range_is_not_trained_on(tmp_path, monkeypatch):
    X, y, qid = rows()
    write_store(QueryData.from_arrays(sparse.csr_matrix(X), y, qid), tmp_path / "a.store")
    raw = bytearray((tmp_path / "a.store" / "indices.npy").read_bytes())
    raw[-4:] = np.int32(10**6).tobytes()
    (tmp_path / "a.store" / "indices.npy").write_bytes(raw)
    rejected(r"indices\.npy: expected the array that was written.*checksum", open_store, tmp_path / "a.store")
    monkeypatch.setattr(store, "_CHEAP_BYTES", 0)  # as if it were large
    damaged = open_store(tmp_path / "a.store")
    with pytest.raises(ValueError, match=r"X\.indices\[\d+\]: expected .*; the data are damaged"):
        SVMMap().fit(damaged.X, damaged.y, qid=damaged.qid)


def test_candidate_sets_refuse_indices_out_of_range():
    spoiled = damaged(rows()[0], "column", "csr")
    rejected(r"indices\[\d\]: expected a column", CandidateSet, abs(spoiled))
    rejected(r"features\.indices\[\d\]: expected a column", CandidateSet, ["a"] * 30, features=spoiled)
    rejected(r"labels\[0\]\.indices\[\d\]: expected a column", check_labels, [spoiled])
