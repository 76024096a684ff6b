"""Merge rankings by random choices, which are an argument, so that the same code samples one list or enumerates all."""

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from structsvm.common.checks import BadInput, check_whole
from structsvm.online.impressions.shown import Row, Shown, check_distinct
from structsvm.online.interleaving.crediting import ClickedLists, Credits, one_list, pairs_of
from structsvm.protocols import Float

Choose = Callable[[Sequence[float]], int]
"""Function that takes the probabilities of the options and returns the index of the chosen option."""


_MOST_CHOICES = 5_000
"""Number of choices after which ``merge`` is stopped: it may draw a ranker without documents again and again."""


def random_choices(rng: Any) -> Choose:
    """Return a function that chooses at random with ``rng`` (a generator, a seed or None)."""
    generator = np.random.default_rng(rng)

    def choose(probabilities: Sequence[float]) -> int:
        cumulative = np.cumsum(probabilities)
        # scale by the sum, which rounding may have moved away from 1
        drawn = int(np.searchsorted(cumulative, generator.random() * cumulative[-1], side="right"))
        return min(drawn, len(probabilities) - 1)

    return choose


def enumerate_choices(run: Callable[[Choose], Shown]) -> list[tuple[Shown, float]]:
    """Return each record that ``run`` can return, with its exact probability.

    ``run`` is called once for each path of choices.
    """
    # Depth-first search: ``run`` repeats the choices of a path, and takes the first possible option at each later
    # choice; the other options there are paths that are still to be followed.
    records: dict[Shown, float] = {}
    waiting: list[tuple[int, ...]] = [()]
    while waiting:
        path = list(waiting.pop())
        taken: list[float] = []

        def choose(probabilities: Sequence[float], path: list[int] = path, taken: list[float] = taken) -> int:
            if len(taken) == _MOST_CHOICES:
                raise RuntimeError(f"merge made {len(taken)} choices; never draw a ranker without documents")
            if len(taken) == len(path):
                first, *others = (option for option, p in enumerate(probabilities) if p > 0)
                waiting.extend((*path, other) for other in reversed(others))
                path.append(first)
            option = path[len(taken)]
            taken.append(probabilities[option])
            return option

        shown = run(choose)
        records[shown] = records.get(shown, 0.0) + math.prod(taken)
    return list(records.items())


class Merging:
    """Mixin for interleavers: builds lists with ``merge``, and credits a single list with ``credit_many``.

    The class attributes are the defaults of all methods. ``draws_outcome``: outcomes are fractions with mean zero for
    indifferent users, but not symmetric, so that the outcome is tested and not the difference in credit.
    ``is_by_team``: the evidence is one row with the team of each document. ``estimand``: name of the statistic whose
    mean is tested, for reports. ``bias``: why a small difference may not mean a better ranker; empty if it always does.
    """

    name: ClassVar[str]
    rankings: ClassVar[str]
    draws_outcome: ClassVar[bool] = False
    is_by_team: ClassVar[bool] = False
    estimand: ClassVar[str] = "difference in credit"
    bias: ClassVar[str] = ""

    def merge(self, rankings: list[tuple[Hashable, ...]], length: int, choose: Choose) -> Shown:
        """Return the list for checked rankings; ``choose`` makes the random choices."""
        raise NotImplementedError

    def credit_many(self, lists: ClickedLists) -> Credits:
        """Return the credits of many lists; raise BadInput if some evidence is not of this method."""
        raise NotImplementedError

    def check_logged(self, shown: Shown) -> None:
        """Raise BadInput for a record in a log that ``merge`` cannot have written, although it can be credited."""

    def bound(self, length: int, n_rankers: int) -> float:
        """Return the largest absolute statistic of a list of at most ``length`` documents, whatever is clicked."""
        return 1.0

    def show(self, rankings: Sequence[Sequence[Hashable]], length: int = 10, rng: object = None) -> Shown:
        """Merge rankings of any hashable ids, best first, into a list of at most ``length`` documents.

        The list is shorter if the rankings contain fewer distinct documents; ``rng`` is a generator, a seed or None.
        """
        checked = check_rankings(rankings, length, pair=self.rankings == "2")
        return self.merge(checked, length, random_choices(rng))

    def distribution(
        self, rankings: Sequence[Sequence[Hashable]], length: int = 10
    ) -> list[tuple[Shown, float]]:
        """Return each list that ``show`` can return, with its exact probability."""
        checked = check_rankings(rankings, length, pair=self.rankings == "2")
        return enumerate_choices(lambda choose: self.merge(checked, length, choose))

    def credit(self, shown: Shown, clicks: ArrayLike) -> Float:
        """Return the credit of each ranker, (n_rankers,); raise BadInput for an invalid record or clicks."""
        return np.asarray(self.credit_many(one_list(self, shown, clicks)).credit[0])

    def outcome(self, shown: Shown, clicks: ArrayLike) -> Float:
        """Return the outcome of each pair of rankers, from -1 to 1, (n_rankers, n_rankers)."""
        matrix = np.zeros((shown.n_rankers, shown.n_rankers))
        i, j = pairs_of(shown.n_rankers)
        matrix[i, j] = self.credit_many(one_list(self, shown, clicks)).outcome[0]
        return matrix - matrix.T


def check_rankings(
    rankings: Sequence[Sequence[Hashable]], length: int, *, pair: bool = False
) -> list[tuple[Hashable, ...]]:
    """Return the rankings as tuples of plain ids; raise BadInput, with the ranking and document, if one is invalid."""
    check_whole("length", length)
    if isinstance(rankings, (str, bytes)):
        raise BadInput("rankings", f"expected a sequence of rankings, got {rankings!r:.80}")
    checked = []
    for i, ranking in enumerate(rankings):
        if isinstance(ranking, (str, bytes)):
            raise BadInput(
                "rankings", f"expected a sequence of document ids, got {ranking!r:.80}", at=f"[{i}]"
            )
        # NumPy scalars have the same hash as Python scalars, but json cannot write them
        ids = tuple(document.item() if isinstance(document, np.generic) else document for document in ranking)
        if not ids:
            raise BadInput("rankings", "expected at least one document, got an empty ranking", at=f"[{i}]")
        check_distinct(f"rankings[{i}]", ids)
        checked.append(ids)
    if pair and len(checked) != 2:
        raise BadInput(
            "rankings",
            f"this method compares exactly 2 rankings, got {len(checked)}",
            "use a method for more, such as TeamDraft",
        )
    if len(checked) < 2:
        raise BadInput("rankings", f"expected at least 2 rankings to compare, got {len(checked)}")
    return checked


def ranks_of(ranking: Sequence[Hashable]) -> dict[Hashable, int]:
    """Return the rank of each document, from 1."""
    return {document: k for k, document in enumerate(ranking, start=1)}


def as_rows(values: Float) -> tuple[Row, ...]:
    """Return a matrix as nested tuples, for a record."""
    return tuple(tuple(row) for row in values.tolist())
