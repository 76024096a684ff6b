"""``attach``: import the names of a package on first use, as listed in the imports that type checkers read.

    if TYPE_CHECKING:
        from structsvm.online.bandits.rucb import RUCB as RUCB

    __getattr__, __dir__, __all__ = attach(__name__, label={"rucb": "RUCB"})

The imports of the block are never executed: their names and modules are read from the byte code of the ``__init__``,
which an installation without sources has, too. ``tests/test_architecture.py`` compares the labels with the attributes
of the classes.
"""

import dis
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import CodeType
from typing import Any

Attached = tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]

_HOMES: dict[str, dict[str, str]] = {}
"""Module of each exported name, by package."""
_LABELS: dict[str, dict[str, dict[str, str]]] = {}
"""Name of each labelled member, by package, attribute and label."""


def _imports(code: CodeType) -> Iterator[tuple[str, str]]:
    """Yield name and module of each ``from module import name`` in the block ``if TYPE_CHECKING`` of a module."""
    end, in_test, module = 0, False, ""
    for step in dis.get_instructions(code):
        if in_test and "JUMP" in step.opname:  # the jump over the block
            end, in_test = step.argval, False
        in_test = in_test or (step.argval == "TYPE_CHECKING" and step.opname == "LOAD_NAME")
        if step.opname == "IMPORT_NAME":
            module = step.argval
        elif step.opname == "IMPORT_FROM" and step.offset < end:
            yield step.argval, module


def attach(package: str, **labels: Mapping[str, str]) -> Attached:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` for ``package``, whose ``__init__`` calls this function.

    Names that are imported from ``package`` itself are its submodules, which a star import leaves out. ``labels`` map
    the short names by which users choose members, such as "rucb", to the members.
    """
    homes = dict(_imports(sys._getframe(1).f_code))
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
    """Return the module of each name that ``package`` exports, without importing the modules."""
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
