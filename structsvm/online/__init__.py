"""Online evaluation of rankers from clicks and votes: interleaving, statistics, dueling bandits, and simulation."""

from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.online import (
        arena as arena,
        bandits as bandits,
        clicklog as clicklog,
        interleaving as interleaving,
        simulation as simulation,
        statistics as statistics,
        users as users,
    )
    from structsvm.online.simulation.assumptions import assumption_report as assumption_report
    from structsvm.online.simulation.letor_world import (
        InterleavedRankers as InterleavedRankers,
        rank_queries as rank_queries,
    )
    from structsvm.online.simulation.play import Simulation as Simulation, simulate as simulate
    from structsvm.online.simulation.worlds import (
        NormalScores as NormalScores,
        PreferenceMatrix as PreferenceMatrix,
        Utilities as Utilities,
    )

__getattr__, __dir__, __all__ = attach(__name__)
