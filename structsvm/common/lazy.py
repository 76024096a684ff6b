"""Names of a package that load when first used, with one table: the imports its ``__init__`` makes for type checkers.

    if TYPE_CHECKING:
        from structsvm.online.bandits.rucb import RUCB as RUCB

    __getattr__, __dir__, __all__ = attach(__name__, __file__)

To add a member is to add its import line. Members that users choose by a short name say it themselves, a class as
``label = "rucb"``, a function by the decorator :func:`label`; :func:`labels` reads it from their source, so that a
list of names loads nothing and a name loads only what it stands for.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["attach", "declared", "homes", "label", "labelled", "labels"]

Attached = tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]
T = TypeVar("T")


def attach(package: str, path: str) -> Attached:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` for the ``__init__`` of ``package``.

    Parameters
    ----------
    package, path : str
        ``__name__`` and ``__file__`` there. The names that its ``if TYPE_CHECKING:`` block imports are exported, and
        each loads its module when it is first asked for. Modules of the package imported there load in the same way;
        they are not in ``__all__``, since a star import would load them all.

    Examples
    --------
    >>> import structsvm.qp
    >>> get, list_names, exported = attach("structsvm", structsvm.__file__)
    >>> get("SVMMap").__module__
    'structsvm.estimators.structural'
    """
    table = _imported(package, path)

    def get(name: str) -> Any:
        if name not in table:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, original = table[name]
        value = import_module(module) if original is None else getattr(import_module(module), original)
        vars(sys.modules[package])[name] = value
        return value

    exported = sorted(name for name, (_, original) in table.items() if original is not None)
    return get, lambda: sorted({*vars(sys.modules[package]), *table}), exported


def homes(package: str) -> dict[str, str]:
    """Return the module of each name that ``package`` exports, without loading them.

    Examples
    --------
    >>> homes("structsvm")["SVMMap"]
    'structsvm.estimators.structural'
    """
    table = _imported(package, _source(package))
    return {name: module for name, (module, original) in table.items() if original is not None}


def label(text: str) -> Callable[[T], T]:
    """Return a decorator that gives a function the short name users choose it by.

    Examples
    --------
    >>> @label("twice")
    ... def double(x):
    ...     return 2 * x
    >>> double.label
    'twice'
    """

    def give(function: T) -> T:
        function.label = text  # type: ignore[attr-defined]
        return function

    return give


def declared(package: str, attribute: str) -> dict[str, Any]:
    """Return what the exported classes of ``package`` set ``attribute`` to, by their names, without loading them.

    Parameters
    ----------
    package : str
    attribute : str
        Read from the source of the members: only literals in the body of the class itself are found.

    Examples
    --------
    >>> declared("structsvm.oracles", "label")["AveragePrecision"]
    'map'
    """
    return dict(_declared(package, attribute))


def labels(package: str, attribute: str = "label") -> dict[str, str]:
    """Return the names of the members of ``package`` that have a label, by that label, without loading them.

    In the order of their import lines.

    Parameters
    ----------
    package : str
    attribute : str, default="label"
        What holds the label; interleavers are protocol-bound to call it ``name``.

    Raises
    ------
    TypeError
        If two members have the same label.

    Examples
    --------
    >>> labels("structsvm.online.bandits")["rucb"]
    'RUCB'
    """
    found: dict[str, str] = {}
    for name, text in _declared(package, attribute).items():
        if text in found:
            raise TypeError(f"{package}: {found[text]} and {name} have the same label {text!r}")
        found[text] = name
    return found


def labelled(package: str, attribute: str = "label") -> dict[str, Any]:
    """Return the members of ``package`` that have a label, by that label; loads the modules of all of them.

    Examples
    --------
    >>> labelled("structsvm.online.bandits")["rucb"].__name__
    'RUCB'
    """
    room = import_module(package)
    return {text: getattr(room, name) for text, name in labels(package, attribute).items()}


@cache
def _declared(package: str, attribute: str) -> dict[str, Any]:
    found = {}
    # to parse a file takes much longer than to see that it has nothing to say
    says = re.compile(rf"^(    {attribute}\b|@{attribute}\()".encode(), re.MULTILINE)
    for name, (module, original) in _imported(package, _source(package)).items():
        if original is not None and says.search(Path(_source(module)).read_bytes()):
            values = _attributes(module).get(original, {})
            if attribute in values:
                found[name] = values[attribute]
    return found


@cache
def _attributes(module: str) -> dict[str, dict[str, Any]]:
    """Return for each class of a module, and each function with a label, the attributes its body sets to literals."""
    found: dict[str, dict[str, Any]] = {}
    for node in ast.parse(Path(_source(module)).read_bytes()).body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = dict(pair for line in node.body for pair in _literal(line))
        elif isinstance(node, ast.FunctionDef):
            for call in node.decorator_list:
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "label":
                    found[node.name] = {"label": ast.literal_eval(call.args[0])}
    return found


def _literal(line: ast.stmt) -> list[tuple[str, Any]]:
    """Return name and value where a line sets a name to a literal."""
    if isinstance(line, ast.AnnAssign):
        target: ast.expr = line.target
    elif isinstance(line, ast.Assign) and len(line.targets) == 1:
        target = line.targets[0]
    else:
        return []
    if not isinstance(target, ast.Name) or line.value is None:
        return []
    try:
        return [(target.id, ast.literal_eval(line.value))]
    except ValueError:
        return []


@cache
def _source(module: str) -> str:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"no source of {module}", name=module)
    return spec.origin


@cache
def _imported(package: str, path: str) -> dict[str, tuple[str, str | None]]:
    """Return for each name imported in the ``if TYPE_CHECKING:`` block its module, and its name there.

    The name is None for a module of the package.
    """
    table: dict[str, tuple[str, str | None]] = {}
    for node in ast.parse(Path(path).read_bytes()).body:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for line in node.body:
                if isinstance(line, ast.ImportFrom) and line.module is not None:
                    for alias in line.names:
                        home = (line.module, alias.name)
                        own = line.module == package
                        table[alias.asname or alias.name] = (f"{package}.{alias.name}", None) if own else home
    return table
