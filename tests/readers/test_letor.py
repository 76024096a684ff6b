"""The text reader against a slow one of ``str.split`` and ``float()``, on synthetic, random and real files."""

import bz2
import gzip
import lzma
import math
import re
import struct
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import sparse

from structsvm.queries import QueryData
from structsvm.readers import letor, letor_scanner, read_letor, write_letor
from tests.refusing import rejected


def slow(text, n_features=None, base=1):
    """Return rows by the description of the format: grade, qid, {column: value}, docid."""
    rows = []
    for line in text.split("\n"):
        body, _, comment = line.partition("#")
        words = body.split()
        if not words:
            continue
        qid, features = None, words[1:]
        if features and features[0].startswith("qid:"):
            qid, features = features[0][4:], features[1:]
        cells = {int(k) - base: float(v) for k, v in (word.split(":") for word in features)}
        said = re.search(r"(?:^|\s)docid\s*=\s*(\S*)", comment)
        rows.append((float(words[0]), qid, cells, said.group(1) if said else comment.strip()))
    width = n_features or 1 + max((max(cells, default=-1) for _, _, cells, _ in rows), default=-1)
    X = np.zeros((len(rows), width))
    for i, row in enumerate(rows):
        for column, value in row[2].items():
            X[i, column] = value
    return X, [r[0] for r in rows], [r[1] for r in rows], [r[3] for r in rows]


def same_as_slow(data, text, base=1):
    X, y, qid, docid = slow(text, data.n_features, base)
    order = np.arange(len(y)) if data.order is None else data.order
    if sparse.issparse(data.X):
        again = sparse.csr_matrix((data.X.data, data.X.indices, data.X.indptr), data.X.shape)
        again.check_format(full_check=True)
        assert again.has_canonical_format
        assert (data.X.data != 0).all()
    found = data.X.toarray() if sparse.issparse(data.X) else data.X
    np.testing.assert_array_equal(found, X[order].astype(found.dtype))
    np.testing.assert_array_equal(data.y, np.array(y)[order])
    if qid[0] is not None:
        assert [str(q) for q in data.qid] == [qid[i] for i in order]
    documents = [docid[i] for i in order]
    assert (data.docid is None and not any(documents)) or data.docid.tolist() == documents


def plain(path):
    return gzip.decompress(path.read_bytes()).decode()


def write(tmp_path, text, name="train.txt"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def parse_number(token):
    """Return the value, end and kind that the kernel reads from a token."""
    return letor_scanner._number(
        np.frombuffer(token.encode() + b"\n", dtype=np.uint8), 0, *letor_scanner.power_tables()
    )


def bits(value):
    return struct.pack("d", value)


# numbers
# ------------------------------------------------------------------------------------------------------

EDGES = [
    "0",
    "-0",
    "+0",
    "1",
    "-1",
    ".5",
    "5.",
    "-.5",
    "+5.e3",
    "1e5",
    "1E+5",
    "1e-5",
    "00012",
    "0.000000",
    "123456789012345678",
    "9007199254740993",
    "9007199254740992.5",
    "5550494951631483.5",
    "1e22",
    "1e23",
    "1e-22",
    "1e-23",
    "9007199254740992e22",
    "9007199254740993e22",
    "5e-324",
    "2e-324",
    "2.4703282292062327e-324",
    "2.4703282292062328e-324",
    "2.2250738585072011e-308",
    "2.2250738585072014e-308",
    "1e-400",
    "1e-342",
    "1e-343",
    "1.7976931348623157e308",
    "1.7976931348623158e308",
    "1.7976931348623159e308",
    "1e308",
    "1e309",
    "1e400",
    "1e999999999999999999999",
    "0e999999999999999999999",
    "1e-999999999999999999999",
    "0.1",
    "0.30000000000000004",
    "8.5e-17",
    "6.02214076e23",
    "0.00000000000000000000000000000000000000000000000001",
    "100000000000000000000000000000000000000000000000000",
    "179769313486231580793728971405301e276",
    "1.00000000000000011102230246251565404236316680908203125",
    "1.00000000000000011102230246251565404236316680908203124",
    "1.00000000000000011102230246251565404236316680908203126",
    "7.2057594037927933e16",
    "3.5844466002796428e298",
]


@pytest.mark.parametrize("token", EDGES)
def test_numbers_at_the_edges_are_those_of_float(token, tmp_path):
    value, end, kind = parse_number(token)
    assert end == len(token)
    assert kind == 4 or bits(value) == bits(float(token))
    if math.isfinite(float(token)):
        data = read_letor(write(tmp_path, f"{token} qid:1 1:{token} 2:-{token.lstrip('+-')}\n"), sparse=False)
        assert bits(data.X[0, 0]) == bits(float(token))
        assert bits(data.X[0, 1]) == bits(-float(token.lstrip("+-")))
        assert bits(data.y[0]) == bits(float(token))


decimals = st.from_regex(
    r"[+-]?([0-9]{1,25}(\.[0-9]{0,25})?|\.[0-9]{1,25})([eE][+-]?[0-9]{1,3})?", fullmatch=True
)
any_float = st.floats(allow_nan=False, allow_infinity=False)


def middle(x):
    """Return the number halfway between a float and the next one."""
    return str((Decimal(x) + Decimal(math.nextafter(x, math.inf))) / 2)


@settings(max_examples=2000)
@given(
    st.one_of(
        decimals,
        any_float.map(repr),
        st.tuples(any_float, st.integers(0, 30)).map(lambda t: f"{t[0]:.{t[1]}e}"),
        st.floats(1, 1e6).map(middle),
    )
)
def test_numbers_are_bit_identical_to_float(token):
    value, end, kind = parse_number(token)
    assert end == len(token)
    if kind == 4:
        assert len(token) > 17, "17 digits never need the slow way"
    else:
        assert bits(value) == bits(float(token))


def test_undecided_numbers_are_settled_by_python(tmp_path):
    tokens = [t for t in EDGES if parse_number(t)[2] == 4]
    assert tokens
    few = [(k + 1, t) for k, t in enumerate(tokens)]
    many = few * (500 // len(few))  # more than there is room for at first, and than at the second time
    for features in (few, many):
        lines = "".join(f"{t} qid:1 {k}:{t} {k + 1}:1\n" for k, t in features)
        for as_sparse in (True, False):
            same_as_slow(read_letor(write(tmp_path, lines), sparse=as_sparse), lines)


# grammar
# ------------------------------------------------------------------------------------------------------


def test_chunks_and_threads_do_not_change_the_result(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    text = ""
    for i in range(300):
        keys = np.sort(rng.choice(40, rng.integers(0, 20), replace=False)) + 1
        if i % 50 == 49:
            keys = keys[::-1]
        text += (
            f"{i % 3} qid:{i // 7 % 20} "
            + " ".join(f"{k}:{rng.normal():.17g}" for k in keys)
            + f" # d{i}: x\n"
        )
    path = write(tmp_path, text)
    for as_sparse in (True, False):
        whole = read_letor(path, sparse=as_sparse, n_jobs=1)
        same_as_slow(whole, text)
        for size, n_jobs in ((1, 3), (100, 2), (3000, 1)):
            monkeypatch.setattr(letor, "_CHUNK_BYTES", size)
            parts = read_letor(path, sparse=as_sparse, n_jobs=n_jobs)
            monkeypatch.undo()
            for name in ("y", "offsets", "query_ids", "docid", "order"):
                np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))
            difference = parts.X != whole.X
            assert not (difference.nnz if as_sparse else difference.any())


def test_first_fault_is_named_whatever_the_threads(tmp_path, monkeypatch):
    monkeypatch.setattr(letor, "_CHUNK_BYTES", 10)
    lines = ["0 qid:1 1:1\n"] * 50
    lines[20] = "0 qid:1 1:1e999\n"
    lines[30] = "0 qid:1 what\n"
    rejected(r"txt:21: .*got '1e999'", read_letor, write(tmp_path, "".join(lines)), n_jobs=3)


def test_rows_of_a_query_may_be_apart(tmp_path):
    data = read_letor(write(tmp_path, "0 qid:b 1:1\n1 qid:a 1:2\n2 qid:b 1:3 # x\n"))
    assert data.query_ids.tolist() == ["b", "a"]
    assert data.X.ravel().tolist() == [1, 3, 2]
    assert data.y.tolist() == [0, 2, 1]
    assert data.order.tolist() == [0, 2, 1]
    assert data.docid.tolist() == ["", "x", ""]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["1", "2"], [1, 2]),
        (["-5", "0"], [-5, 0]),
        (["007", "1"], ["007", "1"]),
        (["7", "a"], ["7", "a"]),
        (["+7", "8"], ["+7", "8"]),
        (["1_0", "2"], ["1_0", "2"]),
        (["9" * 30, "1"], ["9" * 30, "1"]),
    ],
)
def test_query_ids_are_numbers_only_if_all_are_plain_integers(tmp_path, ids, expected):
    data = read_letor(write(tmp_path, "".join(f"0 qid:{q} 1:1\n" for q in ids)))
    assert data.query_ids.tolist() == expected


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_byte_order_mark_no_line_end_and_no_features(tmp_path, pack):
    data = read_letor(write(tmp_path, pack(b"\xef\xbb\xbf1 qid:1 1:2\r\n0 qid:1#")))
    assert data.X.tolist() == [[2], [0]]
    assert data.docid is None
    rejected(r"at least one feature.*n_features=", read_letor, write(tmp_path, "1 qid:1\n"))
    assert read_letor(write(tmp_path, "1 qid:1\n"), n_features=3, sparse=False).X.tolist() == [[0, 0, 0]]


def test_auto_is_sparse_below_a_tenth(tmp_path):
    thin = "".join(f"0 qid:1 {k}:1\n" for k in (1, 11))
    assert sparse.issparse(read_letor(write(tmp_path, thin)).X)
    thick = "".join(f"0 qid:1 {k}:1\n" for k in (1, 10))
    assert not sparse.issparse(read_letor(write(tmp_path, thick)).X)


def test_counting_from_zero(tmp_path):
    text = "1 qid:1 0:5 2:1\n"
    same_as_slow(read_letor(write(tmp_path, text), one_based=False), text, base=0)
    assert read_letor(write(tmp_path, "1 qid:1 2:5\n"), one_based=False).X.tolist() == [[0, 0, 5]]


def test_missing_values_are_filled_on_request(tmp_path):
    path = write(tmp_path, "1 qid:1 1:nan 2:-NaN 3:1\n")
    assert read_letor(path, fill=-2.0).X.tolist() == [[-2, -2, 1]]
    assert read_letor(path, fill=0, sparse=True).X.nnz == 1


def test_colons_in_comments_and_misleading_last_features(tmp_path):
    text = "1 qid:1 900:2 1:5 # at 12:30 4000:1\n0 qid:2 2:1 # 7000:3\n"
    for as_sparse in (True, False):
        data = read_letor(write(tmp_path, text), sparse=as_sparse)
        assert data.n_features == 900
        same_as_slow(data, text)


def test_a_long_unsorted_line(tmp_path):
    keys = np.random.default_rng(0).permutation(5000) + 1
    text = "1 qid:1 " + " ".join(f"{k}:{k}" for k in keys)
    for as_sparse in (True, False):
        assert read_letor(write(tmp_path, text), sparse=as_sparse).X.sum() == 5000 * 5001 / 2
    rejected("feature 17 twice", read_letor, write(tmp_path, text + " 17:0"))


def test_index_up_to_two_to_the_31(tmp_path):
    data = read_letor(write(tmp_path, f"1 qid:1 1:1 {2**31}:2\n"))
    assert data.X.shape == (1, 2**31)
    assert data.X.sum() == 3


WIDE = "1 qid:1 1:1\n# at 9000000:1\n\n0 qid:1 1:2 700000000:1 5:1\n"


def test_a_dense_matrix_beyond_memory_names_the_line(tmp_path, monkeypatch):
    monkeypatch.setattr(letor, "memory_bytes", lambda: 1e9)
    path = write(tmp_path, WIDE)
    with pytest.raises(
        ValueError,
        match=r"train\.txt:4: a dense .* 2 rows and 700000000 features needs 11 GB; this "
        r"machine has 1 GB; .* feature 700000000 in this line .* sparse=True",
    ):
        read_letor(path, sparse=False)
    with pytest.raises(ValueError, match=r"train\.txt:4: a dense matrix of 2 rows and 800000000 features"):
        read_letor(path, sparse=False, n_features=800_000_000)
    assert read_letor(path).X.shape == (2, 700_000_000)
    comment = write(tmp_path, "1 qid:1 1:1 # 700000000:1\n0 qid:1 1:2\n", "comment.txt")
    # the first look took the comment for a feature
    assert read_letor(comment, sparse=False).X.shape == (2, 1)
    both = write(tmp_path, "1 qid:1 900000000:1 # 950000000:1\n0 qid:1 1:2\n", "both.txt")
    rejected(r"both\.txt:1: a dense matrix of 2 rows and 900000000 features", read_letor, both, sparse=False)
    monkeypatch.setattr(letor, "memory_bytes", lambda: 10)
    with pytest.raises(ValueError, match=r"full\.txt: a dense matrix .*; convert it to a store"):
        read_letor(write(tmp_path, "1 qid:1 1:1 2:1\n", "full.txt"))


# faults
# -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, "empty file"),
        ("# nothing\n\n", {}, "empty file"),
        ("0 qid:1 3:1\n", {"n_features": 2}, r"up to 2 \(n_features\), got '3:1'"),
        ("0 qid:1 1:1e39\n", {"dtype": np.float32}, r"finite float32 features, got '1e39'"),
        (b"0 qid:\xff 1:1\n", {}, "UTF-8, got"),
        ("0 qid:1 1:1\n", {"dtype": np.int32}, "^dtype: expected"),
        ("0 qid:1 1:1\n", {"sparse": "yes"}, "^sparse='yes': expected"),
        ("0 qid:1 1:1\n", {"n_features": 0}, "^n_features=0: expected"),
        ("0 qid:1 1:1\n", {"fill": np.inf}, "^fill=inf: expected"),
        ("0 qid:1 1:1\n", {"query_sizes": [1]}, "specify one of the two"),
        *(("", {"n_jobs": n}, f"^n_jobs={n!r}: expected a number of threads") for n in (0, 1.5, "2", True)),
        (b"\x28\xb5\x2f\xfdrest of it", {}, "expected an intact zstd file, got a damaged one"),
        (b"PK\x03\x04rest of it", {}, "got zip; convert it first"),
        ("1 qid:1 1:1\n".encode("utf-16"), {}, "got UTF-16; convert it first"),
    ],
)
def test_other_faults(tmp_path, text, options, message):
    rejected(message, read_letor, write(tmp_path, text), **options)
    with pytest.raises(FileNotFoundError, match="absent"):
        read_letor(tmp_path / "absent.txt")


def test_query_sizes(tmp_path):
    path = write(tmp_path, "0 1:1\n1 1:2\n0 1:3\n")
    data = read_letor(path, query_sizes=[1, 2])
    assert data.offsets.tolist() == [0, 1, 3]
    assert data.query_ids.tolist() == [0, 1]
    for sizes in ([1, 1], [0, 3], [], [4]):
        rejected("add up to the 3 rows", read_letor, path, query_sizes=sizes)
    message = r"sizes\.txt:2: expected the number of rows of each query, got 'two'"
    rejected(message, read_letor, path, query_sizes=write(tmp_path, "1\ntwo\n", "sizes.txt"))


# writing
# ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("as_sparse", [True, False])
@pytest.mark.parametrize("suffix", [".txt", ".txt.gz", ".bz2", ".xz"])
def test_what_is_written_is_read_back_to_the_bit(tmp_path, dtype, as_sparse, suffix):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(9, 6)).astype(dtype) * 10.0 ** rng.integers(-30, 30, (9, 6)).astype(dtype)
    X[rng.random((9, 6)) < 0.3] = 0
    X[0, -1] = 1 / 3
    y = rng.integers(0, 3, 9) / 2
    ids = np.repeat(["a", "b b".replace(" ", "-"), "ü"], 3)
    data = QueryData.from_arrays(
        sparse.csr_matrix(X) if as_sparse else X, y, ids, docid=[f"D{i}" for i in range(8)] + [""]
    )
    path = tmp_path / f"out{suffix}"
    write_letor(data, path)
    back = read_letor(path, dtype=dtype, sparse=as_sparse)
    np.testing.assert_array_equal(back.X.toarray() if as_sparse else back.X, X)
    for name in ("y", "offsets", "query_ids", "docid"):
        np.testing.assert_array_equal(getattr(back, name), getattr(data, name))
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_float32_between_two_doubles_survives():
    for pattern in np.random.default_rng(0).integers(0, 2**31, 3000, dtype=np.uint32):
        value = np.array([pattern], dtype=np.uint32).view(np.float32)[0]
        if np.isfinite(value):
            assert np.float32(float(letor._number_text(value))) == value


@pytest.mark.parametrize("blank", ["\xa0", "\x85", "\u2003", "\u2028", "\x1c", "\ufeff", "\xad"])
def test_ids_with_blanks_beyond_ascii_are_written_as_they_are_read(tmp_path, blank):
    data = QueryData.from_arrays(
        [[1.0], [2.0]], [1, 0], [f"a{blank}b", "ab"], docid=[f"d{blank}", f"x{blank}y"]
    )
    write_letor(data, tmp_path / "out.txt")
    back = read_letor(tmp_path / "out.txt")
    assert back.query_ids.tolist() == data.query_ids.tolist()
    assert back.docid.tolist() == data.docid.tolist()


@pytest.mark.parametrize(
    ("query", "docid"),
    [
        *(("a\0b", "d"), ("a", "d\0e"), ("\ufeffa", "d"), ("a", "\ufeffd"), ("\udc80", "d"), ("a\x0bb", "d")),
        *(("a", "d\x0cd"), ("a b", "d"), ("a", "#1"), ("a" * 1025, "d")),
    ],
)
def test_ids_that_the_reader_refuses_are_not_written(tmp_path, query, docid):
    with pytest.raises(ValueError, match=r"(query id|docid) '.*: expected"):
        write_letor(QueryData.from_arrays([[1.0]], [1], [query], docid=[docid]), tmp_path / "out.txt")
    assert not list(tmp_path.iterdir())


# real files
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "shape", "sizes"),
    [
        ("letor4_mq2008/S1.txt.gz", None, None),
        ("letor3_np2004_fold1/vali.txt.gz", (15, 15_000, 64), None),
        ("letor3_np2004_fold1/test.txt.gz", (15, 14_181, 64), None),
        ("svmmap_sample/sample.data.gz", (1, 917, 750), None),
        ("lightgbm_rank/rank.train.gz", (201, 3_005, 300), "lightgbm_rank/rank.train.query"),
        ("lightgbm_rank/rank.test.gz", (50, 768, 300), "lightgbm_rank/rank.test.query"),
    ],
)
def test_public_files(name, shape, sizes, shared_data):
    path = shared_data(name)
    data = read_letor(path, query_sizes=None if sizes is None else shared_data(sizes))
    same_as_slow(data, plain(path))
    if shape is None:
        assert (data.n_features, data.order, data.docid[0][:2]) == (46, None, "GX")
    else:
        assert (data.n_queries, data.n_rows, data.n_features) == shape
