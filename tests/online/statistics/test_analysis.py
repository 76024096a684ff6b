"""The analysis of a log: all interleaving methods, several rankers, clusters, and the commands."""

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import ANY

import numpy as np
import pytest

from structsvm import QueryData, SVMMap
from structsvm.online import interleaving
from structsvm.online.clicklog import Click, ClickLog, Impression, read_log, write_log
from structsvm.online.evidence.bets import Evidence, thresholds
from structsvm.online.evidence.clusters import cluster_means
from structsvm.online.interleaving import Shown
from structsvm.online.interleaving.by_name import NAMES, interleaver
from structsvm.online.statistics import analyse, credit_log, simulate_log
from structsvm.online.statistics.credited_log import CreditedLog, PairColumns
from structsvm.online.statistics.page import summary
from structsvm.online.users import CascadeUser
from structsvm.readers import make_ranking, write_letor
from tests.refusing import rejected

METHODS = [*map(interleaver, NAMES)]
TEAM_DRAFT = interleaving.TeamDraft()


@pytest.fixture(scope="module")
def data() -> QueryData:
    return make_ranking(20, 12, 4, grades=3, random_state=1)


def ideal_and_worse(data, *noise):
    rng = np.random.default_rng(0)
    return np.column_stack([data.y + sigma * rng.standard_normal(data.n_rows) for sigma in noise])


TEAMS = Shown("team_draft", ("a", "b"), 2, ((0, 1),))


def clicked(*ranks):
    """Return a log of one list of two teams, clicked at the given ranks."""
    return ClickLog.of(Impression(TEAMS, (Click(rank),)) for rank in ranks)


def simulated(data, scores, method, n, *, user="informational", **options):
    clicks = CascadeUser.named(user, 3)
    options = {"length": 5, "rng": 0, **options}
    return ClickLog.of(simulate_log(data, scores, method, clicks, n, **options))


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_every_method_finds_the_better_ranker(data, method):
    scores = ideal_and_worse(data, 3.0, 0.1)
    n = 500
    answer = analyse(simulated(data, scores, method, n, rankers=["worse", "better"]))
    winners = answer.fixed_sample_winner, answer.leader, answer.winner
    assert winners == ("better",) * 3, "the credits vary too much, or bound exceeds them, for 500 lists"
    assert answer.more_queries() == 0
    pair = answer.pairs[0]
    assert pair.mean < 0 > pair.upper > pair.lower
    assert pair.always_valid_lower < pair.mean < pair.always_valid_upper < 0
    assert pair.wins + pair.losses + pair.ties == n
    assert pair.losses > pair.wins
    mirrored = analyse(simulated(data, scores[:, ::-1], method, n, rankers=["better", "worse"]))
    assert mirrored.fixed_sample_winner == "better"
    biased = [note for note in answer.notes if "may be due to this bias" in note]
    assert bool(biased) == bool(method.bias)


def test_three_rankers_are_corrected_for_three_pairs(data):
    log = simulated(
        data, ideal_and_worse(data, 2.0, 0.1, 4.0), interleaving.TeamDraft(), 500, rankers=["b", "a", "c"]
    )
    plain, holm, bh = (analyse(log, correction=c) for c in ("none", "holm", "bh"))
    assert [(pair.a, pair.b) for pair in holm.pairs] == [("b", "a"), ("b", "c"), ("a", "c")]
    assert holm.fixed_sample_winner == "a"
    p = [[pair.p_value for pair in answer.pairs] for answer in (plain, bh, holm)]
    assert (np.diff(p, axis=0) >= 0).all()
    assert np.sort(p[2])[0] == pytest.approx(3 * np.sort(p[0])[0])
    always = [[pair.always_valid_p_value for pair in answer.pairs] for answer in (plain, holm)]
    assert (np.diff(always, axis=0) >= 0).all()
    assert holm.pairs[0].queries_needed > plain.pairs[0].queries_needed


def test_a_tie_is_not_decided():
    answer = analyse(clicked(*[1, 2] * 10))
    assert answer.fixed_sample_winner is None
    assert answer.more_queries() == math.inf
    assert answer.to_dict()["more_queries"] is None


def test_more_queries_are_those_that_are_missing():
    answer = analyse(clicked(*[1, 1, 1, 2, 2] * 8))
    assert (answer.fixed_sample_winner, answer.leader) == (None, "ranker 1")
    # 7.849 * 0.96 / 0.2^2 queries in all
    assert answer.pairs[0].queries_needed == pytest.approx(188.4, abs=0.1)
    assert answer.more_queries() == 189 - 40
    assert analyse(clicked(*[1, 1, 1, 2, 2] * 40)).fixed_sample_winner == "ranker 1"


@pytest.fixture
def many_small_few_large() -> ClickLog:
    """Return seventy queries won by "often" with one click, and thirty won by "high" with four."""
    shown = Shown("team_draft", tuple("abcdefgh"), 2, ((0, 1, 0, 1, 0, 1, 1, 1),))
    small, large = (Click(1),), tuple(Click(rank) for rank in (2, 4, 6, 7))
    impressions = [
        Impression(shown, clicks, rankers=("often", "high")) for clicks in [small] * 70 + [large] * 30
    ]
    return ClickLog.of([impressions[i] for i in np.random.default_rng(0).permutation(100)])


def test_the_winner_is_whom_the_chosen_test_speaks_for(many_small_few_large):
    by_sign = analyse(many_small_few_large, test="sign")
    assert (by_sign.pairs[0].wins, by_sign.pairs[0].losses, by_sign.pairs[0].mean) == (70, 30, -0.5)
    assert by_sign.pairs[0].p_value < 1e-3
    assert (by_sign.fixed_sample_winner, by_sign.leader, by_sign.winner) == ("often", "often", None)
    assert any("sign test favours often, the mean high" in note for note in by_sign.notes)
    # fewer than 30 fractions: the sign test of drawn wins and losses decides in place of the t test, and is named
    x = np.repeat([0.5, -0.75], [4, 3])
    few = CreditedLog("optimized", ("a", "b"), 7, 7, 0, 0, 0, (PairColumns(x, x),))
    notes = {note for k in range(20) for note in analyse(few, random_state=k).notes if "favours" in note}
    assert notes == {"a against b: the sign test favours a, the mean b, which wins less often, but by more"}
    by_mean = analyse(many_small_few_large)
    assert (by_mean.fixed_sample_winner, by_mean.leader) == ("high", "high")
    # the always-valid figures are about the same mean as the t test
    by_hand = by_mean.pairs[0]
    assert by_hand.always_valid_lower < by_hand.mean == -0.5 < by_hand.always_valid_upper
    assert by_hand == replace(
        by_sign.pairs[0], p_value=by_hand.p_value, leader="high", queries_needed=ANY, test="t"
    )
    # rank sums: 70 x 35.5 against 30 x 85.5
    by_rank = analyse(many_small_few_large, test="wilcoxon")
    assert (by_rank.fixed_sample_winner, by_rank.leader) == (None, "high")


def test_no_number_is_foreseen_for_a_leader_whom_the_mean_does_not_favour(many_small_few_large):
    every = many_small_few_large.impressions
    small, large = ([i for i in every if len(i.clicks) == n] for n in (1, 4))
    answer = analyse(ClickLog.of([*small[:4], *large[:2]]), test="sign")
    assert (answer.fixed_sample_winner, answer.leader, answer.pairs[0].mean < 0) == (None, "often", True)
    assert answer.more_queries() == math.inf
    said = "no number of queries can be predicted: the mean does not favour often"
    assert said in "\n".join(summary(answer))


def test_bad_options_are_refused():
    log = ClickLog.of([Impression(Shown("magic", ("a",), 2, ((0,),)), ())])
    for options, message in [
        ({"correction": "hope"}, "correction='hope': expected one of 'holm', 'bh', 'none'"),
        ({}, "method: expected one of .*balanced, .*team_draft.*, got 'magic'"),
    ]:
        rejected(message, analyse, log, **options)
    broken = ClickLog.of([Impression(Shown("team_draft", ("a",), 2, ((7,),)), (Click(1),))])
    rejected("impression 0: shown: expected teams from 0 to 1, got 7", analyse, broken)


def test_simulated_logs_are_seeded_and_follow_the_click_model(data):
    scores = ideal_and_worse(data, 1.0, 1.0)
    draw = partial(simulate_log, data, scores, TEAM_DRAFT, CascadeUser.named("perfect", 3), 80, length=12)
    first, again, other = (list(draw(n_users=3, rng=seed)) for seed in (5, 5, 6))
    assert first == again != other
    assert [impression.shown.impression for impression in first] == list(range(80))
    assert {impression.user for impression in first} == {"u0", "u1", "u2"}
    for impression in first:
        q = int(np.flatnonzero(data.query_ids == impression.query)[0])
        grades = data.y[data.offsets[q] + np.array(impression.shown.documents, dtype=int)]
        assert (grades[impression.clicked] > 0).all()
        assert impression.clicked[grades == 2].all()
        times = [click.time for click in impression.clicks]
        assert times == sorted(times)


def test_simulated_logs_show_the_ids_of_the_data(data):
    named = replace(data, docid=np.array([f"d{row}" for row in range(data.n_rows)]))
    user, scores = CascadeUser.named("perfect", 3), ideal_and_worse(data, 1.0, 1.0)
    logs = [simulate_log(each, scores, TEAM_DRAFT, user, 30, rng=2) for each in (data, named)]
    for number, name in zip(*logs, strict=True):
        q = int(np.flatnonzero(data.query_ids == number.query)[0])
        assert name.shown.documents == tuple(f"d{data.offsets[q] + k}" for k in number.shown.documents)
        assert name.clicks == number.clicks


def test_simulated_logs_refuse_what_does_not_fit(data):
    user = CascadeUser.named("perfect", 3)
    for scores, n, message in [
        (np.ones((3, 2)), 1, r"scores: expected a row for each of 240 documents"),
        (np.ones((240, 1)), 1, "two or more rankers"),
        (np.full((240, 2), np.nan), 1, "got NaN"),
        (np.ones((240, 2)), 0, "n_impressions"),
    ]:
        rejected(message, list, simulate_log(data, scores, TEAM_DRAFT, user, n))


# -- the commands ------------------------------------------------------------------------------------------


def test_simulate_then_analyse(cli, data):
    write_letor(data, "data.txt")
    command = (
        "interleave simulate --data data.txt --ranker 1 --ranker 3 --impressions 200 --seed 4 --users 20 -o"
    )
    for name in ("log.jsonl.gz", "again.jsonl.gz"):
        cli(command, name)
    log, first = read_log("log.jsonl.gz"), Path("log.jsonl.gz").read_bytes()
    assert log == read_log("again.jsonl.gz")
    out = cli.json("interleave analyse log.jsonl.gz --cluster user")
    assert (out["rankers"], out["n_impressions"], out["n_clusters"]) == (["feature 1", "feature 3"], 200, 20)
    pair = out["pairs"][0]
    assert set(pair["p_values"]) == {"sign", "wilcoxon", "randomization"}  # of 20 users
    # the test counts users by the sign of their mean, and the text says so
    means = cluster_means(credit_log(log).pairs[0].delta, [one.user for one in log.impressions])
    assert [pair["unit_wins"], pair["unit_losses"]] == [np.sum(np.sign(means) == sign) for sign in (1, -1)]
    text = cli("interleave analyse log.jsonl.gz --report out.html")
    count = f"feature 1 ahead in {pair['unit_wins']}, feature 3 in {pair['unit_losses']}, which the sign test counts"
    for said in (f"  users         {count}\n", " test over users", "winner", "more", "always valid"):
        assert said in text
    page = Path("out.html").read_text()
    for said in ("feature 1 against feature 3", "<svg"):
        assert said in page
    assert Path("log.jsonl.gz").read_bytes() == first


def test_a_fitted_model_is_a_ranker(cli, data):
    SVMMap(C=1.0).fit(data.X, data.y, qid=data.qid).save("model.npz")
    write_letor(data, "data.txt")
    cli("interleave simulate --data data.txt --impressions 300 -o log.jsonl --ranker 4 --ranker model.npz")
    assert cli.json("interleave analyse log.jsonl")["leader"] == "model.npz"


def test_several_rankers_and_an_open_question(cli):
    cli("interleave simulate -o log.jsonl --impressions 40 --clicks random --ranker 1 --ranker 2 --ranker 3")
    text = cli("interleave analyse log.jsonl")
    assert "not decided" in text
    assert "corrected by holm" in text
    assert text.count(" against ") == 3


def test_without_a_difference_no_ranker_is_ahead(cli):
    write_log("log.jsonl", [Impression(TEAMS, ())])
    text = cli("interleave analyse log.jsonl --report log.html")
    assert "winner     not decided; no ranker is ahead\n" in text
    assert "more       no number of queries can be predicted: no ranker is ahead\n" in text
    assert "no ranker is ahead" in Path("log.html").read_text()


def test_a_record_that_cannot_be_credited_is_said_with_file_and_line(cli):
    """The line is right after empty and skipped lines, and if the name of the file contains braces."""
    log = Path("log{1}.jsonl")
    good, broken = (Shown("team_draft", ("a",), 2, ((team,),)) for team in (1, 7))
    made = [Impression(good, (Click(1),)), Impression(good, None), Impression(broken, (Click(1),))]
    write_log(log, made)
    text = log.read_text().splitlines(keepends=True)
    log.write_text("".join([*text[:2], "\n", text[2]]))
    for command in ("interleave analyse", "interleave learn --better 'ranker 1' -o weights.json"):
        assert "log{1}.jsonl:4: shown: expected teams from 0 to 1, got 7" in cli.refuses(command, log)
    write_log(log, made[:2])
    assert "log{1}.jsonl:1 has none" in cli.refuses("interleave analyse --cluster user", log)


def test_the_best_of_three_is_named_by_the_evidence_of_its_pairs() -> None:
    """One error rate for all rankers requires less evidence than Holm's correction over all pairs."""
    rng, best = np.random.default_rng(0), interleaving.TeamDraft()
    rankings = [[0, 1, 2, 3], [1, 0, 2, 3], [2, 3, 1, 0]]
    impressions = []
    for _ in range(60):
        shown = best.show(rankings, 4, rng)
        impressions.append(Impression(shown, (Click(shown.documents.index(0) + 1),), rankers=("a", "b", "c")))
    answer = analyse(ClickLog.of(impressions))
    assert answer.winner == "a"
    levels = thresholds(answer.alpha, 3)
    for pair in answer.pairs:
        if "a" in (pair.a, pair.b):
            assert pair.log_evidence[0 if pair.a == "a" else 1] >= levels[0]
    one = Evidence(2)
    one.extend(0, 1, np.array([1.0] * answer.pairs[0].wins + [0.0] * answer.pairs[0].losses))
    assert answer.pairs[0].log_evidence[0] <= one.peak[0, 1] + 1e-12
