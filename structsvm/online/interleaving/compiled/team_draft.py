"""Team draft of two rankings, compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from structsvm.common.kernel import kernel
from structsvm.online.interleaving.compiled.random_numbers import below, happens, next_bits
from structsvm.online.interleaving.compiled.ranked_queries import RankedQueries
from structsvm.online.users.click_tables import ClickTables


@kernel
def team_draft(
    ranked: RankedQueries,
    tables: ClickTables,
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    counts: NDArray[np.int64],
    seeds: NDArray[np.uint64],
    wins: NDArray[np.int64],
    losses: NDArray[np.int64],
) -> None:
    rankings, _, grades, offsets = ranked
    click, stop_after_click, stop_after_skip = tables
    n_queries, length = offsets.shape[0] - 1, click.shape[1]
    longest = 0
    for q in range(n_queries):
        longest = max(longest, offsets[q + 1] - offsets[q])
    last_shown = np.zeros(longest, dtype=np.int64)  # number of the comparison that last showed each document
    number = 0
    for task in range(first.shape[0]):
        state = seeds[task]
        a, b = first[task], second[task]
        for _ in range(counts[task]):
            number += 1
            state, q = below(state, n_queries)
            start = offsets[q]
            pointer_a, pointer_b, difference = start, start, 0
            coins = np.uint64(0)
            turn_a = False
            for k in range(min(length, offsets[q + 1] - start)):
                if k % 128 == 0:
                    state, coins = next_bits(state)
                if k % 2 == 0:
                    turn_a = coins & np.uint64(1) == np.uint64(1)
                    coins >>= np.uint64(1)
                else:
                    turn_a = not turn_a
                if turn_a:
                    while last_shown[rankings[a, pointer_a]] == number:
                        pointer_a += 1
                    document = rankings[a, pointer_a]
                else:
                    while last_shown[rankings[b, pointer_b]] == number:
                        pointer_b += 1
                    document = rankings[b, pointer_b]
                last_shown[document] = number
                grade = grades[start + document]
                state, clicked = happens(state, click[grade, k])
                if clicked:
                    difference += 1 if turn_a else -1
                state, stops = happens(
                    state, stop_after_click[grade, k] if clicked else stop_after_skip[grade, k]
                )
                if stops:
                    break
            if difference > 0:
                wins[task] += 1
            elif difference < 0:
                losses[task] += 1
