"""Views of results in a notebook: short text, a chart, a frame."""

import re
import sys

import numpy as np
import pandas as pd
import pytest

from structsvm import StructuralRankerCV, SVMMap
from structsvm.metrics import compare, evaluate, permutation_importance
from structsvm.online import simulate
from structsvm.online.clicklog import Click, ClickLog, Impression
from structsvm.online.interleaving import Shown
from structsvm.online.statistics import analyse
from structsvm.readers import make_ranking

made = make_ranking(20, 10, 3, grades=2, random_state=0)
X = pd.DataFrame(made.X, columns=["bm25", "<b>age", "title"])


def log():
    shown = Shown("team_draft", ("a", "b"), 2, ((0, 1),))
    clicked = [1, 1, 2, 1, 1, 1, 2, 1, 1, 1] * 4
    return ClickLog.of(Impression(shown, (Click(rank),), rankers=("old", "<new>")) for rank in clicked)


@pytest.fixture(scope="module")
def results():
    model = SVMMap(C=10).fit(X, made.y, qid=made.qid)
    return {
        "fit": model.fit_,
        "model": model,
        "evaluation": evaluate("map", made.y, model.predict(X), qid=made.qid),
        "simulation": simulate("rucb", [[0.5, 0.8], [0.2, 0.5]], horizon=100, n_runs=2),
        "analysis": analyse(log()),
        "comparison": compare(np.arange(12) % 5, np.arange(12) % 3),
        "importances": permutation_importance(model, X, made.y, qid=made.qid, n_repeats=2),
    }


def test_text_is_short_and_the_picture_is_whole(results):
    for kind, result in results.items():
        assert len(repr(result)) < 200, kind
        assert not re.search(r"array\(|\n", repr(result)), kind
        html = result._repr_html_()
        assert "structsvm" in html
        assert re.search("<svg|class=.bars|<table", html), kind
        assert not re.search("<b>age|<new>|<script src", html), kind
        for tag in ("div", "figure", "svg", "ul"):
            assert html.count(f"<{tag}") == html.count(f"</{tag}>"), (kind, tag)


def test_a_model_shows_its_weights_by_name(results):
    html = results["model"]._repr_mimebundle_()["text/html"]
    assert "&lt;b&gt;age" in html
    assert "sk-" in html  # scikit-learn's diagram of the options
    assert 'class="bars"' not in SVMMap()._repr_html_()
    assert "weights" not in StructuralRankerCV()._repr_html_().split("</style>")[-1]


def test_frames(results):
    fit = results["fit"].to_frame()
    assert fit.index.tolist() == [step.n_passes for step in results["fit"].history]
    assert fit.gap.iloc[-1] == results["fit"].gap
    assert results["evaluation"].to_frame()["map"].mean() == pytest.approx(results["evaluation"].mean)
    regret = results["simulation"].to_frame()
    assert np.array_equal(regret.regret, results["simulation"].mean())
    assert (regret.lower <= regret.upper).all()
    pairs = results["analysis"].to_frame()
    assert pairs.index.tolist() == ["old - <new>"]
    assert pairs.wins.tolist() == [results["analysis"].pairs[0].wins]
    assert results["importances"].to_frame()["mean"].is_monotonic_decreasing


def test_without_pandas_the_error_says_what_to_install(results, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        results["fit"].to_frame()


def test_the_room_of_reports_loads_when_a_notebook_asks(python):
    code = (
        "import sys\nfrom structsvm.metrics import evaluate\nresult = evaluate('map', [1, 0], [2, 1], qid=0)\n"
        "views = 'structsvm.plots.notebook'\nassert views not in sys.modules\n"
        "result._repr_html_()\nassert views in sys.modules"
    )
    python(code)
