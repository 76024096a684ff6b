"""``structsvm demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from structsvm.cli import paths
from structsvm.cli.files import Jobs
from structsvm.cli.options import Relevance
from structsvm.cli.terminal import print_table, working


def demo(
    output: Annotated[Path, "-o The page to write."] = Path("demo-report.html"),
    data: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="TRAIN TEST", help="LETOR files, tables or stores of your own."),
    ] = None,
    relevance: Relevance = 1.0,
    jobs: Jobs = -1,
) -> None:
    """Learn to rank in a minute, on synthetic data and scikit-learn's digits or on your data; write a page about it."""
    paths.check_output(output, [paths.check_input(path) for path in data or ()])

    from structsvm.cli.studies import demo as task_room

    with working("reading") as status:
        options: Any = {"n_jobs": jobs, "callback": lambda name: status.update(f"learning: {name}")}
        task = task_room.digits_task() if data is None else task_room.letor_task(*data, relevance=relevance)
        first = task_room.run(task_room.spam_task(), **options) if data is None else None
        outcome = task_room.run(task, **options)
        status.update("writing the page")
        paths.write_text(output, task_room.page(outcome, first))
    if first is not None:
        typer.echo(f"{first.task.title}\n{task_room.measure_headline(first)}\n")
    columns, rows = task_room.results_table(outcome)
    # the measures first, the training figures apart: together they are wider than a terminal of 80 columns
    for title, chosen in ((task.title, slice(1, 5)), ("Training", slice(5, None))):
        typer.echo(title)
        shown = [[row[0], *row[chosen]] for row in rows if any(row[chosen])]
        print_table([columns[0], *columns[chosen]], shown)
        typer.echo()
    typer.echo(task_room.headline(outcome))
    typer.echo(f"Report: {output}")
