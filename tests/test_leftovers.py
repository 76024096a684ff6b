"""A run leaves nothing in the temporary folder: neither its first process nor its workers."""

import os
import subprocess
import sys
from pathlib import Path

LEAVING = """
import subprocess, sys, tempfile
def test_that_leaves_folders(tmp_path):
    tempfile.mkdtemp()
    assert str(tmp_path).startswith(tempfile.gettempdir().rpartition("/structsvm-tests-")[0])
    subprocess.run([sys.executable, "-c", "import tempfile; tempfile.mkdtemp()"], check=True)
"""


def test_the_temporary_folder_is_as_before(tmp_path):
    root, folder = Path(__file__).parents[1], tmp_path / "temporary"
    folder.mkdir()
    (tmp_path / "test_leaving.py").write_text(LEAVING)
    (tmp_path / "conftest.py").write_text((root / "conftest.py").read_text())
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", str(tmp_path)]
    options = ["-o", "tmp_path_retention_policy=failed"]
    done = subprocess.run(
        command + options, cwd=tmp_path, env=own | {"TMPDIR": str(folder)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    assert [path for path in folder.rglob("*") if not path.name.startswith("pytest-")] == []
