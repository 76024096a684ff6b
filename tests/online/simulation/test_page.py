"""The page of a simulation: its numbers, nothing loaded from elsewhere, everything escaped."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from structsvm.online import PreferenceMatrix, simulate
from structsvm.online.simulation.page import duel_map, headline, leaders, results_table, simulation_page
from structsvm.online.simulation.play import Simulation
from tests.refusing import rejected

P = [[0.5, 0.4, 0.7], [0.6, 0.5, 0.8], [0.3, 0.2, 0.5]]


def runs(n_runs: int = 3) -> dict:
    return {
        name: simulate(name, P, horizon=2000, n_runs=n_runs, seed=1) for name in ("rucb", "mdb", "savage")
    }


def page(results: dict, **options: object) -> str:
    return simulation_page(results, world="<three>", gaps=PreferenceMatrix(P).gaps, **options)  # type: ignore[arg-type]


def test_page_is_well_formed_and_loads_nothing() -> None:
    text = page(runs(), facts=[("arms & co", "3")], names=["a<b", "b", "c"])
    body = text.replace("<!doctype html>", "")
    body = re.sub(r"<(meta|img)([^>]*)>", r"<\1\2/>", body)
    body = re.sub(r"(tabindex|role|aria-\w+|class)=(\w+)(?=[ >])", r'\1="\2"', body)
    ElementTree.fromstring(body)
    assert "<three>" not in text
    assert "&lt;three&gt;" in text
    assert "a&lt;b" in text
    assert "arms &amp; co" in text
    assert not re.search(r"https?://|<script|@import|url\((?!#)", text)


def test_numbers_of_the_table_are_those_of_the_runs() -> None:
    results = runs()
    columns, rows, best = results_table(results)
    assert len(columns) == len(rows[0])
    ends = {name: run.mean()[-1] for name, run in results.items()}
    assert best is None
    assert leaders(results)[0] == min(ends, key=ends.get)  # type: ignore[arg-type]
    for row in rows:
        assert float(row[1].replace(",", "")) == pytest.approx(ends[row[0]], rel=0.01)
        low, high = (float(v.replace(",", "")) for v in row[2].split(" to "))
        assert low <= ends[row[0]] <= high
        assert row[3] == f"{int(results[row[0]].correct[:, -1].sum())} of 3"


def fake(*ends: float) -> Simulation:
    """Return runs of a pair of arms that end with the given regrets."""
    regret = np.array(ends)[:, None]
    none = np.zeros(regret.shape, dtype=np.int64)
    return Simulation(np.array([100]), regret, none, none == 0, np.zeros((2, 2), dtype=np.int64), False)


def test_the_headline_follows_the_intervals() -> None:
    # means 10, 12, 30 and half widths of 4.3 standard errors (three runs)
    near, next_to, far = fake(9, 10, 11), fake(11, 12, 13), fake(29, 30, 31)
    results = {"far": far, "next": next_to, "near": near}
    assert leaders(results) == ["near", "next"]
    assert headline(results) == (
        "No bandit clearly has the least regret after 100 comparisons (3 runs each): near (10) and next (12) tie, "
        "since their 95% intervals overlap."
    )
    assert results_table(results)[2] is None
    assert leaders({"far": far, "near": near}) == ["near"]
    assert "near has the least regret: 10 after 100 comparisons" in headline({"far": far, "near": near})
    assert results_table({"far": far, "near": near})[2] == 1
    third = headline({**results, "other": fake(10, 10, 13)})
    assert "near (10), other (11) and next (12) tie" in third
    # intervals that touch overlap, equal ones too
    assert leaders({"a": fake(5, 5), "b": fake(5, 5)}) == ["a", "b"]
    assert leaders({"a": fake(5, 5), "b": fake(5.001, 5.001)}) == ["a"]


def test_heat_map_counts_pairs_once_and_orders_arms() -> None:
    duels = np.array([[7, 30, 0], [0, 0, 3], [0, 0, 0]])
    shown = duel_map(duels, [1, 0, 2], title="x", names=["a", "b", "c"])
    assert (shown.n_never, shown.n_pairs, shown.most, shown.arms) == (1, 3, 30, ["b", "a", "c"])
    assert [row[0] for row in shown.pairs] == ["b and a", "a alone", "b and c"]
    assert [row[2] for row in shown.pairs] == ["75.0%", "17.5%", "7.5%"]
    np.testing.assert_allclose(np.expm1(shown.shares[0] * np.log1p(30)), [0, 30, 3])
    many = duel_map(np.zeros((20, 20), dtype=int), range(20), title="x")
    assert ", ".join(many.arms) == "0, 1, 2, 3, 4, 5, 6, …, 19"
    assert duel_map(np.zeros((3, 3), dtype=int), [0, 1, 2], title="x").n_never == 3
    text = page(runs(), names=["a", "b", "c"])
    assert "pairs were never compared" in text
    assert "best first\n(" in text


def test_nothing_to_report_is_refused() -> None:
    rejected("at least one", simulation_page, {}, world="w", gaps=[0.0])
