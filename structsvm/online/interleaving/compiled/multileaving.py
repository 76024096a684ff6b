"""Team draft of several rankings, credited by teams or by SOSM, compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from structsvm.common.kernel import kernel
from structsvm.online.interleaving.compiled.random_numbers import below, happens, uniform
from structsvm.online.interleaving.compiled.ranked_queries import RankedQueries
from structsvm.online.users.click_tables import ClickTables


@kernel
def multileave(
    ranked: RankedQueries,
    tables: ClickTables,
    rankers: NDArray[np.int64],
    n_samples: int,
    state: np.uint64,
    sosm: bool,
    outcome: NDArray[np.int64],
) -> None:
    rankings, places, grades, offsets = ranked
    click, stop_after_click, stop_after_skip = tables
    n, n_queries, length = rankers.shape[0], offsets.shape[0] - 1, click.shape[1]
    longest = 0
    for q in range(n_queries):
        longest = max(longest, offsets[q + 1] - offsets[q])
    # number of the comparison that last showed each document
    last_shown = np.zeros(longest, dtype=np.int64)
    pointer = np.zeros(n, dtype=np.int64)
    order = np.arange(n)
    documents = np.zeros(length, dtype=np.int64)
    clicked = np.zeros(length, dtype=np.int64)
    credit = np.zeros(n)
    for number in range(1, n_samples + 1):
        state, q = below(state, n_queries)
        start = offsets[q]
        n_shown = min(length, offsets[q + 1] - start)
        pointer[:] = start
        credit[:] = 0.0
        n_clicks = 0
        reading = True
        for k in range(n_shown):
            # random order of the rankers in a round: one step of a shuffle per place
            turn = k % n
            state, step = below(state, n - turn)
            other = turn + step
            i = order[other]
            order[other] = order[turn]
            order[turn] = i
            while last_shown[rankings[rankers[i], pointer[i]]] == number:
                pointer[i] += 1
            document = rankings[rankers[i], pointer[i]]
            last_shown[document] = number
            documents[k] = document
            if not reading:
                continue
            grade = grades[start + document]
            state, clicks = happens(state, click[grade, k])
            if clicks:
                clicked[n_clicks] = document
                n_clicks += 1
                if not sosm:
                    credit[i] += 1.0
            state, stops = happens(state, stop_after_click[grade, k] if clicks else stop_after_skip[grade, k])
            if stops:
                reading = False
            # for teams no document behind the last possible click matters
            if not reading and not sosm:
                break
        if n_clicks == 0 or (sosm and n_shown == 1):
            continue
        least, largest = 0.0, 1.0  # a team that is ahead wins
        if sosm:
            for i in range(n):
                for c in range(n_clicks):
                    own_rank = places[rankers[i], start + clicked[c]]
                    rank = 1
                    for k in range(n_shown):
                        rank += places[rankers[i], start + documents[k]] < own_rank
                    credit[i] += 1.0 / (rank * rank * rank)
            # draw wins with the probability of the outcome, as its sign need not be fair; one draw for all pairs
            largest = n_clicks * (1.0 - 1.0 / (n_shown * n_shown * n_shown))
            state, least = uniform(state)
        for i in range(n):
            for j in range(i):
                difference = (credit[i] - credit[j]) / largest
                if least < difference:
                    outcome[i, j] += 1
                    outcome[j, i] -= 1
                elif least < -difference:
                    outcome[i, j] -= 1
                    outcome[j, i] += 1
