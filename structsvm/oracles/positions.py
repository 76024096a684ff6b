"""Position-weighted joint features, shared by the oracles of NDCG, the reciprocal rank and precision.

``Psi(x, y) = sum_j alpha(rank_j) phi_j`` with ``alpha`` non-increasing and zero beyond the cut-off. The
target is the mean of ``Psi`` over all rankings sorted by grade: documents of equal grade share the mean ``alpha`` of
the positions they fill, so that it does not depend on the order of the rows. Each of those rankings has loss 0, hence
the hinge is >= 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from structsvm.common.kernel import kernel
from structsvm.oracles.sorting import sort_buffers, sort_descending
from structsvm.protocols import Float, Int

__all__ = [
    "FeatureDiscount",
    "PositionSeparator",
    "begin",
    "check_cut_off",
    "check_name",
    "cut_depth",
    "position_weights",
    "rank_by_relevance",
    "rank_ideally",
]

FeatureDiscount = Literal["log2", "inverse"]
"""Names of ``alpha``: ``1 / log2(r + 1)``, as in NDCG, or ``1 / r``, as in the reciprocal rank."""


class PositionSeparator:
    """A position-weighted oracle bound to labels.

    Parameters
    ----------
    search : kernel
        Called as ``search(scores, first, last, offsets, informative, target, settings, loss, coef)``.
    offsets : ndarray of int64, shape (n_queries + 1,)
    informative : ndarray of bool, shape (n_queries,)
        False if the loss of every ranking is 0.
    target : ndarray, shape (n_rows,)
        Mean ``alpha`` of each row over the rankings sorted by grade.
    settings : tuple
        Further arguments of the kernel that depend on the labels.
    """

    exact = True
    query_weights: Float | None = None

    def __init__(
        self,
        search: Callable[..., None],
        offsets: Int,
        informative: NDArray[np.bool_],
        target: Float,
        settings: tuple[Any, ...],
    ) -> None:
        self._search = search
        self._offsets = offsets
        # a query without a constraint has a target of zeros
        self._target = np.where(np.repeat(informative, np.diff(offsets)), target, 0.0)
        self._settings = settings
        self.informative = informative

    def separate(self, scores: Float, first: int, last: int, loss: Float, coef: Float) -> None:
        """See :class:`structsvm.protocols.Separator`."""
        self._search(
            scores, first, last, self._offsets, self.informative, self._target, self._settings, loss, coef
        )


def check_cut_off(oracle: object, k: int | None) -> None:
    """Raise ``ValueError`` unless ``k`` is None or a whole number >= 1."""
    if k is not None and (isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1):
        raise ValueError(f"{type(oracle).__name__}(k=...): expected an int >= 1, got {k!r}")


def check_name(oracle: object, parameter: str, value: str, allowed: tuple[str, ...]) -> None:
    """Raise ``ValueError`` unless ``value`` is one of ``allowed``."""
    if value not in allowed:
        names = " or ".join(map(repr, allowed))
        raise ValueError(f"{type(oracle).__name__}({parameter}=...): expected {names}, got {value!r}")


def cut_depth(offsets: Int, k: int | None) -> tuple[int, int]:
    """Return the length of the longest query, and how many positions count there."""
    longest = int(np.diff(offsets).max(initial=1))
    return longest, longest if k is None else min(int(k), longest)


def position_weights(name: FeatureDiscount, longest: int, k: int) -> Float:
    """Return the weight of position ``r`` at index ``r - 1``; zero beyond ``k``, also just beyond the longest query."""
    rank = np.arange(1.0, longest + 2)
    weights: Float = 1.0 / np.log2(rank + 1.0) if name == "log2" else 1.0 / rank
    weights[k:] = 0.0
    return weights


def rank_by_relevance(y: Float, offsets: Int, relevance: float, alpha: Float) -> tuple[Int, Int, Float]:
    """Return the rows of each query, relevant ones first; how many are relevant; and the mean ``alpha`` of each row."""
    relevant = (np.asarray(y) >= relevance).astype(np.float64)
    members, _, target = rank_ideally(relevant, offsets, alpha)
    running = np.concatenate(([0.0], np.cumsum(relevant)))
    n_relevant: Int = np.diff(running[offsets]).astype(np.int64)
    return members, n_relevant, target


@kernel(error_model="numpy")
def rank_ideally(grades, offsets, alpha):  # type: ignore[no-untyped-def]
    """Return the rows of each query by descending grade, where each grade ends, and the mean ``alpha`` of each row."""
    longest = alpha.shape[0]
    values, rows = np.empty(longest), np.empty(longest, np.int32)
    spare = sort_buffers(longest)
    members = np.empty(grades.shape[0], np.int32)
    group_end = np.empty(grades.shape[0], np.int32)
    target = np.empty(grades.shape[0])
    for q in range(offsets.shape[0] - 1):
        row0 = offsets[q]
        n = offsets[q + 1] - row0
        for i in range(n):
            values[i] = grades[row0 + i]
            rows[i] = i
        sort_descending(values, rows, n, spare)
        start = 0
        while start < n:
            end = start
            total = 0.0
            while end < n and values[end] == values[start]:
                total += alpha[end]
                end += 1
            for i in range(start, end):
                members[row0 + i] = rows[i]
                group_end[row0 + i] = end
                target[row0 + rows[i]] = total / (end - start)
            start = end
    return members, group_end, target


@kernel(error_model="numpy")
def begin(first, last, offsets, target, loss, coef):  # type: ignore[no-untyped-def]
    """Set the losses to 0 and the coefficients to the target's; return the length of the longest query."""
    longest = 1
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
        loss[q - first] = 0.0
    base, end = offsets[first], offsets[last]
    coef[: end - base] = target[base:end]
    return longest
