"""``structsvm bandit simulate``: inputs, outputs, and errors raised before any work."""

from pathlib import Path

import numpy as np
import pytest

from structsvm import StructuralRanker, online
from structsvm.online import simulate
from structsvm.online.simulation.page import leaders
from structsvm.readers import make_ranking, read_letor, write_letor

P = np.array([[0.5, 0.4, 0.7], [0.6, 0.5, 0.8], [0.3, 0.2, 0.5]])
QUICK = "--horizon 500 --runs 2 --seed 3"
BANDIT = "bandit simulate --world"


@pytest.fixture(autouse=True)
def worlds(cli):
    """Write a preference matrix, and LETOR data."""
    np.save("P.npy", P)
    write_letor(make_ranking(20, 10, 3, grades=3, noise=0.3, random_state=4), "data.txt")


@pytest.mark.slow
def test_json_is_what_the_library_says(cli):
    record = cli.json(f"{BANDIT} P.npy --algorithms rucb,rucb:alpha=0.7,savage", QUICK)
    assert (record["n_arms"], record["best"], record["horizon"]) == (3, [1], 500)
    assert "savage: 2 runs of 500 comparisons done" in cli.err
    witnesses = {
        label: simulate(label.split(":")[0], P, horizon=500, n_runs=2, seed=3, options=options)
        for label, options in (("rucb", {}), ("rucb:alpha=0.7", {"alpha": 0.7}), ("savage", {}))
    }
    for label in ("rucb", "rucb:alpha=0.7"):
        witness, found = witnesses[label], record["algorithms"][label]
        assert found["regret"] == pytest.approx(witness.mean()[-1])
        assert found["winners"] == witness.winner.tolist()
        assert found["mean_regret"] == pytest.approx(witness.mean().tolist())
        np.testing.assert_allclose(found["interval"], [edge[-1] for edge in witness.interval()])
    assert record["least"] == leaders(witnesses)


def test_other_files_of_a_matrix(cli):
    np.savez("P.npz", P)
    for name, delimiter in (("spaces", " "), ("commas", ",")):
        np.savetxt(name, P, delimiter=delimiter, header="preferences")
    files = ("P.npy", "P.npz", "spaces", "commas")
    assert len({cli(f"{BANDIT} {name} --algorithms mdb", QUICK) for name in files}) == 1


def test_table_and_page(cli):
    out = cli(f"{BANDIT} P.npy --algorithms 'rucb, mdb' --report out.html", QUICK).splitlines()
    assert [line.split()[0] for line in out] == ["bandit", "rucb", "mdb", "No", "report:"]
    assert "tie, since their 95% intervals overlap" in out[3]
    page = Path("out.html").read_text()
    assert page.startswith("<!doctype html>")
    for text in (out[3], "P.npy", "data:image/png"):
        assert text in page


@pytest.mark.slow
@pytest.mark.parametrize("options", ["", "--live", "--interleaving team_draft --clicks perfect"])
def test_letor_data_by_proxy_and_live(options, cli):
    record = cli.json(
        f"{BANDIT} data.txt --algorithms rucb", "--samples 300 --gap ndcg --horizon 100 --runs 1", options
    )
    assert record["n_arms"] == 3
    assert record["algorithms"]["rucb"]["interval"] is None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::structsvm.trainers.NothingLearnedWarning")
def test_saved_models_are_rankers(cli):
    data = read_letor("data.txt")
    for name, C, scale in (("weak", 1e-6, "none"), ("strong", 100.0, "query-minmax")):
        y = data.y if name == "strong" else 2 - data.y
        StructuralRanker("pairs", C, scale=scale).fit(data.X, y, qid=data.qid).save(f"{name}.npz")
    record = cli.json(
        f"{BANDIT} data.txt",
        "--model weak.npz --model strong.npz --samples 500 --algorithms rucb --report out.html",
        QUICK,
    )
    assert (record["n_arms"], record["best"]) == (2, [1])
    assert "strong, NDCG@10" in Path("out.html").read_text()
    assert "none.npz" in cli.refuses(f"{BANDIT} data.txt --model none.npz")


def test_checkpoint_resumes(cli, monkeypatch):
    command = f"{BANDIT} P.npy --algorithms rucb,savage --checkpoint runs {QUICK}"
    first = cli(command)
    assert sorted(path.name for path in Path("runs").iterdir()) == ["rucb.npz", "savage.npz"]
    assert cli(command) == first
    assert "seed differ" in cli.refuses(command, "--seed 4")

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(online, "simulate", stop)
    for option, said in (("", "nothing was written"), ("--checkpoint runs", "continues from here")):
        assert cli.code(f"{BANDIT} P.npy --algorithms rucb {QUICK}", option) == 130
        assert said in cli.err
