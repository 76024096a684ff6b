"""Intent-aware measures of TREC's ``ndeval``, computed by pyndeval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from structsvm.checks import BadInput, check_number
from structsvm.metrics.diversity import check_choices
from structsvm.protocols import Float

NDEVAL_MEASURES = ("ERR-IA@20", "NRBP", "P-IA@20")
"""Measures that :func:`ndeval` computes by default: intent-aware expected reciprocal rank (Chapelle et al. 2009),
novelty- and rank-biased precision (Clarke et al. 2009), intent-aware precision (Agrawal et al. 2009)."""


def ndeval(
    labels: Any,
    chosen: Any,
    measures: Sequence[str] = NDEVAL_MEASURES,
    *,
    alpha: float = 0.5,
    beta: float = 0.5,
) -> dict[str, Float]:
    """Compute intent-aware measures by name, as TREC's Web track reports them; higher is better.

    Needs pyndeval: ``pip install 'structsvm-ranking[ndeval]'``.

    Parameters
    ----------
    labels, chosen
        As in :func:`~structsvm.metrics.diversity.weighted_subtopic_loss`; ``chosen`` in order. To agree with TREC's
        figures, the rows of ``labels`` are all judged documents, in descending order of docid.
    measures : sequence of str
        Names of ndeval: "ERR-IA@k", "nERR-IA@k", "P-IA@k", "alpha-nDCG@k", "strec@k" with k up to 20, "NRBP", "nNRBP",
        "MAP-IA". ndeval leaves "ERR-IA@1" and "alpha-DCG@1" without their normalisation.
    alpha : float, default=0.5
        Share of a subtopic's gain that is lost each time it is covered.
    beta : float, default=0.5
        Patience of NRBP's user.

    Returns
    -------
    dict of str to ndarray of float64, shape (n_sets,)
        NaN for a set without any covered subtopic.

    Raises
    ------
    ImportError
        Without pyndeval.

    Examples
    --------
    >>> ndeval([[[1, 0], [1, 0], [0, 1]]], [[0, 2]], ["P-IA@5", "NRBP"])
    {'P-IA@5': array([0.2]), 'NRBP': array([0.5625])}
    """
    try:
        import pyndeval
    except ImportError:
        raise ImportError(
            "ndeval: pyndeval is not installed; pip install 'structsvm-ranking[ndeval]'"
        ) from None
    for name in measures:
        kind, at, k = name.partition("@")
        no_cutoff = kind in pyndeval.NOCUTOFF_MEASURES
        if kind not in pyndeval.SUPPORTED_MEASURES or (no_cutoff if at else not no_cutoff):
            raise BadInput("measures", f"expected names such as {', '.join(NDEVAL_MEASURES)}, got {name!r}")
        if at and not (k.isascii() and k.isdecimal() and 1 <= int(k) <= 20):
            raise BadInput("measures", f"expected a cut-off from 1 to 20, got {name!r}")
    check_number("alpha", alpha, 0, 1)
    check_number("beta", beta, 0, 1)
    judged, ranked = [], []
    pairs = check_choices(labels, chosen)
    for q, (matrix, rows) in enumerate(pairs):
        # the ideal ranking takes the last name among equal documents: names descend, so that it is the earlier row
        name_of = [f"{matrix.shape[0] - d:09d}" for d in range(matrix.shape[0])]
        judged += [
            pyndeval.SubtopicQrel(str(q), str(s), name_of[d], 1)
            for d, s in zip(*(axis.tolist() for axis in np.nonzero(matrix)), strict=True)
        ]
        ranked += [pyndeval.ScoredDoc(str(q), name_of[d], -float(i)) for i, d in enumerate(rows.tolist())]
    by_query = pyndeval.ndeval(judged, ranked, measures=list(measures), alpha=alpha, beta=beta)
    values = {}
    for name in measures:
        defaults = [0.0 if matrix.any() else np.nan for matrix, _ in pairs]
        values[name] = np.array([by_query.get(str(q), {}).get(name, v) for q, v in enumerate(defaults)])
    return values
