"""Which ranker is best, learned from clicks: dueling bandits, interleaving, clicks, and a simulator."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from structsvm.online.simulation.assumptions import assumption_report as assumption_report
    from structsvm.online.simulation.exploration import explore as explore
    from structsvm.online.simulation.gradient_descent import descend as descend
    from structsvm.online.simulation.gradient_descent import descend_rankings as descend_rankings
    from structsvm.online.simulation.letor_world import InterleavedRankers as InterleavedRankers
    from structsvm.online.simulation.letor_world import rank_queries as rank_queries
    from structsvm.online.simulation.play import Simulation as Simulation
    from structsvm.online.simulation.play import simulate as simulate
    from structsvm.online.simulation.worlds import NormalScores as NormalScores
    from structsvm.online.simulation.worlds import PreferenceMatrix as PreferenceMatrix
    from structsvm.online.simulation.worlds import Utilities as Utilities

_PLACES = {
    "InterleavedRankers": "simulation.letor_world",
    "NormalScores": "simulation.worlds",
    "PreferenceMatrix": "simulation.worlds",
    "Simulation": "simulation.play",
    "Utilities": "simulation.worlds",
    "assumption_report": "simulation.assumptions",
    "descend": "simulation.gradient_descent",
    "descend_rankings": "simulation.gradient_descent",
    "explore": "simulation.exploration",
    "rank_queries": "simulation.letor_world",
    "simulate": "simulation.play",
}
_ROOMS = ("bandits", "clicklog", "interleaving", "simulation", "statistics", "users")

__all__ = [*_PLACES]


def __getattr__(name: str) -> Any:
    # rooms are imported when first named: `import structsvm.online` stays light
    if name in _ROOMS:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _PLACES:
        return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
