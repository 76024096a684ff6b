"""``import structsvm`` loads little, and all public names can be imported."""

import compileall
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import structsvm

HEAVY = [
    "numba",
    "sklearn",
    "scipy.stats",
    "cvxpy",
    "matplotlib",
    "pandas",
    "polars",
    "pyarrow",
    "dask",
    "joblib",
    "typer",
]


LIGHT = """
import sys
import structsvm, structsvm.protocols, structsvm.metrics, structsvm.online
from structsvm import QueryData, online
dir(structsvm)
online.bandits.make("rucb", 3), online.simulate, online.Utilities([0.1, 0.2]), online.users.CascadeUser
online.interleaving.TeamDraft, online.interleaving.Optimized
import structsvm.readers
"""


def test_imports_are_light(python):
    assert python(f"{LIGHT}\nprint(*[m for m in {HEAVY!r} if m in sys.modules])") == "\n"
    names = ["numpy", "msgspec", "importlib.metadata"]
    assert python(f"import sys, structsvm\nprint(*[m for m in {names!r} if m in sys.modules])") == "\n"


@pytest.mark.parametrize("table", ["features", "clicks"])
def test_a_csv_is_read_without_pandas(tmp_path, table, python):
    """Small tables are read without pandas, whose import for one scalar takes longer than reading."""
    path = tmp_path / "t.csv"
    if table == "features":
        path.write_text("qid,docid,label,x,b\n1,,1,1,true\n".replace(",,", ",7.0,") + "2,é,0,,false\n")
        read = "from structsvm.readers import read_csv as read"
    else:
        path.write_text("query,document,position,clicked,session,time\na,1.0,1,1,,\nb,2,1,0,s,2026-01-01\n")
        read = "from functools import partial; from structsvm.clicks import read_table as read"
        read += "; read = partial(read, session='session', time='time', between=('2020-01-01', None))"
    options = "fill=0.0" if table == "features" else ""
    assert (
        python(f"{read}; read({str(path)!r}, {options}); import sys; print('pandas' in sys.modules)")
        == "False\n"
    )


@pytest.fixture(scope="module", params=["a zip", "compiled files without sources"])
def elsewhere(request, tmp_path_factory):
    """Return the package in a zip, or as compiled files."""
    folder = tmp_path_factory.mktemp("elsewhere")
    copy = shutil.copytree(
        Path(structsvm.__file__).parent,
        folder / "build" / "structsvm",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    if request.param == "a zip":
        with zipfile.ZipFile(folder / "package.zip", "w") as archive:
            for path in copy.rglob("*"):
                archive.write(path, path.relative_to(copy.parent))
        return folder / "package.zip"
    assert compileall.compile_dir(copy, quiet=1, legacy=True)
    for path in copy.rglob("*.py"):
        path.unlink()
    return Path(shutil.move(copy.parent, folder / "moved"))


LOOK = """
import sys
import structsvm
assert structsvm.__file__.startswith(sys.argv[1]), structsvm.__file__
for name in structsvm.__all__:
    getattr(structsvm, name)
from structsvm.live.web.pages import routes
assert routes(None)
import numpy as np
from structsvm.oracles.sorting import sort_buffers, sort_descending
rows = np.arange(2, dtype=np.int32)
sort_descending(np.array([1.0, 2.0]), rows, 2, sort_buffers(2))
assert rows.tolist() == [1, 0]
from structsvm.online.bandits import NAMES, make
assert all(make(name, 3, 100) for name in NAMES)
"""


@pytest.mark.slow
def test_a_zip_and_files_without_sources_import_and_compile(elsewhere):
    """No module depends on its file; ``tests/test_architecture.py`` checks the modules that are not imported here."""
    environment = os.environ | {"PYTHONPATH": str(elsewhere)}
    ran = subprocess.run(
        [sys.executable, "-c", LOOK, str(elsewhere)],
        capture_output=True,
        text=True,
        env=environment,
        cwd=elsewhere.parent,
    )
    assert ran.returncode == 0, ran.stderr
