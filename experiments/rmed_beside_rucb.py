"""RMED1 beside RUCB: regret on published preference matrices after 10,000 and 100,000 comparisons."""

from _common import MATRICES, Experiment, matrix

from structsvm.online import simulate

NAMES = ("rucb", "rmed1")
TIMES = [1000, 10_000, 100_000]
WORLDS = {
    "MSLR-Perfect.txt": "rankers of MSLR, perfect user",
    "MSLR-Informational.txt": "rankers of MSLR, informational user",
    "P64.npy": "64 rankers",
    "P31.npy": "31 rankers",
    "BvsC20.npy": "synthetic, best against Condorcet",
}


def main() -> None:
    run = Experiment("rmed_beside_rucb", __doc__, needs=[MATRICES])
    n_runs = run.runs(2, 5)
    run.section(f"Regret, means of {n_runs} runs")
    rows = []
    for file, says in WORLDS.items():
        P = matrix(run.data, file)
        played = [
            simulate(name, P, horizon=TIMES[-1], n_runs=n_runs, seed=run.seed, times=TIMES) for name in NAMES
        ]
        rows.append([says, len(P), *(f"{value:.0f}" for one in played for value in one.mean())])
    run.table("regret", ["world", "K", *(f"{name} {t:,}" for name in NAMES for t in TIMES)], rows)
    run.save()


if __name__ == "__main__":
    main()
