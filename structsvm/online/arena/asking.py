"""What to ask next: pairs of models, in a drawn order, with questions that they have not had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from structsvm.common.checks import BadInput, check_whole
from structsvm.online.arena.verdict import bandit_of
from structsvm.online.arena.votes import Votes


def add_models(votes: Votes, models: Sequence[str]) -> Votes:
    """Return the votes with models that have none yet.

    Examples
    --------
    >>> votes = Votes(["a", "b"], np.array([0]), np.array([1]), np.array([1.0]))
    >>> add_models(votes, ["b", "c"]).models
    ['a', 'b', 'c']
    """
    return Votes(
        list(dict.fromkeys([*votes.models, *models])), votes.first, votes.second, votes.share, votes.question,
        votes.judge, votes.questions,
    )  # fmt: skip


def next_pairs(
    votes: Votes,
    n: int = 20,
    *,
    questions: Sequence[str] | None = None,
    random_state: int | np.random.Generator | None = 0,
    **options: Any,
) -> list[tuple[str, str, str | None]]:
    """Return the pairs of models to ask next, the one to be shown first in front.

    Parameters
    ----------
    votes : Votes
        All votes so far, perhaps none (:func:`add_models` names the models then).
    n : int, default=20
        Number of pairs. Batches of 100 take twice the votes of single ones.
    questions : sequence of str, optional
        Draw a question for each pair, one that it has not had while there is one.
    random_state : int, Generator or None, default=0
    **options
        ``alpha``, ``epsilon``, ``top``, ``order`` and ``cluster`` as in :func:`arena`.

    Returns
    -------
    list of (str, str, str or None)

    Raises
    ------
    BadInput
        For fewer than two models, and where the verdict needs no further votes.

    Examples
    --------
    >>> votes = add_models(Votes([], *np.zeros((2, 0), dtype=int), np.zeros(0)), ["short", "long"])
    >>> sorted(next_pairs(votes, 1, questions=["q1"])[0])
    ['long', 'q1', 'short']
    """
    if len(votes.models) < 2:
        raise BadInput(
            "votes", f"expected at least two models, got {len(votes.models)}", "name them by {models}"
        )
    # by the number of votes, too: with the same draws in each batch one order of showing would be favoured for ever
    seed = [random_state, len(votes)] if isinstance(random_state, int) else random_state
    rng = np.random.default_rng(seed)
    bandit = bandit_of(votes, **options)
    if bandit.finished:
        raise BadInput("votes", "expected votes that leave the best model open, got enough", "see the report")
    pairs = [duel.arms for duel in bandit.select_batch(check_whole("n", n), rng)]
    if questions is None:
        return [(votes.models[i], votes.models[j], None) for i, j in pairs]
    number = {question: k for k, question in enumerate(questions)}
    if not number:
        raise BadInput("questions", "expected at least one question, got none")
    asked: dict[tuple[int, int], set[int]] = {}
    if votes.question is not None:
        for i, j, code in zip(votes.first, votes.second, votes.question, strict=True):
            if code < len(votes.questions) and votes.questions[code] in number:
                asked.setdefault((min(i, j), max(i, j)), set()).add(number[votes.questions[code]])
    known = list(number)
    out: list[tuple[str, str, str | None]] = []
    for i, j in pairs:
        had = asked.setdefault((min(i, j), max(i, j)), set())
        if len(had) == len(known):
            had.clear()  # all questions were asked: begin again
        fresh = [k for k in range(len(known)) if k not in had]
        had.add(chosen := int(rng.choice(fresh)))
        out.append((votes.models[i], votes.models[j], known[chosen]))
    return out
