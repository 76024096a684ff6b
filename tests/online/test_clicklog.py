"""The click log: round trips, and errors with the line."""

import gzip
import json
from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from structsvm.online import clicklog as room
from structsvm.online.clicklog import Click, ClickLog, Impression, Lines, read_log, write_log
from structsvm.online.interleaving import Shown
from structsvm.online.statistics import analyse
from tests.refusing import refused, rejected

RECORD = Shown("team_draft", ("b", "a", "c"), 2, ((1, 0, 1),)).to_dict()
LINE = {"shown": RECORD, "clicks": [{"rank": 1}]}


def write(tmp_path, *lines, name="log.jsonl"):
    path = tmp_path / name
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


impression_ids = st.one_of(st.none(), st.uuids().map(str))
identifiers = st.one_of(
    st.none(), st.integers(), st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
)
documents = st.one_of(st.integers(), st.text(max_size=4), st.tuples(st.text(max_size=2), st.integers()))


@st.composite
def impressions(draw):
    ids = tuple(draw(st.lists(documents, min_size=1, max_size=5, unique_by=lambda d: (d, type(d)))))
    n = len(ids)
    nobody = draw(st.integers(0, n))
    turns = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    teams = tuple(None if k >= n - nobody else (k + turns[k // 2]) % 2 for k in range(n))
    counts = st.one_of(st.none(), st.lists(st.integers(0, 9), min_size=n, max_size=n).map(tuple))
    times = draw(st.booleans())
    seconds = st.floats(0, 1e6)
    click = st.builds(
        Click,
        st.integers(1, n),
        seconds if times else st.none(),
        st.one_of(st.none(), seconds),
        st.one_of(st.none(), st.booleans()),
    )
    clicks = draw(st.lists(click, max_size=4))
    if times:
        clicks.sort(key=lambda c: c.time)
    return Impression(
        Shown("team_draft", ids, 2, (teams,), impression=draw(impression_ids)),
        tuple(clicks),
        draw(identifiers),
        draw(identifiers),
        draw(identifiers),
        ("old", "new"),
        draw(st.one_of(st.none(), st.integers(1, 9))),
        draw(counts),
        draw(counts),
    )


@pytest.mark.parametrize("key", ["query", "session", "user"])
@pytest.mark.parametrize(
    ("value", "problem"),
    [("a\0", "without NUL"), (True, "a string or an integer"), (1.5, "a string or an integer")],
)
def test_ids_that_could_not_be_read_are_not_written(key, value, problem):
    rejected(f"{key}.*{problem}", Impression, Shown.from_dict(RECORD), (), **{key: value})


@settings(max_examples=40)
@given(st.lists(impressions(), min_size=1, max_size=4), st.sampled_from(["", ".gz"]))
def test_what_is_written_is_read(tmp_path_factory, made, suffix):
    path = tmp_path_factory.mktemp("logs") / f"log.jsonl{suffix}"
    write_log(path, made)
    log = read_log(path)
    assert log.impressions == tuple(made)
    assert log.rankers == ("old", "new")
    lines = [json.dumps(impression.to_dict()) for impression in made]  # none has an id
    assert log == replace(ClickLog.of(made), n_identical=len(lines) - len(set(lines)))


def test_a_record_may_be_its_own_json(tmp_path):
    text = json.dumps(RECORD)
    log = read_log(write(tmp_path, {"shown": text, "clicks": [], "server": {"anything": 1}}))
    assert log.impressions[0].shown == Shown.from_dict(RECORD)
    assert log.impressions[0].clicks == ()
    assert log.rankers == ("ranker 1", "ranker 2")


def test_times_tell_the_order_where_all_are_known(tmp_path):
    clicks = [{"rank": 3, "time": 9}, {"document": "b", "time": 2.5}]
    late_unknown = [{"rank": 3, "time": 9}, {"rank": 1}]
    log = read_log(
        write(tmp_path, {"shown": RECORD, "clicks": clicks}, {"shown": RECORD, "clicks": late_unknown})
    )
    assert [c.rank for c in log.impressions[0].clicks] == [1, 3]
    assert [c.rank for c in log.impressions[1].clicks] == [3, 1]


def test_ids_are_told_apart_by_type(tmp_path):
    record = Shown("team_draft", ("1", 1, (1, "x")), 2, ((1, 0, 1),)).to_dict()
    clicks = [{"document": 1}, {"document": "1"}, {"document": {"tuple": [1, "x"]}}]
    log = read_log(write(tmp_path, {"shown": record, "clicks": clicks}))
    assert [c.rank for c in log.impressions[0].clicks] == [2, 1, 3]


def test_feedback_that_is_missing_is_a_stated_policy(tmp_path):
    path = write(
        tmp_path, LINE, {"shown": RECORD}, {"shown": RECORD, "clicks": None}, {"shown": RECORD, "clicks": []}
    )
    skipped = read_log(path)
    assert (len(skipped.impressions), skipped.n_missing_feedback) == (2, 2)
    taken = read_log(path, missing_feedback="no_click")
    assert (len(taken.impressions), taken.n_missing_feedback) == (4, 2)
    assert not taken.impressions[1].clicked.any()
    rejected(r"log\.jsonl:2: expected 'clicks', got none", read_log, path, missing_feedback="error")
    with pytest.raises(ValueError, match="missing_feedback='guess': expected one of 'skip', 'no_click'"):
        read_log(path, missing_feedback="guess")


def test_a_line_without_its_record_is_an_error(tmp_path):
    rejected(
        r"log\.jsonl:2: expected the key 'shown', got none; log Shown.to_json",
        read_log,
        write(tmp_path, LINE, {"clicks": [{"rank": 1}]}, LINE),
    )


@pytest.mark.parametrize("lines", [[], [""], [{"shown": RECORD}]])
def test_a_log_without_impressions_is_refused(tmp_path, lines):
    rejected(r"log\.jsonl: expected impressions with feedback, got none", read_log, write(tmp_path, *lines))


def test_other_bytes_are_refused(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(json.dumps(LINE).encode() + b"\n\xff\xff\xff\n")
    rejected(r"log\.jsonl:2: expected UTF-8", read_log, path)
    (tmp_path / "cut.gz").write_bytes(gzip.compress(json.dumps(LINE).encode())[:-6])
    rejected("truncated", read_log, tmp_path / "cut.gz")


def test_lines_are_counted_over_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "_BLOCK", 100)
    rejected(
        r"log\.jsonl:10: clicks", read_log, write(tmp_path, *[LINE] * 9, {"shown": RECORD, "clicks": 0}, LINE)
    )
    assert len(read_log(write(tmp_path, *[LINE] * 9)).impressions) == 9


def test_nothing_is_left_of_a_log_that_could_not_be_written(tmp_path):
    shown = Shown("team_draft", (frozenset(),), 2, ((0,),))
    with pytest.raises(TypeError, match="frozenset"):
        write_log(tmp_path / "log.jsonl", [Impression(shown, ())])
    assert list(tmp_path.iterdir()) == []


def test_records_are_checked_once_and_kept_in_bounded_memory(monkeypatch):
    monkeypatch.setattr(room, "_ENTRIES_KEPT", 40)
    lines = Lines()
    for k in range(30):
        raw = json.dumps({"shown": {**RECORD, "documents": [k, k + 1, k + 2]}, "clicks": []}).encode()
        first, second = (lines.read(1, raw).shown for _ in range(2))
        assert first is second
        assert first.documents == (k, k + 1, k + 2)
        assert 1 <= len(lines._known) <= 7


def test_equal_numbers_of_other_types_are_other_documents():
    lines = Lines()

    def read(first, clicked):
        line = {"shown": {**RECORD, "documents": [first, 2, 3]}, "clicks": [{"document": clicked}]}
        return lines.read(1, json.dumps(line).encode()).shown.documents[0]

    for first in (1, 1.0, True) * 2:
        assert type(read(first, first)) is type(first)
    rejected(r"clicks\[0\]: document True is not among those shown", read, 1, True)


def test_of_keys_that_are_twice_the_last_counts(tmp_path):
    text = json.dumps(RECORD)
    line = '{"shown":' + text + ',"clicks":[{"rank":1}],"\\u0073hown":' + text.replace('"b"', '"x"') + "}"
    assert read_log(write(tmp_path, line)).impressions[0].shown.documents == ("x", "a", "c")


def test_what_is_no_log_of_impressions_is_refused():
    shown = Shown("team_draft", ("a", "b"), 2, ((0, 1),))
    for log, expected in (
        ([shown], r"impressions\[0\]: expected Impression objects, got Shown; wrap a record, as in Impress"),
        ([{"shown": 1}], r"impressions\[0\]: expected Impression objects, got dict"),
        (pd.DataFrame({"impression": [1]}), "log: .* got a data frame; read it with .*draft_table"),
    ):
        refused(expected, analyse, log)
