"""``check_click_model``: the properties that a simulated user must have."""

import itertools
from collections import defaultdict
from typing import Any

import numpy as np

from structsvm.protocols import ClickModel
from structsvm.testing.require import Requirement


def check_click_model(model: Any, *, length: int = 4, random_state: int = 0) -> None:
    """Check a simulated user (:class:`structsvm.online.users.ClickModel`).

    ``tables`` contain probabilities. ``likelihood`` sums to one over all vectors of clicks, ``probability`` is its
    marginal, and both agree with probabilities computed from the tables rank by rank. Sampled clicks have these
    frequencies. Documents lower in the list do not affect clicks above them. Invalid grades and clicks raise a
    ``ValueError``.

    Parameters
    ----------
    model : ClickModel
        Simulated user to check.
    length : int, default=4
        Number of documents per list; all ``2^length`` vectors of clicks are enumerated.
    random_state : int, default=0
        Seed.

    Examples
    --------
    >>> from structsvm.online.users import CascadeUser
    >>> check_click_model(CascadeUser.named("informational", 3))
    """
    require = Requirement(repr(model))
    require.members(ClickModel, model)
    rng = np.random.default_rng(random_state)
    tables = [np.asarray(table) for table in model.tables(length)]
    n_grades = tables[0].shape[0]
    for table in tables:
        message = f"tables: expected probabilities of shape ({n_grades}, {length}), got shape {table.shape}"
        require(table.shape == (n_grades, length) and ((table >= 0) & (table <= 1)).all(), message)
    every = list(itertools.product((0, 1), repeat=length))
    # all of the best grade, all of the worst, and three random lists
    lists = [[n_grades - 1] * length, [0] * length, *(rng.integers(n_grades, size=(3, length)).tolist())]
    # For every list, compare the probabilities of all click vectors with the marginals and with those from the tables.
    for grades in lists:
        given = np.array(grades)
        given.flags.writeable = False
        chance = np.array([model.likelihood(given, clicks) for clicks in every])
        marginal = np.asarray(model.probability(given))
        walked = _walk(tables, grades)
        message = f"likelihood: expected probabilities that sum to 1, got a sum of {chance.sum():.12g}"
        require((chance >= 0).all() and abs(chance.sum() - 1) <= 1e-12, message)
        require(marginal.shape == (length,), f"probability: expected {length} numbers")
        message = f"probability of grades {grades}: expected the marginals of likelihood, got {marginal}"
        require((np.abs(marginal - chance @ np.array(every)) <= 1e-12).all(), message)
        message = "likelihood: does not agree with the tables"
        require((np.abs(chance - [walked.get(clicks, 0.0) for clicks in every]) <= 1e-12).all(), message)
        # a user reads from the top: a shorter list has the same clicks
        for k in range(length):
            message = "clicks depend on documents further down"
            require((np.abs(np.asarray(model.probability(given[:k])) - marginal[:k]) <= 1e-12).all(), message)
    _check_sampled_clicks(model, lists, every, require, random_state)
    require(np.asarray(model.probability([])).shape == (0,), "an empty list has clicks")
    good = [0] * length
    # invalid grades for all three methods, then invalid clicks for the likelihood
    for what, grades in (
        ("a negative grade", [-1, *good[1:]]),
        (f"grade {n_grades} of {n_grades}", [*good[1:], n_grades]),
        ("half a grade", [0.5, *good[1:]]),
        ("a missing grade", [np.nan, *good[1:]]),
        ("a table", [good, good]),
        ("text", ["good"] * length),
    ):
        for action in (model.probability, model.click):
            require.refusal(what, action, grades)
        require.refusal(what, model.likelihood, grades, good)
    for clicks in (good[1:], [*good, 0], [2, *good[1:]], [np.nan, *good[1:]]):
        require.refusal(f"clicks {clicks}", model.likelihood, good, clicks)


def _walk(tables: list[Any], grades: list[int]) -> dict[tuple[int, ...], float]:
    """Return the probability of every click vector from the tables: at each rank, click or skip, then stop or
    continue."""
    # ``reading`` has the probabilities of users who are still reading, by their clicks so far; users who stop make no
    # further clicks and move to ``done``
    click, stop_after_click, stop_after_skip = tables
    done: dict[tuple[int, ...], float] = defaultdict(float)
    reading: dict[tuple[int, ...], float] = {(): 1.0}
    for k, grade in enumerate(grades):
        going: dict[tuple[int, ...], float] = {}
        for clicks, p in reading.items():
            for clicked, chance, stop in (
                (1, click[grade, k], stop_after_click[grade, k]),
                (0, 1 - click[grade, k], stop_after_skip[grade, k]),
            ):
                going[(*clicks, clicked)] = p * chance * (1 - stop)
                done[*clicks, clicked, *[0] * (len(grades) - k - 1)] += p * chance * stop
        reading = going
    for clicks, p in reading.items():
        done[clicks] += p
    return done


def _check_sampled_clicks(model: Any, lists: Any, every: Any, require: Requirement, seed: int) -> None:
    for grades in lists[:1] + lists[-1:]:
        rng, counts = np.random.default_rng(seed), dict.fromkeys(every, 0)
        for _ in range(1000):
            clicks = model.click(grades, rng)
            require(
                isinstance(clicks, np.ndarray)
                and clicks.dtype == np.bool_
                and clicks.shape == (len(grades),),
                f"click: expected {len(grades)} booleans, got {clicks!r:.80}",
            )
            counts[tuple(clicks.astype(int).tolist())] += 1
        chances = {clicks: float(model.likelihood(grades, clicks)) for clicks in every}
        require.frequencies(counts, chances, f"on grades {grades} clicks")
        one, other = ([model.click(grades, seed + k).tolist() for k in range(20)] for _ in range(2))
        require(one == other, "the same seed gives different clicks")
