"""The index of the papers: complete, up to date with the results, and with existing names."""

import tomllib
from importlib import import_module
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


ITEMS = [(paper["key"], item) for paper in PAPERS for item in paper["items"]]


@pytest.mark.parametrize(
    ("key", "item"), ITEMS, ids=lambda value: value if isinstance(value, str) else value["name"]
)
def test_algorithms_and_equations_are_where_the_index_says(key, item, index):
    assert len({"at", "page", "nothing"} & set(item)) == 1
    for name in item.get("at", "").split(", ") if "at" in item else ():
        module = name
        while True:
            module = module.rpartition(".")[0]
            try:
                thing = import_module(module)
                break
            except ModuleNotFoundError:
                assert "." in module, name
        for attribute in name.removeprefix(f"{module}.").split("."):
            thing = getattr(thing, attribute)
        assert thing.__doc__, name
    if "page" in item:
        assert item["name"].split(",")[0].split()[0] in ("Observation", "Lemma", "Theorem")
        assert (FOLDER.parent / item["page"]).exists()
