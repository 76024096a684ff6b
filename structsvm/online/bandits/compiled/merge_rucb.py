"""mergeRUCB, compiled: each step visits a single small batch of arms."""

import math
from typing import Any

import numpy as np

from structsvm.common.kernel import kernel
from structsvm.common.portable.compiled import log
from structsvm.online.bandits.compiled.reductions import half_reached, largest, one_of_largest
from structsvm.online.bandits.compiled.run import Run, compare, exploit, is_due, record
from structsvm.online.bandits.merge_rucb import initial_batches, merge_batches


def play(policy: Any, run: Run) -> None:
    """Play a run of ``policy``, a MergeRUCB in its initial state.

    The kernel returns at the end of each stage. Merging is rare, so it is done by the Python function of the policy.
    """
    k = policy.n_arms
    # unless the arms are taken in order, the policy first draws the order
    batches = initial_batches(range(k) if policy.ordered else run.rng.permutation(k).tolist(), policy.size)
    wins, threshold = np.zeros((2, k, k))
    state = np.array([0, 1], dtype=np.int64)  # number of comparisons, stage
    again = True
    while again:
        sizes = np.array([len(batch) for batch in batches], dtype=np.int64)
        members = np.full((len(batches), sizes.max()), -1, dtype=np.int64)
        for b, batch in enumerate(batches):
            members[b, : len(batch)] = batch
        again = _stage(
            run,
            policy.alpha,
            policy.offset,
            wins,
            threshold,
            members,
            sizes,
            state,
            np.zeros(members.shape[1]),
            np.zeros(k, dtype=np.int64),
        )
        batches = [members[b, : sizes[b]].tolist() for b in range(len(batches))]
        if again and len(batches) > 1:
            batches = merge_batches(batches, policy.size)


@kernel
def _best(wins, members, sizes, arms, share, ties):  # type: ignore[no-untyped-def]
    """Return the remaining arm with the largest share of wins; ``arms`` and ``share`` are scratch arrays."""
    n = 0
    for b in range(len(sizes)):
        for a in range(sizes[b]):
            arms[n] = arm = members[b, a]
            won, lost = wins[arm].sum(), wins[:, arm].sum()
            share[n] = won / (won + lost) if won + lost > 0 else 0.5
            n += 1
    return arms[one_of_largest(share[:n], largest(share[:n]), ties)]


@kernel
def _stage(run, alpha, offset, wins, threshold, members, sizes, state, bounds, arms):  # type: ignore[no-untyped-def]
    """Play until batches have to be merged (return True) or the horizon is reached (return False)."""
    # ``members[b, :sizes[b]]`` is batch b. ``U_ij >= 1/2`` iff ``ln(t + C) >= threshold[i, j]``.
    rng, n_batches = run.rng, len(sizes)
    # stage S ends when at most K / 2^S arms remain (line 12)
    limit = len(wins) / math.ldexp(1.0, state[1])
    remaining = 0
    for size in sizes:
        remaining += size
    while True:
        t = state[0] + 1
        log_t = log(t + offset)
        # batch t mod B, or the next batch with more than one arm, since a single arm has no opponent (line 10)
        current = -1
        for turn in range(n_batches):
            b = (t + turn) % n_batches
            if sizes[b] > 1:
                current = b
                break
        if current < 0 and remaining > 1:
            return True
        if remaining > 1:
            # line 8: remove the arms with a bound below 1/2 against an arm that is still in the batch
            a = 0
            while a < sizes[current]:
                arm = members[current, a]
                loses = False
                for o in range(sizes[current]):
                    if threshold[arm, members[current, o]] > log_t:
                        loses = True
                if loses:
                    for o in range(a, sizes[current] - 1):
                        members[current, o] = members[current, o + 1]
                    sizes[current] -= 1
                    remaining -= 1
                else:
                    a += 1
            # no comparison is possible: end the stage, or use the next batch at the same t
            if sizes[current] == 1 and remaining > 1:
                if n_batches > 1 and remaining <= limit:
                    state[1] += 1
                    return True
                continue
        if remaining == 1:
            exploit(run, members[sizes.argmax(), 0], t - 1)
            return False
        # The policy removes arms at the end of ``update``, before its next duel, so record step t - 1 after the
        # removal.
        if is_due(run, t - 1):
            record(run, _best(wins, members, sizes, arms, run.ahead, run.ties), t - 1)
            if t > run.times[-1]:
                return False
        # lines 9 and 10: a random champion against the arm with the largest bound against it
        size = sizes[current]
        champion = members[current, int(rng.random() * size)]
        challenger = -1
        highest = -1.0
        n_highest = 0
        for a in range(size):
            j = members[current, a]
            bounds[a] = -1.0
            if j == champion:
                continue
            plays = wins[j, champion] + wins[champion, j]
            bounds[a] = wins[j, champion] / plays + np.sqrt(alpha * log_t / plays) if plays > 0 else np.inf
            if bounds[a] > highest:
                highest = bounds[a]
                challenger = j
                n_highest = 1
            elif bounds[a] == highest:
                n_highest += 1
        if n_highest > 1:
            challenger = members[current, one_of_largest(bounds[:size], highest, rng)]
        plays = compare(run, wins, champion, challenger)
        threshold[champion, challenger] = half_reached(plays, wins[champion, challenger], alpha)
        threshold[challenger, champion] = half_reached(plays, wins[challenger, champion], alpha)
        state[0] = t
        if n_batches > 1 and remaining <= limit:
            state[1] += 1
            return True
