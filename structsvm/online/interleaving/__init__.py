"""Interleaving (multileaving for more than two rankings): compare rankers by clicks on a merged list.

Every method is stateless: ``show(rankings, length=10, rng=None) -> Shown`` returns the list and the record to log, and
``credit(shown, clicks)`` uses this record later, in any process. Class attributes describe each method: ``name``, its
name in logs and options; ``rankings``, the number of rankings that it merges; and ``fairness``, its expected result if
clicks do not depend on the documents. The API pages list the methods in a table.
"""

from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.online.impressions.shown import Shown as Shown
    from structsvm.online.interleaving.balanced import Balanced as Balanced
    from structsvm.online.interleaving.document_constraints import DocumentConstraints as DocumentConstraints
    from structsvm.online.interleaving.optimized import Optimized as Optimized
    from structsvm.online.interleaving.probabilistic import Probabilistic as Probabilistic
    from structsvm.online.interleaving.sosm import SOSM as SOSM
    from structsvm.online.interleaving.team_draft import TeamDraft as TeamDraft
    from structsvm.protocols import Interleaver as Interleaver

__getattr__, __dir__, __all__ = attach(
    __name__,
    name={
        "balanced": "Balanced",
        "document_constraints": "DocumentConstraints",
        "optimized": "Optimized",
        "probabilistic": "Probabilistic",
        "sosm": "SOSM",
        "team_draft": "TeamDraft",
    },
)
