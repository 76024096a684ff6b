"""``harvest``: how often users look at each position, from documents that were shown at several."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from structsvm.checks import BadInput, check_fraction, check_whole
from structsvm.clicks.cells import ClickCells
from structsvm.common.kernel import kernel
from structsvm.protocols import Float, Int

__all__ = ["Link", "Propensities", "TrustBias", "check_connected", "harvest", "trust_bias"]

_BOX = 30.0
"""Bound of the magnitude of log propensities: the optimum is certified within it, and beyond is no estimate."""
_MAX_STEPS = 50


class Link(NamedTuple):
    """How well two neighbouring positions are compared: the standard error of the log of their ratio."""

    first: int
    second: int
    error: float


@dataclass(frozen=True, eq=False, repr=False)
class Propensities:
    """Examination of each position relative to the first, with the covariance of their logarithms.

    Attributes
    ----------
    theta : ndarray of float64, shape (n_positions,)
        ``theta[k - 1]`` belongs to position ``k``; ``theta[0]`` is 1. Only ratios are identified, and only they matter
        for ranking.
    covariance : ndarray of float64, shape (n_positions, n_positions)
        Of ``log(theta)``, robust, clustered by query; zeros where the propensities were given.
    n_clusters : int
        Queries with a share in the estimate; 0 where the propensities were given.
    connected : ndarray of bool, shape (n_positions,)
        Positions that were estimated; False beyond ``last`` of :func:`harvest`, where the power law stands alone.
    certificate : float
        Bound of what the log-likelihood could still gain, from the gradient (0 where the propensities were given).
    n_steps : int
        Newton steps.

    Examples
    --------
    >>> Propensities.given([1.0, 0.5]).theta
    array([1. , 0.5])
    """

    theta: Float
    covariance: Float
    n_clusters: int = 0
    connected: Any = field(default=None)
    certificate: float = 0.0
    n_steps: int = 0

    @classmethod
    def given(cls, theta: ArrayLike) -> Propensities:
        """Return known propensities, scaled to 1 at the first position.

        Raises
        ------
        BadInput
            Unless all are finite and > 0.
        """
        values = np.asarray(theta, dtype=np.float64)
        if values.ndim != 1 or values.size == 0:
            raise BadInput("theta", f"expected one number per position, got shape {values.shape}")
        bad = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
        if bad.size:
            raise BadInput(f"theta[{bad[0]}]", f"expected a finite number > 0, got {values[bad[0]]}")
        n = values.shape[0]
        return cls(values / values[0], np.zeros((n, n)), connected=np.ones(n, dtype=bool))

    @property
    def standard_errors(self) -> Float:
        """Standard error of the logarithm of each; 0 at the first position, which is 1 by definition."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    def interval(self, level: float = 0.95) -> tuple[Float, Float]:
        """Return lower and upper ends of an interval for each position, by Student's t over queries.

        The ends of several positions move together: a weak link carries on to all positions behind it.
        """
        check_fraction("level", level)
        # of propensities that come from elsewhere, with a covariance, the number of queries is not known
        freedom = max(1, self.n_clusters - 1) if self.n_clusters else np.inf
        half = self.standard_errors * stats.t.ppf(0.5 + level / 2, freedom)
        return self.theta * np.exp(-half), self.theta * np.exp(half)

    @property
    def weakest_link(self) -> Link:
        """The neighbouring positions whose ratio is known least; positions 1 and 1 if there is one only."""
        if self.theta.shape[0] == 1:
            return Link(1, 1, 0.0)
        v = self.covariance
        steps = np.diag(v)[1:] + np.diag(v)[:-1] - 2 * np.diag(v, 1)
        at = int(np.argmax(steps))
        return Link(at + 1, at + 2, float(np.sqrt(max(0.0, steps[at]))))

    def at(self, position: Int) -> Float:
        """Return the propensity at each position (from 1).

        Raises
        ------
        BadInput
            For a position beyond the last.
        """
        beyond = position > self.theta.shape[0]
        if beyond.any():
            raise BadInput(
                "propensities",
                f"expected one for each position, got {self.theta.shape[0]} for a log with position {position.max()}",
                "estimate more positions, or count the log with max_position",
            )
        return self.theta[position - 1]

    def __repr__(self) -> str:
        shown = ", ".join(f"{v:.3g}" for v in self.theta[:5])
        return f"Propensities({self.theta.shape[0]} positions: {shown}{', ...' if self.theta.shape[0] > 5 else ''})"


def harvest(
    cells: ClickCells, *, last: int | None = None, tail: bool = False, tol: float = 1e-6
) -> Propensities:
    """Estimate propensities from documents that stood at several positions for the same query.

    Maximises the conditional log-likelihood ``sum_d sum_k c_dk log(n_dk theta_k / sum_l n_dl theta_l)`` of a
    position-based model, from which the attraction of documents has cancelled: ``n_positions - 1`` parameters, concave
    in ``log theta``, a few Newton steps. It uses all positions of a document at once, where AllPairs compares two at
    a time.

    Parameters
    ----------
    cells : ClickCells
        Of several rankers, of interleaving, or with random swaps. The position of a document must not depend on how
        users take to it, given the query: pool no logs from before and after a ranker learned from clicks.
    last : int, optional
        The last position with a parameter of its own; default: all positions. Cells beyond are not used without
        ``tail``.
    tail : bool, default=False
        Estimate the positions beyond ``last`` by a power law, ``theta_k = theta_last * (k / last)^-eta``, one more
        parameter. Needs ``last``.
    tol : float, default=1e-6
        Newton stops when at most this much log-likelihood is left to gain, or rounding allows no more.

    Returns
    -------
    Propensities
        With robust (sandwich) errors clustered by query.

    Raises
    ------
    BadInput
        When positions are not connected by documents that were clicked and stood at both (one deterministic ranker
        connects none); when a position, or a group of them, has all or none of the clicks of the documents it shares
        with the others, so that its estimate would be 0 or infinite; without clicks.

    Notes
    -----
    Poisson regression with fixed effects: Hausman, Hall & Griliches (Econometrica 1984), consistent for any
    distribution with this mean (Wooldridge, Journal of Econometrics 1999). AllPairs: Agarwal, Zaitsev, Wang, Li,
    Najork & Joachims (WSDM 2019).

    Examples
    --------
    >>> cells = ClickCells.from_arrays([1] * 12, [5] * 6 + [6] * 6, [1, 1, 1, 2, 2, 2] * 2,
    ...                                [1, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1, 0])
    >>> harvest(cells).theta.round(6)
    array([1. , 0.5])
    """
    n = cells.n_positions if last is None else check_whole("last", last, 1, cells.n_positions)
    if tail and last is None:
        raise BadInput("tail", "expected last, from which the power law goes on", "give {last}", value=tail)
    size = cells.n_positions if tail else n
    chosen = cells.position <= size
    row, position = cells.row[chosen], cells.position[chosen] - 1
    shows, clicks = cells.shows[chosen], cells.clicks[chosen]
    basis = np.zeros((size, n - 1 + (tail and size > n)))
    basis[1:n, : n - 1] = np.eye(n - 1)
    if basis.shape[1] == n:
        basis[n:, n - 2 : n - 1] = 1.0
        basis[n:, n - 1] = -np.log(np.arange(n + 1, size + 1) / n)
    check_connected(row, position, clicks, n, tail=basis.shape[1] == n)
    part = _Likelihood(cells, row, position, shows, clicks, size, basis)
    phi, n_steps = part.maximise(tol)
    covariance, n_clusters = part.sandwich(phi)
    gradient, _ = part.derivatives(phi)
    return Propensities(
        np.exp(basis @ phi),
        basis @ covariance @ basis.T,
        n_clusters,
        np.arange(size) < n,
        _bound(gradient, phi),
        n_steps,
    )


def _bound(gradient: Float, phi: Float) -> float:
    """Return the most that a concave function can gain within the box, from its gradient at ``phi``."""
    return float(np.abs(gradient) @ (_BOX + np.abs(phi)))


class TrustBias(NamedTuple):
    """Test of a log for clicks that depend on the position in another way for good than for poor documents.

    Attributes
    ----------
    statistic : float
        Wald statistic, about chi-squared with ``freedom`` degrees of freedom without such a bias.
    freedom : int
    p_value : float
        NaN where the log cannot show it (too few documents at several positions).

    Examples
    --------
    >>> import numpy as np
    >>> from structsvm.clicks import ClickCells, trust_bias
    >>> rng = np.random.default_rng(0)
    >>> query, document = np.repeat(np.arange(50), 400), np.tile([5, 6, 7, 8], 5000)
    >>> position = rng.integers(1, 4, size=20_000)
    >>> clicked = rng.random(20_000) < 0.2 * (document - 4) / position  # the position acts alike on all documents
    >>> test = trust_bias(ClickCells.from_arrays(query, document, position, clicked))
    >>> test.freedom, bool(test.p_value > 0.05)
    (2, True)
    """

    statistic: float
    freedom: int
    p_value: float


def trust_bias(cells: ClickCells, *, last: int | None = None, random_state: Any = 0) -> TrustBias:
    """Test whether documents that are clicked often and seldom have the same propensities.

    In a position-based model they have. Where users trust high positions and click there on poor documents too, poor
    documents lose more clicks down the list. The impressions of each cell are dealt to two halves: by the first, rows
    are split at half of the clicks into those with high and low click-through; on the second, their propensities are
    compared. Splitting and comparing by the same clicks would find a bias where there is none.

    Parameters
    ----------
    cells : ClickCells
    last : int, optional
        The last position used; default: the last at which both halves can be estimated.
    random_state : int or Generator, default=0
        Deals the impressions.

    Returns
    -------
    TrustBias

    Examples
    --------
    >>> cells = ClickCells.from_arrays([1] * 12, [5] * 6 + [6] * 6, [1, 1, 1, 2, 2, 2] * 2,
    ...                                [1, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1, 0])
    >>> trust_bias(cells).freedom
    0
    """
    rng = np.random.default_rng(random_state)
    shown_first = cells.shows // 2
    first = rng.hypergeometric(cells.clicks, cells.shows - cells.clicks, shown_first)
    shows, clicks = cells.shows - shown_first, cells.clicks - first
    several = np.bincount(cells.row, shows > 0, cells.n_rows) > 1
    total, shown = cells.per_row(first), cells.per_row(shown_first)
    order = np.argsort(-total / np.maximum(shown, 1), kind="stable")
    order = order[(several & (shown > 0))[order]]
    split = int(np.searchsorted(np.cumsum(total[order]), total[order].sum() / 2)) if order.size else 0
    group = np.full(cells.n_rows, -1)
    group[order[: split + 1]], group[order[split + 1 :]] = 0, 1
    # a position where a group has no clicks has no estimate: look only below the first of them
    clicked = np.zeros((2, cells.n_positions + 1), dtype=bool)
    for g in (0, 1):
        clicked[g, cells.position[(group[cells.row] == g) & (clicks > 0)] - 1] = True
    without = int(np.argmin(clicked.all(axis=0)))
    for size in range(min(cells.n_positions if last is None else last, without), 1, -1):
        parts = []
        try:
            for g in (0, 1):
                chosen = (group[cells.row] == g) & (cells.position <= size) & (shows > 0)
                row, position = cells.row[chosen], cells.position[chosen] - 1
                check_connected(row, position, clicks[chosen], size)
                parts.append(
                    _Likelihood(cells, row, position, shows[chosen], clicks[chosen], size,
                                np.eye(size)[:, 1:])
                )  # fmt: skip
            chosen = (group[cells.row] >= 0) & (cells.position <= size) & (shows > 0)
            row, position = cells.row[chosen], cells.position[chosen] - 1
            both = _Likelihood(cells, row, position, shows[chosen], clicks[chosen], size, np.eye(size)[:, 1:])
            phi, _ = both.maximise(1e-6)
        except BadInput:
            continue
        # A score test at the estimate of both groups together: from there one step of Newton's method of each group is
        # a sum over queries, whose difference between the groups has mean zero without a bias. The covariance at
        # separate estimates, which follow the clicks of each group, is too small: it found a bias in 10 % of logs.
        try:
            breads = [np.linalg.inv(part.derivatives(phi)[1]) for part in parts]
        except np.linalg.LinAlgError:
            continue
        influence = parts[0].scores(phi) @ breads[0] - parts[1].scores(phi) @ breads[1]
        used = np.flatnonzero(np.abs(influence).sum(axis=1) > 0).shape[0]
        freedom = size - 1
        if used < 8 * size:  # a covariance of so few queries finds biases where there are none
            continue
        total_influence = influence.sum(axis=0)
        share = float(total_influence @ np.linalg.solve(influence.T @ influence, total_influence)) / used
        # Hotelling's test that the mean over queries is zero
        statistic = (used - 1) * share / max(1 - share, np.finfo(float).tiny)
        scaled = statistic * (used - freedom) / (freedom * (used - 1))
        return TrustBias(statistic, freedom, float(stats.f.sf(scaled, freedom, used - freedom)))
    return TrustBias(float("nan"), 0, float("nan"))


class _Likelihood:
    """The conditional log-likelihood of cells sorted by row, with log propensities ``basis @ phi``."""

    def __init__(
        self, cells: ClickCells, row: Int, position: Int, shows: Int, clicks: Int, size: int, basis: Float
    ) -> None:
        starts = np.flatnonzero(np.concatenate(([True], row[1:] != row[:-1])))
        offsets = np.append(starts, row.shape[0]).astype(np.int64)
        self._cells = offsets, position, shows.astype(np.float64), clicks.astype(np.float64)
        self._query = cells.row_query[row[starts]]
        self._n_queries, self._size, self.basis = cells.n_queries, size, basis

    def value(self, phi: Float) -> float:
        return float(_conditional_value(*self._cells, self.basis @ phi))

    def derivatives(self, phi: Float) -> tuple[Float, Float]:
        """Return the gradient and minus the Hessian."""
        gradient, curvature = _conditional_derivatives(*self._cells, self.basis @ phi)
        return self.basis.T @ gradient, self.basis.T @ curvature @ self.basis

    def scores(self, phi: Float) -> Float:
        """Return the gradient of each query, shape (n_queries, n_parameters)."""
        return _conditional_scores(*self._cells, self.basis @ phi, self._query, self._n_queries) @ self.basis

    def maximise(self, tol: float) -> tuple[Float, int]:
        """Return the maximum and the number of Newton steps, each halved until the likelihood does not fall."""
        phi = np.zeros(self.basis.shape[1])
        value = self.value(phi)
        best = np.inf, phi
        for step in range(_MAX_STEPS):
            gradient, curvature = self.derivatives(phi)
            try:
                direction = np.linalg.solve(curvature, gradient)
            except np.linalg.LinAlgError:
                break
            gap = _bound(gradient, phi)
            # the last steps on a large log gain less than the rounding of the likelihood, which must not refuse them:
            # the gap tells whether they still help
            level_off = float(gradient @ direction) <= 1e-12 * abs(value)
            if gap <= tol or (level_off and gap > 0.5 * best[0]):
                return (phi if gap <= best[0] else best[1]), step
            if level_off:
                best = gap, phi
            size = 1.0
            while not level_off and (new := self.value(phi + size * direction)) < value and size > 1e-10:
                size /= 2
            if size <= 1e-10:
                return phi, step
            phi = phi + size * direction
            value = self.value(phi) if level_off else new
            if np.abs(phi).max() > _BOX:
                break
        raise BadInput(
            "cells", "expected clicks that determine all propensities, got some without a finite estimate",
            "estimate fewer positions with {last}",
        )  # fmt: skip

    def sandwich(self, phi: Float) -> tuple[Float, int]:
        """Return the covariance of the estimates, clustered by query, and the number of queries that count."""
        _, curvature = self.derivatives(phi)
        scores = self.scores(phi)
        bread = np.linalg.inv(curvature)
        offsets, _, _, clicks = self._cells
        informative = (np.diff(offsets) > 1) & (np.add.reduceat(clicks, offsets[:-1]) > 0)
        n = int(np.unique(self._query[informative]).shape[0])
        if n < 2:  # one query has the score 0: its clicks are taken as independent
            return np.asarray(bread, dtype=np.float64), n
        covariance = bread @ (scores.T @ scores) @ bread * (n / (n - 1))
        return np.asarray(covariance, dtype=np.float64), n


def check_connected(row: Int, position: Int, clicks: Int, n: int, *, tail: bool = False) -> None:
    """Raise unless clicked documents connect each position ``< n`` with the first, from both sides.

    With ``tail`` the positions from ``n`` on are one.

    Raises
    ------
    BadInput
        That names the positions that are not connected.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    if not clicks.any():
        raise BadInput("cells", "expected clicks, got none at all", "collect more of the log")
    n_nodes = n + tail
    node = np.minimum(position, n)
    n_rows = int(row.max()) + 1 if row.size else 0
    total = np.bincount(row, clicks, n_rows)
    alive = total[row] > 0
    # a row is a node too: position -> row where clicked there, row -> position where shown
    clicked = alive & (clicks > 0)
    rows = np.concatenate([node[clicked], n_nodes + row[alive]])
    columns = np.concatenate([n_nodes + row[clicked], node[alive]])
    graph = coo_matrix((np.ones(rows.shape[0]), (rows, columns)), shape=(n_nodes + n_rows,) * 2).tocsr()
    weak = connected_components(graph, connection="weak")[1][:n_nodes]
    if (weak != weak[0]).any():
        alone = np.flatnonzero(weak != weak[0]) + 1
        raise BadInput(
            "cells",
            f"expected every position connected to position 1 by clicked documents that were shown at several, got "
            f"none for position{'s' if alone.shape[0] > 1 else ''} {_listed(alone)}",
            "log interleaved or swapped lists or several rankers; or estimate fewer positions with {last}",
        )
    strong = connected_components(graph, connection="strong")[1][:n_nodes]
    if (strong != strong[0]).any():
        alone = np.flatnonzero(strong != strong[0]) + 1
        raise BadInput(
            "cells",
            f"expected clicks on both sides of every comparison, got all or none at position"
            f"{'s' if alone.shape[0] > 1 else ''} {_listed(alone)}, whose estimate would be 0 or infinite",
            "collect more of the log, or estimate fewer positions with {last}",
        )


def _listed(numbers: Int) -> str:
    """Return positions in words, runs of three and more as ``4-9``."""
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    return ", ".join(
        f"{r[0]}-{r[-1]}" if r.shape[0] > 2 else ", ".join(str(v) for v in r.tolist()) for r in runs
    )


@kernel
def _conditional_value(offsets, position, shows, clicks, beta):
    total = 0.0
    for r in range(offsets.shape[0] - 1):
        weight, count = 0.0, 0.0
        for i in range(offsets[r], offsets[r + 1]):
            weight += shows[i] * np.exp(beta[position[i]])
            count += clicks[i]
            if clicks[i] > 0:
                total += clicks[i] * (np.log(shows[i]) + beta[position[i]])
        if count > 0:
            total -= count * np.log(weight)
    return total


@kernel
def _conditional_derivatives(offsets, position, shows, clicks, beta):
    n = beta.shape[0]
    gradient, curvature = np.zeros(n), np.zeros((n, n))
    share = np.empty(n)
    for r in range(offsets.shape[0] - 1):
        first, end = offsets[r], offsets[r + 1]
        weight, count = 0.0, 0.0
        for i in range(first, end):
            share[i - first] = shows[i] * np.exp(beta[position[i]])
            weight += share[i - first]
            count += clicks[i]
        if count == 0 or end - first < 2:
            continue
        for i in range(first, end):
            p = share[i - first] / weight
            k = position[i]
            gradient[k] += clicks[i] - count * p
            curvature[k, k] += count * p
            for j in range(first, end):
                curvature[k, position[j]] -= count * p * share[j - first] / weight
    return gradient, curvature


@kernel
def _conditional_scores(offsets, position, shows, clicks, beta, query, n_queries):
    scores = np.zeros((n_queries, beta.shape[0]))
    for r in range(offsets.shape[0] - 1):
        weight, count = 0.0, 0.0
        for i in range(offsets[r], offsets[r + 1]):
            weight += shows[i] * np.exp(beta[position[i]])
            count += clicks[i]
        if count == 0:
            continue
        for i in range(offsets[r], offsets[r + 1]):
            p = shows[i] * np.exp(beta[position[i]]) / weight
            scores[query[r], position[i]] += clicks[i] - count * p
    return scores
