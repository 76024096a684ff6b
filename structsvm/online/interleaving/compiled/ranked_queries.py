"""Rankings of several rankers as arrays for compiled comparisons."""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.common.checks import BadInput
from structsvm.online.users.click_tables import check_grades


class RankedQueries(NamedTuple):
    """Rankings of the documents of all queries by several rankers.

    Each row of ``rankings`` contains, for each query, its documents (numbered from 0) in the order of a ranker; each
    row of ``places`` contains the rank of each document, from 0. Use :meth:`from_scores` to create an instance; the
    constructor does not check its arguments.
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
        cls, scores: ArrayLike, grades: ArrayLike, offsets: ArrayLike, *, random_state: Any = 0
    ) -> Self:
        """Rank the documents of each query by each column of ``scores`` (dense or sparse), in descending order.

        The order of tied documents is random, and is drawn once per ranker and query. Queries without documents are
        left out.
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
        rankings, places = np.empty((2, dense.shape[1], dense.shape[0]), dtype=np.int32)
        position = np.arange(dense.shape[0]) - first_row
        for ranking, inverse, column in zip(rankings, places, dense.T, strict=True):
            # lexsort sorts by the last key first: query, then score, then a random number for ties
            keys: Any = (generator.random(dense.shape[0]), -column, query)
            rows = np.lexsort(keys)
            ranking[:], inverse[rows] = rows - first_row, position
        return cls(rankings, places, checked, starts)


def _check_layout(
    grades: ArrayLike, offsets: ArrayLike, n_rows: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    starts = np.asarray(offsets)
    ok = starts.ndim == 1 and starts.shape[0] >= 2 and starts.dtype.kind in "iu"
    if not ok or starts[0] != 0 or starts[-1] != n_rows or (np.diff(starts) < 0).any():
        raise BadInput("offsets", f"expected integers increasing from 0 to {n_rows}, got {starts!r:.80}")
    array = np.asarray(grades)
    if array.shape != (n_rows,):
        raise BadInput("grades", f"expected one grade for each of {n_rows} rows, got shape {array.shape}")
    # np.unique merges equal offsets, which leaves out queries without documents
    checked = check_grades(array, int(array.max(initial=0)) + 1 if np.isfinite(array).all() else 1)
    starts = np.unique(starts.astype(np.int64))
    if starts.shape[0] < 2:
        raise BadInput("offsets", "expected at least one query with documents, got none")
    return checked, starts
