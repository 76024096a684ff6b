"""``EvaluationResult``: the values of one measure for several queries."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import BadInput, check_fraction, counted
from structsvm.common.frames import frame
from structsvm.metrics.tests import UNBOUNDED, mean_of
from structsvm.plots.html_by import html_by
from structsvm.protocols import Float


@dataclass(frozen=True, eq=False, repr=False)
class EvaluationResult:
    """Values of one measure for several queries.

    Attributes
    ----------
    name : str
        Name of the measure, as given.
    mean : float
        Mean over queries; NaN if ``empty="skip"`` left out all queries.
    per_query : ndarray of float64, shape (n_queries,)
        One value per query; NaN if ``empty="skip"`` left the query out.
    query_ids : ndarray of int64 or str, shape (n_queries,)
        Query of each value; queries are in the order of their first rows.
    bounds : tuple of two floats
        Range of the measure; infinite for a function and for DCG.

    Examples
    --------
    >>> from structsvm.metrics import evaluate
    >>> result = evaluate("map", [1, 0, 0, 1], [0.9, 0.1, 0.8, 0.2], qid=["a", "a", "b", "b"])
    >>> result
    EvaluationResult(map 0.7500, 2 queries)
    >>> dict(zip(result.query_ids.tolist(), result.per_query.tolist()))
    {'a': 1.0, 'b': 0.5}
    """

    name: str
    mean: float
    per_query: Float
    query_ids: NDArray[Any]
    bounds: tuple[float, float] = UNBOUNDED

    def __repr__(self) -> str:
        left_out = int(np.isnan(self.per_query).sum())
        note = f", {left_out} left out" if left_out else ""
        queries = counted(query=self.per_query.size - left_out)
        return f"EvaluationResult({self.name} {self.mean:.4f}, {queries}{note})"

    def paired(self, other: "EvaluationResult") -> tuple[Float, Float]:
        """Return the values of this and of another result, in the order of these queries."""
        if self.name != other.name:
            raise BadInput(
                "a and b", f"expected results of one measure, got {self.name!r} and {other.name!r}"
            )
        row_of = {query: row for row, query in enumerate(other.query_ids.tolist())}
        ids = dict.fromkeys(self.query_ids.tolist())
        for name, own, others in (("a", ids, row_of), ("b", row_of, ids)):
            lonely = next((query for query in own if query not in others), None)
            if lonely is not None:
                raise BadInput("a and b", f"expected the same queries, but {lonely!r} is in {name} only")
        return self.per_query, other.per_query[[row_of[query] for query in ids]]

    def interval(self, *, level: float = 0.95) -> tuple[float, float]:
        """Return Student's t interval of the mean over queries, clipped to the range of the measure.

        Parameters
        ----------
        level : float, default=0.95
            Confidence level.

        Returns
        -------
        tuple of two floats
            Lower and upper end of the interval; NaN if all values are equal, as for a single query.

        Examples
        --------
        >>> from structsvm.metrics import evaluate
        >>> result = evaluate("map", [1, 0, 0, 1, 1, 0], [2, 1, 2, 1, 2, 1], qid=[1, 1, 2, 2, 3, 3])
        >>> "{:.2f} to {:.2f}".format(*result.interval(level=0.5))
        '0.70 to 0.97'
        """
        check_fraction("level", level)
        values = self.per_query[~np.isnan(self.per_query)]
        return mean_of(values).interval(level, self.bounds) if values.size else (math.nan, math.nan)

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per query and one column, named after the measure.

        Examples
        --------
        >>> from structsvm.metrics import evaluate
        >>> evaluate("map", [1, 0, 0, 1], [2, 1, 2, 1], qid=["a", "a", "b", "b"]).to_frame().to_dict()
        {'map': {'a': 1.0, 'b': 0.5}}
        """
        return frame({self.name: self.per_query}, index=self.query_ids, index_name="query")

    _repr_html_ = html_by("evaluation")
