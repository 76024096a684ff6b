"""Probabilistic interleaving of two rankings with exact credit, compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from structsvm.common.kernel import kernel
from structsvm.online.interleaving.compiled.random_numbers import below, happens, uniform
from structsvm.online.interleaving.compiled.ranked_queries import RankedQueries
from structsvm.online.users.click_tables import ClickTables


@kernel
def probabilistic(
    ranked: RankedQueries,
    tables: ClickTables,
    decay: NDArray[np.float64],
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    counts: NDArray[np.int64],
    seeds: NDArray[np.uint64],
    wins: NDArray[np.int64],
    losses: NDArray[np.int64],
    outcome: NDArray[np.float64],
) -> None:
    rankings, places, grades, offsets = ranked
    click, stop_after_click, stop_after_skip = tables
    n_queries, length = offsets.shape[0] - 1, click.shape[1]
    total = np.cumsum(decay)
    # number of the comparison that last showed each document
    last_shown = np.zeros(decay.shape[0], dtype=np.int64)
    # chance[c]: probability that c of the clicked documents so far came from ranker a
    chance = np.zeros(length + 1)
    number = 0
    for task in range(first.shape[0]):
        state = seeds[task]
        a, b = first[task], second[task]
        for _ in range(counts[task]):
            number += 1
            state, q = below(state, n_queries)
            start, end = offsets[q], offsets[q + 1]
            mass_a = mass_b = total[end - start - 1]
            skip_a, skip_b = start, start  # all rows before these have been shown
            n_clicks = 0
            chance[0] = 1.0
            for k in range(min(length, end - start)):
                # one number gives coin and document: the half it lies in is the coin, its place there is uniform
                state, u = uniform(state)
                u *= 2.0
                if u < 1.0:
                    ranker, skip, goal = a, skip_a, u * mass_a
                else:
                    ranker, skip, goal = b, skip_b, (u - 1.0) * mass_b
                row = skip
                while last_shown[rankings[ranker, row]] == number:
                    row += 1
                if ranker == a:
                    skip_a = row
                if ranker == b:
                    skip_b = row
                document = rankings[ranker, row]
                goal -= decay[row - start]
                while goal >= 0.0:
                    row += 1
                    if row == end:
                        break  # rounding may pass the last document not yet shown
                    if last_shown[rankings[ranker, row]] != number:
                        document = rankings[ranker, row]
                        goal -= decay[row - start]
                last_shown[document] = number
                weight_a, weight_b = decay[places[a, start + document]], decay[places[b, start + document]]
                grade = grades[start + document]
                state, clicked = happens(state, click[grade, k])
                if clicked:
                    p = weight_a * mass_b / (weight_a * mass_b + weight_b * mass_a)
                    chance[n_clicks + 1] = chance[n_clicks] * p
                    for c in range(n_clicks, 0, -1):
                        chance[c] = chance[c] * (1.0 - p) + chance[c - 1] * p
                    chance[0] *= 1.0 - p
                    n_clicks += 1
                state, stops = happens(
                    state, stop_after_click[grade, k] if clicked else stop_after_skip[grade, k]
                )
                if stops:
                    break
                mass_a -= weight_a
                mass_b -= weight_b
            if n_clicks > 0:
                value = 0.0
                for c in range(n_clicks + 1):
                    if 2 * c > n_clicks:
                        value += chance[c]
                    elif 2 * c < n_clicks:
                        value -= chance[c]
                outcome[task] += value
                # drawn with the outcome's probability: the mean of its sign need not be zero where its own is
                state, u = uniform(state)
                if u < value:
                    wins[task] += 1
                elif u < -value:
                    losses[task] += 1
