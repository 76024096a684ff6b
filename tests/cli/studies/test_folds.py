"""Folds, cells and their results: compared with explicit loops, and after the process was killed."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import structsvm
from structsvm import QueryData, StructuralRanker
from structsvm.cli import main
from structsvm.cli.studies.folds import (
    METHODS,
    Fold,
    Measures,
    Part,
    Training,
    find_folds,
    lightgbm_ranker,
    load_fold,
    results,
    run,
)
from structsvm.cli.studies.folds.methods import walk
from structsvm.cli.studies.folds.page import as_records, page
from structsvm.metrics import compare, evaluate
from structsvm.readers import convert_letor, make_ranking, read_letor, write_letor
from tests.refusing import rejected


def parts(folder, n=5, n_queries=10, n_features=5):
    """Write parts S1 ... Sn of one problem, with distinct query ids."""
    data = make_ranking(n * n_queries, 8, n_features, random_state=3)
    for k in range(n):
        write_letor(data.select(np.arange(k * n_queries, (k + 1) * n_queries)), folder / f"S{k + 1}.txt")
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return parts(tmp_path_factory.mktemp("parts"))


def names(part):
    return [path.name for path in part.files]


def test_the_rotation_is_the_one_the_benchmark_states(shared_data):
    folder = shared_data("letor4_mq2008")
    readme = folder / "folds_readme.txt"
    stated = [line.split("\t") for line in readme.read_text().splitlines()[1:] if line.strip()]
    for row, fold in zip(stated, find_folds(folder), strict=True):
        cells = [cell for cell in row if cell.strip()]
        assert fold.name == cells[0]
        told = [[f"{s.strip()}.txt.gz" for s in cell.split(",")] for cell in cells[1:]]
        assert [names(part) for part in fold.parts] == told


def test_fold_folders_and_one_fold(tmp_path):
    for k in (1, 2, 10):
        (tmp_path / f"Fold{k}").mkdir()
        for i, part in enumerate(("train", "vali", "test")):
            (tmp_path / f"Fold{k}" / f"{part}.txt").write_text(f"1 qid:{i} 1:1\n")
    folds = find_folds(tmp_path)
    assert [fold.name for fold in folds] == ["Fold1", "Fold2", "Fold10"]
    assert [names(part) for part in folds[0].parts] == [["train.txt"], ["vali.txt"], ["test.txt"]]
    assert find_folds(tmp_path / "Fold2")[0].parts == folds[1].parts
    assert all(fold.test is None for fold in find_folds(tmp_path, test=False))
    (tmp_path / "Fold2" / "vali.txt").unlink()
    rejected(r"Fold2: expected one file or store called vali\.\*, got none", find_folds, tmp_path)


@pytest.mark.parametrize(("test", "n_folds"), [(True, 3), (True, 5), (False, 2), (False, 4)])
def test_one_file_is_cut_by_queries(tmp_path, test, n_folds):
    path = tmp_path / "rows.txt"
    write_letor(make_ranking(23, 4, 3, random_state=0), path)
    folds = find_folds(path, n_folds=n_folds, test=test)
    last = [part for fold in folds for part in fold.parts[-1].queries]
    assert sorted(last) == list(range(23))  # every query is tested (or chosen on) once
    for fold in folds:
        everything = sorted(q for part in fold.parts for q in part.queries)
        assert everything == list(range(23))
    assert find_folds(path, n_folds=n_folds, test=test) == folds
    assert find_folds(path, n_folds=n_folds, test=test, random_state=1) != folds
    convert_letor(path, tmp_path / "rows.store")
    whole, of_store = read_letor(path), find_folds(tmp_path / "rows.store", n_folds=n_folds, test=test)[0]
    for data in map(load_fold, (folds[0], of_store)):
        assert np.array_equal(data.train.X, whole.select(np.array(folds[0].train.queries)).X)


def test_parts_of_different_width_and_kind_are_brought_together(tmp_path):
    (tmp_path / "S1.txt").write_text("1 qid:1 1:1 3:2\n0 qid:1 1:4\n")
    (tmp_path / "S2.txt").write_text("1 qid:2 1:1 2:7\n0 qid:2 2:4\n")
    (tmp_path / "S3.txt").write_text("1 qid:3 4:9\n0 qid:3 1:4\n")
    (tmp_path / "S4.txt").write_text("1 qid:4 60:9\n0 qid:4 1:4\n")  # read as a sparse matrix
    train, validation, test = load_fold(find_folds(tmp_path)[0])
    assert train.n_features == validation.n_features == test.n_features == 60
    assert train.X[2, 1] == 7
    assert validation.X[0, 3] == test.X[0, 59] == 9
    assert isinstance(test.X, np.ndarray)


def test_what_is_no_folds_is_refused(tmp_path):
    for name in ("S1", "S2", "S3", "S4"):
        (tmp_path / f"{name}.txt").write_text("1 qid:1 1:1\n0 qid:1 1:0\n")
    rejected(r"S1.*S2.*: expected distinct queries, got query '1' in two", load_fold, find_folds(tmp_path)[0])
    (tmp_path / "S4.txt").unlink()
    rejected(r"Fold1: expected each query in only one of its parts", load_fold, find_folds(tmp_path)[0])
    (tmp_path / "notes.md").write_text("")
    (tmp_path / "S2.txt").unlink()
    rejected(r"expected Fold1, Fold2, .* got S1\.txt, S3\.txt, notes\.md", find_folds, tmp_path)
    with pytest.raises(FileNotFoundError, match="but it does not exist"):
        find_folds(tmp_path / "nothing")
    (tmp_path / "rows.txt").write_text("1 qid:1 1:1\n0 qid:2 1:0\n")
    rejected(r"expected 3 to \d+, the number of queries in", find_folds, tmp_path / "rows.txt")


def test_results_are_those_of_a_loop_by_hand(folder):
    Cs, measures = [0.03, 1.0, 30.0], Measures(("map", "ndcg@10"), "ndcg@5", "letor4")
    results = run(
        find_folds(folder), ["svm-roc", "svm-map"], Cs, measures=measures, training=Training(tol=1e-8)
    )
    text = [read_letor(folder / f"S{k + 1}.txt", n_features=5) for k in range(5)]

    def joined(numbers):
        chosen = [text[i % 5] for i in numbers]
        columns = (np.concatenate([getattr(d, name) for d in chosen]) for name in ("X", "y", "qid"))
        return QueryData.from_arrays(*columns)

    def measured(name, model, data):
        return evaluate(name, data.y, model.predict(data.X), qid=data.qid, convention="letor4")

    for method in results.methods:
        expected = []
        for k in range(5):
            train, vali, test = joined(range(k, k + 3)), text[(k + 3) % 5], text[(k + 4) % 5]
            best = (-1.0,)
            for C in Cs:
                model = StructuralRanker(method.name[4:], C, tol=1e-8).fit(train.X, train.y, qid=train.qid)
                value = measured("ndcg@5", model, vali).mean
                if value > best[0] + 1e-9:
                    best = (value, C, model)
            assert method.cells[k]["C"] == best[1]
            expected.append(measured("map", best[2], test).per_query)
        assert method.per_query("map") == pytest.approx(np.concatenate(expected), abs=1e-9)
        assert method.gap <= 1e-8
    first, second = map(results.against_baseline, results.methods)
    assert second == compare(results.methods[1].per_query("map"), results.methods[0].per_query("map"))
    assert (first.ties, first.p_value) == (50, 1.0)


@pytest.mark.parametrize(
    "name", [name for name in METHODS if not name.endswith("-LOSS")] + ["svm-precision@3", "svm-mrr", "tree"]
)
def test_every_method_runs(folder, name):
    result = run(find_folds(folder)[:1], [name], [0.1, 10.0]).methods[0]
    assert 0.3 < result.per_query("map").mean() <= 1
    assert len(result.cells[0]["grid"]) == (1 if result.Cs == (None,) else 2)


def test_the_best_stage_of_a_booster_is_chosen(folder, monkeypatch):
    pytest.importorskip("lightgbm")
    monkeypatch.setattr(lightgbm_ranker, "MOST_TREES", 30)
    train, validation, _ = load_fold(find_folds(folder)[0])

    def measure(data, scores):
        return evaluate("map", data.y, scores, qid=data.qid).mean

    (best,), (signed,) = (
        walk("lightgbm", [1.0], train, validation, Training(monotone=signs), measure)
        for signs in ((), (("1", -1),))
    )
    higher = train.X + np.eye(train.n_features)[0]
    assert (best.model.predict(higher) > best.model.predict(train.X)).any()
    assert (signed.model.predict(higher) <= signed.model.predict(train.X)).all()
    values = []
    for point in lightgbm_ranker.GRID:
        grown = lightgbm_ranker.grow(
            train, train.y if point.graded else (train.y >= 1).astype(float), point, 0
        )
        values += [measure(validation, grown(validation.X, 0, last)) for last in (10, 20, 30)]
    assert min(values) < max(values) == measure(validation, best.model.predict(validation.X))


def test_processes_and_order_do_not_change_results(folder, monkeypatch):
    monkeypatch.setattr(results, "PROCESSES_PAY_FROM", 0.0)
    one = run(find_folds(folder), ["svm-map", "best-feature"], [0.1, 1.0])
    two = run(find_folds(folder), ["best-feature", "svm-map"], [1.0, 0.1, 1.0], n_jobs=2, baseline="svm-map")
    for a in one.methods:
        b = next(m for m in two.methods if m.name == a.name)
        assert np.array_equal(a.per_query("map"), b.per_query("map"))
        assert a.Cs == b.Cs


def test_cells_are_found_again_and_belong_to_their_data_options_and_version(tmp_path, monkeypatch):
    data, work = parts(tmp_path, n=4), tmp_path / "work"
    told, usual = [], Measures(("map", "ndcg@10"))

    def again(**options):
        settings = {"methods": ["svm-map"], "Cs": [1.0], "measures": usual} | options
        told.clear()
        result = run(find_folds(data), work=work, callback=lambda *a: told.append(a), **settings)
        assert len(told) == result.reused + result.computed
        assert sum(reused for *_, reused in told) == result.reused
        return result.reused, result.computed

    assert again() == (0, 4)
    assert again() == (4, 0)
    assert again(methods=["svm-map", "svm-roc"]) == (4, 4)
    assert again(Cs=[2.0]) == (0, 4)
    assert again(measures=Measures(usual.report, "mrr")) == (0, 4)
    assert again(training=Training(tol=1e-4)) == (0, 4)
    assert again(fill=0.0) == (0, 4)
    cells = {path: path.read_bytes() for path in work.iterdir()}
    assert all(path.suffix == ".json" for path in cells)
    (data / "S4.txt").write_text((data / "S4.txt").read_text().replace("1 qid:", "2 qid:", 1))
    assert again() == (0, 4)  # S4 is in each fold, in one role or another
    assert {json.loads(content)["key"]["structsvm"] for content in cells.values()} == {structsvm.__version__}
    monkeypatch.setattr(results, "__version__", "0.0.1")
    assert again() == (0, 4)
    assert {path: path.read_bytes() for path in cells} == cells


def test_a_damaged_cell_is_computed_again(folder, tmp_path):
    run(find_folds(folder)[:1], ["svm-map"], [1.0], work=tmp_path)
    (cell,) = tmp_path.iterdir()
    whole = json.loads(cell.read_text())
    cell.write_text(cell.read_text()[:100])
    with pytest.warns(UserWarning, match="damaged file; it is computed again"):
        assert run(find_folds(folder)[:1], ["svm-map"], [1.0], work=tmp_path).computed == 1
    repaired = json.loads(cell.read_text())
    for one in (whole, repaired):
        one["cell"].pop("seconds")
    assert repaired == whole


EVEN_FOR_SO_LITTLE = """
import sys
from structsvm.cli import main
from structsvm.cli.studies.folds import results
results.PROCESSES_PAY_FROM = 0.0
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::structsvm.trainers.NothingLearnedWarning")  # the smallest C
def test_killed_twice_the_table_is_the_same(folder, tmp_path, capsys):
    """Send SIGKILL to the whole process group when a given number of cells exist."""
    grid = "0.001:100:6"
    command = [
        "compare",
        str(folder),
        "--C",
        grid,
        "--json",
        "--per-query",
        "--work",
        str(tmp_path / "work"),
        "--method",
        "svm-map",
        "--method",
        "svm-roc",
        "--method",
        "svm-ndcg@10",
        "--method",
        "ranksvm",
    ]
    work = tmp_path / "work"
    rng = np.random.default_rng(0)
    seen: dict[str, tuple[int, bytes]] = {}
    goals = sorted(rng.choice(np.arange(1, 19), 2, replace=False).tolist())
    for goal, jobs in zip(goals, ("1", "2"), strict=True):  # processes are slow to start
        child = subprocess.Popen(
            [sys.executable, "-c", EVEN_FOR_SO_LITTLE, *command, "--jobs", jobs],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            deadline = time.monotonic() + 600
            while len(list(work.glob("*.json"))) < goal and child.poll() is None:
                assert time.monotonic() < deadline
                time.sleep(0.002)
        finally:
            with contextlib.suppress(ProcessLookupError):  # it was done already
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        for path in work.glob("*.json"):  # each is whole, whenever the kill came
            content = path.read_bytes()
            json.loads(content)
            stamp = (path.stat().st_mtime_ns, content)
            assert seen.setdefault(path.name, stamp) == stamp  # and was not written twice
    assert main([*command, "--jobs", "1"]) == 0
    after = {name: ((work / name).stat().st_mtime_ns, (work / name).read_bytes()) for name in seen}
    assert after == seen  # nothing finished was computed again
    assert len(list(work.glob("*.json"))) == 20
    assert len(seen) >= goals[-1]
    whole = as_records(
        run(
            find_folds(folder),
            ["svm-map", "svm-roc", "svm-ndcg@10", "ranksvm"],
            [0.001, 0.01, 0.1, 1.0, 10.0, 100.0],
        ),
        per_query=True,
    )
    table = json.loads(capsys.readouterr().out)
    assert table.pop("seconds").keys() == whole.pop("seconds").keys()
    assert table == json.loads(json.dumps(whole))


def test_the_page_has_every_part_and_escapes(folder):
    measures = Measures(report=("map", "ndcg@10", "mrr"))
    results = run(
        find_folds(folder)[:2],
        ["svm-map", "svm-roc", "best-feature", "acc", "lambdarank-net"],
        [0.1, 1.0],
        measures=measures,
    )
    text = page(results, "<script>alert(1)</script>")
    assert "<script" not in text
    parts = "Result|map, roc against C|Differences by query"
    assert all(f"<h2>{part}" in text for part in parts.split("|"))
    assert "http://" not in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ["svm-mapp"]}, "method='svm-mapp'"),
        ({"methods": ["svm"]}, "method='svm': expected one of svm-LOSS, ranksvm"),
        ({"methods": []}, "expected at least one"),
        ({"Cs": []}, "C: expected finite numbers"),
        ({"Cs": [-1.0]}, "C: expected finite numbers"),
        ({"measures": Measures(("map",), "maps")}, "select=.*: expected"),
        ({"measures": Measures(report=("maps",))}, "metric='maps': expected"),
        ({"measures": Measures(report=())}, "expected at least one measure"),
        ({"baseline": "acc"}, "baseline='acc': expected a method of the comparison, a feature"),
        (
            {"methods": ["acc"], "training": Training("zscore")},
            "Fold1, acc: method 'acc': expected unscaled features",
        ),
    ],
)
def test_bad_requests_are_refused_before_training(folder, options, message):
    rejected(message, run, find_folds(folder), **{"methods": ["svm-map"], "Cs": [1.0], **options})


def test_an_error_in_a_process_names_the_cell(tmp_path):
    (tmp_path / "a.txt").write_text("0 qid:1 1:1\n0 qid:1 1:0\n")
    (tmp_path / "b.txt").write_text("1 qid:2 1:1\n0 qid:2 1:0\n")
    fold = Fold("here", Part((tmp_path / "a.txt",)), Part((tmp_path / "b.txt",)))
    rejected("here, svm-map: y: no query carries a constraint", run, [fold], ["svm-map"], [1.0], n_jobs=2)
