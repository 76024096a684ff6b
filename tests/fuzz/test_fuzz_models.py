"""A few of the damaged models; ``python tests/fuzz/fuzz_models.py --cases 100000`` tries more."""

import fuzz_models
import pytest


@pytest.mark.slow
def test_damaged_models_and_states_are_refused_or_work():
    summary = fuzz_models.run(800, seed=0)
    assert summary["failures"] == []
    assert summary["cases"] == 800
    for kind in (*fuzz_models.KINDS, *fuzz_models.STATES):
        assert summary[f"{kind} refused"] > 5, summary
    assert min(summary["rows refused"], summary["rows work"]) > 5, summary
    assert all(summary[f"{kind} works"] for kind in fuzz_models.FOREIGN[:4]), summary
