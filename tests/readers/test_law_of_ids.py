"""The law of ids: the same rows give the same ids, or are refused, in every format, block size and order of rows."""

import decimal
import json
import os
import random
import re
import unicodedata
import warnings
from contextlib import redirect_stdout
from io import StringIO
from threading import Thread

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

from structsvm import StructuralRanker, load
from structsvm.cli import main
from structsvm.clicks import read_table, read_team_draft_table, tables as click_tables
from structsvm.common.checks import BadInput
from structsvm.common.tables import frames, text
from structsvm.metrics import evaluate
from structsvm.online.arena import read_votes
from structsvm.queries import QueryData, group_queries, split_qid
from structsvm.readers import (
    Qrels,
    Run,
    convert_csv,
    convert_letor,
    convert_parquet,
    open_store,
    read_candidates,
    read_csv,
    read_feature_log,
    read_letor,
    read_parquet,
)
from structsvm.readers.tables import read_rows
from tests.laws import LAW

REFUSED = "refused"
POOLS = (
    lambda rng: str(rng.randrange(6)),
    lambda rng: f"{rng.randrange(6)}.0",
    lambda rng: f"{rng.randrange(6):03}",
    lambda rng: rng.choice(("1.5", "1.50", "2.5")),
    lambda rng: str(rng.choice((2**53, 2**63, 2**64, 2**70)) + rng.randrange(4)),
    lambda rng: str(-rng.randrange(6)),
    lambda rng: rng.choice(("nan", "NaN")),
    lambda rng: rng.choice(("1e5", "1.7e+18", "9007199254740992.0")),
    lambda rng: rng.choice(("q1", "q1 ", " q1", "q1\u00a0", "q2")),
    lambda rng: unicodedata.normalize(rng.choice(("NFC", "NFD")), "é"),
    lambda rng: "",
)
WEIGHTS = (8, 4, 2, 1, 2, 2, 1, 0.3, 2, 2, 0.2)


def twin(words, *, missing=False):
    """Apply the rule to all words at once; return the ids as text, or that they are refused."""
    words = [word.strip() for word in words]
    others = [word for word in words if word and word.lower() != "nan"]
    numeric = all(
        re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", word.lower(), re.ASCII) for word in others
    )
    gaps = ("", "nan", "NaN") if numeric else ("",)
    if not missing and any(word in gaps for word in words):
        return REFUSED
    if not numeric:
        return [None if word in gaps else word for word in words]
    if any("e" in word or (word.endswith(".0") and abs(float(word)) >= 2**53) for word in others):
        return REFUSED
    values = {word: decimal.Decimal(word) for word in others}
    whole = all(
        value % 1 == 0 and word in (f"{int(value)}", f"{int(value)}.0") for word, value in values.items()
    )
    return [None if word in gaps else f"{int(values[word])}" if whole else word for word in words]


def outcome(read, expected):
    """Return the ids of the rows in the order of the source, or that they are refused.

    For a door that returns other ids than those of rows, return ``expected`` if they are equal to its distinct ids.
    """
    try:
        data = read()
    except BadInput:
        return REFUSED
    if not hasattr(data, "n_rows"):
        found = list(map(str, data))
        return expected if found == list(dict.fromkeys(expected)) else found
    order = np.arange(data.n_rows) if data.order is None else data.order
    return [str(one) for one in data.qid[np.argsort(order)].tolist()]


def grouped(grouping):
    return grouping.query_ids


def topics(kind, **columns):
    return kind.from_frame(pd.DataFrame(columns)).topics


def predicted(csv, folder):
    """Return the ids of the scores that ``predict`` writes, without a message."""
    command = ["predict", folder / "m.npz", csv, "-o", folder / "scores.csv"]
    if main(list(map(str, command))):
        raise BadInput(csv, "refused")
    return read_rows(folder / "scores.csv", label="score", features=())[0]


def evaluated(csv, folder):
    """Return the ids that ``evaluate`` measures."""
    n_rows = len(csv.read_text().splitlines()) - 1
    (folder / "scores.txt").write_text("".join(f"{-k}\n" for k in range(n_rows)))
    with redirect_stdout(StringIO()) as shown:
        command = ["evaluate", csv, folder / "scores.txt", "--metric", "map", "--per-query", "--json"]
        if main(list(map(str, command))):
            raise BadInput(csv, "refused")
    return json.loads(shown.getvalue())["per_query"]["map"]


def candidate_sets(words, folder):
    """Return the queries of candidate sets, which are also the ids of their documents."""
    sets = [{"query": word, "documents": [{"id": word, "text": "a"}]} for word in words]
    (folder / "sets.jsonl").write_text("".join(json.dumps(one) + "\n" for one in sets))
    read = read_candidates(folder / "sets.jsonl").sets
    assert [one.ids[0] for one in read] == [one.query for one in read]
    return dict.fromkeys(one.query for one in read)


def stored(convert, source, folder):
    convert(source, folder / "t.store")
    return open_store(folder / "t.store")


def piped(read, path):
    """Return what is read from a pipe through which a file flows."""
    pipe = path.with_name("pipe")
    os.mkfifo(pipe)
    writer = Thread(target=lambda: pipe.write_bytes(path.read_bytes()))
    writer.start()
    try:
        return read(pipe)
    finally:
        writer.join()
        pipe.unlink()


def trained(csv, words, folder):
    """Return the distinct ids if ``train`` counts as many queries; each has a row with another label."""
    rows = "".join(f'"{word}",{k},{k}\n' for word in words for k in (0, 1))
    csv.write_text("qid,label,x\n" + rows)
    if main(["train", str(csv), "-o", str(folder / "t.npz"), "--loss", "roc"]):
        raise BadInput(csv, "refused")
    expected = list(dict.fromkeys(twin(words)))
    return expected[: load(folder / "t.npz").training_data_["n_queries"]]


def doors(words, folder, rng):
    """Return the doors through which rows of words enter as ids of queries."""
    rows = list(enumerate(words))
    for ending, mark in (("csv", ","), ("tsv", "\t")):
        lines = "".join(f'"{word}"{mark}0{mark}{k}\n' for k, word in rows)
        (folder / f"t.{ending}").write_text(f"qid{mark}label{mark}x\n{lines}")
    lines = "".join(json.dumps({"qid": word, "label": 0, "x": k}) + "\n" for k, word in rows)
    (folder / "t.jsonl").write_text(lines)
    cut = rng.randrange(1, len(words))
    kinds = [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]
    (folder / "parts").mkdir(exist_ok=True)
    for name, part in (("a", rows[:cut]), ("b", rows[cut:])):
        ids = pa.array([word for _, word in part], pa.string()).cast(rng.choice(kinds))
        columns = {"qid": ids, "label": np.zeros(len(part)), "x": [float(k) for k, _ in part]}
        parquet.write_table(pa.table(columns), folder / "parts" / f"{name}.parquet", row_group_size=3)
    columns = {"qid": words, "label": [0] * len(words), "x": [k for k, _ in rows]}
    csv, lines, parts = folder / "t.csv", folder / "t.jsonl", folder / "parts"
    found = {
        "csv": lambda: read_csv(csv),
        "tsv": lambda: read_csv(folder / "t.tsv"),
        "json lines": lambda: read_csv(lines),
        "parquet": lambda: read_parquet(parts),
        "pandas": lambda: read_csv(pd.DataFrame(columns)),
        "polars": lambda: read_csv(pl.DataFrame(columns)),
        "arrow": lambda: read_csv(pa.table(columns)),
        "dictionary": lambda: read_csv(columns),
        "store of csv": lambda: stored(convert_csv, csv, folder),
        "store of json lines": lambda: stored(convert_csv, lines, folder),
        "store of parquet": lambda: stored(convert_parquet, parts, folder),
    }
    numbers = np.arange(float(len(words)))
    found |= {
        "arrays": lambda: QueryData.from_arrays(numbers[:, None], 0 * numbers, np.array(words)),
        "list": lambda: QueryData.from_arrays(numbers[:, None], 0 * numbers, words),
        "estimator": lambda: grouped(group_queries(split_qid(pd.DataFrame(columns), None)[1], len(words))),
        "evaluation": lambda: evaluate("map", numbers % 2, numbers, qid=words).query_ids,
        "judgments": lambda: topics(Qrels, qid=words, docid=[f"d{k}" for k in numbers], label=0),
        "run": lambda: topics(Run, qid=words, docid=[f"d{k}" for k in numbers], score=-numbers),
        "scores of predict": lambda: predicted(csv, folder),
        "evaluate": lambda: evaluated(csv, folder),
        "train": lambda: trained(folder / "train.csv", words, folder),
        "candidate sets": lambda: candidate_sets(words, folder),
        "feature log": lambda: read_feature_log(
            [(word, {"response": {"docs": [{"id": k, "[features]": f"x={k}"}]}}) for k, word in rows],
            unmatched="zero",
        ),
    }
    if all(word and word == "".join(word.split()) for word in words):
        (folder / "t.txt").write_text("".join(f"0 qid:{word} 1:{k}\n" for k, word in rows))
        found["letor"] = lambda: read_letor(folder / "t.txt")
        found["letor through a pipe"] = lambda: piped(read_letor, folder / "t.txt")
        found["store of letor"] = lambda: stored(
            lambda source, path: convert_letor(source, path, block_bytes=64), folder / "t.txt", folder
        )
    return found


def documents(words, folder):
    """Return the doors through which words enter as ids of the documents of one query."""
    numbers = np.arange(float(len(words)))
    frame = pd.DataFrame({"qid": 1, "docid": words, "label": 0, "score": -numbers})
    csv, letor = folder / "d.csv", folder / "d.txt"
    csv.write_text(
        "qid,docid,label,score\n" + "".join(f'1,"{word}",0,{-k}\n' for k, word in enumerate(words))
    )
    found = {
        "csv": lambda: read_csv(csv).docid,
        "store of csv": lambda: stored(convert_csv, csv, folder).docid,
        "frame": lambda: read_csv(frame).docid,
    }
    if len(set(ids := twin(words))) == len(words) or ids == REFUSED:
        found["run"] = lambda: Run.from_frame(frame).docid
        found["judgments"] = lambda: Qrels.from_frame(frame).docid
    if all(words):
        found["arrays"] = lambda: (
            QueryData.from_arrays(numbers[:, None], numbers, numbers * 0, docid=words).docid
        )
        if all(word == "".join(word.split()) for word in words):
            letor.write_text("".join(f"0 qid:1 1:1 # docid = {word}\n" for word in words))
            found["letor"] = lambda: read_letor(letor).docid
            found["store of letor"] = lambda: (
                stored(lambda source, path: convert_letor(source, path, block_bytes=64), letor, folder).docid
            )
    return found


def events(words, folder):
    """Return the distinct ids that logs of clicks, team drafts and votes give, or that they are refused."""
    n = len(words)
    (folder / "t.csv").write_text(
        "query,document,position,clicked\n"
        + "".join(f'q,"{word}",{k + 1},{k % 2}\n' for k, word in enumerate(words))
    )
    lists = [
        {"list": k, "rank": r, "document": f"{k}{r}", "team": t, "clicked": r, "query": word, "user": word}
        for k, word in enumerate(words)
        for r, t in enumerate("xy")
    ]
    votes = {"a": ["x"] * n, "b": ["y"] * n, "winner": ["a"] * n, "question": words, "judge": words}
    duels = {"a": words, "b": ["99"] * n, "winner": ["a"] * n}
    return {
        "clicks": lambda: read_table(folder / "t.csv").docid.tolist(),
        "clicks through a pipe": lambda: piped(read_table, folder / "t.csv").docid.tolist(),
        **{
            f"{role} of team drafts": lambda role=role: [
                str(name)
                for one in read_team_draft_table(pd.DataFrame(lists)).log.impressions
                if (name := getattr(one, role)) is not None
            ]
            for role in ("query", "user")
        },
        "questions": lambda: [one for one in read_votes(votes).questions if one],
        "judges": lambda: [one for one in read_votes(votes).judges if one],
        "models": lambda: read_votes(duels).models,
    }


@pytest.fixture
def tiny(monkeypatch):
    """Read in tiny blocks."""
    for module, name, size in (
        (text, "_BLOCK", 64),
        (text, "_HEAD", 64),
        (text, "_PIECE", 256),
        (frames, "_ROWS", 3),
        (click_tables, "BATCH", 4),
    ):
        monkeypatch.setattr(module, name, size)
    monkeypatch.setattr(os, "fsync", lambda file: None)


def check_text(seed, folder, n_doors):
    rng = random.Random(seed)
    pools = rng.choices(POOLS, WEIGHTS, k=rng.randrange(1, 4))
    words = [rng.choice(pools)(rng) for _ in range(rng.randrange(2, 14))]
    if rng.random() < 0.5:
        words.sort()
    expected = twin(words)
    found = doors(words, folder, rng)
    chosen = rng.sample(sorted(found), min(n_doors, len(found)))
    outcomes = {name: outcome(found[name], expected) for name in chosen}
    assert outcomes == dict.fromkeys(chosen, expected), words
    found = documents(words, folder)
    for name in rng.sample(sorted(found), min(n_doors, len(found))):
        try:
            ids = found[name]().tolist()
        except BadInput:
            ids = REFUSED
        assert ids == expected, (name, words)
    if any(word.strip() for word in words):
        left = twin(words, missing=True)
        all_models = twin([*words, "99"])
        for name, read in events(words, folder).items():
            ids = all_models if name == "models" else left
            names = None if ids == REFUSED else {one for one in ids if one is not None}
            try:
                got = set(read())
            except BadInput:
                assert not names, (name, words)
            else:
                assert got == names, (name, words)


def numbers_of(kind, values):
    if kind == "decimal":
        return pa.array(list(map(decimal.Decimal, values)), pa.decimal128(25, 0))
    if kind == "dictionary":
        return pa.array(values).dictionary_encode()
    return pa.array([float(v) for v in values] if kind.startswith("float") else values, getattr(pa, kind)())


KINDS = {
    "int8": 100,
    "int32": 2**30,
    "int64": 2**62,
    "uint32": 2**31,
    "uint64": 2**63,
    "float32": 2**20,
    "float64": 2**50,
    "decimal": 2**70,
    "dictionary": 2**60,
}


def check_numbers(seed, folder, n_doors):
    """Whole numbers of any type and width give the digits of their text."""
    rng = random.Random(seed)
    parts, words = [], []
    for _ in range(rng.randrange(1, 4)):
        kind = rng.choice(sorted(KINDS))
        base = rng.choice((0, KINDS[kind]))
        parts.append((kind, [base + rng.randrange(3) for _ in range(rng.randrange(1, 5))]))
        words += map(str, parts[-1][1])
    (folder / "parts").mkdir(exist_ok=True)
    for old in (folder / "parts").iterdir():
        old.unlink()
    for k, (kind, values) in enumerate(parts):
        columns = {"qid": numbers_of(kind, values), "label": [0.0] * len(values), "x": [1.0] * len(values)}
        parquet.write_table(pa.table(columns), folder / "parts" / f"{k}.parquet", row_group_size=2)
    mixed = [float(w) if abs(int(w)) < 2**53 and rng.random() < 0.3 else int(w) for w in words]
    (folder / "t.jsonl").write_text(
        "".join(json.dumps({"qid": one, "label": 0, "x": 1}) + "\n" for one in mixed)
    )
    rows = {"qid": pd.Series(mixed, dtype=object), "label": [0] * len(words), "x": [1] * len(words)}
    parts_of = folder / "parts"
    reads = [
        lambda: read_parquet(parts_of),
        lambda: stored(convert_parquet, parts_of, folder),
        lambda: read_csv(folder / "t.jsonl"),
        lambda: stored(convert_csv, folder / "t.jsonl", folder),
        lambda: read_csv(pd.DataFrame(rows)),
        lambda: read_csv({**rows, "qid": mixed}),
        lambda: QueryData.from_arrays(
            np.ones((len(words), 1)), rows["label"], pl.Series(list(map(int, words)), dtype=pl.Int128)
        ),
    ]
    for read in rng.sample(reads, n_doors):
        assert outcome(read, words) == words, parts


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    ("check", "seeds"),
    [
        (lambda k, at: check_text(k, at, 5), range(50)),
        (lambda k, at: check_numbers(k, at, 2), range(100)),
        pytest.param(lambda k, at: check_text(k, at, 99), range(50, 5100), marks=LAW),
        pytest.param(lambda k, at: check_numbers(k, at, 7), range(100, 5100), marks=LAW),
    ],
    ids=["text", "numbers", "text, many", "numbers, many"],
)
def test_the_same_rows_give_the_same_ids_through_every_door(tmp_path, check, seeds):
    model = StructuralRanker("roc").fit(pd.DataFrame({"x": [0.0, 1.0]}), [0, 1], qid=0)
    model.save(tmp_path / "m.npz")
    # an id 'nan' among text; one row per query
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        for seed in seeds:
            check(seed, tmp_path)


@pytest.mark.parametrize("values", [[0.5, 2**53 + 1], [1, 0.25, None, 2**70]])
def test_integers_beside_fractions_are_one_feature(tmp_path, values):
    (tmp_path / "t.jsonl").write_text(
        "".join(json.dumps({"qid": 1, "label": 0, "x": one}) + "\n" for one in values)
    )
    words = "".join(f"1,0,{'' if one is None else one}\n" for one in values)
    (tmp_path / "t.csv").write_text("qid,label,x\n" + words)
    both = [read_csv(tmp_path / name, fill=-1.0).X.ravel().tolist() for name in ("t.jsonl", "t.csv")]
    assert both[0] == both[1]
