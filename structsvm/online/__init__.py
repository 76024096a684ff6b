"""Online evaluation of rankers from clicks and votes: interleaving, statistics, dueling bandits, and simulation."""

from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.online import arena as arena
    from structsvm.online import bandits as bandits
    from structsvm.online import clicklog as clicklog
    from structsvm.online import interleaving as interleaving
    from structsvm.online import simulation as simulation
    from structsvm.online import statistics as statistics
    from structsvm.online import users as users
    from structsvm.online.simulation.assumptions import assumption_report as assumption_report
    from structsvm.online.simulation.letor_world import InterleavedRankers as InterleavedRankers
    from structsvm.online.simulation.letor_world import rank_queries as rank_queries
    from structsvm.online.simulation.play import Simulation as Simulation
    from structsvm.online.simulation.play import simulate as simulate
    from structsvm.online.simulation.worlds import NormalScores as NormalScores
    from structsvm.online.simulation.worlds import PreferenceMatrix as PreferenceMatrix
    from structsvm.online.simulation.worlds import Utilities as Utilities

__getattr__, __dir__, __all__ = attach(__name__)
