"""Conversion of Python arrays by the rules for tables."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pyarrow import types

from structsvm.common.checks import BadInput
from structsvm.common.tables.columns import ids, look, spelled, to_numpy, values_of
from structsvm.common.tables.frames import frame_table
from structsvm.common.tables.ids import IdColumn


def ids_of(name: str, values: ArrayLike) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return ids of an argument as an array, arbitrary where missing, and a mask of the ids that are present."""
    column = IdColumn(name, missing=True)
    try:
        (batch,) = frame_table({name: values}).read({name: "id"})
        array = look(column, ids(batch, name, "integers or strings as ids", missing=True), batch)
        column.settle()
    except BadInput as error:
        raise BadInput(name, f"expected{error.problem.partition('expected')[2]}", error.remedy) from None
    if types.is_decimal(array.type):
        return _unsigned(name, array.to_pylist())
    array = spelled(column, array)
    known = to_numpy(array.is_valid())[0].astype(bool)
    if types.is_dictionary(array.type):
        return np.array([word or "" for word in values_of(array)], dtype=np.str_), known
    return to_numpy(array)[0], known


def _unsigned(name: str, given: list[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    numbers = [0 if one is None else int(one) for one in given]
    try:
        return np.array(numbers, dtype=np.uint64), np.array([one is not None for one in given])
    except OverflowError:
        problem = f"expected ids as 64-bit integers, got {max(numbers, key=abs)}"
        raise BadInput(name, problem, "read ids as strings") from None
