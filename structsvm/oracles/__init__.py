"""Ranking losses with their joint features; a loss is selected by name or passed as an oracle object."""

from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.oracles.adapter import StructuredProblem as StructuredProblem
    from structsvm.oracles.average_precision import AveragePrecision as AveragePrecision
    from structsvm.oracles.by_name import LOSSES as LOSSES, get_oracle as get_oracle
    from structsvm.oracles.log_rank import (
        NDCG as NDCG,
        PrecisionAt as PrecisionAt,
        ReciprocalRank as ReciprocalRank,
    )
    from structsvm.oracles.ordinal import OrdinalHinge as OrdinalHinge
    from structsvm.oracles.pairs import Pairs as Pairs, RocArea as RocArea
    from structsvm.oracles.selection import budgeted as budgeted, greedy as greedy, swap as swap
    from structsvm.oracles.squared_pairs import SquaredPairs as SquaredPairs

__getattr__, __dir__, __all__ = attach(
    __name__,
    label={
        "map": "AveragePrecision",
        "ndcg": "NDCG",
        "ndcg@k": "NDCG",
        "pairs": "Pairs",
        "precision@k": "PrecisionAt",
        "mrr": "ReciprocalRank",
        "mrr@k": "ReciprocalRank",
        "roc": "RocArea",
    },
)
