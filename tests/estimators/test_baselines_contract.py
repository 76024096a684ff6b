"""The pairwise, accuracy and ordinal SVMs keep the contract of a ranker and that of scikit-learn."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from structsvm import persistence
from structsvm.estimators.accuracy import AccuracySVM
from structsvm.estimators.ordinal import OrdinalSVM
from structsvm.estimators.pairwise import PairwiseSVM
from structsvm.testing import check_ranker

WEIGHTS = (
    "rows without qid are one query, whose weight is the mean of its rows and is normalised away: weighting a row "
    "is not repeating a document"
)
GRADES = "labels 1 and 2 are both relevant: nothing to tell apart"
WITHIN_QUERY = "scaled within the query: a part of the rows is another query"

LABELS_1_AND_2 = {
    "check_estimators_dtypes",
    "check_fit2d_1feature",
    "check_sample_weights_not_an_array",
    "check_sample_weights_not_overwritten",
    "check_sample_weights_pandas_series",
    "check_sample_weights_shape",
}


@pytest.mark.parametrize(
    ("estimator", "shift_invariant"),
    [
        (PairwiseSVM(), True),
        (PairwiseSVM("squared_hinge"), True),
        (PairwiseSVM("squared_hinge", normalize="query", scale="query-zscore"), True),
        (AccuracySVM(), False),
        (AccuracySVM("acc"), False),
        (AccuracySVM("acc3"), True),
        (AccuracySVM("acc4"), True),
        (OrdinalSVM(), False),
        (OrdinalSVM(decompose=True), False),
    ],
    ids=repr,
)
def test_is_a_ranker(estimator, shift_invariant, monkeypatch):
    cls = type(estimator)
    monkeypatch.setitem(persistence._CLASSES, cls.__name__, cls.__module__)
    check_ranker(estimator, shift_invariant=shift_invariant)


def expected_failures(estimator):
    expected = dict.fromkeys(
        (
            "check_sample_weight_equivalence_on_dense_data",
            "check_sample_weight_equivalence_on_sparse_data",
        ),
        WEIGHTS,
    )
    if isinstance(estimator, AccuracySVM):
        expected |= dict.fromkeys(LABELS_1_AND_2, GRADES)
        if estimator.variant in ("acc3", "acc4"):
            expected["check_methods_subset_invariance"] = WITHIN_QUERY
    return expected


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::structsvm.trainers.fit.ConvergenceWarning")
@parametrize_with_checks(
    [PairwiseSVM(), PairwiseSVM("squared_hinge"), AccuracySVM(), AccuracySVM("acc4"), OrdinalSVM()],
    expected_failed_checks=expected_failures,
)
def test_contract(estimator, check):
    check(estimator)
