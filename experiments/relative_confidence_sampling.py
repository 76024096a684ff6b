"""Relative confidence sampling: Figures 1-5 of Zoghi, Whiteson, de Rijke and Munos (WSDM 2014).

For MSLR, the data folder has matrices of preferences between its features for two users, probably those of the paper.
The Yahoo data are not available. Feature rankers of MQ2008 and NP2004 (probabilistic interleaving, perfect user, as in
the paper) and a public matrix of 64 rankers are added.
"""

import numpy as np
from _common import Experiment, alphabetical, curves, feature_matrix, first_with_winner, matrix
from _worlds import subset_shares

from structsvm.online import Utilities
from structsvm.online.simulation.assumptions import assumption_report

MSLR = ("MSLR-Perfect", "MSLR-Informational")


def figure_1(run: Experiment, matrices: dict) -> None:
    run.section("Figure 1: share of random subsets with a Condorcet winner, and with a total order")
    rows = []
    for name, P in matrices.items():
        sizes = np.unique(np.linspace(1, len(P), 12 if run.quick else len(P)).astype(int))
        n = 300 if run.quick else 10_000

        def count(P=P, sizes=sizes, n=n):
            shares = subset_shares(P, sizes, n_subsets=n, random_state=run.seed)
            return {"condorcet": shares.condorcet, "order": shares.total_order}

        shares = run.once(count)
        report = assumption_report(P)
        half = sizes[shares["order"] >= 0.5].max()
        worst = shares["condorcet"].min()
        rows.append([name, len(P), "yes" if report.condorcet is not None else "no", float(worst), int(half)])

        def draw(ax, sizes=sizes, shares=shares):
            ax.plot(sizes, shares["condorcet"], label="Condorcet winner", lw=1)
            ax.plot(sizes, shares["order"], label="total order", lw=1)
            ax.set_xlabel("size of the subset", fontsize=7)
            ax.set_ylim(0, 1.05)

        run.plot(f"Fig. 1: {name}", draw)
    columns = ["data", "K", "winner of all", "least Condorcet share", "largest size with order in half"]
    run.table("figure_1", columns, rows)
    run.say(
        "The paper (MSLR, 136 features): the Condorcet share is always above 0.91, the share of total orders "
        "falls to nothing. A matrix with fewer arms, or with arms that are nearly equal, has other shares."
    )
    own = [row for row in rows if row[0] in MSLR]
    run.verdict(
        "Figure 1",
        paper="rcs",
        ours="Least share of subsets with a Condorcet winner: "
        + ", ".join(f"{row[0]} {row[3]:.3f}" for row in own or rows)
        + " (paper: above .91); half of the subsets are ordered up to size "
        + ", ".join(str(row[4]) for row in own or rows)
        + ".",
        length=(f"{n:,} subsets of each size", "10,000 subsets of each size"),
        verdict="other data"
        if not own
        else "agrees"
        if min(row[3] for row in own) > 0.91
        else "agrees in part",
        reason="The share dips in the middle and comes back, and the share of orders falls to nothing, as in the "
        "paper. The dip is a little deeper: the matrix is another estimate, and of three rankers that are nearly "
        "alike the estimate decides whether they form a cycle."
        if own
        else "MSLR is not there.",
        brief="Least share with a Condorcet winner "
        + ", ".join(f"{row[0]} {row[3]:.3f}" for row in own or rows)
        + " (paper: above .91); the share of orders falls to nothing, as in the paper.",
    )


def figure_2(run: Experiment, worlds: dict, horizons, n_runs: int) -> None:
    run.section("Figure 2: accuracy and regret of Condorcet SAVAGE and RCS at given horizons, K = 10")
    rows = []
    for name, P in worlds.items():
        rcs = run.simulate(
            "rcs", P, horizon=horizons[-1], n_runs=n_runs, times=horizons, options={"alpha": 0.501}
        )
        savage = [run.simulate("savage", P, horizon=h, n_runs=n_runs, times=[h]) for h in horizons]
        at = {int(t): i for i, t in enumerate(rcs.times)}
        accuracy, regret = [], []
        for h, own in zip(horizons, savage, strict=True):
            i = at[int(h)]
            accuracy.append((own.accuracy[-1], rcs.accuracy[i]))
            regret.append((own.mean()[-1], rcs.mean()[i]))
            rows.append([name, int(h), *accuracy[-1], *regret[-1], regret[-1][0] / max(regret[-1][1], 1e-9)])

        def draw(ax, accuracy=accuracy):
            ax.plot(horizons, [a for a, _ in accuracy], marker="s", ms=3, label="SAVAGE", lw=1)
            ax.plot(horizons, [b for _, b in accuracy], marker="o", ms=3, label="RCS", lw=1)
            ax.set_xscale("log")
            ax.set_xlabel("horizon", fontsize=7)
            ax.set_ylabel("accuracy", fontsize=7)

        run.plot(f"Fig. 2: {name}", draw)
    columns = ["data", "horizon", "SAVAGE accuracy", "RCS accuracy", "SAVAGE regret", "RCS regret", "ratio"]
    run.table("figure_2", columns, rows)
    run.say(
        f"{n_runs} runs; SAVAGE starts again for each horizon. The paper: RCS more accurate at every horizon "
        "(twice as fast to 0.8), and by the time SAVAGE is always right it has at least three times the regret."
    )
    compared = []
    for name in worlds:
        own = [row for row in rows if row[0] == name]
        ahead = sum(row[3] >= row[2] for row in own)
        reached = {i: next((row for row in own if row[i] >= 0.99), None) for i in (2, 3)}
        ratio = reached[2][4] / reached[3][5] if reached[2] and reached[3] else np.nan
        compared.append((name, ahead, len(own), ratio))
    decided = [t for t in compared if t[0] in MSLR] or compared
    run.verdict(
        "Figure 2",
        paper="rcs",
        ours="; ".join(
            f"{name}: RCS at least as accurate at {ahead} of {n} horizons, SAVAGE has {ratio:.1f} times its regret "
            "when each reaches .99"
            for name, ahead, n, ratio in decided
        )
        + ".",
        length=(f"{n_runs} runs, {len(horizons)} horizons to {horizons[-1]:g}", "90 runs, 10 horizons"),
        verdict="agrees"
        if all(a >= n - 1 and not ratio < 3 for _, a, n, ratio in decided)
        else "agrees in part",
        reason="MSLR only; the two Yahoo sets are not public.",
        brief="; ".join(
            f"{name}: RCS at least as accurate at {ahead} of {n} horizons, SAVAGE with {ratio:.1f} times its regret"
            for name, ahead, n, ratio in decided
        )
        + ".",
    )


def regret_table(run: Experiment, key: str, cases: dict, n_runs: int, alpha: float) -> None:
    rows = []
    for name, (P, horizon) in cases.items():
        runs = {
            bandit: run.simulate(
                bandit,
                P,
                horizon=horizon,
                n_runs=n_runs,
                options={"alpha": alpha},
                times=np.unique(np.linspace(1, horizon, 101).astype(int)),
            )
            for bandit in ("rucb", "rcs")
        }
        means = [runs[b].mean()[-1] for b in runs]
        errors = [runs[b].regret[:, -1].std() for b in runs]
        edges = [f"{low[-1]:.0f}, {high[-1]:.0f}" for low, high in (runs[b].interval() for b in runs)]
        # flatness of the curves: share of the regret that the last tenth adds
        tails = [(runs[b].mean()[-1] - runs[b].mean()[-11]) / means[i] for i, b in enumerate(runs)]
        right = " / ".join(f"{runs[b].accuracy[-1]:.2f}" for b in runs)
        rows.append([name, f"{horizon:g}", *means, *edges, *errors, means[1] / means[0], *tails, right])
        run.plot(f"Fig. {key[-1]}: {name}", curves(runs, log_x=False, log_y=False))
    columns = [
        "data",
        "T",
        "RUCB",
        "RCS",
        "RUCB 95%",
        "RCS 95%",
        "RUCB s.d.",
        "RCS s.d.",
        "RCS / RUCB",
        "RUCB last tenth",
        "RCS last tenth",
    ]
    run.table(key, [*columns, "right answers"], rows)


def growth(run: Experiment, horizon: float, n_runs: int) -> None:
    run.section(f"Growth of regret, K = 10, {horizon:g} comparisons")
    order = np.random.default_rng(run.seed).permutation(10)
    world = Utilities(np.linspace(0, 0.5, 10)[order])
    chance = 0.5 + world.gaps[world.gaps > 0]
    divergence = chance * np.log(2 * chance) + (1 - chance) * np.log(2 * (1 - chance))
    bound = float(((chance - 0.5) / (2 * divergence)).sum())
    times = np.unique(np.geomspace(horizon / 100, horizon, 50).astype(int))
    rows = []
    for name in ("rucb", "rcs", "rmed1", "mdb", "mergerucb"):
        result = run.simulate(name, world, horizon=horizon, n_runs=n_runs, times=times)
        mean = result.mean()
        fits = {}
        for kind, x in (("log", np.log(result.times)), ("linear", result.times.astype(float))):
            slope, start = np.polyfit(x, mean, 1)
            spread = ((mean - mean.mean()) ** 2).sum()
            fits[kind] = slope, 1 - ((mean - start - slope * x) ** 2).sum() / spread if spread > 0 else 1.0
        rows.append(
            [name, mean[0], mean[-1], fits["log"][0], fits["log"][1], fits["linear"][1], result.accuracy[-1]]
        )
    columns = ["", "regret at T/100", "at T", "slope in ln t", "R2 of ln t", "R2 of t", "right answers"]
    run.table("growth", columns, rows)
    run.say(
        f"Least squares over the last two decades. No method can have a slope below {bound:.1f} in the long "
        "run (Komiyama et al. 2015, Theorem 1, average regret, pairs); mergeRUCB stops exploring when one "
        "arm is left, and MDB learns many pairs from one comparison, to which the bound does not apply."
    )


def main() -> None:
    names = ("figure_1", "figure_2", "figure_3", "figure_4", "figure_5", "growth")
    run = Experiment(
        "relative_confidence_sampling",
        __doc__,
        names,
        needs=dict.fromkeys(names[:5], ("preference_matrices", "letor4_mq2008", "letor3_np2004_fold1")),
    )
    wanted = run.part("figure_1")
    matrices = {}
    for name in MSLR:
        try:
            matrices[name] = matrix(run.data, f"{name}.txt")
        except FileNotFoundError as missing:
            run.say(f"{name} left out: {missing.filename} is not there.")
    n = 3_000 if run.quick else 80_000
    for name in ("MQ2008", "NP2004"):
        try:
            matrices[name] = run.once(lambda name=name: {"P": feature_matrix(run, name, "perfect", n)})["P"]
        except FileNotFoundError as missing:
            run.say(f"{name} left out: {missing.filename} is not there.")
    try:
        matrices["P64"] = matrix(run.data, "P64.npy")
    except FileNotFoundError as missing:
        run.say(f"P64 left out: {missing.filename} is not there.")
    if wanted:
        figure_1(run, matrices)
    ten = {name: first_with_winner(P, 10, alphabetical(len(P))) for name, P in matrices.items()}
    for name, P in ten.items():
        gap = assumption_report(P).smallest_gap
        run.say(f"The ten rankers of {name}: the winner's smallest margin is {gap:.4f}.")
    if run.part("figure_2"):
        horizons = np.unique(np.geomspace(100, 1e4 if run.quick else 1e5, 4 if run.quick else 10).astype(int))
        figure_2(run, ten, horizons, run.runs(10, 90))

    if run.part("figure_3"):
        run.section("Figure 3: regret of RUCB and RCS, K = 10, alpha = 0.501")
        cases = {name: (P, 50_000) for name, P in ten.items()}
        for name in MSLR:
            if name in matrices:
                P = matrices[name]
                other = first_with_winner(P, 10, alphabetical(len(P), 1))
                cases[f"{name}, numbered from 1"] = (other, 50_000)
        regret_table(run, "figure_3", cases, run.runs(10, 90), 0.501)
        run.say(
            "The paper: after 50,000 steps on MSLR about 600 and 400, read off its plot: RCS accumulates about a "
            "third less. It sorts the numbers of the rankers as words without saying whether they begin with 0, as "
            "in numpy, or with 1, as the features of MSLR: the ten rankers differ in two, and with 0 ours are nearer."
        )
        rows = {row["data"]: row for row in run.record["figure_3"]}
        run.verdict(
            "Figure 3",
            paper="rcs",
            ours="; ".join(
                f"{name}: RUCB {row['RUCB']:.0f} [{row['RUCB 95%']}], RCS {row['RCS']:.0f} [{row['RCS 95%']}]"
                for name, row in rows.items()
                if name.startswith("MSLR")
            )
            + "; paper about 600 and 400.",
            length=(f"{run.runs(10, 90)} runs x 50,000", "90 runs x 50,000"),
            verdict="agrees in part" if 0.5 < next(iter(rows.values()))["RCS / RUCB"] < 0.75 else "differs",
            reason="RCS is about 40 % below RUCB (paper: a third). The published values, read off a plot, lie just "
            "above our intervals for the perfect user, the paper's, and within or below those of the informational "
            "one; which ten rankers come first, and the estimate of the matrix, move them by as much.",
            brief="; ".join(
                f"{name}: RUCB {row['RUCB']:.0f}, RCS {row['RCS']:.0f}"
                for name, row in rows.items()
                if name in MSLR
            )
            + "; paper about 600 and 400, read off a plot.",
        )

    if run.part("figure_4"):
        run.section("Figure 4: alpha = 0.1, outside the theory")
        cases = {name: (P, 400_000) for name, P in ten.items()}
        regret_table(run, "figure_4", cases, run.runs(10, 30), 0.1)
        run.say(
            "The paper (30 runs, MSLR): two runs of RUCB never settle and its mean grows linearly; RCS, though "
            "worse than with 0.501, flattens. A last tenth near 0.1 is a straight line."
        )
        rows = run.record["figure_4"]
        own = [row for row in rows if row["data"] in MSLR] or rows
        run.verdict(
            "Figure 4",
            paper="rcs",
            ours="; ".join(
                f"{row['data']}: RUCB {row['RUCB']:.0f} (s.d. {row['RUCB s.d.']:.0f}, right in "
                f"{row['right answers'].split(' / ')[0]}), RCS {row['RCS']:.0f} (s.d. {row['RCS s.d.']:.0f}, right in "
                f"{row['right answers'].split(' / ')[1]}); the last tenth of the time adds "
                f"{row['RUCB last tenth']:.3f} and {row['RCS last tenth']:.3f} of it"
                for row in own
            )
            + ".",
            length=(f"{run.runs(10, 30)} runs x 400,000", "30 runs"),
            verdict="agrees"
            if all(row["RUCB last tenth"] > 2 * row["RCS last tenth"] for row in own)
            else "agrees in part",
            reason="In the paper two of 30 runs of RUCB do not settle, which makes its mean a straight line. That "
            "is what happens for the informational user; for the perfect one all runs found the winner in time, "
            "some late (s.d.). RCS settles always and is worse than with 0.501, as in the paper.",
            brief="RCS always settles and is worse than with 0.501, as in the paper; RUCB does not settle in some runs "
            "of the informational user.",
        )

    if run.part("figure_5"):
        run.section("Figure 5: 20, 30 and 40 rankers, alpha = 0.501")
        cases = {}
        for name in (*MSLR, "P64"):
            if name in matrices:
                P = matrices[name]
                for k, horizon in ((20, 1e6), (30, 1.5e6), (40, 2e6)):
                    sub = first_with_winner(P, k, alphabetical(len(P)))
                    cases[f"{name}, K = {k}"] = (sub, int(horizon / (3 if run.quick else 1)))
        regret_table(run, "figure_5", cases, run.runs(2, 30), 0.501)
        run.say(
            "The paper: after 1, 1.5 and 2 million steps; RUCB is above RCS by 30%, 12% and 13% at twice the "
            "step where their curves cross. Before that RCS may be above: it explores harder early on."
        )
        rows = {row["data"]: row for row in run.record["figure_5"]}
        ours, excess = [], "–"
        for name in MSLR:
            three = [rows[f"{name}, K = {k}"] for k in (20, 30, 40) if f"{name}, K = {k}" in rows]
            if three:
                rucb, rcs = (", ".join(f"{row[b]:.0f}" for row in three) for b in ("RUCB", "RCS"))
                ours.append(f"{name}: RUCB {rucb}; RCS {rcs}")
            if three and name == MSLR[0]:
                excess = ", ".join(f"{row['RUCB'] / row['RCS'] - 1:.0%}" for row in three)
        run.verdict(
            "Figure 5",
            paper="rcs",
            ours=". ".join(ours) + ". Paper, axes of the plots: 6,000, 16,000, 25,000.",
            length=(
                f"{run.runs(2, 30)} runs x {'a third of ' if run.quick else ''}1, 1.5, 2 million",
                "1, 1.5, 2 million",
            ),
            verdict="agrees in part" if ours else "other data",
            reason="For the perfect user, the paper's, RUCB ends near the top of the paper's axes, above RCS by "
            f"{excess} (paper, a little earlier: 30 %, 12.3 %, 12.6 %), and RCS is flat at the end. For the "
            "informational user, which the paper does not show, RCS is above RUCB: the winner's margins are smaller.",
            brief=f"For the perfect user, the paper's, RUCB is above RCS by {excess} (paper: 30 %, 12.3 %, 12.6 %); "
            "for the informational one it is below.",
        )
    if run.part("growth"):
        growth(run, 1e6 if run.quick else 1e7, run.runs(10, 100))
    run.save()


if __name__ == "__main__":
    main()
