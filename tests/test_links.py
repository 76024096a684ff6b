"""Links of the pages lead to files and headings of the repository, as a forge shows them without a build."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
WRITTEN_BY_BUILD = {"_build", "gallery", "generated"}
PAGES = [
    page
    for folder in (".", "docs", "data", "experiments", "paper", "structsvm/pt_docs")
    for page in sorted((ROOT / folder).glob("**/*.md" if folder in ("docs", "experiments") else "*.md"))
    if not WRITTEN_BY_BUILD & {*page.parts} and page.name not in ("experiments.md", "results_index.md")
]


def prose(page: Path) -> str:
    """Return the text of a page without fenced code and code spans."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(page: Path) -> set[str]:
    """Return the anchors that a forge gives to the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ +(.*?) *$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_files_and_headings(page):
    for target in re.findall(r"\]\(\s*([^)\s]+)[^)]*\)", prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{page.name}: no file {target}"
        assert linked.is_relative_to(ROOT), f"{page.name}: {target} is outside the repository"
        if anchor:
            assert anchor in anchors(linked), f"{page.name}: no heading {target}"
