"""How fast documents are chosen and models trained, against a straightforward greedy in numpy in the same run.

    python experiments/benchmarks/diversity.py [--sets 100] [--predict-sets 1000] [--threads 2]

Sets of 100 documents of 300 words over 5,000; ten levels. The straightforward method keeps a flag per covered word and,
in every step, sums the benefits of the uncovered words of every document, with one sparse product per level. Both
methods take turns, after a call that compiles. ``predict`` starts from word counts, so its time excludes reading texts.
Prints a table and, as the last line, JSON.
"""

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from structsvm.common.candidates import CandidateSet
from structsvm.estimators.diversity import SVMDiv
from structsvm.features.word_counts import count_words
from structsvm.features.word_features import Level, WordFeatures
from structsvm.oracles.coverage import CoverageProblem
from structsvm.oracles.selection import greedy

LEVELS = [
    Level.appears(),
    *(Level.count(c) for c in (2, 3, 4, 5)),
    *(Level.share(s) for s in (0.01, 0.02, 0.03)),
]
LEVELS += [Level.top_tfidf(5), Level.top_tfidf(10)]
K = 5
CS = np.logspace(-2, 2, 9)


def make(n_sets: int, rng: np.random.Generator) -> tuple[list[CandidateSet], list[Any]]:
    zipf = 1 / np.arange(1, 5001)
    popularity = 1 / np.arange(1, 26) ** 0.7
    popularity /= popularity.sum()
    sets, labels = [], []
    for _ in range(n_sets):
        topics = rng.dirichlet(50 * zipf / zipf.sum() + 1e-3, size=25)
        covers = np.zeros((100, 25), dtype=bool)
        rows = []
        for d in range(100):
            own = rng.choice(25, size=rng.integers(1, 4), replace=False, p=popularity)
            covers[d, own] = True
            mixture = rng.dirichlet(np.ones(own.size)) @ topics[own]
            rows.append(sparse.csr_matrix(rng.multinomial(300, mixture / mixture.sum()), dtype=float))
        sets.append(CandidateSet(sparse.vstack(rows)))
        labels.append(covers)
    return sets, labels


class Straightforward:
    """Choose greedily without optimisation: word benefits, flags of covered words, one product per level and step."""

    def __init__(self, features: WordFeatures, candidates: CandidateSet) -> None:
        self.features, self.n = features, len(candidates)
        self.matrices, self.bins = [], []
        for indptr, indices, n_words in features.incidences(candidates, count_words(candidates)):
            matrix = sparse.csr_matrix((np.ones(len(indices)), indices, indptr), shape=(self.n, n_words))
            self.matrices.append(matrix)
            share = np.bincount(indices, minlength=n_words) / self.n
            self.bins.append(np.searchsorted(features.thresholds, share, side="right") - 1)

    def choose(self, benefits: Any, k: int) -> list[int]:
        values = [
            row[bins] for row, bins in zip(benefits.reshape(len(self.bins), -1), self.bins, strict=True)
        ]
        covered = [np.zeros(m.shape[1], dtype=bool) for m in self.matrices]
        chosen: list[int] = []
        for _ in range(k):
            gain = np.zeros(self.n)
            for matrix, value, flags in zip(self.matrices, values, covered, strict=True):
                gain += matrix @ np.where(flags, 0.0, value)
            gain[chosen] = -np.inf
            best = int(np.argmax(gain))
            chosen.append(best)
            for matrix, flags in zip(self.matrices, covered, strict=True):
                flags[matrix[best].indices] = True
        return chosen


def seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=100)
    parser.add_argument("--predict-sets", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    sets, labels = make(options.sets, rng)
    features = WordFeatures(LEVELS)
    coverages = [features.coverage(s) for s in sets]
    rivals = [Straightforward(features, s) for s in sets]
    benefits = rng.normal(size=features.n_bins)
    nothing = np.zeros(100)
    problems = {
        how: CoverageProblem(coverages, labels, features.bins(), K, separation=how, n_jobs=options.threads)
        for how in ("greedy", "swap")
    }

    def ours() -> list[Any]:
        return [greedy(c, benefits, nothing, K).chosen.tolist() for c in coverages]

    def theirs() -> list[Any]:
        return [r.choose(benefits, K) for r in rivals]

    same = sum(a == b for a, b in zip(ours(), theirs(), strict=True))
    times: dict[str, list[float]] = {"greedy": [], "straightforward": [], "pass greedy": [], "pass swap": []}
    for _ in range(options.repeats):
        times["greedy"].append(seconds(ours))
        times["straightforward"].append(seconds(theirs))
        for how, problem in problems.items():
            w = rng.normal(size=problem.n_features)
            times[f"pass {how}"].append(seconds(lambda problem=problem, w=w: problem.cut(w)))
    figures = {name: statistics.median(values) for name, values in times.items()}
    model = SVMDiv(k=K, levels=LEVELS, n_jobs=options.threads)
    for name, change in (("train", {}), ("train benefits", {"positive": "benefits"})):
        start = time.perf_counter()
        models = model.set_params(**change).path(sets, labels, CS)
        figures[name] = time.perf_counter() - start
    many = [sets[i % len(sets)] for i in range(options.predict_sets)]
    start, processor = time.perf_counter(), time.process_time()
    models[-1].predict(many)
    figures["predict"] = time.perf_counter() - start
    figures["predict, processor"] = time.process_time() - processor
    ratio = figures["straightforward"] / figures["greedy"]
    n = options.sets
    print(f"{n} sets x 100 documents x 300 words, 10 levels, k = {K}, {options.threads} threads")
    print(f"  greedy choice, one thread          {figures['greedy'] * 1e3:9.1f} ms")
    print(
        f"  straightforward numpy greedy       {figures['straightforward'] * 1e3:9.1f} ms   ratio {ratio:.1f}"
    )
    print(f"  same documents                     {same:6d} of {n}")
    print(f"  separation pass, greedy            {figures['pass greedy'] * 1e3:9.1f} ms")
    print(f"  separation pass, greedy and swaps  {figures['pass swap'] * 1e3:9.1f} ms")
    print(f"  training, nine values of C         {figures['train']:9.1f} s")
    print(f"  the same, benefits >= 0            {figures['train benefits']:9.1f} s")
    print(f"  predict for {options.predict_sets} sets of counts     {figures['predict']:9.2f} s")
    print(f"    of the processor, both threads   {figures['predict, processor']:9.2f} s")
    print(
        json.dumps({**{k: round(v, 5) for k, v in figures.items()}, "ratio": round(ratio, 2), "same": same})
    )


if __name__ == "__main__":
    main()
