"""``FusionModel``: a sum of step functions of the runs' scores, learned by a structural SVM (thesis, section 3.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from structsvm.common.checks import BadInput
from structsvm.estimators.fitted import Saved
from structsvm.features.binning import BinnedFeatures, StepFunction
from structsvm.oracles import get_oracle
from structsvm.protocols import Float
from structsvm.readers.run_features import Candidates
from structsvm.readers.runs import Run
from structsvm.trainers.certificate import Fit
from structsvm.trainers.passes import RankingProblem
from structsvm.trainers.path import fit_path


@dataclass(frozen=True, eq=False)
class FusionModel(Saved):
    """Model that ranks the pooled documents of several runs by learned step functions.

    The score of a document is the sum over runs of a step function of its score in the run; a run without the document
    adds 0. :func:`fusion_path` trains models.

    Attributes
    ----------
    names : tuple of str
        Names of the runs, in the order of the features.
    binning : BinnedFeatures
        Thresholds of each run's score.
    coef : ndarray of float64, shape (n_indicators,)
        Weight for each threshold that a score exceeds.
    loss : str
        Loss that was optimised.
    relevance : float
        Grade from which a document counted as relevant.
    depth : int or None
        Number of documents pooled from each run, if known; new runs are pooled to the same depth.
    certificate : Fit
        Trade-off, duality gap and passes of the training.

    Examples
    --------
    >>> from structsvm.readers import make_runs
    >>> from structsvm.estimators import fusion_path
    >>> from structsvm.readers import candidates
    >>> runs, qrels, _ = make_runs(random_state=0)
    >>> pool = candidates(runs, qrels)
    >>> (model,) = fusion_path(pool, [1.0])
    >>> model.names, round(model.certificate.gap, 2)
    (('system0', 'system1', 'system2'), 0.0)
    >>> model.rank(pool)
    Run('structsvm': 6 topics, 240 rows)
    """

    names: tuple[str, ...]
    binning: BinnedFeatures
    coef: Float
    loss: str
    relevance: float
    depth: int | None
    certificate: Fit

    def predict(self, pool: Candidates) -> Float:
        """Return scores of the rows of ``pool``, higher is better.

        Parameters
        ----------
        pool : Candidates
            Pool of exactly the runs of the model, in any order.

        Returns
        -------
        ndarray of float64, shape (pool.n_rows,)
        """
        missing = [name for name in self.names if name not in pool.names]
        if missing:
            raise BadInput(
                "runs",
                f"expected all {len(self.names)} of the model, got none called {_quoted(missing)} among "
                f"{_quoted(pool.names)}",
                "give the run, under the name that it had in training",
            )
        unknown = [name for name in pool.names if name not in self.names]
        if unknown:
            raise BadInput(
                "runs",
                f"expected those of the model, {_quoted(self.names)}, got also {_quoted(unknown)}",
                "leave it out, or train again with it",
            )
        scores = pool.select_runs(self.names).scores
        return self.binning.transform_rows(scores, qid=pool.qid) @ self.coef

    def rank(self, pool: Candidates, *, tag: str = "structsvm") -> Run:
        """Return the ranking of ``pool``, cut to ``depth`` documents per topic."""
        run = pool.to_run(self.predict(pool), tag=tag)
        return run if self.depth is None else run.top(self.depth)

    def step_functions(self) -> list[StepFunction]:
        """Return the contribution of each run's score to a document's score (thesis, figure 3.2)."""
        return self.binning.step_functions(self.coef, list(self.names))

    def __repr__(self) -> str:
        return f"FusionModel({len(self.names)} runs, loss={self.loss!r}, C={self.certificate.C:g})"


def fusion_path(
    pool: Candidates,
    Cs: Sequence[float],
    *,
    loss: str = "map",
    relevance: float = 1.0,
    n_bins: int = 50,
    spacing: Literal["even", "quantile"] = "even",
    within: Literal["data", "query"] = "query",
    depth: int | None = None,
    tol: float = 1e-3,
    n_jobs: int | None = None,
) -> Iterator[FusionModel]:
    """Learn to rank the pool for several values of C, smallest first; yield each model as soon as it is trained.

    Parameters
    ----------
    pool : Candidates
        The training topics.
    Cs : sequence of float
        Trade-offs, each > 0. With scores within the topic the useful range is 0.1 to 100.
    loss : str, default="map"
        As in :class:`structsvm.StructuralRanker`.
    relevance : float, default=1.0
        Grade from which a document is relevant.
    n_bins, spacing, within
        As in :class:`~structsvm.features.binning.BinnedFeatures`, except that scores are scaled within the topic by
        default, as runs need not have the same scale in all topics. ``"data"`` is the choice of the thesis.
    depth : int, optional
        Depth to which the runs were pooled; stored with the model.
    tol : float, default=1e-3
        Relative duality gap.
    n_jobs : int, optional
        Threads.

    Yields
    ------
    FusionModel

    Examples
    --------
    >>> from structsvm.readers.run_features import candidates
    >>> from structsvm.readers.qrels import Qrels
    >>> good = Run.from_arrays([1, 1, 1], ["a", "b", "c"], [3.0, 2.0, 1.0], tag="good")
    >>> bad = Run.from_arrays([1, 1, 1], ["a", "b", "c"], [1.0, 2.0, 9.0], tag="bad")
    >>> pool = candidates([good, bad], Qrels.from_arrays([1, 1], ["a", "b"], [1, 0]))
    >>> (model,) = fusion_path(pool, [1.0])
    >>> model, model.rank(pool).docid[0]
    (FusionModel(2 runs, loss='map', C=1), 'a')
    """
    binning = BinnedFeatures(n_bins, spacing=spacing, within=within)
    rows = binning.fit(pool.scores, qid=pool.qid).transform_rows(pool.scores, qid=pool.qid)
    separator = get_oracle(loss, relevance=relevance).bind(pool.y, pool.offsets)
    if not np.asarray(separator.informative).any():
        raise BadInput(
            "qrels",
            f"no topic has both relevant and other documents among the {pool.n_rows} pooled (relevant: "
            f"a grade of at least {relevance:g})",
            "check the judgments and the relevance, or pool deeper",
        )
    problem = RankingProblem(rows, pool.offsets, separator, weights=separator.query_weights, n_jobs=n_jobs)
    for fit in fit_path(problem, Cs, tol=tol):
        yield FusionModel(pool.names, binning, fit.w, loss, float(relevance), depth, fit)


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(ascii(name[:60]) for name in names[:8]) + (", ..." if len(names) > 8 else "")
