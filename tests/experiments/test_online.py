"""Common code of experiment scripts: options, and complete result files that contain the options."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.refusing import rejected

FOLDER = Path(__file__).parents[2] / "experiments"


@pytest.fixture
def common(load):
    return load("_common")


def test_results_hold_options_and_numbers(common, argv, tmp_path):
    pytest.importorskip("matplotlib")
    argv(f"trial --quick --seed 7 --out {tmp_path}/a/b")
    run = common.Experiment("trial", "A trial.\n\nMore.")
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


def test_subsets_of_a_matrix(common):
    assert common.alphabetical(12, 1).tolist() == [0, 9, 10, 11, 1, 2, 3, 4, 5, 6, 7, 8]
    cycle = np.array([[0.5, 0.6, 0.4, 0.6], [0.4, 0.5, 0.6, 0.6], [0.6, 0.4, 0.5, 0.6], [0.4, 0.4, 0.4, 0.5]])
    assert common.alphabetical(12).tolist() == [0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9]
    # the first three go in a circle, the next three have a winner: arm 1
    assert common.first_with_winner(cycle, 3, np.arange(4))[0].tolist() == [0.5, 0.6, 0.6]
    rejected("no 3 neighbours", common.first_with_winner, cycle[:3, :3], 3, np.arange(3))


def test_parts_in_full_and_interrupted_work(common, argv, tmp_path):
    world = [[0.5, 0.9], [0.1, 0.5]]
    computed = []

    def begin():
        return common.Experiment("trial", "A trial.", ("first", "second"))

    def play(run):
        run.part("second")
        regret = run.simulate("rucb", world, horizon=50, n_runs=2).regret[:, -1].tolist()
        return regret, run.once(lambda: {"value": computed.append(1) or [3.5, len(computed)]})["value"]

    argv(f"trial --quick --full second --runs 4 --out {tmp_path}")
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
    run.part("second")  # once more: its pieces are others
    assert run.once(lambda: {"value": [7.0]})["value"].tolist() == [7.0]
    run.save()
    command = "`python experiments/trial.py --quick --full second --runs 4 --seed 0`"
    assert command in (tmp_path / "trial.md").read_text()
    assert json.loads((tmp_path / "trial.json").read_text())["full"] == ["second"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trial.json", "trial.md"]
    assert play(begin())[1].tolist() == [3.5, 2]
    argv("trial --quick --full third")
    with pytest.raises(SystemExit):
        begin()


def test_verdicts_are_kept_beside_the_page(common, argv, tmp_path):
    row = {"paper": "p", "ours": "3.", "length": ("1", "9"), "reason": "R."}

    def judge(run):
        run.verdict("Figure 1, Figure 2", part="first", verdict="agrees", **row)

    command = f"trial --quick --full first --out {tmp_path}"
    argv(command)
    run = common.Experiment("trial", "A trial.", ("first", "second"), judge=judge)
    assert not run.judged_again()
    run.part("first")
    judge(run)
    rejected(r"verdict: expected one of agrees, .*, got 'yes'", run.verdict, "Figure 3", verdict="yes", **row)
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
    argv(f"{command} --judge")
    assert common.Experiment("trial", "A trial.", ("first", "second"), judge=judge).judged_again()
    again = json.loads((tmp_path / "figures.json").read_text())
    assert list(again["figures"]) == ["p: Figure 1", "p: Figure 2"]
    assert again["command"] == kept["command"]
    assert again["figures"]["p: Figure 1"] == kept["figures"]["p: Figure 1"]
    with pytest.raises(SystemExit):  # without a judge it would compute everything anew
        common.Experiment("trial", "A trial.", ("first", "second"))


@pytest.mark.slow
def test_calibration_agrees_with_the_library_and_keeps_its_levels(load, argv, tmp_path):
    """The script checks its vectorised tests against the library; few logs only reveal gross errors of a level."""
    pytest.importorskip("matplotlib")
    module = load("calibration")
    argv(f"calibration --quick --runs 60 --out {tmp_path}")
    module.main()
    record = json.loads((tmp_path / "calibration.json").read_text())
    assert len(record["fixed"]) == len(record["looks"]) == 4 * len(module.USERS)
    assert record["largest"]["fixed"] <= 0.05 + 5 * np.sqrt(0.05 * 0.95 / 60)
    assert record["largest"]["always_valid"] <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 60)
    assert "False positives of A/A logs" in (tmp_path / "calibration.md").read_text()
    assert (tmp_path / "calibration.png").exists()


def test_committed_calibration_is_in_full_and_within_its_levels():
    record = json.loads((FOLDER / "results" / "calibration" / "calibration.json").read_text())
    assert record["quick"] is False
    assert record["largest"]["replicates"] >= 4000
    assert record["largest"]["fixed"] <= 0.06
    assert record["largest"]["always_valid"] <= 0.05
