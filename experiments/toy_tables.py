"""Why optimise MAP: Tables 3.1-3.4 of Yue's thesis computed.

Each pair of tables compares two rankings of one query: ROC area, or accuracy at the best threshold, prefers the ranking
with the lower average precision. The script uses no randomness and no data; ``--data`` and ``--seed`` are accepted as
in all scripts.
"""

import numpy as np
from _common import Experiment

from structsvm.metrics import evaluate

EXAMPLES = {
    "roc": (
        "Tables 3.1 and 3.2",
        "ROC area",
        [1, 0, 0, 0, 0, 1, 1, 0],
        {"h1": (0.59, 0.47), "h2": (0.51, 0.53)},
    ),
    "accuracy": (
        "Tables 3.3 and 3.4",
        "best accuracy",
        [1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0],
        {"h1": (0.56, 0.64), "h2": (0.51, 0.73)},
    ),
}


def best_accuracy(labels: np.ndarray, scores: np.ndarray) -> float:
    """Return the highest accuracy over all thresholds, including "all" and "none"."""
    ranked = labels[np.argsort(-scores)]
    hits = np.concatenate(([0], np.cumsum(ranked)))  # number of relevant documents among the first k
    k = np.arange(labels.size + 1)
    correct = hits + (labels.size - k) - (labels.sum() - hits)
    return float(correct.max() / labels.size)


def main() -> None:
    run = Experiment("toy_tables", __doc__, tuple(EXAMPLES), judge=judge)
    if run.judged_again():
        return
    agree = 0
    for key, (title, other, relevance, published) in EXAMPLES.items():
        if not run.part(key):
            continue
        labels = np.array(relevance)
        n = labels.size
        rankings = {"h1": np.arange(n, 0, -1.0), "h2": np.arange(1.0, n + 1)}
        run.section(title)
        run.table(
            f"{key}_rankings",
            ["document", *map(str, range(1, n + 1))],
            [["relevant", *relevance], *([name, *map(int, scores)] for name, scores in rankings.items())],
        )
        rows = []
        for name, scores in rankings.items():
            ours = (
                evaluate("map", labels, scores, qid=0).mean,
                evaluate("roc", labels, scores, qid=0).mean
                if key == "roc"
                else best_accuracy(labels, scores),
            )
            agree += sum(f"{a:.2f}" == f"{b:.2f}" for a, b in zip(ours, published[name], strict=True))
            rows.append([name, ours[0], published[name][0], ours[1], published[name][1]])
        run.table(
            f"{key}_values", ["ranking", "AP ours", "AP thesis", f"{other} ours", f"{other} thesis"], rows
        )
        higher = max(rows, key=lambda row: row[1])[0], max(rows, key=lambda row: row[3])[0]
        run.say(f"AP prefers {higher[0]}, {other} prefers {higher[1]}.")

        def draw(ax, rows=rows, other=other):
            place = np.arange(2)
            ax.bar(place - 0.2, [row[1] for row in rows], 0.4, label="AP")
            ax.bar(place + 0.2, [row[3] for row in rows], 0.4, label=other, hatch="//")
            ax.set_xticks(place, [row[0] for row in rows])
            ax.set_ylim(0, 1)

        run.plot(title, draw)
    run.say(
        f"{agree} of {4 * len(run.options.only)} values agree with the thesis to the two digits it prints."
    )
    judge(run)
    run.save()


def judge(run: Experiment) -> None:
    """Write the verdicts of Tables 3.1 to 3.4."""
    for key, tables, other in (
        ("roc", "Table 3.1, Table 3.2", "ROC area"),
        ("accuracy", "Table 3.3, Table 3.4", "best accuracy"),
    ):
        if key not in run.options.only:
            continue
        rows = run.record[f"{key}_values"]
        pairs = [(row[f"{what} ours"], row[f"{what} thesis"]) for row in rows for what in ("AP", other)]
        same = sum(f"{ours:.2f}" == f"{theirs:.2f}" for ours, theirs in pairs)
        run.verdict(
            tables,
            paper="thesis",
            part=key,
            ours=f"{same} of {len(pairs)} values agree to the two digits printed.",
            length=("the same rankings", "two rankings"),
            verdict="agrees" if same == len(pairs) else "differs",
            reason=f"AP and {other} prefer different rankings.",
        )


if __name__ == "__main__":
    main()
