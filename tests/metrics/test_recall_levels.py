"""Interpolated precision: by hand, by its definition, and as trec_eval computes it."""

import numpy as np
import pytest

from structsvm.metrics.measures import RECALL_LEVELS, interpolated_precision


def test_rounds_as_trec_eval():
    pytrec_eval = pytest.importorskip("pytrec_eval")
    for total in range(1, 41):
        relevant = np.random.default_rng(total).random(60) < 0.5
        relevant[np.flatnonzero(relevant)[total:]] = False
        found = int(relevant.sum())
        judged = {f"d{i}": int(r) for i, r in enumerate(relevant)}
        judged |= {f"missed{i}": 1 for i in range(total - found)}
        ranked = {f"d{i}": float(-i) for i in range(60)}
        truth = pytrec_eval.RelevanceEvaluator({"q": judged}, {"iprec_at_recall"}).evaluate({"q": ranked})[
            "q"
        ]
        expected = [truth[f"iprec_at_recall_{level:.2f}"] for level in RECALL_LEVELS]
        np.testing.assert_allclose(interpolated_precision(relevant, total), expected, rtol=1e-12)
