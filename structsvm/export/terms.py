"""``score_difference``: the contributions of features to the difference of two scores."""

from math import factorial
from typing import Any

import numpy as np

from structsvm.common.checks import check_whole
from structsvm.export.linear import LinearForm, engine_names, linear_form
from structsvm.export.trees import ValuedForest, valued_forest
from structsvm.features.input_rows import rows_for
from structsvm.features.scaling import scale_rows
from structsvm.protocols import Float


def score_difference(model: Any, X: Any, a: int, b: int) -> list[tuple[str, float]]:
    """Return the contribution of each feature to the score of row ``a`` of a query minus that of row ``b``, in
    descending order of its absolute value.

    For a linear model these are the terms ``weight * (X[a] - X[b]) / scale``; if it scales within queries, the weight
    times the difference of the scaled values. For trees they are Shapley values: the mean, over all orders of the
    features, of the change of the score when the value of the feature in row ``b`` is replaced by that in row ``a``
    (interventional TreeSHAP with one background row: Lundberg et al., Nature Machine Intelligence 2020). The
    contributions add up to the difference.

    Parameters
    ----------
    model : estimator or sklearn.pipeline.Pipeline
        Fitted model: linear, or a ranker over trees.
    X : array-like, CSR matrix or frame, shape (n_rows, n_features)
        All rows of the query, as for ``predict``; the other rows matter only if the model scales within queries.
    a, b : int
        Indices of the two rows.

    Returns
    -------
    list of (str, float)
        Name and contribution of each feature.

    Examples
    --------
    >>> from structsvm import SVMMap
    >>> model = SVMMap(C=0.1).fit([[1.0, 0.0], [0.0, 0.0]], [1, 0], qid=0)
    >>> score_difference(model, [[1.0, 1.0], [3.0, 5.0]], 1, 0)
    [('feature_1', 0.4), ('feature_2', 0.0)]
    """
    form = None if hasattr(model, "leaves_") else linear_form(model)
    X = rows_for(model, X)[0]
    pair = [check_whole(name, row, 0, X.shape[0] - 1) for name, row in (("a", a), ("b", b))]
    if form is not None and form.within_query:
        X = scale_rows(model.scaler_, X, 0)
    both = np.asarray(X[pair].toarray() if hasattr(X, "toarray") else X[pair], dtype=np.float64)
    if form is None:
        valued = valued_forest(model, engine_names(model, None, model.n_features_in_))
        names, terms = valued.names, _of_trees(valued, both)
    else:
        names, terms = form.names, _of_linear(form, both)
    order = np.argsort(-np.abs(terms), kind="stable")
    return [(names[j], float(terms[j])) for j in order]


def _of_linear(form: LinearForm, rows: Float) -> Float:
    if form.missing is not None:
        rows = np.where(np.isnan(rows), form.missing, rows)
    return np.asarray(form.weights * (rows[0] - rows[1]) / form.scale + 0.0)  # without -0.0


def _of_trees(valued: ValuedForest, rows: Float) -> Float:
    """Return the Shapley values: each leaf that a mixture of both rows reaches is credited to its features."""
    forest = valued.forest
    # for both rows and each node, whether the row goes left, as Forest describes it
    value = rows[:, forest.feature]
    left = np.where(np.isnan(value), forest.nan_left.astype(bool), value <= forest.threshold)
    for k in np.flatnonzero(forest.sets >= 0).tolist():
        left[:, k] = np.isin(np.trunc(value[:, k]), valued.members(k))
    terms = np.zeros(forest.n_features)

    def walk(t: int, child: int, of_a: frozenset[int], of_b: frozenset[int]) -> None:
        if child < 0:
            # A mixture reaches the leaf if it has the values of a in the features ``of_a`` and those of b in ``of_b``.
            # Each feature is credited by the share of orders in which all others of ``of_a`` precede it and all others
            # of ``of_b`` follow it.
            leaf = float(valued.values[int(forest.leaves[t]) + ~child])
            n, m = len(of_a), len(of_b)
            for j in of_a:
                terms[j] += leaf * (factorial(n - 1) * factorial(m) / factorial(n + m))
            for j in of_b:
                terms[j] -= leaf * (factorial(n) * factorial(m - 1) / factorial(n + m))
            return
        k = int(forest.nodes[t]) + child
        j = int(forest.feature[k])
        to_a, to_b = (int((forest.left if goes else forest.right)[k]) for goes in left[:, k])
        # both rows take the same branch, or a node above has already decided the feature; otherwise the path splits
        if to_a == to_b or j in of_a:
            walk(t, to_a, of_a, of_b)
        elif j in of_b:
            walk(t, to_b, of_a, of_b)
        else:
            walk(t, to_a, of_a | {j}, of_b)
            walk(t, to_b, of_a, of_b | {j})

    for t in range(forest.n_trees):
        if forest.nodes[t] < forest.nodes[t + 1]:
            walk(t, 0, frozenset(), frozenset())
    return terms
