"""``structsvm predict``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from structsvm.cli.dask import Dask, connecting, predict_there
from structsvm.cli.files import (
    Data,
    Jobs,
    Table,
    by_name,
    check_file,
    check_input,
    check_output,
    is_stdout,
    is_table,
    naming,
    read_data,
    write_lines,
)
from structsvm.cli.terminal import note


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model that train wrote.")],
    data: Data,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The scores to write, one per line; - prints them."),
    ],
    *,
    columns: Table,
    jobs: Jobs = -1,
    dask: Dask = None,
) -> None:
    """Score each row of DATA, in the order of its rows (for a store: of the text it was made of); higher is better.

    The scaling of the model is applied. Columns of a table are found by the names that the model knows. Features
    missing in a text file are 0.
    """
    sources = [check_file(model), check_input(data)]
    if not is_stdout(output):
        check_output(output, sources)

    import numpy as np
    from sklearn.utils import get_tags

    import structsvm

    ranker = structsvm.load(model)
    if not (hasattr(ranker, "rank") and hasattr(ranker, "predict")):
        raise ValueError(f"{model}: expected a ranker, got a {type(ranker).__name__}; train one first")
    n_features = ranker.n_features_in_
    if dask is not None:
        with connecting(dask) as client:
            parts = predict_there(client, ranker, data, columns)
            write_lines(output, (repr(score) for scores in parts for score in scores.tolist()))
        return
    known = getattr(ranker, "feature_names_in_", None)
    names = None if known is None else tuple(map(str, known))
    if data.is_dir() or is_table(data):
        rows = read_data(data, columns, fill=columns.fill, features=names, labels=False)
        rows = by_name(rows, names, data)
        if rows.n_features != n_features:
            raise ValueError(f"{data}: expected {n_features} features, as {model} has, got {rows.n_features}")
    else:
        # neither scaling nor trees take sparse rows
        dense = getattr(ranker, "scaler_", None) is not None or not get_tags(ranker).input_tags.sparse
        sparse = False if dense else None
        rows = read_data(
            data, columns, fill=columns.fill, labels=False, sparse=sparse, n_features=n_features, n_jobs=jobs
        )
        width = _width(rows.X)
        if width < n_features:
            note(
                f"warning: {data}: features up to {width}, of the model's {n_features}; the others count as 0"
            )
    with naming(data), warnings.catch_warnings():
        # they were read by name, or the data have none
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        scores = ranker.predict(rows.X, qid=rows.qid)
    if rows.order is not None:
        in_file = np.empty_like(scores)
        in_file[rows.order] = scores
        scores = in_file
    write_lines(output, map(repr, scores.tolist()))


def _width(X: Any) -> int:
    """Return the number of the highest feature that is not 0 everywhere."""
    for j in range(X.shape[1], 0, -1):
        column = X[:, j - 1]
        if column.any() if hasattr(column, "any") else column.nnz:
            return j
    return 0
