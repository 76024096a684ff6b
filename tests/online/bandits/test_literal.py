"""The policies take the steps of their papers: twins written line by line, with the same random numbers.

A twin yields arms and is sent whether the first won, and for sets the outcome of each pair. Where a text leaves ties
open, twins draw as policies do.
"""

from collections.abc import Callable, Generator, Iterable
from functools import partial
from itertools import combinations, product
from math import inf, log, sqrt
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

from structsvm.online.bandits import make

Twin = Generator[tuple[int, int], bool, None]
SetTwin = Generator[tuple[int, ...], list[bool], None]
Rng = np.random.Generator


def largest(items: Iterable[int], value: Callable[[int], float], rng: Rng, tol: float = 0.0) -> int:
    """Return the item of the largest value; ties at random."""
    values = {item: value(item) for item in items}
    tied = [item for item, one in values.items() if one >= max(values.values()) - tol]
    return tied[0] if len(tied) == 1 else tied[int(rng.random() * len(tied))]


class Wins(dict[tuple[int, int], int]):
    """Wins of ordered pairs, with the ratios of the texts, in which x/0 is 1."""

    def __missing__(self, pair: tuple[int, int]) -> int:
        return 0

    def add(self, i: int, j: int, won: bool) -> None:
        if i != j:
            self[(i, j) if won else (j, i)] += 1

    def n(self, i: int, j: int) -> int:
        return self[i, j] + self[j, i]

    def mu(self, i: int, j: int) -> float:
        return self[i, j] / self.n(i, j) if self.n(i, j) else 1.0

    def bound(self, i: int, j: int, log_t: float) -> float:
        width = sqrt(log_t / self.n(i, j)) if self.n(i, j) else 1.0
        return 0.5 if i == j else self.mu(i, j) + width


def rucb(k: int, rng: Rng, horizon: int, alpha: float = 0.51) -> Twin:
    """Zoghi et al. (ICML 2014), Algorithm 1."""
    w, b, t = Wins(), set(), 0
    while True:
        t += 1
        u = partial(w.bound, log_t=alpha * log(t))
        c = [i for i in range(k) if all(u(i, j) >= 0.5 for j in range(k))]
        b &= set(c)
        if len(c) == 1:
            b = set(c)
        if not c:
            champion = largest(range(k), lambda i: 0, rng)
        elif b and (len(c) == 1 or rng.random() < 0.5):
            champion = min(b)
        else:
            champion = largest([i for i in c if i not in b], lambda i: 0, rng)
        others = [j for j in range(k) if j != champion]
        d = champion  # allowed only if there is no tie
        if max(u(j, champion) for j in others) >= 0.5:
            d = largest(others, lambda j: u(j, champion), rng)  # noqa: B023
        w.add(champion, d, (yield champion, d))


def rcs(k: int, rng: Rng, horizon: int, alpha: float = 0.501) -> Twin:
    """Zoghi et al. (WSDM 2014), Algorithm 1; a tie with the champion itself goes to the other, as in RUCB."""
    w, times, t = Wins(), [0] * k, 0
    while True:
        t += 1
        theta = {(i, i): 0.5 for i in range(k)}
        for i, j in combinations(range(k), 2):
            theta[i, j] = rng.beta(w[i, j] + 1, w[j, i] + 1)
            theta[j, i] = 1 - theta[i, j]
        unbeaten = [i for i in range(k) if all(theta[i, j] >= 0.5 for j in range(k))]
        c = unbeaten[0] if unbeaten else largest(range(k), lambda i: -times[i], rng)
        times[c] += 1
        u = {j: w.bound(j, c, alpha * log(t)) for j in range(k)}
        rivals = [j for j in u if j != c and u[j] >= 0.5] or [c]
        d = largest(rivals, u.__getitem__, rng)
        w.add(c, d, (yield c, d))


def rmed1(k: int, rng: Rng, horizon: int) -> Twin:
    """Komiyama et al. (COLT 2015), Algorithm 1 with the subroutine of RMED1, Algorithm 2, and f(K) = 0.3 K^1.01.

    J_j(t) is evaluated after the draw of round t, as in the first author's code.
    """
    w, t = Wins(), 0

    def ahead(i: int) -> list[int]:  # O_i
        return [j for j in range(k) if j != i and w.mu(i, j) <= 0.5]

    def divergence(i: int) -> float:  # I_i
        shares = [(w.n(i, j), mu) for j in ahead(i) for mu in (w.mu(i, j), 1 - w.mu(i, j)) if mu > 0]
        return sum(n * mu * log(2 * mu) for n, mu in shares)

    for i, j in combinations(range(k), 2):  # line 3, L = 1
        t += 1
        w.add(i, j, (yield i, j))
    current, rest, following = set(range(k)), set(range(k)), set()  # L_C, L_R, L_N
    while True:
        for arm in sorted(current):
            star = largest(range(k), lambda i: -divergence(i), rng, 1e-9)
            if star in ahead(arm) or not ahead(arm):
                m = star
            else:
                m = largest([j for j in range(k) if j != arm], lambda j: -w.mu(arm, j), rng)  # noqa: B023
            w.add(arm, m, (yield arm, m))
            rest.remove(arm)
            t += 1
            all_i = [divergence(i) for i in range(k)]
            limit = min(all_i) + log(t) + 0.3 * k**1.01
            following |= {j for j in range(k) if j not in rest and all_i[j] <= limit}
        current, rest, following = following, set(following), set()


def savage(k: int, rng: Rng, horizon: int) -> Twin:
    """Urvoy et al. (ICML 2013), Algorithm 1 over the N = K(K - 1)/2 pairs, finite horizon, delta = 1/T.

    It samples the least sampled of the parameters W. A pair is independent of the Condorcet winner, and leaves W,
    once one of its arms surely loses to any arm.
    """
    w, pairs = Wins(), list(combinations(range(k), 2))
    log_t = log(2 * len(pairs) * horizon * horizon) if pairs else 0.0
    active, lost = list(pairs), set()
    while active:
        i, j = min(active) if len(active) == 1 else _least_sampled(active, w, rng)
        w.add(i, j, (yield i, j))
        for a, b in (*pairs, *((j, i) for i, j in pairs)):
            if w.n(a, b) and w.mu(a, b) + sqrt(log_t / (2 * w.n(a, b))) < 0.5:
                lost.add(a)
        active = [pair for pair in active if not lost & set(pair)]
    (best,) = set(range(k)) - lost
    while True:
        yield best, best


def _least_sampled(pairs: list[tuple[int, int]], w: Wins, rng: Rng) -> tuple[int, int]:
    return pairs[largest(range(len(pairs)), lambda p: -w.n(*pairs[p]), rng)]


class SBM:
    """A singleton bandit machine: UCB of Ailon et al. (ICML 2014), of width ``sqrt((a + 2) ln t / (2 t_x))``."""

    def __init__(self, k: int, rng: Rng, a: float) -> None:
        self.k, self.rng, self.a = k, rng, a
        self.reset()

    def reset(self) -> None:
        self.t, self.plays, self.wins = 1, [0] * self.k, [0] * self.k

    def advance(self) -> int:
        def bound(x: int) -> float:
            n = self.plays[x]
            return self.wins[x] / n + sqrt((self.a + 2) * log(self.t) / (2 * n)) if n else inf

        return largest(range(self.k), bound, self.rng)

    def feedback(self, x: int, won: bool) -> None:
        self.t += 1
        self.plays[x] += 1
        self.wins[x] += won


def sparring(k: int, rng: Rng, horizon: int, alpha: float = 0.51) -> Twin:
    """Ailon et al. (ICML 2014), Sparring; ``a`` of the text is 2 alpha - 2."""
    left, right = SBM(k, rng, 2 * alpha - 2), SBM(k, rng, 2 * alpha - 2)
    while True:
        x, y = left.advance(), right.advance()
        won = yield x, y
        left.feedback(x, won)
        right.feedback(y, not won)


def multisbm(k: int, rng: Rng, horizon: int, alpha: float = 2.5) -> Twin:
    """Ailon et al. (ICML 2014), MultiSBM."""
    machines = [SBM(k, rng, 2 * alpha - 2) for _ in range(k)]
    y = int(rng.random() * k)  # y_0, arbitrary
    while True:
        x, y = y, machines[y].advance()
        machines[x].feedback(y, not (yield x, y))


def doubler(k: int, rng: Rng, horizon: int, alpha: float = 2.5) -> Twin:
    """Ailon et al. (ICML 2014), Doubler."""
    machine, left, i = SBM(k, rng, 2 * alpha - 2), list(range(k)), 0
    while True:
        i += 1
        machine.reset()
        played = []
        for _ in range(2**i):
            x = left[int(rng.random() * len(left))]
            if not played and i == 1:
                left = [x]  # the arbitrary singleton
            played.append(machine.advance())
            machine.feedback(played[-1], not (yield x, played[-1]))
        left = sorted(played)  # a multiset


def dts(k: int, rng: Rng, horizon: int, alpha: float = 0.51) -> Twin:
    """Wu and Liu (NeurIPS 2016), Algorithm 1; samples without effect on the duel are omitted."""
    w, t = Wins(), 0
    while True:
        t += 1
        u = partial(w.bound, log_t=alpha * log(t))
        score = [sum(u(i, j) > 0.5 for j in range(k) if j != i) for i in range(k)]  # zeta, times K - 1
        c = [i for i in range(k) if score[i] == max(score)]
        theta = {}
        for i, j in combinations(range(k), 2) if len(c) > 1 else ():
            if i in c or j in c:
                theta[i, j] = rng.beta(w[i, j] + 1, w[j, i] + 1)
                theta[j, i] = 1 - theta[i, j]
        first = largest(c, lambda i: sum(theta.get((i, j), 0) > 0.5 for j in range(k)), rng)  # noqa: B023
        again = {first: 0.5}
        for i in range(k):
            lower = 2 * w.mu(i, first) - w.bound(i, first, alpha * log(t))
            if i != first and lower <= 0.5:
                again[i] = rng.beta(w[i, first] + 1, w[first, i] + 1)
        second = max(again, key=again.__getitem__)
        w.add(first, second, (yield first, second))


def mdb(k: int, rng: Rng, horizon: int, alpha: float = 0.5, beta: float = 1.5) -> SetTwin:
    """Brost et al. (CIKM 2016), Algorithm 1."""
    w, t, chosen = Wins(), 1, list(range(k))
    while True:
        for (i, j), won in zip(combinations(chosen, 2), (yield tuple(chosen)), strict=True):
            w.add(i, j, won)
        t += 1
        E, F = (
            [i for i in range(k) if min(w.bound(i, j, width * log(t)) for j in range(k) if j != i) >= 0.5]
            for width in (alpha, beta * alpha)
        )
        chosen = F if len(E) > 1 else E or list(range(k))


POLICIES = (rucb, rcs, rmed1, savage, sparring, multisbm, doubler, dts, mdb)
TWINS: dict[str, Callable[..., Twin | SetTwin]] = {twin.__name__: twin for twin in POLICIES}
CYCLE = np.array([[0, 9, 1], [1, 0, 9], [9, 1, 0]]) / 10
WORLDS = [
    np.full((4, 4), 0.5),
    0.5 + np.subtract.outer([0.2, 0.9, 0.5, 0.0, 0.4], [0.2, 0.9, 0.5, 0.0, 0.4]) / 2,
    np.block([[CYCLE, np.full((3, 1), 0.25)], [np.full((1, 3), 0.75), np.full((1, 1), 0.5)]]),
    np.block([[CYCLE, np.full((3, 3), 0.95)], [np.full((3, 3), 0.05), np.full((3, 3), 0.5)]]),  # no winner
    np.triu(np.ones((6, 6)), 1),
]


@pytest.mark.parametrize("name", TWINS)
def test_the_policy_takes_the_steps_of_the_paper(name: str) -> None:
    steps = 900 if name == "savage" else 500  # until some arms have left
    for seed, P in enumerate(WORLDS * 2):
        options = {"alpha": 0.8} if seed >= 6 and name not in ("rmed1", "savage") else {}
        bandit, ours = make(name, len(P), steps, **options), np.random.default_rng(seed)
        twin = TWINS[name](len(P), np.random.default_rng(seed), steps, **options)
        outcomes = np.random.default_rng(seed + 100)
        arms = next(twin)
        for _ in range(steps):
            duel = bandit.select(ours)
            assert duel.arms == arms
            won: Any = [bool(outcomes.random() < P[pair]) for pair in duel.pairs()]
            won = won if name == "mdb" else won[0]
            bandit.update(duel, won)
            arms = twin.send(won)


def test_double_thompson_duels_have_the_probabilities_of_the_text() -> None:
    """Compute one step with all draws of the text: enumerate the first draw, integrate over the second."""
    bandit = make("dts", 4)
    bandit.wins[:] = [[0, 3, 2, 60], [2, 0, 4, 0], [3, 3, 0, 1], [1, 1, 2, 0]]
    bandit.t = 80  # all but arm 3 may beat three others
    wins, exact = bandit.wins, np.zeros((4, 4))
    pairs = list(combinations(range(4), 2))
    points = (np.arange(4000) + 0.5) / 4000
    for ahead in product([True, False], repeat=6):
        chance = np.prod(
            [beta.sf(0.5, *_counts(wins, *(p if a else p[::-1]))) for p, a in zip(pairs, ahead, strict=True)]
        )
        score = np.bincount([p[0] if a else p[1] for p, a in zip(pairs, ahead, strict=True)], minlength=4)[:3]
        for first in np.flatnonzero(score == score.max()):
            share = chance / (score == score.max()).sum()
            others = [j for j in range(4) if j != first]
            for j in others:  # theta_j is the largest, and above 1/2, that of the first arm
                rest = [beta.cdf(points, *_counts(wins, i, first)) for i in others if i != j]
                density = beta.pdf(points, *_counts(wins, j, first)) * np.prod(rest, axis=0)
                exact[first, j] += share * (density * (points > 0.5)).mean()
            exact[first, first] += share * np.prod([beta.cdf(0.5, *_counts(wins, j, first)) for j in others])
    assert exact.sum() == pytest.approx(1, abs=1e-5)
    rng, n = np.random.default_rng(0), 4000
    seen = np.zeros((4, 4))
    for _ in range(n):
        seen[bandit.select(rng).arms] += 1
    assert (np.abs(seen / n - exact) < 4.5 * np.sqrt(exact * (1 - exact) / n) + 1e-9).all()


def _counts(wins: np.ndarray, i: int, j: int) -> tuple[float, float]:
    return wins[i, j] + 1, wins[j, i] + 1
