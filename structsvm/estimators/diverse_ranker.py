"""``DiverseRanker``: learn to choose documents one at a time by their marginal gains."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from structsvm.common.candidates import CandidateSet, Limits, check_limits, check_sets
from structsvm.common.checks import BadInput, check_flag, check_whole
from structsvm.common.estimator_parameters import parameters
from structsvm.common.greedy import greedy_by_gains
from structsvm.common.portable.arrays import products
from structsvm.common.portable.elementary import log
from structsvm.common.subtopic_gain import SubtopicGain
from structsvm.estimators.selector import Selector
from structsvm.features.greedy_steps import StepFeature, StepFeatures, Walk
from structsvm.oracles.log_rank import NDCG
from structsvm.protocols import Callback, Float, Int
from structsvm.queries import warn_user
from structsvm.trainers.certificate import Fit
from structsvm.trainers.passes import RankingProblem
from structsvm.trainers.path import fit_path

_EQUAL = 1e-12
"""Difference below which two gains are treated as equal."""

_CONSTANT = 1e-9
"""Standard deviation within steps below which a feature is treated as constant."""


class Choice(NamedTuple):
    """A chosen document, and the parts of the excess of its score over the mean score of the available documents.

    The parts are ``relevance``, ``likeness`` to the previously chosen documents, ``coverage``, and new ``words``; their
    sum is ``gain``.
    """

    document: int
    id: str
    gain: float
    relevance: float
    likeness: float
    coverage: float
    words: float

    @property
    def parts(self) -> list[tuple[str, float]]:
        """Name and value of each part, in descending order of absolute value."""
        named = [(name, getattr(self, name)) for name in ("relevance", "likeness", "coverage", "words")]
        return sorted(named, key=lambda part: -abs(part[1]))


class _Step(NamedTuple):
    """The documents available at a step: their features, their gains, and the index of the chosen document."""

    features: Any
    gains: Float
    best: int


class _Prepared(NamedTuple):
    """Informative training sets with the gains of their labels, the steps of ideal paths, and data that the model
    stores.

    ``kept`` flags the steps to keep, with axes for round, set and position; ``rows`` contains the scaled features of
    the steps of the ideal paths, ``steps`` their gains.
    """

    sets: list[StepFeatures]
    gains: list[SubtopicGain]
    kept: Any
    rows: Any
    steps: list[Float]
    scale: Float
    names: tuple[StepFeature, ...]
    fingerprints: tuple[str, ...]


@parameters
class DiverseRanker(Selector, BaseEstimator):
    """Choose ``k`` documents one at a time by their marginal gains, which are learned from labelled sets.

    Each step of a choice is a query, whose documents are those not yet chosen. Their features describe their relevance,
    their similarity to the chosen documents and the coverage that they add (:mod:`structsvm.features.greedy_steps`);
    their grades are their marginal gains in the coverage of subtopics. The log-rank loss of these queries is convex and
    bounds the regret of a step. Prediction needs no labels.

    Parameters
    ----------
    k : int, default=5
        Number of documents to choose, in training and by default in ``predict``.
    C : float, default=1.0
        Trade-off of the objective ``1/2 ||w||^2 + C * mean loss of a step``, in which sets without subtopics have no
        steps; features are scaled to unit variance. :func:`~structsvm.estimators.cross_validate_C` selects a value.
    loss : {"unweighted", "weighted", "alpha_ndcg"}, default="unweighted"
        Loss that defines the gains of documents and the measure of ``score``: "unweighted" is 1 - subtopic recall@k,
        "weighted" is the weighted fraction of subtopics missed, as in :class:`~structsvm.SVMDiv`, and "alpha_ndcg" is
        1 - alpha-NDCG@k.
    rounds : int, default=2
        Number of rounds of data aggregation (Ross, Gordon and Bagnell 2011). Training begins with the steps of an ideal
        path through each set, and each round adds the steps that the current model chooses. Use 0 for labels from
        clicks (see :func:`~structsvm.features.soft_subtopics`).
    positive : bool, default=False
        Whether to constrain the weights to be >= 0.
    smooth : bool, default=True
        Whether to use :func:`~structsvm.features.smooth_similarity` as a second similarity of texts; its time grows
        with the cube of their number.
    vectorizer : object, default=None
        Vectorizer of texts, as for :class:`~structsvm.SVMDiv`.
    random_state : int, default=0
        Seed for breaking ties in ideal paths, and for sampling steps if there are more than ``max_rows`` rows.
    tol : float, default=1e-3
        Relative duality gap at which training stops.
    max_rows : int, default=5_000_000
        Maximum expected number of rows of all steps, each of which takes about 100 to 250 bytes. If there would be
        more, each step is kept with the same probability, drawn with ``random_state``.
    callback : callable, default=None
        Called with a :class:`structsvm.protocols.Progress` after each pass of each round; a truthy return value stops
        the current round. None means no callback.

    Attributes
    ----------
    coef_ : ndarray, shape (n_features,)
        Weights of the scaled features.
    feature_names_in_ : ndarray of str, shape (n_features,)
        Names of the features of a step.
    feature_groups_ : ndarray of str, shape (n_features,)
        Group of each feature: "relevance", "likeness", "coverage" or "words".
    scale_ : ndarray, shape (n_features,)
        Factor of each feature: one over its standard deviation within the steps of ideal paths, 0 if it is constant.
    fit_ : Fit
        Certificate of the last round: the objective is within ``fit_.gap`` of its optimum for the steps of that round.
    regrets_ : ndarray, shape (k,)
        Mean regret of each step on the model's own paths through the training sets, where the regret is the largest
        possible gain minus the gain of the chosen document. The bound given by the objective is loose.
    guarantee_ : float or None
        ``1 - 1/e`` if the value of the greedy choice is guaranteed to be at least this fraction of the highest possible
        value, which requires that no weight is negative and that the likeness weights are zero; otherwise None.
    n_sets_, n_uninformative_, n_steps_, n_rows_ : int
        Number of training sets, number of sets without subtopics or with a single document, number of training steps,
        and total number of documents in these steps.

    See Also
    --------
    SVMDiv : the method of Yue's thesis.
    structsvm.estimators.baselines.MMR : a trade-off between relevance and similarity, whose weight ``fit`` chooses.

    Notes
    -----
    Let ``g`` be the gain of the document chosen at a step, and ``g*`` the largest gain. Then ``1 - g/g*`` is at most
    the loss of the step; steps are weighted by ``g*``. With regrets ``e_t = g*_t - g_t`` the value of the chosen set is
    at least ``(1 - (1 - 1/k)^k) OPT - sum_t (1 - 1/k)^(k-1-t) e_t`` (Streeter and Golovin 2008; Ross et al. 2013).

    Under a budget, the next document is the one with the largest ``score - log(cost)`` among those that fit, because
    the model's probability of choosing a document next is proportional to ``exp(score)``. If all costs are equal, the
    budget only changes the number of documents.

    The similarity has to be based on content. With a similarity based on the ranks of runs, the model performed worse
    than the mean of the scores.

    Examples
    --------
    >>> sets = [CandidateSet(["apple pie", "apple pie", "sea ship sail"])] * 8
    >>> labels = [[[1, 0], [1, 0], [0, 1]]] * 8
    >>> model = DiverseRanker(k=2).fit(sets, labels)
    >>> model.predict(sets[:1]), model.score(sets, labels)
    ([array([0, 2])], 1.0)
    """

    k: int = 5
    C: float = 1.0
    _: KW_ONLY
    loss: Literal["unweighted", "weighted", "alpha_ndcg"] = "unweighted"
    rounds: int = 2
    positive: bool = False
    smooth: bool = True
    vectorizer: Any = None
    random_state: int = 0
    tol: float = 1e-3
    max_rows: int = 5_000_000
    callback: Callback | None = None

    def explain(
        self,
        candidates: CandidateSet,
        k: int | None = None,
        *,
        costs: Any = None,
        budget: float | None = None,
    ) -> list[Choice]:
        """Return, for each document that :meth:`predict` chooses, the parts of its score.

        Parameters
        ----------
        candidates, k, costs, budget
            As for :meth:`predict`, but for a single set.

        Examples
        --------
        >>> sets = [CandidateSet(["apple pie", "apple pie", "sea ship sail"])] * 8
        >>> model = DiverseRanker(k=2).fit(sets, [[[1, 0], [1, 0], [0, 1]]] * 8)
        >>> [(choice.id, choice.parts[0][0]) for choice in model.explain(sets[0])]
        [('0', 'coverage'), ('2', 'coverage')]
        """
        [chosen] = self.predict([candidates], k, costs=None if costs is None else [costs], budget=budget)
        walk = Walk(StepFeatures(candidates, self.vectorizer, smooth=self.smooth))
        start, likely = walk.features(), self.feature_groups_ == "likeness"
        weights = self.coef_ * self.scale_
        choices = []
        for d in chosen.tolist():
            features, best = walk.features(), int(np.searchsorted(walk.free, d))
            # the initial value of score times novelty counts as relevance, and its later decrease as likeness
            initial = np.where(likely, start[walk.free], 0.0)
            first, later = ((x[best] - x.mean(axis=0)) * weights for x in (initial, features - initial))
            parts = {
                name: float(later[self.feature_groups_ == name].sum())
                for name in ("relevance", "likeness", "coverage", "words")
            }
            parts["relevance"] += float(first.sum())
            choices.append(Choice(d, candidates.ids[d], sum(parts.values()), **parts))
            walk.add(d)
        return choices

    def _chosen(self, sets: list[CandidateSet], k: object, costs: object, budget: object) -> list[Int]:
        each = zip(sets, check_limits(sets, k, self.k, costs, budget), strict=True)
        return [
            greedy_by_gains(self._gains(i, one, limit.costs), limit) for i, (one, limit) in enumerate(each)
        ]

    def _gains(self, i: int, candidates: CandidateSet, costs: Float) -> Callable[[list[int]], Float]:
        """Return a function from the documents of set ``i`` chosen so far to the scores of all its documents."""
        one = self._features(i, candidates, self.feature_names_in_.tolist())
        walk, weights = Walk(one), self.coef_ * self.scale_

        def gains(chosen: list[int]) -> Float:
            if chosen:
                walk.add(chosen[-1])
            # see the Notes of the class; without a budget all costs are 1, and their logarithms 0
            scores = np.zeros(one.n)
            scores[walk.free] = products(walk.features(), weights)
            return np.asarray(scores - log(costs))

        return gains

    def _features(self, i: int, candidates: CandidateSet, expected: list[str]) -> StepFeatures:
        """Return the step features of set ``i``; raise BadInput if they differ from ``expected``, unless that is
        empty."""
        one = StepFeatures(candidates, self.vectorizer, smooth=self.smooth)
        names = [name for _, name in one.names]
        if expected and names != expected:
            missing = next((name for name in expected if name not in names), expected[-1])
            raise BadInput(
                "sets",
                f"expected {len(expected)} step features as in training, got {len(names)} without {missing!r} in "
                f"{candidates!r}",
                "train and predict on sets of one kind, with the same document features",
                at=f"[{i}]",
            )
        return one

    def prepare(self, sets: object, labels: ArrayLike) -> _Prepared:
        """Return the features and gains of the sets, and the steps of ideal paths."""
        self.check_options()
        checked = check_sets(sets)
        matrices = self._degrees(labels, checked)
        found, gains = [], []
        names: tuple[StepFeature, ...] = ()
        for i, (candidates, matrix) in enumerate(zip(checked, matrices, strict=True)):
            gain = SubtopicGain(matrix, self.loss)
            one = self._features(i, candidates, [name for _, name in names])
            names = one.names
            if not gain.empty and one.n > 1:
                found.append(one)
                gains.append(gain)
        rng = np.random.default_rng(self.random_state)
        # n_rows times the number of rounds bounds the number of rows; steps are sampled before their features are
        # computed
        n_rows = sum((one.n - t) for one in found for t in range(min(self.k, one.n - 1)))
        share = self.max_rows / max(1, n_rows * (self.rounds + 1))
        kept = rng.random((self.rounds + 1, len(found), self.k)) < share
        steps = [
            step
            for one, gain, keep in zip(found, gains, kept[0], strict=True)
            for step in _steps(one, gain, keep, rng)
        ]
        if not steps:
            raise BadInput(
                "labels",
                "no candidate set carries a constraint: each needs a covered subtopic, and documents with distinct "
                f"gains; got {len(checked)} sets",
                "raise {max_rows}, for which no step was drawn" if share < 1 and found else "",
            )
        # users often pass binary relevance as a single subtopic, which any relevant document covers
        columns = [gain.degrees for gain in gains]
        if (
            self.k > 1
            and all(c.shape[1] == 1 and np.isin(c, (0, 1)).all() for c in columns)
            and np.sum(columns[0]) > 1
        ):
            warn_user(
                "each set has a single subtopic, so one document covers it; if labels mark useful documents, convert "
                "them with features.soft_subtopics(sets, marks) (structsvm diversify --marks judged)"
            )
        # documents are only compared within a step, so that features are scaled by their deviation from the step's mean
        deviations = sum(((s.features - s.features.mean(axis=0)) ** 2).sum(axis=0) for s in steps)
        deviation = np.sqrt(deviations / sum(len(s.gains) for s in steps))
        scale = np.where(deviation > _CONSTANT, 1.0 / np.maximum(deviation, _CONSTANT), 0.0)
        rows, graded = _scaled(steps, scale)
        return _Prepared(
            found, gains, kept, rows, graded, scale, names, tuple(one.fingerprint for one in checked)
        )

    def learn(self, prepared: _Prepared, Cs: Sequence[float]) -> Iterator[dict[str, Any]]:
        """Yield the learned attributes for each C, after all rounds of training."""
        for C in Cs:
            X, gains = prepared.rows, list(prepared.steps)
            # data aggregation: train, follow the model's own paths, add their steps, and train again on all steps
            for kept in (*prepared.kept[1:], None):
                fit = self._train(X, gains, C)
                weights = fit.w * prepared.scale
                if kept is not None:
                    own = (
                        step
                        for walk in zip(prepared.sets, prepared.gains, kept, strict=True)
                        for step in _steps(*walk, weights)
                    )
                    rows, graded = _scaled(own, prepared.scale)
                    X, gains = np.concatenate([X, rows]), gains + graded
            # measure the regrets on the model's own paths, because the bound given by the objective is loose
            regrets = np.zeros(self.k)
            for one, gain in zip(prepared.sets, prepared.gains, strict=True):
                for t, step in enumerate(_follow(one, gain, np.zeros(self.k, dtype=bool), weights)):
                    regrets[t] += (step.gains.max() - step.gains[step.best]) / len(prepared.sets)
            groups = np.array([group for group, _ in prepared.names], dtype=object)
            # all features except likeness are gains of monotone submodular functions
            bad = (fit.w < 0) | ((fit.w != 0) & (groups == "likeness"))
            n_sets = len(prepared.fingerprints)
            yield {
                "fit_": fit,
                "coef_": fit.w,
                "scale_": prepared.scale,
                "feature_names_in_": np.array([name for _, name in prepared.names], dtype=object),
                "feature_groups_": groups,
                "regrets_": regrets,
                "guarantee_": None if bad.any() else 1.0 - 1.0 / math.e,
                "fingerprints_": prepared.fingerprints,
                "n_sets_": n_sets,
                "n_uninformative_": n_sets - len(prepared.sets),
                "n_steps_": len(gains),
                "n_rows_": len(X),
            }

    def _train(self, X: Any, gains: list[Float], C: float) -> Fit:
        """Minimise the log-rank loss of the steps, each weighted by its largest possible gain."""
        # each step is a query, graded by gains: the loss at k = 1 bounds the missed fraction of the largest gain
        offsets = np.cumsum([0, *map(len, gains)])
        separator = NDCG(k=1, gain="linear").bind(np.concatenate(gains), offsets)
        stakes = np.array([float(gain.max()) for gain in gains])
        signs = np.ones(X.shape[1]) if self.positive else None
        problem = RankingProblem(X, offsets, separator, weights=stakes)
        return next(fit_path(problem, [C], tol=float(self.tol), cone=signs, callback=self.callback))

    def check_options(self) -> None:
        """Raise ValueError for invalid parameters; no data are needed."""
        super().check_options()
        check_whole("rounds", self.rounds, 0)
        check_whole("max_rows", self.max_rows)
        check_flag("positive", self.positive)
        check_flag("smooth", self.smooth)


def _follow(
    one: StepFeatures, gain: SubtopicGain, kept: Any, guide: Float | np.random.Generator
) -> list[_Step]:
    """Return the steps of a path until no document has a positive gain; steps without a flag in ``kept`` may lack
    features.

    ``guide`` is either the weights of a model, which choose the documents, or a random generator, which breaks ties
    between documents with the largest gain.
    """
    walk, steps = Walk(one), list[_Step]()

    def scores(chosen: list[int]) -> Float:
        if chosen:
            walk.add(chosen[-1])
        out = np.full(one.n, -np.inf)  # ends the path
        gains = gain.gains_after(chosen)[walk.free]
        if gains.max() <= _EQUAL:
            return out
        features = None
        # on an ideal path, compute features only for the steps that are kept, as this takes most of the time
        if isinstance(guide, np.random.Generator):
            equal = np.flatnonzero(gains >= gains.max() - _EQUAL)
            best = int(equal[guide.integers(len(equal))])
            if kept[len(steps)]:
                features = walk.features()
        else:
            features = walk.features()
            best = int(np.argmax(products(features, guide)))
        steps.append(_Step(features, gains, best))
        out[walk.free[best]] = 0.0
        return out

    greedy_by_gains(scores, Limits(min(len(kept), one.n - 1), np.ones(one.n)))
    return steps


def _steps(
    one: StepFeatures, gain: SubtopicGain, kept: Any, guide: Float | np.random.Generator
) -> Iterator[_Step]:
    """Yield the steps of a path that ``kept`` flags and in which the gains of documents differ."""
    for step, keep in zip(_follow(one, gain, kept, guide), kept, strict=False):
        if keep and step.gains.min() < step.gains.max() - _EQUAL:
            yield step


def _scaled(steps: Iterable[_Step], scale: Float) -> tuple[Any, list[Float]]:
    """Return the scaled feature rows of the steps in single precision, and the gains of each step."""
    rows, gains = [np.zeros((0, len(scale)), dtype=np.float32)], []
    for step in steps:
        rows.append((step.features * scale).astype(np.float32))
        gains.append(step.gains)
    return np.concatenate(rows), gains
