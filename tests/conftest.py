"""Fixtures of several folders."""

import gc
import json
import os
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# limits of time fail where the machine is busy or a kernel is compiled: time is measured in experiments, not in tests.
# The examples are the same in each run; ``--hypothesis-profile explore`` draws others
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("structsvm", settings.get_profile("explore"), derandomize=True)
settings.load_profile("structsvm")

# the default looks for cycles after each 700 new objects
gc.set_threshold(20_000, 20, 20)

_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Callable[..., Path]:
    """Return a function from the name of a public data set in ``data/README.md`` to its path; skip if it is missing.

    The data sets are in ``../shared/data`` beside the project, or in the folder of the variable ``STRUCTSVM_DATA``.
    """
    folder = Path(os.environ.get("STRUCTSVM_DATA", _BESIDE))

    def find(name: str = ".") -> Path:
        path = folder / name
        if not path.exists():
            where = "STRUCTSVM_DATA" if "STRUCTSVM_DATA" in os.environ else "../shared/data"
            needed = "" if name == "." else f"{name} of "
            pytest.skip(f"needs {needed}the public data sets in {where} (see data/README.md)")
        return path

    return find


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over the millions of objects of the collection, which all last until the end."""
    gc.collect()
    gc.freeze()


class CommandLine:
    """Runs commands in this process; texts are split as by a shell, other arguments are single words."""

    def __init__(self, capsys):
        self._capsys = capsys

    def code(self, *words):
        """Run a command and return its status; its output is in ``out`` and ``err``."""
        from structsvm.cli import main

        split = (shlex.split(word) if isinstance(word, str) else [str(word)] for word in words)
        self._capsys.readouterr()
        code = main([*chain(*split)])
        self.out, self.err = self._capsys.readouterr()
        return code

    def __call__(self, *words):
        """Return the output of a command that succeeds."""
        assert self.code(*words) == 0, self.err
        return self.out

    def json(self, *words, status=0):
        """Return the record that a command printed in one line."""
        assert self.code(*words, "--json") == status, self.err
        text = self.out
        assert text.count("\n") == 1
        return json.loads(text)

    def refuses(self, *words):
        """Return the error line of a refused command; notes may precede it."""
        assert self.code(*words) == 2, self.err
        *remarks, error = self.err.splitlines()
        assert error.startswith("structsvm: error: ")
        assert all(remark.startswith("structsvm: ") for remark in remarks)
        assert "Traceback" not in self.err
        assert self.out == ""
        return error


@pytest.fixture
def cli(capsys, tmp_path, monkeypatch):
    """Return a command line that runs in a new temporary folder."""
    monkeypatch.chdir(tmp_path)
    return CommandLine(capsys)


@pytest.fixture
def routing():
    """Let scikit-learn pass query ids on."""
    from sklearn import config_context

    with config_context(enable_metadata_routing=True):
        yield


@pytest.fixture(scope="session")
def python() -> Callable[..., str]:
    """Return a function that runs code in a separate process, and returns its output."""

    def run(code: str, *arguments: object, **variables: str) -> str:
        command = [sys.executable, "-c", code, *map(str, arguments)]
        environment = os.environ | variables
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    return run


def skipped(reports: list[Any]) -> dict[str, int]:
    """Return the reasons why tests were skipped and their numbers, most frequent first."""
    reasons = Counter()
    for report in reports:
        text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reasons[text.removeprefix("Skipped: ")] += 1
    return dict(sorted(reasons.items(), key=lambda entry: (-entry[1], entry[0])))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List at the end of a run the reasons for which tests were skipped, with their numbers."""
    reasons = skipped(terminalreporter.stats.get("skipped", []))
    if reasons:
        terminalreporter.section(f"not tested here: {sum(reasons.values())} tests", sep="-")
        for reason, n in reasons.items():
            terminalreporter.line(f"{n:5d}  {reason}")
