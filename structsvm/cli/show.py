"""``structsvm show``: a model card, with the weights of a model or the features of its trees."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np

import structsvm
from structsvm.cli import paths
from structsvm.cli.explain import feature_lines, feature_names, read_rows
from structsvm.cli.files import Table, load_ranker
from structsvm.cli.options import AsJson
from structsvm.cli.terminal import emit, note
from structsvm.common.checks import BadInput
from structsvm.common.user_warnings import ordered_columns


def show(
    model: Annotated[Path, "<MODEL> A saved model."],
    rows: Annotated[Path | None, "Labelled rows on which to compute permutation importances."] = None,
    measure: Annotated[str, "Measure for the importances, one of {measures}."] = "ndcg@10",
    as_json: AsJson = False,
    *,
    columns: Table,
) -> None:
    """Show when and on what MODEL was trained, its measure and estimate, and its weights or the features of its trees.

    scaled is the weight of the feature as scaled by the model, which makes features comparable; raw is the weight of
    the original feature, the amount that one unit of it adds to the score. For trees: the number of splits, and the
    range of scores that trees and bins using only this feature add. low and high are the range in training.
    """
    from structsvm.export.card import model_card

    ranker = structsvm.load(paths.check_input(model))
    kept = getattr(ranker, "training_data_", None) or {}
    card = [f"{topic:10} {text}" for topic, text in model_card(ranker).items()]
    record = {"model": type(ranker).__name__, "card": model_card(ranker), "training_data": kept}
    if rows is None and not hasattr(ranker, "rank"):  # a model that selects from sets
        emit(card, record, as_json)
        return
    ranker = load_ranker(model)
    table = _of_trees(ranker) if hasattr(ranker, "leaves_") else _of_linear(ranker)
    if rows is not None:
        from structsvm.features.scaling import filled
        from structsvm.metrics.importance import permutation_importance

        data = filled(*read_rows(rows, columns, ranker))
        if data.y is None:
            raise BadInput(rows, "expected labels, got none", "importance is the drop of a measure")
        with ordered_columns():
            result = permutation_importance(
                ranker, data.X, data.y, qid=data.qid, measure=measure, random_state=0
            )
        for entry, value in zip(table, result.mean.tolist(), strict=True):
            entry["importance"] = value
    for entry, low, high in zip(table, kept.get("low", ()), kept.get("high", ()), strict=False):
        entry |= {"low": low, "high": high}
    numbers = [name for name in table[0] if name != "feature"]
    table.sort(key=lambda entry: -abs(entry["importance" if rows is not None else numbers[0]]))
    emit([*card, "", *feature_lines(table, numbers)], record | {"features": table}, as_json)


def _of_linear(ranker: Any) -> list[dict[str, Any]]:
    from structsvm.export import linear_form

    form = linear_form(ranker)
    if form.within_query:
        note("the model scales within queries, so raw features have no weights")
    raw = {} if form.within_query else {"raw": form.raw_weights.tolist()}
    return _rows({"feature": list(form.names), "scaled": form.weights.tolist()} | raw)


def _of_trees(ranker: Any) -> list[dict[str, Any]]:
    from structsvm.export.trees import valued_forest

    forest, names = ranker.leaves_.forest_, feature_names(ranker)
    valued = valued_forest(ranker, tuple(names))
    splits = np.bincount(forest.feature, minlength=len(names))
    alone = np.zeros(len(names))  # range of scores from trees that use only this feature
    for t in range(valued.forest.n_trees):
        used = np.unique(valued.forest.feature[valued.forest.nodes[t] : valued.forest.nodes[t + 1]])
        if len(used) == 1:
            alone[used[0]] += np.ptp(valued.values[valued.forest.leaves[t] : valued.forest.leaves[t + 1]])
    return _rows({"feature": names, "splits": splits.tolist(), "range alone": alone.tolist()})


def _rows(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, one, strict=True)) for one in zip(*columns.values(), strict=True)]
