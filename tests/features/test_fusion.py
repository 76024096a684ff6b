"""Fusion against numbers worked out by hand and against its definitions, topic by topic, run by run."""

import numpy as np
import pytest

from structsvm.features.fusion import FUSIONS, comb_mnz, comb_sum, reciprocal_rank_fusion
from structsvm.readers import Run, candidates
from tests.refusing import rejected

NONE = np.nan
HAND = np.array(
    [
        # topic of four documents            scaled to [0, 1]      ranks
        [3.0, NONE, 7.0],  # a               1.0,  -,  1           1, -, 1
        [1.0, 20.0, NONE],  # b              0.0, 0.5, -           4, 2, -
        [2.0, 30.0, NONE],  # c              0.5, 1.0, -           3, 1, -
        [2.0, 10.0, NONE],  # d              0.5, 0.0, -           2, 3, -    ties with c, the later row first
        # topic of one document, which the first run lacks
        [NONE, -5.0, -5.0],  # e             -, 1, 1               -, 1, 1
    ]
)
OFFSETS = [0, 4, 5]


def test_by_hand():
    assert comb_sum(HAND, OFFSETS).tolist() == [2.0, 0.5, 1.5, 0.5, 2.0]
    assert comb_mnz(HAND, OFFSETS).tolist() == [4.0, 1.0, 3.0, 1.0, 4.0]
    expected = [1 / 61 + 1 / 61, 1 / 64 + 1 / 62, 1 / 63 + 1 / 61, 1 / 62 + 1 / 63, 1 / 61 + 1 / 61]
    np.testing.assert_allclose(reciprocal_rank_fusion(HAND, OFFSETS), expected, rtol=1e-15)
    np.testing.assert_allclose(reciprocal_rank_fusion(HAND, OFFSETS, k=0)[:2], [2.0, 1 / 4 + 1 / 2])


def slow(runs, topic):
    """Return the three scores of each document of a topic, from ``{docid: score}`` of each run."""
    found = {}
    for run in runs:
        docs = run.get(topic, {})
        order = sorted(docs, key=lambda d: (docs[d], d), reverse=True)
        for d, score in docs.items():
            low, high = min(docs.values()), max(docs.values())
            scaled = (score - low) / (high - low) if high > low else 1.0
            entry = found.setdefault(d, [0.0, 0, 0.0])
            entry[0] += scaled
            entry[1] += 1
            entry[2] += 1 / (60 + 1 + order.index(d))
    return {d: (total, total * n, rank) for d, (total, n, rank) in found.items()}


def test_definitions_on_random_runs():
    rng = np.random.default_rng(0)
    for _ in range(20):
        runs = [
            {
                str(t): {
                    f"d{d}": float(rng.integers(-4, 5)) for d in rng.choice(20, rng.integers(1, 15), False)
                }
                for t in rng.permutation(5)[: rng.integers(1, 6)]
            }
            for _ in range(4)
        ]
        pool = candidates([Run.from_dict(run) for run in runs])
        fused = np.stack([fuse(pool.scores, pool.offsets) for fuse in FUSIONS.values()], axis=1)
        expected = [slow(runs, t)[d] for t, d in zip(pool.qid, pool.docid, strict=True)]
        np.testing.assert_allclose(fused, expected, rtol=1e-12, atol=1e-12)


def test_a_document_that_no_run_has_gets_nothing():
    for fuse in FUSIONS.values():
        assert fuse([[np.nan, np.nan], [1.0, np.nan]], [0, 2])[0] == 0.0


@pytest.mark.parametrize("fuse", FUSIONS.values(), ids=FUSIONS)
def test_wrong_input(fuse):
    rejected("scores: expected one row per document", fuse, [1.0, 2.0], [0, 2])
    rejected("scores, row 1: expected finite scores, or NaN", fuse, [[1.0], [np.inf]], [0, 2])
    for offsets in ([0, 1], [1, 2], [0, 0, 2], [0, 3, 2], [2], [[0, 2]]):
        rejected("offsets: expected increasing offsets from 0 to 2", fuse, [[1.0], [2.0]], offsets)


def test_a_wrong_k():
    for k in (-1.0, float("nan"), float("inf")):
        rejected(f"k={k}: expected a finite number >= 0", reciprocal_rank_fusion, [[1.0]], [0, 1], k=k)
