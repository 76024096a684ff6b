"""Damaged click logs: whatever is in the file, the answer is figures or one line that says what is wrong and where.

python tests/fuzz/fuzz_logs.py --cases 100000 [--seed 0]
"""

from __future__ import annotations

import copy
import gzip
import json
import math
import random
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from common import Summary, main, run_cases

from structsvm.checks import BadInput
from structsvm.online import interleaving
from structsvm.online.clicklog import read_log
from structsvm.online.statistics import analyse, learn_weights, read_credits

METHODS: list[Any] = [
    interleaving.TeamDraft(), interleaving.Probabilistic(), interleaving.Optimized(), interleaving.SOSM(),
    interleaving.Balanced(), interleaving.DocumentConstraints(), interleaving.Optimized("linear"),
]  # fmt: skip
ODD: list[Any] = [
    None, True, False, 0, 1, -1, 2, 7, 0.5, -0.0, 1e18, -1e18, 1e308, 10**30, 10**400, 2**63, 1e-320, "", "x", "1",
    "\x00", "\ud800", "\x1b[31m", "é" * 50, [], {}, [[]], [None], [1, 1], {"tuple": [1, "a"]}, {"tuple": [[]]},
    {"rank": 1}, [{"rank": 1}], "a" * 5000, float("nan"), float("inf"), 1e11, 1.7e12, 10**9, 1000, 1001,
]  # fmt: skip
BYTES = [
    b"\xff", b"\x00", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\n", b"\r", b"{", b"}", b'"', b",", b"1e999", b"[" * 2000,
    b"9" * 5000, b"\\u", b"\\ud800", b"NaN", b"-Infinity", b" ", b"null",
]  # fmt: skip
DEEP = {
    f"@{len(start)} {depth}@": start * depth + "1" + end * depth
    for start, end in (("[", "]"), ('{"tuple":[', "]}"))
    for depth in (3, 150, 400, 3000)
}
"""Placeholders, and what stands for them in the file."""


def valid(rng: random.Random) -> list[dict[str, Any]]:
    """A few lines of one experiment."""
    method = rng.choice(METHODS)
    n_rankers = 2 if method.name in ("balanced", "document_constraints") else rng.choice([2, 2, 3])
    lines = []
    records: list[Any] = []
    often = rng.random() < 0.5  # lists that come again are parsed once
    for k in range(rng.randint(3, 9) if often else rng.randint(1, 5)):
        rankings = [rng.sample("abcdef", 6) for _ in range(n_rankers)]
        if not often or len(records) < 2:
            records.append(
                method.show(rankings, rng.randint(2, 4), np.random.default_rng(rng.getrandbits(32)))
            )
        shown = rng.choice(records) if often else records[-1]
        if rng.random() < 0.3:
            shown = shown.with_impression(rng.choice([k, f"r{k}"]))
        line: dict[str, Any] = {
            "shown": shown.to_dict(),
            "query": rng.choice(["q", 3]),
            "session": k // 2,
            "user": "u",
        }
        n = len(shown.documents)
        line["clicks"] = [
            {"rank": rng.randint(1, n), "time": round(rng.uniform(0, 99), 2), "download": True}
            if rng.random() < 0.7
            else {"document": rng.choice(shown.documents), "dwell": 3}
            for _ in range(rng.randint(0, 3))
        ]
        if rng.random() < 0.3 and shown.impression is None:
            line["impression"] = rng.choice([k, f"i{k}"])
        if rng.random() < 0.3:
            line |= {"query_words": 2, "title_bold": [1] * n, "abstract_bold": [0] * n}
        lines.append(line)
    if rng.random() < 0.5:
        for line in lines:
            line["rankers"] = ["old", "new", "newer"][:n_rankers]
    return lines


def places(value: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Every (container, key) in a line."""
    if isinstance(value, (dict, list)):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            found.append((value, key))
            places(value[key], found)
    return found


def damaged(lines: list[dict[str, Any]], rng: random.Random) -> None:
    """One change in the objects, in place."""
    line = rng.choice(lines)
    container, key = rng.choice(places(line, []))
    kind = rng.randrange(7)
    if kind <= 2:
        container[key] = copy.deepcopy(rng.choice(ODD))
    elif kind == 3:
        del container[key]
    elif kind == 4:
        other, there = rng.choice(places(rng.choice(lines), []))
        container[key] = copy.deepcopy(other[there])
    elif kind == 5:
        lines.append(copy.deepcopy(line))
    elif isinstance(container, list):
        container.extend(copy.deepcopy(container) * rng.choice([1, 50]))
    else:
        container[key] = rng.choice(list(DEEP))


def text_of(line: Any) -> str:
    """JSON, with the nested values that Python's encoder refuses."""
    text = json.dumps(line)
    for name, nested in DEEP.items():
        text = text.replace(f'"{name}"', nested)
    return text


def made(rng: random.Random) -> bytes:
    """The bytes of one file."""
    lines = valid(rng)
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        damaged(lines, rng)
    for line in lines:
        if rng.random() < 0.1:
            line["shown"] = text_of(line.get("shown"))
    content = bytearray("".join(text_of(line) + "\n" for line in lines).encode())
    if rng.random() < 0.3:
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(content) + 1)
            kind = rng.randrange(4)
            if kind == 0:
                content[at:at] = rng.choice(BYTES)
            elif kind == 1:
                del content[at : at + rng.choice([1, 1, 20])]
            elif kind == 2 and at < len(content):
                content[at] = rng.randrange(256)
            else:
                content[at:at] = content[rng.randrange(len(content) + 1) :][:30]
    if rng.random() < 0.1:
        packed = bytearray(gzip.compress(bytes(content), 1))
        if rng.random() < 0.7:
            at = rng.randrange(len(packed))
            packed = (
                packed[:at]
                if rng.random() < 0.5
                else packed[:at] + bytes([rng.randrange(256)]) + packed[at + 1 :]
            )
        return bytes(packed)
    return bytes(content)


def ours(error: BaseException, path: Path) -> bool:
    """Whether an error is of the kind that is promised: ValueError itself with the file, or of the file system."""
    if isinstance(error, OSError):
        return True
    text = str(error)
    return (
        type(error) in (ValueError, BadInput)
        and str(path) in text
        and "\n" not in text
        and len(text) < 2000
        and text.isprintable()
    )


def check(path: Path, rng: random.Random) -> tuple[str, bool]:
    """Read the file in every way; "" if all is well, else what went wrong, and whether there was an answer."""
    options = {
        "missing_record": rng.choice(["error", "skip"]),
        "missing_feedback": rng.choice(["error", "skip", "no_click"]),
    }
    cluster = rng.choice([None, "user", "session"])
    answers: list[Any] = []
    for way in ("columns", "objects"):
        try:
            log: Any = (
                read_log(path, **options)
                if way == "objects"
                else read_credits(path, cluster=cluster, **options)
            )
            answer = analyse(log, cluster=cluster).to_dict()
            json.dumps(answer, allow_nan=False).encode()
            answers.append(answer)
            if way == "objects" and log.method == "team_draft":
                learn(log)
        except Exception as error:
            if not ours(error, path):
                return "".join(traceback.format_exception(error))[-1500:], False
            answers.append(None)
    if answers[0] != answers[1]:
        return f"columns and objects differ: {answers[0]} {answers[1]}", False
    return "", answers[0] is not None


def learn(log: Any) -> None:
    """Weights are learned or refused: some logs have nothing to learn from, of which no line is to blame."""
    try:
        weights = learn_weights([(log, log.rankers[0])]).weights
    except ValueError as error:
        if not str(error).startswith("psi: "):
            raise
    else:
        if not all(map(math.isfinite, weights)):
            raise AssertionError(f"weights {weights}")


def log(rng: random.Random, path: Path) -> bool:
    """One damaged log, read in every way."""
    path.write_bytes(made(rng))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        said, answered = check(path, rng)
    assert not said, said
    return answered


def run(cases: int, seed: int = 0) -> Summary:
    """Check ``cases`` files."""
    return run_cases({"log": log}, cases, seed)


if __name__ == "__main__":
    sys.exit(main(run, __doc__.splitlines()[0]))
