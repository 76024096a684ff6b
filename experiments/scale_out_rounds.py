"""Passes over the data that training over partitions takes, by number of partitions and C.

    python experiments/scale_out_rounds.py [--quick]

The data have 20,000 queries x 120 documents x 136 float32 features with graded labels from a noisy linear model (noise
1); the loss is "map", the relative gap 1e-3. The queries are assigned to partitions in order; then sorted by difficulty
(average precision of the planted weights); and then, with the grade from which documents are relevant (1, 2 or 3)
varied by query, sorted by the number of relevant documents. One process holds all partitions; the script counts the
bytes between driver and partitions.
"""

import dataclasses
import warnings
from itertools import pairwise
from typing import Any

import numpy as np
from _common import Experiment

from structsvm.metrics import evaluate
from structsvm.oracles import get_oracle
from structsvm.readers.synthetic import make_ranking, planted_weights
from structsvm.trainers import RankingProblem, train
from structsvm.trainers.partitioned import Partition, SerialPartitions, train_partitioned

TOL = 1e-3
_PASSES = ("cut", "descend", "certify")


class Counted(SerialPartitions):
    """Partitions that count the rounds, and the bytes that they receive and send."""

    def __init__(self, parts: list[Partition]) -> None:
        super().__init__(parts)
        self.small = 0
        self.bytes = [0, 0]

    def each(self, method: str, payloads: Any) -> list[Any]:
        answers = super().each(method, payloads)
        self.small += method not in (*_PASSES, "describe")
        self.bytes[0] += size(payloads)
        self.bytes[1] += size(answers)
        return answers


def size(value: Any) -> int:
    """Return the number of bytes of the values in nested tuples and arrays."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    return sum(map(size, value)) if isinstance(value, (tuple, list)) else 8


def select(data: Any, queries: Any) -> tuple[Any, Any, Any]:
    """Return rows, labels and offsets of the given queries, in the given order."""
    lengths = np.diff(data.offsets)[queries]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    rows = np.repeat(data.offsets[:-1][queries] - offsets[:-1], lengths) + np.arange(offsets[-1])
    return data.X[rows], data.y[rows], offsets


def partitions(X: Any, y: Any, offsets: Any, n_parts: int) -> Counted:
    """Divide the queries evenly into contiguous parts, which are slices of ``X``, not copies."""
    oracle, parts = get_oracle("map"), []
    borders = np.linspace(0, offsets.shape[0] - 1, n_parts + 1).astype(int)
    for first, last in pairwise(borders):
        rows = slice(offsets[first], offsets[last])
        own = offsets[first : last + 1] - offsets[first]
        parts.append(Partition(X[rows], own, oracle.bind(y[rows], own)))
    return Counted(parts)


def main() -> None:
    run = Experiment("scale_out_rounds", __doc__ or "")
    n, docs, width = (2000, 60, 50) if run.quick else (20_000, 120, 136)
    data = make_ranking(n, docs, width, noise=1.0, dtype=np.float32, random_state=run.seed)
    Cs = [1.0, 10.0, 100.0, 1000.0]
    counts = [1, 2, 8, 32] if run.quick else [1, 2, 8, 32, 128]
    warnings.simplefilter("ignore")
    scores = data.X @ planted_weights(width, run.seed)
    precision = evaluate("map", data.y, scores, qid=data.qid).per_query
    easy = select(data, np.argsort(-precision, kind="stable"))
    threshold = np.repeat(np.random.default_rng(run.seed).integers(1, 4, n), np.diff(data.offsets))
    labels = (data.y >= threshold).astype(np.float64)
    n_relevant = np.add.reduceat(labels, data.offsets[:-1])
    few = select(dataclasses.replace(data, y=labels), np.argsort(n_relevant, kind="stable"))
    orders = {
        "as they come": (data.X, data.y, np.asarray(data.offsets)),
        "sorted by difficulty": easy,
        "sorted by number of relevant": few,
    }
    for title, (X, y, offsets) in orders.items():
        run.section(f"Queries {title}")
        problem = RankingProblem(X, offsets, get_oracle("map").bind(y, offsets))
        rows = []
        single = {}
        for solver in ("frank_wolfe", "one_slack"):
            single[solver] = [train(problem, C, solver=solver, tol=TOL) for C in Cs]
            passes = [fit.n_passes for fit in single[solver]]
            rows.append([f"one machine, {solver}", *passes, "", "", ""])
            print(rows[-1], flush=True)
        lowest = [max(a.dual, b.dual) for a, b in zip(*single.values(), strict=True)]
        highest = [min(a.primal, b.primal) for a, b in zip(*single.values(), strict=True)]
        for n_parts in counts:
            passes, small, sent, columns = [], 0, [0.0, 0.0], 0
            for k, C in enumerate(Cs):
                parts = partitions(X, y, offsets, n_parts)
                fit = train_partitioned(parts, C, tol=TOL, max_passes=200)
                assert fit.primal >= lowest[k] * (1 - 1e-12)
                assert fit.dual <= highest[k] * (1 + 1e-12)
                cut = problem.cut(fit.w)
                exact = 0.5 * float(fit.w @ fit.w) + C * (cut.loss - float(cut.joint @ fit.w))
                assert abs(exact - fit.primal) <= 1e-12 * exact
                passes.append(fit.n_passes if fit.converged else f">{fit.n_passes}")
                small = max(small, parts.small)
                columns = max(columns, fit.n_cuts)
                for i in (0, 1):
                    sent[i] = max(sent[i], parts.bytes[i] / 1e3 / n_parts / (fit.n_passes + parts.small))
            rows.append([f"{n_parts} partitions", *passes, small, f"{sent[0]:.1f} / {sent[1]:.1f}", columns])
            print(rows[-1], flush=True)
        heads = [f"C={C:g}" for C in Cs]
        run.table(
            title,
            ["trainer", *heads, "most small rounds", "kB out / back (part and round)", "most columns"],
            rows,
        )
    run.save()


if __name__ == "__main__":
    main()
