"""Real data in the form of rankings: the digits of scikit-learn, and data sets of the package ir_datasets."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structsvm import readers  # its names load on first use
from structsvm.common.checks import BadInput, check_whole
from structsvm.common.extras import needed
from structsvm.common.files import new_folder
from structsvm.queries import QueryData


def digit_pairs(queries: NDArray[np.int64], candidates: NDArray[np.int64]) -> QueryData:
    """Return the task of finding images of the same digit among the candidates.

    The features are the absolute differences of the pixels, and a candidate with the same digit is relevant.
    """
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = (digits.images / 16.0).reshape(-1, 64).astype(np.float32)
    X = np.abs(images[queries][:, None, :] - images[candidates][None, :, :]).reshape(-1, 64)
    y = (digits.target[queries][:, None] == digits.target[candidates][None, :]).astype(np.float64).ravel()
    names = tuple(f"pixel {i},{j}" for i in range(1, 9) for j in range(1, 9))
    return QueryData.from_arrays(X, y, np.repeat(queries, candidates.shape[0]), feature_names=names)


def write_digits(path: Path, *, n_queries: int, n_docs: int, random_state: int) -> None:
    """Write the task for random images of scikit-learn's digits as LETOR text."""
    for name, value in (("n_queries", n_queries), ("n_docs", n_docs)):
        check_whole(name, value, 1, 800)
    order = np.random.default_rng(random_state).permutation(1797)
    readers.write_letor(digit_pairs(order[:n_queries], order[n_queries : n_queries + n_docs]), path)


def write_ir_dataset(path: Path, *, id: str) -> None:
    """Write the judgments, and the run if there is one, of a data set of ir_datasets."""
    with needed("ir_datasets", "ir-datasets"):
        import ir_datasets  # type: ignore[import-not-found]
    try:
        found: Any = ir_datasets.load(id)
    except KeyError:
        raise BadInput(
            "id", "expected a name of ir_datasets, such as 'msmarco-passage/trec-dl-2020/judged'", value=id
        ) from None
    if not found.has_qrels():
        raise BadInput("id", "expected a data set with judgments", value=id)
    with new_folder(path) as part:
        judged = zip(*((q.query_id, q.doc_id, q.relevance) for q in found.qrels_iter()), strict=True)
        readers.write_qrels(readers.Qrels.from_arrays(*judged), part / "qrels.txt")
        if found.has_scoreddocs():
            scored = zip(*((s.query_id, s.doc_id, s.score) for s in found.scoreddocs_iter()), strict=True)
            (part / "runs").mkdir()
            run = readers.Run.from_arrays(*scored, tag="scoreddocs")
            readers.write_run(run, part / "runs" / "scoreddocs.run")
