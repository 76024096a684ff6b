"""MDB, compiled: narrow and wide bounds share one threshold per arm, and the cost of a round is that of its pairs.

An arm that takes part in no duel keeps its threshold, so it joins the wide set at a time known beforehand: only then
are all arms gone through.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.np.random.distributions import random_standard_normal
from numba.np.random.generator_core import next_double

from structsvm.common.kernel import kernel
from structsvm.common.portable.compiled import log
from structsvm.online.bandits.compiled.reductions import copeland_leader, largest, least_other, steps_before
from structsvm.online.bandits.compiled.run import Run, is_due, record, skip
from structsvm.online.interleaving.compiled.kernels import interleave, merge


def play(policy: Any, run: Run) -> None:
    """Play a run of ``policy``, an unused MDB."""
    k = policy.n_arms
    merged = np.zeros((k, k) if run.live else (0, 0), dtype=np.int64)
    arrays = merged, *np.zeros((2, k, k)), *np.zeros((2, k)), np.zeros(k, dtype=np.bool_), np.arange(k)
    _mdb(run, policy.alpha, policy.beta, *arrays)


@kernel
def _all(wide):
    for i in range(len(wide)):
        wide[i] = i
    return len(wide)


# without NaN and signed zeros the loops over arms become vector instructions; no value changes
@kernel(fastmath={"nnan", "nsz"})
def _mdb(run, alpha, beta, merged, wins, threshold, needed, drawn, stale, wide):
    """U_ij >= 1/2 iff ln t >= threshold[i, j], V_ij >= 1/2 iff beta ln t >= threshold[i, j].
    ``needed`` are the maxima of rows, and ``stale`` tells whether one may have fallen.
    """
    scores, gaps, rng, horizon = run.scores, run.gaps, run.rng, run.times[-1]
    k = len(gaps)
    n_wide = 0
    joins = 0.0  # the least threshold of the arms outside the wide set
    t = 0
    while t < horizon:
        t += 1
        log_t = log(t)
        limit = beta * log_t
        if joins <= limit:
            joins = np.inf
            n_wide = _all(wide)
        n = 0
        for a in range(n_wide):
            i = wide[a]
            if needed[i] <= limit:
                wide[n] = i
                n += 1
            else:
                joins = min(joins, needed[i])
        n_wide = n
        narrow = 0
        for a in range(n_wide):
            narrow += 1 if needed[wide[a]] <= log_t else 0
        if t == 1:
            narrow = 0
        if narrow == 1 or k == 1:
            arm = 0
            while needed[arm] > log_t:
                arm += 1
            steps = steps_before(least_other(needed, arm), t, horizon)
            t = skip(run, arm, t, steps, wins)
            continue
        if narrow == 0:
            n_wide = _all(wide)
        by_merging = run.live and n_wide > 2
        by_scores = len(scores) > 0 and n_wide > 2
        if by_scores:
            for a in range(n_wide):
                drawn[a] = scores[wide[a]] + random_standard_normal(rng)
        if by_merging:
            merge(run.comparisons, wide[:n_wide], rng, merged)
        cost = 0.0
        least = np.inf
        for a in range(n_wide):
            i = wide[a]
            cost += gaps[i]
            least = min(least, gaps[i])
            for b in range(a + 1, n_wide):
                j = wide[b]
                if by_merging:
                    won = (1 + merged[a, b]) / 2
                elif by_scores:
                    won = 1.0 if drawn[a] > drawn[b] else 0.0
                elif run.live:  # not by ``duel``: its outcome without a branch costs a tenth more here
                    won = interleave(run.comparisons, i, j, rng)
                else:
                    won = 1.0 if next_double(rng) < run.matrix[i, j] else 0.0
                wins[i, j] += won
                wins[j, i] += 1.0 - won
                run.duels[i, j] += 1
                total_plays = wins[i, j] + wins[j, i]
                short = 0.5 - wins[i, j] / total_plays
                distance = total_plays * short * short / alpha
                for low, high, new in (
                    (i, j, distance if short > 0 else 0.0),
                    (j, i, distance if short < 0 else 0.0),
                ):
                    if new < threshold[low, high] and threshold[low, high] == needed[low]:
                        stale[low] = True
                    threshold[low, high] = new
                    needed[low] = max(needed[low], new)
        for a in range(n_wide):
            i = wide[a]
            if stale[i]:
                stale[i] = False
                needed[i] = largest(threshold[i])
        run.total[0] += least if run.weak else cost / n_wide
        if is_due(run, t):
            record(run, copeland_leader(wins, run.ahead, run.ties), t)
