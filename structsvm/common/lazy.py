"""``attach``: names of a package that are imported when first used, from a table in its ``__init__``.

    if TYPE_CHECKING:
        from structsvm.online.bandits.rucb import RUCB as RUCB

    __getattr__, __dir__, __all__ = attach(
        __name__,
        {"structsvm.online.bandits.rucb": "RUCB"},
        label={"rucb": "RUCB"},
    )

Type checkers read the imports, the program reads the table. Nothing is read from source files, which an installation of
compiled files does not have. ``tests/test_architecture.py`` compares imports and table, and the labels with the
attributes of the classes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

Attached = tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]

_HOMES: dict[str, dict[str, str]] = {}
"""Package to names to modules."""
_LABELS: dict[str, dict[str, dict[str, str]]] = {}
"""Package to attribute to labels to names."""


def attach(package: str, members: Mapping[str, str], **labels: Mapping[str, str]) -> Attached:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` for the ``__init__`` of ``package``.

    ``members`` maps modules to the names that are exported from them, separated by blanks; names under ``package``
    itself are its submodules, which a star import leaves out. ``labels`` map the short names by which users choose
    members, such as "rucb", to the members.
    """
    # a name under the package itself is a submodule; any other is an attribute of the module that it is listed under
    homes = {name: module for module, names in members.items() for name in names.split()}
    exported = sorted(name for name, module in homes.items() if module != package)
    _HOMES[package] = {name: homes[name] for name in homes if homes[name] != package}
    _LABELS[package] = {attribute: dict(given) for attribute, given in labels.items()}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        value = import_module(f"{package}.{name}") if home == package else getattr(import_module(home), name)
        # from now on the name is an ordinary attribute, for which Python does not call __getattr__
        vars(sys.modules[package])[name] = value
        return value

    return get, lambda: sorted({*vars(sys.modules[package]), *homes}), exported


def homes(package: str) -> dict[str, str]:
    """Return the module of each name that ``package`` exports, without importing it."""
    import_module(package)
    return dict(_HOMES.get(package, {}))


def labels(package: str, attribute: str = "label") -> dict[str, str]:
    """Return the names of the labelled members of ``package`` by label, without importing them."""
    import_module(package)
    return dict(_LABELS[package].get(attribute, {}))


def labelled(package: str, attribute: str = "label") -> dict[str, Any]:
    """Return the labelled members of ``package`` by label; imports the modules of all of them."""
    module = import_module(package)
    return {label: getattr(module, name) for label, name in labels(package, attribute).items()}
