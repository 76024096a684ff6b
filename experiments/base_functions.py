"""When learning beats the best retrieval function: the reasons given for Tables 3.6 and 3.9 of Yue's thesis, tested.

On the retrieval functions of MQ2008, unlike in the thesis, SVM-map is not better than the best function, and SVM-roc is
as good as SVM-map (`trec_submissions`). The stated reasons are that 10 training topics are too few for 1,250 features,
and that the best function is strong. This script varies both: 10, 20 and 60 of the 100 topics for training (5, 10, 10
choose C); 50 and 5 thresholds for each function; all 25 functions, and two settings with weaker functions: the 12
weakest, and NP2004 (LETOR 3.0: each of 30 topics looks for one page of .GOV by name, among a thousand documents), where
10 or 20 topics train and 5 choose C.
"""

from dataclasses import replace

import numpy as np
from _common import Experiment, mq2008, together
from trec_submissions import CS, Task, against, deal, retrieval_functions, trial

from structsvm.estimators.fusion import fusion_path

N_WEAK = 12
TRIALS = ((10, 5), (20, 10), (60, 10))
NP2004 = "NP2004, all 25"


def learner(loss: str, n_bins: int):
    def learn(training):
        return [m.predict for m in fusion_path(training, CS, loss=loss, n_bins=n_bins, within="data")]

    return learn


def only(task: Task, chosen: set[str]) -> Task:
    """Return the task with only the chosen functions."""
    names = tuple(name for name in task.pool.names if name in chosen)
    keep = [task.pool.names.index(name) for name in names]
    pool = replace(task.pool, scores=task.pool.scores[:, keep], names=names)
    return replace(task, pool=pool, runs={name: v for name, v in task.runs.items() if name in names})


def main() -> None:
    run = Experiment("base_functions", __doc__, needs=["letor4_mq2008", "letor3_np2004_fold1"])
    strong = retrieval_functions(mq2008(run.data, ("S1", "S2", "S3", "S4", "S5")), "MQ2008", 100)
    folder = run.data / "letor3_np2004_fold1"
    tasks = {
        "all 25": strong,
        f"the {N_WEAK} weakest": only(strong, set(list(strong.runs)[-N_WEAK:])),
        NP2004: retrieval_functions(
            together([folder / f"{part}.txt.gz" for part in ("vali", "test")]), "NP2004", 30
        ),
    }
    run.section("SVM-map and SVM-roc against the best function")
    rows = []
    for functions, task in tasks.items():
        best = task.runs[task.best]
        for n_bins in (50, 5):
            sizes = ((10, 5), (20, 5)) if functions == NP2004 else TRIALS[: 2 if run.quick else 3]
            for n_train, n_validation in sizes:
                rng = np.random.default_rng([run.seed, n_train])
                splits = deal(task.pool.n_topics, n_train, n_validation, 10, rng)

                def mean(loss, task=task, splits=splits, n_bins=n_bins):
                    total, tested = np.zeros((2, task.pool.n_topics))
                    for split in splits:
                        total[split[2]] += trial(task.pool, learner(loss, n_bins), split, task)[0]
                        tested[split[2]] += 1
                    return {"values": total / tested}

                learned = [
                    run.once(lambda loss=loss, mean=mean: mean(loss))["values"] for loss in ("map", "roc")
                ]
                cells = [*against(learned[0], best), *against(learned[0], learned[1])]
                over_best, over_roc = (learned[0].mean() - v.mean() for v in (best, learned[1]))
                rows.append(
                    [
                        functions,
                        n_bins,
                        n_train,
                        best.mean(),
                        *(v.mean() for v in learned),
                        over_best,
                        cells[0],
                        f"{cells[1]:.3f}",
                        over_roc,
                        cells[2],
                        f"{cells[3]:.3f}",
                    ]
                )
                print("  ", *rows[-1], flush=True)
    columns = ["functions", "thresholds", "training topics", "best function", "SVM-map", "SVM-roc"]
    columns += ["map - best", "W/L, best", "p, best", "map - roc", "W/L, roc", "p, roc"]
    run.table("settings", columns, rows)

    by_set = {name: [row for row in rows if row[0] == name] for name in tasks}
    run.say(
        "SVM-map minus the best function, by training topics: "
        + "; ".join(
            f"{name}, {n_bins} thresholds "
            + ", ".join(f"{row[6]:+.3f} ({row[2]})" for row in own if row[1] == n_bins)
            for name, own in by_set.items()
            for n_bins in (50, 5)
        )
        + ". The best function, picked in sight of all topics, is strong: neither more topics nor fewer thresholds "
        "bring SVM-map above the best of all 25. Among the weakest functions it is above with 20 topics or more and "
        "the thesis' 50 thresholds, as in the thesis. On NP2004, pages of a Web track as in the thesis, SVM-map is far "
        "above the best function and above SVM-roc with 10 topics already, as in Tables 3.6 and 3.9, and 50 thresholds "
        "are better than 5: the data decide, and how strong the best function is, more than the number of features or "
        "topics."
    )

    def draw(ax):
        for functions in tasks:
            for n_bins in (50, 5):
                own = [row for row in rows if row[:2] == [functions, n_bins]]
                label = f"{functions}; {n_bins}"
                ax.plot([row[2] for row in own], [row[6] for row in own], "o-", ms=3, lw=1, label=label)
        ax.axhline(0, color="k", lw=0.5)
        ax.set_xlabel("training topics", fontsize=7)
        ax.set_ylabel("MAP, SVM-map minus best function", fontsize=7)

    run.plot("functions, thresholds", draw)
    run.save()


if __name__ == "__main__":
    main()
