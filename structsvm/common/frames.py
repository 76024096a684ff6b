"""Results as pandas DataFrames; pandas is imported on first use."""

from collections.abc import Mapping
from typing import Any

from structsvm.common.extras import needed


def frame(columns: Mapping[str, Any], *, index: object = None, index_name: str | None = None) -> Any:
    """Return a pandas DataFrame; raise ImportError with installation advice if pandas is missing."""
    with needed("to_frame", "pandas"):
        import pandas as pd
    return pd.DataFrame(dict(columns), index=index).rename_axis(index=index_name)
