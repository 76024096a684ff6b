"""The scripts of the online experiments: options, and results that are whole files with the options in them."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from structsvm import online

FOLDER = Path(__file__).parents[2] / "experiments"
SCRIPTS = (
    "dueling_gradient_descent",
    "interleaved_filter",
    "merge_rucb",
    "multi_dueling",
    "relative_confidence_sampling",
)


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location(f"experiment_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", SCRIPTS)
def test_script_loads_and_says_what_it_reproduces(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load(name, monkeypatch)
    assert "Fig" in module.__doc__
    assert callable(module.main)


def experiment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *arguments: str):
    common = load("_common", monkeypatch)
    monkeypatch.setattr(
        sys, "argv", ["trial", "--quick", "--seed", "7", "--out", str(tmp_path / "a" / "b"), *arguments]
    )
    return common, common.Experiment("trial", "A trial.\n\nMore.")


def test_results_hold_options_and_numbers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    _, run = experiment(monkeypatch, tmp_path)
    run.section("Part")
    run.table("rows", ["name", "value"], [["a", np.float64(0.123456789)], ["b", float("nan")]])
    run.plot("curve", lambda ax: ax.plot([1, 2], [3, 4]))
    run.save()
    folder = tmp_path / "a" / "b"
    assert sorted(path.name for path in folder.iterdir()) == ["trial.json", "trial.md", "trial.png"]
    record = json.loads((folder / "trial.json").read_text())
    assert (record["quick"], record["seed"]) == (True, 7)
    assert record["rows"] == [{"name": "a", "value": 0.123457}, {"name": "b", "value": None}]
    text = (folder / "trial.md").read_text()
    assert "--quick --seed 7" in text
    assert "0.123" in text
    assert (folder / "trial.png").read_bytes().startswith(b"\x89PNG")


def test_subsets_of_a_matrix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    common, _ = experiment(monkeypatch, tmp_path)
    assert common.alphabetical(12, 1).tolist() == [0, 9, 10, 11, 1, 2, 3, 4, 5, 6, 7, 8]
    cycle = np.array([[0.5, 0.6, 0.4, 0.6], [0.4, 0.5, 0.6, 0.6], [0.6, 0.4, 0.5, 0.6], [0.4, 0.4, 0.4, 0.5]])
    assert common.alphabetical(12).tolist() == [0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9]
    # the first three go in a circle, the next three have a winner: arm 1
    assert common.first_with_winner(cycle, 3, np.arange(4))[0].tolist() == [0.5, 0.6, 0.6]
    with pytest.raises(ValueError, match="no 3 neighbours"):
        common.first_with_winner(cycle[:3, :3], 3, np.arange(3))


def test_parts_in_full_and_interrupted_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    common = load("_common", monkeypatch)
    world = [[0.5, 0.9], [0.1, 0.5]]
    computed = []

    def begin() -> object:
        return common.Experiment("trial", "A trial.", ("first", "second"))

    def play(run: object) -> tuple[list[float], np.ndarray]:
        run.part("second")
        regret = run.simulate("rucb", world, horizon=50, n_runs=2).regret[:, -1].tolist()
        return regret, run.once(lambda: {"value": computed.append(1) or [3.5, len(computed)]})["value"]

    arguments = ["trial", "--quick", "--full", "second", "--runs", "4", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", arguments)
    run = begin()
    run.part("first")
    assert (run.quick, run.runs(2, 9), run.runs(7, 9)) == (True, 2, 4)
    run.part("second")
    assert (run.quick, run.runs(2, 9)) == (False, 4)
    first = play(run)
    again = play(begin())  # interrupted before it was saved
    assert again[0] == first[0]
    assert again[1].tolist() == first[1].tolist() == [3.5, 1]
    assert len(computed) == 1
    run.save()
    assert (
        "`python experiments/trial.py --quick --full second --runs 4 --seed 0`"
        in (tmp_path / "trial.md").read_text()
    )
    assert json.loads((tmp_path / "trial.json").read_text())["full"] == ["second"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trial.json", "trial.md"]
    assert play(begin())[1].tolist() == [3.5, 2]
    monkeypatch.setattr(sys, "argv", [*arguments[:2], "--full", "third"])
    with pytest.raises(SystemExit):
        begin()


@pytest.mark.parametrize(
    ("name", "part", "n_pieces"),
    [("relative_confidence_sampling", "growth", 5), ("multi_dueling", "table_1", 8)],
)
def test_interrupted_scripts_go_on_from_there(
    name: str, part: str, n_pieces: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Ctrl-C in the third simulation: the same command repeats neither of the first two, and has the same numbers."""
    module = load(name, monkeypatch)
    if name == "multi_dueling":
        monkeypatch.setattr(module, "SYNTHETIC", ("1good5poor", "geom6"))
    made: list[object] = []
    plain = online.simulate
    done_before = []

    def counted(*arguments, **options):
        done_before.append(options["checkpoint"].exists())
        if len(done_before) == 3:
            raise KeyboardInterrupt
        result = plain(*arguments, **options)
        made.append(result.regret[:, -1].tolist())
        return result

    monkeypatch.setattr(online, "simulate", counted)
    command = [
        name,
        "--quick",
        "--runs",
        "1",
        "--only",
        part,
        "--data",
        str(tmp_path),
        "--out",
        str(tmp_path / "out"),
    ]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(KeyboardInterrupt):
        module.main()
    first = list(made)
    assert done_before == [False] * 3
    module.main()
    again = done_before[3:]
    assert again == [True, True, *[False] * (n_pieces - 2)]
    assert made[2:4] == first
    # each piece says what it cost, the interrupted one for both commands together
    pieces = tmp_path / "out" / "parts" / f"{part}-quick-runs1-seed0"
    assert sorted(path.name for path in pieces.glob("*.cpu")) == sorted(
        f"{i + 1}.cpu" for i in range(n_pieces)
    )
    assert not list(tmp_path.glob("out/*.md"))  # only one part was asked for: no page


def test_verdicts_are_kept_beside_the_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    common = load("_common", monkeypatch)
    row = {"paper": "p", "ours": "3.", "length": ("1", "9"), "reason": "R."}

    def judge(run: object) -> None:
        run.verdict("Figure 1, Figure 2", part="first", verdict="agrees", **row)

    command = ["trial", "--quick", "--full", "first", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", command)
    run = common.Experiment("trial", "A trial.", ("first", "second"), judge=judge)
    assert not run.judged_again()
    run.part("first")
    judge(run)
    with pytest.raises(ValueError, match=r"verdict: expected one of agrees, .*, got 'yes'"):
        run.verdict("Figure 3", verdict="yes", **row)
    run.part("second")
    run.verdict("Table 1", verdict="differs", **row)
    run.save()
    kept = json.loads((tmp_path / "figures.json").read_text())
    assert kept["command"] == "python experiments/trial.py --quick --full first --seed 0"
    forms = {name: (said["verdict"], said["quick form"]) for name, said in kept["figures"].items()}
    assert forms == {
        "p: Figure 1": ("agrees", False),
        "p: Figure 2": ("agrees", False),
        "p: Table 1": ("differs", True),
    }
    # judged again from the results alone
    monkeypatch.setattr(sys, "argv", [*command, "--judge"])
    assert common.Experiment("trial", "A trial.", ("first", "second"), judge=judge).judged_again()
    again = json.loads((tmp_path / "figures.json").read_text())
    assert list(again["figures"]) == ["p: Figure 1", "p: Figure 2"]
    assert again["command"] == kept["command"]
    assert again["figures"]["p: Figure 1"] == kept["figures"]["p: Figure 1"]
    with pytest.raises(SystemExit):  # without a judge it would compute everything anew
        common.Experiment("trial", "A trial.", ("first", "second"))


def test_calibration_agrees_with_the_library_and_keeps_its_levels(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its vectorised tests are checked against the library inside; few logs, so only gross errors of a level show."""
    pytest.importorskip("matplotlib")
    module = load("calibration", monkeypatch)
    monkeypatch.setattr(sys, "argv", ["calibration", "--quick", "--runs", "60", "--out", str(tmp_path)])
    module.main()
    record = json.loads((tmp_path / "calibration.json").read_text())
    assert len(record["fixed"]) == len(record["looks"]) == 4 * len(module.USERS)
    assert record["largest"]["fixed"] <= 0.05 + 5 * np.sqrt(0.05 * 0.95 / 60)
    assert record["largest"]["always_valid"] <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 60)
    assert "False positives of A/A logs" in (tmp_path / "calibration.md").read_text()
    assert (tmp_path / "calibration.png").exists()


def test_committed_calibration_is_in_full_and_within_its_levels() -> None:
    record = json.loads((FOLDER / "results" / "calibration" / "calibration.json").read_text())
    assert record["quick"] is False
    assert record["largest"]["replicates"] >= 4000
    assert record["largest"]["fixed"] <= 0.06
    assert record["largest"]["always_valid"] <= 0.05
