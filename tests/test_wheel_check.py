"""The check of wheels accepts the package, and reports missing, unexpected and misnamed files."""

import importlib.util
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def check_wheel():
    spec = importlib.util.spec_from_file_location("check_wheel", ROOT / ".ci" / "check_wheel.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_wheel(path, *, without=(), extra=(), info="structsvm_ranking-0.1.0.dist-info"):
    files = [
        file.relative_to(ROOT).as_posix()
        for file in (ROOT / "structsvm").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    ]
    with zipfile.ZipFile(path, "w") as archive:
        for name in [*files, f"{info}/METADATA", f"{info}/licenses/LICENSE", *extra]:
            if name not in without:
                archive.writestr(name, "")
    return path


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, None),
        ({"without": ["structsvm/py.typed"]}, "py.typed"),
        ({"without": ["structsvm/oracles/log_rank.py"]}, "log_rank.py"),
        ({"extra": ["tests/test_docs.py"]}, "beside the package"),
        ({"extra": ["structsvm/notes.txt"]}, "notes.txt"),
        ({"info": "structsvm-0.1.0.dist-info"}, "dist-info"),
    ],
)
def test_problems(check_wheel, tmp_path, change, said):
    found = check_wheel.problems(write_wheel(tmp_path / "made.whl", **change), ROOT)
    assert found == [] if said is None else any(said in problem for problem in found)
