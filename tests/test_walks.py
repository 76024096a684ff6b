"""The walks through the code name existing functions, each of which calls the next."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
STEPS = re.findall(
    r"`([\w/]+\.py)::([\w.]+)`(?:[^`→]|`(?![\w/]+\.py::)[^`]*`)*(?:→ `(\w+)`)?",
    (ROOT / "docs/project/walks.md").read_text(encoding="utf-8"),
)


def test_there_are_two_walks():
    assert len(STEPS) >= 18
    assert sum(bool(on) for *_, on in STEPS) >= 13


@pytest.mark.parametrize(("file", "name", "on"), STEPS, ids=lambda part: str(part))
def test_each_step_exists_and_calls_the_next(file, name, on):
    node = ast.parse((ROOT / "structsvm" / file).read_text(encoding="utf-8"))
    for part in name.split("."):
        node = next(each for each in node.body if getattr(each, "name", None) == part)
    if on:
        used = {getattr(each, "attr", getattr(each, "id", None)) for each in ast.walk(node)}
        assert on in used, f"{file}::{name} does not use {on}"
