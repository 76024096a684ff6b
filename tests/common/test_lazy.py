"""Names that are imported when first used, by the imports that type checkers read."""

import compileall
import importlib
import sys

import pytest

from structsvm.common import lazy

INIT = '''
"""A room."""
from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from hall import second as second
    from hall.first import First as First
    from hall.first import helper as helper
    from hall.second import Second as Second

__getattr__, __dir__, __all__ = attach(__name__, label={"one": "First", "two": "Second", "three": "helper"})
'''


@pytest.fixture
def hall(tmp_path, monkeypatch):
    folder = tmp_path / "hall"
    folder.mkdir()
    (folder / "__init__.py").write_text(INIT)
    (folder / "first.py").write_text("class First:\n    label = 'one'\n\ndef helper(): pass\n")
    (folder / "second.py").write_text("class Second:\n    label = 'two'\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for known in (lazy._HOMES, lazy._LABELS, sys.modules):
        for name in [name for name in known if name.split(".")[0] == "hall"]:
            del known[name]


def test_a_name_loads_its_module_when_it_is_first_asked_for(hall):
    import hall as room

    assert room.__all__ == ["First", "Second", "helper"]
    assert "hall.second" not in sys.modules
    assert room.Second.__name__ == "Second"
    assert "hall.second" in sys.modules
    assert "hall.first" not in sys.modules
    assert {"First", "Second", "helper", "second", "__all__"} <= set(dir(room))
    assert vars(room)["Second"] is room.Second
    with pytest.raises(AttributeError, match=r"^module 'hall' has no attribute 'third'$"):
        room.third  # noqa: B018


def test_homes_and_labels_load_nothing(hall):
    assert lazy.homes("hall") == {"First": "hall.first", "helper": "hall.first", "Second": "hall.second"}
    assert lazy.labels("hall") == {"one": "First", "two": "Second", "three": "helper"}
    assert lazy.labels("hall", "name") == {}
    assert {"hall.first", "hall.second"}.isdisjoint(sys.modules)
    import hall as room

    assert lazy.labelled("hall") == {"one": room.First, "two": room.Second, "three": room.helper}


def test_a_module_of_the_package_loads_by_its_name(hall):
    import hall as room

    assert room.second.Second.__name__ == "Second"
    assert "second" not in room.__all__


def test_a_package_loaded_again_or_without_sources_has_the_same_names(hall, python):
    import hall as room

    room.Second  # noqa: B018
    names = room.__all__
    assert importlib.reload(room).__all__ == names
    compileall.compile_dir(hall, quiet=1, legacy=True)
    for source in hall.glob("*.py"):
        source.unlink()
    text = "import hall\nprint(*hall.__all__, hall.Second.label, hall.__file__[-4:])"
    assert python(text, PYTHONPATH=f"{hall.parent}:{':'.join(sys.path)}") == "First Second helper two .pyc\n"


def test_a_star_import_brings_all_names(hall, python):
    code = "from hall import *\nprint(First.label, Second.label)"
    assert python(code, PYTHONPATH=f"{hall.parent}:{':'.join(sys.path)}") == "one two\n"
