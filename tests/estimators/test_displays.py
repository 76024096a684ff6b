"""Every ranker, trained on an array or a frame, has its texts, its notebook view and its figures."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

import structsvm
from structsvm import AccuracySVM, ClickSVM, CoRegularizedSGD, LambdaRank, OrdinalSVM, PairwiseSGD, TreeRanker
from structsvm.checks import BadInput
from structsvm.clicks import ClickCells, ClickSVMCV, evaluate_from_clicks
from structsvm.readers import make_ranking

plt = pytest.importorskip("matplotlib.pyplot")
plt.switch_backend("agg")

# small and random data, in which there is next to nothing to learn
pytestmark = [
    pytest.mark.filterwarnings("ignore::structsvm.trainers.NothingLearnedWarning"),
    pytest.mark.filterwarnings("ignore:AccuracySVM:UserWarning"),
]

DATA = make_ranking(20, 12, 4, grades=3, random_state=0)
NAMES = ["price", "bm25", "<b>length", "age"]
INPUTS = {
    "array": DATA.X,
    "pandas": pd.DataFrame(DATA.X, columns=NAMES),
    "polars": pl.DataFrame(dict(zip(NAMES, DATA.X.T, strict=True))),
}
TREES = {"n_leaves": 3, "min_rows": 2, "n_bins": 4, "random_state": 0}
WITHOUT_GAP = (AccuracySVM, PairwiseSGD, CoRegularizedSGD, LambdaRank)
RANKERS = [
    structsvm.SVMMap(),
    structsvm.StructuralRankerCV(Cs=[0.1, 1.0], cv=2),
    structsvm.PairwiseSVM("squared_hinge"),
    OrdinalSVM(),
    OrdinalSVM(decompose=True),
    AccuracySVM(),
    PairwiseSGD(n_steps=100, random_state=0),
    CoRegularizedSGD(n_steps=100, random_state=0),
    LambdaRank(max_epochs=2, random_state=0),
    LambdaRank(hidden=(3,), max_epochs=2, random_state=0),
    TreeRanker(n_trees=3, **TREES),
    structsvm.TreeRankerCV(Cs=[0.1, 1.0], n_trees=[2, 3], cv=2, **TREES),
    ClickSVM(),
    ClickSVMCV([0.1, 1.0], cv=2),
]


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("ranker", RANKERS, ids=repr)
def test_texts_and_figures(ranker, kind):
    model = clone(ranker).fit(INPUTS[kind], DATA.y, qid=DATA.qid)
    assert repr(model) == repr(ranker)
    page = model._repr_html_()
    assert "<b>length" not in page
    assert model._repr_mimebundle_()["text/html"]
    if hasattr(model, "coef_"):
        labels = [label.get_text() for label in structsvm.plots.weights(model, top=4).get_yticklabels()]
        named = NAMES if kind != "array" else [f"feature {j}" for j in range(1, 5)]
        if isinstance(model, TreeRanker):
            named = model.leaves_.get_feature_names_out(named).tolist()
        assert set(labels) <= set(named)
        assert "<figcaption>" in page
    else:
        with pytest.raises(BadInput, match="coef: expected a fitted model with weights, got LambdaRank"):
            structsvm.plots.weights(model)
    if isinstance(model, WITHOUT_GAP):
        with pytest.raises(BadInput, match="fits: expected a model with a duality gap, got"):
            structsvm.plots.gap(model)
    else:
        n_machines = len(getattr(model, "fits_", [0]))
        assert len(structsvm.plots.gap(model).lines) == n_machines
    if hasattr(model, "Cs_"):
        ax = structsvm.plots.against_C(model)
        assert ax.lines[0].get_xdata().tolist() == [0.1, 1.0]
        assert np.isfinite(ax.lines[0].get_ydata()).all()
    plt.close("all")


def test_texts_of_results():
    cells = ClickCells.from_arrays([7] * 4, [1, 2, 1, 2], [1, 2, 1, 2], [0, 1, 0, 0], session=[1, 1, 2, 2])
    found = evaluate_from_clicks(cells, [7, 7], [1, 2], [0.0, 1.0], propensities=[1.0, 0.5])
    assert repr(found.dcg) == f"1 [{found.dcg.lower:.4g}, {found.dcg.upper:.4g}]"
    assert repr(found).startswith("CounterfactualEstimate(DCG@10 1 [")
    assert repr(found).endswith("2 lists, 0% not in the log)")
