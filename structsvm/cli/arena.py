"""``structsvm arena``: find the best of several models, prompts or rankers by pairwise votes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from structsvm.cli import paths
from structsvm.cli.files import read_names
from structsvm.cli.groups import Group
from structsvm.cli.options import AsJson, ColumnNames, Output, Report, Seed, named_columns
from structsvm.cli.terminal import GATE, emit, group
from structsvm.common.files import csv_lines

VotesFile = Annotated[
    Path,
    typer.Argument(
        metavar="VOTES",
        help="Table with one row per vote (CSV, TSV, JSON lines, Parquet): a, b, winner and, if known, question, judge "
        "and time. a was shown first; winner is a, b, tie, a name, or the share of a from 0 to 1; or columns winner_a, "
        "winner_b and winner_tie of 0 and 1. Votes without a winner are left out and counted.",
    ),
]


@dataclass(frozen=True)
class Voting(Group):
    """Options for reading votes, and for the decision."""

    alpha: Annotated[float, "Largest probability of a wrong verdict, over all looks."] = 0.05
    epsilon: Annotated[float, "A win rate above 1/2 - EPSILON against every other model suffices."] = 0.0
    top: Annotated[int, "Number of best models to find."] = 1
    order: Annotated[
        str,
        "matched: count equal numbers of votes in both orders. random: the order of each vote was drawn at random. "
        "unknown: it is not known which was shown first.",
    ] = "matched"
    cluster: Annotated[
        str | None,
        "Adjacent votes that count as one: those of a question, of a judge, or none. (default: judge if they voted one "
        "after the other, else question, if known)",
    ] = None
    repeats: Annotated[
        bool,
        "Count further votes on a question, too; their number must not depend on the answers. (default: the first "
        "vote of each pair, question and order)",
    ] = False
    columns: ColumnNames = None

    @property
    def rules(self) -> dict[str, Any]:
        """The arguments of ``arena`` and ``next_pairs``."""
        return {
            name: getattr(self, name) for name in ("alpha", "epsilon", "top", "order", "cluster", "repeats")
        }

    def read(self, path: Path) -> Any:
        """Return the votes of a file."""
        from structsvm.online.arena import read_votes

        return read_votes(path, columns=named_columns(self.columns))


def report(
    votes: VotesFile,
    *,
    voting: Voting,
    unordered: Annotated[
        bool,
        typer.Option("--unordered", help="Rows are not in time order; the verdict holds for one look only."),
    ] = False,
    elo: Annotated[
        float | None, typer.Option(help="Also print Elo ratings around this base, such as 1000.")
    ] = None,
    fail_if_undecided: Annotated[
        bool, typer.Option("--fail-if-undecided", help=f"Exit with {GATE} if no model is shown to be best.")
    ] = False,
    as_json: AsJson = False,
    report: Report = None,
) -> None:
    """Report which model of VOTES is best, how certain this is, and which comparisons are still open.

    The verdict is valid at every look: run the command after each batch of votes, and stop once the verdict is decided.
    It holds for any way of choosing the pairs, if questions are drawn at random.
    """
    from structsvm.online.arena import arena
    from structsvm.online.arena.page import page, summary

    paths.check_outputs({"--report": report}, [paths.check_input(votes)])
    result = arena(voting.read(votes), **voting.rules, unordered=unordered)
    if report is not None:
        paths.write_text(report, page(votes.name, result, elo=elo))
    emit(summary(result, elo=elo), {"votes": votes, **result.to_dict()}, as_json, report)
    if fail_if_undecided and not result.best:
        raise typer.Exit(GATE)


def next_(
    votes: VotesFile,
    n: Annotated[int, typer.Option("-n", "--number", help="Number of pairs.")] = 20,
    models: Annotated[
        Path | None, typer.Option(help="Text file with one model per line, to include models without votes.")
    ] = None,
    questions: Annotated[
        Path | None,
        typer.Option(help="Text file with one question per line; a pair gets questions that are new to it."),
    ] = None,
    *,
    voting: Voting,
    seed: Annotated[Seed, "Seed; the same seed and votes give the same pairs."] = 0,
    output: Annotated[Output, "CSV file; - is standard output."] = Path("-"),
) -> None:
    """Write the pairs to compare next as CSV: a (to be shown first), b, and question (empty without --questions).

    Append the answers to VOTES in a column winner, and run the command again, with the same options as the report. The
    order of each pair is random: if all votes were collected this way, --order random needs fewer votes. Before the
    first vote, VOTES has only a header and --models names all models.
    """
    from structsvm.online.arena import add_models, next_pairs

    inputs = [paths.check_input(path) for path in (votes, models, questions) if path is not None]
    if output != Path("-"):
        paths.check_output(output, inputs)
    read = voting.read(votes)
    if models is not None:
        read = add_models(read, read_names(models))
    if left_out := read.dropped.said():
        typer.echo(left_out, err=True)
    pairs = next_pairs(
        read,
        n,
        questions=None if questions is None else read_names(questions),
        random_state=seed,
        **voting.rules,
    )
    paths.write_lines(output, csv_lines([("a", "b", "question"), *pairs]))


app = group("Find the best of several models, prompts or rankers by pairwise votes.", report, next_)
