"""The index of all tables and figures: complete, and up to date with what the scripts wrote."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "experiments"
TEXTS = {
    "rcs": "relative-confidence-sampling.txt",
    "merge-rucb": "merge-rucb.txt",
    "mdb": "multi-dueling-bandits.txt",
    "lcra": "large-scale-co-regularized-ranking.txt",
    "thesis": "yue-thesis.txt",
}


@pytest.fixture
def index(load):
    return load("results_index")


PAPERS = tomllib.loads((FOLDER / "papers.toml").read_text())["papers"]


def test_page_is_up_to_date(index):
    assert index.build() == (FOLDER / "RESULTS.md").read_text()


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper["key"])
def test_every_caption_of_the_papers_has_a_row(paper, shared_data):
    text = shared_data().parent / "papers" / TEXTS[paper["key"]]
    if not text.exists():
        pytest.skip(f"needs the text of the paper, {text.name}, beside the public data sets")
    captions = re.findall(r"(?m)(?:^|>|\. )\s*(Figure|Table) ?(\d+(?:\.\d+)?) ?[:.] ", text.read_text())
    listed = [row["name"] for row in paper["rows"]]
    assert captions
    assert {" ".join(caption) for caption in captions} <= set(listed)
    assert len(set(listed)) == len(listed)


def test_verdicts_name_figures_that_are_listed(index):
    listed = {f"{paper['key']}: {row['name']}" for paper in PAPERS for row in paper["rows"]}
    said = [key for found in index.records(FOLDER / "results").values() for key in found["figures"]]
    assert set(said) <= listed
    assert len(said) == len(set(said))


def test_a_figure_without_a_verdict_is_an_error(index):
    paper = {"key": "p", "title": "P", "script": "s", "rows": [{"name": "Figure 1", "what": "it"}]}
    said = {"ours": "3 | 4", "our length": "2", "paper length": "9", "verdict": "agrees", "reason": "R.",
            "quick form": True, "cpu seconds": 150}  # fmt: skip
    found = {"s": {"command": "run s", "cpu seconds": 200, "figures": {"p: Figure 1": said}}}
    text = index.page([paper], found)
    assert r"| **Figure 1**: it | [agrees](results/s/s.md) | quick form: 2; 9 | 3 \| 4 R. | 2 min |" in text
    assert "Of 1 tables and figures: agrees 1." in text
    assert "| `s.py` | `run s` | 3 min |" in text
    assert "Together 0.1 hours" in text
    more = index.page([paper], found, {"t": ("run t", 3600.0)})
    assert "| `t.py` | `run t` | 60 min |" in more
    assert "Together 1.1 hours" in more
    with pytest.raises(KeyError, match=r"p: Figure 1: expected a verdict of s\.py"):
        index.page([paper], {})


def test_commands_of_scripts_without_figures(index, tmp_path):
    for name, record in (
        ("own", '{"cpu_seconds": 7.5}'),
        ("untimed", "{}"),
        ("figured", '{"cpu_seconds": 1}'),
    ):
        folder = tmp_path / name
        folder.mkdir()
        (folder / f"{name}.json").write_text(record)
        (folder / f"{name}.md").write_text(f"# A page\n\n`python {name}.py`\n")
    (tmp_path / "figured" / "figures.json").touch()
    assert index.other_commands(tmp_path) == {"own": ("python own.py", 7.5)}


def test_check_says_what_to_run(index, argv, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(index, "PAGE", tmp_path / "RESULTS.md")
    argv("results_index.py --check")
    assert index.main() == 1
    assert "RESULTS.md is not up to date: run experiments/results_index.py" in capsys.readouterr().err
    assert not (tmp_path / "RESULTS.md").exists()
    for command in ("results_index.py", "results_index.py --check"):
        argv(command)
        assert index.main() == 0
