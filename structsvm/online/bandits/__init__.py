"""Dueling bandits: which arm is best, learned from comparisons, at little cost meanwhile.

Every bandit answers ``select(rng) -> Duel``, ``update(duel, outcome)``, ``best()``,
``to_json()``/``from_json``.

========== ==================================== =========== =========================================
name       class                                horizon     assumes
========== ==================================== =========== =========================================
if1, if2   ``InterleavedFilter`` (``IF1/IF2``)  needed      total order, transitivity, triangle
btm        ``BeatTheMean``                      needed      total order, relaxed transitivity
savage     ``SAVAGE``                           needed      Condorcet winner
rucb       ``RUCB``                             none        Condorcet winner
rcs        ``RCS``                              none        Condorcet winner
mergerucb  ``MergeRUCB``                        none        Condorcet winner, few equal arms
rmed1      ``RMED1``                            none        Condorcet winner
mdb        ``MDB``                              none        Condorcet winner; compares sets
sparring   ``Sparring``                         none        utilities
multisbm   ``MultiSBM``                         none        utilities
doubler    ``Doubler``                          none        utilities
random     ``RandomSubset``                     none        nothing: a baseline
========== ==================================== =========== =========================================

``ExploreThenExploit`` ends the exploration of any of them; ``Anytime`` frees the first four of the horizon.
``DBGD``, ``BGD1`` and ``BGD2`` search a continuous space of weights.
"""

from __future__ import annotations

import importlib
import inspect
import json
from typing import TYPE_CHECKING, Any

from structsvm.online.bandits.policy import Bandit, Duel

if TYPE_CHECKING:
    from structsvm.online.bandits.beat_the_mean import BeatTheMean as BeatTheMean
    from structsvm.online.bandits.doubler import Doubler as Doubler
    from structsvm.online.bandits.gradient import BGD1 as BGD1
    from structsvm.online.bandits.gradient import BGD2 as BGD2
    from structsvm.online.bandits.gradient import DBGD as DBGD
    from structsvm.online.bandits.gradient import GradientDescent as GradientDescent
    from structsvm.online.bandits.horizons import Anytime as Anytime
    from structsvm.online.bandits.horizons import ExploreThenExploit as ExploreThenExploit
    from structsvm.online.bandits.interleaved_filter import IF1 as IF1
    from structsvm.online.bandits.interleaved_filter import IF2 as IF2
    from structsvm.online.bandits.interleaved_filter import InterleavedFilter as InterleavedFilter
    from structsvm.online.bandits.mdb import MDB as MDB
    from structsvm.online.bandits.merge_rucb import MergeRUCB as MergeRUCB
    from structsvm.online.bandits.multisbm import MultiSBM as MultiSBM
    from structsvm.online.bandits.random_subset import RandomSubset as RandomSubset
    from structsvm.online.bandits.rcs import RCS as RCS
    from structsvm.online.bandits.rmed import RMED1 as RMED1
    from structsvm.online.bandits.rucb import RUCB as RUCB
    from structsvm.online.bandits.savage import SAVAGE as SAVAGE
    from structsvm.online.bandits.sparring import Sparring as Sparring

_PLACES = {
    "Anytime": "horizons",
    "BGD1": "gradient",
    "BGD2": "gradient",
    "BeatTheMean": "beat_the_mean",
    "DBGD": "gradient",
    "Doubler": "doubler",
    "ExploreThenExploit": "horizons",
    "GradientDescent": "gradient",
    "IF1": "interleaved_filter",
    "IF2": "interleaved_filter",
    "InterleavedFilter": "interleaved_filter",
    "MDB": "mdb",
    "MergeRUCB": "merge_rucb",
    "MultiSBM": "multisbm",
    "RCS": "rcs",
    "RMED1": "rmed",
    "RUCB": "rucb",
    "RandomSubset": "random_subset",
    "SAVAGE": "savage",
    "Sparring": "sparring",
}

NAMES = {
    "if1": "IF1",
    "if2": "IF2",
    "btm": "BeatTheMean",
    "savage": "SAVAGE",
    "rucb": "RUCB",
    "rcs": "RCS",
    "mergerucb": "MergeRUCB",
    "rmed1": "RMED1",
    "mdb": "MDB",
    "sparring": "Sparring",
    "multisbm": "MultiSBM",
    "doubler": "Doubler",
    "random": "RandomSubset",
}
"""Short names, for :func:`make`, ``simulate`` and the command line, to classes."""

__all__ = ["NAMES", "Bandit", "Duel", "from_json", "make", *_PLACES]


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def make(name: str, n_arms: int, horizon: int | None = None, **options: Any) -> Bandit:
    """A fresh bandit by name.

    Parameters
    ----------
    name : str
        A key of ``NAMES``.
    n_arms : int
    horizon : int, optional
        Passed to those that need one.
    **options
        Parameters of the class, such as ``alpha``.

    Raises
    ------
    ValueError
        Unknown name or option, missing horizon.

    Examples
    --------
    >>> make("rucb", 5, alpha=0.6).alpha
    0.6
    """
    if name not in NAMES:
        raise ValueError(f"bandit: expected one of {', '.join(NAMES)}, got {name!r}")
    builder = __getattr__(NAMES[name])
    known = inspect.signature(builder).parameters
    for key in options:
        if key not in known or key in ("n_arms", "horizon"):
            allowed = [key for key in known if key not in ("n_arms", "horizon")]
            raise ValueError(f"{name}: expected options among {allowed}, got {key!r}")
    if "horizon" in known:
        options["horizon"] = horizon
    bandit: Bandit = builder(n_arms, **options)
    return bandit


def from_json(text: str) -> Any:
    """Any bandit of this package, restored from its ``to_json``.

    Examples
    --------
    >>> from_json(make("mdb", 3).to_json()).n_arms
    3
    """
    try:
        name = json.loads(text)["bandit"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(
            f"expected the JSON text of a bandit as to_json wrote it, got {text[:60]!r}"
        ) from error
    if not isinstance(name, str) or name not in _PLACES:
        raise ValueError(f"expected a bandit of structsvm.online.bandits, got {name!r:.60}")
    return __getattr__(name).from_json(text)
