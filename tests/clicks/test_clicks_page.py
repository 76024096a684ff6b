"""The page about a click log reports the content of the log, and nothing else."""

import html
import re

import numpy as np
import pytest

from structsvm.clicks import ClickCells, Propensities, evaluate_from_clicks, harvest, judgments
from structsvm.clicks.page import Search, clicks_page, size_of_log


def text_of(page):
    """Return the text without tags, with single blanks as white space."""
    return " ".join(html.unescape(re.sub(r"<style>.*?</style>|<[^>]*>", " ", page, flags=re.DOTALL)).split())


@pytest.fixture
def cells():
    return ClickCells.from_arrays(
        [1] * 12, [5] * 6 + [6] * 6, [1, 1, 1, 2, 2, 2] * 2, [1, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1, 0]
    )


def test_counts_of_one_are_singular(cells):
    assert size_of_log(cells) == "1 query, 12 impressions, 6 clicks."
    one = ClickCells.from_arrays([1], [5], [1], [1], session=[3])
    assert size_of_log(one) == "1 query, 1 list, 1 impression, 1 click."
    assert "1 query, 12 impressions, 6 clicks." in text_of(clicks_page("log", cells))


def test_propensities_have_a_band_only_if_their_error_is_known(cells):
    theta = harvest(cells)
    low, high = theta.interval()
    page = clicks_page("log", cells, propensities=theta)
    assert "opacity: 0.15" in page
    assert f"2 0.5000 {low[1]:.4f} to {high[1]:.4f} 6 2 0.3333" in text_of(page)
    given = clicks_page("log", cells, propensities=Propensities.given([1.0, 0.5]))
    assert "opacity: 0.15" not in given
    assert "as given" in text_of(given)
    assert "estimated" not in text_of(given)


def test_the_estimate_names_its_cut_off_and_what_was_not_shown():
    cells = ClickCells.from_arrays([1, 1], [5, 6], [1, 2], [1, 0], session=[1, 1])
    ids, scores = [9, 5, 6], [0.0, 1.0, 2.0]
    for k, most_unseen, words in (
        (2, 0.2, "has shown every document that the new ranker ranks among the first 2"),
        (3, 1.0, "23.5% of the new ranker's discounts fall on documents that were never shown"),
    ):
        found = evaluate_from_clicks(
            cells, [1] * 3, ids, scores, propensities=[1, 1], k=k, most_unseen=most_unseen, level=0.9
        )
        text = text_of(clicks_page("log", cells, estimate=found))
        assert f"DCG@{k} of the new ranker" in text
        assert "intervals of 90%" in text
        assert words in text


@pytest.mark.parametrize(("chosen", "at_the_end"), [(1.0, False), (100.0, True)])
def test_a_c_at_the_end_of_the_values_is_said(cells, chosen, at_the_end):
    search = Search([0.01, 1.0, 100.0], [0.6, 0.7, 0.7], chosen)
    text = text_of(clicks_page("log", cells, weights=[("C", f"{chosen:g}")], search=search))
    assert ("a value beyond it may be better" in text) == at_the_end


def test_grades_count_documents_impressions_and_clicks(cells):
    found = judgments(cells)
    assert np.array_equal(found.value, [1.0, 1.0])
    text = text_of(clicks_page("log", cells, judged=found))
    assert "3 from 2 0 0 0 2 from 1 2 12 6 1 from 0.5 0 0 0 0 below 0.5 0 0 0" in text
    assert "1 5 1 0.206 to 2.92 6 3" in text
    assert "1 from 1.5 0 0 0 0 below 1.5 2 12 6" in text_of(
        clicks_page("log", cells, judged=found, levels=[1.5])
    )
