"""``import structsvm`` loads next to nothing, and every public name leads somewhere."""

import subprocess
import sys

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
    "dask",
    "joblib",
    "typer",
]


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()


@pytest.mark.parametrize(
    "statement", ["import structsvm", "import structsvm; dir(structsvm)", "import structsvm.readers"]
)
def test_import_is_light(statement):
    assert run(f"{statement}; import sys; print(*[m for m in {HEAVY!r} if m in sys.modules])") == []


def test_data_and_protocols_need_neither_numba_nor_scikit_learn():
    code = "from structsvm import QueryData; import structsvm.protocols, sys; print(*[m for m in ('numba', 'sklearn', "
    assert run(code + "'cvxpy', 'matplotlib') if m in sys.modules])") == []


def test_every_public_name_is_there():
    for name in structsvm.__all__:
        assert getattr(structsvm, name) is not None
    assert set(structsvm.__all__) <= set(dir(structsvm))
    assert structsvm.StructuralRanker.__module__ == "structsvm.estimators.structural"


@pytest.mark.parametrize("room", ["features", "metrics", "oracles", "readers", "testing"])
def test_rooms_are_reached_by_attribute(room):
    assert run(f"import structsvm; print(structsvm.{room}.__name__)") == [f"structsvm.{room}"]


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        structsvm.nothing  # noqa: B018
