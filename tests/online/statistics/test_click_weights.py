"""Files of learned statistics: learning from logs, saving, reading, and use in the commands."""

import json
from pathlib import Path

import numpy as np
import pytest

from structsvm.online.clicklog import Click, ClickLog, Impression, read_log, write_log
from structsvm.online.interleaving import Shown
from structsvm.online.statistics import ClickWeights, analyse, learn_weights, queries_needed
from structsvm.online.statistics.click_weights import LEARNERS, inverse_z_test
from structsvm.online.statistics.features import FEATURES, psi
from tests.refusing import rejected


def impressions(n, seed, *, better=0, names=("old", "new")):
    """Yield lists of two teams with three clicks: the last on the better team with probability 0.75, others random."""
    rng = np.random.default_rng(seed)
    for k in range(n):
        teams = tuple(int(t) for t in rng.permutation([0, 0, 1, 1]))
        shown = Shown("team_draft", ("a", "b", "c", "d"), 2, (teams,), impression=k)
        places = [int(rng.integers(4)) for _ in range(2)]
        team = better if rng.random() < 0.75 else 1 - better
        last = int(rng.choice([k for k in range(4) if teams[k] == team]))
        clicks = tuple(Click(k + 1) for k in [p for p in places if p != last] + [last])
        yield Impression(shown, clicks, rankers=names)


@pytest.fixture
def logs(cli):
    """Write two logs with different better rankers, and a new log."""
    write_log("one.jsonl", impressions(300, 0))
    write_log("two.jsonl.gz", impressions(300, 1, better=1))
    write_log("new.jsonl", impressions(120, 2, better=1))
    return "one.jsonl", "two.jsonl.gz", "new.jsonl"


@pytest.mark.parametrize("method", LEARNERS)
def test_weights_are_those_of_the_stacked_queries(logs, method):
    one, two = read_log(logs[0]), read_log(logs[1])
    learned = learn_weights([(one, "old"), (two, "new")], method)
    rows = np.vstack([psi(one, 0, 1), psi(two, 1, 0)])
    options = {"pair": np.repeat([0, 1], 300)} if method == "minimax_p_value" else {}
    np.testing.assert_array_equal(learned.weights, LEARNERS[method](rows, **options))
    assert (learned.method, learned.n_queries) == (method, 600)
    assert learned.needed_by_clicks == queries_needed(rows[:, 0])
    # the last click tells, the others do not
    assert learned.needed < learned.needed_by_clicks / (1.0 if method == "max_mean_difference" else 1.3)
    assert np.argmax(learned.weights) in (FEATURES.index("multi, last click"), FEATURES.index("click"))


def test_no_logs_are_refused():
    rejected("logs: expected at least one", learn_weights, [])


def test_needed_queries_are_estimated_on_held_out_queries():
    """Fourteen weights fitted to few queries without any effect look good on these queries only."""
    rng, found, fitted = np.random.default_rng(0), 0, 0
    for seed in range(20):
        log = ClickLog.of(impressions(40, seed, better=int(rng.integers(2))))
        coins = [
            Impression(i.shown, tuple(Click(int(rng.integers(4)) + 1) for _ in i.clicks), rankers=i.rankers)
            for i in log.impressions
        ]
        learned = learn_weights([(ClickLog.of(coins), "old")])
        found += learned.needed < 60
        fitted += queries_needed(psi(ClickLog.of(coins)) @ np.array(learned.weights)) < 60
    assert fitted >= 18
    assert found <= 5


def test_a_log_of_three_rankers_compares_the_better_with_each():
    shown = Shown("team_draft", ("a", "b", "c"), 3, ((2, 0, 1),))
    made = [Impression(shown, (Click(1 + k % 3),), rankers=("x", "y", "z")) for k in (0, 0, 0, 1, 2)]
    log = ClickLog.of(made)
    learned = learn_weights([(log, "z")], "max_mean_difference")
    np.testing.assert_array_equal(
        learned.weights, LEARNERS["max_mean_difference"](np.vstack([psi(log, 2, 0), psi(log, 2, 1)]))
    )
    assert learned.n_queries == 10


def test_saved_weights_are_read_to_the_last_bit(tmp_path):
    rng = np.random.default_rng(0)
    for needed in (12.5, np.inf):
        weights = ClickWeights(tuple(rng.normal(size=14).tolist()), "inverse_z_test", 30, needed, 40.25)
        weights.save(tmp_path / "w.json")
        assert ClickWeights.read(tmp_path / "w.json") == weights
    assert json.loads((tmp_path / "w.json").read_text())["features"] == list(FEATURES)


def test_learn_then_analyse(logs, cli):
    text = cli("interleave learn one.jsonl two.jsonl.gz --better old --better new -o weights.json")
    assert all(feature in text for feature in FEATURES)
    assert "600 queries, inverse_z_test" in text
    rows = np.vstack([psi(read_log(logs[0]), 0, 1), psi(read_log(logs[1]), 1, 0)])
    weights = ClickWeights.read("weights.json").weights
    np.testing.assert_array_equal(weights, inverse_z_test(rows))
    plain = cli.json("interleave analyse new.jsonl")
    learned = cli.json("interleave analyse new.jsonl --statistic weights.json --report page.html")
    assert learned["statistic"] == "weighted clicks"
    assert learned["pairs"][0]["p_values"] == analyse(read_log(logs[2]), weights=weights).pairs[0].p_values
    assert learned["winner"] == "new"
    assert "all other results use the click weights" in learned["notes"][-1]
    assert not any("weights" in text for text in plain["notes"])
    assert learned["pairs"][0]["p_value"] < plain["pairs"][0]["p_value"]
    assert "weighted clicks per query" in Path("page.html").read_text()


def test_learn_warns_if_the_better_ranker_has_fewer_clicks(logs, cli):
    for better, said in (("new", "check the names"), ("old", "")):
        cli(f"interleave learn one.jsonl --better {better} -o w.json")
        assert said in cli.err
        assert bool(cli.err) == bool(said)


def test_learn_says_json_and_takes_one_name_for_all(logs, cli):
    command = (
        "interleave learn one.jsonl one.jsonl --better old -o w.json --method inverse_rank_test --ridge 5"
    )
    record = cli.json(command)
    rows = psi(read_log(logs[0]), 0, 1)
    assert record["output"] == "w.json"
    assert record["weights"] == LEARNERS["inverse_rank_test"](np.vstack([rows, rows]), ridge=5).tolist()


GOOD = {
    "version": 1,
    "method": "inverse_z_test",
    "features": list(FEATURES),
    "weights": [0.5] * 14,
    "n_queries": 3,
    "needed": None,
    "needed_by_clicks": 4.0,
}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (GOOD | {"version": 2}, r"value 2 - at `\$\.version`"),
        (GOOD | {"features": ["click"]}, "the 14 click features"),
        (GOOD | {"weights": [1.0]}, "`array` of length >= 14 - at `.*weights`"),
        (GOOD | {"weights": ["x"] * 14}, r"`float`, got `str` - at `.*weights\[0\]`"),
        (GOOD | {"weights": 3}, "`array`, got `int` - at `.*weights`"),
        (GOOD | {"n_queries": 10**400}, "`int` <= 9.*n_queries"),
        (GOOD | {"method": "m"}, "method='m': expected one of 'inverse_z_test'"),
        (GOOD | {"needed": 10**400}, "out of range - at `.*needed`"),
        (GOOD | {"needed_by_clicks": 0}, "`float` > 0.0 - at `.*needed_by_clicks`"),
        ([1], "`object`, got `array`"),
        ({}, "required field `version`"),
    ],
)
def test_broken_weights_are_named(tmp_path, record, message):
    (tmp_path / "w.json").write_text(json.dumps(record))
    rejected(rf"w\.json: expected click weights.*{message}", ClickWeights.read, tmp_path / "w.json")
    (tmp_path / "w.json").write_text(json.dumps(record)[:-1])
    rejected("got another file", ClickWeights.read, tmp_path / "w.json")
