"""Baselines that are not trained: a feature, a saved model or a TREC run, measured on the same queries as the
methods."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from structsvm import readers
from structsvm.cli.files import by_name, load_ranker, predicted, with_medians
from structsvm.cli.studies.folds.folds import Fill, Fold, load_fold
from structsvm.common.checks import BadInput
from structsvm.common.files import is_model
from structsvm.estimators.weight_constraints import numbered_signs
from structsvm.metrics.evaluation import evaluate_part
from structsvm.protocols import Float
from structsvm.queries import QueryData, dense_column, row_groups


def measure_fixed(
    baseline: str,
    folds: Sequence[Fold],
    part: str,
    names: Sequence[str],
    fill: Fill,
    columns: Mapping[str, Any],
    **rules: Any,
) -> tuple[str, list[tuple[QueryData, dict[str, Float]]]]:
    """Return the name of a baseline, and the ``part`` of each fold, ``"validation"`` or ``"test"``, with one value per
    query for each measure.

    For a feature, measures are averaged over the orders of ties, as a file may list relevant documents first.
    """
    parts = [getattr(load_fold(fold, fill, columns), part) for fold in folds]
    score, name = _scorer(baseline, parts[0])
    rules |= {"ties": "average"} if name != baseline else {}
    return name, [
        (
            one,
            {each: evaluate_part(each, one.y, own, qid=one.qid, **rules).result.per_query for each in names},
        )
        for one, own in zip(parts, map(score, parts), strict=True)
    ]


def _scorer(baseline: str, first: QueryData) -> tuple[Callable[[QueryData], Float], str]:
    """Return the function that scores rows, and the name of the baseline, which begins with "feature" for a feature."""
    path = Path(baseline)
    if path.is_file():
        return (_by_model(path) if is_model(path) else _by_run(path)), baseline
    try:
        ((at, _),) = numbered_signs({baseline: 1}, first.n_features, first.feature_names).items()
    except BadInput as error:
        raise BadInput(
            "baseline",
            f"expected a method of the comparison, a feature from 1 to {first.n_features} or its name, or the file of "
            "a model or a TREC run",
            error.remedy,
            value=baseline,
        ) from None

    def score(part: QueryData) -> Float:
        column = dense_column(part.X, at).astype(np.float64)
        return np.where(np.isnan(column), -np.inf, column)  # a missing score ranks last

    return score, f"feature {at + 1 if first.feature_names is None else first.feature_names[at]}"


def _by_model(path: Path) -> Callable[[QueryData], Float]:
    ranker = load_ranker(path)
    names = getattr(ranker, "feature_names_in_", None)

    def score(part: QueryData) -> Float:
        return predicted(ranker, with_medians(by_name(part, names, path), ranker), path)

    return score


def _by_run(path: Path) -> Callable[[QueryData], Float]:
    run = readers.read_run(path)
    topics = np.asarray(run.topics).astype(str)[row_groups(run.offsets)].tolist()
    keys_of_run = zip(topics, map(str, run.docid.tolist()), strict=True)
    known = dict(zip(keys_of_run, run.scores.tolist(), strict=True))

    def score(part: QueryData) -> Float:
        if part.docid is None:
            raise BadInput(
                path, "expected rows with document ids for a run, got none", "name their column with --docid"
            )
        keys = zip(part.qid.astype(str).tolist(), part.docid.astype(str).tolist(), strict=True)
        scores = np.array([known.get(key, -math.inf) for key in keys])
        if not np.isfinite(scores).any():
            raise BadInput(path, "expected a run with queries and documents of DATA, got only others")
        return scores

    return score
