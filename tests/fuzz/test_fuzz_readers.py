"""A few thousand damaged files; ``fuzz_readers.py`` runs any number."""

import pytest
from fuzz_readers import run


@pytest.mark.slow
def test_damaged_files_are_read_as_by_the_slow_readers_or_refused():
    run(9, 0)  # what is compiled is compiled now: memory is measured below
    summary = run(2700, 1)
    assert not summary.failures, str(summary)
    assert all(summary.accepted[kind] and summary.refused[kind] for kind in summary.refused), str(summary)
    assert summary.grown_megabytes < 300, str(summary)
