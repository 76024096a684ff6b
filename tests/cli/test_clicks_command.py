"""``structsvm clicks`` from log to ranker, on files."""

import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import structsvm
from structsvm import clicks
from structsvm.cli.clicks import _theta
from structsvm.cli.terminal import GapProgress
from structsvm.readers import read_letor, read_qrels
from tests.refusing import rejected


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Write clicks on lists of three rankers, and LETOR rows whose first feature is attraction plus noise."""
    folder = tmp_path_factory.mktemp("clicks")
    rng = np.random.default_rng(0)
    truth = np.where(rng.random((30, 6)) < 0.3, 0.9, 0.1)
    noise = rng.normal(size=(3, 30, 6))
    with (folder / "log.csv").open("w") as file:
        file.write("query,document,position,clicked,session\n")
        for s in range(3000):
            q = rng.integers(30)
            for k, d in enumerate(np.argsort(-(truth[q] + noise[rng.integers(3), q]))):
                file.write(f"{q},D{q}-{d},{k + 1},{int(rng.random() < truth[q, d] / (k + 1))},{s}\n")
    with (folder / "data.txt").open("w") as file:
        for q in range(30):
            for d in range(6):
                grade, x = int(truth[q, d] > 0.5), truth[q, d] + 0.2 * rng.normal()
                file.write(f"{grade} qid:{q} 1:{x:.4f} 2:{rng.normal():.4f} #docid = D{q}-{d}\n")
    return folder


@pytest.fixture
def log(files):
    return f"{files}/log.csv"


@pytest.fixture
def both(files, log):
    return f"{log} {files}/data.txt"


@pytest.mark.slow
def test_from_a_log_to_a_ranker(files, log, both, cli):
    told = cli.json(f"clicks describe {log} --session session --report d.html")
    assert (told["queries"], told["shows"]) == (30, 18_000)
    assert set(told["models"]) >= {"PositionBasedModel", "DynamicBayesianModel"}
    assert "Click models" in Path("d.html").read_text()

    found = cli.json(f"clicks propensities {log} -o theta.txt --report p.html")
    np.testing.assert_allclose(found["theta"], 1 / np.arange(1, 7), rtol=0.35)
    assert found["effective_queries"] <= found["queries"] == 30
    assert "weakest link" in Path("p.html").read_text()
    assert "Errors from 30 queries, as informative as" in Path("p.html").read_text()

    assert "clicks" in cli(f"clicks train {both} -o m.npz --theta theta.txt")
    fitted = structsvm.load("m.npz")
    assert fitted.coef_[0] > abs(fitted.coef_[1])

    evaluate = f"clicks evaluate {log} m.npz {files}/data.txt"
    said = cli.refuses(f"{evaluate} --theta theta.txt")
    assert "expected sessions, got counts only; name the column of the session with --session" in said
    evaluate += " --session session"
    told = cli.json(f"{evaluate} --theta theta.txt --report e.html")
    assert told["difference"]["lower"] > 0
    assert told["unseen"] == 0
    assert "drive the difference" in Path("e.html").read_text()
    # no trust bias, said so: the estimate by list of known propensities
    Path("trust.txt").write_text("".join(f"{1 / k} 0\n" for k in range(1, 7)))
    trusted = cli.json(f"{evaluate} --trust trust.txt")
    assert trusted["dcg"]["value"] == pytest.approx(told["dcg"]["value"], rel=0.1)
    Path("known.txt").write_text("".join(f"{value!r}\n" for value in found["theta"]))
    known = cli.json(f"{evaluate} --theta known.txt")
    assert known["dcg"]["value"] == pytest.approx(told["dcg"]["value"])
    assert known["dcg"]["upper"] < told["dcg"]["upper"]  # without the error of the propensities

    cli(f"clicks judge {log} -o q.txt --method ips --theta theta.txt")
    assert read_qrels("q.txt").n_rows == 180
    cli(f"clicks judge {log} -o q.tsv --report j.html")
    assert "expected .tsv for a table" in cli.refuses(f"clicks judge {log} -o q.csv")
    assert len(pd.read_csv("q.tsv", sep="\t")) == 180
    assert "Documents with the most impressions" in Path("j.html").read_text()


def test_intervals_of_a_file_of_propensities_are_those_of_the_estimate(log, cli):
    """Standard errors and degrees of freedom are restored from the file that ``propensities -o`` writes."""
    theta = Path("t.txt")
    told = cli.json(f"clicks propensities {log} -o t.txt")
    known, found = _theta(theta), clicks.harvest(clicks.read_table(log))
    for name in ("theta", "covariance", "freedom"):
        np.testing.assert_array_equal(getattr(known, name), told[name])
    np.testing.assert_allclose(known.interval(), found.interval(), rtol=1e-12)
    np.testing.assert_allclose(known.freedom, found.freedom)
    theta.write_text("1 0 0 inf\n.5 0 .01 inf\n")
    assert _theta(theta).freedom is None
    theta.write_text("1 0 0 3\n.5 0 .01 -3\n")
    rejected("degrees of freedom > 0", _theta, theta)


def test_models_are_described_by_lists_dealt_one_by_one(log, cli):
    """The held-out lists have the click rate of the log, and a model is judged as on any other quarter."""
    rng = np.random.default_rng(0)
    n, theta = 20_000, 1 / np.arange(1, 6)
    query, attraction = rng.integers(5, size=n), rng.beta(1, 3, (5, 5))
    order = np.array([rng.permutation(5) for _ in range(8)])[rng.integers(8, size=n)]
    clicked = rng.random((n, 5)) < attraction[query[:, None], order] * theta

    def cells(some):
        n_some = int(some.sum())
        return clicks.ClickCells.from_arrays(
            np.repeat(query[some], 5),
            order[some].ravel(),
            np.tile(np.arange(1, 6), n_some),
            clicked[some].ravel(),
            session=np.repeat(np.arange(n_some), 5),
        )

    by_model = {}
    for model in (clicks.PositionBasedModel, clicks.DependentClickModel):
        found = clicks.held_out_quality(model(), cells(np.ones(n, dtype=bool)))
        quarter = rng.random(n) < 0.25
        other = clicks.model_quality(model().fit(cells(~quarter)), cells(quarter))
        assert found.perplexity == pytest.approx(other.perplexity, abs=0.01)
        assert found.log_likelihood == pytest.approx(other.log_likelihood, abs=0.01)
        by_model[model] = found
    # the users are position-based
    assert (
        by_model[clicks.PositionBasedModel].log_likelihood
        > by_model[clicks.DependentClickModel].log_likelihood
    )
    said = "fitted to a random 3/4 of the lists, evaluated on the others"
    assert said in cli(f"clicks describe {log} --session session")


def test_evaluate_takes_users_gaps_and_trust_without_gain(files, log, both, cli):
    cli(f"clicks train {both} -o m.npz --C 1")
    frame = pd.read_csv(log)
    frame["user"] = frame["session"] % 40
    frame["p"] = 0.5
    frame[frame.index % 7 != 3].to_csv("log.csv", index=False)
    options = f"m.npz {files}/data.txt --session session"
    told = cli.json("clicks evaluate log.csv", options, "--cluster user --gaps lost")
    assert told["users"] == 40
    assert told["effective_users"] == pytest.approx(40, rel=0.01)
    assert told["lists_with_gaps"] > 1000
    assert any("taken as lost at random" in note for note in told["notes"])
    out = cli("clicks evaluate log.csv", options)
    assert "note: trust bias: not found" in out
    assert "--gaps lost" in out
    values = []
    for p in (0.5, 0.25):
        frame.assign(p=p).to_csv("logged.csv", index=False)
        told = cli.json("clicks evaluate logged.csv", options, "--probability p")
        values.append(told["dcg"]["value"])
    assert values[1] == pytest.approx(2 * values[0])
    # clicks that trust explains altogether: no gain, which JSON writes as null
    Path("trust").write_text("1 1\n" * 8)
    assert cli.json("clicks evaluate log.csv", options, "--trust trust")["discount"]["value"] is None


def test_tables_with_columns_of_other_names(files, log, cli):
    names = {"query": "q", "document": "d", "position": "rank", "clicked": "taps", "session": "visit"}
    pd.read_csv(log).rename(columns=names).to_csv("log.csv", index=False)
    data = read_letor(files / "data.txt")
    frame = pd.DataFrame({"topic": data.qid, "grade": data.y, "a": data.X[:, 0], "b": data.X[:, 1]})
    frame.assign(id=data.docid, other=0).to_csv("data.csv", index=False)
    named = " ".join(f"--{name} {column}" for name, column in names.items())
    columns = "--qid topic --label grade --docid id --features"

    told = [
        cli.json(f"clicks propensities {path} {options}")["theta"]
        for path, options in ((log, "--session session"), ("log.csv", named))
    ]
    assert told[0] == told[1]

    coefs = []
    for sources in (f"{log} {files}/data.txt", f"log.csv data.csv {named} {columns} a,b"):
        cli(f"clicks train {sources} -o m.npz --C 1 --scale query-zscore")
        model = structsvm.load("m.npz")
        assert model.scale == "query-zscore"
        coefs.append(model.coef_)
    np.testing.assert_allclose(*coefs, rtol=1e-6)
    found = [
        cli.json(f"clicks evaluate log.csv m.npz data.csv {named} {columns} {features}")["dcg"]
        for features in ("a,b", "b,a")  # columns are found by their names
    ]
    assert found[0] == found[1]


def test_candidates_with_usual_names_and_a_baseline(files, log, cli):
    """The difference is that of the library; columns called query and doc need no options."""
    data = read_letor(files / "data.txt")
    frame = pd.DataFrame(data.X, columns=["a", "b"]).assign(query=data.qid, doc=data.docid)
    frame.to_csv("data.csv", index=False)
    for loss in ("pairs", "dcg"):
        cli(f"clicks train {log} data.csv -o {loss}.npz --C 1 --loss {loss}")
    evaluate = f"clicks evaluate {log} pairs.npz data.csv --k 3 --session session"
    told = cli.json(f"{evaluate} --baseline dcg.npz")["over_baseline"]["value"]
    scores = [structsvm.load(f"{loss}.npz").predict(frame[["a", "b"]]) for loss in ("pairs", "dcg")]
    cells, queries = clicks.read_table(log, session="session"), data.qid.astype(str)
    found = clicks.evaluate_from_clicks(cells, queries, data.docid, scores[0], k=3, baseline=scores[1])
    assert told == found.over_baseline.value
    assert f"over baseline   {told:.4f}" in cli(f"{evaluate} --baseline dcg.npz")
    assert "over baseline" not in cli(evaluate)


@pytest.mark.parametrize("C", ["", "--C 1000"])
def test_ctrl_c(both, cli, tmp_path, monkeypatch, C):
    """An interrupt saves nothing while C is being chosen; with a given C it saves the best weights so far."""
    report, seen = GapProgress.__call__, []

    def interrupt(progress, step):
        seen.append(step.primal)
        if not progress.interrupted and (not C or step.primal < seen[0]):
            signal.raise_signal(signal.SIGINT)
        return report(progress, step)

    monkeypatch.setattr(GapProgress, "__call__", interrupt)
    assert cli.code(f"clicks train {both} -o m.npz --report r.html", C) == 130
    if C:
        assert "interrupted: saved the best model so far, gap" in cli.err
        assert structsvm.load("m.npz").n_features_in_ == 2
    else:
        assert cli.err == "structsvm: interrupted; nothing was written\n"
        assert list(tmp_path.iterdir()) == []
