"""Properties of synthetic data, and descriptions of files."""

import gzip
import hashlib
import json
import re
import sys
import types
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

from structsvm.features.fusion import comb_sum
from structsvm.metrics import evaluate
from structsvm.queries import QueryData
from structsvm.readers import (
    candidates,
    describe,
    judge_run,
    list_datasets,
    make_dataset,
    make_runs,
    open_store,
    read_letor,
    read_qrels,
    read_run,
    write_letor,
    write_store,
)
from structsvm.readers.describing import Description
from structsvm.readers.synthetic import planted_weights
from tests.refusing import refused, rejected

REPO = Path(__file__).resolve().parents[2]

SMALL = {
    "ranking": {"n_queries": 4},
    "ranking-store": {"n_queries": 4, "n_docs": 6, "n_features": 3},
    "trec": {"n_topics": 2},
    "digits": {"n_queries": 3, "n_docs": 40},
}


def files(path):
    """Return ``{relative name: bytes}`` of a file or folder."""
    found = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    return {str(p.relative_to(path)): p.read_bytes() for p in found}


# making


MADE = [dataset for dataset in list_datasets() if dataset.name != "ir_datasets"]


@pytest.mark.parametrize("dataset", MADE, ids=lambda dataset: dataset.name)
def test_what_is_listed_can_be_made_again_with_the_same_bytes(tmp_path, dataset):
    options = SMALL[dataset.name]
    one = make_dataset(dataset.name, tmp_path / "one", **options)
    two = make_dataset(dataset.name, tmp_path / "two", **{**dataset.options, **options})
    assert files(one) == files(two)
    assert files(make_dataset(dataset.name, tmp_path / "other", **options, random_state=1)) != files(one)
    assert one.is_dir() == (dataset.writes == "folder")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one", "other", "two"]  # no part is left


def test_digits_are_ranked_by_their_pixels(tmp_path):
    data = read_letor(make_dataset("digits", tmp_path / "d"))
    assert (data.n_queries, data.n_rows, data.n_features) == (100, 5000, 64)
    assert evaluate("map", data.y, -data.X.sum(axis=1), qid=data.qid).mean > 0.6
    refused(
        "n_docs=900: expected an integer from 1 to 800", make_dataset, "digits", tmp_path / "e", n_docs=900
    )


def test_a_data_set_of_ir_datasets(tmp_path, monkeypatch):
    """With a stub: judgments and the run, if there is one, are written, or nothing."""
    judgment, scored = namedtuple("J", "query_id doc_id relevance"), namedtuple("S", "query_id doc_id score")
    found = types.SimpleNamespace(
        has_qrels=lambda: True, qrels_iter=lambda: [judgment("q1", "d1", 2), judgment("q1", "d2", 0)],
        has_scoreddocs=lambda: True, scoreddocs_iter=lambda: [scored("q1", "d2", 1.5), scored("q1", "d1", 0.5)],
    )  # fmt: skip
    stub = types.SimpleNamespace(load={"vaswani": found}.__getitem__)

    monkeypatch.setitem(sys.modules, "ir_datasets", stub)
    refused("id='x': expected a name of ir_datasets", make_dataset, "ir_datasets", tmp_path / "x", id="x")
    folder = make_dataset("ir_datasets", tmp_path / "v", id="vaswani")
    table = evaluate(read_qrels(folder / "qrels.txt"), [read_run(folder / "runs" / "scoreddocs.run")], "mrr")
    assert table.results["scoreddocs", "mrr"].mean == 0.5
    assert [path.name for path in tmp_path.iterdir()] == ["v"]


def test_the_ranking_follows_its_planted_weights(tmp_path):
    data = read_letor(make_dataset("ranking", tmp_path / "exact", noise=0.0, random_state=3))
    assert evaluate("ndcg", data.y, data.X @ planted_weights(5, 3), qid=data.qid).mean == 1.0
    store = open_store(
        make_dataset("ranking-store", tmp_path / "s", n_queries=20, n_docs=15, n_features=5, grades=3)
    )
    text = read_letor(make_dataset("ranking", tmp_path / "t"))
    np.testing.assert_array_equal(store.X, text.X.astype(np.float32))
    np.testing.assert_array_equal(store.y, text.y)


def test_the_stated_fusion_is_the_best():
    runs, qrels, weights = make_runs(n_topics=300, n_docs=60, n_runs=4)
    pool = candidates(runs, qrels)

    def value(scores):
        return evaluate("ndcg", **judge_run(pool.to_run(scores), qrels)._asdict()).mean

    best = value(pool.scores @ weights)
    assert best > value(comb_sum(pool.scores, pool.offsets)) + 0.01
    assert best > max(value(column) for column in pool.scores.T) + 0.01
    for r in range(4):  # on either side of the optimum, in each weight
        for factor in (0.3, 3.0):
            other = weights.copy()
            other[r] *= factor
            assert best > value(pool.scores @ other)


def test_the_trec_folder_holds_what_make_runs_returns(tmp_path):
    folder = make_dataset("trec", tmp_path / "made", n_runs=2, random_state=5)
    runs, qrels, weights = make_runs(n_runs=2, random_state=5)
    assert json.loads((folder / "fusion.json").read_text())["best_weights"] == {
        run.tag: w for run, w in zip(runs, weights.tolist(), strict=True)
    }
    for run in runs:
        again = read_run(folder / "runs" / f"{run.tag}.run")
        np.testing.assert_array_equal(again.scores, run.scores)
        assert again.docid.tolist() == run.docid.tolist()
    assert repr(read_qrels(folder / "qrels.txt")) == repr(qrels)


def test_invalid_data_sets_and_options_are_refused(tmp_path):
    with pytest.raises(ValueError, match="name='mslr': expected one of 'ranking', 'ranking-store', 'trec'"):
        make_dataset("mslr", tmp_path / "x")
    with pytest.raises(ValueError, match=r"trec: expected options among n_topics, .*, got 'docs'"):
        make_dataset("trec", tmp_path / "x", docs=3)
    rejected("n_docs=0: expected an integer >= 1", make_dataset, "trec", tmp_path / "x", n_docs=0)
    rejected("worst_noise: expected 0 < best_noise", make_dataset, "trec", tmp_path / "x", best_noise=2.0)
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(FileExistsError, match="taken: expected a new path"):
        make_dataset("ranking", tmp_path / "taken")
    assert files(tmp_path) == {"taken": b"mine"}


def test_a_failure_half_way_leaves_nothing(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("structsvm.readers.write_qrels", fail)
    with pytest.raises(OSError, match="No space left"):
        make_dataset("trec", tmp_path / "made")
    assert list(tmp_path.iterdir()) == []


def test_the_kept_samples_are_what_the_readme_says(tmp_path):
    script = re.search(r"```python\n(.*?)```", (REPO / "data" / "README.md").read_text("utf-8"), re.S)[1]
    (tmp_path / "samples").mkdir()
    exec(script.replace('"samples/', f'"{(tmp_path / "samples").as_posix()}/'), {})
    made, kept = files(tmp_path / "samples"), files(REPO / "data" / "samples")
    assert made.keys() == kept.keys()
    for name, content in made.items():
        assert content == kept[name], name
    assert sum(map(len, kept.values())) < 100_000


def test_the_checksums_of_the_readme(shared_data):
    folder = shared_data()
    listed = re.findall(r"^([0-9a-f]{64})  (.+)$", (REPO / "data" / "README.md").read_text("utf-8"), re.M)
    assert len(listed) > 100
    for expected, name in listed:
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == expected, name


# describing


def test_letor_and_store(tmp_path):
    data = QueryData.from_arrays(
        np.array([[1.0, 0, 3], [1, 5, 0], [1, 0, 0], [1, 2, 2], [1, 0, 0]]),
        [2, 0, 0, 1, 1],
        ["a", "a", "b", "c", "c"],
    )
    write_letor(data, tmp_path / "t.gz")
    write_store(data, tmp_path / "t.store")
    for name, kind in (("t.gz", "letor"), ("t.store", "store")):
        assert describe(tmp_path / name) == Description(
            str(tmp_path / name),
            kind,
            {"queries": 3, "rows": 5, "features": 3, "shortest query": 1, "longest query": 2},
            {"0": 2, "1": 2, "2": 1},
            (
                "1 query has one document",
                "1 query has no label above 0",
                "1 query has equal labels above 0",
                "1 feature is constant",
            ),
        )
    assert describe(tmp_path / "t.gz", sparse=True).counts["stored values"] == 9
    assert describe(tmp_path / "t.gz", sparse=True).warnings == describe(tmp_path / "t.gz").warnings
    assert describe(tmp_path / "t.gz", n_features=5).warnings[-1] == "3 features are constant"


def test_constant_features_across_blocks(tmp_path, monkeypatch):
    path = make_dataset("ranking", tmp_path / "r")
    before = describe(path)
    monkeypatch.setattr("structsvm.readers.describing._ROWS_AT_ONCE", 7)
    assert describe(path) == before
    assert describe(path, sparse=True).warnings == before.warnings


def test_run(tmp_path):
    path = tmp_path / "r"
    path.write_text("\n1 Q0 a 1 2 t\n1 Q0 b 1 2 t\n2 Q0 a 1 2 t\n")
    told = describe(path)
    assert told.kind == "run"
    assert told.counts == {"topics": 2, "rows": 3, "shortest topic": 1, "longest topic": 2}
    assert told.warnings == (
        "1 document has the same score as the document above; ties are ordered by docid",
        "1 topic has fewer than 2 documents",
    )
    assert json.loads(json.dumps(told.to_dict()))["counts"] == told.counts
    rejected("n_features: options of LETOR text, got a file of kind 'run'", describe, path, n_features=3)


def test_judgments_by_subtopic(tmp_path):
    path = tmp_path / "q"
    path.write_text("1 1 a 0\n1 2 a 1\n2 1 a 0\n")
    told = describe(path)
    assert told.counts == {"topics": 2, "judgments": 3, "relevant": 1, "subtopics": 3}
    assert told.warnings == (
        "1 topic has no relevant document",
        "documents are judged by subtopic: read with subtopics=True",
    )


def test_json_lines(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_bytes(gzip.compress(b'\n{"id": 1, "text": "x"}\n{"id": 2}\n'))
    told = describe(path)
    assert told.kind == "json-lines"
    assert told.counts == {"records": 2, "with key 'id'": 2, "with key 'text'": 1}
    assert told.warnings == ("1 key is not in every record",)
    for bad in (b"[1]", b"{", b"[" * 100_000, b"\xff"):
        path.write_bytes(b'{"id": 1}\n' + bad + b"\n")
        rejected(r"c.jsonl:2: expected (a JSON object, got|UTF-8)", describe, path)


def test_real_files(shared_data):
    told = describe(shared_data("letor4_mq2008/S1.txt.gz"))
    assert told.counts["features"] == 46
    assert "6 features are constant" in told.warnings
    assert describe(shared_data("trec_dl2020_passage/qrels.txt.gz")).labels == {
        "0": 7780,
        "1": 1940,
        "2": 1020,
        "3": 646,
    }
    assert describe(shared_data("trec_web2012_diversity/qrels.adhoc.txt.gz")).counts["judgments"] == 16055
    assert describe(shared_data("trec_robust2003/runs/input.humR03dc.gz")).counts["rows"] == 10_000
