"""Damaged click logs: whatever is in the file, the answer is figures or one line that says what is wrong and where.

python tests/fuzz/fuzz_logs.py --cases 100000 [--seed 0]

Logs of interleaving, UBI, tables of impressions (CSV and frames) and session text. What is read of a table is counted
by a dictionary, too; of the others no impression is lost without a word.
"""

import copy
import csv
import io
import json
import math
import random
import re
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import in_turn, main_of_child, mutate_bytes, pack, spoil_json

from structsvm.clicks import harvest, judgments, read_sessions, read_table, read_ubi
from structsvm.common.checks import BadInput
from structsvm.online.clicklog import read_log
from structsvm.online.interleaving.by_name import NAMES, interleaver
from structsvm.online.statistics import analyse, learn_weights, read_credits

METHODS = [*map(interleaver, NAMES)]
ODD: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    7,
    0.5,
    -0.0,
    1e18,
    -1e18,
    1e308,
    10**30,
    10**400,
    2**63,
    1e-320,
    "",
    "x",
    "1",
    "\x00",
    "\ud800",
    "\x1b[31m",
    "é" * 50,
    [],
    {},
    [[]],
    [None],
    [1, 1],
    {"tuple": [1, "a"]},
    {"tuple": [[]]},
    {"rank": 1},
    [{"rank": 1}],
    "a" * 5000,
    float("nan"),
    float("inf"),
    1e11,
    1.7e12,
    10**9,
    1000,
    1001,
]
DEEP = {
    f"@{len(start)} {depth}@": start * depth + "1" + end * depth
    for start, end in (("[", "]"), ('{"tuple":[', "]}"))
    for depth in (3, 150, 400, 3000)
}
"""Placeholders, and what stands for them in the file."""


def valid(rng: random.Random) -> list[dict[str, Any]]:
    """Return a few valid lines of one experiment."""
    method = rng.choice(METHODS)
    n_rankers = 2 if method.rankings == "2" else rng.choice([2, 2, 3])
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


def text_of(line: Any) -> str:
    """Return JSON, including nested values that Python's encoder refuses."""
    text = json.dumps(line)
    for name, nested in DEEP.items():
        text = text.replace(f'"{name}"', nested)
    return text


def made(rng: random.Random) -> bytes:
    """Return the bytes of one file."""
    lines: list[Any] = valid(rng)
    if rng.random() < 0.2:  # delivered twice
        lines.append(copy.deepcopy(rng.choice(lines)))
    if rng.random() < 0.75:
        lines = spoil_json(rng, lines, (*ODD, *DEEP))
    for line in lines:
        if rng.random() < 0.1 and isinstance(line, dict):
            line["shown"] = text_of(line.get("shown"))
    content = "".join(text_of(line) + "\n" for line in lines).encode()
    for _ in range(rng.randint(1, 3) if rng.random() < 0.3 else 0):
        content = mutate_bytes(rng, content)
    return pack(rng, content) if rng.random() < 0.1 else content


def check(path: Path, rng: random.Random) -> bool:
    """Read the file in every way, with one answer; return whether there was one."""
    options = {"missing_feedback": rng.choice(["error", "skip", "no_click"])}
    cluster = rng.choice([None, "user", "session"])
    answers: list[Any] = []
    for read in (partial(read_credits, cluster=cluster), read_log):
        try:
            log: Any = read(path, **options)
            answer = analyse(log, cluster=cluster).to_dict()
            json.dumps(answer, allow_nan=False).encode()
            answers.append(answer)
            if read is read_log and log.method == "team_draft":
                learn(log)
        except (ValueError, OSError) as error:
            if not isinstance(error, OSError):
                said(error, path)
            answers.append(None)
    assert answers[0] == answers[1], f"columns and objects differ: {answers[0]} {answers[1]}"
    return answers[0] is not None


def learn(log: Any) -> None:
    """Learn weights, or check the refusal; it need not name a line if a log has nothing to learn from."""
    try:
        weights = learn_weights([(log, log.rankers[0])]).weights
    except ValueError as error:
        if not str(error).startswith("psi: "):
            raise
    else:
        assert all(map(math.isfinite, weights)), f"weights {weights}"


def log(rng: random.Random, path: Path) -> bool:
    """Read one damaged log in every way; return whether it was accepted."""
    path.write_bytes(made(rng))
    with warnings.catch_warnings(action="error"):
        return check(path, rng)


# impressions: UBI, tables, session text
# ------------------------------------------------------------------------------------------------------

TEXTS: list[Any] = [
    "a",
    "b",
    "c",
    "\u00e9",
    "\u65e5\u672c",
    "",
    None,
    "a b",
    "1",
    "-3",
    'x"y',
    "x" * 300,
    "a\0",
    "\0",
]
NUMBERS: list[Any] = [1, 2, 3, 0, -7, 2**31, 2**53 + 1, 2**63 - 1]
LARGE: list[Any] = [1, 2, 2**63, 2**63 + 5, 2**64 - 1]
BEYOND: list[Any] = [*LARGE, -1, 2**64, 2**70, "a", None, 1.5, True]
LOST = (
    "missing query or document",
    "position out of range",
    "impression logged again for the same session and query",
    "position of a list taken twice",
    "document twice in a list",
)
"""Reasons for which an impression is not counted; for others it is."""


def rows_of_table(rng: random.Random) -> tuple[list[list[Any]], bool]:
    """Return query, document, position, click and session of impressions, and whether all are regular."""
    kinds = [rng.choice((TEXTS[:3], TEXTS, NUMBERS, LARGE, [*NUMBERS[:6], None], BEYOND)) for _ in range(3)]
    positions = rng.choice(([], [], [0, -1, None, 1.5, 1e300, float("nan"), 10**6, "x"]))
    clicks = rng.choice(([], [], [2, -1, None, 0.5]))
    rows: list[list[Any]] = []
    for k in range(rng.randrange(1, 12)):
        rows.append(
            [
                rng.choice(kinds[0]),
                rng.choice(kinds[1]),
                rng.choice(positions) if positions and rng.random() < 0.2 else k % 4 + 1,
                rng.choice(clicks) if clicks and rng.random() < 0.1 else int(rng.random() < 0.3),
                rng.choice(kinds[2]) if rng.random() < 0.8 else None,
            ]
        )
        if rng.random() < 0.1:
            rows.append(list(rows[-1]))
    # a part without any usable impression is refused
    plain = (
        all(kind is not BEYOND and "\0" not in kind for kind in kinds) and not clicks and "x" not in positions
    )
    return rows, plain and any(is_id(row[0]) and is_id(row[1]) and row[2] in (1, 2, 3, 4) for row in rows)


def is_id(value: Any) -> bool:
    return value is not None and value != "" and value == value


def slow_counts(rows: list[list[Any]], as_text: bool) -> dict[tuple[Any, Any, int], list[int]]:
    """Return shows and clicks by query, document and position; ids of a column are text if one of them is, or exceeds
    int64."""
    counts: dict[tuple[Any, Any, int], list[int]] = {}
    kinds = [
        str
        if as_text or any(isinstance(row[k], str) or (is_id(row[k]) and row[k] >= 2**63) for row in rows)
        else lambda x: x
        for k in (0, 1)
    ]
    for query, document, position, clicked, _ in rows:
        at = position if isinstance(position, (int, float)) else math.nan
        if is_id(query) and is_id(document) and at in range(1, 1001):
            key = kinds[0](query), kinds[1](document), int(at)
            cell = counts.setdefault(key, [0, 0])
            cell[0] += 1
            cell[1] += int(clicked or 0)
    return counts


def table(rng: random.Random, path: Path) -> bool:
    """Check a table of impressions, as a frame and as text, which may be damaged."""
    import pandas as pd

    rows, sound = rows_of_table(rng)
    names = ["query", "document", "position", "clicked", "session"]
    as_text, session = rng.random() < 0.5, "session" if rng.random() < 0.5 else None
    damage = as_text and rng.random() < 0.4
    source: Any = path.with_suffix(".csv")
    if as_text:
        written = io.StringIO()
        csv.writer(written, lineterminator="\n").writerows([names, *rows])
        text = written.getvalue().encode()
        for _ in range(rng.choice((1, 1, 2)) if damage else 0):
            at = rng.randrange(len(text) + 1)
            at = text.rfind(b",", 0, at) + 1 if rng.random() < 0.5 else at
            text = (
                text[:at] + rng.choice((b'"', b'"', b"\r", b"\xe9", b"\xff", b"\0", b"\n", b",")) + text[at:]
            )
        source.write_bytes(text)
        path.write_bytes(text)
    else:
        source = pd.DataFrame(rows, columns=names)
        path.write_text(source.to_csv())
    try:
        cells = read_table(source, session=session, first_position=1)
    except ValueError as error:
        said(error, source if as_text else None, SETTLING)
        if sound and not damage and "are equal in float64" not in str(error):  # a frame has rounded them
            raise AssertionError(f"refused: {error}") from None
        return False
    lost = sum(n for reason, n in cells.dropped.items() if reason in LOST)
    if damage:
        n_rows = sum(bool(line.strip(b"\r")) for line in text.split(b"\n")) - 1
        assert cells.n_shows + lost == n_rows, f"{n_rows - cells.n_shows - lost} rows are gone without a word"
    elif session is not None:
        assert cells.n_shows + lost == len(rows), "rows are gone without a word"
    else:
        query = np.repeat(cells.query_ids, np.diff(cells.offsets))[cells.row].tolist()
        found = zip(query, cells.docid[cells.row].tolist(), cells.position.tolist(), strict=True)
        both = np.column_stack([cells.shows, cells.clicks]).tolist()
        assert dict(zip(found, both, strict=True)) == slow_counts(rows, as_text), "other counts"
    used(cells)
    return True


SETTLING = ("query", "document", "session", "cluster", "position", "clicked", "first_position", "log")


def said(error: ValueError, source: Any, settling: tuple[str, ...] = ()) -> None:
    """Assert that an error is one printable line that names the file, or an argument that resolves it."""
    text = str(error)
    assert isinstance(error, BadInput) or type(error) is ValueError, (
        f"{type(error).__name__} is not ours: {text}"
    )
    assert text.isprintable(), text
    assert len(text) < 2000, text
    settles = isinstance(error, BadInput) and error.argument in settling
    assert settles or source is None or str(source) in text, f"the file is not named: {text}"


def used(cells: Any) -> None:
    """Assert that counts are valid, and that estimates from them are finite or refused."""
    assert (cells.shows >= 1).all()
    assert (cells.clicks >= 0).all()
    assert (cells.clicks <= cells.shows).all()
    assert (cells.position >= 1).all()
    assert (np.diff(cells.row) >= 0).all()
    for use in (harvest, judgments):
        try:
            found = use(cells)
        except BadInput:
            continue
        values = found.theta if use is harvest else found.value
        assert np.isfinite(values).all()


TIMES: list[Any] = [
    "2026-01-01T00:00:00Z",
    "2026-01-01T00:00:05",
    "2026-01-01T02:00:01+02:00",
    1767225600000,
    None,
    "",
    "nonsense",
    -1,
    1e30,
    True,
    [],
    "2026-13-01T00:00:00Z",
    "0001-01-01T00:00:00Z",
    "2016-12-31T23:59:60Z",
]


def ubi(rng: random.Random, path: Path) -> bool:
    """Read queries and events with odd values, lines that are not objects, and bytes that are not UTF-8."""
    odd = rng.choice((0.0, 0.02, 0.2))
    ids = [*TEXTS, *LARGE, 2**70, 1.5, True, [], {}]

    def pick(value: Any, others: list[Any]) -> Any:
        return rng.choice(others) if rng.random() < odd else value

    entries: list[Any] = []
    for i in range(rng.randint(1, 4)):
        query = {"query_id": pick(f"q{i}", ids), "user_query": pick(rng.choice(("ps4", "tv")), ids)}
        query["timestamp"] = pick(TIMES[0], TIMES)
        if rng.random() < 0.5:
            query["query_response_hit_ids"] = pick(
                [pick(d, ids) for d in "abc"], [None, "a", {}, [None], [[1]]]
            )
        entries.append(query)
        for k in range(rng.randint(0, 4)):
            for action in ["impression"] + ["click"] * (rng.random() < 0.3):
                attributes = {
                    "object": pick({"object_id": pick(rng.choice("abcd"), ids)}, [None, "a", [], 3]),
                    "position": pick(
                        {"ordinal": pick(k + 1, [0, -1, 2.5, None, "1", 2**40, 1e300])}, [None, "a", []]
                    ),
                }
                entries.append(
                    {
                        "action_name": pick(action, ["view", None, 3]),
                        "query_id": pick(f"q{i}", ids),
                        "timestamp": pick(TIMES[1], TIMES),
                        "event_attributes": pick(attributes, [None, [1], "x"]),
                    }
                )
    rng.shuffle(entries)
    lines = [json.dumps(entry, ensure_ascii=rng.random() < 0.5).encode() for entry in entries]
    bad = rng.random() < 0.3
    if bad:
        other = rng.choice(
            (b"null", b"[]", b"3", b"{", b"true", b'"x"', b'{"query_id": "q\xe9"}', b"\xff", b"NaN")
        )
        lines.insert(rng.choice((0, rng.randrange(len(lines) + 1))), other)
    elif rng.random() < 0.2:
        lines.insert(rng.randrange(len(lines) + 1), b" ")
    path.write_bytes(b"\n".join(lines))
    try:
        cells = read_ubi(path, first_position=rng.choice((None, 1)))
    except ValueError as error:
        said(error, path, SETTLING)
        if not (bad or odd or re.search("got none that can be counted|first_position|elsewhere", str(error))):
            raise AssertionError(f"refused: {error}") from None
        return False
    assert not bad, "a line that is no object, or no UTF-8, was taken"
    used(cells)
    return True


def sessions(rng: random.Random, path: Path) -> bool:
    """Read session text; check that all documents of a list are counted or reported as dropped."""
    parts = []
    for _ in range(rng.randint(1, 6)):
        shown = [rng.choice(("a", "b", "c", "\u00e9", "d4")) for _ in range(rng.randint(1, 5))]
        clicks = [rng.choice([*shown, "z"]) for _ in range(rng.randint(0, 3))]
        parts.append(f"q{rng.randrange(3)}\t{','.join(shown)} : {' , '.join(clicks)};")
    text = rng.choice(("", " ", "\n")).join(parts)
    damage = rng.random() < 0.4
    for _ in range(rng.randint(1, 3) if damage else 0):
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice(("\t", ":", ";", ",", "\n", " ", "\0", "\r", "")) + text[at + 1 :]
    path.write_bytes(text.encode() + rng.choice((b"", b"\n", b"\xe9")) * damage)
    try:
        cells = read_sessions(path)
    except ValueError as error:
        said(error, path, SETTLING)
        if not damage:
            raise AssertionError(f"refused: {error}") from None
        return False
    if not damage:
        n_shown = sum(len(part.partition("\t")[2].partition(":")[0].split(",")) for part in parts)
        lost = sum(n for reason, n in cells.dropped.items() if reason in LOST)
        assert cells.n_shows + lost == n_shown, "documents are gone without a word"
    used(cells)
    return True


KINDS = {"log": log, "ubi": ubi, "table": table, "sessions": sessions}
run_case = in_turn(KINDS)


if __name__ == "__main__":
    main_of_child(__file__, Path, run_case, __doc__)
