"""Names of a package that load when first used, with one table: the imports its ``__init__`` makes for type checkers.

    if TYPE_CHECKING:
        from structsvm.online.bandits.rucb import RUCB as RUCB

    __getattr__, __dir__, __all__ = attach(__name__, __file__)

To add a member is to add its import line; :func:`labelled` finds the members users choose by a short name.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["attach", "homes", "labelled"]

Attached = tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]


def attach(package: str, path: str) -> Attached:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` for the ``__init__`` of ``package``.

    Parameters
    ----------
    package, path : str
        ``__name__`` and ``__file__`` there. The names that its ``if TYPE_CHECKING:`` block imports are exported, and
        each loads its module when it is first asked for.

    Examples
    --------
    >>> import structsvm.qp
    >>> get, list_names, exported = attach("structsvm", structsvm.__file__)
    >>> get("SVMMap").__module__
    'structsvm.estimators.structural'
    """
    table = _imported(path)

    def get(name: str) -> Any:
        if name not in table:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, original = table[name]
        value = import_module(module) if original is None else getattr(import_module(module), original)
        vars(sys.modules[package])[name] = value
        return value

    exported = sorted(table)
    return get, lambda: sorted({*vars(sys.modules[package]), *exported}), exported


def homes(package: str) -> dict[str, str]:
    """Return the module of each name that ``package`` exports, without loading them."""
    path = import_module(package).__file__
    assert path is not None
    return {name: module for name, (module, original) in _imported(path).items() if original is not None}


@cache
def labelled(package: str) -> dict[str, Any]:
    """Return the members of ``package`` that have a ``label``, by that label, in the order of their import lines.

    Loads the modules of all members.

    Examples
    --------
    >>> labelled("structsvm.qp")
    {}
    """
    found: dict[str, Any] = {}
    for name in homes(package):
        member = getattr(import_module(package), name)
        label = vars(member).get("label") if isinstance(member, type) else getattr(member, "label", None)
        if isinstance(label, str):
            if label in found:
                raise TypeError(
                    f"{package}: {found[label].__name__} and {name} have the same label {label!r}"
                )
            found[label] = member
    return found


@cache
def _imported(path: str) -> dict[str, tuple[str, str | None]]:
    """Return for each name imported in the ``if TYPE_CHECKING:`` block its module, and its name there."""
    table: dict[str, tuple[str, str | None]] = {}
    for node in ast.parse(Path(path).read_bytes()).body:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for line in node.body:
                if isinstance(line, ast.ImportFrom) and line.module is not None:
                    for alias in line.names:
                        table[alias.asname or alias.name] = (line.module, alias.name)
    return table
