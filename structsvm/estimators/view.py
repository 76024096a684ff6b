"""View of a fitted ranker as a regressor, for scikit-learn's inspection tools."""

from typing import Any

from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from structsvm.common.checks import BadInput


def as_regressor(ranker: Any) -> Any:
    """Return a view of a fitted ranker that scikit-learn accepts as a fitted regressor.

    A ranker is not a regressor: its scores have no unit, and training only determines their order within a query. Tools
    that show how a prediction depends on the features, such as ``partial_dependence``,
    ``PartialDependenceDisplay.from_estimator`` and ``DecisionBoundaryDisplay.from_estimator``, can nevertheless use the
    scores, but they accept only regressors and classifiers.

    Parameters
    ----------
    ranker : fitted ranker
        Ranker whose ``predict`` does not require ``qid``.

    Returns
    -------
    fitted regressor
        Regressor whose ``predict(X)`` returns the scores of the ranker, which is not copied. Its ``fit`` and ``score``
        raise TypeError, because R^2 is meaningless for ranking scores.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.inspection import partial_dependence
    >>> from structsvm import SVMMap
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    >>> model = SVMMap(C=10).fit(X, [1, 0, 0], qid=0)
    >>> found = partial_dependence(as_regressor(model), X, [0], grid_resolution=2, percentiles=(0, 1))
    >>> low, high = found["average"][0]
    >>> bool(np.isclose(high - low, model.coef_[0]))
    True
    """
    check_is_fitted(ranker)
    scaler = getattr(ranker, "scaler_", None)
    if scaler is not None and scaler.within == "query":
        raise BadInput(
            "ranker",
            f"expected scores of single rows, got {type(ranker).__name__} with scale={ranker.scale!r}, whose scores "
            "depend on the other rows of the query",
            "train with scale='minmax' or 'zscore'",
        )
    return _Scores(ranker)


class _Scores(RegressorMixin, BaseEstimator):
    def __init__(self, ranker: Any) -> None:
        self.ranker = ranker

    def fit(self, X: Any, y: Any) -> Any:
        """Raise TypeError; the method exists because scikit-learn requires it of estimators."""
        raise TypeError("as_regressor: expected no call of fit, as this is a view; fit the ranker itself")

    def predict(self, X: Any) -> Any:
        """Return the score of each row."""
        return self.ranker.predict(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Raise TypeError, because R^2, the score of regressors, is meaningless for ranking scores."""
        raise TypeError(
            "as_regressor: expected no call of score, as R^2 is meaningless for ranking scores; call ranker.score"
        )

    def __sklearn_is_fitted__(self) -> bool:
        return True

    @property
    def n_features_in_(self) -> int:
        return int(self.ranker.n_features_in_)

    @property
    def feature_names_in_(self) -> Any:
        return self.ranker.feature_names_in_
