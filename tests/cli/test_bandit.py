"""``structsvm bandit simulate``: what goes in, what comes out, and what is refused before any work."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from structsvm.cli import main
from structsvm.estimators.structural import StructuralRanker
from structsvm.online import simulate
from structsvm.online.bandits import NAMES
from structsvm.online.simulation.page import leaders
from structsvm.readers import make_ranking, read_letor, write_letor

P = np.array([[0.5, 0.4, 0.7], [0.6, 0.5, 0.8], [0.3, 0.2, 0.5]])
QUICK = ["--horizon", "500", "--runs", "2", "--seed", "3"]


def run(*arguments: object) -> int:
    return main(["bandit", "simulate", *map(str, arguments)])


@pytest.fixture
def matrix(tmp_path: Path) -> Path:
    np.save(tmp_path / "P.npy", P)
    return tmp_path / "P.npy"


@pytest.fixture
def letor(tmp_path: Path) -> Path:
    data = make_ranking(20, 10, 3, grades=3, noise=0.3, random_state=4)
    path = tmp_path / "data.txt"
    write_letor(data, path)
    return path


@pytest.mark.slow
def test_json_is_what_the_library_says(matrix: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--world", matrix, "--algorithms", "rucb,rucb:alpha=0.7,savage", "--json", *QUICK) == 0
    out, err = capsys.readouterr()
    record = json.loads(out)
    assert out.count("\n") == 1
    assert (record["n_arms"], record["best"], record["horizon"]) == (3, [1], 500)
    for label, options in (("rucb", {}), ("rucb:alpha=0.7", {"alpha": 0.7})):
        witness = simulate("rucb", P, horizon=500, n_runs=2, seed=3, options=options)
        found = record["algorithms"][label]
        assert found["regret"] == pytest.approx(witness.mean()[-1])
        assert found["winners"] == witness.winner.tolist()
        assert found["mean_regret"] == pytest.approx(witness.mean().tolist())
        np.testing.assert_allclose(found["interval"], [edge[-1] for edge in witness.interval()])
    assert record["least"] == leaders(
        {label: simulate(label.split(":")[0], P, horizon=500, n_runs=2, seed=3, options=options)
         for label, options in (("rucb", {}), ("rucb:alpha=0.7", {"alpha": 0.7}), ("savage", {}))}
    )  # fmt: skip
    assert "savage: 2 runs of 500 comparisons done" in err


@pytest.mark.parametrize("kind", ["npz", "spaces", "commas"])
def test_other_files_of_a_matrix(
    kind: str, matrix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("--world", matrix, "--algorithms", "mdb", *QUICK)
    expected = capsys.readouterr().out
    if kind == "npz":
        path = tmp_path / "P.npz"
        np.savez(path, P)
    else:
        path = tmp_path / "P.txt"
        np.savetxt(path, P, delimiter="," if kind == "commas" else " ", header="preferences")
    assert run("--world", path, "--algorithms", "mdb", *QUICK) == 0
    assert capsys.readouterr().out == expected


def test_table_and_page(matrix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "out.html"
    assert run("--world", matrix, "--algorithms", "rucb, mdb", "--report", page, *QUICK) == 0
    out = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in out] == ["bandit", "rucb", "mdb", "No", "Report:"]
    assert "tie, as the 95% intervals overlap" in out[3]
    text = page.read_text()
    assert out[3] in text
    assert text.startswith("<!doctype html>")
    assert "P.npy" in text
    assert "data:image/png" in text


@pytest.mark.slow
def test_letor_data_by_proxy_and_live(letor: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--world", letor, "--algorithms", "rucb", "--samples", "300", "--json", "--gap", "ndcg"]
    for extra in ([], ["--live"], ["--interleaving", "team_draft", "--clicks", "perfect"]):
        assert run(*arguments, *extra, "--horizon", "100", "--runs", "1") == 0
        record = json.loads(capsys.readouterr().out)
        assert record["n_arms"] == 3
        assert record["algorithms"]["rucb"]["interval"] is None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::structsvm.trainers.NothingLearnedWarning")
def test_saved_models_are_rankers(letor: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = []
    for name, C, scale in (("weak", 1e-6, "none"), ("strong", 100.0, "query-minmax")):
        data = read_letor(letor)
        models.append(tmp_path / f"{name}.npz")
        y = data.y if name == "strong" else 2 - data.y
        StructuralRanker("pairs", C, scale=scale).fit(data.X, y, qid=data.qid).save(models[-1])
    page = tmp_path / "out.html"
    arguments = ["--world", letor, "--model", models[0], "--model", models[1], "--samples", "500", *QUICK]
    assert run(*arguments, "--algorithms", "rucb", "--json", "--report", page) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["n_arms"], record["best"]) == (2, [1])
    assert "strong, NDCG@10" in page.read_text()
    assert run(*arguments[:2], "--model", tmp_path / "none.npz") == 2
    assert "none.npz" in capsys.readouterr().err


def test_checkpoint_resumes(matrix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "runs"
    arguments = ["--world", matrix, "--algorithms", "rucb,savage", "--checkpoint", folder, *QUICK]
    assert run(*arguments) == 0
    first = capsys.readouterr().out
    assert sorted(path.name for path in folder.iterdir()) == ["rucb.npz", "savage.npz"]
    assert run(*arguments) == 0
    assert capsys.readouterr().out == first
    assert run(*arguments[:-1], "4") == 2
    assert "seed differ" in capsys.readouterr().err


def test_interrupted_with_a_checkpoint(
    matrix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from structsvm.online.simulation import play as simulation

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    arguments = ["--world", matrix, "--algorithms", "rucb", *QUICK]
    monkeypatch.setattr(simulation, "simulate", stop)
    assert run(*arguments) == 130
    assert "nothing was written" in capsys.readouterr().err
    assert run(*arguments, "--checkpoint", tmp_path / "runs") == 130
    assert "goes on from here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--algorithms", "rucbb"], f"expected one of {', '.join(NAMES)}"),
        (["--algorithms", "rucb:beta=1"], "options among"),
        (["--algorithms", "rucb:alpha"], "name:alpha=0.6"),
        (["--algorithms", "rucb:alpha=-1"], "alpha=-1: expected a finite number > 0"),
        (["--algorithms", "rucb,rucb"], "each once"),
        (["--algorithms", ","], "at least one name"),
        (["--regret", "sum", "--algorithms", "mdb"], "compares sets"),
        (["--regret", "strong"], "average, sum or weak"),
        (["--horizon", "0"], "--horizon"),
        (["--horizon", "nan"], "--horizon: expected a whole number"),
        (["--horizon", "inf"], "--horizon: expected a whole number"),
        (["--horizon", "1.5"], "--horizon"),
        (["--runs", "0"], "--runs"),
        (["--live"], "--live: for LETOR data"),
        (["--report", "no/such/folder.html"], "existing folder"),
        (["--checkpoint", "no/such/folder"], "existing folder"),
        (["--checkpoint", __file__], "expected a folder to keep runs in, got a file"),
        (["--horizon", "1e300"], "horizon: expected at most 1e+18"),
    ],
)
def test_bad_options_are_refused(
    arguments: list[str], message: str, matrix: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--world", matrix, *arguments) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("w.txt", "0.5 0.9\n0.2 0.5\n", "P[0, 1] + P[1, 0]"),
        ("w.txt", "0.5 0.9\n0.1\n", "w.txt:2: expected 2 numbers"),
        ("w.txt", "0.5 x\n0.1 0.5\n", "w.txt:1: expected the numbers"),
        ("w.txt", "", "empty file"),
        ("w.txt", "0.5 0.5\n0.5 0.5\n", "Condorcet winner"),
        ("w.npy", "rubbish", "saved by numpy.save"),
        ("w.npz", "rubbish", "saved by numpy.save"),
        ("missing.npy", None, "expected a file to read"),
        ("d.txt", "1 qid:1 1:1 2:1\n0 qid:1 1:1 2:1\n", "features that order documents"),
        ("d.txt", "1 qid:1 1:1 2:1\n0 qid:1 1:0 2:0\n", "--gap ndcg"),
    ],
)
def test_bad_worlds_are_refused_by_file(
    name: str, content: str | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    assert run("--world", path, "--samples", "50", *QUICK) == 2
    err = capsys.readouterr().err
    assert message in err
    assert str(path) in err.splitlines()[-1]


def test_damaged_arrays_are_refused_by_what_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing of the size that a header declares is made, nor is what nobody asked for unpacked."""
    path = tmp_path / "P.npy"
    np.save(path, P)
    content = path.read_bytes()
    huge = tmp_path / "huge.npy"
    with huge.open("wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f8", "fortran_order": False, "shape": (10**7, 10**7)}
        )
        file.write(P.tobytes())
    np.savez(tmp_path / "two.npz", P, P)
    np.savez(tmp_path / "cut.npz", P)
    cut = (tmp_path / "cut.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(cut[: len(cut) // 2])
    (tmp_path / "short.npy").write_bytes(content[:-8])
    for name in ("huge.npy", "two.npz", "cut.npz", "short.npy"):
        assert run("--world", tmp_path / name, "--algorithms", "rucb", *QUICK) == 2
        said = capsys.readouterr().err
        assert f"{name}: expected one array saved by numpy.save or numpy.savez" in said.replace("\n", "")
