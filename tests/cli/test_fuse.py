"""``structsvm fuse``: the written run is the measured run, and refused commands leave no file behind."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval

import structsvm
from structsvm.cli.studies.fusion import cross_validate_fusion
from structsvm.estimators import FusionModel
from structsvm.readers import Qrels, Run, candidates, read_qrels, read_run, write_qrels, write_run

N_TOPICS = 12
RUNS = ("half0.run.gz", "half1.run.gz")
FUSE = f"fuse {' '.join(RUNS)}"
LEARN = f"{FUSE} --qrels qrels.txt -o out.run"


@pytest.fixture(autouse=True)
def files(cli):
    """Write judgments of topics 0 to 11, and runs of topics 0 to 12."""
    rng = np.random.default_rng(3)
    topics = np.repeat(np.arange(N_TOPICS + 1), 15)
    docid = np.array([f"d{i}" for i in range(topics.size)])
    hidden = rng.normal(size=(topics.size, 2))
    grades = (hidden.sum(axis=1) > 1).astype(int)
    judged = topics < N_TOPICS
    write_qrels(Qrels.from_arrays(topics[judged], docid[judged], grades[judged]), Path("qrels.txt"))
    for i, name in enumerate(RUNS):
        write_run(Run.from_arrays(topics, docid, hidden[:, i], tag=f"half{i}"), Path(name))


def here():
    return {path.name: path.read_bytes() for path in Path().iterdir()}


def by_trec_eval(path, topics):
    """Return the average precision of the topics, computed from the files by an independent program."""
    judged, ranked = {}, {}
    for topic, _, docid, grade in map(str.split, Path("qrels.txt").read_text().splitlines()):
        judged.setdefault(topic, {})[docid] = int(grade)
    text = Path(path).read_bytes()
    text = gzip.decompress(text) if path.endswith(".gz") else text
    for topic, _, docid, _, score, _ in map(str.split, text.decode().splitlines()):
        ranked.setdefault(topic, {})[docid] = float(score)
    found = pytrec_eval.RelevanceEvaluator(judged, {"map"}).evaluate(ranked)
    return [found[topic]["map"] for topic in topics]


def by_library(**options):
    runs = [read_run(Path(path)) for path in RUNS]
    pool = candidates(runs, read_qrels(Path("qrels.txt")))
    found = cross_validate_fusion({run.tag: run for run in runs}, read_qrels(Path("qrels.txt")), **options)
    return pool, found


def test_run_model_and_numbers_agree(cli):
    record = cli.json("fuse --qrels qrels.txt -o out.run --save model.npz --per-query", " ".join(RUNS))
    assert "1 topic without judgments" in cli.err
    assert (record["n_topics"], record["runs"]) == (N_TOPICS, ["half0", "half1"])
    witness = by_trec_eval("out.run", record["topics"])
    np.testing.assert_allclose(record["per_query"]["learned fusion"], witness, atol=1e-9)
    run = read_run(Path("out.run"))
    assert run.tag == "structsvm"
    # and the library says the same
    pool, result = by_library()
    assert record["C"]["folds"] == list(result.chosen)
    assert record["best_on_training"]["folds"] == list(result.best_on_training)
    assert record["estimate"]["mean"] == pytest.approx(np.mean(witness))
    saved = structsvm.load("model.npz")
    assert isinstance(saved, FusionModel)
    np.testing.assert_allclose(saved.coef, result.model.coef)
    # the topic without judgments is ranked by the model that was saved
    topic = run.topics.tolist().index("12")
    ranked = run.docid[run.offsets[topic] : run.offsets[topic + 1]]
    assert ranked.tolist() == saved.rank(pool.select(~pool.judged)).docid.tolist()


def test_single_runs_are_measured_whole(cli):
    """Fuse the first five documents of each run; trec_eval measures all fifteen of a run."""
    record = cli.json(f"{LEARN} --depth 5 --C 0.1,1 --per-query")
    assert record["C"]["grid"] == [0.1, 1]
    for name, path in zip(("half0", "half1", "learned fusion"), (*RUNS, "out.run"), strict=True):
        np.testing.assert_allclose(record["per_query"][name], by_trec_eval(path, record["topics"]), atol=1e-9)
    said = "fusions rank 5 documents per topic; single runs are measured with all of theirs"
    assert said in cli(f"{LEARN} --depth 5 --C 0.1,1")


def test_the_rule_that_chooses_C(cli):
    chosen = {}
    for rule in ("max", "one_se"):
        record = cli.json(f"{LEARN} --selection {rule}")
        chosen[rule] = [record["C"]["final"], *record["C"]["folds"]]
    _, result = by_library(selection="one_se")
    assert chosen["one_se"] == [result.model.certificate.C, *result.chosen]
    assert all(one_se <= best for one_se, best in zip(chosen["one_se"], chosen["max"], strict=True))
    assert chosen["one_se"] != chosen["max"]


def test_table_on_the_terminal(cli):
    text = cli(f"{LEARN} --tag mine --depth 5")
    for word in (
        "learned fusion",
        "half0 (run)",
        "CombSUM",
        "CombMNZ",
        "RRF",
        "map on new queries 0.",
        "best on the topics of the other folds, half",
    ):
        assert word in text
    run = read_run(Path("out.run"))
    assert run.tag == "mine"
    assert np.diff(run.offsets).tolist() == [5] * (N_TOPICS + 1)


def test_apply_ranks_new_runs(cli):
    cli(f"{LEARN} --save model.npz --depth 6")
    rng = np.random.default_rng(8)
    topics, docid = np.repeat(["a", "b"], 30), [f"x{i}" for i in range(60)]
    new = [Run.from_arrays(topics, docid, 1e6 + 50 * rng.normal(size=60), tag=f"half{i}") for i in range(2)]
    for i, run in enumerate(new):
        write_run(run, Path(f"new{i}"))
    # in any order, under any file name
    record = cli.json("fuse --apply model.npz new1 new0 -o new.run --tag mine")
    assert record == {"n_topics": 2, "n_documents": 12, "runs": ["half0", "half1"]}
    witness = structsvm.load("model.npz").rank(candidates([run.top(6) for run in new], depth=6))
    ranked = read_run(Path("new.run"))
    assert (ranked.tag, ranked.docid.tolist()) == ("mine", witness.docid.tolist())
    structsvm.SVMMap().fit([[1.0], [0.0]], [1, 0], qid=0).save("other.npz")
    before = here()
    for command, message in (
        ("fuse --apply model.npz new0 -o no.run", "got none called 'half1'"),
        (f"{FUSE} --apply other.npz -o no.run", "expected a model that fuse saved, got a SVMMap"),
    ):
        assert message in cli.refuses(command)
    assert here() == before


def test_runs_with_one_tag_go_by_their_file(cli):
    for path in map(Path, RUNS):
        text = gzip.decompress(path.read_bytes()).replace(path.name[:5].encode(), b"x")
        path.write_bytes(gzip.compress(text))
    assert cli.json(LEARN)["runs"] == ["half0.run", "half1.run"]
    Path("sub").mkdir()
    (Path("sub") / RUNS[0]).write_bytes(Path(RUNS[0]).read_bytes())
    assert "got 'half0.run' in both" in cli.refuses(f"{LEARN} sub/{RUNS[0]}")


@pytest.mark.filterwarnings("default:.*the rank column differs:UserWarning")
def test_a_run_of_equal_scores_may_go_by_its_ranks(cli):
    lines = gzip.decompress(Path(RUNS[0]).read_bytes()).decode().splitlines()
    Path("flat.run").write_text("".join(" ".join([*line.split()[:4], "1", "half0"]) + "\n" for line in lines))
    flat = f"fuse flat.run {RUNS[1]} --qrels qrels.txt -o out.run --per-query"
    expected = cli.json(LEARN, "--per-query")["per_query"]["half0"]
    assert cli.json(flat, "--by-rank flat.run")["per_query"]["half0"] == expected
    assert cli.json(flat)["per_query"]["half0"] != expected
    assert "differs from the order by score, ties by docid, on 13 of 13 topics" in cli.err
    assert "expected one of the runs, got other; give the run's file" in cli.refuses(flat, "--by-rank other")


def test_markup_in_ids_is_shown_as_text(cli):
    evil = "<script>alert(1)</script>"
    qrels = Path("qrels.txt")
    lines = [line.split() for line in qrels.read_text().splitlines()]
    qrels.write_text("".join(f"{evil if t == '0' else t} 0 {d} {g}\n" for t, _, d, g in lines))
    for path in map(Path, RUNS):
        rows = [line.split() for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
        tag = f"[red]{evil}{path.name}"
        text = "".join(f"{evil if t == '0' else t} Q0 {d} {r} {s} {tag}\n" for t, _, d, r, s, _ in rows)
        path.write_bytes(gzip.compress(text.encode()))
    assert "[red]" in cli(LEARN)  # not taken for a colour
    assert evil in Path("out.run").read_text()
