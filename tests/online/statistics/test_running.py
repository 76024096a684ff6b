"""Statistics of a growing log are those of ``analyse``, however the log arrives."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings as profile, strategies as st

from structsvm.online.clicklog import Click, ClickLog, Impression
from structsvm.online.interleaving import Optimized, Probabilistic, Shown, TeamDraft
from structsvm.online.statistics import analyse
from structsvm.online.statistics.running import RunningStatistics
from tests.refusing import rejected

METHODS = {"team_draft": TeamDraft(), "optimized": Optimized(), "probabilistic": Probabilistic()}


def made_log(method, n, n_rankers, seed, lean=0.3, length=6):
    """Return lists of a method, clicked by users who like documents with low numbers."""
    rng = np.random.default_rng(seed)
    impressions, names = [], tuple(f"ranker {k}" for k in range(n_rankers))
    lists = []
    for _ in range(6):
        rankings = [[f"d{d}" for d in rng.permutation(8)] for _ in names]
        rankings[0].sort(key=lambda d: int(d[1:]) + rng.normal(scale=1 / (lean + 0.01)))
        lists.append([METHODS[method].show(rankings, length, rng) for _ in range(2)])
    for _ in range(n):
        shown = lists[rng.integers(6)][rng.integers(2)]
        clicks = [k + 1 for k, d in enumerate(shown.documents) if rng.random() < 0.5 / (1 + int(d[1:]))]
        impressions.append(Impression(shown, tuple(map(Click, clicks)), rankers=names))
    return impressions


def folded(impressions, method, n_rankers, cuts, length=6):
    running = RunningStatistics(method, [f"ranker {k}" for k in range(n_rankers)], length=length)
    records = [one.shown for one in impressions]
    places = [np.flatnonzero(one.clicked).tolist() for one in impressions]
    for start, end in pairwise([0, *sorted(cuts), len(records)]):
        running.add(records[start:end], places[start:end])
        running = RunningStatistics.from_json(running.to_json())
    return running


def assert_same(ours, theirs, tol=1e-12):
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        for key in theirs:
            assert_same(ours[key], theirs[key], tol)
    elif isinstance(theirs, (list, tuple)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            assert_same(a, b, tol)
    elif isinstance(theirs, float) and isinstance(ours, (int, float)):
        assert ours == pytest.approx(theirs, rel=tol, abs=1e-15)
    else:
        assert ours == theirs


@pytest.mark.parametrize(
    ("method", "n_rankers", "n"),
    [
        ("team_draft", 2, 3000),
        ("team_draft", 4, 1500),
        ("optimized", 2, 1500),
        ("optimized", 3, 400),
        ("probabilistic", 2, 800),
    ],
)
def test_equal_to_analyse(method, n_rankers, n):
    for seed in range(2):
        impressions = made_log(method, n, n_rankers, seed)
        cuts = np.random.default_rng(seed).integers(0, n, size=7).tolist()
        running, log = folded(impressions, method, n_rankers, cuts), ClickLog.of(impressions)
        settings = [("t", "holm", 0.8), ("z", "bh", 0.5), ("sign", "none", 0.8), ("wilcoxon", "holm", 0.5)]
        for test, correction, power in settings[: 4 if method == "team_draft" else 3]:
            options = {"test": test, "correction": correction, "power": power}
            assert_same(running.analysis(**options).to_dict(), analyse(log, **options).to_dict())


@profile(max_examples=40)
@given(st.lists(st.integers(0, 120), max_size=8), st.integers(0, 5), st.integers(1, 120))
def test_how_the_log_is_cut_changes_nothing(cuts, seed, n):
    impressions = made_log("team_draft", n, 2, seed)
    cuts = [min(cut, n) for cut in cuts]
    whole = folded(impressions, "team_draft", 2, [])
    parts = folded(impressions, "team_draft", 2, cuts)
    assert_same(parts.analysis().to_dict(), whole.analysis().to_dict())
    ours, theirs = json.loads(parts.to_json()), json.loads(whole.to_json())
    assert [pair["cells"] for pair in ours["pairs"]] == [pair["cells"] for pair in theirs["pairs"]]
    for a, b in zip(ours["pairs"], theirs["pairs"], strict=True):
        assert_same(a["shown"], b["shown"])


def test_the_decision_is_that_of_looking_after_every_impression():
    """Compare with the plain product of bets after each impression."""
    shares = 0.9 * 0.5 ** np.arange(12)
    for seed in range(6):
        impressions = made_log("team_draft", 400, 2, seed, lean=0.8)
        credit = [TeamDraft().credit(one.shown, one.clicked) for one in impressions]
        values = np.array([c[0] - c[1] for c in credit]) / 3  # half of 6 places
        capital = np.ones(24)
        crossed = None
        for n, x in enumerate(values, start=1):
            capital *= 1 + np.concatenate([shares, -shares]) * x
            if crossed is None and capital.mean() >= 20:
                crossed, at_crossing = n, capital.mean()
        running = folded(impressions, "team_draft", 2, [50, 333])
        if crossed is None:
            assert running.decision is None
        else:
            assert running.decision["n"] == crossed
            assert running.decision["winner"] == ("ranker 0" if values[:crossed].sum() > 0 else "ranker 1")
            assert running.decision["p"] == pytest.approx(1 / at_crossing, rel=1e-10)
            for cuts in ([], [crossed - 1], [crossed], [crossed + 1], [crossed // 2, crossed + 3]):
                again = folded(impressions, "team_draft", 2, cuts).decision
                assert again == running.decision | {"p": pytest.approx(1 / at_crossing, rel=1e-10)}


@pytest.mark.parametrize("n_rankers", [2, 3, 4])
def test_the_first_winner_of_an_analysis_is_the_decision(n_rankers):
    """Analyse the log after each impression; claims of earlier looks stay, so that a decision may come earlier."""
    decided = 0
    for seed in range(12 // n_rankers):
        impressions = made_log("optimized", 60, n_rankers, seed, lean=5)
        running = folded(impressions, "optimized", n_rankers, [20, 37])
        growing = RunningStatistics("optimized", impressions[0].rankers, length=6)
        looks = []
        for one in impressions:
            growing.add([one.shown], [np.flatnonzero(one.clicked).tolist()])
            looks.append(growing.analysis())
        named = [(n, one.winner) for n, one in enumerate(looks, 1) if one.winner is not None]
        assert all((one.winner is not None) == (one.winner_p_value <= 0.05) for one in looks)
        if named:
            decided += 1
            first, winner = named[0]
            assert running.decision["winner"] == winner
            assert running.decision["n"] <= first
            if n_rankers == 2:
                assert running.decision["n"] == first
    assert decided >= 1


def test_a_decision_stays():
    running = RunningStatistics("team_draft", ["a", "b"], length=2)
    shown = Shown("team_draft", ("x", "y"), 2, ((0, 1),))
    running.add([shown] * 30, [[0]] * 30)
    decided = running.decision
    running.add([shown] * 300, [[1]] * 300)
    assert running.decision == decided
    assert decided["winner"] == "a"
    assert running.analysis().fixed_sample_winner == "b"


def test_refuses_what_it_cannot_bound():
    running = RunningStatistics("team_draft", ["a", "b"], length=2)
    with pytest.raises(ValueError, match="expected credit of at most 1"):
        running.add([Shown("team_draft", ("x", "y", "z", "w"), 2, ((0, 0, 1, 1),))], [[0, 1]])
    assert running.n_impressions == 0
    rejected("one impression or more", running.analysis)
    with pytest.raises(ValueError, match="expected one of sign for this log"):
        folded(made_log("optimized", 30, 2, 0), "optimized", 2, []).analysis(test="wilcoxon")
    for text in ("", "{}", '{"version":2}', running.to_json().replace("0.05", '"x"')):
        rejected("state of running statistics", RunningStatistics.from_json, text)
