"""Lines read by few steps: what follows a record that is known is read as in a line of its own."""

from __future__ import annotations

import json

import numpy as np
import pytest

from structsvm.online import interleaving
from structsvm.online.clicklog import read_log
from structsvm.online.interleaving import Shown
from structsvm.online.statistics import analyse, ordinary_lines, read_credits
from structsvm.online.statistics.ordinary_lines import OrdinaryLines

RANKINGS = [["a", "b", "c", "d"], ["c", "a", "d", "b"]]
METHODS = [
    interleaving.TeamDraft(),
    interleaving.Probabilistic(),
    interleaving.Optimized(),
    interleaving.SOSM(),
    interleaving.Balanced(),
]


def answer(read, path, **options):
    """What a reader makes of a file, or the words by which it is refused."""
    try:
        return analyse(read(path, **options), test="t").to_dict()
    except ValueError as error:
        return str(error)


def log(tmp_path, lines):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"".join(line.encode() + b"\n" for line in lines))
    return path


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_a_list_shown_often_is_parsed_once_and_credited_each_time(tmp_path, monkeypatch, method, separators):
    rng = np.random.default_rng(0)
    records = [method.show(RANKINGS, 3, rng) for _ in range(3)]
    lines = []
    for k in range(60):
        shown = records[k % 3]
        if k % 2:
            shown = shown.with_impression(k if k % 4 == 1 else f"i{k}")
        line = {"shown": shown.to_dict(), "query": "q", "user": f"u{k % 5}"}
        line["clicks"] = [
            {"rank": int(rank), "time": float(rng.random()), "dwell": 3}
            for rank in rng.integers(1, 4, int(rng.integers(0, 4)))
        ]
        lines.append(json.dumps(line, separators=separators))
    parsed = []
    whole = OrdinaryLines._record
    monkeypatch.setattr(OrdinaryLines, "_record", lambda self, shown: parsed.append(1) or whole(self, shown))
    path = log(tmp_path, lines)
    assert answer(read_credits, path) == answer(read_log, path)
    for ours, theirs in zip(read_credits(path).pair(0, 1), columns(method, path), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    # three records, each with an id and without: twice whole, and once alone
    assert len(parsed) // 2 <= 3 * 2 * 3


def columns(method, path):
    impressions = read_log(path).impressions
    credit = np.array([method.credit(i.shown, i.clicked) for i in impressions])
    outcome = np.array([method.outcome(i.shown, i.clicked)[0, 1] for i in impressions])
    fractional = method.name in ("probabilistic", "optimized", "sosm")
    return (outcome if fractional else credit[:, 0] - credit[:, 1]), outcome


RECORD = Shown("team_draft", ("a", "b"), 2, ((0, 1),)).to_json()[:-1]
OTHER = Shown("team_draft", ("c", "d"), 2, ((1, 0),)).to_json()


@pytest.mark.parametrize("known", [RECORD + ',"impression":"i1"}', RECORD + "}"])
@pytest.mark.parametrize(
    "line",
    [
        # another record later in the line, open and hidden
        '{"shown":' + RECORD + '},"clicks":[{"rank":1}],"shown":' + OTHER + "}",
        '{"shown":' + RECORD + '},"clicks":[{"rank":1}],"\\u0073hown":' + OTHER + "}",
        '{"shown":' + RECORD + ',"impression":"i2"},"clicks":[{"rank":1}],"sh\\u006fwn":' + OTHER + "}",
        '{"shown":' + RECORD + '},"clicks":[{"rank":1}],"shown":{}}',
        '{"shown":' + RECORD + '},"clicks":[{"rank":1}],"\\u0073hown":{}}',
        # something later in the record
        '{"shown":' + RECORD + ',"evidence":[[1,0]]},"clicks":[{"rank":1}]}',
        '{"shown":' + RECORD + ',"impression":"i2","evidence":[[1,0]]},"clicks":[{"rank":1}]}',
        '{"shown":' + RECORD + ',"impression":"i2","bound":-1},"clicks":[{"rank":1}]}',
        '{"shown":' + RECORD + ',"impression":"i2","method":"balanced"},"clicks":[{"rank":1}]}',
        '{"shown":' + RECORD + ',"impression":"i2","impression":"i3"},"clicks":[{"rank":1}]}',
        '{"shown":' + RECORD + ',"impression":null},"clicks":[{"rank":2}]}',
        '{"shown":' + RECORD + ',"impression":"i2"},"impression":"i3","clicks":[{"rank":2}]}',
        '{"shown":' + RECORD + '},"impression":"i2","clicks":[{"rank":2}]}',
        '{"shown":' + RECORD + ',"impression":true},"clicks":[{"rank":2}]}',
        '{"shown":' + RECORD + ',"x":{"a":1}},"clicks":[{"rank":2}]}',
        '{"shown":' + RECORD + ',"x":"\\"impression\\":"},"clicks":[{"rank":2}]}',
        # no JSON
        '{"shown":' + RECORD + ',},"clicks":[{"rank":1}]}',
        '{"shown":' + RECORD + ',,"impression":"i2"},"clicks":[{"rank":1}]}',
        '{"shown":' + RECORD + '},"clicks":[{"rank":1}]',
        '{"shown":' + RECORD + '},"clicks":[{"rank":1}]}}',
        '{"shown":' + RECORD + '}"clicks":[{"rank":1}]}',
        # ids and clicks
        '{"shown":' + RECORD + '},"clicks":[{"rank":1}],"query":"\\u00e9"}',
        '{"shown":' + RECORD + '},"clicks":[{"rank":1}],"user":"a\\u0000"}',
        '{"shown":' + RECORD + '},"clicks":[{"rank":3}]}',
        '{"shown":' + RECORD + '},"clicks":[{"rank":1,"document":"a"}]}',
        '{"shown":' + RECORD + '},"clicks":[{"document":"b"}],"rankers":[]}',
        '{"shown":' + RECORD + '},"clicks":[{"document":0}]}',
        '{"shown":' + RECORD + '},"clicks":[{"rank":1,"dwell":-1}]}',
        '{"shown":' + RECORD + '},"clicks":[{"rank":1,"dwell":0}]}\r',
        '{"shown":' + RECORD + '},"clicks":[{"rank":1}],"rankers":["x","y"]}',
        '{"shown":' + RECORD + '},"clicks":[{"rank":1}],"user":true}',
    ],
)
def test_what_follows_a_known_record_is_read_as_in_a_line_of_its_own(tmp_path, known, line):
    before = ['{"shown":' + known.replace("i1", f"j{k}") + ',"clicks":[{"rank":2}]}' for k in range(4)]
    path = log(tmp_path, [*before, line, *before[:1]])
    assert answer(read_credits, path) == answer(read_log, path)


def test_documents_that_look_like_the_end_of_a_record(tmp_path):
    for odd in ("]]", '"impression"', "}", '\\"impression\\"', "]]}"):
        method = interleaving.TeamDraft()
        shown = [method.show([[odd, "b", "x]]"], ["b", "x]]", odd]], 2, seed) for seed in range(2)]
        lines = [
            json.dumps({"shown": shown[k % 2].with_impression(k).to_dict(), "clicks": [{"rank": 1 + k % 2}]})
            for k in range(12)
        ]
        path = log(tmp_path, lines)
        assert answer(read_credits, path) == answer(read_log, path)


def test_known_records_take_bounded_memory(monkeypatch):
    monkeypatch.setattr(ordinary_lines, "_BYTES_KEPT", 1000)
    reader = OrdinaryLines("team_draft", 2, [])
    for k in range(40):
        shown = Shown("team_draft", (f"a{k}", "b"), 2, ((0, 1),))
        line = json.dumps({"shown": shown.to_dict(), "clicks": []}).encode()
        for _ in range(3):
            assert reader.read(line).record.documents == (f"a{k}", "b")
        assert 1 <= len(reader._known) <= 8
        assert sum(map(len, reader._known)) <= 1000
    shown = Shown("team_draft", tuple(f"d{k}" for k in range(300)), 2, ((0, 1) * 150,))
    line = json.dumps({"shown": shown.to_dict(), "clicks": []}).encode()
    for _ in range(3):
        assert reader.read(line).record.documents == shown.documents
    assert not reader._known
