"""What scikit-learn asks of an estimator, with a reason for each check that cannot hold."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from structsvm import SVMNDCG, StructuralRanker, StructuralRankerCV, SVMMap, SVMRoc
from structsvm.features.scaling import QueryScaler

ONE_QUERY = "the check passes no qid, and one query cannot be split into folds"


def expected_failures(estimator):
    return {}


@pytest.mark.filterwarnings("ignore::structsvm.trainers.fit.ConvergenceWarning")
@parametrize_with_checks(
    [StructuralRanker(), SVMMap(), SVMRoc(), SVMNDCG(), QueryScaler(), QueryScaler("zscore", within="data")],
    expected_failed_checks=expected_failures,
)
def test_contract(estimator, check):
    check(estimator)
