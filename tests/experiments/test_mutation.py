"""The script that puts faults into the package: every fault is one, none is made twice, and results are read again."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def mutation(load):
    return load("mutation")


@pytest.mark.parametrize(
    ("line", "faults"),
    [
        ("x = a < b", {"x = (a <= b)"}),
        ("x = a is not b", {"x = (a is b)"}),
        ("x = a - b", {"x = (a + b)"}),
        ("x += a", {"x -= a", "pass"}),
        ("x = not a", {"x = (a)"}),
        ("x = -a", {"x = (a)"}),
        ("x = a and b", {"x = (a or b)"}),
        ("x = True", {"x = False"}),
        ("x = 2", {"x = 3", "x = 1"}),
        ("x = 0", {"x = 1"}),
        ("x = 0.5", {"x = 1.0"}),
        ("f(a)", {"pass"}),
        ("x = f(a, b)", {"x = f(b, a)"}),
        ("x = f(a, a)", set()),
        ("x[a] = b", {"pass"}),
        ("x = range(a)", {"x = range(a - 1)", "x = range(a + 1)", "x = range(0 + 1, a)"}),
        ("x = range(a, b)", {"x = range(a, b - 1)", "x = range(a, b + 1)", "x = range(a + 1, b)"}),
        ("raise E(1 < 2)", {"pass"}),
        ("x: f(1) = a", set()),
        ("x = f'{a:.3}' + 'b'", {"x = (f'{a:.3}' - 'b')"}),
        ("__all__ = f(1, 2)", set()),
        ("'''1 < 2'''", set()),
    ],
)
def test_the_faults_of_a_line(mutation, line, faults):
    found = mutation.mutants_of("m.py", f"é = 'é'\n{line}\n".encode())
    assert {mutant.after for mutant in found} == faults
    assert {mutant.line for mutant in found} <= {2}


def test_every_fault_of_the_package_is_python_and_has_a_name_of_its_own(mutation):
    """Each fault is parsed within its own function: whole files would be parsed thousands of times."""
    for path in (ROOT / "structsvm" / "qp").glob("*.py"):
        source = path.read_bytes()
        found = mutation.mutants_of(path.name, source)
        assert len({mutant.key for mutant in found}) == len(found)
        starts = [0]
        for text in source.split(b"\n"):
            starts.append(starts[-1] + len(text) + 1)
        for node in ast.parse(source).body:
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
            start, end = starts[first - 1], starts[node.end_lineno] - 1
            before = ast.dump(ast.parse(source[start:end]))
            for mutant in found[::5]:
                if start <= mutant.start < end:
                    text = source[start : mutant.start] + mutant.new.encode() + source[mutant.end : end]
                    assert ast.dump(ast.parse(text)) != before, mutant


def test_a_draw_is_that_of_its_seed_and_takes_every_kind(mutation):
    path = "structsvm/qp/active_set.py"
    chosen = mutation.draw([path], 40, seed=1)
    assert chosen == mutation.draw([path], 40, seed=1)
    assert chosen != mutation.draw([path], 40, seed=2)
    assert len(set(chosen)) == 40
    assert {mutant.operator for mutant in chosen} >= {
        "comparison",
        "arithmetic",
        "constant",
        "deletion",
        "range",
    }
    everything = mutation.mutants_of(path, (ROOT / path).read_bytes())
    assert sorted(m.key for m in mutation.draw([path], 10**6, seed=0)) == sorted(m.key for m in everything)


def test_results_are_kept_by_fault_and_survivors_are_judged(mutation, tmp_path, monkeypatch):
    results, judged = tmp_path / "mutants.jsonl", tmp_path / "equivalent.toml"
    monkeypatch.setattr(mutation, "EQUIVALENT", judged)
    one, two, three = mutation.mutants_of("structsvm/a.py", b"x = a < b\nx = a < b\nx = a == b\n")
    lines = [(one, "survived"), (two, "survived"), (three, "survived"), (one, "killed")]
    text = "".join(json.dumps({**vars(mutant), "fate": fate}) + "\n" for mutant, fate in lines)
    results.write_text(text, encoding="utf-8")
    records = mutation.read_results(results)
    assert [record["fate"] for record in records.values()] == ["killed", "survived", "survived"]
    judged.write_text(
        '[[mutant]]\npath = "structsvm/a.py"\nbefore = "x = a == b"\nafter = "x = (a != b)"\n'
        'kind = "equivalent"\nreason = "x is not read"\n'
    )
    shown = mutation.table(list(records.values()))
    cells = [cell.strip() for cell in shown.splitlines()[2].split("|")[1:-1]]
    assert cells == ["structsvm", "3", "1", "0", "1", "0", "1"]
    assert shown.splitlines()[-1] == "survived: structsvm/a.py:2  x = a < b  ->  x = (a <= b)"


def test_every_file_to_draw_from_has_tests(mutation):
    for folder in ("qp", "oracles", "trainers", "readers", "online/statistics"):
        for path in (ROOT / "structsvm" / folder).glob("*.py"):
            name = path.relative_to(ROOT).as_posix()
            *tests, own = mutation.tests_of(name)
            assert own == name
            assert tests
    for tests in mutation.TESTS.values():
        assert all((ROOT / test).exists() for test in tests)
