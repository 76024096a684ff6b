"""Synthetic data sets with a known answer, and descriptions of what a file holds.

``list_datasets`` names what ``make`` can write; ``describe`` returns kind, counts, labels and oddities of LETOR texts,
stores, TREC runs and judgments, and JSON Lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.datasets.describing import describe as describe
    from structsvm.datasets.making import list_datasets as list_datasets
    from structsvm.datasets.making import make as make
    from structsvm.datasets.making import make_runs as make_runs

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "structsvm.datasets.describing": "describe",
        "structsvm.datasets.making": "list_datasets make make_runs",
    },
)
