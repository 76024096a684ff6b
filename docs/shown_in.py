"""Find the pages of the manual and gallery whose code uses a public name, for the API reference."""

import ast
from collections import defaultdict
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from blocks import blocks

DOCS = Path(__file__).parent


def shown_in() -> dict[int, list[str]]:
    """Return for the ``id`` of each object of the package the documents whose Python imports and uses it.

    Objects are distinguished by identity, because several modules export objects with the same name.
    """
    found: dict[int, list[str]] = defaultdict(list)
    for document, code in _sources():
        for thing in _used(code):
            if document not in found[id(thing)]:
                found[id(thing)].append(document)
    return dict(found)


def _sources() -> list[tuple[str, str]]:
    pages = [
        DOCS / "getting_started.md",
        *sorted((DOCS / "guide").glob("*.md")),
        DOCS / "trees.md",
        DOCS / "scale.md",
    ]
    pages += sorted((DOCS / "theory").glob("*.md"))
    sources = []
    for page in pages:
        code = "\n".join(block.code for block in blocks(page) if block.language == "python")
        sources.append((f"/{page.relative_to(DOCS).with_suffix('').as_posix()}", code))
    scripts = sorted((DOCS / "examples").glob("*.py"))
    return sources + [(f"/gallery/{script.stem}", script.read_text(encoding="utf-8")) for script in scripts]


def _used(code: str) -> list[Any]:
    """Return the objects that the code imports from the package or accesses as attributes of imported modules."""
    tree = ast.parse(code)
    things: list[Any] = []
    modules: dict[str, ModuleType] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "structsvm":
            home = import_module(node.module or "")
            for alias in node.names:
                thing = getattr(home, alias.name)
                if isinstance(thing, ModuleType):
                    modules[alias.asname or alias.name] = thing
                else:
                    things.append(thing)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            things.append(getattr(modules[node.value.id], node.attr))
    return things
