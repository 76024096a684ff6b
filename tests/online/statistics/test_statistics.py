"""Click features, learned weights, the four tests and sample sizes."""

from itertools import pairwise

import numpy as np
import pytest
from msgspec.structs import replace
from scipy import optimize, stats

from experiments._sample_size import _p_values, sample_size_curve
from structsvm.online.clicklog import Click, ClickLog, Impression
from structsvm.online.interleaving import Probabilistic, Shown
from structsvm.online.statistics import queries_needed, sign_test, t_test, wilcoxon_test, z_test
from structsvm.online.statistics.click_weights import (
    inverse_rank_test,
    inverse_z_test,
    max_mean_difference,
    minimax_p_value,
)
from structsvm.online.statistics.features import FEATURES, click_features, psi
from structsvm.online.statistics.significance import TESTS
from tests.refusing import rejected

# thesis, Table 7.1
WEIGHTS = np.array(
    [
        *(0.056693, 0.020917, 0.052410, 0.083463, 0.118568, 0.149682, 0.004950),
        *(0.063423, 0.000303, 0.015217, 0.018800, -0.00419, 0.067362, 0.033067),
    ]
)
IDS = ("1", "2", "3", "4a", "4b", "5a", "5b", "6a", "6b", "6c", "6d", "6e", "6f", "6g")


def impression(teams, clicks, **fields):
    documents = tuple(f"d{k}" for k in range(len(teams)))
    return Impression(Shown("team_draft", documents, 2, (tuple(teams),)), tuple(clicks), **fields)


# -- features ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("example", "features", "score"),
    [
        (impression([0, 1, 0], [Click(1)]), {"1": 1, "5b": 1}, 0.062),
        (impression([0, 1, 0], [Click(3)]), {"1": 1, "5a": 1, "5b": 1}, 0.211),
        (
            impression([0, 1, 0], [Click(3, download=True)]),
            dict.fromkeys(("1", "2", "3", "5a", "5b"), 1),
            0.285,
        ),
        (
            impression([0, 1, 0], [Click(1), Click(2)], query_words=2, title_bold=(0, 2, 0)),
            {"6a": 1, "6d": 1, "4a": -1, "6b": -1},
            -0.002,
        ),
    ],
)
def test_the_worked_examples_of_the_thesis(example, features, score):
    """Thesis 7.4.2, with the weights of Table 7.1."""
    found = click_features(example)
    assert {IDS[k]: found[k] for k in np.flatnonzero(found)} == features
    assert round(float(found @ WEIGHTS), 3) == score
    # the weights are those of the figures as printed, before rounding
    assert abs(found @ WEIGHTS - score) < 5e-4


def literal_features(given: Impression, own: int, other: int) -> list[float]:
    """Compute the definitions of Section 7.3.2 one by one, over sets of clicked ranks."""
    order = [click.rank for click in given.clicks]
    team = {rank: given.shown.evidence[0][rank - 1] for rank in order}
    downloaded = {click.rank for click in given.clicks if click.download}
    regress = {a for a, b in pairwise(order) if b < a}
    sets = {t: {rank for rank in set(order) if team[rank] == t} for t in (own, other)}

    def phi(C, D):
        rows = []
        for c in C:
            more = len(C) > len(D) and len(C & downloaded) > len(D & downloaded)
            equal = len(C) == len(D)
            single, multi = len(set(order)) == 1, len(set(order)) >= 2
            rows.append(
                [
                    1,
                    1 if c in downloaded else 0,
                    1 / len(C) if more else 0,
                    min(given.title_bold[c - 1] / given.query_words, 1) if equal else 0,
                    min(given.abstract_bold[c - 1] / given.query_words, 2) if equal else 0,
                    1 if single and c != 1 else 0,
                    1 if single and c <= 10 else 0,
                    1 if multi and c == order[0] else 0,
                    1 if multi and c == order[-1] else 0,
                    1 if multi and c == order[0] and c != 1 else 0,
                    1 if multi and c == 1 else 0,
                    1 if multi and c in (1, 2, 3) else 0,
                    1 if multi and c <= 10 else 0,
                    1 if multi and c in regress else 0,
                ]
            )
        return np.sum(rows, axis=0) if rows else np.zeros(14)

    return phi(sets[own], sets[other]) - phi(sets[other], sets[own])


def random_impressions(n, rng, n_rankers=2):
    made = []
    for _ in range(n):
        length = int(rng.integers(1, 14))
        teams = [None if rng.random() < 0.1 else int(rng.integers(n_rankers)) for _ in range(length)]
        clicks = [
            Click(int(rng.integers(1, length + 1)), download=[None, False, True][rng.integers(3)])
            for _ in range(rng.integers(0, 6))
        ]
        shown = Shown("team_draft", tuple(range(length)), n_rankers, (tuple(teams),))
        title, abstract = (tuple(int(v) for v in rng.integers(0, 6, length)) for _ in range(2))
        words = {"query_words": int(rng.integers(1, 4)), "title_bold": title, "abstract_bold": abstract}
        made.append(Impression(shown, tuple(clicks), **words))
    return made


def test_features_agree_with_the_definitions_one_by_one():
    rng = np.random.default_rng(0)
    nonzero = np.zeros(14, dtype=int)
    for given in random_impressions(500, rng, n_rankers=3):
        expected = literal_features(given, 2, 0)
        np.testing.assert_allclose(click_features(given, 2, 0), expected, atol=1e-12)
        np.testing.assert_allclose(click_features(given, 0, 2), -np.asarray(expected), atol=1e-12)
        nonzero += np.asarray(expected) != 0
    assert nonzero.min() >= 5  # every feature was put to the test
    assert len(FEATURES) == 14


def test_ranks_of_a_later_page_go_on():
    """A click on the first document of page 2 is at rank 11; lists on which rankers agree are left out."""
    shown = Shown("team_draft", ("a", "b"), 2, ((0, 1),))
    one, later = (Impression(replace(shown, offset=offset), (Click(1),)) for offset in (0, 10))
    same = Impression(Shown("team_draft", ("a", "b"), 2, ((None, None),)), (Click(1),), same=True)
    changed = dict(zip(FEATURES, np.diff(psi(ClickLog.of([one, same, later])), axis=0)[0], strict=True))
    assert {name: x for name, x in changed.items() if x} == {
        "single click, rank > 1": 1,
        "single click, rank <= 10": -1,
    }


def test_features_need_teams():
    shown = Probabilistic().show([["a", "b"], ["b", "a"]], rng=0)
    log, same = (ClickLog.of([Impression(shown, (Click(1),), same=one)]) for one in (False, True))
    rejected("expected records of 'team_draft', got 'probabilistic'", psi, log)
    rejected("at least one impression", psi, same)


# -- learning ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    noise = rng.integers(-2, 3, size=(300, 4)).astype(float)
    noise[:, 0] += rng.random(300) < 0.4
    noise[:, 1] += 3 * rng.choice([-1, 1], 300)
    return noise


def z_score(rows, w):
    delta = rows @ w
    return delta.mean() / delta.std() * np.sqrt(len(rows))


def test_max_mean_difference_is_the_best_unit_vector(rows):
    w = max_mean_difference(rows)
    assert np.linalg.norm(w) == pytest.approx(1)
    others = np.random.default_rng(0).standard_normal((2000, 4))
    others /= np.linalg.norm(others, axis=1)[:, None]
    assert (rows @ others.T).sum(axis=0).max() <= (rows @ w).sum()


def test_inverse_z_test_has_the_largest_z_score(rows):
    w = inverse_z_test(rows)
    best = optimize.minimize(lambda v: -z_score(rows, v), np.ones(4), tol=1e-12)
    assert z_score(rows, w) == pytest.approx(-best.fun, rel=1e-8)
    assert z_score(rows, w) > z_score(rows, max_mean_difference(rows))
    assert w @ rows.T @ rows @ w == pytest.approx(1)
    t = rows.sum(axis=0)
    solved = np.linalg.solve(rows.T @ rows + 7 * np.eye(4), t)
    np.testing.assert_allclose(inverse_z_test(rows, ridge=7), solved / np.sqrt(t @ solved))


def test_inverse_z_test_on_dependent_features(rows):
    """Feature 1 is the sum of 5b and 6f if every click is on the first page: no inverse, yet the same statistic."""
    dependent = np.column_stack([rows, rows[:, 0] + rows[:, 1], np.zeros(len(rows))])
    w = inverse_z_test(dependent)
    np.testing.assert_allclose(dependent @ w, rows @ inverse_z_test(rows), atol=1e-9)
    assert w[-1] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("ridge", [0.0, 1.0, 25.0])
def test_inverse_rank_test_is_the_maximum_of_the_likelihood(rows, ridge):
    def loss(w):
        return np.logaddexp(0, -rows @ w).sum() + ridge / 2 * w @ w

    w = inverse_rank_test(rows, ridge=ridge)
    np.testing.assert_allclose(optimize.approx_fprime(w, loss, 1e-7), 0, atol=2e-3)
    assert loss(w) <= optimize.minimize(loss, np.zeros(4)).fun + 1e-6


def test_inverse_rank_test_says_that_there_is_no_maximum():
    never_wrong = [[1.0, 0.0], [1.0, 1.0], [0.0, -1.0], [0.0, 1.0]]
    rejected("no maximum", inverse_rank_test, never_wrong)
    assert np.isfinite(inverse_rank_test(never_wrong, ridge=1)).all()


@pytest.mark.parametrize("seed", range(6))
def test_minimax_p_value_is_the_best_for_the_worst_pair(seed):
    """No step raises the smallest z-score, and KKT multipliers prove it (z-scores are quasi-concave)."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(60, 400, 4)
    parts = [rng.normal(size=(n, 5)) @ rng.normal(size=(5, 5)) + rng.uniform(-0.1, 0.4, 5) for n in sizes]
    rows, pair = np.vstack(parts), np.repeat([7, 3, 5, 1], sizes)
    w = minimax_p_value(rows, pair)
    z = np.array([z_score(part, w) for part in parts])
    assert z.min() > max(0, min(z_score(part, inverse_z_test(rows)) for part in parts))
    for scale in (1e-3, 0.1, 2.0):
        for step in scale * rng.normal(size=(50, 5)) * np.linalg.norm(w):
            assert min(z_score(part, w + step) for part in parts) <= z.min() + 1e-7
    worst = [part for part, value in zip(parts, z, strict=True) if value < z.min() + 1e-5]
    gradients = [optimize.approx_fprime(w, lambda v, part=part: z_score(part, v), 1e-7) for part in worst]
    system = np.vstack([np.transpose(gradients) / np.abs(gradients).max(), np.ones(len(worst))])
    assert optimize.nnls(system, np.append(np.zeros(5), 1.0))[1] < 1e-4
    assert w @ rows.T @ rows @ w == pytest.approx(1)


def test_minimax_p_value_at_the_edges():
    rows = np.random.default_rng(0).normal([0.3, 0.1, 0.0], 1, (90, 3))
    np.testing.assert_array_equal(minimax_p_value(rows, ridge=2), inverse_z_test(rows, ridge=2))
    # two features: all directions, one by one; the third tells nothing, and the first alone is never wrong in pair 1
    flat = np.column_stack([rows[:, :2], np.zeros(90)])
    flat[45:, 0] = 0.5
    pair = np.arange(90) // 45
    found = minimax_p_value(flat, pair)
    angles = np.linspace(-np.pi / 2, np.pi / 2, 4000)[1:-1]
    each = [
        min(z_score(flat[pair == k], np.array([np.cos(a), np.sin(a), 0])) for k in (0, 1)) for a in angles
    ]
    assert min(z_score(flat[pair == k], found) for k in (0, 1)) >= max(each) - 1e-9
    assert found[2] == pytest.approx(0, abs=1e-12)
    with pytest.raises(ValueError, match="every pair win"):
        minimax_p_value([[1.0, 0.0], [1.0, 1.0], [-1.0, 0.0], [-1.0, -1.0]], [0, 0, 1, 1])
    rejected(r"pair: expected shape \(90,\)", minimax_p_value, rows, [0, 1])


@pytest.mark.parametrize("learn", [max_mean_difference, inverse_z_test, inverse_rank_test, minimax_p_value])
def test_learning_refuses_what_it_cannot_learn_from(learn):
    rejected(r"n_queries, n_features", learn, [1.0, 2.0])
    rejected("row 1", learn, [[1.0], [np.nan]])
    rejected(r"zero", learn, [[0.0], [0.0]])
    if learn is not max_mean_difference:
        rejected("ridge", learn, [[1.0], [0.0]], ridge=-1)


# -- the example of 7.2 ------------------------------------------------------------------------------------


def three_clicks(n, rng):
    """Return psi of two features: the last click is right with probability 0.6, the other two are random."""
    last = rng.choice([1, -1], n, p=[0.6, 0.4])
    return np.column_stack([last, rng.choice([1, -1], (n, 2)).sum(axis=1)]).astype(float)


def test_scoring_the_last_click_only_takes_a_third_of_the_queries():
    """Thesis, Section 7.2: a power of one half at 0.05 needs about 284 or 92 queries (see ``queries_needed``)."""
    sample = three_clicks(40_000, np.random.default_rng(5))
    learned = inverse_z_test(sample)
    assert abs(learned[1] / learned[0]) < 0.05
    sizes = np.arange(20, 480, 10)
    curves = [sample_size_curve(sample @ w, sizes=sizes, n_resamples=1500) for w in ([1, 1], learned)]
    # the share of the last click in the sample is not exactly 0.6
    expected = [queries_needed(sample @ w) for w in ([1, 1], learned)]
    for curve, n in zip(curves, expected, strict=True):
        assert curve.needed(0.05) == pytest.approx(n, rel=0.12)
    assert curves[0].needed(0.05) > 2.5 * curves[1].needed(0.05)


# -- tests -------------------------------------------------------------------------------------------------


def samples():
    rng = np.random.default_rng(7)
    return [
        rng.integers(-3, 4, 40).astype(float),
        rng.standard_normal(35) + 0.3,
        np.array([2.0, 0.0, 0.0, -1.0, 3.0]),
        np.array([1.0, 2.0]),
        rng.standard_normal(70).round(1),
    ]


@pytest.mark.parametrize("delta", samples())
def test_tests_agree_with_scipy(delta):
    nonzero = delta[delta != 0]
    n, positive = len(nonzero), int((nonzero > 0).sum())
    assert sign_test(delta)[:3] == pytest.approx((positive, stats.binomtest(positive, n).pvalue, n))
    expected = stats.ttest_1samp(delta, 0)
    assert t_test(delta)[:3] == pytest.approx((expected.statistic, expected.pvalue, len(delta)))
    z = delta.mean() / (delta.std() / np.sqrt(len(delta)))
    assert z_test(delta)[:3] == pytest.approx((z, 2 * stats.norm.sf(abs(z)), len(delta)))
    found = wilcoxon_test(delta)
    assert (found.n, (n * (n + 1) / 2 - abs(found.statistic)) / 2) == (n, stats.wilcoxon(nonzero).statistic)
    if n > 50 or len(set(np.abs(nonzero))) == n:
        assert found.p_value == pytest.approx(stats.wilcoxon(nonzero).pvalue)


@pytest.mark.parametrize("name", TESTS)
def test_tests_know_their_limits(name):
    test = TESTS[name]
    assert test([0.0, 0.0, 0.0]).p_value == 1
    assert test([-1.0, 0.5, 2.0, 3.0]).p_value == pytest.approx(test([1.0, -0.5, -2.0, -3.0]).p_value)
    assert test([5.0]).p_value == 1
    rejected(r"delta\[1\]: expected a finite number, got nan", test, [1.0, np.nan])
    rejected("one value per query", test, [])
    rejected("expected one id for each of 2 queries, got 1", test, [1.0, 2.0], clusters=["a"])


@pytest.mark.parametrize("name", TESTS)
@pytest.mark.parametrize("delta", samples())
def test_clusters_undo_repeated_queries(name, delta):
    """Logging each query three times adds no evidence; one cluster per query gives the ordinary test (for z: t)."""
    test = TESTS[name]
    plain = TESTS["t" if name == "z" else name](delta)
    alone = test(delta, clusters=range(len(delta)))
    tripled = test(np.repeat(delta, 3), clusters=np.repeat(np.arange(len(delta)), 3).tolist())
    assert alone[:3] == pytest.approx(plain[:3])
    assert tripled[:3] == pytest.approx(plain[:3])


# -- sample sizes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TESTS)
def test_p_values_of_prefixes_are_those_of_each_prefix(name):
    rng = np.random.default_rng(13)
    drawn = np.concatenate(
        [rng.integers(-2, 3, (6, 60)).astype(float), rng.standard_normal((6, 60))],
    )
    sizes = np.array([20, 25, 60])
    expected = [[TESTS[name](row[:m]).p_value for m in sizes] for row in drawn]
    np.testing.assert_allclose(_p_values(drawn, sizes, name), expected, rtol=1e-9, atol=1e-12)


def test_curves_are_seeded_and_fall():
    delta = np.random.default_rng(0).choice([-1.0, 0.0, 1.0], 800, p=[0.2, 0.4, 0.4])
    a, b = (sample_size_curve(delta, random_state=4, n_resamples=300) for _ in range(2))
    np.testing.assert_array_equal(a.p_values, b.p_values)
    np.testing.assert_array_equal(a.sizes, np.arange(25, 801, 25))
    assert a.needed(0.2) < a.needed(0.1) < a.needed(0.05)
    strict = sample_size_curve(delta, random_state=4, n_resamples=300, power=0.9)
    assert strict.needed(0.05) > a.needed(0.05)
    assert strict.needed(0.05) == pytest.approx(queries_needed(delta, power=0.9), rel=0.25)
    assert sample_size_curve(-delta, random_state=4, n_resamples=300).needed(0.05) == a.needed(0.05)


def test_queries_needed_is_where_a_test_has_the_power():
    rng = np.random.default_rng(17)
    population = rng.choice([-1.0, 0.0, 1.0], 100_000, p=[0.25, 0.4, 0.35])
    n = round(queries_needed(population, power=0.8))
    hits = np.mean([z_test(rng.choice(population, n)).p_value <= 0.05 for _ in range(1000)])
    assert hits == pytest.approx(0.8, abs=0.05)
    assert queries_needed([1.0, -1.0]) == np.inf
    clustered = queries_needed(np.repeat(population[:400], 5), clusters=np.repeat(np.arange(400), 5).tolist())
    assert clustered == pytest.approx(5 * queries_needed(population[:400]))


def test_a_log_in_memory_feeds_the_learning():
    log = ClickLog.of(random_impressions(50, np.random.default_rng(0)))
    assert psi(log).shape == (50, 14)
