"""Every example of the README runs, in its order, in one folder."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from structsvm.cli import main
from structsvm.metrics import evaluate
from structsvm.readers import read_letor

ROOT = Path(__file__).resolve().parent.parent
BLOCKS = re.findall(r"^```(python|sh)\n(.*?)^```$", (ROOT / "README.md").read_text(), flags=re.M | re.S)


def test_examples(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    said = ""
    for language, code in BLOCKS:
        if language == "python":
            capsys.readouterr()
            exec(compile(code, "README.md", "exec"), names)
            said += capsys.readouterr().out
            continue
        for line in code.splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["structsvm"] and not set("|<>*?$&;") & set(line):
                assert main(words[1:]) == 0, line  # a process for each would take most of the time
            else:
                command = line.replace("structsvm ", f"{sys.executable} -m structsvm ", 1)
                subprocess.run(command, shell=True, check=True)
    data = read_letor("test.txt")
    learned = evaluate("map", data.y, np.loadtxt("scores.txt"), qid=data.qid).mean
    assert learned > max(evaluate("map", data.y, x, qid=data.qid).mean for x in data.X.T)
    assert "gap" in said
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
