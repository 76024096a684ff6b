"""Read click logs in blocks, credit the clicks, and keep the results as columns of numbers for statistical tests.

An impression takes 8 to 24 bytes for each pair of rankers, 25 bytes to detect repeated lines and 8 bytes for the id of
its user or session, instead of 2 KB as an object.
"""

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.common.checks import BadInput, check_choice
from structsvm.common.portable.arrays import products
from structsvm.online.clicklog import (
    ClickLog,
    Header,
    Id,
    Impression,
    Lines,
    clicked_indices,
    numbered_lines,
    refuse_disagreement,
)
from structsvm.online.impressions.shown import Shown
from structsvm.online.interleaving.by_name import NAMES, interleaver
from structsvm.online.interleaving.crediting import Credits, credit_lists, differences, pairs_of
from structsvm.online.statistics.features import FEATURES, click_features, most_features
from structsvm.online.statistics.significance import drawn_signs, sign_generator
from structsvm.protocols import Float, Int

_LOOKED_AT = 1 << 16
"""Number of first impressions that are checked for returning users."""
_BLOCKS = 8
"""Number of blocks of a file (1 MB each) whose impressions are credited together."""
_RECORDS_KEPT = 1 << 16
_FEW_WITHOUT = 20
"""Impressions without a cluster id are left out if they are fewer than one in this number of impressions, and refused
otherwise."""
_IN_MEMORY = 4096
"""Number of impressions of a log in memory that are credited together."""


class PairColumns(NamedTuple):
    """Results of two rankers, with one entry per impression that compares them, in the order of the log."""

    delta: Float
    """The statistic: with click weights the difference in weighted clicks, otherwise the outcome for methods that draw
    their outcome and the difference in credit for other methods."""
    outcome: Float
    """1 if the first ranker beats the second, 0 for a tie, -1 if it loses; fractional for methods that draw it."""


@dataclass(frozen=True, eq=False)
class LogCounts:
    """Method and rankers of a log, and its numbers of impressions, for a credited log and its analysis."""

    method: str
    rankers: tuple[str, ...]
    # numbers of impressions used and of those with a click; the other counts are as in ClickLog
    n_impressions: int
    n_clicked: int
    n_missing_feedback: int
    n_repeated: int
    n_identical: int


@dataclass(frozen=True, eq=False)
class CreditedLog(LogCounts):
    """A log with credited clicks, as :func:`read_credits` and :func:`credit_log` return it."""

    # one entry for each pair of rankers i < j, in the order of itertools.combinations
    pairs: tuple[PairColumns, ...] = field(repr=False)
    # whether delta is computed with click weights
    weighted: bool = False
    # "user" or "session", and the cluster index of each impression, from 0 by first appearance
    cluster: str | None = None
    codes: Int | None = field(default=None, repr=False)
    # bound of abs(delta) that does not depend on the clicks
    bound: float = 1.0
    # set without clusters if users or sessions return: "user" or "session", the number of repeated ids, and the number
    # of impressions checked
    again: tuple[str, int, int] | None = None
    # in the log of a bandit, the impressions of each entry of pairs; None if each impression compares all rankers
    met: tuple[Int, ...] | None = field(default=None, repr=False)
    # number of impressions left out because they have no cluster id
    n_without: int = 0
    # number of impressions left out because the rankers agreed
    n_same: int = 0

    @property
    def draws_outcome(self) -> bool:
        """Whether outcomes are fractions, which tests replace by random wins, losses and ties (``drawn_signs``)."""
        return interleaver(self.method).draws_outcome

    def pair(self, i: int, j: int) -> PairColumns:
        """Return the columns of rankers ``i < j``."""
        return self.pairs[i * len(self.rankers) - i * (i + 1) // 2 + j - i - 1]

    @property
    def statistic(self) -> str:
        """Short name of the statistic ``delta``."""
        return self._names[0]

    @property
    def estimand(self) -> str:
        """Description of the quantity that all results of the log estimate."""
        mean = f"mean {self._names[1]} per query"
        if self.cluster is None:
            return mean
        return f"mean over {self.cluster}s of the {mean} of each {self.cluster}"

    @property
    def _names(self) -> tuple[str, str]:
        if self.weighted:
            return "weighted clicks", "difference in weighted clicks"
        return "outcome" if self.draws_outcome else "credit", interleaver(self.method).estimand

    def signs(self, random_state: int) -> list[Float]:
        """Return the result of each impression for each pair, 1 (won), -1 (lost) or 0 (tied); randomise fractions."""
        outcomes = [pair.outcome for pair in self.pairs]
        if not self.draws_outcome:
            return outcomes
        return [drawn_signs(one, sign_generator(random_state, k)) for k, one in enumerate(outcomes)]

    def clusters_of(self, k: int) -> Int | None:
        """Return the clusters of the impressions of pair ``k``, numbered from 0 by first appearance."""
        return self.codes if self.codes is None or self.met is None else _numbered(self.codes[self.met[k]])


def read_credits(
    path: str | Path,
    *,
    cluster: str | None = None,
    weights: ArrayLike | None = None,
    missing_feedback: str = "skip",
    max_expansion: float | None = None,
    callback: Callable[[int, int], None] | None = None,
) -> CreditedLog:
    """Read and credit a click log in blocks, for :func:`analyse`.

    Parameters
    ----------
    path : str or Path
        Click log, as for :func:`read_log`.
    cluster : {"auto", "user", "session"}, optional
        Id by which impressions form clusters. ``"auto"`` uses the user if users return and all impressions have a user,
        otherwise the session by the same rule, otherwise no clusters. Impressions without a requested id are left
        out and counted if they are fewer than 5 %, and refused otherwise.
    weights : array-like, shape (14,), optional
        Click weights for team draft, such as ``ClickWeights.weights``. Reading then takes about three times as long,
        since features are computed one impression at a time.
    missing_feedback : {"skip", "no_click", "error"}
        Treatment of lines without ``clicks``, as for :func:`read_log`.
    max_expansion : float, optional
        Maximum number of bytes of text per byte of a compressed file, as for :func:`structsvm.readers.read_letor`.
    callback : callable (n_lines, n_bytes), optional
        Called after each block (about 1 MB) with the number of lines and the number of bytes read so far.

    Returns
    -------
    CreditedLog
        Equal to the result of :func:`credit_log` for the log that :func:`read_log` returns.

    Raises
    ------
    ValueError
        As for :func:`read_log`; also if an impression cannot be credited or too many lack a cluster id (with file and
        line), and for an unknown method or ``cluster``, or invalid ``weights``.

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
    parser = Lines(path)
    # credit impressions of several blocks together: formulas on columns are fast for many impressions at once
    n_lines = n_bytes = 0
    for k, lines in enumerate(numbered_lines(path, max_expansion), 1):
        for number, raw in lines:
            line = parser.read(number, raw)
            reader.add(number, line, line.impression, raw)
        n_bytes += sum(len(raw) for _, raw in lines) + len(lines)
        if k % _BLOCKS == 0:
            reader.credit()
        if lines:
            n_lines = lines[-1][0]
        if callback is not None:
            callback(n_lines, n_bytes)
    reader.credit()
    return reader.log(str(path))


def credit_log(log: ClickLog, *, cluster: str | None = None, weights: ArrayLike | None = None) -> CreditedLog:
    """Credit a log in memory; parameters, result and errors are as for :func:`read_credits`.

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
        reader.add(log.numbers[k] if log.numbers else k, impression, impression.shown.impression)
        if k % _IN_MEMORY == _IN_MEMORY - 1:
            reader.credit()
    reader.credit()
    return replace(
        reader.log("impressions"),
        rankers=log.rankers,
        n_missing_feedback=log.n_missing_feedback,
        n_repeated=log.n_repeated,
        n_identical=log.n_identical,
    )


class _Reader:
    """Builder of a credited log, which takes impressions one by one and credits those of several blocks together."""

    def __init__(
        self, source: str, missing_feedback: str, cluster: str | None, weights: ArrayLike | None
    ) -> None:
        if cluster is not None:
            check_choice("cluster", cluster, ("auto", "user", "session"))
        self.source, self.cluster = source, cluster
        # if no cluster is requested, both ids of the first impressions show whether users or sessions return
        by = (cluster,) if cluster in ("user", "session") else ("user", "session")
        # ids, and the content in which two lines with the same id must agree, are kept as 64-bit hashes
        self.ids = {name: array("q") for name in by}
        self.n_taken = 0
        self.header = Header(source, missing_feedback)
        self.weights = None if weights is None else _check_weights(weights)
        self.method: Any = None
        self.n_rankers = 0
        self.hashes: dict[int, tuple[Shown, int]] = {}
        self.records: list[Shown] = []
        """Lists to credit; equal lists of a file share one record."""
        self.clicked_indices: list[tuple[int, ...]] = []
        """Indices of the clicked documents of each, increasing."""
        self.psi: list[Float] = []
        self.pairs: list[tuple[int, int]] = []
        self.columns: list[tuple[list[Float], ...]] = []
        self.duels: list[tuple[int, ...]] = []
        """Rankers of each impression taken since the last call of ``credit``, in the log of a bandit."""
        self.met: list[list[Int]] = []
        self.largest = 1.0
        self.numbers, self.names, self.clicked = array("q"), array("q"), array("b")
        self.content = array("q")  # hashes of the content of lines with an id, and of the text of other lines
        self.n_same = 0

    def add(self, number: int, one: Impression, name: Id | None, raw: bytes | None = None) -> None:
        """Add an impression and its id."""
        if not self.header.admit(number, one):
            return
        shown = one.shown
        # the rankers agree, so there is nothing to credit
        if one.same:
            self.n_same += 1
            return
        if self.method is None:
            if shown.method not in NAMES:
                raise BadInput(
                    f"{self.source}{number}",
                    f"method: expected one of {', '.join(NAMES)}, got {shown.method!r:.80}",
                )
            self.method, self.n_rankers = interleaver(shown.method), len(one.among) or shown.n_rankers
            if one.among and self.weights is not None:
                raise BadInput("weights", "expected none for the log of a bandit", "count clicks")
            self.pairs = list(combinations(range(self.n_rankers), 2))
            # the columns of two rankers that are never compared stay empty
            self.columns = [([], [np.empty(0)]) for _ in self.pairs]
            self.met = [[np.empty(0, dtype=np.int64)] for _ in self.pairs]
        if self.cluster is not None or self.n_taken < _LOOKED_AT:
            for by, ids in self.ids.items():
                ids.append(_hash(one.user if by == "user" else one.session))
        self.n_taken += 1
        if self.weights is not None:
            try:
                features = [click_features(one, i, j) for i, j in self.pairs]
            except ValueError as error:
                raise BadInput(f"{self.source}{number}", f"{error}") from None
            self.psi.append(np.array(features))
        if name is not None:
            # equal lists share one Shown object (see Lines), so its id is a fast key for its hash
            if id(shown) not in self.hashes:
                if len(self.hashes) > _RECORDS_KEPT:
                    self.hashes.clear()
                # the reference to ``shown`` keeps its id unique
                self.hashes[id(shown)] = shown, hash((shown.documents, shown.evidence))
            content = hash((self.hashes[id(shown)][1], one.clicks or (), one.query, one.session, one.user))
        else:
            content = 0 if raw is None else hash(raw.rstrip(b"\r"))
        if one.among:
            self.duels.append(tuple(map(one.among.index, one.rankers)))
        self.records.append(shown)
        self.clicked_indices.append(clicked_indices(one))
        self.numbers.append(number)
        self.names.append(_hash(name))
        self.clicked.append(bool(one.clicks))
        self.content.append(content)

    def credit(self) -> None:
        """Credit the impressions taken since the last call and append to the columns."""
        if not self.records:
            return
        # a bandit may compare different numbers of rankers: credit the lists with the same number together
        groups: dict[int, list[int]] = {}
        for k, record in enumerate(self.records):
            groups.setdefault(record.n_rankers, []).append(k)
        before, parts = len(self.numbers) - len(self.records), []
        for members in groups.values():
            names = [f"{self.source}{self.numbers[before + k]}" for k in members]
            parts.append(
                credit_lists(
                    self.method,
                    [self.records[k] for k in members],
                    [self.clicked_indices[k] for k in members],
                    names,
                )
            )
            self.largest = max(self.largest, float(parts[-1].largest.max()))
        if self.header.is_duels:
            self._keep_duels(before, list(groups.values()), parts)
        else:
            self._keep(parts[0])
        self.records, self.clicked_indices, self.psi, self.duels = [], [], [], []

    def _keep(self, credits: Credits) -> None:
        delta = None if self.method.draws_outcome else differences(credits.credit)
        for p, (deltas, outcomes) in enumerate(self.columns):
            if self.weights is not None:
                deltas.append(products(np.array([features[p] for features in self.psi]), self.weights))
            elif delta is not None:
                deltas.append(delta[:, p].copy())
            outcomes.append(credits.outcome[:, p].copy())

    def _keep_duels(self, before: int, groups: list[list[int]], credited: list[Credits]) -> None:
        """Append the credits of lists that compare some of the rankers to the columns of the pairs of these rankers."""
        # The credit of a list follows the order of its own rankings, so a pair (i, j) of the log may appear as (j, i),
        # with the opposite sign.
        parts = []
        for members, credits in zip(groups, credited, strict=True):
            at, met = before + np.array(members), np.array([self.duels[k] for k in members])
            i, j = pairs_of(met.shape[1])
            sign = np.where(met[:, i] < met[:, j], 1.0, -1.0)
            low, high = np.minimum(met[:, i], met[:, j]), np.maximum(met[:, i], met[:, j])
            columns = low, high, at.repeat(len(i)), sign * differences(credits.credit), sign * credits.outcome
            parts.append([column.reshape(-1) for column in columns])
        low, high, at, difference, signed = (np.concatenate(column) for column in zip(*parts, strict=True))
        for pair, (delta, won), impressions in zip(self.pairs, self.columns, self.met, strict=True):
            rows = np.flatnonzero((low == pair[0]) & (high == pair[1]))
            rows = rows[np.argsort(at[rows], kind="stable")]
            impressions.append(at[rows])
            won.append(signed[rows])
            if not self.method.draws_outcome:
                delta.append(difference[rows])

    def log(self, origin: str) -> CreditedLog:
        """Return the credited log, without repeated impressions."""
        n = len(self.numbers)
        if not n and self.n_same:
            raise BadInput(
                origin, f"expected lists on which the rankers differ, got {self.n_same:,} on which they agree"
            )
        rankers = self.header.names(origin, n)
        numbers, names, content = (
            np.frombuffer(one, dtype=np.int64) for one in (self.numbers, self.names, self.content)
        )
        # a log shipper may deliver lines twice; repeated lines do not count
        keep = self._distinct(names, numbers, content)
        n_repeated = n - int(keep.sum())
        # lines without an id are compared by text, which only lines of a file have
        n_identical = _n_repeated(content[names == 0]) if self.source.endswith(":") else 0
        codes, again, n_without = None, None, 0
        ids = {by: np.frombuffer(hashes, dtype=np.int64) for by, hashes in self.ids.items()}
        cluster = self.cluster
        # users (or sessions) return if an id occurs twice among the first impressions
        if cluster in (None, "auto"):
            looked = keep[:_LOOKED_AT]
            n_again = {by: _n_repeated(rows[:_LOOKED_AT][looked]) for by, rows in ids.items()}
            again = next(((by, some, int(looked.sum())) for by, some in n_again.items() if some), None)
        # clusters require an id in every impression: use the user if users return, otherwise the session
        if cluster == "auto":
            cluster = next((by for by, hashes in ids.items() if n_again[by] and hashes.all()), None)
        if cluster is not None:
            # check only impressions that are kept, since repeated lines do not count
            without = np.flatnonzero(keep & (ids[cluster] == 0))
            n_without = int(without.size)
            if 0 < keep.sum() <= _FEW_WITHOUT * n_without:
                raise BadInput(
                    "cluster",
                    f"expected a {cluster!r} in every impression, but {self.source}{numbers[without[0]]} has none",
                    "analyse without clusters, or log the id",
                )
            keep[without] = False
            codes, again = _numbered(ids[cluster][keep]), None
        clicked = np.frombuffer(self.clicked, dtype=np.bool_)[keep]
        pairs: list[PairColumns] = []
        met: list[Int] = []
        number = np.cumsum(keep) - 1
        for (deltas, outcomes), lists in zip(self.columns, self.met, strict=True):
            stays = keep
            # in the log of a bandit each pair has its own impressions: select those to keep
            if self.header.is_duels:
                rows = _joined(lists)
                stays = keep[rows]
                met.append(number[rows[stays]])
            # join and free the columns one after another to keep the peak memory small
            outcome = _joined(outcomes)[stays]
            pairs.append(PairColumns(_joined(deltas)[stays] if deltas else outcome, outcome))
        return CreditedLog(
            method=self.method.name,
            rankers=rankers,
            n_impressions=len(clicked),
            n_clicked=int(clicked.sum()),
            n_missing_feedback=self.header.n_missing,
            n_repeated=n_repeated,
            n_identical=n_identical,
            pairs=tuple(pairs),
            weighted=self.weights is not None,
            cluster=cluster,
            codes=codes,
            bound=self.largest if self.weights is None else most_features(self.weights, self.largest),
            again=again,
            met=tuple(met) if self.header.is_duels else None,
            n_without=n_without,
            n_same=self.n_same,
        )

    def _distinct(self, names: Int, numbers: Int, content: Int) -> NDArray[np.bool_]:
        """Return a mask of the impressions that repeat no id; raise BadInput if two lines with the same id differ."""
        first = _first_equal(names)
        is_first = (first == np.arange(len(first))) | (names == 0)
        again = np.flatnonzero(~is_first)
        wrong = again[content[again] != content[first[again]]]
        if wrong.size:
            one, other = int(numbers[first[wrong[0]]]), int(numbers[wrong[0]])
            refuse_disagreement(self.source, one, other, "with this id")
        return np.asarray(is_first)


def _n_repeated(hashes: Int) -> int:
    """Return the number of ids that repeat an earlier id; missing ids are ignored."""
    known = hashes[hashes != 0]
    return len(known) - len(np.unique(known))


def _check_weights(weights: ArrayLike) -> Float:
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (len(FEATURES),) or not np.isfinite(w).all():
        raise BadInput("weights", f"expected {len(FEATURES)} finite numbers (features), got shape {w.shape}")
    return w


def _hash(name: str | int | None) -> int:
    """Return a 64-bit hash of an id, 0 if it is missing, by Python's ``hash``, which differs between processes."""
    # ids 1 and "1" differ; integers are hashed as text, since hash(-1) == hash(-2)
    return 0 if name is None else hash(f"{'s' if type(name) is str else 'i'}{name}")


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Concatenate the parts into one array, and free the parts."""
    whole = np.concatenate(parts)
    parts.clear()
    return whole


def _first_equal(hashes: Int) -> Int:
    """Return for each entry the index of the first entry that equals it."""
    _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    return np.asarray(first[inverse], dtype=np.int64)


def _numbered(values: Int) -> Int:
    """Number distinct entries from 0 in order of first appearance; return the number of each entry."""
    first = _first_equal(values)
    return np.asarray((np.cumsum(first == np.arange(len(first))) - 1)[first], dtype=np.int64)
