"""Counterfactual evaluation and judgments: by definition, against known attractions, and refusals."""

import numpy as np
import pytest
from _click_logs import GAPS, discounted, liked, logged, of_users, with_gaps
from scipy import stats

from structsvm.clicks import ClickCells, Propensities, evaluate_from_clicks, judgments, trust_bias
from structsvm.common.checks import BadInput
from structsvm.readers import read_qrels
from tests.refusing import refused

THETA = 1 / np.arange(1, 7)


def candidates(truth, rng, noise=0.3):
    """Return a new ranker's scores of all documents of each query."""
    n_queries, n = truth.shape
    scores = truth + noise * rng.normal(size=truth.shape)
    return np.repeat(np.arange(n_queries), n), np.tile(np.arange(n), n_queries), scores.ravel()


def true_dcg(truth, scores, k=10):
    return discounted(truth, np.argsort(-scores.reshape(truth.shape), axis=1, kind="stable"), k)


def interval_of(values):
    """Return the mean and the bounds of its interval by Student's t."""
    half = stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return np.mean(values), np.mean(values) - half, np.mean(values) + half


def test_ips_list_by_list(simulated_log):
    """Compare with Student's t over lists or their differences; a ranker is no better than itself."""
    rng = np.random.default_rng(0)
    cells, truth = simulated_log(rng, 300, THETA, n_queries=5, n_documents=6)
    query, document, scores = candidates(truth, rng)
    other = rng.normal(size=scores.shape)
    options = {"propensities": THETA, "k": 4, "weighting": "ips", "most_unseen": 1}
    found = evaluate_from_clicks(cells, query, document, scores, **options, baseline=other)

    # what the clicks of a list add to both rankers, to the lists as shown, and to the sum of attractions
    s, k = cells.sessions, cells.sessions.position
    q, d = cells.query_ids[cells.row_query[s.row]], cells.docid[s.row]
    ranks = [stats.rankdata(-of.reshape(5, 6), axis=1)[q, d] for of in (scores, other)]
    each = [np.where(rank <= 4, 1 / np.log2(rank + 1), 0.0) for rank in (*ranks, k)]
    added = np.add.reduceat(
        s.clicked / THETA[k - 1] * np.array([*each, np.ones(k.size)]), s.offsets[:-1], axis=1
    )
    new, of_other, old, weights = np.repeat(added, s.count, axis=1)
    for interval, values in (
        (found.dcg, new),
        (found.logged_dcg, old),
        (found.difference, new - old),
        (found.over_baseline, new - of_other),
    ):
        assert interval == pytest.approx(interval_of(values))
    assert found.discount.value == pytest.approx(new.sum() / weights.sum())
    assert found.n_sessions == 300
    assert sum(v for _, v in found.drivers) == pytest.approx(found.difference.value)
    same = evaluate_from_clicks(cells, query, document, scores, **options, baseline=scores)
    assert tuple(same.over_baseline) == (0.0, 0.0, 0.0)
    assert "over the baseline 0 [0, 0]" in repr(same)
    with pytest.raises(BadInput, match="baseline: expected one per candidate"):
        evaluate_from_clicks(cells, query, document, scores, **options, baseline=other[:3])


@pytest.mark.parametrize("weighting", ["ips", "policy"])
@pytest.mark.parametrize("clip", [0.0, 0.3])
def test_intervals_add_the_error_of_the_propensities(simulated_log, weighting, clip):
    """Check with numerical derivatives of each figure with respect to the logarithm of each propensity."""
    rng = np.random.default_rng(0)
    cells, truth = simulated_log(rng, 2000, THETA, n_queries=20, n_documents=6)
    query, document, scores = candidates(truth, rng, noise=1.0)
    root = 0.1 * rng.normal(size=(6, 6))
    covariance = root @ root.T

    def found(theta):
        return evaluate_from_clicks(
            cells, query, document, scores, propensities=theta, k=3, weighting=weighting, clip=clip
        )

    given, uncertain = found(THETA), found(Propensities(THETA, covariance))
    for name in ("dcg", "logged_dcg", "difference", "discount"):
        slope = np.empty(6)
        for k in range(6):
            low, high = (Propensities(THETA * np.exp(h * np.eye(6)[k]), covariance) for h in (-1e-5, 1e-5))
            slope[k] = (getattr(found(high), name).value - getattr(found(low), name).value) / 2e-5
        # one with Student's t over 2,000 lists, one by Satterthwaite with infinite freedom of the propensities
        value, _, upper = getattr(given, name)
        own = (upper - value) / stats.t.ppf(0.975, 1999)
        total = own**2 + slope @ covariance @ slope
        interval = getattr(uncertain, name)
        half = (interval.upper - interval.value) / stats.t.ppf(0.975, total**2 / (own**4 / 1999))
        assert half**2 == pytest.approx(total, rel=1e-6)
        assert interval.value == value


def few_lists(rng, n=150):
    """Draw lists of two queries in four orders; return a function that counts the lists with given numbers."""
    attraction = np.array([[0.95, 0.9, 0.5, 0.9, 0.3], [0.4, 0.95, 0.9, 0.6, 0.95]])
    query = rng.integers(2, size=n)
    rows = np.array([rng.permutation(5) for _ in range(4)])[rng.integers(4, size=n)]
    clicked = rng.random((n, 5)) < attraction[query[:, None], rows] * THETA[:5]

    def cells(kept):
        columns = (np.repeat(query[kept], 5), rows[kept].ravel(), np.tile(range(1, 6), len(kept)))
        return ClickCells.from_arrays(*columns, clicked[kept].ravel(), session=np.repeat(kept, 5))

    return cells


def test_intervals_with_harvested_propensities_are_those_of_leaving_out_lists():
    """A list influences the figure by its clicks and by their effect on the propensities, of equal or opposite sign."""
    n, lists = 150, few_lists(np.random.default_rng(0))
    scores = np.random.default_rng(0).normal(size=10)

    def found(kept):
        candidates = np.arange(10) // 5, np.arange(10) % 5, scores
        return evaluate_from_clicks(lists(kept), *candidates, k=3, weighting="ips")

    everything = np.arange(n)
    whole, without = found(everything), [found(np.delete(everything, i)) for i in everything]
    for name in ("dcg", "logged_dcg", "difference", "discount"):
        values = np.array([getattr(one, name).value for one in without])
        jackknife = np.sqrt((n - 1) * values.var())
        interval = getattr(whole, name)
        half = (interval.upper - interval.value) / stats.t.ppf(0.975, n - 1)
        assert half == pytest.approx(jackknife, rel=0.05)


def test_trust_bias_is_warned_about_and_corrected(simulated_log):
    alpha, beta = THETA * np.linspace(0.5, 0.9, 6), THETA * np.linspace(0.45, 0.02, 6)
    rng = np.random.default_rng(1)
    cells, truth = simulated_log(
        rng, 60_000, THETA, trust=(alpha, beta), n_queries=200, n_documents=6, attraction=(0.0, 1.0)
    )
    query, document, scores = candidates(truth, rng, noise=1.0)
    with pytest.warns(UserWarning, match=r"the log shows trust bias \(p ="):
        naive = evaluate_from_clicks(cells, query, document, scores, propensities=THETA)
    found = evaluate_from_clicks(cells, query, document, scores, propensities=(alpha, beta))
    lists = cells.lists_per_query()
    expected = lists @ true_dcg(truth, scores)[cells.query_ids] / lists.sum()
    assert found.dcg.value == pytest.approx(expected, abs=0.03)
    assert abs(naive.dcg.value - expected) > 0.2
    for pair, message in (
        ((0 * alpha, beta), "alpha: expected numbers > 0"),
        ((alpha, beta[:2]), "beta: expected a finite number for each of 6 positions"),
    ):
        refused(message, evaluate_from_clicks, cells, query, document, scores, propensities=pair)


def coverage_of(intervals, truth):
    _, low, high = np.array(intervals).T
    return np.mean((low <= truth) & (truth <= high))


def assert_held(intervals, truth):
    """Assert that most intervals contain the truth, and that their values are unbiased."""
    errors = np.array([one.value for one in intervals]) - truth
    assert coverage_of(intervals, truth) >= 0.89
    assert abs(errors.mean()) < 4 * errors.std() / np.sqrt(len(errors))


TRUTH = np.random.default_rng(5).beta(1, 3, (12, 6))
NEW = TRUTH + 0.2 * np.random.default_rng(6).normal(size=TRUTH.shape)
CANDIDATES = (np.repeat(np.arange(12), 6), np.tile(np.arange(6), 12), NEW.ravel())


@pytest.mark.parametrize(
    ("shape", "weighting"),
    [("cut at four", "policy"), *((s, "policy") for s in ("whole", *GAPS)), ("lost", "ips")],
)
def test_intervals_hold_the_truth(shape, weighting):
    """Check bias and coverage on 100 logs with whole lists, split lists, or missing impressions or sessions."""
    found, truths, shown_bias = [], [], []
    options = {"propensities": 1 / np.arange(1, 8), "k": 4, "weighting": weighting, "most_unseen": 1}
    for seed in range(100):
        rng, truth = np.random.default_rng([7, seed]), TRUTH
        if shape in GAPS:
            cells = with_gaps(rng, shape, 600, TRUTH)
        else:
            cells = logged(rng, 600, TRUTH, length=None if shape == "whole" else 4).counted()
        estimate = evaluate_from_clicks(cells, *CANDIDATES, **options)
        if shape == "cut at four":  # what was never shown is not estimated, but bounded
            seen = np.zeros(TRUTH.shape)
            seen[cells.query_ids[cells.row_query], cells.docid] = 1
            truth = TRUTH * seen
            assert estimate.bounds[0] <= estimate.bounds[1]
        found.append(estimate.dcg)
        truths.append(true_dcg(truth, NEW, 4).mean())
        assert estimate.difference.value == pytest.approx(estimate.dcg.value - estimate.logged_dcg.value)
        if shape in ("lost", "advertisement"):
            assert estimate.n_gapped > 0
            assert "positions without an impression" in estimate.notes[0]
        if shape not in ("second page", "no session"):
            at = np.where(cells.position <= 4, 1 / np.log2(cells.position + 1), 0)
            attraction = TRUTH[cells.query_ids[cells.row_query], cells.docid][cells.row]
            shown_bias.append(estimate.logged_dcg.value - cells.shows * attraction @ at / 600)
    assert_held(found, truths)
    if shown_bias:
        assert abs(np.mean(shown_bias)) < 4 * np.std(shown_bias) / np.sqrt(100)


def test_an_estimate_is_made_of_all_cells_whatever_their_lists():
    """Compare with the definition: discounts times clicks per examination, weighted by shares of lists."""
    rng = np.random.default_rng(8)
    lists = logged(rng, 400, TRUTH)
    query, shown, place, clicked = lists
    keep = rng.random(shown.shape) >= 0.2
    keep[::7] = False
    keep[::7, 3] = True  # lists of one document
    cells = lists.counted(keep)
    expected = 0.0
    for q in range(12):
        for d in range(6):
            here = keep & (shown == d) & (query == q)[:, None]
            rank = 1 + (NEW[q] > NEW[q, d]).sum()
            if rank <= 4:
                looks = (1 / (1 + place[here])).sum()
                expected += (query == q).mean() / np.log2(rank + 1) * clicked[here].sum() / looks
    found = evaluate_from_clicks(cells, *CANDIDATES, propensities=THETA, k=4)
    assert found.dcg.value == pytest.approx(expected, rel=1e-12)


def test_lost_impressions_of_the_lists_as_shown():
    errors = {"empty": [], "lost": []}
    for seed in range(40):
        rng = np.random.default_rng([9, seed])
        lists = logged(rng, 800, TRUTH)
        whole, part = (lists.counted(k) for k in (True, rng.random(lists.shown.shape) >= 0.15))
        known = evaluate_from_clicks(whole, *CANDIDATES, propensities=THETA).logged_dcg.value
        for gaps in ("empty", "lost"):
            found = evaluate_from_clicks(part, *CANDIDATES, propensities=THETA, gaps=gaps)
            errors[gaps].append(found.logged_dcg.value / known - 1)
    assert np.mean(errors["empty"]) == pytest.approx(-0.15, abs=0.02)
    assert np.mean(errors["lost"]) == pytest.approx(0, abs=0.02)


@pytest.mark.parametrize(("giant", "propensities"), [(False, THETA), (True, None)])
def test_users_with_tastes_of_their_own(giant, propensities):
    """60 logs of 60 users, one of whom may have 30 % of the lists; without users intervals are short.

    The interval of the paired difference of two rankers holds the truth, too, and is the narrower one.
    """
    found, plain, options = [], [], {"propensities": propensities, "k": 4}
    other = TRUTH + 0.3 * np.random.default_rng(12).normal(size=TRUTH.shape)
    share = np.r_[0.3, np.full(59, 0.7 / 59)] if giant else np.full(60, 1 / 60)
    for seed in range(60):
        lists, user = of_users(np.random.default_rng([10, seed]), 1500, TRUTH, share=share)
        cells = lists.counted(cluster=user)
        found.append(evaluate_from_clicks(cells, *CANDIDATES, **options, baseline=other.ravel()))
        plain.append(evaluate_from_clicks(lists.counted(), *CANDIDATES, **options))
    truths = [true_dcg(liked(TRUTH), ranker, 4).mean() for ranker in (NEW, other)]
    by_users, by_lists_alone = ([e.dcg for e in estimates] for estimates in (found, plain))
    assert_held(by_users, truths[0])
    assert_held([e.over_baseline for e in found], truths[0] - truths[1])
    assert coverage_of(by_lists_alone, truths[0]) < coverage_of(by_users, truths[0])
    last = found[-1]
    assert last.n_clusters == 60
    assert last.effective_clusters < (12 if giant else 60)
    assert "each of whom counts once" in last.notes[0]
    alone = evaluate_from_clicks(cells, *CANDIDATES[:2], other.ravel(), **options)
    assert last.over_baseline.value == pytest.approx(last.dcg.value - alone.dcg.value)
    widths = [one.upper - one.lower for one in (last.over_baseline, last.dcg, alone.dcg)]
    assert widths[0] < np.hypot(*widths[1:])


def test_each_user_counts_once_by_definition():
    """With one list per user nothing changes; with several lists, the value is the mean of the users' means."""
    rng = np.random.default_rng(11)
    lists = logged(rng, 300, TRUTH[:3])
    query, shown, place, clicked = lists
    new = (CANDIDATES[0][:18], CANDIDATES[1][:18], CANDIDATES[2][:18])
    plain = evaluate_from_clicks(lists.counted(), *new, propensities=THETA)
    found = evaluate_from_clicks(lists.counted(cluster=np.arange(300)), *new, propensities=THETA)
    assert found.dcg == pytest.approx(plain.dcg)
    assert found.difference == pytest.approx(plain.difference)
    user = rng.integers(0, 20, 300)
    found = evaluate_from_clicks(lists.counted(cluster=user), *new, propensities=THETA, weighting="ips")
    share = 1 / np.bincount(user)[user]  # of each list in its user
    rank = np.argsort(np.argsort(-NEW, axis=1), axis=1)
    each = np.zeros(300)
    for q in range(3):
        for d in range(6):
            here = (shown == d) & (query == q)[:, None]
            weight = (share * (query == q)).sum() / (share * here.any(axis=1)).sum()
            each += (here * clicked * (1 + place)).sum(axis=1) * weight / np.log2(rank[q, d] + 2)
    assert found.dcg == pytest.approx(interval_of(np.bincount(user, share * each)))


def test_logged_probabilities_of_a_recommender():
    """Items are drawn with known probabilities that depend on users' tastes; weighting by them removes the bias."""
    found, by_looks = [], []
    policy = np.array([0.1, 0.2, 0.3, 0.4])
    truth = np.array([[0.1, 0.1, 0.3, 0.2], [0.5, 0.1, 0.1, 0.2]])  # of two kinds of users
    drawn = np.array([[0.1, 0.2, 0.4, 0.3], [0.7, 0.1, 0.1, 0.1]])  # the old ranker knows the kind
    for seed in range(150):
        rng = np.random.default_rng([12, seed])
        kind = rng.integers(0, 2, 800)
        item = (rng.random(800)[:, None] > np.cumsum(drawn[kind], axis=1)).sum(axis=1).clip(0, 3)
        clicked = rng.random(800) < truth[kind, item]
        cells = ClickCells.from_arrays(
            np.zeros(800, int), item, np.ones(800, int), clicked, probability=drawn[kind, item]
        )
        assert cells.sessions.n_sessions == 800
        for into, weighting in ((found, None), (by_looks, "policy")):
            estimate = evaluate_from_clicks(
                cells, [0] * 4, np.arange(4), policy[:, None], propensities=[1.0], weighting=weighting
            )
            into.append(estimate.dcg)
        by_hand = (clicked * policy[item] / drawn[kind, item]).mean()
        assert found[-1].value == pytest.approx(by_hand)
    expected = (truth.mean(axis=0) * policy).sum()
    assert_held(found, expected)
    assert coverage_of(by_looks, expected) < 0.7


def test_probabilities_of_a_ranker_that_draws_its_lists():
    cells = logged(np.random.default_rng(13), 300, TRUTH).counted()
    rank = np.argsort(np.argsort(-NEW, axis=1), axis=1)
    surely = np.eye(6)[rank.ravel()]
    by_scores = evaluate_from_clicks(cells, *CANDIDATES, propensities=THETA, k=4)
    found = evaluate_from_clicks(
        cells, *CANDIDATES[:2], surely, baseline=NEW.ravel(), propensities=THETA, k=4
    )
    assert found.dcg == pytest.approx(by_scores.dcg)
    assert found.over_baseline == pytest.approx((0, 0, 0), abs=1e-12)
    # half of each position for documents that the log does not know, which one more candidate stands for
    ids = [
        np.r_[own, more] for own, more in zip(CANDIDATES[:2], (np.arange(12), np.full(12, 99)), strict=True)
    ]
    shares = np.r_[0.5 * surely, np.full((12, 6), 0.5)][:, :2]
    half = evaluate_from_clicks(cells, *ids, shares, propensities=THETA, k=2, most_unseen=1)
    by_scores = evaluate_from_clicks(cells, *CANDIDATES, propensities=THETA, k=2)
    assert half.dcg.value == pytest.approx(by_scores.dcg.value / 2)
    for bad, message in (
        (2 * surely, "sum to at most 1"),
        (surely[:5], "one per candidate"),
        (-surely, ">= 0"),
        (surely[:, :3], "6 positions, got 3; .*to 3 positions"),
        (0.5 * surely, "got 0.5 at position 1 of query 0"),
    ):
        refused(f"scores: .*{message}", evaluate_from_clicks, cells, *CANDIDATES[:2], bad, propensities=THETA)
    with pytest.raises(BadInput, match="weighting='logged': expected the probability of each impression"):
        evaluate_from_clicks(cells, *CANDIDATES, propensities=THETA, weighting="logged")


def test_the_unseen_is_told_and_refused():
    cells = ClickCells.from_arrays([1, 1], [5, 6], [1, 2], [1, 0], session=[1, 1])
    new = ([1, 1, 1], [9, 5, 6], [3.0, 2.0, 1.0])
    alone = ClickCells.from_arrays([1], [5], [1], [1])
    for log, candidates, message in (
        (cells, new, "got 47% of the discounts on documents never shown"),
        (cells, ([2], [5], [1.0]), "query: expected scores for every query .*, got none for 1, such as 1"),
        (cells, ([], [], []), "query: expected scores for every query of the log, got none for 1"),
        (cells, ([1], [5], [np.nan]), "scores: expected finite numbers"),
        (cells, ([1] * 3, [5, 6, 6], [1.0, 0.5, 0.0]), "document: .* once in a query, got 6 in query 1"),
        (alone, ([1], [5], [1.0]), "cells: expected sessions"),
    ):
        refused(message, evaluate_from_clicks, log, *candidates, propensities=[1, 1])
    found = evaluate_from_clicks(cells, *new, propensities=[1, 1], most_unseen=0.5)
    assert found.unseen == pytest.approx(1 / (1 + 1 / np.log2(3) + 0.5))
    assert found.bounds == pytest.approx((1 / np.log2(3), 1 / np.log2(3) + 1))


def test_judgments_by_definition(simulated_log, tmp_path):
    cells, truth = simulated_log(np.random.default_rng(2), 2000, THETA, n_queries=5, n_documents=6)
    shown, clicked, _ = cells.per_position()
    coec, ips, sdbn = (judgments(cells, m, propensities=THETA) for m in ("coec", "ips", "sdbn"))
    for r in range(cells.n_rows):
        mine = cells.row == r
        n, c, k = cells.shows[mine], cells.clicks[mine].sum(), cells.position[mine] - 1
        assert coec.value[r] == pytest.approx(c / (n @ (clicked / shown)[k]))
        assert ips.value[r] == pytest.approx(c / (n @ THETA[k]))
        expected = n @ THETA[k]
        # Garwood's interval: the ends are the means for which so few or so many clicks have 2.5 %
        assert stats.poisson.cdf(c, ips.upper[r] * expected) == pytest.approx(0.025)
        if c:
            assert stats.poisson.sf(c - 1, ips.lower[r] * expected) == pytest.approx(0.025)
    attraction = truth[cells.query_ids[cells.row_query], cells.docid]
    assert np.mean((ips.lower <= attraction) & (attraction <= ips.upper)) > 0.9
    looks, ended, s = np.zeros(cells.n_rows), np.zeros(cells.n_rows), cells.sessions
    for i, (rows, clicks) in enumerate(
        zip(*(np.split(v, s.offsets[1:-1]) for v in (s.row, s.clicked)), strict=True)
    ):
        last = np.flatnonzero(clicks)[-1] if clicks.any() else len(rows) - 1
        looks[rows[: last + 1]] += s.count[i]
        ended[rows[last]] += s.count[i] * clicks.any()
    np.testing.assert_allclose(sdbn.value, ended / np.maximum(looks, 1))
    assert ((sdbn.lower <= sdbn.value) & (sdbn.value <= sdbn.upper)).all()
    ips.write_qrels(tmp_path / "q.txt", [0.5])
    qrels = read_qrels(tmp_path / "q.txt")
    assert qrels.n_rows == cells.n_rows
    assert (qrels.grades == (ips.value >= 0.5)).all()
    assert (ips.grades([0.5], bound="lower") <= ips.grades([0.5])).all()
    # shown only where nobody clicks: nothing is known of document 9 by its clicks, nor if nobody looked at it
    unlucky = ClickCells.from_arrays([1] * 4, [7, 8, 7, 9], [1, 2, 1, 3], [1, 0, 1, 0], session=[1, 1, 2, 2])
    for method in ("coec", "sdbn"):
        found = judgments(unlucky, method)
        found.write_qrels(tmp_path / "known.txt")
        lines = [f"1 0 {d}" for d, known in zip(found.document, found.known, strict=True) if known]
        assert [line.rsplit(" ", 1)[0] for line in (tmp_path / "known.txt").read_text().splitlines()] == lines
        assert found.known.tolist() == [True, False, False]
    ips.write_table(tmp_path / "t.tsv")
    assert len((tmp_path / "t.tsv").read_text().splitlines()) == cells.n_rows + 1


def test_bad_judgments(tmp_path):
    cells = ClickCells.from_arrays(["a b", "a b"], ["x", "y"], [1, 2], [1, 0], session=[1, 1])
    for call, message in (
        (lambda: judgments(cells).write_qrels(tmp_path / "q"), "query: expected ids without white space"),
        (lambda: judgments(cells, "ctr"), "method='ctr'"),
        (lambda: judgments(cells).grades([2, 1]), "levels="),
        (lambda: trust_bias(cells, last=0), "last=0: expected an integer"),
        (lambda: evaluate_from_clicks(cells, ["a b"], ["x"], [1.0], propensities=0.5), "theta"),
        (lambda: judgments(ClickCells.from_arrays([1], [5], [1], [0])), "expected at least one click"),
    ):
        refused(message, call)
    assert not (tmp_path / "q").exists()
    nothing = judgments(cells)  # no click ever at position 2
    assert nothing.value.tolist() == [1.0, 0.0]
    assert nothing.upper[1] == np.inf


def test_clicks_on_documents_without_a_score_are_told():
    query, document = np.repeat(0, 8), np.tile([1, 2, 2, 1], 2)
    position, clicked = np.tile([1, 2], 4), np.array([1, 0, 1, 1, 0, 0, 1, 0])
    cells = ClickCells.from_arrays(query, document, position, clicked, session=np.repeat(np.arange(4), 2))
    options = {"propensities": [1.0, 0.5], "k": 2, "most_unseen": 1}
    whole = evaluate_from_clicks(cells, [0, 0], [1, 2], [1.0, 0.0], **options)
    assert not any("without a score" in note for note in whole.notes)
    note = evaluate_from_clicks(cells, [0], [1], [1.0], **options).notes[-1]
    assert note.startswith("2 of 4 clicks are on documents without a score, which count as not shown")
