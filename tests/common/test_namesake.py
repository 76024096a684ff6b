"""A distribution called structsvm in the folder of the package is another project."""

import subprocess
import sys
from pathlib import Path

import pytest

import structsvm
from structsvm.common.namesake import refuse_namesake


@pytest.mark.parametrize("record", ["structsvm-0.2.1.dist-info", "structsvm-0.2.1-py3.11.egg-info"])
def test_the_other_project_is_refused(tmp_path, record):
    (tmp_path / "structsvm").symlink_to(Path(structsvm.__file__).parent)
    (tmp_path / record).mkdir()
    run = subprocess.run(
        [sys.executable, "-c", "import structsvm"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    last = run.stderr.splitlines()[-1]
    assert last.startswith("ImportError: structsvm: another project of this name, structsvm-0.2.1")
    assert "pip uninstall structsvm structsvm-ranking" in last


def test_the_own_distribution_is_accepted(tmp_path):
    (tmp_path / "structsvm").mkdir()
    (tmp_path / "structsvm_ranking-0.1.0.dist-info").mkdir()
    refuse_namesake(str(tmp_path / "structsvm" / "__init__.py"))
