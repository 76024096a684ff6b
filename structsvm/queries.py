"""``QueryData``, the container of labelled rows grouped by query, and checks of its parts.

``features/input_rows.py`` checks the arguments of ``fit``.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from structsvm.common.checks import BadInput, counted, first_few
from structsvm.common.names import QID
from structsvm.common.row_checks import (
    check_offsets as check_offsets,
    check_sparse as check_sparse,
    first_beyond as first_beyond,
    refuse_first as refuse_first,
    warn_user as warn_user,
)
from structsvm.common.tables.ids import exact_array, id_texts, ids_of, qid_of
from structsvm.protocols import Float, Int

LARGEST = 1e100
"""Largest magnitude of a feature for which the squared norm of a joint feature vector cannot overflow."""


class SingleQueryWarning(UserWarning):
    """Warning that no query ids were given, so that all rows are ranked as one query.

    If the rows belong to several queries, measures of this single ranking are meaningless. Pass ``qid``; for rows of
    one query, pass its id: ``qid=0``.

    Examples
    --------
    >>> import warnings
    >>> from structsvm.metrics import evaluate
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     value = evaluate("map", [1, 0], [2.0, 1.0]).mean, evaluate("map", [1, 0], [2.0, 1.0], qid=0).mean
    >>> value, len(caught), caught[0].category is SingleQueryWarning
    ((1.0, 1.0), 1, True)
    """


def one_query(qid: ArrayLike, caller: str) -> Any:
    """Return ``qid``; if it is None, emit a :class:`SingleQueryWarning` and return 0, which is an id for all rows."""
    if qid is not None:
        return qid
    warn_user(
        f"{caller}: expected qid, the query of each row, got none; all rows are ranked as one query. If they are "
        "one query, pass its id: qid=0. In cross-validation call sklearn.set_config(enable_metadata_routing=True) and "
        "pass qid along",
        SingleQueryWarning,
    )
    return 0


@dataclass(frozen=True)
class Grouping:
    """Division of rows into queries: ``offsets``, ``query_ids`` in the order of their first rows, and ``order``.

    Grouped row ``i`` is row ``order[i]`` of the input; ``order`` is None if the rows of each query are contiguous.
    """

    offsets: Int
    query_ids: NDArray[Any]
    order: Int | None


def group_queries(qid: Any, n_rows: int) -> Grouping:
    """Group rows by query id; queries are in the order of their first rows, and the rows of a query keep their order.

    A single int is the id of all rows, and None means 0; callers warn about None through :func:`one_query`.
    """
    refuse_name(qid)
    if qid is None or (isinstance(qid, (int, np.integer)) and not isinstance(qid, bool)):
        return Grouping(offsets_of([n_rows]), _check_ids([0 if qid is None else qid], 1)[0], None)
    return group_ids(*_check_ids(qid, n_rows))


def group_ids(ids: NDArray[Any], lengths: Int | None = None) -> Grouping:
    """Group rows by the ids of a reader, which are int64 or text, as :func:`group_queries` does; each id stands for
    ``lengths`` rows, by default one."""
    if len(ids) == 0:
        return Grouping(np.zeros(1, dtype=np.int64), ids[:0], None)
    # runs of equal ids; if no id has two runs, rows are already contiguous, and are not sorted
    starts = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1])))
    run_ids, bounds = ids[starts], np.append(starts, len(ids)).astype(np.int64)
    if lengths is not None:
        bounds = offsets_of(lengths)[bounds]
    unique, first, inverse = np.unique(run_ids, return_index=True, return_inverse=True)
    if unique.shape[0] == run_ids.shape[0]:
        return Grouping(bounds, run_ids, None)
    # number the queries by their first runs, then sort rows by the number with a stable sort
    number = np.empty(unique.shape[0], dtype=np.int64)
    number[np.argsort(first, kind="stable")] = np.arange(unique.shape[0])
    run_number = number[inverse.ravel()]
    row_number = np.repeat(run_number, np.diff(bounds))
    order = np.argsort(row_number, kind="stable").astype(np.int64)
    counts = np.bincount(row_number, minlength=unique.shape[0])
    return Grouping(offsets_of(counts), run_ids[np.sort(first)], order)


def refuse_name(qid: ArrayLike) -> None:
    """Raise if ``qid`` is a string, such as the name of a column, instead of ids."""
    if isinstance(qid, str):
        raise BadInput(
            "qid",
            "expected the query of each row, got a string",
            "pass the values of the column, and X without it; a column called 'qid' is found without {qid}. If "
            "all rows are one query, pass {qid=0}",
            value=qid,
        )


def split_qid(X: Any, qid: Any) -> tuple[Any, Any]:
    """Return ``X`` without its column ``qid`` (pandas, polars or Arrow), and the query ids; the argument takes
    precedence."""
    refuse_name(qid)
    _refuse_other_kinds(X)
    if hasattr(X, "column_names") and hasattr(X, "to_pandas"):  # an Arrow table
        X = X.to_pandas()
    columns = getattr(X, "columns", None)
    if columns is None or QID not in columns:
        return X, qid
    return X[[c for c in columns if c != QID]], qid_of(X, qid)


def _refuse_other_kinds(X: object) -> None:
    """Raise for objects that contain no rows in memory, or whose columns NumPy would not separate."""
    expected = "expected a matrix or a frame"
    if isinstance(X, str | PurePath):
        raise BadInput("X", f"{expected}, got the text {str(X)!r:.60}", "read the file first")
    if type(X).__name__ == "LazyFrame":  # of polars, which need not be installed
        raise BadInput("X", f"{expected}, got a LazyFrame", "compute it first", code="X.collect()")
    if isinstance(X, np.ndarray) and X.dtype.names is not None:
        fields = ", ".join(X.dtype.names[:4])
        raise BadInput(
            "X",
            f"{expected}, got a structured array with the fields {fields:.60}",
            "convert it to a frame",
            code="pd.DataFrame(X)",
        )


def _check_ids(qid: Any, n_rows: int) -> tuple[NDArray[Any], Int | None]:
    """Return ids as int64 or strings, and the number of rows of each (None: one)."""
    refuse_masked("qid", qid)
    ids = exact_array(qid)
    if ids.ndim == 2 and ids.shape[1] == 1:  # frame[["qid"]]
        ids = ids[:, 0]
    if ids.ndim != 1:
        raise BadInput("qid", f"expected one id per row (shape ({n_rows},)), got shape {ids.shape}")
    if ids.shape[0] != n_rows:
        numbers = np.asarray(ids.tolist())
        # perhaps group sizes, as LightGBM takes them
        sizes = numbers.dtype.kind in "iu" and numbers.sum() == n_rows
        raise BadInput(
            "qid",
            f"expected {n_rows} ids, one for each row of X, got {ids.shape[0]}",
            "their sum is the number of rows, as for group sizes: repeat each group's id" if sizes else "",
            code="qid = np.repeat(np.arange(len(group)), group)" if sizes else "",
        )
    if ids.dtype.kind == "U" and n_rows:  # the rows of a query are usually contiguous
        starts = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1])))
        with suppress(BadInput):  # its place is not that of the row
            return ids_of("qid", ids[starts])[0], np.diff(starts, append=n_rows)
    return ids_of("qid", ids)[0], None


def unit_weights(weights: ArrayLike, n: int, each: str = "query") -> Float:
    """Return weights scaled to sum to one; equal weights for None. ``each`` names the weighted items in errors."""
    if weights is None:
        return np.full(n, 1.0 / n)
    values = np.asarray(weights, dtype=np.float64)
    if values.shape != (n,):
        raise BadInput("weights", f"expected {n} values, one for each {each}, got shape {values.shape}")
    refuse_first("weights", values, ~(np.isfinite(values) & (values >= 0)), "a finite value >= 0")
    total = float(values.sum())
    if total == 0:
        raise BadInput("weights", "expected a positive sum, got zeros only")
    return np.asarray(values / total)


def labels_of(y: ArrayLike, offsets: object = None, *, name: str = "y") -> Float:
    """Return finite labels as float64; raise if ``y`` is None, or its length is not the number of rows of
    ``offsets``."""
    if y is None:
        raise BadInput(name, "expected a label for each row, got None", "pass rows with labels")
    labels = np.asarray(y, dtype=np.float64)
    if labels.ndim != 1:
        raise BadInput(name, f"expected a label for each row, got shape {labels.shape}")
    if offsets is not None:
        check_offsets(offsets, labels.shape[0], of_all=True)
    refuse_first(name, labels, ~np.isfinite(labels), "a finite number")
    return labels


def refuse_masked(name: str, values: ArrayLike) -> None:
    """Raise for masked values, because NumPy would use the data under the mask."""
    if not isinstance(values, np.ma.MaskedArray):
        return
    masked = np.argwhere(np.ma.getmaskarray(values))
    if masked.size:
        raise BadInput(
            name,
            f"expected values without a mask, got {len(masked)} masked ones",
            "fill or drop them first",
            at=f"[{', '.join(map(str, masked[0]))}]",
            code=f"{name}.filled(...)",
        )


def column_numbers(X: object) -> tuple[int, ...] | None:
    """Return the labels of a frame whose columns are integers other than 0, 1, 2, ...; None for other frames.

    A number is ambiguous for such a frame: it may be a label or a position.
    """
    # 0, 1, 2, ... are both labels and positions
    labels = list(getattr(X, "columns", ()))
    if not labels or not all(isinstance(one, (int, np.integer)) for one in labels):
        return None
    numbers = tuple(int(one) for one in labels)
    return None if numbers == tuple(range(len(numbers))) else numbers


def refuse_number(argument: str, key: object, numbers: tuple[int, ...] | None) -> None:
    """Raise if a column is given by a number and ``numbers``, from :func:`column_numbers`, is not None."""
    if numbers is not None and isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        raise BadInput(
            argument,
            f"the columns of X are called {first_few(map(str, numbers), 4)}, "
            "so that this number may be a label or a position",
            "name the columns by strings and use these names",
            code="X.rename(columns=str)",
            at=f"[{key}]",
        )


def dense_column(X: Any, j: int) -> Float:
    """Return column ``j`` of an array or a sparse matrix, as float64."""
    check_sparse(X)
    column = X[:, [j]]
    return np.asarray(column.toarray() if bool(sparse.issparse(column)) else column, dtype=np.float64).ravel()


def value_at(X: Any, row: int, column: int) -> str:
    """Return a value as text for errors: ``NaN``, ``infinity``, ``-infinity`` or the number."""
    value = float(X[row, column])
    return "NaN" if np.isnan(value) else f"{value:g}".replace("inf", "infinity")


def bad_value(X: Any, row: int, column: int, *, at: str = "") -> BadInput:
    """Return the error for a missing, infinite or too large value; ``at`` is its cell if the user's X is a different
    array."""
    shown = value_at(X, row, column)
    problem = f"expected a finite number, got {shown}"
    remedy = "replace infinite values first (for example with numpy.clip)"
    if np.isnan(X[row, column]):
        remedy = "fill missing values first (for example with sklearn.impute.SimpleImputer)"
    elif np.isfinite(X[row, column]):
        expected = f"expected a number up to {LARGEST:g} in magnitude"
        problem = f"{expected}, got {shown}, whose square would overflow"
        remedy = "divide the features, or take logarithms"
    return BadInput("X", problem, remedy, at=at or f"[{row}, {column}]")


def check_features(X: Any) -> Any:
    """Return ``X`` as a C-ordered float32/float64 array or canonical CSR matrix, copied only if it is not yet one."""
    refuse_masked("X", X)
    check_sparse(X)
    if bool(sparse.issparse(X)):  # bool: the type guard would narrow X to a type without attributes
        X = X.tocsr()
        if X.dtype not in (np.float32, np.float64):
            X = X.astype(np.float64)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        return X
    X = np.asarray(X)
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    if X.ndim != 2:
        raise BadInput("X", f"expected a matrix (rows, features), got {X.ndim} dimension(s)")
    return np.ascontiguousarray(X)


@dataclass(frozen=True, eq=False, repr=False)
class QueryData:
    """Rows of all queries in one matrix, validated once and immutable.

    Use :meth:`from_arrays` or a reader of ``structsvm.readers``; the constructor does not check anything.

    Attributes
    ----------
    X : ndarray (n_rows, n_features) of float32/float64, C-ordered, or CSR matrix
        Features. May be a read-only memory map.
    y : ndarray of float64, shape (n_rows,)
        Graded labels; None for rows without labels, from a reader with ``label=None``.
    offsets : ndarray of int64, shape (n_queries + 1,)
        Rows ``offsets[q]:offsets[q + 1]`` are query ``q``.
    query_ids : ndarray of int64 or str, shape (n_queries,)
        Id of each query.
    docid : ndarray of str, shape (n_rows,), or None
        Document ids, if the source has them.
    order : ndarray of int64, shape (n_rows,), or None
        Row ``i`` is row ``order[i]`` of the input; None if the input was already grouped.
    feature_names : tuple of str, or None
        One name per feature, if the source has them.

    Examples
    --------
    >>> data = QueryData.from_arrays([[1.0], [2.0], [3.0]], [0, 1, 0], qid=["b", "a", "b"])
    >>> data, data.select([1]).y
    (QueryData(2 queries, 3 rows, 1 feature, dense float64), array([1.]))
    """

    X: Any
    y: Float
    offsets: Int
    query_ids: NDArray[Any]
    docid: NDArray[np.str_] | None = None
    order: Int | None = None
    feature_names: tuple[str, ...] | None = field(default=None)

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        y: ArrayLike,
        qid: object = None,
        *,
        docid: ArrayLike | None = None,
        feature_names: tuple[str, ...] | None = None,
    ) -> "QueryData":
        """Validate and group arrays.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n_rows, n_features)
            Float32 and float64 are kept, other types become float64. Copied only if the rows of a query are not
            contiguous.
        y : array-like of numbers, shape (n_rows,)
            Graded label of each row.
        qid : array-like of int or str, shape (n_rows,), optional
            Query of each row, in any order. None means that all rows are one query.
        docid : array-like of str, shape (n_rows,), optional
            Document id of each row.
        feature_names : tuple of str, optional
            Name of each column of ``X``.

        Returns
        -------
        QueryData

        Examples
        --------
        >>> data = QueryData.from_arrays([[1.0], [2.0], [3.0]], [0, 1, 0], qid=["b", "a", "b"])
        >>> data.offsets, data.query_ids, data.y
        (array([0, 2, 3]), array(['b', 'a'], dtype='<U1'), array([0., 0., 1.]))
        """
        X = check_features(X)
        n_rows = int(X.shape[0])
        if n_rows == 0:
            raise BadInput("X", "expected at least one row, got none")
        labels = np.asarray(y, dtype=np.float64)
        if labels.shape != (n_rows,):
            raise BadInput("y", f"expected {n_rows} labels, one for each row of X, got shape {labels.shape}")
        refuse_first("y", labels, ~np.isfinite(labels), "a finite label", "drop the row or grade it")
        bad = first_beyond(X)
        if bad is not None:
            raise bad_value(X, *bad)
        grouping = group_queries(qid, n_rows)
        documents = None
        if docid is not None:
            documents = np.array(id_texts("docid", docid, empty=True), dtype=np.str_)
            if documents.shape != (n_rows,):
                raise BadInput(
                    "docid", f"expected {n_rows} ids, one for each row of X, got {documents.shape}"
                )
        return rows_in_groups(X, labels, grouping, documents, feature_names)

    @property
    def n_queries(self) -> int:
        return int(self.offsets.shape[0] - 1)

    @property
    def n_rows(self) -> int:
        return int(self.offsets[-1])

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])

    @cached_property
    def qid(self) -> NDArray[Any]:
        """Query id of every row, for ``estimator.fit(data.X, data.y, qid=data.qid)``."""
        return np.repeat(self.query_ids, np.diff(self.offsets))

    def select(self, queries: object) -> "QueryData":
        """Return the data of some queries (indices or boolean mask), in the order given."""
        chosen, offsets, rows = choose_groups(self.offsets, queries)
        taken: list[Any] = [None if one is None else one[rows] for one in (self.X, self.y, self.docid)]
        X, y, docid = taken
        return QueryData(X, y, offsets, self.query_ids[chosen], docid, None, self.feature_names)

    def __repr__(self) -> str:
        kind = "CSR" if sparse.issparse(self.X) else "dense"
        sizes = counted(query=self.n_queries, row=self.n_rows, feature=self.n_features)
        return f"QueryData({sizes}, {kind} {self.X.dtype})"


def rows_in_groups(
    X: Any, y: Any, grouping: Grouping, docid: Any = None, feature_names: tuple[str, ...] | None = None
) -> QueryData:
    """Return checked rows in the order of the grouping."""
    order = grouping.order
    if order is not None:
        X, y, docid = (None if rows is None else rows[order] for rows in (X, y, docid))
    return QueryData(X, y, grouping.offsets, grouping.query_ids, docid, order, feature_names)


def stacked(parts: Sequence[Any]) -> Any:
    """Concatenate parts of a column or a matrix; return None for a missing column."""
    first = parts[0]
    if first is None or len(parts) == 1:
        return first
    return sparse.vstack(parts, format="csr") if any(map(sparse.issparse, parts)) else np.concatenate(parts)


def widened(X: Any, width: int) -> Any:
    """Return a matrix with ``width`` features, where omitted features are 0."""
    if X.shape[1] >= width:
        return X
    if not isinstance(X, np.ndarray):
        return sparse.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], width))
    return np.pad(X, ((0, 0), (0, width - X.shape[1])))


def offsets_of(lengths: Any) -> Int:
    """Return the offsets of consecutive groups of the given lengths: all starts of groups, and the end of the last."""
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


def query_pieces(offsets: Int, n_rows: int = 1 << 18) -> Iterator[tuple[int, int]]:
    """Yield the first and last query (exclusive) of consecutive pieces, each of at most ``n_rows`` rows or of a single
    query."""
    first = 0
    while first < offsets.shape[0] - 1:
        last = int(np.searchsorted(offsets, offsets[first] + n_rows, side="right")) - 1
        last = max(last, first + 1)
        yield first, last
        first = last


def rows_from(starts: Int, lengths: Int) -> Int:
    """Return the concatenated ranges ``starts[i]:starts[i] + lengths[i]``."""
    # entry k of the result is entry k - offsets[i] of range i
    offsets = offsets_of(lengths)
    return np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])


def row_groups(offsets: Int) -> Int:
    """Return the index of each row's group."""
    return np.repeat(np.arange(offsets.shape[0] - 1), np.diff(offsets))


def places_in(offsets: Int) -> Int:
    """Return the position of each row in its group, from 1."""
    return np.arange(1, int(offsets[-1]) + 1) - np.repeat(offsets[:-1], np.diff(offsets))


def choose_groups(offsets: Int, chosen: object) -> tuple[Int, Int, Any]:
    """Return the indices of the chosen groups (indices or a mask), their new offsets, and the index of their rows."""
    numbers = np.asarray(chosen)
    numbers = (np.flatnonzero(numbers) if numbers.dtype == np.bool_ else numbers).astype(np.int64)
    numbers = np.where(numbers < 0, numbers + offsets.shape[0] - 1, numbers)
    lengths = np.diff(offsets)[numbers]
    # consecutive groups: use a slice, which copies nothing
    if numbers.size and (np.diff(numbers) == 1).all():
        rows: Any = slice(int(offsets[numbers[0]]), int(offsets[numbers[-1] + 1]))
    else:
        rows = rows_from(offsets[:-1][numbers], lengths)
    return numbers, offsets_of(lengths), rows
