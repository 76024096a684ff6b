"""Training over partitions of the queries, which may be on different machines and may be lost and rebuilt at any time.

``driver`` runs the rounds of a fit, ``partition`` computes the part of a round on the machine that holds the rows,
``columns`` combines the results, and ``checkpoint`` saves the state to a file. An implementation of
:class:`~.driver.Partitions`, such as :class:`structsvm.dask.cluster.DaskPartitions`, transfers the messages.
"""

from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.trainers.partitioned.driver import (
        fit_path_partitioned as fit_path_partitioned,
        train_partitioned as train_partitioned,
    )
    from structsvm.trainers.partitioned.partition import (
        Partition as Partition,
        SerialPartitions as SerialPartitions,
    )

__getattr__, __dir__, __all__ = attach(__name__)
