"""Estimates from clicks where the truth is known: propensities, and the quality of a new ranker, with their intervals.

Users of MQ2008 as in ``clicks_to_ranker.py``: they look at position ``k`` with probability ``1 / k`` and click on what
they look at with probability 1 if it is relevant, else .1. Propensities are harvested from logs of three rankers; a new
ranker is evaluated from logs of one and of three others. An interval holds if the truth is inside. With trust bias,
users click on what is not relevant with .5 at the top, falling to .1. The intervals with known propensities are
counted over 2,000 logs, so that noise moves their share by .005 (one standard error): list by list by their formula,
with which ``evaluate_from_clicks`` has to agree on the first 300 logs. All others are counted over these 300 (.013).
Rows with harvested propensities are the default of ``evaluate_from_clicks``; all others weigh by list (``"ips"``).
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from _common import Experiment, mq2008
from clicks_to_ranker import NOISE, cells_of, harvested, production, simulate
from scipy.stats import norm

from structsvm import PairwiseSVM
from structsvm.clicks import ClickCells, evaluate_from_clicks, harvest
from structsvm.queries import QueryData

K = 10
CLAIMED = {"IPS": "dcg", "difference": "difference", "self-normalised": "discount"}


class Log(NamedTuple):
    """Lists one after the other: the list of each entry, its query, row, position and click; and where lists begin."""

    session: Any
    query: Any
    row: Any
    position: Any
    clicked: Any
    starts: Any

    def cells(self) -> ClickCells:
        """Their counts."""
        return ClickCells.from_arrays(
            self.query, self.row, self.position, self.clicked, session=self.session, first_position=1
        )


def lists(data: QueryData, ranks: list[Any], n: int, rng: np.random.Generator, alpha: Any, beta: Any) -> Log:
    """A log of ``n`` lists of any of the rankers; clicks with ``alpha * attraction + beta`` by position."""
    attraction = np.where(data.y >= 1, 1.0, NOISE)
    query, ranker = rng.integers(data.n_queries, size=n), rng.integers(len(ranks), size=n)
    lengths = np.diff(data.offsets)[query]
    ends = np.cumsum(lengths)
    row = np.arange(ends[-1]) + np.repeat(data.offsets[query] - ends + lengths, lengths)
    position = np.stack(ranks)[np.repeat(ranker, lengths), row]
    clicked = rng.random(row.size) < alpha[position - 1] * attraction[row] + beta[position - 1]
    session = np.repeat(np.arange(n), lengths)
    return Log(session, np.repeat(query, lengths), row, position, clicked, ends - lengths)


def by_list(log: Log, theta: Any, new: Any) -> dict[str, tuple[float, float, float]]:
    """The intervals by their formulas: value, lower and upper end."""
    weight = log.clicked / theta[log.position - 1]
    value, shown, gain = (
        np.add.reduceat(weight * v, log.starts)
        for v in (new[log.row], discounts(log.position), np.ones(log.row.size))
    )
    ratio = value.sum() / gain.sum()
    residual = (value - ratio * gain) / gain.mean()
    found = {}
    for name, mean, values in (("dcg", value.mean(), value), ("difference", (value - shown).mean(), value - shown),
                               ("discount", ratio, residual)):  # fmt: skip
        half = norm.ppf(0.975) * values.std(ddof=1) / np.sqrt(values.size)
        found[name] = (mean, mean - half, mean + half)
    return found


def discounts(rank: Any) -> Any:
    """Discounts of DCG@10."""
    return np.where(rank <= K, 1 / np.log2(rank + 1.0), 0.0)


def propensities(run: Experiment, data: QueryData) -> None:
    """Errors of harvested propensities, ranks 2 to 10, and how often their intervals hold."""
    rows = []
    n = run.runs(20, 200)
    for clicks in (8_000, 80_000, 800_000):
        errors, held = [], []
        for seed in range(n):
            rng = np.random.default_rng([run.seed, clicks, seed])
            theta = harvest(cells_of(simulate(data, production(data, rng, 3), clicks, rng), data), last=10)
            truth = 1 / np.arange(1, 11)
            errors.append(np.abs(theta.theta / truth - 1)[1:10].mean())
            z = (np.log(theta.theta) - np.log(truth))[1:10] / theta.standard_errors[1:10]
            held.append(np.abs(z) <= 1.96)
        rows.append([f"{clicks:,}", np.mean(errors), np.mean(held)])
    run.section(f"Harvested propensities of {n} logs")
    run.table("harvest", ["clicks", "mean relative error", "intervals that hold"], rows)


def evaluation(run: Experiment, data: QueryData) -> None:
    """Bias, spread and coverage of a new ranker's DCG@10 by logs of others."""
    rng = np.random.default_rng([run.seed, 7])
    new = PairwiseSVM(C=10, normalize="query").fit(data.X, (data.y >= 1).astype(float), qid=data.qid)
    scores = new.predict(data.X)
    models = production(data, rng, 3)
    theta = 1 / np.arange(1, int(np.diff(data.offsets).max()) + 1)
    attraction = np.where(data.y >= 1, 1.0, NOISE)
    query = np.repeat(np.arange(data.n_queries), np.diff(data.offsets))

    rank = new.rank(data.X, data.qid)
    dcg = (attraction * discounts(rank)).sum() / data.n_queries
    trusting = theta * np.linspace(0.5, 0.9, theta.size), theta * np.linspace(0.5, 0.1, theta.size)
    rows = []
    n, n_few = run.runs(30, 2000), run.runs(30, 300)
    for size in (10**3, 10**4):
        for n_rankers in (1, 3):
            ranks = [m.rank(data.X, data.qid) for m in models[:n_rankers]]
            old = np.mean([(attraction * discounts(r)).sum() / data.n_queries for r in ranks])
            truth = {"dcg": dcg, "difference": dcg - old,
                     "discount": (attraction * discounts(rank)).sum() / attraction.sum()}  # fmt: skip
            found: dict[tuple[str, str], list[Any]] = {}
            for seed in range(n):
                draw = np.random.default_rng([run.seed, size, n_rankers, seed])
                log = lists(data, ranks, size, draw, theta, np.zeros(theta.size))
                intervals = by_list(log, theta, discounts(rank))
                for name, field in CLAIMED.items():
                    found.setdefault((name, field), []).append(intervals[field])
                if seed >= n_few:
                    continue
                cells = log.cells()
                whole = estimated(cells, query, scores, {"propensities": theta})
                for field in CLAIMED.values():
                    np.testing.assert_allclose(getattr(whole, field), intervals[field], rtol=1e-9, atol=1e-12)
                if n_rankers > 1:
                    own = {"propensities": harvested(cells), "weighting": "policy"}
                    whole = estimated(cells, query, scores, own)
                    for name, field in CLAIMED.items():
                        found.setdefault((f"{name}, harvested", field), []).append(getattr(whole, field))
                biased = lists(data, ranks, size, draw, *trusting).cells()
                for name, of, options in (
                    ("naive", cells, {"propensities": np.ones(theta.size)}),
                    ("clipped at .1", cells, {"propensities": theta, "clip": 0.1}),
                    ("trust bias, IPS", biased, {"propensities": theta}),
                    ("trust bias, corrected", biased, {"trust": trusting}),
                ):
                    found.setdefault((name, "dcg"), []).append(estimated(of, query, scores, options).dcg)
            for (name, field), intervals in found.items():
                values = np.array(list(intervals))
                below, above = (values[:, 2] < truth[field]).mean(), (values[:, 1] > truth[field]).mean()
                rows.append([f"{size:,}", n_rankers, name, len(intervals), f"{values[:, 0].mean() - truth[field]:+.4f}",
                             values[:, 0].std(ddof=1), 1 - below - above, below, above])  # fmt: skip
    run.section(f"DCG@{K} of a new ranker (true value {dcg:.3f})")
    columns = [
        "sessions",
        "rankers",
        "estimate",
        "logs",
        "bias",
        "sd",
        "95 % interval holds",
        "is below",
        "is above",
    ]
    run.table("evaluation", columns, rows)


def estimated(log: ClickCells, query: Any, scores: Any, options: dict[str, Any]) -> Any:
    """The estimate for all queries of the log; its warning of trust bias is expected here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        known = np.isin(query, log.query_ids)
        rows = np.arange(query.size)[known]
        return evaluate_from_clicks(
            log, query[known], rows, scores[known], k=K, **{"weighting": "ips"} | options
        )


def main() -> None:
    run = Experiment("counterfactual_coverage", __doc__ or "")
    data = mq2008(run.data)
    propensities(run, data)
    evaluation(run, data)
    run.save()


if __name__ == "__main__":
    main()
