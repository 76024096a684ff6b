"""Rows in stores, sets and bytes whose indices lead out of the matrix; test_input_rows.py has those of estimators."""

import numpy as np
import pytest
from scipy import sparse

from structsvm import (
    SVMMap,
)
from structsvm.candidates import CandidateSet, check_labels
from structsvm.features.coded_rows import BinnedRows
from structsvm.readers import make_ranking, open_store, write_store

DATA = make_ranking(8, 6, 3, noise=0.2)
SPOILED = r"X\.ind(ices|ptr)\[-?\d+\]: expected .*; the data are damaged"


def rows(spoiled=True):
    X = sparse.csr_matrix(DATA.X)
    if spoiled:
        X.indices[5] = 10**7
    return X


def test_a_store_with_indices_out_of_range_is_not_trained_on(tmp_path, monkeypatch):
    import dataclasses

    from structsvm.readers import store

    data = dataclasses.replace(DATA, X=rows(spoiled=False))
    write_store(data, tmp_path / "a.store")
    raw = bytearray((tmp_path / "a.store" / "indices.npy").read_bytes())
    raw[-4:] = np.int32(10**6).tobytes()
    (tmp_path / "a.store" / "indices.npy").write_bytes(raw)
    with pytest.raises(ValueError, match=r"indices\.npy: expected the array that was written.*checksum"):
        open_store(tmp_path / "a.store")
    monkeypatch.setattr(store, "_CHEAP_BYTES", 0)  # as if it were large
    damaged = open_store(tmp_path / "a.store")
    with pytest.raises(ValueError, match=SPOILED):
        SVMMap().fit(damaged.X, damaged.y, qid=damaged.qid)


def test_candidate_sets_refuse_indices_out_of_range():
    with pytest.raises(ValueError, match=r"indices\[5\]: expected a column"):
        CandidateSet(abs(rows()))
    with pytest.raises(ValueError, match=r"features\.indices\[5\]: expected a column"):
        CandidateSet(["a"] * DATA.n_rows, features=rows())
    with pytest.raises(ValueError, match=r"labels\[0\]\.indices\[5\]: expected a column"):
        check_labels([rows()])


def test_binned_rows_refuse_codes_that_lead_out_of_their_function():
    codes, starts = np.array([[2, 0], [1, 3]], dtype=np.uint8), np.array([0, 2, 5])
    assert BinnedRows(codes, starts)[1:].codes.tolist() == [[1, 3]]
    for bad in ([[3, 0], [1, 3]], [[2, 0], [1, 4]]):
        with pytest.raises(ValueError, match=r"codes\[\d, \d\]: expected a count of edges up to \d"):
            BinnedRows(np.array(bad, dtype=np.uint8), starts)
    for bad in ([0, 2], [0, 6, 5], [1, 2, 5]):
        with pytest.raises(ValueError, match="starts"):
            BinnedRows(codes, np.array(bad))
