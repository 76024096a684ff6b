"""The pages of the manual that start a cluster: their examples run, in their order, in a folder of their own."""

import contextlib
import io
import logging
import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGES = [path for path in sorted(DOCS.glob("*.md")) if "structsvm.dask" in path.read_text()]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_examples(page, tmp_path, monkeypatch):
    pytest.importorskip("distributed", reason="pip install 'structsvm-ranking[dask]'")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```(python|sh)\n(.*?)^```$", page.read_text(), flags=re.M | re.S)
    assert blocks
    names: dict[str, object] = {}
    for language, code in blocks:
        if language == "sh":
            for line in code.splitlines():
                words = shlex.split(line, comments=True)
                run = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True)
                assert run.returncode == 0, run.stderr
            continue
        said = io.StringIO()
        with contextlib.redirect_stdout(said), warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            exec(compile(code, page.name, "exec"), names)
        promised = re.findall(r"print\(.*\)  # (.*)$", code, flags=re.M)
        for text in promised:
            assert text in said.getvalue()


def test_there_is_a_page():
    assert "scale" in [path.stem for path in PAGES]
