"""Kernels compile once for a type: not again in the same process, not at all in the next one."""

import os
import subprocess
import sys

import numpy as np
import pytest

FIT = """
import numpy as np
from structsvm import SVMMap
rng = np.random.default_rng(0)
X, qid = rng.normal(size=(300, 4)), np.repeat(np.arange(30), 10)
SVMMap(C=10.0).fit(X, (X[:, 0] > 1).astype(int), qid=qid)
from structsvm.trainers import frank_wolfe, rows
from structsvm.oracles import average_precision
kernels = [v for m in (frank_wolfe, rows, average_precision) for v in vars(m).values() if hasattr(v, "stats")]
print(sum(sum(k.stats.cache_misses.values()) for k in kernels), sum(sum(k.stats.cache_hits.values()) for k in kernels))
"""


def figures(*command, **environment):
    """Cache misses and hits of a process."""
    out = subprocess.run(
        [sys.executable, *command], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )  # fmt: skip
    return tuple(map(int, out.stdout.split()))


@pytest.mark.slow
def test_a_second_process_compiles_nothing():
    assert sum(figures("-c", FIT)) > 0
    # kernels that are called by others only are counted where they are compiled, not where their callers are loaded
    misses, hits = figures("-c", FIT)
    assert misses == 0
    assert hits > 0


def test_a_second_fit_with_the_same_types_compiles_nothing():
    from structsvm import SVMMap
    from structsvm.oracles import average_precision
    from structsvm.trainers import frank_wolfe, rows

    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(300, 4)), np.repeat(np.arange(30), 10)
    y = (X[:, 0] > 1).astype(int)
    kernels = [
        v
        for m in (frank_wolfe, rows, average_precision)
        for v in vars(m).values()
        if hasattr(v, "signatures")
    ]
    SVMMap(C=10.0).fit(X, y, qid=qid)
    before = [len(k.signatures) for k in kernels]
    SVMMap(C=1.0).fit(X[::-1].copy(), y[::-1], qid=qid)
    assert [len(k.signatures) for k in kernels] == before
    assert sum(before) > 0
