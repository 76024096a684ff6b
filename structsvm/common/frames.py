"""Results as pandas frames; pandas is imported when one is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def frame(columns: Mapping[str, Any], *, index: Any = None, index_name: str | None = None) -> Any:
    """Return a pandas frame; ImportError, with how to install it, if pandas is missing."""
    try:
        import pandas as pd
    except ImportError:
        raise ImportError("to_frame needs pandas: pip install pandas") from None
    made = pd.DataFrame(dict(columns), index=index)
    if index_name is not None:
        made.index.name = index_name
    return made
