"""``AccuracySVM``: ranking by a binary classifier of documents, in the four variants of the thesis."""

from __future__ import annotations

from dataclasses import KW_ONLY
from threading import Lock
from typing import Any, Literal

import numpy as np
from scipy import sparse
from sklearn.svm import LinearSVC

from structsvm.common.checks import BadInput, check_C, check_choice
from structsvm.common.estimator_parameters import parameters
from structsvm.estimators.fitted import all_or_nothing
from structsvm.estimators.linear import LinearSVM, Scale
from structsvm.protocols import Float
from structsvm.queries import warn_user

_SCALES: dict[str, Scale] = {
    "acc": "none",
    "acc2": "none",
    "acc3": "query-percentile",
    "acc4": "query-minmax",
}
_LIBLINEAR = Lock()
"""Lock for LIBLINEAR, whose random generator is global to the process: concurrent fits would share its numbers."""


@parameters
class AccuracySVM(LinearSVM):
    """Linear SVM that classifies documents as relevant or not, and ranks by its output (thesis, OP 1 and 3.3.6).

    Minimises ``1/2 (||w||^2 + b^2) + C/N sum_i v_i max(0, 1 - t_i (w.x_i + b))`` over the ``N`` documents, with ``t_i =
    1`` for relevant documents and -1 for others. Queries matter only as ``variant`` says; this ranker is a baseline for
    ranking losses.

    Parameters
    ----------
    variant : {"acc", "acc2", "acc3", "acc4"}, default="acc2"
        ``"acc"``: all ``v_i = 1``. ``"acc2"``: the weight of a relevant document is the number of non-relevant
        documents per relevant document in the training set. In the other variants the many non-relevant documents
        dominate: they need a large ``C``, and may rank worse than chance with a small one if few documents are
        relevant. ``"acc3"``: features are replaced by their percentile within the query, ``"acc4"``: features are
        scaled to [0, 1] within the query. Both exist because one threshold ``b`` has to suit all queries. Both are
        centred at their means in training, so that they do not act as ``b``.
    C : float, default=1.0
        Trade-off between a small norm and a small mean slack; search it on a log grid, 1e-2 ... 1e4.
    tol : float, default=1e-4
        Tolerance of LIBLINEAR: the largest violation of the optimality conditions, in units of the margin.
    max_passes : int, default=10000
        Maximum number of passes over the data; scikit-learn's ``ConvergenceWarning`` is issued if they do not suffice.
    random_state : int or RandomState, default=0
        Order in which LIBLINEAR visits the documents.

    Attributes
    ----------
    intercept_ : float
        ``b``: a document counts as relevant if :meth:`predict` is above zero.
    n_iter_ : int
        Number of passes made by LIBLINEAR.

    Notes
    -----
    The model consists of :class:`~structsvm.features.scaling.QueryScaler` and ``sklearn.svm.LinearSVC`` with hinge
    loss, bias inside the penalty, and weights that make its ``C`` the ``C/N`` above. LIBLINEAR works on a float64 copy
    of ``X``. Its generator of random numbers is global to the process: fits in several threads take turns, with the
    results of sequential fits. A ``LinearSVC`` trained elsewhere in the process at the same time would still change
    them, in about the fourth digit; use processes in that case.

    The thesis bins features after scaling them (3.3.2), which is a pipeline:
    ``make_pipeline(QueryScaler("percentile"), BinnedFeatures(), AccuracySVM("acc"))`` is its SVM-acc3
    (call ``sklearn.set_config(enable_metadata_routing=True)`` first, and pass ``qid`` along).

    Examples
    --------
    >>> X, y, qid = [[0.0], [1.0], [10.0], [11.0]], [0, 1, 0, 1], [1, 1, 2, 2]
    >>> model = AccuracySVM("acc4", C=10.0).fit(X, y, qid=qid)
    >>> (model.predict(X, qid=qid) > 0).tolist()
    [False, True, False, True]
    """

    variant: Literal["acc", "acc2", "acc3", "acc4"] = "acc2"
    C: float = 1.0
    _: KW_ONLY
    tol: float = 1e-4
    relevance: float = 1.0
    max_passes: int = 10_000
    random_state: Any = 0

    @property
    def scale(self) -> Scale:  # type: ignore[override]
        """Scaling of the features by ``variant``, as a ``scale`` of ``StructuralRanker``."""
        return _SCALES.get(self.variant, "none")

    @all_or_nothing
    def fit(self, X: Any, y: Any, *, qid: Any = None, sample_weight: Any = None) -> AccuracySVM:
        """Train.

        Parameters
        ----------
        X : array-like or CSR matrix, shape (n_rows, n_features)
            Dense for "acc3" and "acc4".

        Warns
        -----
        UserWarning
            If the classifier calls no training document relevant: its order then need not be better than chance.
        """
        C = check_C(self.C)
        data, weights = self._grouped(X, y, qid, sample_weight)
        self.n_queries_ = data.n_queries
        relevant = data.y >= self.relevance
        importance = np.repeat(weights, np.diff(data.offsets))
        shares = [float(importance[relevant].sum()), float(importance[~relevant].sum())]
        if 0.0 in shares:
            got = f"got {data.y.min():g} to {data.y.max():g} only"
            problem = (
                f"expected labels of relevant (>= {self.relevance:g}) and of non-relevant documents, {got}"
            )
            raise BadInput("y", problem, "check the labels, {relevance} and sample_weight")
        importance /= importance.sum()
        if self.variant == "acc2":
            importance[relevant] *= shares[1] / shares[0]
        machine = LinearSVC(
            loss="hinge", C=C, tol=float(self.tol), max_iter=self.max_passes, random_state=self.random_state
        )
        X, means = _narrow(data.X), 0.0
        if self.scale != "none":
            means = data.X.mean(axis=0, dtype=np.float64)
            X = data.X - means
        with _LIBLINEAR:
            machine.fit(X, relevant, sample_weight=importance)
        self.coef_ = machine.coef_[0].astype(np.float64)
        self.intercept_ = float(machine.intercept_[0] - np.sum(self.coef_ * means))
        if not (machine.decision_function(X) > 0).any():
            warn_user(
                f"AccuracySVM: with variant={self.variant!r} and C={C:g} no training document is called relevant, so "
                "that the order need not be better than chance; use variant='acc2' or a larger C"
            )
        self.n_iter_ = int(machine.n_iter_)
        return self

    def _scores(self, X: Any, qid: Any) -> Float:
        return super()._scores(X, qid) + self.intercept_

    def _check_options(self) -> None:
        check_choice("variant", self.variant, _SCALES)
        super()._check_options()


def _narrow(X: Any) -> Any:
    """Return CSR with 32-bit indices, which LIBLINEAR requires; anything else unchanged."""
    # bool: the type guard would narrow X to a type without attributes
    if not bool(sparse.issparse(X)) or X.indptr.dtype == X.indices.dtype == np.int32:
        return X
    most = np.iinfo(np.int32).max
    if max(X.nnz, X.shape[1]) > most:
        problem = f"LIBLINEAR takes up to {most} stored values and columns, got {X.nnz} and {X.shape[1]}"
        raise BadInput("X", problem, "train on a part of the queries")
    indices, indptr = (array.astype(np.int32) for array in (X.indices, X.indptr))
    return sparse.csr_matrix((X.data, indices, indptr), shape=X.shape, copy=False)
