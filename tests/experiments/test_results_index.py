"""The index of the papers: complete, up to date with the results, and with existing names."""

import re
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


def test_every_algorithm_problem_theorem_and_equation_of_the_thesis_has_an_entry(shared_data):
    """Names such as "OP 5" and "(3.8) to (3.13)", as they are numbered in the text."""
    text = shared_data().parent / "papers" / TEXTS["thesis"]
    if not text.exists():
        pytest.skip(f"needs the text of the paper, {text.name}, beside the public data sets")
    names = ", ".join(item["name"] for key, item in ITEMS if key == "thesis")
    numbered = re.findall(r"\*\*(Algorithm|Theorem) (\d)|\b(OP) (\d)", text.read_text())
    wanted = {f"{a or b}{n or m}" for a, n, b, m in numbered}
    listed = {f"{kind}{n}" for kind, n in re.findall(r"(Algorithm|OP) (\d)", names)}
    listed |= {
        f"Theorem{n}"
        for some in re.findall(r"Theorems? ([\d, and]+)", names)
        for n in re.findall(r"\d", some)
    }
    assert wanted
    assert wanted <= listed
    equations = set()
    for chapter, first, last in re.findall(r"\((\d)\.(\d+)\)(?: to \(\d\.(\d+)\))?", names):
        equations |= {(int(chapter), n) for n in range(int(first), int(last or first) + 1)}
    in_text = {(int(c), int(n)) for c, n in re.findall(r"quad \((\d)\.(\d+)\)", text.read_text())}
    assert in_text
    assert in_text <= equations
