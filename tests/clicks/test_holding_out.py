"""Separate logs for training and evaluation: held-out queries, times, and recognition of the training log."""

import re

import numpy as np
import pandas as pd
import pytest

from structsvm.cli import main
from structsvm.clicks import ClickCells, divide_by_query, read_table
from structsvm.clicks.holding_out import learned_share, sketch_of
from structsvm.common.checks import BadInput
from tests.refusing import refused


def test_training_and_held_out_parts_add_up_to_the_log(simulated_log):
    cells, _ = simulated_log(np.random.default_rng(0), 3000, 1 / np.arange(1, 6))
    training, held = divide_by_query(cells, 0.3)
    assert 5 <= held.n_queries <= 30
    whole = ClickCells.concatenate([training, held])
    for name in ("query_ids", "docid", "offsets", "row", "position", "shows", "clicks"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(cells, name))
    assert whole.sessions.n_sessions == cells.sessions.n_sessions
    again, _ = simulated_log(np.random.default_rng(1), 3000, 1 / np.arange(1, 6))
    assert set(divide_by_query(again, 0.3)[1].query_ids) == set(held.query_ids)
    for share, use in ((0, "hold out"), (1, "train on")):
        refused(rf"share=.: expected some of 60 queries to {use}, got none", divide_by_query, cells, share)


@pytest.mark.parametrize("n_queries", [60, 3000])
def test_a_log_is_recognised_by_its_queries_and_counts(simulated_log, n_queries):
    """The sketch keeps 1,024 of 3,000 queries."""
    sizes = {"n_sessions": 40 * n_queries, "n_queries": n_queries, "theta": 1 / np.arange(1, 6)}
    log = [simulated_log(np.random.default_rng(seed), **sizes)[0] for seed in (0, 1)]
    training, held = divide_by_query(log[0], 0.4)
    sketch = sketch_of(training)
    assert learned_share(sketch, training) == 1
    assert learned_share(sketch, held) == 0
    assert learned_share(sketch, log[0]) == pytest.approx(training.n_queries / n_queries, abs=0.05)
    assert learned_share(sketch, log[1]) < 0.02
    assert learned_share(None, log[0]) == 0


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    truth = np.where(rng.random((40, 6)) < 0.3, 0.9, 0.1)
    query = np.repeat(rng.integers(40, size=4000), 6)
    document = np.argsort(-(truth[query[::6]] + rng.normal(size=(4000, 6))), axis=1).ravel()
    session, rank = np.repeat(range(4000), 6), np.tile(range(1, 7), 4000)
    clicked = (rng.random(24_000) < truth[query, document] / rank).astype(int)
    day = np.where(session < 2000, "2026-01-03", "2026-02-03")
    names = np.char.add("D", document.astype(str))
    pd.DataFrame(
        {"q": query, "doc_id": names, "Rank": rank, "clicks": clicked, "session": session, "day": day}
    ).to_csv(tmp_path / "log.csv", index=False)
    a, b = truth.ravel() + 0.3 * rng.normal(size=240), rng.normal(size=240)
    data = {"qid": np.repeat(range(40), 6), "docid": [f"D{d}" for d in range(6)] * 40, "a": a, "b": b}
    pd.DataFrame(data).to_csv(tmp_path / "data.csv", index=False)
    return tmp_path


@pytest.mark.parametrize(
    ("train", "evaluate", "warned"),
    [
        ([], [], "100%"),
        (["--holdout", "0.3"], ["--holdout", "0.3"], None),
        (["--holdout", "0.3"], [], "[5-8].%"),
        (["--time", "day", "--until", "2026-02-01"], ["--time", "day", "--since", "2026-02-01"], None),
    ],
)
def test_evaluate_warns_of_a_model_that_learned_from_the_log(files, capsys, train, evaluate, warned):
    log, model, data = (str(files / name) for name in ("log.csv", "m.npz", "data.csv"))
    assert main(["clicks", "train", log, data, "-o", model, "--C", "1", "--session", "session", *train]) == 0
    assert main(["clicks", "evaluate", log, model, data, "--k", "3", "--session", "session", *evaluate]) == 0
    error = capsys.readouterr().err
    assert ("was trained on about" in error) == (warned is not None)
    if warned is not None:
        assert re.search(rf"trained on about {warned} of these queries", error)


def test_times_divide_a_table():
    day = ["2026-01-01", "2026-01-02T10:00+02:00", None, "2026-01-03"]
    frame = pd.DataFrame(
        {"query": [1] * 4, "document": [5, 6, 7, 8], "position": [1] * 4, "clicked": [1] * 4, "day": day}
    )
    late = read_table(frame, time="day", between=("2026-01-02T08:00", None))
    assert late.docid.tolist() == [6, 8]
    assert dict(late.dropped) == {"row before since": 1, "row without a time": 1}
    typed = frame.assign(day=pd.to_datetime(frame.day, utc=True, format="ISO8601"))
    assert read_table(typed, time="day", between=(None, "2026-01-02T08:00")).docid.tolist() == [5]
    assert read_table(frame, time="day", between=(None, " 9999-12-31 ")).docid.tolist() == [5, 6, 8]
    assert read_table(frame.assign(day=[1, 2, 3, 4]), time="day", between=(2, 4)).docid.tolist() == [6, 7]
    with pytest.raises(BadInput, match=r"'day': .* or times such as 2026-03-01T12:00, got 'noon'"):
        read_table(frame.assign(day="noon"), time="day", between=(2, None))
    with pytest.raises(BadInput, match=r"left out: row before since \(3\), row without a time \(1\)"):
        read_table(frame, time="day", between=("2026-02-01", None))
    with pytest.raises(BadInput, match=r"left out: missing query or document \(4\)"):
        read_table(frame.assign(document=None))
    with pytest.raises(
        BadInput, match=r"time: expected a column of times, got none; give time= with between="
    ):
        read_table(frame, between=(2, None))


def test_columns_are_guessed_by_one_usual_name_each():
    frame = pd.DataFrame({"query": [1], "doc": [5], "rank": [1], "click": [1]})
    assert dict(read_table(frame).guessed) == {"document": "doc", "position": "rank", "clicked": "click"}
    for given, options, message in (
        (frame.assign(Clicks=0), {}, "one .* 'clicked', got 'click' and 'Clicks'; name it with clicked="),
        (frame.drop(columns="rank"), {}, "a column 'position' for the position, got 'query', 'doc', 'click'"),
        (frame, {"query": "query_id"}, "a column 'query_id'"),
    ):
        refused(f"table: expected {message}", read_table, given, **options)
