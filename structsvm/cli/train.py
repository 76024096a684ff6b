"""``structsvm train``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from structsvm.cli.dask import Dask, Groups, connecting, train_there
from structsvm.cli.files import (
    Data,
    Jobs,
    Table,
    check_input,
    check_model_output,
    is_table,
    keep_names,
    naming,
)
from structsvm.cli.scales import Scale
from structsvm.cli.signs import Monotone, read_signs
from structsvm.cli.terminal import INTERRUPTED, GapProgress, note


def train(
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="The model to write (.npz).")],
    loss: Annotated[str, typer.Option(help="One of {losses}; k is any cut-off, as in ndcg@10.")] = "map",
    C: Annotated[
        float, typer.Option("--C", help="Trade-off: larger fits the training data more closely.")
    ] = 1.0,
    tol: Annotated[float, typer.Option(help="Relative duality gap to reach.")] = 1e-3,
    solver: Annotated[str, typer.Option(help="auto, one_slack, n_slack or frank_wolfe.")] = "auto",
    scale: Scale = "none",
    relevance: Annotated[float, typer.Option(help="Label from which a document is relevant.")] = 1.0,
    positive: Annotated[
        bool, typer.Option("--positive", help="Require all weights to be at least 0.")
    ] = False,
    monotone: Monotone = None,
    max_passes: Annotated[int, typer.Option(help="Largest number of passes over the data.")] = 1000,
    *,
    table: Table,
    jobs: Jobs = -1,
    dask: Dask = None,
    groups: Groups = "refuse",
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="With --dask: file that keeps the fit after each pass; if it exists, training continues from it."
        ),
    ] = None,
) -> None:
    """Learn a ranking from DATA and write the model.

    Ctrl-C stops after the pass over the data in progress and saves the best model so far (exit code 130).
    """
    signs = read_signs(monotone)
    check_model_output(output, [check_input(data)])

    from structsvm.estimators.structural import StructuralRanker
    from structsvm.estimators.weight_constraints import numbered_signs
    from structsvm.trainers.certificate import ConvergenceWarning

    options: Any = {"solver": solver, "scale": scale}
    model = StructuralRanker(
        loss, C, tol=tol, **options, relevance=relevance, positive=positive, max_passes=max_passes,
        monotone_constraints=signs or None, n_jobs=jobs,
    )  # fmt: skip
    model.check_options()  # a misspelt loss is found before the data are read
    if dask is not None:
        if signs:
            raise ValueError("--monotone: expected training on one machine, without --dask")
        with (
            connecting(dask) as client,
            GapProgress(tol, output) as progress,
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore", ConvergenceWarning)
            there = train_there(
                client, data, table, groups, loss=loss, C=C, tol=tol,
                solver=_solver(solver), scale=scale, relevance=relevance, positive=positive,
                max_passes=max_passes, callback=progress, checkpoint=checkpoint,
            )  # fmt: skip
        there.to_local().save(output)
        held = max(each["rows"] for each in there.memory_.values()) / 1e9
        about = (
            f"{there.n_queries_} queries in {there.n_partitions_} partitions, {there.n_features_in_} features"
        )
        _say(there, f"{about}; {held:.2f} GB of rows on a worker at the most", output, progress, tol)
        return
    if checkpoint is not None:
        raise ValueError("--checkpoint: expected --dask with it")
    # scaling moves the zeros of a sparse matrix
    in_text = not data.is_dir() and not is_table(data)
    sparse = False if scale != "none" and in_text else None
    rows = table.read(data, sparse=sparse, n_jobs=jobs if in_text else None)
    model.monotone_constraints = numbered_signs(signs, rows.n_features, rows.feature_names) or None
    with naming(data), GapProgress(tol, output) as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # said below, in our words
        model.callback = progress
        model.fit(rows.X, rows.y, qid=rows.qid)
    keep_names(model, rows)
    model.save(output)

    about = f"{rows.n_queries} queries, {rows.n_rows} documents, {rows.n_features} features"
    _say(model, about, output, progress, tol)


def _say(model: Any, about: str, output: Path, progress: GapProgress, tol: float) -> None:
    """What was learned, and from what."""
    fit = model.fit_
    unused = f" ({model.n_uninformative_} queries without a constraint)" if model.n_uninformative_ else ""
    typer.echo(f"data       {about}{unused}")
    typer.echo(f"objective  {fit.primal:.6g} (dual {fit.dual:.6g}, relative gap {fit.gap:.1e})")
    typer.echo(f"trained    {fit.n_passes} passes, {fit.seconds:.2f} s, {fit.solver}")
    typer.echo(f"model      {output}")
    if progress.interrupted and not fit.converged:
        note(
            f"interrupted: saved the best model so far, gap {fit.gap:.1e} after {fit.n_passes} passes, as {output}"
        )
        raise typer.Exit(INTERRUPTED)
    if not fit.converged:
        note(
            f"warning: the gap is {fit.gap:.1e}, not {tol:g}, after {fit.n_passes} passes; raise --max-passes or "
            "--tol, or scale the features with --scale"
        )


def _solver(name: str) -> str:
    """The trainer on a cluster."""
    if name not in ("auto", "partitioned", "one_slack"):
        raise ValueError(f"--solver {name}: expected auto, partitioned or one_slack with --dask")
    return name
