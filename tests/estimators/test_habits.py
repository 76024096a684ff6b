"""Calls that are usual in other packages raise errors that say what to do."""

import logging
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.tree import DecisionTreeRegressor

from structsvm import (
    AccuracySVM,
    CandidateSet,
    CoRegularizedSGD,
    FeatureScaleWarning,
    LambdaRank,
    OrdinalSVM,
    PairwiseSGD,
    PairwiseSVM,
    StructuralRanker,
    SVMDiv,
    SVMMap,
    TreeRanker,
)
from structsvm.cli.studies.folds.methods import check_method
from structsvm.common.checks import BadInput
from structsvm.common.names import plain_name
from structsvm.estimators import cross_validate_C
from structsvm.estimators.choosing_C import say_edge, select_C
from structsvm.features.leaves import LeafFeatures
from structsvm.metrics import evaluate
from structsvm.oracles import LOSSES
from structsvm.oracles.pairs import Pairs
from structsvm.oracles.weighted import WeightedLogRank, WeightedPairs
from structsvm.trainers import RankingProblem, train
from tests.refusing import called, refusals, refused

# small and random data, in which there is next to nothing to learn
pytestmark = [pytest.mark.filterwarnings("ignore::structsvm.trainers.NothingLearnedWarning")]

X, y, TWO = np.random.default_rng(0).normal(size=(12, 2)), [1, 0, 0, 1, 0, 0] * 2, np.array([0, 2])
qid = QID = np.repeat([3, 4], 6)


def fitting(model, y=y, qid=QID, X=X, **given):
    return lambda: model.fit(X, np.resize(y, len(X)) if len(X) > 12 else y, qid=qid, **given)


test_what_is_meant_is_said = refusals(
    called,
    (
        fitting(SVMMap(), group=[6, 6]),
        r"group: .* instead of group sizes, got 2 numbers; pass qid=.*np\.repeat",
    ),
    (
        fitting(PairwiseSVM(), qid=[6, 6]),
        "expected 12 ids, .* got 2; their sum is the number of rows, as for group",
    ),
    (fitting(LambdaRank(), qid=[6, 7]), "qid: expected 12 ids, .* got 2$"),
    (fitting(SVMMap(), sample_weight=[1.0, 2.0]), "sample_weight: .* per row, .*, got one per query"),
    (fitting(SVMMap(), "lab"), "y: expected one label per row, got 'lab'; pass the column"),
    (lambda: StructuralRanker("ndgc@10").check_options(), r"did you mean 'ndcg@10'\?"),
    (lambda: StructuralRanker("lambdamart").check_options(), "TreeRanker grows trees by its gradients"),
    (lambda: evaluate("ndgc@10", y, X[:, 0], qid=QID), r"did you mean 'ndcg@10'\?"),
    (lambda: StructuralRanker("ndcg@").check_options(), r"did you mean 'ndcg@10'\?"),
    (lambda: evaluate("roc@5", y, X[:, 0], qid=QID), r"did you mean 'roc'\?"),
    (lambda: evaluate("ndcg10", y, X[:, 0], qid=QID), r"did you mean 'ndcg@10'\?"),
    (lambda: evaluate("ndcg@10,map", y, X[:, 0], qid=QID), "as in 'ndcg@10'; give one cutoff per name$"),
    (lambda: evaluate(y, X[:, 0], "map", qid=QID), "; pass the measure first, then labels and scores$"),
    (lambda: evaluate("mpa", y, X[:, 0], qid=QID), r"did you mean 'map'\?"),
    (lambda: check_method("lightgmb"), r"did you mean 'lightgbm'\?"),
    (lambda: check_method("svm-ndgc"), r"did you mean 'ndcg'\?"),
    (lambda: check_method("ndgc@10"), r"did you mean 'ndcg@10'\?"),
    (
        fitting(LambdaRank(learning_rate=1e308)),
        "learning_rate: .* not finite after epoch [12]; lower learning_rate=",
    ),
    (
        fitting(CoRegularizedSGD(mu=1e308, n_steps=999)),
        "eta_0: the weights are not finite after step 999; choose",
    ),
    (lambda: AccuracySVM(C=-1).check_options(), "C=-1: expected"),
    (lambda: OrdinalSVM(C=-1).check_options(), "C=-1: expected"),
    (
        lambda: OrdinalSVM(solver="cvxpy", callback=print).check_options(),
        "callback: solver='cvxpy' reports no",
    ),
    (
        lambda: select_C(np.ones(2), np.array([[1.0, np.nan]])),
        "values: expected a number for each C and each query",
    ),
    (
        fitting(TreeRanker(), qid=0, X=np.zeros((10_001, 1))),
        "qid: expected at most 10000 rows per query, the limit",
    ),
    (
        lambda: LeafFeatures.from_model(
            DecisionTreeRegressor().fit(np.arange(65537.0)[:, None], np.arange(65537))
        ),
        "forest: expected trees of at most 65536 leaves, got 65537",
    ),
    (lambda: Pairs().bind([1, 0, 2], [0, 2]), r"offsets\[-1\]: expected 3, got 2; see QueryData.offsets"),
    (lambda: Pairs().bind([1, 0, np.nan], [0, 3]), r"y\[2\]: expected a finite number, got nan"),
    *(
        (lambda loss=loss, v=v: loss().bind([1, v], TWO), rf"y\[1\]: expected a finite weight >= 0, got {v}")
        for loss in (WeightedLogRank, WeightedPairs)
        for v in (-1.0, np.nan, np.inf)
    ),
    (
        lambda: WeightedPairs().bind([1, 1, 1], TWO),
        r"offsets\[-1\]: expected 3, got 2; see QueryData.offsets",
    ),
    (lambda: RankingProblem(X, TWO, Pairs().bind([1, 0], TWO)), r"offsets\[-1\]: expected 12, got 2"),
    (lambda: train(RankingProblem(X[:2], TWO, Pairs().bind([1, 0], TWO)), 1.0, tol=1.0), "tol=1.0: expected"),
    (
        lambda: cross_validate_C(SVMDiv(), [CandidateSet(["a", "b"])], [[[1], [0]]], [1.0]),
        "labels: expected at least 2 sets with a subtopic, got 1",
    ),
)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            fitting(TreeRanker(), categorical_feature=1),
            "'categorical_features' is a parameter of TreeRanker$",
        ),
        (
            fitting(TreeRanker(), callbacks=1),
            "TreeRanker.fit: no argument 'callbacks'; 'callback' is a parameter",
        ),
        (
            fitting(LambdaRank(), eval_set=1),
            "'eval_set'; expected one of X, y, qid, .*, validation, verbose$",
        ),
        (fitting(LambdaRank(), early_stopping_rounds=5), "'n_iter_no_change' is a parameter of LambdaRank$"),
        (fitting(SVMMap(), C=1), "SVMMap.fit: no argument 'C'; 'C' is a parameter of SVMMap$"),
        (
            lambda: PairwiseSGD().partial_fit(X, y, C=1),
            r"PairwiseSGD\.partial_fit: no argument 'C'; expected one",
        ),
        (lambda: PairwiseSGD().partial_fit(X, y, qid), r"PairwiseSGD\.partial_fit: expected 2 positional"),
        (fitting(SVMMap(), init_score=1), "'init_score'; expected one of X, y, qid, sample_weight, verbose$"),
        (lambda: SVMMap().fit(X, y, qid), "SVMMap.fit: expected 2 positional arguments, got 3; .* qid="),
        (lambda: TreeRanker(n_estimators=1), "no parameter 'n_estimators'; structsvm calls it 'n_trees'"),
        (lambda: TreeRanker(num_leaves=1), "structsvm calls it 'n_leaves'"),
        (lambda: SVMMap(lr=1), "SVMMap: no parameter 'lr'; expected one of C, tol, solver, .*, callback$"),
        (lambda: SVMMap(max_pases=1), "did you mean 'max_passes'"),
        (lambda: SVMMap(verbose=1), "SVMMap: no parameter 'verbose'; pass verbose to fit"),
    ],
)
def test_names_that_no_call_has(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(OSError, match="create its folder first"):
        SVMMap().fit(X, y, qid=QID).save(tmp_path / "none" / "model.npz")


@pytest.mark.parametrize(
    ("loss", "plain"),
    [("MAP", "map"), ("AP", "map"), ("NDCG@3", "ndcg@3"), ("rr@3", "mrr@3"), ("P_2", "precision@2")],
)
def test_losses_as_other_programs_spell_them(loss, plain):
    ours, theirs = (StructuralRanker(name).fit(X, y, qid=QID) for name in (plain, loss))
    assert theirs.loss == loss
    np.testing.assert_array_equal(ours.coef_, theirs.coef_)
    assert ours.score(X, y, qid=QID) == theirs.score(X, y, qid=QID)


def test_utilities_as_other_programs_spell_them():
    a, b = (LambdaRank(u, max_epochs=2, random_state=0).fit(X, y, qid=QID) for u in ("ndcg@3", "nDCG@3"))
    np.testing.assert_array_equal(a.coef_, b.coef_)
    assert a.score(X, y, qid=QID) == b.score(X, y, qid=QID)


def test_methods_in_any_case():
    assert [check_method(name) for name in ("MAP", "svm-NDCG@10", "SVM-RR")] == [
        "svm-map",
        "svm-ndcg@10",
        "svm-mrr",
    ]


@pytest.mark.parametrize("loss", [*(loss.replace("@k", "@3") for loss in LOSSES), "P_5", "AUC"])
def test_a_loss_by_itself_is_a_method(loss):
    """Every name of a loss that the estimators take."""
    StructuralRanker(loss).check_options()
    assert check_method(loss) == check_method(f"svm-{loss}") == f"svm-{plain_name(loss)}"


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_text_columns_are_named(frame):
    made = frame({"bm25": X[:, 0], "title": ["word"] * 12, "url": ["u"] * 12})
    refused(
        r"X: expected numbers, got text in the columns 'title', 'url', such as 'word'",
        SVMMap().fit,
        made,
        y,
        qid=qid,
    )


def test_numbers_kept_as_objects_are_no_text():
    made = pd.DataFrame({"a": X[:, 0].astype(object), "b": X[:, 1]})
    assert np.array_equal(SVMMap().fit(made, y, qid=qid).coef_, SVMMap().fit(X, y, qid=qid).coef_)


def test_text_in_predict():
    model = SVMMap().fit(pd.DataFrame(X, columns=["a", "b"]), y, qid=qid)
    refused("text in the column 'b'", model.predict, pd.DataFrame({"a": X[:, 0], "b": ["x"] * 12}))


@pytest.mark.parametrize("kind", ["dense", "float32", "sparse", "frame"])
def test_scale_is_warned_of_once_a_fit(kind):
    wide = X * [1.0, 1e-4]
    given = {
        "dense": wide,
        "float32": wide.astype(np.float32),
        "sparse": sparse.csr_matrix(wide),
        "frame": pd.DataFrame(wide, columns=["bm25", "age"]),
    }[kind]
    named = "'bm25' against 'age'" if kind == "frame" else "feature 1 against feature 2"
    with pytest.warns(FeatureScaleWarning, match=f"{named}.*scale='zscore'") as caught:
        SVMMap().fit(given, y, qid=qid)
    assert len(caught) == 1
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("scale", "factor"),
    [
        ("minmax", 1e-6),
        ("zscore", 1e-6),
        ("query-minmax", 1e-6),
        ("none", 1.0),
        ("none", 1 / 300),
        ("none", 0.0),
    ],
)
def test_scaled_similar_and_constant_features_are_not_warned_of(scale, factor):
    with warnings.catch_warnings(action="error"):
        SVMMap(scale=scale).fit(X * [1.0, factor], y, qid=qid)


@pytest.mark.parametrize(
    ("means", "chosen", "said"),
    [
        ([0.5, 0.6, 0.7], 10.0, "largest"),
        ([0.7, 0.6, 0.5], 0.1, "smallest"),
        ([0.5, 0.7, 0.6], 1.0, None),
        ([0.6, 0.6, 0.5], 0.1, None),
    ],
)
def test_the_end_of_the_grid_is_said(caplog, means, chosen, said):
    with caplog.at_level(logging.WARNING, "structsvm"):
        say_edge(np.array([0.1, 1.0, 10.0]), np.array(means), chosen)
    assert len(caplog.records) == (said is not None)
    if said:
        assert f"C = {chosen:g} is the {said} value tried" in caplog.text


def test_verbose_prints_and_leaves_the_callback(capsys):
    told = []
    model = SVMMap(C=10, callback=told.append).fit(X, y, qid=qid, verbose=True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(told) == len(model.fit_.history)
    assert lines[-1].startswith(f"n_passes {model.fit_.n_passes}, primal ")
    assert model.callback == told.append
    assert np.array_equal(model.coef_, SVMMap(C=10).fit(X, y, qid=qid).coef_)
    assert capsys.readouterr().out == ""


def test_verbose_of_a_fit_that_fails_leaves_the_callback():
    model = SVMMap()
    with pytest.raises(BadInput):
        model.fit(X, np.zeros(12), qid=qid, verbose=True)
    assert model.callback is None


@pytest.mark.parametrize("model", [TreeRanker(n_trees=2, min_rows=5), StructuralRanker("mrr")], ids=repr)
def test_nearly_all_documents_relevant_is_said(model):
    """If nearly all grades are 1 or more, a loss of relevant documents hardly depends on the order."""
    rng = np.random.default_rng(0)
    X, qid, y = rng.normal(size=(200, 3)), np.repeat(np.arange(20), 10), rng.integers(1, 6, 200)
    y[::10] = 0
    said = f"90 % of the documents have a label of at least 1 and are relevant, and the loss '{model.loss}'"
    with pytest.warns(UserWarning, match=said) as caught:
        model.fit(X, y, qid=qid)
    assert (
        len([one for one in caught if "their grades, 1 to 5; pass loss='ndcg@10'" in str(one.message)]) == 1
    )
    for other in ({"loss": "ndcg@10"}, {"relevance": 3}):
        model.set_params(**other).fit(X, y, qid=qid)
    # one grade: nothing to tell apart
    model.set_params(loss="map", relevance=1).fit(X, np.minimum(y, 1), qid=qid)
