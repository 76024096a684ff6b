"""Names that load when first used, from one table."""

import subprocess
import sys

import pytest

from structsvm import lazy

INIT = '''
"""A room."""
from typing import TYPE_CHECKING

from structsvm.lazy import attach

if TYPE_CHECKING:
    from hall.first import First as First
    from hall.first import helper as helper
    from hall.second import Second as Deuxieme

__getattr__, __dir__, __all__ = attach(__name__, __file__)
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
    for name in [name for name in sys.modules if name.split(".")[0] == "hall"]:
        del sys.modules[name]


def test_a_name_loads_its_module_when_it_is_first_asked_for(hall):
    import hall as room

    assert room.__all__ == ["Deuxieme", "First", "helper"]
    assert "hall.second" not in sys.modules
    assert room.Deuxieme.__name__ == "Second"
    assert "hall.second" in sys.modules
    assert "hall.first" not in sys.modules
    assert {"Deuxieme", "First", "helper", "__all__"} <= set(dir(room))
    assert vars(room)["Deuxieme"] is room.Deuxieme
    with pytest.raises(AttributeError, match=r"^module 'hall' has no attribute 'third'$"):
        room.third  # noqa: B018


def test_homes_and_labels(hall):
    assert lazy.homes("hall") == {"First": "hall.first", "helper": "hall.first", "Deuxieme": "hall.second"}
    assert {label: member.__name__ for label, member in lazy.labelled("hall").items()} == {
        "one": "First",
        "two": "Second",
    }


def test_a_label_given_twice_is_refused(hall):
    (hall / "second.py").write_text("class Second:\n    label = 'one'\n")
    lazy.labelled.cache_clear()
    with pytest.raises(TypeError, match="First and Deuxieme have the same label 'one'"):
        lazy.labelled("hall")
    lazy.labelled.cache_clear()


def test_a_star_import_brings_all_names(hall):
    text = "from hall import *\nprint(First.label, Deuxieme.label)"
    run = subprocess.run(
        [sys.executable, "-c", text], env={"PYTHONPATH": f"{hall.parent}:{':'.join(sys.path)}"}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert run.stdout.split() == ["one", "two"]
