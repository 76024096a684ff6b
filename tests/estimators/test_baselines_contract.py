"""The pairwise, accuracy and ordinal SVMs keep the contract of scikit-learn."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from structsvm.estimators.accuracy import AccuracySVM
from structsvm.estimators.ordinal import OrdinalSVM
from structsvm.estimators.pairwise import PairwiseSVM

# small and random data, in which there is next to nothing to learn
pytestmark = [
    pytest.mark.filterwarnings("ignore::structsvm.trainers.NothingLearnedWarning"),
    pytest.mark.filterwarnings("ignore:AccuracySVM:UserWarning"),
]

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


# the checks know of no queries: they call fit and score without qid, which is what is warned of
@pytest.mark.filterwarnings("ignore::structsvm.SingleQueryWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::structsvm.trainers.certificate.ConvergenceWarning")
@parametrize_with_checks(
    [PairwiseSVM(), AccuracySVM("acc4"), OrdinalSVM()],
    expected_failed_checks=expected_failures,
)
def test_contract(estimator, check):
    check(estimator)
