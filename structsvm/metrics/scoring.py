"""scikit-learn scorers of ranking measures, which require query ids."""

from inspect import signature
from typing import Any, Self

from numpy.typing import ArrayLike

from structsvm.common.checks import BadInput
from structsvm.common.cut_queries import warn_of_cut_queries
from structsvm.common.tables.ids import qid_of
from structsvm.metrics.evaluation import evaluate, evaluate_part

_NO_QID = (
    "without it all rows would be ranked as one query. In cross-validation call "
    "sklearn.set_config(enable_metadata_routing=True) first and pass qid along: search.fit(X, y, qid=qid), or "
    "cross_val_score(..., params={'qid': qid}). If the rows are one query, pass its id: qid=0. For the importance of "
    "features use structsvm.metrics.permutation_importance"
)


def make_scorer(name: str, **options: Any) -> "QueryScorer":
    """Return a scorer for ``cross_val_score``, ``GridSearchCV`` and others: the mean of a measure over queries.

    Parameters
    ----------
    name : str
        Name of the measure, as in :func:`structsvm.metrics.evaluate`.
    **options
        Options of :func:`structsvm.metrics.evaluate`: ``convention``, ``relevance``, ``ties``, ``empty``,
        ``max_grade``.

    Returns
    -------
    QueryScorer
        A callable ``scorer(estimator, X, y, qid=qid, docid=None)``, which requests ``qid`` and ``docid`` from
        scikit-learn's metadata routing.

    Raises
    ------
    ValueError
        If a name or option is unknown; also raised by the scorer, if no ``qid`` is passed and ``X`` is not a frame with
        a ``qid`` column. ``GridSearchCV`` converts an error in scoring to a warning and the score NaN, unless
        ``error_score="raise"``.

    Examples
    --------
    >>> import numpy as np
    >>> import sklearn
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.model_selection import GroupKFold, cross_val_score
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(60, 3)), np.repeat(np.arange(6), 10)
    >>> y = (X[:, 0] > 0.5).astype(int)
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     folds = list(GroupKFold(3).split(X, y, groups=qid))
    ...     scores = cross_val_score(Ridge(), X, y, cv=folds, scoring=make_scorer("map"), params={"qid": qid})
    >>> scores.shape
    (3,)
    """
    # check the options in advance, since a search converts an error in scoring to a warning and NaN
    reserved = sorted({"qid", "docid"} & options.keys())
    if reserved:
        raise BadInput("make_scorer", f"expected {reserved[0]} with the data when the scorer is called")
    evaluate_part(name, [1, 0], [1.0, 0.0], qid=0, **options)
    return QueryScorer(name, options)


def _takes_qid(estimator: object, method: str) -> bool:
    """Return whether a method of an estimator, or of the last step of a pipeline, accepts the query ids."""
    from sklearn import get_config
    from sklearn.utils.metadata_routing import get_routing_for_object

    parameters = signature(getattr(estimator, method)).parameters.values()
    if any(one.name == "qid" for one in parameters):
        return True
    if not any(one.kind is one.VAR_KEYWORD for one in parameters):
        return False
    if (get_config() or {}).get("enable_metadata_routing"):
        return "qid" in get_routing_for_object(estimator).consumes(method, ["qid"])
    steps: Any = getattr(estimator, "steps", None)
    return bool(steps) and _takes_qid(steps[-1][1], method)


class QueryScorer:
    """Scorer of :func:`make_scorer`, which requests query and document ids from scikit-learn's metadata routing."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self.name = name
        self.options = options
        self._requests: dict[str, bool | str | None] = {"qid": True, "docid": True}

    def __call__(
        self, estimator: Any, X: Any, y: ArrayLike, *, qid: Any = None, docid: ArrayLike | None = None
    ) -> float:
        """Return the mean of the measure for the scores of ``estimator`` on ``X``.

        The scores are ``estimator.decision_function(X)`` if it has one (a classifier predicts classes, not
        scores), otherwise ``estimator.predict(X)``.
        """
        qid = qid_of(X, qid)
        if qid is None:
            raise BadInput(
                f"scoring {self.name!r}", "expected qid (the query of each row), got none", _NO_QID
            )
        warn_of_cut_queries(estimator, qid)
        method = "decision_function" if hasattr(estimator, "decision_function") else "predict"
        score = getattr(estimator, method)
        # models that scale features within queries require the ids for prediction, also as the last step of a pipeline
        scores = score(X, qid=qid) if _takes_qid(estimator, method) else score(X)
        return float(evaluate(self.name, y, scores, qid=qid, docid=docid, **self.options).mean)

    def set_score_request(self, *, qid: bool | str | None = True, docid: bool | str | None = True) -> Self:
        """Set the metadata that is routed to this scorer, optionally by an alias (``qid="query"``); return the
        scorer."""
        self._requests = {"qid": qid, "docid": docid}
        return self

    def get_metadata_routing(self) -> Any:
        """Return the requests that scikit-learn's metadata routing reads."""
        from sklearn.utils.metadata_routing import MetadataRequest

        request = MetadataRequest(owner=self)
        for parameter, alias in self._requests.items():
            request.score.add_request(param=parameter, alias=alias)
        return request

    def _accept_sample_weight(self) -> bool:
        # scikit-learn calls this private method of every scorer when sample_weight is passed without routing
        return False

    def __repr__(self) -> str:
        options = "".join(f", {option}={value!r}" for option, value in self.options.items())
        return f"make_scorer({self.name!r}{options})"
