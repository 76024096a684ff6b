"""What a ranking oracle must do."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from structsvm.checks import missing_parts
from structsvm.protocols import Float, Int, Oracle, Separator
from structsvm.testing.require import Requirement


def check_oracle(
    oracle: Oracle,
    *,
    shift_invariant: bool = True,
    reference: Callable[[Float, Float], float] | None = None,
    random_state: int = 0,
) -> None:
    """Check a ranking oracle: what trainers rely on (:class:`structsvm.protocols.Oracle`).

    It fills every loss and coefficient; a query's answer does not depend on the queries around it, on earlier calls
    or on other threads; the value is never negative; no output found elsewhere beats the one found here (exact
    oracles); scores in the order of the labels are worth nothing in the end, and equal scores something exactly where
    the oracle says that the labels are informative; permuting documents permutes the problem.

    Parameters
    ----------
    oracle : Oracle
    shift_invariant : bool, default=True
        Whether adding a constant to the scores of a query changes nothing (a joint feature of differences).
    reference : callable, optional
        ``reference(y, scores)``: the value ``max_y loss - scores . coef`` of one short query, by exhaustive search.
        Without it an oracle that is exact among too few outputs passes.
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
        f"informative: expected {n_queries} flags of bool, got {informative.dtype} of shape {informative.shape}",
    )
    factors = separator.query_weights
    require(
        factors is None or (np.shape(factors) == (n_queries,) and bool((np.asarray(factors) >= 0).all())),
        f"query_weights: expected None or {n_queries} numbers >= 0, got {factors!r}",
    )
    require(informative.any(), "informative: nothing can be learned from grades -1 to 4")
    points = list(_score_vectors(rng, y, offsets))
    planes = [_separate(separator, s, offsets, require) for s in points]
    for scores, plane in zip(points, planes, strict=True):
        _check_plane(separator, y, scores, plane, planes, offsets, require)
        if reference is not None:
            _check_reference(reference, y, scores, plane, offsets, require)
        if shift_invariant:
            coef = plane[1]
            sums = _per_query(coef, offsets)
            require(
                (np.abs(sums) <= 1e-9 * (1 + _per_query(np.abs(coef), offsets))).all(),
                "coefficients of a query do not sum to zero: scores may not be shifted",
            )
    _check_independence(separator, points[0], planes[0], offsets, require)
    _check_extremes(separator, y, offsets, informative, require)
    order = np.concatenate([rng.permutation(np.arange(a, b)) for a, b in itertools.pairwise(offsets)])
    permuted = _separate(oracle.bind(y[order], offsets), points[0][order], offsets, require)
    before = planes[0][0] - _per_query(points[0] * planes[0][1], offsets)
    after = permuted[0] - _per_query(points[0][order] * permuted[1], offsets)
    require(
        not separator.exact or bool(np.allclose(before, after, rtol=1e-9, atol=1e-9)),
        "the value depends on the order of the documents",
    )
    # an oracle holds settings, so it can be sent elsewhere
    pickle.loads(pickle.dumps(oracle)).bind(y, offsets)


def _check_plane(
    separator: Separator,
    y: Float,
    scores: Float,
    plane: tuple[Float, Float],
    planes: list[tuple[Float, Float]],
    offsets: Int,
    require: Requirement,
) -> None:
    """The output found at these scores: not worse than the true one, nor, where exact, than those found elsewhere."""
    (loss, coef), informative = plane, np.asarray(separator.informative)
    value = loss - _per_query(scores * coef, offsets)
    slack = 1e-9 * (1 + _per_query(np.abs(scores * coef), offsets))

    def where(bad: Any) -> str:
        """Show the shortest of the queries where a property does not hold."""
        lengths = np.where(bad, np.diff(offsets), y.shape[0] + 1)
        q = int(lengths.argmin())
        rows = slice(offsets[q], offsets[q + 1])
        return f": query {q}, y={y[rows].tolist()}, scores={scores[rows].tolist()}"

    require((loss >= 0).all(), f"a loss is negative{where(loss < 0)}")
    require(
        (value >= -slack).all(),
        f"the output found is worse than the true one{where(value < -slack)}",
    )
    require(
        not loss[~informative].any() and not coef[np.repeat(~informative, np.diff(offsets))].any(),
        "an uninformative query has a loss or coefficients",
    )
    for other_loss, other_coef in planes if separator.exact else ():
        rival = other_loss - _per_query(scores * other_coef, offsets)
        margin = slack + 1e-9 * _per_query(np.abs(scores * other_coef), offsets)
        beaten = rival > value + margin
        worst = int(np.where(beaten, np.diff(offsets), y.shape[0] + 1).argmin())
        require(
            not beaten.any(),
            f"not exact: an output of value {rival[worst]:.12g} exists where {value[worst]:.12g} was "
            f"found{where(beaten)}",
        )


def _check_reference(
    reference: Callable[[Float, Float], float],
    y: Float,
    scores: Float,
    plane: tuple[Float, Float],
    offsets: Int,
    require: Requirement,
) -> None:
    value = plane[0] - _per_query(scores * plane[1], offsets)
    for q in np.flatnonzero(np.diff(offsets) <= 6):
        rows = slice(offsets[q], offsets[q + 1])
        expected = reference(y[rows], scores[rows])
        require(
            abs(expected - value[q]) <= 1e-9 * (1 + abs(expected)),
            f"value {value[q]:.12g} where the reference gives {expected:.12g}, for y={y[rows]}, "
            f"scores={scores[rows]}",
        )


def _check_independence(
    separator: Separator, scores: Float, plane: tuple[Float, Float], offsets: Int, require: Requirement
) -> None:
    n_queries = offsets.shape[0] - 1

    def one(q: int) -> bool:
        loss, coef = np.empty(1), np.empty(offsets[q + 1] - offsets[q])
        separator.separate(scores[offsets[q] : offsets[q + 1]], q, q + 1, loss, coef)
        return bool(loss[0] == plane[0][q] and (coef == plane[1][offsets[q] : offsets[q + 1]]).all())

    with ThreadPoolExecutor(4) as pool:
        same = list(pool.map(one, list(range(n_queries))[::-1] * 4))
    require(all(same), "a query's answer depends on its neighbours, on earlier calls or on other threads")


def _check_extremes(
    separator: Separator, y: Float, offsets: Int, informative: Any, require: Requirement
) -> None:
    if not separator.exact:
        return
    loss, _ = _separate(separator, np.zeros(y.shape[0]), offsets, require)
    require(((loss > 0) == informative).all(), "informative is not where equal scores leave a loss")
    loss, _ = _separate(separator, 1e7 * y, offsets, require)
    require(
        (loss <= 1e-12).all(),
        "scores in the order of the labels, by wide margins, still have a loss",
    )


def _labels(rng: np.random.Generator) -> tuple[Float, Int]:
    """Graded queries of many lengths; also single documents, equal labels and negative ones."""
    queries = [rng.integers(-1, 5, n).astype(np.float64) for n in (1, 2, 3, 4, 5, 6, 6, 9, 14, 30, 61)]
    queries += [
        np.zeros(4),
        np.ones(5),
        np.full(3, -1.0),
        np.array([1.0]),
        np.array([0.0, 1.0]),
        np.array([1.0, 0.0]),
    ]
    queries += [(rng.random(n) < 0.2).astype(np.float64) for n in (10, 20, 40)]
    # short ones for the reference, where an output may differ from the true one by several swaps
    short = ([1, 1, 0, 0], [1, 0, 1, 0, 1, 0], [2, 0, 2, 1, 0], [3, 0, 1, 2, 0, -1])
    queries += [np.array(labels, dtype=np.float64) for labels in short]
    offsets = np.concatenate(([0], np.cumsum([len(q) for q in queries]))).astype(np.int64)
    return np.concatenate(queries), offsets


def _score_vectors(rng: np.random.Generator, y: Float, offsets: Int) -> Iterator[Float]:
    """From untrained to trained, with ties; zeros and the reverse order too."""
    noise = rng.normal(size=len(y))
    yield noise
    yield np.zeros(y.shape[0])
    yield -y
    for size in (0.01, 0.1, 1.0, 10.0):
        for skill in (0.0, 0.05, 0.5, 2.0):
            scores = size * noise[rng.permutation(y.shape[0])] + skill * y
            yield scores
            yield np.asarray(scores.round(1))


def _separate(separator: Separator, scores: Float, offsets: Int, require: Requirement) -> tuple[Float, Float]:
    loss, coef = np.full(offsets.shape[0] - 1, np.nan), np.full(scores.shape[0], np.nan)
    given = scores.copy()
    given.flags.writeable = False
    separator.separate(given, 0, offsets.shape[0] - 1, loss, coef)
    require(np.isfinite(loss).all() and np.isfinite(coef).all(), "a loss or coefficient is not filled")
    return loss, coef


def _per_query(values: Float, offsets: Int) -> Float:
    return np.add.reduceat(values, offsets[:-1])
