"""Multi-dueling bandits: Table 1 with Figure 1, Figures 2-6 and Table 3 of Brost, Seldin, Cox and Lioma (CIKM 2016).

Of MSLR the data folder has matrices of preferences between its features for two users; Yahoo and Yandex data, and the
queries of MSLR, are not there: MQ2008 and NP2004 feature rankers and public preference matrices stand in for them. The
synthetic problems are those of the paper exactly.
"""

from __future__ import annotations

import numpy as np
from _common import Experiment, curves, matrix, mq2008

from structsvm.online import InterleavedRankers, NormalScores, PreferenceMatrix, rank_queries
from structsvm.online.interleaving.compiled.comparisons import (
    distortion,
    multileave_outcomes,
    preference_matrix,
)
from structsvm.online.simulation.letor_world import informative_features, ndcg_table
from structsvm.online.simulation.worlds import SYNTHETIC, condorcet_winner, synthetic_utilities

NAMES = ("rucb", "mergerucb", "rmed1", "mdb")
CLICKS = ("perfect", "navigational", "informational")
MATRIX_FILES = (
    *(
        "MSLR-Perfect.txt",
        "MSLR-Informational.txt",
        "P64.npy",
        "P31.npy",
        "BvsC20.npy",
        "yan2022_caseA.txt",
        "yan2022_caseB.txt",
    ),
    *(f"Swirl20_{gap}.npz" for gap in ("0.2", "0.4", "0.6", "1")),
)
TABLE_3 = {  # % of rankers beating the Condorcet winner; 3, 10, 100 rankers; perfect / navigational / informational
    "MSLR": ((0.0, 0.0, 9.2), (0.0, 0.0, 15.2), (0.0, 6.8, 41.3)),
    "YLR1": ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.3)),
    "YLR2": ((0.0, 0.0, 0.4), (0.0, 0.4, 0.8), (0.0, 1.0, 0.9)),
    "Yandex": ((0.0, 1.1, 1.4), (3.3, 4.5, 3.8), (3.3, 3.9, 3.4)),
}


def table_1(run: Experiment, horizon: float, n_runs: int) -> None:
    run.section(f"Table 1 and Figure 1: average regret after {horizon:g} comparisons")
    rng = np.random.default_rng(run.seed)
    rows = []
    for problem in SYNTHETIC:
        world = NormalScores(synthetic_utilities(problem, rng))
        runs = {name: run.simulate(name, world, horizon=horizon, n_runs=n_runs) for name in NAMES}
        ends = {name: result.regret[:, -1] for name, result in runs.items()}
        best = min(ends["rucb"].mean(), ends["mergerucb"].mean(), ends["rmed1"].mean())
        means = [ends[name].mean() for name in NAMES]
        ratio = best / means[-1]
        right = " ".join(f"{result.accuracy[-1]:.1f}" for result in runs.values())
        rows.append(
            [problem, world.n_arms, *means, ends["mdb"].std(), ratio, ends["rmed1"].mean() / means[-1], right]
        )
        run.plot(f"Fig. 1: {problem}", curves(runs))
    columns = ["problem", "K", *NAMES, "mdb s.d.", "best other / mdb", "rmed1 / mdb", "right answers"]
    run.table("table_1", columns, rows)
    ten = [row[0] for row in rows if row[1] > 6 and row[-2] >= 10]
    large = sum(row[1] > 6 for row in rows)
    run.say(
        f"{n_runs} runs. The paper: MDB is best on every row and at least ten times below RMED1 from 51 arms "
        f"on (curves, no numbers). Ours: below every other on {sum(row[-3] > 1 for row in rows)} of 15 rows; "
        f"ten times below RMED1 on {len(ten)} of {large} large ones: {', '.join(ten) or 'none'}. A dueling "
        "bandit's regret grows with K, that of MDB hardly does."
    )
    best = sum(row[-3] > 1 for row in rows)
    options = {
        "paper": "mdb",
        "length": (f"{horizon:g} comparisons x {n_runs} runs", "10 runs; horizon not legible"),
    }
    run.verdict(
        "Table 1", ours="The fifteen problems are those of the paper.", verdict="agrees",
        reason="Definitions; order and place of the arms are random.", **options,
    )  # fmt: skip
    run.verdict(
        "Figure 1",
        ours=f"MDB below every other on {best} of 15 problems, at least ten times below RMED1 on {len(ten)} of "
        f"{large} "
        "with 51 arms or more.",
        verdict="agrees" if best == 15 and len(ten) == large else "agrees in part",
        reason="The paper: best on all, ten times below from 51 arms on; ours falls short of that on "
        + (", ".join(row[0] for row in rows if row[1] > 6 and row[0] not in ten) or "none")
        + ".",
        **options,
    )


def real_data(run: Experiment) -> tuple[dict, dict]:
    """Ranked queries of each data set, and of each (data set, user) the world."""
    from structsvm.readers import read_letor

    run.part("estimates")
    ranked, worlds = {}, {}
    for name in ("MQ2008", "NP2004"):
        try:
            if name == "MQ2008":
                data = mq2008(run.data)
            else:
                data = read_letor(run.data / "letor3_np2004_fold1" / "vali.txt.gz")
        except FileNotFoundError as missing:
            run.say(f"{name} left out: {missing.filename} is not there.")
            continue
        ranked[name] = rank_queries(data, informative_features(data))
        utilities = ndcg_table(ranked[name]).mean(axis=1)
        n = 3_000 if run.quick else 30_000
        for clicks in CLICKS:
            world = InterleavedRankers(ranked[name], clicks, n_samples=1, utilities=utilities)

            def estimate(world=world, n=n):
                return {
                    "P": preference_matrix(
                        world.ranked, world.clicks, n, random_state=run.seed, n_jobs=run.jobs
                    )
                }

            world.matrix = run.once(estimate)["P"]
            worlds[name, clicks] = world
    return ranked, worlds


def with_winner(world: InterleavedRankers) -> tuple[PreferenceMatrix, str]:
    """The estimated matrix, by Condorcet regret where there is a winner."""
    if condorcet_winner(world.matrix) is None:
        return world.proxy(), "NDCG"
    return PreferenceMatrix(world.matrix), "Condorcet"


def leaderless(run: Experiment, world: InterleavedRankers) -> InterleavedRankers | None:
    """The rankers that are left, at least ten, when the winners are taken out until nobody beats all others."""
    left = np.arange(world.n_arms)
    while len(left) >= 10:
        matrix = world.matrix[np.ix_(left, left)]
        winner = condorcet_winner(matrix)
        if winner is None:
            ranked = type(world.ranked)(
                world.ranked.rankings[left],
                world.ranked.places[left],
                world.ranked.grades,
                world.ranked.offsets,
            )
            utilities = ndcg_table(ranked).mean(axis=1)
            found = InterleavedRankers(ranked, world.clicks, n_samples=1, utilities=utilities)
            found.matrix = matrix
            return found
        left = np.delete(left, winner)
    run.say("Among the rankers of MQ2008 no ten without a Condorcet winner were found.")
    return None


_LIVE = 1_000_000
"""Most comparisons of a live run, which costs several times as much as one on a proxy."""


def live(run: Experiment, worlds: dict, horizon: float, n_runs: int) -> list[list]:
    """Rows as of the proxies; the worlds take over the regret of their proxies."""
    run.section(
        f"Figures 2, 4, 5, 6 live: every comparison interleaved, or multileaved (SOSM), {horizon:g} comparisons"
    )
    cases = [(name, clicks, world) for (name, clicks), world in worlds.items()]
    if ("MQ2008", "informational") in worlds:
        headless = leaderless(run, worlds["MQ2008", "informational"])
        cases += [("MQ2008, no winner", "informational", headless)] if headless is not None else []
    rows = []
    for name, clicks, world in cases:
        proxy, kind = with_winner(world)
        world.gaps, world.winners = proxy.gaps, proxy.winners
        runs = {b: run.simulate(b, world, horizon=horizon, n_runs=n_runs) for b in NAMES}
        means = [runs[b].regret[:, -1].mean() for b in NAMES]
        right = " ".join(f"{result.accuracy[-1]:.1f}" for result in runs.values())
        rows.append([name, clicks, world.n_arms, kind, *means, means[2] / means[3], right])
        run.plot(f"Live: {name}, {clicks}", curves(runs))
    if rows:
        columns = ["data", "user", "K", "regret", *NAMES, "rmed1 / mdb", "right answers"]
        run.table("live", columns, rows)
        run.say(
            f"{n_runs} runs. 'No winner': the rankers of MQ2008 that are left when winners are taken out until no "
            "ranker beats all others. Multileaving credits a set by SOSM: who wins against whom is not as in pairs."
        )
    return rows


def figures_2_4_5_6(run: Experiment, worlds: dict, horizon: float, n_runs: int) -> None:
    run.section(f"Figures 2, 4, 5, 6: feature rankers, proxy, {horizon:g} comparisons")
    rows = []
    cases = [(name, clicks, *with_winner(world)) for (name, clicks), world in worlds.items()]
    for name in MATRIX_FILES:
        try:
            P = matrix(run.data, name)
        except FileNotFoundError:
            run.say(f"{name} left out: it is not there.")
            continue
        if condorcet_winner(P) is None:
            cases.append((name, "–", PreferenceMatrix(P, utilities=P.mean(axis=1)), "Borda"))
        else:
            cases.append((name, "–", PreferenceMatrix(P), "Condorcet"))
    for name, clicks, world, kind in cases:
        runs = {b: run.simulate(b, world, horizon=horizon, n_runs=n_runs) for b in NAMES}
        means = [runs[b].regret[:, -1].mean() for b in NAMES]
        rows.append([name, clicks, world.n_arms, kind, *means, means[2] / means[3]])
        if clicks == "navigational" or name.startswith(("MSLR", "P")):
            run.plot(f"Fig. 2: {name}, {clicks}", curves(runs))
    run.table("figures_2_4_5_6", ["data", "user", "K", "regret", *NAMES, "rmed1 / mdb"], rows)
    run.say(
        "Pairs of a set are drawn independently here, so multileaving distorts nothing: MDB learns from more "
        "independent outcomes than live. The paper: MDB below "
        "RMED1 by 3 on MSLR (K = 136), by 10 to 100 elsewhere (K = 200 to 700), Fig. 6 (MSLR, informational) "
        "excepted; with fewer rankers the advantage must be smaller. Rows with NDCG or Borda regret have "
        "no Condorcet winner (Fig. 5): the worth of a ranker is its mean NDCG@10, or its mean probability of winning."
    )
    by_name = {(row[0], row[1]): row for row in rows}
    shorter = min(horizon, _LIVE)
    by_live = {(row[0], row[1]): row for row in live(run, worlds, shorter, n_runs)}
    length = (
        f"{horizon:g} comparisons x {n_runs} runs on proxies, {shorter:g} x {n_runs} live",
        "10 runs of 5e6 and more, live",
    )
    small = by_live.get(("MQ2008", "informational"))
    played = [name for name in by_live if (name[0], name[1]) in worlds]
    behind = [" ".join(name) for name in played if by_live[name][-2] < 1]
    ahead = [" ".join(name) for name in played if by_live[name][-2] >= 1]

    def ratios(names) -> str:
        found = [by_name[name] for name in names if name in by_name]
        return ", ".join(f"{row[0]} {row[1]} {row[-1]:.1f}".replace(" –", "") for row in found)

    def live_ratios(names) -> str:
        found = [by_live[name] for name in names if name in by_live]
        return ", ".join(f"{row[0]} {row[1]} {row[-2]:.1f}" for row in found)

    perfect, informational = ("MSLR-Perfect.txt", "–"), ("MSLR-Informational.txt", "–")
    navigational = [("MQ2008", "navigational"), ("NP2004", "navigational")]
    users = [(name, clicks) for name in ("MQ2008", "NP2004") for clicks in CLICKS]
    run.verdict(
        "Figure 2",
        paper="mdb",
        ours=f"Regret of RMED1 over MDB, live: {live_ratios(navigational)}; proxies: "
        f"{ratios([perfect, *navigational])}; paper 3 on MSLR, 10 to 100 on Yahoo and Yandex.",
        length=length,
        verdict="agrees in part" if perfect in by_name and by_name[perfect][-1] > 1 else "other data",
        reason="The order MDB, RMED1, then the others is the paper's. Proxies: no matrix of the navigational user is "
        "public, and pairs of a set are drawn independently, which favours MDB.",
    )
    run.verdict(
        "Figure 4",
        paper="mdb",
        ours=f"RMED1 over MDB, live: {live_ratios(users)}; proxies: "
        f"{ratios([*users, perfect, informational])}; paper 10 to 100 on 200 rankers of Yahoo.",
        length=length,
        verdict="other data",
        reason=f"Live, MDB is below RMED1 on {', '.join(ahead) or 'none'}, and above on {', '.join(behind) or 'none'}; "
        "on the proxies it is below for every user. Credit by multileaving many rankers is not the credit of pairs. "
        "40 rankers leave less to gain than 200.",
    )
    run.verdict(
        "Figure 6",
        paper="mdb",
        ours=f"RMED1 over MDB, informational, live: {live_ratios([u for u in users if u[1] == 'informational'])}; "
        f"proxy: {ratios([informational])}; the paper's MDB is not below.",
        length=length,
        verdict="cannot be run",
        reason="The paper's exception comes from ranker 133, which loses when multileaved with many; that needs the "
        "queries of MSLR, which the data folder has not. In a proxy multileaving distorts nothing."
        + (
            " Live on MQ2008 the same shows: MDB is behind RMED1, and ends with the best ranker in "
            f"{n_runs * float(small[-1].split()[-1]):.0f} of {n_runs} runs."
            if small is not None and small[-2] < 1
            else ""
        ),
    )
    without = [(row[0], row[1]) for row in rows if row[3] != "Condorcet"]
    run.verdict(
        "Figure 5",
        paper="mdb",
        ours=f"RMED1 over MDB without a Condorcet winner, live: "
        f"{live_ratios([name for name, row in by_live.items() if row[3] != 'Condorcet']) or 'none found'}; proxy: "
        f"{ratios(without)}; paper about 10.",
        length=length,
        verdict="other data",
        reason="Yandex is not public; regret by NDCG, or by the mean probability of winning. MDB looks for the arm "
        "that wins most when all are compared, which in a cycle need not be the one of least regret.",
    )


def figure_3(run: Experiment, horizon: float, n_runs: int) -> None:
    run.section(f"Figure 3: regret at {horizon:g} against the number of rankers, with the random subset")
    rng = np.random.default_rng(run.seed)
    sizes = (10, 40, 100) if run.quick else (10, 25, 40, 55, 70, 85, 100, 115, 130, 145)
    rows = []
    for k in sizes:
        # rankers of like quality, as features are: utilities between .2 and .8, another set for each run
        means = []
        for name in NAMES:
            values = []
            for i in range(n_runs):
                utilities = np.random.default_rng([run.seed, k, i]).uniform(0.2, 0.7, k)
                utilities[i % k] = 0.8
                values.append(
                    run.simulate(name, NormalScores(utilities), horizon=horizon, seed=i).regret[0, -1]
                )
            means.append(np.mean(values))
        utilities = rng.uniform(0.2, 0.7, k)
        utilities[0] = 0.8
        policy = run.simulate("random", NormalScores(utilities), horizon=300).regret[0, -1] / 300 * horizon
        rows.append([k, *means, policy])
    run.table("figure_3", ["K", *NAMES, "random subset"], rows)
    run.say(
        "Utilities uniform between .2 and .7, the best .8, in place of YLR1 features. The paper: regret "
        "grows most for RUCB and mergeRUCB, less for RMED1, hardly for MDB. The random subset's regret a "
        "step is constant (measured on 300)."
    )
    growth = {name: rows[-1][1 + i] / rows[0][1 + i] for i, name in enumerate(NAMES)}
    run.verdict(
        "Figure 3",
        paper="mdb",
        ours=f"Regret at K = {rows[-1][0]} over that at {rows[0][0]}: "
        + ", ".join(f"{name} {value:.1f}" for name, value in growth.items())
        + f"; MDB is the least at {sum(row[4] == min(row[1:]) for row in rows)} of {len(rows)} K.",
        length=(f"{horizon:g} x {n_runs} runs, made utilities", "5e6 x 10 runs, YLR1"),
        verdict="agrees in part",
        reason="Grows most for RUCB, then RMED1, hardly for MDB. Made utilities in place of Yahoo's rankers; "
        "mergeRUCB has about half "
        "the regret of the random policy at the largest K, in the paper as much.",
    )

    def draw(ax):
        for i, name in enumerate((*NAMES, "random subset")):
            ax.plot(
                [row[0] for row in rows], [row[1 + i] for row in rows], marker="o", ms=3, lw=1, label=name
            )
        ax.set_yscale("log")
        ax.set_xlabel("K", fontsize=7)
        ax.set_ylabel(f"regret at {horizon:g}", fontsize=7)

    run.plot("Fig. 3", draw)


def distorted(ranked, world, size: int, repeats: int, rng, jobs: int) -> np.ndarray:
    """Per cent of rankers that beat the Condorcet winner when multileaved, for random subsets that have one."""
    everybody = np.arange(world.n_arms)
    shares: list[float] = []
    for _ in range(50 * repeats):
        chosen = everybody if size == len(everybody) else rng.choice(everybody, size, replace=False)
        pairs = world.matrix[np.ix_(chosen, chosen)]
        winner = condorcet_winner(pairs)
        if winner is None:
            continue
        outcome = multileave_outcomes(
            ranked, chosen, world.clicks, 3000, random_state=int(rng.integers(2**31)), n_jobs=jobs
        )
        shares.append(100 * distortion((1 + outcome / 3000) / 2, pairs, winner))
        if len(shares) == repeats:
            break
    return np.array(shares)


def table_3(run: Experiment, ranked: dict, worlds: dict) -> None:
    run.section("Table 3: distortion by multileaving (SOSM), 3,000 multileavings")
    repeats = 10 if run.quick else 30
    rows = []
    for i, ((name, clicks), world) in enumerate(worlds.items()):

        def shares(name=name, world=world, rng=np.random.default_rng([run.seed, i])):  # noqa: B008
            found = [
                distorted(ranked[name], world, size, repeats, rng, run.jobs) for size in (3, 10, world.n_arms)
            ]
            return {"few": found[0], "some": found[1], "many": found[2]}

        found = run.once(shares)
        cells = zip((3, 10, world.n_arms), (found[key] for key in ("few", "some", "many")), strict=True)
        rows.append(
            [name, clicks, *(f"{v.mean():.1f}% ({n})" if len(v) else f"no winner ({n})" for n, v in cells)]
        )
    own = [list(row) for row in rows]
    for name, by_user in TABLE_3.items():
        rows += [
            [
                f"{name}, paper",
                clicks,
                *(f"{v:.1f}% ({n})" for n, v in zip((3, 10, 100), values, strict=True)),
            ]
            for clicks, values in zip(CLICKS, by_user, strict=True)
        ]
    run.table("table_3", ["data", "user", "few", "some", "many"], rows)
    run.say(
        f"Mean of {repeats} random subsets with a Condorcet winner (in pairs); in brackets the number of "
        "rankers. NP2004 has one relevant document a query and 15 queries, so that many rankers are alike "
        "and order by chance."
    )
    run.verdict(
        "Table 3",
        paper="mdb",
        ours="; ".join(f"{row[0]} {row[1]} {', '.join(row[2:])}" for row in own) + ".",
        length=(f"{repeats} subsets, 3,000 multileavings", "30 runs, 3,000 multileavings"),
        verdict="other data",
        reason="The queries of MSLR, Yahoo and Yandex are not in the data folder. Distortion falls with the number of "
        "rankers here and in most of the paper's rows; with 3 rankers it is a few subsets in which two are alike. "
        "The 41 % of MSLR's ranker 133 cannot be shown without its queries.",
    )


PARTS = ("estimates", "table_1", "table_3", "figures_2_4_5_6", "figure_3")


def main() -> None:
    run = Experiment(
        "multi_dueling", __doc__, PARTS, uses=["preference_matrices", "letor4_mq2008", "letor3_np2004_fold1"]
    )
    if run.part("table_1"):
        table_1(run, 1e6 if run.quick else 1e7, run.runs(3, 10))
    ranked, worlds = real_data(run)
    if run.part("table_3"):
        table_3(run, ranked, worlds)
    if run.part("figures_2_4_5_6"):
        figures_2_4_5_6(run, worlds, 1e6 if run.quick else 5e6, run.runs(2, 10))
    if run.part("figure_3"):
        figure_3(run, 1e5 if run.quick else 5e6, run.runs(2, 10))
    run.save()


if __name__ == "__main__":
    main()
