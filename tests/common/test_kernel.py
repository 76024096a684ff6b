"""The cache of compiled code notices an edit in any file of the folder."""

import os
import sys

import numpy as np
import pytest

from structsvm.common.kernel import _Entries, kernel
from tests.laws import LAW

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


@pytest.fixture
def run(python):
    """Return a function that returns what a fresh process prints."""

    def run(room, script=RUN, **variables):
        path = os.pathsep.join([str(room.parent), *sys.path])
        # byte code is known by the second and the size of its source, and would hide an edit within the second
        return python(script, PYTHONPATH=path, PYTHONDONTWRITEBYTECODE="1", **variables).split()

    return run


@pytest.mark.slow
@pytest.mark.parametrize("cached_in", ["beside the file", pytest.param("a folder of the user's", marks=LAW)])
def test_an_edited_callee_is_compiled_anew_and_nothing_else(room, tmp_path, cached_in, run):
    directory = "" if cached_in == "beside the file" else str(tmp_path / "cache")
    assert run(room, NUMBA_CACHE_DIR=directory) == ["21", "0"]
    assert run(room, NUMBA_CACHE_DIR=directory) == ["21", "1"]
    (room / "callee.py").write_text(CALLEE.format(factor=3))
    assert run(room, NUMBA_CACHE_DIR=directory) == ["31", "0"]
    assert run(room, NUMBA_CACHE_DIR=directory) == ["31", "1"]
    assert list((tmp_path / "cache" if directory else room).rglob("*.nbc"))


PRIVATE = [
    "caching.CompileResultCacheImpl",
    "caching.UserWideCacheLocator",
    "event.Listener",
    "event.register",
    "serialize.dumps",
    "registry.CPUDispatcher",
]

HIDDEN = """
import sys, types, warnings
import numba.core
import numba.core.{module} as given
# a copy of Numba's module without the name, as Numba would use a new name itself
renamed = types.ModuleType(given.__name__)
renamed.__dict__.update(vars(given))
del renamed.{name}
sys.modules[given.__name__] = numba.core.{module} = renamed
"""


@pytest.mark.parametrize("missing", [PRIVATE[0], *(pytest.param(name, marks=LAW) for name in PRIVATE[1:])])
def test_where_numba_lacks_a_name_its_own_compilation_and_cache_are_used(room, run, missing):
    module, name = missing.split(".")
    script = (
        HIDDEN.format(module=module, name=name)
        + """
with warnings.catch_warnings(record=True, action="always") as said:
    from room.caller import shifted
print(shifted(10), sum(shifted.stats.cache_hits.values()))
print(len(said), *["kernels are compiled by numba.njit(cache=True)" in str(one.message) for one in said])
"""
    )
    assert run(room, script) == ["21", "0", "1", "True"]
    if name == "register":  # the cache is the same for all
        assert run(room, script) == ["21", "1", "1", "True"]
    assert list(room.rglob("*.nbi"))  # the index of Numba's own cache


WORK = """
warnings.simplefilter("ignore")
import numpy as np
from structsvm import StructuralRanker
from structsvm.online import simulate
from structsvm.online.simulation.worlds import Utilities
from structsvm.readers import make_ranking
data = make_ranking(40, 10, 5, random_state=0)
for loss in ("map", "pairs", "ndcg@10"):
    print(StructuralRanker(loss).fit(data.X, data.y, qid=data.qid).coef_.tobytes().hex())
world = Utilities(np.array([0.9, 0.5, 0.1]))
for bandit in ("rucb", "rcs", "rmed1", "mergerucb", "mdb", "savage"):
    print(simulate(bandit, world, horizon=1000, seed=0).regret.tobytes().hex())
"""


@pytest.mark.slow
@pytest.mark.law
def test_fits_and_simulations_are_the_same_without_any_private_name(room, tmp_path, run):
    expected = run(room, "import warnings\n" + WORK)
    for missing in PRIVATE:
        module, name = missing.split(".")
        hidden = HIDDEN.format(module=module, name=name) + WORK
        assert run(room, hidden, NUMBA_CACHE_DIR=str(tmp_path / "kept")) == expected, missing


@pytest.mark.slow
def test_locators_of_the_user_leave_nothing_stale(room, run):
    name = "numba.core.caching.InTreeCacheLocator"  # read by Numba from 0.62 on
    assert run(room, NUMBA_CACHE_LOCATOR_CLASSES=name)[0] == "21"
    (room / "callee.py").write_text(CALLEE.format(factor=3))
    assert run(room, NUMBA_CACHE_LOCATOR_CLASSES=name)[0] == "31"


@pytest.mark.slow
def test_an_edit_in_a_folder_that_is_called_is_noticed(room, run):
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


def test_entries_of_processes_that_share_a_folder_do_not_mix(tmp_path, monkeypatch):
    one, other, edited = (_Entries(tmp_path, "f", stamp) for stamp in ("s", "s", "t"))
    one.save("int64", "code for int64")
    other.save("float64", "code for float64")
    for entries in (one, other):
        assert [entries.load(key) for key in ("int64", "float64", "bool")] == [
            "code for int64",
            "code for float64",
            None,
        ]
    assert edited.load("int64") is None
    monkeypatch.setattr(_Entries, "_path", lambda self, key: next(tmp_path.glob("*.nbc")))
    assert {one.load("int64"), one.load("float64")} in ({"code for int64", None}, {"code for float64", None})


@pytest.mark.parametrize("kept", [0, 3, 25, -1])
def test_a_damaged_entry_is_compiled_anew(tmp_path, kept):
    entries = _Entries(tmp_path, "f", "s")
    entries.save("int64", "code")
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:kept])
    assert entries.load("int64") is None
    entries.save("int64", "code")
    assert entries.load("int64") == "code"
    entries.flush()
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.parametrize("at_home", [True, False])
def test_where_code_is_kept_is_said_once_and_only_if_it_is_not_beside_the_package(
    room, tmp_path, beside, at_home, run
):
    home = tmp_path / "home"
    if not beside:
        (room / "__pycache__").touch()
    if not at_home:
        home.touch()
    script = (
        "import warnings\n"
        "with warnings.catch_warnings(record=True) as said:\n"
        "    warnings.simplefilter('always')\n"
        "    from room.caller import shifted\n"
        "    print(shifted(10), shifted(10.0), sum(shifted.stats.cache_hits.values()))\n"
        "print(*[str(each.message).split(',')[0] for each in said], sep='\\n')\n"
    )
    kept = beside or at_home
    place = (
        "" if beside else f"compiled code is kept in {home}/numba" if at_home else "compiled code is not kept"
    )
    for process in (0, 1):
        said = run(room, script, NUMBA_CACHE_DIR="", XDG_CACHE_HOME=str(home))
        assert said[:3] == ["21", "21.0", "2" if kept and process else "0"]
        assert said[3:] == ([] if kept and process else place.split())


@pytest.mark.slow
def test_code_in_folders_that_cannot_be_written_is_found(room, run):
    assert run(room, NUMBA_CACHE_DIR="") == ["21", "0"]
    script = "from structsvm.common import kernel\nkernel._writable = lambda folder: False\n" + RUN
    assert run(room, script, NUMBA_CACHE_DIR="", XDG_CACHE_HOME="nowhere") == ["21", "1"]


@pytest.mark.slow
def test_kernels_run_if_the_cache_cannot_be_written(room, run):
    full = (
        "import warnings\nfrom structsvm.common import kernel\n"
        "def save(*arguments):\n    raise OSError(28, 'No space left on device')\n"
        "kernel._Entries.save = save\nwarnings.simplefilter('ignore')\n" + RUN
    )
    assert run(room, full, NUMBA_CACHE_DIR="") == ["21", "0"]
    assert run(room, NUMBA_CACHE_DIR="") == ["21", "0"]


def test_a_kernel_does_not_take_over_the_options_of_its_caller(room, run):
    """Numba compiles a function with the fastmath of the first function that calls it, unless it has its own."""
    (room / "made.py").write_text(
        "from structsvm.common.kernel import kernel\n"
        "@kernel\ndef callee(x):\n    return 1.0 if x <= 1.0 else 2.0 if x > 1.0 else x\n"
        "@kernel(fastmath={'nnan'})\ndef caller(x):\n    return callee(x)\n"
    )
    script = (
        "from room.made import callee, caller\n"
        "caller(0.0)\nprint(callee(float('nan')), callee.targetoptions['fastmath'])\n"
    )
    assert run(room, script) == ["nan", "False"]


@kernel
def _doubled(x):
    x[0] *= 2.0
    return x


@kernel
def _copy(x):
    return _doubled(x.copy())


def test_only_kernels_that_make_arrays_count_references():
    assert not _doubled.targetoptions["_nrt"]
    assert _copy.targetoptions["_nrt"]
    # the caller would release a reference that was never counted
    with pytest.raises(TypeError, match="_doubled: returns an array that it did not allocate"):
        _doubled(np.arange(3.0))


def test_read_only_arrays_are_read_by_the_code_for_others(run, room):
    (room / "made.py").write_text(
        "from structsvm.common.kernel import kernel\n"
        "from typing import Any, NamedTuple\n"
        "class Pair(NamedTuple):\n    a: Any\n    b: Any\n"
        "@kernel\ndef first(pair, x):\n    return pair.a[0] + pair.b[0] + x[0]\n"
    )
    script = (
        "import itertools\nimport numpy as np\nfrom room.made import Pair, first\n"
        "from structsvm.common.numba_internals import is_kept\n"
        "locked = np.ones(1)\nlocked.flags.writeable = False\n"
        "kinds = [(Pair(a, b), x) for a, b, x in itertools.product((locked, np.ones(1)), repeat=3)]\n"
        "print(is_kept(first, kinds[0]), *{first(*kind) for kind in kinds * 2}, len(first.signatures))\n"
        "print(*{is_kept(first, kind) for kind in kinds}, sum(first.stats.cache_hits.values()))\n"
    )
    assert run(room, script) == ["False", "3.0", "1", "True", "0"]
    assert run(room, script) == ["True", "3.0", "1", "True", "1"]


def test_read_only_arrays_of_a_kernel_itself_can_be_handed_on():
    table = np.arange(3.0)
    table.flags.writeable = False

    @kernel
    def second(x):
        return x[1]

    @kernel
    def caller(x):
        return second(x) + second(table)

    assert caller(table) == 2.0
    assert second(table) == 1.0
    assert caller(np.ones(2)) == 2.0
