"""What every test run needs before the package is imported."""

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

# A run leaves nothing behind: what tests, libraries and the processes they start put into the temporary folder lies in
# one that is removed at the end. Folders of ``tmp_path`` stay where pytest keeps those of failed tests.
_OWN = None
if "PYTEST_XDIST_WORKER" not in os.environ:  # workers have the folder of the process that starts them
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    _OWN = tempfile.mkdtemp(prefix="structsvm-tests-")
    os.environ["TMPDIR"] = tempfile.tempdir = _OWN


def pytest_collection_finish(session: Any) -> None:
    """Keep what was imported and collected out of later collections of garbage: it stays until the end."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure(config: Any) -> None:
    """Remove the temporary folder of this run."""
    if _OWN is not None:
        shutil.rmtree(_OWN, ignore_errors=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: Any) -> int:
    """Return one process more than processors: some tests wait for services, browsers and clocks."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture(autouse=True)
def _closes_figures() -> Iterator[None]:
    """Close what a test or an example has drawn: matplotlib warns of the 21st open figure, whoever opened it."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(autouse=True)
def _examples_write_elsewhere(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let examples of docstrings write their files into a folder of their own."""
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch.chdir(request.getfixturevalue("tmp_path"))
