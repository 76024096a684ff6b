"""``structsvm train``: learn a ranking from labelled rows."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import structsvm
from structsvm.cli import paths
from structsvm.cli.dask import Dask, Groups, connecting, train_there
from structsvm.cli.files import Data, TrainingTable, keep_names, naming
from structsvm.cli.groups import Group
from structsvm.cli.options import Jobs, Monotone, Output, Positive, Relevance, Scale, Seed, Tol, read_signs
from structsvm.cli.terminal import GapProgress, emit
from structsvm.common.checks import BadInput, counted, first_few
from structsvm.common.escaping import printable

_NAMED = 6
"""Largest number of feature names that are printed; longer lists are truncated."""


def _one_number(text: str) -> float:
    """Return the number of an option; raise for anything else, such as a list."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(
            f"expected one number, got {text!r:.40}; structsvm search tries several"
        ) from None


@dataclass(frozen=True)
class Trees(Group):
    """Options for trees instead of a linear model."""

    trees: Annotated[
        bool,
        "Grow boosted trees with LightGBM and learn weights of their leaves instead of the features. Features may be "
        "missing.",
    ] = False
    n_trees: Annotated[int | None, "With --trees: number of trees. (default: 300)"] = None
    n_leaves: Annotated[int | None, "With --trees: leaves per tree. (default: 15)"] = None
    seed: Annotated[Seed, "With --trees: random seed for growing the trees."] = 0

    def check(self, **refused: bool) -> bool:
        """Return whether trees are requested; raise for options that exclude each other."""
        for name, value in (("--n-trees", self.n_trees), ("--n-leaves", self.n_leaves)):
            if value is not None and not self.trees:
                raise BadInput(name, "requires --trees")
        for name in (name for name, given in refused.items() if given and self.trees):
            raise BadInput(f"--{name}", "expected a linear model, without --trees")
        return self.trees

    def ranker(self, loss: str, C: float | None, **options: Any) -> Any:
        """Return the unfitted ranker."""
        from structsvm.cli.studies.folds.lightgbm_ranker import check_installed

        check_installed("lightgbm")
        sizes = {"n_trees": self.n_trees, "n_leaves": self.n_leaves}
        given: Any = {name: value for name, value in sizes.items() if value is not None}
        return structsvm.TreeRanker(loss, C, **given, random_state=self.seed, **options)


@dataclass(frozen=True)
class Objective(Group):
    """Options of the objective and of its minimisation."""

    loss: Annotated[str, "One of {losses}; k is any cut-off, as in ndcg@10."] = "map"
    C: Annotated[
        float | None,
        typer.Option(
            "--C",
            parser=_one_number,
            metavar="FLOAT",
            help="Trade-off: larger values fit the training data better. (default: 1 or 10, by the "
            "loss; with --trees also by the number of queries)",
        ),
    ] = None
    tol: Tol = 1e-3
    solver: Annotated[str, "One of {solvers}; newton for smooth losses."] = "auto"
    relevance: Relevance = 1.0
    max_passes: Annotated[int, "Largest number of passes over the data."] = 1000

    @property
    def options(self) -> dict[str, Any]:
        """The arguments that rankers with and without trees share, except loss and C."""
        return {name: getattr(self, name) for name in ("tol", "solver", "relevance", "max_passes")}


def train(
    data: Data,
    output: Annotated[Output, "The model to write (.npz)."],
    *,
    objective: Objective,
    scale: Scale = "none",
    positive: Positive = False,
    monotone: Monotone = None,
    trees: Trees,
    table: TrainingTable,
    jobs: Jobs = -1,
    dask: Dask = None,
    groups: Groups = "refuse",
    checkpoint: Annotated[
        Path | None,
        "With --dask: file to which the fit is saved after each pass; if it exists, training continues from it. "
        "It is removed when the gap is reached.",
    ] = None,
) -> None:
    """Learn a ranking from DATA and write the model.

    Ctrl-C stops training after the current pass over the data and saves the best model so far (exit code 130). While
    trees are grown there is no model yet, and nothing is saved.
    """
    signs = read_signs(monotone)
    source = paths.source_at(data)
    paths.check_model_output(output, [data])

    from structsvm.estimators.weight_constraints import numbered_signs

    scaled = scale != "none"
    linear: Any = {"scale": scale, "positive": positive}
    shared = objective.options | {"n_jobs": jobs, "monotone_constraints": signs or None}
    if trees.check(scale=scaled, positive=positive, dask=dask is not None):
        model: Any = trees.ranker(objective.loss, objective.C, **shared)
    else:
        model = structsvm.StructuralRanker(objective.loss, objective.C, **shared, **linear)
    model.check_options()  # a misspelt loss raises before the data are read
    if dask is not None:
        if signs:
            raise BadInput("--monotone", "expected training on one machine, without --dask")
        if table.categorical is not None or table.missing is not None:
            raise BadInput("--categorical, --fill", "expected training on one machine, without --dask")
        with connecting(dask) as client, GapProgress(objective.tol, output) as progress:
            there = train_there(
                client,
                source,
                table,
                groups,
                loss=objective.loss,
                C=objective.C,
                **objective.options,
                **linear,
                callback=progress,
                checkpoint=checkpoint,
            )
        progress.check(there.fit_)
        there.to_local().save(output)
        held = max(each["rows"] for each in there.memory_.values()) / 1e9
        _say(
            there,
            f"{counted(query=there.n_queries_)} in {counted(partition=there.n_partitions_)}, "
            f"{counted(feature=there.n_features_in_)}; {held:.2f} GB of rows per worker at most",
            output,
            progress,
        )
        return
    if checkpoint is not None or groups != "refuse":
        raise BadInput("--groups" if checkpoint is None else "--checkpoint", "requires --dask")
    # scaling would shift the zeros of a sparse matrix, and trees do not accept sparse rows
    rows, kept = table.read_to_train(
        source,
        keep=trees.trees and table.missing is None,
        sparse=False if scaled or trees.trees else None,
        n_jobs=jobs,
    )
    if signs:
        model.monotone_constraints = numbered_signs(signs, rows.n_features, rows.feature_names) or None
    with naming(data), GapProgress(objective.tol, output, growing=trees.trees) as progress:
        model.callback = progress
        if trees.trees:
            model.growth_callback = progress.grown
        model.fit(rows.X, rows.y, qid=rows.qid)
    progress.check(model.fit_)
    keep_names(model, rows)
    if kept:
        model.table_ = kept
    model.save(output)

    about = counted(query=rows.n_queries, document=rows.n_rows, feature=rows.n_features)
    if rows.feature_names is not None:
        about += f": {first_few(map(printable, rows.feature_names), _NAMED)}"
    _say(model, about, output, progress)


def _say(model: Any, about: str, output: Path, progress: GapProgress) -> None:
    """Print a summary of the model and its data."""
    fit = model.fit_
    unused = f" ({counted(query=n)} without a constraint)" if (n := model.n_uninformative_) else ""
    emit(
        [
            f"data       {about}{unused}",
            f"objective  {fit.primal:.6g} (dual {fit.dual:.6g}, relative gap {fit.gap:.1e})",
            f"trained    {fit.n_passes} passes, {fit.seconds:.2f} s, {fit.solver}, C = {fit.C:g}",
            f"model      {output}",
        ]
    )
    progress.conclude(fit, "raise --max-passes or --tol, or scale the features with --scale")
