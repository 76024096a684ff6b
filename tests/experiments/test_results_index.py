"""The index of the papers: complete, up to date with the results, and with existing names."""

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


def test_verdicts_name_figures_that_are_listed(index):
    """Check the names of figures, and of the parts that compute them if a script has several parts."""
    listed = {f"{paper['key']}: {row['name']}" for paper in PAPERS for row in paper["rows"]}
    said = [key for found in index.records(FOLDER / "results").values() for key in found["figures"]]
    assert set(said) <= listed
    assert len(said) == len(set(said))
    for found in index.records(FOLDER / "results").values():
        assert len(found["figures"]) == 1 or all(row["part"] != "all" for row in found["figures"].values())
