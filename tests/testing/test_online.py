"""The checks of bandits, interleavers and users: all of the package pass, and broken ones fail."""

from copy import copy
from types import SimpleNamespace

import numpy as np
import pytest
from msgspec.structs import replace

from structsvm.online import bandits, interleaving, users
from structsvm.online.bandits import MDB, RUCB, Anytime, Duel, ExploreThenExploit, make
from structsvm.online.interleaving import (
    SOSM,
    Balanced,
    DocumentConstraints,
    Optimized,
    Probabilistic,
    TeamDraft,
)
from structsvm.online.users import CascadeUser, DependentClickUser, PositionBasedUser
from structsvm.online.users.cascade import CASCADE_TABLES
from structsvm.testing import check_bandit, check_click_model, check_interleaver
from tests.refusing import rejected

# the interleaved filters need more until they are sure
STEPS = {"if1": 30_000, "if2": 30_000}
BANDITS = {name: lambda n, name=name: make(name, n, STEPS.get(name, 500)) for name in bandits.NAMES}
BANDITS["anytime"] = lambda n: Anytime("savage", n, first=500)
BANDITS["explore then exploit"] = lambda n: ExploreThenExploit(make("rucb", n), 400)


@pytest.mark.parametrize("name", BANDITS)
def test_every_bandit_passes(name):
    check_bandit(BANDITS[name], steps=STEPS.get(name, 500))


INTERLEAVERS = [
    (TeamDraft(), {}),
    (Probabilistic(), {"prefix": False}),
    (Probabilistic(1.0), {"prefix": False}),
    (Optimized(), {"fair": "credit"}),
    (SOSM(), {"fair": "even credit"}),
    (Balanced(), {"fair": None, "multileaves": False}),
    (DocumentConstraints(), {"fair": None, "multileaves": False}),
]


@pytest.mark.parametrize(("method", "options"), INTERLEAVERS, ids=lambda value: getattr(value, "name", None))
def test_every_interleaver_passes(method, options):
    check_interleaver(method, **options)
    # a method declares a bias if equal rankers need not tie under every behaviour of users
    assert bool(method.bias) == (options.get("fair", "credit") in (None, "even credit"))


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


def broken(base=RUCB, **methods):
    """Return a bandit with the given methods instead of its own."""
    return type("Broken", (base,), methods)


class Remembering(RUCB):
    """Takes the pair from a variable instead of the duel."""

    __slots__ = ("played",)  # no part of the state

    def __init__(self, n_arms):
        super().__init__(n_arms)
        self.played = (0, 0)

    def select(self, rng):
        duel = super().select(rng)
        self.played = duel.arms
        return duel

    def update(self, duel, outcome):
        super().update(duel._replace(arms=self.played), outcome)


class Forgetful(RUCB):
    """Loses counts in a restart."""

    def to_json(self):
        changed = copy(self)
        changed.t = 0
        return RUCB.to_json(changed)


class Counting(RUCB):
    def select(self, rng):
        self.t += 1
        return super().select(rng)


class Hasty(RUCB):
    """Counts the step before it checks the outcome."""

    def update(self, duel, outcome):
        self.t += 1
        super().update(duel, outcome)
        self.t -= 1


def own_chance(bandit, rng):
    return RUCB.select(bandit, np.random.default_rng())


def by_number(bandit, rng):
    return RUCB.select(bandit, np.random.default_rng(0))


def secret(bandit, rng):
    return RUCB.select(bandit, rng)._replace(note={1, 2})


def doubled(bandit, rng):
    duel = MDB.select(bandit, rng)
    return duel._replace(arms=(*duel.arms, duel.arms[0])) if len(duel.arms) > 2 else duel


def contrary(bandit, duel, outcome):
    RUCB.update(bandit, duel, 1 - outcome if outcome in (0, 1) else outcome)


def credulous(bandit, duel, outcome):
    RUCB.update(bandit, duel, np.clip(float(outcome), 0, 1))


def backwards(bandit, duel, outcome):  # arm -1 is the last one to numpy
    RUCB.update(bandit, duel._replace(arms=tuple(arm % bandit.n_arms for arm in duel.arms)), outcome)


@pytest.mark.parametrize(
    ("bandit", "message"),
    [
        (broken(select=by_number, best=lambda self, rng=None: RUCB.best(self)), "the distribution changes"),
        (broken(select=own_chance), "the same state and seed"),
        (Counting, "same state and seed|changes the state"),
        (Remembering, "is updated differently"),
        (Forgetful, "after a restart"),
        (broken(select=secret), "cannot be saved as JSON"),
        (broken(update=contrary), "best: expected"),
        (broken(update=credulous), "outcome 2 of a duel: expected a ValueError, got none"),
        (Hasty, "the refused outcome .* changes the bandit"),
        (broken(update=backwards), r"a duel of \(0, 4\): expected a ValueError, got none"),
        (broken(MDB, select=doubled), "a set of distinct arms"),
        (broken(select=lambda self, rng: Duel((0, self.n_arms))), "expected a Duel of arms from 0"),
        (lambda n: RUCB(4), "expected a Duel of arms from 0 to 0"),
        (lambda n: object(), "expected the protocol Bandit, missing: n_arms, select"),
    ],
)
def test_broken_bandits_are_caught(bandit, message):
    with pytest.raises(AssertionError, match=message):
        check_bandit(bandit, steps=1500)


SOUND = TeamDraft()


class Spoiled(TeamDraft):
    """Return team draft with other methods instead of its own."""

    def __init__(self, **methods):
        vars(self).update(methods)


def recorded(change):
    """Return team draft with changed records."""
    return Spoiled(
        show=lambda *given, **options: change(SOUND.show(*given, **options)),
        distribution=lambda *given: [(change(shown), p) for shown, p in SOUND.distribution(*given)],
    )


def listed(change):
    return recorded(lambda shown: replace(shown, documents=change(shown.documents)))


def credited(change):
    return Spoiled(credit=lambda shown, clicks: change(SOUND.credit(shown, clicks)))


def scored(change):
    return Spoiled(outcome=lambda shown, clicks: change(SOUND.outcome(shown, clicks)))


def drawn(change):
    return Spoiled(distribution=lambda *given: change(SOUND.distribution(*given)))


def test_choices_without_an_end_are_stopped():
    endless = Spoiled(merge=lambda rankings, length, choose: [*iter(lambda: choose([0.5, 0.5]), None)])
    with pytest.raises(RuntimeError, match="5000 choices; never draw a ranker without documents"):
        endless.distribution([["a", "b"], ["b", "a"]])


def remembering():
    """Credits only record objects that it created itself."""
    known = []
    spoiled = recorded(lambda shown: known.append(shown) or shown)
    vars(spoiled)["credit"] = lambda shown, clicks: (
        SOUND.credit(shown, clicks) * any(one is shown for one in known)
    )
    return spoiled


def distinct(rankings):
    return [list(dict.fromkeys(ranking)) for ranking in rankings]


def any_clicks(clicks, n):
    return (np.resize(np.nan_to_num(np.atleast_1d(clicks)), n) > 0).astype(int)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (listed(lambda documents: (documents[0], *documents[:-1])), "shown twice"),
        (listed(lambda documents: (*documents[:-1], "new")), "a document that is in no ranking"),
        (
            recorded(lambda s: replace(s, documents=s.documents[:1], evidence=(s.evidence[0][:1],))),
            "expected 3 documents",
        ),
        (listed(lambda documents: documents[::-1]), "not the next document"),
        (
            recorded(lambda shown: replace(shown, evidence=((0,) * len(shown.documents),))),
            "permuted back|expected outcome 0",
        ),
        (recorded(lambda shown: replace(shown, n_rankers=shown.n_rankers + 1)), "the record has 3 rankers"),
        (recorded(lambda shown: replace(shown, method="team draft")), "the record names the method"),
        (
            Spoiled(
                show=lambda rankings, *given, **options: SOUND.show(distinct(rankings), *given, **options),
                distribution=lambda rankings, length: SOUND.distribution(distinct(rankings), length),
            ),
            "a document twice in a ranking: expected a ValueError, got none",
        ),
        (
            Spoiled(show=lambda rankings, length=10, rng=None: SOUND.show(rankings, length)),
            "the same seed gives a different list",
        ),
        (Spoiled(show=lambda rankings, length=10, rng=None: SOUND.show(rankings, length, 0)), "times of 400"),
        (drawn(lambda found: [(shown, p / 2) for shown, p in found]), "do not sum to 1"),
        (drawn(lambda found: [(found[0][0], 1.0)]), "permuted back|expected outcome 0"),
        (remembering(), "credits the logged record differently"),
        (
            Spoiled(
                credit=lambda shown, clicks: SOUND.credit(shown, any_clicks(clicks, len(shown.documents)))
            ),
            r"clicks \[1, 0\]: expected a ValueError, got none",
        ),
        (
            Spoiled(credit=lambda shown, clicks: SOUND.credit(replace(shown, method="team_draft"), clicks)),
            "a record of another method: expected a ValueError, got none",
        ),
        (credited(lambda credit: credit[:1]), "expected 2 finite numbers"),
        (credited(lambda credit: credit + np.arange(len(credit))), "favours a ranker"),
        (scored(lambda outcome: 2 * outcome), "numbers from -1 to 1"),
        (scored(np.abs), "not antisymmetric"),
        (scored(np.negative), "disagree"),
    ],
)
def test_broken_interleavers_are_caught(method, message):
    with pytest.raises(AssertionError, match=message):
        check_interleaver(method)


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        (Balanced(), {"multileaves": False}, "expected outcome 0"),
        (DocumentConstraints(), {"multileaves": False, "fair": "even credit"}, "expected equal credit"),
        (SOSM(), {"fair": "credit"}, "expected equal credit"),
        (SOSM(), {}, "expected outcome 0"),
        (Probabilistic(), {}, "not the next document"),
        (TeamDraft(), {"multileaves": False}, "three rankings: expected a ValueError"),
        (object(), {}, "expected the protocol Interleaver, missing: name, show"),
    ],
)
def test_promises_that_a_method_does_not_keep_are_caught(method, options, message):
    with pytest.raises(AssertionError, match=message):
        check_interleaver(method, **options)
    rejected("fair='always': expected", check_interleaver, method, fair="always")


USER = CascadeUser.named("navigational", 3)


def odd(**methods):
    """Return a cascade user with some methods instead of its own."""
    parts = ("tables", "click", "probability", "likelihood")
    return SimpleNamespace(**{name: getattr(USER, name) for name in parts} | methods)


def tabled(factor):
    def tables(length):
        made = USER.tables(length)
        return made._replace(click=factor * made.click)

    return odd(tables=tables)


def any_grade(grades):
    return np.clip(np.nan_to_num(np.asarray(grades, dtype=float)), 0, 2).round()


@pytest.mark.parametrize(
    ("user", "message"),
    [
        (tabled(2), "tables: expected probabilities"),
        (tabled(0.9), "does not agree with the tables"),
        (
            odd(
                click=lambda grades, rng=None: USER.click(any_grade(grades), rng),
                probability=lambda grades: USER.probability(any_grade(grades)),
                likelihood=lambda grades, clicks: USER.likelihood(any_grade(grades), clicks),
            ),
            "a negative grade: expected a ValueError, got none",
        ),
        (
            odd(  # reads from below
                click=lambda grades, rng=None: USER.click(grades[::-1], rng)[::-1],
                probability=lambda grades: USER.probability(grades[::-1])[::-1],
                likelihood=lambda grades, clicks: USER.likelihood(grades[::-1], clicks[::-1]),
            ),
            "does not agree with the tables|further down",
        ),
        (odd(click=lambda grades, rng=None: USER.click(grades)), "the same seed gives different clicks"),
        (
            odd(
                click=lambda grades, rng=None: USER.click(
                    np.minimum(grades, 1) if len(grades) == 4 else grades, rng
                )
            ),
            "times of 1000",
        ),
        (odd(click=lambda grades, rng=None: USER.click(grades, rng).astype(float)), "expected 4 booleans"),
        (
            odd(probability=lambda grades: np.array(USER.click_probability)[np.array(grades, dtype=int)]),
            "expected the marginals",
        ),
        (odd(likelihood=lambda grades, clicks: 0.9 * USER.likelihood(grades, clicks)), "sum to 1"),
        (
            odd(likelihood=lambda grades, clicks: USER.likelihood(grades, any_clicks(clicks, len(grades)))),
            "expected a ValueError, got none",
        ),
        (object(), "expected the protocol ClickModel, missing: click, probability"),
    ],
)
def test_odd_users_are_caught(user, message):
    with pytest.raises(AssertionError, match=message):
        check_click_model(user)
