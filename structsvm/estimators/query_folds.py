"""``QueryKFold``: split data into folds of whole queries for scikit-learn's cross-validation."""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state

from structsvm.common.checks import BadInput, check_flag, check_whole
from structsvm.common.tables.ids import qid_of
from structsvm.protocols import Int
from structsvm.queries import group_queries, row_groups

Split = tuple[Int, Int]
"""Indices of the rows of the training part and of the test part."""


class QueryKFold(BaseCrossValidator):
    """Cross-validator that assigns whole queries to folds, and requests ``qid`` by metadata routing.

    Pass it as ``cv`` to ``cross_val_score``, ``GridSearchCV`` and similar functions. ``KFold`` or an integer would
    split queries between folds: a model that was trained on a part of a query would have an advantage on the rest, and
    scores would not refer to whole queries. Queries are assigned to folds as in :class:`StructuralRankerCV`.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, from 2 to the number of queries.
    shuffle : bool, default=False
        Whether to assign the queries to folds in random order instead of the order of their first rows.
    random_state : int, RandomState or None, default=None
        Seed of the random order; must be None unless ``shuffle`` is True.

    Examples
    --------
    >>> import sklearn
    >>> from sklearn.model_selection import cross_val_score
    >>> from structsvm import SVMMap
    >>> from structsvm.readers import make_ranking
    >>> data = make_ranking(30, 10, 4, grades=2, random_state=0)
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     scores = cross_val_score(SVMMap(), data.X, data.y, cv=QueryKFold(3), params={"qid": data.qid})
    >>> scores.shape
    (3,)
    """

    __metadata_request__split: ClassVar = {"qid": True}

    def __init__(self, n_splits: int = 5, *, shuffle: bool = False, random_state: Any = None) -> None:
        check_whole("n_splits", n_splits, 2)
        check_flag("shuffle", shuffle)
        if random_state is not None and not shuffle:
            raise BadInput(
                "random_state",
                "expected None, as queries are not shuffled",
                "pass {shuffle=True}",
                value=random_state,
            )
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state

    def get_n_splits(
        self,
        X: object = None,
        y: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
    ) -> int:
        """Return the number of folds; the arguments are ignored."""
        return int(self.n_splits)

    def split(
        self,
        X: Any,
        y: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
    ) -> Iterator[Split]:
        """Yield the rows of the training part and of the test part of each fold.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            Features, of which only the number of rows is used. A frame may have a column ``qid``.
        y : ignored
        groups : array-like, shape (n_rows,), optional
            Alternative name of ``qid``.
        qid : array-like of int or str, shape (n_rows,), optional
            Query of each row, in any order; required unless ``groups`` or a column ``qid`` is given.

        Yields
        ------
        tuple of ndarray of int64
            Row indices of the training part, and row indices of the test part.
        """
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        ids = qid_of(X, groups if qid is None else qid)
        if ids is None:
            raise BadInput(
                "qid",
                "expected the query of each row, got none",
                "call sklearn.set_config(enable_metadata_routing=True) and pass qid along",
                code="cross_val_score(..., cv=QueryKFold(5), params={'qid': qid})",
            )
        grouping = group_queries(ids, n_rows)
        n_queries = grouping.offsets.shape[0] - 1
        if self.n_splits > n_queries:
            raise BadInput("n_splits", f"expected 2 to {n_queries}, one per query", value=self.n_splits)
        queries = np.arange(n_queries)
        if self.shuffle:
            queries = check_random_state(self.random_state).permutation(n_queries)
        number = np.empty(n_rows, dtype=np.int64)
        rows = np.arange(n_rows) if grouping.order is None else grouping.order
        number[rows] = row_groups(grouping.offsets)
        for fold in np.array_split(queries, self.n_splits):
            tested = np.zeros(n_queries, dtype=bool)
            tested[fold] = True
            yield np.flatnonzero(~tested[number]), np.flatnonzero(tested[number])
