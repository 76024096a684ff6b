"""``PairwiseSVM``: the ranking SVM on pairs of documents, with hinge or squared hinge loss."""

from dataclasses import KW_ONLY, field
from typing import Literal

from structsvm.common.checks import BadInput, check_choice
from structsvm.common.estimator_parameters import parameters
from structsvm.estimators.structural import StructuralRanker
from structsvm.oracles.pairs import Pairs
from structsvm.oracles.squared_pairs import SquaredPairs
from structsvm.protocols import Oracle
from structsvm.trainers.choosing_solver import TRAINERS, Solver

_ORACLES: dict[str, type[Pairs] | type[SquaredPairs]] = {"hinge": Pairs, "squared_hinge": SquaredPairs}


@parameters
class PairwiseSVM(StructuralRanker):
    """Ranking SVM: within each query, documents of a higher grade should score higher by a margin of 1.

    Minimises ``1/2 ||w||^2 + C * mean over pairs of l(w.(x_i - x_j))``, with the mean over pairs of documents of the
    same query with ``y_i > y_j`` (thesis, OP 3), and with ``l(d) = max(0, 1 - d)`` or its square. There may be any
    number of grades. Pairs are counted, not enumerated. The fit has a certificate: the objective is within
    ``fit_.gap`` of its optimum.

    Parameters
    ----------
    loss : {"hinge", "squared_hinge"}, default="hinge"
        Loss of a pair. ``"squared_hinge"`` is several times faster to train, and penalises large inversions more.
    C : float, default=None
        Trade-off between a small norm and a small mean loss. None means 10 for the hinge and 1 for the squared hinge
        (``experiments/default_C.py``); ``fit_.C`` is the value used. Preferably tune ``C`` on a log grid, from 1e-3 to
        1e3 for features with about unit variance. The Notes relate ``C`` to the parameters of other programs.
    normalize : {"pairs", "query"}, default="pairs"
        How the loss is averaged. With ``"pairs"`` it is the mean over all pairs, so that each query is weighted by its
        number of pairs. With ``"query"`` it is the mean over the pairs of each query, then over queries, as for the
        other losses; this is preferable if query lengths vary widely and the measure weights queries equally.
    tol : float, default=1e-3
        Relative duality gap at which training stops; with the squared hinge, also the required norm of the gradient,
        relative to its norm at zero weights.
    solver : str, default="auto"
        Name of a trainer for :func:`structsvm.trainers.train`, or "auto". The squared hinge is trained by ``"newton"``,
        the hinge by any other trainer.
    relevance : float, default=1.0
        Lowest label of a relevant document in :meth:`score` (ROC area); training uses all grades.

    Attributes
    ----------
    fit_ : Fit
        Result of training, with the certificate in ``primal``, ``dual``, ``gap`` and other attributes. With the squared
        hinge, there is also ``gradient_norm``, and ``dual`` is ``primal - 1/2 ||gradient||^2``, which is a lower bound
        because the objective is 1-strongly convex.

    See Also
    --------
    SVMRoc : Equivalent for binary labels and ``normalize="query"``, with ``w_roc(C) = 1/2 w_pair(4 C)``.
    PairwiseSGD : Stochastic descent, for a very large number of rows.

    Notes
    -----
    With ``P`` pairs in ``n`` queries:

    * SVM-rank with its default ``-l 1`` minimises ``1/2 ||w||^2 + c/n * sum over pairs``, which corresponds to
      ``C = c P/n`` with ``normalize="pairs"``. Its ``-l 2`` uses the fraction of swapped pairs of each query, which
      corresponds to ``C = c`` with ``normalize="query"``.
    * SVM-light ``-z p``, LIBLINEAR's ranking SVM and ``LinearSVC(fit_intercept=False)`` on pair differences
      minimise ``1/2 ||w||^2 + c * sum over pairs``, which corresponds to ``C = c P`` with ``normalize="pairs"``.

    Only the order of the labels within each query affects :meth:`fit`, which raises an error if no query has two
    documents with different labels. With ``normalize="pairs"`` the weight of a query is the mean of its
    ``sample_weight`` times its number of pairs.

    With the squared hinge, training takes a few Newton steps of a few passes each, and a pass takes about as long as
    reading the features from memory (Lee & Lin, Large-scale linear RankSVM, Neural Computation 2014).

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
    # parameters of StructuralRanker that this class fixes
    positive: bool = field(default=False, init=False)
    monotone_constraints: None = field(default=None, init=False)
    constraints: None = field(default=None, init=False)
    penalty: None = field(default=None, init=False)
    stabilise: bool = field(default=True, init=False)
    qp: Literal["active_set"] = field(default="active_set", init=False)

    @property
    def _loss(self) -> Oracle:
        return _ORACLES[str(self.loss)](self.normalize)

    def _measure(self) -> str:
        return "pairs"

    def check_options(self) -> None:
        """Raise ValueError for invalid parameters; no data are needed."""
        check_choice("loss", self.loss, _ORACLES)
        smooth = self.loss == "squared_hinge"
        of_hinge = (name for name, trainer in TRAINERS.items() if "hinge" in trainer.supports)
        solvers = ("auto", "newton") if smooth else ("auto", *of_hinge)
        if self.solver not in solvers:
            raise BadInput(
                "solver",
                f"expected one of {', '.join(map(repr, solvers))} with {{loss}}",
                value=self.solver,
                others={"loss": self.loss},
            )
        super().check_options()
