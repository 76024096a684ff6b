"""Click models of a user who reads from the top: cascade, DCM and SDBN, in closed form, and DBN and CCM, by EM.

All models share one walk down the list. At each examined position, the probability of a click is the attraction of the
document. Without a click, the user reads on with probability ``after_skip``. A click satisfies the user or not; the
user then reads on with probability ``after_satisfied`` or ``after_unsatisfied``. Each model fixes some of these
probabilities at 0 or 1 and estimates the others.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from structsvm.clicks.cells import ClickCells
from structsvm.clicks.position_based import TableUser, at_positions, rows_of_query, sessions_of, unseen
from structsvm.clicks.sessions import ClickSessions
from structsvm.common.checks import check_number, check_whole
from structsvm.common.kernel import kernel
from structsvm.common.portable import elementary
from structsvm.common.portable.arrays import dot
from structsvm.common.portable.compiled import log
from structsvm.protocols import Float, Int


class _Walk(NamedTuple):
    """Parameters of the walk for given entries: attraction and satisfaction of each, and the three continuations."""

    attraction: Float
    satisfaction: Float
    after_skip: float
    after_unsatisfied: float
    after_satisfied: float


class _Posterior(NamedTuple):
    """For each entry, the probabilities given the clicks that it was examined and that it satisfied; and the expected
    numbers of the three transitions."""

    log_likelihood: Float
    examined: Float
    satisfied: Float
    transitions: Float


_Sums = Callable[[Any], Float]


@dataclass(kw_only=True, eq=False, repr=False)
class _WalkModel(ABC):
    """Base class of the models, with the fit, and with predictions from the parameters of the walk."""

    prior: float = 1.0

    attraction_: Float = field(init=False)
    _cells: ClickCells = field(init=False)

    def fit(self, cells: ClickCells) -> Self:
        """Fit the model to a log with sessions; raise BadInput if it has none."""
        check_number("prior", self.prior, 0)
        self._cells = cells
        sessions = sessions_of(cells)
        weight = sessions.counts.astype(np.float64)

        def by_row(values: Any) -> Float:
            return np.asarray(np.bincount(sessions.row, weight * values, cells.n_rows), dtype=np.float64)

        self._estimate(sessions, by_row)
        walk, posterior = self._posterior(sessions)
        self.log_likelihood_ = dot(posterior.log_likelihood, sessions.count)
        a = walk.attraction
        with np.errstate(divide="ignore", invalid="ignore"):  # standard errors by squared scores
            score = np.where(sessions.clicked, 1 / a, -posterior.examined / (1 - a))
            self.attraction_error_ = 1 / np.sqrt(by_row(score**2))
        return self

    @abstractmethod
    def _estimate(self, sessions: ClickSessions, by_row: _Sums) -> None:
        """Set the parameters; ``by_row`` sums over the entries of each row, weighted by the number of sessions."""

    @abstractmethod
    def _walk_of(self, row: Int, position: Int) -> _Walk:
        """Return the parameters of the walk at documents ``row`` shown at ``position``."""

    def _posterior(self, sessions: ClickSessions) -> tuple[_Walk, _Posterior]:
        walk = self._walk_of(sessions.row, sessions.position)
        return walk, _Posterior(*_expect(sessions.offsets, sessions.clicked, sessions.count, *walk))

    def marginals(self, sessions: ClickSessions) -> Float:
        """Return the marginal probability of a click at each entry of ``sessions.row``."""
        return np.asarray(_marginals(sessions.offsets, *self._walk_of(sessions.row, sessions.position)))

    def list_log_likelihoods(self, sessions: ClickSessions) -> Float:
        """Return the log-probability of the clicks of each distinct list."""
        return self._posterior(sessions)[1].log_likelihood

    def user(self, query: ArrayLike) -> TableUser:
        """Return a simulated user for one query, as a click model of ``structsvm.online``."""
        rows = rows_of_query(self._cells, query)
        n, longest = rows.shape[0], sessions_of(self._cells).longest
        # pass the position of each document, because a list with a single document would have position 1
        walk = self._walk_of(np.repeat(rows, longest), np.tile(np.arange(1, longest + 1), n))
        stay = walk.satisfaction * walk.after_satisfied + (1 - walk.satisfaction) * walk.after_unsatisfied
        shape = (n, longest)
        return TableUser(
            walk.attraction.reshape(shape), 1 - stay.reshape(shape), np.full(shape, 1 - walk.after_skip)
        )


def _ratio(numerator: Any, denominator: Any, prior: float) -> Float:
    """Return smoothed ratios; one half where there is neither a prior nor data."""
    top, bottom = numerator + prior, denominator + 2 * prior
    return np.asarray(np.where(bottom > 0, top / np.where(bottom > 0, bottom, 1), 0.5), dtype=np.float64)


@dataclass(kw_only=True, eq=False, repr=False)
class CascadeModel(_WalkModel):
    """Cascade model of a user who reads from the top to the first click and then leaves; fitted in closed form.

    Parameters
    ----------
    prior : float, default=1.0
        Smooths each attraction as if by ``prior`` more clicks in ``2 * prior`` more examinations; 0 means maximum
        likelihood.

    Attributes
    ----------
    attraction_, attraction_error_ : ndarray of float64, shape (n_rows,)
        Attraction of each document, and its standard error from the squared scores of the sessions.
    log_likelihood_ : float
        Log-likelihood of the log; minus infinity if any session has two clicks, which the model excludes.

    Notes
    -----
    Craswell et al. (WSDM 2008). Documents below the first click are not used.

    Examples
    --------
    >>> cells = ClickCells.from_arrays([1] * 4, [5, 6, 6, 5], [1, 2, 1, 2], [1, 0, 0, 1], session=[1, 1, 2, 2])
    >>> CascadeModel(prior=0).fit(cells).attraction_
    array([1., 0.])
    """

    # no abbreviation, so that reports skip this model: it excludes lists with two clicks, which occur in any log

    def _estimate(self, sessions: ClickSessions, by_row: _Sums) -> None:
        first, _ = read_until(sessions.offsets, sessions.clicked)
        self.attraction_ = _ratio(by_row(first & sessions.clicked), by_row(first), self.prior)

    def _walk_of(self, row: Int, position: Int) -> _Walk:
        return _Walk(unseen(self.attraction_)[row], np.ones(row.shape[0]), 1.0, 1.0, 0.0)


@dataclass(kw_only=True, eq=False, repr=False)
class DependentClickModel(_WalkModel):
    """Dependent click model (DCM): the user reads on after a click at ``k`` with probability ``continuation[k]``.

    Parameters
    ----------
    prior : float, default=1.0
        As in :class:`CascadeModel`.

    Attributes
    ----------
    attraction_, attraction_error_ : ndarray of float64, shape (n_rows,)
        As in :class:`CascadeModel`.
    continuation_ : ndarray of float64, shape (longest,)
        Probability of reading on after a click at each position.
    log_likelihood_ : float
        Log-likelihood of the log.

    Notes
    -----
    Guo, Liu & Wang (WSDM 2009): the parameters are ratios of counts, computed as if the user left at the last click,
    which maximises a lower bound on the likelihood; ``log_likelihood_`` is exact at these parameters. A list without a
    click is taken to be read to its end.

    Examples
    --------
    >>> cells = ClickCells.from_arrays([1] * 4, [5, 6, 6, 5], [1, 2, 1, 2], [1, 0, 1, 1], session=[1, 1, 2, 2])
    >>> DependentClickModel(prior=0).fit(cells).continuation_
    array([0.5, 0. ])
    """

    abbreviation: ClassVar[str] = "DCM"

    continuation_: Float = field(init=False)

    def _estimate(self, sessions: ClickSessions, by_row: _Sums) -> None:
        _, last = read_until(sessions.offsets, sessions.clicked)
        self.attraction_ = _ratio(by_row(sessions.clicked), by_row(last > 0), self.prior)
        weight, index, size = sessions.counts, sessions.position - 1, sessions.longest
        clicks_at = np.bincount(index, weight * sessions.clicked, size)
        self.continuation_ = _ratio(
            clicks_at - np.bincount(index, weight * (last == 2), size), clicks_at, self.prior
        )

    def _walk_of(self, row: Int, position: Int) -> _Walk:
        satisfaction = 1 - at_positions(self.continuation_, position)
        return _Walk(unseen(self.attraction_)[row], satisfaction, 1.0, 1.0, 0.0)


@dataclass(kw_only=True, eq=False, repr=False)
class SimplifiedDynamicBayesianModel(_WalkModel):
    """Simplified dynamic Bayesian network (SDBN): the user leaves after a satisfying click; fitted in closed form.

    Parameters
    ----------
    prior : float, default=1.0
        As in :class:`CascadeModel`.

    Attributes
    ----------
    attraction_, satisfaction_, attraction_error_ : ndarray of float64, shape (n_rows,)
        Attraction, satisfaction and the standard error of attraction; relevance is ``attraction_ * satisfaction_``.
    log_likelihood_ : float
        Log-likelihood of the log.

    Notes
    -----
    Chapelle & Zhang (WWW 2009), section 3.3: the last click is assumed to have satisfied the user. Unlike
    those of :class:`DynamicBayesianModel`, these estimates do not maximise the likelihood; ``log_likelihood_`` is
    exact.

    Examples
    --------
    >>> cells = ClickCells.from_arrays([1] * 4, [5, 6, 6, 5], [1, 2, 1, 2], [1, 0, 1, 1], session=[1, 1, 2, 2])
    >>> SimplifiedDynamicBayesianModel(prior=0).fit(cells).satisfaction_
    array([1., 0.])
    """

    abbreviation: ClassVar[str] = "SDBN"

    satisfaction_: Float = field(init=False)

    def _estimate(self, sessions: ClickSessions, by_row: _Sums) -> None:
        _, last = read_until(sessions.offsets, sessions.clicked)
        clicks = by_row(sessions.clicked)
        self.attraction_ = _ratio(clicks, by_row(last > 0), self.prior)
        self.satisfaction_ = _ratio(by_row(last == 2), clicks, self.prior)

    def _walk_of(self, row: Int, position: Int) -> _Walk:
        return _Walk(unseen(self.attraction_)[row], unseen(self.satisfaction_)[row], 1.0, 1.0, 0.0)


@dataclass(kw_only=True, eq=False, repr=False)
class _ModelByRounds(_WalkModel):
    """Base of the models that are fitted by EM."""

    n_rounds: int = 100

    continuation_: Any = field(init=False)
    history_: list[float] = field(init=False)

    def _estimate(self, sessions: ClickSessions, by_row: _Sums) -> None:
        check_whole("n_rounds", self.n_rounds, 1)
        self.attraction_ = np.full(self._cells.n_rows, 0.5)
        self._begin()
        self.history_ = []
        for _ in range(self.n_rounds):
            posterior = self._posterior(sessions)[1]
            self.history_.append(dot(posterior.log_likelihood, sessions.count) + self._log_prior())
            self._update(sessions, posterior, by_row)

    def _log_prior(self) -> float:
        if not self.prior:
            return 0.0
        return self.prior * sum(
            float(np.sum(elementary.log(p) + elementary.log1p(-np.asarray(p))))
            for p in (self.attraction_, getattr(self, "satisfaction_", ()), self.continuation_)
        )

    @abstractmethod
    def _begin(self) -> None:
        """Initialise all parameters except the attraction."""

    @abstractmethod
    def _update(self, sessions: ClickSessions, found: _Posterior, by_row: _Sums) -> None:
        """Set the parameters that maximise the expected log-likelihood."""


@dataclass(kw_only=True, eq=False, repr=False)
class DynamicBayesianModel(_ModelByRounds):
    """Dynamic Bayesian network (DBN), in which an unsatisfied user reads on with a fixed probability; fitted by EM.

    Parameters
    ----------
    prior : float, default=1.0
        Smooths each parameter as if by ``prior`` more successes in ``2 * prior`` more trials.
    n_rounds : int, default=100
        Number of rounds of EM; all parameters start at one half.

    Attributes
    ----------
    attraction_, satisfaction_, attraction_error_ : ndarray of float64, shape (n_rows,)
        As in :class:`SimplifiedDynamicBayesianModel`.
    continuation_ : float
        Probability that a user who is not satisfied reads on.
    log_likelihood_ : float
        Log-likelihood of the log, without the prior.
    history_ : list of float
        Penalised log-likelihood before each round; it does not decrease.

    Notes
    -----
    Chapelle & Zhang (WWW 2009).

    Examples
    --------
    >>> cells = ClickCells.from_arrays([1] * 4, [5, 6, 6, 5], [1, 2, 1, 2], [1, 0, 1, 1], session=[1, 1, 2, 2])
    >>> model = DynamicBayesianModel().fit(cells)
    >>> bool(np.diff(model.history_).min() > -1e-12)
    True
    """

    abbreviation: ClassVar[str] = "DBN"

    satisfaction_: Float = field(init=False)

    def _begin(self) -> None:
        self.satisfaction_, self.continuation_ = self.attraction_.copy(), 0.5

    def _update(self, sessions: ClickSessions, posterior: _Posterior, by_row: _Sums) -> None:
        clicks = by_row(sessions.clicked)
        self.attraction_ = _ratio(clicks, by_row(posterior.examined), self.prior)
        self.satisfaction_ = _ratio(by_row(posterior.satisfied), clicks, self.prior)
        times, stayed = posterior.transitions[:2].sum(axis=0)
        self.continuation_ = float(_ratio(stayed, times, self.prior))

    def _walk_of(self, row: Int, position: Int) -> _Walk:
        g = self.continuation_
        return _Walk(unseen(self.attraction_)[row], unseen(self.satisfaction_)[row], g, g, 0.0)


@dataclass(kw_only=True, eq=False, repr=False)
class ClickChainModel(_ModelByRounds):
    """Click chain model (CCM), in which attraction is also the probability that a click satisfies; fitted by EM.

    Parameters
    ----------
    prior, n_rounds
        As in :class:`DynamicBayesianModel`.

    Attributes
    ----------
    attraction_, attraction_error_ : ndarray of float64, shape (n_rows,)
        As in :class:`CascadeModel`.
    continuation_ : ndarray of float64, shape (3,)
        Probability of reading on without a click, after a click that did not satisfy, and after a click that did.
    log_likelihood_, history_
        As in :class:`DynamicBayesianModel`.

    Notes
    -----
    Guo et al. (WWW 2009), with point estimates instead of posteriors.

    Examples
    --------
    >>> cells = ClickCells.from_arrays([1] * 4, [5, 6, 6, 5], [1, 2, 1, 2], [1, 0, 1, 1], session=[1, 1, 2, 2])
    >>> ClickChainModel().fit(cells).continuation_.shape
    (3,)
    """

    abbreviation: ClassVar[str] = "CCM"

    def _begin(self) -> None:
        self.continuation_ = np.full(3, 0.5)

    def _update(self, sessions: ClickSessions, posterior: _Posterior, by_row: _Sums) -> None:
        self.attraction_ = _ratio(
            by_row(sessions.clicked + posterior.satisfied),
            by_row(posterior.examined + sessions.clicked),
            self.prior,
        )
        self.continuation_ = _ratio(posterior.transitions[:, 1], posterior.transitions[:, 0], self.prior)

    def _walk_of(self, row: Int, position: Int) -> _Walk:
        a = unseen(self.attraction_)[row]
        skip, unsatisfied, satisfied = (float(v) for v in self.continuation_)
        return _Walk(a, a, skip, unsatisfied, satisfied)


@kernel
def read_until(offsets, clicked):  # type: ignore[no-untyped-def]
    """Return a mask of the entries up to the first click, and a code of each entry: 2 at the last click, 1 before it or
    in a list without a click, 0 after it."""
    n = clicked.shape[0]
    first, last = np.zeros(n, np.bool_), np.zeros(n, np.int64)
    for i in range(offsets.shape[0] - 1):
        open_, end = True, offsets[i + 1]
        for j in range(offsets[i], offsets[i + 1]):
            first[j] = open_
            if clicked[j]:
                open_ = False
                end = j + 1
        for j in range(offsets[i], end):
            last[j] = 1
        if not open_:
            last[end - 1] = 2
    return first, last


@kernel
def _expect(offsets, clicked, count, a, s, skip, unsatisfied, satisfied):  # type: ignore[no-untyped-def]
    """Return the exact log-likelihood of each list, and expected examinations, satisfied clicks and transitions."""
    # Every position up to the last click was examined. Below it, `none[k]` is the probability of no click from `k` on,
    # given that `k` is examined.
    n_lists = offsets.shape[0] - 1
    log_likelihood = np.zeros(n_lists)
    examined, content = np.zeros(clicked.shape[0]), np.zeros(clicked.shape[0])
    moves = np.zeros((3, 2))  # rows: no click, a click that did not satisfy, a click that did
    for i in range(n_lists):
        start, n = offsets[i], offsets[i + 1] - offsets[i]
        last = -1
        for k in range(n):
            if clicked[start + k]:
                last = k
        none = np.ones(n + 1)
        for k in range(n - 1, -1, -1):
            none[k] = (1 - a[start + k]) * (1 - skip + skip * none[k + 1])
        weight, total = count[i], 0.0
        for k in range(last):
            j = start + k
            examined[j] = 1.0
            if clicked[j]:
                stay = s[j] * satisfied + (1 - s[j]) * unsatisfied
                total += log(a[j]) + log(stay)
                content[j] = s[j] * satisfied / stay if stay > 0 else 0.0
                for m in range(2):
                    moves[1, m] += weight * (1 - content[j])
                    moves[2, m] += weight * content[j]
            else:
                total += log(1 - a[j]) + log(skip)
                moves[0, 0] += weight
                moves[0, 1] += weight
        reach = 1.0  # probability that the first position below the last click is examined, given the clicks
        if last >= 0:
            j = start + last
            examined[j] = 1.0
            rest = none[last + 1]
            yes = s[j] * (1 - satisfied + satisfied * rest)
            no = (1 - s[j]) * (1 - unsatisfied + unsatisfied * rest)
            total += log(a[j]) + log(yes + no)
            content[j] = yes / (yes + no) if yes + no > 0 else 0.0
            if last + 1 < n and yes + no > 0:
                went_unsatisfied = (1 - s[j]) * unsatisfied * rest / (yes + no)
                went_satisfied = s[j] * satisfied * rest / (yes + no)
                moves[1, 0] += weight * (1 - content[j])
                moves[1, 1] += weight * went_unsatisfied
                moves[2, 0] += weight * content[j]
                moves[2, 1] += weight * went_satisfied
                reach = went_unsatisfied + went_satisfied
        else:
            total += log(none[0])
        for k in range(last + 1, n):
            examined[start + k] = reach
            if k + 1 < n:
                moves[0, 0] += weight * reach
                reach *= skip * none[k + 1] / (1 - skip + skip * none[k + 1]) if skip > 0 else 0.0
                moves[0, 1] += weight * reach
        log_likelihood[i] = total
    return log_likelihood, examined, content, moves


@kernel
def _marginals(offsets, a, s, skip, unsatisfied, satisfied):  # type: ignore[no-untyped-def]
    out = np.empty(a.shape[0])
    for i in range(offsets.shape[0] - 1):
        look = 1.0
        for j in range(offsets[i], offsets[i + 1]):
            out[j] = look * a[j]
            stay = s[j] * satisfied + (1 - s[j]) * unsatisfied
            look *= (1 - a[j]) * skip + a[j] * stay
    return out
