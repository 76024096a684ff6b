"""Pipelines of affine steps: their exports against their own scores, and what is refused by name."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
)

from structsvm import SVMMap
from structsvm.export import export_model, linear_form
from tests.refusing import rejected

RNG = np.random.default_rng(0)
NAMES = ["price", "age", "stock"]
X = pd.DataFrame(RNG.normal(size=(200, 3)) * [1, 30, 0.1] + [1e4, 3, 0], columns=NAMES)
QID = np.repeat(np.arange(20), 10)
Y = (X["price"] - 1e4 + RNG.normal(size=200) > 1).astype(int)
HOLES = X.mask(RNG.random(X.shape) < 0.1)


def fitted(*steps, data=X, **options):
    return make_pipeline(*steps, SVMMap(C=1, **options)).fit(data, Y, svmmap__qid=QID)


@pytest.mark.parametrize(
    "steps",
    [
        [StandardScaler()],
        [MinMaxScaler(), "passthrough", MaxAbsScaler()],
        [RobustScaler(), PCA(2)],
        [make_column_transformer((StandardScaler(), ["age"]), remainder="passthrough"), MinMaxScaler()],
        [FunctionTransformer(lambda rows: 3 * rows + 1)],
    ],
    ids=["zscore", "ranges", "projection", "columns", "function"],
)
@pytest.mark.parametrize("of", ["frame", "array"])
def test_affine_steps_are_part_of_the_form(steps, of):
    data = X if of == "frame" else X.to_numpy()
    if of == "array" and "ColumnTransformer" in str(steps):
        steps = [make_column_transformer((StandardScaler(), [1]), remainder="passthrough"), MinMaxScaler()]
    model = fitted(*steps, data=data, scale="zscore")
    form = linear_form(model)
    assert form.names == (tuple(NAMES) if of == "frame" else ("feature_1", "feature_2", "feature_3"))
    assert form.missing is None
    scores = model.predict(data)
    mixed = any(name in str(steps) for name in ("PCA", "ColumnTransformer"))
    assert form.method == ("none" if mixed else "zscore")  # one feature's figures go out as they are
    np.testing.assert_allclose(X.to_numpy() @ form.raw_weights + form.raw_intercept, scores, atol=1e-7)


def test_missing_values_count_as_the_imputer_says():
    model = fitted(SimpleImputer(strategy="median"), StandardScaler(), data=HOLES)
    form = linear_form(model)
    np.testing.assert_allclose(form.missing, HOLES.median(), rtol=1e-9)
    own = json.loads(export_model(model, "json", check=HOLES))
    assert [entry["missing"] for entry in own["features"]] == pytest.approx(HOLES.median().tolist())
    with (
        pytest.warns(UserWarning, match=r"opensearch cannot represent missing values: .* return price 9999"),
        pytest.warns(UserWarning, match="price: values are large relative to their differences"),
    ):
        weights = json.loads(export_model(model, "opensearch"))["model"]["model"]["definition"]
    assert list(json.loads(weights)) == NAMES
    session = pytest.importorskip("onnxruntime").InferenceSession(export_model(model, "onnx"))
    [scores] = session.run(None, {"features": HOLES.to_numpy()})
    np.testing.assert_allclose(scores, model.predict(HOLES), atol=1e-8)


@pytest.mark.parametrize(
    ("step", "name"),
    [
        (PowerTransformer(), "powertransformer"),
        (MinMaxScaler(clip=True), "minmaxscaler"),
        (FunctionTransformer(np.abs), "functiontransformer"),
        (SimpleImputer(add_indicator=True), "simpleimputer"),
    ],
)
def test_other_steps_are_refused_by_name(step, name):
    rejected(
        f"pipeline step '{name}': expected",
        linear_form,
        fitted(step, data=HOLES if name == "simpleimputer" else X),
    )


def test_scaling_within_queries_is_refused():
    with pytest.raises(ValueError, match="same for all queries at the end of a pipeline"):
        linear_form(fitted(StandardScaler(), scale="query-minmax"))
