"""Every page of the guide runs, block by block, in a folder of its own, and is reached from the contents."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGES = sorted((DOCS / "guide").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), flags=re.M | re.S)
    assert blocks
    for code in blocks:
        exec(compile(code, page.name, "exec"), names)
    assert "nan" not in capsys.readouterr().out


def test_every_page_is_in_the_contents():
    contents = (DOCS / "index.md").read_text()
    assert PAGES
    for page in PAGES:
        assert f"\nguide/{page.stem}\n" in contents
