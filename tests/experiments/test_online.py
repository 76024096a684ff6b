"""Common code of experiment scripts: options, and complete result files that contain the options."""

import json
from pathlib import Path

import numpy as np
import pytest

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
