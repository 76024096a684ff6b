"""The commands compare and search: tables, files, messages."""

import csv
import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import structsvm
from structsvm.cli.dask import predict_there
from structsvm.cli.files import Columns
from structsvm.cli.options import parse_grid
from structsvm.cli.studies.folds import METHODS, Measures, MethodResult, Results
from structsvm.cli.studies.folds.results import remarks as remarks_of
from structsvm.common.tables.source import source_of
from structsvm.estimators.choosing_C import select_C
from structsvm.metrics.significance import compare, holm
from structsvm.plots.pages import p_said
from structsvm.readers import Run, make_ranking, read_letor, write_letor, write_run
from tests.refusing import rejected

THREE = "--folds 3 --jobs 1"


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.txt"
    write_letor(make_ranking(30, 8, 4, random_state=1), path)
    return path


def test_table_csv_json_and_page_agree(rows, cli):
    options = (
        f"--C 0.1,10 {THREE} --method svm-map --method best-feature --csv t.csv --report t.html --work work"
    )
    out = cli("compare", rows, options)
    assert cli.err == ""
    header, first, second, _, tests, *_, finding = out.splitlines()
    assert header.split() == ["method", "map", "ndcg@10", "C", "gap", "seconds"]
    assert tests.split()[:4] == ["measure", "method", "against", "difference"]
    assert len(list(Path("work").iterdir())) == 6

    record = cli.json("compare", rows, options, "--per-query")
    with Path("t.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    page = Path("t.html").read_text()
    for line, entry, row in zip((first, second), record["methods"], table, strict=True):
        shown = f"{entry['means']['map']:.4f}"
        assert line.split()[:2] == [entry["method"], shown]
        assert float(row["map"]) == entry["means"]["map"] == np.mean(entry["per_query"]["map"])
        assert shown in page
    tested = {(test["measure"], test["method"]): test for test in record["tests"]}
    for name in ("difference", "wins", "losses", "ties", "p_value", "lower", "upper", "t_p_value", "holm"):
        for measure in ("map", "ndcg@10"):
            assert float(table[1][f"{name} {measure}"]) == tested[measure, "best-feature"][name]
            assert table[0][f"{name} {measure}"] == ""  # the baseline
    assert finding.startswith(max(record["methods"], key=lambda e: e["means"]["map"])["method"])
    assert sorted(record["query_ids"]) == sorted(map(str, read_letor(rows).query_ids))

    cli("compare", rows, options)
    assert cli.err == "structsvm: 6 of 6 results found in work\n"


def test_several_baselines_in_every_measure(rows, cli):
    """Tests are reported in the right cells, Holm's correction covers all of them, and all formats agree."""
    options = f"--C 0.1,10 {THREE} --method svm-map,best-feature,ordinal --baseline best-feature,ordinal"
    record = cli.json("compare", rows, options, "--report t.html", "--per-query")
    assert cli.err == ""
    assert record["baselines"] == ["best-feature", "ordinal"]
    values = {entry["method"]: entry["per_query"] for entry in record["methods"]}
    tests = record["tests"]
    assert [(t["measure"], t["baseline"], t["method"]) for t in tests] == [
        (measure, baseline, method)
        for measure in ("map", "ndcg@10")
        for baseline, method in (
            ("best-feature", "svm-map"),
            ("best-feature", "ordinal"),
            ("ordinal", "svm-map"),
        )
    ]
    for test in tests:
        a, b = (np.array(values[test[side]][test["measure"]]) for side in ("method", "baseline"))
        expected = stats.ttest_rel(a, b)
        ends = [test["lower"], test["upper"]]
        np.testing.assert_allclose(test["t_p_value"], expected.pvalue, rtol=1e-9)
        np.testing.assert_allclose(ends, [*expected.confidence_interval(0.95)], rtol=1e-9)
        assert test["p_value"] == compare(a, b).p_value
        assert test["randomization_p_value"] == compare(a, b, test="randomization").p_value
    np.testing.assert_array_equal([t["holm"] for t in tests], holm([t["p_value"] for t in tests]))

    out = cli("compare", rows, options)
    assert len(out.splitlines()) == 4 + 1 + 7 + 1 + 1
    page = Path("t.html").read_text()
    assert all(f"{tests[0]['difference']:+.4f}" in text for text in (out, page))
    assert "C was chosen by map on validation queries." in out
    assert "for all 6 tests" in page
    assert "for 6 comparisons" in out
    best, *others = sorted(values, key=lambda name: -np.mean(values[name]["map"]))
    corrected = {frozenset((t["method"], t["baseline"])): t["holm"] for t in tests if t["measure"] == "map"}
    assert all(p_said(corrected[frozenset((best, other))]) in out.splitlines()[-1] for other in others)


def test_ends_of_the_grid_are_remarked(rows, cli):
    """A remark is made if a smaller or larger C could rank better, but not if the neighbouring value is as good."""
    remarks = cli.json("compare", rows, f"--C 0.01,0.1,1 {THREE} --method svm-map --scale zscore")["remarks"]
    assert [f"structsvm: {remark}; widen --C" for remark in remarks] == cli.err.splitlines()
    curves = np.linspace(0, 1, 6).reshape(2, 3)
    cells = [
        {"grid": [0.1, 1.0, 10.0], "C": C, "validation": rows.tolist()}
        for C, rows in ((10.0, curves), (10.0, np.ones((2, 3))), (0.1, curves[:, ::-1]), (1.0, curves))
    ]
    made = Results(
        (MethodResult("svm-map", tuple(cells)),), Measures(("map",)), ("a",) * 4, ("svm-map",), 0, 0
    )
    assert remarks_of(made) == [
        "svm-map: C = 0.1, the smallest of the grid, was chosen in 1 of 4 folds: a smaller C may rank better",
        "svm-map: C = 10, the largest of the grid, was chosen in 1 of 4 folds: a larger C may rank better",
    ]


def test_search_finds_what_it_prints_and_writes_the_model(rows, cli):
    options = f"--C 0.01,1,100 {THREE} --method svm-map --method ranksvm"
    record = cli.json("search", rows, options)
    best = max(
        (mean, -C, m["method"]) for m in record["methods"] for C, mean in zip(m["C"], m["means"], strict=True)
    )
    assert (record["best"]["mean"], -record["best"]["C"], record["best"]["method"]) == best
    out = cli("search", rows, options, "-o m.npz --method svm-roc")
    assert out.count("best") == 1
    assert out.splitlines()[-1] == "Model: m.npz"
    assert f"C = {structsvm.load('m.npz').C:.4g}" in out


def test_search_says_what_to_expect_on_new_queries(rows, cli):
    """Nested cross-validation over methods and C, recomputed from the cells; a column is compared on equal queries."""
    options = f"--C 0.01,1,100 {THREE} --method svm-map --method ranksvm"
    found = cli.json("search", rows, options, "--baseline 1 --work cells")["estimate"]
    cells = [json.loads(file.read_text()) for file in Path("cells").iterdir()]
    parts = {
        (c["key"]["method"], tuple(c["key"]["parts"][1]["queries"])): c["cell"]["validation"] for c in cells
    }
    queries = sorted({part for _, part in parts})
    values, data = [], read_letor(rows)
    for part in queries:
        rest = [other for other in queries if other != part]
        means = {
            (method, i): np.concatenate([parts[method, other] for other in rest])[:, i].mean()
            for method in ("svm-map", "ranksvm")
            for i in range(3)
        }
        method, best = max(means, key=means.get)
        values += np.array(parts[method, part])[:, best].tolist()
    assert (found["mean"], found["n_queries"]) == (pytest.approx(np.mean(values)), 30)
    order = data.select(np.concatenate([list(part) for part in queries]))
    column = np.asarray(order.X.toarray() if hasattr(order.X, "toarray") else order.X)[:, 0]
    alone = structsvm.metrics.evaluate("map", order.y, column, qid=order.qid, ties="row").per_query
    expected = structsvm.metrics.compare(np.array(values), alone, test="t")
    assert found["difference"]["mean_difference"] == pytest.approx(expected.mean_difference)
    assert found["difference"]["lower"] < expected.lower
    out = cli("search", rows, options, "--baseline 1").splitlines()
    assert out[-2].startswith(f"map on new queries {found['mean']:.3f} [")
    assert "the baseline" in out[-1]
    assert "--baseline 9: expected a method of the comparison, a feature" in cli.refuses(
        "search", rows, "--baseline 9"
    )


def test_search_with_a_validation_file(rows, cli):
    held = make_ranking(40, 8, 4, random_state=1).select(np.arange(30, 40))
    held.y[:8] = 0.0
    write_letor(held, "vali.txt")
    found = cli.json("search", rows, "--validation vali.txt --C 1,2 --tol 1e-9 --jobs 1")
    assert "the labels of 1 of 10 validation queries do not define map" in cli.err
    assert found["estimate"]["n_queries"] == 10
    train, vali = read_letor(rows), read_letor("vali.txt")
    for entry in found["methods"]:
        for C, mean in zip(entry["C"], entry["means"], strict=True):
            model = structsvm.StructuralRanker(entry["method"][4:], C, tol=1e-9)
            scores = model.fit(train.X, train.y, qid=train.qid).predict(vali.X)
            # a path and a single fit, near enough to one optimum for the same rankings
            value = structsvm.metrics.evaluate("map", vali.y, scores, qid=vali.qid, docid=vali.docid).mean
            assert mean == pytest.approx(value, rel=1e-12)


def test_search_with_signs_and_for_a_net(rows, cli):
    cli("search", rows, "--C 0.1 --jobs 1 --folds 2 --method lambdarank-net -o net.npz")
    cli("predict net.npz", rows, "-o scores.txt")
    assert len(Path("scores.txt").read_text().splitlines()) > 0
    options = f"--C 1,100 {THREE} --method svm-map -o m.npz"
    best = cli.json("search", rows, options)["best"]
    free = structsvm.load("m.npz").coef_
    signs = " ".join(f"--monotone={j + 1}:{-int(np.sign(free[j])):+d}" for j in (0, 2))
    signed = cli.json("search", rows, options, signs)["best"]
    held = structsvm.load("m.npz")
    assert (held.coef_[[0, 2]] * free[[0, 2]] <= 0).all()
    assert held.monotone_constraints == {0: -np.sign(free[0]), 2: -np.sign(free[2])}
    assert signed["mean"] < best["mean"]


def test_an_interrupted_study_goes_on_from_its_folder(rows, cli, monkeypatch):
    """The folds are drawn by the seed, so that a file sorted by difficulty has representative ones."""
    from structsvm.cli.studies.folds import find_folds, results

    # 10 in the file's order
    assert np.std([np.mean(fold.test.queries) for fold in find_folds(rows, n_folds=3)]) < 5
    compute, command = results._compute, f"compare {rows} --C 0.1 {THREE} --method map,roc --jobs 1"

    def once(*arguments):
        if list(Path("kept").iterdir()):
            raise KeyboardInterrupt
        return compute(*arguments)

    monkeypatch.setattr(results, "_compute", once)
    assert cli.code(command, "--work kept") == 130
    assert cli.err == "structsvm: interrupted; the same command continues from the results in kept\n"
    monkeypatch.setattr(results, "_compute", compute)
    cli(command, "--work kept")
    assert "1 of 6 results found in kept" in cli.err


def test_features_models_and_runs_are_baselines(rows, cli):
    """Baselines are measured on the test queries of the folds as by ``evaluate``, and tested like methods."""
    data = read_letor(rows, sparse=False)
    cli("train", rows, "-o old.npz --C 0.01 --positive")
    model = structsvm.load("old.npz")
    scores = {"feature 1": data.X[:, 0], "old.npz": model.predict(data.X, qid=data.qid)}
    scores["old.run"] = np.random.default_rng(0).random(data.n_rows)
    docid = np.array([f"d{i}" for i in range(data.n_rows)])
    write_letor(dataclasses.replace(data, docid=docid), "named.txt")
    write_run(Run.from_arrays(data.qid, docid, scores["old.run"]), "old.run")
    command = f"compare named.txt --C 0.1 {THREE} --method map,roc --positive --metric map"
    options = "--baseline map,1,old.npz,old.run --per-query"
    record = cli.json(command, options, "--fail-if-worse 1")
    assert record["baselines"] == ["svm-map", *scores]
    for entry in record["methods"][2:]:
        found = structsvm.metrics.evaluate("map", data.y, scores[entry["method"]], qid=data.qid, docid=docid)
        values = dict(zip(map(str, found.query_ids), found.per_query, strict=True))
        expected = [values[query] for query in record["query_ids"]]
        np.testing.assert_allclose(entry["per_query"]["map"], expected, rtol=0, atol=1e-12)
        assert (entry["gap"], entry["C"]) == (None, [None] * 3)
    lower = min(t["lower"] for t in record["tests"] if t["method"] == "svm-roc")
    for margin, status in ((-lower + 1e-9, 0), (-lower - 1e-9, 3)):
        assert cli.code(command, options, f"--json --fail-if-worse {max(0, margin)!r}") == status
    assert cli.err.startswith("structsvm: svm-roc may be worse than ")
    found = cli.json("search named.txt --C 0.1", THREE, "--method map --baseline old.npz")["estimate"][
        "difference"
    ]
    assert found["wins"] + found["losses"] + found["ties"] == 30
    Path("other.run").write_text("no Q0 d1 1 2.0 x\n")
    for name, said in (
        ("other.run", "expected a run with queries and documents of DATA"),
        ("bm52", "expected a method of the comp"),
    ):
        assert said in cli.refuses(f"compare named.txt --baseline {name}")
    assert "expected rows with document ids" in cli.refuses("compare", rows, "--baseline old.run")


@pytest.mark.parametrize("command", ["compare", "search", "compare nothing.txt", "search nothing.txt"])
def test_methods_are_listed_without_data(command, cli):
    assert [line.split()[0] for line in cli(command, "--method list").splitlines()] == list(METHODS)


@pytest.mark.parametrize(
    "text", ["", "a", "1:2", "0:1:3", "1:2:1", "1:inf:3", "-1", "0", "nan", "1,,2", "1:2:3:4"]
)
def test_invalid_grids_are_refused(text):
    assert parse_grid("1e-3:1e3:7") == [0.001, 0.01, 0.1, 1, 10, 100, 1000]
    rejected("--C: expected", parse_grid, text)


@pytest.mark.slow
def test_trees_and_peers_stand_in_the_same_table(rows, cli, monkeypatch):
    from structsvm.cli.studies.folds import lightgbm_ranker

    lightgbm = pytest.importorskip("lightgbm")
    monkeypatch.setattr(lightgbm_ranker, "MOST_TREES", 20)
    out = cli("compare", rows, f"--C 0.1 {THREE} --method tree,map --method 'lightgbm, acc'")
    assert cli.err == ""
    assert [line.split()[0] for line in out.splitlines()[1:5]] == ["tree", "svm-map", "lightgbm", "acc"]
    cli("search", rows, f"--C 0.1 {THREE} --method tree -o model.npz")
    model = structsvm.load("model.npz")
    assert type(model).__name__ == "TreeRanker"
    for command in (
        "export model.npz --to lightgbm -o model.txt",
        f"predict model.npz {rows} -o scores.txt",
        f"evaluate {rows} scores.txt --metric map",
    ):
        cli(command)
        assert cli.err == ""
    assert Path("model.txt").read_text().startswith("tree\n")
    expected = lightgbm.Booster(model_file="model.txt").predict(read_letor(rows, sparse=False).X)
    np.testing.assert_allclose(np.loadtxt("scores.txt"), expected, rtol=0, atol=1e-9)
    with pytest.raises(ValueError, match="expected a linear model, got a TreeRanker; predict without --dask"):
        next(predict_there(None, model, source_of(rows), Columns()))


@pytest.mark.parametrize("methods", ["pairs", "pairs,ndcg@10"])
def test_a_measure_that_no_ranking_changes_names_no_best_method(cli, methods):
    data = make_ranking(9, 6, 2, grades=3, random_state=0)
    data.y[:] += 1  # each row is relevant
    write_letor(data, "stars.txt")
    command = f"compare stars.txt --folds 3 --C 1 --jobs 1 --method {methods}"
    out = cli(command)
    assert [line.split()[2] for line in cli.err.splitlines()] == ["map", "9"]  # the second: 9 queries are few
    assert " best mean ndcg@10 on 9 test queries" in out
    assert "best mean map" not in out
    assert cli(f"{command} --metric map").splitlines()[-1].startswith("No measure depends on the ranking")


def test_the_rule_that_chooses_C(rows, cli):
    """The C with the best mean, or the smallest within one standard error of it, recomputed from per-query values."""
    options = f"--C 0.01,0.1,1,10,100 {THREE} --method svm-map --work work --selection"
    found, rules = {}, ("max", "one_se")
    for rule in rules:
        found[rule] = cli.json("search", rows, options, rule)
        assert all("of the grid, was chosen" in line for line in cli.err.splitlines())
    [method] = found["max"]["methods"]
    assert found["one_se"]["methods"] == [method]
    cells = [json.loads(file.read_text()) for file in Path("work").iterdir()]
    values = np.concatenate(
        [cell["cell"]["validation"] for cell in cells if cell["key"]["measures"]["selection"] == "max"]
    )
    assert values.shape == (30, 5)
    np.testing.assert_allclose(values.mean(axis=0), method["means"])
    for rule in rules:
        C = select_C(np.array(method["C"]), values, selection=rule)
        mean = pytest.approx(method["means"][method["C"].index(C)], abs=1e-15)
        assert found[rule]["best"] == {"method": "svm-map", "C": C, "mean": mean}
    one_se = found["one_se"]["best"]
    assert one_se["C"] < found["max"]["best"]["C"]  # of these rows
    said = f"with C = {one_se['C']:.4g}, mean map {one_se['mean']:.4f}"
    assert said in cli("search", rows, options, "one_se")
    chosen = {}
    for rule in rules:
        cli("compare", rows, options, rule, "--csv t.csv")
        chosen[rule] = [float(C) for C in Path("t.csv").read_text().splitlines()[1].split(",")[3].split()]
    assert all(a <= b for a, b in zip(chosen["one_se"], chosen["max"], strict=True))
    assert chosen["one_se"] != chosen["max"]


@pytest.mark.slow
def test_search_leaves_out_what_stops_early_on_the_queries_it_is_judged_on(rows, cli):
    """With random labels, the mean of a method that stops early on the same queries cannot be used for selection."""
    out = cli("search", rows, f"--C 0.1 {THREE} --method 'lambdarank-net, svm-map'")
    assert "Best: svm-map" in out
    assert "warning: lambdarank-net: settings were chosen on the same validation queries" in cli.err
    for method in ("best-feature", "lightgbm"):
        said = cli.refuses("search", rows, f"--method {method} -o m.npz")
        assert f"--output: expected methods whose model can be saved, got {method}" in said
