"""mergeRUCB: compare arms within small batches, and merge the batches when enough arms are eliminated."""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from structsvm.common.checks import check_choice, check_number, check_positive, check_whole
from structsvm.common.portable.elementary import log, power
from structsvm.online.bandits.policy import CountsWins, check_order, pick, tied
from structsvm.protocols import Duel


def initial_batches(order: Sequence[int], size: int) -> list[list[int]]:
    """Split the arms, in the given order, into batches of ``size`` arms, the last of which may have fewer (Algorithm 1,
    line 2)."""
    return [list(order[start : start + size]) for start in range(0, len(order), size)]


def merge_batches(batches: list[list[int]], size: int) -> list[list[int]]:
    """Merge the smallest batch with the largest, and so on; then move arms so that sizes are ``size/2 .. 3 size/2``."""
    # Algorithm 1, line 13; sizes that differ by at most 1 are final, even if they are outside this range
    order = sorted(batches, key=len)  # the sort is stable, so batches of equal size keep their order
    half = len(order) // 2
    merged = [order[k] + order[-1 - k] for k in range(half)]
    if len(order) % 2:
        merged.append(list(order[half]))
    # each step moves one arm from the largest batch to the smallest, so the loop ends
    while True:
        sizes = [len(batch) for batch in merged]
        small, large = sizes.index(min(sizes)), sizes.index(max(sizes))
        if (2 * min(sizes) >= size and 2 * max(sizes) <= 3 * size) or max(sizes) - min(sizes) < 2:
            return merged
        merged[small].append(merged[large].pop())


class MergeRUCB(CountsWins):
    """mergeRUCB of Zoghi et al. (WSDM 2015, Algorithm 1), for many arms.

    It assumes a Condorcet winner and needs no horizon.

    Parameters
    ----------
    n_arms : int
        Number of arms.
    alpha : float, default=1.01
        Width of the bounds ``mu + sqrt(alpha ln(t + C(delta)) / N)``; it must be more than 1/2.
    delta : float, default=0.01
        Probability of failure.
    size : int, default=4
        ``p``, the number of arms of an initial batch; at least 4, as Algorithm 1 requires.
    partition : {"shuffled", "in order"}, default="shuffled"
        How to form the initial batches. "in order" follows line 2 of Algorithm 1: batches of ``p`` arms in order of
        index, with the remainder in the last. "shuffled" uses a random order, as the authors' code in Lerot does; the
        order is drawn with the first duel and stored in its note.

    Notes
    -----
    Arms with adjacent indices may be similar, such as features of one type in LETOR data. With "in order" they share a
    batch, in which arms are then eliminated late. The mean regret of 40 runs after 10^6 comparisons, in order and
    shuffled, was 93,400 and 59,500 on MSLR (perfect user), 54,800 and 39,200 on MSLR (informational user), 39,700 and
    36,900 on P64, 19,900 and 15,900 on P31, and 9,080 and 9,350 on caseA of Yan et al. (2022); it was equal within the
    standard error on BvsC20 and Swirl20.

    ``C(delta) = ((4 alpha - 1) K^2 / ((2 alpha - 1) delta))^(1/(2 alpha - 1))``. A batch of one arm, for which line 10
    has no second arm, is skipped, as in the authors' code. At most a third of the arms may be uninformative (assumption
    A2): with many equal arms, as in "1 good, many equal poor", batches of equal arms never shrink, no stage ends, and
    the regret is linear.

    Examples
    --------
    See :class:`structsvm.online.bandits.RUCB`, which is used in the same way.
    """

    label = "mergerucb"
    assumes = "Condorcet winner, few equal arms"
    compiled = "structsvm.online.bandits.compiled.merge_rucb"

    def __init__(
        self,
        n_arms: int,
        *,
        alpha: float = 1.01,
        delta: float = 0.01,
        size: int = 4,
        partition: Literal["in order", "shuffled"] = "shuffled",
    ) -> None:
        super().__init__(n_arms)
        check_number("alpha", alpha, 0.5, open_end=True, remedy="C(delta) is defined for more than 1/2")
        self.alpha = float(alpha)
        self.delta = check_positive("delta", delta)
        self.size = check_whole("size", size, 4)
        check_choice("partition", partition, ("in order", "shuffled"))
        self.partition: str = partition
        p = 2 * alpha - 1
        self.offset = float(power((4 * alpha - 1) * self.n_arms**2 / (p * delta), 1 / p))  # C(delta)
        self.stage = 1
        # before the first duel draws the order, only the sizes of the batches are final
        self.ordered = partition == "in order" or self.n_arms == 1
        self.batches = initial_batches(range(self.n_arms), self.size)
        self.current = 0  # index of the batch of the next duel
        self._advance()

    @property
    def remaining(self) -> list[int]:
        """Arms that have not been eliminated."""
        return [arm for batch in self.batches for arm in batch]

    @property
    def finished(self) -> bool:
        """Whether one arm is left."""
        return len(self.remaining) == 1

    def _bound(self, arm: int, other: int, log_t: float) -> float:
        plays = self.wins[arm, other] + self.wins[other, arm]
        return (
            math.inf if plays == 0 else self.wins[arm, other] / plays + math.sqrt(self.alpha * log_t / plays)
        )

    def select(self, rng: np.random.Generator) -> Duel:
        """Return a random arm of the current batch, and the arm of this batch with the largest bound against it.

        The note of the first duel is the random order of the arms, unless the partition is "in order".
        """
        batches, note = self.batches, None
        if not self.ordered:
            note = [int(arm) for arm in rng.permutation(self.n_arms)]
            batches = initial_batches(note, self.size)
        batch = batches[self.current]
        champion = pick(batch, rng)
        if len(batch) == 1:
            return Duel((champion, champion))
        log_t = log(self.t + 1 + self.offset)
        others = [arm for arm in batch if arm != champion]
        challenger = others[tied(np.array([self._bound(arm, champion, log_t) for arm in others]), rng)]
        return Duel((champion, challenger), note)

    def update(self, duel: Duel, outcome: object) -> None:
        """Count the win, eliminate arms of the next batch that are shown to lose, and merge batches at the end of a
        stage.

        Raise ValueError, without any change, unless the duel is a pair of arms, the outcome is in [0, 1], and the note
        of the first duel is a permutation of the arms.
        """
        # check the order before anything changes; the first outcome that arrives determines it
        order = None if self.ordered else check_order("duel: order in its note", duel.note, self.n_arms)
        super().update(duel, outcome)
        if order is not None:
            self.batches, self.ordered = initial_batches(order, self.size), True
        if not self.finished:
            self._merge()
            self._advance()

    def _merge(self) -> None:
        """End the stage and merge batches if at most ``n_arms / 2^stage`` arms remain (Algorithm 1, line 12)."""
        if len(self.remaining) <= self.n_arms / 2**self.stage:
            self.stage += 1
            if len(self.batches) > 1:
                self.batches = merge_batches(self.batches, self.size)

    def _advance(self) -> None:
        """Choose the next batch and eliminate its losing arms; done in advance, so that ``select`` changes no state."""
        log_t = log(self.t + 1 + self.offset)
        while not self.finished:
            n = len(self.batches)
            turns = [(self.t + 1 + k) % n for k in range(n)]
            # batch t mod B, or the next one with more than one arm
            playable = [k for k in turns if len(self.batches[k]) > 1]
            if not playable:
                self.batches = merge_batches(self.batches, self.size)
                continue
            self.current = playable[0]
            batch = self.batches[self.current]
            # line 8: an arm is eliminated by a bound below 1/2 against an arm that is still in the batch
            for arm in list(batch):
                if any(self._bound(arm, other, log_t) < 0.5 for other in batch if other != arm):
                    batch.remove(arm)
            if len(batch) > 1:
                return
            self._merge()
        self.current = next(k for k, batch in enumerate(self.batches) if batch)

    def best(self, rng: np.random.Generator | None = None) -> int:
        """Return the remaining arm with the largest share of wins; break ties by ``rng``, or take the lowest index."""
        alive = self.remaining
        won = self.wins[alive].sum(axis=1)
        plays = won + self.wins[:, alive].sum(axis=0)
        return alive[tied(np.where(plays > 0, won / np.maximum(plays, 1.0), 0.5), rng)]
