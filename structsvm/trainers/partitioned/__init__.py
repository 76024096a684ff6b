"""Training over partitions of the queries that may lie anywhere, and that may be lost and made again at any time.

``partition`` is what happens where the rows are, ``driver`` what happens where the fit was asked for, ``columns`` what
the driver keeps, ``checkpoint`` what it writes to a file, ``blocks`` takes several short queries for one. Nothing here
knows what moves the messages: see :class:`structsvm.protocols.Partitions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.trainers.partitioned.driver import fit_path_partitioned as fit_path_partitioned
    from structsvm.trainers.partitioned.driver import train_partitioned as train_partitioned
    from structsvm.trainers.partitioned.partition import Partition as Partition
    from structsvm.trainers.partitioned.partition import SerialPartitions as SerialPartitions

__getattr__, __dir__, __all__ = attach(__name__, __file__)
