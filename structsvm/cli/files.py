"""Files of the commands: checks before the work starts, reading, and writing completely or not at all."""

from __future__ import annotations

import contextlib
import csv
import math
import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from structsvm.checks import BadInput
from structsvm.cli.groups import Group
from structsvm.common.names import QID

if TYPE_CHECKING:
    from structsvm.protocols import Float
    from structsvm.queries import QueryData

_LONGEST_NUMBER = 1100
"""Characters of a number: the longest exact decimal of a float64 has 1,077."""


def stdin_as_path(path: Path) -> Path:
    """Return the path of standard input for ``-``, and any other path unchanged."""
    return Path("/dev/stdin") if str(path) == "-" else path


def split_names(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the names of an option that takes several, with commas or repeated."""
    return tuple(name.strip() for text in texts for name in text.split(","))


Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="LETOR/SVMlight text (plain, gzip, bzip2, xz; - is the standard input), a table with named columns (a "
        "file .csv or .tsv; Parquet files: one, a folder, or a pattern in quotes), or a store.",
        callback=stdin_as_path,
    ),
]


@dataclass(frozen=True)
class Columns(Group):
    """What the columns of labels and ids of a table are called."""

    label: Annotated[str, typer.Option("--label", help="Column of the labels in a table.")] = "label"
    qid: Annotated[str, typer.Option("--qid", help="Column of the query ids in a table.")] = QID
    docid: Annotated[
        str, typer.Option("--docid", help="Column of the document ids in a table, if there is one.")
    ] = "docid"

    @property
    def names(self) -> tuple[str, ...] | None:
        """The columns of features; None for all others."""
        return None

    def options(self, *, labels: bool = True) -> dict[str, Any]:
        """Return the arguments of a reader that differ from its defaults; labels may be optional."""
        values = {"label": self.label, "qid": self.qid, "docid": self.docid, "features": self.names}
        optional = {} if labels or self.label != "label" else {"label": None}
        return {name: value for name, value in values.items() if value not in (name, None)} | optional


@dataclass(frozen=True)
class Table(Columns):
    """The columns of a table, and what stands for missing features."""

    features: Annotated[
        list[str] | None,
        typer.Option(
            "--features",
            help="Columns of the features in a table: a,b,c, or repeated.",
            show_default="all other columns",
        ),
    ] = None
    missing: Annotated[
        str | None,
        typer.Option(
            "--fill",
            metavar="NUMBER",
            help="Value for missing features ('nan' in text, empty cells in tables), which are an error without it, "
            "but for trees. In train, search and compare also median: that of each feature in training, which predict "
            "uses too.",
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.missing not in (None, "median"):
            _ = self.fill
        names = self.names
        if names is not None and (not all(names) or len(set(names)) < len(names)):
            raise ValueError(
                f"--features {','.join(names)}: expected different names with commas between, such as bm25,age"
            )

    @property
    def names(self) -> tuple[str, ...] | None:
        """The columns of features; None for all others."""
        return None if self.features is None else split_names(self.features)

    @property
    def fill(self) -> float | None:
        """The number that stands for missing features."""
        if self.missing is None:
            return None
        try:
            value = float(self.missing)
            if not math.isfinite(value):
                raise ValueError
        except ValueError:
            learned = "a number; only train, search and compare learn medians"
            expected = learned if self.missing == "median" else "a finite number, or median in train"
            raise ValueError(f"--fill {self.missing}: expected {expected}") from None
        return value

    def read(self, path: Path, **options: Any) -> QueryData:
        """Read a store, a table or LETOR text, as :func:`read_data` does."""
        return read_data(path, self, fill=self.fill, **options)


def check_jobs(jobs: int) -> int:
    """Return the requested number of threads or processes; raise for 0."""
    from structsvm.common.machine import count_threads

    count_threads(jobs)
    return jobs


Jobs = Annotated[
    int,
    typer.Option(callback=check_jobs, help="Threads; -1 is one per processor. Results do not depend on it."),
]


def check_input(path: Path) -> Path:
    """Raise if a file does not exist, before minutes of work on another one."""
    if not path.exists() and not is_table(path):
        raise ValueError(f"{path}: expected a file to read, got nothing there; check the path")
    return path


def check_file(path: Path) -> Path:
    """Check like :func:`check_input` an input that cannot be a store."""
    if check_input(path).is_dir():
        raise ValueError(f"{path}: expected a file to read, got a folder; add a file name")
    return path


def check_output(path: Path, inputs: Iterable[Path] = (), *, option: str = "--output") -> Path:
    """Raise if a result would overwrite an input, a folder or a device, or cannot be written."""
    if str(path) == "-":
        raise ValueError(
            "-: expected the name of a file to write, got the sign for the standard input; name one"
        )
    _check_name(path)
    for source in inputs:
        if path.exists() and source.exists() and path.samefile(source):
            raise ValueError(
                f"{path}: expected another file than the input, got the same; choose another {option}"
            )
    if path.is_dir():
        raise ValueError(f"{path}: expected the name of a file to write, got a folder; add a file name")
    if path.exists() and not path.is_file():
        raise ValueError(
            f"{path}: expected the name of a file to write, got a device or pipe; choose another"
        )
    check_folder(path)
    return path


def check_model_output(path: Path, inputs: Iterable[Path] = (), *, option: str = "--output") -> Path:
    """Check like :func:`check_output` for a model, whose suffixes ``save`` would refuse only after the training."""
    from structsvm.common.files import is_packed

    if is_packed(path):
        raise ValueError(
            f"{path}: expected a name that ends in .npz, got {path.suffix!r}; models are compressed already"
        )
    return check_output(path, inputs, option=option)


def check_outputs(outputs: Mapping[str, Path | None], inputs: Iterable[Path] = ()) -> None:
    """Check the files of several options by :func:`check_output`, None if not given; no two may be the same."""
    sources, taken = list(inputs), dict[Path, str]()
    for option, path in outputs.items():
        if path is None:
            continue
        place = check_output(path, sources, option=option).resolve()
        if place in taken:
            raise ValueError(
                f"{taken[place]} and {option}: expected two files, got the same twice; name another"
            )
        taken[place] = option


def check_kept(path: Path) -> None:
    """Check a folder for finished runs, which may exist and has to be writable."""
    _check_name(path)
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path}: expected a folder to keep runs in, got a file; choose another name")
    check_folder(path / "run" if path.exists() else path)


def check_folder(path: Path) -> None:
    """Check that the folder of ``path`` exists, is writable, and takes a name like that of ``path``."""
    folder = _check_name(path).parent
    if not folder.is_dir():
        raise ValueError(f"{path}: expected an existing folder, got none called '{folder}'; create it first")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(f"{path}: expected a folder to write in, got no permission for '{folder}'")


def _check_name(path: Path) -> Path:
    """Return the file that writing to ``path`` replaces, if its name and that of the unfinished file are possible."""
    from structsvm.common.files import beside, destination

    if not path.name:  # a folder: said by the callers that do not take one
        return path
    try:
        place = destination(path)
        destination(beside(place, ".part"))
    except (NotADirectoryError, PermissionError):  # said of the folder
        return path
    except OSError as error:
        raise ValueError(
            f"{path}: expected a name that a file can have ({error.strerror}); choose another"
        ) from error
    return place


def read_data(
    path: Path,
    columns: Columns | None = None,
    *,
    fill: float | Literal["keep"] | None = None,
    features: Sequence[str] | None = None,
    labels: bool = True,
    **options: Any,
) -> QueryData:
    """Read a store, a table (its ``columns``, or these ``features``), or text with ``options`` that are not None.

    Without ``labels`` there need not be any. With ``fill="keep"`` missing features are NaN.
    """
    from structsvm.readers import read_queries

    named = (columns or Columns()).options(labels=labels)
    if is_table(check_input(path)):
        options = (
            {} if features is None else {"features": features}
        )  # those of a model, in place of the option's
    if fill == "keep":  # a store holds none
        fill = None if (path / "meta.json").exists() else math.nan
    given = {k: v for k, v in {"fill": fill, **options}.items() if v is not None}
    try:
        return read_queries(path, **(named | given))
    except BadInput as error:
        # perhaps the names of columns
        if error.argument == f"{path}:1" and error.problem.startswith("expected '<") and not error.remedy:
            raise ValueError(
                f"{error}; a table has to be a file whose name ends in .csv, .tsv or .parquet"
            ) from None
        raise


def is_table(path: Path) -> bool:
    """Whether a path stands for Parquet files or is a CSV file."""
    from structsvm.readers.parquet_tables import is_table

    return is_table(path)


def by_name(rows: QueryData, names: Sequence[str] | None, path: Path) -> QueryData:
    """Return rows with the features of a model, in its order, where both have names."""
    import dataclasses

    if names is None or rows.feature_names is None or list(rows.feature_names) == list(names):
        return rows
    place = {name: j for j, name in enumerate(rows.feature_names)}
    missing = [name for name in names if name not in place]
    if missing:
        raise ValueError(
            f"{path}: expected the features of the model, got none called {missing[0]!r}; name the columns alike"
        )
    return dataclasses.replace(rows, X=rows.X[:, [place[name] for name in names]], feature_names=tuple(names))


def load_ranker(path: Path) -> Any:
    """Read a model that scores rows."""
    import structsvm

    model = structsvm.load(check_input(path))
    if not (hasattr(model, "rank") and hasattr(model, "predict")):
        raise ValueError(f"{path}: expected a ranker, got a {type(model).__name__}; train one first")
    return model


def predicted(model: Any, rows: QueryData, path: Path) -> Float:
    """Return the scores of rows of a file, which were read by their names or have none."""
    with naming(path), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        scores: Float = model.predict(rows.X, qid=rows.qid)
    return scores


def keep_names(model: Any, rows: QueryData) -> None:
    """Give a fitted model the names of the features that it was trained on."""
    import numpy as np

    if rows.feature_names is not None:
        model.feature_names_in_ = np.array(rows.feature_names, dtype=object)


@contextlib.contextmanager
def naming(path: Path, *more: str) -> Iterator[None]:
    """Name the file in errors about the ``X``, ``y`` or ``qid``, and more, that were read from it."""
    try:
        yield
    except BadInput as error:
        if error.argument.partition(".")[0] in ("X", "y", "qid", *more):  # also of X.indices
            raise error.within(path) from None
        raise


_PREDICTED = ("query", "document", "score", "rank")
"""The columns that ``predict --format csv`` writes."""


def read_scores(path: Path) -> tuple[Float, list[tuple[str, str]] | None]:
    """Read one number per line, finite or ``-inf`` ("not retrieved"); or a csv of ``predict``, with its ids."""
    import numpy as np

    from structsvm.common.files import read_lines, shorten

    scores: list[float] = []
    ids: list[tuple[str, str]] | None = None
    for number, line in read_lines(check_file(path)):
        word = line.strip()
        if number == 1 and word == ",".join(_PREDICTED):
            ids = []
            continue
        try:
            if ids is not None:
                query, document, word, _ = next(csv.reader([word]))
                ids.append((query, document))
            if "_" in word or not word.isascii() or len(word) > _LONGEST_NUMBER:  # float() takes 1_000 and ١
                raise ValueError
            score = float(word)
            if not math.isfinite(score) and word.lower() not in ("-inf", "-infinity"):
                raise ValueError
        except (ValueError, csv.Error):
            raise ValueError(
                f"{path}:{number}: expected one finite number, the score of row {number - (ids is not None)} (or -inf: "
                f"not retrieved), got {shorten(line)}; write one score per line, or predict again"
            ) from None
        scores.append(score)
    if not scores:
        raise ValueError(f"{path}: expected one score per line, got an empty file; predict again")
    return np.array(scores), ids


def names_of_runs(files: Sequence[Path], tags: Sequence[str]) -> list[str]:
    """Return the tag of each run, or the name of its file if runs share a tag."""
    from structsvm.common.files import unpacked

    uses = Counter(tags)
    names = [tag if uses[tag] == 1 else unpacked(path.name) for tag, path in zip(tags, files, strict=True)]
    for name, n in Counter(names).items():
        if n > 1:
            first, second, *_ = (path for path, other in zip(files, names, strict=True) if other == name)
            raise ValueError(
                f"{second}: expected another tag or file name than that of {first}, got {name[:60]!a} in both; "
                "rename one of the files"
            )
    return names


def read_names(path: Path) -> list[str]:
    """Read names, one per line, without surrounding blanks; blank lines are skipped."""
    from structsvm.common.files import read_lines

    return [line.strip() for _, line in read_lines(check_file(path)) if line.strip()]


_STDOUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


def is_stdout(path: Path) -> bool:
    """Whether a path stands for the standard output."""
    return str(path) in _STDOUT


def write_text(path: Path, text: str) -> None:
    """Write text that appears completely or not at all."""
    from structsvm.common.files import replacing

    with replacing(path) as file:
        file.write(text.encode())


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines without their ends, as they come; a file is replaced when all are written.

    The standard output (``-``) is written when all lines are there.
    """
    from structsvm.common.files import replacing

    if is_stdout(path):
        text = "".join(f"{line}\n" for line in lines)
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    with replacing(path) as file:
        for line in lines:
            file.write(f"{line}\n".encode())
