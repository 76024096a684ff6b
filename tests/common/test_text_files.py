"""Common rules of text files: encodings, long lines, damaged compressed files, decompression bombs."""

import bz2
import gzip
import lzma
import os
import threading

import numpy as np
import pytest

from structsvm.cli.files import read_names, read_scores
from structsvm.common import files
from structsvm.online.clicklog import read_log
from structsvm.readers import convert_letor, letor, read_candidates, read_letor, read_qrels, read_run
from tests.refusing import rejected

BOM = b"\xef\xbb\xbf"
PACKERS = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}

LOG = (
    b'{"shown": {"version": 1, "method": "team_draft", "documents": ["b", "a"], "n_rankers": 2, '
    b'"evidence": [[1, 0]], "slack": 0}, "clicks": [{"rank": 2}]}\n'
)

READERS = {
    "letor": (read_letor, b"1 qid:1 1:2 # docid = a\n", lambda d: (d.X.tolist(), d.query_ids.tolist())),
    "run": (read_run, b"1 Q0 a 1 2.5 t\n", lambda run: (run.topics.tolist(), run.scores.tolist())),
    "qrels": (read_qrels, b"1 0 a 2\n", lambda qrels: (qrels.topics.tolist(), qrels.grades.tolist())),
    "candidates": (read_candidates, b'{"documents": [{"text": "x"}]}\n', lambda found: found.sets[0].ids),
    "log": (read_log, LOG, lambda log: log.impressions),
    "scores": (read_scores, b"2.5\n", lambda found: found[0].tolist()),
    "names": (read_names, b"bm25\nage\n", list),
}
reader = pytest.mark.parametrize("name", READERS)


@pytest.fixture
def write(tmp_path):
    def write(content, name="file"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


# encodings
# ------------------------------------------------------------------------------------------------------


@reader
@pytest.mark.parametrize("packer", [bytes, *PACKERS.values()])
def test_a_byte_order_mark_at_the_beginning_changes_nothing(name, packer, write):
    read, text, said = READERS[name]
    assert said(read(write(packer(BOM + text)))) == said(read(write(packer(text))))


@reader
def test_a_byte_order_mark_further_down_is_refused(name, write):
    read, text, _ = READERS[name]
    rejected(rf"file:{text.count(bytes([10])) + 1}: expected ", read, write(text + BOM + text))


@pytest.mark.parametrize("name", ["letor", "run", "qrels", "names", "scores", "candidates"])
@pytest.mark.parametrize("bad", [b"\0", b"\xff", b"\xed\xa0\x80"])
def test_what_is_no_text_is_refused_with_its_line(name, bad, write):
    read, text, _ = READERS[name]
    for old in (b"qid:1", b"docid = a", b" a ", b"bm25", b'"x"', b"2.5"):
        if old in text and not (name == "run" and old == b"2.5"):
            cut = len(old) - (old[-1:] in (b'"', b" "))
            spoiled = text.replace(old, old[:cut] + bad + old[cut:])
            line = 2 if text.count(b"\n") == 1 else 3
            rejected(f"file:{line}: expected ", read, write(text + spoiled))


def test_feature_names_with_a_byte_order_mark_are_those_without(write, cli):
    cli("train", write(b"1 qid:1 1:1 2:0\n0 qid:1 1:0 2:1\n"), "-o m.npz --jobs 1")
    exports = []
    for mark in (b"", BOM):
        write(mark + b"bm25\r\nage\r\n", "names.txt")
        exports.append(cli("export m.npz --to solr --feature-names names.txt"))
    assert exports[0] == exports[1]
    assert "ufeff" not in exports[1]


def test_candidate_ids_have_no_nul(write):
    for text in (
        b'{"documents": [{"id": "a\\u0000", "text": "x"}]}',
        b'{"query": "\\u0000", "documents": []}',
    ):
        rejected(r"file:1: expected ids without NUL characters", read_candidates, write(text))


def test_an_integer_of_5000_digits_is_refused_in_our_words(write):
    with pytest.raises(ValueError, match=r"file:1: expected JSON Lines, .*, got "):
        read_candidates(write(b'{"query": ' + b"1" * 5000 + b', "documents": [{"text": "x"}]}'))


# numbers
# ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "word", ["1e400", "-1e400", "nan", "inf", "+Infinity", "1_0", "١", "1" * 2000, "", "1 2"]
)
def test_a_score_is_one_finite_number(word, write):
    with pytest.raises(ValueError, match=r"file:2: expected one finite number, the score of row 2"):
        read_scores(write(f"0.5\n{word}\n1\n".encode()))


def test_a_score_of_minus_infinity_is_not_retrieved(write):
    assert read_scores(write(b"-inf\r\n -Infinity \n2"))[0].tolist() == [-np.inf, -np.inf, 2.0]


@pytest.mark.parametrize("word", ["9" * 5000, "9" * 19, "١", "-1", "1.0"])
def test_a_query_size_is_a_whole_number(word, write):
    with pytest.raises(ValueError, match=r"sizes:2: expected the number of rows of each query"):
        read_letor(write(b"0 1:1\n"), query_sizes=write(f"1\n{word}\n".encode(), "sizes"))


# long lines
# ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packer", [bytes, gzip.compress])
@pytest.mark.parametrize("chunk", [1, 13, 50, 60])
def test_the_longest_line_is_the_same_for_every_way_to_read(chunk, packer, write, monkeypatch, tmp_path):
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 60)
    monkeypatch.setattr(letor, "MAX_LINE_BYTES", 60)
    monkeypatch.setattr(letor, "_CHUNK_BYTES", chunk)  # never more than a line may have
    short = b"0 qid:1 1:1\n" * 9
    texts = {n: short + b"1 qid:1 1:1 #".ljust(n, b"x") + b"\n" + short for n in (60, 61)}
    fits, longer = (write(packer(text), str(n)) for n, text in texts.items())
    ways = [
        read_letor,
        *(lambda path, b=b: list(files.read_blocks(path, b)) for b in (1, 12, 60, 1000)),
        lambda path: convert_letor(path, tmp_path / "a.store"),
    ]
    for way in ways:
        way(fits)
        rejected(r"61:10: expected lines of at most 60 bytes, got a longer", way, longer)


@pytest.mark.parametrize("piece", [b"7", b"1:1 ", b"\0"])
def test_a_line_of_40_mb_is_refused(piece, write):
    path = write(b"0 qid:1 1:1\n1 qid:1 " + piece * (40_000_000 // len(piece)) + b"\n")
    rejected(r"file:2: expected lines of at most 33554432 bytes", read_letor, path)


def test_a_number_of_20_mb_is_read(write):
    assert read_letor(write(b"1 qid:1 1:0." + b"3" * 20_000_000 + b"\n")).X[0, 0] == 1 / 3


def test_one_long_comment_does_not_fill_the_memory(write, monkeypatch):
    text = b"1 qid:1 1:1 # a\n" * 50 + b"1 qid:1 1:1 # " + b"b" * 1000 + b"\n"
    assert read_letor(write(text)).docid[-1] == "b" * 1000
    monkeypatch.setattr(letor, "memory_bytes", lambda: 51 * 4 * 1000 - 1)
    rejected(r"file:51: expected comments short enough .* one of 1000 bytes", read_letor, write(text))


def test_a_stream_without_line_ends_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 1 << 21)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    written = []

    def pour():
        try:
            with pipe.open("wb") as file:
                for _ in range(100):
                    written.append(file.write(b"\0" * (1 << 20)))
        except BrokenPipeError:
            pass

    thread = threading.Thread(target=pour)
    thread.start()
    rejected(r"pipe:1: expected lines of at most 2097152 bytes", read_letor, pipe)
    thread.join()
    assert len(written) < 10


# compressed files
# ------------------------------------------------------------------------------------------------------


@reader
@pytest.mark.parametrize("kind", PACKERS)
def test_a_decompression_bomb_is_refused_unless_allowed(name, kind, write, monkeypatch):
    monkeypatch.setattr(files, "FREE_BYTES", 1 << 16)
    read, text, said = READERS[name]
    path = write(PACKERS[kind](text + b"\n" * 200_000 if name != "scores" else text * 100_000))
    rejected(rf"file: expected at most 200 times the size of this {kind} file .*max_exp", read, path)
    with files.allowing_expansion(np.inf):
        assert said(read(path))[:1] == said(read(write(text)))[:1]
    if name not in ("log", "scores", "names"):
        assert said(read(path, max_expansion=np.inf)) == said(read(write(text)))


def test_convert_refuses_a_decompression_bomb(write, monkeypatch, tmp_path):
    monkeypatch.setattr(files, "FREE_BYTES", 1 << 16)
    path = write(gzip.compress(b"1 qid:1 1:1\n" + b"\n" * 200_000))
    rejected("expected at most 200 times", convert_letor, path, tmp_path / "a.store")
    assert not (tmp_path / "a.store").exists()
    convert_letor(path, tmp_path / "a.store", max_expansion=2000)


@pytest.mark.parametrize("value", [0, -1, 0.5, float("nan")])
def test_max_expansion_is_a_number_from_one(value, write, cli):
    with pytest.raises(ValueError, match=r"max_expansion=.*: expected a number >= 1, or inf"):
        read_letor(write(gzip.compress(b"1 qid:1 1:1\n")), max_expansion=value)
    assert "--max-expansion" in cli.refuses(f"--max-expansion {value} datasets describe", write(b""))


def test_the_option_of_the_command_reaches_the_readers(write, monkeypatch, cli):
    monkeypatch.setattr(files, "FREE_BYTES", 1 << 16)
    path = write(gzip.compress(b"1 qid:1 1:1\n" + b"\n" * 200_000))
    said = "specify a larger --max-expansion (before the command)"
    assert said in cli.refuses("datasets describe", path)
    cli("--max-expansion 2000 datasets describe", path)
    assert said in cli.refuses("datasets describe", path)  # it was for that command only


def test_small_repetitive_files_are_free(write):
    text = b"1 qid:1 1:1\n" * 100_000
    packed = bz2.compress(text)
    assert len(text) > 1000 * len(packed)
    assert read_letor(write(packed)).n_rows == 100_000


@pytest.mark.parametrize("kind", PACKERS)
def test_a_damaged_second_member_is_not_dropped(kind, write):
    packer = PACKERS[kind]
    first, second = packer(b"1 qid:1 1:1\n"), packer(b"0 qid:1 1:2\n")
    for zeros in (b"", b"\0" * 8):
        assert read_letor(write(first + second + zeros)).n_rows == 2
    said = rf"file: expected an? (intact|complete) {kind} file, .*; fetch it again"
    within = second[:15] + b"\xff" * 5 + second[20:]
    for damaged in (b"junk" + second, b"x" + second[1:], second[:-5], second[:12], within):
        rejected(said, read_letor, write(first + damaged))
