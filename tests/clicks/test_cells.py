"""Counts of clicks: compared with a dictionary, in parts, and for every kind of defective entry."""

from collections import Counter
from functools import partial

import numpy as np
import pandas as pd
import pytest

from structsvm.clicks import (
    CascadeModel,
    ClickCells,
    PositionBasedModel,
    divide_by_query,
    evaluate_from_clicks,
    harvest,
    judgments,
    read_clicks,
    trust_bias,
)
from structsvm.common.checks import BadInput
from tests.refusing import refusals, refused


def as_dict(cells):
    """Return the cells as ``{(query, document, position): (shows, clicks)}``."""
    query = cells.query_ids[cells.row_query]
    return {
        (query[r], cells.docid[r], int(k)): (int(n), int(c))
        for r, k, n, c in zip(cells.row, cells.position, cells.shows, cells.clicks, strict=True)
    }


def counted(query, document, position, clicked):
    """Count with a dictionary."""
    shows, clicks = Counter(), Counter()
    for q, d, k, c in zip(query, document, position, clicked, strict=True):
        shows[q, d, int(k)] += 1
        clicks[q, d, int(k)] += int(c)
    return {key: (n, clicks[key]) for key, n in shows.items()}


def random_log(rng, n=20_000, kind="int", spread=1):
    query, document = rng.integers(-3, 9, n) * spread, rng.integers(0, 60, n) * spread
    if kind == "str":
        query, document = np.array([f"q{v}" for v in query]), np.array([f"d{v}" for v in document])
    return query, document, rng.integers(1, 13, n), rng.random(n) < 0.3


@pytest.mark.parametrize(("kind", "spread"), [("int", 1), ("int", 10**12), ("int", 2**57), ("str", 1)])
def test_counts_equal_a_dictionary(kind, spread):
    """The log has 8,640 cells, so that the table of counts grows."""
    log = random_log(np.random.default_rng(0), kind=kind, spread=spread)
    cells = ClickCells.from_arrays(*log)
    assert as_dict(cells) == counted(*log)
    assert (np.diff(cells.row * 100 + cells.position) > 0).all()
    assert cells.offsets[-1] == cells.n_rows == len({(q, d) for q, d in zip(*log[:2], strict=True)})


@pytest.mark.parametrize("kind", ["int", "str"])
def test_concatenated_parts_equal_the_whole_log(kind):
    query, document, position, clicked = random_log(np.random.default_rng(2), kind=kind)
    number = np.arange(len(query))
    alone, listed = (query, document, position, clicked), (query, document, number % 7 + 1, clicked)
    for columns, session in ((alone, None), (listed, number // 7)):
        whole, joined = (
            ClickCells.concatenate(
                [
                    ClickCells.from_arrays(
                        *(v[part] for v in columns), session=None if session is None else session[part]
                    )
                    for part in np.split(number, n_parts)
                ]
            )
            for n_parts in (1, range(700, len(query), 700))
        )
        assert as_dict(joined) == as_dict(whole)
        assert repr(joined.sessions) == repr(whole.sessions)
        assert dict(joined.dropped) == dict(whole.dropped)


def lists_of(cells):
    """Return a Counter of (query, documents, clicks)."""
    out, s = Counter(), cells.sessions
    rows, clicked = (np.split(values, s.offsets[1:-1]) for values in (s.row, s.clicked))
    for row, clicks, count in zip(rows, clicked, s.count.tolist(), strict=True):
        key = (cells.query_ids[cells.row_query[row[0]]], tuple(cells.docid[row]), tuple(clicks))
        assert key not in out
        out[key] = count
    return out


def test_equal_lists_are_one_entry_with_a_count():
    rng = np.random.default_rng(3)
    expected, rows = Counter(), []
    for session in range(500):
        query, n = int(rng.integers(0, 3)), int(rng.integers(1, 4))
        documents, clicks = rng.permutation(4)[:n], rng.random(n) < 0.4
        expected[query, tuple(documents), tuple(clicks)] += 1
        rows += [(query, documents[k], k + 1, clicks[k], session) for k in range(n)]
    rows = [rows[i] for i in rng.permutation(len(rows))]
    query, document, position, clicked, session = map(np.array, zip(*rows, strict=True))
    cells = ClickCells.from_arrays(query, document, position, clicked, session=session)
    assert lists_of(cells) == expected
    assert cells.sessions.n_sessions == 500


def test_dirty_lists_are_cleaned_and_counted():
    rows = [
        ("s", "q", "a", 1, 0),
        ("s", "q", "a", 1, 1),  # logged twice: one, clicked
        ("s", "q", "b", 1, 1),  # the place is taken
        ("s", "q", "a", 2, 1),  # the document is there already
        ("s", "q", "c", 2, 0),
        ("t", "q", "a", 1, 0),
        ("t", "q", "c", 3, 1),  # a gap: counted in cells only
    ]
    session, query, document, position, clicked = zip(*rows, strict=True)
    cells = ClickCells.from_arrays(query, document, position, clicked, session=session)
    assert as_dict(cells) == {("q", "a", 1): (2, 1), ("q", "c", 2): (1, 0), ("q", "c", 3): (1, 1)}
    assert dict(cells.dropped) == {
        "impression logged again for the same session and query": 1,
        "position of a list taken twice": 1,
        "document twice in a list": 1,
        "list with a gap, counted but not used as a session": 1,
    }
    assert lists_of(cells) == {("q", ("a", "c"), (True, False)): 1}


def test_what_cannot_be_counted_is_said():
    cells = ClickCells.from_arrays(
        ["q", None, "q", "q", "q"], ["a", "a", "b", "c", "d"], [1, 2, 10**15, 2.5, 3], [0, 1, 1, 1, 1]
    )
    assert as_dict(cells) == {("q", "a", 1): (1, 0), ("q", "d", 3): (1, 1)}
    assert dict(cells.dropped) == {"missing query or document": 1, "position out of range": 2}
    for position in ([np.nan, np.inf], [-1, -2], [10**18, 2**62]):
        with pytest.raises(BadInput, match=r"got none .*; left out: position out of range \(2\)"):
            ClickCells.from_arrays([1, 1], [1, 2], position, [0, 1])


def test_the_first_position_is_never_guessed():
    with pytest.raises(BadInput, match="first_position: expected 0 or 1, as the log holds both"):
        ClickCells.from_arrays([1, 1], [1, 2], [0, 1], [0, 0])
    zero = ClickCells.from_arrays([1, 1], [1, 2], [0, 1], [0, 0], first_position=0)
    assert zero.position.tolist() == [1, 2]
    one = ClickCells.from_arrays([1, 1], [1, 2], [0, 1], [0, 0], first_position=1)
    assert one.position.tolist() == [1]
    assert dict(one.dropped) == {"position out of range": 1}
    assert ClickCells.from_arrays([1, 1], [1, 2], [1, 2], [0, 0]).position.tolist() == [1, 2]


test_refusals = refusals(
    lambda arguments: ClickCells.from_arrays(*arguments),
    (([1, 1], [1], [1, 2], [0, 0]), r"document: expected .* impression, shape \(2,\), got \(1,\)"),
    (([1], [1], [1], [2]), r"clicked\[0\]: expected 0 or 1, got 2"),
    (([1], [1], [1], ["yes"]), "clicked: expected 0 or 1"),
    (([1, "a"], [1, 2], [1, 2], [0, 0]), r"query\[1\]: expected an int, as before, got 'a'"),
    (([0.5], [1], [1], [0]), r"query\[0\]: expected an int or a string, got 0.5"),
    (([], [], [], []), "log: expected impressions, got none"),
    (([1, 1], ["a", "a\0"], [1, 2], [0, 1]), r"document\[1\]: expected an id without NUL at its end"),
    (([1], [b"\xe9"], [1], [0]), r"document\[0\]: expected an int or a string, got b"),
    (([1, 10**80], [1, 2], [1, 2], [0, 1]), r"query\[1\]: expected an int or a string, got 1000"),
)


@pytest.mark.parametrize("kind", ["int", "str"])
def test_rows_of(kind):
    log = random_log(np.random.default_rng(4), n=60, kind=kind)
    cells = ClickCells.from_arrays(*log)
    rows = cells.rows_of(log[0], log[1])
    assert (cells.docid[rows] == log[1]).all()
    assert (cells.query_ids[cells.row_query[rows]] == log[0]).all()
    unknown = ["nobody"] if kind == "str" else [77]
    assert cells.rows_of(unknown, log[1][:1]).tolist() == cells.rows_of(log[0][:1], unknown).tolist() == [-1]
    refused("query: expected ids as in the log", cells.rows_of, [1] if kind == "str" else ["1"], log[1][:1])


BIG = 2**63  # from here on, ids are text


@pytest.mark.parametrize("documents", [[BIG + 5, BIG + 6], [3, BIG + 5]])
@pytest.mark.parametrize("form", [list, lambda ids: np.array(ids, dtype=np.uint64)])
def test_large_ids_stay_what_they_are(form, documents, tmp_path):
    """Ids that are 64-bit hashes keep their digits in counts, judgments and qrels."""
    ids, texts = form(documents * 2), sorted(map(str, documents))
    cells = ClickCells.from_arrays(ids, ids, [1, 2] * 2, [1, 0, 1, 1], session=[1, 1, 2, 2])
    assert cells.docid.tolist() == cells.query_ids.tolist() == texts
    assert sorted(cells.rows_of(form(documents), form(documents)).tolist()) == [0, 1]
    assert ClickCells.concatenate([cells, cells]).query_ids.tolist() == texts
    judgments(cells).write_qrels(tmp_path / "qrels")
    assert {line.split()[2] for line in (tmp_path / "qrels").read_text().splitlines()} == set(texts)


@pytest.mark.parametrize("low", [-(2**31), 0, 1, 10**6])
@pytest.mark.parametrize("session", [False, True])
def test_ids_far_apart_stay_what_they_are(low, session):
    """Queries and documents whose ids span more than 32 bits are counted as with a dictionary."""
    rng = np.random.default_rng(0)
    query, document = (low + rng.choice(rng.integers(0, 2**33, 20), 300) for _ in range(2))
    position, clicked, number = rng.integers(1, 9, 300), rng.random(300) < 0.3, np.arange(300)
    cells = ClickCells.from_arrays(query, document, position, clicked, session=number if session else None)
    assert as_dict(cells) == counted(query, document, position, clicked)
    if session:
        rows = np.concatenate([lists.row for lists in cells.all_lists()])
        assert set(rows.tolist()) == set(range(cells.n_rows))


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        (-1, BIG, "query: expected ids that are all numbers or all strings, got both"),
        (5, "5", "query: expected ids that are all numbers or all strings, got both"),
    ],
)
def test_logs_whose_ids_do_not_go_together(one, other, message):
    parts = [ClickCells.from_arrays([name], [name], [1], [0]) for name in (one, other)]
    refused(message, ClickCells.concatenate, parts)


@pytest.mark.parametrize(
    ("zero", "missing"), [([0, 1], [None, np.nan]), (["", "a"], ["", None]), (["0", "a"], ["", ""])]
)
def test_a_missing_id_is_in_no_row(zero, missing):
    """A missing id matches neither document 0 nor a document whose id is empty."""
    cells = ClickCells.from_arrays(zero, zero, [1, 2], [1, 0])
    known = "a" if isinstance(zero[0], str) else 1
    row = cells.rows_of([known], [known])[0]
    assert cells.rows_of([known, known], [known, missing[0]]).tolist() == [row, -1]
    assert (cells.rows_of([known, missing[1]], [missing[0], known]) == -1).all()


def test_what_is_no_counted_log_is_refused():
    frame = pd.DataFrame({"query": [1], "document": [1], "position": [1], "clicked": [1]})
    for take in (
        harvest,
        trust_bias,
        judgments,
        partial(divide_by_query, share=0.5),
        PositionBasedModel().fit,
        CascadeModel().fit,
        partial(evaluate_from_clicks, query=[1], document=[1], scores=[1.0]),
    ):
        refused("cells: expected ClickCells, the counts of a click log, got a data frame; read", take, frame)
    refused(r"path: expected a path, got a frame; read it with .*read_table", read_clicks, frame)
