"""``Study``: the options of ``structsvm compare`` and ``structsvm search``, and how a study is run."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from structsvm.cli import paths
from structsvm.cli.files import TrainingTable, split_names
from structsvm.cli.groups import Group
from structsvm.cli.options import (
    GRID,
    Convention,
    Jobs,
    Monotone,
    Positive,
    Relevance,
    Scale,
    Seed,
    Selection,
    Tol,
    parse_grid,
    read_signs,
)
from structsvm.cli.terminal import (
    INTERRUPTED,
    bar,
    emit,
    note,
)
from structsvm.common.checks import BadInput


def _list_methods(method: list[str] | None) -> list[str] | None:
    if method == ["list"]:
        from structsvm.cli.studies.folds import METHODS

        emit(f"{name:<16}{description}" for name, description in METHODS.items())
        raise typer.Exit
    if method is None:
        return None
    from structsvm.cli.studies.folds.methods import full_name

    return [full_name(name) for name in split_names(method)]


Source = Annotated[
    Path,
    "<DATA> A folder with Fold1, Fold2, ... or train, vali, test or parts S1, S2, ...; or one file or store to split "
    "into folds. Files are LETOR text or tables with named columns (.csv, .tsv, Parquet).",
]

_MINUTE = 60.0
"""Seconds between two lines of progress if there is no terminal for a progress bar."""
_DEFAULT_METHODS = ("svm-map", "svm-roc")


@dataclass(frozen=True)
class Study(Group):
    """Options of a comparison: methods, folds, and the choice of C."""

    method: Annotated[
        list[str] | None,
        typer.Option(
            help="map (svm-map), ndcg@10, tree-mrr, lightgbm, ...; repeat or use commas for more; 'list' shows them. "
            "(default: svm-map, svm-roc)",
            callback=_list_methods,
            is_eager=True,  # 'list' needs no DATA
        ),
    ] = None
    C: Annotated[str, GRID] = "1e-3:1e4:15"
    select: Annotated[
        str | None,
        "Measure that chooses C on the validation queries. (default: the measure of the loss of each method; in "
        "search, which compares methods by one measure, that of the first method)",
    ] = None
    selection: Selection = "max"
    convention: Convention = "trec"
    relevance: Relevance = 1.0
    scale: Scale = "none"
    monotone: Monotone = None
    positive: Positive = False
    folds: Annotated[int, "Number of folds that a single file is split into."] = 5
    seed: Annotated[
        Seed,
        "Seed of the shuffle before the split, and of random methods. Folds also depend on the order of the queries "
        "in DATA.",
    ] = 0
    tol: Tol = 1e-3
    jobs: Annotated[
        Jobs,
        "Largest number of processes; -1 is one per processor. Short work uses a single process, which is faster. "
        "Results do not depend on it.",
    ] = -1
    work: Annotated[Path | None, "Folder for finished results, from which a stopped run continues."] = None

    @property
    def methods(self) -> list[str]:
        """The methods; by default those of the package."""
        return self.method or list(_DEFAULT_METHODS)

    @property
    def grid(self) -> list[float]:
        """The values of C."""
        return parse_grid(self.C)

    def check(self, data: Path) -> None:
        """Validate the options that do not depend on data."""
        paths.check_input(data)
        _ = self.grid, self.signs
        for name in self.methods:
            for option, given, kinds in (
                ("--monotone", self.signs, ("svm-LOSS", "tree-LOSS", "lightgbm")),
                ("--positive", self.positive, ("svm-LOSS",)),
            ):
                if given and name.split("-")[0] not in (kind.removesuffix("-LOSS") for kind in kinds):
                    raise BadInput(
                        option,
                        f"expected only methods {', '.join(kinds)}, got {name}",
                        "compare others with --baseline",
                    )
        if self.work is not None:
            paths.check_kept(self.work)

    def measures(self, report: Sequence[str]) -> Any:
        """Return the measures of the study; the ``report`` measures are for the test queries."""
        from structsvm.cli.studies.folds import Measures

        selection: Any = self.selection
        found = Measures(tuple(report), self.select, self.convention, self.relevance, selection)
        found.check()
        return found

    @property
    def signs(self) -> dict[str, int]:
        """The required sign of each feature."""
        return read_signs(self.monotone)

    def training(self) -> Any:
        """Return the training settings of the methods."""
        from structsvm.cli.studies.folds import Training

        return Training(
            self.scale,
            self.relevance,
            self.tol,
            random_state=self.seed,
            monotone=tuple(self.signs.items()),
            positive=self.positive,
        )

    def find(self, data: Path, table: TrainingTable, **options: Any) -> Any:
        """Return the folds of the data."""
        from structsvm.cli.studies.folds import find_folds

        return find_folds(
            data, n_folds=self.folds, random_state=self.seed, columns=table.options(), **options
        )

    def run(self, folds: Any, table: TrainingTable, measures: Any, training: Any, **options: Any) -> Any:
        """Train and measure all methods on all folds; a progress bar counts pairs of a method and a fold."""
        from structsvm.cli.studies import folds as comparison

        with bar("training", "{task.fields[last]}", counts=True) as shown:
            total, said = len(folds) * len(set(self.methods)), [time.monotonic()]
            task = shown.add_task("training", total=total, last="")

            def tell(method: str, fold: str, _: Any) -> None:
                shown.update(task, advance=1, last=f"{fold} {method}")
                if shown.disable and time.monotonic() >= said[-1] + _MINUTE:
                    said.append(time.monotonic())
                    note(f"{shown.tasks[0].completed} of {total} trained, the last {method} on {fold}")

            try:
                return comparison.run(
                    folds,
                    self.methods,
                    self.grid,
                    measures=measures,
                    training=training,
                    fill=table.learned_fill,
                    columns=table.options(),
                    work=self.work,
                    n_jobs=self.jobs,
                    callback=tell,
                    **options,
                )
            except KeyboardInterrupt:
                if self.work is None:
                    raise
                note(f"interrupted; the same command continues from the results in {self.work}")
                raise typer.Exit(INTERRUPTED) from None
