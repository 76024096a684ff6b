"""Weighted coverage (SVM-div, thesis chapter 4): find the most violated subsets during training."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from structsvm.common.candidates import Coverage
from structsvm.common.checks import BadInput, check_choice
from structsvm.common.machine import map_in_threads
from structsvm.common.portable.sums import combine, dot, products
from structsvm.common.subtopic_gain import SubtopicGain
from structsvm.oracles.selection import count_covered, greedy, swapped, with_subtopics
from structsvm.protocols import Cut, Float, Int
from structsvm.queries import unit_weights

SEARCHES = ("greedy", "swap")

UserLoss = Callable[[NDArray[np.bool_], Int], float]


class CoverageProblem:
    """A :class:`~structsvm.protocols.Problem` over labelled candidate sets.

    The benefits of covering an element of each bin are ``bins @ w[:n_word_features]``; the remaining weights belong to
    the document features. A callable ``loss`` receives the boolean labels and the chosen documents, in order; it must
    not increase when a document is added.
    """

    # The true output of a set is the greedy cover of its subtopics, which need not cover all of them. In this
    # implementation it is one of the outputs of (4.5), with its own loss and a feature difference of zero, so that the
    # slack bounds the loss of the output with the highest value even if that is the true output. The thesis omits the
    # true output, which changes the optimum only if the scores of all other outputs are lower by more than its loss.
    # Greedy and swap separation may miss the most violated output. Every output is therefore stored with its query and
    # used again if it is more violated than the new output: the estimated primal value is then never below the dual
    # value.

    n_bytes = 0
    exact = False
    support: tuple[Int, Int] | None = None

    def __init__(
        self,
        coverages: Sequence[Coverage],
        labels: Sequence[NDArray[np.bool_]],
        bins: Float,
        k: int,
        *,
        loss: str | UserLoss = "weighted",
        separation: Literal["greedy", "swap"] = "greedy",
        weights: Any = None,
        n_jobs: int = 1,
    ) -> None:
        check_choice("separation", separation, SEARCHES)
        if separation != "greedy" and (callable(loss) or loss == "alpha_ndcg"):
            raise BadInput(
                "separation",
                f"expected a coverage loss ('weighted' or 'unweighted'), got {loss!r}",
                value=separation,
            )
        self.n_queries = len(coverages)
        self.n_word_features = int(bins.shape[1])
        self.n_features = self.n_word_features + int(coverages[0].features.shape[1])
        self.chunk = 8
        self.n_jobs = n_jobs
        self.weights = unit_weights(weights, self.n_queries, "set")
        self._bins = np.ascontiguousarray(bins)
        self._separation = separation
        self._queries = [
            _Query(coverage, matrix, k, loss) for coverage, matrix in zip(coverages, labels, strict=True)
        ]
        self._caches = [_Cache(self.n_features) for _ in self._queries]

    @property
    def targets(self) -> list[Int]:
        """The true output (document indices) of each set."""
        return [query.target for query in self._queries]

    def cut(self, w: Float) -> Cut:
        """See :class:`structsvm.protocols.Problem`."""
        loss, joint = np.empty(self.n_queries), np.empty((self.n_queries, self.n_features))
        tasks = range(0, self.n_queries, self.chunk)

        def fill(first: int) -> None:
            last = min(first + self.chunk, self.n_queries)
            self.query_cuts(w, first, last, loss[first:last], joint[first:last])

        map_in_threads(fill, tasks, self.n_jobs)
        return Cut(dot(self.weights, loss), combine(self.weights, joint))

    def query_cuts(self, w: Float, first: int, last: int, loss: Float, joint: Float) -> None:
        """See :class:`structsvm.protocols.Problem`."""
        benefits = products(self._bins, w[: self.n_word_features])
        for q in range(first, last):
            row = joint[q - first]
            loss[q - first] = self._separate(self._queries[q], w, benefits, row)
            loss[q - first] = self._caches[q].best(loss[q - first], row, w)
            # use the true output if no other output is more violated; its feature difference is zero
            if loss[q - first] - dot(row, w) <= self._queries[q].target_loss:
                loss[q - first] = self._queries[q].target_loss
                row[:] = 0.0

    def _separate(self, query: "_Query", w: Float, benefits: Float, joint: Float) -> float:
        """Find the most violated output; write psi(target) - psi(output) to ``joint``, and return the loss of the
        output."""
        coverage = query.coverage
        values = products(coverage.features, w[self.n_word_features :])
        if query.shares is None:
            chosen = greedy(coverage, benefits, values, query.k, beside=query.loss_after).chosen
        else:
            # each covered subtopic reduces the loss by its share
            given = query.both, np.append(benefits, -query.shares), values, query.k
            chosen = swapped(*given) if self._separation == "swap" else greedy(*given).chosen
        # the word features of each bin are weighted by the difference in covered elements; the document features follow
        joint[: self.n_word_features] = combine(
            query.target_counts - count_covered(coverage, chosen), self._bins
        )
        joint[self.n_word_features :] = query.target_features - coverage.features[chosen].sum(axis=0)
        return query.loss(chosen)


def user_loss_of(loss: UserLoss, labels: NDArray[np.bool_], chosen: Int) -> float:
    """Return a user's loss of the chosen documents; raise unless it is a finite number."""
    value = float(loss(labels, chosen))
    if not np.isfinite(value):
        raise BadInput("loss", f"expected a finite number for the documents {chosen.tolist()}, got {value}")
    return value


class _Query:
    """A candidate set bound to its labels.

    For losses that are sums over uncovered subtopics, ``both`` has the subtopics as additional elements, and ``shares``
    their weights.
    """

    def __init__(self, coverage: Coverage, labels: NDArray[np.bool_], k: int, loss: str | UserLoss) -> None:
        n = coverage.n_documents
        self.coverage, self.k, self.labels = coverage, min(k, n), labels
        self.shares: Float | None = None
        self.user_loss = loss if callable(loss) else None
        if not isinstance(loss, str):
            self.target = greedy(
                coverage,
                np.zeros(coverage.n_bins),
                np.zeros(n),
                k,
                beside=lambda chosen: -self.loss_after(chosen),
            ).chosen
        else:
            self.gain = SubtopicGain(labels.astype(np.float64), loss)
            self.target = self.gain.ideal(k)
            if not self.gain.by_order:
                self.both = with_subtopics(coverage, self.gain.degrees > 0)
                self.shares = self.gain.weights / max(self.gain.total, 1.0)
        self.target_loss = self.loss(self.target)
        self.target_counts = count_covered(coverage, self.target)
        self.target_features: Float = coverage.features[self.target].sum(axis=0)

    def loss(self, chosen: Int) -> float:
        if self.user_loss is None:
            return 1.0 - self.gain.value(chosen, self.k)
        return user_loss_of(self.user_loss, self.labels, chosen)

    def loss_after(self, chosen: list[int]) -> Float:
        """Return the loss if each document is chosen next, up to a constant."""
        if self.user_loss is None:
            return -self.gain.added(chosen, self.k)
        return np.fromiter(
            (0.0 if d in chosen else self.loss(np.array([*chosen, d])) for d in range(len(self.labels))),
            np.float64,
            len(self.labels),
        )


class _Cache:
    """The outputs of one query found so far, with their losses and joint feature differences."""

    def __init__(self, n_features: int) -> None:
        self._loss = np.empty(4)
        self._joint = np.empty((4, n_features))
        self._n = 0

    def best(self, loss: float, joint: Float, w: Float) -> float:
        """Store a new output, overwrite ``joint`` with the most violated stored output at ``w``, and return that
        output's loss."""
        n = self._n
        violation = self._loss[:n] - products(self._joint[:n], w)
        old = int(np.argmax(violation)) if n else -1
        # an output that is not more violated than all stored outputs is not stored
        if n and violation[old] >= loss - dot(joint, w):
            joint[:] = self._joint[old]
            return float(self._loss[old])
        if n == self._loss.shape[0]:
            self._loss = np.concatenate((self._loss, np.empty(n)))
            self._joint = np.concatenate((self._joint, np.empty_like(self._joint)))
        self._loss[n] = loss
        self._joint[n] = joint
        self._n = n + 1
        return loss
