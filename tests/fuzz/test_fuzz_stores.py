"""A few of the damaged stores; ``python tests/fuzz/fuzz_stores.py --cases 100000`` tries more."""

import fuzz_stores
import pytest


@pytest.mark.slow
def test_damaged_stores_are_refused_or_work():
    summary = fuzz_stores.run(800, seed=0)
    assert summary["failures"] == []
    assert summary["cases"] == 800
    for kind in fuzz_stores.ROUNDS:
        assert summary[f"{kind} refused"] > 20, summary
    assert summary["value found by check"] > 10, summary
    assert min(summary["ids sound"], summary["ids refused"]) > 5, summary
