"""The manual: code blocks run, gallery examples draw, links exist."""

import re
import subprocess
import sys
import warnings
from pathlib import Path
from unittest.mock import MagicMock

import gallery
import numpy as np
import pytest
from blocks import blocks, run

from structsvm.metrics import evaluate
from structsvm.readers import read_letor

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
# what ``make docs`` leaves behind
MADE = {"_build", "generated", "gallery", "_templates", "_static", "experiments.md", "results_index.md"}
PAGES = sorted(page for page in DOCS.rglob("*.md") if not MADE & set(page.relative_to(DOCS).parts))
ROOT_PAGES = sorted(ROOT.glob("*.md"))
EXAMPLES = sorted((DOCS / "examples").glob("*.py"))


@pytest.fixture(autouse=True)
def no_windows():
    pytest.importorskip("matplotlib", reason="matplotlib draws the figures").use("Agg")
    yield
    from matplotlib import pyplot

    pyplot.close("all")


# these start a service: tests/live/test_manual.py runs their blocks
ELSEWHERE = {"live.md", "live_recipes.md"}
CLUSTER, LONG = DOCS / "scale.md", DOCS / "guide" / "context.md"


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] if page in (CLUSTER, LONG) else [])
        for page in PAGES
        if page.name not in ELSEWHERE and any(block.language in ("python", "sh") for block in blocks(page))
    ],
    ids=lambda page: page.relative_to(DOCS).as_posix(),
)
def test_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if page == CLUSTER:
        pytest.importorskip("distributed", reason="pip install '.[dask]'")
        warnings.simplefilter("ignore", ResourceWarning)
    printed = []
    run(page, printed=lambda block, output: printed.append((block.end, output)))
    text = page.read_text(encoding="utf-8")
    for mark in re.finditer(r"<!-- printed -->", text):
        paragraph = text[: mark.start()].rstrip().rpartition("\n\n")[2]
        figures = re.findall(r"\d+\.\d+|\d+%", paragraph)
        output = " ".join(said for end, said in printed if end < mark.start())
        assert figures
        assert [figure for figure in figures if figure not in output] == []


def test_recipes_for_trackers(tmp_path, monkeypatch):
    """MLflow, Weights & Biases and Optuna are replaced by objects that record their calls."""
    monkeypatch.chdir(tmp_path)
    mlflow, wandb, optuna = (MagicMock() for _ in range(3))
    trial = MagicMock(suggest_categorical=lambda name, choices: choices[1])
    found = []
    optuna.create_study().optimize = lambda objective, n_trials: found.append(objective(trial))
    for name, stub in (("mlflow", mlflow), ("wandb", wandb), ("optuna", optuna)):
        monkeypatch.setitem(sys.modules, name, stub)
    page = [block for block in blocks(DOCS / "guide" / "inspecting.md") if block.language in ("python", "py")]
    names = {}
    for block in [page[0], *(block for block in page if block.language == "py")]:
        exec(block.code, names)
    n_passes = names["model"].fit_.n_passes
    assert mlflow.log_metrics.call_count == wandb.init().__enter__().log.call_count == n_passes
    assert mlflow.set_tags.call_args[0][0]["measure"] == "map"
    assert 0.5 < found[0] <= 1


def test_there_are_blocks():
    assert sum(len(blocks(page)) for page in PAGES) > 60
    assert len(EXAMPLES) >= 12
    assert max(len(gallery.parse(script).title) for script in EXAMPLES) < 60
    of_readme = blocks(ROOT / "README.md")
    assert {"python", "sh"} <= {block.language for block in of_readme}
    assert len(of_readme) >= 7


def test_examples_of_the_readme(tmp_path, monkeypatch, capsys):
    """Run all blocks in order in one folder."""
    monkeypatch.chdir(tmp_path)
    run(ROOT / "README.md")
    said = capsys.readouterr().out
    data = read_letor("test.txt")
    learned = evaluate("map", data.y, np.loadtxt("scores.txt"), qid=data.qid).mean
    assert learned > max(evaluate("map", data.y, x, qid=data.qid).mean for x in data.X.T)
    assert "gap" in said
    assert Path("train.store").is_dir()


def test_files_that_the_readme_names_exist():
    names = re.findall(r"`((?:structsvm|experiments|tests|data)/[\w./]*)`", (ROOT / "README.md").read_text())
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_an_error_names_the_line_of_the_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A\n\n```python\nx = 1\n1 / 0\n```\n")
    with pytest.raises(ZeroDivisionError) as caught:
        run(page)
    assert caught.traceback[-1].lineno + 1 == 5


def test_a_command_that_fails_in_a_pipe_fails_the_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```sh\nstructsvm show no.npz | cat\n```\n")
    with pytest.raises(subprocess.CalledProcessError):
        run(page)


@pytest.mark.slow
@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_examples_of_the_gallery_draw(script):
    drawn = []
    gallery.run(script, lambda part, k, figure: drawn.append(len(figure.axes)))
    assert drawn
    assert all(drawn)


def headings(page):
    """Return the anchors of a page, formed like those of the builder."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    found = re.findall(r"^#+ (.+)$", text, flags=re.M)
    return {
        re.sub(r"[^\w\- ]", "", re.sub(r"\[(.+?)\]\(.*?\)", r"\1", title).lower()).replace(" ", "-")
        for title in found
    }


def test_formulas_can_be_shown():
    math = pytest.importorskip("docutils.utils.math.latex2mathml", reason="docutils builds the manual")
    found = []
    for page in PAGES:
        text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        found += re.findall(r"\$\$(.+?)\$\$|(?<![\\$])\$([^$\n]+?)\$", text, flags=re.S)
    for block, inline in found:
        assert "<math" in math.tex2mathml((block or inline).strip(), as_block=bool(block))
        # Markdown without mathematics changes these
        assert not re.search(r"\\[^\w\s]|^\s*[-+*] ", block or inline, re.M)
    assert len(found) > 200


@pytest.mark.parametrize("page", [*PAGES, *ROOT_PAGES], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_named_link_is_defined_and_every_definition_is_used(page):
    text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    defined = re.findall(r"^\[([\w-]+)\]: \S+$", text, flags=re.M)
    assert sorted(defined) == sorted(set(re.findall(r"\]\[([\w-]+)\]", text)))


def test_every_page_of_the_guide_and_the_theory_is_listed():
    for room in ("guide", "theory", "project"):
        page = (DOCS / room / "index.md").read_text(encoding="utf-8")
        listed = dict(re.findall(r"^\* \[(.*)\]\((\S+)\)$", page, flags=re.M))
        assert {page.name for page in (DOCS / room).glob("*.md")} - {"index.md"} <= {*listed.values()}
        for title, name in listed.items():
            first = (DOCS / room / name).read_text(encoding="utf-8").partition("\n")[0]
            assert title == first.removeprefix("# ") or room == "project"


def test_pages_show_no_directives():
    """A forge shows a directive as code."""
    for page in PAGES:
        assert not re.search(
            r"^(```|:::+)\{|\{(ref|doc|math|py:\w+)\}`", page.read_text("utf-8"), flags=re.M
        ), page.name
