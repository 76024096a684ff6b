"""Click weights that increase the power of a test, learned from logs with a known winner.

Each row of ``psi`` is ``Psi_j`` of one query, with the better ranker as ``own``; queries of several pairs are stacked.
The statistic of a new pair is then ``psi_new @ w`` with the learned weights ``w``.
"""

import inspect
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from msgspec import DecodeError, Meta, Struct, ValidationError
from msgspec.json import decode
from numpy.typing import ArrayLike

from structsvm.common.checks import BadInput, check_choice, check_number
from structsvm.common.files import read_text, replacing
from structsvm.common.portable.arrays import combine, dot, matmul, norm, products, solve
from structsvm.common.portable.cholesky import shortest
from structsvm.common.portable.elementary import exp, expit, log1p
from structsvm.common.portable.sums import gram
from structsvm.common.records import plain
from structsvm.online.clicklog import ClickLog
from structsvm.online.statistics.features import FEATURES, psi
from structsvm.online.statistics.sample_size import queries_needed
from structsvm.protocols import Float

_NEWTON_STEPS = 200


def max_mean_difference(psi: ArrayLike) -> Float:
    """Return the unit vector in the direction of ``sum_j Psi_j``, which maximises the mean score (thesis 7.2.1)."""
    total = _rows(psi).sum(axis=0)
    return np.asarray(total / _length(total))


def inverse_z_test(psi: ArrayLike, *, ridge: float = 0.0) -> Float:
    """Return the weights that maximise the z-score on the training queries (thesis 7.2.2).

    The weights are ``Sigma^-1 Psi / sqrt(Psi' Sigma^-1 Psi)``, with the pseudo-inverse if ``Sigma`` is singular, for
    example if all clicks are on the first page. With few queries, ``ridge=1`` keeps the weights of rare features small.
    """
    rows = _rows(psi)
    total = rows.sum(axis=0)
    _length(total)
    check_number("ridge", ridge, 0)
    # total'w / sqrt(w' Sigma w) with the uncentred Sigma is an increasing function of the z-score, and largest at
    # Sigma^-1 total
    sigma = matmul(rows.T, rows) + ridge * np.eye(rows.shape[1])
    # without a ridge sigma may be singular; total lies in its range
    w = solve(sigma, total) if ridge else shortest(sigma, total)
    return np.asarray(w / math.sqrt(dot(total, w)))


def inverse_rank_test(psi: ArrayLike, *, ridge: float = 0.0) -> Float:
    """Return the weights of a logistic regression without intercept that predicts the better ranker (thesis 7.2.3).

    The weights maximise the likelihood. With few queries the rows may be separable, so that no maximum exists;
    ``ridge=1`` then gives finite weights, and has little effect with hundreds of queries.
    """
    rows = _rows(psi)
    check_number("ridge", ridge, 0)
    if not rows.any():
        raise BadInput("psi", "expected queries with clicks, but all rows are zero")
    if ridge == 0 and _never_wrong(rows):
        raise BadInput(
            "ridge",
            "the likelihood has no maximum, since the queries are separable",
            "pass ridge > 0",
            value=0,
        )

    def loss(w: Float) -> float:
        margins = products(rows, w)
        return float((np.maximum(-margins, 0) + log1p(exp(-np.abs(margins)))).sum()) + ridge / 2 * dot(w, w)

    w = np.zeros(rows.shape[1])
    for _ in range(_NEWTON_STEPS):
        wrong = expit(-products(rows, w))
        uphill = combine(wrong, rows) - ridge * w
        curvature = gram((rows * (wrong * (1 - wrong))[:, None]).T, rows.T) + ridge * np.eye(len(w))
        step = solve(curvature, uphill) if ridge else shortest(curvature, uphill)
        if dot(uphill, step) <= 1e-14 * loss(w):
            break
        while loss(w + step) > loss(w):
            step = step / 2
        w = w + step
    return w


def minimax_p_value(psi: ArrayLike, pair: ArrayLike | None = None, *, ridge: float = 0.0) -> Float:
    """Return the weights that minimise the maximum p-value over several pairs of rankers (thesis 7.5).

    The other methods pool the queries of all pairs and may ignore a pair with a small difference. This method maximises
    the smallest z-score (thesis 7.1.1) of all pairs, which is equivalent, since p decreases with z.

    Parameters
    ----------
    psi : array-like, shape (n_queries, n_features)
        ``Psi_j`` of each query, positive in favour of the better ranker.
    pair : array-like, shape (n_queries,), optional
        The pair of rankers of each query. For one pair, the default, the weights equal those of :func:`inverse_z_test`.
    ridge : float, default=0
        Added to ``Sigma`` of each pair, as in :func:`inverse_z_test`.

    Notes
    -----
    Where the mean score of a pair is positive, its z-score is a quasi-concave function of the weights, and so is the
    smallest z-score. The local optimum that SLSQP finds from weights with positive means is therefore the global one.
    Only the direction matters; weights are scaled to ``w' Sigma w = 1``, as in :func:`inverse_z_test`.

    On the logs of ``experiments/interleaving_statistics.py`` the smallest z-score of six pairs rose from 2.7 to 3.6 and
    from 1.9 to 3.2; on a held-out pair it was lower than with :func:`inverse_z_test` in 11 of 12 cases.

    Examples
    --------
    >>> import numpy as np
    >>> from structsvm.online.statistics.significance import z_test
    >>> psi = np.array([[1, 0], [1, 1], [0, -1], [2, 0], [-1, 2], [1, 1], [0, 1], [0, 1]])
    >>> w = minimax_p_value(psi, [0, 0, 0, 0, 1, 1, 1, 1])
    >>> [float(np.round(z_test(psi[k : k + 4] @ v).p_value, 3)) for v in (w, inverse_z_test(psi)) for k in (0, 4)]
    [0.03, 0.03, 0.122, 0.0]
    """
    rows = _rows(psi)
    check_number("ridge", ridge, 0)
    pairs = np.zeros(len(rows)) if pair is None else np.asarray(pair)
    if pairs.shape != (len(rows),):
        raise BadInput("pair", f"expected shape ({len(rows)},), one for each query, got {pairs.shape}")
    parts = [rows[pairs == one] for one in np.unique(pairs)]
    if len(parts) == 1:
        return inverse_z_test(rows, ridge=ridge)
    from scipy.linalg import eigh
    from scipy.optimize import minimize, nnls

    # basis of the range of Sigma, scaled so that Sigma of all queries is the identity
    values, vectors = eigh(matmul(rows.T, rows))
    kept = values > values[-1] * 1e-12
    basis = vectors[:, kept] / np.sqrt(values[kept])
    totals = np.array([products(basis.T, part.sum(axis=0)) for part in parts])
    # z / sqrt(1 + z^2) = total' u / sqrt(u' M u): increasing in z, and finite for zero variance
    M = np.array(
        [
            matmul(matmul(basis.T, matmul(part.T, part) + ridge * np.eye(rows.shape[1])), basis)
            + (1 - 1 / len(part)) * np.outer(total, total)
            for part, total in zip(parts, totals, strict=True)
        ]
    )

    def scores(point: Float) -> tuple[Float, Float]:
        """Return the z-score of each pair minus the last coordinate of ``point``, and the gradients."""
        u, least = point[:-1], point[-1]
        Mu = np.einsum("kij,j->ki", M, u)
        length = np.sqrt(np.einsum("ki,i->k", Mu, u))[:, None]
        total = np.einsum("ki,i->k", totals, u)[:, None]
        gradients = totals / length - total * Mu / (length * length * length)
        return (total / length)[:, 0] - least, np.hstack([gradients, -np.ones((len(parts), 1))])

    # the shortest weights with total' u / |total| >= 1 in all pairs (Lawson and Hanson's LDP) are the starting point
    directions = np.array([total / _length(total) for total in totals])
    system, target = np.vstack([directions.T, np.ones(len(parts))]), np.append(np.zeros(basis.shape[1]), 1.0)
    # LDP: nonnegative least squares on the system solves min |u| with directions @ u >= 1; a residual of zero means
    # that no u satisfies all constraints.
    residual = products(system, nnls(system, target)[0]) - target
    if norm(residual) < 1e-7:
        raise BadInput("psi", "no weights make the better ranker of every pair win", "omit a pair")
    start = residual[:-1] / norm(residual[:-1])
    settings: dict[str, Any] = {
        "fun": lambda point: -point[-1],
        "jac": lambda _: np.append(np.zeros(len(start)), -1.0),
        "method": "SLSQP",
        "constraints": [
            {"type": "ineq", "fun": lambda point: scores(point)[0], "jac": lambda point: scores(point)[1]},
            {"type": "eq", "fun": lambda point: [dot(start, point[:-1]) - 1], "jac": lambda _: [*start, 0.0]},
        ],
        "options": {"ftol": 1e-15, "maxiter": 1000},
    }
    # the last coordinate is a lower bound on the scores of all pairs, and is maximised
    u = minimize(x0=np.append(start, scores(np.append(start, 0.0))[0].min()), **settings).x[:-1]
    return products(basis, u / norm(u))


LEARNERS: dict[str, Callable[..., Float]] = {
    "inverse_z_test": inverse_z_test,
    "inverse_rank_test": inverse_rank_test,
    "max_mean_difference": max_mean_difference,
    "minimax_p_value": minimax_p_value,
}
"""Learning methods by name."""


@dataclass(frozen=True)
class ClickWeights:
    """Weights of the click features, learned from logs; :meth:`save` writes them to a file.

    Attributes
    ----------
    weights : tuple of float
        Weights in the order of ``FEATURES``.
    method : str
        Name of the learning method.
    n_queries : int
        Number of queries from which the weights were learned.
    needed, needed_by_clicks : float
        Number of queries to reach p = 0.05 with power 1/2, with learned weights (cross-fitted on two halves of the
        queries) and with equal weights for all clicks; infinity if the mean does not favour the better ranker.

    Examples
    --------
    See :func:`structsvm.online.statistics.learn_weights`.
    """

    weights: tuple[float, ...]
    method: str
    n_queries: int
    needed: float
    needed_by_clicks: float

    def save(self, path: str | Path) -> None:
        """Write the weights and the names of their features as JSON; the file is written completely or not at all."""
        with replacing(Path(path)) as file:
            file.write(json.dumps(self.to_dict(), indent=1, allow_nan=False).encode() + b"\n")

    def to_dict(self) -> dict[str, Any]:
        """Return what :meth:`save` writes, as plain objects for ``json.dumps``."""
        known = vars(self) | {"version": 1, "features": FEATURES}
        return plain({key: known[key] for key in _Saved.__struct_fields__})

    def lines(self) -> list[str]:
        """Return the weights and the numbers of queries as lines of text."""
        learned, clicks = (
            "no number" if math.isinf(n) else f"{math.ceil(n):,}"
            for n in (self.needed, self.needed_by_clicks)
        )
        return [
            *(f"{feature:<30}{weight:+.4f}" for feature, weight in zip(FEATURES, self.weights, strict=True)),
            "",
            f"{self.n_queries:,} queries, {self.method}. Queries for p <= 0.05 in half of the experiments: {learned} "
            f"(each half of the queries with weights learned from the other half), {clicks} if every click has weight "
            "1.",
        ]

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read weights that :meth:`save` wrote; raise ValueError, with the reason, for any other file."""
        try:
            saved = decode(read_text(Path(path)).tobytes(), type=_Saved)
            if saved.features != FEATURES:
                raise ValidationError(f"Expected the {len(FEATURES)} click features")
            check_choice("method", saved.method, LEARNERS)
        except (DecodeError, UnicodeDecodeError, RecursionError, BadInput) as error:
            raise BadInput(
                path,
                f"expected click weights as ClickWeights.save writes them, got another file ({error})",
                "learn the weights again",
            ) from None
        # JSON has no infinity
        needed, by_clicks = (math.inf if n is None else n for n in (saved.needed, saved.needed_by_clicks))
        return cls(saved.weights, saved.method, saved.n_queries, needed, by_clicks)


_Needed = Annotated[float, Meta(gt=0)] | None


class _Saved(Struct):
    """The content of a file of click weights."""

    version: Literal[1]
    method: str
    features: tuple[str, ...]
    weights: Annotated[
        tuple[Annotated[float, Meta(ge=-1e300, le=1e300)], ...],
        Meta(min_length=len(FEATURES), max_length=len(FEATURES)),
    ]
    n_queries: Annotated[int, Meta(ge=1, le=(1 << 63) - 1)]
    needed: _Needed
    needed_by_clicks: _Needed


def learn_weights(
    logs: Sequence[tuple[ClickLog, str]], method: str = "inverse_z_test", *, ridge: float | None = None
) -> ClickWeights:
    """Learn a weight for each kind of click from experiments with a known winner (thesis 7.2).

    Parameters
    ----------
    logs : sequence of (ClickLog, str)
        Team-draft logs, each with the name of its better ranker, known from labels, a long experiment or deliberate
        degradation of the other rankers. The better ranker is compared with every other ranker of its log.
    method : {"inverse_z_test", "inverse_rank_test", "max_mean_difference", "minimax_p_value"}
        Learning method. ``"inverse_z_test"`` gave the most powerful tests in the thesis.
    ridge : float, optional
        Regularisation of the method, 0 by default; not allowed with ``"max_mean_difference"``.

    Returns
    -------
    ClickWeights

    Examples
    --------
    >>> from structsvm.online.interleaving import Shown
    >>> from structsvm.online.clicklog import Click, Impression
    >>> shown = Shown("team_draft", ("a", "b"), 2, ((0, 1),))
    >>> log = ClickLog.of(Impression(shown, (Click(rank),), rankers=("good", "bad")) for rank in [1, 1, 2, 1] * 9)
    >>> learned = learn_weights([(log, "good")], "max_mean_difference")
    >>> [name for name, weight in zip(FEATURES, learned.weights) if weight > 0]
    ['click', 'single click, rank <= 10']
    """
    check_choice("method", method, LEARNERS)
    learner, options = LEARNERS[method], {}
    known = inspect.signature(learner).parameters
    if ridge is not None:
        if "ridge" not in known:
            raise BadInput("ridge", f"{method} does not use it", "leave it out")
        options["ridge"] = ridge
    if not logs:
        raise BadInput("logs", "expected at least one, got none")
    # the better ranker of each pair is ``own``, so that the expected sign is the same in all rows
    pairs = []
    for log, better in logs:
        check_choice("better", better, log.rankers)
        own = log.rankers.index(better)
        if any(impression.among for impression in log.impressions):
            raise BadInput("logs", "expected lists of all rankers, got the log of a bandit")
        pairs += [psi(log, own, other) for other in range(len(log.rankers)) if other != own]
    rows, pair = np.vstack(pairs), np.repeat(np.arange(len(pairs)), [len(each) for each in pairs])

    def learn(queries: slice) -> Float:
        of = {"pair": pair[queries]} if "pair" in known else {}
        return learner(rows[queries], **of, **options)

    return ClickWeights(
        tuple(learn(slice(None)).tolist()), method, len(rows), _held_out(rows, learn), _needed(rows[:, 0])
    )


def _needed(delta: Float) -> float:
    return queries_needed(delta) if delta.mean() > 0 else np.inf


def _held_out(rows: Float, learn: Callable[[slice], Float]) -> float:
    """Return the number of queries needed if each half is scored with the weights learned from the other half.

    Scores are divided by their standard deviation, since the weights of the two halves differ in norm.
    """
    delta = np.empty(len(rows))
    for half in (0, 1):
        try:
            # even queries with the weights learned from odd queries, and vice versa
            scores = products(rows[half::2], learn(slice(1 - half, None, 2)))
        except ValueError:  # half of the queries may be too few to learn from
            return np.inf
        delta[half::2] = scores / (scores.std() or 1.0)
    return _needed(delta)


def _rows(psi: ArrayLike) -> Float:
    rows = np.asarray(psi, dtype=np.float64)
    if rows.ndim != 2 or 0 in rows.shape:
        raise BadInput("psi", f"expected shape (n_queries, n_features), got {rows.shape}")
    if not np.isfinite(rows).all():
        row = np.argwhere(~np.isfinite(rows))[0, 0]
        raise BadInput("psi", f"expected finite numbers, got NaN or infinity in row {row}")
    return rows


def _never_wrong(rows: Float) -> bool:
    """Return whether some w has ``rows @ w >= 0`` but not ``rows @ w == 0``, so that the likelihood has no maximum."""
    from scipy.optimize import linprog

    # a linear program: maximise the sum of rows @ w over the box |w| <= 1, subject to rows @ w >= 0
    rows = np.unique(rows, axis=0)
    none = np.zeros(len(rows))
    solution = linprog(-rows.sum(axis=0), A_ub=-rows, b_ub=none, bounds=(-1, 1), method="highs")
    return solution.fun is not None and bool(solution.fun < -1e-7)


def _length(total: Float) -> float:
    length = norm(total)
    if length == 0:
        raise BadInput("psi", "the queries sum to zero, so no weights make the better ranker win")
    return length
