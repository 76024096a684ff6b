"""Users of unequal size, one estimand for all figures, and signs that are fair where outcomes are fractions."""

from itertools import permutations

import numpy as np
import pytest
from _click_logs import heavy_user, interleaved
from msgspec import structs

from structsvm.online import interleaving
from structsvm.online.clicklog import Click, ClickLog, Impression, write_log
from structsvm.online.evidence.clusters import cluster_means
from structsvm.online.statistics import (
    analyse,
    confidence_sequence,
    credit_log,
    queries_needed,
    read_credits,
    sign_test,
)
from structsvm.online.statistics.page import summary
from structsvm.online.statistics.significance import TESTS, drawn_signs
from tests.refusing import rejected


def test_all_figures_of_a_log_are_about_one_mean():
    """Light users prefer one ranker, a heavy user the other: the means over queries and over users disagree."""
    users = np.concatenate([np.repeat(np.arange(40), 3), np.full(400, 40)])
    outcomes = np.concatenate([np.tile([1.0, 1.0, 0.0], 40), np.full(400, -1.0)])
    means = cluster_means(outcomes, users)
    answer = analyse(interleaved(outcomes, users), cluster="user")
    pair = answer.pairs[0]
    assert outcomes.mean() < 0 < means.mean() == pytest.approx(pair.mean)
    assert answer.fixed_sample_winner == answer.winner == "old"
    for name, p in pair.p_values.items():
        assert p == pytest.approx(TESTS["t" if name == "z" else name](means).p_value)
    seen = confidence_sequence(means)
    assert (pair.always_valid_lower, pair.always_valid_upper) == pytest.approx((seen.lower[0], seen.upper[0]))
    assert (pair.lower + pair.upper) / 2 == pytest.approx(pair.mean)
    assert pair.queries_needed == pytest.approx(queries_needed(means, power=0.8) * len(outcomes) / 41)
    assert answer.estimand == "mean over users of the mean difference in clicks per query of each user"
    assert answer.estimand in "\n".join(summary(answer))
    assert answer.n_effective_clusters == pytest.approx(520**2 / (40 * 9 + 400**2))
    assert answer.largest_cluster_share == pytest.approx(400 / 520)
    assert any("the largest of 41 users has 76.9% of the queries" in note for note in answer.notes)


@pytest.mark.slow
def test_heavy_users_first_do_not_bias_the_always_valid_figures():
    """The mean over users is 0; users with 15 queries prefer one ranker and come first."""
    users = np.repeat(np.arange(120), [15] * 60 + [3] * 60)
    outcomes = np.where(users < 60, 1.0, -1.0)
    pair = analyse(interleaved(outcomes, users), cluster="user").pairs[0]
    assert pair.mean == pytest.approx(0)
    assert pair.always_valid_lower < 0 < pair.always_valid_upper
    assert pair.always_valid_p_value == 1
    looks = np.arange(6, 121, 6)
    crossed = 0
    for seed in range(30):
        seen = confidence_sequence(outcomes, clusters=users, looks=looks, random_state=seed)
        outside = (seen.lower > 0) | (seen.upper < 0)
        np.testing.assert_array_equal(outside, seen.p_values <= 0.05)
        crossed += bool(outside.any())
    assert crossed <= 30 * 0.05 + 3 * np.sqrt(30 * 0.05 * 0.95)


@pytest.mark.parametrize(
    "method",
    [interleaving.TeamDraft(), interleaving.Balanced(), interleaving.DocumentConstraints()],
    ids=lambda m: m.name,
)
def test_no_clicks_exceed_the_bound(method):
    """Check all lists of several rankings with all click vectors."""
    for other, length in (("dcba", 4), ("bcda", 3), ("efab", 4), ("dcba", 1)):
        lists = method.distribution([list("abcd"), list(other)], length)
        made = [
            Impression(shown, tuple(Click(int(k) + 1) for k in np.flatnonzero(clicks)))
            for shown, _ in lists
            for clicks in np.ndindex(*[2] * len(shown.documents))
        ]
        measured = credit_log(ClickLog.of(made))
        assert measured.bound > 0
        assert np.abs(measured.pairs[0].delta).max() <= measured.bound


def test_no_features_exceed_the_bound_of_their_weights():
    """Check each feature alone, for all click vectors and orders on lists of four."""
    orders = [order for n in range(5) for order in permutations(range(1, 5), n)]
    bold = {"query_words": 1, "title_bold": (3, 0, 3, 0), "abstract_bold": (3, 0, 3, 0)}
    made = [
        Impression(
            interleaving.Shown("team_draft", tuple("abcd"), 2, (teams,)),
            tuple(Click(k, download=download) for k in order),
            **bold,
        )
        for teams in ((0, 1, 0, 1), (0, 1, 1, 0), (0, 0, 0, 0))
        for order in orders
        for download in (False, True)
    ]
    log = ClickLog.of(made)
    for weights in np.eye(14):
        measured = credit_log(log, weights=weights)
        assert 0 < np.abs(measured.pairs[0].delta).max() <= measured.bound


# -- wins and losses of outcomes that are fractions ----------------------------------------------------------

FRACTIONS = [interleaving.Probabilistic(), interleaving.Optimized(), interleaving.SOSM()]


def test_drawn_signs_are_outcomes_on_average():
    """A win or loss with probability ``|x|``, whose mean is ``x``: fair where the outcome is, unlike its sign."""
    x = np.linspace(-1, 1, 21)
    drawn = drawn_signs(np.repeat(x, 4000), 0).reshape(len(x), -1)
    assert set(np.unique(drawn)) == {-1.0, 0.0, 1.0}
    assert ((drawn == 0) | (drawn == np.sign(x)[:, None])).all()
    assert np.abs(drawn.mean(axis=1) - x).max() < 5 * np.sqrt(0.25 / 4000)


def test_drawn_signs_leave_whole_outcomes_and_refuse_others():
    np.testing.assert_array_equal(drawn_signs(np.array([1.0, 0.0, -1.0, 1.0 - 1e-14]), 0), [1, 0, -1, 1])
    np.testing.assert_array_equal(drawn_signs([0.5] * 50, 4), drawn_signs([0.5] * 50, 4))
    for bad in (1.5, np.nan):
        rejected(r"outcomes\[0\]: expected a number in \[-1, 1\]", drawn_signs, [bad], 0)


@pytest.mark.parametrize("method", FRACTIONS, ids=lambda m: m.name)
def test_analysis_draws_signs_and_has_no_wilcoxon_test_for_fractions(method):
    rng = np.random.default_rng(5)
    log = ClickLog.of(
        Impression(
            method.show([list("abcd"), list("bcda")], 4, rng), (Click(int(rng.integers(1, 5))),), user=k % 7
        )
        for k in range(200)
    )
    answer = analyse(log, random_state=1)
    assert answer == analyse(log, random_state=1)
    pair = answer.pairs[0]
    assert set(pair.p_values) == {"sign", "z", "t"}
    assert pair.p_values["sign"] == sign_test([1] * pair.wins + [-1] * pair.losses + [0] * pair.ties).p_value
    assert any("randomise each fractional outcome" in note for note in answer.notes)
    by_user = analyse(log, cluster="user").pairs[0]
    assert (set(by_user.p_values), by_user.test) == ({"sign"}, "sign")  # seven users
    rejected("test: wilcoxon needs a statistic that is symmetric", analyse, log, test="wilcoxon")


def _log(n, **ids):
    shown = interleaving.Shown("team_draft", ("a", "b"), 2, ((0, 1),))
    return ClickLog.of(
        Impression(shown.with_impression(k), (Click(k % 2 + 1),), **{by: of(k) for by, of in ids.items()})
        for k in range(n)
    )


def test_users_who_come_again_are_said_where_impressions_are_taken_as_independent():
    log = _log(10, user=lambda k: k // 4)
    [note] = analyse(log).notes
    assert note.startswith("7 of the first 10 impressions are from a user seen before")
    assert "--cluster user" in note
    assert not any("seen before" in note for note in analyse(log, cluster="user").notes)
    assert "from a session seen before" in analyse(_log(10, session=lambda k: k // 2)).notes[0]
    for ids in ({}, {"user": lambda k: k}, {"user": lambda k: [1, "1"][k]}):
        assert not analyse(_log(2, **ids)).notes


@pytest.mark.parametrize("from_file", [False, True])
def test_a_log_of_one_heavy_user_names_no_winner_by_chance(tmp_path, from_file):
    """Check 40 logs of equally good rankers, with a user who has half of the lists and prefers one ranker."""
    won = {"auto": 0, None: 0}
    for seed in range(40):
        log = interleaved(*heavy_user(np.random.default_rng(seed)))
        if from_file:
            write_log(tmp_path / "log.jsonl", log.impressions)
        for cluster in won:
            read = read_credits(tmp_path / "log.jsonl", cluster=cluster) if from_file else log
            answer = analyse(read, cluster=cluster)
            won[cluster] += answer.fixed_sample_winner is not None
            if cluster is None:
                assert not answer.independent
                assert answer.winner is None
                assert np.isinf(answer.more_queries())
                assert "none named" in "".join(summary(answer))
            else:
                assert answer.cluster == "user"
                assert answer.pairs == analyse(log, cluster="user").pairs
    assert won["auto"] <= 6  # 40 of 40 if each list counts
    assert won[None] == 0


def test_clusters_require_an_id_on_every_list():
    """Clusters are users, else sessions, if every list has one; users with one list each are independent."""
    values, users = np.r_[np.ones(30), -np.ones(6)], np.repeat(np.arange(12), 3)
    log = interleaved(values, users)

    def changed(**fields):
        return ClickLog.of(
            structs.replace(one, **{name: of(i, one) for name, of in fields.items()})
            for i, one in enumerate(log.impressions)
        )

    sessions = changed(session=lambda i, one: one.user, user=lambda i, one: None)
    assert analyse(sessions, cluster="auto").cluster == "session"
    answer = analyse(changed(user=lambda i, one: None if i == 30 else one.user), cluster="auto")
    assert (answer.cluster, answer.fixed_sample_winner) == (None, None)
    answer = analyse(changed(user=lambda i, one: i), cluster="auto")
    assert (answer.cluster, answer.fixed_sample_winner is None) == (None, False)


def test_a_repeated_line_is_no_user_who_comes_again():
    log = _log(6, user=lambda k: k)
    assert not any("seen before" in note for note in analyse(ClickLog.of(log.impressions * 2)).notes)
    assert credit_log(_log(6, user=lambda k: 0)).again == ("user", 5, 6)
