"""Files of the commands: checks before the work starts, reading, and atomic writing."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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
from structsvm.common.checks import BadInput
from structsvm.common.files import read_lines, shorten, unpacked
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
            problem = "expected distinct names separated by commas, such as bm25,age"
            raise BadInput(f"--features {','.join(names)}", problem)

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
    """Read a store or text with the ``options`` that are not None, or the ``columns`` of a table.

    In a table ``features`` replaces the features of ``columns``. With ``labels=False`` labels are optional, and with
    ``queries=False`` the query ids of a table. With ``fill="keep"`` missing features are NaN.
    """
    source = paths.source_at(source)
    named = (columns or Ids()).options(labels=labels, queries=queries or not source.is_table)
    if source.is_table:
        # the features of the model override the option
        options = {} if features is None else {"features": features}
    if fill == "keep":  # stores keep NaN, too
        fill = None if source.kind == "store" else math.nan
    given = {k: v for k, v in {"fill": fill, **options}.items() if v is not None}
    try:
        return readers.read_queries(source, **(named | given))
    except BadInput as error:
        # the file may be a table with another suffix, whose first line holds the names of columns
        if error.argument == f"{source}:1" and error.problem.startswith("expected '<") and not error.remedy:
            remedy = "a table has to be a file whose name ends in .csv, .tsv or .parquet"
            raise BadInput(error.argument, error.problem, remedy) from None
        raise


def by_name(rows: QueryData, names: Sequence[str] | None, path: Path) -> QueryData:
    """Return the rows with the features of a model, in its order, if both have names; warn if the model has no
    names."""
    if names is None and rows.feature_names is not None:
        first = ", ".join(map(repr, rows.feature_names[:3])) + ", ..." * (len(rows.feature_names) > 3)
        unnamed = "the model was trained without feature names"
        note(f"warning: {path}: {unnamed}; {first} are matched by their order")
    if names is None or rows.feature_names is None or list(rows.feature_names) == list(names):
        return rows
    at = {name: j for j, name in enumerate(rows.feature_names)}
    missing = [name for name in names if name not in at]
    if missing:
        problem = f"expected the features of the model, got none called {missing[0]!r}"
        raise BadInput(path, problem, "give the columns the same names")
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
        scores: Float = model.predict(rows.X, qid=rows.qid)
    return scores


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
            if "_" in word or not word.isascii() or len(word) > _LONGEST_NUMBER:  # float() accepts 1_000, ١
                raise ValueError
            score = float(word)
            if not math.isfinite(score) and word.lower() not in ("-inf", "-infinity"):
                raise ValueError
        except ValueError:
            is_run = len(line.split()) == 6
            remedy = "write one score per line, or predict again"
            if is_run:
                remedy = (
                    "a TREC run is evaluated with judgments instead of rows: structsvm evaluate QRELS RUN"
                )
            row = f"row {number} (or -inf: not retrieved)"
            problem = f"expected one finite number, the score of {row}, got {shorten(line)}"
            raise BadInput(f"{path}:{number}", problem, remedy) from None
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
            problem = f"expected a tag or file name other than that of {first}, got {name[:60]!a} in both"
            raise BadInput(second, problem, "rename one of the files")
    return names


def read_names(path: Path) -> list[str]:
    """Read names, one per line, without surrounding blanks; blank lines are skipped."""
    return [line.strip() for _, line in read_lines(paths.check_file(path)) if line.strip()]
