"""Conversion of Python arrays by the rules for tables."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from structsvm.common.checks import BadInput
from structsvm.common.tables.columns import ids, to_numpy
from structsvm.common.tables.frames import frame_table


def ids_of(name: str, values: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return ids of an argument as an array, arbitrary where missing, and a mask of the ids that are present."""
    try:
        (batch,) = frame_table({name: values}).read({name: "id"})
        array = ids(batch, name, "integers or strings as ids", missing=True)
    except BadInput as error:
        raise BadInput(name, f"expected{error.problem.partition('expected')[2]}", error.remedy) from None
    known = to_numpy(array.is_valid())[0].astype(bool)
    if str(array.type) == "string":
        return np.array([word or "" for word in array.to_pylist()], dtype=np.str_), known
    return to_numpy(array)[0], known
