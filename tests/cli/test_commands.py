"""The command line: the same numbers as the library, and one clear line for whatever is wrong with the input."""

import contextlib
import gzip
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import typer
from rich.markup import render

import structsvm
import structsvm.cli
from structsvm import metrics
from structsvm.cli import main
from structsvm.cli.terminal import GapProgress
from structsvm.readers import make_ranking, open_store, read_letor, read_queries, write_letor, write_store
from tests.refusing import rejected


def numbers(path: Path | str) -> np.ndarray:
    return np.array([float(line) for line in Path(path).read_text().splitlines()])


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """Write two files with the rows of queries mixed, a model, and its scores; tests only read them."""
    room = tmp_path_factory.mktemp("room")
    for name, seed in (("train.txt", 1), ("test.txt", 2)):
        write_letor(make_ranking(30, 12, 5, grades=3, noise=0.5, random_state=seed), room / name)
        lines = (room / name).read_text().splitlines(keepends=True)
        order = np.random.default_rng(seed).permutation(len(lines))
        (room / name).write_text("".join(lines[i] for i in order))
    options = "--C 3 --scale query-minmax --jobs 1"
    assert main(f"train {room}/train.txt -o {room}/model.npz {options}".split()) == 0
    assert main(f"predict {room}/model.npz {room}/test.txt -o {room}/scores.txt".split()) == 0
    return room


def witness(room: Path) -> tuple[structsvm.StructuralRanker, np.ndarray, list[int], list[str]]:
    """Return the model, the test matrix, grades and ids in the order of the file, read without our reader."""
    train = read_letor(room / "train.txt")
    model = structsvm.StructuralRanker("map", 3.0, scale="query-minmax").fit(train.X, train.y, qid=train.qid)
    X, y, qid = [], [], []
    for line in (room / "test.txt").read_text().splitlines():
        grade, query, *cells = line.partition("#")[0].split()
        y.append(int(grade))
        qid.append(query.removeprefix("qid:"))
        X.append([float(cell.partition(":")[2]) for cell in cells])
    return model, np.array(X), y, qid


def test_scores_are_those_of_the_library_in_the_order_of_the_file(room):
    model, X, _, qid = witness(room)
    assert any(a != b for a, b in zip(sorted(qid), qid, strict=True))
    np.testing.assert_array_equal(numbers(room / "scores.txt"), model.predict(X, qid=qid))
    loaded = structsvm.load(room / "model.npz")
    assert loaded.scale == "query-minmax"
    np.testing.assert_array_equal(loaded.coef_, model.coef_)


def test_evaluate_is_the_library_on_the_rows_of_the_file(room, cli):
    _, _, y, qid = witness(room)
    asked = ["map", "ndcg@3", "mrr", "precision@2"]
    options = " ".join(("--relevance 2", *(f"--metric {name}" for name in asked)))
    # docids settle ties, of which real scores have none: the witness goes without them
    scores = numbers(room / "scores.txt")
    different = set()
    for convention, empty in (
        ("trec", "one"),
        ("letor4", "zero"),
        ("letor4_script", "one"),
        ("burges", "zero"),
    ):
        command = (
            f"evaluate {room}/test.txt {room}/scores.txt --convention {convention} --empty {empty} {options}"
        )
        found = cli.json(command, "--per-query")
        assert (found["n_queries"], found["n_rows"], found["convention"]) == (30, 360, convention)
        assert list(found["metrics"]) == asked
        for name in asked:
            expected = metrics.evaluate(
                name, np.array(y), scores, qid=qid, convention=convention, empty=empty, relevance=2
            )
            assert found["intervals"][name] == pytest.approx(expected.interval(), abs=1e-15)
            assert found["metrics"][name] == pytest.approx(expected.mean, abs=1e-15)
            values = zip(map(str, expected.query_ids.tolist()), expected.per_query.tolist(), strict=True)
            assert found["per_query"][name] == pytest.approx(dict(values), abs=1e-15)
        lines = [line.split() for line in cli(command).splitlines()]
        ends = {name: "[{:.4f}, {:.4f}]".format(*found["intervals"][name]).split() for name in asked}
        assert lines == [[name, "all", f"{found['metrics'][name]:.4f}", *ends[name]] for name in asked]
        each = [
            [name, query, f"{value:.4f}", *(ends[name] if query == "all" else ())]
            for name, line in zip(asked, lines, strict=True)
            for query, value in [*found["per_query"][name].items(), ("all", float(line[2]))]
        ]
        assert [line.split() for line in cli(command, "--per-query").splitlines()] == each
        different.add(found["metrics"]["ndcg@3"])
    assert len(different) == 3


def test_options_reach_the_estimator(room, cli):
    options = "--loss ndcg@5 --C 2 --tol 1e-2 --solver one_slack --positive --relevance 2 --jobs 1"
    cli(f"train {room}/train.txt -o m.npz", options)
    model = structsvm.load("m.npz")
    options = (model.loss, model.C, model.tol, model.solver, model.positive, model.relevance)
    assert options == ("ndcg@5", 2.0, 1e-2, "one_slack", True, 2.0)
    assert (model.coef_ >= 0).all()


def test_signs_of_weights(room, cli):
    command = f"train {room}/train.txt -o m.npz --C 10"
    cli(command)
    signs = -np.sign(structsvm.load("m.npz").coef_)
    assert signs[:2].all()
    cli(command, *(f"--monotone={j + 1}:{int(signs[j]):+d}" for j in range(2)))
    held = structsvm.load("m.npz")
    assert held.monotone_constraints == {0: signs[0], 1: signs[1]}
    assert (held.coef_[:2] * signs[:2] >= 0).all()
    assert np.abs(held.coef_[2:]).sum() > 0


def test_fill_stands_in_for_nan_and_zero_for_missing_last_features(room, cli):
    Path("nan.txt").write_text("1 qid:1 1:nan 2:1\n0 qid:1 1:1 2:0\n")
    cli("train nan.txt -o m.npz --fill 7")
    cli("predict m.npz nan.txt -o s.txt --fill 7")
    w = structsvm.load("m.npz").coef_
    np.testing.assert_allclose(numbers("s.txt"), [7 * w[0] + w[1], w[0]])
    Path("short.txt").write_text("1 qid:1 1:1 2:2\n0 qid:1 1:3\n")
    cli(f"predict {room}/model.npz short.txt -o s.txt")
    assert "it has features up to 2, the model has 5; the others count as 0" in cli.err
    Path("long.txt").write_text("1 qid:1 1:1 2:2 5:0\n0 qid:1 1:3\n")
    cli(f"predict {room}/model.npz long.txt -o long")
    np.testing.assert_array_equal(numbers("s.txt"), numbers("long"))


def test_too_few_passes_are_said(room, cli):
    cli(f"train {room}/train.txt -o m.npz", "--tol 1e-9 --C 1000 --max-passes 2 --solver one_slack")
    assert cli.err.count("\n") == 1
    assert "warning: the gap is" in cli.err
    assert "raise --max-passes" in cli.err


def test_percentiles_are_added_in_a_store(cli):
    Path("a.txt").write_text("2 qid:1 1:3 2:.5\n0 qid:2 1:5 2:1\n0 qid:1 1:1 2:.7\n1 qid:2 1:4\n")
    cli("convert --percentiles a.txt a.store --dtype float32")
    data = open_store(Path("a.store"))
    expected = np.array([[3, 0.5, 1, 0], [1, 0.7, 0, 1], [5, 1, 1, 1], [4, 0, 0, 0]], dtype=np.float32)
    np.testing.assert_array_equal(data.X, expected)
    assert data.order.tolist() == [0, 2, 1, 3]
    cli("search a.store --scale zscore --folds 2 --jobs 1 -o m.npz")
    cli("predict m.npz a.store -o scores")
    assert numbers("scores").shape == (4,)
    # in another store, as the rows are read while the store is written
    assert "STORE='" in cli.refuses("convert --percentiles a.store a.store")
    assert open_store(Path("a.store")).n_features == 4
    cli("convert --percentiles a.store b.store")
    assert open_store(Path("b.store")).n_features == 8
    said = cli.refuses("convert --percentiles a.txt c.store --matrix sparse")
    assert "--matrix: expected dense or auto with --percentiles, got sparse" in said
    assert not Path("c.store").exists()


def test_percentiles_of_tables_keep_names_and_take_a_type(cli):
    Path("a.csv").write_text("label,qid,bm25\n1,1,2.0\n0,1,1\n")
    cli("convert --percentiles a.csv a.store --dtype float32")
    data = open_store(Path("a.store"))
    assert (data.X.dtype, data.feature_names) == (np.float32, ("bm25", "bm25.percentile"))


APART = "1 qid:2 1:1\n0 qid:1 1:2\n# remark\n0 qid:2 1:3\n\n2 qid:1 1:4\n1 qid:3 1:5\n"


# a few rows hold next to nothing
@pytest.mark.filterwarnings("ignore::structsvm.trainers.NothingLearnedWarning")
@pytest.mark.parametrize("matrix", ["dense", "sparse"])
def test_other_forms_of_a_text_whose_queries_are_apart_keep_its_order(cli, matrix):
    Path("a.txt").write_text(APART)
    Path("a.gz").write_bytes(gzip.compress(APART.encode()))
    Path("right").write_text("5\n1\n3\n2\n4\n")  # in each query of the text
    assert "3 queries, 5 documents, 1 feature" in cli("convert a.txt a.store --matrix", matrix)
    cli("train a.txt -o m.npz")
    expected = structsvm.load("m.npz").coef_[0] * np.arange(1, 6)
    for source in ("a.txt", "a.gz", "a.store"):
        cli(f"train {source} -o m.npz")
        cli(f"predict m.npz {source} -o s")
        np.testing.assert_allclose(numbers("s"), expected)
        out = cli(f"evaluate {source} right --metric map --per-query")
        # equal values have no interval
        assert out.splitlines() == [f"map\t{query}\t1.0000" for query in ("2", "1", "3", "all")]


@contextlib.contextmanager
def standard_input(content):
    """Make a pipe the standard input, as in ``cat file | structsvm``."""
    kept, (source, sink) = os.dup(0), os.pipe()
    os.dup2(source, 0)
    os.close(source)

    def feed():
        with contextlib.suppress(BrokenPipeError), os.fdopen(sink, "wb") as file:
            file.write(content)

    writer = threading.Thread(target=feed)
    writer.start()
    try:
        yield
    finally:
        os.dup2(kept, 0)  # the reading end is closed by this, and a writer that waits gets on
        os.close(kept)
        writer.join()


@pytest.mark.parametrize(("name", "pack"), [("-", gzip.compress), ("/dev/stdin", bytes)])
def test_the_standard_input_is_a_file_like_any_other(room, cli, name, pack):
    content = pack((room / "train.txt").read_bytes().removesuffix(b"\n"))
    commands = (
        f"train {name} -o m.npz",
        f"predict {room}/model.npz {name} -o s.txt",
        f"convert {name} a.store",
    )
    for command in commands:
        with standard_input(content):
            cli(command)
    cli(f"predict {room}/model.npz {room}/train.txt -o f.txt")
    assert Path("s.txt").read_bytes() == Path("f.txt").read_bytes()
    np.testing.assert_array_equal(read_queries("a.store").X, read_letor(room / "train.txt").X)
    with standard_input(b""):
        assert "/dev/stdin: expected rows '<grade>" in cli.refuses(f"evaluate {name} f.txt")


@pytest.mark.slow
def test_the_old_file_stays_when_the_disk_is_full(room, cli, tmp_path):
    """A limit on the size of files simulates a full disk: writing fails in the middle in the same way."""
    for name in ("model.npz", "scores.txt", "page.html"):
        Path(name).write_text("old")
    commands = (
        f"train {room}/train.txt -o model.npz",
        f"predict {room}/model.npz {room}/train.txt -o scores.txt",
        f"convert {room}/train.txt new.store",
    )
    code = """
import resource, signal, sys
from structsvm.cli import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # an error number instead of the end of the process
for command in sys.argv[1:]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, resource.RLIM_INFINITY))
    code = main(command.split())
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(code)
"""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    # -B: byte code that is cut off by the limit would stay for the next process
    done = subprocess.run(
        [sys.executable, "-B", "-c", code, *commands], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["2", "2", "2"], done.stderr
    for line, name in zip(done.stderr.splitlines(), ("model.npz", "scores.txt", "new.store"), strict=True):
        assert line.startswith("structsvm: error: ")
        assert name in line
        assert "File too large" in line
    texts = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert texts == dict.fromkeys(("model.npz", "scores.txt", "page.html"), "old")


@pytest.mark.parametrize(
    ("options", "method", "call", "times", "said"),
    [
        (
            "--C 1e6 --solver one_slack",
            "__call__",
            1,
            1,
            "interrupted before there was a model better than zero weights; nothing was written",
        ),
        (
            "--C 1e6 --tol 1e-12 --solver one_slack",
            "__call__",
            5,
            1,
            "interrupted: saved the best model so far, gap ",
        ),
        ("--C 1e6 --tol 1e-12 --solver one_slack", "__call__", 5, 2, "interrupted; nothing was written"),
        (
            "--trees --n-trees 5",
            "grown",
            1,
            1,
            "interrupted before the trees were grown, so there is no model yet; nothing was written",
        ),
        pytest.param(
            "--trees --n-trees 10 --loss ndcg@10 --C 100 --tol 1e-12",
            "__call__",
            3,
            1,
            "interrupted: saved the best model so far, gap ",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_ctrl_c_keeps_the_old_model_until_there_is_a_better_one_than_none(
    cli, monkeypatch, options, method, call, times, said
):
    """Interrupt at a given call of a method of the callback, counted from 1; a second interrupt aborts the command."""
    if "--trees" in options:
        pytest.importorskip("lightgbm")
    write_store(make_ranking(60, 20, 4, grades=3, noise=1.0, random_state=0), "data.store")
    Path("m.npz").write_text("old")
    plain, calls = getattr(GapProgress, method), []

    def interrupted(self, *arguments):
        calls.append(arguments)
        if len(calls) == call:
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGINT)
        return plain(self, *arguments)

    monkeypatch.setattr(GapProgress, method, interrupted)
    assert cli.code("train data.store -o m.npz", options) == 130
    assert len(calls) == call
    assert said in cli.err
    if "saved" in said:
        model = structsvm.load("m.npz")
        assert np.isfinite(model.coef_).all()
        assert np.abs(model.coef_).max() > 0
        assert model.fit_.gap > 1e-12
    else:
        assert Path("m.npz").read_text() == "old"
    assert sorted(path.name for path in Path().iterdir()) == ["data.store", "m.npz"]


def test_help_starts_at_once_and_names_every_command(python):
    heavy = {"numba", "sklearn", "scipy", "matplotlib", "pandas"}
    heavy |= {"starlette", "uvicorn", "sqlalchemy", "httpx", "prometheus_client", "psycopg"}
    code = (
        "import sys; from structsvm.cli import main; main(['--help']); "
        f"print([m for m in {heavy} if m in sys.modules])"
    )
    *text, loaded = python(code).splitlines()
    assert loaded == "[]"
    for command in ("train", "predict", "evaluate", "convert", "demo"):
        assert any(command in line for line in text)


def _parameters(command, path=()):
    for name, below in getattr(command, "commands", {}).items():
        yield from _parameters(below, (*path, name))
    for parameter in command.params:
        yield *path, parameter.name, getattr(parameter, "help", None) or ""


def test_no_help_loses_words_in_brackets_as_markup():
    found = list(_parameters(typer.main.get_command(structsvm.cli.app)))
    assert len(found) > 100
    assert [parameter for parameter in found if render(parameter[-1]).plain != parameter[-1]] == []


@pytest.mark.parametrize(
    ("command", "default"),
    [
        ("compare", "svm-map, svm-roc"),
        ("compare", "map, ndcg@10, and those of the losses"),
        ("compare", "the first"),
        ("evaluate", "map, ndcg@10"),
        ("convert", "the highest in the file"),
        ("export", "the name of MODEL"),
    ],
)
def test_help_says_what_stands_in_for_an_option_left_out(command, default, cli):
    assert f"(default: {default})" in " ".join(cli(command, "--help").replace("│", " ").split())


@pytest.mark.parametrize("command", ["train", "clicks evaluate", "diversify compare", "live create"])
def test_help_names_values_in_capitals_and_gives_flags_none(command, cli):
    """A flag is shown without a type, because users would otherwise pass it a value."""
    text = cli(command, "--help")
    rows = [line for line in text.splitlines() if "--" in line]
    assert not [line for line in rows if "<bool>" in line or "list[" in line]
    (usage,) = [line for line in text.splitlines() if "Usage:" in line]
    assert usage.split("[OPTIONS]")[1].isupper()


def test_version_and_tracebacks_of_debug_and_of_defects(room, cli, monkeypatch):
    assert cli("--version") == f"structsvm {structsvm.__version__}\n"
    rejected("expected a file to read", cli, "--debug train no.txt -o m.npz")
    monkeypatch.delattr("structsvm.cli.paths.write_lines")
    with pytest.raises(AttributeError):
        cli(f"predict {room}/model.npz {room}/test.txt -o s.txt")
