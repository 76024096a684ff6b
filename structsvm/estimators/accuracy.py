"""``AccuracySVM``: rank by a binary classifier of documents, in the four variants of the thesis."""

from dataclasses import KW_ONLY
from threading import Lock
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.svm import LinearSVC

from structsvm.common.checks import BadInput, check_choice, check_positive
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
"""Lock for LIBLINEAR, as concurrent fits would interfere through its random number generator, which is global to the
process."""


@parameters
class AccuracySVM(LinearSVM):
    """Linear SVM that classifies documents as relevant or not, and ranks by its output (thesis, OP 1 and 3.3.6).

    Minimises ``1/2 (||w||^2 + b^2) + C/N sum_i v_i max(0, 1 - t_i (w.x_i + b))`` over the ``N`` documents, with ``t_i =
    1`` for relevant documents and -1 for others. Query ids are used only to scale features, in some
    variants. This ranker is a baseline for ranking losses.

    Parameters
    ----------
    variant : {"acc", "acc2", "acc3", "acc4"}, default="acc2"
        With ``"acc"``, all ``v_i`` are 1. With ``"acc2"``, the weight of a relevant document is the ratio of
        non-relevant to relevant documents in the training set. In the other variants the more frequent non-relevant
        documents dominate: these variants need a large ``C``, and with a small ``C`` may rank worse than chance if few
        documents are relevant. ``"acc3"`` replaces features by their percentile within the query, and ``"acc4"`` scales
        them to [0, 1] within the query, because the same threshold ``b`` has to suit all queries. In both variants the
        scaled features are centred at their training means, so that they do not act as an intercept.
    C : float, default=1.0
        Trade-off between a small norm and a small mean slack; tune it on a log grid from 1e-2 to 1e4.
    tol : float, default=1e-4
        Tolerance of LIBLINEAR, which is the largest violation of the optimality conditions in units of the margin.
    max_passes : int, default=10000
        Maximum number of passes over the data; scikit-learn issues a ``ConvergenceWarning`` if it is reached.
    random_state : int or RandomState, default=0
        Seed of the order in which LIBLINEAR visits the documents.

    Attributes
    ----------
    intercept_ : float
        The intercept ``b``, which :meth:`predict` includes: a document with a positive score is classified as relevant.
    n_iter_ : int
        Number of passes made by LIBLINEAR.

    Notes
    -----
    The model consists of :class:`~structsvm.features.scaling.QueryScaler` and ``sklearn.svm.LinearSVC`` with hinge
    loss, bias inside the penalty, and weights that make its ``C`` the ``C/N`` above. LIBLINEAR works on a float64 copy
    of ``X``. Its random number generator is global to the process. Fits in several threads therefore run one after
    another, with the results of sequential fits. A ``LinearSVC`` that is trained at the same time in the same process
    would still change the results, in about the fourth digit; use separate processes in that case.

    The thesis bins the scaled features (3.3.2). Its SVM-acc3 is the pipeline
    ``make_pipeline(QueryScaler("percentile"), BinnedFeatures(), AccuracySVM("acc"))``; call
    ``sklearn.set_config(enable_metadata_routing=True)`` first, and pass ``qid`` to the pipeline.

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
        """The scaling that ``variant`` implies, as a value of the parameter ``scale`` of ``StructuralRanker``."""
        return _SCALES.get(self.variant, "none")

    @all_or_nothing
    def fit(self, X: Any, y: Any, *, qid: Any = None, sample_weight: Any = None) -> Self:
        """Train the classifier.

        Parameters
        ----------
        X : array-like or CSR matrix, shape (n_rows, n_features)
            Features; must be dense for "acc3" and "acc4".

        Warns
        -----
        UserWarning
            If the classifier predicts no training document to be relevant; its ranking may then be no better than
            chance.
        """
        data, weights = self._grouped(X, y, qid, sample_weight)
        self.n_queries_ = data.n_queries
        relevant = data.y >= self.relevance
        importance = np.repeat(weights, np.diff(data.offsets))
        shares = [float(importance[relevant].sum()), float(importance[~relevant].sum())]
        if 0.0 in shares:
            raise BadInput(
                "y",
                f"expected labels of relevant (>= {self.relevance:g}) and of non-relevant documents, got "
                f"{data.y.min():g} to {data.y.max():g} only",
                "check the labels, {relevance} and sample_weight",
            )
        importance /= importance.sum()
        if self.variant == "acc2":
            importance[relevant] *= shares[1] / shares[0]
        machine = LinearSVC(
            loss="hinge",
            C=float(self.C),
            tol=float(self.tol),
            max_iter=self.max_passes,
            random_state=self.random_state,
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
                BadInput(
                    "AccuracySVM",
                    "with {variant} and {C} no training document is predicted relevant, so that the ranking may be no "
                    "better than chance",
                    "use variant='acc2' or a larger C",
                    others={"variant": self.variant, "C": self.C},
                )
            )
        self.n_iter_ = int(machine.n_iter_)
        return self

    def _scores(self, X: object, qid: ArrayLike) -> Float:
        return super()._scores(X, qid) + self.intercept_

    def check_options(self) -> None:
        """Raise ValueError for invalid parameters; no data are needed."""
        check_choice("variant", self.variant, _SCALES)
        check_positive("C", self.C)
        super().check_options()


def _narrow(X: Any) -> Any:
    """Return a sparse matrix with 32-bit indices, which LIBLINEAR requires; return other arrays unchanged."""
    # bool: the type guard would narrow X to a type without attributes
    if not bool(sparse.issparse(X)) or X.indptr.dtype == X.indices.dtype == np.int32:
        return X
    most = np.iinfo(np.int32).max
    if max(X.nnz, X.shape[1]) > most:
        raise BadInput(
            "X",
            f"LIBLINEAR takes up to {most} stored values and columns, got {X.nnz} and {X.shape[1]}",
            "train on a part of the queries",
        )
    indices, indptr = (array.astype(np.int32) for array in (X.indices, X.indptr))
    return sparse.csr_matrix((X.data, indices, indptr), shape=X.shape, copy=False)
