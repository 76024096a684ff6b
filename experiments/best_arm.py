"""The best of K from pairwise votes: votes until a stop that is valid at every look, and its error.

*Default* is ``BestArm``. The other rules choose pairs differently and stop by the same evidence; a duel of an arm with
itself costs no vote. *Bradley-Terry, peeking* compares all pairs equally often and stops when the 95 % interval of the
difference between the first two arms excludes 0, checked after every ten votes. Votes are sampled from preference
matrices. *Best known* compares the best arm, known in advance, with each rival until ``BestArm`` would accept the
claim; *all rates known* also bets the best share at each win rate. No choice of pairs, and no choice of bets, needs
fewer votes.

The bets were chosen so that a clear best arm needs at most 1.3 times the votes of peeking (mean): twelve stakes with a
prior over win rates, larger weights of the larger stakes, and exploration that ends once the leader is certain. Two
worlds are below it, with 1.20 and 1.04 times the votes; with four equal rivals of win rate .75 the ratio is 1.61. There
*best known* takes 1.39 times, so no choice of pairs reaches 1.3 with these bets, and *all rates known* 1.14 times,
which would need bets that know the win rates.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any

import numpy as np
from _common import MATRICES, Experiment, matrix

from structsvm.online.arena import Votes, arena
from structsvm.online.bandits import BestArm, make
from structsvm.online.evidence.bets import Evidence, shown_best, thresholds
from structsvm.online.simulation.worlds import condorcet_winner

PARTS = ("votes", "clear", "worlds", "error", "strengths")


def synthetic(n: int, seed: int) -> list[np.ndarray]:
    """Return ten models whose log-odds are differences of normal strengths plus a small deviation per pair."""
    out = []
    for k in count():
        rng = np.random.default_rng([seed, k])
        strength, own = rng.normal(0.0, 0.8, size=10), np.triu(rng.normal(0.0, 0.2, size=(10, 10)), 1)
        P = 1 / (1 + np.exp(strength[None, :] - strength[:, None] + own - own.T))
        if condorcet_winner(P) is not None and len(out) < n:
            out.append(P)
        if len(out) == n:
            return out
    raise AssertionError


def judged(run: Experiment) -> np.ndarray:
    """Return win rates of eight models from the scores of a judge; an equal score is half a win."""
    scores = np.genfromtxt(run.data / "votes" / "wildbench_scores.csv.gz", delimiter=",", skip_header=1)[
        :, 1:
    ]
    ahead = scores[:, :, None] - scores[:, None, :]
    return np.nanmean(np.where(np.isnan(ahead), np.nan, (np.sign(ahead) + 1) / 2), axis=0)


def by_default(
    P: np.ndarray, rng: np.random.Generator, cap: int, batch: int = 10, top: int = 1, **options: Any
) -> tuple[int, ...]:
    """Return the votes until ``BestArm`` stops, and the declared arms: one or ``top``; -1 undecided, -2 "no best"."""
    bandit, t = BestArm(len(P), top=top, **options), 0
    while t < cap and not bandit.finished:
        for duel in bandit.select_batch(batch, rng):
            bandit.update(duel, float(rng.random() < P[duel.arms]))
            t += 1
    decided = bandit.decided()
    return t, *(map(int, bandit.leaders()) if top > 1 and decided >= 0 else [decided] * top)


def by_bandit(name: str) -> Callable[..., tuple[int, int]]:
    def play(P: np.ndarray, rng: np.random.Generator, cap: int) -> tuple[int, int]:
        bandit, evidence, t = make(name, len(P), cap), Evidence(len(P)), 0
        levels = thresholds(0.05, len(P))
        for _ in range(3 * cap):
            duel = bandit.select(rng)
            i, j = duel.arms
            won = 0.5 if i == j else float(rng.random() < P[i, j])
            bandit.update(duel, won)
            if i != j:
                evidence.add(i, j, won)
                t += 1
                if t % 10 == 0 and (answer := shown_best(evidence.peak, levels)) != -1:
                    return t, answer
            if t == cap:
                break
        return cap, -1

    return play


def evenly(P: np.ndarray, rng: np.random.Generator, cap: int) -> tuple[int, int]:
    k, evidence, levels = len(P), Evidence(len(P)), thresholds(0.05, len(P))
    for t in range(1, cap + 1):
        i, j = rng.choice(k, 2, replace=False)
        evidence.add(i, j, float(rng.random() < P[i, j]))
        if t % 10 == 0 and (answer := shown_best(evidence.peak, levels)) != -1:
            return t, answer
    return cap, -1


def peeking(P: np.ndarray, rng: np.random.Generator, cap: int) -> tuple[int, int]:
    bandit = BestArm(len(P))
    for t in range(1, cap + 1):
        i, j = rng.choice(len(P), 2, replace=False)
        won = float(rng.random() < P[i, j])
        bandit.wins[i, j] += won
        bandit.wins[j, i] += 1 - won
        if t >= 50 and t % 10 == 0:
            strength, hessian = bandit.strengths()
            first, second = np.argsort(-strength)[:2]
            cov = np.linalg.inv(hessian)
            error = np.sqrt(cov[first, first] + cov[second, second] - 2 * cov[first, second])
            if strength[first] - strength[second] > 1.96 * error:
                return t, int(first)
    return cap, -1


def summary(found: np.ndarray, worlds: list[np.ndarray], epsilon: float) -> list[Any]:
    t, answers = found[:, 0], found[:, 1:]
    wrong = sum(
        arms[0] >= 0 and bool((np.delete(P[arms], arms, axis=1) <= 0.5 - epsilon).any())
        for arms, P in zip(answers, worlds, strict=True)
    )
    spread = f"{np.median(t):,.0f} / {np.quantile(t, 0.9):,.0f}"
    return [spread, wrong, int((answers[:, 0] == -1).sum()), len(found)]


def played(
    run: Experiment, rule: Callable[..., tuple[int, ...]], worlds: list[np.ndarray], cap: int, **options: Any
) -> np.ndarray:
    """Return the votes and the answers of a rule in each world."""

    def compute() -> dict[str, Any]:
        found = [rule(P, np.random.default_rng([run.seed, k]), cap, **options) for k, P in enumerate(worlds)]
        return {"found": np.array(found)}

    return np.asarray(run.once(compute)["found"])


def compared(run: Experiment) -> None:
    columns = ["rule", "votes, median / 90 %", "wrong", "undecided", "runs"]
    rules = {
        "default": by_default,
        "evenly": evenly,
        "Bradley-Terry, peeking": peeking,
        **{name: by_bandit(name) for name in ("dts", "rucb", "rmed1")},
    }
    n = run.runs(3, 12)
    sets = {"ten synthetic models": synthetic(n, run.seed)}
    if (run.data / "votes").is_dir():
        sets["eight models, a judge's scores"] = [judged(run)] * n
    for name, worlds in sets.items():
        run.section(f"{name}, at most {2000 if run.quick else 6000:,} votes")
        cap = 2000 if run.quick else 6000
        rows = [
            [label, *summary(played(run, rule, worlds, cap), worlds, 0.0)] for label, rule in rules.items()
        ]
        run.table(name, columns, rows)


def bradley_terry(rates: tuple[float, ...], seed: int) -> np.ndarray:
    """Return win rates of arms in random order, of which one wins with the given rates against the others."""
    odds = np.array([1.0, *((1 - rate) / rate for rate in rates)])
    odds = np.random.default_rng([3, seed]).permutation(odds)
    return np.asarray(odds[:, None] / (odds[:, None] + odds[None, :]))


def known(P: np.ndarray, rng: np.random.Generator, cap: int, rates: bool = False) -> tuple[int, int]:
    """Return the votes that show that the best arm, known in advance, beats each rival."""
    best, t, level = int(condorcet_winner(P)), 0, thresholds(0.05, len(P))[0]
    for rate in np.delete(P[best], best):
        evidence, capital = Evidence(2), 0.0
        while (capital if rates else evidence.peak[0, 1]) < level:
            won = rng.random() < rate
            capital += np.log(2 * rate if won else 2 * (1 - rate))
            evidence.add(0, 1, float(won))
            t += 1
    return t, best


def of_clear(run: Experiment) -> None:
    """Compare the votes of valid rules with those of peeking where the best arm is clear."""
    rows, n = [], run.runs(4, 60)
    rules: dict[str, Any] = {
        "Bradley-Terry, peeking": peeking,
        "default": by_default,
        "best known": known,
        "all rates known": partial(known, rates=True),
    }
    for name, rates in (
        ("5 arms, .65 to .86", (0.65, 0.72, 0.79, 0.86)),
        ("6 arms, .65 to .86", (0.65, 0.7, 0.75, 0.8, 0.86)),
        ("5 arms, .75", (0.75,) * 4),
    ):
        worlds = [bradley_terry(rates, seed) for seed in range(n)]
        of_peeking: np.ndarray | None = None
        for label, rule in rules.items():
            found = played(run, rule, worlds, 6000)
            centre = np.array([found[:, 0].mean(), np.median(found[:, 0])])
            of_peeking = centre if of_peeking is None else of_peeking
            wrong = sum(answer != condorcet_winner(P) for answer, P in zip(found[:, 1], worlds, strict=True))
            ratio = centre / of_peeking
            rows.append([name, label, *np.round(centre), *np.round(ratio, 2), wrong, n])
    columns = ["world", "rule", "mean votes", "median", "mean / peeking", "median / peeking", "wrong", "runs"]
    run.table("clear", columns, rows)


def other_worlds(run: Experiment) -> Iterator[tuple[str, list[np.ndarray], int, dict[str, Any]]]:
    for p in (0.55, 0.6, 0.7, 0.9):
        yield f"two arms, {p}", [np.array([[0.5, p], [1 - p, 0.5]])] * run.runs(5, 100), 6000, {"batch": 5}
    cycle = np.full((5, 5), 0.5)
    for i in range(5):
        for step in (1, 2):
            cycle[i, (i + step) % 5], cycle[(i + step) % 5, i] = 0.75, 0.25
    yield "cycle of five, .75: no best", [cycle] * run.runs(2, 40), 6000, {"batch": 20}
    ten = synthetic(run.runs(2, 12), run.seed)
    for size in (20, 100, 200):
        yield f"ten synthetic models, batches of {size}", ten, 6000, {"batch": size}
    yield "ten synthetic models, epsilon .05", ten, 20_000, {"epsilon": 0.05, "batch": 20}
    yield "ten synthetic models, top 3", ten, 8000, {"top": 3, "batch": 20}
    if (run.data / MATRICES).is_dir():
        for name, n, cap, options in (
            ("BvsC20.npy", 10, 12_000, {"epsilon": 0.1}),
            ("P31.npy", 10, 12_000, {"epsilon": 0.1}),
            ("P64.npy", 3, 16_000, {"epsilon": 0.1}),
            ("MSLR-Perfect.txt", 1, 20_000, {"epsilon": 0.1}),
            ("Swirl20_1.npz", 12, 9000, {"batch": 20}),
            ("yan2022_caseA.txt", 4, 9000, {}),
        ):
            if not run.quick or n == 10:
                P = matrix(run.data, name)
                orders = [np.random.default_rng([2, k]).permutation(len(P)) for k in range(run.runs(1, n))]
                what = f"{name.partition('.')[0]}, {len(P)} arms" + ", epsilon .1" * ("epsilon" in options)
                yield what, [P[np.ix_(order, order)] for order in orders], cap, {"batch": 40, **options}


def of_error(run: Experiment) -> None:
    """Count wrong verdicts after every vote, with equal arms (every verdict is wrong) or an arm that is barely best."""
    n, horizon = max(4, run.runs(20, 1000)), 500 if run.quick else 3000
    rows = []
    for name, P, ties, best in null_worlds():
        k, levels = len(P), thresholds(0.05, len(P))

        # peaks never decrease, so the last peaks contain every declaration so far
        def even(seed: int, P: np.ndarray = P, ties: float = ties, k: int = k, levels: Any = levels) -> int:
            rng, evidence = np.random.default_rng([run.seed, seed]), Evidence(k)
            i = rng.integers(k, size=horizon)
            j = (i + rng.integers(1, k, size=horizon)) % k
            share = np.where(rng.random(horizon) < ties, 0.5, rng.random(horizon) < P[i, j])
            share, low, high = np.where(i < j, share, 1 - share), np.minimum(i, j), np.maximum(i, j)
            for a, b in zip(*np.triu_indices(k, 1), strict=True):
                if (of := (low == a) & (high == b)).any():
                    evidence.extend(a, b, share[of])
            return shown_best(evidence.peak, levels)

        def adaptive(seed: int, P: np.ndarray = P, ties: float = ties, k: int = k) -> int:
            rng, bandit = np.random.default_rng([run.seed, seed, 1]), BestArm(k)
            while bandit.t < horizon and not bandit.finished:
                for duel in bandit.select_batch(20, rng):
                    bandit.update(duel, 0.5 if rng.random() < ties else float(rng.random() < P[duel.arms]))
            return bandit.decided()

        def peek(seed: int, P: np.ndarray = P) -> int:
            return peeking(P, np.random.default_rng([run.seed, seed]), 2000)[1]

        rules = [("evenly", even, n)]
        if k > 2:  # two arms form only one pair
            rules.append(("default", adaptive, max(4, n * 2 // 5)))
        elif name == "2 equal":
            rules.append(("Bradley-Terry, peeking", peek, max(4, n // 10)))
        for label, play, runs in rules:
            compute = lambda: {"answers": np.array([play(seed) for seed in range(runs)])}  # noqa: B023, E731
            answers = run.once(compute)["answers"]
            wrong = answers >= 0 if best < 0 else (answers != -1) & (answers != best)
            rows.append([name, label, float(wrong.mean()), 0.05 + 3 * np.sqrt(0.05 * 0.95 / runs), runs])
    run.table("error", ["world", "pairs", "wrong", "at most, .05 + 3 s.d.", "runs"], rows)


def null_worlds() -> Iterator[tuple[str, np.ndarray, float, int]]:
    """Yield name, preferences, share of ties, and the best arm (-1 if there is none)."""
    equal = lambda k: np.full((k, k), 0.5)  # noqa: E731
    yield "2 equal", equal(2), 0.0, -1
    yield "2 equal, 40 % ties", equal(2), 0.4, -1
    for k in (3, 5, 6):
        yield f"{k} equal", equal(k), 0.0, -1
    two = equal(4)
    two[:2, 2:], two[2:, :2] = 0.8, 0.2
    yield "two equal best of 4", two, 0.0, -1
    rest = equal(5)
    rest[:2, 2:], rest[2:, :2] = 0.7, 0.3
    yield "two equal best of 5, 30 % ties", rest, 0.3, -1
    cycle = equal(4)
    cycle[:3, 3], cycle[3, :3] = 0.9, 0.1
    for i in range(3):
        cycle[i, (i + 1) % 3], cycle[(i + 1) % 3, i] = 0.55, 0.45
    yield "cycle .55 above a weak arm", cycle, 0.0, -1
    star = equal(6)
    star[0, 1:], star[1:, 0] = 0.505, 0.495
    for i in range(1, 6):
        star[i, i + 1 :], star[i + 1 :, i] = 1.0, 0.0
    yield "winner by .005, strong second", star, 0.0, 0


def of_strengths(run: Experiment) -> None:
    """Measure how often intervals and ranks cover the true strengths and ranks of six models."""
    k, n, rows = 6, run.runs(20, 100), []
    truth = np.linspace(1, -1, k)
    for name, votes, questions, spread, shift, ties in (
        ("150 votes, order +.4, 20 % ties", 150, 150, 0.0, 0.4, 0.2),
        ("600, 60 questions shift strengths", 600, 60, 0.8, 0.4, 0.2),
        ("600, plain", 600, 600, 0.0, 0.0, 0.0),
    ):
        target = _draw(np.random.default_rng(0), truth, 400_000, 400_000, spread, shift, ties)
        true = arena(target, order="random").strengths[0].strength

        def cover(
            votes: int = votes,
            questions: int = questions,
            spread: float = spread,
            shift: float = shift,
            ties: float = ties,
            true: np.ndarray = true,
        ) -> dict[str, Any]:
            hits = []
            for seed in range(n):
                drawn = _draw(
                    np.random.default_rng([run.seed, seed]), truth, votes, questions, spread, shift, ties
                )
                found = arena(drawn, order="random").strengths[0]
                ranks = (found.best_rank <= np.arange(1, k + 1)) & (np.arange(1, k + 1) <= found.worst_rank)
                hits.append([((found.lower <= true) & (true <= found.upper)).mean(), ranks.all()])
            return {"hits": np.array(hits, dtype=float)}

        rows.append([name, *run.once(cover)["hits"].mean(axis=0), n])
    run.table("strengths", ["world", "interval covers", "all ranks", "runs"], rows)


def _draw(rng: Any, truth: Any, n: int, questions: int, spread: float, shift: float, ties: float) -> Votes:
    k = len(truth)
    effect, question = spread * rng.normal(size=(questions, k)), rng.integers(questions, size=n)
    first = rng.integers(k, size=n)
    second = (first + rng.integers(1, k, size=n)) % k
    odds = truth[first] - truth[second] + effect[question, first] - effect[question, second] + shift
    won = rng.random(n) < 1 / (1 + np.exp(-odds))
    share = np.where(rng.random(n) < ties, 0.5, won.astype(float))
    return Votes([f"m{i}" for i in range(k)], first, second, share, question)


def main() -> None:
    run = Experiment("best_arm", __doc__, PARTS, uses=[MATRICES, "votes"])
    if run.part("votes"):
        compared(run)
    if run.part("clear"):
        run.section("A clear best arm")
        of_clear(run)
    if run.part("worlds"):
        run.section("Other worlds, default rule")
        rows = [
            [
                name,
                *summary(
                    played(run, by_default, worlds, cap, **options), worlds, options.get("epsilon", 0.0)
                ),
            ]
            for name, worlds, cap, options in other_worlds(run)
        ]
        run.table("worlds", ["world", "votes, median / 90 %", "wrong", "undecided", "runs"], rows)
    if run.part("error"):
        run.section("Error, looked at after every vote")
        of_error(run)
    if run.part("strengths"):
        run.section("Strengths at one look")
        of_strengths(run)
    run.save()


if __name__ == "__main__":
    main()
