"""Corrections of p-values for several comparisons, such as many pairs of rankers or many experiments."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from structsvm.checks import BadInput
from structsvm.protocols import Float

__all__ = ["CORRECTIONS", "benjamini_hochberg", "holm", "uncorrected"]


def _p_values(p: ArrayLike) -> Float:
    values = np.asarray(p, dtype=np.float64)
    if values.ndim != 1:
        raise BadInput("p", f"expected one p-value a comparison, got shape {values.shape}")
    outside = np.flatnonzero(~((values >= 0) & (values <= 1)))
    if outside.size:
        raise BadInput("p", f"expected a number in [0, 1], got {values[outside[0]]}", at=f"[{outside[0]}]")
    return values


def holm(p: ArrayLike) -> Float:
    """Return Holm's step-down adjusted p-values, which bound the probability of any false rejection.

    Rejecting those of at most alpha makes a false rejection with probability at most alpha, however the comparisons
    depend on each other, and for always-valid p-values as well.

    Parameters
    ----------
    p : array-like, shape (n_comparisons,)

    Returns
    -------
    ndarray of float64, shape (n_comparisons,)

    Notes
    -----
    Holm, A simple sequentially rejective multiple test procedure (Scand. J. Statist. 1979).

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    values = _p_values(p)
    order = np.argsort(values, kind="stable")
    adjusted = np.empty_like(values)
    factors = np.arange(len(values), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * values[order]), 1.0)
    return adjusted


def benjamini_hochberg(p: ArrayLike) -> Float:
    """Return Benjamini and Hochberg's adjusted p-values, which bound the expected share of false rejections.

    The share is at most alpha for independent or positively dependent comparisons.

    Parameters
    ----------
    p : array-like, shape (n_comparisons,)

    Returns
    -------
    ndarray of float64, shape (n_comparisons,)

    Notes
    -----
    Benjamini & Hochberg (JRSS B 1995), by ``scipy.stats.false_discovery_control``.

    Examples
    --------
    >>> benjamini_hochberg([0.01, 0.04, 0.03])
    array([0.03, 0.04, 0.04])
    """
    from scipy.stats import false_discovery_control

    values = _p_values(p)
    return np.asarray(false_discovery_control(values)) if len(values) else values


def uncorrected(p: ArrayLike) -> Float:
    """Return the p-values unchanged: right for one comparison that was chosen before the data were seen."""
    return _p_values(p)


CORRECTIONS: dict[str, Callable[[ArrayLike], Float]] = {
    "holm": holm,
    "bh": benjamini_hochberg,
    "none": uncorrected,
}
"""Corrections by name."""
