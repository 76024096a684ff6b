"""SVMDiv: training, guarantees, explanations, and errors for bad input."""

import math

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score

import structsvm
from structsvm import CandidateSet, SVMDiv
from structsvm.common.checks import BadInput
from structsvm.estimators.baselines import Clairvoyant, RandomChoice
from structsvm.features import Level
from structsvm.features.word_counts import count_words, make_vectorizer
from structsvm.metrics import weighted_subtopic_loss
from structsvm.trainers import NothingLearnedWarning


def make(n_sets, seed=0, n=12, n_topics=5, features=False):
    """Return documents that share the words of their topic; more numerous rare words are independent of topics."""
    rng = np.random.default_rng(seed)
    sets, labels = [], []
    for _ in range(n_sets):
        topics = rng.choice(n_topics, size=n, p=np.array([5, 4, 3, 2, 1]) / 15)
        texts = []
        for d, t in enumerate(topics):
            own = [f"topic{t}word{j}" for j in range(6) if rng.random() < 0.8]
            rare = [f"rare{d}x{j}" for j in range(int(rng.integers(0, 20)))]
            texts.append(" ".join(own + rare))
        matrix = np.eye(n_topics)[topics]
        sets.append(CandidateSet(texts, features=rng.normal(size=(n, 2)) if features else None))
        labels.append(matrix[:, matrix.any(axis=0)])
    return sets, labels


SETS, LABELS = make(20)
TEST_SETS, TEST_LABELS = make(30, seed=1)


WORDS = [Level.appears()]


@pytest.fixture(scope="module")
def model():
    return SVMDiv(C=10, k=3, levels=WORDS).fit(SETS, LABELS)


def with_prediction(model, prediction):
    """Return the fitted model with another prediction method."""
    other = clone(model).set_params(prediction=prediction)
    vars(other).update({a: v for a, v in vars(model).items() if a.endswith("_")})
    return other


def test_levels_by_default():
    """Five cosines and words, or nine given similarities; one benefit each."""
    default = SVMDiv(k=3).fit(SETS, LABELS)
    assert [level.value for level in default.levels_[:5]] == [0.04, 0.07, 0.1, 0.15, 0.2]
    assert default.levels_[5:] == (Level.appears(),)
    assert default.benefits_.shape == (6, 1)
    by_words = SVMDiv(k=3, levels=default.levels_[:5]).fit(SETS, LABELS)
    cosines = [count_words(one).cosines for one in SETS]
    given = [CandidateSet.from_similarity(one) for one in cosines]
    same = SVMDiv(k=3, levels=by_words.levels_).fit(given, LABELS)
    np.testing.assert_allclose(same.coef_, by_words.coef_, rtol=1e-9)
    with pytest.raises(
        BadInput, match=r"sets of given similarities, .* got .*text.*; create them with CandidateSet.from_s"
    ):
        same.predict(SETS)
    with pytest.raises(
        BadInput, match=r"sets of texts, .* got .*similarity.*; train on sets created with Cand"
    ):
        by_words.predict(given)
    assert sum(r.gain for r in same.explain(given[0])) == pytest.approx(same.decision_function(given[:1])[0])
    nine = SVMDiv(k=3, document_features=["centroid"]).fit(given, LABELS)
    assert [level.value for level in nine.levels_] == [i / 10 for i in range(1, 10)]
    assert loss(nine.predict(given), LABELS) < loss(RandomChoice(3).predict(SETS), LABELS)
    assert SVMDiv(k=3, levels=WORDS).fit(SETS, LABELS).benefits_.shape == (1, 9)
    with pytest.raises(ValueError, match="expected levels of similarity"):
        SVMDiv(k=3, levels=WORDS).fit(given, LABELS)


def test_levels_of_the_thesis_by_name(tmp_path):
    titled = [CandidateSet(one.texts, titles=[text.split()[0] for text in one.texts]) for one in SETS]
    kinds = {}
    for name in ("svm-div", "svm-div2"):
        model = SVMDiv(k=3, C=10, levels=name, separation="greedy").fit(titled, LABELS)
        kinds[name] = {level.kind for level in model.levels_}
        same = SVMDiv(k=3, C=10, levels=model.levels_, separation="greedy").fit(titled, LABELS)
        assert (model.coef_ == same.coef_).all()
        assert model.benefits_.shape == (len(model.levels_), 9)
        model.save(tmp_path / "m.npz")
        back = structsvm.load(tmp_path / "m.npz")
        assert back.levels == name
        assert (back.fit(titled, LABELS).coef_ == model.coef_).all()
    assert kinds["svm-div"] == {"appears", "count", "share", "title"}
    assert kinds["svm-div2"] == {*kinds["svm-div"], "top_tfidf"}


def loss(chosen, labels=TEST_LABELS):
    return float(np.mean(weighted_subtopic_loss(labels, chosen)))


def test_learns_to_cover(model):
    best = loss(Clairvoyant(3).predict(TEST_SETS, labels=TEST_LABELS))
    random = loss(RandomChoice(3).predict(TEST_SETS))
    assert loss(model.predict(TEST_SETS)) < best + 0.2 * (random - best)
    assert model.score(TEST_SETS, TEST_LABELS) == pytest.approx(1 - loss(model.predict(TEST_SETS)))
    assert model.benefits_[0, 0] < model.benefits_[0].max()  # words of one document are worth less
    assert model.fit_.converged
    assert not model.fit_.certified
    assert model.fit_.primal >= model.fit_.dual * (1 - 1e-9)


def test_k_and_prediction_modes(model):
    for k in (1, 3, 7, 50):
        for prediction in ("greedy", "swap"):
            found = with_prediction(model, prediction)
            chosen = found.predict(TEST_SETS[:3], k)
            assert [len(c) for c in chosen] == [min(k, 12)] * 3
            assert all(len(set(c.tolist())) == len(c) for c in chosen)
            values = found.decision_function(TEST_SETS[:3], k)
            assert (values >= model.decision_function(TEST_SETS[:3], k) - 1e-9).all()
    first, more = model.predict(TEST_SETS, 2), model.predict(TEST_SETS, 5)
    assert all(a.tolist() == b[:2].tolist() for a, b in zip(first, more, strict=True))


def test_benefits_are_constrained():
    free = SVMDiv(C=100, k=3, levels=WORDS, document_features=["rank"]).fit(SETS, LABELS)
    assert free.benefits_.min() < 0
    assert free.guarantee_ is None
    held = SVMDiv(C=100, k=3, levels=WORDS, document_features=["rank"], positive="benefits").fit(SETS, LABELS)
    assert held.benefits_.min() >= 0
    assert held.document_coef_.min() >= 0
    assert held.coef_.min() < 0  # of benefits, not of weights
    assert held.guarantee_ == 1 - 1 / math.e
    assert held.fit_.dual >= free.fit_.dual * (1 - 1e-2)


def test_path_reaches_the_same_optima():
    sets, labels = SETS[:8], LABELS[:8]
    options = {"k": 2, "thresholds": [0.0, 0.2], "tol": 1e-3}
    for one in SVMDiv(**options).path(sets, labels, [1.0, 0.1]):
        alone = SVMDiv(C=one.C, **options).fit(sets, labels)
        assert one.fit_.dual == pytest.approx(alone.fit_.dual, rel=2e-3)
        np.testing.assert_array_equal(one.scale_, alone.scale_)


def test_a_fit_that_fails_leaves_the_model_as_it_was(model):
    other = clone(model).fit(SETS, LABELS)
    before = vars(other).copy()
    with pytest.raises(ValueError, match="carries a constraint"):
        other.fit(make(3, features=True)[0], [np.zeros((12, 1))] * 3)
    assert vars(other).keys() == before.keys()
    assert all(vars(other)[name] is value for name, value in before.items())


def test_texts_without_words_teach_nothing_and_say_so():
    sets = [CandidateSet(["", "", ""])] * 3
    with pytest.warns(NothingLearnedWarning, match="no better than zero weights"):
        model = SVMDiv(k=1).fit(sets, [np.eye(3)[:, :2]] * 3)
    assert not model.coef_.any()


def test_works_in_model_selection():
    search = GridSearchCV(SVMDiv(k=3), {"C": [1e-3, 10.0], "positive": [False, "benefits"]}, cv=3)
    search.fit(SETS, LABELS)
    assert search.best_score_ == max(search.cv_results_["mean_test_score"])
    assert search.score(TEST_SETS, TEST_LABELS) > 0.7
    assert len(cross_val_score(SVMDiv(k=2), SETS, LABELS, cv=4)) == 4


def check_explanation(reasons, candidates, chosen, value):
    """Check that each covered word counts once, for the first document that has it, and that the gains add up."""
    assert [r.document for r in reasons] == chosen.tolist()
    assert [r.id for r in reasons] == [candidates.ids[d] for d in chosen]
    assert sum(r.gain for r in reasons) == pytest.approx(value)
    seen = set()
    for r in reasons:
        assert r.gain == pytest.approx(sum(benefit for *_, benefit in r.words) + r.features)
        words = {word for word, *_ in r.words}
        assert not words & seen
        assert words <= set(candidates.texts[r.document].split())
        seen |= words
    covered = set().union(*(make_vectorizer().build_analyzer()(candidates.texts[d]) for d in chosen))
    assert seen == covered


@pytest.mark.parametrize("prediction", ["greedy", "swap"])
def test_explains_itself(model, prediction):
    other = with_prediction(model, prediction)
    for candidates in TEST_SETS[:3]:
        for k in (None, 1, 6):
            [chosen], [value] = other.predict([candidates], k), other.decision_function([candidates], k)
            check_explanation(other.explain(candidates, k, n_words=1000), candidates, chosen, value)
    assert len(other.explain(TEST_SETS[0], n_words=2)[0].words) == 2


def test_explains_a_choice_within_a_budget(model):
    sizes = set()
    for candidates in TEST_SETS:
        costs = [len(t.split()) + 1.0 for t in candidates.texts]
        for budget, k in ((1.0, None), (12.0, None), (60.0, None), (60.0, 2)):
            options = {"costs": [costs], "budget": budget}
            [chosen] = model.predict([candidates], k, **options)
            [value] = model.decision_function([candidates], k, **options)
            reasons = model.explain(candidates, k, costs=costs, budget=budget, n_words=1000)
            if len(chosen):
                check_explanation(reasons, candidates, chosen, value)
            else:
                assert reasons == []
            sizes.add(len(chosen))
    assert {0, 1, 2} < sizes
    with pytest.raises(ValueError, match="both or neither"):
        model.explain(TEST_SETS[0], budget=3)
    with pytest.raises(ValueError, match="12 finite numbers"):
        model.explain(TEST_SETS[0], costs=[1.0], budget=3)


def test_explains_every_kind_of_level():
    sets = [CandidateSet(s.texts, titles=[t[:10] for t in s.texts]) for s in SETS]
    levels = [Level.title(), Level.count(1), Level.share(0.1), Level.top_tfidf(3), Level.neighbours(0.3)]
    model = SVMDiv(C=1, k=3, levels=levels, document_features=["rank", "centroid"]).fit(sets, LABELS)
    reasons = model.explain(sets[0], n_words=1000)
    assert sum(r.gain for r in reasons) == pytest.approx(model.decision_function(sets[:1])[0])
    assert {level for r in reasons for _, level, _ in r.words} >= {"title", "count >= 1", "cosine >= 0.3"}
    counted = CandidateSet(np.eye(4)[[0, 0, 1, 2, 3]])
    plain = SVMDiv(C=1, k=2, levels=WORDS).fit([counted], [np.eye(4)[[0, 0, 1, 2, 3]]])
    assert plain.explain(counted)[0].words[0][0].startswith("word ")


def test_budget(model):
    costs = [np.array([len(t.split()) + 1.0 for t in s.texts]) for s in TEST_SETS]
    for budget in (20.0, np.linspace(0, 60, len(TEST_SETS))):
        chosen = model.predict(TEST_SETS, costs=costs, budget=budget)
        for c, cost, most in zip(chosen, costs, np.broadcast_to(budget, len(costs)), strict=True):
            assert cost[c].sum() <= most * (1 + 1e-9)
    assert max(map(len, model.predict(TEST_SETS, costs=costs, budget=1e9))) > 3
    assert max(map(len, model.predict(TEST_SETS, 2, costs=costs, budget=1e9))) == 2
    for options, message in (
        ({"costs": costs}, "both or neither"),
        ({"costs": costs[1:], "budget": 1}, "expected one for each"),
        ({"costs": [c * 0 for c in costs], "budget": 1}, r"costs\[0\]"),
        ({"costs": costs, "budget": -1}, "budget"),
        ({"costs": costs, "budget": "much"}, "budget: expected numbers, got 'much'"),
        ({"costs": [["dear"] * 12, *costs[1:]], "budget": 1}, r"costs\[0\]: expected numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            model.predict(TEST_SETS, **options)


def test_document_features_decide_where_words_do_not():
    rng = np.random.default_rng(3)
    sets, labels = [], []
    for _ in range(15):
        good = rng.permutation(10) < 3
        sets.append(
            CandidateSet([[]] * 10, features=np.column_stack((good + 0.1 * rng.random(10), rng.random(10))))
        )
        labels.append(np.eye(3)[np.cumsum(good) - 1] * good[:, None])
    model = SVMDiv(C=100, k=3).fit(sets, labels)
    assert model.score(sets, labels) == 1
    assert model.document_coef_[0] > abs(model.document_coef_[1])
    with pytest.raises(ValueError, match="2 document features as in fit"):
        model.predict([CandidateSet(["a", "b"])])


def test_policies(model):
    [chosen] = model.predict([CandidateSet(["", "", "the", ""])])
    assert chosen.tolist() == [0, 1, 2]  # no words: as they stand
    unlabelled = [*LABELS[:-1], np.zeros((12, 0))]
    fewer = SVMDiv(k=3).fit([*SETS, CandidateSet(["a", "b"])], [*unlabelled, np.eye(2)])
    assert (fewer.n_sets_, fewer.n_uninformative_) == (21, 2)
    assert fewer.score(SETS, unlabelled) == pytest.approx(fewer.score(SETS[:-1], LABELS[:-1]))
    nobody = [np.column_stack((m, np.zeros(12))) for m in LABELS]
    np.testing.assert_array_equal(SVMDiv(k=3).fit(SETS, nobody).coef_, SVMDiv(k=3).fit(SETS, LABELS).coef_)


def test_threads_and_losses():
    for loss_ in ("unweighted", "alpha_ndcg", lambda labels, chosen: 1.0 - labels[chosen].any(axis=0).mean()):
        one = SVMDiv(C=1, k=3, loss=loss_, n_jobs=1).fit(SETS[:6], LABELS[:6])
        two = SVMDiv(C=1, k=3, loss=loss_, n_jobs=2).fit(SETS[:6], LABELS[:6])
        np.testing.assert_array_equal(one.coef_, two.coef_)
        assert one.score(TEST_SETS, TEST_LABELS) > 0.6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"C": 0}, "C=0"),
        ({"k": 0}, "k=0"),
        ({"k": 2.5}, "k=2.5"),
        ({"tol": 2}, "tol"),
        ({"max_passes": 0}, "max_passes"),
        ({"positive": True}, "positive=True"),
        ({"positive": "benefits", "solver": "frank_wolfe"}, "one_slack"),
        ({"loss": "map"}, "loss='map'"),
        ({"loss": "alpha_ndcg", "separation": "swap"}, "coverage loss"),
        ({"prediction": "exact"}, "prediction='exact': expected 'greedy' or 'swap'"),
        ({"separation": "best"}, "separation"),
        ({"levels": []}, "levels"),
        ({"levels": "words"}, "levels='words': expected one of"),
        ({"levels": [Level.title()]}, "with titles"),
        ({"thresholds": []}, "thresholds"),
        ({"qp": "none"}, "qp"),
        ({"k": 12}, "no candidate set carries a constraint"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        SVMDiv(**options).fit(SETS, LABELS)


def test_bad_data(model):
    for sets, labels, message in (
        (SETS, [m[1:] for m in LABELS], r"labels\[0\]: expected 12 rows"),
        (SETS, LABELS[1:], "expected one for each"),
        (
            SETS,
            [np.zeros((12, 3))] * 20,
            "no candidate set carries .*; got 20 sets, 0 of them with subtopics",
        ),
        ([SETS[0], make(1, features=True)[0][0]], LABELS[:2], r"sets\[1\]: expected 0 document features"),
    ):
        with pytest.raises(ValueError, match=message):
            SVMDiv().fit(sets, labels)
    with pytest.raises(ValueError, match="covered subtopic"):
        model.score(SETS[:1], [np.zeros((12, 0))])
    with pytest.raises(TypeError, match="a list of CandidateSet"):
        model.predict(SETS[0])
    with pytest.raises(ValueError, match="k=0"):
        model.predict(SETS, 0)
    with pytest.raises(NotFittedError):
        SVMDiv().predict(SETS)


@pytest.mark.parametrize(
    "model",
    [
        SVMDiv(k=2),
        SVMDiv(
            C=3,
            k=2,
            levels=[Level.title(), Level.share(0.25), Level.neighbours(0.2)],
            document_features=["rank", "centroid"],
            positive="benefits",
            prediction="swap",
        ),
    ],
)
def test_a_saved_model_comes_back(model, tmp_path):
    texts = ["red rose garden", "rose garden", "blue sea ship", "sea ship sail", "night sky"]
    sets = [CandidateSet(texts, titles=["rose", "", "sea", "sea", "sky"])] * 3
    labels = [[[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]]] * 3
    model.fit(sets, labels).save(tmp_path / "m.npz")
    back = structsvm.load(tmp_path / "m.npz")
    assert repr(back) == repr(model)
    assert back.levels_ == model.levels_
    assert back.explain(sets[0]) == model.explain(sets[0])
    assert back.guarantee_ == model.guarantee_
    np.testing.assert_array_equal(back.decision_function(sets), model.decision_function(sets))
    np.testing.assert_array_equal(back.fit(sets, labels).coef_, model.coef_)


def test_a_model_with_code_in_it_is_not_saved(tmp_path):
    sets, labels = [CandidateSet(["red", "red sea", "blue"])] * 2, [[[1, 0], [1, 0], [0, 1]]] * 2
    model = SVMDiv(k=2, vectorizer=make_vectorizer()).fit(sets, labels)
    with pytest.raises(TypeError, match=r"model\.vectorizer: expected"):
        model.save(tmp_path / "m.npz")
    assert not list(tmp_path.iterdir())
