"""No function of four lines or more occurs twice, and no kernel with renamed variables."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "structsvm"
FEWEST_LINES = 4


def is_kernel(function):
    names = {n.id for d in function.decorator_list for n in ast.walk(d) if isinstance(n, ast.Name)}
    return bool(names & {"kernel", "njit"})


def body_of(function):
    """Return the statements without the docstring, and their number of lines."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return body, body[-1].end_lineno - body[0].lineno + 1 if body else 0


def renamed(function, body):
    """Return the body with parameters and local variables numbered by their first use."""
    parameters = [a.arg for a in function.args.posonlyargs + function.args.args + function.args.kwonlyargs]
    nodes = [n for part in body for n in ast.walk(part)]
    own = {*parameters, *(n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))}
    numbers = {}
    copy = ast.parse(ast.unparse(ast.Module(body, [])))
    for node in ast.walk(copy):
        if isinstance(node, ast.Name) and node.id in own:
            node.id = f"variable {numbers.setdefault(node.id, len(numbers))}"
    return ast.dump(copy)


def duplicates(sources):
    """Return lists of (file, function) with equal bodies."""
    places = defaultdict(list)
    for file, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.FunctionDef):
                continue
            body, lines = body_of(node)
            if lines >= FEWEST_LINES:
                compiled = is_kernel(node)
                content = renamed(node, body) if compiled else ast.dump(ast.Module(body, []))
                places[compiled, content].append((file, node.name))
    return [found for found in places.values() if len(found) > 1]


def test_no_function_stands_twice():
    sources = {str(p.relative_to(PACKAGE)): p.read_text() for p in sorted(PACKAGE.rglob("*.py"))}
    assert not duplicates(sources)


FIRST = "@kernel\ndef total(values, n):\n    s = 0.0\n    for i in range(n):\n        s += values[i]\n    return s\n"


@pytest.mark.parametrize(
    ("old", "new", "twice"),
    [
        ("total", "sum_of", True),
        ("values", "x", True),
        ("s, n):", "s, n):\n    'Something else.'", True),
        ("@kernel\ndef total(values", "@cached\ndef total(x", False),
        ("+=", "-=", False),
        ("values[i]", "n", False),
    ],
)
def test_a_copy_is_found(old, new, twice):
    assert bool(duplicates({"a.py": FIRST, "b.py": FIRST.replace(old, new)})) == twice
