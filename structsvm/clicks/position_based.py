"""Click models in which a click requires examination and attraction, which are independent: PBM and UBM.

Their fits are in :mod:`structsvm.clicks.position_based_fit`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from structsvm.clicks.cells import ClickCells, check_cells
from structsvm.clicks.position_based_fit import ProductCells, fit_product
from structsvm.clicks.propensities import Propensities, check_connected
from structsvm.clicks.sessions import ClickSessions
from structsvm.common.checks import BadInput, check_number, check_whole
from structsvm.common.kernel import kernel
from structsvm.common.portable.elementary import log, log1p
from structsvm.online.users.click_tables import TableClicks
from structsvm.protocols import ClickTables, Float, Int


@dataclass(kw_only=True, eq=False, repr=False)
class _ProductModel(ABC):
    """Base of models in which the click probability is the attraction of the document times the probability of
    examination."""

    prior: float = 1.0
    n_rounds: int = 50
    tol: float = 1e-6

    attraction_: Float = field(init=False)
    gap_: float = field(init=False)
    n_steps_: int = field(init=False)
    _covariance: Float = field(init=False)

    def fit(self, cells: ClickCells) -> Self:
        """Fit the model to a log; UBM requires a log with sessions.

        Parameters
        ----------
        cells : ClickCells
            The click log.

        Returns
        -------
        self
        """
        check_cells(cells)
        check_number("prior", self.prior, 0)
        check_whole("n_rounds", self.n_rounds, 0)
        check_number("tol", self.tol, 0, open_end=True)
        self._cells = cells
        fit = fit_product(self._parts(cells), prior=self.prior, n_rounds=self.n_rounds, tol=self.tol)
        self.attraction_, self.attraction_error_ = fit.attraction, fit.row_errors * fit.attraction
        self.log_likelihood_, self.gap_, self.n_steps_ = fit.log_likelihood, fit.gap, fit.n_steps
        self._covariance = fit.covariance
        self._keep(cells, fit.examination)
        return self

    @abstractmethod
    def _parts(self, cells: ClickCells) -> ProductCells:
        """Return the counts by document and by examination parameter."""

    @abstractmethod
    def _keep(self, cells: ClickCells, examination: Float) -> None:
        """Set the attributes of the examination parameters."""

    @abstractmethod
    def _given_above(self, sessions: ClickSessions) -> Float:
        """Return the probability of a click at each entry, given the clicks above."""

    def list_log_likelihoods(self, sessions: ClickSessions) -> Float:
        """Return the log-probability of the clicks of each distinct list."""
        p = self._given_above(sessions)
        with np.errstate(divide="ignore"):
            terms = np.where(sessions.clicked, log(p), log1p(-p))
        return np.asarray(np.add.reduceat(terms, sessions.offsets[:-1]), dtype=np.float64)


@dataclass(kw_only=True, eq=False, repr=False)
class PositionBasedModel(_ProductModel):
    """Click model: ``P(click on d at k) = attraction[d] * examination[k]`` (PBM), fitted to a log.

    The penalised log-likelihood is concave in the logarithms of the parameters, so Newton's method after some rounds of
    EM reaches its maximum, and the gradient certifies it.

    Parameters
    ----------
    prior : float, default=1.0
        Each parameter is smoothed as if by ``prior`` more clicks in ``2 * prior`` more impressions; 0 means maximum
        likelihood.
    n_rounds : int, default=50
        Number of rounds of EM before Newton's method; all parameters start at one half.
    tol : float, default=1e-6
        Newton's method stops when the possible gain in log-likelihood is at most ``tol``.

    Attributes
    ----------
    attraction_ : ndarray of float64, shape (n_rows,)
        Probability of a click on each document if it is examined.
    examination_ : ndarray of float64, shape (n_positions,)
        Probability that each position is examined.
    attraction_error_ : ndarray of float64, shape (n_rows,)
        Standard errors, from the observed information; NaN after EM alone.
    log_likelihood_ : float
        Log-likelihood of the log, without the prior.
    gap_ : float
        Bound on the remaining gain of the penalised log-likelihood.
    n_steps_ : int
        Number of Newton steps.

    Notes
    -----
    Richardson, Dominowska & Ragno (WWW 2007); Craswell et al. (WSDM 2008). Attractions near 1 and few impressions per
    document bias the estimated examinations of any position-based model: for propensities, use
    :func:`~structsvm.clicks.harvest`.
    For a single deterministic ranker the two factors are not identified separately and depend on the prior alone
    (:meth:`propensities` raises).

    Examples
    --------
    >>> cells = ClickCells.from_arrays([1] * 12, [5] * 6 + [6] * 6, [1, 1, 1, 2, 2, 2] * 2,
    ...                                [1, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1, 0])
    >>> model = PositionBasedModel().fit(cells)
    >>> bool(model.gap_ <= 1e-6), bool(model.examination_[0] > model.examination_[1])
    (True, True)
    """

    abbreviation: ClassVar[str] = "PBM"

    def _parts(self, cells: ClickCells) -> ProductCells:
        return ProductCells(
            cells.row_offsets,
            cells.position - 1,
            cells.shows.astype(np.float64),
            cells.clicks.astype(np.float64),
            cells.n_positions,
        )

    def _keep(self, cells: ClickCells, examination: Float) -> None:
        self.examination_ = examination

    def propensities(self) -> Propensities:
        """Return the examinations as propensities, relative to the first position.

        The errors assume the model (independent impressions) and are smaller than the robust errors of
        :func:`~structsvm.clicks.harvest`.

        Raises
        ------
        BadInput
            If no documents connect the positions, so that the examinations are not identified.
        """
        cells = self._cells
        check_connected(cells.row, cells.position - 1, cells.shows, cells.clicks, cells.n_positions)
        v = self._covariance
        shift = v - v[:1] - v[:, :1] + v[0, 0]
        theta = self.examination_ / self.examination_[0]
        return Propensities(
            theta,
            shift,
            connected=np.ones(theta.shape[0], dtype=bool),
            certificate=self.gap_,
            n_steps=self.n_steps_,
            n_clusters=cells.n_rows,
        )

    def marginals(self, sessions: ClickSessions) -> Float:
        """Return the probability of a click at each entry of ``sessions.row``, before any click is seen."""
        return unseen(self.attraction_)[sessions.row] * at_positions(self.examination_, sessions.position)

    _given_above = marginals

    def user(self, query: ArrayLike) -> "TableUser":
        """Return a simulated user for one query, as a click model of ``structsvm.online``.

        Parameters
        ----------
        query : int or str
            Id of the query. The "grade" of a document is its index within the query, in the order of the cells.

        Returns
        -------
        ClickModel
        """
        click = np.outer(self.attraction_[rows_of_query(self._cells, query)], self.examination_)
        return TableUser(click, np.zeros_like(click), np.zeros_like(click))


@dataclass(kw_only=True, eq=False, repr=False)
class UserBrowsingModel(_ProductModel):
    """User browsing model (UBM): examination depends on the position and on the position of the last click above it.

    ``P(click on d at k | last click at j) = attraction[d] * examination[k, j]``. The penalised log-likelihood is
    concave, as for :class:`PositionBasedModel`, and is maximised in the same way.

    Parameters
    ----------
    prior, n_rounds, tol
        As in :class:`PositionBasedModel`.

    Attributes
    ----------
    attraction_, attraction_error_, log_likelihood_, gap_, n_steps_
        As in :class:`PositionBasedModel`.
    examination_ : ndarray of float64, shape (longest, longest)
        ``examination_[k - 1, j]`` is the examination of position ``k`` if the last click above it is at ``j``, with
        ``j = 0`` for no click; NaN if ``j >= k``.

    Notes
    -----
    Dupret & Piwowarski (SIGIR 2008). Parameters for each rank and distance, instead of two ranks, give the same model.

    Examples
    --------
    >>> cells = ClickCells.from_arrays([1] * 4, [5, 6, 6, 5], [1, 2, 1, 2], [1, 1, 0, 1], session=[1, 1, 2, 2])
    >>> UserBrowsingModel().fit(cells).examination_.shape
    (2, 2)
    """

    abbreviation: ClassVar[str] = "UBM"

    def _parts(self, cells: ClickCells) -> ProductCells:
        sessions = sessions_of(cells)
        level = _levels(sessions.offsets, sessions.clicked)
        n_levels = sessions.longest * (sessions.longest + 1) // 2
        row, level, shows, clicks = sessions.tally(level, n_levels)
        return ProductCells(
            np.searchsorted(row, np.arange(cells.n_rows + 1)).astype(np.int64),
            level,
            shows.astype(np.float64),
            clicks.astype(np.float64),
            n_levels,
        )

    def _keep(self, cells: ClickCells, examination: Float) -> None:
        longest = sessions_of(cells).longest
        self._levels = examination
        self.examination_ = np.full((longest, longest), np.nan)
        self.examination_[np.tril_indices(longest)] = examination

    def marginals(self, sessions: ClickSessions) -> Float:
        """Return the probability of a click at each entry of ``sessions.row``, before any click is seen."""
        at_positions(self.examination_[:, 0], sessions.position)  # raises for longer lists
        return np.asarray(
            _browsing_marginals(sessions.offsets, sessions.row, unseen(self.attraction_), self._levels)
        )

    def _given_above(self, sessions: ClickSessions) -> Float:
        at_positions(self.examination_[:, 0], sessions.position)
        level = _levels(sessions.offsets, sessions.clicked)
        return np.asarray(unseen(self.attraction_)[sessions.row] * self._levels[level])


@dataclass(frozen=True, eq=False)
class TableUser(TableClicks):
    """A fitted model as a simulated user of ``structsvm.online``, with tables of shape (n_documents, longest).

    Its grades are the indices of the documents of one query.
    """

    click_table: Float
    stop_after_click: Float
    stop_after_skip: Float

    def tables(self, length: int) -> ClickTables:
        """Return the model as tables for lists of ``length`` documents."""
        longest = self.click_table.shape[1]
        if length > longest:
            raise BadInput("length", f"expected at most {longest} documents, as in the log", value=length)
        return ClickTables(
            *(t[:, :length] for t in (self.click_table, self.stop_after_click, self.stop_after_skip))
        )


def rows_of_query(cells: ClickCells, query: ArrayLike) -> Int:
    """Return the rows of the query with this id; raise if the log has none."""
    at = np.flatnonzero(cells.query_ids == query)
    if at.shape[0] != 1:
        raise BadInput("query", "expected the id of a query of the log", value=query)
    return np.arange(cells.offsets[at[0]], cells.offsets[at[0] + 1])


def sessions_of(cells: ClickCells) -> ClickSessions:
    """Return the sessions of a log; raise if it has none."""
    check_cells(cells)
    if cells.sessions is None or cells.sessions.n_distinct == 0:
        raise BadInput(
            "cells",
            "expected sessions, got counts only",
            "name the session of each impression when the log is read",
        )
    return cells.sessions


def unseen(values: Float) -> Float:
    """Append the mean of the values, which row -1 selects for documents that the model's log did not show."""
    return np.append(values, values.mean() if values.size else 0.5)


def at_positions(table: Float, position: Int) -> Float:
    """Return the values at positions; raise for positions beyond the lists that the model was fitted to."""
    if position.size and position.max() > table.shape[0]:
        raise BadInput(
            "sessions",
            f"expected lists of at most {table.shape[0]} documents, as in the log of the model, got "
            f"{position.max()}",
            "fit the model to lists of that length",
        )
    return table[position - 1]


@kernel
def _levels(offsets, clicked):  # type: ignore[no-untyped-def]
    """Return the index of the pair (position, position of the last click) of each entry, ordered as by
    ``tril_indices``."""
    level = np.empty(clicked.shape[0], np.int64)
    for i in range(offsets.shape[0] - 1):
        last = 0
        for j in range(offsets[i], offsets[i + 1]):
            k = j - offsets[i]
            level[j] = k * (k + 1) // 2 + last
            if clicked[j]:
                last = k + 1
    return level


@kernel
def _browsing_marginals(offsets, row, attraction, examination):  # type: ignore[no-untyped-def]
    """Return P(click) at each entry: a forward pass over the position of the last click."""
    out = np.empty(row.shape[0])
    for i in range(offsets.shape[0] - 1):
        n = offsets[i + 1] - offsets[i]
        state = np.zeros(n + 1)  # probability that the last click is at j
        state[0] = 1.0
        for k in range(n):
            a = attraction[row[offsets[i] + k]]
            total = 0.0
            for j in range(k + 1):
                p = state[j] * a * examination[k * (k + 1) // 2 + j]
                total += p
                state[j] -= p
            state[k + 1] = total
            out[offsets[i] + k] = total
    return out
