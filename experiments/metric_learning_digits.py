"""Learning a metric by ranking: which pixels tell handwritten digits apart, by SVM-map and SVM-roc.

This script repeats the demo over several splits of scikit-learn's digits: a query is an image, its candidates are other
images, images of the same digit are relevant, and the features are the absolute differences of the 64 pixels. There are
no published figures to compare with: the thesis proposes ranking losses for such tasks, but has no experiment of this
kind. ``--data`` is accepted as in all scripts, but not used; the images come with scikit-learn.
"""

import numpy as np
from _common import Experiment

from structsvm.cli.studies.demo import digits_task, run as learn
from structsvm.metrics import compare


def main() -> None:
    run = Experiment("metric_learning_digits", __doc__)
    seeds = range(run.seed, run.seed + (2 if run.quick else 10))
    outcomes = [learn(digits_task(seed), n_jobs=run.jobs) for seed in seeds]
    names = [system.name for system in outcomes[0].systems]
    means = np.array([[system.mean for system in outcome.systems] for outcome in outcomes])
    base = names.index(outcomes[0].baseline.name)

    run.section(f"Mean average precision, {len(outcomes)} splits")
    task = outcomes[0].task
    run.say(
        f"Each split: {task.train.n_queries} training queries with {task.train.n_rows // task.train.n_queries} "
        f"candidates, {task.test.n_queries} test queries with {task.test.n_rows // task.test.n_queries} others. C by "
        "3-fold cross-validation over training queries."
    )
    rows = []
    for i, name in enumerate(names):
        per_query = np.concatenate([outcome.systems[i].per_query for outcome in outcomes])
        test = compare(per_query, np.concatenate([outcome.systems[base].per_query for outcome in outcomes]))
        fits = [o.systems[i].model.fit_ for o in outcomes if o.systems[i].model is not None]
        rows.append(
            [
                name,
                means[:, i].mean(),
                means[:, i].min(),
                means[:, i].max(),
                test.mean_difference,
                test.wins,
                test.losses,
                "–" if i == base else f"{test.p_value:.1e}",
                "–" if not fits else f"{max(fit.gap for fit in fits):.0e}",
            ]
        )
    columns = [
        "system",
        "MAP",
        "lowest split",
        "highest split",
        "difference",
        "wins",
        "losses",
        "p",
        "largest gap",
    ]
    run.table("map", columns, rows)
    run.say(
        f"difference, wins, losses and p (two-tailed Wilcoxon, over the queries of all splits) are against "
        f"{names[base]}. Splits share images, so p is too small by an unknown factor; within one split:"
    )
    rows = []
    for seed, outcome in zip(seeds, outcomes, strict=True):
        for system in outcome.learned:
            test = compare(system.per_query, outcome.baseline.per_query)
            rows.append(
                [seed, system.name, system.mean, test.mean_difference, f"{test.p_value:.1e}", system.model.C_]
            )
    run.table("splits", ["split", "system", "MAP", "difference", "p", "C"], rows)
    maps = [name for name in names if name == "SVM-map"]
    if maps:
        a, b = (
            np.concatenate([o.systems[names.index(n)].per_query for o in outcomes])
            for n in ("SVM-map", "SVM-roc")
        )
        test = compare(a, b)
        run.say(f"SVM-map against SVM-roc: {test.mean_difference:+.4f}, p {test.p_value:.1e}.")

    for system in outcomes[0].learned:

        def draw(ax, system=system):
            weights = system.model.coef_.reshape(8, 8)
            extent = np.abs(weights).max()
            ax.imshow(weights, cmap="RdBu_r", vmin=-extent, vmax=extent)

        run.plot(f"{system.name}: weight of each pixel", draw)

    def bars(ax):
        centre = means.mean(axis=0)
        reach = [centre - means.min(axis=0), means.max(axis=0) - centre]
        ax.errorbar(range(len(names)), centre, reach, fmt="o", capsize=4)
        ax.set_xticks(range(len(names)), names, fontsize=6)
        ax.set_ylabel("MAP", fontsize=7)

    run.plot("MAP: mean, lowest and highest split", bars)
    run.save()


if __name__ == "__main__":
    main()
