"""Rankers on many machines: training, prediction and evaluation over the partitions of a Dask collection.

``estimator`` has what users import; ``sources`` finds out what they gave, ``rows`` is what lies on a worker, ``groups``
keeps queries whole, ``cluster`` asks all partitions and outlives workers. The algorithm is
:mod:`structsvm.trainers.partitioned`, and the engine is Dask: ``pip install 'structsvm-ranking[dask]'``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.dask.cross_validation import DaskStructuralRankerCV as DaskStructuralRankerCV
    from structsvm.dask.estimator import DaskStructuralRanker as DaskStructuralRanker

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "structsvm.dask.cross_validation": "DaskStructuralRankerCV",
        "structsvm.dask.estimator": "DaskStructuralRanker",
    },
)
