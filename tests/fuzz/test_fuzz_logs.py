"""Two thousand damaged click logs; ``fuzz_logs.py`` runs any number."""

import pytest
from fuzz_logs import run


@pytest.mark.slow
def test_damaged_click_logs_are_read_or_refused_in_one_line():
    summary = run(2000, 1)
    assert not summary.failures, str(summary)
    assert min(min(counts.values()) for counts in (summary.accepted, summary.refused)) > 80, str(summary)
    assert summary.grown_megabytes < 1000
