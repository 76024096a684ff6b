"""Some hundred damaged files of each kind; ``python tests/fuzz/fuzz_logs.py --cases 100000`` and its like try more."""

import fuzz_logs
import fuzz_models
import fuzz_readers
import fuzz_stores
import pytest
from common import run_in_child

pytestmark = pytest.mark.slow


def run(fuzzer, cases, seed):
    summary = run_in_child(fuzzer.__file__, cases, seed)
    assert summary["failures"] == []
    assert summary["cases"] == cases
    return summary


def test_damaged_click_logs_are_read_or_refused_in_one_line():
    summary = run(fuzz_logs, 2000, 1)
    assert all(
        summary[f"{kind} {end}"] > 80 for kind in fuzz_logs.KINDS for end in ("accepted", "refused")
    ), summary
    assert summary["grown megabytes"] < 1000


def test_damaged_files_are_read_as_by_the_slow_readers_or_refused():
    summary = run(fuzz_readers, 2700, 1)
    assert all(summary[f"{kind} {end}"] for kind in fuzz_readers.KINDS for end in ("accepted", "refused")), (
        summary
    )
    assert summary["grown megabytes"] < 300


def test_damaged_models_and_states_are_refused_or_work():
    summary = run(fuzz_models, 800, 0)
    for kind in (*fuzz_models.KINDS, *fuzz_models.STATES):
        assert summary[f"{kind} refused"] > 5, summary


def test_damaged_stores_are_refused_or_work():
    summary = run(fuzz_stores, 800, 0)
    for kind in fuzz_stores.ROUNDS:
        assert summary[f"{kind} refused"] > 20, summary
    assert summary["value found by check"] > 10, summary
    assert min(summary["ids sound"], summary["ids refused"]) > 5, summary
