"""``check_oracle``: the properties that a ranking oracle must have."""

import itertools
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from structsvm.common.checks import missing_parts
from structsvm.protocols import Float, Int, Oracle, Separator
from structsvm.testing.require import Requirement


def check_oracle(
    oracle: Oracle,
    *,
    shift_invariant: bool = True,
    reference: Callable[[Float, Float], float] | None = None,
    random_state: int = 0,
) -> None:
    """Check a ranking oracle: the properties that trainers need (:class:`structsvm.protocols.Oracle`).

    Every loss and coefficient is filled. The result of a query does not depend on other queries, on earlier calls or on
    other threads. The value is never negative. For exact oracles, no output found at other scores is violated more.
    Scores in the order of the labels have no loss if they are far enough apart, and equal scores have a loss exactly
    where ``informative`` is True. The value does not depend on the order of the documents.

    Parameters
    ----------
    oracle : Oracle
        Oracle to check.
    shift_invariant : bool, default=True
        Whether adding a constant to the scores of a query changes nothing (if the joint feature consists of
        differences).
    reference : callable, optional
        ``reference(y, scores)``: the value ``max_y loss - scores . coef`` of one short query, by exhaustive search.
        Without it, an oracle that maximises over too few outputs passes.
    random_state : int, default=0
        Seed of the labels and scores.

    Examples
    --------
    >>> from structsvm.oracles import get_oracle
    >>> check_oracle(get_oracle("map"))
    """
    require = Requirement(repr(oracle))
    require(not isinstance(oracle, type), "expected an instance, got the class; pass an instance")
    require(callable(getattr(oracle, "bind", None)), "has no method bind(y, offsets)")
    rng = np.random.default_rng(random_state)
    y, offsets = _labels(rng)
    separator = oracle.bind(y, offsets)
    missing = missing_parts(Separator, separator)
    require(not missing, f"bind() returns a separator without {missing}")
    informative = np.asarray(separator.informative)
    n_queries = offsets.shape[0] - 1
    require(
        informative.shape == (n_queries,) and informative.dtype == np.bool_,
        f"informative: expected {n_queries} booleans, got {informative.dtype} of shape {informative.shape}",
    )
    factors = separator.query_weights
    require(
        factors is None or (np.shape(factors) == (n_queries,) and bool((np.asarray(factors) >= 0).all())),
        f"query_weights: expected None or {n_queries} numbers >= 0, got {factors!r}",
    )
    require(informative.any(), "informative: nothing can be learned from grades -1 to 4")
    bound = _Bound(separator, y, offsets, require)
    # a plane for every vector of scores; each plane is compared with the planes of all other vectors
    points = list(_score_vectors(rng, y, offsets))
    planes = [bound.separate(scores) for scores in points]
    for scores, plane in zip(points, planes, strict=True):
        bound.check_plane(scores, plane, planes)
        if reference is not None:
            bound.check_reference(reference, scores, plane)
        # a coefficient vector of pairs sums to zero in each query
        if shift_invariant:
            sums, sizes = bound.per_query(plane[1]), bound.per_query(np.abs(plane[1]))
            require(
                (np.abs(sums) <= 1e-9 * (1 + sizes)).all(),
                "coefficients of a query do not sum to zero: shifted scores change the result",
            )
    bound.check_independence(points[0], planes[0])
    if separator.exact:
        bound.check_extremes()
        order = np.concatenate([rng.permutation(np.arange(a, b)) for a, b in itertools.pairwise(offsets)])
        permuted = _Bound(oracle.bind(y[order], offsets), y[order], offsets, require)
        scores = points[0][order]
        before, after = bound.value(points[0], planes[0]), permuted.value(scores, permuted.separate(scores))
        require(
            bool(np.allclose(before, after, rtol=1e-9, atol=1e-9)),
            "the value depends on the order of the documents",
        )
    # an oracle holds only settings, so that it can be sent to another process
    pickle.loads(pickle.dumps(oracle)).bind(y, offsets)


@dataclass(frozen=True)
class _Bound:
    """An oracle bound to queries, and the requirements on it. A plane consists of losses and coefficients."""

    separator: Separator
    y: Float
    offsets: Int
    require: Requirement

    def separate(self, scores: Float) -> tuple[Float, Float]:
        loss, coef = np.full(self.offsets.shape[0] - 1, np.nan), np.full(scores.shape[0], np.nan)
        given = scores.copy()
        given.flags.writeable = False
        self.separator.separate(given, 0, self.offsets.shape[0] - 1, loss, coef)
        filled = np.isfinite(loss).all() and np.isfinite(coef).all()
        self.require(filled, "a loss or coefficient is not filled, or is not a finite number")
        # compiled kernels ignore the read-only flag, so the scores are compared, too
        self.require(np.array_equal(given, scores), "the scores were changed")
        return loss, coef

    def per_query(self, values: Float) -> Float:
        return np.add.reduceat(values, self.offsets[:-1])

    def value(self, scores: Float, plane: tuple[Float, Float]) -> Float:
        return plane[0] - self.per_query(scores * plane[1])

    def worst(self, bad: Any) -> int:
        """Return the shortest query for which a property does not hold."""
        return int(np.where(bad, np.diff(self.offsets), self.y.shape[0] + 1).argmin())

    def check_plane(
        self, scores: Float, plane: tuple[Float, Float], planes: list[tuple[Float, Float]]
    ) -> None:
        """Require that the plane is not below that of the true output, nor, if exact, below those of other scores."""
        # every plane is a lower bound on the value at any scores: a plane above the result proves that the oracle
        # missed the most violated output
        (loss, coef), informative = plane, np.asarray(self.separator.informative)
        value = self.value(scores, plane)
        slack = 1e-9 * (1 + self.per_query(np.abs(scores * coef)))

        def where(bad: object) -> str:
            q = self.worst(bad)
            rows = slice(self.offsets[q], self.offsets[q + 1])
            return f": query {q}, y={self.y[rows].tolist()}, scores={scores[rows].tolist()}"

        least = loss.min()  # a difference of sums may be below 0 by rounding
        self.require(least >= -1e-9, f"a loss is negative: {least:.12g}{where(loss == least)}")
        worse = value < -slack
        self.require(not worse.any(), f"the true output is violated more than the one returned{where(worse)}")
        self.require(
            not loss[~informative].any() and not coef[np.repeat(~informative, np.diff(self.offsets))].any(),
            "an uninformative query has a loss or coefficients",
        )
        for other in planes if self.separator.exact else ():
            rival = self.value(scores, other)
            beaten = rival > value + slack + 1e-9 * self.per_query(np.abs(scores * other[1]))
            q = self.worst(beaten)
            self.require(
                not beaten.any(),
                f"not exact: an output of value {rival[q]:.12g} exists, the result is {value[q]:.12g}"
                f"{where(beaten)}",
            )

    def check_reference(
        self, reference: Callable[[Float, Float], float], scores: Float, plane: tuple[Float, Float]
    ) -> None:
        value = self.value(scores, plane)
        # exhaustive search is possible only for short queries
        for q in np.flatnonzero(np.diff(self.offsets) <= 6):
            rows = slice(self.offsets[q], self.offsets[q + 1])
            expected = reference(self.y[rows], scores[rows])
            self.require(
                abs(expected - value[q]) <= 1e-9 * (1 + abs(expected)),
                f"value {value[q]:.12g} where the reference gives {expected:.12g}, for y={self.y[rows]}, "
                f"scores={scores[rows]}",
            )

    def check_independence(self, scores: Float, plane: tuple[Float, Float]) -> None:
        # each query alone, in reverse order, four times, from four threads
        def one(q: int) -> bool:
            rows = slice(self.offsets[q], self.offsets[q + 1])
            loss, coef = np.empty(1), np.empty(scores[rows].shape[0])
            self.separator.separate(scores[rows], q, q + 1, loss, coef)
            return bool(loss[0] == plane[0][q] and (coef == plane[1][rows]).all())

        with ThreadPoolExecutor(4) as pool:
            same = list(pool.map(one, list(range(self.offsets.shape[0] - 1))[::-1] * 4))
        self.require(all(same), "the result of a query depends on other queries, calls or threads")

    def check_extremes(self) -> None:
        # equal scores, as before training; then margins so wide that no other output is violated more than the true one
        loss, _ = self.separate(np.zeros(self.y.shape[0]))
        agrees = (loss > 0) == self.separator.informative
        self.require(agrees.all(), "informative: expected True exactly where equal scores have a loss")
        loss, _ = self.separate(1e7 * self.y)
        in_order = (loss <= 1e-12).all()
        self.require(in_order, "scores in the order of the labels, by wide margins, still have a loss")


def _labels(rng: np.random.Generator) -> tuple[Float, Int]:
    """Return labels and offsets: graded queries of many lengths, single documents, equal and negative labels."""
    queries = [rng.integers(-1, 5, n).astype(np.float64) for n in (1, 2, 3, 4, 5, 6, 6, 9, 14, 30, 61)]
    queries += [np.array(q, dtype=np.float64) for q in ([0] * 4, [1] * 5, [-1] * 3, [1], [0, 1], [1, 0])]
    queries += [(rng.random(n) < 0.2).astype(np.float64) for n in (10, 20, 40)]
    # short queries for the reference, in which outputs may differ from the true one by several swaps
    short = ([1, 1, 0, 0], [1, 0, 1, 0, 1, 0], [2, 0, 2, 1, 0], [3, 0, 1, 2, 0, -1])
    queries += [np.array(labels, dtype=np.float64) for labels in short]
    offsets = np.concatenate(([0], np.cumsum([len(q) for q in queries]))).astype(np.int64)
    return np.concatenate(queries), offsets


def _score_vectors(rng: np.random.Generator, y: Float, offsets: Int) -> Iterator[Float]:
    """Yield scores that resemble those of models at several stages of training, with ties, and also zeros and the
    reverse order."""
    noise = rng.normal(size=len(y))
    yield noise
    yield np.zeros(y.shape[0])
    yield -y
    for size in (0.01, 0.1, 1.0, 10.0):
        for skill in (0.0, 0.05, 0.5, 2.0):
            scores = size * noise[rng.permutation(y.shape[0])] + skill * y
            yield scores
            yield np.asarray(scores.round(1))
