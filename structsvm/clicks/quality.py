"""Quality of the predictions of a click model on a log: log-likelihood and perplexity."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from structsvm.clicks.cells import ClickCells
from structsvm.clicks.position_based import sessions_of
from structsvm.clicks.sessions import ClickSessions
from structsvm.common.portable.arrays import dot
from structsvm.common.portable.elementary import exp2, log2
from structsvm.protocols import Float, Int


class ModelQuality(NamedTuple):
    """Quality of a click model on a log."""

    log_likelihood: float
    perplexity: float
    perplexity_by_position: Float


def model_quality(model: Any, cells: ClickCells) -> ModelQuality:
    """Measure how well a fitted click model predicts a log, preferably not the one that it was fitted to.

    Parameters
    ----------
    model : PositionBasedModel, UserBrowsingModel, CascadeModel or another model of this package
        A fitted model. Documents that its log did not show get the mean attraction.
    cells : ClickCells
        A log with sessions.

    Returns
    -------
    ModelQuality
        ``log_likelihood`` is the mean over shown documents of the log-probability (natural logarithm) of a click, or of
        its absence, given the clicks above it in the list; 0 is perfect. ``perplexity_by_position``, ndarray of shape
        (longest,), is 2 to the power of the mean surprisal (in bits) of a click or its absence, without conditioning on
        other clicks. ``perplexity`` is the mean of these values; 1 is perfect, 2 is a fair coin.

    Examples
    --------
    >>> from structsvm.clicks import PositionBasedModel
    >>> cells = ClickCells.from_arrays([1] * 4, [5, 6, 6, 5], [1, 2, 1, 2], [1, 0, 1, 0], session=[1, 1, 2, 2])
    >>> quality = model_quality(PositionBasedModel().fit(cells), cells)
    >>> quality.perplexity_by_position.round(2), round(quality.perplexity, 2)
    (array([2.1 , 1.26]), 1.68)
    """
    sessions = rows_of_model(model, cells)
    log_likelihood = dot(model.list_log_likelihoods(sessions), sessions.count)
    p, weight = model.marginals(sessions), sessions.counts
    with np.errstate(divide="ignore"):
        surprise = -np.where(sessions.clicked, log2(p), log2(1 - p))
    index = sessions.position - 1
    total, shows = (np.bincount(index, w, sessions.longest) for w in (weight * surprise, weight))
    by_position = exp2(total / shows)
    return ModelQuality(log_likelihood / float(weight.sum()), float(by_position.mean()), by_position)


def held_out_quality(model: Any, cells: ClickCells, *, random_state: Any = 0) -> ModelQuality:
    """Fit a click model to a random three quarters of the lists of a log, and measure it on the remaining lists.

    Each list is assigned separately, even if several are equal, so that a click pattern that is frequent in one part is
    also frequent in the other.

    Parameters
    ----------
    model : click model
        The model to fit.
    cells : ClickCells
        A log with sessions.
    random_state : int or Generator, default=0
        Seed or generator that divides the lists.

    Returns
    -------
    ModelQuality
        As in :func:`model_quality`. If there are too few lists to divide, the model is fitted to the whole log and
        measured on it.

    Examples
    --------
    >>> from structsvm.clicks import PositionBasedModel
    >>> cells = ClickCells.from_arrays([1] * 8, [5, 6] * 4, [1, 2] * 4, [1, 0] * 4, session=np.repeat(range(4), 2))
    >>> held_out_quality(PositionBasedModel(), cells).perplexity_by_position.shape
    (2,)
    """
    sessions = sessions_of(cells)
    quarter = np.random.default_rng(random_state).integers(4, size=sessions.n_sessions, dtype=np.uint8) == 0
    held = np.add.reduceat(quarter, np.cumsum(sessions.count) - sessions.count, dtype=np.int64)
    if not 0 < held.sum() < sessions.n_sessions:
        return model_quality(model.fit(cells), cells)
    training, testing = (_with_counts(cells, sessions, count) for count in (sessions.count - held, held))
    return model_quality(model.fit(training), testing)


def _with_counts(cells: ClickCells, sessions: ClickSessions, count: Int) -> ClickCells:
    """Return the log in which each distinct list occurs ``count`` times; rows keep their indices."""
    part = replace(sessions, count=count).select(count > 0)
    row, position, shows, clicks = part.tally(part.position, cells.n_positions + 1)
    return replace(cells, row=row, position=position, shows=shows, clicks=clicks, sessions=part, gapped=None)


def rows_of_model(model: Any, cells: ClickCells) -> ClickSessions:
    """Return the sessions of a log with the rows of the model's training log, or -1 for documents not in that log."""
    sessions = sessions_of(cells)
    if model._cells is cells:
        return sessions
    return ClickSessions(
        sessions.offsets,
        model._cells.rows_of(cells.query_ids[cells.row_query], cells.docid)[sessions.row],
        sessions.clicked,
        sessions.count,
    )
