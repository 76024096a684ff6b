"""Where ``solver="auto"`` changes from frank_wolfe to one_slack: passes of both by how far a step pulls.

    python experiments/benchmarks/solvers.py [--tol 1e-3] [--max-passes 200]

The problems are synthetic, with 30 to 2,000 queries, all features of one scale or one feature larger by a factor, and
two values of C. They are sorted by C times the weight of a query times its mean squared joint feature at zero, which
the rule compares with a limit. Last line: JSON.
"""

import argparse
import json
import warnings

import numpy as np

from structsvm.oracles import get_oracle
from structsvm.trainers.certificate import ConvergenceWarning
from structsvm.trainers.choosing_solver import largest_C
from structsvm.trainers.passes import RankingProblem, sample
from structsvm.trainers.path import train

SIZES = (
    (30, 20, 5, "map"),
    (60, 20, 20, "map"),
    (200, 15, 10, "ndcg@5"),
    (500, 20, 30, "roc"),
    (2000, 20, 20, "map"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--max-passes", type=int, default=200)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    rng = np.random.default_rng(0)
    rows = []
    for n, length, m, loss in SIZES:
        offsets = np.arange(n + 1) * length
        unit = rng.normal(size=(n * length, m))
        y = np.clip(np.round(unit @ rng.normal(size=m) / np.sqrt(m) + rng.normal(size=n * length)), 0, 3)
        separator = get_oracle(loss).bind(y, offsets)
        for larger, scale in (("all", 1.0), ("all", 10.0), ("all", 100.0), ("one", 10.0), ("one", 100.0)):
            factor = np.full(m, scale) if larger == "all" else np.where(np.arange(m) == 0, scale, 1.0)
            problem = RankingProblem(unit * factor, offsets, separator)
            cuts = np.concatenate([joint for *_, joint in sample(problem, np.zeros(m))])
            for C in (1.0, 100.0):
                fits = [
                    train(problem, C, solver=solver, tol=options.tol, max_passes=options.max_passes)
                    for solver in ("frank_wolfe", "one_slack")
                ]
                rows.append(
                    {
                        "pull": C / n * float((cuts**2).sum(axis=1).mean()),
                        "queries": n,
                        "loss": loss,
                        "larger": larger,
                        "scale": scale,
                        "C": C,
                        "auto": "frank_wolfe" if largest_C(problem) >= C else "one_slack",
                        **{fit.solver: {"passes": fit.n_passes, "gap": fit.gap} for fit in fits},
                    }
                )
    rows.sort(key=lambda row: row["pull"])
    print(
        f"{'pull':>9} {'queries':>7} {'loss':>7} {'larger':>6} {'scale':>5} {'C':>4}  passes, gap: FW, one_slack"
    )
    for row in rows:
        ends = [f"{row[s]['passes']:4d} {row[s]['gap']:.0e}" for s in ("frank_wolfe", "one_slack")]
        print(
            f"{row['pull']:9.2g} {row['queries']:7d} {row['loss']:>7} {row['larger']:>6} {row['scale']:5g} "
            f"{row['C']:4g}  {ends[0]}  {ends[1]}  auto: {row['auto']}"
        )
    print(json.dumps({"benchmark": "solvers", "tol": options.tol, "rows": rows}))


if __name__ == "__main__":
    main()
