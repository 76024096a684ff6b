"""Random choices as an argument, so that the same code can sample one list or enumerate all lists."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.online.interleaving.record import Shown, check_rankings, signs

Choose = Callable[[Sequence[float]], int]
"""Function that takes the probabilities of the options and returns the index of the chosen option."""


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
    # Depth-first search: the next call of ``run`` repeats the choices in ``path``, and takes the first possible option
    # at each later choice. Afterwards the last choice in ``path`` that has another option is advanced.
    probabilities: dict[Shown, float] = {}
    path: list[int] = []
    while True:
        options: list[Sequence[float]] = []
        probability = 1.0

        def choose(probabilities: Sequence[float], options: list[Sequence[float]] = options) -> int:
            nonlocal probability
            if len(options) == len(path):
                path.append(next(i for i, p in enumerate(probabilities) if p > 0))
            index = path[len(options)]
            options.append(probabilities)
            probability *= probabilities[index]
            return index

        shown = run(choose)
        probabilities[shown] = probabilities.get(shown, 0.0) + probability
        # backtrack to the last choice with another possible option
        while path:
            last = options[len(path) - 1]
            following = next((i for i in range(path[-1] + 1, len(last)) if last[i] > 0), None)
            if following is not None:
                path[-1] = following
                break
            path.pop()
        if not path:
            return list(probabilities.items())


class ListsByChoices:
    """Mixin for interleavers whose method ``_merge`` builds a list by random choices."""

    rankings: ClassVar[str]

    def credit(self, shown: Shown, clicks: ArrayLike) -> NDArray[np.float64]:
        raise NotImplementedError

    def _merge(self, rankings: list[tuple[Hashable, ...]], length: int, choose: Choose) -> Shown:
        raise NotImplementedError

    def show(self, rankings: Sequence[Sequence[Hashable]], length: int = 10, rng: Any = None) -> Shown:
        """Merge rankings of any hashable ids, best first, into a list of at most ``length`` documents.

        The list is shorter if the rankings contain fewer distinct documents; ``rng`` is a generator, a seed or None.
        """
        checked = check_rankings(rankings, length, pair=self.rankings == "2")
        return self._merge(checked, length, random_choices(rng))

    def distribution(
        self, rankings: Sequence[Sequence[Hashable]], length: int = 10
    ) -> list[tuple[Shown, float]]:
        """Return each list that ``show`` can return, with its exact probability."""
        checked = check_rankings(rankings, length, pair=self.rankings == "2")
        return enumerate_choices(lambda choose: self._merge(checked, length, choose))

    def outcome(self, shown: Shown, clicks: ArrayLike) -> NDArray[np.float64]:
        """Return the sign of the difference in credit of each pair of rankers, (n_rankers, n_rankers)."""
        return signs(self.credit(shown, clicks))
