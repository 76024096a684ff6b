"""``structsvm clicks``: estimate propensities, train and evaluate rankers, and write judgments from a click log."""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import numpy as np

import structsvm
from structsvm import clicks
from structsvm.cli import paths
from structsvm.cli.files import Table, by_name, keep_names, naming, predicted
from structsvm.cli.groups import Group
from structsvm.cli.options import AsJson, MaybeOutput, Output, Report, Scale
from structsvm.cli.terminal import GapProgress, emit, group, note
from structsvm.common.checks import BadInput
from structsvm.common.files import plain_float, read_lines, shorten
from structsvm.common.lazy import labelled

Log = Annotated[Path, "<LOG> Click log, in the format that --format names."]


@dataclass(frozen=True)
class Reading(Group):
    """Options for reading a log."""

    format: Annotated[str, "One of auto, {logs}; tables are .csv, .tsv, .parquet, .jsonl."] = "auto"
    first_position: Annotated[
        int | None, "First position of the log, 0 or 1; required if positions 0 and 1 both occur."
    ] = None
    max_position: Annotated[int | None, "Last position to read, counted from 1. (default: 1000)"] = None
    application: Annotated[str | None, "UBI: read only this application."] = None
    session: Annotated[str | None, "Column of the session in a table. (default: no sessions)"] = None
    query: Annotated[str | None, "Column of the query in a table. (default: query)"] = None
    document: Annotated[str | None, "Column of the document in a table. (default: document)"] = None
    position: Annotated[str | None, "Column of the position in a table. (default: position)"] = None
    clicked: Annotated[str | None, "Column of the clicks, 0 or 1, in a table. (default: clicked)"] = None

    time: Annotated[str | None, "Column of times in a table. --since and --until select rows by time."] = None
    since: Annotated[str | None, "Only rows from this time on, such as 2026-03-01 or a number."] = None
    until: Annotated[str | None, "Only rows before this time."] = None

    def read(self, log: Path) -> Any:
        """Return the click cells of a log."""
        options = dataclasses.asdict(self)
        span = options.pop("since"), options.pop("until")
        cells = clicks.read_clicks(log, **options, between=None if span == (None, None) else span)
        if "time" in cells.guessed:
            note(f"times are read as {cells.guessed['time']}")
        return cells


@dataclass(frozen=True)
class ReadingOfUsers(Reading):
    """Options for logs whose lists depend on users or were drawn at random."""

    cluster: Annotated[
        str | None, "Column of the user in a table; a user's lists depend on each other. (default: no users)"
    ] = None
    probability: Annotated[
        str | None,
        "Column of the probability with which the ranker put the row's document at its position. (default: not logged)",
    ] = None


Candidates = Annotated[Path, "<DATA> Candidates of each query: text or a table with docids, or a store."]
Holdout = Annotated[
    float,
    "Share of the queries that train leaves out and only evaluate uses; the same share gives the same "
    "queries. (To split by time: --until for train, --since for evaluate.) (default: 0, all queries for both)",
]
Theta = Annotated[
    Path | None,
    "Propensities, one per line from position 1, as from clicks propensities; default: estimated from the log.",
]


def describe(
    log: Log,
    *,
    reading: Reading,
    models: Annotated[bool, "Also fit click models."] = True,
    as_json: AsJson = False,
    report: Report = None,
) -> None:
    """Report the contents of LOG, which rows were left out, and how well click models predict its clicks."""
    paths.check_outputs({"--report": report}, [paths.check_file(log)])
    cells = reading.read(log)
    fitted = models and cells.sessions is not None and cells.n_clicks
    classes = labelled("structsvm.clicks", "abbreviation").values() if fitted else ()
    qualities = [(model.__name__, clicks.held_out_quality(model(), cells)) for model in classes]
    shows, taps, _ = cells.per_position()
    record = {
        "queries": cells.n_queries,
        "documents": cells.n_rows,
        "shows": cells.n_shows,
        "clicks": cells.n_clicks,
        "shows_by_position": shows,
        "clicks_by_position": taps,
        "models": {
            name: {"log_likelihood": q.log_likelihood, "perplexity": q.perplexity} for name, q in qualities
        },
    }
    lines = [
        f"{name:<32}log-likelihood {q.log_likelihood:.4f}, perplexity {q.perplexity:.4f}"
        for name, q in qualities
    ]
    title = ["click models    fitted to a random 3/4 of the lists, evaluated on the others"] if lines else []
    _emit(log, cells, [*title, *lines], record, as_json, report, qualities=qualities)


def propensities(
    log: Log,
    *,
    reading: Reading,
    last: Annotated[int | None, "Last position with its own estimate; for later ones see --tail."] = None,
    tail: Annotated[bool, "Estimate the positions after --last by a power law."] = False,
    output: Annotated[MaybeOutput, "File to write: a propensity per line, from position 1."] = None,
    as_json: AsJson = False,
    report: Report = None,
) -> None:
    """Estimate how often users examine each position of LOG."""
    paths.check_outputs({"--output": output, "--report": report}, [paths.check_file(log)])
    cells = reading.read(log)
    with _naming_log(log):
        found = clicks.harvest(cells, last=last, tail=tail)
    if output is not None:
        paths.write_text(output, _theta_lines(found))
    _emit(log, cells, found.lines(), found.to_dict(), as_json, report, propensities=found)


def train(
    log: Log,
    data: Candidates,
    output: Annotated[Output, "The model to write (.npz)."],
    C: Annotated[float | None, "Trade-off; default: chosen by held-out clicks."] = None,
    loss: Annotated[str, "pairs, mean_pairs, dcg or mrr, or with a cut-off, dcg@10."] = "pairs",
    weighting: Annotated[
        str, "ips, or policy for logs that show the top documents of several rankers."
    ] = "ips",
    theta: Theta = None,
    scale: Scale = "none",
    holdout: Holdout = 0.0,
    *,
    reading: Reading,
    table: Table,
    report: Report = None,
) -> None:
    """Train a ranker on the clicks of LOG and write the model."""
    paths.check_model_output(output, [paths.check_file(log), paths.check_input(data)])
    paths.check_outputs({"--report": report}, [log, data])
    options: Any = {"loss": loss, "weighting": weighting, "scale": scale, "propensities": _theta(theta)}
    model: Any = clicks.ClickSVMCV(**options) if C is None else clicks.ClickSVM(C, **options)
    model.check_options()
    cells = _part(reading.read(log), holdout, log, 0)
    rows = _candidates(data, table)
    queries = _as_log(cells.query_ids, rows.qid)
    documents = _as_log(cells.docid, rows.docid)
    with (
        _naming_log(log, "max_position"),
        naming(data, *_IDS),
        # there is no model to save before C is chosen
        (_GivingUp if C is None else GapProgress)(model.tol, output) as progress,
    ):
        model.callback = progress
        model.fit(rows.X, cells, qid=queries, docid=documents)
    progress.check(model.fit_)
    keep_names(model, rows)
    model.save(output)
    figures = [
        ("clicks", f"{cells.n_clicks:,}"),
        ("effective number of clicks", f"{model.effective_sample_size_:,.0f}"),
        ("largest weight of a click", f"{model.largest_weight_:.4g}"),
        ("loss", loss),
        ("C", f"{model.C_ if C is None else C:g}"),
        ("objective", f"{model.fit_.primal:.6g}"),
        ("relative gap to the optimum", f"{model.fit_.gap:.1e}"),
    ]
    _emit(
        log,
        cells,
        [f"{name:<30}{text}" for name, text in (*figures, ("model", output))],
        report=report,
        propensities=model.propensities_,
        weights=figures,
        search=model if C is None else None,
    )
    progress.conclude(model.fit_, "scale the features with --scale, or lower --C")


@dataclass(frozen=True)
class Estimate(Group):
    """Options of the estimate and of the click weights."""

    k: Annotated[int, "Cut-off of the DCG."] = 10
    theta: Theta = None
    trust: Annotated[
        Path | None,
        "Trust bias: a file with alpha and beta of each position, one pair per line, instead of --theta.",
    ] = None
    most_unseen: Annotated[float, "Largest allowed share of DCG discounts on documents never shown."] = 0.2
    weighting: Annotated[str | None, "policy, ips or logged. (default: policy; --probability: logged)"] = None
    gaps: Annotated[str, "Meaning of positions of a list without an impression: empty, or lost."] = "empty"

    def options(self) -> dict[str, Any]:
        """Return the arguments of evaluate_from_clicks, with the propensities read from a file."""
        if self.theta is not None and self.trust is not None:
            raise BadInput("--theta", "expected none with --trust, which replaces it")
        given = _theta(self.theta) if self.trust is None else _trust(self.trust)
        return {
            "propensities": given,
            **{name: getattr(self, name) for name in ("k", "most_unseen", "weighting", "gaps")},
        }


def evaluate(
    log: Log,
    model: Annotated[Path, "<MODEL> The new ranker, a model file."],
    data: Candidates,
    *,
    estimate: Estimate,
    baseline: Annotated[Path | None, "Another new ranker, a model file, to compare MODEL with."] = None,
    holdout: Holdout = 0.0,
    reading: ReadingOfUsers,
    table: Table,
    as_json: AsJson = False,
    report: Report = None,
) -> None:
    """Estimate the utility of a new ranker from LOG, whose lists came from other rankers."""
    files = [model] if baseline is None else [model, baseline]
    paths.check_outputs(
        {"--report": report}, [paths.check_file(log), *map(paths.check_file, files), paths.check_input(data)]
    )
    options = estimate.options()
    from structsvm.clicks.holding_out import learned_share

    rankers = [structsvm.load(file) for file in files]
    cells = _part(reading.read(log), holdout, log, 1)
    shares = [learned_share(getattr(ranker, "log_sketch_", None), cells) for ranker in rankers]
    for file, learned in zip(files, shares, strict=True):
        if learned > _MOST_LEARNED:
            note(
                f"warning: {file} was trained on about {learned:.0%} of these queries, with the same clicks, and looks "
                "better than it is; train and evaluate with the same --holdout, or split with --until and --since"
            )
    rows = _candidates(data, table)
    queries = _as_log(cells.query_ids, rows.qid)
    documents = _as_log(cells.docid, rows.docid)
    scores = [
        predicted(ranker, by_name(rows, getattr(ranker, "feature_names_in_", None), data), data)
        for ranker in rankers
    ]
    with _naming_log(log, "max_position"), naming(data, *_IDS):
        found = clicks.evaluate_from_clicks(
            cells, queries, documents, scores[0], **options, baseline=scores[1] if len(scores) > 1 else None
        )
    _emit(
        log,
        cells,
        found.lines(),
        {"model": model, **found.to_dict(), "trained_on": shares[0]},
        as_json,
        report,
        estimate=found,
    )


def judge(
    log: Log,
    output: Annotated[Output, "File to write: qrels, or a table if its name ends in .tsv."],
    method: Annotated[str, "Method: coec, ips or sdbn."] = "coec",
    levels: Annotated[
        str | None,
        "Smallest values of the grades 1, 2, ... (default: for coec 0.5,1,2 times the clicks of an average document; "
        "otherwise 0.1,0.3,0.6)",
    ] = None,
    theta: Theta = None,
    *,
    reading: Reading,
    report: Report = None,
) -> None:
    """Write judgments of the documents of LOG based on their clicks."""
    paths.check_outputs({"--output": output, "--report": report}, [paths.check_file(log)])
    if output.suffix in (".csv", ".parquet"):
        raise BadInput(
            "--output", f"expected .tsv for a table, or no table suffix for TREC judgments, got {output}"
        )
    limits = None
    if levels is not None:
        try:
            limits = list(map(plain_float, levels.split(",")))
        except ValueError:
            raise BadInput(
                f"--levels {levels}", "expected numbers separated by commas, such as 0.5,1,2"
            ) from None
    cells = reading.read(log)
    with _naming_log(log, "max_position"):
        found = clicks.judgments(cells, method, propensities=_theta(theta))
    n_written = cells.n_rows
    if output.suffix == ".tsv":
        found.write_table(output)
    else:
        n_written = int(found.known.sum())
        try:
            found.write_qrels(output, limits)
        except BadInput as error:
            if error.argument not in ("query", "document"):
                raise
            raise BadInput(output, f"{error.problem}", "write a table, with --output judgments.tsv") from None
    _emit(
        log,
        cells,
        [f"judgments       {output}: {n_written:,} documents"],
        report=report,
        judged=found,
        levels=limits,
    )


class _GivingUp(GapProgress):
    """Progress of a training run that Ctrl-C ends at once, without a model."""

    def _stop(self, number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt


app = group("Turn click logs into rankers and judgments.", describe, propensities, train, evaluate, judge)


_IDS = ("query", "document", "docid")
"""Additional fields that are read from the candidates."""

_MOST_LEARNED = 0.2
"""Share of queries with the same counts as in the training log above which a warning appears; some agree by chance."""


def _part(cells: Any, holdout: float, log: Path, side: int) -> Any:
    """Return the part of a log to train on (0) or the held-out part (1); the whole log without ``--holdout``."""
    if not holdout:
        return cells
    try:
        return clicks.divide_by_query(cells, holdout)[side]
    except BadInput as error:
        raise BadInput(log, f"--holdout {holdout:g}: {error.problem}") from None


def _candidates(data: Path, table: Table) -> Any:
    """Read the rows; they must have ids of documents."""
    rows = table.read(data, labels=False)
    if rows.docid is None:
        raise BadInput(
            data,
            "expected the id of each document, as in the log, got none",
            "in text add #docid = ..., in a table name their column with --docid",
        )
    return rows


@contextlib.contextmanager
def _naming_log(log: Path, last: str = "last") -> Iterator[None]:
    """Name the file in errors about the counts of a log; ``last`` names the argument that leaves out later
    positions."""
    try:
        yield
    except BadInput as error:
        if error.argument == "propensities":
            raise error.renamed("--theta") from None
        if error.argument != "cells":
            raise
        remedy = (
            "name the column of the session with --session"
            if error.problem.startswith("expected sessions")
            else error.recommending(last, instead_of="last").remedy
        )
        raise BadInput(log, error.problem, remedy) from None


def _theta_lines(found: Any) -> str:
    """Return one line per position: the propensity, the covariances of its logarithm, and their degrees of freedom."""
    freedom = [math.inf] * found.theta.shape[0] if found.freedom is None else found.freedom.tolist()
    return "".join(
        "\t".join(map(repr, [value, *row, f])) + "\n"
        for value, row, f in zip(found.theta.tolist(), found.covariance.tolist(), freedom, strict=True)
    )


def _theta(path: Path | None) -> Any:
    """Return the propensities of a file: one per line, taken as exact, or with the covariances of
    :func:`_theta_lines`."""
    if path is None:
        return None
    rows = _numbers(
        path, "the propensity of position {}, a finite number > 0", lambda value, *_: 0 < value < math.inf
    )
    n = len(rows)
    for number, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]) or len(row) not in (1, n + 1, n + 2):
            raise BadInput(
                f"{path}:{number}",
                f"expected {n} covariances after the propensity, one for each line, got {len(row) - 1}",
                "degrees of freedom may follow, on every line",
            )
    whole = np.array(rows)
    given = clicks.Propensities.given(whole[:, 0])
    if whole.shape[1] == 1:
        return given
    freedom = whole[:, n + 1] if whole.shape[1] > n + 1 else np.full(n, math.inf)
    if not np.isfinite(whole[:, 1 : n + 1]).all() or not (freedom > 0).all():
        raise BadInput(path, "expected finite covariances, and degrees of freedom > 0")
    return dataclasses.replace(
        given,
        covariance=np.ascontiguousarray(whole[:, 1 : n + 1]),
        freedom=None if np.isinf(freedom).all() else freedom,
    )


def _trust(path: Path) -> Any:
    """Return alpha and beta from a file with one line per position."""
    pairs = _numbers(path, "alpha and beta of position {}, two numbers", lambda *row: len(row) == 2)
    return tuple(zip(*pairs, strict=True))


def _numbers(path: Path, expected: str, valid: Callable[..., bool]) -> list[list[float]]:
    """Return the numbers on each line, one line per position."""
    rows: list[list[float]] = []
    for number, line in read_lines(paths.check_file(path)):
        try:
            rows.append(list(map(plain_float, line.split())))
            if not rows[-1] or not valid(*rows[-1]):
                raise ValueError
        except ValueError:
            raise BadInput(
                f"{path}:{number}", f"expected {expected.format(number)}, got {shorten(line.strip())}"
            ) from None
    if not rows:
        raise BadInput(path, f"expected {expected.format(1)}, got an empty file")
    return rows


def _as_log(known: Any, ids: Any) -> Any:
    """Return ids of queries or documents with the type of those of the log: numbers or strings."""
    try:
        return ids.astype(known.dtype if known.dtype.kind in "iu" else str, copy=False)
    except ValueError:
        raise BadInput(
            "ids", f"the log has numbers such as {known[0]}, but the data have {ids[0]!s}"
        ) from None


def _emit(
    log: Path,
    cells: Any,
    lines: Iterable[str],
    record: Mapping[str, Any] | None = None,
    as_json: bool = False,
    report: Path | None = None,
    **sections: Any,
) -> None:
    """Write the page of a result if ``report`` is given, and print it after the size of the log and what was left out
    of it."""
    from structsvm.clicks.cells import size_of_log

    if report is not None:
        from structsvm.clicks.page import clicks_page

        paths.write_text(report, clicks_page(log.name, cells, **sections))
    left_out = (f"left out        {reason}: {count:,}" for reason, count in cells.dropped.items())
    emit(
        [f"log             {size_of_log(cells)}", *left_out, *lines],
        {"log": log, **(record or {}), "dropped": cells.dropped},
        as_json,
    )
