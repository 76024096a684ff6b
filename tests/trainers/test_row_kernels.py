"""Rows of every format: passes over them equal passes over a dense matrix."""

import numpy as np
import pytest
from scipy import sparse

from structsvm.features.coded_rows import BinnedRows
from structsvm.protocols import CompiledRows
from structsvm.trainers.row_kernels import rows_of, support_of
from tests.refusing import rejected

OFFSETS = np.array([0, 3, 4, 11, 20])
RNG = np.random.default_rng(0)
MATRIX = RNG.integers(-4, 5, size=(20, 7)) * (RNG.random((20, 7)) < 0.6)
FORMATS = {
    "float64": MATRIX.astype(np.float64),
    "float32": MATRIX.astype(np.float32),
    "read-only": MATRIX.astype(np.float64),
    "csr_matrix": sparse.csr_matrix(MATRIX.astype(np.float64)),
    "csr_array": sparse.csr_array(MATRIX.astype(np.float32)),
    "binned": BinnedRows(RNG.integers(0, 4, (20, 2)).astype(np.uint8), np.array([0, 4, 7])),
}
FORMATS["read-only"].setflags(write=False)


def dense(X):
    if isinstance(X, BinnedRows):
        X = X.tocsr()
    return X.toarray() if sparse.issparse(X) else X


@pytest.mark.parametrize("name", FORMATS)
def test_the_three_kernels_equal_the_products_they_stand_for(name):
    X = FORMATS[name]
    rows, plain = rows_of(X), dense(X)
    assert isinstance(rows, CompiledRows)
    assert rows.shape == plain.shape
    scores, combine, query_joint = rows.row_kernels
    w, coef, weights = RNG.normal(size=7), RNG.normal(size=17), RNG.random(4)
    first, last = 1, 4
    out = np.full(17, np.nan)
    scores(*rows.row_arrays, 3, 20, w, out)
    assert out == pytest.approx(plain[3:] @ w, abs=1e-12)
    joint = np.ones(7)
    combine(*rows.row_arrays, OFFSETS, first, last, weights, coef, joint)
    per_row = np.repeat(weights[1:], np.diff(OFFSETS)[1:])
    assert joint == pytest.approx(1 + plain[3:].T @ (coef * per_row), abs=1e-12)
    parts = np.full((3, 7), np.nan)
    query_joint(*rows.row_arrays, OFFSETS, first, last, coef, parts)
    for q in range(3):
        a, b = OFFSETS[q + 1], OFFSETS[q + 2]
        assert parts[q] == pytest.approx(plain[a:b].T @ coef[a - 3 : b - 3], abs=1e-12)


def test_rows_are_not_copied_and_compiled_rows_are_returned_as_they_are():
    assert rows_of(FORMATS["float32"]).row_arrays[0] is FORMATS["float32"]
    assert rows_of(FORMATS["binned"]) is FORMATS["binned"]
    X = FORMATS["csr_matrix"]
    for ours, given in zip(rows_of(X).row_arrays, (X.data, X.indices, X.indptr), strict=True):
        assert ours is given


def test_only_wide_sparse_rows_say_which_features_a_query_touches():
    for X in FORMATS.values():
        assert support_of(rows_of(X), OFFSETS) is None
    wide = sparse.random(20, 300, density=0.05, random_state=0, format="csr")
    start, features = support_of(rows_of(wide), OFFSETS)
    assert support_of(rows_of(wide.toarray()), OFFSETS) is None
    for q in range(4):
        touched = np.unique(wide[OFFSETS[q] : OFFSETS[q + 1]].indices)
        assert features[start[q] : start[q + 1]].tolist() == touched.tolist()


def test_another_sparse_format_is_refused_with_the_remedy():
    rejected(
        r"X: expected a dense array or a CSR matrix, got format 'csc'; use X\.tocsr",
        rows_of,
        sparse.csc_matrix(MATRIX.astype(float)),
    )
