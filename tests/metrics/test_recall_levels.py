"""Interpolated precision: by hand, by its definition, and as trec_eval computes it."""

import numpy as np
import pytest

from structsvm.metrics.recall_levels import RECALL_LEVELS, interpolated_precision


def test_by_hand():
    # hits at ranks 1 and 4 of four relevant ones: a quarter of the recall at precision 1, the next at 1/2
    curve = interpolated_precision([True, False, False, True], n_relevant=4)
    np.testing.assert_array_equal(curve, [1, 1, 1, 0.5, 0.5, 0.5, 0, 0, 0, 0, 0])


@pytest.mark.parametrize("seed", range(20))
def test_by_definition(seed):
    rng = np.random.default_rng(seed)
    relevant = rng.random(rng.integers(1, 30)) < 0.4
    total = int(relevant.sum() + rng.integers(0, 3)) or 1
    expected = []
    for tenths in range(11):
        needed = max(1, -(-tenths * total // 10))
        precisions = [
            relevant[:n].sum() / n for n in range(1, relevant.size + 1) if relevant[:n].sum() >= needed
        ]
        expected.append(max(precisions, default=0.0))
    found = interpolated_precision(relevant, total)
    # a need of n + 1/10 is where trec_eval rounds as floating point has it: test_rounds_as_trec_eval
    exact = [round((level * total + 0.9) % 1, 9) not in (0.0, 1.0) for level in RECALL_LEVELS]
    np.testing.assert_allclose(found[exact], np.array(expected)[exact], rtol=1e-15)


def test_nothing_retrieved():
    np.testing.assert_array_equal(interpolated_precision([False, False], n_relevant=2), np.zeros(11))


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
