"""Refused commands of ``refusals.txt``: one clear line each, and all files are left as they were."""

import gzip
import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from structsvm import CandidateSet, QueryScaler, SVMDiv, SVMMap
from structsvm.cli import COMMANDS, GROUPS
from structsvm.export.model_file import save
from structsvm.readers import make_ranking, read_candidates, read_letor, write_letor, write_store

SHEET = Path(__file__).with_name("refusals.txt").read_text(encoding="utf-8")
SECTIONS = {
    name: lines.split("\n") for name, lines in re.findall(r"^\[(\w+)\]\n(.*?)\n(?=\n|\Z)", SHEET, re.M | re.S)
}
CASES = [(name, *line.split(" -> ")) for name, lines in SECTIONS.items() for line in lines if " -> " in line]


def make_rows(folder):
    """Add a model, scores and data in several forms."""
    for name, seed in (("train.txt", 1), ("test.txt", 2)):
        write_letor(make_ranking(4, 5, 5, grades=3, random_state=seed), folder / name)
    data = read_letor(folder / "train.txt")
    SVMMap().fit(data.X, data.y, qid=data.qid).save(folder / "model.npz")
    save(QueryScaler("zscore", within="data").fit(data.X), folder / "scaler.npz")
    (folder / "sub").mkdir()
    packed = gzip.compress((folder / "train.txt").read_bytes())
    (folder / "cut.gz").write_bytes(packed[: len(packed) // 2])
    np.savez(folder / "array.npz", coef_=np.ones(5))
    for name in ("two", "mixed"):
        write_store(read_letor(folder / "good.txt"), folder / f"{name}.store")
    (folder / "mixed.store" / "notes").mkdir()


def make_worlds(folder):
    """Add arrays: valid, several in a file, truncated, and one whose header declares a size beyond any memory."""
    P = np.array([[0.5, 0.4, 0.7], [0.6, 0.5, 0.8], [0.3, 0.2, 0.5]])
    np.save(folder / "P.npy", P)
    np.savez(folder / "two.npz", P, P)
    np.savez(folder / "whole.npz", P)
    for whole, cut, left in (("whole.npz", "cut.npz", 200), ("P.npy", "short.npy", -8)):
        (folder / cut).write_bytes((folder / whole).read_bytes()[:left])
    with (folder / "huge.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f8", "fortran_order": False, "shape": (10**7, 10**7)}
        )
        file.write(P.tobytes())


def make_places(folder):
    (folder / "circle").symlink_to("circle")
    (folder / "dangling").symlink_to("n" * 250 + "/here")


def make_sets(folder):
    """Add models of texts, one of them under the name of a fixed method, and a model of given similarities."""
    found = read_candidates(folder / "sets.jsonl")
    for name in ("svmdiv", "mmr"):
        SVMDiv(k=2, C=10.0).fit(found.sets, found.labels).save(folder / f"{name}.npz")
    given = [CandidateSet.from_similarity([[1, 0.9, 0], [0.9, 1, 0], [0, 0, 1]])] * 2
    SVMDiv(k=2).fit(given, [[[1, 0], [1, 0], [0, 1]]] * 2).save(folder / "embedded.npz")


# what must not begin where the name of a result cannot be written
WORK = (
    "cli.studies.demo.run cli.studies.folds.run cli.studies.fusion.cross_validate_fusion load readers.convert_letor "
    "estimators.structural.StructuralRanker.fit online.simulation.play.simulate online.clicklog.read_log "
    "online.statistics.simulated_log.simulate_log readers.candidate_sets.read_candidates readers.datasets.make_runs"
)
REMARKS = ("options", "worlds", "runs")
"""Where a command says what it estimates or reads, in lines before the error."""
MAKERS = {"rows": make_rows, "worlds": make_worlds, "places": make_places, "sets": make_sets}


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    @cache
    def folder(section):
        made = tmp_path_factory.mktemp(section)
        for line in SECTIONS[section]:
            if " -> " not in line:
                name, _, text = line.partition(" = ")
                (made / name).write_text(json.loads(text))
        MAKERS.get(section, lambda made: None)(made)
        return made

    return folder


@pytest.mark.parametrize(("section", "command", "message"), CASES)
def test_refused_in_one_line_that_leaves_nothing(section, command, message, folder_of, cli, monkeypatch):
    folder = folder_of(section)
    monkeypatch.chdir(folder)
    for work in WORK.split() if section == "places" else ():
        monkeypatch.setattr(f"structsvm.{work}", None)
    before = {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}
    error = cli.refuses(command)
    assert cli.err == f"{error}\n" or section in REMARKS or cli.err.startswith("structsvm: warning: ")
    assert re.search(".*".join(map(re.escape, message.split(" * "))), error), error
    assert {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")} == before


def test_every_command_is_refused_something():
    here = {command.split()[0] for _, command, _ in CASES}
    assert {*COMMANDS, *GROUPS} - here == {"arena", "show", "explain", "warm-up"}


@pytest.mark.filterwarnings("always::UserWarning")
def test_warnings_and_errors_of_methods_name_options(cli, tmp_path):
    """Messages name options instead of ``loss='ndcg@10'`` and ``relevance=``; in a comparison, methods."""
    rows = [f"{1 + d % 3} qid:{q} 1:{d} 2:{q}\n" for q in range(12) for d in range(6)]
    path = tmp_path / "rows.txt"
    path.write_text("".join([*rows, "0 qid:99 1:0 2:1\n", "1 qid:99 1:1 2:1\n"]))
    cli(f"train {path} -o m.npz")
    assert "a label of at least 1 and are relevant, and the loss 'map'" in cli.err
    assert "pass --loss ndcg@10, which uses all grades, or a higher --relevance" in cli.err
    error = cli.refuses(f"compare {path} --method map --C 1 --folds 3 --jobs 1")
    assert "--select map: expected a measure that depends on the ranking" in error
    assert "choose by pairs, or check --relevance" in error
