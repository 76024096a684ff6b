"""Rows for a fitted model, in random containers: all functions that take them agree on scores and refusals."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from structsvm import StructuralRankerCV, SVMMap, TreeRanker
from structsvm.common.checks import BadInput
from structsvm.estimators import hybrid_weights
from structsvm.export import check_export, export_model, score_difference
from structsvm.metrics import evaluate, make_scorer, permutation_importance
from tests.laws import LAW
from tests.refusing import rejected

NAMES = ["title", "body", "age"]
N = 8
Y = np.array([1, 0, 0, 1, 0, 0, 1, 0])
WORDS = np.array(["bolt", "nut", "screw"])


def training():
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(120, 3)), 2)
    y = (X[:, 0] - X[:, 1] + 0.2 * rng.normal(size=120) > 0.6).astype(int)
    return X, y, np.arange(120) // 10


def fitted():
    """Return models by name: trained on arrays, frames, frames with categories, sparse matrices, and in pipelines."""
    X, y, qid = training()
    frame = pd.DataFrame(X, columns=NAMES)
    words = frame.assign(age=pd.Categorical(WORDS[(X[:, 2] > 0).astype(int)], WORDS))
    trees = {"n_trees": 5, "n_leaves": 4, "min_rows": 5, "random_state": 0}
    models = {
        "array": (SVMMap(), X),
        "frame": (SVMMap(), frame),
        "zscore": (SVMMap(scale="zscore"), frame),
        "query-zscore": (SVMMap(scale="query-zscore"), frame),
        "sparse": (SVMMap(), sparse.csr_matrix(X)),
        "trees": (TreeRanker(**trees), frame),
        "trees on arrays": (TreeRanker(**trees), X),
        "categories": (TreeRanker(**trees), words),
        "pipeline": (make_pipeline(SimpleImputer(), StandardScaler(), SVMMap()), frame),
        "sparse pipeline": (make_pipeline(MaxAbsScaler(), SVMMap()), frame),
        "transformer": (
            make_pipeline(make_column_transformer((StandardScaler(), NAMES)), SVMMap()),
            frame,
        ),
    }
    made = {}
    with warnings.catch_warnings(action="ignore"):
        for name, (model, rows) in models.items():
            key = {"svmmap__qid": qid} if hasattr(model, "steps") else {"qid": qid}
            model.fit(rows, y, **key)
            text = None if name == "query-zscore" else export_model(model, "json")
            made[name] = model, text
    return made


@pytest.fixture(scope="module")
def models():
    return fitted()


def containers(rng, words):
    """Return a random matrix of 8 rows in a random container, and the numbers in it; None where columns or values are
    not those of the model."""
    X = np.round(rng.normal(size=(N, 3)), 1)
    names, kind = list(NAMES), rng.choice(["frame", "frame", "frame", "array", "sparse", "other"])
    exact = True
    if kind == "sparse":
        X[rng.random(X.shape) < 0.3] = 0.0
        form = rng.choice(["csr_matrix", "csc_matrix", "coo_array", "csr_array"])
        return getattr(sparse, form)(X), X
    if kind == "array":
        if rng.random() < 0.2:
            X, exact = X[:, : int(rng.integers(0, 3))], False
        if X.size and rng.random() < 0.3:
            X[rng.integers(N), 0], exact = rng.choice([np.nan, np.inf, 1e200]), False
        how = rng.choice(["list", "single", "fortran", "object", "masked", "array", "flat"])
        if how == "single":
            X = X.astype(np.float32).astype(np.float64)
            return X.astype(np.float32), X if exact else None
        made = {
            "list": X.tolist(),
            "fortran": np.asfortranarray(X),
            "object": X.astype(object),
            "masked": np.ma.array(X, mask=rng.random(X.shape) < rng.choice([0.0, 0.3])),
            "array": X,
            "flat": X.ravel(),
        }[how]
        exact &= how not in ("flat", "masked")
        return made, X if exact else None
    if kind == "other":
        frame = pl.DataFrame(X, schema=names)
        odd = [
            frame.lazy(),
            np.rec.fromarrays(X.T, names=names),
            frame.with_columns((pl.col("age") * 10).cast(pl.Int128)),
            "rows.csv",
            pd.DataFrame(X, columns=names).assign(age=pd.Timestamp("2024-01-01")),
            pd.DataFrame(X[:0], columns=names),
        ]
        return odd[rng.integers(len(odd))], None
    frame = pd.DataFrame(X, columns=names)
    if words and rng.random() < 0.8:
        code = rng.integers(0, 3, N)
        categories = WORDS[rng.permutation(3)] if rng.random() < 0.5 else [*WORDS, "washer"]
        frame["age"] = pd.Categorical(WORDS[code], categories)
        X[:, 2] = np.argsort(np.argsort(WORDS))[code]
    else:
        exact = not words  # numbers are unknown categories of a frame
    for change in rng.choice(
        [
            "permuted",
            "surplus",
            "missing",
            "qid",
            "twice",
            "numbers",
            "nullable",
            "NA",
            "text",
            "whole",
            "index",
        ],
        size=rng.integers(0, 3),
        replace=False,
    ):
        if change == "permuted":
            frame = frame[list(rng.permutation(frame.columns))]
            exact &= list(frame.columns.drop("qid", errors="ignore")) == names
        elif change == "surplus":
            frame, exact = frame.assign(extra=1.0), False
        elif change == "missing":
            frame, exact = frame.drop(columns=frame.columns[rng.integers(3)]), False
        elif change == "qid":
            frame.insert(int(rng.integers(frame.shape[1] + 1)), "qid", 0)
        elif change == "twice":
            frame, exact = pd.concat([frame, frame.iloc[:, :1]], axis=1), False
        elif change == "numbers":
            frame.columns = range(frame.shape[1])
            exact = False
        elif change in ("nullable", "NA"):
            name = frame.columns[0]
            if frame[name].dtype == "float64" if frame.columns.is_unique else False:
                frame[name] = (frame[name] * 10).round().astype("Int64")
                exact = False
                if change == "NA":
                    frame.loc[frame.index[2], name] = pd.NA
        elif change == "text":
            frame, exact = frame.assign(**{str(frame.columns[0]): ["a"] * N}), False
        elif change == "whole" and not words:
            frame, X = frame.assign(age=np.arange(N)), np.column_stack([X[:, :2], np.arange(N)])
            exact = False
        else:
            frame.index = pd.Index(rng.permutation(N) + 5)
    plain = frame.columns.is_unique and all(isinstance(name, str) for name in frame.columns)
    how = rng.choice(["pandas", "polars", "arrow"]) if plain else "pandas"
    made = (
        frame
        if how == "pandas"
        else pl.from_pandas(frame)
        if how == "polars"
        else pa.Table.from_pandas(frame, preserve_index=False)
    )
    return made, X if exact else None


def outcome(call):
    """Return the result, or the text of the error."""
    try:
        return call()
    except (ValueError, TypeError) as error:
        return f"{type(error).__name__}: {error}"


def check(name, model, content, X, numbers, a, b):
    """Assert that all functions agree with ``predict`` about one container of rows."""
    pipeline = hasattr(model, "steps")
    # scikit-learn's steps read the data under a mask, and some 128-bit integers
    if pipeline and (isinstance(X, np.ma.MaskedArray) or pl.Int128 in list(getattr(X, "dtypes", ()))):
        return False
    zeros = np.zeros(N, dtype=int)
    scores = outcome(lambda: model.predict(X) if pipeline else model.predict(X, qid=zeros))
    results = {
        "score_difference": outcome(lambda: sum(v for _, v in score_difference(model, X, a, b))),
        "importance": outcome(
            lambda: permutation_importance(model, X, Y, qid=zeros, n_repeats=1, measure="roc").baseline
        ),
    }
    if not pipeline:
        results["rank"] = outcome(lambda: model.rank(X, qid=zeros))
        results["score"] = outcome(lambda: model.score(X, Y, qid=zeros))
    if content is not None:
        results["check_export"] = outcome(lambda: check_export(content, model, "json", X).difference)
    if isinstance(scores, str):
        for door, result in results.items():
            if (
                pipeline
                and door == "importance"
                and "qid" in getattr(X, "column_names", getattr(X, "columns", ()))
            ):
                continue  # the query ids, which the steps do not see
            assert isinstance(result, str), (door, result, scores)
            if not pipeline and door != "importance":  # a pipeline refuses in the words of its steps
                assert result.replace(", query 0", "") == scores.replace(", query 0", ""), (
                    door,
                    result,
                    scores,
                )
        return False
    refused = {door: result for door, result in results.items() if isinstance(result, str)}
    assert not refused, refused
    scale = np.abs(scores).max() + 1e-9
    assert results["score_difference"] == pytest.approx(scores[a] - scores[b], abs=1e-6 * scale)
    assert results["importance"] == evaluate("roc", Y, scores, qid=0).mean
    # NaN: the format lacks the values that a pipeline imputes
    assert not results.get("check_export", 0.0) >= 1e-5
    if not pipeline:
        assert results["rank"].tolist() == (1 + np.argsort(np.argsort(-scores, kind="stable"))).tolist()
        assert results["score"] == evaluate("map", Y, scores, qid=0, ties="average").mean
    if numbers is not None:
        base = (
            model.predict(pd.DataFrame(numbers, columns=NAMES))
            if pipeline
            else model.predict(numbers, qid=zeros)
        )
        assert scores == pytest.approx(base, abs=1e-6 * scale)
    return True


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n", [80, pytest.param(10_000, marks=LAW)])
def test_all_functions_take_the_same_rows(models, n):
    accepted = 0
    for seed in range(n):
        rng = np.random.default_rng(seed)
        name = list(models)[seed % len(models)]
        X, numbers = containers(rng, name == "categories")
        a, b = rng.choice(N, 2, replace=False).tolist()
        accepted += check(name, *models[name], X, numbers, a, b)
    assert n / 4 < accepted < 3 * n / 4


@pytest.mark.parametrize("row", [N, -1, 1.5, "a"])
def test_rows_are_given_by_index(models, row):
    model, _ = models["array"]
    rejected(
        rf"^b={row!r}: expected an integer from 0 to 7", score_difference, model, np.zeros((N, 3)), 0, row
    )


def test_ids_of_one_column_of_a_frame_are_ids():
    X, y, qid = training()
    frame = pd.DataFrame({"qid": qid})
    expected = SVMMap().fit(X, y, qid=qid)
    for ids in (frame, pl.from_pandas(frame), qid[:, None]):
        model = SVMMap().fit(X, y, qid=ids)
        assert np.array_equal(model.coef_, expected.coef_)
        assert model.score(X, y, qid=ids) == expected.score(X, y, qid=qid)
        assert evaluate("map", y, X[:, 0], qid=ids).mean == evaluate("map", y, X[:, 0], qid=qid).mean


def test_objects_of_other_kinds_are_named():
    X, y, qid = training()
    rejected(
        "metric=.*got a scorer of scikit-learn; pass the name",
        StructuralRankerCV(scoring=make_scorer("map")).fit,
        X,
        y,
        qid=qid,
    )
    runs = {"bm25": {"q": {"d": 1.0}}, "vectors": {"q": {"d": 2.0}}}
    error = rejected(
        "expected a Run for 'bm25', got dict", hybrid_weights, runs, runs["bm25"], to="opensearch-hybrid"
    )
    assert isinstance(error, BadInput)
