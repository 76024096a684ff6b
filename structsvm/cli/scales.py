"""``--scale``, spelled as the ``scale`` of the estimators by every command that has it."""

from __future__ import annotations

from typing import Annotated

import typer


def _check_scale(scale: str) -> str:
    from structsvm.estimators.linear import SCALES

    if scale not in SCALES:  # before any data are read
        raise ValueError(f"--scale {scale}: expected one of {', '.join(SCALES)}")
    return scale


Scale = Annotated[
    str,
    typer.Option(
        callback=_check_scale,
        help="Scaling of the features, kept in the model: none; minmax or zscore by the training data; query-minmax, "
        "query-zscore or query-percentile within each query.",
    ),
]
