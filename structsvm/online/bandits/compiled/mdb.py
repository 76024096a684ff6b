"""MDB, compiled: one threshold per arm decides its narrow and wide bounds; the time of a round depends only on the
number of pairs compared.

The threshold of an arm that is not compared does not change, so the time at which the arm joins the wide set is known
in advance. All arms are visited only at that time.
"""

from typing import Any

import numpy as np

from structsvm.common.kernel import kernel
from structsvm.common.portable.compiled import log
from structsvm.online.bandits.compiled.reductions import largest, least_other, steps_before
from structsvm.online.bandits.compiled.run import Run, record_leader, skip
from structsvm.online.interleaving.compiled.kernels import interleave, merge


def play(policy: Any, run: Run) -> None:
    """Play a run of ``policy``, an MDB in its initial state."""
    k = policy.n_arms
    _mdb(
        run,
        policy.alpha,
        policy.beta,
        np.zeros((k, k) if run.live else (0, 0), dtype=np.int64),
        *np.zeros((2, k, k)),
        *np.zeros((2, k)),
        np.zeros(k, dtype=np.bool_),
        np.arange(k),
    )


@kernel
def _all(wide):  # type: ignore[no-untyped-def]
    for i in range(len(wide)):
        wide[i] = i
    return len(wide)


# Without NaN and signed zeros the loops over arms become vector instructions; no value changes.
@kernel(fastmath={"nnan", "nsz"})
def _mdb(run, alpha, beta, merged, wins, threshold, needed, drawn, stale, wide):  # type: ignore[no-untyped-def]
    """Play a run; with threshold T, ``U_ij >= 1/2`` iff ``ln t >= T_ij``, ``V_ij >= 1/2`` iff ``beta ln t >= T_ij``."""
    # ``needed`` contains the maxima of the rows of ``threshold``: arm i is in E iff ``ln t >= needed[i]``, and in F iff
    # ``beta ln t >= needed[i]``. ``stale`` marks arms whose maximum may have decreased; ``wide[:n_wide]`` contains F.
    scores, gaps, rng, horizon = run.scores, run.gaps, run.rng, run.times[-1]
    n_wide = 0
    # Invariant: an arm outside F can join only if beta ln t >= joins. Until then, only members of F are checked.
    joins = 0.0
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
        # E is a subset of F, since beta >= 1
        narrow = 0
        for a in range(n_wide):
            narrow += 1 if needed[wide[a]] <= log_t else 0
        # in the first round, E and F contain all arms, as no threshold exceeds ln 1; a single arm in E is played alone
        if narrow == 1:
            arm = 0
            while needed[arm] > log_t:
                arm += 1
            # no threshold changes while the arm plays alone, so E does not change until ln t reaches the threshold of
            # another arm
            t = skip(run, arm, t, steps_before(least_other(needed, arm), t, horizon), wins)
            continue
        if narrow == 0:
            n_wide = _all(wide)
        # Draw the outcomes in the order of the world's ``compare``: from one merged list, one score per arm, or a coin
        # per pair. The outcome for two arms is a coin flip even in a world of scores.
        by_merging = run.live and n_wide > 2
        by_scores = len(scores) > 0 and n_wide > 2
        if by_scores:
            for a in range(n_wide):
                drawn[a] = scores[wide[a]] + rng.standard_normal()
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
                elif run.live:  # not ``duel``, whose version without a branch is 10 % slower here
                    won = interleave(run.comparisons, i, j, rng)
                else:
                    won = 1.0 if rng.random() < run.matrix[i, j] else 0.0
                wins[i, j] += won
                wins[j, i] += 1.0 - won
                run.duels[i, j] += 1
                # both thresholds of the pair, as in ``half_reached``; only that of the arm that is behind is positive
                total_plays = wins[i, j] + wins[j, i]
                short = 0.5 - wins[i, j] / total_plays
                distance = total_plays * short * short / alpha
                for low, high, new in (
                    (i, j, distance if short > 0 else 0.0),
                    (j, i, distance if short < 0 else 0.0),
                ):
                    # compute the maximum of the row again only if the entry that was the maximum decreased
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
        record_leader(run, wins, t)
