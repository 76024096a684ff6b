"""What every bandit shares: the duel it asks for, ties broken at random, and state as JSON."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from structsvm.protocols import Float

__all__ = [
    "Bandit",
    "Duel",
    "check_arms",
    "check_horizon",
    "check_pair",
    "check_positive",
    "check_whole",
    "copeland_leader",
    "dump",
    "load",
    "pair_indices",
    "pick",
    "record_pair",
    "record_set",
    "result",
    "tied",
]

T = TypeVar("T")


class Duel(NamedTuple):
    """A comparison a bandit asks for; it carries all that ``update`` needs to know besides the outcome.

    Attributes
    ----------
    arms : tuple of int
        Who is compared: a pair (twice the same arm when the bandit exploits), or a set for multi-dueling.
    note : object
        The bandit's own remark, JSON-able, handed back unread; None for most.

    Notes
    -----
    The outcome of a pair is 1 (or True) when ``arms[0]`` won, 0 when ``arms[1]`` won, 0.5 for a tie, which
    counts as half a win for both. For a set it is one such number for every pair of :meth:`pairs`, in that
    order. A comparison of an arm with itself tells nothing: worlds answer 0.5.

    Examples
    --------
    >>> Duel((4, 0, 2)).pairs()
    [(4, 0), (4, 2), (0, 2)]
    """

    arms: tuple[int, ...]
    note: Any = None

    def pairs(self) -> list[tuple[int, int]]:
        """All pairs of the arms, in the order in which outcomes are given."""
        return [(a, b) for k, a in enumerate(self.arms) for b in self.arms[k + 1 :]]


@runtime_checkable
class Bandit(Protocol):
    """A dueling bandit. The world (matrix, interleaved clicks) stays outside.

    ``select`` changes nothing: several duels may be under way at once, outcomes may come late or never, and
    in any order. ``to_json``/``from_json`` carry the whole state: a restarted bandit continues identically.
    """

    n_arms: int

    def select(self, rng: np.random.Generator) -> Duel:
        """The next comparison to make.

        Parameters
        ----------
        rng : numpy.random.Generator
            The bandit holds none of its own.

        Returns
        -------
        Duel
        """
        ...

    def update(self, duel: Duel, outcome: Any) -> None:
        """Learn from the outcome of a duel.

        Parameters
        ----------
        duel : Duel
            As :meth:`select` returned it.
        outcome : float, bool or array of them
            Of a pair 1 (the first arm won), 0, or 0.5 for a tie; of a set one such number for each of ``duel.pairs()``.

        Raises
        ------
        ValueError
            For anything else; nothing is learned then.
        """
        ...

    def best(self, rng: np.random.Generator | None = None) -> int:
        """The current answer.

        Parameters
        ----------
        rng : numpy.random.Generator, optional
            Breaks ties; without it the lowest index wins them.

        Returns
        -------
        int
            An arm, from 0.
        """
        ...

    def to_json(self) -> str:
        """The whole state, as JSON text."""
        ...

    @classmethod
    def from_json(cls, text: str) -> Any:
        """A bandit in the state that ``to_json`` wrote; ValueError for any other text."""
        ...


@lru_cache(maxsize=16)
def pair_indices(n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions of all pairs of ``n`` arms, in the order of :meth:`Duel.pairs`. Shared: do not write into
    them.
    """
    first, second = np.triu_indices(n, 1)
    return first, second


def check_whole(name: str, value: float, least: int = 1) -> int:
    """``value`` as an int; ValueError unless it is a whole number from ``least`` (True and False are none).

    Examples
    --------
    >>> check_whole("horizon", 1e6)
    1000000
    """
    try:
        whole = int(value)
    except (TypeError, ValueError, OverflowError):
        whole = least - 1
    if isinstance(value, (bool, np.bool_)) or whole != value or whole < least:
        raise ValueError(f"{name}: expected a whole number >= {least}, got {value!r}")
    return whole


def check_arms(n_arms: int) -> int:
    """``n_arms`` as an int, refused below one."""
    return check_whole("n_arms", n_arms)


def check_horizon(horizon: float | None, who: str) -> int:
    """``horizon`` as an int; ``who`` cannot do without one."""
    if horizon is None:
        raise ValueError(
            f"{who} sets its confidence from the horizon: give horizon=, "
            "or wrap it in structsvm.online.bandits.Anytime for use without one"
        )
    return check_whole("horizon", horizon)


def check_positive(name: str, value: float) -> float:
    """``value`` as a float, refused unless a positive and finite number (True is none)."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not (number and value > 0 and np.isfinite(value)):
        raise ValueError(f"{name}: expected a positive number, got {value!r}")
    return float(value)


def result(outcome: Any) -> float:
    """The outcome of a pair as a float: 1, 0, or 0.5 for a tie."""
    try:
        value = float(outcome)
    except (TypeError, ValueError):
        value = np.nan
    if not 0.0 <= value <= 1.0:
        raise ValueError(
            f"outcome: expected 1 (the first arm won), 0 (the second) or 0.5 (a tie), got {outcome!r}"
        )
    return value


def _check_duel(duel: Duel, n_arms: int) -> None:
    for arm in duel.arms:
        if not isinstance(arm, (int, np.integer)) or not 0 <= arm < n_arms:
            raise ValueError(f"duel: expected arms from 0 to {n_arms - 1}, got {duel.arms}")


def check_pair(duel: Duel, outcome: Any, n_arms: int) -> tuple[int, int, float]:
    """The two arms of a duel and its outcome as a float; ValueError for other than a pair, or a bad outcome."""
    _check_duel(duel, n_arms)
    if len(duel.arms) != 2:
        raise ValueError(f"duel: expected a pair of arms, got {duel.arms}")
    return duel.arms[0], duel.arms[1], result(outcome)


def record_pair(wins: Float, duel: Duel, outcome: Any) -> None:
    """Enter the outcome of a pair in the score sheet; nothing for an arm against itself.

    Examples
    --------
    >>> wins = np.zeros((2, 2))
    >>> record_pair(wins, Duel((0, 1)), True)
    >>> wins
    array([[0., 1.],
           [0., 0.]])
    """
    first, second, won = check_pair(duel, outcome, len(wins))
    if first != second:
        wins[first, second] += won
        wins[second, first] += 1.0 - won


def record_set(wins: Float, duel: Duel, outcome: Any) -> None:
    """Enter the outcome of every pair of a set in the score sheet; an arm alone tells nothing.

    Examples
    --------
    >>> wins = np.zeros((3, 3))
    >>> record_set(wins, Duel((0, 2)), [1])
    >>> wins[0]
    array([0., 0., 1.])
    """
    _check_duel(duel, len(wins))
    if len(set(duel.arms)) < max(1, len(duel.arms)):
        raise ValueError(f"duel: expected a set of different arms, got {duel.arms}")
    if len(duel.arms) < 2:
        return
    arms = np.array(duel.arms)
    first, second = (arms[index] for index in pair_indices(len(arms)))
    try:
        won = np.atleast_1d(np.asarray(outcome, dtype=np.float64))
    except (TypeError, ValueError):
        won = np.empty(0)
    if won.shape != first.shape or not ((won >= 0) & (won <= 1)).all():
        raise ValueError(
            f"outcome: expected {len(first)} numbers in [0, 1], one for every pair of duel.pairs(), "
            f"got {outcome!r}"
        )
    wins[first, second] += won
    wins[second, first] += 1.0 - won


def pick(items: Any, rng: np.random.Generator | None) -> int:
    """One of ``items`` at random. A single item costs no random number, and ``rng=None`` takes the first."""
    n = len(items)
    if n == 1 or rng is None:
        return int(items[0])
    return int(items[int(rng.random() * n)])


def tied(values: Float, rng: np.random.Generator | None, tol: float = 0.0) -> int:
    """An index where ``values`` is largest (within ``tol``), ties at random."""
    return pick(np.flatnonzero(values >= values.max() - tol), rng)


def copeland_leader(wins: Float, rng: np.random.Generator | None) -> int:
    """The arm ahead of the most others on the score sheet (RCS, section 4: the answer at a horizon)."""
    return tied((wins > wins.T).sum(axis=1), rng)


def dump(bandit: Any) -> str:
    """The attributes of a bandit as JSON; floats survive to the last bit."""
    state = {key: _encode(value) for key, value in vars(bandit).items()}
    return json.dumps({"bandit": type(bandit).__name__, "state": state}, allow_nan=False)


def load(cls: type[T], text: str, *, arms: Sequence[str] = (), places: Mapping[str, str] | None = None) -> T:
    """The inverse of :func:`dump` for a known class; ValueError for anything that is not such a state, whole.

    Parameters
    ----------
    cls : type
    text : str
    arms : sequence of str
        Attributes that hold arms, none of them twice: a list (of lists), or one arm, or what a fresh bandit has
        there for none.
    places : mapping of str to str, optional
        Attribute with a position -> the list it points into.
    """
    try:
        record = json.loads(text)
        name, state = record["bandit"], record["state"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(
            f"expected the JSON text of a {cls.__name__} as to_json wrote it, got {text[:60]!r}"
        ) from error
    if name != cls.__name__:
        raise ValueError(
            f"expected the state of a {cls.__name__}, got that of a {name}: use {name}.from_json"
        )
    bandit = cls.__new__(cls)
    vars(bandit).update(_checked(cls, state, arms, places or {}))
    return bandit


def _checked(cls: type, state: Any, arms: Sequence[str], places: Mapping[str, str]) -> dict[str, Any]:
    """The decoded attributes, held against those of a fresh bandit with the same parameters: what does not fit is
    found here and not at some later ``select``.
    """

    def fail(expected: str) -> ValueError:
        expected = " ".join(expected.split())  # arrays are shown in several lines
        return ValueError(
            f"state of a {cls.__name__}: expected {expected}; it was changed after to_json wrote it"
        )

    if not isinstance(state, dict):
        raise fail(f"an object with its attributes, got {state!r:.60}")
    values = {}
    for key, value in state.items():
        try:
            values[key] = _decode(value)
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise fail(f"{key!r} as written, got {value!r:.60} ({error})") from error
    parameters = inspect.signature(cls).parameters
    missing = [key for key, one in parameters.items() if one.default is one.empty and key not in values]
    if missing:
        raise fail(f"the attribute {missing[0]!r}, which is missing")
    # the fresh bandit is as large as n_arms says: hold that against what is there first
    n_arms, largest = values.get("n_arms"), max(map(_extent, values.values()), default=0)
    if isinstance(n_arms, (int, float)):
        for key, value in values.items():
            if n_arms > getattr(value, "n_arms", math.inf):
                raise fail(f"{key!r} to be of {n_arms!r:.60} arms, got {value.n_arms}")
        if n_arms > largest:
            raise fail(f"'n_arms' to be at most the {largest} of its records, got {n_arms!r:.60}")
    try:
        fresh = vars(cls(**{key: values[key] for key in parameters if key in values}))
    except (ValueError, TypeError, AttributeError, MemoryError) as error:
        raise fail(f"parameters it can be made with ({error})") from error
    for key in fresh.keys() ^ values.keys():
        raise fail(f"the attribute {key!r}, which is missing" if key in fresh else f"no attribute {key!r}")
    for key, one in fresh.items():
        value = values[key]
        if isinstance(one, np.ndarray):
            if not isinstance(value, np.ndarray) or (value.shape, value.dtype) != (one.shape, one.dtype):
                raise fail(f"{key!r} to be an array of {one.dtype} of shape {one.shape}, got {value!r:.60}")
            if not np.isfinite(value).all():
                raise fail(f"{key!r} to hold finite numbers, got {value!r:.60}")
            if not one.any() and (value < 0).any():  # fresh: nothing counted
                raise fail(f"{key!r} to hold counts, none below 0, got {value!r:.60}")
        elif not (one is None and value is None):
            kind = "a number" if one is None else _kind(one)
            if _kind(value) != kind and not (kind == "a number" and _kind(value) == "a whole number"):
                raise fail(f"{key!r} to be {kind}, got {value!r:.60}")
            if kind == "a whole number" and value < min(one, 0):
                raise fail(f"{key!r} to be at least {min(one, 0)}, got {value!r:.60}")
            size, right = (
                (value, one) if key == "n_arms" else (getattr(b, "n_arms", None) for b in (value, one))
            )
            if size != right:
                raise fail(f"{key!r} to be of {right} arms, got {size}")
    _check_arms_of(values, fresh, arms, fail)
    for key, of in places.items():
        n = len(values[of])
        if not 0 <= values[key] < max(n, 1) or (n and values[of][values[key]] == []):
            raise fail(f"{key!r} to be a position in {of!r} (of {n}, filled), got {values[key]!r:.60}")
    return values


def _check_arms_of(
    values: dict[str, Any], fresh: dict[str, Any], keys: Sequence[str], fail: Callable[[str], ValueError]
) -> None:
    """ValueError unless the attributes named hold arms, none twice, and something where a fresh bandit does."""
    seen: dict[int, str] = {}
    for key in keys:
        if not isinstance(fresh[key], list) and values[key] in (None, -1) and values[key] == fresh[key]:
            continue
        found = list(_flat(values[key]))
        if not found and any(True for _ in _flat(fresh[key])):
            raise fail(f"{key!r} to hold at least one arm, got {values[key]!r:.60}")
        for arm in found:
            if type(arm) is not int or not 0 <= arm < values["n_arms"]:
                raise fail(f"{key!r} to hold arms from 0 to {values['n_arms'] - 1}, got {arm!r:.60}")
            if arm in seen:
                where = "twice" if seen[arm] == key else f"that is in {seen[arm]!r} too"
                raise fail(f"{key!r} to hold different arms, got {arm} {where}")
            seen[arm] = key


def _extent(value: Any) -> int:
    """The number of arms that a saved value can be of."""
    if isinstance(value, np.ndarray):
        return max(value.shape, default=0)
    return len(value) if isinstance(value, list) else int(getattr(value, "n_arms", 0))


def _flat(value: Any) -> Iterator[Any]:
    """What is in a list of lists, or the one thing."""
    if not isinstance(value, list):
        yield value
        return
    for part in value:
        yield from _flat(part)


def _kind(value: Any) -> str:
    """What JSON tells apart, in words."""
    if isinstance(value, float):
        return "a number" if math.isfinite(value) else "infinite"
    names = {bool: "true or false", int: "a whole number", str: "a text", list: "a list"}
    return names.get(type(value), type(value).__name__)


def _encode(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {"dtype": str(value.dtype), "shape": value.shape, "values": value.ravel().tolist()}
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "to_json"):
        return {"bandit": value.to_json()}
    return value


def _decode(value: Any) -> Any:
    if isinstance(value, dict) and "dtype" in value:
        if value["dtype"] not in ("float64", "int64", "bool", "int32", "float32"):
            raise ValueError("no type of numbers")
        return np.array(value["values"], dtype=value["dtype"]).reshape(value["shape"])
    if isinstance(value, dict) and "bandit" in value:
        from structsvm.online.bandits import from_json

        return from_json(value["bandit"])
    return value
