"""Simulated interleaving comparisons a second on one core, compiled and plain, in one run.

Lists of 10, cascade clicks; synthetic queries of 100 documents, or the feature rankers of a LETOR file.
Targets: team draft >= 1e6 a second, probabilistic with exact marginal credit >= 4e5.

    python experiments/benchmarks/interleaving.py [--quick] [--data S1.txt]
"""

import argparse
import json
import time

import numpy as np

from structsvm.online.interleaving import SOSM, Probabilistic, TeamDraft
from structsvm.online.interleaving.compiled.comparisons import compare_pairs, tables_for
from structsvm.online.interleaving.compiled.kernels import multileave
from structsvm.online.interleaving.compiled.ranked_queries import RankedQueries
from structsvm.online.users import CascadeUser


def synthetic(n_rankers: int = 20, n_queries: int = 200, n_documents: int = 100) -> RankedQueries:
    """Return rankers that agree in part, as real rankers do; one document in four is relevant."""
    rng = np.random.default_rng(0)
    rows = n_queries * n_documents
    scores = rng.normal(size=(rows, 1)) + rng.normal(size=(rows, n_rankers))
    grades = (rng.random(rows) < 0.25).astype(int) + (rng.random(rows) < 0.05)
    return RankedQueries.from_scores(scores, grades, np.arange(0, rows + 1, n_documents))


def best_rate(run, n: int, repeats: int) -> float:
    """Return comparisons per second in the best of several runs, because other load can only slow down a run."""
    run()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return n / min(seconds)


def plain_rate(method, ranked: RankedQueries, rankers: np.ndarray, user: CascadeUser, n: int) -> float:
    """Return comparisons per second if each is made through ``show``, ``click`` and ``outcome``."""
    rng = np.random.default_rng(0)
    start = time.perf_counter()
    for _ in range(n):
        q = int(rng.integers(ranked.n_queries))
        rows = slice(ranked.offsets[q], ranked.offsets[q + 1])
        shown = method.show(ranked.rankings[rankers, rows], 10, rng)
        clicks = user.click(ranked.grades[rows][list(shown.documents)], rng)
        method.outcome(shown, clicks)
    return n / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the comparisons")
    parser.add_argument("--data", help="a LETOR file; its features are the rankers")
    arguments = parser.parse_args()
    n = 100_000 if arguments.quick else 1_000_000
    if arguments.data:
        from structsvm.readers import read_letor

        data = read_letor(arguments.data)
        ranked = RankedQueries.from_scores(data.X, data.y, data.offsets)
    else:
        ranked = synthetic()
    n_grades = int(ranked.grades.max()) + 1
    first, second = np.triu_indices(ranked.n_rankers, 1)
    pairs = np.column_stack([first, second])
    each = max(1, n // len(pairs))
    result: dict[str, float] = {}
    print(f"{'method':24}{'user':16}{'compiled/s':>14}{'plain/s':>10}{'ratio':>9}")
    for user_name in ("perfect", "navigational", "informational"):
        user = CascadeUser.named(user_name, n_grades)
        for method in (TeamDraft(), Probabilistic()):

            def run(method=method, user=user) -> None:
                compare_pairs(ranked, pairs, user, each, method=method.name)

            fast = best_rate(run, each * len(pairs), 5)
            plain = plain_rate(method, ranked, np.array([0, 1]), user, 300)
            print(f"{method.name:24}{user_name:16}{fast:14,.0f}{plain:10,.0f}{fast / plain:9,.0f}")
            result[f"{method.name}_{user_name}_per_second"] = round(fast)
            result[f"{method.name}_{user_name}_ratio"] = round(fast / plain)
        crowd = np.arange(ranked.n_rankers)

        def run_sosm(user=user, crowd=crowd) -> None:
            outcome = np.zeros((len(crowd), len(crowd)), dtype=np.int64)
            tables, longest = tables_for(ranked, user, 10, 1), int(np.diff(ranked.offsets).max())
            multileave(ranked, tables, longest, crowd, n // 50, np.uint64(0), True, False, outcome)

        fast = best_rate(run_sosm, n // 50, 3)
        plain = plain_rate(SOSM(), ranked, crowd, user, 100)
        print(f"{f'sosm of {len(crowd)}':24}{user_name:16}{fast:14,.0f}{plain:10,.0f}{fast / plain:9,.0f}")
        result[f"sosm_{user_name}_per_second"] = round(fast)
        result[f"sosm_{user_name}_ratio"] = round(fast / plain)
    result["n_rankers"] = ranked.n_rankers
    for method, target in (("team_draft", 1e6), ("probabilistic", 4e5)):
        slowest = min(v for k, v in result.items() if k.startswith(method) and k.endswith("per_second"))
        result[f"{method}_target_met"] = slowest >= target
    print(json.dumps({"benchmark": "interleaving", **result}))


if __name__ == "__main__":
    main()
