"""scikit-learn's checks of estimators, with a reason for each check that cannot hold."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks
from sklearn.utils.validation import _num_samples

import structsvm
from structsvm.features import LeafFeatures

# small and random data, in which there is next to nothing to learn
pytestmark = [pytest.mark.filterwarnings("ignore::structsvm.trainers.NothingLearnedWarning")]

WEIGHTS = (
    "rows without qid are one query, whose weight is the mean of its rows and is normalised away: weighting a row "
    "is not repeating a document (weighting a query is repeating the query: see test_structural.py)"
)
GRADES = "labels 1 and 2 are both relevant: no constraint for a binary loss (run below with relevance=2)"
GROWTH = "trees count rows, not their weights, for the smallest leaf and the edges of its histogram"
WITHIN_QUERY = "scaled within the query: a part of the rows is another query"

LABELS_1_AND_2 = {
    "check_estimators_dtypes",
    "check_fit2d_1feature",
    "check_sample_weights_not_an_array",
    "check_sample_weights_not_overwritten",
    "check_sample_weights_pandas_series",
    "check_sample_weights_shape",
}


def deal(X):
    """Return a query id for each row, shuffled because the labels of the checks have regular patterns."""
    return np.random.default_rng(0).permutation(_num_samples(X)) % 3


class CVOfThreeQueries(structsvm.StructuralRankerCV):
    """Assign the rows of a check to three queries."""

    def fit(self, X, y, *, qid=None, sample_weight=None):
        if qid is None:
            qid = deal(X)
        return super().fit(X, y, qid=qid, sample_weight=sample_weight)

    def score(self, X, y, *, qid=None, sample_weight=None):
        qid = deal(X) if qid is None else qid
        return super().score(X, y, qid=qid, sample_weight=sample_weight)


def expected_failures(estimator):
    expected = {}
    if isinstance(estimator, structsvm.TreeRanker | LeafFeatures):
        expected["check_sample_weight_equivalence_on_dense_data"] = GROWTH
    elif not isinstance(estimator, structsvm.QueryScaler):
        expected["check_sample_weight_equivalence_on_dense_data"] = WEIGHTS
        expected["check_sample_weight_equivalence_on_sparse_data"] = WEIGHTS
    if isinstance(estimator, structsvm.AccuracySVM) or type(estimator) is structsvm.StructuralRanker:
        expected |= dict.fromkeys(LABELS_1_AND_2, GRADES)
    if isinstance(estimator, structsvm.AccuracySVM | structsvm.QueryScaler):
        expected["check_methods_subset_invariance"] = WITHIN_QUERY
    return expected


# the checks know of no queries: they call fit and score without qid, which is what is warned of
@pytest.mark.filterwarnings("ignore::structsvm.SingleQueryWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::structsvm.trainers.certificate.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:AccuracySVM:UserWarning")
@parametrize_with_checks(
    [
        structsvm.StructuralRanker(),
        CVOfThreeQueries("ndcg@10", Cs=[0.1, 1.0], cv=2),
        structsvm.PairwiseSVM(),
        structsvm.AccuracySVM("acc4"),
        structsvm.OrdinalSVM(),
        structsvm.PairwiseSGD(n_steps=1000, random_state=0),
        structsvm.CoRegularizedSGD(n_steps=1000, random_state=0),
        structsvm.LambdaRank(hidden=(4,), max_epochs=5, random_state=0),
        structsvm.TreeRanker("ndcg@10", n_trees=3, n_leaves=4, n_bins=8),
        LeafFeatures(3, 4, n_bins=8, relevance=None),
        structsvm.QueryScaler(),
    ],
    expected_failed_checks=expected_failures,
    xfail_strict=True,
)
def test_contract(estimator, check):
    check(estimator)


OF_PARAMETERS = {
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
}


@pytest.mark.parametrize("estimator", [structsvm.SVMMap(), structsvm.SVMRoc(), structsvm.SVMNDCG()], ids=repr)
def test_classes_that_only_fix_the_loss(estimator):
    """These classes fit like StructuralRanker, so that only checks of parameters are run."""
    checks = [c for _, c in estimator_checks_generator(estimator) if name_of(c) in OF_PARAMETERS]
    assert len(checks) > 3
    for check in checks:
        check(estimator)


def name_of(check):
    return getattr(check, "func", check).__name__


# the checks know of no queries: they call fit and score without qid, which is what is warned of
@pytest.mark.filterwarnings("ignore::structsvm.SingleQueryWarning")
@pytest.mark.parametrize(
    "estimator", [structsvm.SVMMap(relevance=2), structsvm.AccuracySVM(relevance=2)], ids=repr
)
def test_binary_losses_where_label_2_is_relevant(estimator):
    checks = {name_of(c): c for _, c in estimator_checks_generator(estimator) if name_of(c) in LABELS_1_AND_2}
    assert checks.keys() == LABELS_1_AND_2
    for check in checks.values():
        check(estimator)
