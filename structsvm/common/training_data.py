"""Records of training for model cards: date, versions, and sizes, ranges and digest of the data."""

from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import numpy as np
import scipy
import sklearn
from numpy.typing import NDArray

from structsvm._version import __version__

_HASHED = 1 << 16
"""Maximum number of feature values in the digest, which takes less than a millisecond: of larger data, those of evenly
spaced rows, or, if sparse, the first ones."""


def record_training(*parts: Any, **facts: Any) -> dict[str, Any]:
    """Return the date and the versions of a training, facts about its data, and a digest of their ``parts``."""
    modules = {"numpy": np, "scipy": scipy, "scikit-learn": sklearn}
    versions = {"structsvm": __version__} | {name: one.__version__ for name, one in modules.items()}
    record = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "versions": versions} | facts
    if parts:
        digest = sha256()
        for part in parts:
            digest.update(part.encode() if isinstance(part, str) else np.ascontiguousarray(part).data)
        record["digest"] = digest.hexdigest()[:16]
    return record


def record_rows(
    X: Any,
    y: NDArray[np.float64],
    offsets: NDArray[np.int64],
    order: NDArray[np.int64] | None = None,
    *,
    ranges: list[NDArray[np.float64]] | None,
) -> dict[str, Any]:
    """Return the record of a training on validated rows; ``order`` groups them by query if they are not grouped.

    ``ranges`` are those of the features, without missing values; sparse rows have none. The digest is of labels,
    queries and features as passed, in their precision.
    """
    facts: dict[str, Any] = {
        "n_rows": int(X.shape[0]),
        "n_queries": int(offsets.size - 1),
        "labels": [float(y.min()), float(y.max())],
    }
    if hasattr(X, "indptr"):
        parts = [X.indptr, X.indices[:_HASHED], X.data[:_HASHED]]
    else:
        parts = [X[:: -(-X.size // _HASHED) or 1]]
    if ranges is not None:
        facts["low"], facts["high"] = ranges
    parts += [y, offsets] if order is None else [y, offsets, order]
    return record_training(f"{X.shape} {X.dtype}", *parts, **facts)
