"""``PairwiseSVM``: the ranking SVM on pairs of documents, with hinge or squared hinge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, field
from typing import Any, Literal

from structsvm.common.checks import BadInput, check_choice
from structsvm.common.estimator_parameters import parameters
from structsvm.estimators.structural import StructuralRanker, model_path
from structsvm.oracles.pairs import Pairs
from structsvm.oracles.squared_pairs import SquaredPairs
from structsvm.protocols import Oracle
from structsvm.trainers.choosing_solver import TRAINERS, Solver

_ORACLES: dict[str, type[Pairs] | type[SquaredPairs]] = {"hinge": Pairs, "squared_hinge": SquaredPairs}


@parameters
class PairwiseSVM(StructuralRanker):
    """Ranking SVM: documents of a higher grade should score higher within each query, by a margin of 1.

    Minimises ``1/2 ||w||^2 + C * mean over pairs of l(w.(x_i - x_j))`` over the pairs of a query with ``y_i > y_j``
    (thesis, OP 3), with ``l(d) = max(0, 1 - d)`` or its square. The number of grades is arbitrary. Pairs
    are never listed. The fit carries a certificate: the objective is within ``fit_.gap`` of its optimum.

    Parameters
    ----------
    loss : {"hinge", "squared_hinge"}, default="hinge"
        ``"squared_hinge"`` is several times faster to train, and penalises large inversions more.
    C : float, default=None
        Trade-off between a small norm and a small mean loss. None is 10, and 1 for the squared hinge
        (``experiments/default_C.py``); ``fit_.C`` is the value used. It is better to search ``C`` on a log grid, 1e-3
        ... 1e3 for features of about unit scale. The notes relate it to the parameters of other programs.
    normalize : {"pairs", "query"}, default="pairs"
        Kind of mean. ``"pairs"``: over all pairs, so that the weight of a query is its number of pairs. ``"query"``:
        the mean over the pairs of a query, then over queries, as for the other losses; preferable if lengths vary
        widely and the measure weights queries equally.
    tol : float, default=1e-3
        Relative duality gap to reach; with the squared hinge also the norm of the gradient relative to its norm at
        zero.
    solver : str, default="auto"
        A trainer of :func:`structsvm.trainers.train`, or its choice: ``"newton"`` for the squared hinge, any other for
        the hinge.
    relevance : float, default=1.0
        Label from which a document is relevant in :meth:`score` (ROC area); training uses all grades.

    Attributes
    ----------
    fit_ : Fit
        ``primal``, ``dual``, ``gap``, ``n_passes`` and more: the certificate. With the squared hinge ``gradient_norm``
        too, and ``dual`` is ``primal - 1/2 ||gradient||^2``, which bounds a 1-strongly convex function from below.

    See Also
    --------
    SVMRoc : equivalent on binary labels with ``normalize="query"``: ``w_roc(C) = 1/2 w_pair(4 C)``.
    PairwiseSGD : stochastic descent, for very many rows.

    Notes
    -----
    With ``P`` pairs in ``n`` queries:

    * SVM-rank minimises ``1/2 ||w||^2 + c/n * sum over pairs`` (its default ``-l 1``): ``C = c P/n`` with
      ``normalize="pairs"``. Its ``-l 2`` takes the share of swapped pairs of each query: ``C = c`` with
      ``normalize="query"``.
    * SVM-light ``-z p``, LIBLINEAR's ranking SVM and ``LinearSVC(fit_intercept=False)`` on pair differences
      minimise ``1/2 ||w||^2 + c * sum over pairs``: ``C = c P`` with ``normalize="pairs"``.

    Only the order of the labels within a query matters to :meth:`fit`, which raises when no query has two documents of
    different labels. With ``normalize="pairs"`` the weight of a query is the mean of its ``sample_weight`` times its
    number of pairs.

    Training with the squared hinge takes a few Newton steps of a few passes each, and a pass runs at about the speed at
    which the features can be read (Lee & Lin, Large-scale linear RankSVM, Neural Computation 2014).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(200, 3)), np.repeat(np.arange(20), 10)
    >>> y = np.clip(np.round(X[:, 0] + 0.3 * rng.normal(size=200)), 0, 2)
    >>> model = PairwiseSVM("squared_hinge", C=10).fit(X, y, qid=qid)
    >>> bool(model.fit_.gap <= 1e-3), bool(model.score(X, y, qid=qid) > 0.9)
    (True, True)
    """

    loss: Literal["hinge", "squared_hinge"] = "hinge"
    _: KW_ONLY
    normalize: Literal["pairs", "query"] = "pairs"
    solver: Solver = "auto"
    # options of the structural SVM that are fixed here
    positive: bool = field(default=False, init=False)
    monotone_constraints: None = field(default=None, init=False)
    constraints: None = field(default=None, init=False)
    penalty: None = field(default=None, init=False)
    stabilise: bool = field(default=True, init=False)
    qp: Literal["active_set"] = field(default="active_set", init=False)

    def path(
        self, X: Any, y: Any, Cs: Sequence[float], *, qid: Any = None, sample_weight: Any = None
    ) -> Iterator[PairwiseSVM]:
        """Train models for several values of C, as :func:`structsvm.estimators.model_path` does.

        Examples
        --------
        >>> X, y = [[1.0], [0.0]], [1, 0]
        >>> [(model.C, model.coef_.round(6)) for model in PairwiseSVM().path(X, y, [1.0, 0.5], qid=0)]
        [(0.5, array([0.5])), (1.0, array([1.]))]
        """
        return model_path(self, X, y, Cs, qid=qid, sample_weight=sample_weight)

    @property
    def _loss(self) -> Oracle:
        return _ORACLES[str(self.loss)](self.normalize)

    def _measure(self) -> str:
        return "roc"

    def _check_options(self) -> None:
        check_choice("loss", self.loss, _ORACLES)
        smooth = self.loss == "squared_hinge"
        of_hinge = (name for name, trainer in TRAINERS.items() if "hinge" in trainer.supports)
        solvers = ("auto", "newton") if smooth else ("auto", *of_hinge)
        if self.solver not in solvers:
            problem = f"expected one of {', '.join(map(repr, solvers))} with {{loss}}"
            raise BadInput("solver", problem, value=self.solver, others={"loss": self.loss})
        super()._check_options()
