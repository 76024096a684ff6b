"""Results as pandas frames; pandas is imported when one is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["frame"]


def frame(columns: Mapping[str, Any], *, index: Any = None, index_name: str | None = None) -> Any:
    """Return a pandas frame.

    Parameters
    ----------
    columns : mapping of str to array-like
    index : array-like, optional
    index_name : str, optional

    Returns
    -------
    pandas.DataFrame

    Raises
    ------
    ImportError
        If pandas is missing; it says how to install it.

    Examples
    --------
    >>> frame({"value": [1.5]}, index=["q1"], index_name="query").loc["q1", "value"].item()
    1.5
    """
    try:
        import pandas as pd
    except ImportError:
        raise ImportError("to_frame needs pandas: pip install pandas") from None
    made = pd.DataFrame(dict(columns), index=index)
    if index_name is not None:
        made.index.name = index_name
    return made
