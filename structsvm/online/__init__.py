"""Which ranker is best, learned from clicks: dueling bandits, interleaving, clicks, and a simulator."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from structsvm.online.assumptions import assumption_report as assumption_report
    from structsvm.online.continuous import descend as descend
    from structsvm.online.continuous import descend_rankings as descend_rankings
    from structsvm.online.letor_world import InterleavedRankers as InterleavedRankers
    from structsvm.online.letor_world import rank_queries as rank_queries
    from structsvm.online.simulation import Simulation as Simulation
    from structsvm.online.simulation import explore as explore
    from structsvm.online.simulation import simulate as simulate
    from structsvm.online.worlds import NormalScores as NormalScores
    from structsvm.online.worlds import PreferenceMatrix as PreferenceMatrix
    from structsvm.online.worlds import Utilities as Utilities

_PLACES = {
    "InterleavedRankers": "letor_world",
    "NormalScores": "worlds",
    "PreferenceMatrix": "worlds",
    "Simulation": "simulation",
    "Utilities": "worlds",
    "assumption_report": "assumptions",
    "descend": "continuous",
    "descend_rankings": "continuous",
    "explore": "simulation",
    "rank_queries": "letor_world",
    "simulate": "simulation",
}
_ROOMS = ("bandits", "clicks", "interleaving", "statistics", "worlds")

__all__ = [*_PLACES]


def __getattr__(name: str) -> Any:
    # rooms are imported when first named: `import structsvm.online` stays light
    if name in _ROOMS:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _PLACES:
        return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
