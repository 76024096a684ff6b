"""LambdaRank's forces are not the gradient of any known function: does it stop at an optimum of the measure?

The method follows Yue and Burges (2007) and Donmez, Svore and Burges, "On the Local Optimality of LambdaRank" (SIGIR
2009). A measure of a ranking is a step function of the weights ``w``. Its average over Gaussian steps around the
weights, ``M_s(w) = E[M(w + s |w| z / sqrt(d))]``, is smooth, and its gradient is proportional to the mean of ``M``
times ``z``. Steps are orthogonal to ``w``, because no ranking changes along ``w``. For a linear scorer the script
prints, for each measure,

* the derivatives of ``M_s`` along every axis and along the forces, with standard errors: at an optimum they are 0; *
  the share of random directions along which the measure itself increases: if it increases along none of 459, then with
  99 % confidence it increases along fewer than 1 % of all directions (the one-sided test of the 2009 paper).

The baseline for LambdaRank is RankNet, which weights all pairs equally. The data are MQ2008's S1 to S3, and a larger
synthetic set whose rule no linear scorer can represent. The plots show NDCG during training.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from _common import Experiment, mq2008
from scipy.stats import binom, norm as normal

from structsvm import LambdaRank
from structsvm.metrics import evaluate
from structsvm.queries import QueryData
from structsvm.trainers.forces import Utility, forces

SMOOTHING = 0.1
STEPS = (0.05, 0.1, 0.2, 0.4)
N_DIRECTIONS = 459
LOOKS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100)
BATCH = 4
ALL = 10**9
# passes, learning rate, queries per step: all queries at the end, so that no noise of batches remains
PASSES = ((100, 0.003, BATCH), (200, 0.001, ALL), (200, 0.0001, ALL))
SHORT = ((2, 0.003, BATCH),)


class Scene(NamedTuple):
    """Training queries, the features given to the scorer, and the measures."""

    data: QueryData
    Z: np.ndarray
    measures: tuple[str, ...]

    def values(self, w: np.ndarray) -> np.ndarray:
        scores = self.Z @ w
        return np.array([measured(measure, self.data, scores) for measure in self.measures])

    def pull(self, utility: str, w: np.ndarray) -> np.ndarray:
        """Return the sum of LambdaRank's forces over all queries, as a direction of the weights."""
        force, _ = forces(self.Z @ w, self.data.y, self.data.offsets, Utility.of(utility))
        return self.Z.T @ force / self.data.n_queries


class Point(NamedTuple):
    """Trained weights, their utility and training length."""

    name: str
    utility: str
    w: np.ndarray


class Ending(NamedTuple):
    """Distance from an optimum of the measure where LambdaRank and RankNet stop."""

    place: str
    sloping: int
    n_axes: int
    norm: float
    rising: np.ndarray
    norm_ranknet: float
    rising_ranknet: np.ndarray

    @property
    def nearer(self) -> bool:
        return self.norm < self.norm_ranknet and bool(self.rising[1] < self.rising_ranknet[1])

    def __str__(self) -> str:
        free = [f"{step:g}" for step, share in zip(STEPS, self.rising, strict=True) if share == 0]
        return (
            f"{self.place}: {self.sloping} of {self.n_axes} derivatives along axes are not 0; gradient norm "
            f"{self.norm:.4f} where LambdaRank trained for it stops, {self.norm_ranknet:.4f} where RankNet does; "
            f"directions that rise by a step of {STEPS[1]:g}: {self.rising[1]:.1%} against "
            f"{self.rising_ranknet[1]:.1%}; "
            + (
                f"none rises by a step of {', '.join(free)}."
                if free
                else "some rise by each of these lengths."
            )
        )


def measured(measure: str, data: QueryData, scores: np.ndarray) -> float:
    # the exponential gain of training
    convention = "burges" if measure.startswith("ndcg") else "trec"
    return float(evaluate(measure, data.y, scores, qid=data.qid, convention=convention, ties="row").mean)


def beyond_linear(seed: int, n_queries: int = 1000, length: int = 20) -> QueryData:
    """Return grades 0 to 3 from a sum of features and a product of two features, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * length, 10))
    worth = X @ rng.normal(size=10) / 2 + X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=X.shape[0])
    place = np.argsort(np.argsort(-worth.reshape(n_queries, length), axis=1), axis=1).ravel()
    y = np.select([place < 1, place < 3, place < 7], [3.0, 2.0, 1.0], 0.0)
    return QueryData.from_arrays(X, y, np.repeat(np.arange(n_queries), length))


def trained(utility: str, data: QueryData, passes: Any, seed: int) -> LambdaRank:
    """Return a linear scorer, trained with smaller and smaller steps and larger batches until it hardly changes."""
    model = LambdaRank(utility, lam=0.0, warm_start=True, random_state=seed)
    for n, rate, batch in passes:
        model.set_params(max_epochs=n, learning_rate=rate, batch_size=batch)
        model.fit(data.X, data.y, qid=data.qid)
    return model


def prepared(data: QueryData, measures: tuple[str, ...], seed: int) -> tuple[Scene, list[Point]]:
    varying = data.X.std(axis=0) > 0
    points = []
    for utility in (*measures, "ranknet"):
        fit = trained(utility, data, PASSES, seed).fit_
        name = "RankNet" if utility == "ranknet" else f"LambdaRank {utility}"
        points.append(Point(name, utility, fit.weights[0][varying]))
    short = trained(measures[0], data, SHORT, seed).fit_.weights[0][varying]
    points.append(Point(f"LambdaRank {measures[0]}, 2 passes", measures[0], short))
    # the columns are scaled in the same way for every utility
    return Scene(data, ((data.X - fit.shift) * fit.factor)[:, varying], measures), points


def across(w: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a random direction without its component along ``w``, which changes no ranking, in units of |w|."""
    z = rng.normal(size=w.shape[0])
    return np.linalg.norm(w) * (z - w * (w @ z) / (w @ w))


def smoothed_gradients(scene: Scene, w: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return samples of the gradient of each smoothed measure, times |w|, shape (n, n_measures, n_features).

    Steps are taken in opposite pairs, which cancels the terms that are even in the step.
    """
    size = SMOOTHING / np.sqrt(w.shape[0])
    out = np.empty((n, len(scene.measures), w.shape[0]))
    for i in range(n):
        z = across(w, rng)
        change = (scene.values(w + size * z) - scene.values(w - size * z)) / (2.0 * size)
        out[i] = np.outer(change, z / np.linalg.norm(w))
    return out


def changes_along(scene: Scene, w: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return the change of each measure along random directions, shape (n, n_steps, n_measures)."""
    here = scene.values(w)
    out = np.empty((n, len(STEPS), len(scene.measures)))
    for i in range(n):
        u = across(w, rng)
        u *= np.linalg.norm(w) / np.linalg.norm(u)
        out[i] = [scene.values(w + step * u) - here for step in STEPS]
    return out


def check(
    run: Experiment, key: str, scene: Scene, points: Sequence[Point], n_samples: int, n_directions: int
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], list[Ending]]:
    """Write both tables of a scene; return t values of derivatives and changes along directions, first measure."""
    rng = np.random.default_rng(run.seed)
    d = scene.Z.shape[1]
    run.say(
        f"**{key}**: {scene.data.n_queries} queries, {d} features that vary, in units of their deviation. Derivatives "
        f"are per relative change of w, from {n_samples} pairs of opposite steps of length {SMOOTHING:g}. axes: of the "
        f"{d} derivatives along axes, how many are further from 0 than 1.96 standard errors ({0.05 * d:.1f} would be "
        "by chance). norm: of the gradient, with what its noise adds taken out. along forces: the derivative in the "
        "direction of the forces for this measure. Stars mark the measure trained for."
    )
    rows, slopes, norms, sloping = [], {}, {}, {}
    for point in points:
        samples = smoothed_gradients(scene, point.w, n_samples, rng)
        here = scene.values(point.w)
        for m, measure in enumerate(scene.measures):
            g, error = samples[:, m].mean(axis=0), samples[:, m].std(axis=0, ddof=1) / np.sqrt(n_samples)
            pull = scene.pull(measure, point.w)
            pull -= point.w * (point.w @ pull) / (point.w @ point.w)
            along = samples[:, m] @ (pull / np.linalg.norm(pull))
            norms[point.name, measure] = float(np.sqrt(max(0.0, float(g @ g - error @ error))))
            sloping[point.name, measure] = int((np.abs(g) > 1.96 * error).sum())
            if m == 0:
                slopes[point.name] = g / error
            rows.append(
                [
                    point.name,
                    measure + "*" * (measure == point.utility),
                    f"{here[m]:.4f}",
                    f"{norms[point.name, measure]:.4f}",
                    sloping[point.name, measure],
                    f"{np.abs(g / error).max():.1f}",
                    f"{along.mean():+.4f}",
                    f"{along.std(ddof=1) / np.sqrt(n_samples):.4f}",
                ]
            )
        print(f"  {point.name} done", flush=True)
    columns = ["weights", "measure", "value", "norm", "axes", "largest t", "along forces", "±"]
    run.table(f"{key}_derivatives", columns, rows)

    run.say(
        f"Share of {n_directions} random directions along which the measure is higher after a step of that length "
        f"relative to w. None of {N_DIRECTIONS} says, with 99 % confidence, that fewer than 1 % of all directions lead "
        "up by such a step."
    )
    rows, first, shares = [], {}, {}
    for point in points:
        change = changes_along(scene, point.w, n_directions, rng)
        first[point.name] = change[:, :, 0]
        for m, measure in enumerate(scene.measures):
            share = (change[:, :, m] > 1e-12).mean(axis=0)
            shares[point.name, measure] = share
            name = measure + "*" * (measure == point.utility)
            rows.append([point.name, name, *(f"{s:.1%}" for s in share), f"{change[:, :, m].max():+.4f}"])
        print(f"  {point.name} done", flush=True)
    run.table(
        f"{key}_directions",
        ["weights", "measure", *(f"step {s:g}" for s in STEPS), "largest gain"],
        rows,
    )
    endings = []
    for measure in scene.measures:
        own, other = (f"LambdaRank {measure}", measure), ("RankNet", measure)
        endings.append(
            Ending(f"{key}, {measure}", sloping[own], d, norms[own], shares[own], norms[other], shares[other])
        )
    run.say("\n".join(f"* {ending}" for ending in endings))
    return slopes, first, endings


def conclusion(endings: Sequence[Ending], n_directions: int) -> str:
    """Compare the results with the paper's."""
    n = len(endings)
    free = [
        f"{sum(bool(e.rising[i] == 0) for e in endings)} by one of {step:g}" for i, step in enumerate(STEPS)
    ]
    more_than_chance = sum(e.sloping > binom.ppf(0.99, e.n_axes, 0.05) for e in endings)
    nearer = sum(e.nearer for e in endings)
    return (
        "The abstract of the 2009 paper says that LambdaRank finds a local optimum of NDCG@10, NDCG, MAP and MRR with "
        f"99 % confidence. Of the {n} endings here, each looked at in {n_directions} directions, so many have none "
        f"that rises by a step: {', '.join(free)}. In {nearer} of {n} LambdaRank stops nearer to an optimum of its "
        "measure than RankNet, in gradient and in directions; but the smoothed measure still has more slopes than "
        f"chance in {more_than_chance} of {n}. A measure over a few hundred queries is made of small steps, some of "
        "which lead up from anywhere, and short steps find them most; the made set, of more queries and fewer "
        "features, has fewer such directions. Where training stops depends on its noise, too: with 16 queries a step "
        "throughout it was nearer than RankNet in 4 of 4 (seed 0), so that only what holds either way, NDCG@10 on both "
        "sets, should be relied on. The lengths of the paper's steps and its training sets were not at hand."
    )


def curve(
    data: QueryData, validation: QueryData, options: dict[str, Any], passes: Sequence[int], seed: int
) -> dict[str, list[float]]:
    """Return NDCG@10 on both parts by passes: a longer training starts exactly like a shorter one."""
    out: dict[str, list[float]] = {"training": [], "validation": []}
    model = LambdaRank(random_state=seed, early_stopping=False, **options)
    for n in passes:
        model.set_params(max_epochs=n).fit(data.X, data.y, qid=data.qid)
        for part, rows in (("training", data), ("validation", validation)):
            out[part].append(measured("ndcg@10", rows, model.predict(rows.X)))
    return out


def main() -> None:
    run = Experiment("lambdarank_gradients", __doc__, needs=["letor4_mq2008"])
    n_samples, n_directions = (200, 60) if run.quick else (2000, N_DIRECTIONS)
    data, validation = mq2008(run.data), mq2008(run.data, ["S4"])
    run.section("Is the end of training an optimum of the measure?")
    panels = []
    for key, queries, measures in (
        ("MQ2008", data, ("ndcg@10",) if run.quick else ("ndcg@10", "map", "mrr")),
        ("made", beyond_linear(run.seed, 200 if run.quick else 1000), ("ndcg@10",)),
    ):
        scene, points = prepared(queries, measures, run.seed)
        panels.append((key, *check(run, key, scene, points, n_samples, n_directions)))

    run.section("Beside the paper")
    run.say(conclusion([ending for *_, endings in panels for ending in endings], n_directions))

    looks = LOOKS[:6] if run.quick else LOOKS
    kinds: dict[str, dict[str, Any]] = {
        "LambdaRank": {},
        "RankNet": {"utility": "ranknet"},
        "LambdaRank, 32 hidden": {"hidden": (32,)},
    }
    histories = {label: curve(data, validation, options, looks, run.seed) for label, options in kinds.items()}
    run.record["during_training"] = {"passes": list(looks)} | {
        label: {part: [round(v, 5) for v in values] for part, values in parts.items()}
        for label, parts in histories.items()
    }

    def during(part: str) -> Callable[[Any], None]:
        def draw(ax: Any) -> None:
            for label, parts in histories.items():
                ax.semilogx(looks, parts[part], marker=".", label=label, lw=1)
            ax.set_xlabel("passes over the queries", fontsize=7)
            ax.set_ylabel("NDCG@10", fontsize=7)

        return draw

    def along_steps(changes: dict[str, np.ndarray]) -> Callable[[Any], None]:
        def draw(ax: Any) -> None:
            for name, values in changes.items():
                (line,) = ax.plot(STEPS, values.mean(axis=0), label=name, lw=1)
                ax.plot(STEPS, values.max(axis=0), lw=0.8, ls=":", color=line.get_color())
            ax.axhline(0, color="black", lw=0.5)
            ax.set_xlabel("step, relative to w", fontsize=7)
            ax.set_ylabel("change of NDCG@10: mean, largest (dotted)", fontsize=7)

        return draw

    def spread(slopes: dict[str, np.ndarray]) -> Callable[[Any], None]:
        def draw(ax: Any) -> None:
            for name, t in slopes.items():
                ax.plot(np.sort(t), (np.arange(t.shape[0]) + 0.5) / t.shape[0], label=name, lw=1)
            x = np.linspace(-3, 3, 61)
            ax.plot(x, normal.cdf(x), color="black", lw=0.5, label="chance")
            ax.set_xlabel("derivative of smoothed NDCG@10 / standard error", fontsize=7)
            ax.set_ylabel("share of axes below", fontsize=7)

        return draw

    run.plot("MQ2008, training queries", during("training"))
    run.plot("MQ2008, validation queries (S4)", during("validation"))
    for key, slopes, changes, _ in panels:
        run.plot(f"{key}: random directions", along_steps(changes))
        run.plot(f"{key}: derivatives", spread(slopes))
    run.save()


if __name__ == "__main__":
    main()
