"""Names of a package that load when first used, from a table in its ``__init__``.

    if TYPE_CHECKING:
        from structsvm.online.bandits.rucb import RUCB as RUCB

    __getattr__, __dir__, __all__ = attach(
        __name__,
        {"structsvm.online.bandits.rucb": "RUCB"},
        label={"rucb": "RUCB"},
    )

Type checkers read the import lines and the program reads the table, so that nothing looks into source files, which a
zip or an installation of compiled files does not have. ``tests/test_architecture.py`` compares the two, and the labels
with the attributes of the classes.
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
    ``members`` maps modules to the names exported from them (names under ``package`` itself are its modules, which a
    star import leaves out); ``labels`` map short names that users choose members by, such as "rucb", to these.
    """
    homes = {name: module for module, names in members.items() for name in names.split()}
    exported = sorted(name for name, module in homes.items() if module != package)
    _HOMES[package] = {name: homes[name] for name in homes if homes[name] != package}
    _LABELS[package] = {attribute: dict(given) for attribute, given in labels.items()}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        value = import_module(f"{package}.{name}") if home == package else getattr(import_module(home), name)
        vars(sys.modules[package])[name] = value
        return value

    return get, lambda: sorted({*vars(sys.modules[package]), *homes}), exported


def homes(package: str) -> dict[str, str]:
    """Return the module of each name that ``package`` exports, without loading them."""
    import_module(package)
    return dict(_HOMES.get(package, {}))


def labels(package: str, attribute: str = "label") -> dict[str, str]:
    """Return the names of the members of ``package`` that have a label, by that label, without loading them."""
    import_module(package)
    return dict(_LABELS[package].get(attribute, {}))


def labelled(package: str, attribute: str = "label") -> dict[str, Any]:
    """Return the members of ``package`` that have a label, by that label; loads the modules of all of them."""
    room = import_module(package)
    return {text: getattr(room, name) for text, name in labels(package, attribute).items()}
