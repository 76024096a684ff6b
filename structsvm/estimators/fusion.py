"""``FusionModel``: fuse runs by step functions of their scores, learned by a structural SVM (thesis, section 3.3)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from structsvm.common.checks import BadInput, first_few
from structsvm.common.row_checks import column_ranges
from structsvm.common.training_data import record_rows
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
    """Model that ranks the pooled documents of several runs by learned step functions of their scores.

    The score of a document is the sum, over the runs that contain it, of a step function of its score in the run.
    Models are trained by :func:`fusion_path`.

    Attributes
    ----------
    names : tuple of str
        Names of the runs, in the order of the features.
    binning : BinnedFeatures
        Thresholds of the scores of each run.
    coef : ndarray of float64, shape (n_indicators,)
        Weight of each threshold, which is added to the score of a document whose score in the run exceeds the
        threshold.
    loss : str
        Loss that was minimised.
    relevance : float
        Lowest grade of a relevant document in training.
    depth : int or None
        Number of documents pooled from each run, or None if unknown; new runs are pooled to the same depth.
    certificate : Fit
        Result of training, with the trade-off, the duality gap and the number of passes.
    training_data_ : dict or None
        Date and versions of the training, and sizes and digest of the pool; None for files of earlier versions.

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
    training_data_: dict[str, Any] | None = None

    def predict(self, pool: Candidates) -> Float:
        """Return the score of each row of ``pool``; higher is better.

        Parameters
        ----------
        pool : Candidates
            Pooled documents of the runs of the model, in any order; other runs are not allowed.

        Returns
        -------
        ndarray of float64, shape (pool.n_rows,)
        """
        missing = [name for name in self.names if name not in pool.names]
        if missing:
            raise BadInput(
                "runs",
                f"expected all {len(self.names)} runs of the model, got none called {_quoted(missing)} among "
                f"{_quoted(pool.names)}",
                "give the run under the name that it had in training",
            )
        unknown = [name for name in pool.names if name not in self.names]
        if unknown:
            raise BadInput(
                "runs",
                f"expected only runs of the model, {_quoted(self.names)}, got also {_quoted(unknown)}",
                "leave out the others, or train with them",
            )
        return self.binning.transform_rows(pool.select_runs(self.names).scores, qid=pool.qid) @ self.coef

    def rank(self, pool: Candidates, *, tag: str = "structsvm") -> Run:
        """Return the ranking of the documents of ``pool``, truncated to ``depth`` documents per topic if ``depth`` is
        known."""
        run = pool.to_run(self.predict(pool), tag=tag)
        return run if self.depth is None else run.top(self.depth)

    def step_functions(self) -> list[StepFunction]:
        """Return, for each run, the contribution to the score of a document as a function of the run's score (thesis,
        figure 3.2)."""
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
    """Train fusion models for several values of C in ascending order; yield each model as soon as it is trained.

    Parameters
    ----------
    pool : Candidates
        Pooled documents of the training topics, with their grades.
    Cs : sequence of float
        Values of the trade-off, each > 0. If scores are scaled within topics, useful values are between 0.1 and 100.
    loss : str, default="map"
        Loss to minimise, as in :class:`structsvm.StructuralRanker`.
    relevance : float, default=1.0
        Lowest grade of a relevant document.
    n_bins, spacing, within
        As in :class:`~structsvm.features.binning.BinnedFeatures`, except that scores are scaled within topics by
        default, because the scores of a run may have different scales in different topics. The thesis uses ``"data"``.
    depth : int, optional
        Depth to which the runs were pooled, which is stored with the model; None means unknown.
    tol : float, default=1e-3
        Relative duality gap at which training stops.
    n_jobs : int, optional
        Number of threads; None means 1, and -1 means one per processor.

    Yields
    ------
    FusionModel
        The model for each C, in ascending order of C.

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
            f"no topic has both relevant and other documents among the {pool.n_rows} documents (relevant: "
            f"a grade of at least {relevance:g})",
            "check the judgments and the relevance, or pool deeper",
        )
    problem = RankingProblem(rows, pool.offsets, separator, weights=separator.query_weights, n_jobs=n_jobs)
    ranges = column_ranges(pool.scores, missing=True)
    record = record_rows(pool.scores, pool.y, pool.offsets, ranges=ranges)
    for fit in fit_path(problem, Cs, tol=tol):
        yield FusionModel(pool.names, binning, fit.w, loss, float(relevance), depth, fit, record)


def _quoted(names: Sequence[str]) -> str:
    return first_few((ascii(name[:60]) for name in names), 8)
