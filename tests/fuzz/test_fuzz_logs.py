"""A thousand damaged click logs; ``fuzz_logs.py`` runs any number."""

from fuzz_logs import run


def test_damaged_click_logs_are_read_or_refused_in_one_line():
    summary = run(1000, 1)
    assert summary["failures"] == []
    assert summary["answered"] > 100
    assert summary["refused"] > 100
    assert summary["peak_gb"] < 2
