"""Grouping and validation of ``QueryData``."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from scipy import sparse

from structsvm.common.row_checks import column_ranges
from structsvm.queries import QueryData, check_offsets, check_sparse, first_beyond, group_queries
from tests.refusing import rejected, rejections


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=40), st.sampled_from([int, str, object]))
def test_grouping_is_stable_and_in_order_of_first_rows(ids, kind):
    if kind is not int:
        ids = [f"q{i}" for i in ids]
    grouping = group_queries(np.array(ids, dtype=object) if kind is object else ids, len(ids))
    expected_ids = list(dict.fromkeys(ids))
    expected_rows = [[i for i, v in enumerate(ids) if v == q] for q in expected_ids]
    assert grouping.query_ids.tolist() == expected_ids
    order = np.arange(len(ids)) if grouping.order is None else grouping.order
    pairs = zip(grouping.offsets[:-1], grouping.offsets[1:], strict=True)
    assert [order[a:b].tolist() for a, b in pairs] == expected_rows
    assert (grouping.order is None) == ([i for rows in expected_rows for i in rows] == list(range(len(ids))))


@pytest.mark.parametrize("as_sparse", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_from_arrays_moves_rows_together(as_sparse, dtype):
    X = np.arange(8, dtype=dtype).reshape(4, 2)
    data = QueryData.from_arrays(
        sparse.csr_matrix(X) if as_sparse else X, [0, 1, 2, 3], ["b", "a", "b", "a"], docid=list("wxyz")
    )
    found = data.X.toarray() if as_sparse else data.X
    np.testing.assert_array_equal(found, X[[0, 2, 1, 3]])
    assert data.X.dtype == dtype
    assert data.y.tolist() == [0, 2, 1, 3]
    assert data.docid.tolist() == list("wyxz")
    assert data.order.tolist() == [0, 2, 1, 3]
    assert data.qid.tolist() == ["b", "b", "a", "a"]
    assert data.query_ids.tolist() == ["b", "a"]
    assert (data.n_queries, data.n_rows, data.n_features) == (2, 4, 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_contiguous_data_are_not_copied(dtype):
    X = np.ones((4, 2), dtype=dtype)
    assert QueryData.from_arrays(X, np.zeros(4), [1, 1, 2, 2]).X is X
    matrix = sparse.csr_matrix(X)
    assert QueryData.from_arrays(matrix, np.zeros(4), [1, 1, 2, 2]).X is matrix


def test_other_inputs_become_float64_rows():
    assert QueryData.from_arrays([[1, 2]], [True]).X.dtype == np.float64
    assert QueryData.from_arrays(np.ones((2, 3), order="F"), [0, 1]).X.flags.c_contiguous
    doubled = sparse.csr_matrix(([1.0, 2.0], [0, 0], [0, 2]), shape=(1, 1))
    assert QueryData.from_arrays(doubled, [1]).X.nnz == 1
    assert doubled.nnz == 2


def test_large_ids_stay_apart():
    for ids in (
        [2**53, 2**53 + 1],
        [2.0**53 - 1, 2.0**53 - 2],
        [2**63 - 1, 2**63 - 2],
        [10**20, 10**20 + 1],
        [2**63, 1],
    ):
        assert group_queries(ids, 2).query_ids.size == 2
    assert group_queries(np.array([10**20, 10**20 + 1], dtype=object), 2).query_ids.tolist()[0] == str(10**20)


def test_no_qid_is_one_query():
    data = QueryData.from_arrays([[1.0], [2.0]], [0, 1])
    assert data.offsets.tolist() == [0, 2]
    assert data.qid.tolist() == [0, 0]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("as_sparse", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 7])
def test_first_value_that_is_not_finite_is_found(monkeypatch, value, as_sparse, dtype, width):
    monkeypatch.setattr("structsvm.common.row_checks._CHUNK_BYTES", 64)
    X = np.ones((50, width), dtype=dtype)
    X[::3] = 0
    assert first_beyond(sparse.csr_matrix(X) if as_sparse else X) is None
    for row in (0, 17, 49):
        Z = X.copy()
        Z[row, width // 2] = value
        Z[49, width - 1] = value
        place = (row, width // 2)
        assert first_beyond(np.asfortranarray(Z)) == place
        Z = sparse.csr_matrix(Z) if as_sparse else Z
        assert first_beyond(Z) == place
        shown = "NaN" if np.isnan(value) else f"{value}inity"
        rejected(
            rf"X\[{row}, {place[1]}\]: expected a finite number, got {shown};",
            QueryData.from_arrays,
            Z,
            np.zeros(50),
        )


def test_large_finite_values_are_finite():
    X = np.full((10, 3), np.finfo(np.float64).max)
    assert first_beyond(X) is None
    assert first_beyond(np.float32(X[:, :1] / 1e290)) is None
    assert first_beyond(np.zeros((3, 0))) is None


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_compiled_code_finds_the_ranges_that_numpy_finds(kind, monkeypatch):
    rng = np.random.default_rng(0)
    for _ in range(50):
        X = rng.choice([-1e30, -2.5, -0.0, 0.0, 1.5, 1e30], size=rng.integers(1, 9, 2)).astype(kind)
        strange = rng.random(X.shape) < rng.choice([0.0, 0.1])
        X[strange] = rng.choice([np.nan, np.inf, -np.inf], size=strange.sum())
        X.flags.writeable = bool(rng.integers(2))
        expected = column_ranges(X, missing=False)
        with monkeypatch.context() as patch:
            patch.setattr("structsvm.common.row_checks._MANY", 0)
            found = column_ranges(X, missing=False)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(expected, [X.min(axis=0), X.max(axis=0)])
        assert {one.dtype for one in found} == {np.dtype(np.float64)}
    assert first_beyond(sparse.csr_matrix((3, 2))) is None


def test_first_value_beyond_a_limit():
    X = np.array([[1.0, 2.0], [3.0, -4.0], [5.0, 0.0]])
    assert first_beyond(X, 5.0) is None
    assert first_beyond(X, 3.0) == (1, 1)
    assert first_beyond(sparse.csr_matrix(X), 4.0) == (2, 0)


def with_a_column_far_away():
    X = sparse.csr_matrix(np.eye(3))
    X.indices[1] = 1 << 30
    return X


test_faults = rejections(
    lambda change: QueryData.from_arrays(**{"X": np.zeros((3, 2)), "y": [0, 1, 0]} | change),
    ({"X": np.zeros((0, 2))}, "at least one row"),
    ({"X": np.zeros(3)}, "expected a matrix"),
    ({"y": [0, 1]}, "y: expected 3 labels"),
    ({"y": [0, np.nan, 1]}, r"y\[1\]: expected a finite label"),
    ({"qid": [1, 2]}, "qid: expected 3 ids"),
    ({"qid": [[1, 1], [2, 2], [3, 3]]}, "qid: expected one id per row"),
    ({"qid": [1.0, np.nan, 2.0]}, r"qid\[1\]: expected an int or a string, got nan"),
    ({"qid": [1.0, 2.5, 2.0]}, r"qid\[1\]: expected an int or a string, got 2.5"),
    ({"qid": [1.0, 2.0**53, 2.0]}, r"qid\[1\]: .*, got 9007199254740992.0; .*; read the ids as int64"),
    ({"qid": [1e20, 1.0, -1e20]}, r"qid\[0\]: expected an int or a string, got 1e\+20"),
    ({"qid": np.array([1, 2**24, 3], dtype=np.float32)}, r"qid\[1\]: .* got 16777216.0; .* equal in float32"),
    (
        {"qid": np.array(["2020", "2021", "NaT"], dtype="datetime64[Y]")},
        "qid: expected an int or a string, got date",
    ),
    ({"qid": np.array([1j, 2j, 3j])}, "qid: expected an int or a string, got complex128"),
    ({"qid": ["a", None, "b"]}, r"qid\[1\]: expected an int or a string, got None"),
    ({"qid": pd.Series(["a", pd.NA, "b"])}, r"qid\[1\]: expected an int or a string"),
    ({"docid": ["a"]}, "docid: expected 3 ids"),
    ({"X": with_a_column_far_away()}, r"X\.indices\[1\]: expected a column from 0 to 2, got 1073741824"),
)


@given(st.lists(st.integers(-4, 3), max_size=6))
def test_select_takes_queries_in_the_order_given(chosen):
    rng = np.random.default_rng(0)
    data = QueryData.from_arrays(
        rng.normal(size=(10, 2)), rng.random(10), [0, 0, 1, 2, 2, 2, 3, 3, 3, 3], docid=range(10)
    )
    part = data.select(chosen)
    rows = [i for q in chosen for i in range(data.offsets[q % 4], data.offsets[q % 4 + 1])]
    np.testing.assert_array_equal(part.X, data.X[rows])
    np.testing.assert_array_equal(part.y, data.y[rows])
    np.testing.assert_array_equal(part.docid, data.docid[rows])
    assert part.query_ids.tolist() == [q % 4 for q in chosen]
    assert part.offsets[-1] == len(rows)


def test_select_takes_masks_and_does_not_copy_neighbours():
    data = QueryData.from_arrays(np.ones((6, 2)), np.zeros(6), [0, 0, 1, 1, 2, 2])
    assert data.select([False, True, True]).query_ids.tolist() == [1, 2]
    assert np.shares_memory(data.select([1, 2]).X, data.X)
    assert "3 queries, 6 rows, 2 features, dense float64" in repr(data)


# -- indices that point outside ------------------------------------------------------------------------


def fits(X):
    """Return whether every index is inside the matrix, by loops."""
    n, m = X.shape
    if X.format == "coo":
        return all(0 <= i < n and 0 <= j < m for i, j in zip(X.row.tolist(), X.col.tolist(), strict=True))
    major, minor = (m, n) if X.format == "csc" else (n, m)
    if X.format == "bsr":
        major, minor = n // X.blocksize[0], m // X.blocksize[1]
    starts = X.indptr.tolist()
    if len(starts) != major + 1 or starts[0] != 0 or starts != sorted(starts):
        return False
    if starts[-1] > min(len(X.indices), len(X.data)):
        return False
    return all(0 <= j < minor for j in X.indices.tolist()[: starts[-1]])


@pytest.mark.parametrize("chunk", [8, 1 << 20])
@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr"])
def test_indices_are_refused_exactly_where_they_lead_out_of_the_matrix(monkeypatch, kind, chunk):
    monkeypatch.setattr("structsvm.common.row_checks._CHUNK_BYTES", chunk)
    rng = np.random.default_rng(0)
    seen = {True: 0, False: 0}
    for _ in range(300):
        n, m = (int(v) for v in rng.integers(1, 6, 2) * 2)
        X = sparse.random(n, m, 0.5, format=kind, random_state=rng)
        for name in ("row", "col") if kind == "coo" else ("indices", "indptr"):
            array = getattr(X, name)
            if array.size and rng.random() < 0.4:
                array[rng.integers(array.size)] = rng.integers(-2, 9)
        seen[fits(X)] += 1
        if fits(X):
            check_sparse(X)
        else:
            rejected(r"^X\.(indices|indptr|row|col)\[-?\d+\]: expected", check_sparse, X)
    assert min(seen.values()) > 50


def test_arrays_of_a_sparse_matrix_that_were_replaced_are_refused():
    X = sparse.csr_matrix(np.eye(3))
    X.indptr = X.indptr[:-1]
    rejected(r"X\.indptr: expected 4 entries", check_sparse, X)
    X = sparse.csr_matrix(np.eye(3))
    X.data = X.data[:-1]
    rejected(r"X\.indptr\[-1\]: expected at most 2, got 3", check_sparse, X)
    X = sparse.coo_matrix(np.eye(3))
    X.data = X.data[:-1]
    rejected("expected a row and a column for each of 2 values", check_sparse, X)
    check_sparse(np.eye(3))
    check_sparse(sparse.csr_matrix((0, 0)))


@pytest.mark.parametrize("offsets", [[], [1, 2], [0, 2, 1], [0, 4], [0.0, 1.0], [[0, 1]], [0, -1, 3]])
def test_offsets_that_lead_out_of_the_rows_are_refused(offsets):
    rejected(r"offsets.*: expected .*; the data are damaged", check_offsets, np.array(offsets), 3)


test_ids_that_could_become_one_are_refused = rejections(
    lambda qid: group_queries(qid, 2),
    ([1, "1"], r"qid\[1\]: expected an int, as before, got '1'; .* would be one id: convert all"),
    (["a", 2], r"qid\[1\]: expected a string, as before, got 2"),
    (np.array([1, "1"], dtype=object), r"qid\[1\]: expected an int"),
    ([1, True], r"qid\[1\]: expected an int or a string, got True"),
    ([np.bool_(True), 1], r"qid\[0\]: expected an int or a string, got True"),
    ([False, 10**30], r"qid\[0\]: expected an int or a string, got False"),
    (["a\0", "a"], r"qid\[0\]: expected an id without NUL at its end"),
    ([7], "qid: expected 2 ids, one for each row of X, got 1"),
    (True, "qid: expected one id per row"),
    (1.5, "qid: expected one id per row"),
    ("query", "qid='query': expected the query of each row, got a string; pass the values of the column"),
    (np.str_("a"), "expected the query of each row, got a string"),
)


@pytest.mark.parametrize("qid", [0, -3, np.int64(5)])
def test_one_int_is_that_of_all_rows(qid):
    grouping, array = group_queries(qid, 3), group_queries([qid] * 3, 3)
    assert grouping.offsets.tolist() == array.offsets.tolist() == [0, 3]
    assert grouping.query_ids.tolist() == array.query_ids.tolist() == [qid]
    assert grouping.order is None
