"""Validate the rows passed to estimators, with errors that name row, column and query, and encode categories as
numbers.

``rows_for`` reads the rows for a fitted model: for ``predict`` and all other functions that take such rows.
"""

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils.validation import validate_data

from structsvm import queries
from structsvm.common.checks import BadInput, first_few
from structsvm.common.machine import memory_bytes
from structsvm.common.row_checks import column_ranges
from structsvm.features.scaling import refuse_sparse
from structsvm.protocols import Float


class FeatureScaleWarning(UserWarning):
    """Issued if features differ in scale by more than a factor of 1,000, so that the penalty affects them very
    differently.

    Set ``scale="zscore"`` or ``"minmax"``, or ignore the warning with ``warnings.simplefilter("ignore",
    FeatureScaleWarning)``.

    Examples
    --------
    >>> import warnings
    >>> from structsvm import SVMMap
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = SVMMap().fit([[1e-3, 500.0], [0.0, -500.0]], [1, 0], qid=0)
    >>> print(caught[0].message)
    X: features differ in scale by a factor of 1e+06 (feature 2 against feature 1), so that the penalty affects them \
    differently; set scale='zscore' or 'minmax', or scale them beforehand
    """


def warn_of_scale(X: Any, names: Any = None) -> None:
    """Warn if the standard deviations of features (for sparse matrices, their maximum absolute values) differ by more
    than a factor of 1,000.

    At most 2,000 evenly spaced rows are used. Features that are constant in these rows are ignored.
    """
    rows = np.linspace(0, X.shape[0] - 1, min(X.shape[0], _LOOKED_AT)).astype(np.int64)
    if bool(sparse.issparse(X)):
        sizes = np.asarray(abs(X[rows]).max(axis=0).todense(), dtype=np.float64).ravel()
    else:
        looked_at = np.asarray(X[rows], dtype=np.float64)
        sizes = looked_at.std(axis=0)
        # the computed deviation of a constant column is only rounding error
        sizes[sizes <= _SINGLE_PRECISION * np.abs(looked_at).max(axis=0)] = 0.0
    known = np.flatnonzero((sizes > 0) & np.isfinite(sizes))
    if known.size < 2:
        return
    large, small = known[sizes[known].argmax()], known[sizes[known].argmin()]
    if sizes[large] <= _RATIO * sizes[small]:
        return
    called = [f"feature {j + 1}" if names is None else repr(str(names[j])) for j in (large, small)]
    factor = sizes[large] / sizes[small]
    queries.warn_user(
        BadInput(
            "X",
            f"features differ in scale by a factor of {factor:.0e} ({called[0]} against {called[1]}), so that the "
            "penalty affects them differently",
            "set {scale='zscore'} or 'minmax', or scale them beforehand",
        ),
        FeatureScaleWarning,
    )


_LOOKED_AT = 2000
_RATIO = 1e3
_SINGLE_PRECISION = 1e-6
"""Relative rounding error of single precision, in which the rows may have been stored."""


@contextmanager
def naming(argument: str) -> Iterator[None]:
    """Prefix the name of the argument that contains the rows to errors raised inside the block."""
    try:
        yield
    except BadInput as error:
        raise error.within(argument) from None
    except ValueError as error:  # raised by scikit-learn
        raise BadInput(argument, f"{error}") from None


def rows_for(model: Any, X: Any, qid: Any = None) -> tuple[Any, Any]:
    """Return rows for a fitted model as an array or CSR matrix with the features of training, and their query ids.

    Columns are compared by name with those of training, and categories are replaced by their numbers. For a pipeline
    these are the rows of its first step, if its steps and its ranker accept them.
    """
    features, qid = queries.split_qid(X, qid)
    if hasattr(model, "steps"):  # its steps take or refuse a column of query ids, as in predict
        rows_for(model[-1], model[:-1].transform(X) if len(model) > 1 else X, qid)
        names = list(getattr(model, "feature_names_in_", ()))
        if names and set(names) <= set(getattr(features, "columns", ())):
            features = features[names]
        return validate_rows(model, features, qid=qid, reset=False, missing=True), qid
    X, trees = encode(features, getattr(model, "categories_", {})), getattr(model, "leaves_", None)
    kinds: dict[str, Any] = {} if trees is None else {"order": "C", "sparse": False, "missing": True}
    X = validate_rows(model, X, qid=qid, reset=False, **kinds)
    if trees is not None:
        trees.check_categories(X)
    if getattr(model, "scaler_", None) is not None:
        refuse_sparse(X)
    return X, qid


def validate_rows(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    qid: Any = None,
    order: str | None = None,
    reset: bool = True,
    sparse: bool = True,
    missing: bool = False,
) -> Any:
    """Validate ``X``, and ``y`` if given, with scikit-learn's ``validate_data``; errors name row, column and query.

    With ``reset=False``, the features are compared with those of ``fit``. ``missing=True`` accepts NaN in ``X``.
    ``qid`` is only used in error messages. The result is ``X``, or ``(X, y, ranges)`` with labels, where ``ranges`` are
    the :func:`~structsvm.common.row_checks.column_ranges` of an array, None for a CSR matrix.
    """
    for name, values in (("X", X), ("y", y)):
        queries.refuse_masked(name, values)
    X = _named_by_numbers(X, None if reset else model)
    queries.check_sparse(X)  # checked first, as conversions may run compiled code that does not check indices
    options: dict[str, Any] = {
        "accept_sparse": "csr" if sparse else False,
        "dtype": [np.float64, np.float32],
        "order": order,
        "ensure_all_finite": False,
        "reset": reset,
    }
    labelled = reset or y is not None
    _check_columns(X, () if reset else getattr(model, "feature_names_in_", ()))
    if not labelled:
        X = validate_data(model, X, **options)
    else:
        try:
            X, y = validate_data(model, X, y, y_numeric=True, ensure_min_samples=2 if reset else 1, **options)
            y = np.asarray(y, dtype=np.float64)
        except ValueError:
            _check_labels(y, qid)
            raise
    ranges = column_ranges(X, missing=missing) if labelled and isinstance(X, np.ndarray) else None
    within = ranges is not None and ((ranges[0] >= -queries.LARGEST) & (ranges[1] <= queries.LARGEST)).all()
    bad = None if within else queries.first_beyond(X, queries.LARGEST, missing=missing)
    if bad is not None:
        raise queries.bad_value(X, *bad, at=_cell(model, *bad, X.shape[0], qid))
    if reset and labelled:
        _warn_of_label(X, y, getattr(model, "feature_names_in_", None))
    return (X, y, ranges) if labelled else X


def _named_by_numbers(X: Any, model: object) -> Any:
    """Return a frame with its numeric column names converted to strings, because scikit-learn would ignore numeric
    names.

    A frame with numeric names raises an error if ``model`` was fitted without names. A frame with the columns 0, 1, 2,
    ... is treated as an array.
    """
    numbers = queries.column_numbers(X)
    if numbers is None:
        return X
    if model is not None and not hasattr(model, "feature_names_in_"):
        raise BadInput(
            "X",
            "expected columns as in training, which had no names, got a frame whose columns are called "
            f"{first_few(map(str, numbers), 4)}",
            "train on a frame with these columns, or pass its values in the column order of training",
            code="X.to_numpy()",
        )
    X = X.copy(deep=False)
    X.columns = list(map(str, numbers))
    return X


def _warn_of_label(X: Any, y: Any, names: Any = None) -> None:
    """Warn about dense columns that equal the labels or their negatives, unless there are so few rows that this may be
    chance."""
    least = _BY_CHANCE if np.unique(y[:_LOOKED_AT]).size > 2 else _BY_CHANCE_OF_TWO
    if bool(sparse.issparse(X)) or len(y) < least:
        return
    few, labels = X[:_BY_CHANCE], y[:_BY_CHANCE, None]
    for column in np.flatnonzero((few == labels).all(axis=0) | (few == -labels).all(axis=0)).tolist():
        values = X[:, column]
        if y.min() < y.max() and ((values == y).all() or (values == -y).all()):
            called = f"feature {column + 1}" if names is None else f"feature {str(names[column])!r}"
            queries.warn_user(
                f"X: {called} equals y{'' if (values == y).all() else ' times -1'}, as if the labels were among "
                "the features; drop it, as new rows have no labels"
            )


_BY_CHANCE, _BY_CHANCE_OF_TWO = 20, 100
"""Minimum number of rows for which a column that equals the labels is not a coincidence, for more than two distinct
labels and for two."""


def check_width(X: Any, qid: Any = None, *, vectors: int) -> None:
    """Raise ValueError if memory does not suffice for ``vectors`` vectors with one number per feature."""
    needed = 8.0 * vectors * X.shape[1]
    if needed <= memory_bytes():
        return
    where = ""
    if bool(sparse.issparse(X)) and X.nnz:  # bool: the type guard would narrow X to a type without attributes
        at = int(X.indices.argmax())
        row = int(np.searchsorted(X.indptr, at, side="right")) - 1
        last = int(X.indices[at]) + 1
        where = f"; feature {last}, the last one used, occurs in row {row}{_query(row, X.shape[0], qid)}"
    raise BadInput(
        "X",
        f"training on {X.shape[1]} features needs at least {needed / 1e9:.0f} GB, of which this machine has "
        f"{memory_bytes() / 1e9:.0f}{where}",
        "number the features without gaps",
        code="X[:, np.unique(X.indices)]",
    )


def _check_columns(X: Any, known: Any = ()) -> None:
    """Raise BadInput if a frame has non-numeric columns or two columns of the same name; scikit-learn checks the rest.

    ``known`` contains the features of a fitted model, in which one-hot columns have names such as ``brand=acme``.
    """
    names = getattr(X, "columns", None)
    if names is None:
        return
    twice = [name for name, n in Counter(names).items() if n > 1]
    if twice:
        raise BadInput("X", f"expected each column once, got {str(twice[0])!r} twice", "rename or drop one")
    text: dict[str, Any] = {}
    for name in names:
        column = X[name]
        dtype = str(column.dtype).lower()
        if dtype in _NUMERIC:
            continue
        if dtype.startswith(("datetime", "timedelta", "duration", "date", "time", "period")):
            raise BadInput(
                "X",
                f"expected numbers, got {dtype} in the column {str(name)!r}",
                "turn it into a number, such as days since a date, or drop it",
            )
        if dtype in ("int128", "uint128"):
            raise BadInput(
                "X",
                f"expected numbers of at most 64 bits, got {dtype} in the column {str(name)!r}",
                "convert it to a float",
            )
        values = np.asarray(column, dtype=object).ravel()
        found = next((value for value in values.tolist() if isinstance(value, str | bytes)), None)
        if found is not None:
            text[str(name)] = found
    if text:
        coded = [name for name in text if any(str(feature).startswith(f"{name}=") for feature in known)]
        code = f"pd.get_dummies(X, columns={coded}, prefix_sep='=', dtype=float)"
        which = f"column {next(iter(text))!r}" if len(text) == 1 else f"columns {', '.join(map(repr, text))}"
        raise BadInput(
            "X",
            f"expected numbers, got text in the {which}, such as {next(iter(text.values()))!r:.40}",
            "encode them like the features of the model"
            if coded
            else "drop or encode them (trees accept the dtype category); a column of query ids is called 'qid' or "
            "passed as {qid}",
            code=f"{code}.reindex(columns=model.feature_names_in_, fill_value=0)" if coded else "",
        )


_NUMERIC = {f"{kind}{bits}" for kind in ("int", "uint", "float") for bits in (8, 16, 32, 64)}
_NUMERIC |= {"bool", "boolean"}


def _check_labels(y: ArrayLike, qid: ArrayLike) -> None:
    """Raise BadInput for the first label that is not a finite number, naming its row."""
    if isinstance(y, str):
        raise BadInput(
            "y", f"expected one label per row, got {y!r:.40}", f"pass the column, as in frame[{y!r:.40}]"
        )
    labels = np.asarray(y, dtype=object)
    if labels.ndim != 1 or np.iscomplexobj(y):  # scikit-learn reports these itself
        return
    for row, value in enumerate(labels.tolist()):
        try:
            if math.isfinite(value):
                continue
            expected, shown = "a finite label", "NaN" if math.isnan(value) else f"{value:g}inity"
        except TypeError:  # a string or None
            expected, shown = "a number as the label", repr(value)
        raise BadInput(
            "y",
            f"expected {expected}, got {shown}",
            "grade the row or drop it",
            at=f"[{row}]{_query(row, labels.size, qid)}",
        ) from None


def _cell(model: object, row: int, column: int, n_rows: int, qid: ArrayLike) -> str:
    names = getattr(model, "feature_names_in_", None)
    feature = "" if names is None else f" (feature {str(names[column])!r})"
    return f"[{row}, {column}]{feature}{_query(row, n_rows, qid)}"


def _query(row: int, n_rows: int, qid: ArrayLike) -> str:
    ids = None if qid is None else np.asarray(qid)
    if ids is None or ids.shape != (n_rows,):
        return ""
    return f", query {ids[row]}"


Categories = dict[str, list[Any]]
"""Mapping from column names to their sorted categories; the number of a category is its index in the list."""


def categories_of(X: Any) -> Categories:
    """Return the categories of all columns of a pandas or polars frame that have a categorical dtype."""
    found = {}
    for name in getattr(X, "columns", ()):
        # columns with a duplicate name have no dtype; they are refused later
        kind = str(getattr(X[name], "dtype", None))
        if kind != "category" and not kind.startswith(("dictionary<", "Categorical", "Enum")):
            continue
        if not isinstance(name, str):
            raise BadInput(
                "X",
                f"expected a string as the name of the categorical column {name!r}",
                "rename it to a string",
            )
        known = _known(X[name])
        strange = next((one for one in known if not isinstance(one, str | int | float)), None)
        if strange is not None:
            raise BadInput(
                "X", f"expected categories of text or numbers in the column {name!r}, got {strange!r}"
            )
        found[name] = sorted(known, key=lambda one: (isinstance(one, str), one))
    return found


def _known(column: Any) -> list[Any]:
    if hasattr(column.dtype, "categories") and not hasattr(column, "cast"):  # pandas
        return list(column.dtype.categories.tolist())
    if str(column.dtype).startswith("Enum"):
        return list(column.dtype.categories.to_list())
    values = column.drop_nulls() if hasattr(column, "drop_nulls") else column.dropna()
    return list(set(values.to_list()))


def encode(X: Any, categories: Categories) -> Any:
    """Return ``X`` with numbers in place of categories in the columns that were categorical in training.

    Categories of frames are matched by value. Unknown categories count as missing, and a warning is issued. Arrays are
    returned unchanged, as they already contain numbers.
    """
    if not categories or not hasattr(X, "columns"):
        return X
    polars = hasattr(X, "with_columns")
    X = X if polars else X.copy(deep=False)
    for name, known in categories.items():
        if name not in X.columns:
            continue  # scikit-learn raises an error for missing columns
        numbers = _numbers(X[name], known, name)
        X = X.with_columns(type(X[name])(name, numbers)) if polars else X.assign(**{name: numbers})
    return X


def _numbers(column: Any, known: list[Any], name: str) -> Float:
    """Return the index of each value in ``known``, or NaN if the value is missing or unknown."""
    number = {value: float(i) for i, value in enumerate(known)}
    values = np.asarray(column.to_list() if hasattr(column, "cast") else column.astype(object), dtype=object)
    numbers = np.array([number.get(value, np.nan) for value in values])
    unseen = {value for value in values[np.isnan(numbers)] if value is not None and value == value}
    if unseen:
        queries.warn_user(
            f"X: the column {name!r} has {len(unseen)} categories that did not occur in training "
            f"({first_few(map(repr, sorted(map(str, unseen))), 3)}); they count as missing"
        )
    return numbers
