"""Every example of the README runs, in its order, in one folder."""

import re
from pathlib import Path

import numpy as np
import pytest
from blocks import blocks, run

from structsvm.metrics import evaluate
from structsvm.readers import read_letor

ROOT = Path(__file__).resolve().parent.parent


def test_examples(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run(ROOT / "README.md")
    said = capsys.readouterr().out
    data = read_letor("test.txt")
    learned = evaluate("map", data.y, np.loadtxt("scores.txt"), qid=data.qid).mean
    assert learned > max(evaluate("map", data.y, x, qid=data.qid).mean for x in data.X.T)
    assert "gap" in said
    assert (tmp_path / "train.store").is_dir()


def test_there_are_examples_of_both_kinds():
    assert {"python", "sh"} <= {block.language for block in blocks(ROOT / "README.md")}
    assert len(blocks(ROOT / "README.md")) >= 7


@pytest.mark.parametrize(
    "name",
    sorted(
        set(re.findall(r"`((?:structsvm|experiments|tests|data)/[\w./]*)`", (ROOT / "README.md").read_text()))
    ),
)
def test_named_files_exist(name):
    assert (ROOT / name).exists()
