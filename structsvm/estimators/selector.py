"""``Selector``: the mixin of models that learn to choose documents from labelled sets."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from structsvm.common.candidates import CandidateSet, check_degrees, check_sets
from structsvm.common.checks import BadInput, check_choice, check_positive, check_whole
from structsvm.common.subtopic_gain import COVERAGE_LOSSES, SubtopicGain
from structsvm.common.training_data import record_training
from structsvm.estimators.choosing_C import check_grid
from structsvm.estimators.fitted import Saved
from structsvm.estimators.linear import check_usual
from structsvm.oracles.coverage import user_loss_of
from structsvm.protocols import Float, Int


class Selector(Saved):
    """Mixin for models that choose documents from sets and have a trade-off ``C``.

    A subclass defines ``prepare(sets, labels)``, which checks the data and computes everything that does not depend on
    ``C``; ``learn(prepared, Cs)``, which yields the learned attributes for each C in ascending order; and ``_chosen``.

    Attributes
    ----------
    training_data_ : dict
        Date and versions of the training, number and digest of the sets; see :func:`structsvm.export.model_card`.
    fingerprints_ : tuple of str
        :attr:`CandidateSet.fingerprint` of each training set, by which evaluations distinguish training sets from new
        sets.
    """

    C: float
    k: int
    loss: Any
    fingerprints_: tuple[str, ...]
    n_sets_: int
    prepare: Callable[[Any, Any], Any]
    learn: Callable[[Any, Sequence[float]], Iterator[dict[str, Any]]]
    _chosen: Callable[[Any, Any, Any, Any], list[Int]]

    def fit(self, sets: Sequence[CandidateSet], labels: ArrayLike) -> Self:
        """Train the model on labelled sets.

        Parameters
        ----------
        sets : sequence of CandidateSet
            Sets of the same kind, with the same document features.
        labels : sequence of array-like, shape (n_documents, n_subtopics) each
            One matrix per set: the degree, from 0 to 1, to which each document covers each subtopic
            (:class:`~structsvm.SVMDiv` only distinguishes labels above zero from others). Each set has its own
            subtopics; those that no document covers are ignored. :func:`~structsvm.features.soft_subtopics` derives
            labels from marks and clicks.

        Returns
        -------
        self
        """
        check_positive("C", self.C)
        # an error or an interrupt leaves a fitted model unchanged
        self._take(next(self.learn(self.prepare(sets, labels), [self.C])))
        return self

    def path(self, sets: Sequence[CandidateSet], labels: ArrayLike, Cs: Sequence[float]) -> list[Self]:
        """Return fitted models for several values of C in ascending order; the sets are prepared only once.

        Examples
        --------
        >>> from structsvm import DiverseRanker
        >>> sets, labels = [CandidateSet(["red", "red sea", "blue"])] * 3, [[[1, 0], [1, 0], [0, 1]]] * 3
        >>> [model.C for model in DiverseRanker(k=2).path(sets, labels, [10.0, 0.1])]
        [0.1, 10.0]
        """
        grid = check_grid(Cs).tolist()
        models = [clone(self).set_params(C=C) for C in grid]
        for model, learned in zip(models, self.learn(self.prepare(sets, labels), grid), strict=True):
            model._take(learned)
        return models

    def _take(self, learned: dict[str, Any]) -> None:
        vars(self).update(learned)
        self.training_data_ = record_training(*self.fingerprints_, n_queries=self.n_sets_)

    def predict(
        self,
        sets: Sequence[CandidateSet],
        k: int | None = None,
        *,
        costs: object = None,
        budget: object = None,
    ) -> list[Int]:
        """Return the documents chosen from each set, in the order in which they are chosen.

        Parameters
        ----------
        sets : sequence of CandidateSet
            The candidate sets.
        k : int, optional
            Number of documents to choose from each set; a smaller set is chosen completely. None means ``self.k``, or
            no limit under a budget.
        costs : sequence of array-like, optional
            Cost of each document of each set, > 0, such as its number of tokens.
        budget : float or sequence of float, optional
            Maximum total cost of the chosen documents, for all sets or for each set; see the Notes of the class. None
            means no budget.

        Returns
        -------
        list of ndarray of int64
            Indices of the chosen documents of each set.
        """
        check_is_fitted(self, "coef_")
        return self._chosen(check_sets(sets), k, costs, budget)

    def losses(self, sets: Sequence[CandidateSet], labels: ArrayLike) -> Float:
        """Return the ``loss`` of the prediction for each set, shape (n_sets,); NaN for sets without subtopics."""
        checked = check_sets(sets)
        matrices, losses = self._degrees(labels, checked), []
        for matrix, rows in zip(matrices, self.predict(checked), strict=True):
            if not matrix.any():
                losses.append(np.nan)
            elif callable(self.loss):
                losses.append(user_loss_of(self.loss, matrix > 0, rows))
            else:
                losses.append(1.0 - SubtopicGain(matrix, self.loss).value(rows))
        return np.array(losses)

    def score(self, sets: Sequence[CandidateSet], labels: ArrayLike) -> float:
        """Return one minus the mean of :meth:`losses` over the sets with subtopics."""
        losses = self.losses(sets, labels)
        if np.isnan(losses).all():
            raise BadInput("labels", "expected a covered subtopic in some set, got none")
        return float(1.0 - np.nanmean(losses))

    def _degrees(self, labels: ArrayLike, sets: list[CandidateSet]) -> list[Float]:
        """Return the degrees to which documents cover subtopics, from valid labels."""
        return check_degrees(labels, [len(one) for one in sets])

    def check_options(self) -> None:
        """Raise ValueError for invalid parameters; no data are needed."""
        check_usual(self)
        check_whole("k", self.k)
        if not callable(self.loss):
            check_choice("loss", self.loss, COVERAGE_LOSSES)
