"""Find the best of several models, prompts or rankers from pairwise votes."""

from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.online.arena.asking import add_models as add_models, next_pairs as next_pairs
    from structsvm.online.arena.judges import Agreement as Agreement
    from structsvm.online.arena.reading import read_votes as read_votes
    from structsvm.online.arena.strengths import Strengths as Strengths
    from structsvm.online.arena.verdict import (
        Arena as Arena,
        PairEvidence as PairEvidence,
        arena as arena,
        bandit_of as bandit_of,
    )
    from structsvm.online.arena.votes import Votes as Votes

__getattr__, __dir__, __all__ = attach(__name__)
