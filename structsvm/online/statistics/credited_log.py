"""A click log as columns of numbers: what the tests need of each impression, read and credited in blocks.

An impression takes 8 to 24 bytes for each pair of rankers and 36 for telling repeated lines, instead of 2 KB as an
object.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.common.checks import BadInput, check_choice
from structsvm.common.portable.arrays import dot, products
from structsvm.online.clicklog import (
    ClickLog,
    Header,
    Line,
    Lines,
    numbered_lines,
    refuse_disagreement,
)
from structsvm.online.interleaving import SOSM, Optimized, Probabilistic, Shown
from structsvm.online.statistics.credit_formulas import (
    DRAWN,
    METHODS,
    Credits,
    Record,
    Rows,
    beyond_bound,
    credit_rows,
)
from structsvm.online.statistics.features import FEATURES, click_features
from structsvm.online.statistics.significance import drawn_signs, sign_generator
from structsvm.protocols import Float

_LOOKED_AT = 1 << 16
"""Impressions that are searched for users who come again: enough to see that they do, and little memory."""
_BLOCKS = 8
"""Blocks of a file (1 MB each) whose impressions are credited together."""
_RECORDS_KEPT = 1 << 16
_FEW_WITHOUT = 20
"""Impressions without the id for clusters are left out if they are less than one in so many; else they are an error."""
_IN_MEMORY = 4096
"""Impressions of a log in memory that are credited together."""

_STATISTICS = {
    "team_draft": ("credit", "difference in clicks"),
    "probabilistic": ("outcome", "expected outcome (1 won, -1 lost)"),
    "optimized": ("outcome", "difference in credit per click, as a share of the largest possible"),
    "sosm": ("outcome", "difference in credit per click, as a share of the largest possible"),
    "balanced": ("credit", "difference in credit"),
    "document_constraints": ("credit", "difference in satisfied constraints"),
}
"""Short and long name of each method's statistic."""

Int = NDArray[np.int64]


class PairColumns(NamedTuple):
    """What is known of two rankers, an entry per impression on which they met, in the order of the log."""

    delta: Float  # weighted clicks, the outcome where it is a fraction, otherwise the difference in credit
    outcome: Float  # 1 if the first beats the second, -1 if it loses; a fraction for the methods of DRAWN


@dataclass(frozen=True, eq=False)
class CreditedLog:
    """A log whose clicks are credited, of :func:`read_credits` or :func:`credit_log`."""

    method: str
    rankers: tuple[str, ...]
    # of every two rankers i < j, in the order of combinations
    pairs: tuple[PairColumns, ...] = field(repr=False)
    n_impressions: int  # that count
    n_clicked: int  # with a click
    n_missing_feedback: int = 0
    n_missing_record: int = 0
    n_repeated: int = 0
    n_identical: int = 0
    weighted: bool = False  # whether delta is of click weights
    cluster: str | None = None
    codes: Int | None = field(
        default=None, repr=False
    )  # of its clusters, numbered from 0 by first appearance
    bound: float | None = 1.0  # of abs(delta), known before the clicks
    # without clusters, if users (sessions) come again: which, how often, of how many impressions
    again: tuple[str, int, int] | None = None
    # of a bandit's log, the impressions that each of pairs is of; None: all
    met: tuple[Int, ...] | None = field(default=None, repr=False)
    n_without: int = 0  # left out, as they have no id for clusters
    n_same: int = 0  # left out, as the rankers agreed

    def pair(self, i: int, j: int) -> PairColumns:
        """The columns of rankers ``i < j``."""
        n = len(self.rankers)
        return self.pairs[i * n - i * (i + 1) // 2 + j - i - 1]

    @property
    def statistic(self) -> str:
        """Short name of what ``delta`` is."""
        return self._names[0]

    @property
    def estimand(self) -> str:
        """The number that all figures of the log are about."""
        mean = f"mean {self._names[1]} per query"
        if self.cluster is None:
            return mean
        return f"mean over {self.cluster}s of the {mean} of each {self.cluster}"

    @property
    def _names(self) -> tuple[str, str]:
        if self.weighted:
            return "weighted clicks", "difference in weighted clicks"
        return _STATISTICS[self.method] if self.bound is not None else ("credit", "difference in credit")

    def signs(self, random_state: int) -> list[Float]:
        """Return for each pair 1 won, -1 lost, 0 tied of each impression; drawn if the outcome is a fraction."""
        outcomes = [pair.outcome for pair in self.pairs]
        if self.method not in DRAWN or self.bound is None:
            return outcomes
        return [drawn_signs(one, sign_generator(random_state, k)) for k, one in enumerate(outcomes)]

    def clusters_of(self, k: int) -> Int | None:
        """Return the clusters of the impressions of pair ``k``, numbered from 0 by first appearance."""
        if self.codes is None or self.met is None:
            return self.codes
        _, first, number = np.unique(self.codes[self.met[k]], return_index=True, return_inverse=True)
        return np.asarray(np.argsort(np.argsort(first, kind="stable"), kind="stable")[number], dtype=np.int64)


def read_credits(
    path: str | Path,
    *,
    cluster: str | None = None,
    weights: ArrayLike | None = None,
    missing_record: str = "error",
    missing_feedback: str = "skip",
    max_expansion: float | None = None,
    callback: Callable[[int, int], None] | None = None,
) -> CreditedLog:
    """Read and credit a click log in blocks, for :func:`analyse`.

    Parameters
    ----------
    path : str or Path
    cluster : {"auto", "user", "session"}, optional
        Which id of every impression to keep. ``"auto"``: the user if some come again and all impressions have one, else
        the session by the same rule, else none. Impressions without the id that was asked for are left out and counted;
        5 % of them or more are an error.
    weights : array-like, shape (14,), optional
        Click weights for team draft, such as ``ClickWeights.weights``. Features are computed impression by
        impression, which takes about three times as long as counting clicks.
    missing_record, missing_feedback : str
        As for :func:`read_log`.
    max_expansion : float, optional
        As for :func:`structsvm.readers.read_letor`.
    callback : callable (n_lines, n_bytes), optional
        Called after each block (about 1 MB) with the lines and bytes of text read so far.

    Returns
    -------
    CreditedLog
        The numbers that :func:`credit_log` computes of :func:`read_log`'s impressions, in the order of the file.

    Raises
    ------
    ValueError
        As :func:`read_log`; with file and line, for an impression that its method cannot credit, and for the first of
        many that lack the id for ``cluster``; for an unknown method or ``cluster``, or wrong ``weights``.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> line = ('{"shown": {"version": 1, "method": "team_draft", "documents": ["b", "a"], "n_rankers": 2, '
    ...         '"evidence": [[1, 0]], "slack": 0}, "clicks": [{"document": "a"}]}')
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "log.jsonl"
    ...     _ = path.write_text(line)
    ...     log = read_credits(path)
    >>> log.n_impressions, log.pair(0, 1).delta
    (1, array([1.]))
    """
    path = Path(path)
    reader = _Reader(f"{path}:", missing_feedback, cluster, weights)
    parser = Lines(path, missing_record)
    n_missing_record = n_lines = n_bytes = 0
    for k, lines in enumerate(numbered_lines(path, max_expansion), 1):
        for number, raw in lines:
            line = parser.read(number, raw)
            if line is None:
                n_missing_record += 1
            else:
                reader.add(number, line, raw)
        n_bytes += sum(len(raw) for _, raw in lines) + len(lines)
        if k % _BLOCKS == 0:
            reader.credit()
        if lines:
            n_lines = lines[-1][0]
        if callback is not None:
            callback(n_lines, n_bytes)
    reader.credit()
    return reader.log(str(path), n_missing_record)


def credit_log(log: ClickLog, *, cluster: str | None = None, weights: ArrayLike | None = None) -> CreditedLog:
    """The columns of a log in memory; parameters, result and errors as of :func:`read_credits`.

    Examples
    --------
    >>> from structsvm.online.clicklog import Click, Impression
    >>> from structsvm.online.interleaving import Shown
    >>> shown = Shown("team_draft", ("a", "b"), 2, ((0, 1),))
    >>> credit_log(ClickLog.of([Impression(shown, (Click(2),)), Impression(shown, ())])).pair(0, 1).delta
    array([-1.,  0.])
    """
    reader = _Reader(log.source, "no_click", cluster, weights)
    for k, impression in enumerate(log.impressions):
        reader.add(log.numbers[k] if log.numbers else k, Line.of(impression))
        if k % _IN_MEMORY == _IN_MEMORY - 1:
            reader.credit()
    reader.credit()
    return replace(
        reader.log("impressions", 0), rankers=log.rankers, n_missing_feedback=log.n_missing_feedback,
        n_missing_record=log.n_missing_record, n_repeated=log.n_repeated, n_identical=log.n_identical,
    )  # fmt: skip


class _Reader:
    """Takes impressions one by one, credits those of some blocks together, and keeps columns."""

    def __init__(
        self, source: str, missing_feedback: str, cluster: str | None, weights: ArrayLike | None
    ) -> None:
        if cluster is not None:
            check_choice("cluster", cluster, ("auto", "user", "session"))
        self.source, self.auto = source, cluster == "auto"
        by = ("user", "session") if cluster == "auto" else () if cluster is None else (cluster,)
        self.ids = {name: Digests() for name in by}
        self.header = Header(source, missing_feedback)
        self.weights = None if weights is None else _check_weights(weights)
        self.like: tuple[str, int] | None = None
        self.records: dict[int, tuple[Shown, Record]] = {}
        self.rows = Rows([], [], [])
        self.psi: list[Float] = []
        self.pairs: list[tuple[int, int]] = []
        self.columns: list[tuple[list[Float], ...]] = []
        self.duels: list[tuple[int, ...]] = []
        """Of each impression taken since the last call of credit, who met; for the log of a bandit."""
        self.met: list[list[Int]] = []
        self.has_bound = True
        self.largest = 1.0
        self.numbers: list[Int] = []
        self.n_clicks: list[NDArray[np.int32]] = []
        self.names = Digests()
        self.is_looking = cluster is None or self.auto
        self.n_looked = 0
        self.looked: dict[str, set[Any]] = {"impression": set(), "user": set(), "session": set()}
        self.n_again = {"user": 0, "session": 0}
        self.n_same = 0
        self.contents: list[int] = []
        self.content: list[Int] = []

    def add(self, number: int, line: Line, raw: bytes | None = None) -> None:
        """Take an impression."""
        if not self.header.admit(number, line):
            return
        shown, about = line.shown, line.about
        if about.same:
            self.n_same += 1
            return
        if self.like is None:
            self.like = (shown.method, len(about.among or ()) or shown.n_rankers)
            if shown.method not in METHODS:
                raise BadInput(
                    f"{self.source}{number}",
                    f"method: expected one of {', '.join(METHODS)}, got {shown.method!r:.80}",
                )
            if about.among and self.weights is not None:
                raise BadInput("weights", "expected none for the log of a bandit", "count clicks")
            self.pairs = list(combinations(range(self.like[1]), 2))
            # of two that never meet the columns are empty
            self.columns = [([], [np.empty(0)]) for _ in self.pairs]
            self.met = [[np.empty(0, dtype=np.int64)] for _ in self.pairs]
        self._take_ids(about.user, about.session)
        if self.weights is not None:
            impression = line.impression()
            try:
                features = [click_features(impression, i, j) for i, j in self.pairs]
            except ValueError as error:
                raise BadInput(f"{self.source}{number}", f"{error}") from None
            self.psi.append(np.array(features))
        known = self.records.get(id(shown))
        if known is not None:
            record = known[1]
        else:
            record = Record(shown.documents, shown.evidence, shown.bound)
            if len(self.records) > _RECORDS_KEPT:
                self.records.clear()
            self.records[id(shown)] = shown, record  # which keeps its id from being used again
        name = line.name
        if name is not None:
            content = hash((record.said, line.clicks or (), about.query, about.session, about.user))
        else:
            content = 0 if raw is None else hash(raw.rstrip(b"\r"))
        if about.among:
            self.duels.append(tuple(map(about.among.index, about.rankers)))
        self.rows.numbers.append(number)
        self.rows.records.append(record)
        self.rows.places.append(line.places())
        self.names.add(name)
        self.contents.append(content)
        if self.is_looking:
            self._look(name, about.user, about.session)

    def _take_ids(self, user: str | int | None, session: str | int | None) -> None:
        """Keep the ids of an impression."""
        for by, ids in tuple(self.ids.items()):
            who = user if by == "user" else session
            if who is None and self.auto:
                del self.ids[by]
            else:
                ids.add(who)

    def _choose(self) -> None:
        """Keep the ids of whom comes again, where they were not asked for."""
        by = next((by for by in self.ids if self.n_again[by]), None)
        self.ids = {} if by is None else {by: self.ids[by]}

    def _look(self, name: str | int | None, user: str | int | None, session: str | int | None) -> None:
        """Count, among the first impressions of a log that is not clustered, those of a user or session seen before."""
        if name is not None:
            if name in self.looked["impression"]:
                return
            self.looked["impression"].add(name)
        self.n_looked += 1
        self.is_looking = self.n_looked < _LOOKED_AT
        for by, who in (("user", user), ("session", session)):
            if who is not None:
                self.n_again[by] += who in self.looked[by]
                self.looked[by].add(who)
        if self.auto and not self.is_looking:
            self._choose()

    def credit(self) -> None:
        """Credit the impressions taken since the last call, and keep their columns."""
        if not self.rows.numbers or self.like is None:
            return
        rows, (method, n_rankers) = self.rows, self.like
        if self.header.is_duels:
            self._keep_duels(method)
        else:
            self._keep(method, self._credited(method, n_rankers, rows))
        self.numbers.append(np.array(rows.numbers, dtype=np.int64))
        self.n_clicks.append(np.array(list(map(len, rows.places)), dtype=np.int32))
        self.content.append(np.array(self.contents, dtype=np.int64))
        self.names.settle()
        for ids in self.ids.values():
            ids.settle()
        self.rows, self.contents, self.psi, self.duels = Rows([], [], []), [], [], []

    def _credited(self, method: str, n_rankers: int, rows: Rows) -> Credits:
        made = credit_rows(method, n_rankers, rows, self.source)
        bound = np.array([record.bound for record in rows.records], dtype=np.float64)
        self.has_bound &= method != Optimized.name or not beyond_bound(made.spread, bound).any()
        self.largest = max(self.largest, float(made.spread.max()))
        return made

    def _keep(self, method: str, made: Credits) -> None:
        credit, outcome, _ = made
        for p, (i, j) in enumerate(self.pairs):
            delta, won = self.columns[p]
            if self.weights is not None:
                delta.append(products(np.array([features[p] for features in self.psi]), self.weights))
            elif method not in (Probabilistic.name, SOSM.name):
                delta.append(credit[:, i] - credit[:, j])
            won.append(outcome[:, p].copy())

    def _keep_duels(self, method: str) -> None:
        """Credit lists on which few of the rankers met, and keep them in the columns of those."""
        before = sum(map(len, self.numbers))
        column = {pair: p for p, pair in enumerate(self.pairs)}
        groups: dict[int, list[int]] = {}
        for k, arms in enumerate(self.duels):
            groups.setdefault(len(arms), []).append(k)
        of: list[list[tuple[int, float, float]]] = [[] for _ in self.pairs]
        for size, members in groups.items():
            own = list(combinations(range(size), 2))
            some: Any = ([part[k] for k in members] for part in self.rows)
            made = self._credited(method, size, Rows(*some))
            for row, k in enumerate(members):
                arms = self.duels[k]
                for p, (i, j) in enumerate(own):
                    sign = 1.0 if arms[i] < arms[j] else -1.0
                    difference = float(made.credit[row, i] - made.credit[row, j])
                    pair = column[min(arms[i], arms[j]), max(arms[i], arms[j])]
                    of[pair].append((before + k, sign * difference, sign * float(made.outcome[row, p])))
        for entries, (delta, won), met in zip(of, self.columns, self.met, strict=True):
            if not entries:
                continue
            table = np.array(sorted(entries))
            met.append(table[:, 0].astype(np.int64))
            won.append(table[:, 2])
            if method not in (Probabilistic.name, SOSM.name):
                delta.append(table[:, 1])

    def _bound(self) -> float | None:
        """The most by which the statistic of an impression can differ from 0, whichever ranker the coins favoured."""
        assert self.like is not None
        largest, method = self.largest, self.like[0]
        if self.weights is not None:
            # no feature is larger for a team of so many clicks
            most = np.array([1, 1, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 1, 1]) * largest
            most += np.array([0, 0, 1, 0, 0, 1, 1, 1, 1, 1, 1, 3, 0, 0])
            return dot(np.abs(self.weights), most)
        if method in DRAWN:
            return 1.0 if self.has_bound else None
        # document constraints: pairs of a clicked document below one that is not, and the next one of each
        return largest if method != "document_constraints" else largest**2 / 4 + largest / 2 + 1

    def log(self, origin: str, n_missing_record: int) -> CreditedLog:
        """The columns, without repeated impressions."""
        n = sum(map(len, self.numbers))
        if not n and self.n_same:
            raise BadInput(
                origin, f"expected lists on which the rankers differ, got {self.n_same:,} that agree"
            )
        rankers = self.header.names(origin, n, n_missing_record)
        assert self.like is not None
        numbers, content = joined(self.numbers), joined(self.content)
        keep: Any = slice(None)
        n_repeated = n_identical = 0
        names = self.names.rows() if self.names.any else None
        if names is not None:
            keep, n_repeated = self._distinct(names, numbers, content)
        if self.source.endswith(":"):
            if names is not None:
                content = content[~names.any(axis=1)]
            content = np.sort(content)
            n_identical = int((content[1:] == content[:-1]).sum())
        codes, n_without = None, 0
        if self.auto and self.is_looking:
            self._choose()
        cluster = next(iter(self.ids), None)
        if cluster is not None:
            ids = self.ids[cluster].rows()
            keep, n_without = self._with_id(cluster, np.asarray(ids.any(axis=1)), numbers, keep)
            codes = numbered(ids[keep])
        del numbers, content, names
        clicked = joined(self.n_clicks)[keep] > 0
        pairs: list[PairColumns] = []
        met: list[Int] = []
        if self.header.is_duels:
            kept = np.zeros(n, dtype=bool)
            kept[keep] = True
            number = np.cumsum(kept) - 1
        for (own, won), lists in zip(self.columns, self.met, strict=True):
            stays = keep
            if self.header.is_duels:
                rows = joined(lists)
                stays = kept[rows]
                met.append(number[rows[stays]])
            outcome = joined(won)[stays]
            if self.like[0] == Optimized.name and self.has_bound:
                own.clear()  # the outcome is the statistic
            pairs.append(PairColumns(joined(own)[stays] if own else outcome, outcome))
        return CreditedLog(
            self.like[0], rankers, tuple(pairs), len(clicked), int(clicked.sum()), self.header.n_missing,
            n_missing_record, n_repeated, n_identical, self.weights is not None, cluster, codes, self._bound(),
            None if cluster else next(((by, n, self.n_looked) for by, n in self.n_again.items() if n), None),
            tuple(met) if self.header.is_duels else None, n_without, self.n_same,
        )  # fmt: skip

    def _with_id(self, cluster: str, has_id: NDArray[np.bool_], numbers: Int, keep: Any) -> tuple[Any, int]:
        """Which of the impressions to keep have the id, and how many have not; BadInput where these are many."""
        without = np.flatnonzero(~has_id[keep])
        if 0 < len(has_id[keep]) <= _FEW_WITHOUT * without.size:
            raise BadInput(
                "cluster",
                f"expected a {cluster!r} in every impression, {self.source}{numbers[keep][without[0]]} has none",
                "analyse without clusters, or log the id",
            )
        if without.size:
            keep = has_id if isinstance(keep, slice) else has_id & keep
        return keep, int(without.size)

    def _distinct(self, names: Int, numbers: Int, content: Int) -> tuple[Any, int]:
        """Which impressions are the first of their id, and how many are not; ValueError where two disagree."""
        first = first_rows(names)
        repeated = (first != np.arange(len(first))) & names.any(axis=1)
        again = np.flatnonzero(repeated)
        wrong = again[content[again] != content[first[again]]]
        if wrong.size:
            refuse_disagreement(
                self.source, int(numbers[first[wrong[0]]]), int(numbers[wrong[0]]), "with this id"
            )
        return (~repeated if again.size else slice(None)), int(again.size)


def _check_weights(weights: ArrayLike) -> Float:
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (len(FEATURES),) or not np.isfinite(w).all():
        raise BadInput(
            "weights", f"expected {len(FEATURES)} finite numbers, one per feature, got shape {w.shape}"
        )
    return w


class Digests:
    """128 bits for each id, zeros for none: two of Python's 64-bit hashes, whose key is drawn anew in each process."""

    def __init__(self) -> None:
        self.any = False
        self._recent: list[str | int | None] = []
        self._settled: list[Int] = []
        self.add = self._recent.append
        """Take an id."""

    def settle(self) -> None:
        """Put what was taken since the last call into an array."""
        self.any |= any(name is not None for name in self._recent)
        self._settled.append(np.array(list(map(_digest, self._recent)), dtype=np.int64))
        self._recent.clear()

    def rows(self) -> Int:
        """Digests, shape (n_ids, 2), which are given away."""
        return joined(self._settled)


def _digest(name: str | int | None) -> tuple[int, int]:
    """1 and "1" are two; integers are hashed as text, as hash(-1) == hash(-2)."""
    if name is None:
        return 0, 0
    return (hash(name), hash("s" + name)) if type(name) is str else (hash(f"i{name}"), hash(f"j{name}"))


def joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """One array of the parts, which are freed."""
    whole = np.concatenate(parts)
    parts.clear()
    return whole


def first_rows(digests: Int) -> Int:
    """For every row the first that equals it."""
    order = np.lexsort((digests[:, 1], digests[:, 0]))
    placed = digests[order]
    start = np.ones(len(order), dtype=bool)
    start[1:] = (placed[1:] != placed[:-1]).any(axis=1)
    del placed
    first = np.empty(len(order), dtype=np.int64)
    # the sort is stable, so the first of equal rows in it is the first of all
    first[order] = order[start][np.cumsum(start) - 1]
    return first


def numbered(digests: Int) -> Int:
    """A number from 0 for every row, by first appearance; equal rows have one number."""
    first = first_rows(digests)
    return np.asarray((np.cumsum(first == np.arange(len(first))) - 1)[first], dtype=np.int64)
