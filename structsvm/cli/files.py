"""Data, scores, runs and models of the commands: what is read, and how a result is written."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import typer

import structsvm
from structsvm import readers
from structsvm.cli import paths
from structsvm.cli.groups import Group
from structsvm.cli.terminal import note
from structsvm.common.checks import BadInput, counted, first_few
from structsvm.common.files import plain_float, read_lines, shorten, unpacked
from structsvm.common.names import QID
from structsvm.common.tables.source import Source
from structsvm.common.user_warnings import ordered_columns

if TYPE_CHECKING:
    from structsvm.protocols import Float
    from structsvm.queries import QueryData


_LONGEST_NUMBER = 1100
"""Maximum length of a number: the longest exact decimal of a float64 has 1,077 characters."""


def split_names(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the names of an option that takes several, separated by commas or repeated."""
    return tuple(name.strip() for text in texts for name in text.split(","))


Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="LETOR/SVMlight text (plain, gzip, bzip2, xz; - is the standard input), a table with named columns (a "
        ".csv or .tsv file; a Parquet file, a folder of them, or a pattern in quotes), or a store.",
        callback=paths.stdin_as_path,
    ),
]


@dataclass(frozen=True)
class Ids(Group):
    """Names of the columns of a table that hold labels and ids."""

    label: Annotated[str, "Column of the labels in a table."] = "label"
    qid: Annotated[str, "Column of the query ids in a table."] = QID
    docid: Annotated[str, "Column of the document ids in a table, if there is one."] = "docid"

    @property
    def names(self) -> tuple[str, ...] | None:
        """The columns of features; None for all columns without another role."""
        return None

    def options(self, *, labels: bool = True, queries: bool = True) -> dict[str, Any]:
        """Return the arguments of a reader that differ from its defaults; labels and query ids may be optional."""
        values = {"label": self.label, "qid": self.qid, "docid": self.docid, "features": self.names}
        needed = {"label": labels, QID: queries}
        optional = {name: None for name in needed if not needed[name] and values[name] == name}
        return {name: value for name, value in values.items() if value not in (name, None)} | optional


@dataclass(frozen=True)
class Columns(Ids):
    """The columns of a table, and the numbers of the features of LETOR text."""

    zero_based: Annotated[
        bool,
        typer.Option(
            "--zero-based",
            help="Features of LETOR text are numbered from 0; options and messages number them from 1.",
        ),
    ] = False

    def options(self, *, labels: bool = True, queries: bool = True) -> dict[str, Any]:
        """Return the arguments of a reader that differ from its defaults; labels and query ids may be optional."""
        return super().options(labels=labels, queries=queries) | (
            {"one_based": False} if self.zero_based else {}
        )


@dataclass(frozen=True)
class Table(Columns):
    """The columns of a table, and the value for missing features."""

    features: Annotated[
        list[str] | None,
        "Columns of the features in a table: a,b,c, or repeated. (default: all other columns)",
    ] = None
    missing: Annotated[
        str | None,
        typer.Option(
            "--fill",
            metavar="NUMBER",
            help="Value for missing features ('nan' in text, empty cells in tables). Without it they are an error, "
            "except for trees. train, search and compare also take median: the median of each feature in training, "
            "which predict uses, too. convert also takes nan: the features stay missing, for trees.",
        ),
    ] = None

    takes_nan: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.missing not in (None, "median"):
            _ = self.fill
        names = self.names
        if names is not None and (not all(names) or len(set(names)) < len(names)):
            raise BadInput(
                f"--features {','.join(names)}",
                "expected distinct names separated by commas, such as bm25,age",
            )

    @property
    def names(self) -> tuple[str, ...] | None:
        """The columns of features; None for all columns without another role."""
        return None if self.features is None else split_names(self.features)

    @property
    def fill(self) -> float | None:
        """The number that replaces missing features."""
        if self.missing is None:
            return None
        try:
            value = float(self.missing)
            if math.isinf(value) or (math.isnan(value) and not self.takes_nan):
                raise ValueError
        except ValueError:
            learned = "a number; only train, search and compare learn medians"
            expected = learned if self.missing == "median" else "a finite number or, for train, median"
            raise BadInput(f"--fill {self.missing}", f"expected {expected}") from None
        return value

    def read(self, source: Path | Source, **options: Any) -> QueryData:
        """Read a store, a table or LETOR text, as :func:`read_data` does."""
        return read_data(source, self, fill=self.fill, **options)


def read_data(
    source: Path | Source,
    columns: Ids | None = None,
    *,
    fill: float | Literal["keep"] | None = None,
    features: Sequence[str] | None = None,
    labels: bool = True,
    queries: bool = True,
    **options: object,
) -> QueryData:
    """Read a store, text with the ``options`` that are not None, or the ``columns`` of a table.

    In a table ``features`` replaces the features of ``columns``. With ``labels=False`` labels are optional, and with
    ``queries=False`` the query ids of a table. With ``fill="keep"`` missing features are NaN.
    """
    source = paths.source_at(source)
    named = (columns or Ids()).options(labels=labels, queries=queries or not source.is_table)
    if source.kind not in ("text", "stream"):
        # the features of the model override the option
        options = {"features": features} if source.is_table and features is not None else {}
    if fill == "keep":  # stores keep NaN, too
        fill = None if source.kind == "store" else math.nan
    given = {k: v for k, v in {"fill": fill, **options}.items() if v is not None}
    try:
        return readers.read_queries(source, **(named | given))
    except BadInput as error:
        # the file may be a table with another suffix, whose first line holds the names of columns
        if error.argument == f"{source}:1" and error.problem.startswith("expected '<") and not error.remedy:
            raise BadInput(
                error.argument,
                error.problem,
                "a table has to be a file whose name ends in .csv, .tsv or .parquet",
            ) from None
        raise


def by_name(rows: QueryData, names: Sequence[str] | None, path: Path) -> QueryData:
    """Return the rows with the features of a model, in its order, if both have names; warn if the model has no
    names."""
    if names is None and rows.feature_names is not None:
        first = first_few(map(repr, rows.feature_names), 3)
        note(
            f"warning: {path}: the model was trained without feature names; {first} are matched by their order"
        )
    if names is None or rows.feature_names is None or list(rows.feature_names) == list(names):
        return rows
    at = {name: j for j, name in enumerate(rows.feature_names)}
    missing = [name for name in names if name not in at]
    if missing:
        raise BadInput(
            path,
            f"expected the features of the model, got none called {missing[0]!r}",
            "give the columns the same names",
        )
    return dataclasses.replace(rows, X=rows.X[:, [at[name] for name in names]], feature_names=tuple(names))


def load_ranker(path: Path) -> Any:
    """Read a model that scores rows."""
    model = structsvm.load(paths.check_input(path))
    if not (hasattr(model, "rank") and hasattr(model, "predict")):
        raise BadInput(path, f"expected a model of train or search, got a {type(model).__name__}")
    return model


def predicted(model: Any, rows: QueryData, path: Path) -> Float:
    """Return the scores of the rows of a file; its columns must be in the order of the model's features."""
    with naming(path), ordered_columns():
        return np.asarray(model.predict(rows.X, qid=rows.qid))


def keep_names(model: Any, rows: QueryData) -> None:
    """Set the names of the features that a fitted model was trained on."""
    if rows.feature_names is not None:
        model.feature_names_in_ = np.array(rows.feature_names, dtype=object)


@contextlib.contextmanager
def naming(path: Path, *more: str) -> Iterator[None]:
    """Name the file in errors about ``X``, ``y``, ``qid`` and other data that were read from it."""
    try:
        yield
    except BadInput as error:
        if error.argument.partition(".")[0] in ("X", "y", "qid", *more):  # also if the argument is X.indices
            raise error.within(path) from None
        raise


def read_scores(path: Path) -> tuple[Float, list[tuple[str, str]] | None]:
    """Read one number per line, finite or ``-inf`` ("not retrieved"); or a table of ``predict``, with its ids."""
    source = paths.source_at(path)
    if source.kind == "parquet" or (source.kind != "stream" and "," in next(read_lines(path), (1, ""))[1]):
        from structsvm.readers.tables import read_rows

        rows, _ = read_rows(source, label="score", features=())
        in_file = slice(None) if rows.order is None else np.argsort(rows.order)
        assert rows.y is not None, "a column of scores is required"
        if rows.docid is None:
            return rows.y[in_file], None
        columns = (np.asarray(column)[in_file].astype(str).tolist() for column in (rows.qid, rows.docid))
        return rows.y[in_file], list(zip(*columns, strict=True))
    scores: list[float] = []
    for number, line in read_lines(paths.check_file(path)):
        word = line.strip()
        try:
            score = plain_float(word)
            is_number = math.isfinite(score) or word.lower() in ("-inf", "-infinity")
            if not is_number or len(word) > _LONGEST_NUMBER:
                raise ValueError
        except ValueError:
            remedy = (
                "a TREC run is evaluated with judgments instead of rows: structsvm evaluate QRELS RUN"
                if len(line.split()) == 6
                else "write one score per line, or predict again"
            )
            raise BadInput(
                f"{path}:{number}",
                f"expected one finite number, the score of row {number} (or -inf: not retrieved), got "
                f"{shorten(line)}",
                remedy,
            ) from None
        scores.append(score)
    if not scores:
        raise BadInput(path, "expected one score per line, got an empty file", "predict again")
    return np.array(scores), None


def names_of_runs(files: Sequence[Path], tags: Sequence[str]) -> list[str]:
    """Return the tag of each run, or the name of its file if runs share a tag."""
    uses = Counter(tags)
    names = [tag if uses[tag] == 1 else unpacked(path.name) for tag, path in zip(tags, files, strict=True)]
    for name, n in Counter(names).items():
        if n > 1:
            first, second, *_ = (path for path, other in zip(files, names, strict=True) if other == name)
            raise BadInput(
                second,
                f"expected a tag or file name other than that of {first}, got {name[:60]!a} in both",
                "rename one of the files",
            )
    return names


def read_names(path: Path) -> list[str]:
    """Read names, one per line, without surrounding blanks; blank lines are skipped."""
    return [line.strip() for _, line in read_lines(paths.check_file(path)) if line.strip()]


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
            raise BadInput("--zero-based", "expected LETOR text, but --categorical requires a table")

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
        raise BadInput(
            source.path,
            f"expected {counted(feature=model.n_features_in_)}, as the model has, got {rows.n_features}",
        )
    return rows
