"""``structsvm demo``: learn to rank on a built-in data set, and write a page with the results."""

from pathlib import Path
from typing import Annotated, Any

from structsvm.cli import paths
from structsvm.cli.options import Jobs, Output
from structsvm.cli.terminal import emit, table_lines, working


def demo(output: Annotated[Output, "The page to write."] = Path("demo-report.html"), jobs: Jobs = -1) -> None:
    """Learn to rank scikit-learn's digits in a minute, and write a page with the results.

    For your own data use compare.
    """
    paths.check_output(output, [])

    from structsvm.cli.studies import demo as task_room

    with working("reading") as status:
        options: Any = {"n_jobs": jobs, "callback": lambda name: status.update(f"learning: {name}")}
        task = task_room.digits_task()
        outcome = task_room.run(task, **options)
        status.update("writing the page")
        paths.write_text(output, task_room.page(outcome))
    columns, rows = task_room.results_table(outcome)
    lines = []
    # two tables, as a single table would be wider than a terminal of 80 columns
    for title, chosen in ((task.title, slice(1, 5)), ("Training", slice(5, None))):
        shown = [[row[0], *row[chosen]] for row in rows if any(row[chosen])]
        lines += [title, *table_lines([columns[0], *columns[chosen]], shown), ""]
    emit([*lines, task_room.headline(outcome)], report=output)
