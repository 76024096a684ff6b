"""The page about a click log reports the content of the log, and nothing else."""

import html
import re

import pytest

from structsvm.clicks import ClickCells, Propensities, harvest
from structsvm.clicks.page import clicks_page


def text_of(page):
    """Return the text without tags, with single blanks as white space."""
    return " ".join(html.unescape(re.sub(r"<style>.*?</style>|<[^>]*>", " ", page, flags=re.DOTALL)).split())


@pytest.fixture
def cells():
    return ClickCells.from_arrays(
        [1] * 12, [5] * 6 + [6] * 6, [1, 1, 1, 2, 2, 2] * 2, [1, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1, 0]
    )


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
