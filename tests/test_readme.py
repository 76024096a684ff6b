"""Every example of the README runs, in its order, in one folder."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BLOCKS = re.findall(r"^```(python|sh)\n(.*?)^```$", (ROOT / "README.md").read_text(), flags=re.M | re.S)


def test_examples(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for language, code in BLOCKS:
        if language == "python":
            exec(compile(code, "README.md", "exec"), names)
            continue
        for line in code.splitlines():
            command = shlex.split(line, comments=True)
            assert command[0] == "structsvm"
            subprocess.run([sys.executable, "-m", "structsvm", *command[1:]], check=True)
    assert "gap" in capsys.readouterr().out
    assert (tmp_path / "train.store").is_dir()


def test_there_are_examples_of_both_kinds():
    assert {language for language, _ in BLOCKS} == {"python", "sh"}
    assert len(BLOCKS) >= 7


@pytest.mark.parametrize(
    "name",
    sorted(
        set(re.findall(r"`((?:structsvm|experiments|tests|data)/[\w./]*)`", (ROOT / "README.md").read_text()))
    ),
)
def test_named_files_exist(name):
    assert (ROOT / name).exists()
