"""The world of the demo: noisy images of handwritten digits, rankers of images, and visitors who look for digits.

For the rankers, the same pixels of all images are replaced by noise. Plain distance weights these pixels like all
others; a learned ranker gives them little weight.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import BadInput
from structsvm.online.clicklog import ClickLog, Impression
from structsvm.online.users import PositionBasedUser
from structsvm.protocols import Float

EUCLIDEAN, LEARNED = "euclidean", "learned"
TWINS = ("twin-a", "twin-b")
N_NOISY = 24
"""Number of noisy pixels among 64; with fewer, the rankers differ too little in the first ten for a short demo."""

N_QUERIES, N_DOCUMENTS = 60, 500
_N_TRAIN_QUERIES, _N_TRAIN_DOCUMENTS = 150, 300
DEPTH = 20
_C_LABELS, _C_CLICKS = 10.0, 0.3
_JITTER = 0.2
"""Noise of the twins' scores, relative to the standard deviation of distances: their lists differ at most ranks."""


@dataclass(frozen=True)
class ClickTraining:
    """The result of learning from clicks."""

    name: str
    n_impressions: int
    n_clicks: int
    looks: tuple[float, ...]
    estimated: bool


@dataclass(eq=False)
class World:
    """Images, rankers of images, and visitors."""

    clean: Float
    """Images without noise, one per row; 64 pixels in [0, 1]."""
    seen: Float
    """Images with noise, as the rankers get them."""
    digits: NDArray[np.int64]
    noisy: NDArray[np.bool_]
    queries: NDArray[np.int64]
    """Numbers of the images that are queries."""
    documents: NDArray[np.int64]
    """Numbers of the images that are documents."""
    training: tuple[NDArray[np.int64], NDArray[np.int64]]
    """Further queries and documents, on which the labelled ranker is trained."""
    weights: dict[str, Float] = field(default_factory=dict)
    """Weights of the learned rankers, per pixel of the absolute difference."""
    visitor: PositionBasedUser = field(
        # examines nearly all ten, misses some relevant documents and seldom clicks on others
        default_factory=lambda: PositionBasedUser((0.03, 0.9), tuple(0.95**k for k in range(10)))
    )
    _scores: dict[tuple[str, int], Float] = field(default_factory=dict)

    @classmethod
    def make(cls, random_state: int = 0) -> World:
        """Return the world of a seed; no ranker is learned yet."""
        from sklearn.datasets import load_digits

        rng = np.random.default_rng(random_state)
        bunch = load_digits()
        clean = (bunch.images / 16.0).reshape(-1, 64)
        noisy = np.zeros(64, dtype=bool)
        noisy[rng.permutation(64)[:N_NOISY]] = True
        seen = clean.copy()
        seen[:, noisy] = rng.random((clean.shape[0], N_NOISY))
        order = rng.permutation(clean.shape[0])
        sizes = np.cumsum([_N_TRAIN_QUERIES, _N_TRAIN_DOCUMENTS, N_QUERIES, N_DOCUMENTS])
        asking, asked, queries, documents = np.split(order[: sizes[-1]], sizes[:-1])
        return cls(clean, seen, bunch.target, noisy, queries, documents, (asking, asked))

    def differences(self, asking: Any, asked: Any) -> Float:
        """Return ``|query - document|`` of the noisy pixels, shape (n_asking, n_asked, 64)."""
        return np.abs(self.seen[asking][:, None, :] - self.seen[asked][None, :, :])

    def learn_from_labels(self) -> None:
        """Learn the ranker ``learned`` from labelled images."""
        from structsvm.estimators.structural import StructuralRanker

        asking, asked = self.training
        X = self.differences(asking, asked).reshape(-1, 64)
        y = (self.digits[asking][:, None] == self.digits[asked][None, :]).astype(np.float64).ravel()
        model = StructuralRanker("roc", C=_C_LABELS).fit(X, y, qid=np.repeat(asking, asked.shape[0]))
        self.weights[LEARNED] = model.coef_

    def learn_from_clicks(self, name: str, records: Iterable[dict[str, Any]]) -> ClickTraining:
        """Learn a ranker only from lines of a click log, whose queries are the query images."""
        from structsvm.clicks import ClickSVM, Propensities, cells_of_log, harvest

        log = ClickLog.of(Impression.from_dict(record) for record in records)
        cells = cells_of_log(log)
        estimated = True
        try:
            looks = harvest(cells)
        except BadInput:  # too few documents were shown at several positions
            estimated, looks = False, Propensities.given([1.0] * 10)
        asking = np.array([int(str(query)[1:]) for query in cells.query_ids])
        X = self.differences(asking, self.documents).reshape(-1, 64)
        ids = self.ids(self.documents)
        model = ClickSVM(C=_C_CLICKS, propensities=looks).fit(
            X, cells, qid=np.repeat(cells.query_ids, len(ids)), docid=np.tile(ids, len(asking))
        )
        self.weights[name] = model.coef_
        clicks = sum(int(one.clicked.sum()) for one in log.impressions)
        return ClickTraining(name, len(log.impressions), clicks, tuple(looks.theta.tolist()), estimated)

    @staticmethod
    def ids(images: Any) -> list[str]:
        """Return document ids: ``d`` and the number of the image."""
        return [f"d{image}" for image in images]

    def ranking(self, ranker: str, query: int, rng: np.random.Generator | None = None) -> list[str]:
        """Return the first documents for an image, best first.

        Twins rank by plain distance with a little noise, sampled anew each time, so neither is better.
        """
        name = ranker if ranker in self.weights else EUCLIDEAN
        scores = self._scores.get((name, query))
        if scores is None:
            apart = self.differences([query], self.documents)[0]
            plain = name == EUCLIDEAN
            scores = -np.sqrt((apart * apart).sum(axis=1)) if plain else apart @ self.weights[name]
            self._scores[name, query] = scores
        if ranker in TWINS:
            noise = np.random.default_rng(rng).normal(size=scores.shape)
            scores = scores + _JITTER * float(scores.std()) * noise
        order = np.argsort(-scores, kind="stable")[:DEPTH]
        return self.ids(self.documents[order])

    def grades(self, query: int, documents: Iterable[str]) -> NDArray[np.int64]:
        """Return 1 for each document that shows the digit of the query, else 0."""
        shown = np.array([int(name[1:]) for name in documents])
        return (self.digits[shown] == self.digits[query]).astype(np.int64)

    def clicks(self, query: int, documents: Iterable[str], rng: np.random.Generator) -> list[int]:
        """Return the positions, from 1, that a visitor clicks on."""
        clicked = self.visitor.click(self.grades(query, documents), rng)
        return [int(place) + 1 for place in np.flatnonzero(clicked)]

    def precision(self, ranker: str) -> float:
        """Return the share of correct digits among the first ten, over all queries."""
        tops = [self.ranking(ranker, int(query))[:10] for query in self.queries]
        found = [self.grades(int(q), top) for q, top in zip(self.queries, tops, strict=True)]
        return float(np.mean(found))
