"""The simulator: regret, streams, workers, checkpoints, refusals."""

import json
import signal
import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import t

from experiments._exploration import explore
from experiments._worlds import worst_case
from structsvm.online import PreferenceMatrix, Utilities, bandits, simulate
from structsvm.online.bandits import RUCB, Duel, make
from structsvm.online.simulation.play import RunProgress, Simulation
from structsvm.online.simulation.runs import log_grid
from tests.refusing import rejected

WORLD = Utilities([0.2, 0.9, 0.4, 0.6])
FORMS = ["rucb", partial(make, "rucb")]
"""The same bandit, played compiled and not."""


def assert_same(a: Simulation, b: Simulation) -> None:
    for name in ("regret", "winners", "duels"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


class Fixed:
    """Always plays the same set."""

    n_arms = 3

    def __init__(self, arms: tuple[int, ...]) -> None:
        self.arms = arms

    def select(self, rng: np.random.Generator) -> Duel:
        return Duel(self.arms)

    def update(self, duel: Duel, outcome: object) -> None:
        pass

    def best(self, rng: np.random.Generator | None = None) -> int:
        return self.arms[0]


def test_regret_definitions() -> None:
    P = PreferenceMatrix([[0.5, 0.6, 0.9], [0.4, 0.5, 0.7], [0.1, 0.3, 0.5]])  # gaps 0, .1, .4
    for arms, kind, each in (
        ((1, 2), "average", 0.25),
        ((1, 2), "sum", 0.5),
        ((1, 2), "weak", 0.1),
        ((2, 2), "sum", 0.8),
        ((0, 1, 2), "average", 0.5 / 3),
        ((1, 2, 0), "weak", 0.0),
        ((2,), "average", 0.4),
    ):
        run = simulate(Fixed(arms), P, horizon=20, regret=kind, times=[1, 10])
        assert run.times.tolist() == [1, 10, 20]
        np.testing.assert_allclose(run.regret, [[each, 10 * each, 20 * each]])
        assert run.correct.all() == (arms[0] == 0)
    rejected("for pairs", simulate, Fixed((0, 1, 2)), P, horizon=5, regret="sum")
    rejected("for pairs", simulate, "mdb", P, horizon=5, regret="sum")


def test_duels_are_counted() -> None:
    P = PreferenceMatrix(worst_case(3))
    for arms, duels in (
        ((2, 0), [[0, 0, 14], [0, 0, 0], [0, 0, 0]]),
        ((2, 1, 0), [[0, 14, 14], [0, 0, 14], [0, 0, 0]]),
        ((1,), [[0, 0, 0], [0, 14, 0], [0, 0, 0]]),
    ):
        assert simulate(Fixed(arms), P, horizon=7, n_runs=2).duels.tolist() == duels
    assert simulate("rucb", WORLD, horizon=500, n_runs=3).duels.sum() == 1500


@pytest.mark.parametrize("bandit", ["rucb", partial(make, "rcs"), "mdb"], ids=["rucb", "rcs", "mdb"])
def test_workers_and_other_runs_change_nothing(bandit: Any) -> None:
    one = simulate(bandit, WORLD, horizon=200, n_runs=4, seed=7)
    two = simulate(bandit, WORLD, horizon=200, n_runs=4, seed=7, n_jobs=2)
    fewer = simulate(bandit, WORLD, horizon=200, n_runs=2, seed=7)
    assert_same(one, two)
    np.testing.assert_array_equal(one.regret[:2], fewer.regret)
    assert (simulate(bandit, WORLD, horizon=200, n_runs=4, seed=8).regret != one.regret).any()
    assert len({tuple(row) for row in one.regret}) == 4


@pytest.mark.parametrize("bandit", FORMS, ids=["compiled", "uncompiled"])
def test_recording_does_not_change_the_play(bandit: Any) -> None:
    often = simulate(bandit, WORLD, horizon=300, seed=1, times=range(1, 301))
    seldom = simulate(bandit, WORLD, horizon=300, seed=1, times=[300])
    assert often.regret[0, -1] == pytest.approx(seldom.regret[0, -1])
    assert (np.diff(often.regret[0]) >= -1e-12).all()


def test_names_objects_and_callables_play_alike() -> None:
    bandit = RUCB(4, alpha=0.8)
    runs = [
        simulate("rucb", WORLD, horizon=200, n_runs=2, options={"alpha": 0.8}),
        simulate(bandit, WORLD, horizon=200, n_runs=2),
        simulate(lambda n_arms, horizon: RUCB(n_arms, alpha=0.8), WORLD, horizon=200, n_runs=2),
        simulate("rucb", WORLD.preferences, horizon=200, n_runs=2, options={"alpha": 0.8}),
    ]
    assert [run.compiled for run in runs] == [True, False, False, True]
    for run in runs[1:]:
        np.testing.assert_allclose(run.regret, runs[0].regret, rtol=1e-9)
    assert bandit.to_json() == RUCB(4, alpha=0.8).to_json()  # it was copied


def test_interval_and_accuracy() -> None:
    run = simulate("mdb", WORLD, horizon=3000, n_runs=12)
    low, high = run.interval()
    exact = t.interval(0.95, 11, run.regret[:, -1].mean(), run.regret[:, -1].std(ddof=1) / np.sqrt(12))
    np.testing.assert_allclose([low[-1], high[-1]], exact)
    assert run.accuracy[-1] == 1
    assert run.accuracy.shape == run.times.shape
    assert np.isinf(simulate("mdb", WORLD, horizon=10).interval()[1]).all()


class Interrupt(Exception):
    pass


@pytest.mark.parametrize("bandit", FORMS, ids=["compiled", "uncompiled"])
def test_interrupted_simulation_resumes_to_the_same_result(tmp_path: Path, bandit: Any) -> None:
    compiled = isinstance(bandit, str)
    settings = {"horizon": 400, "n_runs": 3, "seed": 4}
    whole = simulate(bandit, WORLD, **settings)
    path = tmp_path / "state.npz"
    told: list[RunProgress] = []

    def stop(progress: RunProgress) -> None:
        told.append(progress)
        if progress.run == 1 and progress.step >= 100:
            raise Interrupt

    with pytest.raises(Interrupt):
        simulate(bandit, WORLD, **settings, checkpoint=path, callback=stop)
    assert told[-1].n_done == (2 if compiled else 1)
    again: list[RunProgress] = []
    resumed = simulate(bandit, WORLD, **settings, checkpoint=path, callback=again.append)
    assert [file.name for file in tmp_path.iterdir()] == ["state.npz"]
    assert all(progress.run > 0 for progress in again)
    assert_same(resumed, whole)
    # all done: nothing is played again
    again.clear()
    assert_same(simulate(bandit, WORLD, **settings, checkpoint=path, callback=again.append), whole)
    assert not again
    rejected("seed differ", simulate, bandit, WORLD, **{**settings, "seed": 5}, checkpoint=path)


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no signal to one thread here")
def test_compiled_runs_leave_the_main_thread_to_hear_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    release, heard = threading.Event(), []

    def deaf(*_: object, **__: object) -> None:
        """Ignore interrupts that reach this thread, like compiled code."""
        try:
            main = threading.main_thread().ident
            assert main is not None
            signal.pthread_kill(main, signal.SIGINT)
            release.wait(20)
        except KeyboardInterrupt:
            heard.append(True)

    monkeypatch.setattr("structsvm.online.bandits.compiled.rucb.play", deaf)
    # a process in the background may have been started deaf to it
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            simulate("rucb", WORLD, horizon=100)
    finally:
        release.set()
        signal.signal(signal.SIGINT, before)
    assert not heard


@pytest.mark.parametrize("content", [b"", b"PK", b"\x00" * 9, b"[1, 2", b'{"bandit": 3}', b"[" * 100_000])
def test_broken_checkpoints_are_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"state.npz: expected a .*or delete the file"):
        simulate(FORMS[1], WORLD, horizon=100, checkpoint=path)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"horizon": 0}, "horizon=0: expected an integer"),
        ({"horizon": 1e19}, r"horizon=1\d+: expected an integer from 1 to 1e\+18"),
        *(({key: True}, f"^{key}=True: expected") for key in ("horizon", "n_runs", "seed", "n_jobs")),
        ({"times": [True]}, "^times.*: expected"),
        ({"seed": -1}, "seed=-1: expected an integer >= 0"),
        ({"n_jobs": 0}, "n_jobs=0: expected a number of threads"),
        ({"n_runs": 0}, "n_runs"),
        ({"regret": "total"}, "regret='total': expected one of 'average'"),
        ({"times": [0, 5]}, "from 1 to the horizon 10"),
        ({"times": [50]}, "from 1 to the horizon 10"),
        ({"bandit": "ucb"}, "bandit: expected one of"),
        ({"bandit": 3}, "bandit=3: expected a name"),
        ({"bandit": RUCB(2)}, "expected 4 arms, as in the world, got 2"),
        ({"bandit": RUCB(4), "options": {"alpha": 1}}, "options"),
        ({"options": {"gamma": 1}}, "got 'gamma'"),
        ({"world": [[0.5, 0.5], [0.5, 0.5]]}, "Condorcet"),
    ],
)
def test_refusals(change: dict[str, object], message: str) -> None:
    settings: dict[str, object] = {"bandit": "rucb", "world": WORLD, "horizon": 10, **change}
    with pytest.raises(ValueError, match=message):
        simulate(**settings)  # type: ignore[arg-type]


@pytest.mark.slow
def test_log_grid_and_horizon_one() -> None:
    assert log_grid(1).tolist() == [1]
    grid = log_grid(10**7)
    assert grid[0] == 1
    assert grid[-1] == 10**7
    assert (np.diff(grid) > 0).all()
    for name in bandits.NAMES:
        assert simulate(name, WORLD, horizon=1).regret.shape == (1, 1)


def test_a_world_of_ones_own_is_played_uncompiled() -> None:
    class Coin:
        n_arms = 2
        gaps = np.array([0.0, 0.2])
        winners = np.array([0])

        def compare(self, arms: tuple[int, ...], rng: np.random.Generator) -> float:
            return 1.0 if arms[0] < arms[1] else 0.0

    run = simulate("rucb", Coin(), horizon=200)
    assert not run.compiled
    assert run.winner[0] == 0


@pytest.mark.parametrize("name", ["if1", "if2"])
def test_explore_agrees_with_the_literal_policy(name: str) -> None:
    world = PreferenceMatrix(worst_case(5, 0.4))
    compiled, literal = (
        explore(bandit, world, horizon=100, n_runs=4, seed=3, regret="sum")
        for bandit in (name, partial(make, name))
    )
    np.testing.assert_array_equal(compiled.steps, literal.steps)
    np.testing.assert_array_equal(compiled.winner, literal.winner)
    np.testing.assert_allclose(compiled.regret, literal.regret)
    assert compiled.correct.all()
    assert (compiled.steps > 100).all()  # past the horizon
    assert explore(name, world, horizon=100, max_steps=7).steps.tolist() == [7]


def test_a_checkpoint_is_known_whatever_the_order_of_attributes(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    play = partial(simulate, "rucb", WORLD, horizon=50, n_runs=2, seed=4, checkpoint=path)
    whole = play()
    with np.load(path) as file:
        saved = dict(file)
    settings = json.loads(str(saved["settings"]))
    state = json.loads(settings["state"])
    state["state"] = dict(reversed(state["state"].items()))  # as another version wrote it
    settings["state"] = json.dumps(state)
    np.savez(path, **(saved | {"settings": np.array(json.dumps(settings))}))
    again: list[RunProgress] = []
    assert_same(play(callback=again.append), whole)
    assert not again
