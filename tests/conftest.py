"""What tests of several rooms share."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# limits of time fail where the machine is busy or a kernel is compiled: time is measured in experiments, not in tests
settings.register_profile("structsvm", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("structsvm")

_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Callable[..., Path]:
    """A file or folder of the public data sets by its name in ``data/README.md``; where it is not, the test is skipped.

    They lie in ``../shared/data`` beside the project, or where the variable ``STRUCTSVM_DATA`` says.
    """
    folder = Path(os.environ.get("STRUCTSVM_DATA", _BESIDE))

    def find(name: str = ".") -> Path:
        path = folder / name
        if not path.exists():
            place = "STRUCTSVM_DATA" if "STRUCTSVM_DATA" in os.environ else "../shared/data"
            pytest.skip(f"needs {name} of the public data sets in {place} (see data/README.md)")
        return path

    return find


def skipped(reports: list[Any]) -> dict[str, int]:
    """Reasons why tests were skipped, most frequent first, with the number of tests."""
    reasons = Counter()
    for report in reports:
        text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reasons[text.removeprefix("Skipped: ")] += 1
    return dict(sorted(reasons.items(), key=lambda entry: (-entry[1], entry[0])))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say at the end of every run what was not tested, and why: no data, no browser, root, no other tool."""
    reasons = skipped(terminalreporter.stats.get("skipped", []))
    if reasons:
        terminalreporter.section(f"not tested here: {sum(reasons.values())} tests", sep="-")
        for reason, n in reasons.items():
            terminalreporter.line(f"{n:5d}  {reason}")
