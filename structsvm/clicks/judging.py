"""Judgments from clicks: the quality of each document, with counts and intervals, as TREC qrels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from structsvm.clicks.cells import ClickCells, check_cells, check_clicked
from structsvm.clicks.propensities import Propensities, given_or_harvested
from structsvm.common.checks import BadInput, check_choice, check_fraction, counted
from structsvm.common.files import csv_lines, replacing
from structsvm.protocols import Float, Int


@dataclass(frozen=True, eq=False, repr=False)
class ClickJudgments:
    """Judgments of all documents that were shown.

    Attributes
    ----------
    query, document : ndarray, shape (n_rows,)
        Ids of the query and the document.
    value, lower, upper : ndarray of float64, shape (n_rows,)
        Estimate and the ends of its interval.
    shows, clicks : ndarray of int64, shape (n_rows,)
        Number of impressions of the document, and number of those with a click.
    method : str
        The method of :func:`judgments`.
    known : ndarray of bool, shape (n_rows,)
        Whether the log is informative about each document. It is not if the document was shown only at positions
        without clicks or examination: the value is then 0, the interval contains all values, and no qrels are written
        for the document.

    Examples
    --------
    >>> from structsvm.clicks import ClickCells, judgments
    >>> cells = ClickCells.from_arrays([1] * 4, [5, 6, 6, 5], [1, 2, 1, 2], [1, 0, 1, 1], session=[1, 1, 2, 2])
    >>> found = judgments(cells)
    >>> for document, value, shows, clicks in zip(found.document, found.value, found.shows, found.clicks):
    ...     print(f"document {document}: {value:.2f} (shows: {shows}, clicks: {clicks})")
    document 5: 1.33 (shows: 2, clicks: 2)
    document 6: 0.67 (shows: 2, clicks: 1)
    """

    query: NDArray[Any]
    document: NDArray[Any]
    value: Float
    lower: Float
    upper: Float
    shows: Int
    clicks: Int
    method: str

    @property
    def known(self) -> NDArray[np.bool_]:
        """Whether the log is informative about each document."""
        return (self.lower > 0) | (self.upper < METHODS[self.method].most)

    def grades(
        self, levels: Sequence[float] | None = None, *, bound: Literal["value", "lower"] = "value"
    ) -> Int:
        """Return integer grades: the number of ascending ``levels`` (default: by method) that the value reaches.

        With ``bound="lower"`` the lower end of the interval must reach a level, so that few impressions do not lead to
        a high grade.
        """
        check_choice("bound", bound, ("value", "lower"))
        limits = np.asarray(METHODS[self.method].levels if levels is None else levels, dtype=np.float64)
        if limits.ndim != 1 or not limits.size or not (np.diff(limits) > 0).all():
            raise BadInput("levels", "expected numbers in ascending order", value=levels)
        return np.asarray(np.searchsorted(limits, getattr(self, bound), side="right"), dtype=np.int64)

    def write_qrels(
        self,
        path: str | PathLike[str],
        levels: Sequence[float] | None = None,
        *,
        bound: Literal["value", "lower"] = "value",
    ) -> None:
        """Write grades of documents that are ``known`` as TREC qrels; the file is written completely or not at all.

        Raises
        ------
        BadInput
            For an id with white space, which the format cannot hold.
        """
        for kind, ids in (("query", self.query), ("document", self.document)):
            for name in map(str, ids):
                if name.split() != [name]:
                    raise BadInput(
                        kind,
                        f"expected ids without white space for TREC qrels, got {name!r:.60}",
                        "use ids without white space, or call write_table",
                    )
        grades, known = self.grades(levels, bound=bound), self.known
        with replacing(Path(path)) as file:
            rows = zip(self.query[known], self.document[known], grades[known], strict=True)
            file.writelines(f"{q} 0 {d} {grade}\n".encode() for q, d, grade in rows)

    def write_table(self, path: str | PathLike[str]) -> None:
        """Write tab-separated columns: query, document, value, lower, upper, shows, clicks.

        Ids that contain tabs, quotes or line breaks are quoted, as in CSV.
        """
        names = ("query", "document", "value", "lower", "upper", "shows", "clicks")
        rows = (
            (q, d, f"{v:.6g}", f"{low:.6g}", f"{high:.6g}", n, c)
            for q, d, v, low, high, n, c in zip(*self._columns(), strict=True)
        )
        with replacing(Path(path)) as file:
            file.writelines(f"{line}\n".encode() for line in csv_lines(chain([names], rows), mark="\t"))

    def _columns(self) -> tuple[NDArray[Any], ...]:
        """Return the estimates of each document, in the order of the fields."""
        return (self.query, self.document, self.value, self.lower, self.upper, self.shows, self.clicks)

    def __repr__(self) -> str:
        return f"ClickJudgments({counted(document=self.value.shape[0])}, {self.method})"


def judgments(
    cells: ClickCells,
    method: str = "coec",
    *,
    propensities: Propensities | Sequence[float] | None = None,
    level: float = 0.95,
) -> ClickJudgments:
    """Judge documents by their clicks.

    Parameters
    ----------
    cells : ClickCells
        A click log; ``"sdbn"`` requires sessions.
    method : {"coec", "sdbn", "ips"}, default="coec"
        ``"coec"``: clicks over expected clicks, ``clicks / sum over impressions of CTR(position)``; 1 is the average
        document. Click-through rates of positions are biased themselves, because better documents are at the top.
        ``"ips"``: attraction, ``clicks / sum over impressions of propensity(position)``.
        ``"sdbn"``: attraction times satisfaction of the simplified dynamic Bayesian network.
    propensities : Propensities or sequence of float, optional
        For ``"ips"``; default: :func:`~structsvm.clicks.harvest` of the log.
    level : float, default=0.95
        Confidence level of the intervals: exact for Poisson clicks, with rates and propensities taken as known
        (``"coec"``, ``"ips"``); Wilson's interval for the share of examinations after which the user is satisfied
        (``"sdbn"``).

    Returns
    -------
    ClickJudgments

    Notes
    -----
    COEC: Zhang & Jones (WWW 2007). Expected clicks are summed over all impressions, each at its own position.

    Examples
    --------
    >>> cells = ClickCells.from_arrays([1] * 4, [5, 6, 6, 5], [1, 2, 1, 2], [1, 0, 1, 0])
    >>> judgments(cells).value
    array([1., 1.])
    """
    check_cells(cells)
    check_choice("method", method, tuple(METHODS))
    check_fraction("level", level)
    check_clicked(cells.clicks)
    judged = METHODS[method].judge(cells, propensities, level)
    shows, clicks = (cells.per_row(v).astype(np.int64) for v in (cells.shows, cells.clicks))
    return ClickJudgments(cells.query_ids[cells.row_query], cells.docid, *judged, shows, clicks, method)


Judged = tuple[Float, Float, Float]
"""Value of each row, and the lower and upper end of its interval."""


def _coec(cells: ClickCells, propensities: object, level: float) -> Judged:
    return _over_expected(cells, cells.per_position()[2][cells.position - 1], level)


def _ips(cells: ClickCells, propensities: object, level: float) -> Judged:
    return _over_expected(cells, given_or_harvested(cells, propensities).at(cells.position), level)


def _over_expected(cells: ClickCells, rate: Float, level: float) -> Judged:
    """Return clicks / expected clicks, given the examination rate of each cell, with exact Poisson intervals."""
    clicks, expected = cells.per_row(cells.clicks), cells.per_row(cells.shows * rate)
    tail = (1 - level) / 2
    # no clicks are expected for a document that was shown only at positions without clicks: its value is unknown
    safe = np.where(expected > 0, expected, 1.0)
    return (
        np.where(expected > 0, clicks / safe, 0.0),
        np.where(clicks > 0, stats.chi2.ppf(tail, np.maximum(2 * clicks, 1)) / 2 / safe, 0.0),
        np.where(expected > 0, stats.chi2.ppf(1 - tail, 2 * clicks + 2) / 2 / safe, np.inf),
    )


def _sdbn(cells: ClickCells, propensities: object, level: float) -> Judged:
    from structsvm.clicks.cascades import read_until
    from structsvm.clicks.position_based import sessions_of

    sessions = sessions_of(cells)
    _, last = read_until(sessions.offsets, sessions.clicked)
    weight = sessions.counts
    looks, ended = (np.bincount(sessions.row, weight * w, cells.n_rows) for w in (last > 0, last == 2))
    # attraction times satisfaction is (clicks / looks) * (last clicks / clicks)
    n = np.maximum(looks, 1)
    share = ended / n
    z = float(stats.norm.ppf(0.5 + level / 2))
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    known = looks > 0
    return (
        np.where(known, share, 0.0),
        np.where(known, np.maximum(centre - half, 0.0), 0.0),
        np.where(known, np.minimum(centre + half, 1.0), 1.0),
    )


class Method(NamedTuple):
    """A method that judges documents by their clicks."""

    judge: Callable[[ClickCells, Any, float], Judged]
    levels: tuple[float, ...]
    """Lowest values at which a document has grade 1, 2 and 3."""

    meaning: str = "the judgment of this method"
    """Description of the value."""

    most: float = np.inf
    """The largest value."""


METHODS: dict[str, Method] = {
    "coec": Method(
        _coec, (0.5, 1.0, 2.0), "the number of clicks relative to an average document at the same positions"
    ),
    "ips": Method(_ips, (0.1, 0.3, 0.6), "the share of clicks among examinations (attraction)"),
    "sdbn": Method(_sdbn, (0.1, 0.3, 0.6), "the share of examinations that satisfy the user", 1.0),
}
"""Methods by name."""
