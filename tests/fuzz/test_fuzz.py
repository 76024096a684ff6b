"""Some hundred damaged files of each kind; ``python tests/fuzz/fuzz_logs.py --cases 100000`` and its like try more."""

import fuzz_logs
import fuzz_models
import fuzz_readers
import fuzz_stores
import pytest
from common import run_in_child

pytestmark = pytest.mark.slow


ENDS = ("accepted", "refused")


@pytest.mark.parametrize(
    ("fuzzer", "cases", "seed", "most", "outcomes"),
    [
        (fuzz_logs, 2000, 1, 1000, {f"{kind} {end}": 80 for kind in fuzz_logs.KINDS for end in ENDS}),
        (fuzz_readers, 2700, 1, 300, {f"{kind} {end}": 0 for kind in fuzz_readers.KINDS for end in ENDS}),
        (fuzz_models, 800, 0, None, {f"{k} refused": 5 for k in (*fuzz_models.KINDS, "bandit")}),
        (
            fuzz_stores,
            800,
            0,
            None,
            {f"{kind} refused": 20 for kind in fuzz_stores.ROUNDS} | {"value found by check": 10},
        ),
    ],
    ids=["logs", "readers", "models", "stores"],
)
def test_damaged_files_are_refused_in_one_line_or_read_and_work(fuzzer, cases, seed, most, outcomes):
    """Each outcome more often than stated, and no more memory than so many megabytes."""
    summary = run_in_child(fuzzer.__file__, cases, seed)
    assert (summary["failures"], summary["cases"]) == ([], cases)
    assert all(summary.get(outcome, 0) > least for outcome, least in outcomes.items()), summary
    assert most is None or summary["grown megabytes"] < most
