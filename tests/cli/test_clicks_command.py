"""``structsvm clicks`` from log to ranker, on files."""

import json
import signal

import numpy as np
import pandas as pd
import pytest

import structsvm
from structsvm.cli import main
from structsvm.cli.clicks import _theta
from structsvm.cli.terminal import GapProgress
from structsvm.clicks import (
    ClickCells,
    DependentClickModel,
    PositionBasedModel,
    evaluate_from_clicks,
    harvest,
    held_out_quality,
    model_quality,
    read_table,
)
from structsvm.readers import read_letor, read_qrels


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A table of clicks by three rankers on LETOR rows, whose first feature is attraction plus noise."""
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
                x = truth[q, d] + 0.2 * rng.normal()
                file.write(
                    f"{int(truth[q, d] > 0.5)} qid:{q} 1:{x:.4f} 2:{rng.normal():.4f} #docid = D{q}-{d}\n"
                )
    return folder


def run(capsys, *arguments):
    code = main(["clicks", *map(str, arguments)])
    out = capsys.readouterr()
    return code, out.out, out.err


@pytest.mark.slow
def test_from_a_log_to_a_ranker(files, capsys):
    log = ("--session", "session")
    code, out, _ = run(capsys, "describe", files / "log.csv", *log, "--json", "--report", files / "d.html")
    assert code == 0
    told = json.loads(out)
    assert (told["queries"], told["shows"]) == (30, 18_000)
    assert set(told["models"]) >= {"PositionBasedModel", "DynamicBayesianModel"}
    assert "Click models" in (files / "d.html").read_text()

    theta = files / "theta.txt"
    code, out, _ = run(
        capsys, "propensities", files / "log.csv", "--json", "-o", theta, "--report", files / "p.html"
    )
    assert code == 0
    np.testing.assert_allclose(json.loads(out)["theta"], 1 / np.arange(1, 7), rtol=0.35)
    lines = [list(map(float, line.split())) for line in theta.read_text().splitlines()]
    np.testing.assert_array_equal([line[0] for line in lines], json.loads(out)["theta"])
    np.testing.assert_array_equal([line[1:-1] for line in lines], json.loads(out)["covariance"])
    np.testing.assert_array_equal([line[-1] for line in lines], json.loads(out)["freedom"])
    assert json.loads(out)["effective_queries"] <= json.loads(out)["queries"] == 30
    assert "weakest link" in (files / "p.html").read_text()
    assert "Errors from 30 queries, by their clicks worth" in (files / "p.html").read_text()

    model = files / "m.npz"
    code, out, _ = run(capsys, "train", files / "log.csv", files / "data.txt", "-o", model, "--theta", theta)
    assert code == 0, out
    assert "clicks" in out
    fitted = structsvm.load(model)
    assert fitted.coef_[0] > abs(fitted.coef_[1])

    code, _, err = run(capsys, "evaluate", files / "log.csv", model, files / "data.txt", "--theta", theta)
    assert code == 2
    assert "log.csv: expected sessions, got counts only; name the column of the session by --session" in err

    arguments = ("evaluate", files / "log.csv", model, files / "data.txt", *log, "--theta", theta)
    code, out, _ = run(capsys, *arguments, "--json", "--report", files / "e.html")
    assert code == 0
    told = json.loads(out)
    assert told["difference"]["lower"] > 0
    assert told["unseen"] == 0
    assert "drive the difference" in (files / "e.html").read_text()
    # no trust bias, said so: the estimate by list of known propensities
    (files / "trust.txt").write_text("".join(f"{1 / k} 0\n" for k in range(1, 7)))
    code, out, err = run(capsys, *arguments[:-2], "--trust", files / "trust.txt", "--json")
    assert code == 0, err
    assert json.loads(out)["dcg"]["value"] == pytest.approx(told["dcg"]["value"], rel=0.1)
    (files / "known.txt").write_text("".join(f"{line[0]!r}\n" for line in lines))
    code, out, _ = run(capsys, *arguments[:-1], files / "known.txt", "--json")
    known = json.loads(out)
    assert known["dcg"]["value"] == pytest.approx(told["dcg"]["value"])
    assert known["dcg"]["upper"] < told["dcg"]["upper"]  # without the error of the propensities

    code, _, _ = run(
        capsys, "judge", files / "log.csv", "-o", files / "q.txt", "--method", "ips", "--theta", theta
    )
    assert code == 0
    assert read_qrels(files / "q.txt").n_rows == 180
    code, _, _ = run(capsys, "judge", files / "log.csv", "-o", files / "q.tsv", "--report", files / "j.html")
    assert code == 0
    assert len(pd.read_csv(files / "q.tsv", sep="\t")) == 180
    assert "The documents with most impressions" in (files / "j.html").read_text()


def test_intervals_of_a_file_of_propensities_are_those_of_the_estimate(files, capsys):
    """Errors and degrees of freedom come back from the file that ``propensities -o`` writes."""
    theta, log = files / "t.txt", read_table(files / "log.csv")
    run(capsys, "propensities", files / "log.csv", "-o", theta)
    known, found = _theta(theta), harvest(log)
    np.testing.assert_allclose(known.interval(), found.interval(), rtol=1e-12)
    np.testing.assert_allclose(known.freedom, found.freedom)
    theta.write_text("1 0 0 inf\n.5 0 .01 inf\n")
    assert _theta(theta).freedom is None
    theta.write_text("1 0 0 3\n.5 0 .01 -3\n")
    with pytest.raises(ValueError, match="degrees of freedom > 0"):
        _theta(theta)


def test_models_are_described_by_lists_dealt_one_by_one(files, capsys):
    """The click rate of what is held out is that of the log, and a model is judged as on any other quarter."""
    rng = np.random.default_rng(0)
    n, theta = 20_000, 1 / np.arange(1, 6)
    query, attraction = rng.integers(5, size=n), rng.beta(1, 3, (5, 5))
    order = np.array([rng.permutation(5) for _ in range(8)])[rng.integers(8, size=n)]
    clicked = rng.random((n, 5)) < attraction[query[:, None], order] * theta
    cells = ClickCells.from_arrays(
        np.repeat(query, 5),
        order.ravel(),
        np.tile(np.arange(1, 6), n),
        clicked.ravel(),
        session=np.repeat(np.arange(n), 5),
    )
    by_model = {}
    for model in (PositionBasedModel, DependentClickModel):
        found = held_out_quality(model(), cells)
        quarter = rng.random(n) < 0.25
        parts = [
            ClickCells.from_arrays(
                np.repeat(query[part], 5), order[part].ravel(), np.tile(np.arange(1, 6), part.sum()),
                clicked[part].ravel(), session=np.repeat(np.arange(part.sum()), 5),
            )
            for part in (~quarter, quarter)
        ]  # fmt: skip
        other = model_quality(model().fit(parts[0]), parts[1])
        assert found.perplexity == pytest.approx(other.perplexity, abs=0.01)
        assert found.log_likelihood == pytest.approx(other.log_likelihood, abs=0.01)
        by_model[model] = found
    # the users are position-based
    assert by_model[PositionBasedModel].log_likelihood > by_model[DependentClickModel].log_likelihood
    code, out, _ = run(capsys, "describe", files / "log.csv", "--session", "session")
    assert code == 0
    assert "fitted to a random 3/4 of the lists, judged on the other quarter" in out


def test_evaluate_takes_users_gaps_and_trust_without_gain(files, capsys, tmp_path):
    model = tmp_path / "m.npz"
    run(capsys, "train", files / "log.csv", files / "data.txt", "-o", model, "--C", "1")
    frame = pd.read_csv(files / "log.csv")
    frame["user"] = frame["session"] % 40
    frame["p"] = 0.5
    frame[frame.index % 7 != 3].to_csv(tmp_path / "log.csv", index=False)
    arguments = ("evaluate", tmp_path / "log.csv", model, files / "data.txt", "--session", "session")
    code, out, err = run(capsys, *arguments, "--cluster", "user", "--gaps", "lost", "--json")
    assert code == 0, err
    told = json.loads(out)
    assert told["users"] == 40
    assert told["effective_users"] == pytest.approx(40, rel=0.01)
    assert told["lists_with_gaps"] > 1000
    assert any("taken as lost at random" in note for note in told["notes"])
    code, out, _ = run(capsys, *arguments)
    assert "note: trust bias: not found" in out
    assert "--gaps lost" in out
    values = []
    for p in (0.5, 0.25):
        frame.assign(p=p).to_csv(tmp_path / "logged.csv", index=False)
        code, out, err = run(
            capsys, "evaluate", tmp_path / "logged.csv", *arguments[2:], "--probability", "p", "--json"
        )
        assert code == 0, err
        values.append(json.loads(out)["dcg"]["value"])
    assert values[1] == pytest.approx(2 * values[0])
    # clicks that trust explains altogether: no gain, which JSON writes as null
    (tmp_path / "trust").write_text("1 1\n" * 8)
    code, out, err = run(capsys, *arguments, "--trust", tmp_path / "trust", "--json")
    assert code == 0, err
    assert json.loads(out)["discount"]["value"] is None


def test_tables_with_columns_of_other_names(files, capsys, tmp_path):
    names = {"query": "q", "document": "d", "position": "rank", "clicked": "taps", "session": "visit"}
    pd.read_csv(files / "log.csv").rename(columns=names).to_csv(tmp_path / "log.csv", index=False)
    data = read_letor(files / "data.txt")
    frame = pd.DataFrame({"topic": data.qid, "grade": data.y, "a": data.X[:, 0], "b": data.X[:, 1]})
    frame.assign(id=data.docid, other=0).to_csv(tmp_path / "data.csv", index=False)
    log = [v for name, column in names.items() for v in (f"--{name}", column)]
    columns = ["--qid", "topic", "--label", "grade", "--docid", "id", "--features", "a,b"]

    told = []
    for folder, more in ((files, ["--session", "session"]), (tmp_path, log)):
        code, out, err = run(capsys, "propensities", folder / "log.csv", *more, "--json")
        assert code == 0, err
        told.append(json.loads(out)["theta"])
    assert told[0] == told[1]

    coefs = []
    for folder, name, more in ((files, "data.txt", []), (tmp_path, "data.csv", log + columns)):
        path = tmp_path / f"{name}.npz"
        arguments = ("train", folder / "log.csv", folder / name, "-o", path, "--C", "1", *more)
        code, _, err = run(capsys, *arguments, "--scale", "query-zscore")
        assert code == 0, err
        assert structsvm.load(path).scale == "query-zscore"
        coefs.append(structsvm.load(path).coef_)
    np.testing.assert_allclose(*coefs, rtol=1e-6)
    found = []
    for features in ("a,b", "b,a"):  # columns are found by their names
        columns[-1] = features
        arguments = (tmp_path / "log.csv", path, tmp_path / "data.csv", *log, *columns, "--json")
        code, out, err = run(capsys, "evaluate", *arguments)
        assert code == 0, err
        found.append(json.loads(out)["dcg"])
    assert found[0] == found[1]


def test_candidates_with_usual_names_and_a_baseline(files, capsys, tmp_path):
    """The difference is that of the library; columns called query and doc need no options."""
    data = read_letor(files / "data.txt")
    frame = pd.DataFrame(data.X, columns=["a", "b"]).assign(query=data.qid, doc=data.docid)
    frame.to_csv(tmp_path / "data.csv", index=False)
    log, models = files / "log.csv", []
    for loss in ("pairs", "dcg"):
        models.append(tmp_path / f"{loss}.npz")
        code, _, err = run(
            capsys, "train", log, tmp_path / "data.csv", "-o", models[-1], "--C", "1", "--loss", loss
        )
        assert (code, "data.csv: took the ids from 'query' and 'doc'" in err) == (0, True), err
    evaluate = ("evaluate", log, models[0], tmp_path / "data.csv", "--k", 3, "--session", "session")
    code, out, err = run(capsys, *evaluate, "--baseline", models[1], "--json")
    assert code == 0, err
    scores = [structsvm.load(path).predict(frame[["a", "b"]]) for path in models]
    cells, queries = read_table(log, session="session"), data.qid.astype(str)
    found = evaluate_from_clicks(cells, queries, data.docid, scores[0], k=3, baseline=scores[1])
    assert json.loads(out)["over_baseline"]["value"] == found.over_baseline.value
    assert f"over baseline   {found.over_baseline.value:.4f}" in run(
        capsys, *evaluate, "--baseline", models[1]
    )[1]  # fmt: skip
    assert "over baseline" not in run(capsys, *evaluate)[1]


@pytest.mark.parametrize("C", [None, "1000"])
def test_ctrl_c(files, capsys, tmp_path, monkeypatch, C):
    """While C is chosen nothing is worth keeping; with a given C the best weights so far are."""
    report, seen = GapProgress.__call__, []

    def interrupt(progress, step):
        seen.append(step.primal)
        if not progress.interrupted and (C is None or step.primal < seen[0]):
            signal.raise_signal(signal.SIGINT)
        return report(progress, step)

    monkeypatch.setattr(GapProgress, "__call__", interrupt)
    arguments = (
        "train",
        files / "log.csv",
        files / "data.txt",
        "-o",
        tmp_path / "m.npz",
        "--report",
        tmp_path / "r.html",
    )
    code, _, err = run(capsys, *arguments, *([] if C is None else ["--C", C]))
    assert code == 130
    if C is None:
        assert err == "structsvm: interrupted; nothing was written\n"
        assert list(tmp_path.iterdir()) == []
    else:
        assert "interrupted: saved the best model so far, gap" in err
        assert structsvm.load(tmp_path / "m.npz").n_features_in_ == 2


def test_errors_are_one_line(files, capsys, tmp_path):
    (tmp_path / "empty.csv").touch()
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "theta").write_text("1\n-inf\n")
    (tmp_path / "header.csv").write_text("query,document,position,clicked\n")
    (tmp_path / "none.csv").write_text("query,document,position,clicked\nq,a,1,0\nq,b,2,0\n")
    (tmp_path / "blanks.csv").write_text("query,document,position,clicked\na b,a,1,1\na b,b,2,0\n")
    (tmp_path / "one.csv").write_text("query,document,position,clicked\n77,a,1,1\n77,b,2,1\n77,c,3,0\n")
    (tmp_path / "short").write_text("1 0 0\n.5 .1\n")
    (tmp_path / "other.txt").write_text("1 qid:77 1:1 2:1 #docid = a\n0 qid:77 1:0 2:1 #docid = b\n")
    (tmp_path / "log.csv").write_text("query,document,position,clicked\nq,a,0,1\nq,b,1,0\n")
    for arguments, message in [
        (("describe", tmp_path / "log.csv"), "expected 0 or 1, as the log holds both positions"),
        (("describe", tmp_path / "nothing.csv"), "expected a file to read"),
        (
            ("describe", tmp_path / "header.csv"),
            "header.csv: expected impressions, got none that can be counted",
        ),
        (
            ("propensities", tmp_path / "none.csv", "-o", tmp_path / "q"),
            "none.csv: expected clicks, got none at all",
        ),
        (
            ("train", tmp_path / "none.csv", tmp_path / "other.txt", "-o", tmp_path / "m.npz"),
            "none.csv: expected clicks, got none at all",
        ),
        (
            ("judge", tmp_path / "none.csv", "-o", tmp_path / "q"),
            "none.csv: expected clicks, got none at all",
        ),
        (
            ("judge", tmp_path / "blanks.csv", "-o", tmp_path / "q", "--report", tmp_path / "q.html"),
            "q: expected ids without white space for TREC qrels, got 'a b'; write a table, with --output",
        ),
        (
            ("train", tmp_path / "one.csv", tmp_path / "other.txt", "-o", tmp_path / "m.npz"),
            "or estimate fewer positions with clicks propensities --last, for --theta",
        ),
        (
            (
                "evaluate",
                files / "log.csv",
                files / "data.txt",
                files / "data.txt",
                "--trust",
                tmp_path / "theta",
            ),
            "theta:1: expected alpha and beta of position 1, two numbers, got '1'",
        ),
        (
            (
                "evaluate",
                files / "log.csv",
                files / "data.txt",
                files / "data.txt",
                "--trust",
                "t",
                "--theta",
                "t",
            ),
            "--theta: expected none with --trust",
        ),
        (
            ("describe", files / "log.csv", "--since", "2"),
            "--time: expected a column and one end of a span or both; give --time with --since",
        ),
        (
            ("describe", files / "log.csv", "--format", "sessions", "--time", "day", "--until", "2"),
            "is read as sessions, which does not take it",
        ),
        (
            ("describe", tmp_path / "empty.csv"),
            "got an empty file; name the columns with --query, --document, --position, --clicked, --session\n",
        ),
        (("describe", tmp_path / "empty.jsonl"), "empty.jsonl: expected a click log, got an empty file"),
        (
            ("describe", files / "log.csv", "--format", "tabel"),
            "--format tabel: expected one of 'auto', 'log', 'sessions', 'table', 'ubi'",
        ),
        (
            ("describe", files / "log.csv", "--session", "visit"),
            "expected a column 'visit', got query, document, position, clicked, session; name the columns with --query",
        ),
        (
            (
                "judge",
                files / "log.csv",
                "-o",
                tmp_path / "q",
                "--method",
                "ips",
                "--theta",
                tmp_path / "theta",
            ),
            "theta:2: expected the propensity of position 2, a finite number > 0, got '-inf'",
        ),
        (
            (
                "judge",
                files / "log.csv",
                "-o",
                tmp_path / "q",
                "--method",
                "ips",
                "--theta",
                tmp_path / "short",
            ),
            "short:2: expected 2 covariances after the propensity, one for each line, got 1",
        ),
        (
            ("train", files / "log.csv", files / "data.txt", "-o", tmp_path / "m.npz", "--scale", "within"),
            "--scale within: expected one of none, minmax, zscore, query-minmax",
        ),
        (
            ("train", files / "log.csv", tmp_path / "other.txt", "-o", tmp_path / "m.npz", "--C", "1"),
            "other.txt: docid: expected clicked documents of the log among the rows, got none",
        ),
        (
            ("propensities", tmp_path / "log.csv", "--first-position", "0"),
            "expected every position connected",
        ),
        (("describe", files / "data.txt"), "expected a click log"),
        (("describe", files / "log.csv", "--application", "x"), "is read as table, which does not take it"),
        (("judge", files / "log.csv", "-o", tmp_path / "q", "--levels", "a"), "expected numbers with commas"),
        (
            ("judge", files / "log.csv", "-o", tmp_path / "q", "--method", "ctr"),
            "--method ctr: expected one of 'coec', 'ips', 'sdbn'",
        ),
        (
            ("train", files / "log.csv", files / "data.txt", "-o", tmp_path / "m.npz", "--C", "0"),
            "number > 0",
        ),
    ]:
        code, _, err = run(capsys, *arguments)
        assert code == 2, (arguments, err)
        assert message in err
        assert err.count("\n") == 1
    assert not (tmp_path / "q").exists()
    assert not (tmp_path / "q.html").exists()
    assert not (tmp_path / "m.npz").exists()
