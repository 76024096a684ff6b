"""The direction of travel, read from the imports: who may know whom."""

import ast
import importlib.util
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "structsvm"

# room -> what it may import of the package, besides itself, the protocols, the two containers of data,
# the opening and writing of files, and what the machine has; later rooms know earlier ones
ALLOWED = {
    "protocols.py": set(),
    "queries.py": set(),
    "candidates.py": set(),
    "files.py": set(),
    "arrays.py": set(),
    "machine.py": set(),
    "checks.py": set(),
    "kernel.py": set(),
    "lazy.py": set(),
    "readers": set(),
    "features": {"readers"},
    "oracles": set(),
    "qp": set(),
    "trainers": {"qp"},
    "metrics": set(),
    "online": {"metrics", "readers"},
    "charts.py": set(),
    "report.py": {"charts"},
    "restored.py": set(),
    "persistence.py": {"restored"},
    "export.py": set(),
    "datasets": {"readers"},
    "baselines.py": {"features", "oracles"},
    "estimators": {"features", "oracles", "qp", "trainers", "metrics", "persistence"},
    "pyterrier.py": {"metrics"},
    "plots.py": {"metrics"},
    "fusion": {"readers", "features", "oracles", "trainers", "metrics", "persistence", "report"},
    "diversity": {"readers", "baselines", "metrics", "report"},
    "comparison": {"readers", "oracles", "estimators", "metrics", "report"},
    "demo": {"readers", "estimators", "metrics", "comparison", "report"},
    "clicks": {"readers", "oracles", "trainers", "estimators", "metrics", "online", "persistence", "report"},
    "testing": {"readers", "metrics", "persistence", "online"},
}
TOP = {"__init__.py", "__main__.py", "_version.py", "cli"}  # they may know everything
EVERYWHERE = {
    "protocols",
    "queries",
    "candidates",
    "files",
    "arrays",
    "machine",
    "checks",
    "kernel",
    "lazy",
    "_version",
}
NO_THIRD_PARTY = {
    "trainers": {"sklearn", "dask", "joblib", "pandas", "matplotlib"},
    "oracles": {"sklearn", "dask"},
    "qp": {"sklearn", "dask"},
}
# the online half says its results to the user
EXCEPTIONS = {"online/report.py": {"charts", "report"}, "online/statistics/page.py": {"report"}}


def modules():
    return sorted(p for p in PACKAGE.rglob("*.py") if "__pycache__" not in p.parts)


def imports(path):
    """Dotted names imported anywhere in the file, local imports included; type-checking blocks left out."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            if node.module == "structsvm":
                yield from (f"structsvm.{alias.name}" for alias in node.names)
            else:
                yield node.module


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_direction(path):
    place = path.relative_to(PACKAGE)
    room = place.parts[0]
    if room in TOP:
        return
    assert room in ALLOWED, f"{room}: a new room says above what it may import"
    for name in imports(path):
        top, *rest = name.split(".")
        if top != "structsvm":
            assert top not in NO_THIRD_PARTY.get(room, set()), f"{place} imports {name}"
        elif rest and rest[0] not in {*EVERYWHERE, room}:
            allowed = ALLOWED[room] | EXCEPTIONS.get(place.as_posix(), set())
            assert rest[0] in allowed, f"{place} imports {name}"


def decorated_kernels(tree):
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            names = {n.id for d in node.decorator_list for n in ast.walk(d) if isinstance(n, ast.Name)}
            if "njit" in names:
                yield node


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_cached_kernels_call_kernels_of_their_own_file_only(path):
    """Numba does not notice edits in another file: a cached caller would keep running the old code."""
    tree = ast.parse(path.read_text())
    foreign = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("structsvm")
        for alias in node.names
    }
    for kernel in decorated_kernels(tree):
        called = {
            n.func.id for n in ast.walk(kernel) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
        }
        assert not called & foreign, f"{path.name}: kernel {kernel.name} calls {called & foreign}"


@pytest.mark.parametrize(
    "script", sorted((PACKAGE.parent / "experiments").rglob("*.py")), ids=lambda p: p.stem
)
def test_scripts_import_what_there_is(script):
    """Scripts run for hours, so no test runs them whole: a name that was moved is found here."""
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "structsvm":
            module = importlib.import_module(node.module)
            for alias in node.names:
                assert hasattr(module, alias.name) or importlib.util.find_spec(f"{node.module}.{alias.name}")
