"""Names that load when first used, from one table."""

import subprocess
import sys

import pytest

from structsvm.common import lazy

INIT = '''
"""A room."""
from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

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
    for known in (lazy._imported, lazy._declared, lazy._attributes, lazy._source):
        known.cache_clear()
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
    with pytest.raises(TypeError, match="First and Deuxieme have the same label 'one'"):
        lazy.labelled("hall")


def test_names_and_labels_load_nothing(hall):
    (hall / "second.py").write_text(
        "from typing import ClassVar\n\nclass Second:\n    size: int\n    label: ClassVar[str] = 'two'\n"
        "    made = max(1, 2)\n\nclass Under(Second):\n    pass\n"
    )
    with (hall / "first.py").open("a") as file:
        file.write("from structsvm.common.lazy import label\n\n@label('three')\ndef third(): pass\n")
    init = (hall / "__init__.py").read_text()
    more = (
        "hall.first import third as third",
        "hall.second import Under as Under",
        "hall import second as second",
    )
    lines = "".join(f"\n    from {line}" for line in more)
    (hall / "__init__.py").write_text(init.replace("\n\n__get", f"{lines}\n\n__get"))
    assert lazy.labels("hall") == {
        "one": "First",
        "two": "Deuxieme",
        "three": "third",
    }  # inherited ones do not count
    assert lazy.declared("hall", "made") == {}
    assert "hall.first" not in sys.modules
    assert "hall.second" not in sys.modules
    import hall as room

    assert "second" not in room.__all__
    assert room.second.Under.__name__ == "Under"
    assert {text: member.__name__ for text, member in lazy.labelled("hall").items()} == {
        "one": "First", "two": "Second", "three": "third",
    }  # fmt: skip


def test_a_star_import_brings_all_names(hall):
    text = "from hall import *\nprint(First.label, Deuxieme.label)"
    run = subprocess.run(
        [sys.executable, "-c", text], env={"PYTHONPATH": f"{hall.parent}:{':'.join(sys.path)}"}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert run.stdout.split() == ["one", "two"]
