"""Tables to train on: a model stores the words of their columns and the values that replace missing features.

The names of features (``brand=acme``) show which columns are categorical: ``predict`` needs no further information.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from structsvm.cli import paths
from structsvm.cli.files import Table, by_name, read_data, split_names
from structsvm.cli.terminal import note
from structsvm.common.checks import BadInput, counted
from structsvm.common.tables.source import Source

if TYPE_CHECKING:
    from structsvm.protocols import Float
    from structsvm.queries import QueryData


@dataclass(frozen=True)
class TrainingTable(Table):
    """A table to train on: which columns are categorical, and whether medians replace missing values."""

    categorical: Annotated[
        list[str] | None,
        "Columns of words in a table: a,b, or repeated. Each of their values becomes a feature called "
        "column=value; for a value that is not in the training data, all features of its column are 0.",
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.categorical is not None and self.zero_based:
            problem = "expected LETOR text, but --categorical requires a table"
            raise BadInput("--zero-based", problem)

    @property
    def learned_fill(self) -> float | Literal["median"] | None:
        """The value that replaces missing features, or ``"median"``."""
        return "median" if self.missing == "median" else self.fill

    def options(self, *, labels: bool = True, queries: bool = True) -> dict[str, Any]:
        """Return the arguments of a reader that differ from its defaults, and the categorical columns."""
        words = None if self.categorical is None else split_names(self.categorical)
        return super().options(labels=labels, queries=queries) | (
            {} if words is None else {"categorical": words}
        )

    def read_to_train(
        self, data: Path | Source, *, keep: bool = False, **options: Any
    ) -> tuple[QueryData, dict[str, Any]]:
        """Return the rows, and the data that a model stores for prediction; with ``keep`` missing features stay NaN."""
        from structsvm.features.scaling import filled, medians, missing

        source = paths.source_at(data)
        learned = self.missing == "median"
        fill: Any = "keep" if learned or keep else self.fill
        named = self.options()
        if (words := named.pop("categorical", None)) is None:
            rows = read_data(source, self, fill=fill, **options)
        else:
            from structsvm.readers.categories import read_to_train

            if not source.is_table:
                raise BadInput("categorical", f"requires a table, got {source}")
            rows = read_to_train(source, words, **named, **_filling(fill))
        if not learned:
            return rows, {}
        values = medians(rows, source.path)
        return filled(rows, values), {"fill": values, "missing": missing(rows)}


def kept_medians(model: object) -> Float | None:
    """Return the medians that replaced missing features in the training of a model; None if there are none."""
    medians: Float | None = getattr(model, "table_", {}).get("fill")
    return medians


def with_medians(rows: QueryData, model: object) -> QueryData:
    """Return the rows with missing features replaced by the medians of the model's training data, if it has any."""
    from structsvm.features.scaling import filled

    medians = kept_medians(model)
    return rows if medians is None else filled(rows, medians)


def fill_of(model: object, table: Table) -> float | Literal["keep"] | None:
    """Return the ``fill`` to read rows for a model: "keep" if the model or its medians handle missing features."""
    from sklearn.utils import get_tags

    if table.missing not in (None, "median"):
        return table.fill
    if kept_medians(model) is not None:
        return "keep"
    if table.missing == "median":
        raise BadInput("--fill median", "expected a model trained with medians, got one without")
    return "keep" if get_tags(model).input_tags.allow_nan else None


def _filling(fill: object) -> dict[str, Any]:
    """Return the argument of a table reader for missing features."""
    return {} if fill is None else {"fill": math.nan if fill == "keep" else fill}


def read_as_trained(
    source: Source,
    table: Table,
    wanted: Sequence[str],
    categories: Mapping[str, list[Any]],
    *,
    fill: object,
    queries: bool = True,
) -> QueryData:
    """Read the features of a model from a table, including those that stand for the values of a column; report values
    that did not occur in training.

    If a model has learned ``categories`` from a frame, the values in the column of the table are replaced by the
    numbers of their categories. Labels are optional, and query ids with ``queries=False``.
    """
    from structsvm.readers.categories import columns_of, read_categories

    known = columns_of(source)
    numbers = {
        name: {str(one): k for k, one in enumerate(categories[name])} for name in categories if name in known
    }

    def unknown(column: str, n_rows: int, example: str) -> None:
        taken = "it counts as missing" if column in numbers else "all features of that column are 0"
        note(
            f"warning: {source}: {counted(row=n_rows)} with a {column!r} that did not occur in training, such as "
            f"{example!r:.60}; {taken} in these rows"
        )

    paths.check_text(source, table.zero_based)
    named = table.options(labels=False, queries=queries)
    named.pop("features", None)
    return read_categories(source, wanted, places=numbers, unknown=unknown, **named, **_filling(fill))


def read_for_model(
    data: Path | Source,
    table: Table,
    model: Any,
    *,
    fill: Any = None,
    queries: bool = True,
    **options: Any,
) -> QueryData:
    """Read rows with the features of a model: by name if the model has names; by default with the ``fill`` of its
    training. With ``queries=False`` a table needs no query ids."""
    source = paths.source_at(data)
    fill = fill_of(model, table) if fill is None else fill
    known = getattr(model, "feature_names_in_", None)
    names = None if known is None else tuple(map(str, known))
    if source.is_table and names is not None:
        if table.names and set(table.names) != set(names):
            note("warning: --features has no effect, as the model stores the names of its features")
        categories = getattr(model, "categories_", {})
        rows = read_as_trained(source, table, names, categories, fill=fill, queries=queries)
    else:
        read = read_data(source, table, fill=fill, labels=False, queries=queries, **options)
        rows = by_name(read, names, source.path)
    if rows.n_features != model.n_features_in_:
        problem = f"expected {counted(feature=model.n_features_in_)}, as the model has, got {rows.n_features}"
        raise BadInput(source.path, problem)
    return rows
