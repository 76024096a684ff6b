"""Dueling bandits: find the best arm by comparisons of arms, with low regret.

Every bandit has ``select(rng) -> Duel``, ``update(duel, outcome)``, ``best()``, ``to_json()`` and ``from_json``
(:class:`structsvm.protocols.Bandit`). ``NAMES`` maps short names to classes. Class attributes describe each policy:
``label``, its short name; ``assumes``, the assumptions of its guarantee; ``compiled``, the module of its compiled form,
if any; and ``compares_sets``, which is True if it compares sets of arms. A policy whose constructor has a parameter
``horizon`` requires a horizon.

``ExploreThenExploit`` limits the exploration of any policy; ``Anytime`` runs a policy that requires a horizon if none
is known; ``Delayed`` allows for duels whose outcomes are still pending. ``DBGD``, ``BGD1`` and ``BGD2`` search a
continuous space of weights, with step sizes from ``dbgd_step_sizes``.
"""

from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.online.bandits.beat_the_mean import BeatTheMean as BeatTheMean
    from structsvm.online.bandits.best_arm import BestArm as BestArm
    from structsvm.online.bandits.by_name import NAMES as NAMES, from_json as from_json, make as make
    from structsvm.online.bandits.delayed import Delayed as Delayed
    from structsvm.online.bandits.double_thompson import DoubleThompson as DoubleThompson
    from structsvm.online.bandits.gradient import (
        BGD1 as BGD1,
        BGD2 as BGD2,
        DBGD as DBGD,
        GradientDescent as GradientDescent,
        dbgd_step_sizes as dbgd_step_sizes,
    )
    from structsvm.online.bandits.horizons import Anytime as Anytime, ExploreThenExploit as ExploreThenExploit
    from structsvm.online.bandits.interleaved_filter import (
        IF1 as IF1,
        IF2 as IF2,
        InterleavedFilter as InterleavedFilter,
    )
    from structsvm.online.bandits.mdb import MDB as MDB
    from structsvm.online.bandits.merge_rucb import MergeRUCB as MergeRUCB
    from structsvm.online.bandits.random_subset import RandomSubset as RandomSubset
    from structsvm.online.bandits.rmed import RMED1 as RMED1
    from structsvm.online.bandits.rucb import RCS as RCS, RUCB as RUCB
    from structsvm.online.bandits.savage import SAVAGE as SAVAGE
    from structsvm.online.bandits.ucb1 import Doubler as Doubler, MultiSBM as MultiSBM, Sparring as Sparring
    from structsvm.protocols import Bandit as Bandit, Duel as Duel

__getattr__, __dir__, __all__ = attach(
    __name__,
    label={
        "best": "BestArm",
        "btm": "BeatTheMean",
        "doubler": "Doubler",
        "dts": "DoubleThompson",
        "if1": "IF1",
        "if2": "IF2",
        "mdb": "MDB",
        "mergerucb": "MergeRUCB",
        "multisbm": "MultiSBM",
        "random": "RandomSubset",
        "rcs": "RCS",
        "rmed1": "RMED1",
        "rucb": "RUCB",
        "savage": "SAVAGE",
        "sparring": "Sparring",
    },
)
