"""Importance of features: the decrease of a measure when a feature is shuffled."""

from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from structsvm.common.checks import BadInput, check_whole, first_few
from structsvm.common.frames import frame
from structsvm.common.names import feature_names
from structsvm.metrics.evaluation import evaluate, evaluate_part, measure_name
from structsvm.plots.html_by import html_by
from structsvm.protocols import Float
from structsvm.queries import group_queries, split_qid


@dataclass(frozen=True, eq=False, repr=False)
class Importances:
    """Result of :func:`permutation_importance`, which documents the fields."""

    names: tuple[str, ...]
    losses: Float
    baseline: float
    measure: str

    @property
    def mean(self) -> Float:
        """Mean loss of each feature, shape (n_features,)."""
        return np.asarray(self.losses.mean(axis=1))

    @property
    def std(self) -> Float:
        """Standard deviation of the loss over the shuffles, shape (n_features,)."""
        return np.asarray(self.losses.std(axis=1))

    @property
    def order(self) -> NDArray[np.intp]:
        """Indices of the features in descending order of importance, shape (n_features,)."""
        return np.argsort(-self.mean, kind="stable")

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with columns ``mean`` and ``std``, and one row per feature, in descending order of
        importance."""
        order = self.order
        return frame(
            {"mean": self.mean[order], "std": self.std[order]},
            index=[self.names[j] for j in order],
            index_name="feature",
        )

    def __repr__(self) -> str:
        largest = first_few((f"{self.names[j]} {self.mean[j]:+.4f}" for j in self.order), 3)
        return f"Importances({self.measure} {self.baseline:.4f}; {largest})"

    _repr_html_ = html_by("importances")


def permutation_importance(
    model: Any,
    X: Any,
    y: Any,
    *,
    qid: Any = None,
    measure: str = "map",
    n_repeats: int = 5,
    random_state: int = 0,
    **options: Any,
) -> Importances:
    """Measure the decrease of a ranking measure when a feature is shuffled (Breiman 2001).

    Values are shuffled among the documents of each query, since a ranking depends only on differences within queries,
    and values of different queries may have different scales. A feature that is constant within queries therefore has
    importance 0.

    Parameters
    ----------
    model : estimator
        Fitted model whose ``predict(X)`` returns scores; higher is better. ``qid`` is passed to ``predict`` if it is
        accepted.
    X : array-like, CSR matrix or pandas or polars frame, shape (n_rows, n_features)
        Features that ``predict`` accepts, preferably of queries that were not used for training. A frame may have a
        column ``qid``.
    y : array-like of numbers, shape (n_rows,)
        Grades.
    qid : array-like of int or str, shape (n_rows,), or int
        Query of each row, or of all rows. Required unless ``X`` has a column ``qid``.
    measure : str or callable, default="map"
        As in :func:`structsvm.metrics.evaluate`.
    n_repeats : int, default=5
        Number of shuffles per feature.
    random_state : int, default=0
        Seed of the shuffles.
    **options
        Options of :func:`structsvm.metrics.evaluate`, such as ``relevance``.

    Returns
    -------
    Importances
        ``names``, the names of the features; ``baseline``, the measure with all features; ``losses``, ndarray of shape
        (n_features, n_repeats), the baseline minus the measure with the feature shuffled; ``mean`` and ``std`` of the
        losses, shape (n_features,); ``order``, the indices of the features in descending order of importance;
        ``measure``, its name; and ``to_frame()``, a pandas DataFrame of mean and std in this order.

    Notes
    -----
    Redundant features share their importance: if one is shuffled, the model can still use the others.

    Examples
    --------
    >>> from structsvm import SVMMap
    >>> from structsvm.readers import make_ranking
    >>> data = make_ranking(20, 10, 2, noise=0.1, random_state=0)
    >>> X = np.column_stack([data.X @ [0.3, 0.9], np.zeros(200)])
    >>> model = SVMMap().fit(X, data.y, qid=data.qid)
    >>> found = permutation_importance(model, X, data.y, qid=data.qid)
    >>> bool(found.mean[0] > 0.1), float(found.mean[1]), found.order.tolist()
    (True, 0.0, [0, 1])
    """
    repeats = check_whole("n_repeats", n_repeats, 1)
    X, qid = split_qid(X, qid)
    if qid is None:
        raise BadInput("qid", "expected the query of each row, got none", "{qid=0} means a single query")
    if np.ndim(X) != 2:
        raise BadInput("X", f"expected rows and features, got shape {np.shape(X)}")
    takes_qid = "qid" in signature(model.predict).parameters

    def scores(rows: Any) -> Any:
        return model.predict(rows, qid=qid) if takes_qid else model.predict(rows)

    baseline = evaluate(measure, y, scores(X), qid=qid, **options).mean
    X = X if hasattr(X, "columns") else X.tocsc() if hasattr(X, "tocsc") else np.asarray(X)
    names = feature_names(getattr(X, "columns", None), X.shape[1])
    grouping = group_queries(qid, X.shape[0])
    order = np.arange(X.shape[0]) if grouping.order is None else grouping.order
    losses = np.empty((len(names), repeats))
    rng = np.random.default_rng(random_state)
    number = np.repeat(np.arange(grouping.offsets.size - 1), np.diff(grouping.offsets))
    for repeat in range(repeats):
        # use the same shuffle for all features: sort by query, and within queries by random keys
        source = np.empty_like(order)
        source[order] = order[np.lexsort((rng.random(order.size), number))]
        for j in range(len(names)):
            changed = scores(_shuffled(X, j, source))
            losses[j, repeat] = baseline - evaluate_part(measure, y, changed, qid=qid, **options).result.mean
    return Importances(tuple(names), losses, baseline, measure_name(measure))


def _shuffled(X: Any, j: int, source: NDArray[np.intp]) -> Any:
    """Return rows whose column ``j`` has the value of row ``source[i]`` in row ``i``, in the type of ``X``."""
    if hasattr(X, "with_columns"):  # polars
        return X.with_columns(X[:, j].gather(source))
    if hasattr(X, "columns"):
        changed = X.copy(deep=False)
        changed[X.columns[j]] = X.iloc[source, j].set_axis(X.index)
        return changed
    if hasattr(X, "tocsr"):
        return sparse.hstack([X[:, :j], X[:, [j]].tocsr()[source], X[:, j + 1 :]], format="csr")
    changed = X.copy()
    changed[:, j] = X[source, j]
    return changed
