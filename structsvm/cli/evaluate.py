"""``structsvm evaluate``: print measures of rankings, and tests of their differences."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

import structsvm
from structsvm import metrics, readers
from structsvm.cli import paths
from structsvm.cli.dask import Dask, Groups, connecting, evaluate_there
from structsvm.cli.files import Columns, Data, names_of_runs, read_data, read_scores
from structsvm.cli.groups import Group
from structsvm.cli.options import AsJson, Convention, FailIfWorse, Relevance
from structsvm.cli.terminal import emit, exit_if_worse, note, table_lines
from structsvm.common.checks import BadInput
from structsvm.common.escaping import printable
from structsvm.common.tables.source import Source, source_of


@dataclass(frozen=True)
class Rules(Group):
    """Arguments of ``evaluate`` that all measures share."""

    convention: Convention = "trec"
    relevance: Relevance = 1.0
    empty: Annotated[
        str,
        "Value of a query for which a measure is undefined, such as one without relevant documents: zero, as in "
        "trec_eval; one, as in LightGBM; skip leaves it out of the mean.",
    ] = "zero"


class _Measured(NamedTuple):
    """The results of each measure for one file; ``n_rows`` is None for rows on a cluster."""

    scores: Path
    n_rows: int | None
    results: Sequence[Any]

    def record(self, *, per_query: bool) -> dict[str, Any]:
        """Return the record that ``--json`` prints."""
        values = {
            result.name: dict(
                zip(map(str, result.query_ids.tolist()), result.per_query.tolist(), strict=True)
            )
            for result in self.results
            if per_query
        }
        return {
            "n_queries": len(self.results[0].query_ids),
            **({} if self.n_rows is None else {"n_rows": self.n_rows}),
            "metrics": {result.name: result.mean for result in self.results},
            "intervals": {result.name: result.interval() for result in self.results},
            **({"per_query": values} if values else {}),
        }


def evaluate(
    data: Data,
    scores: Annotated[
        list[Path],
        typer.Argument(
            metavar="SCORES",
            help="One score per line, in the order of the rows of DATA (for a store: of its source file); the number "
            "of lines is checked. Or a csv or Parquet file from predict, whose ids are checked, too. If DATA are "
            "TREC judgments, a TREC run; with --dask, the model that ranks.",
            callback=lambda scores: list(map(paths.stdin_as_path, scores)),
        ),
    ],
    metric: Annotated[
        list[str] | None,
        "One of {measures}, where k is a number, or a name of trec_eval or ir_measures such as ndcg_cut_10 and "
        "nDCG@10; repeat for more. (default: map, ndcg@10)",
    ] = None,
    *,
    measuring: Rules,
    columns: Columns,
    common_topics: Annotated[
        bool,
        "With judgments and a run: use only topics that are in both, as trec_eval does without -c. Otherwise "
        "judged topics missing from the run count as 0.",
    ] = False,
    dask: Dask = None,
    groups: Groups = "refuse",
    per_query: Annotated[bool, "Also print the value of each query; several files need --json."] = False,
    as_json: AsJson = False,
    fail_if_worse: FailIfWorse = None,
) -> None:
    """Print measures of a ranking: measure, query and value on each line, with 'all' for the mean over queries, and
    then the 95% interval of the mean by Student's t.

    DATA and SCORES are rows with labels and their scores, or TREC judgments (qrels) and a TREC run. For several files
    with scores or runs, one table shows the means, one line per file; a run is named by its tag, or by its file if tags
    repeat. Another table shows the difference of each file from the first, the baseline, over the queries that are in
    all files, with its 95% interval and paired tests, as in compare.
    """
    if len({data, *scores}) < 1 + len(scores):
        raise BadInput("DATA and SCORES", "expected different files, got one file twice", "name each once")
    for path in scores:
        paths.check_file(path)
    if len(scores) > 1 and per_query and not as_json:
        raise BadInput("--per-query", "requires --json for several files of scores")
    if len(scores) < 2 and fail_if_worse is not None:
        raise BadInput("--fail-if-worse", "expected several files of scores, the baseline first, got one")
    names = metric or ["map", "ndcg@10"]
    rules = asdict(measuring)
    if dask is not None:
        if len(scores) > 1:
            raise BadInput("--dask", f"expected one model, got {len(scores)}", "evaluate one after the other")
        with connecting(dask) as client:
            results = evaluate_there(
                client, structsvm.load(scores[0]), paths.source_at(data), columns, groups, names, **rules
            )
        found = {"model": _Measured(scores[0], None, results)}
    elif groups != "refuse":
        raise BadInput("--groups", "requires --dask")
    elif (kind := _kind(source := paths.source_at(data))) == "qrels":
        found = _of_runs(data, scores, names, complete=not common_topics, **rules)
    elif kind == "run" and "qrels" in map(_kind, map(source_of, scores)):
        raise BadInput(data, "expected judgments, got a TREC run", "judgments come first, the run second")
    elif common_topics:
        raise BadInput("--common-topics", f"expected TREC judgments and a run, got other data in {data}")
    else:
        found = _of_scores(source, scores, columns, names, **rules)
    _note_queries(found)
    tests = _tests(found, names)
    if fail_if_worse is not None and not tests:
        raise BadInput("--fail-if-worse", "expected a query that is in all files, got none")
    records = {name: one.record(per_query=per_query) for name, one in found.items()}
    if len(found) == 1:
        one = {"data": data, "scores": scores[0], **rules, **next(iter(records.values()))}
        emit(_lines_of_one(found, names, per_query=per_query), one, as_json)
    else:
        emit(
            _lines_of_several(found, tests),
            {
                "data": data,
                **rules,
                "runs": {name: {"scores": found[name].scores, **records[name]} for name in found},
                "tests": tests,
            },
            as_json,
        )
    exit_if_worse(tests, fail_if_worse)


def _lines_of_one(found: Mapping[str, _Measured], names: Sequence[str], *, per_query: bool) -> Iterator[str]:
    """Yield one line per measure for the only file."""
    width = max(len(name) for name in names)
    for result in next(iter(found.values())).results:
        if per_query:
            for query, value in zip(result.query_ids.tolist(), result.per_query.tolist(), strict=True):
                yield f"{result.name:<{width}}\t{query}\t{value:.4f}"
        lower, upper = result.interval()
        interval = "" if math.isnan(lower) else f"\t[{lower:.4f}, {upper:.4f}]"
        yield f"{result.name:<{width}}\tall\t{result.mean:.4f}{interval}"


def _lines_of_several(found: Mapping[str, _Measured], tests: Sequence[Any]) -> Iterator[str]:
    """Yield the tables of several files: means, with the number of topics if it differs, intervals and tests."""
    from structsvm.cli.studies.folds.page import tests_table
    from structsvm.plots.pages import columns

    results = {(printable(name), each.name): each for name, one in found.items() for each in one.results}
    runs, measures = (tuple(dict.fromkeys(names)) for names in zip(*results, strict=True))
    lines = repr(metrics.RunTable(runs, measures, results)).splitlines()
    topics = [frozenset(one.results[0].query_ids.tolist()) for one in found.values()]
    if len(set(topics)) > 1:
        counts = [str(len(each)) for each in topics]
        lines = [f"{line}  {cell:>7}" for line, cell in zip(lines, ["topics", *counts], strict=True)]
        note(
            f"the means are over different topics; all files share {len(frozenset.intersection(*topics))} of them"
        )
    yield from lines
    if len(topics[0]) > 1:
        ends = {key: each.interval() for key, each in results.items()}
        cells = {key: "–" if math.isnan(low) else f"{low:.4f} to {up:.4f}" for key, (low, up) in ends.items()}
        rows = [[run, *(cells[run, name] for name in measures)] for run in runs]
        yield from ("", "95% intervals of the means", *table_lines(columns("run", numbers=measures), rows))
    if tests:
        yield from ("", f"Differences from {next(iter(found))}", *table_lines(*tests_table(tests)))


def _defined(result: Any) -> dict[Any, float]:
    """Return the value of each query that has one."""
    values = zip(result.query_ids.tolist(), result.per_query.tolist(), strict=True)
    return {query: value for query, value in values if not math.isnan(value)}


def _note_queries(found: Mapping[str, _Measured]) -> None:
    """Tell how many queries each measure leaves out, and whether the rest are few."""
    from structsvm.metrics.estimates import few_queries

    counts = {
        result.name: (len(_defined(result)), result.per_query.size)
        for one in found.values()
        for result in one.results
    }
    for name, (n, n_all) in counts.items():
        if n < n_all:
            note(f"{name}: {n_all - n} of {n_all} queries left out")
    if few := few_queries(min(n for n, _ in counts.values())):
        note(f"warning: {few}")


def _tests(found: Mapping[str, _Measured], names: Sequence[str]) -> list[Any]:
    """Return the tests against the first file over the queries in all files."""
    from structsvm.cli.studies.folds.results import result_of, tests_of

    values = {}
    for k, measure in enumerate(names):
        each = [_defined(one.results[k]) for one in found.values()]
        queries = [query for query in each[0] if all(query in own for own in each)]
        if not queries or len(found) < 2:
            return []
        for name, own in zip(found, each, strict=True):
            values[measure, name] = result_of(measure, np.array([own[query] for query in queries]))
    return tests_of(values, [next(iter(found))], names[0]).pairs


def _of_runs(
    qrels: Path, files: Sequence[Path], names: list[str], *, complete: bool, **rules: Any
) -> dict[str, _Measured]:
    """Return the measures of each TREC run, keyed by its name."""
    judgments, runs = readers.read_qrels(qrels), list(map(readers.read_run, files))
    found = {}
    for name, path, run in zip(names_of_runs(files, [run.tag for run in runs]), files, runs, strict=True):
        rows = readers.judge_run(run, judgments, complete=complete)
        found[name] = _Measured(
            path, len(rows.y_true), [metrics.evaluate(each, **rows._asdict(), **rules) for each in names]
        )
    return found


def _of_scores(
    data: Source, files: Sequence[Path], columns: Columns, names: list[str], **rules: Any
) -> dict[str, _Measured]:
    """Return the measures of each file of scores, keyed by its path."""
    # features are not used, so missing features are filled
    options: dict[str, Any] = {"features": ()} if data.is_table else {}
    rows = read_data(data, columns, fill=None if data.kind == "store" else 0.0, **options)
    found = {}
    for name, path in zip(names_of_runs(files, list(map(str, files))), files, strict=True):
        values, ids = read_scores(path)
        if values.shape[0] != rows.n_rows:
            raise BadInput(
                path,
                f"expected {rows.n_rows} scores, one for each row of {data}, got {values.shape[0]}",
                "predict on this file",
            )
        if ids is not None:
            _check_ids(rows, ids, data, path)
        if rows.order is not None:
            values = values[rows.order]
        found[name] = _Measured(
            path,
            rows.n_rows,
            [metrics.evaluate(each, rows.y, values, qid=rows.qid, **rules) for each in names],
        )
    return found


def _check_ids(rows: Any, ids: Sequence[tuple[str, str]], data: Source, scores: Path) -> None:
    """Raise if the ids in a file from predict differ from those of the rows."""
    queries = np.repeat(rows.query_ids, np.diff(rows.offsets)).tolist()
    documents = [None] * rows.n_rows if rows.docid is None else rows.docid.tolist()
    numbers = range(rows.n_rows) if rows.order is None else rows.order.tolist()
    for row, query, document in zip(numbers, queries, documents, strict=True):
        known, of = ids[row]
        # without document ids in DATA, predict writes row numbers
        if known != str(query) or (document is not None and of not in (str(document), str(row + 1))):
            raise BadInput(
                f"{scores}, row {row + 1}",
                f"expected query {query} and document {document or row + 1} as in {data}, got {known} and {of}",
                "predict on this file",
            )


def _kind(source: Source) -> str:
    """Return the kind of a text file by its first line; empty for a stream, which can be read only once."""
    if source.kind != "text":
        return ""
    from structsvm.readers.describing import first_line, kind_of

    return kind_of(first_line(source.path))
