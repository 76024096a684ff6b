"""Several measures of several runs in one table, with tests against one of them."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from structsvm.common.checks import BadInput
from structsvm.metrics import compare, evaluate, holm
from structsvm.readers import Qrels, Run, judge_run
from tests.refusing import refused

MEASURES = ["map", "ndcg@10", "P_5"]


@pytest.fixture(scope="module")
def judged():
    rng = np.random.default_rng(0)
    topics, documents = np.repeat(np.arange(40), 20), np.tile(np.arange(20), 40)
    grades = rng.integers(0, 3, 800) * (rng.random(800) < 0.4)
    runs = [
        Run.from_arrays(topics, documents, grades + rng.normal(0, noise, 800), tag=tag)
        for tag, noise in (("base_line", 2.0), ("good", 0.7), ("same", 2.0))
    ]
    return Qrels.from_arrays(topics, documents, grades), runs


def test_each_cell_is_what_evaluate_gives_alone(judged):
    qrels, runs = judged
    # judged topics that a run lacks count 0
    some = {topic: ranking for topic, ranking in runs[1].to_dict().items() if int(topic) < 20}
    runs = [*runs, Run.from_dict(some, tag="half")]
    table = evaluate(qrels, runs, MEASURES, relevance=2)
    assert (table.names, table.measures) == (("base_line", "good", "same", "half"), tuple(MEASURES))
    assert not table.results["half", "map"].per_query[20:40].any()
    for run in runs:
        for measure in MEASURES:
            alone = evaluate(measure, **judge_run(run, qrels)._asdict(), relevance=2)
            np.testing.assert_array_equal(table.results[run.tag, measure].per_query, alone.per_query)
    assert table.to_frame().loc["good", "map"] == table.results["good", "map"].mean
    assert evaluate(qrels, runs[1], "map").names == ("good",)
    assert evaluate(qrels, {"mine": runs[1]}, ["map"]).names == ("mine",)


@pytest.mark.parametrize("test", ["wilcoxon", "t", "randomization"])
def test_comparisons_with_a_baseline(judged, test):
    qrels, runs = judged
    table = evaluate(qrels, runs, MEASURES).against("base_line", test=test, level=0.9)
    cells = [(name, m) for name in ("good", "same") for m in MEASURES]
    expected = [
        compare(table.results[c], table.results["base_line", c[1]], test=test, level=0.9) for c in cells
    ]
    assert list(table.comparisons.items()) == list(zip(cells, expected, strict=True))
    assert list(table.adjusted.values()) == holm([c.p_value for c in expected]).tolist()
    frame = table.to_frame()
    assert len(frame) == 6
    assert frame["p_holm"].tolist() == list(table.adjusted.values())
    assert (frame["p_holm"] >= frame["p"]).all()


def test_texts(judged):
    qrels, runs = judged
    table = evaluate(qrels, runs, ["map"])
    assert "†" not in repr(table) + repr(evaluate(qrels, runs[1], "map").against("good"))
    tested = table.against("base_line")
    value = f"{table.results['good', 'map'].mean:.4f}"
    assert f"good        {value}†" in repr(tested)
    assert repr(tested).endswith("† differs from base_line (wilcoxon, Holm over all cells, p < 0.05)")
    page = tested._repr_html_()
    assert value in page
    assert page.count("<table") == page.count("</table>") == 1


def test_bad_input(judged):
    qrels, runs = judged
    assert evaluate(qrels, [runs[1], runs[1]], ["map"]).names == ("good", "good#2")
    refused(r"metric='mpa'.*did you mean 'map'", evaluate, qrels, runs, ["map", "mpa"])
    with pytest.raises(BadInput, match="baseline='best': expected one of 'base_line', 'good', 'same'"):
        evaluate(qrels, runs, ["map"]).against("best")


@pytest.mark.parametrize("library", [pd, pl])
@pytest.mark.parametrize("names", [("qid", "docno", "label"), ("query_id", "doc_id", "relevance")])
def test_frames_of_other_packages(library, names):
    frame = library.DataFrame(dict(zip(names, (["1", "1", "2"], ["a", "b", "a"], [1, 0, 2]), strict=True)))
    qrels = Qrels.from_frame(frame)
    assert qrels.to_dict() == {"1": {"a": 1, "b": 0}, "2": {"a": 2}}
    assert Qrels.from_frame(qrels.to_frame()).to_dict() == qrels.to_dict()
    scored = library.DataFrame(
        {names[0]: [1, 1, 2], names[1]: ["a", "b", "a"], "score": [0.1, 0.9, 0.5], "rank": 3}
    )
    run = Run.from_frame(scored, tag="mine")
    assert run.to_dict() == {"1": {"b": 0.9, "a": 0.1}, "2": {"a": 0.5}}
    assert run.to_frame()["rank"].tolist() == [1, 2, 1]
    assert Run.from_frame(run.to_frame(), tag="mine").tag == "mine"
    with pytest.raises(BadInput, match="expected a column 'topic' for the topic, got 'x'; name it"):
        Run.from_frame(library.DataFrame({"x": [1]}))
    refused("expected a column 'bm25' for the score", Run.from_frame, scored, score="bm25")
    refused("expected topics with documents", Run.from_dict, {})
