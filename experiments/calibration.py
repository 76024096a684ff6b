"""Calibration of the statistics of click logs: false positives, coverage and power, where the truth is known.

False positives are counted on A/A logs, in which users are indifferent between two rankers. The outcomes of a list have
the exact distribution of the method (over all lists, with one click on a random position, for several pairs of
rankings), so their mean is 0. Users differ in their numbers of queries and in the correlation of their outcomes: with
some probability a query repeats the outcome of the user's first query (the same list, clicked the same way), a bot
always repeats it, and in a session each query may repeat the previous outcome.

    python experiments/calibration.py --quick
"""

from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
from _click_logs import heavy_user, interleaved
from _common import Experiment
from _sample_size import mean_p, signed_ranks, signs

from structsvm.online.evidence import always_valid as betting
from structsvm.online.evidence.clusters import cluster_means
from structsvm.online.interleaving import SOSM, Optimized, Probabilistic, TeamDraft
from structsvm.online.statistics import (
    analyse,
    confidence_sequence,
    queries_needed,
    sign_test,
    t_test,
    wilcoxon_test,
    z_test,
)
from structsvm.online.statistics.significance import drawn_signs

ALPHA = 0.05
ALLOWED = 0.06
METHODS = {method.name: method for method in (TeamDraft(), Probabilistic(), Optimized(), SOSM())}
BLOCK = 250
"""Number of logs in memory at a time, each batch with different user sizes."""


class Users(NamedTuple):
    """Number of queries of each user, and how users repeat themselves."""

    sizes: Callable[[np.random.Generator], np.ndarray]
    repeat: float = 0.8
    n_bots: int = 0
    chained: bool = False
    clustered: bool = True


USERS = {
    "independent queries": Users(lambda rng: np.ones(300, dtype=int), clustered=False),
    "10 equal users": Users(lambda rng: np.full(10, 20)),
    "100 equal users": Users(lambda rng: np.full(100, 5)),
    "100 and one of 500": Users(lambda rng: np.append(np.full(100, 5), 500)),
    "lognormal": Users(lambda rng: np.ceil(rng.lognormal(1.5, 1.2, 80)).clip(max=1500).astype(int)),
    "Zipf": Users(lambda rng: np.ceil(300 / np.arange(1, 101)).astype(int)),
    "100 and 3 bots": Users(lambda rng: np.append(np.full(100, 5), [1000] * 3), n_bots=3),
    "sessions": Users(lambda rng: rng.geometric(0.2, 100), chained=True),
    "180 and one of 180": Users(lambda rng: np.append(np.ones(180, dtype=int), 180)),
}
"""One bot clicks on one side 1,000 times; sessions are autocorrelated; each other user has a constant bias."""

COLUMNS = ("sign", "z", "t", "wilcoxon", "always valid")


def law(method: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the values in [-1, 1] of a query's statistic for an indifferent user, and their probabilities; mean 0."""
    values, chances = [], []
    rankings = [list(r) for r in permutations("abcd")][1::5]
    for other in rankings:
        for shown, p in method.distribution([list("abcd"), other], 4):
            for row in np.eye(4):
                values.append(method.outcome(shown, row)[0, 1])
                chances.append(p / 4 / len(rankings))
    x, inverse = np.unique(np.round(values, 12), return_inverse=True)
    p = np.bincount(inverse, chances)
    assert abs(p @ x) < 1e-9
    return x, p / p.sum()


def logs(
    users: Users, law: tuple[Any, Any], n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return the statistics of the queries of ``n`` logs, (n, n_queries), and the number of queries of each user."""
    sizes = users.sizes(rng)
    x, p = law
    cumulative = p.cumsum()[:-1]
    fresh = x[np.searchsorted(cumulative, rng.random((n, sizes.sum())), side="right")]
    if not users.clustered:
        return fresh, sizes
    first = np.cumsum(sizes) - sizes
    repeats = rng.random(fresh.shape) < users.repeat
    if users.n_bots:
        repeats[:, first[-users.n_bots] :] = True
    repeats[:, first] = False
    columns = np.broadcast_to(np.arange(fresh.shape[1]), fresh.shape)
    if users.chained:
        # index of the last query that did not repeat an outcome
        source = np.maximum.accumulate(np.where(repeats, 0, columns), axis=1)
    else:
        source = np.where(repeats, np.repeat(first, sizes), columns)
    return np.take_along_axis(fresh, source, axis=1), sizes


def means(outcomes: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the mean of each user, (n, n_users)."""
    return np.add.reduceat(outcomes, np.cumsum(sizes) - sizes, axis=1) / sizes


def t_and_z(units: np.ndarray, clustered: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return p-values along the last axis, like ``t_test`` and ``z_test``."""
    n = units.shape[1]
    mean, error = units.mean(axis=1), units.std(axis=1, ddof=1) / np.sqrt(n)
    t = mean_p(mean, error, n, True)
    return t, t if clustered else mean_p(mean, error * np.sqrt((n - 1) / n), n, False)


def capital(units: np.ndarray) -> np.ndarray:
    """Return the log capital against mean 0 after each unit, (n, n_units), like ``confidence_sequence``."""
    shares = np.concatenate([betting.SHARES, -betting.SHARES])
    total = np.zeros(units.shape)
    for c in shares:
        total += np.exp(np.log1p(c * units).cumsum(axis=1))
    return np.log(total) + betting._LOG_WEIGHT


def rejections(users: Users, method: str, n: int, n_looks: int, rng: np.random.Generator) -> dict[str, float]:
    """Return the shares of ``n`` A/A logs in which each test rejects, at the end and at the best of all looks."""
    found: dict[str, list[np.ndarray]] = {}
    own, limit = law(METHODS[method]), np.log(1 / ALPHA)
    for start in range(0, n, BLOCK):
        outcomes, sizes = logs(users, own, min(BLOCK, n - start), rng)
        units = means(outcomes, sizes)
        t, z = t_and_z(units, users.clustered)
        symmetric = method == "team_draft"
        path = capital(units)
        block = {
            "sign": signs(units if symmetric else drawn_signs(units, rng)) <= ALPHA,
            "z": z <= ALPHA,
            "t": t <= ALPHA,
            "always valid": path[:, -1] >= limit,
            "always valid, each user": path.max(axis=1) >= limit,
        }
        if symmetric:
            block["wilcoxon"] = signed_ranks(units) <= ALPHA
        looks = np.unique(np.geomspace(10, units.shape[1], n_looks).astype(int))
        block["t, looks"] = np.any(
            [t_and_z(units[:, :k], users.clustered)[0] <= ALPHA for k in looks], axis=0
        )
        if users.clustered:
            block["always valid, unfinished users"] = unfinished(outcomes, sizes, n_looks, rng) >= limit
        # single queries, as if users did not repeat themselves
        block["t, users ignored"] = t_and_z(outcomes, False)[0] <= ALPHA
        for name, spoke in block.items():
            found.setdefault(name, []).append(spoke)
    return {name: float(np.concatenate(spoke).mean()) for name, spoke in found.items()}


def unfinished(outcomes: np.ndarray, sizes: np.ndarray, n_looks: int, rng: np.random.Generator) -> np.ndarray:
    """Return the largest log capital over looks at a growing log with queries of all users in random order."""
    best = np.full(len(outcomes), -np.inf)
    when = rng.random(outcomes.shape[1])
    for share in np.geomspace(0.05, 1, n_looks):
        seen = when <= share
        count = np.add.reduceat(seen.astype(int), np.cumsum(sizes) - sizes)
        total = np.add.reduceat(np.where(seen, outcomes, 0.0), np.cumsum(sizes) - sizes, axis=1)
        units = total[:, count > 0] / count[count > 0]
        best = np.maximum(best, capital_at_end(units))
    return best


def capital_at_end(units: np.ndarray) -> np.ndarray:
    shares = np.concatenate([betting.SHARES, -betting.SHARES])
    return np.logaddexp.reduce([np.log1p(c * units).sum(axis=1) for c in shares]) + betting._LOG_WEIGHT


def check_against_the_library(rng: np.random.Generator) -> None:
    """Check that the vectorised statistics equal the library's, log by log."""
    for users in USERS.values():
        outcomes, sizes = logs(users, law(METHODS["team_draft"]), 3, rng)
        units = means(outcomes, sizes)
        ids = np.repeat(np.arange(len(sizes)), sizes) if users.clustered else None
        t, z = t_and_z(units, users.clustered)
        for k, row in enumerate(outcomes):
            np.testing.assert_allclose(units[k], cluster_means(row, ids))
            np.testing.assert_allclose(t[k], t_test(row, clusters=ids).p_value)
            np.testing.assert_allclose(z[k], z_test(row, clusters=ids).p_value)
            np.testing.assert_allclose(signs(units)[k], sign_test(row, clusters=ids).p_value)
            np.testing.assert_allclose(signed_ranks(units)[k], wilcoxon_test(row, clusters=ids).p_value)
            p = confidence_sequence(row, clusters=ids).p_values[0]
            for path in (capital(units)[k, -1], capital_at_end(units)[k]):
                np.testing.assert_allclose(min(1.0, np.exp(-path)), p, rtol=1e-6)


def false_positives(run: Experiment, n: int, n_looks: int) -> None:
    run.section("False positives of A/A logs")
    error = np.sqrt(ALPHA * (1 - ALPHA) / n)
    run.say(
        f"Share of {n:,} logs per row in which a test at level {ALPHA:g} names a ranker; the standard error of a share "
        f"of {ALPHA:g} is {error:.4f}. Except for independent queries, users are clusters. Fixed "
        "horizon: the whole log, once."
    )
    rows, sequential, unsafe = [], [], []
    for seed, method in enumerate(METHODS):
        for other, (name, users) in enumerate(USERS.items()):
            found = rejections(users, method, n, n_looks, np.random.default_rng([run.seed, seed, other]))
            rows.append([method, name, *(found.get(column) for column in COLUMNS)])
            unit = found["always valid, each user"], found.get("always valid, unfinished users")
            sequential.append([method, name, *unit])
            unsafe.append([method, name, found["t, users ignored"], found["t, looks"]])
    run.table(
        "fixed", ["method", "users", *COLUMNS], [[c if c is not None else "–" for c in row] for row in rows]
    )
    worst = max((value, row[0], row[1]) for row in rows for value in row[2:6] if value is not None)
    verdict = "none" if worst[0] <= ALLOWED else "not all"
    run.say(
        f"Largest of sign, z, t and Wilcoxon: {worst[0]:.4f} ({worst[1]}, {worst[2]}); above {ALLOWED:g}: {verdict}."
    )
    run.section("False positives when stopping at the first look that speaks")
    run.say(
        "The always-valid p-value after every query (or user that is done), and at "
        f"{n_looks} looks at a log whose users come and go, so that their means change between looks."
    )
    columns = ["method", "users", "after each", "unfinished users"]
    run.table("looks", columns, [[c if c is not None else "–" for c in row] for row in sequential])
    largest = max(value for row in sequential for value in row[2:] if value is not None)
    largest = max(largest, *(row[-1] for row in rows))
    run.say(f"Largest always-valid share, here and above: {largest:.4f}.")
    run.section("For comparison: what is not safe")
    run.say("The t test of single queries, which ignores users, and the t test looked at again and again.")
    run.table("unsafe", ["method", "users", "users ignored", f"{n_looks} looks"], unsafe)
    run.record["largest"] = {"fixed": worst[0], "always_valid": largest, "replicates": n}

    def draw(ax: Any) -> None:
        for name in COLUMNS:
            k = 2 + COLUMNS.index(name)
            shown = [(i, row[k]) for i, row in enumerate(rows) if row[k] is not None]
            ax.plot(*zip(*shown, strict=True), ".", ms=3, label=name)
        ax.axhline(ALPHA, color="gray", lw=0.5)
        ax.axhline(ALLOWED, color="red", lw=0.5)
        ax.set_xlabel("method and users, in the order of the table", fontsize=7)
        ax.set_ylabel("share of A/A logs", fontsize=7)

    run.plot("false positives at level 0.05", draw)


def headlines(run: Experiment, n: int) -> None:
    """Tabulate the results of ``analyse`` on logs in which one user has half of the lists."""
    run.section("Headlines where one user has half of the log")

    def compute() -> dict[str, Any]:
        named = []
        for seed in range(n):
            log = interleaved(*heavy_user(np.random.default_rng([run.seed, 60, seed])))
            by_user, by_list = (analyse(log, cluster=cluster) for cluster in ("auto", None))
            named.append(
                [
                    by_user.fixed_sample_winner is not None,
                    by_user.winner is not None,
                    by_user.cluster == "user",
                    by_list.fixed_sample_winner is not None,
                    by_list.winner is not None,
                    min(by_list.pairs[0].p_values.values()) <= ALPHA,
                ]
            )
        return {"named": named}

    found = run.once(compute)["named"].mean(axis=0)
    run.say(
        f"{n:,} A/A logs of 360 lists; each of 181 users leans to one side. ``analyse`` with "
        f'``cluster="auto"``, as the command has it, takes the users as clusters ({found[2]:.0%} of the logs), and '
        f"names a winner in {found[0]:.3f} of them, always valid in {found[1]:.3f}. With ``cluster=None`` the p-value "
        f"of some test of single lists is at most {ALPHA:g} in {found[5]:.3f}; as users come again, it names a "
        f"winner in {found[3]:.3f}, always valid in {found[4]:.3f}."
    )
    run.record["headlines"] = dict(
        zip(
            ("user", "user, always valid", "clustered", "none", "none, always valid", "p of lists"),
            found.tolist(),
            strict=True,
        )
    )


def effects(users: Users, effect: float, n: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield blocks of the units of win/loss logs with mean ``effect``."""
    own = np.array([-1.0, 0.0, 1.0]), np.array([0.35 - effect / 2, 0.3, 0.35 + effect / 2])
    for start in range(0, n, BLOCK):
        yield means(*logs(users, own, min(BLOCK, n - start), rng))


def coverage(run: Experiment, n: int) -> None:
    run.section("Coverage of 95 % intervals")
    run.say(
        f"Share of {n:,} logs whose interval holds the true mean, 0.2 (standard error {np.sqrt(0.0475 / n):.4f}): the "
        "t interval at the end of the log; the confidence sequence at the end, and after each of its queries or users "
        "at once."
    )
    rows = []
    for k, (name, users) in enumerate(USERS.items()):
        held = []
        for units in effects(users, 0.2, n, np.random.default_rng([run.seed, 50, k])):
            t = t_and_z(units - 0.2, True)[0] > ALPHA
            path = capital_about(units, 0.2) < np.log(1 / ALPHA)
            held.append(np.column_stack([t, path[:, -1], path.all(axis=1)]))
        rows.append([name, *np.concatenate(held).mean(axis=0)])
    run.table("coverage", ["users", "t", "confidence sequence", "at all looks"], rows)


def capital_about(units: np.ndarray, mean: float) -> np.ndarray:
    """Return the log capital like :func:`capital`, but against the given mean."""
    total = np.zeros(units.shape)
    for c in betting.SHARES:
        total += np.exp(np.log1p(c * ((1 + units) / (1 + mean) - 1)).cumsum(axis=1))
        total += np.exp(np.log1p(c * ((1 - units) / (1 - mean) - 1)).cumsum(axis=1))
    return np.log(total) + betting._LOG_WEIGHT


def power_curve(run: Experiment, n: int) -> None:
    run.section("Power at the number of queries that queries_needed gives")
    run.say(
        f"Wins and losses of mean 0.1 (share of ties .3), {n:,} logs each (standard error of .8: "
        f"{np.sqrt(0.16 / n):.4f}). Users of five queries repeat themselves with probability .8. The t test at level "
        f"{ALPHA:g}."
    )
    rows, population = [], {}
    rng = np.random.default_rng([run.seed, 99])
    for name, size in (("single queries", 1), ("users of five queries", 5)):

        def users(m: int, size: int = size) -> Users:
            return Users(lambda rng: np.full(m, size), clustered=size > 1)

        population[name] = np.concatenate(list(effects(users(2000), 0.1, 20, rng))).ravel()
        # the true effect is known: shift the outcomes so that it is their mean
        units = population[name] - population[name].mean() + 0.1
        for asked in (0.2, 0.5, 0.8, 0.95):
            needed = size * queries_needed(units, alpha=ALPHA, power=asked)
            n_units = round(needed / size)
            spoke = [
                (t_and_z(block, size > 1)[0] <= ALPHA) & (block.mean(axis=1) > 0)
                for block in effects(users(n_units), 0.1, n, rng)
            ]
            rows.append([name, asked, round(needed), float(np.concatenate(spoke).mean())])
    run.table("power", ["log", "power asked for", "queries needed", "power found"], rows)

    def draw(ax: Any) -> None:
        for name in population:
            own = [(row[1], row[3]) for row in rows if row[0] == name]
            ax.plot(*zip(*own, strict=True), "o-", ms=3, lw=1, label=name)
        ax.plot([0, 1], [0, 1], color="gray", lw=0.5)
        ax.set_xlabel("power asked of queries_needed", fontsize=7)
        ax.set_ylabel("power found", fontsize=7)

    run.plot("power", draw)


def main() -> None:
    run = Experiment("calibration", __doc__)
    n = run.runs(500, 10_000)
    check_against_the_library(np.random.default_rng(run.seed))
    false_positives(run, n, 5 if run.quick else 10)
    headlines(run, run.runs(40, 300))
    coverage(run, n)
    power_curve(run, n)
    run.save()


if __name__ == "__main__":
    main()
