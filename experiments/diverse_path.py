"""DiverseRanker beside other selectors: synthetic passages for generation, budgets, marks, AMBIENT, articles.

A question has 50 passages with embeddings, each about one of 12 facts, four of which the answer needs. The measure is
the share of the needed facts in the five passages chosen. 40 questions train and 200 test; figures are means over three
samples of training questions. p is the two-tailed p-value of Wilcoxon's test over the test questions, for the
difference from `DiverseRanker`. "MMR tuned" chooses its trade-off on the training questions, `MMR.fit` also the score
and its smoothing; "stage" is MMR tuned on the score that SVM-map learns from the scores and their smoothed values.
Texts are measured by the weighted subtopic loss: AMBIENT over 11 folds, articles and the sets of chapter 4 over several
samples.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import diversity_newspaper
import diversity_synthetic
import numpy as np
from _common import Experiment
from _diversity_common import counted, pick

from structsvm import CandidateSet, DiverseRanker, StructuralRanker, SVMDiv
from structsvm.estimators.baselines import MMR, Clairvoyant, FacilityLocation
from structsvm.features import smooth_similarity, soft_subtopics
from structsvm.features.greedy_steps import StepFeatures, Walk
from structsvm.metrics import compare, subtopic_recall, weighted_subtopic_loss
from structsvm.readers import read_ambient

K, BUDGET = 5, 450.0
TRADE_OFFS = (0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
PATH = "DiverseRanker"


class Questions(NamedTuple):
    """Passages of each question, the needed facts in each passage, and its number of words."""

    sets: list[CandidateSet]
    labels: list[np.ndarray]
    words: list[np.ndarray]


def useful(n: int, seed: int, *, noise=0.6, two=0.0, scores=1, rare=0.0) -> Questions:
    """Return questions with scores from the numbers of needed facts and embeddings from mean directions, with noise."""
    rng, out = np.random.default_rng(seed), Questions([], [], [])
    while len(out.sets) < n:
        need, center = rng.permutation(12)[:4], rng.normal(size=(12, 24))
        p = rng.dirichlet(np.full(12, 1.5))
        p[need] *= 1 - rare
        has = np.eye(12)[rng.choice(12, 50, p=p / p.sum())].astype(bool)
        more = rng.random(50) < two
        has[more, rng.choice(12, 50)[more]] = True
        embeddings = (has @ center) / np.sqrt(has.sum(axis=1))[:, None] + 0.45 * rng.normal(size=(50, 24))
        hits = np.minimum(has[:, need].sum(axis=1), 1.5)
        columns = [hits + (1 + i) * noise * rng.normal(size=50) for i in range(scores)]
        add(out, embeddings, columns, has[:, need], rng)
    return out


def cosine(n: int, seed: int, *, vague=0.5, spread=0.6, lexical=False) -> Questions:
    """Return questions with cosines to the query as scores; the query is near the mean of the needed facts."""
    rng, out = np.random.default_rng(seed), Questions([], [], [])
    while len(out.sets) < n:
        theme = rng.normal(size=(3, 32))
        center = 0.7 * theme[rng.integers(0, 3, 12)] + rng.normal(size=(12, 32))
        need = rng.permutation(12)[:4]
        fact = rng.choice(12, 50, p=rng.dirichlet(np.full(12, 1.5)))
        embeddings = center[fact] + spread * rng.normal(size=(50, 32))
        mean = center[need].mean(axis=0)
        query = mean + vague * rng.normal(size=32) * np.linalg.norm(mean) / np.sqrt(32)
        unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
        columns = [unit @ (query / np.linalg.norm(query))]
        columns += [np.isin(fact, need) + 0.9 * rng.normal(size=50)] * lexical
        add(out, embeddings, columns, fact[:, None] == need, rng)
    return out


def add(out: Questions, embeddings, columns, has, rng) -> None:
    words = np.exp(rng.normal(4, 0.7, 50)).round() + 10
    if has.any():
        unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
        out.sets.append(
            CandidateSet.from_similarity(np.clip(unit @ unit.T, -1, 1), features=np.stack(columns, axis=1))
        )
        out.labels.append(has[:, has.any(axis=0)].astype(float))
        out.words.append(words)


KINDS: dict[str, tuple[Callable[..., Questions], dict[str, Any]]] = {
    "score = useful + noise": (useful, {}),
    "noisier": (useful, {"noise": 1.2}),
    "needed facts rare": (useful, {"rare": 0.6}),
    "two scores": (useful, {"scores": 2, "noise": 0.8}),
    "two facts a passage": (useful, {"two": 0.4}),
    "score = cosine to query": (cosine, {}),
    "vaguer query": (cosine, {"vague": 1.2}),
    "cosine and a lexical score": (cosine, {"lexical": True}),
    "near duplicates": (cosine, {"spread": 0.3}),
}


def drawn(run: Experiment, kind: str) -> tuple[Questions, list[Questions]]:
    """Return test questions, and three samples of training questions."""
    make, options = KINDS[kind]
    seed = 10_000 + 1000 * run.seed
    n, draws = (60, 1) if run.quick else (200, 3)
    return make(n, seed, **options), [make(40, seed + 1 + i, **options) for i in range(draws)]


def tuned(sets, labels, loss, k=K) -> MMR:
    """Return MMR with the trade-off of the smallest mean loss."""
    return min((MMR(k, t) for t in TRADE_OFFS), key=lambda one: np.mean(loss(labels, one.predict(sets))))


def missed(labels, chosen) -> np.ndarray:
    return 1.0 - subtopic_recall(labels, chosen)


def staged(train: Questions, test: Questions) -> list[np.ndarray]:
    """Return the documents that MMR, tuned on the score of SVM-map, selects."""

    def columns(sets):
        each = [StepFeatures(one) for one in sets]
        return [np.hstack([one.document, one.similarities[0].smooth]) for one in each]

    rows = columns(train.sets)
    model = StructuralRanker("map", C=10, scale="query-minmax").fit(
        np.vstack(rows),
        np.concatenate([labels.any(axis=1) for labels in train.labels]).astype(int),
        qid=np.repeat(np.arange(len(rows)), list(map(len, rows))),
    )

    def scored(sets):
        each = [model.predict(X, qid=np.zeros(len(X), dtype=int)) for X in columns(sets)]
        return [
            CandidateSet.from_similarity(one.similarity, features=score[:, None])
            for one, score in zip(sets, each, strict=True)
        ]

    return tuned(scored(train.sets), train.labels, missed).predict(scored(test.sets))


def table(run: Experiment, key: str, losses: dict[str, np.ndarray], *, share: bool) -> None:
    """Add a row per method with its difference from ``DiverseRanker``; ``share`` shows 1 - loss instead of the loss."""
    ours, rows = losses[PATH], []
    for name, values in losses.items():
        test = None if name == PATH else compare(values, ours)
        rows.append(
            [
                name,
                1 - values.mean() if share else values.mean(),
                "" if test is None else f"{test.wins}/{test.ties}/{test.losses}",
                "" if test is None else f"{test.p_value:.2g}",
            ]
        )
    run.say(f"**{key}**, {len(ours)} queries:")
    run.table(key, ["method", "share" if share else "loss", f"wins/ties/losses of {PATH}", "p"], rows)


def gathered(draws: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return the mean of each query over the samples on which a method was run."""
    return {name: np.mean([d[name] for d in draws if name in d], axis=0) for name in draws[0]}


def passages(run: Experiment, kind: str) -> dict[str, np.ndarray]:
    test, trains = drawn(run, kind)
    draws = []
    for number, train in enumerate(trains):
        sets, labels = train.sets, train.labels
        chosen = {
            PATH: DiverseRanker(K).fit(sets, labels).predict(test.sets),
            "DiverseRanker, weights >= 0": DiverseRanker(K, positive=True)
            .fit(sets, labels)
            .predict(test.sets),
            "top 5": MMR(K, 1.0).predict(test.sets),
            "MMR tuned": tuned(sets, labels, missed).predict(test.sets),
            "MMR.fit": MMR(K).fit(sets, labels).predict(test.sets),
            "stage": staged(train, test),
        }
        if number == 0:
            chosen["SVMDiv()"] = SVMDiv(k=K).fit(sets, labels).predict(test.sets)
        draws.append({name: missed(test.labels, rows) for name, rows in chosen.items()})
    return gathered(draws)


def spend(weights: np.ndarray, one: StepFeatures, costs: np.ndarray, *, per_cost: bool) -> np.ndarray:
    walk, left = Walk(one), BUDGET
    while (costs[walk.free] <= left).any():
        values = walk.features() @ weights / (costs[walk.free] if per_cost else 1.0)
        d = int(walk.free[np.argmax(np.where(costs[walk.free] <= left, values, -np.inf))])
        walk.add(d)
        left -= costs[d]
    return walk.chosen


def budgets(run: Experiment, kind: str) -> dict[str, np.ndarray]:
    test, trains = drawn(run, kind)
    draws = []
    for train in trains[:2]:
        model = DiverseRanker(8).fit(train.sets, train.labels)
        limit = {"costs": test.words, "budget": BUDGET}
        chosen = {PATH: model.predict(test.sets, **limit)}
        weights = model.coef_ * model.scale_
        for name, per_cost in (("costs ignored", False), ("score / cost", True)):
            chosen[f"{PATH}, {name}"] = [
                spend(weights, StepFeatures(one), costs, per_cost=per_cost)
                for one, costs in zip(test.sets, test.words, strict=True)
            ]
        fitted = MMR(8).fit(train.sets, train.labels, costs=train.words, budget=BUDGET)
        chosen["MMR.fit"] = fitted.predict(test.sets, **limit)
        chosen["top by score"] = MMR(8, 1.0).predict(test.sets, **limit)
        draws.append({name: missed(test.labels, rows) for name, rows in chosen.items()})
    return gathered(draws)


def marks(run: Experiment, kind: str) -> dict[str, np.ndarray]:
    test, trains = drawn(run, kind)
    draws = []
    for number, train in enumerate(trains):
        rng = np.random.default_rng(number)
        judged = [labels.any(axis=1) for labels in train.labels]
        clicked = [np.where(u, rng.random(50) < 0.4, rng.random(50) < 0.08) for u in judged]

        def fitted(labels, train=train, test=test, **options):
            return missed(test.labels, DiverseRanker(K, **options).fit(train.sets, labels).predict(test.sets))

        draws.append(
            {
                PATH: fitted(train.labels),
                "marks of judges": fitted(soft_subtopics(train.sets, judged)),
                "clicks": fitted(soft_subtopics(train.sets, clicked, complete=False), rounds=0),
                "clicks, two rounds": fitted(soft_subtopics(train.sets, clicked, complete=False)),
                "each mark its own subtopic": fitted([np.eye(50)[:, u] for u in judged]),
            }
        )
    return gathered(draws)


def folds(make: Callable[[], Any], sets, labels, seeds, n_folds=11) -> np.ndarray:
    """Return the loss of each set by a model trained without its fold, averaged over the orders of ``seeds``."""
    each = []
    for seed in seeds:
        order, losses = np.random.default_rng(seed).permutation(len(sets)), np.empty(len(sets))
        for fold in range(n_folds):
            test = order[fold::n_folds]
            train = np.setdiff1d(order, test)
            model = make().fit(pick(sets, train), pick(labels, train))
            losses[test] = weighted_subtopic_loss(pick(labels, test), model.predict(pick(sets, test)))
        each.append(losses)
    return np.mean(each, axis=0)


class Tuned:
    """MMR whose ``fit`` chooses only the trade-off."""

    def __init__(self, k: int) -> None:
        self.k = k

    def fit(self, sets, labels) -> MMR:
        return tuned(sets, labels, weighted_subtopic_loss, self.k)


def ambient(run: Experiment, *, relevant_only: bool, k: int) -> dict[str, np.ndarray]:
    full = read_ambient(run.data / "ambient")
    data = read_ambient(run.data / "ambient", relevant_only=True) if relevant_only else full

    def texts(sets, scores):
        return counted(
            [
                CandidateSet(
                    [f"{title} {text}" for title, text in zip(one.titles, one.texts, strict=True)],
                    ids=one.ids,
                    query=one.query,
                    features=1 / np.arange(1, len(one) + 1)[:, None] if scores else None,
                )
                for one in sets
            ]
        )

    sets = texts(data.sets, not relevant_only)
    near = []
    for one, every in zip(sets, texts(full.sets, False), strict=True):
        rows = [every.ids.index(name) for name in one.ids]
        smooth = smooth_similarity(every).similarity[np.ix_(rows, rows)]
        near.append(CandidateSet.from_similarity(smooth, documents=one))
    labels = [np.asarray(matrix, dtype=float) for matrix in data.labels]
    seeds = range(run.seed, run.seed + (1 if run.quick else 3))

    def loss(chosen):
        return weighted_subtopic_loss(labels, chosen)

    return {
        PATH: folds(lambda: DiverseRanker(k, loss="weighted"), near, labels, seeds),
        "DiverseRanker, weights >= 0": folds(
            lambda: DiverseRanker(k, loss="weighted", positive=True), near, labels, seeds
        ),
        "DiverseRanker, own cosines": folds(
            lambda: DiverseRanker(k, loss="weighted", smooth=False), sets, labels, seeds
        ),
        "SVMDiv()": folds(lambda: SVMDiv(k=k), sets, labels, seeds[:1]),
        "MMR()": loss(MMR(k).predict(sets)),
        "MMR tuned": folds(lambda: Tuned(k), sets, labels, seeds),
        "facility location": loss(FacilityLocation(k).predict(sets)),
        "facility location, smoothed": loss(FacilityLocation(k).predict(near)),
        "clairvoyant": loss(Clairvoyant(k).predict(sets, labels=labels)),
    }


def by_draws(make: Callable[[int], Any], n_train: int, first_test: int, seeds) -> dict[str, np.ndarray]:
    """Return the losses on the test sets of several samples."""
    draws: dict[str, list[np.ndarray]] = {}
    for seed in seeds:
        sets, labels = make(seed)
        labels = [np.asarray(matrix, dtype=float) for matrix in labels]
        train, test = (sets[:n_train], labels[:n_train]), (sets[first_test:], labels[first_test:])
        for name, model in {
            PATH: DiverseRanker(K, loss="weighted").fit(*train),
            "DiverseRanker, weights >= 0": DiverseRanker(K, loss="weighted", positive=True).fit(*train),
            "SVMDiv()": SVMDiv(k=K).fit(*train),
            "MMR()": MMR(K),
            "MMR tuned": Tuned(K).fit(*train),
            "facility location": FacilityLocation(K),
        }.items():
            draws.setdefault(name, []).append(weighted_subtopic_loss(test[1], model.predict(test[0])))
    return {name: np.concatenate(values) for name, values in draws.items()}


def main() -> None:
    run = Experiment("diverse_path", __doc__, uses=["ambient"])
    few = 1 if run.quick else None
    run.section("Passages for generation: share of the needed facts in five passages")
    for kind in list(KINDS)[:few]:
        table(run, kind, run.once(lambda kind=kind: passages(run, kind)), share=True)
    run.section(f"A budget of {BUDGET:.0f} words, passages of 80 on average")
    for kind in ("score = useful + noise", "noisier", "needed facts rare")[:few]:
        table(run, f"budget, {kind}", run.once(lambda kind=kind: budgets(run, kind)), share=True)
    run.section("Marks of useful passages, and clicks (on 40 % of the useful ones, 8 % of others)")
    for kind in ("score = cosine to query", "cosine and a lexical score", "score = useful + noise")[:few]:
        table(run, f"marks, {kind}", run.once(lambda kind=kind: marks(run, kind)), share=True)
    run.section("Texts: weighted subtopic loss")
    if (run.data / "ambient").is_dir():
        for name, relevant_only, k in (
            ("labelled", True, 5),
            ("labelled", True, 10),
            ("all results", False, 5),
        )[:few]:
            found = run.once(lambda only=relevant_only, k=k: ambient(run, relevant_only=only, k=k))
            table(run, f"AMBIENT, {name}, K = {k}", found, share=False)
    first = 20 + 10 * run.seed
    for alike in (True, False)[:few]:
        made = run.once(
            lambda alike=alike: by_draws(
                lambda seed: diversity_newspaper.make(40, seed, alike=alike),
                16,
                16,
                range(first, first + (few or 3)),
            )
        )
        table(run, f"articles, sets {'alike' if alike else 'that differ'}", made, share=False)
    for noise in (0.0, 0.6)[:few]:
        made = run.once(
            lambda noise=noise: by_draws(
                lambda seed: diversity_synthetic.make(65, seed, noise=noise),
                15,
                25,
                range(first, first + (few or 2)),
            )
        )
        table(run, f"sets of chapter 4, noise {noise:g}", made, share=False)
    run.save()


if __name__ == "__main__":
    main()
