"""The API reference names things that exist, and all that the package and its rooms for users offer."""

from importlib import import_module
from pathlib import Path

import pytest

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "api.rst"
NAMES = [line.strip() for line in REFERENCE.read_text().splitlines() if line.startswith("   structsvm.")]


@pytest.mark.parametrize("name", NAMES)
def test_names_exist(name):
    module, attribute = name.rsplit(".", 1)
    assert getattr(import_module(module), attribute).__doc__


@pytest.mark.parametrize(
    "room", ["structsvm", "structsvm.baselines", "structsvm.plots", "structsvm.testing", "structsvm.readers"]
)
def test_nothing_for_users_is_left_out(room):
    offered = {f"{room}.{name}" for name in import_module(room).__all__ if not name.startswith("__")}
    # records of readers that are described where they are returned, and two formats of one collection each
    internal = {
        f"structsvm.readers.{name}" for name in ("JudgedRows", "LabelledSets", "read_ambient", "read_aspects")
    }
    assert offered - internal <= set(NAMES)


def test_no_name_twice():
    assert len(set(NAMES)) == len(NAMES)
