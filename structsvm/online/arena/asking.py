"""Choose the next pairs of models to compare, the model to show first, and a question that is new to the pair."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from structsvm.common.checks import BadInput, check_whole
from structsvm.common.tables.ids import id_texts
from structsvm.online.arena.verdict import bandit_of
from structsvm.online.arena.votes import Votes


def add_models(votes: Votes, models: Sequence[str]) -> Votes:
    """Return the votes with additional models, which have no votes yet.

    Examples
    --------
    >>> votes = Votes(["a", "b"], np.array([0]), np.array([1]), np.array([1.0]))
    >>> add_models(votes, ["b", "c"]).models
    ['a', 'b', 'c']
    """
    return replace(votes, models=list(dict.fromkeys([*votes.models, *id_texts("models", models)])))


def next_pairs(
    votes: Votes,
    n: int = 20,
    *,
    questions: Sequence[str] | None = None,
    random_state: int | np.random.Generator | None = 0,
    **options: Any,
) -> list[tuple[str, str, str | None]]:
    """Return the pairs of models to compare next; the first model of each pair is to be shown first.

    Parameters
    ----------
    votes : Votes
        All votes so far. Before the first vote, name the models with :func:`add_models`.
    n : int, default=20
        Number of pairs to return. A decision takes twice as many votes with batches of 100 pairs as with single pairs.
    questions : sequence of str, optional
        Questions to sample from. A pair is asked the same question again only after it has been asked all of them; a
        warning is then issued. By default, the third entry of each tuple is None.
    random_state : int, Generator or None, default=0
        Seed of the order within pairs and of the questions; an integer is combined with the number of votes.
    **options
        ``alpha``, ``epsilon``, ``top``, ``order``, ``cluster`` and ``repeats`` as in :func:`arena`.

    Returns
    -------
    list of (str, str, str or None)

    Raises
    ------
    BadInput
        If there are fewer than two models, or if no further votes are needed.

    Examples
    --------
    >>> votes = add_models(Votes([], *np.zeros((2, 0), dtype=int), np.zeros(0)), ["short", "long"])
    >>> sorted(next_pairs(votes, 1, questions=["q1"])[0])
    ['long', 'q1', 'short']
    """
    if len(votes.models) < 2:
        raise BadInput(
            "votes", f"expected two models or more, got {len(votes.models)}", "name them with {models}"
        )
    # The seed includes the number of votes; otherwise a pair that is selected repeatedly would always be shown in the
    # same order.
    seed = [int(random_state), len(votes)] if isinstance(random_state, int | np.integer) else random_state
    rng = np.random.default_rng(seed)
    bandit = bandit_of(votes, **options)
    if bandit.finished:
        raise BadInput("votes", "no further votes are needed", "see the report")
    # the bandit returns the arms of a pair in random order, in which they are to be shown
    pairs = [duel.arms for duel in bandit.select_batch(check_whole("n", n), rng)]
    if questions is None:
        return [(votes.models[i], votes.models[j], None) for i, j in pairs]
    known = list(dict.fromkeys(id_texts("questions", questions)))
    if not known:
        raise BadInput("questions", "expected at least one question, got none")
    asked: dict[frozenset[int], set[str]] = {}
    if votes.question is not None:
        for i, j, code in zip(votes.first, votes.second, votes.question, strict=True):
            if code < len(votes.questions):  # other codes belong to votes without a question
                asked.setdefault(frozenset((i, j)), set()).add(votes.questions[code])
    out: list[tuple[str, str, str | None]] = []
    for i, j in pairs:
        had = asked.setdefault(frozenset((i, j)), set())
        fresh = [question for question in known if question not in had]
        if not fresh:
            warnings.warn(
                f"{votes.models[i]} and {votes.models[j]} were asked all {len(known)} questions: repeats do not "
                "count (unless cluster is 'none' or 'judge'), so give more questions",
                stacklevel=2,
            )
            had.clear()
            fresh = known
        chosen = fresh[int(rng.integers(len(fresh)))]
        had.add(chosen)
        out.append((votes.models[i], votes.models[j], chosen))
    return out
