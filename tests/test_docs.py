"""The API reference contains exactly the names that the folders of the package export."""

import ast
import importlib.util
import inspect
import pkgutil
import re
from importlib import import_module
from pathlib import Path

import pytest

import structsvm
from structsvm.common.lazy import homes, labels
from structsvm.online.bandits import RUCB

DOCS = Path(__file__).resolve().parent.parent / "docs"


@pytest.fixture(scope="module")
def reference():
    spec = importlib.util.spec_from_file_location("reference", DOCS / "reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def names(reference):
    return [name for listed in reference.sections().values() for name in listed]


def lives_in(name):
    room, attribute = name.rsplit(".", 1)
    return homes(room).get(attribute, room), attribute


def member_of(name):
    room, attribute = name.rsplit(".", 1)
    return getattr(import_module(room), attribute)


def test_names_exist_are_exported_and_described(names):
    """The reference lists first sentences, which end at a full stop before a space: formulas must not contain one."""
    for name in names:
        room, attribute = name.rsplit(".", 1)
        member = member_of(name)
        assert attribute in import_module(room).__all__, name
        assert member.__doc__ or not (inspect.isclass(member) or inspect.isroutine(member)), name
        text = (inspect.getdoc(member) or "").strip().split("\n\n")[0]
        assert re.split(r"\.\s", text)[0].count("``") % 2 == 0, name


def test_defaults_said_are_those_of_the_signature(names):
    said = []
    for name in names:
        member = member_of(name)
        if inspect.isclass(member) or inspect.isroutine(member):
            listed = re.findall(r"^(\w+(?:, \w+)*) : .*default=(.+)$", inspect.getdoc(member) or "", re.M)
            taken = inspect.signature(member).parameters if listed else {}
            said += [(name, p, text, repr(taken[p].default)) for who, text in listed for p in who.split(", ")]
    assert len(said) > 400
    assert [one for one in said if ast.literal_eval(one[2]) != ast.literal_eval(one[3])] == []


def _without_example(name, member):
    """Return an error for a public name without an example, unless it points to names with one."""
    if getattr(member, "_is_protocol", False):
        return None  # structsvm.protocols says how its check is called
    _, heading, examples = (inspect.getdoc(member) or "").partition("Examples\n--------\n")
    if not heading:
        return f"{name}: no section Examples"
    if ">>> " in examples:
        return None
    pointed = re.findall(r":(?:func|class):`~?(structsvm\.[\w.]+)`", examples)
    if not examples.startswith("See :") or not pointed:
        return f"{name}: expected '>>>', or 'See' and the names of what shows it"
    if any(one is member or ">>> " not in (one.__doc__ or "") for one in map(member_of, pointed)):
        return f"{name}: {pointed} have no example"
    return None


def test_each_name_has_an_example_or_says_where_one_is(names):
    called = {name: m for name in names if inspect.isclass(m := member_of(name)) or inspect.isroutine(m)}
    assert len(called) > 230
    assert [lack for name, m in called.items() if (lack := _without_example(name, m))] == []


def test_no_name_twice(names):
    assert len({lives_in(name) for name in names}) == len(names)


# the command line is no library, the store is for its commands; compiled forms serve the other rooms
INTERNAL = {
    "structsvm.cli",
    "structsvm.cli.studies",
    "structsvm.online.bandits.compiled",
    "structsvm.live.web.pages",
    "structsvm.live.store",
    "structsvm.cli.studies.demo",
    "structsvm.cli.studies.diversity",
    "structsvm.cli.studies.folds",
    "structsvm.trainers.partitioned",
}


def test_what_a_room_exports_is_documented(names):
    documented = {lives_in(name) for name in names}
    rooms = [found.name for found in pkgutil.walk_packages(structsvm.__path__, "structsvm.") if found.ispkg]
    assert {"structsvm.oracles", "structsvm.online.bandits"} <= set(rooms)
    for room in [
        "structsvm",
        *rooms,
        "structsvm.estimators.baselines",
        "structsvm.plots",
        "structsvm.protocols",
    ]:
        if room in INTERNAL or not (exported := getattr(import_module(room), "__all__", ())):
            continue
        public = {f"{room}.{name}" for name in exported if name not in ("__version__", "Float", "Int")}
        assert {name for name in public if lives_in(name) not in documented} == set()


def test_names_to_choose_by_are_listed(reference, monkeypatch):
    tables = reference.tables()
    assert [row[0] for row in tables["Bandits"][1]] == list(labels("structsvm.online.bandits"))
    assert [row[0] for row in tables["Measures"][1]] == list(structsvm.metrics.available_metrics())
    assert ("if1", "IF1", "needed", "yes", "total order, transitivity, triangle") in tables["Bandits"][1]
    assert {row[1] for row in tables["Losses"][1]} >= {"AveragePrecision", "NDCG", "PrecisionAt"}
    for columns, rows in tables.values():
        assert rows
        assert all(len(row) == len(columns) and all(row) for row in rows)
    described = (
        *structsvm.trainers.fit_path.__doc__.split("Parameters\n"),
        structsvm.trainers.Fit.__doc__,
    )
    assert [row[0] for row in tables["Trainers"][1] for text in described if row[0] not in text] == []
    monkeypatch.delattr(RUCB, "assumes")
    with pytest.raises(TypeError, match="RUCB: expected a class attribute assumes"):
        reference.tables()


def test_the_page_has_every_name(reference, names, tmp_path):
    reference.write(tmp_path / "api.rst")
    lines = (tmp_path / "api.rst").read_text().splitlines()
    listed = {lives_in(line.strip()) for line in lines if line.startswith("   structsvm.")}
    described = {tuple(line.split()[-1].rsplit(".", 1)) for line in lines if line.startswith(".. autodata")}
    assert listed | described == {lives_in(name) for name in names}


def test_the_map_of_folders_has_every_folder_and_file():
    package = Path(structsvm.__file__).parent
    there = {f"{path.parent.name}/" for path in package.glob("*/__init__.py")} | {
        path.name for path in package.glob("[!_]*.py")
    }
    text = (package.parent / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## Add something")[0]
    assert re.findall(r"^\| `(\S+)` \|", text, re.M) == sorted(there)
