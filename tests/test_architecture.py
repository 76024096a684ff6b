"""The direction of travel, read from the imports: who may know whom."""

import ast
import importlib.util
from pathlib import Path

import pytest

from structsvm.common.kernel import CALLS

PACKAGE = Path(__file__).resolve().parent.parent / "structsvm"

# room -> what it may import of the package, besides itself, the protocols, the two containers of data,
# the checks and the common helpers; later rooms know earlier ones
ALLOWED = {
    "protocols.py": set(),
    "queries.py": set(),
    "candidates.py": set(),
    "checks.py": set(),
    "common": set(),
    "readers": set(),
    "features": {"readers"},
    "oracles": set(),
    "qp": set(),
    "trainers": {"qp"},
    "metrics": set(),
    "online": {"metrics", "readers"},
    "report": set(),
    "export": {"metrics"},
    "datasets": {"readers"},
    "baselines.py": {"features", "oracles"},
    "estimators": {"features", "oracles", "qp", "trainers", "metrics", "export", "readers"},
    "plots.py": {"metrics", "estimators"},
    "studies": {
        "readers",
        "features",
        "oracles",
        "trainers",
        "estimators",
        "baselines",
        "metrics",
        "export",
        "report",
    },
    "clicks": {"readers", "oracles", "trainers", "estimators", "metrics", "online", "export", "report"},
    "dask": {"readers", "features", "oracles", "trainers", "metrics", "estimators"},
    "testing": {"readers", "metrics", "export", "online"},
    "live": {"online", "clicks", "estimators", "readers", "report"},
}
TOP = {"__init__.py", "__main__.py", "_version.py", "cli"}  # they may know everything
EVERYWHERE = {
    "protocols",
    "queries",
    "candidates",
    "checks",
    "common",
    "_version",
}
NO_THIRD_PARTY = {
    "trainers": {"sklearn", "dask", "joblib", "pandas", "matplotlib"},
    "oracles": {"sklearn", "dask"},
    "qp": {"sklearn", "dask"},
}
# the online half says its results to the user
EXCEPTIONS = {"online/simulation/page.py": {"report"}, "online/statistics/page.py": {"report"}}


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


def compiled_functions(tree):
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            names = {n.id for d in node.decorator_list for n in ast.walk(d) if isinstance(n, ast.Name)}
            if names & {"kernel", "njit", "overload"}:
                yield node


def uses_njit(tree):
    return any(
        (isinstance(node, ast.ImportFrom) and node.module == "numba" and {"njit", "jit"} & imported(node))
        or (isinstance(node, ast.Import) and "numba" in imported(node))
        for node in ast.walk(tree)
    )


def imported(node):
    return {alias.name for alias in node.names}


def kernels_with_foreign_names(tree, folder):
    """Kernels and the names they use that are imported from where an edit would not be noticed."""
    noticed = {folder, *CALLS.get(folder, ())}
    foreign = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("structsvm")
        for alias in node.names
        if uses_njit(tree) or noticed.isdisjoint((node.module, node.module.rpartition(".")[0]))
    }
    for function in compiled_functions(tree):
        used = {n.id for part in function.body for n in ast.walk(part) if isinstance(n, ast.Name)}
        if used & foreign:
            yield function.name, used & foreign


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_kernels_call_kernels_of_their_own_folder_only(path):
    """The cache of a kernel notices edits in its folder and in those of ``CALLS``; numba's own, in one file alone."""
    folder = ".".join(("structsvm", *path.relative_to(PACKAGE).parent.parts))
    assert not list(kernels_with_foreign_names(ast.parse(path.read_text()), folder))


@pytest.mark.parametrize(
    ("line", "decorator", "caught"),
    [
        ("from structsvm.oracles.sorting import merge", "kernel", False),
        ("from structsvm.features.words import merge", "kernel", True),
        ("from structsvm.oracles.deeper.sorting import merge", "kernel", True),
        ("from structsvm import merge", "kernel", True),
        ("from structsvm.features.words import merge", "overload(g)", True),
        ("from numba import njit\nfrom structsvm.oracles.sorting import merge", "njit", True),
    ],
)
def test_a_foreign_kernel_is_found(line, decorator, caught):
    tree = ast.parse(f"{line}\n@{decorator}\ndef f(x):\n    return merge(x)")
    assert list(kernels_with_foreign_names(tree, "structsvm.oracles")) == [("f", {"merge"})] * caught


def test_the_folders_that_kernels_call_exist_and_call_no_further():
    folders = {".".join(("structsvm", *path.relative_to(PACKAGE).parent.parts)) for path in modules()}
    for caller, called in CALLS.items():
        assert {caller, *called} <= folders
        assert not set(called) & set(CALLS)


def test_only_one_file_compiles():
    users = [p.relative_to(PACKAGE).as_posix() for p in modules() if uses_njit(ast.parse(p.read_text()))]
    assert users == ["common/kernel.py"]


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


READS = {
    "startswith",
    "endswith",
    "replace",
    "partition",
    "rpartition",
    "split",
    "removeprefix",
    "find",
    "index",
}


def caught(tree):
    """Handlers ``except ... as name``, and the name."""
    return [(node, node.name) for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.name]


def reads_text(node, name):
    """Whether a call looks into the text of the error ``name``: a method of it, a regular expression, a comparison."""

    def is_text(part):
        part = (
            part.func.value if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) else part
        )
        shown = ast.unparse(part)
        return shown in {f"str({name})", f"repr({name})"} or shown.startswith(f"{name}.args")

    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in READS and is_text(node.func.value):
            return True
        return ast.unparse(node.func.value) == "re" and any(is_text(argument) for argument in node.args)
    return isinstance(node, ast.Compare) and any(is_text(part) for part in (node.left, *node.comparators))


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_code_reads_the_text_of_an_error(path):
    """Fields say which argument is wrong and what to do; a text may be shown, or stand in another."""
    for handler, name in caught(ast.parse(path.read_text())):
        lines = [
            node.lineno for node in ast.walk(handler) if isinstance(node, ast.expr) and reads_text(node, name)
        ]
        if path.relative_to(PACKAGE).as_posix() == "testing/rankers.py":
            assert len(lines) == 1, "what the user's own ranker says is all that there is to look at"
            continue
        assert not lines, f"{path}:{lines}"


@pytest.mark.parametrize(
    ("statement", "reads"),
    [
        ('str(error).startswith("X")', True), ('str(error).strip().replace("a", "b")', True), ("error.args[0]", False),
        ('re.match("a", str(error))', True), ('"a" in str(error)', True), ('error.args[0].partition(":")', True),
        ('f"{place}: {error}"', False), ("error.argument.startswith(place)", False), ("str(error)", False),
    ],
)  # fmt: skip
def test_the_reading_of_an_error_is_noticed(statement, reads):
    tree = ast.parse(f"try:\n    pass\nexcept ValueError as error:\n    {statement}\n")
    ((handler, name),) = caught(tree)
    assert any(reads_text(node, name) for node in ast.walk(handler) if isinstance(node, ast.expr)) == reads
