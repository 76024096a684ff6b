"""Statistics of a growing log, with a state of bounded size.

:func:`~structsvm.online.statistics.analyse` depends on a log without clusters only through the counts of the values of
the statistic: a few dozen numbers for team draft. The state also keeps which claims "a beats b" were shown and when, so
that a decision is final: by Ville's inequality, the probability that any look gives a wrong decision is at most alpha.
Impressions must be added in the order in which they were shown, each with all its clicks.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import BadInput, check_choice, check_fraction, check_positive
from structsvm.common.portable.arrays import dot
from structsvm.common.portable.elementary import log
from structsvm.online.evidence.always_valid import log_capitals
from structsvm.online.evidence.bets import evidence_path, p_value_of_best, thresholds
from structsvm.online.impressions.shown import Shown
from structsvm.online.interleaving.by_name import NAMES, interleaver
from structsvm.online.interleaving.crediting import credit_lists, differences
from structsvm.online.statistics.analysis import Analysis, Settings, answered, compared, corrected
from structsvm.online.statistics.credited_log import CreditedLog
from structsvm.online.statistics.significance import drawn_signs, sign_generator
from structsvm.protocols import Float

VERSION = 1
_SETTINGS = ("method", "rankers", "length", "alpha", "random_state")
"""Arguments of the constructor, which are also attributes and keys of the saved state."""


@dataclass(eq=False)
class _Pair:
    """State of the statistics of two rankers."""

    names: tuple[str, str]
    cells: dict[float, int] = field(default_factory=dict)
    """Number of occurrences of each value of the statistic."""
    wins: int = 0
    losses: int = 0
    shown: list[tuple[int, float] | None] = field(default_factory=lambda: [None, None])
    """For each of the rankers, when it was shown to beat the other: the number of impressions, and the logarithm of the
    evidence."""
    rng: np.random.Generator | None = None
    """Generator that randomises wins and losses, for methods with fractional outcomes."""


class RunningStatistics:
    """Statistics of one experiment, to which complete impressions are added.

    ``length`` is the largest number of documents on a list. With the number of rankers it bounds the statistic of team
    draft. The always-valid decision, at level ``alpha``, requires this bound in advance.
    """

    def __init__(
        self, method: str, rankers: Sequence[str], *, length: int, alpha: float = 0.05, random_state: int = 0
    ) -> None:
        check_choice("method", method, NAMES)
        check_fraction("alpha", alpha)
        check_positive("length", length)
        if len(rankers) < 2 or len(set(rankers)) < len(rankers):
            raise BadInput("rankers", f"expected at least two distinct names, got {list(rankers)!r:.80}")
        self.method, self.rankers, self.length, self.alpha = method, tuple(rankers), length, alpha
        self._interleaver = interleaver(method)
        self.random_state = random_state
        self.n_impressions = self.n_clicked = 0
        self._largest = 1.0
        self._pairs = [
            _Pair(names, rng=sign_generator(random_state, k) if self._interleaver.draws_outcome else None)
            for k, names in enumerate(combinations(self.rankers, 2))
        ]
        self.decision: dict[str, Any] | None = None
        """The first always-valid decision, which is final: ``{"winner", "n", "p"}``, with ``n`` impressions."""

    @property
    def bound(self) -> float:
        """Bound of the statistic of an impression, known in advance."""
        return self._interleaver.bound(self.length, len(self.rankers))

    def add(
        self, records: Sequence[Shown], places: Sequence[Sequence[int]], names: Sequence[str] = ()
    ) -> None:
        """Add lists in the order shown.

        ``places`` are the indices of the clicked documents of each list, in ascending order, and ``names`` the names of
        the lists in errors, by default numbered from 0.
        """
        if not records:
            return
        names = names or [f"impression {k}" for k in range(len(records))]
        credit, outcome, largest = credit_lists(self._interleaver, records, places, names)
        # A credit above the bound would invalidate the always-valid results, so it is refused before anything is added.
        # ``k`` is the index of the first such credit, or 0.
        k = int(np.argmax(largest > self.bound))
        if largest[k] > self.bound:
            raise BadInput(
                names[k],
                f"expected credit of at most {self.bound:g} for a team, got {largest[k]:g}",
                "log what show() returns, unchanged",
            )
        values = outcome if self._interleaver.draws_outcome else differences(credit)
        for p, pair in enumerate(self._pairs):
            self._add_pair(pair, values[:, p], outcome[:, p])
        self._largest = max(self._largest, float(largest.max()))
        self.n_impressions += len(records)
        self.n_clicked += sum(map(bool, places))
        if self.decision is None:
            self._decide()

    def analysis(self, *, test: str = "t", power: float = 0.8, correction: str = "holm") -> Analysis:
        """Return the result of ``analyse`` for all impressions so far; raise BadInput if there are none."""
        settings = Settings(test, self.alpha, power, correction)
        if not self.n_impressions:
            raise BadInput("analysis", "expected one impression or more, got none")
        log = CreditedLog(
            method=self.method,
            rankers=self.rankers,
            n_impressions=self.n_impressions,
            n_clicked=self.n_clicked,
            n_missing_feedback=0,
            n_repeated=0,
            n_identical=0,
            pairs=(),
            bound=self._largest,
        )
        pairs = []
        for pair in self._pairs:
            outcomes = pair.wins, pair.losses, self.n_impressions - pair.wins - pair.losses
            pairs.append(
                compared(
                    pair.names,
                    *_table(pair.cells),
                    outcomes,
                    settings,
                    len(self._pairs),
                    bound=self._largest,
                    drawn=outcomes[:2] if pair.rng is not None else None,
                )
            )
        return answered(log, corrected(pairs, settings), settings)

    def to_json(self) -> str:
        """Return the state as JSON; numbers are written with full precision."""
        # the state of the generators is included, so that saving does not change later randomised wins and losses
        return json.dumps(
            {
                "version": VERSION,
                **{name: getattr(self, name) for name in _SETTINGS},
                "n": [self.n_impressions, self.n_clicked],
                "largest": self._largest,
                "decision": self.decision,
                "pairs": [
                    {
                        "cells": sorted(pair.cells.items()),
                        "wins": pair.wins,
                        "losses": pair.losses,
                        "shown": pair.shown,
                        "rng": None if pair.rng is None else pair.rng.bit_generator.state,
                    }
                    for pair in self._pairs
                ],
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Restore the statistics from the text that :meth:`to_json` returned; raise BadInput for any other text."""
        try:
            state: Mapping[str, Any] = json.loads(text)
            if state["version"] != VERSION:
                raise ValueError(f"expected version {VERSION}")
            # the constructor checks the settings; the counts are restored unchanged
            running = cls(**{name: state[name] for name in _SETTINGS})
            running.n_impressions, running.n_clicked = state["n"]
            running._largest, running.decision = state["largest"], state["decision"]
            for pair, kept in zip(running._pairs, state["pairs"], strict=True):
                pair.cells = {float(value): int(count) for value, count in kept["cells"]}
                pair.wins, pair.losses = kept["wins"], kept["losses"]
                # states of earlier versions lack "shown": a claim is then shown again by the next impressions
                pair.shown = [
                    None if one is None else (one[0], one[1]) for one in kept.get("shown", pair.shown)
                ]
                if pair.rng is not None:
                    pair.rng.bit_generator.state = kept["rng"]
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise BadInput(
                "state of running statistics", f"expected the text of to_json, got {text[:60]!r} ({error})"
            ) from None
        return running

    def _add_pair(self, pair: _Pair, values: Float, outcome: Float) -> None:
        # The evidence depends on the counts of the earlier values, not on their order, and is computed after each new
        # impression, so the decision does not depend on how a log is divided into batches.
        threshold, evidence = self._evidence(pair, values)
        for side, path in enumerate(evidence):
            above = np.flatnonzero(path >= threshold)
            if pair.shown[side] is None and above.size:
                first = int(above[0])
                pair.shown[side] = self.n_impressions + first + 1, float(path[first])
        # add the new values to the table, whose size is the number of distinct values
        for value, count in zip(*np.unique(values, return_counts=True), strict=True):
            pair.cells[float(value)] = pair.cells.get(float(value), 0) + int(count)
        signs = outcome if pair.rng is None else drawn_signs(outcome, pair.rng)
        pair.wins += int((signs > 0).sum())
        pair.losses += int((signs < 0).sum())

    def _evidence(self, pair: _Pair, values: Float) -> tuple[float, Float]:
        """Return the threshold of a claim, and the evidence for each of two rankers after each of the new values.

        The evidence is that of :attr:`Analysis.winner`, with the bound that is known in advance.
        """
        before, counts = _table(pair.cells)
        if len(self.rankers) > 2:
            shares, following = ((1.0 + each / self.bound) / 2.0 for each in (before, values))
            return thresholds(self.alpha, len(self.rankers))[0], evidence_path(shares, counts, following)
        capital = log_capitals(before / self.bound, counts, values / self.bound)
        sums = dot(before, counts) + values.cumsum()
        return -log(self.alpha), np.where([sums > 0, sums < 0], capital, -np.inf)

    def _decide(self) -> None:
        """Set the decision if a ranker is shown to beat every other ranker."""
        claims = [claim for pair in self._pairs for claim in zip(pair.names, pair.shown, strict=True)]
        for name in self.rankers:
            shown_against = [shown for winner, shown in claims if winner == name]
            if None not in shown_against:
                numbers, evidence = zip(*filter(None, shown_against), strict=True)
                n, p = max(numbers), p_value_of_best(min(evidence), len(self.rankers))
                if self.decision is None or n < self.decision["n"]:
                    self.decision = {"winner": name, "n": n, "p": p}


def _table(cells: Mapping[float, int]) -> tuple[Float, NDArray[np.int64]]:
    """Return the values in increasing order and the number of occurrences of each."""
    values = sorted(cells)
    return np.array(values, dtype=np.float64), np.array([cells[v] for v in values], dtype=np.int64)
