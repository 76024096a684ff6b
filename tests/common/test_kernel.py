"""The cache of compiled code notices an edit in any file of the folder."""

import os
import subprocess
import sys

import pytest

CALLEE = """
from structsvm.common.kernel import kernel

@kernel
def twice(x):
    return {factor} * x
"""
CALLER = """
from structsvm.common.kernel import kernel
from room.callee import twice

@kernel
def shifted(x):
    return twice(x) + 1
"""
RUN = """
from room.caller import shifted
print(shifted(10), sum(shifted.stats.cache_hits.values()))
"""


@pytest.fixture
def room(tmp_path):
    folder = tmp_path / "room"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "callee.py").write_text(CALLEE.format(factor=2))
    (folder / "caller.py").write_text(CALLER)
    return folder


def run(room, script=RUN, **variables):
    """What a fresh process prints."""
    path = os.pathsep.join([str(room.parent), *sys.path])
    environment = os.environ | {"PYTHONPATH": path} | variables
    return subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    ).stdout.split()


@pytest.mark.parametrize("cached_in", ["beside the file", "a folder of the user's"])
def test_an_edited_callee_is_compiled_anew_and_nothing_else(room, tmp_path, cached_in):
    directory = "" if cached_in == "beside the file" else str(tmp_path / "cache")
    assert run(room, NUMBA_CACHE_DIR=directory) == ["21", "0"]
    assert run(room, NUMBA_CACHE_DIR=directory) == ["21", "1"]
    (room / "callee.py").write_text(CALLEE.format(factor=3))
    assert run(room, NUMBA_CACHE_DIR=directory) == ["31", "0"]
    assert run(room, NUMBA_CACHE_DIR=directory) == ["31", "1"]
    assert list((tmp_path / "cache" if directory else room).rglob("*.nbi"))


def test_without_the_names_of_numba_nothing_is_cached_and_nothing_is_stale(room):
    script = "from numba.core import caching\ndel caching.CompileResultCacheImpl\n" + RUN
    assert run(room, script) == ["21", "0"]
    (room / "callee.py").write_text(CALLEE.format(factor=3))
    assert run(room, script) == ["31", "0"]
    assert not list(room.rglob("*.nbi"))


def test_locators_of_the_user_leave_nothing_stale(room):
    name = "numba.core.caching.InTreeCacheLocator"  # read by Numba from 0.62 on
    assert run(room, NUMBA_CACHE_LOCATOR_CLASSES=name)[0] == "21"
    (room / "callee.py").write_text(CALLEE.format(factor=3))
    assert run(room, NUMBA_CACHE_LOCATOR_CLASSES=name)[0] == "31"


def test_an_edit_in_a_folder_that_is_called_is_noticed(room):
    other = room.parent / "other"
    other.mkdir()
    (other / "__init__.py").touch()
    (room / "callee.py").rename(other / "callee.py")
    (room / "caller.py").write_text(CALLER.replace("room.callee", "other.callee"))
    declared = (
        "from pathlib import Path\nfrom structsvm.common import kernel\nkernel.CALLS['room'] = ('other',)\n"
        f"kernel._folder = lambda name: Path({str(room.parent)!r}) / name\n" + RUN
    )
    assert run(room, declared) == ["21", "0"]
    assert run(room, declared) == ["21", "1"]
    (other / "callee.py").write_text(CALLEE.format(factor=3))
    assert run(room, declared) == ["31", "0"]
