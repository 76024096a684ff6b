"""ROC area: the most violated ranking of SVM-roc by counting inverted pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from structsvm.oracles.pairs import PairSeparator
from structsvm.protocols import Float, Int
from structsvm.queries import labels_of


@dataclass(frozen=True)
class RocArea:
    """Loss ``1 - ROC area``, the share of inverted pairs, with the pairwise joint feature of SVM-roc.

    ``Psi(x, y) = 1/(P N) sum_{i relevant} sum_{j not} y_ij (phi_i - phi_j)``; a query with ``P = 0`` or ``N = 0`` has
    no constraint.

    Parameters
    ----------
    relevance : float, default=1.0
        A document is relevant if its label is at least this; with 1, the TREC convention, negative labels are
        non-relevant.

    Notes
    -----
    Pairs are independent (thesis 3.2.1, after Joachims 2005): ``(i, j)`` is inverted when ``s_i - s_j < 1/2``, so the
    most violated ranking is that by score, with 1/2 subtracted from every relevant document. With ``r_i`` and ``p_j``
    inverted pairs of a relevant and a non-relevant document, ``coef_i = 2 r_i / (P N)`` and ``coef_j = -2 p_j / (P
    N)``. The hinge is that of :class:`~structsvm.oracles.pairs.Pairs` at doubled scores.

    Examples
    --------
    >>> import numpy as np
    >>> separator = RocArea().bind(np.array([0.0, 1.0]), np.array([0, 2]))
    >>> loss, coef = np.empty(1), np.empty(2)
    >>> separator.separate(np.zeros(2), 0, 1, loss, coef)
    >>> loss, coef
    (array([1.]), array([-2.,  2.]))
    """

    label: ClassVar[str] = "roc"
    cutoff: ClassVar[str] = "never"

    relevance: float = 1.0

    def bind(self, y: Float, offsets: Int) -> PairSeparator:
        """Bind to labels ``y`` (n_rows,) grouped by ``offsets`` (n_queries + 1,)."""
        relevant = (labels_of(y, offsets) >= self.relevance).astype(np.float64)
        return PairSeparator(relevant, offsets, margin=0.5, step=2.0)
