"""Comparing rankers by clicks on one merged list; multileaving is interleaving with more than two rankings.

Every method is stateless: ``show(rankings, length=10, rng=None) -> Shown`` makes the list and the record to
log, ``credit(shown, clicks)`` reads that record later, here or on another machine. Names load when first
used.

======================= ======== ======================================= =================================
Method                  Rankings If clicks ignore the documents          Reference
======================= ======== ======================================= =================================
``TeamDraft``           any      expected outcome 0                      Radlinski et al. 2008
``Probabilistic``       any      expected outcome 0                      Hofmann et al. 2011
``Optimized``           any      expected centred credit 0 at each place Radlinski & Craswell 2013
``SOSM``                any      expected centred credit 0 (places even) Brost et al. 2016
``Balanced``            2        biased                                  Joachims 2003
``DocumentConstraints`` 2        biased                                  He et al. 2009
======================= ======== ======================================= =================================
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from structsvm.online.interleaving.balanced import Balanced
    from structsvm.online.interleaving.compiled import (
        PairCounts,
        RankedQueries,
        compare_pairs,
        multileave_outcomes,
        preference_matrix,
    )
    from structsvm.online.interleaving.document_constraints import DocumentConstraints
    from structsvm.online.interleaving.multileaving import distortion
    from structsvm.online.interleaving.optimized import Optimized
    from structsvm.online.interleaving.probabilistic import Probabilistic
    from structsvm.online.interleaving.record import Interleaver, Shown
    from structsvm.online.interleaving.sosm import SOSM
    from structsvm.online.interleaving.team_draft import TeamDraft

__all__ = [
    "SOSM",
    "Balanced",
    "DocumentConstraints",
    "Interleaver",
    "Optimized",
    "PairCounts",
    "Probabilistic",
    "RankedQueries",
    "Shown",
    "TeamDraft",
    "compare_pairs",
    "distortion",
    "multileave_outcomes",
    "preference_matrix",
]

_HOME = {
    "Balanced": "balanced",
    "DocumentConstraints": "document_constraints",
    "Interleaver": "record",
    "Optimized": "optimized",
    "PairCounts": "compiled",
    "Probabilistic": "probabilistic",
    "RankedQueries": "compiled",
    "SOSM": "sosm",
    "Shown": "record",
    "TeamDraft": "team_draft",
    "compare_pairs": "compiled",
    "distortion": "multileaving",
    "multileave_outcomes": "compiled",
    "preference_matrix": "compiled",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
