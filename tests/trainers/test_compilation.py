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
from structsvm.trainers import block_dual, row_kernels
from structsvm.oracles import average_precision
kernels = [v for m in (block_dual, row_kernels, average_precision) for v in vars(m).values() if hasattr(v, "stats")]
print(sum(sum(k.stats.cache_misses.values()) for k in kernels), sum(sum(k.stats.cache_hits.values()) for k in kernels))
"""


def figures(*command, **environment):
    """Return the cache misses and hits of a process."""
    out = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return tuple(map(int, out.stdout.split()))


@pytest.mark.slow
def test_a_second_process_compiles_nothing():
    assert sum(figures("-c", FIT)) > 0
    # kernels that are called by others only are counted where they are compiled, not where their callers are loaded
    misses, hits = figures("-c", FIT)
    assert misses == 0
    assert hits > 0


def test_second_fits_with_the_same_types_compile_nothing():
    from scipy import sparse

    from structsvm import CoRegularizedSGD, LambdaRank, PairwiseSGD, SVMMap
    from structsvm.common.kernel import _kernels

    X, qid = np.random.default_rng(0).normal(size=(300, 4)), np.repeat(np.arange(30), 10)
    y = (X[:, 0] > 1).astype(float)
    views = [[0, 1], [2, 3]]
    seen = []
    for C, loss, epochs in ((10.0, "hinge", 1), (1.0, "squared", 2)):
        SVMMap(C=C).fit(X, y, qid=qid)
        LambdaRank("map" if epochs == 1 else "ndcg@10", max_epochs=epochs, random_state=0).fit(X, y, qid=qid)
        for rows in (X, sparse.csr_matrix(X)):
            PairwiseSGD(loss, n_steps=500, random_state=epochs).fit(rows, y, qid=qid)
            CoRegularizedSGD(views, k=epochs, loss=loss, n_steps=500, random_state=0).fit(rows, y, qid=qid)
        seen.append({str(kernel): len(kernel.signatures) for kernel in _kernels})
        X, y = X[::-1].copy(), y[::-1].copy()
    assert sum(seen[0].values()) > 0
    assert seen[1] == seen[0]
