"""The log of a bandit: each pair of rankers is compared only on the lists that contain both."""

import json
from itertools import combinations

import numpy as np
import pytest
from msgspec.structs import replace

from structsvm.metrics.tests import randomization
from structsvm.online.clicklog import Click, ClickLog, Impression, read_log, write_log
from structsvm.online.evidence.clusters import cluster_means
from structsvm.online.interleaving import Optimized, Probabilistic, TeamDraft
from structsvm.online.statistics import (
    analyse,
    confidence_sequence,
    credit_log,
    learn_weights,
    read_credits,
    t_test,
)
from structsvm.online.statistics.page import page
from tests.refusing import rejected

NAMES = ("a", "b", "c", "d")
DUELS = [(0, 1), (1, 0), (2, 0), (1, 2), (0, 1, 2)]  # d meets nobody


def duels(method, n, seed=0, sizes=(2, 3)):
    rng = np.random.default_rng(seed)
    interleaver = method()
    made = []
    for k in range(n):
        arms = DUELS[rng.integers(len(DUELS))]
        if len(arms) not in sizes:
            arms = DUELS[0]
        shown = interleaver.show([rng.permutation(8).tolist() for _ in arms], 5, rng)
        clicks = tuple(Click(rank) for rank in range(1, 6) if rng.random() < 0.3)
        names = tuple(NAMES[arm] for arm in arms)
        made.append(
            Impression(
                shown.with_impression(f"i{k}"),
                clicks,
                user=f"u{rng.integers(n // 3)}",
                rankers=names,
                among=NAMES,
            )
        )
    return made


@pytest.mark.parametrize(
    ("method", "cluster"),
    [(TeamDraft, None), (TeamDraft, "user"), (Optimized, "user"), (Probabilistic, None)],
)
def test_a_pair_is_compared_on_its_own_lists(tmp_path, method, cluster):
    """The figures of a pair are those of its own lists, also if three rankers meet on a list."""
    made = duels(method, 120)
    path = tmp_path / "duels.jsonl"
    write_log(path, [*made, *made[:7]])
    log = read_log(path)
    assert log.rankers == NAMES
    assert log.n_repeated == 7
    assert tuple(log.impressions) == tuple(made)
    options = {"cluster": cluster, "correction": "none"}
    answers = [analyse(log, **options), analyse(read_credits(path, cluster=cluster), **options)]
    assert answers[0] == answers[1]
    answer = answers[0]
    assert answer.n_impressions == 120
    assert "bandit" in " ".join(answer.notes)
    columns = credit_log(log, cluster=cluster)
    for k, (i, j) in enumerate(combinations(range(4), 2)):
        pair, delta = answer.pairs[k], columns.pairs[k].delta
        assert (pair.a, pair.b) == (NAMES[i], NAMES[j])
        own = [one for one in made if {NAMES[i], NAMES[j]} <= set(one.rankers)]
        assert pair.wins + pair.losses + pair.ties == len(delta) == len(own)
        if not own:
            assert (pair.leader, pair.p_value, pair.always_valid_p_value, pair.mean) == (None, 1.0, 1.0, 0.0)
            continue
        expected = []
        for one in own:  # by the method itself, whichever of the two its list names first
            a, b = one.rankers.index(NAMES[i]), one.rankers.index(NAMES[j])
            credit, outcome = (f(one.shown, one.clicked) for f in (method().credit, method().outcome))
            expected.append(credit[a] - credit[b] if method is TeamDraft else outcome[a, b])
        np.testing.assert_allclose(delta, expected, rtol=1e-12, atol=1e-15)
        # from here on all is as for a log of two
        values = expected if cluster is None else cluster_means(expected, [one.user for one in own])
        assert pair.mean == pytest.approx(np.mean(values), rel=1e-12, abs=1e-15)
        test = {"t": t_test, "randomization": randomization}.get(pair.test)
        if test is not None:  # the sign test of few fractional outcomes is randomised
            assert pair.p_values[pair.test] == pytest.approx(test(np.asarray(values)).p_value, rel=1e-9)
        if method is TeamDraft:
            assert pair.wins == np.sum(np.array(expected) > 0)
        else:  # the bound of team draft is the largest team of the whole log
            seen = confidence_sequence(values)
            ends = seen.lower[0], seen.upper[0]
            assert (pair.always_valid_lower, pair.always_valid_upper) == pytest.approx(ends, abs=1e-9)
    assert "<svg" in page("duels", log, answer)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"among": "abc"}, r"among: expected `array \| null`, got .abc"),
        ({"among": ["a", 1]}, r"among\[1\]: expected `str`, got 1"),
        ({"among": ["a", "a", "b", "c", "d"]}, "among: expected distinct, printable names"),
        ({"among": ["c", "d"]}, "among: expected to contain the names of 'rankers'"),
        ({"rankers": []}, "to contain the names of 'rankers'"),
        ({"among": ["a", "b", "c"]}, "use one log per experiment"),
        ({"among": None}, "use one log per experiment"),
    ],
)
def test_lines_that_do_not_fit(tmp_path, change, said):
    path = tmp_path / "log.jsonl"
    lines = [one.to_dict() for one in duels(TeamDraft, 4)]
    lines[2].update(change)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for reader in (read_log, read_credits):
        rejected(f"log.jsonl:3: .*{said}", reader, path)


def test_a_line_of_a_bandit_in_an_ordinary_log(tmp_path):
    """Such a line is refused even if the names are equal, because its list was drawn differently."""
    path = tmp_path / "log.jsonl"
    made = [replace(one, rankers=("a", "b"), among=()) for one in duels(TeamDraft, 6, sizes=(2,))]
    path.write_text(
        "".join(json.dumps(one.to_dict()) + "\n" for one in [*made[:5], replace(made[5], among=("a", "b"))])
    )
    for reader in (read_log, read_credits):
        rejected(r"log.jsonl:6: .*use one log per experiment", reader, path)


def test_no_weights_from_or_for_a_bandit(tmp_path):
    log = ClickLog.of(duels(TeamDraft, 20))
    rejected("logs: expected lists of all rankers, got the log of a bandit", learn_weights, [(log, "a")])
    rejected("weights: expected none for the log of a bandit", analyse, log, weights=np.ones(14))
