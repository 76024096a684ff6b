"""Figures of experiments that the manual and the README quote are those of the results."""

import json
import re
from pathlib import Path

import pytest
import quoted

ROOT = Path(__file__).resolve().parent.parent
PAGES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in page.parts]
QUOTING = [page for page in PAGES if quoted.QUOTED.search(page.read_text())]
# the README is shown as it is, so its figures are written out
README = (
    ".598 on trees of LightGBM, .607 on trees of CatBoost | LightGBM .586, CatBoost .592",
    "{{trees; Means; forest-1500; tree; MAP}} on trees of LightGBM, "
    "{{trees; Means; forest-1500; tree-catboost; MAP}} on trees of CatBoost | "
    "LightGBM {{trees; Means; forest-1500; lightgbm; MAP}}, CatBoost {{trees; Means; forest-1500; catboost; MAP}}",
)


@pytest.mark.parametrize("page", QUOTING, ids=lambda page: page.stem)
def test_every_figure_of_the_manual_is_in_the_results(page):
    assert "{{" not in quoted.fill(quoted.QUOTED.sub(lambda key: key[0], page.read_text()))


def test_figures_of_the_readme_are_those_of_the_results():
    written, keys = README
    assert written in (ROOT / "README.md").read_text()
    assert quoted.fill(keys) == written


def test_pages_that_name_an_experiment_quote_it():
    """A paragraph that names a script takes its decimals from the results of the script, or the next table does."""
    for page in PAGES:
        paragraphs = re.split(r"\n\s*\n", page.read_text())
        for paragraph, after in zip(paragraphs, [*paragraphs[1:], ""], strict=True):
            for name in re.findall(r"`experiments/(\w+)\.py`", paragraph):
                written_out = re.search(
                    r"(?<![\w.-])[01]?\.\d{2,}", re.sub(r"\{\{.*?\}\}", "", paragraph + after)
                )
                assert not written_out or f"{{{{{name};" in paragraph + after, (page.name, paragraph)


@pytest.fixture
def results(tmp_path, monkeypatch):
    rows = [
        {"data": "a", "n": 20, "MAP": 0.12345, "p": "-0.02, p 3e-07", "C": "1234.5"},
        {"data": "a", "n": 50, "MAP": "0.1235 (0.1-0.2)", "p": "+0.02, p 0.046", "C": "0"},
        {"data": "b", "n": 50, "MAP": "-0.0004", "p": "", "C": "7"},
    ]
    (tmp_path / "trial").mkdir()
    (tmp_path / "trial" / "trial.json").write_text(
        json.dumps({"seed": 0, "rows, all": rows, "rows, few": rows[:1]})
    )
    monkeypatch.setattr(quoted, "RESULTS", tmp_path)
    quoted._record.cache_clear()
    yield
    quoted._record.cache_clear()


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("trial; rows, few; a; MAP", ".123"),
        ("trial; rows, few; MAP", ".123"),
        ("trial; rows, all; a; 50; MAP", ".124"),
        ("trial; rows, all; a; 50; MAP as .2", ".12"),
        ("trial; rows, all; a; 50; MAP as 3", ".200"),
        ("trial; rows, all; b; MAP", ".000"),
        ("trial; rows, all; a; p as min", "-.020"),
        ("trial; rows, all; a; 20; p as p 2", "3e\N{NON-BREAKING HYPHEN}7"),
        ("trial; rows, all; a; 50; p as p 2", ".05"),
        ("trial; rows, all; a; 20; C as ,", "1,235"),
        ("trial; rows, all; C as max ,", "1,235"),
        ("trial; rows, all; C as min", ".000"),
    ],
)
def test_forms(key, text, results):
    assert quoted.fill(f"a {{{{{key}}}}} b") == f"a {text} b"


def test_other_braces_stay():
    for text in ("{{a}}", "{{a; b}}", "f'{{{x}; {y}}}'"):
        assert quoted.fill(text) == text
