"""Compiled forms of the interleavers, for simulations; the methods beside are their literal twins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from structsvm.lazy import attach

if TYPE_CHECKING:
    from structsvm.online.interleaving.compiled.comparisons import LiveComparisons as LiveComparisons
    from structsvm.online.interleaving.compiled.comparisons import PairCounts as PairCounts
    from structsvm.online.interleaving.compiled.comparisons import compare_pairs as compare_pairs
    from structsvm.online.interleaving.compiled.comparisons import multileave_outcomes as multileave_outcomes
    from structsvm.online.interleaving.compiled.comparisons import preference_matrix as preference_matrix
    from structsvm.online.interleaving.compiled.ranked_queries import RankedQueries as RankedQueries

__getattr__, __dir__, __all__ = attach(__name__, __file__)
