"""DiverseRanker: features by loops, bounds and guarantees by enumeration, training, errors."""

import itertools
import math

import numpy as np
import pytest
from sklearn.base import clone

from structsvm import CandidateSet, DiverseRanker, SVMDiv, load
from structsvm.common.checks import BadInput
from structsvm.common.subtopic_gain import SubtopicGain
from structsvm.estimators import cross_validate_C
from structsvm.estimators.baselines import MMR, FacilityLocation
from structsvm.features import smooth_similarity, soft_subtopics
from structsvm.features.greedy_steps import POWERS, StepFeatures, Walk
from structsvm.features.word_counts import count_words
from structsvm.features.word_features import COSINES, SIMILARITIES, unit_range
from structsvm.metrics import subtopic_recall
from structsvm.readers import read_ambient
from structsvm.trainers import NothingLearnedWarning
from tests.refusing import refused, rejected

LOSSES = ("unweighted", "weighted", "alpha_ndcg")


def embedded(rng, n, dim=4, n_features=2):
    """Return a set of embeddings with scores; half of the cosines are negative."""
    vectors = rng.normal(size=(n, dim))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return CandidateSet.from_similarity(
        np.clip(vectors @ vectors.T, -1, 1), features=rng.normal(size=(n, n_features))
    )


def passages(n, seed, noise=0.6):
    """Return questions that need four of twelve facts, with passages that have embeddings and a noisy score."""
    rng, sets, labels = np.random.default_rng(seed), [], []
    while len(sets) < n:
        need, center = rng.permutation(12)[:4], rng.normal(size=(12, 24))
        fact = rng.choice(12, 50, p=rng.dirichlet(np.full(12, 1.5)))
        vectors = center[fact] + 0.45 * rng.normal(size=(50, 24))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        has = fact[:, None] == need
        score = has.any(axis=1) + noise * rng.normal(size=50)
        if has.any():
            sets.append(
                CandidateSet.from_similarity(np.clip(vectors @ vectors.T, -1, 1), features=score[:, None])
            )
            labels.append(has[:, has.any(axis=0)].astype(float))
    return sets, labels


def by_loops(S, f, cuts, chosen, d):
    """Return the features of document ``d`` for one similarity, computed by loops from their definition."""
    S, n = np.maximum(S, 0.0), len(S)
    b = [max([S[a, j] for a in chosen], default=0.0) for j in range(n)]
    left = [math.prod(1 - S[a, j] for a in chosen) for j in range(n)]
    smooth = [
        sum(S[d, j] ** p * f[j] for j in range(n)) / sum(S[d, j] ** p for j in range(n)) for p in POWERS
    ]
    smooth = np.concatenate(smooth)
    likeness = [-x([S[a, d] for a in chosen]) if chosen else 0.0 for x in (max, np.mean, min)]
    nearer = [max(S[d, j] - b[j], 0.0) for j in range(n)]
    chance = [S[d, j] * left[j] for j in range(n)]
    out = [*smooth, S[d].mean(), *(f[d] * (1 - b[d])), *(smooth * (1 - b[d])), *likeness]
    out += [np.mean(nearer), np.mean(chance), *(np.array(nearer) @ f / n), *(np.array(chance) @ f / n)]
    first = [[S[d, j] >= c > b[j] for j in range(n)] for c in cuts]
    return out + [np.mean(one) for one in first]


@pytest.mark.parametrize("texts", [False, True])
def test_features_by_loops(texts):
    rng = np.random.default_rng(int(texts))
    for _ in range(20):
        n = 8
        words = [" ".join(rng.choice(["red", "rose", "sea", "sky", "sun"], size=4)) for _ in range(n)]
        one = CandidateSet(words, features=rng.normal(size=(n, 2))) if texts else embedded(rng, n)
        f, features = unit_range(one.features), StepFeatures(one)
        kinds = [(one.similarity, SIMILARITIES)]
        if texts:
            kinds = [(count_words(one).cosines, COSINES), (smooth_similarity(one).similarity, SIMILARITIES)]
        walk, chosen = Walk(features), []
        for d in rng.permutation(n)[:4].tolist():
            found = walk.features()
            assert len(features.names) == found.shape[1]
            for row, free in zip(found, walk.free.tolist(), strict=True):
                expected = [
                    *f[free],
                    *itertools.chain(*(by_loops(S, f, cuts, chosen, free) for S, cuts in kinds)),
                ]
                if texts:
                    new = set(words[free].split()) - set(" ".join(words[a] for a in chosen).split())
                    counts = [sum(word in text.split() for text in words) for word in new]
                    expected += [len(new), sum(c for c in counts if c >= 2) / n]
                np.testing.assert_allclose(row, expected, atol=3e-7)  # similarities are in single precision
            walk.add(d)
            chosen.append(d)
        assert walk.chosen.tolist() == chosen


@pytest.mark.parametrize("loss", LOSSES[:2])
def test_regrets_bound_what_a_set_misses(loss):
    """On 1,000 small problems: documents chosen at random, the best set by enumeration; greedy has regrets of 0."""
    rng, least = np.random.default_rng(1), np.inf
    for _ in range(1000):
        n, k = int(rng.integers(3, 8)), int(rng.integers(1, 4))
        gain = SubtopicGain(rng.random((n, 5)) * (rng.random((n, 5)) < 0.4), loss)
        if gain.empty:
            continue
        best = max(gain.value(list(rows)) for rows in itertools.combinations(range(n), k))
        for greedy in (False, True):
            state, chosen, regrets = gain.start(), [], []
            for _ in range(k):
                gains = gain.gains(state)
                gains[chosen] = -1
                d = int(np.argmax(gains)) if greedy else int(rng.choice(np.flatnonzero(gains >= 0)))
                regrets.append(gains.max() - gains[d])
                chosen.append(d)
                state = gain.after(state, d)
            miss = sum((1 - 1 / k) ** (k - 1 - t) * e for t, e in enumerate(regrets))
            bound = (1 - (1 - 1 / k) ** k) * best - miss
            assert gain.value(chosen) >= bound - 1e-9
            least = min(least, gain.value(chosen) - bound)
    assert least < 0.05  # near the bound


def test_the_guarantee_of_positive_weights():
    """Scores without similarity are gains of a set function, of whose maximum greedy reaches at least 1 - 1/e."""
    rng = np.random.default_rng(2)
    sets = [embedded(rng, 7) for _ in range(100)]
    labels = [np.eye(7)[:, :3]] * 100
    model = DiverseRanker(3, positive=True).fit(sets[:5], labels[:5])
    groups = np.array([group for group, _ in StepFeatures(sets[0]).names])
    assert (model.feature_groups_ == groups).all()
    assert model.coef_.min() >= 0
    for one in sets:
        model.scale_ = np.ones(len(groups))
        model.coef_ = rng.random(len(groups)) * (rng.random(len(groups)) < 0.3) * (groups != "likeness")

        def value(rows, one=one):
            walk, total = Walk(StepFeatures(one)), 0.0
            for d in rows:
                total += (walk.features() @ model.coef_)[walk.free.tolist().index(d)]
                walk.add(d)
            return total

        [chosen] = model.predict([one])
        assert value(chosen) == pytest.approx(value(chosen[::-1]))
        best = max(map(value, itertools.combinations(range(7), 3)))
        assert value(chosen) >= (1 - 1 / math.e) * best - 1e-12


def test_the_guarantee_is_claimed_where_it_holds():
    rng = np.random.default_rng(5)
    for _ in range(6):
        sets = [embedded(rng, 9, n_features=1) for _ in range(6)]
        # relevance is all that counts
        labels = [np.diag((one.features[:, 0] > 0).astype(float)) for one in sets]
        for positive in (False, True):
            model = DiverseRanker(2, positive=positive).fit(sets, labels)
            likeness = model.coef_[model.feature_groups_ == "likeness"]
            holds = model.coef_.min() >= 0 and not likeness.any()
            assert model.guarantee_ == (1 - 1 / math.e if holds else None)
            assert not positive or model.coef_.min() >= 0
    one, labels = CandidateSet(["red rose", "sea", "sky sun"]), np.eye(3)
    # nothing is chosen before
    model = DiverseRanker(1, positive=True, rounds=0).fit([one], [[[0], [0], [1]]])
    assert model.guarantee_ == 1 - 1 / math.e


def test_it_learns_what_a_question_needs():
    """On new questions, the model is better than MMR with the best settings; SVMDiv learns nothing and warns."""
    sets, labels = passages(40, 10)
    tests, truths = passages(200, 2000)
    model = DiverseRanker(5).fit(sets, labels)
    found = subtopic_recall(truths, model.predict(tests))
    assert found.mean() >= 0.94
    assert model.score(tests, truths) == pytest.approx(found.mean())
    assert found.mean() > subtopic_recall(truths, MMR(5).fit(sets, labels).predict(tests)).mean()
    assert model.fit_.certified
    assert model.fit_.gap <= model.tol
    assert model.regrets_.shape == (5,)
    assert 0 <= model.regrets_.min() <= model.regrets_.max() < 0.2
    assert model.n_rows_ > 3 * 40 * 45
    with pytest.warns(NothingLearnedWarning, match="learned nothing; DiverseRanker learns"):
        SVMDiv(k=5).fit(sets, labels)
    judged = DiverseRanker(5).fit(sets, soft_subtopics(sets, [one.any(axis=1) for one in labels]))
    assert subtopic_recall(truths, judged.predict(tests)).mean() >= 0.93
    assert DiverseRanker(5).fit(sets, labels).coef_.tobytes() == model.coef_.tobytes()
    assert 4000 < DiverseRanker(5, max_rows=6000).fit(sets, labels).n_rows_ < 8000
    options = [{"max_rows": most} for most in (9999, 8 * (50 + 49 + 48 + 47 + 46), 8 * (49 + 48 + 47 + 46))]
    models = [DiverseRanker(5, rounds=0, **each).fit(sets[:8], labels[:8]) for each in options]
    assert models[0].n_rows_ == models[1].n_rows_ > models[2].n_rows_


@pytest.mark.slow
def test_ambient_all_results(shared_data):
    """Trained on half of the topics, the model is far below the .33 of SVMDiv."""
    data = read_ambient(shared_data("ambient"))
    sets = [
        CandidateSet(
            [f"{a} {b}" for a, b in zip(o.titles, o.texts, strict=True)],
            features=1 / np.arange(1, len(o) + 1)[:, None],
        )
        for o in data.sets
    ]
    losses = np.empty(len(sets))
    for fold in range(4):
        rows = [i for i in range(len(sets)) if i % 4 != fold]
        model = DiverseRanker(5, loss="weighted").fit([sets[i] for i in rows], [data.labels[i] for i in rows])
        losses[fold::4] = model.losses(sets[fold::4], data.labels[fold::4])
    assert losses.mean() <= 0.28


def test_costs_and_budget():
    sets, labels = passages(12, 0)
    rng = np.random.default_rng(0)
    model = DiverseRanker(5).fit(sets, labels)
    costs = [rng.integers(1, 9, size=50) for _ in sets]
    for chosen, cost in zip(model.predict(sets, costs=costs, budget=20), costs, strict=True):
        rest = np.setdiff1d(np.arange(50), chosen)
        assert 20 - cost[rest].min() < cost[chosen].sum() <= 20  # nothing that fits is left
    np.testing.assert_array_equal(
        model.predict(sets, costs=[np.full(50, 3.0)] * 12, budget=15), model.predict(sets)
    )
    doubled = model.predict(sets, costs=[2 * cost for cost in costs], budget=[40] * 12)
    for a, b in zip(doubled, model.predict(sets, costs=costs, budget=20), strict=True):
        np.testing.assert_array_equal(a, b)
    assert [len(c) for c in model.predict(sets, 2, costs=costs, budget=99)] == [2] * 12
    [first] = model.explain(sets[0], 1, costs=costs[0], budget=20)
    weights, walk = model.coef_ * model.scale_, Walk(StepFeatures(sets[0]))
    assert first.document == np.argmax(walk.features() @ weights - np.log(costs[0]))
    costs[3][7] = 0
    with pytest.raises(
        BadInput, match=r"costs\[3\]\[7\]: expected finite numbers > 0, got 0 for document '7'"
    ):
        model.predict(sets, costs=costs, budget=20)


def test_reasons_add_up():
    sets, labels = passages(8, 1)
    model = DiverseRanker(4).fit(sets, labels)
    reasons = model.explain(sets[0])
    assert [r.document for r in reasons] == model.predict(sets[:1])[0].tolist()
    walk = Walk(StepFeatures(sets[0]))
    for reason in reasons:
        scores = walk.features() @ (model.coef_ * model.scale_)
        assert reason.gain == pytest.approx(scores.max() - scores.mean())
        assert sum(amount for _, amount in reason.parts) == pytest.approx(reason.gain)
        walk.add(reason.document)
    assert reasons[0].likeness == 0
    assert reasons[0].words == 0


def test_texts_beside_embeddings_and_saved_models(tmp_path):
    texts = [
        CandidateSet(
            ["apple pie", "pie apple", "sea ship sail"], ids=list("abc"), query="q", features=np.eye(3)[:, :1]
        )
    ] * 3
    near = [
        CandidateSet.from_similarity([[1, 0.9, 0], [0.9, 1, 0], [0, 0, 1]], documents=one) for one in texts
    ]
    assert (near[0].ids, near[0].query, near[0].features.shape) == (["a", "b", "c"], "q", (3, 1))
    assert repr(near[0]) == "CandidateSet('q': 3 documents, similarity and text, 1 feature)"
    model = DiverseRanker(2).fit(near, [[[1, 0], [1, 0], [0, 0.5]]] * 3)
    assert model.predict(near[:1])[0].tolist() == [0, 2]
    assert {"new words", "near, level 9 by neighbours"} <= set(model.feature_names_in_)
    model.save(tmp_path / "model.npz")
    read = load(tmp_path / "model.npz")
    assert read.coef_.tobytes() == model.coef_.tobytes()
    np.testing.assert_array_equal(read.predict(near), model.predict(near))
    assert "weight" in model._repr_html_()
    with pytest.raises(BadInput, match=r"sets\[0\]: expected \d+ step features .* sets of one kind"):
        model.predict([CandidateSet.from_similarity(np.eye(3))])
    with pytest.raises(BadInput, match="documents: expected 3 texts"):
        CandidateSet.from_similarity(np.eye(3), documents=CandidateSet(["a"]))


def test_C_is_chosen_on_held_out_sets():
    sets, labels = passages(9, 3)
    found = cross_validate_C(DiverseRanker(4), sets, labels, [10, 0.1], folds=3)
    for fold in range(3):
        rows = [i for i in range(9) if i % 3 != fold]
        for column, C in enumerate((0.1, 10.0)):
            model = DiverseRanker(4, C=C).fit([sets[i] for i in rows], [labels[i] for i in rows])
            np.testing.assert_allclose(
                found.losses[fold::3, column], model.losses(sets[fold::3], labels[fold::3])
            )
    assert clone(DiverseRanker(4, C=3)).get_params()["C"] == 3


@pytest.mark.parametrize(
    ("options", "labels", "message"),
    [
        ({}, [[[2, 0], [1, 0]]], "divide grades by the highest"),
        ({}, [[[0, 0], [0, 0]]], "no candidate set carries a constraint"),
        ({}, [[[1, 0], [1, 0]]], "no candidate set carries a constraint"),
        ({"loss": "map"}, [[[1], [0]]], "loss='map'"),
        ({"k": 0}, [[[1], [0]]], "k=0"),
        ({"rounds": -1}, [[[1], [0]]], "rounds=-1"),
        ({"C": 0}, [[[1], [0]]], "C=0"),
        ({"positive": "benefits"}, [[[1], [0]]], "positive"),
    ],
)
def test_bad_input(options, labels, message):
    rejected(message, DiverseRanker(**options).fit, [CandidateSet(["red", "sea"])], labels)


def test_marks_in_one_column_are_noticed():
    sets = [CandidateSet(["red rose", "red", "sea"])] * 3
    with pytest.warns(
        UserWarning, match="if labels mark useful documents, convert them with features.soft_subtopics"
    ):
        DiverseRanker(2).fit(sets, [[[1], [1], [0]]] * 3)
    DiverseRanker(2).fit(sets, soft_subtopics(sets, [[1, 1, 0]] * 3))
    with pytest.raises(BadInput, match=r"shape \(3,\); features.soft_subtopics turns marks into labels"):
        DiverseRanker(2).fit(sets, [[1, 1, 0]] * 3)


def test_soft_subtopics_by_hand():
    near = [[1, 0.5, -0.2], [0.5, 1, 0], [-0.2, 0, 1]]
    one = CandidateSet.from_similarity(near)
    [judged] = soft_subtopics([one], [[1, 1, 1]])
    np.testing.assert_allclose(judged, np.maximum(near, 0) * np.array([1, 1, 1.5]) / 1.5)
    [clicked] = soft_subtopics([one], [[1, 0, 0]], complete=False)
    assert clicked.tolist() == [[1], [0], [0]]
    assert soft_subtopics([one], [[0, 0, 0]])[0].shape == (3, 0)
    for marks in ([[1, 0]], [[2, 0, 0]], [["a", "b", "c"]], []):
        refused("marks", soft_subtopics, [one], marks)


def mmr_by_definition(S, relevance, trade_off, k):
    chosen = []
    for _ in range(k):
        values = [
            trade_off * relevance[d] - (1 - trade_off) * max([S[d, c] for c in chosen], default=0.0)
            for d in range(len(S))
        ]
        chosen.append(max((d for d in range(len(S)) if d not in chosen), key=lambda d: (values[d], -d)))
    return chosen


def test_mmr_and_facility_location_by_definition():
    """The definitions also hold for negative similarities."""
    rng = np.random.default_rng(4)
    for _ in range(200):
        one = embedded(rng, 10)
        S, relevance = one.similarity, unit_range(one.features)
        for trade_off in (0.0, 0.2, 0.5, 1.0):
            [chosen] = MMR(4, trade_off, score=1).predict([one])
            assert chosen.tolist() == mmr_by_definition(S, relevance[:, 1], trade_off, 4)
        weights = np.maximum(S, 0) ** 2
        smooth = unit_range((weights @ relevance[:, :1]) / weights.sum(axis=1, keepdims=True))[:, 0]
        [chosen] = MMR(4, 0.4, smooth=2).predict([one])
        assert chosen.tolist() == mmr_by_definition(S, smooth, 0.4, 4)
        rows = []
        for d in FacilityLocation(4).predict([one])[0].tolist():
            value = [np.maximum(S[[*rows, e]].max(axis=0), 0).sum() for e in range(10)]
            assert value[d] == pytest.approx(max(value))
            rows.append(d)


def test_mmr_chooses_by_its_losses():
    sets, labels = passages(12, 5)
    costs = [np.random.default_rng(i).integers(1, 9, size=50) for i in range(12)]
    budget = {"costs": costs, "budget": 25}
    for limit in ({}, budget, budget | {"k": 3}):
        fitted = MMR(5).fit(sets, labels, **limit)

        def found(one, limit=limit):
            return subtopic_recall(labels, one.predict(sets, **limit)).mean()

        grid = itertools.product(range(0, 21, 4), (0, 2, 8), (False, True)[: 1 + bool(limit)])
        assert found(fitted) >= max(found(MMR(5, t / 20, smooth=p, per_cost=c)) for t, p, c in grid) - 1e-12
    refused("expected a covered subtopic", MMR(5).fit, sets, [np.zeros((50, 2))] * 12)
    refused("score=3: expected an index into 1 feature", MMR(5, score=3).predict, sets)
