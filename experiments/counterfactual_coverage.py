"""Estimates from clicks where the truth is known: propensities, and the quality of a new ranker, with their intervals.

Users are simulated on MQ2008 as in ``clicks_to_ranker.py``: they examine position ``k`` with probability ``1 / k`` and
click on an examined document with probability 1 if it is relevant, otherwise .1. Propensities are harvested from logs
of three rankers; a new ranker is evaluated from logs of one and of three other rankers. An interval holds if it
contains the true value. With trust bias, users click on an examined irrelevant document with probability .5 at the top,
decreasing to .1. The coverage of intervals with known propensities is measured over 2,000 logs, with a standard error
of .005; they are computed by their formula, list by list, and ``evaluate_from_clicks`` has to agree with the formula on
the first 300 logs. The coverage of all other intervals is measured over these 300 logs (standard error .013). Rows with
harvested propensities use the default of ``evaluate_from_clicks``; all others weight lists (``"ips"``). The remaining
tables are from generated logs in the shapes of real logs (``_click_logs.py``): a few queries with most of the clicks,
lists with gaps, users with different preferences, and trust bias; 300 logs each, with the default options.
"""

import warnings
from typing import Any, NamedTuple

import numpy as np
from _click_logs import QUERIES, USERS, discounted, liked, logged, of_queries, of_users, rankings, with_gaps
from _common import Experiment, mq2008
from clicks_to_ranker import NOISE, cells_of, harvested, production, simulate
from scipy.stats import t

from structsvm import PairwiseSVM
from structsvm.clicks import ClickCells, evaluate_from_clicks, harvest, trust_bias
from structsvm.clicks.propensities import TRUST_LEVEL
from structsvm.common.checks import BadInput
from structsvm.queries import QueryData

K = 10
CLAIMED = {"IPS": "dcg", "difference": "difference", "self-normalised": "discount"}


class Log(NamedTuple):
    """Concatenated lists: the list of each entry, its query, row, position and click; and the starts of the lists."""

    session: Any
    query: Any
    row: Any
    position: Any
    clicked: Any
    starts: Any

    def cells(self) -> ClickCells:
        """Return the lists counted as ``ClickCells``."""
        return ClickCells.from_arrays(
            self.query, self.row, self.position, self.clicked, session=self.session, first_position=1
        )


def lists(data: QueryData, ranks: list[Any], n: int, rng: np.random.Generator, alpha: Any, beta: Any) -> Log:
    """Return a log of ``n`` lists of random rankers with click probability ``alpha * attraction + beta``."""
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
    """Compute each interval from its formula; return its value, lower and upper end."""
    weight = log.clicked / theta[log.position - 1]
    value, shown, gain = (
        np.add.reduceat(weight * v, log.starts)
        for v in (new[log.row], discounts(log.position), np.ones(log.row.size))
    )
    ratio = value.sum() / gain.sum()
    residual = (value - ratio * gain) / gain.mean()
    found = {}
    for name, mean, values in (
        ("dcg", value.mean(), value),
        ("difference", (value - shown).mean(), value - shown),
        ("discount", ratio, residual),
    ):
        half = t.ppf(0.975, values.size - 1) * values.std(ddof=1) / np.sqrt(values.size)
        found[name] = (mean, mean - half, mean + half)
    return found


def discounts(rank: Any) -> Any:
    """Return the discounts of DCG@10."""
    return np.where(rank <= K, 1 / np.log2(rank + 1.0), 0.0)


def propensities(run: Experiment, data: QueryData) -> None:
    """Tabulate the errors of harvested propensities for ranks 2 to 10, and the coverage of their intervals."""
    rows = []
    n = run.runs(20, 200)
    truth = 1 / np.arange(1, 11)
    for clicks in (8_000, 80_000, 800_000):

        def compute(clicks: int = clicks) -> dict[str, Any]:
            errors, held = [], []
            for seed in range(n):
                rng = np.random.default_rng([run.seed, clicks, seed])
                theta = harvest(
                    cells_of(simulate(data, production(data, rng, 3), clicks, rng), data), last=10
                )
                errors.append(np.abs(theta.theta / truth - 1)[1:10].mean())
                low, high = theta.interval()
                held.append(((low <= truth) & (truth <= high))[1:])
            return {"errors": errors, "held": held}

        kept = run.once(compute)
        rows.append([f"{clicks:,}", kept["errors"].mean(), kept["held"].mean()])
    run.section(f"Harvested propensities of {n} logs")
    run.table("harvest", ["clicks", "mean relative error", "intervals that hold"], rows)


def evaluation(run: Experiment, data: QueryData) -> None:
    """Tabulate bias, standard deviation and coverage of a new ranker's DCG@10, estimated from logs of other rankers."""
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
            truth = {
                "dcg": dcg,
                "difference": dcg - old,
                "discount": (attraction * discounts(rank)).sum() / attraction.sum(),
            }

            def compute(size: int = size, n_rankers: int = n_rankers, ranks: Any = ranks) -> dict[str, Any]:
                found: dict[str, list[Any]] = {}
                for seed in range(n):
                    draw = np.random.default_rng([run.seed, size, n_rankers, seed])
                    log = lists(data, ranks, size, draw, theta, np.zeros(theta.size))
                    intervals = by_list(log, theta, discounts(rank))
                    for name, field in CLAIMED.items():
                        found.setdefault(f"{name}:{field}", []).append(intervals[field])
                    if seed >= n_few:
                        continue
                    cells = log.cells()
                    whole = estimated(cells, query, scores, {"propensities": theta})
                    for field in CLAIMED.values():
                        np.testing.assert_allclose(
                            getattr(whole, field), intervals[field], rtol=1e-9, atol=1e-12
                        )
                    if n_rankers > 1:
                        own = {"propensities": harvested(cells), "weighting": "policy"}
                        whole = estimated(cells, query, scores, own)
                        for name, field in CLAIMED.items():
                            found.setdefault(f"{name}, harvested:{field}", []).append(getattr(whole, field))
                    biased = lists(data, ranks, size, draw, *trusting).cells()
                    for name, of, options in (
                        ("naive", cells, {"propensities": np.ones(theta.size)}),
                        ("clipped at .1", cells, {"propensities": theta, "clip": 0.1}),
                        ("trust bias, IPS", biased, {"propensities": theta}),
                        ("trust bias, corrected", biased, {"propensities": trusting}),
                    ):
                        found.setdefault(f"{name}:dcg", []).append(estimated(of, query, scores, options).dcg)
                return dict(found)

            for key, values in run.once(compute).items():
                name, field = key.split(":")
                below, above = (values[:, 2] < truth[field]).mean(), (values[:, 1] > truth[field]).mean()
                rows.append(
                    [
                        f"{size:,}",
                        n_rankers,
                        name,
                        len(values),
                        f"{values[:, 0].mean() - truth[field]:+.4f}",
                        values[:, 0].std(ddof=1),
                        1 - below - above,
                        below,
                        above,
                    ]
                )
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
    """Return the estimate for all queries of the log; the warning of trust bias is expected and ignored."""
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        known = np.isin(query, log.query_ids)
        rows = np.arange(query.size)[known]
        return evaluate_from_clicks(
            log, query[known], rows, scores[known], k=K, **{"weighting": "ips"} | options
        )


def holds(intervals: Any, truth: Any) -> Any:
    """Return which intervals (value, lower, upper) contain the truth."""
    return (intervals[:, 1] <= truth) & (truth <= intervals[:, 2])


def queries_of_unequal_size(run: Experiment) -> None:
    """Tabulate harvested propensities, and the test of trust bias without trust bias, by the shares of the queries."""
    n = run.runs(30, 300)
    theta, rows = 1 / np.arange(1, 7), []
    for k, (name, (_, n_lists)) in enumerate(QUERIES.items()):

        def compute(name: str = name, k: int = k) -> dict[str, Any]:
            held, error, spread, sizes, found = [], [], [], [], []
            for seed in range(n):
                cells = of_queries(np.random.default_rng([run.seed, 11, k, seed]), name)
                found.append(trust_bias(cells).p_value)
                try:
                    own = harvest(cells)
                except BadInput:  # a single query may leave positions unconnected
                    continue
                low, high = own.interval()
                held.append(((low <= theta) & (theta <= high))[1:])
                error.append(np.log(own.theta / theta)[1:])
                spread.append((np.log(high / low) / 2)[1:])
                sizes.append(own.effective_clusters)
            return {"held": held, "error": error, "spread": spread, "sizes": sizes, "p": found}

        kept = {name: np.array(values, dtype=float) for name, values in run.once(compute).items()}
        rows.append(
            [
                name,
                f"{n_lists:,}",
                len(kept["held"]),
                kept["sizes"].mean(),
                kept["held"].mean(),
                kept["error"].std(),
                np.median(kept["spread"]),
                np.nanmean(kept["p"] < 0.05),
            ]
        )
    run.section(f"Harvested propensities by the queries of a log, {n:,} logs each")
    run.say(
        "Positions 2 to 6 of three rankers. A log whose rankers leave positions apart is refused, so a row may have "
        "fewer logs. Spread of the estimates and half a width are of logarithms: their ratio is 1.96 where the error "
        "is known. Where two or three queries have nearly all clicks, the error is estimated with hardly more than "
        "one degree of freedom, intervals are up to twice as wide, and hold more often than they say: between queries "
        "such a log tells little. In the last column, p < .05 where there is no trust bias."
    )
    columns = [
        "queries",
        "lists",
        "logs",
        "effective queries",
        "intervals that hold",
        "sd",
        "half a width",
        "trust bias found",
    ]
    run.table("queries", columns, rows)


SHAPES = (
    ("none", 1000, 0.0),
    ("lost", 1000, 0.02),
    ("lost", 1000, 0.1),
    ("lost", 1000, 0.3),
    ("lost", 50, 0.1),
    ("lost", 50, 0.3),
    ("advertisement", 50, 0.5),
    ("second page", 50, 0.5),
    ("no session", 50, 0.4),
)


def candidates(n_queries: int) -> tuple[Any, Any]:
    """Return the attractions of eight documents for each query, and the scores of a new ranker."""
    truth = np.random.default_rng(5).beta(1, 3, (n_queries, 8))
    return truth, truth + 0.2 * np.random.default_rng(6).normal(size=truth.shape)


def gaps(run: Experiment) -> None:
    """Estimate a new ranker's DCG from logs with lost impressions, advertisements, split lists, or no sessions."""
    n, rows = run.runs(30, 300), []
    for k, (shape, n_queries, share) in enumerate(SHAPES):
        truth, new = candidates(n_queries)
        expected = discounted(truth, np.argsort(-new, axis=1), K).mean()

        def compute(
            shape: str = shape, share: float = share, k: int = k, truth: Any = truth, new: Any = new
        ) -> dict[str, Any]:
            found: dict[str, list[Any]] = {"given": [], "harvested": []}
            for seed in range(n):
                rng = np.random.default_rng([run.seed, 12, k, seed])
                orders = rankings(rng, truth, 3, 0.2)
                if shape == "none":
                    cells = logged(rng, 5000, truth, orders).counted()
                else:
                    cells = with_gaps(rng, shape, 5000, truth, orders, share)
                for name, theta in (("given", 1 / np.arange(1, 10)), ("harvested", None)):
                    found[name].append(of_candidates(cells, new, theta).dcg)
            return dict(found)

        for name, intervals in run.once(compute).items():
            rows.append(
                [
                    shape,
                    share,
                    f"{n_queries:,}",
                    name,
                    f"{100 * (intervals[:, 0].mean() / expected - 1):+.1f} %",
                    intervals[:, 0].std(ddof=1),
                    holds(intervals, expected).mean(),
                ]
            )
    run.section(f"DCG@{K} of a new ranker where lists have gaps, {n:,} logs of 5,000 lists each")
    run.say(
        "Lists of eight documents. Impressions were lost at random; an advertisement stands on top of a list; a list "
        "is logged in two parts; lists have no session. Where some documents of a query were never shown, the "
        "estimate is too low by what they hold, which is told (``unseen``, ``bounds``)."
    )
    run.table("gaps", ["gaps", "share", "queries", "propensities", "bias", "sd", "95 % interval holds"], rows)


def of_candidates(cells: ClickCells, new: Any, theta: Any) -> Any:
    """Return the estimate for all queries of the log."""
    query, document = (v.ravel() for v in np.indices(new.shape))
    known = np.isin(query, cells.query_ids)
    # of trust bias, by chance in one log of a hundred
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        return evaluate_from_clicks(
            cells, query[known], document[known], new.ravel()[known], propensities=theta, k=K
        )


def users(run: Experiment) -> None:
    """Estimate a new ranker's DCG when users differ or repeat themselves."""
    n, rows = run.runs(30, 300), []
    truth, new = candidates(50)
    best = np.argsort(-new, axis=1)
    for k, (name, size, repeat) in enumerate(
        (
            ("200 equal", "equal", 0.0),
            ("one of 30 %", "one of 30 %", 0.0),
            ("who repeat sessions", "equal", 0.5),
        )
    ):
        mean = truth if repeat else liked(truth)

        def compute(size: str = size, repeat: float = repeat, k: int = k, mean: Any = mean) -> dict[str, Any]:
            found: dict[str, list[Any]] = {}
            for seed in range(n):
                rng = np.random.default_rng([run.seed, 13, k, seed])
                orders = rankings(rng, truth, 3, 0.2)
                lists, user = of_users(rng, 10_000, truth, orders, share=USERS[size], repeat=repeat)
                better = discounted(mean, best, K).mean() - discounted(mean, orders, K).mean()
                for by, options in (("lists", {}), ("users", {"cluster": user})):
                    cells = lists.counted(**options)
                    for theta in ("given", "harvested"):
                        one = of_candidates(cells, new, 1 / np.arange(1, 9) if theta == "given" else None)
                        difference = [value - better for value in one.difference]
                        found.setdefault(f"{by}, {theta}", []).append([*one.dcg, *difference])
            return dict(found)

        for way, values in run.once(compute).items():
            expected = discounted(mean, best, K).mean()
            rows.append(
                [
                    name,
                    *way.split(", "),
                    f"{100 * (values[:, 0].mean() / expected - 1):+.1f} %",
                    holds(values[:, :3], expected).mean(),
                    holds(values[:, 3:], 0.0).mean(),
                ]
            )
    run.section(f"DCG@{K} of a new ranker by clicks of users with tastes, {n:,} logs of 10,000 lists each")
    run.say(
        "200 users, each of whom likes some documents more than others do; or who see the list again that they had, "
        "and click as before, every second time. Intervals over lists, for comparison, and over users "
        "(``cluster=`` of the readers)."
    )
    run.table("users", ["users", "intervals over", "propensities", "bias", "DCG", "difference"], rows)


def trusting(run: Experiment) -> None:
    """Tabulate how often there is a warning of trust bias, by the size of the log."""
    n, rows = run.runs(10, 300), []
    truth, _ = candidates(100)
    fall = np.linspace(0.4, 0.05, 8)
    for k, size in enumerate((10_000, 30_000, 100_000)):

        def compute(size: int = size, k: int = k) -> dict[str, Any]:
            found = []
            for seed in range(n):
                rng = np.random.default_rng([run.seed, 14, k, seed])
                lists = logged(rng, size, truth, rankings(rng, truth, 3, 0.2))
                attraction = truth[lists.query[:, None], lists.shown]
                chance = (attraction + (1 - attraction) * fall) / (1 + lists.place)
                bias = trust_bias(lists._replace(clicked=rng.random(chance.shape) < chance).counted())
                found.append([bias.p_value, bias.detectable])
            return {"found": found}

        p, detectable = run.once(compute)["found"].T
        rows.append([f"{size:,}", n, (p < TRUST_LEVEL).mean(), np.median(detectable)])
    run.section("How often trust bias is warned of")
    run.say(
        "P(click | seen, poor) falls from .4 at the top to .05 at the eighth place, eight times as fast as by position "
        "alone. ``detectable``: the factor for which the warning would come in eight logs of ten (median)."
    )
    run.table("trust", ["lists", "logs", "warned", "detectable"], rows)


def main() -> None:
    run = Experiment(
        "counterfactual_coverage", __doc__ or "", ("mq2008", "generated"), needs={"mq2008": ["letor4_mq2008"]}
    )
    if run.part("mq2008"):
        data = mq2008(run.data)
        propensities(run, data)
        evaluation(run, data)
    if run.part("generated"):
        queries_of_unequal_size(run)
        gaps(run)
        users(run)
        trusting(run)
    run.save()


if __name__ == "__main__":
    main()
