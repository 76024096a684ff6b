"""TREC files: compared with a slow twin, errors with the line, and cheap refusal of hostile files."""

import gzip
import re

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from structsvm.readers import Qrels, Run, read_qrels, read_run, trec as module, write_qrels, write_run
from tests.refusing import refused, rejected, rejections


@pytest.fixture
def write(tmp_path):
    def write(content, name="some.run"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def as_dict(run):
    """Return ``{topic: [(docid, score), ...]}`` in rank order."""
    return {
        topic: list(zip(run.docid[a:b].tolist(), run.scores[a:b].tolist(), strict=True))
        for topic, a, b in zip(run.topics, run.offsets[:-1], run.offsets[1:], strict=True)
    }


def slow_run(text):
    """Compute the result of ``read_run`` line by line."""
    rows = {}
    for line in text.split("\n"):
        if line.strip(" \t\r"):
            # str.split() would also split at control characters and at blanks beyond ASCII
            topic, _, docid, _, score, _ = re.split("[ \t\r]+", line.strip(" \t\r"))
            rows.setdefault(topic, []).append((docid, float(score)))
    return {t: sorted(docs, key=lambda d: (d[1], d[0]), reverse=True) for t, docs in rows.items()}


def arranged(run_or_qrels):
    """Assert the types and lengths that every result has."""
    r = run_or_qrels
    assert r.offsets.dtype == np.int64
    assert r.offsets.tolist() == sorted(r.offsets.tolist())
    assert (r.offsets[0], r.offsets[-1], len(r.offsets)) == (0, r.n_rows, r.n_topics + 1)
    assert all(type(d) is str for d in r.docid)
    return r


# runs

MIXED = (
    "9 Q0 b 1 0.5 mine\r\n"
    "10\tQ0\tx   first 3e1\tmine\n"
    "\n"
    "  9 Q0 a ? +0.50 mine  \n"
    " \t \n"
    "9 0 é -7 -1 mine\n"
    "<script> Q0 10 0 1 other\n"
    "<script> Q0 9 0 1 other"
)


def test_topics_apart_blank_lines_odd_ranks_tabs_line_ends_and_ties(write):
    run = arranged(read_run(write(MIXED)))
    assert as_dict(run) == {
        "9": [("b", 0.5), ("a", 0.5), ("é", -1.0)],
        "10": [("x", 30.0)],
        "<script>": [("9", 1.0), ("10", 1.0)],  # descending as strings
    }
    assert run.tag == "mine"
    assert as_dict(run) == slow_run(MIXED)
    assert repr(run) == "Run('mine': 3 topics, 6 rows)"


words = st.text(
    st.characters(codec="utf-8", exclude_characters="\0 \t\n\r\x0b\x0c"), min_size=1, max_size=6
).filter(lambda w: not w.startswith("\ufeff"))
numbers = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, -0.0, 1.0])
rows = st.lists(st.tuples(words, words, numbers), min_size=1, max_size=30, unique_by=lambda r: r[:2])


@given(rows, st.sampled_from(["\n", "\r\n", "\n\n", " \n\t\n"]), st.integers(1, 200))
@settings(max_examples=150)
def test_any_run_equals_the_slow_twin_whatever_the_blocks(tmp_path_factory, rows, end, block):
    path = tmp_path_factory.mktemp("runs") / "r"
    text = end.join(f"{t} Q0\t{d}  0 {s!r} x" for t, d, s in rows)
    path.write_bytes(text.encode())
    before = module._BLOCK_BYTES
    module._BLOCK_BYTES = block
    try:
        assert as_dict(arranged(read_run(path))) == slow_run(text)
    finally:
        module._BLOCK_BYTES = before


@given(rows)
@settings(max_examples=60)
def test_a_run_written_reads_back_bit_for_bit(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("runs") / "r.gz"
    run = arranged(Run.from_arrays(*zip(*rows, strict=True), tag="näme"))
    write_run(run, path)
    again = read_run(path)
    assert as_dict(again) == as_dict(run)
    assert again.scores.tobytes() == run.scores.tobytes()
    assert again.tag == "näme"
    for line in gzip.decompress(path.read_bytes()).decode().split("\n")[:-1]:
        topic, _, docid, rank, score, _ = line.split(" ")
        assert as_dict(run)[topic][int(rank) - 1] == (docid, float(score))


def test_depth_keeps_the_best_by_score(write):
    path = write(MIXED)
    assert as_dict(read_run(path, depth=2)) == {t: docs[:2] for t, docs in slow_run(MIXED).items()}
    assert as_dict(read_run(path).top(1)) == {t: docs[:1] for t, docs in slow_run(MIXED).items()}
    for call in (lambda: read_run(path, depth=0), lambda: read_run(path).top(0)):
        rejected(r"depth=.*: expected an integer >= 1", call)


GOOD = "1 Q0 d1 1 2.5 t\n"


def test_only_ids_need_be_utf8(write):
    assert read_run(write(b"1 Q\xe9 d \xff 1 caf\xe9\n")).tag == "caf\\xe9"  # distinct from other tags


@pytest.mark.parametrize("content", ["", "\n \n\r\n", "\ufeff"])
def test_an_empty_file_is_an_error(write, content):
    rejected(r"expected lines '<topic>.*got an empty file", read_run, write(content))
    rejected(r"expected lines '<topic>.*got an empty file", read_qrels, write(content))


@pytest.mark.parametrize("score", ["{}", "1", "-{}.5e3"])
def test_ranks_that_contradict_scores_are_told_and_may_count(write, score):
    ranked = {"1": list("badce"), "2": list("xzyw"), "3": ["q"]}
    lines = [
        f"{t} Q0 {d} {k} {score.format(k)} tag" for t, docs in ranked.items() for k, d in enumerate(docs, 1)
    ]
    path = write("\n".join(lines[::-1]).encode())
    by_rank = {t: [(d, -float(k)) for k, d in enumerate(docs, 1)] for t, docs in ranked.items()}
    assert as_dict(arranged(read_run(path, by="rank"))) == by_rank
    if score == "-{}.5e3":  # the ranks are right
        assert as_dict(arranged(read_run(path))) == slow_run("\n".join(lines))
        return
    with pytest.warns(UserWarning, match="differs from the order by score, ties by docid, on 2 of 3 topics"):
        assert as_dict(arranged(read_run(path))) == slow_run("\n".join(lines))
    refused(
        "expected an integer as rank of 'd' of topic '1', got something else",
        read_run,
        write(b"1 Q0 d first 1 tag"),
        by="rank",
    )


def test_duplicates_by_policy(write):
    path = write("1 Q0 a 1 1 t\n1 Q0 b 1 2 t\n2 Q0 a 1 5 t\n1 Q0 a 2 3 t\n")
    rejected(
        r"run: expected each document once .* got 'a' twice in topic '1'; pass duplicates=", read_run, path
    )
    assert as_dict(read_run(path, duplicates="best")) == {"1": [("a", 3.0), ("b", 2.0)], "2": [("a", 5.0)]}
    for call in (read_run, read_qrels):
        rejected("duplicates='last': expected 'error' or 'best'", call, path, duplicates="last")


test_wrong_arrays = rejections(
    lambda made, arguments: made.from_arrays(*arguments),
    (Run, ([1], ["a"], [np.nan]), r"scores\[0\]: expected a finite number, got nan"),
    (Run, ([1, 1], ["a"], [1.0]), "scores: expected one for each row"),
    (Run, ([1, 1], ["a", "a"], [1.0, 2.0]), "got 'a' twice in topic '1'; pass duplicates='best'"),
    (Qrels, ([1], ["a"], [0.5]), r"grades\[0\]: expected a 32-bit integer"),
    (Qrels, ([1, 1], ["a"], [1]), "grades: expected one for each row"),
    (Qrels, ([1, 1], ["a", "a"], [1, 2]), "got 'a' twice in topic '1'"),
)


@pytest.mark.parametrize("bad", ["", "a b", "a\tb", "a\0", "x" * 1025])
def test_what_the_format_cannot_say_is_not_written_and_an_earlier_file_stays(tmp_path, bad):
    path = tmp_path / "out"
    path.write_text("before")
    for write, thing in [
        (write_run, Run.from_arrays([1], [bad], [1.0])),
        (write_run, Run.from_arrays([bad], ["d"], [1.0])),
        (write_run, Run.from_arrays([1], ["d"], [1.0], tag=bad)),
        (write_qrels, Qrels.from_arrays([1], [bad], [1])),
        (write_qrels, Qrels.from_arrays([1], ["d"], [1], subtopic=[bad])),
    ]:
        rejected("expected 1 to 1024 bytes without white space", write, thing, path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


# judgments


def judged(qrels):
    keys = np.repeat(qrels.topics, np.diff(qrels.offsets)).tolist()
    parts = [None] * qrels.n_rows if qrels.subtopic is None else qrels.subtopic.tolist()
    return list(zip(keys, parts, qrels.docid.tolist(), qrels.grades.tolist(), strict=True))


def test_graded_and_negative_judgments(write, tmp_path):
    qrels = arranged(read_qrels(write("2 0 b 3\r\n1\t0  a -2\n\n2 0 a +0\n")))
    assert judged(qrels) == [("2", None, "b", 3), ("2", None, "a", 0), ("1", None, "a", -2)]
    assert repr(qrels) == "Qrels(2 topics, 3 judgments, grades -2: 1, 0: 1, 3: 1)"
    write_qrels(qrels, tmp_path / "again.xz")
    assert judged(read_qrels(tmp_path / "again.xz")) == judged(qrels)


def test_subtopics(write, tmp_path):
    path = write("1 2 a 1\n1 1 a 0\n1 1 b 1\n")
    rejected(r"run: .* or subtopics=True", read_qrels, path)
    qrels = arranged(read_qrels(path, subtopics=True))
    assert judged(qrels) == [("1", "2", "a", 1), ("1", "1", "a", 0), ("1", "1", "b", 1)]
    write_qrels(qrels, tmp_path / "q")
    assert (tmp_path / "q").read_bytes() == path.read_bytes()
    with pytest.raises(ValueError, match=r"run: .*once per topic, got 'a' twice in topic '1'"):
        read_qrels(write("1 2 a 1\n1 1 a 0\n1 2 a 1\n"), subtopics=True)


def test_the_best_of_repeated_judgments(write):
    path = write("1 0 a -1\n1 0 b 0\n1 0 a 2\n1 0 a 1\n")
    rejected(r"run: .*pass duplicates='best'", read_qrels, path)
    assert sorted(judged(read_qrels(path, duplicates="best"))) == [("1", None, "a", 2), ("1", None, "b", 0)]


# real files


@pytest.mark.parametrize("name", ["input.uic0301", "input.rutcor03100", "input.NLPR03vb10"])
def test_real_runs_equal_the_slow_twin(name, shared_data):
    path = shared_data(f"trec_robust2003/runs/{name}.gz")
    text = gzip.decompress(path.read_bytes()).decode()
    assert as_dict(arranged(read_run(path))) == slow_run(text)


def test_subtopic_judgments_of_web2012(shared_data):
    folder = shared_data("trec_web2012_diversity")
    assert read_qrels(folder / "qrels.adhoc.txt.gz").n_rows == 16055
    qrels = read_qrels(folder / "qrels.diversity.txt.gz", subtopics=True)
    lines = gzip.decompress((folder / "qrels.diversity.txt.gz").read_bytes()).decode().splitlines()
    assert sorted(judged(qrels)) == sorted(
        (t, s, d, int(g)) for t, s, d, g in (line.split() for line in lines)
    )
    rejected("subtopics=True", read_qrels, folder / "qrels.diversity.txt.gz")
