"""Figures of experiments that the manual and the README quote are those of the results."""

import json
import re
from pathlib import Path

import pytest
import quoted

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in page.parts),
]


def test_figures_of_the_manual_are_those_of_the_results():
    assert len(quoted.pages()) > 10
    assert list(quoted.stale()) == []


def test_pages_that_name_an_experiment_quote_it():
    """If a paragraph names a script and it or the next one shows decimals, the section lists their sources."""
    for page in PAGES:
        for section in re.split(r"^#+ ", page.read_text(), flags=re.MULTILINE):
            paragraphs = re.split(r"\n\s*\n", re.sub(r"<!--.*?-->", "", section, flags=re.DOTALL))
            sources = "".join(comment[1] for comment in quoted.SOURCES.finditer(section))
            for paragraph, after in zip(paragraphs, [*paragraphs[1:], ""], strict=True):
                shown = re.search(r"(?<![\w.-])[01]?\.\d{2,}", paragraph + after)
                for name in re.findall(r"`experiments/(\w+)\.py`", paragraph):
                    if not (quoted.RESULTS / name).exists():  # a module that scripts share
                        continue
                    assert not shown or f"{name};" in sources, (page.name, paragraph)


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
    assert quoted.figure(key) == text


def page_of(text, *sources):
    return (
        f"# Title, .999\n\n{text}\n\n<!-- figures\n" + "\n".join(sources) + "\n-->\n\nNot a figure: .777.\n"
    )


def test_stale_figures_are_named_and_renewed(results, tmp_path, monkeypatch, capsys):
    page = tmp_path / "page.md"
    page.write_text(page_of("It was .345 (p = .1).", "trial; rows, all; a; 20; MAP | p as p 2"))
    monkeypatch.setattr(quoted, "HERE", tmp_path / "docs")
    monkeypatch.setattr(quoted, "pages", lambda: [page])
    monkeypatch.setattr("sys.argv", ["quoted.py"])
    assert quoted.main() == 1
    assert (
        "page.md:3: expected 'It was .123 (p = 3e\N{NON-BREAKING HYPHEN}7).' as in the results"
        in capsys.readouterr().out
    )
    monkeypatch.setattr("sys.argv", ["quoted.py", "--write"])
    assert quoted.main() == 0
    assert "It was .123 (p = 3e\N{NON-BREAKING HYPHEN}7)." in page.read_text()
    assert not list(quoted.stale())
