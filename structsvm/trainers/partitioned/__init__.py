"""Training over partitions of the queries, which may be on any machines and may be lost and rebuilt at any time.

Top down: ``driver`` runs the rounds of a fit, ``partition`` answers them where the rows are, ``columns`` mixes the
answers, and ``checkpoint`` writes the state to a file. Messages are sent by an implementation of
:class:`~.driver.Partitions`, such as :class:`structsvm.dask.cluster.DaskPartitions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.trainers.partitioned.driver import fit_path_partitioned as fit_path_partitioned
    from structsvm.trainers.partitioned.driver import train_partitioned as train_partitioned
    from structsvm.trainers.partitioned.partition import Partition as Partition
    from structsvm.trainers.partitioned.partition import SerialPartitions as SerialPartitions

__getattr__, __dir__, __all__ = attach(__name__)
