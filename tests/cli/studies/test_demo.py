"""The demonstration: a realistic task, reproducible results, and a self-contained page."""

import dataclasses
import html
import re

import numpy as np
import pytest

from structsvm import QueryData, metrics
from structsvm.cli.studies import demo

HOSTILE = "</title><script src='http://x'>\"&"


@pytest.fixture(scope="module")
def digits():
    return demo.digits_task()


def first_queries(data, n_queries, n_docs):
    rows = np.concatenate([np.arange(start, start + n_docs) for start in data.offsets[:n_queries]])
    columns = data.X[rows], data.y[rows], data.qid[rows]
    return QueryData.from_arrays(*columns, feature_names=data.feature_names), rows


@pytest.fixture(scope="module")
def small(digits):
    """Return the task of the demo on fewer images."""
    train, _ = first_queries(digits.train, 40, 120)
    test, rows = first_queries(digits.test, 30, 100)
    baselines = {name: scores[rows] for name, scores in digits.baselines.items()}
    return dataclasses.replace(digits, train=train, test=test, baselines=baselines)


@pytest.fixture(scope="module")
def outcome(small):
    return demo.run(small, n_jobs=1)


def test_no_image_is_in_both_parts(digits):
    asking = {int(q) for q in digits.train.qid}, {int(q) for q in digits.test.qid}
    assert not asking[0] & asking[1]
    # an image that was asked for in training asks or answers nowhere in the test: the sizes leave no other way
    sizes = [data.n_queries + data.n_rows // data.n_queries for data in (digits.train, digits.test)]
    assert sum(sizes) == 1797
    order = np.random.default_rng(0).permutation(1797)
    assert asking[0] <= set(order[:1000].tolist())
    assert asking[1] <= set(order[1000:].tolist())


def test_baselines_are_the_distances_and_the_seed_is_of_the_task(digits):
    again, other = demo.digits_task(), demo.digits_task(1)
    np.testing.assert_array_equal(again.train.X, digits.train.X)
    assert not np.array_equal(other.train.qid, digits.train.qid)
    X = digits.test.X[:500].astype(float)
    np.testing.assert_allclose(digits.baselines["Euclidean distance"][:500], -np.linalg.norm(X, axis=1))
    np.testing.assert_allclose(digits.baselines["City-block distance"][:500], -np.abs(X).sum(axis=1))


def test_outcome_is_measured_by_the_metrics(outcome, small):
    assert [system.name for system in outcome.systems] == [
        "Euclidean distance",
        "City-block distance",
        "SVM-roc",
        "SVM-map",
    ]
    assert outcome.baseline.name == "Euclidean distance"
    for system in outcome.systems:
        expected = metrics.evaluate("map", small.test.y, system.scores, qid=small.test.qid)
        assert system.mean == pytest.approx(expected.mean)
    for system in outcome.learned:
        np.testing.assert_allclose(system.scores, small.test.X @ system.model.coef_, rtol=1e-5, atol=1e-6)
        assert system.model.fit_.gap <= system.model.tol
    assert outcome.best.mean == max(system.mean for system in outcome.learned)


def test_the_same_result_each_time_on_any_number_of_threads(outcome, small):
    told = []
    again = demo.run(small, n_jobs=2, callback=told.append)
    assert told == ["SVM-roc", "SVM-map"]
    for a, b in zip(outcome.systems, again.systems, strict=True):
        np.testing.assert_array_equal(a.scores, b.scores)


def test_table_and_headline_say_what_was_measured_whichever_way_it_went(outcome):
    columns, rows = demo.results_table(outcome)
    assert all(len(row) == len(columns) for row in rows)
    for row, system in zip(rows, outcome.systems, strict=True):
        assert row[:2] == [system.name, f"{system.mean:.4f}"]
    base = outcome.baseline
    test = metrics.compare(outcome.best.per_query, base.per_query)
    row = rows[outcome.systems.index(outcome.best)]
    assert row[2:4] == [f"{test.mean_difference:+.4f}", f"{test.wins}/{test.losses}"]
    for shift, verdict in (
        (0.1, f"significantly better than the baseline {base.name} ({base.mean:.4f}"),
        (-0.1, f"{base.name} has the best mean"),
        (0.0, "equally have the best mean"),
    ):
        learned = dataclasses.replace(outcome.best, per_query=base.per_query + shift)
        text = demo.headline(demo.Outcome(outcome.task, (base, learned)))
        assert verdict in text
        assert f"{max(learned.mean, base.mean):.4f}" in text


def test_page_stands_on_its_own(outcome):
    text = demo.page(outcome)
    assert not re.search(r"https?:|<script|<link|@import|url\((?!#)", text)
    assert demo.headline(outcome) in html.unescape(text)
    for system in outcome.systems:
        assert system.name in text
        assert f"{system.mean:.4f}" in text


def test_nothing_is_remarked_of_a_grid_that_nobody_can_widen(small, caplog, monkeypatch):
    monkeypatch.setattr(demo, "_CS", (0.03, 0.1, 0.3))
    assert demo._CS[-1] in [system.model.C_ for system in demo.run(small, n_jobs=1).learned]
    assert not caplog.records
