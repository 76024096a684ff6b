"""Rankers on many machines: training, prediction and evaluation over the partitions of a Dask collection.

``estimator`` and ``cross_validation`` contain the estimators; ``sources`` turns their input into delayed partitions,
``rows`` defines the objects on workers, ``groups`` keeps queries whole, ``cluster`` calls partitions and replaces lost
workers. The algorithm is in :mod:`structsvm.trainers.partitioned`. Requires Dask: ``pip install
'.[dask]'``.
"""

from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.dask.cross_validation import DaskStructuralRankerCV as DaskStructuralRankerCV
    from structsvm.dask.estimator import DaskStructuralRanker as DaskStructuralRanker

__getattr__, __dir__, __all__ = attach(__name__)
