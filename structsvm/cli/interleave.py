"""``structsvm interleave``: analyse click logs, learn statistics from logs with known winners, and simulate logs."""

import contextlib
import gc
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from structsvm import clicks, readers
from structsvm.cli import paths
from structsvm.cli.files import Table, load_ranker
from structsvm.cli.options import AsJson, ColumnNames, Output, Report, Seed, named_columns
from structsvm.cli.terminal import bar, emit, group, note
from structsvm.common.checks import BadInput, check_choice, check_whole, counted
from structsvm.common.files import compression, is_stream
from structsvm.common.lazy import labelled
from structsvm.common.tables.source import source_of
from structsvm.online import statistics

MissingFeedback = Annotated[str, "Treatment of lines without clicks: skip, no_click or error."]


def analyse(
    log: Annotated[
        Path,
        "<LOG> Click log, JSON Lines, one impression per line (plain, gzip, ...); UBI events of an A/B search that "
        "name the configuration of each hit; or a table (.csv, .tsv, .parquet) with one row per document of a list: "
        "impression, rank, document, team, clicked, and, if known, user.",
    ],
    test: Annotated[
        str,
        "The test that decides: t, z, sign or wilcoxon (the signed rank test without ties, exact for up to 50 queries "
        "or clusters). With fewer than 30 queries that differ, an exact test replaces t and z.",
    ] = "t",
    alpha: Annotated[float, "Significance level of the decision."] = 0.05,
    power: Annotated[float, "Power for which the number of further queries is computed."] = 0.8,
    correction: Annotated[str, "Correction for several pairs of rankers: holm, bh or none."] = "holm",
    cluster: Annotated[
        str,
        "user or session: queries of the same user or session are dependent, and together count once. auto: do so "
        "if users (or sessions) return. none: each query counts.",
    ] = "auto",
    seed: Annotated[Seed, "Seed for randomising fractional outcomes (not used for team draft)."] = 0,
    missing_feedback: MissingFeedback = "skip",
    statistic: Annotated[Path | None, "Click weights of 'interleave learn'. (default: equal weights)"] = None,
    columns: ColumnNames = None,
    as_json: AsJson = False,
    report: Report = None,
) -> None:
    """Report which ranker of LOG wins, with its p-value, and how many more queries are needed.

    The p-value of the test is valid if the size of the log was fixed in advance; the always-valid p-value is valid
    however often the log is analysed.
    """
    paths.check_outputs(
        {"--report": report}, [paths.check_file(path) for path in (log, statistic) if path is not None]
    )

    from structsvm.online.statistics.page import page, summary

    check_choice("cluster", cluster, ("user", "session", "auto", "none"))
    by = None if cluster == "none" else cluster
    weights = None if statistic is None else statistics.ClickWeights.read(statistic).weights
    if (drafted := _team_draft_elsewhere(log, named_columns(columns))) is not None:
        read = statistics.credit_log(drafted, cluster=by, weights=weights)
    else:
        with _reading(log) as tell:
            read = statistics.read_credits(
                log, cluster=by, weights=weights, missing_feedback=missing_feedback, callback=tell
            )
    answer = statistics.analyse(
        read, test=test, alpha=alpha, power=power, correction=correction, cluster=by, random_state=seed
    )
    if report is not None:
        paths.write_text(report, page(log.name, read, answer))
    emit(summary(answer), {"log": log, **answer.to_dict()}, as_json, report)


def _team_draft_elsewhere(log: Path, columns: dict[str, str]) -> Any:
    """Return the click log of a table or a file of UBI events, or None for the format of this package; report which
    rows were left out."""
    from structsvm.clicks.reading import is_ubi

    source = source_of(log)
    table = source.kind in ("csv", "parquet")
    if columns and not table:
        raise BadInput("--columns", f"requires a table (.csv, .tsv, .parquet), got {log}")
    if source.kind == "stream":
        return None
    if table:
        drafted, dropped = clicks.read_team_draft_table(source, columns=columns)
    elif is_ubi(log):
        drafted, dropped = clicks.read_team_draft_ubi(log)
    else:
        return None
    for reason, count in sorted(dropped.items(), key=lambda item: -item[1]):
        note(f"left out: {reason} ({count:,})")
    return drafted


def learn(
    log: Annotated[list[Path], "<LOG> Team-draft click logs, each with a known best ranker."],
    better: Annotated[list[str], "The best ranker of a log; given once for all logs, or once for each."],
    output: Annotated[Output, "The weights to write (.json)."],
    method: Annotated[
        str, "inverse_z_test, inverse_rank_test, minimax_p_value or max_mean_difference."
    ] = "inverse_z_test",
    ridge: Annotated[float | None, "Regularisation of the weights of rare clicks. (default: 0)"] = None,
    missing_feedback: MissingFeedback = "skip",
    as_json: AsJson = False,
) -> None:
    """Learn weights of the kinds of clicks from logs with a known best ranker, for 'analyse --statistic'."""
    paths.check_output(output, [paths.check_file(path) for path in log])
    if len(better) not in (1, len(log)):
        raise BadInput(
            "--better",
            f"expected one name, or one for each of {len(log)} logs in their order, got {len(better)}",
        )

    from structsvm.online import clicklog

    read = []
    for path, name in zip(log, better if len(better) > 1 else better * len(log), strict=True):
        found = clicklog.read_log(path, missing_feedback=missing_feedback)
        if name not in found.rankers:
            raise BadInput(path, f"--better: expected one of {', '.join(found.rankers)}, got {name!r}")
        read.append((found, name))
    learned = statistics.learn_weights(read, method, ridge=ridge)
    learned.save(output)
    if math.isinf(learned.needed_by_clicks):
        note("the rankers of --better have no more clicks than the others in these logs; check the names")
    emit([*learned.lines(), str(output)], {"output": output, **learned.to_dict()}, as_json)


@contextlib.contextmanager
def _reading(log: Path) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on a terminal while LOG is read; for compressed text and streams it counts only lines."""
    size = None if is_stream(log) or compression(log) else log.stat().st_size
    with bar("reading", "{task.fields[lines]:,} lines") as shown:
        task = shown.add_task("reading", total=size, lines=0)
        collecting = gc.isenabled()
        gc.disable()  # parsed lines hold no reference cycles, and collecting garbage takes a tenth of the time or more
        try:
            yield lambda n_lines, n_bytes: shown.update(task, completed=n_bytes, lines=n_lines)
        finally:
            if collecting:
                gc.enable()


def simulate(
    output: Annotated[Output, "The log to write (.jsonl, .jsonl.gz)."],
    data: Annotated[
        Path | None,
        "LETOR text, a table or a store. (default: synthetic data: 200 queries, 20 documents, 10 features)",
    ] = None,
    ranker: Annotated[list[str] | None, "A feature (from 1) or a model; two or more. (default: 1, 2)"] = None,
    interleaver: Annotated[str, "One of {interleavers}."] = "team_draft",
    clicks: Annotated[str, "Click model of the simulated user: {users}."] = "informational",
    impressions: Annotated[int, "Number of lists to show."] = 1000,
    length: Annotated[int, "Number of documents per list."] = 10,
    users: Annotated[int | None, "Number of users, one of whom is logged with each list."] = None,
    seed: Annotated[Seed, "Seed of all random numbers."] = 0,
    *,
    table: Table,
) -> None:
    """Write a click log: interleaved lists of rankers, shown to simulated users who know the labels."""
    paths.check_output(output, [path for path in (data,) if path is not None])
    check_whole("impressions", impressions)
    if users is not None:
        check_whole("users", users)
    rankers = ranker or ["1", "2"]
    if len(rankers) < 2:
        raise BadInput("--ranker", f"expected two or more, got {len(rankers)}", "repeat the option")
    if len({int(name) if name.isdecimal() else name for name in rankers}) != len(rankers):
        raise BadInput("--ranker", f"expected distinct rankers, got {', '.join(rankers)}")

    from structsvm.online.clicklog import write_log
    from structsvm.online.users import CascadeUser

    methods = labelled("structsvm.online.interleaving", "name")
    check_choice("interleaver", interleaver, methods)
    rows = readers.make_ranking(200, 20, 10, random_state=seed) if data is None else table.read(data)
    highest = float(rows.y.max())
    if highest > 4 or (rows.y < 0).any() or (rows.y != np.floor(rows.y)).any():
        raise BadInput(
            str(data), f"expected integer grades from 0 to 4, as click models require, got up to {highest:g}"
        )
    try:
        user = CascadeUser.named(clicks, next(n for n in (2, 3, 5) if n > highest))
    except BadInput as error:
        raise error.renamed("clicks") from None
    scores = np.column_stack([_scores(name, rows) for name in rankers])
    names = [f"feature {name}" if name.isdecimal() else name for name in rankers]
    write_log(
        output,
        statistics.simulate_log(
            rows,
            scores,
            methods[interleaver](),
            user,
            impressions,
            length=length,
            rankers=names,
            n_users=users,
            rng=seed,
        ),
    )
    typer.echo(f"{output}: {impressions} impressions of {interleaver}: {', '.join(names)}")


app = group("Compare rankers by clicks on interleaved lists.", analyse, learn, simulate)


def _scores(name: str, rows: Any) -> Any:
    """Return the scores of one ranker: the values of a feature, or the predictions of a model."""
    from structsvm.queries import dense_column

    if name.isdecimal():
        if not 1 <= int(name) <= rows.n_features:
            raise BadInput(f"--ranker {name}", f"expected a feature from 1 to {rows.n_features}")
        return dense_column(rows.X, int(name) - 1)
    model = load_ranker(Path(name))
    if model.n_features_in_ != rows.n_features:
        raise BadInput(name, f"expected {counted(feature=model.n_features_in_)}, got {rows.n_features}")
    return model.predict(rows.X, qid=rows.qid)
