"""A click log as columns of numbers: what the tests need of each impression, read and credited in blocks.

An impression takes 8 to 24 bytes for each pair of rankers and 36 for telling repeated lines, instead of 2 KB as an
object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.checks import BadInput, check_choice
from structsvm.common.lazy import labelled
from structsvm.online.clicklog import (
    DECODER,
    LATEST,
    ClickLog,
    Header,
    Impression,
    check_policies,
    numbered_lines,
    read_line,
    refuse_disagreement,
    said,
)
from structsvm.online.interleaving import (
    SOSM,
    Interleaver,
    Optimized,
    Probabilistic,
    Shown,
    TeamDraft,
)
from structsvm.online.interleaving.record import signs
from structsvm.online.statistics.features import FEATURES, click_features
from structsvm.protocols import Float

__all__ = [
    "DRAWN",
    "METHODS",
    "CreditRow",
    "CreditedLog",
    "PairColumns",
    "credit_log",
    "credit_rows",
    "read_credits",
]

METHODS: dict[str, Interleaver] = {
    name: method() for name, method in labelled("structsvm.online.interleaving", "name").items()
}
"""The methods whose logs can be analysed, by name."""

DRAWN = tuple(name for name, method in METHODS.items() if getattr(method, "draws_outcome", False))
"""Methods whose outcome has mean zero for an indifferent user, but neither median zero nor symmetry."""

_TEAM_DRAFT, _PROBABILISTIC, _OPTIMIZED, _SOSM = (
    method.name for method in (TeamDraft, Probabilistic, Optimized, SOSM)
)
_LOOKED_AT = 1 << 16
"""Impressions that are searched for users who come again: enough to see that they do, and little memory."""
_IN_MEMORY = 4096
"""Impressions of a log in memory per block that is credited."""
_ENTRIES = 1 << 22
"""Most numbers per table: probabilistic credit needs one per impression and pair of rankers."""

_STRINGS, _INTEGERS, _NUMBERS = {str}, {int}, {int, float, type(None)}
_NOBODY = {None}
_NONE: list[str] = []
_IDS = (str, int, type(None))

Int = NDArray[np.int64]


class PairColumns(NamedTuple):
    """What is known of two rankers, an entry per impression in the order of the log.

    Attributes
    ----------
    delta : ndarray of float64
        The test statistic: weighted clicks, the outcome where it is a fraction, otherwise the difference in credit.
    outcome : ndarray of float64
        What the method says: 1 if the first beats the second, -1 if it loses; a fraction for the methods of ``DRAWN``.
    """

    delta: Float
    outcome: Float


@dataclass(frozen=True, eq=False)
class CreditedLog:
    """A log whose clicks are credited; :func:`read_credits` makes it from a file, :func:`credit_log` from a ClickLog.

    Attributes
    ----------
    method : str
    rankers : tuple of str
    pairs : tuple of PairColumns
        Of every two rankers ``i < j``, in the order of ``itertools.combinations``.
    n_impressions, n_clicked : int
        Impressions that count, and those of them with a click.
    n_missing_feedback, n_missing_record, n_repeated, n_identical : int
        As of :class:`ClickLog`.
    weighted : bool
        Whether ``delta`` is of click weights.
    bound : float or None
        What ``abs(delta)`` cannot exceed, known before the clicks; None: no bound.
    again : (str, int, int) or None
        Without ``cluster``, where users (or, without users, sessions) have several impressions: "user" or "session",
        the number of impressions of one seen before, and of how many first impressions of the log.
    """

    method: str
    rankers: tuple[str, ...]
    pairs: tuple[PairColumns, ...] = field(repr=False)
    n_impressions: int
    n_clicked: int
    n_missing_feedback: int = 0
    n_missing_record: int = 0
    n_repeated: int = 0
    n_identical: int = 0
    weighted: bool = False
    cluster: str | None = None
    codes: Int | None = field(default=None, repr=False)
    bound: float | None = 1.0
    again: tuple[str, int, int] | None = None

    def pair(self, i: int, j: int) -> PairColumns:
        """The columns of rankers ``i < j``."""
        n = len(self.rankers)
        return self.pairs[i * n - i * (i + 1) // 2 + j - i - 1]

    def clusters(self, by: str) -> Int:
        """The ``user`` or ``session`` of every impression as a number from 0, by first appearance.

        Raises
        ------
        ValueError
            If the log was credited without ``cluster=by``.
        """
        if self.codes is None or by != self.cluster:
            raise BadInput("cluster", f"expected a log credited with cluster={by!r}, got {self.cluster!r}")
        return self.codes


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
    cluster : {"user", "session"}, optional
        Which id of every impression to keep.
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
        As :func:`read_log`; with file and line, for an impression that its method cannot credit or that lacks the
        id for ``cluster``; for an unknown method or ``cluster``, or wrong ``weights``.

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
    check_policies(missing_record, missing_feedback)
    path = Path(path)
    reader = _Reader(f"{path}:", missing_feedback, cluster, weights)
    n_missing_record = n_lines = n_bytes = 0
    for lines in numbered_lines(path, max_expansion):
        for number, raw in lines:
            if not reader.quick(number, raw):
                impression = read_line(path, number, raw, missing_record)
                if impression is None:
                    n_missing_record += 1
                else:
                    reader.add(number, impression, raw)
            n_bytes += len(raw) + 1
        reader.credit()
        if lines:
            n_lines = lines[-1][0]
        if callback is not None:
            callback(n_lines, n_bytes)
    return reader.log(str(path), n_missing_record)


def credit_log(log: ClickLog, *, cluster: str | None = None, weights: ArrayLike | None = None) -> CreditedLog:
    """The columns of a log in memory; parameters, result and errors as of :func:`read_credits`.

    Examples
    --------
    >>> from structsvm.online.clicklog import Click
    >>> shown = Shown("team_draft", ("a", "b"), 2, ((0, 1),))
    >>> credit_log(ClickLog.of([Impression(shown, (Click(2),)), Impression(shown, ())])).pair(0, 1).delta
    array([-1.,  0.])
    """
    reader = _Reader(log.source, "no_click", cluster, weights)
    for k, impression in enumerate(log.impressions):
        reader.add(log.numbers[k] if log.numbers else k, impression)
        if k % _IN_MEMORY == _IN_MEMORY - 1:
            reader.credit()
    reader.credit()
    made = reader.log("impressions", 0)
    return CreditedLog(
        made.method, log.rankers, made.pairs, made.n_impressions, made.n_clicked, log.n_missing_feedback,
        log.n_missing_record, log.n_repeated, log.n_identical, made.weighted, cluster, made.codes, made.bound,
        made.again,
    )  # fmt: skip


class CreditRow(NamedTuple):
    """What crediting needs of one impression; ``number`` says in an error which it is."""

    number: int
    documents: Sequence[Any]
    evidence: Sequence[Sequence[Any]]
    places: Sequence[int]
    """Clicked ones from 0, increasing."""
    bound: float
    unchecked: bool
    """Whether the numbers of the evidence may be out of range."""


_new_row = tuple.__new__


class _Reader:
    """Takes impressions one by one, credits those of a block together, and keeps columns."""

    def __init__(
        self, source: str, missing_feedback: str, cluster: str | None, weights: ArrayLike | None
    ) -> None:
        if cluster is not None:
            check_choice("cluster", cluster, ("user", "session"))
        self.source, self.cluster = source, cluster
        self.header = Header(source, missing_feedback)
        self.weights = None if weights is None else _check_weights(weights)
        self.like: tuple[str, int, Any] | None = None
        self.rows: list[CreditRow] = []
        self.psi: list[Float] = []
        self.pairs: list[tuple[int, int]] = []
        self.columns: list[tuple[list[Float], ...]] = []
        self.has_bound = True
        self.largest = 1.0
        self.numbers: list[Int] = []
        self.n_clicks: list[NDArray[np.int32]] = []
        self.names = _Digests()
        self.n_looked = 0
        self.looked: dict[str, set[Any]] = {"impression": set(), "user": set(), "session": set()}
        self.n_again = {"user": 0, "session": 0}
        self.contents: list[int] = []
        self.content: list[Int] = []
        self.ids = _Digests()

    def quick(self, number: int, raw: bytes) -> bool:
        """Take a line as :meth:`add` takes its impression, if it is an ordinary one; False: nothing was done.

        Whatever is unusual, right or wrong, is left to :meth:`Impression.from_dict`, which also knows the errors.
        """
        like = self.like
        if like is None or self.weights is not None:
            return False
        try:
            text = raw.decode()
            line, end = DECODER.raw_decode(text)
            record, clicks = line["shown"], line["clicks"]
            documents, evidence = record["documents"], record["evidence"]
            n = len(documents)
            of_record, of_line = record.get, line.get
            slack, bound, name = of_record("slack", 0.0), of_record("bound", 1.0), of_record("impression")
            session, user, query, own = (
                of_line("session"),
                of_line("user"),
                of_line("query"),
                of_line("impression"),
            )
            if own is not None:
                if name is not None:
                    return False
                name = own
            kinds = set(map(type, documents))
            if (
                (end != len(text) and text[end:] != "\r")
                or "\\u0000" in text
                or type(clicks) is not list
                or type(documents) is not list
                or type(evidence) is not list
                or not evidence
                or (kinds != _STRINGS and kinds != _INTEGERS)
                or len(set(documents)) != n
                or record["version"] != 1
                or record["method"] != like[0]
                or type(record["n_rankers"]) is not int
                or record["n_rankers"] != like[1]
                or of_line("rankers", _NONE) != like[2]
                or type(slack) not in (int, float)
                or not -1e12 <= slack <= 1e12
                or type(bound) not in (int, float)
                or not 0 < bound <= 1e12
                or type(query) not in _IDS
                or type(session) not in _IDS
                or type(user) not in _IDS
                or type(name) not in _IDS
                or "query_words" in line
                or "title_bold" in line
                or "abstract_bold" in line
            ):
                return False
            for row in evidence:
                if type(row) is not list or len(row) != n or not set(map(type, row)) <= _NUMBERS:
                    return False
            if like[0] == _TEAM_DRAFT and n > 1 and len(set(evidence[0]) - _NOBODY) < 2:
                return False  # perhaps no draft
            places: list[int] = []
            made: list[tuple[int, Any, Any, Any]] = []
            timed = True
            for click in clicks:
                if type(click) is not dict:
                    return False
                of_click = click.get
                time, dwell, download = of_click("time"), of_click("dwell"), of_click("download")
                if "rank" in click:
                    rank = click["rank"]
                    if type(rank) is not int or not 0 < rank <= n or "document" in click:
                        return False
                else:
                    document = click["document"]
                    if type(document) not in kinds:
                        return False
                    rank = documents.index(document) + 1
                if time is None:
                    timed = False
                elif type(time) not in (int, float) or not 0 <= time <= LATEST:
                    return False
                if dwell is not None and (type(dwell) not in (int, float) or not 0 <= dwell <= LATEST):
                    return False
                if download is not None and type(download) is not bool:
                    return False
                places.append(rank - 1)
                made.append((rank, time, dwell, download))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return False
        if self.cluster is not None and (user if self.cluster == "user" else session) is None:
            return False
        if name is None:
            content = hash(raw.rstrip(b"\r"))
        else:
            if timed and len(made) > 1:
                made.sort(key=_time)
            content = hash((tuple(documents), tuple(map(tuple, evidence)), tuple(made), query, session, user))
        if len(places) > 1:
            places = sorted(set(places))
        self._take(
            # CreditRow(...) goes through a Python function
            _new_row(CreditRow, (number, documents, evidence, places, bound, True)),
            name,
            content,
            user if self.cluster == "user" else session,
        )
        self._look(name, user, session)
        return True

    def add(self, number: int, impression: Impression, raw: bytes | None = None) -> None:
        """Take an impression."""
        if not self.header.admit(number, impression):
            return
        shown = impression.shown
        if self.like is None:
            self.like = (shown.method, shown.n_rankers, list(impression.rankers))
            if shown.method not in METHODS:
                raise ValueError(
                    f"{self.source}{number}: method: expected one of {', '.join(METHODS)}, got {shown.method!r:.80}"
                )
            self.pairs = list(combinations(range(shown.n_rankers), 2))
            self.columns = [([], []) for _ in self.pairs]
        cluster = None
        if self.cluster is not None:
            cluster = getattr(impression, self.cluster)
            if cluster is None:
                raise BadInput(
                    "cluster",
                    f"expected a {self.cluster!r} in every impression, {self.source}{number} has none",
                    "analyse without clusters, or log the id",
                )
        if self.weights is not None:
            try:
                features = [click_features(impression, i, j) for i, j in self.pairs]
            except ValueError as error:
                raise ValueError(f"{self.source}{number}: {error}") from None
            self.psi.append(np.array(features))
        name = shown.impression
        if name is not None:
            content = hash(said(impression))
        else:
            content = 0 if raw is None else hash(raw.rstrip(b"\r"))
        self._take(
            CreditRow(
                number,
                shown.documents,
                shown.evidence,
                np.flatnonzero(impression.clicked).tolist(),
                shown.bound,
                False,
            ),
            name,
            content,
            cluster,
        )
        self._look(name, impression.user, impression.session)

    def _look(self, name: str | int | None, user: str | int | None, session: str | int | None) -> None:
        """Count, among the first impressions of a log that is not clustered, those of a user or session seen before."""
        if self.cluster is not None or self.n_looked >= _LOOKED_AT:
            return
        if name is not None:
            if name in self.looked["impression"]:
                return
            self.looked["impression"].add(name)
        self.n_looked += 1
        for by, who in (("user", user), ("session", session)):
            if who is not None:
                self.n_again[by] += who in self.looked[by]
                self.looked[by].add(who)

    def _take(self, row: CreditRow, name: str | int | None, content: int, cluster: str | int | None) -> None:
        self.rows.append(row)
        self.contents.append(content)
        self.names.add(name)
        if self.cluster is not None:
            self.ids.add(cluster)

    def credit(self) -> None:
        """Credit the impressions taken since the last call, and keep their columns."""
        if not self.rows or self.like is None:
            return
        rows, (method, n_rankers, _) = self.rows, self.like
        numbers = np.array([row.number for row in rows], dtype=np.int64)
        n_clicks = np.array([len(row.places) for row in rows], dtype=np.int32)
        credit, outcome, spread = credit_rows(method, n_rankers, rows, self.source)
        self._keep(method, credit, outcome, spread, np.array([row.bound for row in rows]))
        self.numbers.append(numbers)
        self.n_clicks.append(n_clicks)
        self.content.append(np.array(self.contents, dtype=np.int64))
        self.names.settle()
        self.ids.settle()
        self.rows, self.contents, self.psi = [], [], []

    def _keep(self, method: str, credit: Float, outcome: Float, spread: Float, bound: Float) -> None:
        # linear credit in a record that does not say its bound
        self.has_bound &= method != _OPTIMIZED or not (spread > bound * (1 + 1e-9)).any()
        self.largest = max(self.largest, float(spread.max()))
        for p, (i, j) in enumerate(self.pairs):
            delta, won = self.columns[p]
            if self.weights is not None:
                delta.append(np.array([features[p] for features in self.psi]) @ self.weights)
            elif method not in (_PROBABILISTIC, _SOSM):
                delta.append(credit[:, i] - credit[:, j])
            won.append(outcome[:, p].copy())

    def _bound(self) -> float | None:
        """The most by which the statistic of an impression can differ from 0, whichever ranker the coins favoured."""
        assert self.like is not None
        largest, method = self.largest, self.like[0]
        if self.weights is not None:
            # no feature is larger for a team of so many clicks
            most = np.array([1, 1, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 1, 1]) * largest
            most += np.array([0, 0, 1, 0, 0, 1, 1, 1, 1, 1, 1, 3, 0, 0])
            return float(np.abs(self.weights) @ most)
        if method in DRAWN:
            return 1.0 if self.has_bound else None
        # document constraints: pairs of a clicked document below one that is not, and the next one of each
        return largest if method != "document_constraints" else largest**2 / 4 + largest / 2 + 1

    def log(self, place: str, n_missing_record: int) -> CreditedLog:
        """The columns, without repeated impressions."""
        n = sum(map(len, self.numbers))
        rankers = self.header.names(place, n, n_missing_record)
        assert self.like is not None
        numbers, content = _joined(self.numbers), _joined(self.content)
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
        del numbers, content, names
        clicked = _joined(self.n_clicks)[keep] > 0
        codes = None
        if self.cluster is not None:
            codes = _codes(self.ids.rows()[keep])
        pairs = []
        for own, won in self.columns:
            outcome = _joined(won)[keep]
            if self.like[0] == _OPTIMIZED and self.has_bound:
                own.clear()  # the outcome is the statistic
            pairs.append(PairColumns(_joined(own)[keep] if own else outcome, outcome))
        return CreditedLog(
            self.like[0], rankers, tuple(pairs), len(clicked), int(clicked.sum()), self.header.n_missing,
            n_missing_record, n_repeated, n_identical, self.weights is not None, self.cluster, codes, self._bound(),
            next(((by, n, self.n_looked) for by, n in self.n_again.items() if n), None),
        )  # fmt: skip

    def _distinct(self, names: Int, numbers: Int, content: Int) -> tuple[Any, int]:
        """Which impressions are the first of their id, and how many are not; ValueError where two disagree."""
        first = _first_rows(names)
        repeated = (first != np.arange(len(first))) & names.any(axis=1)
        again = np.flatnonzero(repeated)
        wrong = again[content[again] != content[first[again]]]
        if wrong.size:
            refuse_disagreement(
                self.source, int(numbers[first[wrong[0]]]), int(numbers[wrong[0]]), "with this id"
            )
        return (~repeated if again.size else slice(None)), int(again.size)


def _time(click: tuple[int, Any, Any, Any]) -> Any:
    return click[1]


def _check_weights(weights: ArrayLike) -> Float:
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (len(FEATURES),) or not np.isfinite(w).all():
        raise BadInput(
            "weights", f"expected {len(FEATURES)} finite numbers, one a feature, got shape {w.shape}"
        )
    return w


class _Digests:
    """128 bits for each id, zeros for none: two of Python's 64-bit hashes, whose key is drawn anew in each process."""

    def __init__(self) -> None:
        self.any = False
        self._recent: list[int] = []
        self._settled: list[Int] = []

    def add(self, name: str | int | None) -> None:
        """Take an id. 1 and "1" are two; integers are hashed as text, as hash(-1) == hash(-2)."""
        if name is None:
            self._recent += (0, 0)
            return
        self.any = True
        first, second = (name, "s" + name) if type(name) is str else (f"i{name}", f"j{name}")
        self._recent += (hash(first), hash(second))

    def settle(self) -> None:
        """Put what was taken since the last call into an array."""
        if self._recent:
            self._settled.append(np.array(self._recent, dtype=np.int64))
            self._recent = []

    def rows(self) -> Int:
        """Digests, shape (n_ids, 2), which are given away."""
        return _joined(self._settled).reshape(-1, 2)


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """One array of the parts, which are freed."""
    whole = np.concatenate(parts)
    parts.clear()
    return whole


def _first_rows(digests: Int) -> Int:
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


def _codes(digests: Int) -> Int:
    """Numbers from 0 by first appearance."""
    first = _first_rows(digests)
    return np.asarray((np.cumsum(first == np.arange(len(first))) - 1)[first], dtype=np.int64)


def credit_rows(
    method: str, n_rankers: int, rows: Sequence[CreditRow], source: str = "impression "
) -> tuple[Float, Float, Float]:
    """Credit impressions of one method.

    Parameters
    ----------
    method : str
    n_rankers : int
    rows : sequence of CreditRow
    source : str
        What stands before the number of an impression in an error.

    Returns
    -------
    credit : ndarray, shape (n, n_rankers)
    outcome : ndarray, shape (n, n_pairs)
        Of every two rankers, in the order of ``itertools.combinations``.
    spread : ndarray, shape (n,)
        The most by which credits can differ on the list: places of a team (team draft) or difference for one click
        (optimised).

    Raises
    ------
    ValueError
        With ``source`` and number, for an impression that its method cannot have made.
    """
    pairs = list(combinations(range(n_rankers), 2))
    credit = np.empty((len(rows), n_rankers))
    outcome = np.empty((len(rows), len(pairs)))
    spread = np.zeros(len(rows))
    groups: dict[tuple[int, int, int], list[int]] = {}
    for k, row in enumerate(rows):
        groups.setdefault((len(row.documents), len(row.places), len(row.evidence)), []).append(k)
    for (_, n_clicked, n_evidence), members in groups.items():
        # as many at once as keeps tables of all pairs of rankers small
        step = max(1, _ENTRIES // (max(n_evidence, n_rankers) ** 2 * (2 * n_clicked + 1)))
        for start in range(0, len(members), step):
            some = members[start : start + step]
            columns = _credit_alike(method, n_rankers, [rows[k] for k in some], pairs)
            if columns is None:
                for k in some:
                    _credit_one(
                        method, n_rankers, rows[k], pairs, source, (credit[k], outcome[k], spread[k:])
                    )
            else:
                credit[some], outcome[some], spread[some] = columns
    return credit, outcome, spread


def _credit_one(
    method: str, n_rankers: int, row: CreditRow, pairs: list[tuple[int, int]], source: str,
    into: tuple[Float, Float, Float],
) -> None:  # fmt: skip
    """By the method itself: what has no rule for many at once, and what is refused."""
    credit, outcome, spread = into
    shown = Shown(method, tuple(row.documents), n_rankers, tuple(map(tuple, row.evidence)), bound=row.bound)
    clicked = np.zeros(len(row.documents), dtype=bool)
    clicked[list(row.places)] = True
    try:
        if row.unchecked:
            Shown.from_dict({**shown.to_dict(), "evidence": list(row.evidence)})
        credit[:] = METHODS[method].credit(shown, clicked)
        if method == _OPTIMIZED:
            spread[0] = np.ptp(np.array(row.evidence, dtype=np.float64), axis=0).max()
        bounded = method != _OPTIMIZED or spread[0] <= row.bound * (1 + 1e-9)
        matrix = METHODS[method].outcome(shown, clicked) if bounded else signs(credit)
    except ValueError as error:
        raise ValueError(f"{source}{row.number}: {error}") from None
    outcome[:] = [matrix[pair] for pair in pairs]
    if method == _TEAM_DRAFT:
        spread[0] = max(list(row.evidence[0]).count(ranker) for ranker in range(n_rankers))
    elif method not in DRAWN:
        spread[0] = len(row.documents)


def _credit_alike(
    method: str, n_rankers: int, rows: list[CreditRow], pairs: list[tuple[int, int]]
) -> tuple[Float, Float, Float] | None:
    """Credit, outcome of each pair and spread of credits of impressions with as many documents and clicks.

    The formulas of the methods, on whole columns; None where one of the impressions has to go to its method: all are
    of a method without such formulas, or one is to be refused.
    """
    n_rows = 1 if method == _TEAM_DRAFT else n_rankers
    if method not in (_TEAM_DRAFT, _PROBABILISTIC, _OPTIMIZED, _SOSM) or len(rows[0].evidence) != n_rows:
        return None
    try:
        # flat: NumPy looks for the shape of nested lists one by one
        flat = list(chain.from_iterable(chain.from_iterable(row.evidence for row in rows)))
        values = np.array(flat, dtype=np.float64).reshape(len(rows), n_rows, -1)
    except (OverflowError, ValueError):
        return None
    places = np.array([row.places for row in rows], dtype=np.int64).reshape(len(rows), 1, -1)
    clicked = np.take_along_axis(values, places, axis=2)
    spread = np.zeros(len(rows))
    i, j = np.array(pairs).T
    if method == _TEAM_DRAFT:
        team = values[:, 0]
        known = ~np.isnan(team)
        if not ((team >= 0) & (team < n_rankers) & (team == np.floor(team)))[known].all():
            return None
        credit = np.stack([(clicked[:, 0] == ranker).sum(axis=1) for ranker in range(n_rankers)], axis=1)
        credit = credit.astype(np.float64)
        spread = np.stack([(team == ranker).sum(axis=1) for ranker in range(n_rankers)]).max(axis=0)
        return credit, np.sign(credit[:, i] - credit[:, j]), spread.astype(np.float64)
    if not (np.abs(values) <= 1e12).all():
        return None
    total, axis = {_PROBABILISTIC: (1.0, 1), _OPTIMIZED: (0.0, 1), _SOSM: (1.0, 2)}[method]
    off = np.abs(values.sum(axis=axis) - total) / np.maximum(1.0, np.abs(values).max(axis=axis))
    if not (off <= 1e-9).all() or (method != _OPTIMIZED and not (values >= 0).all()):
        return None
    if method == _PROBABILISTIC:
        wins = _duels(clicked)
        return wins.sum(axis=2) / (n_rankers - 1), wins[:, i, j] - wins[:, j, i], spread
    credit = clicked.sum(axis=2)
    if method == _OPTIMIZED:
        spread = np.ptp(values, axis=1).max(axis=1)
        largest = np.array([row.bound for row in rows])
        if (spread > largest * (1 + 1e-9)).any():
            return None
    else:
        by_place = np.arange(1, values.shape[2] + 1) ** -3.0
        largest = np.full(len(rows), (by_place[0] - by_place[-1]) / by_place.sum())
    # as ``share_of_largest``
    outcome = np.zeros((len(rows), len(i)))
    if places.shape[2] and largest.all():
        outcome = (credit[:, i] - credit[:, j]) / (places.shape[2] * largest)[:, None]
    if np.abs(outcome).max(initial=0.0) > 1 + 1e-9:
        return None
    outcome[np.abs(outcome) <= 1e-12] = 0.0
    return credit, outcome.clip(-1, 1), spread


def _duels(posterior: Float) -> Float:
    """``duel_probabilities`` of many impressions with as many clicks, (n, n_rankers, n_rankers)."""
    m, n, n_clicked = posterior.shape
    difference = np.zeros((m, n, n, 2 * n_clicked + 1))
    difference[..., n_clicked] = 1.0
    for c in range(n_clicked):
        up, down = posterior[:, :, None, None, c], posterior[:, None, :, None, c]
        following = difference * np.maximum(1 - up - down, 0.0)
        following[..., 1:] += difference[..., :-1] * up
        following[..., :-1] += difference[..., 1:] * down
        difference = following
    wins = difference[..., n_clicked + 1 :].sum(axis=3)
    wins[:, np.arange(n), np.arange(n)] = 0.0
    return np.asarray(wins)
