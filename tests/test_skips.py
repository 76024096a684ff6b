"""A run says at its end what it did not test, and no test depends on the time an example takes."""

import subprocess
import sys
from pathlib import Path

from hypothesis import settings

SKIPPING = """
import pytest
def test_that_passes(): pass
@pytest.mark.parametrize("i", range(3))
def test_of_data(shared_data, i): shared_data("nothing of that name")
def test_of_a_tool(): pytest.skip("needs a browser")
@pytest.mark.skipif(True, reason="root may write anywhere")
def test_of_a_user(): pass
"""


def test_reasons_and_counts_are_listed(tmp_path):
    (tmp_path / "test_skipping.py").write_text(SKIPPING)
    (tmp_path / "conftest.py").write_text((Path(__file__).parent / "conftest.py").read_text())
    done = subprocess.run(  # of workers, and as quiet as can be
        [sys.executable, "-m", "pytest", "-qq", "-n", "1", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert any("not tested here: 5 tests" in line for line in lines), done.stdout
    said = next(line for line in lines if "nothing of that name" in line)
    assert said.startswith("    3  needs nothing of that name of the public data sets in ")
    assert "    1  needs a browser" in lines
    assert "    1  root may write anywhere" in lines


def test_examples_have_no_deadline():
    assert settings.default.deadline is None
    assert settings().deadline is None
