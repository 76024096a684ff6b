"""A law: each file that a command or a writer writes is read back, with default names, by those that take its kind."""

import csv
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from structsvm.cli.files import read_scores
from structsvm.clicks import ClickCells, judgments, read_table
from structsvm.common.checks import BadInput
from structsvm.common.files import csv_lines
from structsvm.common.tables import text
from structsvm.common.tables.columns import texts
from structsvm.common.tables.opening import open_tables
from structsvm.online.arena import read_votes
from structsvm.readers import (
    Qrels,
    Run,
    open_store,
    read_csv,
    read_qrels,
    read_queries,
    read_run,
    write_qrels,
    write_run,
)
from tests.laws import LAW
from tests.refusing import refused

ALPHABET = ["a", "b", "7", " ", '"', "'", ",", ";", "\t", "\n", "\r\n", "é", "#", "=", "\\"]

CASES = [
    pytest.param(range(100), id="some"),
    pytest.param(range(100, 10_200), id="many", marks=LAW),
]


def word(rng, alphabet=ALPHABET, longest=6):
    """Return a text that is not blank and has no blanks at its ends."""
    while not (found := "".join(rng.choice(alphabet, rng.integers(1, longest + 1))).strip()):
        continue
    return found


def words(rng, n, **options):
    return sorted({word(rng, **options) for _ in range(n)})


@pytest.mark.parametrize("cases", CASES)
def test_judged_tables_hold_any_text_of_a_query(tmp_path, cases):
    path = tmp_path / "judged.tsv"
    for seed in cases:
        rng = np.random.default_rng(seed)
        queries, documents = words(rng, 4), words(rng, 4)
        shown = [(q, d, k + 1) for q in queries for k, d in enumerate(rng.permutation(documents))]
        query, document, position = zip(*shown, strict=True)
        found = judgments(ClickCells.from_arrays(query, document, position, rng.random(len(shown)) < 0.5))
        found.write_table(path)
        expected = list(zip(found.query.tolist(), found.document.tolist(), strict=True))
        theirs = pd.read_csv(path, sep="\t", dtype=str, keep_default_na=False)
        assert list(zip(theirs["query"], theirs["document"], strict=True)) == expected
        assert theirs.clicks.astype(int).tolist() == found.clicks.tolist()
        ours = read_csv(path, label="clicks", features=["shows"])
        in_file = slice(None) if ours.order is None else np.argsort(ours.order)
        pairs = zip(ours.qid[in_file].astype(str).tolist(), ours.docid[in_file].tolist(), strict=True)
        assert list(pairs) == expected
        np.testing.assert_array_equal(ours.y[in_file], found.clicks)


@pytest.mark.parametrize("cases", CASES)
def test_rows_of_any_column_order_are_read_by_name(tmp_path, cases):
    """Tables as ``predict`` and ``clicks`` write them: as rows, scores, runs, judgments and impressions."""
    path = tmp_path / "p.csv"
    for seed in cases:
        rng = np.random.default_rng(seed)
        pairs = [(q, d) for q in words(rng, 3) for d in words(rng, 3)]
        query, document = map(list, zip(*pairs, strict=True))
        n = len(pairs)
        columns = {
            "query": query,
            "document": document,
            "score": rng.normal(size=n).round(6).tolist(),
            "rank": list(range(1, n + 1)),
            "label": rng.integers(0, 3, n).tolist(),
            "text": [word(rng) for _ in pairs],
        }
        names = [str(name) for name in rng.permutation(list(columns))]
        path.write_text(
            "".join(f"{line}\n" for line in csv_lines([names, *zip(*map(columns.get, names), strict=True)]))
        )
        rows = read_csv(path, features=["score", "rank"])
        in_file = slice(None) if rows.order is None else np.argsort(rows.order)
        assert rows.qid[in_file].astype(str).tolist() == query
        assert rows.docid[in_file].tolist() == document
        assert rows.y[in_file].tolist() == columns["label"]
        scores, ids = read_scores(path)
        assert (scores.tolist(), ids) == (columns["score"], pairs)
        frame = pd.DataFrame(columns)[names]
        assert Run.from_frame(frame).n_rows == Qrels.from_frame(frame).n_rows == n
        cells = read_table(path, clicked="label") if max(columns["label"]) < 2 else None
        assert cells is None or cells.n_shows == n
        (table,) = open_tables(path)
        (batch,) = table.read({"text": "category"})
        assert texts(batch, "text").to_pylist() == columns["text"]


@pytest.mark.parametrize("cases", CASES)
def test_runs_judgments_and_pairs_are_read_back(tmp_path, cases):
    plain = [c for c in ALPHABET if not c.isspace()]
    uncut = [c for c in ALPHABET if "," not in c]
    for seed in cases:
        rng = np.random.default_rng(seed)
        topics, documents = words(rng, 3, alphabet=plain), words(rng, 3, alphabet=plain)
        nested = {t: {d: int(rng.integers(0, 3)) for d in documents} for t in topics}
        write_qrels(Qrels.from_dict(nested), tmp_path / "qrels")
        assert read_qrels(tmp_path / "qrels").to_dict() == nested
        write_run(Run.from_dict(nested), tmp_path / "run")
        assert read_run(tmp_path / "run").to_dict() == Run.from_dict(nested).to_dict()
        # without commas: an id with line breaks and as many commas as rows have is refused, as after a stray quote
        models, questions = (words(rng, 3, longest=8, alphabet=uncut) for _ in range(2))
        if len(models) < 2:
            continue
        pairs = [
            (*rng.choice(models, 2, replace=False).tolist(), str(rng.choice(questions))) for _ in range(5)
        ]
        answered = [(*pair, str(rng.choice(["model_a", "model_b", "tie"]))) for pair in pairs]
        lines = csv_lines([("a", "b", "question", "winner"), *answered])
        (tmp_path / "votes.csv").write_text("".join(f"{line}\n" for line in lines))
        votes = read_votes(tmp_path / "votes.csv")
        assert [votes.models[k] for k in votes.first.tolist()] == [a for a, *_ in pairs]
        assert [votes.questions[k] for k in votes.question.tolist()] == [q for *_, q in pairs]


def test_the_commands_read_what_they_write(cli):
    """With default names: predict, evaluate, train, convert, clicks judge, arena next and report."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"Query_ID": np.repeat(["a b", 'c "d"', "e,f"], 6), "Doc-ID": [f"d{k}" for k in range(18)]}
    )
    frame = frame.assign(Relevance=rng.integers(0, 2, 18), x=rng.normal(size=18), z=rng.normal(size=18))
    frame[list(rng.permutation(frame.columns))].to_csv("rows.csv", index=False)
    assert "3 queries, 18 documents, 2 features" in cli("train rows.csv -o m.npz")
    for name in ("p.csv", "p.parquet", "p.txt"):
        cli("predict m.npz rows.csv -o", name)
        assert cli("evaluate rows.csv", name) == cli("evaluate rows.csv p.csv")
    pd.read_csv("p.csv").assign(label=frame.Relevance).to_csv("labelled.csv", index=False)
    assert "3 queries, 18 documents, 2 features: score, rank" in cli("train labelled.csv -o again.npz")
    cli("convert labelled.csv labelled.store")
    assert cli("evaluate labelled.store p.csv") == cli("evaluate rows.csv p.csv")
    assert open_store(Path("labelled.store")).docid.tolist() == read_queries("labelled.csv").docid.tolist()
    Path("votes.csv").write_text("a,b,question,winner\nx,y,q1,a\ny,x,q2,b\n")
    cli("arena next votes.csv -n 4 -o pairs.csv")
    rows = list(csv.reader(io.StringIO(Path("pairs.csv").read_text())))
    answered = [[*row, "winner" if not k else "tie"] for k, row in enumerate(rows)]
    Path("more.csv").write_text("".join(f"{line}\n" for line in csv_lines(answered)))
    cli("arena report more.csv")


def test_quoted_line_breaks_are_read_across_blocks(tmp_path, monkeypatch):
    """Rows are equal to those of Python's csv module for any size of the blocks."""
    path = tmp_path / "t.csv"
    for seed in range(60):
        rng = np.random.default_rng(seed)
        rows = [
            (f"q{k // 3}", k % 2, round(rng.normal(), 3), word(rng, longest=12), word(rng, longest=12))
            for k in range(int(rng.integers(1, 30)))
        ]
        lines = csv_lines([("qid", "label", "f", "text\nof a page", "unused"), *rows])
        path.write_bytes("".join(f"{line}\n" for line in lines).encode())
        monkeypatch.setattr(text, "_BLOCK", int(rng.integers(8, 200)))
        monkeypatch.setattr(text, "_HEAD", int(rng.choice([64, 1 << 16])))
        data = read_csv(path, features=["f"])
        assert data.X.ravel().tolist() == [row[2] for row in rows]
        assert data.qid.tolist() == [row[0] for row in rows]
        (table,) = open_tables(path)
        read = [
            cell
            for batch in table.read({"text\nof a page": "category"})
            for cell in texts(batch, "text\nof a page").to_pylist()
        ]
        assert read == [row[3] for row in rows]
        path.write_bytes(path.read_bytes() + b'q99,1,x,"y\n\n",z\n')
        line = path.read_bytes().count(b"\n") - 2
        with pytest.raises(BadInput, match=f"t.csv:{line}: column 'f': expected a number, got 'x'"):
            read_csv(path, features=["f"])


def test_a_stray_quote_in_an_id_does_not_join_rows(tmp_path):
    (tmp_path / "t.csv").write_text('qid,label,f\n"led lamp,1,2\nx,0,1\nred shoes",1,3\ny,1,1\n')
    message = (
        "t.csv:2: expected an id, got a quoted field up to line 4 that seems to contain whole rows; close"
    )
    refused(message, read_csv, tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text('qid,label,f\n1,1,2\n"led lamp,1,2\n' + "x,0,1\n" * 9)
    refused(
        "t.csv:3: expected a row of commas \\(unexpected end of data\\); close its quotes",
        read_csv,
        tmp_path / "t.csv",
    )
