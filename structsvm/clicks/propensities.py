"""``harvest``: how often users examine each position, estimated from documents that were shown at several positions."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from structsvm.clicks.cells import ClickCells, check_cells, check_clicked
from structsvm.clicks.conditional_likelihood import Likelihood
from structsvm.common.checks import BadInput, check_fraction, check_whole, first_few
from structsvm.common.portable.arrays import inverse, products
from structsvm.common.portable.elementary import exp, log
from structsvm.common.records import plain
from structsvm.common.user_warnings import warn_user
from structsvm.protocols import Float, Int
from structsvm.queries import refuse_first


class Link(NamedTuple):
    """Standard error of the logarithm of the ratio of the propensities at two neighbouring positions."""

    first: int
    second: int
    error: float


@dataclass(frozen=True, eq=False, repr=False)
class Propensities:
    """Examination probability of each position relative to the first, with the covariance of the logarithms.

    Attributes
    ----------
    theta : ndarray of float64, shape (n_positions,)
        ``theta[k - 1]`` belongs to position ``k``; ``theta[0]`` is 1. Only ratios are identified, and only they matter
        for ranking.
    covariance : ndarray of float64, shape (n_positions, n_positions)
        Robust covariance of ``log(theta)``, clustered by query; zeros if the propensities were given.
    n_clusters : int
        Number of queries that contribute to the estimate; 0 if the propensities were given.
    connected : ndarray of bool, shape (n_positions,)
        Whether each position was estimated; False beyond ``last`` of :func:`harvest`, where only the power law applies.
    certificate : float
        Bound on the remaining gain of the log-likelihood.
    n_steps : int
        Number of Newton steps.
    freedom : ndarray of float64, shape (n_positions,), or None
        Degrees of freedom of the error of each logarithm (Satterthwaite). None means infinite: the propensities were
        given, or there is a single query, whose errors assume independent clicks.
    effective_clusters : float
        Number of equally informative queries that would give the same precision.

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
    freedom: Float | None = None
    effective_clusters: float = 0.0

    @classmethod
    def given(cls, theta: ArrayLike) -> Self:
        """Return known propensities, scaled to 1 at the first position."""
        values = np.asarray(theta, dtype=np.float64)
        if values.ndim != 1 or values.size == 0:
            raise BadInput("theta", f"expected one number per position, got shape {values.shape}")
        refuse_first("theta", values, ~(np.isfinite(values) & (values > 0)), "a finite number > 0")
        with np.errstate(over="ignore", under="ignore"):
            scaled = values / values[0]
        if not ((scaled > 1e-100) & (scaled < 1e100)).all():  # so that squares of weights are finite
            raise BadInput(
                "theta",
                f"expected numbers within 100 orders of magnitude, got {values.min()} to {values.max()}",
            )
        n = values.shape[0]
        return cls(scaled, np.zeros((n, n)), connected=np.ones(n, dtype=bool))

    @property
    def standard_errors(self) -> Float:
        """Standard error of the logarithm of each propensity; 0 at the first position, which is 1 by definition."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    def interval(self, level: float = 0.95) -> tuple[Float, Float]:
        """Return the lower and upper ends of an interval for each position, by Student's t with :attr:`freedom`.

        The errors of different positions are correlated: a weak link affects all positions after it.
        """
        check_fraction("level", level)
        freedom = np.inf if self.freedom is None else self.freedom
        half = self.standard_errors * stats.t.ppf(0.5 + level / 2, freedom)
        return self.theta * exp(-half), self.theta * exp(half)

    def variance(self, slope: Float) -> float:
        """Return the variance of an estimate whose gradient in the logarithms is ``slope`` (delta method)."""
        return max(0.0, float((slope[:, None] * self.covariance * slope).sum()))

    def freedom_of(self, slope: Float) -> float:
        """Return the degrees of freedom of :meth:`variance`: those of the positions, weighted by their variances."""
        if self.freedom is None:
            return math.inf
        share = slope**2 * np.diag(self.covariance)
        return float(share.sum() / (share / self.freedom).sum()) if share.any() else math.inf

    @property
    def weakest_link(self) -> Link:
        """The neighbouring positions with the least certain ratio of propensities; 1 and 1 for a single position."""
        if self.theta.shape[0] == 1:
            return Link(1, 1, 0.0)
        v = self.covariance
        steps = np.diag(v)[1:] + np.diag(v)[:-1] - 2 * np.diag(v, 1)
        at = int(np.argmax(steps))
        return Link(at + 1, at + 2, float(np.sqrt(max(0.0, steps[at]))))

    def at(self, position: Int) -> Float:
        """Return the propensity at each position (from 1)."""
        beyond = position > self.theta.shape[0]
        if beyond.any():
            raise BadInput(
                "propensities",
                f"expected one for each position, got {self.theta.shape[0]} for a log with position {position.max()}",
                "estimate more positions, or read the log with {max_position}",
            )
        return self.theta[position - 1]

    def to_dict(self) -> dict[str, Any]:
        """Return the propensities with their intervals and errors as plain objects for ``json.dumps``."""
        lower, upper = self.interval()
        return plain(
            {
                "theta": self.theta,
                "lower": lower,
                "upper": upper,
                "covariance": self.covariance,
                "certificate": self.certificate,
                "queries": self.n_clusters,
                "effective_queries": self.effective_clusters,
                "freedom": self.freedom,
            }
        )

    def lines(self) -> list[str]:
        """Return the propensities with their intervals, the sample size and the weakest link as lines of text."""
        lines = [
            f"position {k:<4}{value:.4f}  ({low:.4f} to {high:.4f})"
            for k, (value, low, high) in enumerate(zip(self.theta, *self.interval(), strict=True), 1)
        ]
        first, second, error = self.weakest_link
        if self.n_clusters:
            lines.append(self.errors)
        if self.n_clusters and second > first:
            lines.append(
                f"weakest link: positions {first} and {second}, standard error {error:.3g} of the log ratio"
            )
        return lines

    @property
    def errors(self) -> str:
        """The sample sizes behind the errors of harvested propensities, as a sentence."""
        text = f"errors from {self.n_clusters:,} {'query' if self.n_clusters == 1 else 'queries'}"
        if self.freedom is None:
            return f"{text}, whose clicks are taken as independent"
        return (
            f"{text}, as informative as {self.effective_clusters:,.1f} of equal size; intervals with "
            f"{self.freedom[1:].min():,.3g} to {self.freedom[1:].max():,.3g} degrees of freedom"
        )

    def __repr__(self) -> str:
        shown = first_few((f"{v:.3g}" for v in self.theta), 5)
        return f"Propensities({self.theta.shape[0]} positions: {shown})"


def harvest(
    cells: ClickCells, *, last: int | None = None, tail: bool = False, tol: float = 1e-6
) -> Propensities:
    """Estimate propensities from documents that were shown at several positions for the same query.

    Maximises the conditional log-likelihood ``sum_d sum_k c_dk log(n_dk theta_k / sum_l n_dl theta_l)`` of a
    position-based model by Newton's method; the attraction of documents cancels. It uses all positions of a document at
    once, whereas AllPairs compares two at a time.

    Parameters
    ----------
    cells : ClickCells
        A log of several rankers, of interleaving, or of random swaps. Given the query, the position of a document must
        not depend on its attraction: do not pool logs from before and after a ranker was trained on clicks.
    last : int, optional
        The last position with its own parameter; default: the last position of the log. Cells beyond ``last`` are used
        only with ``tail``.
    tail : bool, default=False
        Whether to estimate the positions beyond ``last`` by a power law, ``theta_k = theta_last * (k / last)^-eta``,
        which adds the parameter ``eta``. Requires ``last``.
    tol : float, default=1e-6
        Newton's method stops when the possible gain in log-likelihood is at most this, or within rounding error.

    Returns
    -------
    Propensities
        The errors are clustered by query, and valid even if few queries have most of the clicks: they are those of the
        sandwich estimator with the CR2 correction and Satterthwaite's degrees of freedom. With a single query, the
        errors assume independent clicks.

    Raises
    ------
    BadInput
        If positions are not connected by clicked documents that were shown at both (a single deterministic ranker
        connects none); if an estimate would be 0 or infinite; if no impression was clicked, or all were.

    Notes
    -----
    Poisson regression with fixed effects: Hausman, Hall & Griliches (Econometrica 1984), consistent for any
    distribution with this mean (Wooldridge, Journal of Econometrics 1999). AllPairs: Agarwal, Zaitsev, Wang, Li,
    Najork & Joachims (WSDM 2019). CR2: Bell & McCaffrey (Survey Methodology 2002); Pustejovsky & Tipton (JBES 2018).

    Examples
    --------
    >>> cells = ClickCells.from_arrays([1] * 12, [5] * 6 + [6] * 6, [1, 1, 1, 2, 2, 2] * 2,
    ...                                [1, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1, 0])
    >>> harvest(cells).theta.round(6)
    array([1. , 0.5])
    """
    check_cells(cells)
    n = cells.n_positions if last is None else check_whole("last", last, 1, cells.n_positions)
    if tail and last is None:
        raise BadInput("tail", "expected last, from which the power law continues", "give {last}", value=tail)
    size = cells.n_positions if tail else n
    chosen = cells.position <= size
    row, position = cells.row[chosen], cells.position[chosen] - 1
    shows, clicks = cells.shows[chosen], cells.clicks[chosen]
    basis = np.zeros((size, n - 1 + (tail and size > n)))
    basis[1:n, : n - 1] = np.eye(n - 1)
    if basis.shape[1] == n:
        basis[n:, n - 2 : n - 1] = 1.0
        basis[n:, n - 1] = -log(np.arange(n + 1, size + 1) / n)
    check_connected(row, position, shows, clicks, n, tail=basis.shape[1] == n)
    part = Likelihood(
        query=cells.row_query[row],
        row=row,
        position=position,
        shows=shows,
        clicks=clicks,
        size=size,
        basis=basis,
    )
    phi, n_steps, bound = part.maximise(tol)
    if basis.shape[1] == n and phi[-1] < 0.0:
        warn_user(
            f"propensities rise after position {n}, by the power {-phi[-1]:.2g} of the position: too few documents "
            "were shown at more than one of these positions; leave out the tail, or begin it at a later position"
        )
    covariance, n_clusters, freedom, effective = part.errors(phi)
    theta, connected = exp(products(basis, phi)), np.arange(size) < n
    return Propensities(
        theta=theta,
        covariance=covariance,
        n_clusters=n_clusters,
        connected=connected,
        certificate=bound,
        n_steps=n_steps,
        freedom=freedom,
        effective_clusters=effective,
    )


class TrustBias(NamedTuple):
    """Test of whether clicks on poor documents decrease faster down the list than clicks on good documents.

    Attributes
    ----------
    statistic : float
        Positive if clicks on poor documents decrease faster; without such a bias, approximately Student's t with
        ``freedom`` degrees of freedom.
    freedom : float
        Degrees of freedom of the statistic.
    p_value : float
        One-sided; NaN if the bias cannot be tested (too few documents at several positions).
    detectable : float
        The factor by which clicks on poor documents would have to decrease faster, from the first to the last position,
        for p < 0.01 in four of five such logs. If it is far from 1, a large p-value is not evidence against a bias.
    last : int
        The last position used.

    Examples
    --------
    >>> import numpy as np
    >>> from structsvm.clicks import ClickCells, trust_bias
    >>> rng = np.random.default_rng(0)
    >>> query, document = np.repeat(np.arange(50), 400), np.tile([5, 6, 7, 8], 5000)
    >>> position = rng.integers(1, 4, size=20_000)
    >>> clicked = rng.random(20_000) < 0.2 * (document - 4) / position  # the position acts alike on all documents
    >>> test = trust_bias(ClickCells.from_arrays(query, document, position, clicked))
    >>> bool(test.p_value > 0.05), test.last
    (True, 3)
    """

    statistic: float
    freedom: float
    p_value: float
    detectable: float = math.inf
    last: int = 1

    def in_words(self) -> str:
        """Return the result as a sentence, with the detectable bias."""
        if math.isnan(self.p_value):
            return "trust bias: not tested, too few documents shown at several positions; it may be large"
        found = "found" if self.p_value < TRUST_LEVEL else "not found"
        return (
            f"trust bias: {found} (p = {self.p_value:.2g}); a bias by which clicks on poor documents fall "
            f"{self.detectable:.2g} times as fast by position {self.last} is found in 4 of 5 such logs, a weaker one "
            "in fewer"
        )


def given_or_harvested(cells: ClickCells, given: Any) -> Propensities:
    """Return ``given`` as :class:`Propensities`; if it is None, harvest them from the log."""
    if given is None:
        return harvest(cells)
    return given if isinstance(given, Propensities) else Propensities.given(given)


TRUST_LEVEL = 0.01
"""p-value of trust bias below which there is a warning."""


def trust_bias(cells: ClickCells, *, last: int | None = None, random_state: Any = 0) -> TrustBias:
    """Test whether poor documents lose more clicks down the list than good ones.

    In a position-based model all documents lose the same share. If users trust high positions and also click on poor
    documents there, poor documents lose more. This is a score test for a single parameter, the coefficient of log
    position times document quality, with the propensities as nuisance parameters and a variance clustered by query.
    Quality is estimated from the other half of the impressions, because using the same clicks for both would find a
    spurious bias.

    Parameters
    ----------
    cells : ClickCells
        The click log.
    last : int, optional
        The last position used; default: the last position that is connected to position 1 by documents.
    random_state : int or Generator, default=0
        Seed or generator that splits the impressions into halves.

    Returns
    -------
    TrustBias

    Examples
    --------
    >>> cells = ClickCells.from_arrays([1] * 12, [5] * 6 + [6] * 6, [1, 1, 1, 2, 2, 2] * 2,
    ...                                [1, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1, 0])
    >>> trust_bias(cells).p_value
    nan
    """
    check_cells(cells)
    rng = np.random.default_rng(random_state)
    clicks = _half(rng, cells.clicks)
    shows = clicks + _half(rng, cells.shows - cells.clicks)
    # each document gives two rows, one for each half
    halves = [(0, shows, clicks), (1, cells.shows - shows, cells.clicks - clicks)]
    parts = [(2 * cells.row + half, cells.position - 1, n, c) for half, n, c in halves]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    columns = [column[order] for column in columns]
    most = cells.n_positions if last is None else min(check_whole("last", last, 1), cells.n_positions)
    for size in range(most, 1, -1):
        chosen = (columns[1] < size) & (columns[2] > 0)
        row, position, shows, clicks = (column[chosen] for column in columns)
        try:
            check_connected(row, position, shows, clicks, size)
            result = _slope_test(cells.row_query, row, position, shows, clicks, size)
        except (BadInput, np.linalg.LinAlgError):
            continue
        if result is not None:
            return result
    return TrustBias(math.nan, 0, math.nan)


def _slope_test(
    row_query: Int, row: Int, position: Int, shows: Int, clicks: Int, size: int
) -> TrustBias | None:
    """Return the score test of an interaction of quality and log position; None if there are too few queries."""
    part = Likelihood(
        query=row_query[row // 2],
        row=row,
        position=position,
        shows=shows,
        clicks=clicks,
        size=size,
        basis=np.eye(size)[:, 1:],
    )
    phi, *_ = part.maximise(1e-6)
    theta = np.concatenate(([1.0], exp(phi)))
    looks, taps = np.bincount(row, shows * theta[position]), np.bincount(row, clicks)
    # quality, estimated from the other half of the impressions, is scaled to [0, 1] with 1/2 for the mean rate
    looks, taps = (np.concatenate([v, np.zeros(v.size % 2)]) for v in (looks, taps))
    mean = taps.sum() / looks.sum()
    rate = (taps + mean) / (looks + 1)
    quality = (rate / (rate + mean))[np.arange(rate.size) ^ 1]
    # the interaction acts as an additional position: a click adds quality * log(position) to its score
    slope = quality[row] * log(position + 1.0)
    share = shows * theta[position] / looks[row]
    centre = np.bincount(row, share * slope)[row]
    score = part.scores(phi)
    query = row_query[row // 2]
    n_queries = score.shape[0]
    expected = taps[row] * share
    interaction = np.bincount(query, clicks * (slope - centre), n_queries)
    information = np.bincount(query, expected * (slope - centre) ** 2, n_queries)
    cross = np.bincount(position, expected * (slope - centre), size)[1:]
    project = (inverse(part.derivatives(phi)[1]) * cross).sum(axis=1)
    each = interaction - (score * project).sum(axis=1)
    total = float(information.sum() - (cross * project).sum())
    effective = float(information.sum() ** 2 / max((information**2).sum(), 1e-300))
    variance = float((each**2).sum())
    if effective < _FEWEST or variance <= 0 or total <= 0:
        return None
    variance *= effective / (effective - 1)
    statistic = float(each.sum()) / math.sqrt(variance)
    freedom = effective - 1
    p = float(stats.t.sf(statistic, freedom))
    quantiles = float(stats.t.isf(TRUST_LEVEL, freedom) + stats.t.ppf(0.8, freedom))
    needed = quantiles * math.sqrt(variance) / total
    # good and poor: the mean qualities of the better and the worse half of the clicks
    order = np.argsort(quality, kind="stable")
    quality, weight = quality[order], taps[order] + 1e-300
    better = np.cumsum(taps[order]) > taps.sum() / 2
    good, poor = (float(np.average(quality[half], weights=weight[half])) for half in (better, ~better))
    detectable = float(exp(min(needed * (good - poor) * float(log(size)), 700.0)))
    return TrustBias(statistic, freedom, p, detectable, size)


_FEWEST = 5.0
"""Effective number of queries below which trust bias is not tested."""


def _half(rng: np.random.Generator, counts: Int) -> Int:
    """Return the number of heads among ``counts[i]`` fair coin flips for each i, from the set bits of random bytes."""
    n_bytes = -(-counts // 8)
    ends = np.cumsum(n_bytes)
    coins = np.frombuffer(rng.bytes(int(ends[-1]) if ends.size else 0), dtype=np.uint8).copy()
    some = counts > 0
    coins[ends[some] - 1] &= (0xFF >> (-counts[some] % 8)).astype(np.uint8)
    totals = np.concatenate(([0], np.cumsum(_BITS[coins])))
    return np.asarray(totals[ends] - totals[ends - n_bytes], dtype=np.int64)


_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1).astype(np.int64)


Influence = Callable[[Float, Int, Int, Float], Float]
"""Function that returns the influence of impressions, given by row, rank (from 0) and click, on an estimate; the first
argument is the gradient of the estimate in the logarithms of the propensities."""


def influence_of(cells: ClickCells, theta: Propensities) -> Influence:
    """Return the influence of each impression of a log through the propensities that were harvested from it."""
    # A unit of the log (a list, a user) affects an estimate both through its clicks and through their effect on the
    # propensities; one influence function includes both, with their correlation.
    n, position = cells.n_positions, cells.position - 1
    part = Likelihood(
        query=cells.row_query[cells.row],
        row=cells.row,
        position=position,
        shows=cells.shows,
        clicks=cells.clicks,
        size=n,
        basis=np.eye(n)[:, 1:],
    )
    bread = inverse(part.derivatives(log(theta.theta[1:]))[1]) if n > 1 else np.zeros((0, 0))
    examined = cells.shows * theta.theta[position]
    looks, clicks = cells.per_row(examined), cells.per_row(cells.clicks)

    def influence(slope: Float, row: Int, rank: Int, clicked: Float) -> Float:
        g = np.concatenate(([0.0], (bread * slope[1:]).sum(axis=1)))
        per_click = g[rank] - (cells.per_row(examined * g[position]) / looks)[row]
        # a click counts by its residual from the expected clicks on the document, to which the click itself
        # contributes: the squared residual is too small by the impression's share of the examinations (HC2)
        share = theta.theta[rank] / looks[row]
        beyond = clicked - share * clicks[row]
        alone = share > 1 - 1e-9
        scaled = np.where(alone, clicked, beyond / np.sqrt(np.where(alone, 1.0, 1 - share)))
        return np.asarray(per_click * scaled, dtype=np.float64)

    return influence


def check_connected(row: Int, position: Int, shows: Int, clicks: Int, n: int, *, tail: bool = False) -> None:
    """Raise unless each position ``< n`` is connected with the first in both directions.

    A click on a document at a position connects this position to all positions at which the document was shown. With
    ``tail`` all positions ``>= n`` count as one position.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    check_clicked(clicks)
    if (clicks == shows).all():
        raise BadInput(
            "cells",
            f"expected impressions without a click, too, got clicks on all {shows.sum():,}",
            "log every document that was shown",
        )
    n_nodes = n + tail
    node = np.minimum(position, n)
    n_rows = int(row.max()) + 1
    alive = np.bincount(row, clicks, n_rows)[row] > 0
    # rows are nodes too: position -> row if clicked at it, row -> position if shown at it
    clicked = alive & (clicks > 0)
    rows = np.concatenate([node[clicked], n_nodes + row[alive]])
    columns = np.concatenate([n_nodes + row[clicked], node[alive]])
    graph = coo_matrix((np.ones(rows.shape[0]), (rows, columns)), shape=(n_nodes + n_rows,) * 2).tocsr()
    for connection, problem, remedy in _CONNECTIONS:
        part = connected_components(graph, connection=connection)[1][:n_nodes]
        if (part != part[0]).any():
            alone = np.flatnonzero(part != part[0]) + 1
            positions = f"position{'s' if alone.shape[0] > 1 else ''} {_listed(alone)}"
            other = "estimate fewer positions with {last}" if alone[0] > 2 else "judge by method coec"
            raise BadInput("cells", problem.format(positions), f"{remedy}; or {other}")


_CONNECTIONS: tuple[tuple[Literal["weak", "strong"], str, str], ...] = (
    (
        "weak",
        "expected every position connected to position 1 by clicked documents shown at several positions, got none "
        "for {}",
        "log interleaved or swapped lists, or several rankers",
    ),
    (
        "strong",
        "expected clicks on both sides of every comparison of positions, got all or none of the clicks at {}, whose "
        "estimate would be 0 or infinite",
        "use a longer log",
    ),
)


def _listed(numbers: Int) -> str:
    """Return positions as text, with runs of three or more as ``4-9``."""
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    return ", ".join(
        f"{r[0]}-{r[-1]}" if r.shape[0] > 2 else ", ".join(str(v) for v in r.tolist()) for r in runs
    )
