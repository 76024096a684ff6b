"""The allowed imports between the folders of the package, and other rules that are read from its source."""

import ast
import importlib.util
import re
from functools import cache
from pathlib import Path

import pytest

from structsvm.common.kernel import CALLS, SHARED
from structsvm.common.lazy import homes, labels

PACKAGE = Path(__file__).resolve().parent.parent / "structsvm"

# room -> what it may import of the package, besides itself, the protocols, the rows of queries
# and what is common; later rooms know earlier ones
ALLOWED = {
    "protocols.py": set(),
    "queries.py": set(),
    "common": set(),
    "readers": set(),
    "features": {"readers"},
    "oracles": set(),
    "qp": set(),
    "plots": set(),
    "trainers": {"qp", "plots"},
    "metrics": {"readers", "plots"},
    "online": {"metrics", "readers", "plots"},
    "export": {"features", "metrics", "readers"},
    "estimators": {"features", "oracles", "qp", "plots", "trainers", "metrics", "export", "readers"},
    "clicks": {"readers", "oracles", "trainers", "estimators", "metrics", "online", "export", "plots"},
    "dask": {"readers", "features", "oracles", "trainers", "metrics", "estimators"},
    "testing": {"readers", "metrics", "export", "online"},
    "live": {"online", "clicks", "estimators", "readers", "plots"},
}
TOP = {"__init__.py", "__main__.py", "_version.py", "cli"}  # they may know everything
EVERYWHERE = {"protocols", "queries", "common", "_version"}
NO_THIRD_PARTY = {
    "trainers": {"sklearn", "dask", "joblib", "pandas", "matplotlib"},
    "oracles": {"sklearn", "dask"},
    "qp": {"sklearn", "dask"},
}
# a model file contains the name of its class, wherever that is
BY_NAME = {"export/model_file.py"}


@pytest.fixture(scope="module")
def trees():
    """Return the parsed files of the package by their paths."""
    return {
        path.relative_to(PACKAGE): ast.parse(path.read_text())
        for path in sorted(PACKAGE.rglob("*.py"))
        if "__pycache__" not in path.parts
    }


@cache
def nodes(tree):
    return tuple(ast.walk(tree))


def type_checking(tree):
    """Return the blocks ``if TYPE_CHECKING:`` of a file."""
    return [n for n in nodes(tree) if isinstance(n, ast.If) and getattr(n.test, "id", "") == "TYPE_CHECKING"]


def by_name(path, tree):
    """Yield the modules and folders in the strings of a file that imports by name, except those in model files."""
    calls = {
        getattr(node.func, "id", getattr(node.func, "attr", ""))
        for node in nodes(tree)
        if isinstance(node, ast.Call)
    }
    if calls & {"import_module", "homes", "labelled"} and path.as_posix() not in BY_NAME:
        for node in nodes(tree):
            # of an f-string the constant part
            if isinstance(node, ast.Constant) and re.fullmatch(r"structsvm\.(\w+\.?)*", str(node.value)):
                yield node.value.rstrip(".")


def imports(path, tree):
    """Yield the dotted names imported in a file, locally or by name, too, without type-checking blocks."""
    yield from by_name(path, tree)
    left_out = {id(node) for block in type_checking(tree) for line in block.body for node in ast.walk(line)}
    for node in nodes(tree):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            if node.module == "structsvm":
                yield from (f"structsvm.{alias.name}" for alias in node.names)
            else:
                yield node.module


def wrong_imports(path, tree):
    room = path.parts[0]
    if room in TOP:
        return
    assert room in ALLOWED, f"{room}: a new room says above what it may import"
    for name in imports(path, tree):
        top, *rest = name.split(".")
        if top != "structsvm":
            if top in NO_THIRD_PARTY.get(room, set()):
                yield f"{path} imports {name}"
        elif rest and rest[0] not in {
            *EVERYWHERE,
            room,
            *ALLOWED[room],
        }:
            yield f"{path} imports {name}"


def test_direction(trees):
    assert [wrong for path, tree in trees.items() for wrong in wrong_imports(path, tree)] == []


ORDER = {
    "online": (
        "impressions",
        "users",
        "interleaving",
        "clicklog",
        "evidence",
        "statistics",
        "bandits",
        "arena",
        "simulation",
    ),
    "live": ("client", "contract", "engines", "store", "counting", "experiment", "web"),
}
"""Rooms of a folder; each imports earlier ones only."""


@pytest.mark.parametrize("folder", ORDER)
def test_rooms_of_a_folder_import_earlier_ones_only(trees, folder):
    wrong, rooms = [], ORDER[folder]
    for path, tree in trees.items():
        if path.parts[0] == folder and path.parts[1:] != ("__init__.py",):
            own = rooms.index(path.parts[1].removesuffix(".py"))
            for name in imports(path, tree):
                room = (*name.split("."), "", "")[2]
                if name.startswith(f"structsvm.{folder}.") and rooms.index(room) > own:
                    wrong.append(f"{path} imports {name}")
    assert wrong == []


def test_files_of_live_are_short(trees):
    long = [path.as_posix() for path in trees if path.parts[0] == "live" and n_lines(path) > 450]
    assert long == []


def n_lines(path):
    return (PACKAGE / path).read_text().count("\n")


def file_imports(path, tree, modules):
    """Yield the package's modules that a file imports anywhere; a name from a folder counts as its defining file."""
    # a folder among them is a registry, whose members may import its other files
    yield from by_name(path, tree)
    for node in nodes(tree):
        if isinstance(node, ast.ImportFrom):
            homes_of = homes(node.module) if node.module in FOLDERS else {}
            for alias in node.names:
                target = f"{node.module}.{alias.name}"
                yield target if target in modules else homes_of.get(alias.name, node.module)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


FOLDERS = {
    "structsvm.clicks",
    "structsvm.live.engines",
    "structsvm.metrics",
    "structsvm.online.bandits",
    "structsvm.online.interleaving",
    "structsvm.online.statistics",
    "structsvm.online.users",
    "structsvm.oracles",
    "structsvm.readers",
    "structsvm.trainers",
}
"""Folders whose names are in several files."""


def circle_through(module, graph):
    """Return the modules that lead from one back to itself."""
    seen, waiting = set(), list(graph[module])
    while waiting:
        if (one := waiting.pop()) not in seen:
            seen.add(one)
            waiting += graph[one]
    return {one for one in seen if module in graph[one]} if module in seen else set()


def test_no_files_import_each_other_in_a_circle(trees):
    modules = {
        ".".join(("structsvm", *path.with_suffix("").parts)).removesuffix(".__init__"): (path, tree)
        for path, tree in trees.items()
        if path.name != "__init__.py"  # tables of what is loaded when it is used
    }
    graph = {
        name: {one for one in file_imports(path, tree, modules) if one in modules and one != name}
        for name, (path, tree) in modules.items()
    }
    assert {name: found for name in graph if (found := circle_through(name, graph))} == {}


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
        for node in nodes(tree)
    )


def imported(node):
    return {alias.name for alias in node.names}


def kernels_with_foreign_names(tree, folder):
    """Return kernels, with the names they import from modules in which an edit would not be noticed."""
    noticed, anywhere = {folder, SHARED, *CALLS.get(folder, ())}, uses_njit(tree)
    foreign = {
        alias.asname or alias.name
        for node in nodes(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("structsvm")
        for alias in node.names
        if anywhere or noticed.isdisjoint((node.module, node.module.rpartition(".")[0]))
    }
    for function in compiled_functions(tree):
        used = {n.id for part in function.body for n in ast.walk(part) if isinstance(n, ast.Name)}
        if used & foreign:
            yield function.name, used & foreign


def test_kernels_call_kernels_of_their_own_folder_only(trees):
    """The cache of a kernel notices edits in its folder and in those of ``CALLS``; numba's own, only in one file."""
    folders = {path: ".".join(("structsvm", *path.parent.parts)) for path in trees}
    found = {str(path): list(kernels_with_foreign_names(tree, folders[path])) for path, tree in trees.items()}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("line", "decorator", "caught"),
    [
        ("from structsvm.oracles.sorting import merge", "kernel", False),
        ("from structsvm.features.word_features import merge", "kernel", True),
        ("from structsvm.oracles.deeper.sorting import merge", "kernel", True),
        ("from structsvm import merge", "kernel", True),
        ("from structsvm.features.word_features import merge", "overload(g)", True),
        ("from numba import njit\nfrom structsvm.oracles.sorting import merge", "njit", True),
    ],
)
def test_a_foreign_kernel_is_found(line, decorator, caught):
    tree = ast.parse(f"{line}\n@{decorator}\ndef f(x):\n    return merge(x)")
    assert list(kernels_with_foreign_names(tree, "structsvm.oracles")) == [("f", {"merge"})] * caught


def test_the_folders_that_kernels_call_exist_and_are_all_listed(trees):
    folders = {".".join(("structsvm", *path.parent.parts)) for path in trees}
    for caller, called in CALLS.items():
        assert {caller, *called} <= folders
        assert {further for one in called for further in CALLS.get(one, ())} <= set(called)


def test_only_one_file_compiles(trees):
    assert [path.as_posix() for path, tree in trees.items() if uses_njit(tree)] == [
        "common/numba_internals.py"
    ]


def test_only_one_file_uses_names_of_numba_without_documentation(trees):
    inside = {
        path.as_posix()
        for path, tree in trees.items()
        for node in nodes(tree)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else []
        )
        if name.startswith("numba.") and name != "numba.extending"
    }
    assert inside == {"common/numba_internals.py"}


def test_scripts_import_what_there_is():
    """Check the imports of scripts, which run for hours and are not run by tests."""
    missing = []
    for script in sorted((PACKAGE.parent / "experiments").rglob("*.py")):
        for node in ast.walk(ast.parse(script.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "structsvm":
                module = importlib.import_module(node.module)
                missing += [
                    f"{script.name}: {node.module}.{alias.name}"
                    for alias in node.names
                    if not hasattr(module, alias.name)
                    and not importlib.util.find_spec(f"{node.module}.{alias.name}")
                ]
    assert missing == []


CHOSEN_BY = {
    "structsvm.oracles": "label",
    "structsvm.online.bandits": "label",
    "structsvm.online.interleaving": "name",
    "structsvm.clicks": "abbreviation",
    "structsvm.live.engines": "label",
}


@pytest.mark.parametrize("package", CHOSEN_BY)
def test_labels_are_those_of_the_classes(package):
    """A loss with a cut-off has the label ``ndcg@k``, and ``ndcg`` as well if the cut-off is optional."""
    attribute, room = CHOSEN_BY[package], importlib.import_module(package)
    known, expected = labels(package, attribute), {}
    for name in room.__all__:
        member = getattr(room, name)
        if isinstance(member, type) and attribute in vars(member):
            cutoff = getattr(member, "cutoff", "never")
            own = getattr(member, attribute)
            expected |= {own: name} if cutoff != "required" else {}
            expected |= {f"{own}@k": name} if cutoff != "never" else {}
    assert {label: name for label, name in known.items() if isinstance(getattr(room, name), type)} == {
        label: name for label, name in expected.items() if isinstance(label, str)
    }
    assert all(callable(getattr(room, name)) for name in known.values())


READS_SOURCES = {"__file__", "getsource", "getsourcefile", "getsourcelines", "co_filename"}


def test_modules_do_not_read_their_own_source_file(trees):
    """The package also runs from a zip and without its sources (``tests/test_import.py``)."""
    users = {
        path.as_posix()
        for path, tree in trees.items()
        for node in nodes(tree)
        if getattr(node, "id", getattr(node, "attr", getattr(node, "value", None))) in READS_SOURCES
    }
    # the one checks what lies beside the package, the other does not cache where it finds no source
    assert users == {"__init__.py", "common/kernel.py"}


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
    """Return the handlers ``except ... as name``, with the name."""
    return [(node, node.name) for node in nodes(tree) if isinstance(node, ast.ExceptHandler) and node.name]


def reads_text(node, name):
    """Return whether an expression reads the text of the error ``name``: by a method, a pattern or a comparison."""
    text = rf"((str|repr)\({name}\)|{name}\.args(\[\d+\])?)(\.\w+\(\))*"
    shown = ast.unparse(node)
    if isinstance(node, ast.Compare):
        return bool(re.search(text, shown))
    is_call = isinstance(node, ast.Call)
    return is_call and bool(re.match(rf"{text}\.({'|'.join(READS)})\(|re\.\w+\(.*{text}", shown))


def test_no_code_reads_the_text_of_an_error(trees):
    """Code uses the fields of an error for the argument and the remedy; its text may only be shown or embedded."""
    lines = [
        f"{path}:{node.lineno}"
        for path, tree in trees.items()
        for handler, name in caught(tree)
        for node in ast.walk(handler)
        if isinstance(node, ast.expr) and reads_text(node, name)
    ]
    # what the user's own ranker says is all that there is to look at
    assert [line.rpartition(":")[0] for line in lines] == ["testing/require.py"]


def test_no_function_takes_more_than_twelve_arguments(trees):
    """More arguments belong in a named object, except in compiled code, which has no objects."""
    wrong = []
    for path, tree in trees.items():
        kernels = {node.name for node in compiled_functions(tree)}
        for node in nodes(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name not in kernels:
                named = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                if len([name for name in named if name not in ("self", "cls")]) > 12:
                    wrong.append(f"{path}: {node.name}")
    assert wrong == []


def test_protocols_import_nothing_of_the_package():
    """Nor for type checkers: the interfaces are below everything that has or uses them."""
    assert not re.search(r"^\s*(from|import) structsvm", (PACKAGE / "protocols.py").read_text(), re.M)


def test_few_arguments_may_be_anything(trees):
    """``Any`` switches the checks of types off; ``object`` and ``ArrayLike`` accept as much and keep them."""
    annotations = [
        ast.unparse(argument.annotation)
        for tree in trees.values()
        for node in nodes(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        if argument.annotation is not None
    ]
    assert annotations.count("Any") <= 0.1 * len(annotations)
