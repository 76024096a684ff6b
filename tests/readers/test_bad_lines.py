"""Lines of ``bad_lines.txt``: each reader of the format names the file, the line and what is wrong with it."""

import ast
import json
import re
from functools import partial
from pathlib import Path

import pytest

from structsvm.clicks import read_sessions
from structsvm.online.arena import read_votes
from structsvm.online.clicklog import read_log
from structsvm.online.interleaving import Shown
from structsvm.online.statistics import read_credits
from structsvm.readers import read_candidates, read_letor, read_qrels, read_run, trec
from tests.refusing import rejected

SHEET = Path(__file__).with_name("bad_lines.txt").read_text(encoding="utf-8")
SECTIONS = re.findall(r"^\[(\w+)\]\n(.*?)\n(?=\n|\Z)", SHEET, re.M | re.S)
CASES = [(kind, *line.rsplit(" -> ", 1)) for kind, lines in SECTIONS for line in lines.split("\n")]
CASES += [
    ("run", "1 Q0 " + "d" * 1025 + " 1 2.5 t", r"expected columns of at most 1024 bytes, got 'd{35}\.\.\.'"),
    ("candidates", '{"documents": ' + "[" * 100_000, "expected JSON"),
    ("log", '{"a":' * 100_000, r"expected one JSON object per line, got '.*' \(too many brackets\)"),
]
SHOWN = Shown("team_draft", ("b", "a", "c"), 2, ((1, 0, 1),)).to_dict()
# a good line, and the readers
FORMATS = {
    "letor": (b"1 qid:1 1:1", [partial(read_letor, sparse=as_sparse) for as_sparse in (True, False)]),
    "run": (b"1 Q0 d1 1 2.5 t", [read_run]),
    "qrels": (b"1 a d 1", [partial(read_qrels, subtopics=True), read_qrels]),
    "subtopics": (b"1 a d 1", [partial(read_qrels, subtopics=True)]),
    "candidates": (rb'{"documents": [{"text": "a \ud83d\ude00"}]}', [read_candidates]),
    "sessions": (b"q\ta :;", [read_sessions]),
    "votes": (b"a,b,winner,question\nx,y,a,1", [read_votes]),
    "log": (json.dumps({"shown": SHOWN, "clicks": [{"rank": 1}]}).encode(), [read_log, read_credits]),
}


@pytest.mark.parametrize(("kind", "line", "message"), CASES)
def test_a_wrong_line_is_named(tmp_path, monkeypatch, kind, line, message):
    good, readers = FORMATS[kind]
    bad = ast.literal_eval(line) if line.startswith('b"') else line.encode()
    path = tmp_path / ("file.csv" if kind == "votes" else "file")
    path.write_bytes(good + b"\n\n" + 2 * (bad + b"\n"))
    for read in readers:
        for block in (1, 1 << 20) if kind == "run" else (1 << 20,):
            monkeypatch.setattr(trec, "_BLOCK_BYTES", block)
            rejected(rf"file.*:{good.count(10) + 3}: .*({message})", read, path)
