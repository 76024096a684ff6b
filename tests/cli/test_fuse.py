"""``structsvm fuse``: what is written is what was measured, and what is refused leaves no file behind."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval

import structsvm
from structsvm.cli import main
from structsvm.readers.qrels import Qrels, read_qrels, write_qrels
from structsvm.readers.run_features import candidates
from structsvm.readers.runs import Run, read_run, write_run
from structsvm.studies.fusion import FusionModel, cross_validate_fusion

N_TOPICS = 12


def fuse(*arguments: object) -> int:
    return main(["fuse", *map(str, arguments)])


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, list[Path]]:
    """Judgments of topics 0 to 11, runs of topics 0 to 12."""
    rng = np.random.default_rng(3)
    topics = np.repeat(np.arange(N_TOPICS + 1), 15)
    docid = np.array([f"d{i}" for i in range(topics.size)])
    hidden = rng.normal(size=(topics.size, 2))
    grades = (hidden.sum(axis=1) > 1).astype(int)
    judged = topics < N_TOPICS
    write_qrels(Qrels.from_arrays(topics[judged], docid[judged], grades[judged]), tmp_path / "qrels.txt")
    paths = []
    for i in range(2):
        run = Run.from_arrays(topics, docid, hidden[:, i], tag=f"half{i}")
        paths.append(tmp_path / f"half{i}.run.gz")
        write_run(run, paths[-1])
    return tmp_path / "qrels.txt", paths


def files_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_run_model_page_and_numbers_agree(
    files: tuple[Path, list[Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    qrels, runs = files
    out, model, html = tmp_path / "out.run", tmp_path / "model.npz", tmp_path / "page.html"
    arguments = ("--qrels", qrels, "-o", out, "--save", model, "--report", html, "--json", "--per-query")
    assert fuse(*arguments, "--runs", *runs) == 0
    text, err = capsys.readouterr()
    record = json.loads(text)
    assert "1 topics without judgments" in err
    assert (record["n_topics"], record["runs"]) == (N_TOPICS, ["half0", "half1"])
    # an independent program reads the run and finds the same values
    judged = {
        topic: dict(line.split()[2:4] for line in qrels.read_text().splitlines() if line.split()[0] == topic)
        for topic in record["topics"]
    }
    judged = {t: {d: int(g) for d, g in docs.items()} for t, docs in judged.items()}
    ranked: dict[str, dict[str, float]] = {}
    for line in out.read_text().splitlines():
        topic, _, docid, _, score, tag = line.split()
        ranked.setdefault(topic, {})[docid] = float(score)
        assert tag == "structsvm"
    found = pytrec_eval.RelevanceEvaluator(judged, {"map"}).evaluate(ranked)
    witness = [found[topic]["map"] for topic in record["topics"]]
    np.testing.assert_allclose(record["per_query"]["learned fusion"], witness, atol=1e-9)
    # and the library says the same
    judgments = read_qrels(qrels)
    pool = candidates([read_run(path) for path in runs], judgments)
    result = cross_validate_fusion(pool, judgments, depth=1000)
    assert record["C"]["folds"] == list(result.chosen)
    # the single run that could have been chosen: the best on the other folds, measured on this one
    values = {name: np.array(record["per_query"][name]) for name in record["runs"]}
    could, chosen = np.zeros(N_TOPICS), []
    for k in range(5):
        test = result.fold == k
        chosen.append(max(values, key=lambda name: values[name][~test].mean()))
        could[test] = values[chosen[-1]][test]
    assert record["best_on_training"]["folds"] == chosen
    assert record["best_on_training"]["mean"] == could.mean()
    saved = structsvm.load(model)
    assert isinstance(saved, FusionModel)
    np.testing.assert_allclose(saved.coef, result.model.coef)
    # the topic without judgments is ranked by the model that was saved
    alone = pool.select(~pool.judged)
    assert list(ranked["12"]) == saved.rank(alone).docid.tolist()
    page = html.read_text()
    assert page.startswith("<!doctype html>")
    for heading in (
        "Result",
        "MAP against C",
        "What was learned",
        "Precision and recall",
        "Topic by topic",
    ):
        assert f"<h2>{heading}</h2>" in page


def test_single_runs_are_measured_whole(
    files: tuple[Path, list[Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fusions of the first five documents of each run; trec_eval measures all fifteen of a run."""
    qrels, runs = files
    out, html = tmp_path / "out.run", tmp_path / "page.html"
    options = ("--depth", 5, "--C", "0.1,1", "--json", "--per-query", "--report", html)
    assert fuse(*runs, "--qrels", qrels, "-o", out, *options) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["C"]["grid"] == [0.1, 1]
    judged: dict[str, dict[str, int]] = {}
    for topic, _, docid, grade in map(str.split, qrels.read_text().splitlines()):
        judged.setdefault(topic, {})[docid] = int(grade)
    for name, path in (("half0", runs[0]), ("half1", runs[1]), ("learned fusion", out)):
        ranked: dict[str, dict[str, float]] = {}
        run = read_run(path)
        for topic, docid, score in zip(
            np.repeat(run.topics, np.diff(run.offsets)), run.docid, run.scores, strict=True
        ):
            ranked.setdefault(topic, {})[docid] = score
        found = pytrec_eval.RelevanceEvaluator(judged, {"map"}).evaluate(ranked)
        witness = [found[topic]["map"] for topic in record["topics"]]
        np.testing.assert_allclose(record["per_query"][name], witness, atol=1e-9)
    assert (
        "Fusions rank 5 documents per topic; single runs are measured with all of theirs." in html.read_text()
    )


def test_the_rule_that_chooses_C(
    files: tuple[Path, list[Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    qrels, runs = files
    chosen: dict[str, list[float]] = {}
    for selection in ("max", "one_se"):
        out = tmp_path / selection
        assert fuse(*runs, "--qrels", qrels, "-o", out, "--selection", selection, "--json") == 0
        record = json.loads(capsys.readouterr().out)
        chosen[selection] = [record["C"]["final"], *record["C"]["folds"]]
    judgments = read_qrels(qrels)
    pool = candidates([read_run(path) for path in runs], judgments)
    result = cross_validate_fusion(pool, judgments, depth=1000, selection="one_se")
    assert chosen["one_se"] == [result.model.certificate.C, *result.chosen]
    lost = result.curve[:, [int(np.argmax(result.curve.mean(axis=0)))]] - result.curve
    within = lost.mean(axis=0) <= lost.std(axis=0, ddof=1) / np.sqrt(N_TOPICS)
    assert chosen["one_se"][0] == result.Cs[int(np.argmax(within))]
    assert all(one_se <= best for one_se, best in zip(chosen["one_se"], chosen["max"], strict=True))
    assert chosen["one_se"] != chosen["max"]
    before = files_in(tmp_path)
    assert fuse(*runs, "--qrels", qrels, "-o", tmp_path / "new", "--selection", "min") == 2
    assert "--selection min: expected max or one_se" in capsys.readouterr().err
    assert files_in(tmp_path) == before


def test_table_on_the_terminal(
    files: tuple[Path, list[Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    qrels, runs = files
    assert fuse(*runs, "--qrels", qrels, "-o", tmp_path / "out.run", "--tag", "mine", "--depth", 5) == 0
    text = capsys.readouterr().out
    for word in (
        "learned fusion",
        "half0 (run)",
        "CombSUM",
        "CombMNZ",
        "RRF",
        "topics that the model had not",
        "best on the training topics (half",
    ):
        assert word in text
    run = read_run(tmp_path / "out.run")
    assert run.tag == "mine"
    assert np.diff(run.offsets).tolist() == [5] * (N_TOPICS + 1)


def test_apply_ranks_new_runs(
    files: tuple[Path, list[Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    qrels, runs = files
    model, out = tmp_path / "model.npz", tmp_path / "new.run"
    assert fuse("--qrels", qrels, *runs, "-o", tmp_path / "out.run", "--save", model, "--depth", 6) == 0
    capsys.readouterr()
    rng = np.random.default_rng(8)
    topics, docid = np.repeat(["a", "b"], 30), [f"x{i}" for i in range(60)]
    new = [Run.from_arrays(topics, docid, 1e6 + 50 * rng.normal(size=60), tag=f"half{i}") for i in range(2)]
    for i, run in enumerate(new):
        write_run(run, tmp_path / f"new{i}")
    # in any order, under any file name
    assert fuse("--apply", model, "--runs", tmp_path / "new1", tmp_path / "new0", "-o", out, "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record == {"n_topics": 2, "n_documents": 12, "runs": ["half0", "half1"]}
    witness = structsvm.load(model).rank(candidates([run.top(6) for run in new], depth=6))
    written = read_run(out)
    assert written.docid.tolist() == witness.docid.tolist()
    out.unlink()
    assert fuse("--apply", model, "--runs", tmp_path / "new0", "-o", out) == 2
    assert "got none called 'half1'" in capsys.readouterr().err
    assert not out.exists()
    assert fuse("--apply", model, "--runs", tmp_path / "new0", "-o", out, "--report", tmp_path / "r") == 2
    assert "--report: nothing is learned with --apply" in capsys.readouterr().err
    structsvm.SVMMap().fit([[1.0], [0.0]], [1, 0], qid=0).save(tmp_path / "other.npz")
    assert fuse("--apply", tmp_path / "other.npz", *runs, "-o", out) == 2
    assert "expected a model that fuse saved, got a SVMMap" in capsys.readouterr().err


def test_runs_with_one_tag_go_by_their_file(
    files: tuple[Path, list[Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    qrels, runs = files
    for path in runs:
        path.write_bytes(
            gzip.compress(gzip.decompress(path.read_bytes()).replace(path.name[:5].encode(), b"x"))
        )
    assert fuse("--qrels", qrels, *runs, "-o", tmp_path / "out.run", "--json") == 0
    assert json.loads(capsys.readouterr().out)["runs"] == ["half0.run", "half1.run"]
    (tmp_path / "sub").mkdir()
    copy = tmp_path / "sub" / runs[0].name
    copy.write_bytes(runs[0].read_bytes())
    assert fuse("--qrels", qrels, *runs, copy, "-o", tmp_path / "out.run") == 2
    assert "got 'half0.run' in both" in capsys.readouterr().err


HOSTILE = {
    "nan": "1 Q0 d1 1 nan x\n",
    "inf": "1 Q0 d1 1 inf x\n",
    "1e400": "1 Q0 d1 1 1e400 x\n",
    "nul": "1 Q0 d\0 1 1.0 x\n",
    "long": f"1 Q0 {'d' * 1_000_000} 1 1.0 x\n",
    "utf8": b"1 Q0 d\xff 1 1.0 x\n",
    "columns": "1 Q0 d1 1 1.0\n",
    "repeated": "1 Q0 d0 2 1.5 x\n",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_files_are_refused_with_their_line(
    kind: str, files: tuple[Path, list[Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    qrels, runs = files
    text = HOSTILE[kind]
    bad = tmp_path / "bad.run"
    bad.write_bytes(b"1 Q0 d0 1 2.0 x\n" + (text if isinstance(text, bytes) else text.encode()))
    before = files_in(tmp_path)
    outputs = ("-o", tmp_path / "out.run", "--save", tmp_path / "m.npz", "--report", tmp_path / "r.html")
    assert fuse("--qrels", qrels, "--runs", *runs, bad, *outputs) == 2
    err = capsys.readouterr().err
    assert f"{bad}:2" in err
    assert len(err) < 1000
    assert files_in(tmp_path) == before


def test_markup_in_ids_is_shown_as_text(
    files: tuple[Path, list[Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    qrels, runs = files
    evil = "<script>alert(1)</script>"
    lines = [line.split() for line in qrels.read_text().splitlines()]
    qrels.write_text("".join(f"{evil if t == '0' else t} 0 {d} {g}\n" for t, _, d, g in lines))
    for path in runs:
        rows = [line.split() for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
        tag = f"[red]{evil}{path.name}"
        text = "".join(f"{evil if t == '0' else t} Q0 {d} {r} {s} {tag}\n" for t, _, d, r, s, _ in rows)
        path.write_bytes(gzip.compress(text.encode()))
    assert fuse("--qrels", qrels, *runs, "-o", tmp_path / "o", "--report", tmp_path / "r.html") == 0
    page = (tmp_path / "r.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "[red]" in capsys.readouterr().out  # not taken for a colour
    assert evil in (tmp_path / "o").read_text()


def test_refused_before_anything_is_read(
    files: tuple[Path, list[Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    qrels, runs = files
    content = {path: path.read_bytes() for path in (qrels, *runs)}
    out = tmp_path / "out.run"
    for arguments, message in [
        (("--qrels", qrels, *runs, "-o", runs[0]), "got the same; choose another --output"),
        (("--qrels", qrels, *runs, "-o", out, "--save", qrels), "got the same; choose another --save"),
        (("--qrels", qrels, *runs, "-o", out, "--report", out), "got the same twice"),
        (("--qrels", qrels, *runs, "-o", out, "--save", tmp_path / "m.gz"), "compressed already"),
        (("--qrels", qrels, *runs, "-o", tmp_path / "no" / "out"), "expected an existing folder"),
        (("--qrels", qrels, tmp_path / "none", "-o", out), "expected a file to read"),
        (("--qrels", qrels, *runs, "-o", out, "--loss", "mop"), "--loss mop: expected one of"),
        (("--qrels", qrels, *runs, "-o", out, "--relevance", "nan"), "relevance"),
        (("--qrels", qrels, *runs, "-o", out, "--tag", "two words"), "--tag: expected one word"),
        ((*runs, "-o", out), "--qrels: expected the judgments"),
    ]:
        assert fuse(*arguments) == 2
        assert message in " ".join(capsys.readouterr().err.split())
    assert {path: path.read_bytes() for path in content} == content
    assert files_in(tmp_path) == {path.name for path in content}


def test_judgments_of_other_topics(
    files: tuple[Path, list[Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, runs = files
    write_qrels(Qrels.from_arrays(["z"], ["d"], [1]), tmp_path / "other")
    assert fuse("--qrels", tmp_path / "other", *runs, "-o", tmp_path / "out.run") == 2
    assert "expected judgments of the runs' topics" in capsys.readouterr().err


def test_a_repeated_document_is_answered_for_the_command_line(
    files: tuple[Path, list[Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "twice.run").write_text("1 Q0 a 1 2 t\n1 Q0 a 2 1 t\n")
    assert fuse(tmp_path / "twice.run", "--qrels", files[0], "-o", tmp_path / "out.run") == 2
    assert "drop one, or pass duplicates='best' (in Python) to keep" in capsys.readouterr().err
