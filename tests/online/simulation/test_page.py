"""The page of a simulation: its numbers, nothing loaded from elsewhere, everything escaped."""

import re
from xml.etree import ElementTree

import numpy as np

from structsvm.online import PreferenceMatrix, Simulation, simulate
from structsvm.online.simulation.page import headline, leaders, results_table, simulation_page
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


def test_nothing_to_report_is_refused() -> None:
    rejected("at least one", simulation_page, {}, world="w", gaps=[0.0])
