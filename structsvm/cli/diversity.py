"""``structsvm diversify``: learn to choose documents that cover different subtopics, choose, and compare methods."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import structsvm
from structsvm import estimators, features, readers
from structsvm.cli import paths
from structsvm.cli.files import Jobs, split_names
from structsvm.cli.groups import Group
from structsvm.cli.options import AsJson, Selection, Tol, parse_grid
from structsvm.cli.terminal import GapProgress, bar, group, print_json, print_table
from structsvm.common.checks import BadInput

if TYPE_CHECKING:
    from structsvm.estimators.diversity import SVMDiv
    from structsvm.features.word_features import Level
    from structsvm.protocols import Int
    from structsvm.readers.candidate_sets import LabelledSets

Sets = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help='JSON Lines: {"query", "documents": [{"id", "text", "title", "subtopics", "features"}]}; '
        "- is the standard input.",
        callback=paths.stdin_as_path,
    ),
]

_NUMBERS: dict[str, Any] = {"count": int, "share": float, "top_tfidf": int, "neighbours": float}
"""The numbers that levels take; ``appears`` and ``title`` take none."""


@dataclass(frozen=True)
class ChoiceOfC(Group):
    """C, or the values from which cross-validation chooses it."""

    C: Annotated[
        str,
        "Trade-off; of several, as a,b,c or low:high:number, evenly on a log scale, cross-validation over "
        "the queries chooses.",
    ] = "1"
    folds: Annotated[int, "Folds of the choice among several C."] = 5
    selection: Selection = "max"

    @property
    def grid(self) -> list[float]:
        """The values of C, ascending."""
        return sorted(set(parse_grid(self.C)))

    def choose(self, model: SVMDiv, found: LabelledSets) -> float:
        """Return the only C, or the one that cross-validation chooses; a bar on the terminal counts folds."""
        if len(self.grid) == 1:
            return self.grid[0]
        selection: Any = self.selection
        with bar("choosing C", counts=True) as shown:
            task = shown.add_task("choosing C", total=self.folds)
            held_out = estimators.cross_validate_C(
                model, found.sets, found.labels, self.grid, folds=self.folds, selection=selection,
                callback=lambda done, _: shown.update(task, completed=done),
            )  # fmt: skip
        for C, loss in zip(held_out.Cs.tolist(), held_out.means.tolist(), strict=True):
            typer.echo(f"C={C:<8g} loss {loss:.4f} on held-out sets")
        return held_out.C


def train(
    data: Sets,
    output: Annotated[Path, "-o The model to write (.npz)."],
    k: Annotated[int, "-k Number of documents to choose."] = 5,
    *,
    choice: ChoiceOfC,
    level: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LEVEL",
            help="When a word counts: appears, title, count:3, share:.05, top_tfidf:5, neighbours:.2. Repeat for more.",
        ),
    ] = None,
    feature: Annotated[list[str] | None, "Document feature to make: rank, centroid. Repeat for both."] = None,
    loss: Annotated[str, "weighted, unweighted or alpha_ndcg."] = "weighted",
    positive: Annotated[bool, "No benefit may be negative, so that greedy choice is near-optimal."] = False,
    prediction: Annotated[str, "greedy, swap or exact."] = "greedy",
    tol: Tol = 1e-3,
    jobs: Jobs = -1,
) -> None:
    """Learn from the labelled sets of DATA the benefit of covering a word, and write the model.

    Ctrl-C stops after the pass in progress and saves the model so far (exit code 130).
    """
    paths.check_model_output(output, [paths.check_input(data)])
    levels = [_level(text) for text in level] if level else None
    _ = choice.grid

    found = readers.read_candidates(data)
    options: Any = {"loss": loss, "positive": "benefits" if positive else False, "prediction": prediction}
    model = structsvm.SVMDiv(
        k=k, levels=levels, document_features=tuple(feature or ()), tol=tol, n_jobs=jobs, **options
    )
    model.C = choice.choose(model, found)
    with GapProgress(tol, output) as progress:
        model.callback = progress
        model.fit(found.sets, found.labels)
    progress.check(model.fit_)
    model.save(output)

    fit = model.fit_
    unused = f" ({model.n_uninformative_} teach nothing)" if model.n_uninformative_ else ""
    documents = sum(map(len, found.sets))
    typer.echo(f"data       {len(found.sets)} candidate sets, {documents} documents{unused}")
    typer.echo(f"model      C={model.C:g}, k={k}, levels: {', '.join(map(str, model.levels_))}")
    estimate = "" if fit.certified else ", estimated: the search for violated outputs is not exact"
    typer.echo(f"objective  {fit.primal:.6g} (dual {fit.dual:.6g}, relative gap {fit.gap:.1e}{estimate})")
    typer.echo(
        f"loss       {1 - model.score(found.sets, found.labels):.4f} on these sets (weighted subtopic loss)"
    )
    typer.echo(f"written    {output}")
    progress.conclude(fit, "raise --tol")


def apply(
    model: Annotated[Path, "<MODEL> A model that 'diversify train' wrote."],
    data: Sets,
    output: Annotated[Path | None, "-o JSON Lines to write: the documents chosen, and why."] = None,
    run: Annotated[Path | None, "TREC run to write."] = None,
    k: Annotated[int | None, "-k Number of documents to choose; by default as in training."] = None,
    budget: Annotated[
        float | None, "Largest number of words of all chosen documents together, instead of --k."
    ] = None,
    words: Annotated[int, typer.Option(min=0, help="Number of words named per document.")] = 5,
    jobs: Jobs = -1,
) -> None:
    """Choose documents from each set of DATA; labels are not needed.

    In the run a topic is the query with '_' for blanks, or the number of the set; scores count down from the number
    of documents chosen. Documents without words cost as much as one word of the budget.
    """
    if output is None and run is None:
        raise BadInput("expected --output, --run or both, got neither", "there is nothing to write")
    inputs = [paths.check_input(model), paths.check_input(data)]
    paths.check_outputs({"--output": output, "--run": run}, inputs)

    chooser = _load(model)
    chooser.n_jobs = jobs
    found = readers.read_candidates(data)
    limits: Any = {}
    if budget is not None:
        limits = {"costs": [_lengths(s) for s in found.sets], "budget": budget}
    chosen = chooser.predict(found.sets, k, **limits)
    if run is not None:
        _write_run(found, chosen, run)
    if output is not None:
        lines = []
        for one in found.sets:
            entry: dict[str, Any] = {} if one.query is None else {"query": one.query}
            costs = None if budget is None else _lengths(one)
            entry["chosen"] = []
            reasons = chooser.explain(one, k, costs=costs, budget=budget, n_words=words)
            for rank, reason in enumerate(reasons, start=1):
                line: dict[str, Any] = {"id": reason.id, "rank": rank, "gain": reason.gain}
                if costs is not None:
                    line["cost"] = costs[reason.document]
                entry["chosen"].append(line | {"words": [list(word) for word in reason.words]})
            lines.append(json.dumps(entry, ensure_ascii=False))
        paths.write_lines(output, lines)
    typer.echo(f"{sum(map(len, chosen))} documents chosen from {len(chosen)} candidate sets")


def compare(
    data: Sets,
    model: Annotated[list[Path] | None, "-m A model; repeat for more. Its name is the file's."] = None,
    method: Annotated[
        list[str] | None, "{selections}; several with commas or repeated. All but xquad by default."
    ] = None,
    k: Annotated[
        int | None, "-k Number of documents to choose. (default: that of the first model, else 5)"
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random choice.")] = 0,
    report: Annotated[Path | None, "HTML page: who covers which subtopic, and why."] = None,
    queries: Annotated[
        int, typer.Option(min=0, help="Number of queries on the page, those on which methods differ most.")
    ] = 12,
    as_json: AsJson = False,
) -> None:
    """Measure models and fixed methods on the labelled sets of DATA.

    Wins, losses and p (Wilcoxon, two-tailed, over the queries) are of the first model against the others; without
    a model, of the first method.
    """
    paths.check_input(data)
    models = {path.stem: _load(paths.check_input(path)) for path in model or ()}
    if k is None:
        k = next((one.k for one in models.values()), 5)
    method = list(split_names(method or ()))
    if len(models) < len(model or ()):
        raise BadInput("--model", "expected files of different names, got one twice")

    from structsvm.cli.studies.diversity import check_names, compare_methods, with_subtopics
    from structsvm.cli.studies.diversity.page import as_records, headline, page, table

    check_names(models, method or ())
    paths.check_outputs({"--report": report}, [data, *(model or ())])
    read = readers.read_candidates(data)
    found = with_subtopics(read)
    if not found.sets:
        raise BadInput(
            data, "expected documents with subtopics to measure by, got none", "apply needs no labels"
        )
    result = compare_methods(found, models, method or None, k, random_state=seed)
    skipped = len(read.sets) - len(found.sets)
    if report is not None:
        paths.write_lines(report, [page(result, data.name, queries)])
    if as_json:
        record = {"queries": len(found.sets), "skipped": skipped, "k": k, "methods": as_records(result)}
        print_json(record)
        return
    left_out = f" ({skipped} without subtopics left out)" if skipped else ""
    typer.echo(
        f"{len(found.sets)} queries{left_out}, {k} documents each; wins and p: {result.first} against the others"
    )
    print_table(*table(result))
    typer.echo(headline(result))


def _level(text: str) -> Level:
    name, colon, value = text.partition(":")
    try:
        numbers = [_NUMBERS[name](value)] if colon else []
        if not colon and name not in ("appears", "title"):
            raise ValueError
    except (KeyError, ValueError):
        expected = "appears, title, count:3, share:.05, top_tfidf:5 or neighbours:.2"
        raise BadInput(f"--level {text}", f"expected {expected}") from None
    level: Level = getattr(features.Level, name)(*numbers)
    return level


def _load(path: Path) -> SVMDiv:
    model = structsvm.load(path)
    if not isinstance(model, structsvm.SVMDiv):
        raise BadInput(
            path,
            f"expected an SVMDiv, got a {type(model).__name__}",
            "train one with: structsvm diversify train",
        )
    return model


def _lengths(candidates: Any) -> list[int]:
    """Return the number of words of each document, at least one as costs must be positive."""
    return [max(1, len(t.split() if isinstance(t, str) else t)) for t in candidates.texts]


def _write_run(found: LabelledSets, chosen: list[Int], path: Path) -> None:
    topics = [
        "_".join((one.query or "").split()) or str(number) for number, one in enumerate(found.sets, start=1)
    ]
    if len(set(topics)) < len(topics):
        twice = next(t for i, t in enumerate(topics) if t in topics[:i])
        raise BadInput(
            "--run", f"expected queries that differ, got {twice!r} twice: a run has each topic once"
        )
    rows = [
        (topic, one.ids[d], float(len(own) - rank))
        for topic, one, own in zip(topics, found.sets, chosen, strict=True)
        for rank, d in enumerate(own.tolist())
    ]
    if not rows:
        raise BadInput("--run", "expected documents to write, got none: the budget is below every document")
    readers.write_run(readers.Run.from_arrays(*map(list, zip(*rows, strict=True)), tag="SVMDiv"), path)


app = group(
    "Choose documents that cover different subtopics: train, apply, compare methods.",
    train, apply, compare,
)  # fmt: skip
