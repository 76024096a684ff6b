"""The same data, options and version give the same bytes with any number of threads and on any processor.

``digests.json`` was written on one processor (``python digests.py > digests.json``); every other one must agree.
"""

import json
import os
import subprocess
import sys
import warnings
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from llvmlite import binding

from tests.laws import LAW

HERE = Path(__file__).parent
WRITTEN = json.loads((HERE / "digests.json").read_text())

NEEDS = {  # a processor for each length of vectors
    "generic": set(),
    "haswell": {"avx2", "fma"},
    "znver4": {"avx512f", "avx512vnni", "avx512bf16"},
}


def load_digests():
    spec = spec_from_file_location("digests", HERE / "digests.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


DIGESTS = load_digests()


def test_every_case_has_a_digest():
    assert WRITTEN.keys() == DIGESTS.CASES.keys()


THREADED = [name for name, case in DIGESTS.CASES.items() if "THREADS" in case.__code__.co_names]


@pytest.mark.parametrize(
    ("name", "threads"), [*((name, 1) for name in DIGESTS.CASES), *((name, 3) for name in THREADED)]
)
def test_this_processor(name, threads, monkeypatch):
    monkeypatch.setattr(DIGESTS, "THREADS", threads)
    with warnings.catch_warnings(action="ignore"):
        assert DIGESTS.digest(DIGESTS.CASES[name]()) == WRITTEN[name], (
            "other bytes than were written; if the case itself has grown, as by another bandit, write them again: "
            "python tests/portability/digests.py > tests/portability/digests.json"
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("processor", "left_out"),
    # the compilation of all bandits takes as long as that of most other cases together
    [("generic", {"bandits"}), *(pytest.param(processor, set(), marks=LAW) for processor in NEEDS)],
)
def test_other_processors(processor, left_out, tmp_path):
    """Compile for another processor, with BLAS, NumPy's loops and the C library set to an old processor."""
    has = binding.get_host_cpu_features()
    if missing := sorted(name for name in NEEDS[processor] if not has.get(name)):
        pytest.skip(f"this machine cannot run code for {processor}: it has no {', '.join(missing)}")
    environment = os.environ | {
        "NUMBA_CPU_NAME": processor,
        "NUMBA_CACHE_DIR": str(tmp_path),
        "OPENBLAS_CORETYPE": "Nehalem" if processor == "generic" else "Haswell",
    }
    if processor == "generic":
        environment["NPY_DISABLE_CPU_FEATURES"] = _known_to_numpy()
        environment["GLIBC_TUNABLES"] = "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX"
    ran = subprocess.run(
        [sys.executable, str(HERE / "digests.py"), *sorted(WRITTEN.keys() - left_out)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE.parent.parent,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    found = json.loads(ran.stdout)
    assert found == {name: WRITTEN[name] for name in found}
    assert found.keys() == WRITTEN.keys() - left_out


def _known_to_numpy() -> str:
    """Return the features that this NumPy can disable on this machine; it refuses unknown names."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    return " ".join(name for name in __cpu_dispatch__ if __cpu_features__.get(name))
