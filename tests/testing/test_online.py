"""The checks of bandits, interleavers and users: every one of the package passes, and broken ones are caught."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from structsvm.online import bandits, interleaving, users
from structsvm.online.bandits import MDB, RUCB, Anytime, Duel, ExploreThenExploit, make
from structsvm.online.interleaving import (
    SOSM,
    Balanced,
    DocumentConstraints,
    Optimized,
    Probabilistic,
    Shown,
    TeamDraft,
)
from structsvm.online.users import CascadeUser, DependentClickUser, PositionBasedUser
from structsvm.online.users.cascade import CASCADE_TABLES
from structsvm.testing import check_bandit, check_click_model, check_interleaver

# the interleaved filters need more until they are sure
STEPS = {"if1": 30_000, "if2": 30_000}
BANDITS = {name: lambda n, name=name: make(name, n, STEPS.get(name, 4000)) for name in bandits.NAMES}
BANDITS["anytime"] = lambda n: Anytime("savage", n, first=4000)
BANDITS["explore then exploit"] = lambda n: ExploreThenExploit(make("rucb", n), 3000)


@pytest.mark.parametrize("name", BANDITS)
def test_every_bandit_passes(name):
    check_bandit(BANDITS[name], steps=STEPS.get(name, 4000))


INTERLEAVERS = [
    (TeamDraft(), {}),
    (Probabilistic(), {"prefix": False}),
    (Probabilistic(1.0), {"prefix": False}),
    (Optimized(), {"fair": "credit"}),
    (Optimized("linear"), {"fair": "credit"}),
    (SOSM(), {"fair": "even credit"}),
    (Balanced(), {"fair": None, "multileaves": False}),
    (DocumentConstraints(), {"fair": None, "multileaves": False}),
]


@pytest.mark.parametrize(("method", "options"), INTERLEAVERS, ids=lambda value: getattr(value, "name", None))
def test_every_interleaver_passes(method, options):
    check_interleaver(method, **options)


def test_no_interleaver_is_left_out():
    exported = (getattr(interleaving, name) for name in interleaving.__all__)
    methods = {thing for thing in exported if isinstance(thing, type) and hasattr(thing, "credit")}
    assert methods - {interleaving.Interleaver} == {type(method) for method, _ in INTERLEAVERS}


USERS = {
    **{f"{name}-{n}": CascadeUser.named(name, n) for name, n in CASCADE_TABLES},
    "stops anywhere": CascadeUser.named("informational", 3, stop="any"),
    "position": PositionBasedUser([0.1, 0.7, 0.95], [1.0, 0.6, 0.4, 0.3]),
    "dependent": DependentClickUser([0.1, 0.7, 0.95], [0.9, 0.5, 0.4, 0.2]),
}


@pytest.mark.parametrize("name", USERS)
def test_every_user_passes(name):
    check_click_model(USERS[name])


def test_no_user_is_left_out():
    exported = (getattr(users, name) for name in users.__all__)
    models = {thing for thing in exported if isinstance(thing, type) and hasattr(thing, "likelihood")}
    assert models - {users.ClickModel} == {type(user) for user in USERS.values()}


class ByNumber(RUCB):
    """Breaks ties by the number of the arm."""

    def select(self, rng):
        return super().select(np.random.default_rng(0))

    def best(self, rng=None):
        return super().best(None)


class OwnChance(RUCB):
    def select(self, rng):
        return super().select(np.random.default_rng())


class Counting(RUCB):
    def select(self, rng):
        self.t += 1
        return super().select(rng)


class Remembering(RUCB):
    """Knows who played from a variable instead of the duel."""

    def __init__(self, n_arms):
        super().__init__(n_arms)
        self.played = [(0, 0)]

    def select(self, rng):
        duel = super().select(rng)
        self.played[:] = [duel.arms]
        return duel

    def update(self, duel, outcome):
        super().update(duel._replace(arms=tuple(self.played[0])), outcome)

    def to_json(self):
        return RUCB.to_json(_without(self, "played"))


class Forgetful(RUCB):
    """Loses count in a restart."""

    def to_json(self):
        copy = _without(self)
        copy.t = 0
        return RUCB.to_json(copy)


def _without(bandit, *names):
    copy = type(bandit).__new__(type(bandit))
    vars(copy).update({key: value for key, value in vars(bandit).items() if key not in names})
    return copy


class Secretive(RUCB):
    def select(self, rng):
        return super().select(rng)._replace(note={1, 2})


class Contrary(RUCB):
    def update(self, duel, outcome):
        super().update(duel, 1 - outcome if outcome in (0, 1) else outcome)


class Credulous(RUCB):
    def update(self, duel, outcome):
        super().update(duel, np.clip(float(outcome), 0, 1))


class Hasty(RUCB):
    """Counts the step before it looks at the outcome."""

    def update(self, duel, outcome):
        self.t += 1
        super().update(duel, outcome)
        self.t -= 1


class Backwards(RUCB):
    """Arm -1 is the last one to numpy."""

    def update(self, duel, outcome):
        super().update(duel._replace(arms=tuple(arm % self.n_arms for arm in duel.arms)), outcome)


class Doubled(MDB):
    def select(self, rng):
        duel = super().select(rng)
        return duel._replace(arms=(*duel.arms, duel.arms[0])) if len(duel.arms) > 2 else duel


class Stranger(RUCB):
    def select(self, rng):
        return Duel((0, self.n_arms))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (ByNumber, "not the same in law"),
        (OwnChance, "the same state and seed"),
        (Counting, "same state and seed|changes the state"),
        (Remembering, "learns something else"),
        (Forgetful, "after a restart"),
        (Secretive, "cannot be JSON"),
        (Contrary, "best: expected"),
        (Credulous, "outcome 2 of a duel: expected a ValueError, got none"),
        (Hasty, "leaves something behind"),
        (Backwards, r"a duel of \(0, 4\): expected a ValueError, got none"),
        (Doubled, "a set of different arms"),
        (Stranger, "expected a Duel of arms from 0"),
        (lambda n: RUCB(4), "expected a Duel of arms from 0 to 0"),
        (lambda n: object(), "is no Bandit: without n_arms, select"),
    ],
)
def test_broken_bandits_are_caught(broken, message):
    with pytest.raises(AssertionError, match=message):
        check_bandit(broken, steps=1500)


@dataclass(frozen=True)
class Spoiled:
    """Team draft with one fault."""

    fault: str
    seen: dict
    name: ClassVar[str] = "team_draft"

    def _spoil(self, shown, rankings):
        documents, teams = shown.documents, shown.evidence[0]
        if self.fault == "duplicates" and len(documents) > 1:
            documents = (documents[0], *documents[:-1])
        if self.fault == "new documents":
            documents = (*documents[:-1], "new")
        if self.fault == "short":
            documents, teams = documents[:1], teams[:1]
        if self.fault == "own order":
            documents = documents[::-1]
        if self.fault == "first takes all":
            teams = (0,) * len(documents)
        if self.fault == "wrong number":
            return replace(shown, n_rankers=len(rankings) + 1)
        return Shown(
            "team draft" if self.fault == "renamed" else self.name, documents, len(rankings), (teams,)
        )

    def show(self, rankings, length=10, rng=None):
        if self.fault == "takes anything":
            rankings = [list(dict.fromkeys(r)) for r in rankings]
        if self.fault == "own chance":
            rng = None
        if self.fault == "other draws":
            return TeamDraft().show(rankings, length, 0)
        shown = self._spoil(TeamDraft().show(rankings, length, rng), rankings)
        self.seen["last"] = shown
        return shown

    def distribution(self, rankings, length=10):
        if self.fault == "takes anything":
            rankings = [list(dict.fromkeys(r)) for r in rankings]
        found = TeamDraft().distribution(rankings, length)
        if self.fault == "unlikely":
            found = [(shown, p / 2) for shown, p in found]
        if self.fault == "no coin":
            found = [(found[0][0], 1.0)]
        found = [(self._spoil(shown, rankings), p) for shown, p in found]
        self.seen["last"] = found[0][0]
        return found

    def credit(self, shown, clicks):
        if self.fault == "memory":
            shown = self.seen.get("last", shown)
        if self.fault == "any clicks":
            clicks = (np.resize(np.nan_to_num(np.atleast_1d(clicks)), len(shown.documents)) > 0).astype(int)
        if self.fault == "any record":
            shown = replace(shown, method="team_draft")
        credit = TeamDraft().credit(shown, clicks)
        return (
            credit[:1]
            if self.fault == "one credit"
            else credit + (self.fault == "gift") * np.arange(len(credit))
        )

    def outcome(self, shown, clicks):
        if self.fault == "loud":
            return 2 * TeamDraft().outcome(shown, clicks)
        if self.fault == "one-sided":
            return np.abs(TeamDraft().outcome(shown, clicks))
        return TeamDraft().outcome(shown, clicks) * (-1 if self.fault == "turned" else 1)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("duplicates", "shown twice"),
        ("new documents", "a document of no ranking"),
        ("short", "expected 3 documents"),
        ("own order", "not the best one left"),
        ("first takes all", "turned round|expected outcome 0"),
        ("wrong number", "the record says 3 rankers"),
        ("renamed", "the record names the method"),
        ("takes anything", "a document twice in a ranking: expected a ValueError, got none"),
        ("own chance", "the same seed gives another list"),
        ("other draws", "times of 400"),
        ("unlikely", "do not sum to 1"),
        ("no coin", "turned round|expected outcome 0"),
        ("memory", "credits the logged record otherwise"),
        ("any clicks", r"clicks \[1, 0\]: expected a ValueError, got none"),
        ("any record", "a record of another method: expected a ValueError, got none"),
        ("one credit", "expected 2 finite numbers"),
        ("gift", "favours a ranker"),
        ("loud", "numbers from -1 to 1"),
        ("one-sided", "not antisymmetric"),
        ("turned", "disagree"),
    ],
)
def test_broken_interleavers_are_caught(fault, message):
    with pytest.raises(AssertionError, match=message):
        check_interleaver(Spoiled(fault, {}))


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        (Balanced(), {"multileaves": False}, "expected outcome 0"),
        (DocumentConstraints(), {"multileaves": False, "fair": "even credit"}, "expected equal credit"),
        (SOSM(), {"fair": "credit"}, "expected equal credit"),
        (SOSM(), {}, "expected outcome 0"),
        (Probabilistic(), {}, "not the best one left"),
        (TeamDraft(), {"multileaves": False}, "three rankings: expected a ValueError"),
        (object(), {}, "is no Interleaver: without name, show"),
    ],
)
def test_promises_that_a_method_does_not_keep_are_caught(method, options, message):
    with pytest.raises(AssertionError, match=message):
        check_interleaver(method, **options)
    with pytest.raises(ValueError, match="fair='always': expected"):
        check_interleaver(method, fair="always")


@dataclass(frozen=True)
class OddUser:
    """A cascade user with one fault."""

    fault: str
    sound: ClassVar[CascadeUser] = CascadeUser.named("navigational", 3)

    def tables(self, length):
        made = self.sound.tables(length)
        return made._replace(click=made.click * (2 if self.fault == "too likely" else 0.9)) if (
            self.fault in ("too likely", "other tables")
        ) else made  # fmt: skip

    def _read(self, grades):
        if self.fault == "any grade":
            grades = np.clip(np.nan_to_num(np.asarray(grades, dtype=float)), 0, 2).round()
        return grades[::-1] if self.fault == "from below" else grades

    def click(self, grades, rng=None):
        if self.fault == "own chance":
            rng = None
        if self.fault == "sees less":
            return self.sound.click(np.minimum(grades, 1) if len(grades) == 4 else grades, rng)
        drawn = self.sound.click(self._read(grades), rng)
        drawn = drawn[::-1] if self.fault == "from below" else drawn
        return drawn.astype(float) if self.fault == "floats" else drawn

    def probability(self, grades):
        if self.fault == "never leaves":
            return np.asarray(self.sound.click_probability)[np.asarray(grades, dtype=int)]
        given = self.sound.probability(self._read(grades))
        return given[::-1] if self.fault == "from below" else given

    def likelihood(self, grades, clicks):
        if self.fault == "unlikely":
            return 0.9 * self.sound.likelihood(grades, clicks)
        if self.fault == "from below":
            clicks = clicks[::-1]
        if self.fault == "any clicks":
            clicks = (np.resize(np.nan_to_num(np.atleast_1d(clicks)), len(grades)) > 0).astype(int)
        return self.sound.likelihood(self._read(grades), clicks)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("too likely", "tables: expected probabilities"),
        ("other tables", "not what the tables say"),
        ("any grade", "a negative grade: expected a ValueError, got none"),
        ("from below", "not what the tables say|further down"),
        ("own chance", "the same seed gives other clicks"),
        ("sees less", "times of 1000"),
        ("floats", "expected 4 booleans"),
        ("never leaves", "expected the marginals"),
        ("unlikely", "sum to 1"),
        ("any clicks", "expected a ValueError, got none"),
    ],
)
def test_odd_users_are_caught(fault, message):
    with pytest.raises(AssertionError, match=message):
        check_click_model(OddUser(fault))


def test_no_user_at_all():
    with pytest.raises(AssertionError, match="is no ClickModel: without click, probability"):
        check_click_model(object())
