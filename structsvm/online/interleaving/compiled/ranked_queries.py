"""Rankings of several rankers as arrays for compiled comparisons."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.common.checks import BadInput
from structsvm.online.users.click_tables import check_grades


class RankedQueries(NamedTuple):
    """The documents of all queries as ranked by several rankers.

    A row of ``rankings`` has, for each query, its documents, numbered from 0, in the order of a ranker; a row of
    ``places`` has the rank of each document, from 0. Build it with :meth:`from_scores` or :meth:`from_rankings`; the
    constructor does not check anything.
    """

    rankings: NDArray[np.int32]
    places: NDArray[np.int32]
    grades: NDArray[np.int64]
    offsets: NDArray[np.int64]

    @property
    def n_rankers(self) -> int:
        """Number of rankers."""
        return int(self.rankings.shape[0])

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return int(self.offsets.shape[0] - 1)

    @classmethod
    def from_scores(
        cls, scores: Any, grades: ArrayLike, offsets: ArrayLike, *, random_state: Any = 0
    ) -> RankedQueries:
        """Rank the documents of each query by each column of ``scores`` (dense or sparse), highest first.

        The order of tied documents is drawn once per ranker and query. Queries without documents are left out.
        """
        dense = np.asarray(scores.toarray() if hasattr(scores, "toarray") else scores)
        if dense.ndim != 2 or dense.shape[1] == 0:
            raise BadInput("scores", f"expected a matrix (rows, rankers), got shape {dense.shape}")
        bad = np.argwhere(np.isnan(dense))
        if bad.size:
            raise BadInput("scores", f"expected numbers, got NaN at row {bad[0, 0]}, ranker {bad[0, 1]}")
        checked, starts = _check_layout(grades, offsets, dense.shape[0])
        query = np.repeat(np.arange(starts.shape[0] - 1), np.diff(starts))
        generator = np.random.default_rng(random_state)
        first_row = starts[:-1].repeat(np.diff(starts))
        rankings = np.empty((dense.shape[1], dense.shape[0]), dtype=np.int32)
        for ranker, column in zip(rankings, dense.T, strict=True):
            # lexsort sorts by the last key first: query, then score, then a random number for ties
            keys: Any = (generator.random(dense.shape[0]), -column, query)
            ranker[:] = np.lexsort(keys) - first_row
        return cls(rankings, _inverse(rankings, first_row), checked, starts)

    @classmethod
    def from_rankings(cls, rankings: ArrayLike, grades: ArrayLike, offsets: ArrayLike) -> RankedQueries:
        """Return the given rankings: for each ranker and query a permutation of its documents 0, 1, ..."""
        array = np.asarray(rankings)
        if array.ndim != 2 or array.shape[0] == 0 or array.dtype.kind not in "iu":
            raise BadInput("rankings", f"expected integers (rankers, rows), got {array.dtype} {array.shape}")
        checked, starts = _check_layout(grades, offsets, array.shape[1])
        first_row = starts[:-1].repeat(np.diff(starts))
        rows = np.sort(array + first_row, axis=1)
        # with the first row of its query added, a permutation sorts to 0, 1, 2, ...; values out of range may do so too
        sizes = np.diff(starts).repeat(np.diff(starts))
        wrong = (rows != np.arange(array.shape[1])) | (array < 0) | (array >= sizes)
        if wrong.any():
            ranker, row = (int(i) for i in np.argwhere(wrong)[0])
            q = int(np.searchsorted(starts, row, side="right")) - 1
            raise BadInput(
                "rankings",
                f"expected a permutation of the documents 0 to {sizes[row] - 1} of query {q}, got "
                f"{array[ranker, starts[q] : starts[q + 1]].tolist()!r:.80}",
                at=f"[{ranker}]",
            )
        contiguous = np.ascontiguousarray(array, dtype=np.int32)
        return cls(contiguous, _inverse(contiguous, first_row), checked, starts)


def _check_layout(
    grades: ArrayLike, offsets: ArrayLike, n_rows: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    starts = np.asarray(offsets)
    ok = starts.ndim == 1 and starts.shape[0] >= 2 and starts.dtype.kind in "iu"
    if not ok or starts[0] != 0 or starts[-1] != n_rows or (np.diff(starts) < 0).any():
        raise BadInput("offsets", f"expected integers rising from 0 to {n_rows} (rows), got {starts!r:.80}")
    array = np.asarray(grades)
    if array.shape != (n_rows,):
        raise BadInput("grades", f"expected one grade for each of {n_rows} rows, got shape {array.shape}")
    # queries without documents are left out: equal offsets become one
    checked = check_grades(array, int(array.max(initial=0)) + 1 if np.isfinite(array).all() else 1)
    starts = np.unique(starts.astype(np.int64))
    if starts.shape[0] < 2:
        raise BadInput("offsets", "expected at least one query with documents")
    return checked, starts


def _inverse(rankings: NDArray[np.int32], first_row: NDArray[np.int64]) -> NDArray[np.int32]:
    places = np.empty_like(rankings)
    position = (np.arange(rankings.shape[1]) - first_row).astype(np.int32)
    for ranking, inverse in zip(rankings, places, strict=True):
        inverse[ranking + first_row] = position
    return places
