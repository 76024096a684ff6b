"""The points, bars and steps of figures are those of the results."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from structsvm import FeatureScaleWarning, StructuralRankerCV, SVMMap, TreeRanker, plots
from structsvm.export import export_model
from structsvm.features.binning import BinnedFeatures
from structsvm.metrics import evaluate, permutation_importance
from structsvm.online import simulate
from structsvm.plots import figures
from structsvm.readers import make_ranking
from tests.refusing import refusals, rejected


@pytest.fixture
def ax():
    return Figure().subplots()


@pytest.fixture(scope="module")
def search():
    data = make_ranking(20, 8, 4, random_state=0)
    return StructuralRankerCV("map", (0.1, 1.0, 10.0), cv=3).fit(data.X, data.y, qid=data.qid)


def points(line):
    return line.get_xydata().tolist()


def texts(labels):
    return [label.get_text() for label in labels]


def legend(ax):
    return [] if ax.get_legend() is None else texts(ax.get_legend().get_texts())


def test_features_without_names_are_numbered_from_1_everywhere():
    """Weights, bins, step functions, importances, exports and warnings number features like LETOR files."""
    X, qid = np.random.default_rng(0).normal(size=(60, 2)), np.repeat(range(10), 6)
    y = (X[:, 1] > 0).astype(int)
    linear = SVMMap().fit(X, y, qid=qid)
    assert set(figures.weight_names(linear)) == {"feature 1", "feature 2"}
    assert list(permutation_importance(linear, X, y, qid=qid).names) == ["feature 1", "feature 2"]
    assert b"feature_1" in export_model(linear, "json")
    steps = BinnedFeatures(n_bins=2).fit(X).step_functions(np.ones(4))
    assert [one.name for one in steps] == ["feature 1", "feature 2"]
    with pytest.warns(FeatureScaleWarning, match="feature 1 against feature 2"):
        SVMMap().fit(X * [1e4, 1], y, qid=qid)
    pytest.importorskip("lightgbm", reason="pip install lightgbm")
    tree = TreeRanker(n_trees=2, n_leaves=2, n_bins=2, random_state=0).fit(X, y, qid=qid)
    split = {name.partition(">")[0] for name in figures.weight_names(tree) if ">" in name}
    assert split == {"feature 1", "feature 2"}
    tree.feature_names_in_ = np.array(["bm25", "age"], dtype=object)  # of a table, given by the command line
    assert figures.weight_names(tree)[-1].startswith("age>")


def test_weights_are_the_largest_first_with_their_sign(ax):
    assert plots.weights(np.array([0.1, -3.0, 0.0, 2.0]), ["a", "b", "c", "d"], top=3, ax=ax) is ax
    bars = zip(texts(ax.get_yticklabels()), (bar.get_width() for bar in ax.patches), strict=True)
    assert list(bars) == [("b", -3.0), ("d", 2.0), ("a", 0.1)]
    assert ax.yaxis_inverted()  # the first is on top
    assert len({bar.get_facecolor() for bar in ax.patches}) == 2
    assert ax.get_xlabel() == "weight, 3 of 4"


def test_steps_of_several_functions_are_named(ax):
    binned = BinnedFeatures(n_bins=2).fit([[0.0, 5.0], [1.0, np.nan]])
    steps = binned.step_functions(np.arange(int(binned.starts_[-1])), ["one", "two"])
    plots.step_functions(steps, ax=ax)
    assert legend(ax) == ["one", "two"]
    other = plots.step_functions(steps[0])
    assert points(other.lines[0]) == points(ax.lines[0])
    assert legend(other) == []


def test_measure_against_C_with_the_point_chosen(ax, search):
    means = np.nanmean(search.scores_, axis=0)
    plots.against_C(search, ax=ax)
    assert points(ax.lines[0]) == [[C, m] for C, m in zip((0.1, 1.0, 10.0), means, strict=True)]
    assert ax.collections[0].get_offsets().tolist() == [[search.C_, means.max()]]
    assert legend(ax) == ["validation", f"chosen, C = {search.C_:.3g}"]
    assert (ax.get_xscale(), ax.get_xlabel(), ax.get_ylabel()) == ("log", "C", "map")


def test_lines_against_C_are_sorted_and_told_apart(ax):
    plots.against_C([5, 2], [0.3, 0.2], label="a", measure="NDCG@10", chosen=5, ax=ax)
    plots.against_C([1, 4], [0.3, 0.4], label="b", ax=ax)
    assert [points(line) for line in ax.lines] == [[[2, 0.2], [5, 0.3]], [[1, 0.3], [4, 0.4]]]
    assert ax.collections[0].get_offsets().tolist() == [[5, 0.3]]
    assert legend(ax) == ["a", "a: chosen, C = 5", "b"]
    assert ax.lines[0].get_linestyle() != ax.lines[1].get_linestyle()
    assert ax.get_ylabel() == "MAP"
    rejected("chosen=3: expected one of the values of C", plots.against_C, [1.0], [0.5], chosen=3)
    rejected("values: expected a value for each C", plots.against_C, [1.0, 2.0], [0.5])


@pytest.mark.parametrize(
    ("x", "field", "name"), [("passes", 1, "passes over the data"), ("seconds", 2, "seconds")]
)
def test_gap_as_training_went_on(x, field, name, ax, search):
    history = [(p.gap, p.n_passes, p.seconds) for p in search.fit_.history if 0 < p.gap < np.inf]
    assert history
    plots.gap(search.fit_, x=x, tol=1e-3, ax=ax)
    assert points(ax.lines[0]) == [[p[field], p[0]] for p in history]
    assert ax.lines[1].get_ydata()[0] == 1e-3
    assert (ax.get_yscale(), ax.get_xlabel()) == ("log", name)


def test_gaps_by_name(ax, search):
    plots.gap({"one": search.fit_, "two": search.fit_}, ax=ax)
    assert legend(ax) == ["one", "two"]
    assert len({(line.get_linestyle(), line.get_marker()) for line in ax.lines}) == 2
    rejected("x='time': expected 'passes' or 'seconds'", plots.gap, search.fit_, x="time")


def test_differences_are_sorted_and_counted(ax):
    plots.differences([0.0, -0.5, 0.25, 0.5, 0.0], measure="NDCG", ax=ax)
    assert [bar.get_height() for bar in ax.patches] == [0.5, 0.25, 0.0, 0.0, -0.5]
    assert ax.get_title() == "2 better, 1 worse, 2 equal"
    assert ax.get_ylabel() == "difference in NDCG"
    empty = plots.differences([])
    assert empty.get_title() == "0 better, 0 worse, 0 equal"
    assert plots.differences([]).figure is not empty.figure  # without axes a figure of its own


def test_regret_is_the_mean_and_its_interval(ax):
    run = simulate("rucb", [[0.5, 0.7], [0.3, 0.5]], horizon=2000, n_runs=4, seed=1)
    plots.regret({"RUCB": run}, ax=ax)
    x, y = np.array(points(ax.lines[0])).T
    np.testing.assert_array_equal(y, np.interp(x, run.times, run.mean()))
    assert x[-1] == 2000
    assert x[0] >= 0.2
    band = ax.collections[0].get_paths()[0].vertices
    assert band[:, 1].max() == pytest.approx(run.interval()[1].max())
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")


def test_models_and_results_are_taken_as_they_are():
    data = make_ranking(20, 10, 3, grades=2, random_state=0)
    frame = pd.DataFrame(data.X, columns=["a", "b", "c"])
    search = StructuralRankerCV("map", Cs=[0.1, 1, 10], cv=2).fit(frame, data.y, qid=data.qid)
    assert set(texts(plots.weights(search).get_yticklabels())) == {"a", "b", "c"}
    assert points(plots.gap(search).lines[0]) == points(plots.gap(search.fit_).lines[0])
    mine = evaluate("ndcg@5", data.y, search.predict(frame), qid=data.qid)
    other = evaluate("ndcg@5", data.y, data.X[:, 0], qid=data.qid)
    ax = plots.differences(mine, other)
    assert [bar.get_height() for bar in ax.patches] == sorted(mine.per_query - other.per_query, reverse=True)
    assert "ndcg@5" in ax.get_ylabel()
    run = simulate("rucb", [[0.5, 0.8], [0.2, 0.5]], horizon=50, n_runs=2)
    assert plots.regret(run).lines[0].get_ydata()[-1] == run.mean()[-1]


ONE = evaluate("map", [1, 0], [2, 1], qid=0)


test_what_cannot_be_drawn_is_refused = refusals(
    lambda draw, given: draw(*given),
    (plots.weights, ([1.0, 2.0], ["a"]), r"names: expected a name for each weight, got 1 for shape \(2,\)"),
    (plots.against_C, ([0.1, 1.0],), "values: expected a value for each C; or pass"),
    (plots.differences, (ONE,), "other: a second result to compare with is required"),
    (plots.regret, (SVMMap(),), "expected simulations of bandits, got SVMMap"),
    (plots.step_functions, (SVMMap(),), "expected step functions of BinnedFeatures, got SVMMap"),
)
