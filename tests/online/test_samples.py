"""Logs that version 0.1 wrote are read, and credited as they were then."""

import json
from pathlib import Path

import numpy as np
import pytest

from structsvm.online import interleaving
from structsvm.online.clicklog import Impression, read_log
from structsvm.online.statistics import analyse, read_credits

SAMPLES = Path(__file__).resolve().parent.parent / "samples"
EXPECTED = json.loads((SAMPLES / "expected.json").read_text())["logs"]
METHODS = {
    method.name: method()
    for method in (getattr(interleaving, name) for name in interleaving.__all__)
    if isinstance(method, type) and isinstance(getattr(method, "name", None), str)
}


def assert_figures(answer, expected):
    for name, value in expected.items():
        if name != "pairs":
            assert answer[name] == value, name
    for pair, known in zip(answer["pairs"], expected["pairs"], strict=True):
        assert {name: pair[name] for name in known} == known | {
            "mean": pytest.approx(known["mean"], abs=1e-12)
        }


@pytest.mark.parametrize("name", EXPECTED)
def test_logs_are_credited_as_when_they_were_written(name):
    log, expected = read_log(SAMPLES / name), EXPECTED[name]
    method = METHODS[log.method]
    for one, credit, outcome in zip(log.impressions, expected["credit"], expected["outcome"], strict=True):
        np.testing.assert_allclose(method.credit(one.shown, one.clicked), credit, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(method.outcome(one.shown, one.clicked), outcome, rtol=1e-12, atol=1e-12)
    assert_figures(analyse(log).to_dict(), expected["analysis"])
    for cluster, figures in ((None, "analysis"), ("user", "by_user")):
        read = read_credits(SAMPLES / name, cluster=cluster)
        assert_figures(analyse(read, cluster=cluster).to_dict(), expected[figures])


@pytest.mark.parametrize("name", EXPECTED)
def test_lines_keep_their_meaning_when_they_are_written_again(name):
    lines = [json.loads(line) for line in (SAMPLES / name).read_text().splitlines()]
    for line, one in zip(lines, map(Impression.from_dict, lines), strict=True):
        assert Impression.from_dict(json.loads(json.dumps(one.to_dict()))) == one
        shown, kept = line["shown"], one.shown
        assert (kept.method, kept.n_rankers, kept.impression) == (
            shown["method"],
            shown["n_rankers"],
            shown.get("impression"),
        )
        assert [list(row) for row in kept.evidence] == shown["evidence"]
        plain = [tuple(d["tuple"]) if isinstance(d, dict) else d for d in shown["documents"]]
        assert list(kept.documents) == plain
        ids = ("query", "session", "user", "query_words")
        assert [getattr(one, key) for key in ids] == [line.get(key) for key in ids]
        assert (kept.offset, one.same) == (line.get("offset", 0), line.get("same", False))
        assert list(one.rankers) == line["rankers"]
        clicks = None if one.clicks is None else [click.rank for click in one.clicks]
        assert clicks == (None if "clicks" not in line else [click["rank"] for click in line["clicks"]])
