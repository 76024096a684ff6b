"""Every ranker of the package passes the common check, each in several of its forms."""

import dataclasses

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn.base

import structsvm
from structsvm import (
    SVMNDCG,
    AccuracySVM,
    ClickSVM,
    CoRegularizedSGD,
    LambdaRank,
    OrdinalSVM,
    PairwiseSGD,
    PairwiseSVM,
    StructuralRanker,
    StructuralRankerCV,
    SVMMap,
    SVMRoc,
    TreeRanker,
    TreeRankerCV,
)
from structsvm.clicks import ClickCells, ClickSVMCV, evaluate_from_clicks
from structsvm.features import LeafFeatures
from structsvm.online import rank_queries
from structsvm.oracles import get_oracle
from structsvm.readers.synthetic import make_ranking
from structsvm.testing import check_ranker
from tests.refusing import refused, rejected

plt = pytest.importorskip("matplotlib.pyplot")
plt.switch_backend("agg")

# what theory does not promise: a threshold or a scaling over all documents sees a shift of a query, and a net does too
POINTWISE = {"shift_invariant": False}
# stochastic descent draws pairs by row number: another order is another sample of the same problem
SAMPLED = {"tolerance": 0.1}

# trees split at values, and LambdaRank's gradients begin with the documents in the order they stand
GROWN = {"shift_invariant": False, "order_invariant": False, "tolerance": 0.2}

RANKERS = [
    (SVMMap(), {}),
    (SVMRoc(C=10), {}),
    (SVMNDCG(k=5), {}),
    (StructuralRanker("mrr"), {}),
    (StructuralRanker("pairs", tol=1e-6), {}),
    (StructuralRanker("precision@3"), {}),
    (StructuralRanker(get_oracle("ndcg@3")), {}),
    (StructuralRanker(positive=True), {}),
    (StructuralRanker(scale="query-minmax"), {}),
    (StructuralRanker(scale="zscore"), POINTWISE),
    # far apart and solved closely: rounding must not decide which C wins
    (StructuralRankerCV(Cs=[1e-3, 10], cv=3, tol=1e-6), {}),
    (PairwiseSVM(), {}),
    (PairwiseSVM("squared_hinge", normalize="query", scale="query-zscore"), {}),
    (ClickSVM(), {}),
    (ClickSVM(loss="dcg@5"), {}),
    (AccuracySVM(), POINTWISE),
    (AccuracySVM("acc3"), {}),
    (OrdinalSVM(), POINTWISE),
    (OrdinalSVM(decompose=True), POINTWISE),
    (PairwiseSGD(n_steps=20_000, random_state=0), SAMPLED),
    (
        PairwiseSGD("squared", normalize="query", scale="query-minmax", n_steps=20_000, random_state=0),
        SAMPLED,
    ),
    (CoRegularizedSGD(n_steps=20_000, random_state=0), SAMPLED),
    (
        CoRegularizedSGD(
            [[0, 1], [2], [1, 3]], k=2, l=1, mu=0.01, loss="squared", n_steps=20_000, random_state=0
        ),
        SAMPLED,
    ),
    (TreeRanker(n_trees=6, n_leaves=5, n_bins=12, random_state=0), GROWN),
    (TreeRanker("ndcg@5", n_trees=6, n_leaves=70, n_bins=0, random_state=0), GROWN),
    (TreeRankerCV(Cs=[1e-3, 10], n_trees=[2, 5], cv=3, random_state=0), GROWN),
    (LambdaRank(scale="none", random_state=0), {}),
    (LambdaRank(scale="minmax", hidden=(6,), learning_rate=0.02, max_epochs=20, random_state=0), POINTWISE),
    (LambdaRank("ranknet", hidden=(8, 4), learning_rate=0.02, max_epochs=30, random_state=0), POINTWISE),
]


EACH = [*{type(one): one for one, _ in RANKERS}.values()]
WITHOUT_LABELS = [*(estimator for estimator, _ in RANKERS), ClickSVMCV(Cs=[1.0]), LeafFeatures()]


class Nonsense:
    """A value that no parameter accepts."""

    def __repr__(self):
        return "nonsense"


# called with what is found, passed on to NumPy, or read only where there are trees or a log of clicks
UNCHECKED = {
    "random_state",
    "scoring",
    "categorical_features",
    "leaves",
    "clip",
    "propensities",
    "weighting",
}


@pytest.mark.parametrize("estimator", EACH, ids=repr)
def test_every_parameter_refuses_nonsense_by_name(estimator):
    data = make_ranking(8, 5, 3, random_state=0)
    for name in estimator.get_params().keys() - UNCHECKED:
        model = sklearn.base.clone(estimator).set_params(**{name: Nonsense()})
        with pytest.raises((ValueError, TypeError), match=rf"\b{name}\b"):
            model.fit(data.X, data.y, qid=data.qid)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        *((StructuralRanker(C=C), "C=.*: expected a finite number > 0") for C in ("1", True)),
        (StructuralRanker(positive=1), "positive=1: expected True or False"),
        (PairwiseSVM(solver="newton"), "solver='newton'.*'hinge'"),
        (PairwiseSVM("squared_hinge", solver="one_slack"), "solver='one_slack'.*'newton'"),
        (OrdinalSVM(solver="newton"), "solver='newton'"),
        (PairwiseSGD(eta_0=0.0), "eta_0=0.0: expected a finite number > 0"),
        (PairwiseSGD(n_steps=0), "n_steps=0: expected an integer >= 1"),
        (PairwiseSGD(n_steps=1.5), "n_steps=1.5"),
        (PairwiseSGD(validation_fraction=1.0), "validation_fraction=1.0"),
        (PairwiseSGD(n_iter_no_change=0), "n_iter_no_change=0"),
        (PairwiseSGD(measure="mpa"), "measure='mpa': expected one of .*map,"),
        (PairwiseSGD(early_stopping="auto"), "early_stopping='auto': expected True or False"),
        (LambdaRank("roc"), "utility='roc'"),
        (LambdaRank("ndcg@1２"), "utility='ndcg@1２': expected"),
        (LambdaRank("map", relevance=9), "y: no query carries a constraint for utility='map'"),
        *((LambdaRank(hidden=widths), "hidden=") for widths in ((4, 4, 4), 4)),
        *((LambdaRank(hidden=(4, width)), rf"hidden\[1\]={width}: expected") for width in (0, True)),
        (LambdaRank(learning_rate=0), "learning_rate=0: expected a finite number > 0"),
        (LambdaRank(batch_size=0), "batch_size=0"),
        (LambdaRank(max_epochs=0), "max_epochs=0"),
        (TreeRanker(n_trees=0), "n_trees=0"),
        (TreeRanker(n_bins=300), "n_bins=300"),
        (TreeRanker(solver="newton"), "solver='newton'"),
        (TreeRanker(leaves="booster"), "leaves=.*from_model"),
        (TreeRanker(categorical_features=["f"]), "categorical_features: .*got 'f'"),
    ],
    ids=lambda v: repr(v) if hasattr(v, "fit") else "",
)
def test_bad_options_are_named(estimator, message):
    data = make_ranking(8, 5, 3, random_state=0)
    rejected(f"^{message}", estimator.fit, data.X, data.y, qid=data.qid)


@pytest.mark.parametrize("estimator", EACH, ids=repr)
def test_numbers_of_numpy_are_parameters_as_those_of_python(estimator):
    """Parameter searches sample NumPy numbers; a fit leaves them unchanged."""
    data = make_ranking(24, 10, 4, noise=0.3, random_state=0)
    plain = sklearn.base.clone(estimator).fit(data.X, data.y, qid=data.qid)
    drawn = {
        name: np.array(value)[()]
        for name, value in estimator.get_params(deep=False).items()
        if type(value) in (bool, int, float)
    }
    model = sklearn.base.clone(estimator).set_params(**drawn)
    before = model.get_params()
    model.fit(data.X, data.y, qid=data.qid)
    assert model.get_params() == before
    assert model.score(data.X, data.y, qid=data.qid) == plain.score(data.X, data.y, qid=data.qid)


@pytest.mark.parametrize("estimator", WITHOUT_LABELS, ids=repr)
def test_fits_without_labels_are_refused_by_name(estimator):
    data = make_ranking(4, 5, 3, random_state=0)
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        sklearn.base.clone(estimator).fit(data.X, None, qid=data.qid)


def test_rankings_without_labels_are_refused_by_name():
    data = dataclasses.replace(make_ranking(4, 5, 3, random_state=0), y=None)
    rejected(r"data\.y: expected a label for each row, got None; pass rows with labels", rank_queries, data)


@pytest.mark.parametrize(
    ("estimator", "options"), RANKERS, ids=lambda v: repr(v) if hasattr(v, "fit") else ""
)
def test_every_ranker_passes(estimator, options):
    check_ranker(estimator, **options)


def test_no_ranker_is_left_out():
    public = [getattr(structsvm, name) for name in structsvm.__all__]
    rankers = {
        c
        for c in public
        if isinstance(c, type) and issubclass(c, sklearn.base.BaseEstimator) and hasattr(c, "rank")
    }
    assert rankers == {type(estimator) for estimator, _ in RANKERS}
    # where there is no save, the check has nothing to say about it
    assert all(hasattr(c, "save") for c in rankers)


DATA = make_ranking(20, 12, 4, grades=3, random_state=0)
NAMES = ["price", "bm25", "<b>length", "age"]
INPUTS = {
    "array": DATA.X,
    "pandas": pd.DataFrame(DATA.X, columns=NAMES),
    "polars": pl.DataFrame(dict(zip(NAMES, DATA.X.T, strict=True))),
}
OTHER_FORMS = [OrdinalSVM(), LambdaRank(random_state=0), ClickSVMCV([0.1, 1.0], cv=2)]
WITHOUT_GAP = (AccuracySVM, PairwiseSGD, CoRegularizedSGD, LambdaRank)


@pytest.mark.filterwarnings("ignore:AccuracySVM:UserWarning")
@pytest.mark.filterwarnings("ignore::structsvm.trainers.NothingLearnedWarning")
@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("ranker", [*EACH, *OTHER_FORMS], ids=repr)
def test_texts_and_figures(ranker, kind):
    model = sklearn.base.clone(ranker).fit(INPUTS[kind], DATA.y, qid=DATA.qid)
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
        refused("coef: expected a fitted model with weights, got LambdaRank", structsvm.plots.weights, model)
    if isinstance(model, WITHOUT_GAP):
        refused("fits: expected a model with a duality gap, got", structsvm.plots.gap, model)
    else:
        n_machines = len(getattr(model, "fits_", [0]))
        assert len(structsvm.plots.gap(model).lines) == n_machines
    if hasattr(model, "Cs_"):
        ax = structsvm.plots.against_C(model)
        assert ax.lines[0].get_xdata().tolist() == model.Cs_.tolist()
        assert np.isfinite(ax.lines[0].get_ydata()).all()
    plt.close("all")


def test_texts_of_results():
    cells = ClickCells.from_arrays([7] * 4, [1, 2, 1, 2], [1, 2, 1, 2], [0, 1, 0, 0], session=[1, 1, 2, 2])
    found = evaluate_from_clicks(cells, [7, 7], [1, 2], [0.0, 1.0], propensities=[1.0, 0.5])
    assert repr(found.dcg) == f"1 [{found.dcg.lower:.4g}, {found.dcg.upper:.4g}]"
    assert repr(found).startswith("CounterfactualEstimate(DCG@10 1 [")
    assert repr(found).endswith("2 lists, 0% not in the log)")
