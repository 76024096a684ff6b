"""``SVMDiv``: learn to choose documents that cover different subtopics."""

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from structsvm.common.candidates import CandidateSet, Coverage, Limits, check_labels, check_limits, check_sets
from structsvm.common.checks import BadInput, check_choice
from structsvm.common.estimator_parameters import parameters
from structsvm.common.machine import count_threads, map_in_threads
from structsvm.common.portable.arrays import products
from structsvm.estimators.selector import Selector
from structsvm.features.word_counts import Words, count_words
from structsvm.features.word_features import Level, WordFeatures, named_levels, usual_thresholds
from structsvm.oracles.coverage import SEARCHES, CoverageProblem, UserLoss
from structsvm.oracles.selection import Selection, budgeted, greedy, swap
from structsvm.protocols import Callback, Float, Int
from structsvm.queries import warn_user
from structsvm.trainers.certificate import Fit, NothingLearnedWarning, nothing_learned
from structsvm.trainers.choosing_solver import Solver, check_solver
from structsvm.trainers.contract import Options
from structsvm.trainers.path import fit_path

_log = logging.getLogger("structsvm")


class Reason(NamedTuple):
    """Reasons for choosing a document.

    ``words`` contains ``(word, level, benefit)`` for elements that no previously chosen document covers, in descending
    order of benefit. ``gain`` is the sum of the benefits of all these elements, plus ``features``, the value of the
    document features.
    """

    document: int
    id: str
    gain: float
    words: list[tuple[str, str, float]]
    features: float

    @property
    def parts(self) -> list[tuple[str, float]]:
        """Each word in ``words`` with its benefit."""
        return [(word, benefit) for word, _, benefit in self.words]


class _Prepared(NamedTuple):
    """The training problem, constraints on its weights, and the learned attributes that do not depend on ``C``."""

    problem: CoverageProblem
    cone: Float | None
    attributes: dict[str, Any]


@parameters
class SVMDiv(Selector, BaseEstimator):
    """SVM-div: a model that chooses ``k`` documents that together cover the subtopics of a set (thesis chapter 4).

    From labelled sets, it learns the benefit of covering a word, which depends on how well the word is covered (the
    level) and on how many candidates cover it (the threshold). Prediction needs no labels. Training minimises
    ``1/2 ||w||^2 + C * mean slack`` (OP 5). The slack of a set bounds the loss of its subset with the highest value; it
    is at least the loss of the true output, which may also miss subtopics. The slack is only an estimate, because the
    search for the most violated output is not exact.

    Parameters
    ----------
    C : float, default=1.0
        Trade-off between a small norm and the mean slack of the sets with a constraint, so that other sets do not
        matter; tune it on a log grid from 1e-2 to 1e4. Features are scaled such that those of each level sum to about 1
        per document.
    k : int, default=5
        Number of documents to choose, in training and by default in ``predict``.
    levels : {"neighbours", "svm-div", "svm-div2"} or sequence of Level, default="neighbours"
        Importance levels. "neighbours", which was best in experiments, consists of ``Level.neighbours`` at cosines of
        0.04, 0.07, 0.1, 0.15 and 0.2 and of ``Level.appears()``; for sets created by
        :meth:`CandidateSet.from_similarity <structsvm.CandidateSet.from_similarity>`, of ``Level.neighbours`` at 0.1,
        0.2, ..., 0.9. The other two names are from the thesis (4.4.1) and need titles: "svm-div" uses term frequencies
        and title words (``Level.appears()``, ``count`` of 2, 3 and 5, ``share(0.05)``, ``title()``), and "svm-div2"
        adds TFIDF (``top_tfidf`` of 3, 5 and 10). The thesis specifies these kinds of levels but not their values, and
        trains with ``separation="greedy"``.
    thresholds : sequence of float, default=None
        Relative document frequencies, from 0 to 1, at which the benefit of a word changes: the benefit is a step
        function of the fraction of candidates that contain the word. None means
        ``structsvm.features.word_features.THRESHOLDS``, or ``[0.0]``, which is one benefit per level, if a level is
        ``Level.neighbours``.
    document_features : sequence of {"rank", "centroid"}, default=()
        Document features to compute in addition to the ``features`` of the sets; all document features are scaled to
        [0, 1] within each set.
    vectorizer : object, default=None
        Vectorizer of texts. None means the default of :func:`structsvm.features.word_counts.make_vectorizer`, which has
        options for stop words and stemming.
    loss : {"weighted", "unweighted", "alpha_ndcg"} or callable, default="weighted"
        "weighted" is the weighted fraction of subtopics missed, "unweighted" is 1 - subtopic recall@k, and "alpha_ndcg"
        is 1 - alpha-NDCG@k. A callable ``loss(labels, chosen)`` receives a boolean matrix and the chosen documents in
        order, and must not increase when documents are added.
    positive : False or "benefits", default=False
        "benefits" constrains the benefits of words and the weights of document features to be >= 0. The value of the
        greedy choice is then at least 1 - 1/e times the optimum (``guarantee_``), and adding a document never decreases
        it.
    prediction : {"greedy", "swap"}, default="greedy"
        Whether :meth:`predict` chooses greedily, or also exchanges single documents afterwards ("swap").
    separation : {"auto", "greedy", "swap"}, default="auto"
        The search for the most violated output during training, see Notes. "auto" means "swap" (greedy with exchanges),
        but "greedy", as in the thesis, for alpha-NDCG and callables, which depend on the order.
    tol : float, default=1e-3
        Relative duality gap at which training stops.
    solver : str, default="auto"
        Name of a trainer for :func:`structsvm.trainers.train`, or "auto"; ``positive`` requires a trainer
        such as one_slack.
    max_passes : int, default=1000
        Maximum number of passes over the sets.
    qp : {"active_set", "cvxpy"}, default="active_set"
        Solver of the small quadratic programme of cutting-plane methods.
    n_jobs : int, default=None
        Number of threads; None means 1, and -1 means one per processor. The result does not depend on it.
    callback : callable, default=None
        Called with a :class:`structsvm.protocols.Progress` after each pass; a truthy return value stops training. None
        means no callback.

    Attributes
    ----------
    coef_ : ndarray, shape (n_features,)
        Weights of the thresholds, grouped by level, followed by those of the document features.
    benefits_ : ndarray, shape (n_levels, n_thresholds)
        Benefit of covering a word, by level and by the last threshold that the document frequency of the word reaches.
    document_coef_ : ndarray, shape (n_document_features,)
        Weights of the document features.
    levels_ : tuple of Level
        The importance levels.
    scale_ : ndarray, shape (n_levels,)
        Factor of the features of each level: one over the mean number of words at this level per document of the
        training sets with a constraint.
    fit_ : Fit
        Result of training. ``certified`` is False: ``dual`` is a lower bound on the optimum of the training problem,
        but ``primal`` is only an estimate of the objective, which is too low if the search misses a violated output.
    guarantee_ : float or None
        ``1 - 1/e`` if no benefit and no weight of a document feature is negative, with or without ``positive``; else
        None.
    given_similarity_ : bool or None
        Whether the training sets were created from similarities; :meth:`predict` refuses sets of the other kind. None
        if only some training sets were.
    n_sets_, n_uninformative_ : int
        Number of training sets, and number of uninformative sets, which have no subtopics or at most ``k`` documents.

    Notes
    -----
    Finding the most violated output is NP-hard. Greedy search under-generates: it may miss constraints, so that
    training ends above the optimum. If it finds no new constraint, this does not prove convergence.

    Under a budget, documents are chosen by gain per cost while the gain is positive; the best single document is chosen
    instead if its value is higher. In a set without words, documents are chosen by their document features, or, if
    there are none, in their original order.

    Greedy search also loses value in prediction. The page of ``experiments/diversity_synthetic.py`` shows how much it
    loses on synthetic sets, and how much of the gap to the clairvoyant choice is closed by swaps and by an exact
    search.

    Examples
    --------
    >>> sets = [CandidateSet(["apple pie", "apple pie", "sea ship sail"])] * 8
    >>> labels = [[[1, 0], [1, 0], [0, 1]]] * 8
    >>> model = SVMDiv(C=10, k=2).fit(sets, labels)
    >>> model.predict(sets[:1]), model.score(sets, labels)
    ([array([0, 2])], 1.0)
    """

    C: float = 1.0
    k: int = 5
    _: KW_ONLY
    levels: Sequence[Level] | str = "neighbours"
    thresholds: Sequence[float] | None = None
    document_features: Sequence[str] = ()
    vectorizer: Any = None
    loss: str | UserLoss = "weighted"
    positive: Literal[False, "benefits"] = False
    prediction: Literal["greedy", "swap"] = "greedy"
    separation: Literal["auto", "greedy", "swap"] = "auto"
    tol: float = 1e-3
    solver: Solver = "auto"
    max_passes: int = 1000
    qp: Literal["active_set", "cvxpy"] = "active_set"
    n_jobs: int | None = None
    callback: Callback | None = None

    def decision_function(
        self, sets: Sequence[CandidateSet], k: int | None = None, *, costs: object = None, budget: Any = None
    ) -> Float:
        """Return the value ``w . Psi`` of the documents that :meth:`predict` chooses for each set, shape (n_sets,)."""
        check_is_fitted(self, "coef_")
        return np.array([one.value for one in self._select(check_sets(sets), k, costs, budget)])

    def explain(
        self,
        candidates: CandidateSet,
        k: int | None = None,
        *,
        costs: object = None,
        budget: float | None = None,
        n_words: int = 10,
    ) -> list[Reason]:
        """Return, for each document that :meth:`predict` chooses, the words that explain its choice.

        For ``Level.neighbours``, neighbouring documents take the place of words.

        Parameters
        ----------
        candidates, k, costs, budget
            As for :meth:`predict`, but for a single set.
        n_words : int, default=10
            Maximum number of words listed per document; the gain includes all words.

        Returns
        -------
        list of Reason

        Examples
        --------
        >>> sets = [CandidateSet(["apple pie", "apple pie", "sea ship sail"])] * 8
        >>> model = SVMDiv(C=10, k=2, levels=[Level.appears()]).fit(sets, [[[1, 0], [1, 0], [0, 1]]] * 8)
        >>> [[word for word, *_ in reason.words] for reason in model.explain(sets[0])]
        [['sail', 'sea', 'ship'], ['apple', 'pie']]
        """
        check_is_fitted(self, "coef_")
        [selection] = self._select([candidates], k, None if costs is None else [costs], budget)
        features = self._word_features(self.levels_)
        words = None if candidates.kind == "similarity" else count_words(candidates, self.vectorizer)
        values = products(features.coverage(candidates).features, self.document_coef_)
        patterns = features.incidences(candidates, words)
        # index of the last threshold that the document frequency of each element reaches, or -1 if it is below the
        # first
        frequency = [np.bincount(i, minlength=n) / len(candidates) for _, i, n in patterns]
        steps = [np.searchsorted(features.thresholds, f, side="right") - 1 for f in frequency]
        covered: set[tuple[int, int]] = set()
        reasons = []
        for d, gain in zip(selection.chosen.tolist(), selection.gains.tolist(), strict=True):
            won = []
            for number, (level, (indptr, indices, _)) in enumerate(zip(self.levels_, patterns, strict=True)):
                for v in indices[indptr[d] : indptr[d + 1]].tolist():
                    if (number, v) not in covered and steps[number][v] >= 0:
                        # an element contributes its benefit only to the first document that covers it
                        covered.add((number, v))
                        word = _named(level, v, candidates, words)
                        won.append((word, str(level), float(self.benefits_[number, steps[number][v]])))
            won.sort(key=lambda item: -item[2])
            reasons.append(Reason(d, candidates.ids[d], gain, won[:n_words], float(values[d])))
        return reasons

    @property
    def _separation(self) -> Any:
        if self.separation != "auto":
            return self.separation
        return "greedy" if callable(self.loss) or self.loss == "alpha_ndcg" else "swap"

    def _word_features(self, levels: Sequence[Level]) -> WordFeatures:
        thresholds = usual_thresholds(levels) if self.thresholds is None else self.thresholds
        return WordFeatures(levels, thresholds, self.vectorizer, self.document_features)

    def prepare(self, sets: object, labels: ArrayLike) -> _Prepared:
        """Return the training problem; words are counted only once."""
        self.check_options()
        found = check_sets(sets)
        matrices = check_labels(labels, [len(s) for s in found])
        features = self._word_features(named_levels(self.levels, found))
        coverages = map_in_threads(features.coverage, found, count_threads(self.n_jobs))
        widths = [c.features.shape[1] for c in coverages]
        if len(set(widths)) > 1:
            other = next(i for i, width in enumerate(widths) if width != widths[0])
            raise BadInput(
                "sets",
                f"expected {widths[0]} document features, as in sets[0], got {widths[other]}",
                at=f"[{other}]",
            )
        informative = [i for i, m in enumerate(matrices) if m.any() and m.shape[0] > self.k]
        if not informative:
            covered = sum(bool(m.any()) for m in matrices)
            raise BadInput(
                "labels",
                "no candidate set carries a constraint: each needs a covered subtopic and more than {k} "
                f"documents; got {len(found)} sets, {covered} of them with subtopics",
                others={"k": self.k},
            )
        if len(informative) < len(found):
            _log.info(
                "%d of %d candidate sets carry no constraint", len(found) - len(informative), len(found)
            )
        parts = [coverages[i] for i in informative], [matrices[i] for i in informative]
        # Divide the features of a level by its mean number of words per document. Levels with many words would
        # otherwise need smaller weights and would barely be regularised.
        n_thresholds = len(features.thresholds)
        total = sum(c.counts.sum(axis=0, dtype=np.float64) for c in parts[0])
        by_level = np.asarray(total).reshape(-1, n_thresholds).sum(axis=1) / sum(
            c.n_documents for c in parts[0]
        )
        scale = 1.0 / np.where(by_level > 0, by_level, 1.0)
        problem = CoverageProblem(
            *parts,
            features.bins(scale),
            self.k,
            loss=self.loss,
            separation=self._separation,
            n_jobs=count_threads(self.n_jobs),
        )
        # The benefit of a bin is the sum of the weights up to its threshold. These sums, and the weights of document
        # features, are constrained to be >= 0.
        cone = None
        if self.positive == "benefits":
            cone = np.eye(problem.n_features)
            cone[: features.n_bins, : features.n_bins] = features.bins()
        # the levels of word cosines differ from those of given similarities, so that a model only accepts sets of the
        # same kind as its training sets
        kinds = {one.kind == "similarity" for one in found}
        attributes = {
            "levels_": features.levels,
            "scale_": scale,
            "n_document_features_": widths[0],
            "given_similarity_": kinds.pop() if len(kinds) == 1 else None,
            "fingerprints_": tuple(one.fingerprint for one in found),
            "n_sets_": len(found),
            "n_uninformative_": len(found) - len(informative),
        }
        return _Prepared(problem, cone, attributes)

    def learn(self, prepared: _Prepared, Cs: Sequence[float]) -> Iterator[dict[str, Any]]:
        """Yield the learned attributes for each C in ascending order; each fit starts from the previous one."""
        fits = fit_path(
            prepared.problem,
            Cs,
            solver=self.solver,
            tol=float(self.tol),
            max_passes=self.max_passes,
            cone=prepared.cone,
            qp=self.qp,
            callback=self.callback,
        )
        levels, scale = prepared.attributes["levels_"], prepared.attributes["scale_"]
        features = self._word_features(levels)
        for fit in fits:
            benefits = products(features.bins(scale), fit.w[: features.n_bins])
            document = fit.w[features.n_bins :].copy()
            if self.positive == "benefits":  # the projection satisfies its constraints only up to rounding
                benefits, document = np.maximum(benefits, 0.0), np.maximum(document, 0.0)
            free = bool((benefits < 0).any() or (document < 0).any())
            if max(Cs) == fit.C:
                _warn_if_no_better_than_zero(fit, self.tol)
            yield prepared.attributes | {
                "fit_": fit,
                "coef_": fit.w,
                "benefits_": benefits.reshape(len(levels), -1),
                "document_coef_": document,
                "guarantee_": None if free else 1.0 - 1.0 / math.e,
            }

    def _degrees(self, labels: ArrayLike, sets: list[CandidateSet]) -> list[Float]:
        return [matrix.astype(np.float64) for matrix in check_labels(labels, [len(one) for one in sets])]

    def _chosen(self, sets: list[CandidateSet], k: object, costs: object, budget: object) -> list[Int]:
        return [selection.chosen for selection in self._select(sets, k, costs, budget)]

    def _select(self, sets: list[CandidateSet], k: object, costs: object, budget: object) -> list[Selection]:
        check_choice("prediction", self.prediction, SEARCHES)
        limits = check_limits(sets, k, self.k, costs, budget)
        features = self._word_features(self.levels_)
        # compiled code does not check the shape
        if self.benefits_.shape != (len(self.levels_), len(features.thresholds)):
            raise BadInput("benefits_", f"expected one per level and threshold, got {self.benefits_.shape}")
        benefits = self.benefits_.ravel()
        if costs is not None and self.prediction != "greedy":
            raise BadInput("prediction", "expected 'greedy' with a budget", value=self.prediction)
        search = swap if self.prediction == "swap" else greedy

        def select(task: tuple[CandidateSet, Limits]) -> Selection:
            candidates, (most, price, limit) = task
            coverage, values = self._value(features, candidates)
            if costs is None:
                return search(coverage, benefits, values, most)
            return budgeted(coverage, benefits, values, price, limit, k=most)

        return map_in_threads(select, list(zip(sets, limits, strict=True)), count_threads(self.n_jobs))

    def _value(self, features: WordFeatures, candidates: CandidateSet) -> tuple[Coverage, Float]:
        """Return the elements that each document covers, and the value of the document features of each document."""
        given = getattr(self, "given_similarity_", None)  # missing in model files of version 0.1
        if given is not None and given != (candidates.kind == "similarity"):
            expected, how = "sets of texts", "train on sets created with CandidateSet.from_similarity"
            if given:
                expected = "sets of given similarities"
                how = "create them with CandidateSet.from_similarity (in Python)"
            raise BadInput("sets", f"expected {expected}, as in training, got {candidates!r}", how)
        coverage = features.coverage(candidates)
        if coverage.features.shape[1] != self.n_document_features_:
            expected = f"expected {self.n_document_features_} document features as in fit"
            raise BadInput(repr(candidates), f"{expected}, got {coverage.features.shape[1]}")
        return coverage, products(coverage.features, self.document_coef_)

    def check_options(self) -> None:
        """Raise ValueError for invalid parameters; no data are needed."""
        super().check_options()
        if self.positive is not False and self.positive != "benefits":
            raise BadInput("positive", "expected False or 'benefits'", value=self.positive)
        check_choice("prediction", self.prediction, SEARCHES)
        check_choice("separation", self.separation, ("auto", *SEARCHES))
        check_solver(self.solver, Options(qp=self.qp), {"cone"} if self.positive else set())


def _named(level: Level, element: int, candidates: CandidateSet, words: Words | None) -> str:
    """Return a name for an element of a level: a document, a word, or a column number if words have no names."""
    if level.kind == "neighbours":
        return f"near {candidates.ids[element]}"
    names = None if words is None else words.vocabulary
    if names is None:
        return f"word {element}"
    return str(names[element]) if names.dtype.kind == "O" else f"word {names[element]}"


def _warn_if_no_better_than_zero(fit: Fit, tol: float) -> None:
    """Warn if the objective is hardly below its value at ``w = 0``, which is at most C.

    Trainers skip this check if the search is approximate. Such a search can only underestimate the objective, so that
    an estimate near C proves that the model is hardly better than zero weights.
    """
    if not fit.certified and fit.w.any() and fit.primal >= nothing_learned(tol) * fit.C:
        warn_user(
            f"the estimated objective {fit.primal:.6g} is hardly below that of w = 0 (at most {fit.C:.6g}): the model "
            "has learned nothing; DiverseRanker learns from the same sets and labels",
            NothingLearnedWarning,
        )
