"""The commands compare and search: tables, files, messages."""

import csv
import json
import sys

import numpy as np
import pytest
from scipy import stats

import structsvm
from structsvm.cli import main
from structsvm.cli.dask import predict_there
from structsvm.cli.files import Columns
from structsvm.cli.options import parse_grid
from structsvm.cli.paper import latex, markdown
from structsvm.metrics.significance import compare, holm
from structsvm.readers import make_ranking, read_letor, write_letor
from structsvm.report import Column
from structsvm.studies.folds import Measures, MethodResult, Results, methods
from structsvm.studies.folds.paired_tests import remarks as remarks_of


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.txt"
    write_letor(make_ranking(30, 8, 4, random_state=1), path)
    return path


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    out = capsys.readouterr()
    return code, out.out, out.err


def test_table_csv_json_and_page_agree(rows, tmp_path, capsys):
    options = ["--C", "0.1,10", "--folds", 3, "--jobs", 1, "--method", "svm-map", "--method", "best-feature"]
    files = ["--csv", tmp_path / "t.csv", "--report", tmp_path / "t.html", "--work", tmp_path / "work"]
    code, out, err = run(capsys, "compare", rows, *options, *files)
    assert (code, err) == (0, "")
    header, first, second, _, tests, *_, finding = out.splitlines()
    assert header.split() == ["method", "map", "ndcg@10", "C", "gap", "seconds"]
    assert tests.split()[:4] == ["measure", "method", "against", "difference"]
    assert len(list((tmp_path / "work").iterdir())) == 6

    code, out, err = run(capsys, "compare", rows, *options, *files, "--json", "--per-query")
    record = json.loads(out)
    assert code == 0
    with (tmp_path / "t.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    page = (tmp_path / "t.html").read_text()
    for line, entry, row in zip((first, second), record["methods"], table, strict=True):
        shown = f"{entry['means']['map']:.4f}"
        assert line.split()[:2] == [entry["method"], shown]
        assert float(row["map"]) == entry["means"]["map"] == np.mean(entry["per_query"]["map"])
        assert shown in page
        assert int(row["wins"]) + int(row["losses"]) + int(row["ties"]) == 30
    tested = {(test["measure"], test["method"]): test for test in record["tests"]}
    for name in ("difference", "wins", "losses", "ties", "p_value"):
        assert float(table[1][name]) == tested["map", "best-feature"][name]
        assert float(table[1][f"{name} ndcg@10"]) == tested["ndcg@10", "best-feature"][name]
        assert table[0][f"{name} ndcg@10"] == ""  # the baseline
    for name in ("lower", "upper", "t_p_value", "holm"):
        assert float(table[1][f"{name} map"]) == tested["map", "best-feature"][name]
    assert finding.startswith(max(record["methods"], key=lambda e: e["means"]["map"])["method"])
    assert sorted(record["query_ids"]) == sorted(map(str, read_letor(rows).query_ids))

    code, _, err = run(capsys, "compare", rows, *options, *files)
    assert (code, err) == (0, f"structsvm: 6 of 6 cells found in {tmp_path / 'work'}\n")


def test_several_baselines_in_every_measure_and_tables_for_papers(rows, tmp_path, capsys):
    """Each test stands where it belongs, Holm's correction is over all of them, and the formats say the same."""
    options = ["--C", "0.1,10", "--folds", 3, "--jobs", 1, "--method", "svm-map,best-feature,ordinal"]
    files = ["--latex", tmp_path / "t.tex", "--markdown", tmp_path / "t.md", "--report", tmp_path / "t.html"]
    baselines = ["--baseline", "best-feature,ordinal"]
    code, out, err = run(capsys, "compare", rows, *options, *files, *baselines, "--json", "--per-query")
    assert (code, err) == (0, "")
    record = json.loads(out)
    assert record["baselines"] == ["best-feature", "ordinal"]
    values = {entry["method"]: entry["per_query"] for entry in record["methods"]}
    tests = record["tests"]
    assert [(t["measure"], t["baseline"], t["method"]) for t in tests] == [
        (measure, baseline, method)
        for measure in ("map", "ndcg@10") for baseline in ("best-feature", "ordinal")
        for method in ("svm-map", "best-feature", "ordinal") if method != baseline
    ]  # fmt: skip
    for test in tests:
        a, b = (np.array(values[test[side]][test["measure"]]) for side in ("method", "baseline"))
        expected = stats.ttest_rel(a, b)
        np.testing.assert_allclose(test["t_p_value"], expected.pvalue, rtol=1e-9)
        np.testing.assert_allclose(
            [test["lower"], test["upper"]], [*expected.confidence_interval(0.95)], rtol=1e-9
        )
        assert test["p_value"] == compare(a, b).p_value
        assert test["randomization_p_value"] == compare(a, b, test="randomization").p_value
    np.testing.assert_array_equal([t["holm"] for t in tests], holm([t["p_value"] for t in tests]))

    code, out, _ = run(capsys, "compare", rows, *options, *baselines)
    assert code == 0
    assert len(out.splitlines()) == 4 + 1 + 9 + 1 + 1
    page, tex, md = ((tmp_path / name).read_text() for name in ("t.html", "t.tex", "t.md"))
    shown = f"{tests[0]['difference']:+.4f}"
    assert all(shown in text for text in (out, page, tex.replace("$-$", "-"), md))
    assert "C was chosen by map on validation queries." in out
    assert "best-feature (a)" in tex
    assert r"NDCG@10 & svm-map & best-feature" in tex
    assert tex.count(r"\begin{tabular}") == tex.count(r"\end{tabular}") == 2
    best = max(record["methods"], key=lambda entry: entry["means"]["map"])["means"]["map"]
    assert f"**{best:.4f}**" in md
    assert rf"\textbf{{{best:.4f}}}" in tex
    # a method is marked by the letter of a baseline exactly where the corrected test says so
    differs = [t for t in tests if (t["method"], t["measure"]) == ("svm-map", "map") and t["holm"] <= 0.05]
    letters = "".join({"best-feature": "a", "ordinal": "b"}[t["baseline"]] for t in differs)
    line = next(line for line in md.splitlines() if line.startswith("| svm-map |"))
    assert ("<sup>" + letters + "</sup>" in line.split("|")[2]) == bool(letters)


def test_progress_without_a_terminal(rows, capsys, monkeypatch):
    monkeypatch.setattr("structsvm.cli.compare._MINUTE", 0.0)
    command = ("compare", rows, "--C", "0.1", "--folds", 3, "--jobs", 1, "--method", "svm-map,best-feature")
    code, _, err = run(capsys, *command)
    assert code == 0, err
    assert [line.split(",")[0] for line in err.splitlines()] == [
        f"structsvm: {k} of 6 trained" for k in range(1, 7)
    ]


def test_ends_of_the_grid_are_remarked(rows, capsys):
    """Where a smaller or larger C could rank better; not where the next value is as good."""
    code, out, err = run(
        capsys, "compare", rows, "--C", "0.01,0.1,1", "--folds", 3, "--jobs", 1, "--method", "svm-map", "--json",
        "--scale", "zscore",
    )  # fmt: skip
    assert code == 0
    remarks = json.loads(out)["remarks"]
    assert [f"structsvm: {remark}; widen --C" for remark in remarks] == err.splitlines()
    curves = np.linspace(0, 1, 6).reshape(2, 3)
    cells = [
        {"grid": [0.1, 1.0, 10.0], "C": C, "validation": rows.tolist()}
        for C, rows in ((10.0, curves), (10.0, np.ones((2, 3))), (0.1, curves[:, ::-1]), (1.0, curves))
    ]
    made = Results((MethodResult("svm-map", tuple(cells)),), Measures(), ("a",) * 4, ("svm-map",), 0, 0)
    assert remarks_of(made) == [
        "svm-map: C = 0.1, the smallest of the grid, was chosen in 1 of 4 folds: a smaller one may rank better",
        "svm-map: C = 10, the largest of the grid, was chosen in 1 of 4 folds: a larger one may rank better",
    ]


def test_what_a_paper_must_not_take_for_markup():
    columns = [Column("a_b|c"), Column("50 %", numeric=True)]
    cells = [["x & y_^~\\ {z} #1 $", "−0.1 – \0b3\0\0ra\0"], ["svm-map@10", "-0.1 to -2 <0.1"]]
    assert latex(columns, cells).splitlines()[2:6] == [
        r"a\_b|c & 50 \% \\", r"\midrule",
        r"x \& y\_\textasciicircum{}\textasciitilde{}\textbackslash{} \{z\} \#1 \$ & "
        r"$-$0.1 -- \textbf{3}$^{\mathrm{a}}$ \\", r"svm-map@10 & $-$0.1 to $-$2 $<$0.1 \\",
    ]  # fmt: skip
    assert markdown(columns, [["*x*|<b>", "\0b3\0"]]).splitlines() == [
        r"| a\_b\|c | 50 % |", "| --- | ---: |", r"| \*x\*\|\<b\> | **3** |",
    ]  # fmt: skip


def test_search_finds_what_it_prints_and_writes_the_model(rows, tmp_path, capsys):
    options = ["--C", "0.01,1,100", "--jobs", 1, "--folds", 3, "--method", "svm-map", "--method", "ranksvm"]
    code, out, _ = run(capsys, "search", rows, *options, "--json")
    record = json.loads(out)
    assert code == 0
    best = max(
        (mean, -C, m["method"]) for m in record["methods"] for C, mean in zip(m["C"], m["means"], strict=True)
    )
    assert (record["best"]["mean"], -record["best"]["C"], record["best"]["method"]) == best

    code, out, _ = run(capsys, "search", rows, *options, "-o", tmp_path / "m.npz", "--method", "svm-roc")
    assert code == 0
    assert out.count("best") == 1
    assert out.splitlines()[-1] == f"Model: {tmp_path / 'm.npz'}"
    model = structsvm.load(tmp_path / "m.npz")
    assert f"C = {model.C:.4g}" in out


def test_search_with_a_validation_file(rows, tmp_path, capsys):
    other = tmp_path / "vali.txt"
    data = make_ranking(40, 8, 4, random_state=1).select(np.arange(30, 40))
    write_letor(data, other)
    options = ["--validation", other, "--C", "1,2", "--tol", 1e-9, "--jobs", 1, "--json"]
    code, out, _ = run(capsys, "search", rows, *options)
    assert code == 0
    train, vali = read_letor(rows), read_letor(other)
    for entry in json.loads(out)["methods"]:
        for C, mean in zip(entry["C"], entry["means"], strict=True):
            model = structsvm.StructuralRanker(entry["method"][4:], C, tol=1e-9)
            model.fit(train.X, train.y, qid=train.qid)
            scores = model.predict(vali.X)
            # a path and a single fit, near enough to one optimum for the same rankings
            value = structsvm.metrics.evaluate("map", vali.y, scores, qid=vali.qid, docid=vali.docid).mean
            assert mean == pytest.approx(value, rel=1e-12)


def test_search_with_signs(rows, tmp_path, capsys):
    options = [
        "--C",
        "1,100",
        "--jobs",
        1,
        "--folds",
        3,
        "--method",
        "svm-map",
        "-o",
        tmp_path / "m.npz",
        "--json",
    ]
    code, out, _ = run(capsys, "search", rows, *options)
    assert code == 0
    free = structsvm.load(tmp_path / "m.npz").coef_
    signs = [f"--monotone={j + 1}:{-int(np.sign(free[j])):+d}" for j in (0, 2)]
    code, signed, _ = run(capsys, "search", rows, *options, *signs)
    assert code == 0
    held = structsvm.load(tmp_path / "m.npz")
    assert (held.coef_[[0, 2]] * free[[0, 2]] <= 0).all()
    assert held.monotone_constraints == {0: -np.sign(free[0]), 2: -np.sign(free[2])}
    assert json.loads(signed)["best"]["mean"] < json.loads(out)["best"]["mean"]


@pytest.mark.parametrize("command", ["compare", "search"])
@pytest.mark.parametrize("data", [[], ["nothing.txt"]])
def test_methods_are_listed_without_data(command, data, capsys):
    code, out, _ = run(capsys, command, *data, "--method", "list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == list(methods())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "nothing.txt"], "nothing.txt: expected a file to read"),
        (["compare", "ROWS", "--C", "1:0.1:5"], "--C: expected low:high:number or a,b,c with numbers > 0, got"),
        (["compare", "ROWS", "--method", "svm"], "error: --method svm: expected one of svm-LOSS"),
        (["compare", "ROWS", "--metric", "maps"], "error: --metric maps: expected one of"),
        (["compare", "ROWS", "--select", "maps"], "error: --select maps: expected one of"),
        (["search", "ROWS", "--select", "maps"], "error: --select maps: expected one of"),
        (["compare", "ROWS", "--scale", "log"], "error: --scale log: expected one of none, minmax"),
        (["search", "ROWS", "--scale", "log"], "error: --scale log: expected one of none, minmax"),
        (["compare", "ROWS", "--baseline", "acc"], "error: --baseline acc: expected one of the methods"),
        (["compare", "ROWS", "--report", "nowhere/at/all.html"], "expected an existing folder"),
        (["search", "ROWS", "--folds", "1"], "--folds 1: expected 2 to the number of queries"),
        (["compare", "ROWS", "--csv", "ROWS"], "got the same; choose another --csv"),
        (["search", "ROWS", "-o", "ROWS"], "got the same; choose another --output"),
        (["search", "ROWS", "--monotone", "99:+1"], "error: --monotone 99: expected a feature from 1 to 4"),
        (["search", "ROWS", "--monotone", "+1"], "error: --monotone +1: expected a feature and +1 or -1"),
        (["search", "ROWS", "--monotone", "1:+1", "--method", "tree"], "--monotone: expected methods svm-LOSS only, "),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_code_2(rows, capsys, arguments, message):
    code, out, err = run(capsys, *[str(rows) if a == "ROWS" else a for a in arguments], "--jobs", 1)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "text", ["", "a", "1:2", "0:1:3", "1:2:1", "1:inf:3", "-1", "0", "nan", "1,,2", "1:2:3:4"]
)
def test_grids_that_are_none(text):
    with pytest.raises(ValueError, match="--C: expected"):
        parse_grid(text)


def test_grid_has_round_numbers():
    assert parse_grid("1e-3:1e3:7") == [0.001, 0.01, 0.1, 1, 10, 100, 1000]


@pytest.mark.slow
def test_trees_and_peers_stand_in_the_same_table(rows, tmp_path, capsys, monkeypatch):
    from structsvm.studies.folds import peers

    lightgbm = pytest.importorskip("lightgbm")
    pytest.importorskip("xgboost")
    monkeypatch.setattr(
        peers.best_boosted, "__kwdefaults__", peers.best_boosted.__kwdefaults__ | {"most_trees": 20}
    )
    methods = ["--method", "tree,map", "--method", "lightgbm, xgboost"]
    code, out, err = run(capsys, "compare", rows, "--C", "0.1", "--folds", 3, "--jobs", 1, *methods)
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()[1:5]] == ["tree", "svm-map", "lightgbm", "xgboost"]
    model = tmp_path / "model.npz"
    code, _, _ = run(
        capsys, "search", rows, "--C", "0.1", "--jobs", 1, "--folds", 3, "--method", "tree", "-o", model
    )
    assert code == 0
    assert type(structsvm.load(model)).__name__ == "TreeRanker"
    code, _, err = run(capsys, "export", model, "--to", "lightgbm", "-o", tmp_path / "model.txt")
    assert (code, err) == (0, "")
    assert (tmp_path / "model.txt").read_text().startswith("tree\n")
    scores = tmp_path / "scores.txt"
    code, _, err = run(capsys, "predict", model, rows, "-o", scores)
    assert (code, err) == (0, "")
    booster = lightgbm.Booster(model_file=str(tmp_path / "model.txt"))
    X = read_letor(rows, sparse=False).X
    np.testing.assert_allclose(np.loadtxt(scores), booster.predict(X), rtol=0, atol=1e-9)
    code, out, err = run(capsys, "evaluate", rows, scores, "--metric", "map")
    assert (code, err) == (0, "")
    with pytest.raises(ValueError, match="expected a linear model, got a TreeRanker; predict without --dask"):
        next(predict_there(None, structsvm.load(model), rows, Columns()))


def test_a_peer_that_is_not_installed_is_refused_with_the_command(rows, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "catboost", None)
    code, _, err = run(capsys, "compare", rows, "--method", "catboost")
    assert code == 2
    assert "pip install catboost" in err


def test_the_rule_that_chooses_C(rows, tmp_path, capsys):
    """The C of the best mean, or the smallest within one standard error of it, worked out from per-query values."""
    options = [
        "--C",
        "0.01,0.1,1,10,100",
        "--jobs",
        1,
        "--folds",
        3,
        "--method",
        "svm-map",
        "--work",
        tmp_path,
    ]
    found = {}
    for selection in ("max", "one_se"):
        code, out, err = run(capsys, "search", rows, *options, "--selection", selection, "--json")
        assert code == 0
        assert all("of the grid, was chosen" in line for line in err.splitlines())
        found[selection] = json.loads(out)
    [method] = found["max"]["methods"]
    assert found["one_se"]["methods"] == [method]
    cells = [json.loads(file.read_text()) for file in tmp_path.iterdir()]
    values = np.concatenate(
        [cell["cell"]["validation"] for cell in cells if cell["key"]["measures"]["selection"] == "max"]
    )
    assert values.shape == (30, 5)
    np.testing.assert_allclose(values.mean(axis=0), method["means"])
    best = int(np.argmax(method["means"]))
    lost = values[:, [best]] - values
    within = lost.mean(axis=0) <= lost.std(axis=0, ddof=1) / np.sqrt(30)
    for selection, chosen in (("max", best), ("one_se", int(np.argmax(within)))):
        assert found[selection]["best"] == {
            "method": "svm-map",
            "C": method["C"][chosen],
            "mean": pytest.approx(method["means"][chosen], abs=1e-15),
        }
    assert found["one_se"]["best"]["C"] < found["max"]["best"]["C"]  # of these rows

    code, out, _ = run(capsys, "search", rows, *options, "--selection", "one_se")
    assert (
        f"with C = {found['one_se']['best']['C']:.4g}, mean map {found['one_se']['best']['mean']:.4f}" in out
    )
    for selection in ("max", "one_se"):
        run(
            capsys,
            "compare",
            rows,
            *options,
            "--selection",
            selection,
            "--csv",
            tmp_path / f"{selection}.csv",
        )
    chosen = {
        selection: (tmp_path / f"{selection}.csv").read_text().splitlines()[1].split(",")[8].split()
        for selection in ("max", "one_se")
    }
    assert all(float(a) <= float(b) for a, b in zip(chosen["one_se"], chosen["max"], strict=True))
    assert chosen["one_se"] != chosen["max"]


@pytest.mark.slow
def test_search_leaves_out_what_stops_early_on_the_queries_it_is_judged_on(rows, tmp_path, capsys):
    """Labels by chance: the mean of a method that stops early on them is no figure to choose by."""
    options = ["--C", "0.1", "--jobs", 1, "--folds", 3, "--method", "lambdarank-net, svm-map"]
    code, out, err = run(capsys, "search", rows, *options)
    assert code == 0
    assert "Best: svm-map" in out
    assert "warning: lambdarank-net: settings were chosen on the same validation queries" in err
    for method in ("best-feature", "lightgbm"):
        code, _, err = run(capsys, "search", rows, "--method", method, "-o", tmp_path / "m.npz")
        assert code == 2
        assert f"--output: expected methods whose model can be saved, got {method}" in err


def test_a_net_that_a_search_trained_predicts(rows, tmp_path, capsys):
    model = tmp_path / "net.npz"
    options = ["--C", "0.1", "--jobs", 1, "--folds", 2, "--method", "lambdarank-net", "-o", model]
    assert run(capsys, "search", rows, *options)[0] == 0
    assert run(capsys, "predict", model, rows, "-o", tmp_path / "scores.txt")[0] == 0
    assert len((tmp_path / "scores.txt").read_text().splitlines()) > 0
