"""The script that recomputes results: comparison, report, and files that it never overwrites."""

import json
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "experiments"
TOOLS = {"check", "results_index"}
EXPERIMENTS = sorted(
    path.stem for path in FOLDER.glob("*.py") if path.stem not in TOOLS and path.stem[0] != "_"
)
# scripts whose quick form takes a few CPU seconds; experiments/check.py --smoke runs all, and --quick some in full
SHORT = ("calibration", "choice_of_C", "toy_tables")
# stands in for an experiment: the option says what becomes of it
SCRIPT = """\
import argparse, json, pathlib, sys
parser = argparse.ArgumentParser()
parser.add_argument("--map", default="0.9")
for name in ("data", "out", "runs"):
    parser.add_argument(f"--{name}")
parser.add_argument("--quick", action="store_true")
options = parser.parse_args()
if options.map == "gone":
    print("trial: sets is not in /x: some sets, from a page; see data/README.md")
    sys.exit(3)
value = float(options.map)
out = pathlib.Path(options.out)
(out / "trial.json").write_text(json.dumps({"cpu_seconds": 99, "rows": [{"name": "a", "MAP": value}]}))
(out / "trial.md").write_text(
    "# T\\n\\n`python experiments/trial.py --map " + options.map + "`\\n\\n"
    "99 seconds of processor time, at commit 12345678+.\\n\\n"
    f"| name | MAP | CPU |\\n| - | --- | --- |\\n| a | {value} | 12 |\\n"
)
"""


@pytest.fixture
def check(load):
    return load("check")


@pytest.fixture
def trial(check, monkeypatch, tmp_path, argv):
    """Return a function that commits a page with MAP ``value``, and checks it by a command that computes ``now``."""
    results = tmp_path / "experiments" / "results"
    monkeypatch.setattr(check, "ROOT", tmp_path)
    monkeypatch.setattr(check, "RESULTS", results)
    monkeypatch.setattr(check.results_index, "PAGE", tmp_path / "RESULTS.md")
    (results / "trial").mkdir(parents=True)
    (tmp_path / "experiments" / "trial.py").write_text(SCRIPT)

    def trial(value: float, now: str, options: str = "") -> int:
        (results / "trial" / "trial.json").write_text(
            json.dumps({"cpu_seconds": 7, "rows": [{"name": "a", "MAP": value}]})
        )
        (results / "trial" / "trial.md").write_text(
            f"# T\n\n`python experiments/trial.py --map {now}`\n\n7 seconds of processor time, at commit abcdef12.\n\n"
            f"| name | MAP | CPU |\n| - | - | - |\n|  a | {value} | 3 |\n"
        )
        argv(f"check.py --data {tmp_path} {options}")
        return check.main()

    return trial


def test_times_and_commits_are_not_compared(trial, capsys):
    assert trial(0.5, "0.5") == 0
    said = capsys.readouterr().out
    assert re.search(r"^trial +same +7 -> 99 CPU seconds$", said, flags=re.M)
    assert re.search(r"^1 same; \d+ seconds, 99 CPU seconds of computation$", said, flags=re.M)


def test_a_figure_that_differs_is_named_and_not_written_over(trial, capsys, tmp_path):
    assert trial(0.5, "0.51") == 1
    said = capsys.readouterr().out
    assert "trial.json rows[0 a].MAP: 0.5 -> 0.51 (+0.01)" in said
    assert "trial.md:9: '| a | 0.5 | * |' -> '| a | 0.51 | * |'" in said
    page = tmp_path / "experiments" / "results" / "trial" / "trial.md"
    assert "| 0.5 |" in page.read_text()
    assert trial(0.5, "0.51", "--write") == 0
    assert "| 0.51 |" in page.read_text()
    assert (tmp_path / "RESULTS.md").exists()


def test_failures_and_missing_data(trial, capsys):
    assert trial(0.5, "what") == 1
    assert "exit status 1: ValueError: could not convert string to float: 'what'" in capsys.readouterr().out
    assert trial(0.5, "gone") == 1
    assert "trial: sets is not in /x: some sets, from a page; see data/README.md" in capsys.readouterr().out
    assert trial(0.5, "gone", "--skip-missing") == 0
    with pytest.raises(SystemExit, match=r"expected scripts of experiments/, such as trial; got nobody"):
        trial(0.5, "0.5", "nobody")


def test_quick_forms_are_run_only(trial, capsys):
    assert trial(0.5, "what", "--smoke") == 0
    assert re.search(r"^trial +runs +99 CPU seconds\n1 runs; ", capsys.readouterr().out)
    with pytest.raises(SystemExit):
        trial(0.5, "0.5", "--smoke --write")
    assert "--smoke computes no results that --write could take" in capsys.readouterr().err


def test_what_was_computed_in_a_kept_folder_is_not_computed_again(trial, tmp_path):
    (tmp_path / "structsvm").mkdir()
    assert trial(0.5, "0.5", f"--work {tmp_path}/work") == 0
    [done] = (tmp_path / "work").glob("*/trial/done")
    (done.parent / "trial.json").write_text("{}")
    with pytest.raises(KeyError, match="cpu_seconds"):
        trial(0.5, "0.5", f"--work {tmp_path}/work")
    (tmp_path / "structsvm" / "new.py").touch()  # of another code
    assert trial(0.5, "0.5", f"--work {tmp_path}/work") == 0


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        (
            {"a": {"cpu seconds": 1, "b": [1, 2.0]}},
            {"a": {"cpu seconds": 2, "b": [1, 2.5]}},
            ["t.json a.b[1]: 2.0 -> 2.5 (+0.5)"],
        ),
        ({"MAP": "0.5"}, {"MAP": "0.4"}, ["t.json MAP: '0.5' -> '0.4' (-0.1)"]),
        ({"commit": "a", "seconds": 1, "CPU": 1}, {"commit": "b"}, []),
        ({"a": 1}, {"b": None}, ["t.json a: 1 -> 'nothing'", "t.json b: 'nothing' -> None"]),
        ({"a": 1}, {"a": True}, ["t.json a: 1 -> True (+0)"]),
    ],
)
def test_values_of_records(check, before, now, found, tmp_path):
    for name, record in (("before", before), ("t", now)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "t.json").write_text(json.dumps(record))
    assert check.differences(tmp_path / "before", tmp_path / "t") == found


def test_every_experiment_has_a_page_and_a_row_in_the_readme(check):
    assert [script.name for script in check.scripts(check.RESULTS)] == EXPERIMENTS
    rows = (FOLDER / "README.md").read_text()
    assert [name for name in EXPERIMENTS if f"| `{name}.py` |" not in rows] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", SHORT)
def test_quick_form_runs_and_gives_the_same_with_two_threads(name, check, shared_data, tmp_path):
    for jobs in ("1", "2") if "run.jobs" in (FOLDER / f"{name}.py").read_text() else ("1",):
        script = check.Script(name, (*check.SMOKE, "--jobs", jobs), 0.0)
        outcome = check.compute(script, tmp_path / jobs / name, shared_data(), compared=False)
        assert outcome[1:3] == ("runs", [])
    assert check.differences(tmp_path / "1" / name, tmp_path / jobs / name) == []
