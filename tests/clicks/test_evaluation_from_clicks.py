"""Counterfactual evaluation and judgments: by definition, against the truth of simulated users, and where to refuse."""

import numpy as np
import pytest
from scipy import stats

from structsvm.checks import BadInput
from structsvm.clicks import ClickCells, Propensities, evaluate_from_clicks, judgments
from structsvm.readers import read_qrels

THETA = 1 / np.arange(1, 7)


def candidates(truth, rng, noise=0.3):
    """A new ranker's scores of all documents of each query."""
    n_queries, n = truth.shape
    scores = truth + noise * rng.normal(size=truth.shape)
    return np.repeat(np.arange(n_queries), n), np.tile(np.arange(n), n_queries), scores.ravel()


def true_dcg(truth, scores, k=10):
    order = np.argsort(-scores.reshape(truth.shape), axis=1, kind="stable")[:, :k]
    return (np.take_along_axis(truth, order, axis=1) / np.log2(np.arange(order.shape[1]) + 2)).sum(axis=1)


def test_ips_list_by_list(simulated_log):
    rng = np.random.default_rng(0)
    cells, truth = simulated_log(rng, 300, THETA, n_queries=5, n_documents=6)
    query, document, scores = candidates(truth, rng)
    found = evaluate_from_clicks(
        cells, query, document, scores, propensities=THETA, k=4, weighting="ips", most_unseen=1
    )
    new, old, weights = [], [], []
    s = cells.sessions
    for i in range(s.n_distinct):
        part = slice(s.offsets[i], s.offsets[i + 1])
        q = int(cells.query_ids[cells.row_query[s.row[part][0]]])
        a = b = w = 0.0
        for k, (r, c) in enumerate(zip(s.row[part], s.clicked[part], strict=True)):
            mine = scores[query == q]
            rank = 1 + (mine > mine[int(cells.docid[r])]).sum()
            a += c / THETA[k] * (rank <= 4) / np.log2(rank + 1)
            b += c / THETA[k] * (k < 4) / np.log2(k + 2)
            w += c / THETA[k]
        for values, v in ((new, a), (old, b), (weights, w)):
            values += [v] * int(s.count[i])
    new, old, weights = map(np.array, (new, old, weights))
    for interval, values in ((found.dcg, new), (found.logged_dcg, old), (found.difference, new - old)):
        half = stats.norm.ppf(0.975) * values.std(ddof=1) / np.sqrt(300)
        assert interval == pytest.approx((values.mean(), values.mean() - half, values.mean() + half))
    assert found.discount.value == pytest.approx(new.sum() / weights.sum())
    assert found.n_sessions == 300
    assert sum(v for _, v in found.drivers) == pytest.approx(found.difference.value)


@pytest.mark.parametrize(("length", "weighting"), [(6, "ips"), (6, "policy"), (4, "policy")])
def test_intervals_hold_the_truth(simulated_log, length, weighting):
    """Of 150 logs; with lists cut at four, documents that some rankers did not show are weighed up."""
    held, errors, of_logged = [], [], []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        cells, truth = simulated_log(rng, 600, THETA[:length], n_queries=20, n_documents=6)
        query, document, scores = candidates(truth, rng, noise=1.0)
        found = evaluate_from_clicks(
            cells,
            query,
            document,
            scores,
            propensities=THETA[:length],
            weighting=weighting,
            most_unseen=1.0,
            k=3,
        )
        expected = true_dcg(truth, scores, 3)
        if length == 4:  # what was never shown is not estimated, but bounded
            assert found.bounds[0] <= found.bounds[1]
            seen = np.zeros(truth.shape)
            seen[cells.query_ids[cells.row_query], cells.docid] = 1
            expected = true_dcg_of_seen(truth, seen, scores)
        held.append(found.dcg.lower <= expected.mean() <= found.dcg.upper)
        errors.append(found.dcg.value - expected.mean())
        attraction = truth[cells.query_ids[cells.row_query], cells.docid][cells.row]
        discount = np.where(cells.position <= 3, 1 / np.log2(cells.position + 1), 0.0)
        of_logged.append(found.logged_dcg.value - cells.shows * attraction @ discount / 600)
        assert found.difference.value == pytest.approx(found.dcg.value - found.logged_dcg.value)
    assert np.mean(held) >= 0.89
    for differences in (errors, of_logged):
        assert abs(np.mean(differences)) <= 4 * np.std(differences) / np.sqrt(150)


@pytest.mark.parametrize("weighting", ["ips", "policy"])
@pytest.mark.parametrize("clip", [0.0, 0.3])
def test_intervals_add_the_error_of_the_propensities(simulated_log, weighting, clip):
    """By numerical derivatives of each figure by the logarithm of each propensity."""
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
        halves = [
            (i.upper - i.value) / stats.norm.ppf(0.975)
            for i in (getattr(given, name), getattr(uncertain, name))
        ]
        assert halves[1] ** 2 == pytest.approx(halves[0] ** 2 + slope @ covariance @ slope, rel=1e-6)
        assert getattr(uncertain, name).value == getattr(given, name).value


def true_dcg_of_seen(truth, seen, scores):
    order = np.argsort(-scores.reshape(truth.shape), axis=1, kind="stable")[:, :3]
    return (np.take_along_axis(truth * seen, order, axis=1) / np.log2(np.arange(3) + 2)).sum(axis=1)


def test_trust_bias_is_warned_about_and_corrected(simulated_log):
    alpha, beta = THETA * np.linspace(0.5, 0.9, 6), THETA * np.linspace(0.45, 0.02, 6)
    rng = np.random.default_rng(1)
    cells, truth = simulated_log(
        rng, 60_000, THETA, n_queries=200, n_documents=6, trust=(alpha, beta), attraction=(0.0, 1.0)
    )
    query, document, scores = candidates(truth, rng, noise=1.0)
    with pytest.warns(UserWarning, match=r"the log shows trust bias \(p ="):
        naive = evaluate_from_clicks(cells, query, document, scores, propensities=THETA)
    found = evaluate_from_clicks(cells, query, document, scores, trust=(alpha, beta))
    lists = np.bincount(
        cells.row_query[cells.sessions.row[cells.sessions.offsets[:-1]]], cells.sessions.count
    )
    expected = lists @ true_dcg(truth, scores)[cells.query_ids] / lists.sum()
    assert found.dcg.value == pytest.approx(expected, abs=0.03)
    assert abs(naive.dcg.value - expected) > 0.2
    with pytest.raises(BadInput, match="trust: expected every alpha > 0"):
        evaluate_from_clicks(cells, query, document, scores, trust=(0 * alpha, beta))
    with pytest.raises(BadInput, match="trust: expected a finite beta for each of 6 positions"):
        evaluate_from_clicks(cells, query, document, scores, trust=(alpha, beta[:2]))


def test_the_unseen_is_told_and_refused():
    cells = ClickCells.from_arrays([1, 1], [5, 6], [1, 2], [1, 0], session=[1, 1])
    new = ([1, 1, 1], [9, 5, 6], [3.0, 2.0, 1.0])
    with pytest.raises(BadInput, match="got 47% of the discounts on documents never shown"):
        evaluate_from_clicks(cells, *new, propensities=[1, 1])
    found = evaluate_from_clicks(cells, *new, propensities=[1, 1], most_unseen=0.5)
    total = 1 + 1 / np.log2(3) + 0.5
    assert found.unseen == pytest.approx(1 / total)
    assert found.bounds == pytest.approx((1 / np.log2(3), 1 / np.log2(3) + 1))
    with pytest.raises(
        BadInput, match="query: expected scores for every query of the log, got none for 1, 1 among"
    ):
        evaluate_from_clicks(cells, [2], [5], [1.0], propensities=[1, 1])
    with pytest.raises(BadInput, match="scores: expected finite numbers"):
        evaluate_from_clicks(cells, [1], [5], [np.nan], propensities=[1, 1])
    with pytest.raises(BadInput, match="cells: expected sessions"):
        evaluate_from_clicks(ClickCells.from_arrays([1], [5], [1], [1]), [1], [5], [1.0])


def test_judgments_by_definition(simulated_log, tmp_path):
    cells, truth = simulated_log(np.random.default_rng(2), 2000, THETA, n_queries=5, n_documents=6)
    shown, clicked = cells.per_position()
    coec, ips, sdbn = (
        judgments(cells, m, propensities=THETA if m == "ips" else None) for m in ("coec", "ips", "sdbn")
    )
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
    for i in range(s.n_distinct):
        rows, clicks = (v[s.offsets[i] : s.offsets[i + 1]] for v in (s.row, s.clicked))
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
    ips.write_table(tmp_path / "t.tsv")
    assert len((tmp_path / "t.tsv").read_text().splitlines()) == cells.n_rows + 1


def test_bad_judgments(tmp_path):
    cells = ClickCells.from_arrays(["a b", "a b"], ["x", "y"], [1, 2], [1, 0])
    with pytest.raises(BadInput, match="query: expected ids without white space"):
        judgments(cells).write_qrels(tmp_path / "q")
    assert not (tmp_path / "q").exists()
    with pytest.raises(BadInput, match="method='ctr'"):
        judgments(cells, "ctr")
    with pytest.raises(BadInput, match="levels="):
        judgments(cells).grades([2, 1])
    with pytest.raises(BadInput, match="expected clicks, got none at all"):
        judgments(ClickCells.from_arrays([1], [5], [1], [0]))
    nothing = judgments(ClickCells.from_arrays([1, 1], [5, 6], [1, 2], [1, 0]))  # no click ever at position 2
    assert nothing.value.tolist() == [1.0, 0.0]
    assert nothing.upper[1] == np.inf
