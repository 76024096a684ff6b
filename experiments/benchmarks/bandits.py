"""Speed of the compiled bandits: seconds for 10^7 steps at K = 136, ratio to the literal policies, growth with K.

Run: python experiments/benchmarks/bandits.py [--quick]. The last line is one JSON object.

The worlds are utilities with a logistic link: "far" (range 6, the winner is found) and "near" (range 0.6, neighbours
differ by 0.001 in probability: 10^7 steps do not settle them, so there is little to skip).
"""

import argparse
import json
import time
from functools import partial

import numpy as np

from structsvm.online import Utilities, simulate
from structsvm.online.bandits import make

NAMES = ("rucb", "mergerucb", "mdb", "rmed1", "rcs", "if1", "if2")
TARGETS = {"rucb": 4.0, "mergerucb": 2.0, "mdb": 2.0, "rmed1": 8.0, "rcs": 60.0}


def world(n_arms: int, width: float) -> Utilities:
    rng = np.random.default_rng(n_arms)
    return Utilities(rng.permutation(np.linspace(0, width, n_arms)), "logistic")


def seconds(name: str, place: Utilities, steps: int) -> float:
    """Return the processor time of the process, which includes the thread of the compiled run."""
    start = time.process_time()
    simulate(name, place, horizon=steps, seed=1, times=[steps])
    return time.process_time() - start


def literal_step(name: str, place: Utilities) -> float:
    """Return the seconds per uncompiled step, after the 9,180 steps in which RMED1 compares every pair once."""
    first, last = 9_500, 10_500
    clock = {}
    simulate(
        partial(make, name),
        place,
        horizon=last,
        seed=1,
        times=[first],
        callback=lambda progress: clock.__setitem__(progress.step, time.process_time()),
    )
    return (clock[last] - clock[first]) / (last - first)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="10^6 steps, one world, K up to 300")
    quick = parser.parse_args().quick
    steps = 10**6 if quick else 10**7
    worlds = {"near": world(136, 0.6)} if quick else {"near": world(136, 0.6), "far": world(136, 6.0)}
    report: dict[str, object] = {"steps": steps, "K": 136}
    print(f"{steps:.0e} steps, K = 136, one core; literal: time of a step times their number")
    print(f"{'':10}{'world':>6}{'compiled, s':>13}{'target, s':>11}{'literal, s':>12}{'ratio':>9}")
    for name in NAMES:
        simulate(name, worlds["near"], horizon=10)  # compile or load
        report[name] = {}
        for label, place in worlds.items():
            fast = seconds(name, place, steps)
            literal = literal_step(name, place) * steps
            report[name] |= {label: round(fast, 3), f"ratio_{label}": round(literal / fast)}
            target = TARGETS.get(name, "")
            print(
                f"{name:10}{label:>6}{fast:13.2f}{target:>11}{literal:12.0f}{literal / fast:9.0f}", flush=True
            )
    sizes = (10, 30, 100, 300) if quick else (10, 30, 100, 300, 1000)
    some = 10**5 if quick else 10**6
    print(f"\nnanoseconds a step over {some:.0e} steps, range 6")
    print(f"{'K':10}" + "".join(f"{n:>10}" for n in sizes))
    growth = {}
    for name in NAMES:
        growth[name] = [round(seconds(name, world(n, 6.0), some) / some * 1e9, 1) for n in sizes]
        print(f"{name:10}" + "".join(f"{value:10.0f}" for value in growth[name]), flush=True)
    report["K_sizes"], report["ns_per_step"] = sizes, growth
    print(json.dumps(report))


if __name__ == "__main__":
    main()
