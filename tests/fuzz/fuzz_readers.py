"""Damaged text files: each is read as a slow reader of a few lines reads it, or refused with its name and line.

    python tests/fuzz/fuzz_readers.py --cases 100000 --seed 1

LETOR, CSV and Parquet tables of features, TREC runs and judgments,
scores and candidate sets, plain and compressed. The slow readers use ``bytes.split`` and ``float()``; one refuses if
and only if the reader refuses. Missing features are filled, kept, or an error.
"""

import contextlib
import csv
import random
import re
import struct
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import fault_of, in_turn, main_of_child, mutate, mutate_bytes, unpack
from scipy import sparse

from structsvm import readers
from structsvm.cli.files import read_scores

csv.field_size_limit(1 << 30)
BOM = b"\xef\xbb\xbf"
NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
WORD = re.compile(rb"[+-]?(nan|inf|infinity)", re.IGNORECASE)
WHOLE = re.compile(rb"[+-]?\d+")


class RefusedError(Exception):
    """The slow reader's only error, with the line it is in."""


def number(token: bytes, line: int) -> float:
    """Return a finite number, or raise an error."""
    if not NUMBER.fullmatch(token) or not np.isfinite(value := float(token)):
        raise RefusedError(line)
    return value


def identifier(raw: bytes, line: int) -> str:
    """Return an id that every reader keeps unchanged."""
    if b"\0" in raw or raw.startswith(BOM):
        raise RefusedError(line)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise RefusedError(line) from None


def lines_of(data: bytes) -> list[bytes]:
    """Return the decompressed lines of a file."""
    text = unpack(data)
    if text is None:
        raise RefusedError(0)
    lines = text.removeprefix(BOM).split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


def both(slow: Callable[[], Any], read: Callable[[], Any]) -> tuple[Any, Any]:
    """Return the results of the slow reader and ours; if one refuses, both must, and its error causes ours."""
    try:
        wanted = slow()
    except RefusedError as error:
        try:
            found = read()
        except ValueError as ours:
            raise ours from error
        raise AssertionError(f"accepted {found!r}, expected an error in line {error}") from None
    try:
        return wanted, read()
    except ValueError as error:
        raise AssertionError(f"refused: {error}") from error


def bits(value: float) -> bytes:
    return struct.pack("d", value)


# LETOR
# ------------------------------------------------------------------------------------------------------


FILLS = (None, None, np.nan, 0.0, -2.5)


def slow_letor(
    data: bytes, dtype: type, fill: float | None
) -> list[tuple[float, str, dict[int, float], str]]:
    """Return grade, query id, features by column, and docid of each row."""
    rows = []
    for n, line in enumerate(lines_of(data), 1):
        body, _, comment = line.partition(b"#")
        words = body.split()
        if not words:
            continue
        grade = number(words[0], n)
        if len(words) < 2 or not words[1].startswith(b"qid:") or not 0 < len(words[1]) - 4 <= 1024:
            raise RefusedError(n)
        query = identifier(words[1][4:], n)
        cells: dict[int, float] = {}
        for word in words[2:]:
            key, colon, value = word.partition(b":")
            kind = WORD.fullmatch(value)
            is_missing = kind is not None and kind[1].lower() == b"nan" and fill is not None
            if not colon or not re.fullmatch(rb"\d+", key) or (kind and not is_missing):
                raise RefusedError(n)
            with np.errstate(over="ignore"):
                cell = float(dtype(fill if is_missing else number(value, n)))
            column = int(key[-40:]) - 1 if len(key.lstrip(b"0")) <= 12 else -1
            if not (np.isfinite(cell) or is_missing) or not 0 <= column < 2**31 or column in cells:
                raise RefusedError(n)
            cells[column] = cell
        said = re.search(rb"(?:^|\s)docid\s*=\s*(\S*)", comment)
        rows.append((grade, query, cells, identifier(said.group(1) if said else comment.strip(), n)))
    if not any(cells for _, _, cells, _ in rows):
        raise RefusedError(0)
    ids = settled([row[1] for row in rows])
    return [(row[0], query, *row[2:]) for row, query in zip(rows, ids, strict=True)]


def row_of(X: object, i: int) -> dict[int, float]:
    """Return the nonzero cells of a row."""
    if sparse.issparse(X):
        a, b = X.indptr[i], X.indptr[i + 1]
        return dict(zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True))
    return {int(k): float(X[i, k]) for k in np.flatnonzero(X[i])}


def same_cells(found: dict[int, float], stated: dict[int, float]) -> bool:
    wanted = {k: v for k, v in stated.items() if v != 0}
    return found.keys() == wanted.keys() and all(bits(found[k]) == bits(v) for k, v in wanted.items())


LETOR = b"""# made by hand 1:2
2 qid:10 1:0.5 2:-3 5:1e-3 7:0.30000000000000004 # docid = GX-1 inc = 1
0 qid:10 1:9007199254740993 3:12.25 7:1 #docid=GX-2
1 qid:11 2:.5 4:5. 6:-0

4 qid:10 7:1 6:2 5:nan # some words
0 qid:q\xc3\xbc 1:1 2:0 3:123456789012345678901234 # docid = \xc3\xa9
"""


def letor(rng: random.Random, path: Path) -> bool:
    # without the last line it is ASCII, which is read in another way
    data = mutate(rng, LETOR if rng.random() < 0.5 else LETOR[: LETOR.rindex(b"\n", 0, -1) + 1])
    path.write_bytes(data)
    dtype, fill = rng.choice((np.float64, np.float32)), rng.choice(FILLS)
    read, slow = (
        partial(readers.read_letor, path, dtype=dtype, fill=fill, n_jobs=1),
        partial(slow_letor, data, dtype, fill),
    )
    try:
        rows, found = both(slow, read)
    except ValueError as ours:
        line, stated = ours.__cause__.args[0], re.match(re.escape(str(path)) + r":(\d+): ", str(ours))
        # ids are looked at after all numbers, so that a later line may be named
        if fault_of(ours, path) is None and stated is not None and int(stated[1]) < line:
            raise AssertionError(f"{ours}: expected line {line}") from None
        raise
    order = {q: i for i, q in enumerate(dict.fromkeys(row[1] for row in rows))}
    rows = sorted(rows, key=lambda row: order[row[1]])
    check_letor(found, rows)
    if rng.random() < 0.02 and fill == fill:
        store = path.with_name(f"{rng.getrandbits(60)}.store")
        readers.convert_letor(
            path, store, dtype=dtype, fill=fill, n_jobs=1, block_bytes=rng.choice((1, 50, 1 << 20))
        )
        check_letor(readers.open_store(store), rows)
    return True


def check_letor(found: object, rows: list[tuple[float, str, dict[int, float], str]]) -> None:
    assert found.n_rows == len(rows), f"{found.n_rows} rows, expected {len(rows)}"
    assert found.n_features == 1 + max(max(r[2], default=0) for r in rows), "another width"
    assert [str(q) for q in found.qid] == [r[1] for r in rows], "another query"
    docid = [""] * len(rows) if found.docid is None else found.docid.tolist()
    assert docid == [r[3] for r in rows], "another docid"
    for i, row in enumerate(rows):
        assert bits(float(found.y[i])) == bits(row[0]), f"another grade in row {i}"
        assert same_cells(row_of(found.X, i), row[2]), f"other features in row {i}"


# tables
# ------------------------------------------------------------------------------------------------------

CSV = b"""qid,docid,bm25,age,label
q1,d1,2.5,,1
q1,d2,-1e-3,nan,0
"q\xc3\xbc",d3,7,3.25,2

10,"d,4 ""x"" y",-3.4028234663852886e38,1,0
q1,d5, 1 ,2,0
"""


def settled(words: list[str]) -> list[str]:
    """Return the ids of a text: integers without a decimal point; rounded numbers and ``nan`` among numbers, or alone,
    are refused."""
    gaps = [word for word in words if word.lower() == "nan"]
    if not all(word in gaps or NUMBER.fullmatch(word.encode()) for word in words):
        return words
    if gaps or any("e" in w.lower() or (w.endswith(".0") and abs(Decimal(w)) >= 2**53) for w in words):
        raise RefusedError(0)
    short = [word.removesuffix(".0") for word in words]
    plain = all(re.fullmatch(r"0|-?[1-9]\d*", word) and -(2**63) <= int(word) < 2**63 for word in short)
    return short if plain else words


def cells_of(line: str, n: int) -> list[str]:
    """Return the cells of a line; a quoted cell ends at its closing quote."""
    try:
        (cells,) = csv.reader([line.rstrip("\r")], strict=True)
    except (csv.Error, ValueError):
        raise RefusedError(n) from None
    return cells


def slow_csv(data: bytes, fill: float | None) -> tuple[list[str], list[tuple[float, str, list[float], str]]]:
    """Return the names of the features, and grade, query id, features and docid of each row."""
    lines = [(n, identifier(line, n).removesuffix("\r")) for n, line in enumerate(lines_of(data), 1)]
    table = [(n, cells_of(line, n)) for n, line in lines if line.strip("\r")]
    if not table:
        raise RefusedError(0)
    names = [name.strip() for name in table[0][1]]
    features = [name for name in names if name not in ("label", "qid", "docid")]
    unnamed = any(re.fullmatch(r"(Unnamed: \d+)?", name) for name in features)
    if len(set(names)) < len(names) or not {"label", "qid"} <= set(names) or not features or unnamed:
        raise RefusedError(1)
    rows = []
    for n, cells in table[1:]:
        if len(cells) != len(names):
            raise RefusedError(n)
        of = dict(zip(names, (cell.strip() for cell in cells), strict=True))
        gaps = [fill is not None and (not of[name] or of[name].lower() == "nan") for name in features]
        values = [fill if gap else truth(of[name], n) for name, gap in zip(features, gaps, strict=True)]
        if not of["qid"] or of.get("docid") == "":
            raise RefusedError(n)
        rows.append((truth(of["label"], n), of["qid"], values, of.get("docid", "")))
    if not rows:
        raise RefusedError(0)
    ids, documents = (settled([row[k] for row in rows]) for k in (1, 3))
    return features, [(row[0], q, row[2], d) for row, q, d in zip(rows, ids, documents, strict=True)]


def truth(word: str, line: int) -> float:
    """Return a finite number or a boolean."""
    return float(word.lower() == "true") if word.lower() in ("true", "false") else number(word.encode(), line)


GOOD = (
    "1",
    "0",
    "-1",
    "2.5",
    ".5",
    "5.",
    "1e3",
    "1E-5",
    "+4",
    " 2 ",
    "true",
    "FALSE",
    "0.1",
    "123456.789",
    "1e308",
    "4.9e-324",
    "9007199254740993",
    "-0",
)
ODD = (
    "",
    "nan",
    "NaN",
    "NAN",
    "inf",
    "-inf",
    "x",
    "1_0",
    "1,5",
    "NA",
    "null",
    "0x1",
    "1d",
    "\u0661",
    "1e400",
    "--1",
    "1 2",
    "nan(1)",
    "+nan",
    '"',
    "t",
    "1.0f",
    "infinity",
    "+",
    ".",
    "e5",
    "1e",
    "\u00a02",
    "\uff12",
)
IDS = (
    ("1", "2", "30"),
    ("q1", "q 2", "\u00fc", 'a"b', "a,b"),
    ("007", "7"),
    ("1.0", "2.0"),
    ("1", "2.0", "1.0"),
    ("2e5", "1"),
    ("1.73e+18", "7"),
    ("9007199254740993", "9007199254740992"),
    ("9223372036854775808", "1"),
    ("9007199254740992.0", "1.0"),
    ("a", "1.0", "1"),
    ("-1", "1"),
    ("1.5", "2.0"),
    ("", "a"),
    (" a", "a "),
    ("1e5", "ab"),
    ("-0", "0"),
    ("+1", "1"),
    ("nan", "x"),
    tuple(f"d{k}" for k in range(99)),
    tuple(f"d{k}" for k in range(99)),
)


def random_csv(rng: random.Random) -> bytes:
    """Return a table, in half of the cases with odd words, quotes, line ends, or rows of other lengths."""
    odd, always = rng.random() < 0.5, rng.random() < 0.2
    columns = {"qid": rng.choice(IDS), "docid": rng.choice(IDS), "label": ("0", "1", "2", "3.0", "true")}
    columns |= {f"f{j}": GOOD for j in range(rng.randint(1, 4))}
    names = rng.sample(list(columns), len(columns))
    if rng.random() < 0.2:
        names.remove("docid")

    def quoted(cell: str) -> str:
        needed = always or any(mark in cell for mark in ',"\n\r')
        return '"' + cell.replace('"', '""') + '"' if needed else cell

    lines = [",".join(map(quoted, names))]
    for _ in range(rng.choice((0, 1, 2, 5, 30))):
        cells = [rng.choice(ODD if odd and rng.random() < 0.03 else columns[name]) for name in names]
        line = ",".join(map(quoted, cells))
        if odd and rng.random() < 0.04:
            at = rng.randrange(len(line) + 1)
            line = line[:at] + rng.choice(('"', ",", "\n", "\r", "\0", ',"', '"x"y', "\ufeff")) + line[at:]
        lines += [line] + [""] * (rng.random() < 0.03)
    data = (rng.choice(("\n", "\n", "\r\n")).join(lines) + rng.choice(("\n", "", "\n\n"))).encode()
    if odd and rng.random() < 0.02:
        data = data.replace(b"1", b"\xdf", 1)
    return BOM * (rng.random() < 0.1) + data


def mutated_csv(rng: random.Random) -> bytes:
    """Return a small table with stray quotes at the ends of cells, or anywhere, and other mutations."""
    data = CSV
    for _ in range(rng.choice((0, 0, 1, 2))):
        at = rng.randrange(len(data))
        at = rng.choice((at, data.rfind(b",", 0, at) + 1, data.find(b",", at)))
        data = data[:at] + b'"' + data[at:]
    return mutate(rng, data) if rng.random() < 0.7 else data


def csv_table(make: Callable[[random.Random], bytes], rng: random.Random, path: Path) -> bool:
    """Read a CSV table in small blocks."""
    from structsvm.common.tables import text

    data, fill = make(rng), rng.choice(FILLS)
    path.write_bytes(data)
    text._BLOCK, before = rng.choice((64, 1 << 12, 1 << 23)), text._BLOCK
    try:
        (features, rows), found = both(
            partial(slow_csv, data, fill), partial(readers.read_csv, path, fill=fill)
        )
    finally:
        text._BLOCK = before
    check_table(found, features, rows)
    return True


def check_table(found: object, features: list[str], rows: list[tuple[float, str, list[float], str]]) -> None:
    order = {q: i for i, q in enumerate(dict.fromkeys(str(row[1]) for row in rows))}
    rows = sorted(rows, key=lambda row: order[str(row[1])])
    assert list(found.feature_names) == features, "other features"
    assert [str(q) for q in found.qid] == [str(row[1]) for row in rows], "another query"
    np.testing.assert_array_equal(found.X, np.array([row[2] for row in rows], dtype=found.X.dtype))
    assert found.y.tolist() == [row[0] for row in rows], "another grade"
    assert found.docid is None or found.docid.tolist() == [row[3] for row in rows], "another docid"


def parquet_table(rng: random.Random, path: Path) -> bool:
    """Read or refuse damaged Parquet bytes; ``tests/readers/test_roles_of_columns.py`` reads valid tables."""
    import pandas as pd

    pd.DataFrame({"qid": [3, 3, 1], "bm25": [2.5, -1e-3, 7.0], "label": [1, 0, 2]}).to_parquet(path)
    for _ in range(rng.randrange(3)):
        path.write_bytes(mutate_bytes(rng, path.read_bytes()))
    return readers.read_parquet(path).n_rows > 0


# TREC
# ------------------------------------------------------------------------------------------------------


def slow_trec(data: bytes, width: int, number_at: int, whole: bool) -> dict[str, list[tuple[str, float]]]:
    """Return docid and number of each topic's rows."""
    topics: dict[str, dict[str, float]] = {}
    for n, line in enumerate(lines_of(data), 1):
        words = line.split()
        if not words:
            continue
        if b"\0" in line or line.startswith(BOM) or len(words) != width or max(map(len, words)) > 1024:
            raise RefusedError(n)
        topic = identifier(words[0], n)
        try:
            docid = words[2].decode()
        except UnicodeDecodeError:
            raise RefusedError(n) from None
        if whole:
            if not WHOLE.fullmatch(words[number_at]) or not -(2**31) <= int(words[number_at]) < 2**31:
                raise RefusedError(n)
            value = int(words[number_at])
        else:
            value = number(words[number_at], n)
        if docid in topics.setdefault(topic, {}):
            raise RefusedError(0)  # found after all other faults
        topics[topic][docid] = value
    if not topics:
        raise RefusedError(0)
    return {topic: list(rows.items()) for topic, rows in topics.items()}


RUN = b"""301 Q0 FT-1 1 2.5 bm25
301 Q0 FT-2 2 7 bm25
302 Q0 FT-1 1 -0.30000000000000004 bm25
301 Q0 d\xc3\xbc 3 2.5 bm25

302\tQ0\tFT-9   2 1e-3 bm25
"""
QRELS = b"301 0 FT-1 2\n301 0 FT-2 -2\n302 0 FT-1 0\n\n301 0 d\xc3\xbc 1\n302\t0  FT-9 +1\n"


def trec(text: bytes, rng: random.Random, path: Path) -> bool:
    data = mutate(rng, text)
    path.write_bytes(data)
    is_run = text is RUN
    read = readers.read_run if is_run else readers.read_qrels
    columns = (6, 4, False) if is_run else (4, 3, True)
    topics, found = both(partial(slow_trec, data, *columns), partial(read, path))
    numbers = found.scores if is_run else found.grades
    assert found.topics.tolist() == list(topics), "other topics"
    for t, rows in enumerate(topics.values()):
        a, b = int(found.offsets[t]), int(found.offsets[t + 1])
        if is_run:  # a stable sort by docid, then by score
            rows = sorted(sorted(rows, reverse=True), key=lambda row: -row[1])
        assert found.docid[a:b].tolist() == [d for d, _ in rows], "other documents"
        assert [bits(v) for v in numbers[a:b]] == [bits(v) for _, v in rows], "other numbers"
    return True


# one value per line
# ------------------------------------------------------------------------------------------------------

SCORES = b"0.5\n-3\n1e-3\n-inf\n0.30000000000000004\n 7 \n"


def slow_scores(data: bytes) -> list[float]:
    wanted = []
    for n, line in enumerate(lines_of(data), 1):
        word = identifier(line, n).strip().encode()
        if len(word) > 1100:
            raise RefusedError(n)
        wanted.append(-np.inf if word.lower() in (b"-inf", b"-infinity") else number(word, n))
    if not wanted:
        raise RefusedError(0)
    return wanted


def scores(rng: random.Random, path: Path) -> bool:
    data = mutate(rng, SCORES)
    path.write_bytes(data)
    wanted, (found, _) = both(partial(slow_scores, data), partial(read_scores, path))
    assert [bits(v) for v in found] == [bits(v) for v in wanted], "other scores"
    return True


# candidate sets
# ------------------------------------------------------------------------------------------------------

SETS = b"""{"query": "aida", "documents": [{"id": "d1", "text": "by Verdi", "title": "A", "subtopics": ["opera"],\
 "features": [0.3, null]},\
 {"id": "d\xc3\xbc", "text": "a cruise ship", "subtopics": {"ship": 2}, "features": [1, 2e3]}]}
{"documents": [{"text": ["two", "words"], "subtopics": []}, {"text": ["one"]}]}

{"query": "7", "documents": [{"id": "5", "text": "x"}]}
"""


def candidate_sets(rng: random.Random, path: Path) -> bool:
    data = mutate(rng, SETS)
    path.write_bytes(data)
    try:
        lines_of(data)
    except RefusedError:
        found = readers.read_candidates(path)
        raise AssertionError("accepted, expected an error") from None
    found = readers.read_candidates(path)
    copy = path.with_suffix(".jsonl")
    readers.write_candidates(found, copy)
    again = readers.read_candidates(copy)
    assert again.subtopics == [
        [s for s, used in zip(own, labels.any(axis=0), strict=True) if used]
        for own, labels in zip(found.subtopics, found.labels, strict=True)
    ] or len(again.sets) == len(found.sets), "other subtopics"
    for a, b in zip(again.sets, found.sets, strict=True):
        assert (a.ids, a.query, a.texts, a.titles) == (b.ids, b.query, b.texts, b.titles), "another set"
        np.testing.assert_array_equal(a.features, b.features)
    return True


KINDS = {
    "letor": letor,
    "run": partial(trec, RUN),
    "csv": partial(csv_table, mutated_csv),
    "parquet": parquet_table,
    "other csv": partial(csv_table, random_csv),
    "letor again": letor,
    "qrels": partial(trec, QRELS),
    "scores": scores,
    "candidates": candidate_sets,
}
run_case = in_turn(KINDS)


def prepare(folder: Path) -> Path:
    """Compile all kernels before memory is measured."""
    for case in range(len(KINDS)):
        with contextlib.suppress(AssertionError):  # what fails here is no case of the run
            run_case(folder, 0, case)
    return folder


if __name__ == "__main__":
    main_of_child(__file__, prepare, run_case, __doc__)
