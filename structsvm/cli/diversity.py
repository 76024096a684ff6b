"""``structsvm diversify``: learn to choose documents that cover different subtopics, choose, and compare methods."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from structsvm.cli.files import Jobs, check_input, check_output, stdin_as_path, write_lines
from structsvm.cli.terminal import INTERRUPTED, GapProgress, note, stoppable

if TYPE_CHECKING:
    from structsvm.estimators.diversity import SVMDiv
    from structsvm.features.words import Level
    from structsvm.protocols import Int
    from structsvm.readers.candidate_sets import LabelledSets

__all__ = ["app"]

app = typer.Typer(
    help="Choose documents that cover different subtopics: learn it, do it, compare methods.",
    no_args_is_help=True,
)

Sets = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help='JSON Lines: {"query", "documents": [{"id", "text", "title", "subtopics", "features"}]}; '
        "- is the standard input.",
        callback=stdin_as_path,
    ),
]

_FREE = ("random", "original", "bm25", "coverage", "essential", "mmr", "facility")
_WITH_LABELS = ("xquad", "clairvoyant")  # they look at the subtopics
_LEVELS = {
    "appears": None,
    "title": None,
    "count": int,
    "share": float,
    "top_tfidf": int,
    "neighbours": float,
}


def train(
    data: Sets,
    output: Annotated[Path, typer.Option("--output", "-o", help="The model to write (.npz).")],
    k: Annotated[int, typer.Option("--k", "-k", help="Documents to choose.")] = 5,
    C: Annotated[
        list[float] | None,
        typer.Option("--C", help="Trade-off. Repeat it, and cross-validation over the queries chooses."),
    ] = None,
    folds: Annotated[int, typer.Option(help="Folds of the choice among several C.")] = 5,
    level: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LEVEL",
            help="When a word counts: appears, title, count:3, share:.05, top_tfidf:5, neighbours:.2. Repeat for more.",
        ),
    ] = None,
    feature: Annotated[
        list[str] | None, typer.Option(help="Document feature to make: rank, centroid. Repeat for both.")
    ] = None,
    loss: Annotated[str, typer.Option(help="weighted, unweighted or alpha_ndcg.")] = "weighted",
    positive: Annotated[
        bool,
        typer.Option("--positive", help="No word may be worth less than nothing: greedy is near-optimal."),
    ] = False,
    prediction: Annotated[str, typer.Option(help="greedy, swap or exact.")] = "greedy",
    tol: Annotated[float, typer.Option(help="Relative duality gap to reach.")] = 1e-3,
    jobs: Jobs = -1,
) -> None:
    """Learn from the labelled sets of DATA what covering a word is worth, and write the model.

    Ctrl-C stops after the pass in progress and saves the model so far (exit code 130).
    """
    check_output(output, [check_input(data)])
    levels = [_level(text) for text in level] if level else None

    from structsvm.estimators.diversity import SVMDiv
    from structsvm.readers.candidate_sets import read_candidates

    found = read_candidates(data)
    options: Any = {"loss": loss, "positive": "benefits" if positive else False, "prediction": prediction}
    model = SVMDiv(
        k=k, levels=levels, document_features=tuple(feature or ()), tol=tol, n_jobs=jobs, **options
    )
    Cs = sorted(set(C or [1.0]))
    model.C = _choose_C(model, found, Cs, folds) if len(Cs) > 1 else Cs[0]
    with GapProgress(tol, output) as progress:
        model.callback = progress
        model.fit(found.sets, found.labels)
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
    if progress.interrupted and not fit.converged:
        note(f"interrupted: saved the model of gap {fit.gap:.1e} after {fit.n_passes} passes, as {output}")
        raise typer.Exit(INTERRUPTED)
    if not fit.converged:
        note(f"warning: the gap is {fit.gap:.1e}, not {tol:g}, after {fit.n_passes} passes; raise --tol")


def apply(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model that 'diversify train' wrote.")],
    data: Sets,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="JSON Lines to write: the documents chosen, and why."),
    ] = None,
    run: Annotated[Path | None, typer.Option(help="TREC run to write.")] = None,
    k: Annotated[int | None, typer.Option("--k", "-k", help="How many; as trained by default.")] = None,
    budget: Annotated[
        float | None,
        typer.Option(help="Instead of a number: words that the chosen documents may have together."),
    ] = None,
    words: Annotated[int, typer.Option(min=0, help="Words named a document.")] = 5,
    jobs: Jobs = -1,
) -> None:
    """Choose documents from each set of DATA; labels are not needed.

    In the run a topic is the query with '_' for blanks, or the number of the set; scores count down from the number
    of documents chosen. Documents without words cost as much as one word of the budget.
    """
    if output is None and run is None:
        raise ValueError("expected --output, --run or both, got neither: there is nothing to write")
    inputs = [check_input(model), check_input(data)]
    for path in (output, run):
        if path is not None:
            check_output(path, inputs)
    if output is not None and output == run:
        raise ValueError(f"--output and --run: expected two files, got {output} twice")

    from structsvm.readers.candidate_sets import read_candidates

    chooser = _load(model)
    chooser.n_jobs = jobs
    found = read_candidates(data)
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
        write_lines(output, lines)
    typer.echo(f"{sum(map(len, chosen))} documents chosen from {len(chosen)} candidate sets")


def compare(
    data: Sets,
    model: Annotated[
        list[Path] | None,
        typer.Option("--model", "-m", help="A model; repeat for more. Its name is the file's."),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(help=f"{', '.join(_FREE + _WITH_LABELS)}; repeat. All but xquad by default."),
    ] = None,
    k: Annotated[int, typer.Option("--k", "-k", help="Documents to choose.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Of the random choice.")] = 0,
    report: Annotated[
        Path | None, typer.Option(help="HTML page: who covers which subtopic, and why.")
    ] = None,
    queries: Annotated[int, typer.Option(min=0, help="Queries on the page, the most telling ones.")] = 12,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON.")] = False,
) -> None:
    """Measure models and fixed methods on the labelled sets of DATA.

    Wins, losses and p (Wilcoxon, two-tailed, over the queries) are of the first model against the others; without
    a model, of the first method.
    """
    check_input(data)
    models = {path.stem: _load(check_input(path)) for path in model or ()}
    if len(models) < len(model or ()):
        raise ValueError("--model: expected files of different names, got one twice")
    for name in method or ():
        if name not in _FREE + _WITH_LABELS:
            raise ValueError(f"--method {name}: expected one of {', '.join(_FREE + _WITH_LABELS)}")
    if both := set(models) & {*_FREE, *_WITH_LABELS}:
        raise ValueError(
            f"--model: expected a file that is not named as a method, got '{min(both)}'; give it another name"
        )
    if report is not None:
        check_output(report, [data, *(model or ())])

    import numpy as np

    from structsvm import metrics
    from structsvm.readers.candidate_sets import LabelledSets, read_candidates

    read = read_candidates(data)
    kept = [i for i, m in enumerate(read.labels) if (m > 0).any()]
    if not kept:
        raise ValueError(
            f"{data}: expected documents with subtopics to measure by, got none; apply needs no labels"
        )
    found = LabelledSets(
        [read.sets[i] for i in kept], [read.labels[i] for i in kept], [read.subtopics[i] for i in kept]
    )
    methods = method or [n for n in _FREE if n != "bm25" or all(s.query for s in found.sets)] + [
        "clairvoyant"
    ]
    chosen: dict[str, list[Int]] = {name: m.predict(found.sets, k) for name, m in models.items()}
    for name in dict.fromkeys(methods):
        chosen[name] = _baseline(name, k, seed, found)
    losses = {name: metrics.weighted_subtopic_loss(found.labels, rows) for name, rows in chosen.items()}
    first = next(iter(chosen))
    table = []
    for name, rows in chosen.items():
        entry: dict[str, Any] = {
            "method": name,
            "weighted_loss": float(losses[name].mean()),
            "subtopic_recall": float(metrics.subtopic_recall(found.labels, rows).mean()),
            "alpha_ndcg": float(np.mean(metrics.alpha_ndcg(found.labels, rows, k))),
        }
        if name != first:
            against = metrics.compare(losses[name], losses[first])  # a win is a lower loss
            entry |= {"wins": against.wins, "losses": against.losses, "p": against.p_value}
        table.append(entry)
    if report is not None:
        from structsvm.cli.diversity_page import comparison_page

        write_lines(report, [comparison_page(data.name, k, found, chosen, losses, table, models, queries)])
    if as_json:
        typer.echo(
            json.dumps(
                {"queries": len(kept), "skipped": len(read.sets) - len(kept), "k": k, "methods": table}
            )
        )
        return
    skipped = (
        f" ({len(read.sets) - len(kept)} without subtopics left out)" if len(read.sets) > len(kept) else ""
    )
    typer.echo(f"{len(kept)} queries{skipped}, {k} documents each; wins and p: {first} against the others")
    width = max(len("method"), *map(len, chosen))
    typer.echo(f"{'method':{width}}   loss  recall  a-NDCG  wins losses       p")
    for entry in table:
        tail = f"  {entry['wins']:4d} {entry['losses']:6d}  {entry['p']:.2g}" if "p" in entry else ""
        typer.echo(
            f"{entry['method']:{width}}  {entry['weighted_loss']:.3f}   {entry['subtopic_recall']:.3f}"
            f"   {entry['alpha_ndcg']:.3f}{tail}"
        )


def _level(text: str) -> Level:
    from structsvm.features.words import Level

    name, colon, value = text.partition(":")
    expected = f"--level {text}: expected appears, title, count:3, share:.05, top_tfidf:5 or neighbours:.2"
    if name not in _LEVELS or bool(colon) != (_LEVELS[name] is not None):
        raise ValueError(expected)
    kind = _LEVELS[name]
    if kind is None:
        return Level(name)  # type: ignore[arg-type]
    try:
        number = kind(value)
    except ValueError:
        raise ValueError(expected) from None
    level: Level = getattr(Level, name)(number)
    return level


def _choose_C(model: SVMDiv, found: LabelledSets, Cs: list[float], folds: int) -> float:
    """The C of least mean loss over held-out queries; of equal ones the smaller. A bar on the terminal counts folds."""
    import numpy as np
    from rich.console import Console
    from rich.progress import track
    from sklearn.base import clone

    from structsvm.metrics import weighted_subtopic_loss

    labelled = [i for i, m in enumerate(found.labels) if (m > 0).any()]
    if not 2 <= folds <= len(labelled):
        raise ValueError(f"--folds {folds}: expected from 2 to the {len(labelled)} sets with subtopics")
    losses = np.zeros(len(Cs))
    console = Console(stderr=True)
    hidden = not console.is_terminal
    for fold in track(range(folds), "choosing C", console=console, transient=True, disable=hidden):
        out = labelled[fold::folds]
        inside = [i for i in labelled if i not in set(out)]
        fits = clone(model).path([found.sets[i] for i in inside], [found.labels[i] for i in inside], Cs)
        for j, fit in enumerate(fits):
            chosen = fit.predict([found.sets[i] for i in out])
            losses[j] += weighted_subtopic_loss([found.labels[i] for i in out], chosen).sum()
    for c, value in zip(Cs, losses / len(labelled), strict=True):
        typer.echo(f"C={c:<8g} loss {value:.4f} on held-out sets")
    return Cs[int(np.argmin(losses))]


def _load(path: Path) -> SVMDiv:
    import structsvm
    from structsvm.estimators.diversity import SVMDiv

    model = structsvm.load(path)
    if not isinstance(model, SVMDiv):
        raise ValueError(
            f"{path}: expected an SVMDiv, got a {type(model).__name__}; train one with: structsvm diversify train"
        )
    return model


def _baseline(name: str, k: int, seed: int, found: LabelledSets) -> list[Int]:
    from structsvm import baselines

    makers: dict[str, Any] = {
        "random": lambda: baselines.RandomChoice(k, seed),
        "original": lambda: baselines.OriginalOrder(k),
        "bm25": lambda: baselines.OkapiBM25(k),
        "coverage": lambda: baselines.UnweightedCoverage(k),
        "essential": lambda: baselines.EssentialPages(k),
        "mmr": lambda: baselines.MMR(k),
        "facility": lambda: baselines.FacilityLocation(k),
        "xquad": lambda: baselines.XQuAD(k),
        "clairvoyant": lambda: baselines.Clairvoyant(k),
    }
    options = {"labels": found.labels} if name in _WITH_LABELS else {}
    chosen: list[Int] = makers[name]().predict(found.sets, **options)
    return chosen


def _lengths(candidates: Any) -> list[int]:
    """Words of each document, at least one: a document costs something."""
    return [max(1, len(t.split() if isinstance(t, str) else t)) for t in candidates.texts]


def _write_run(found: LabelledSets, chosen: list[Int], path: Path) -> None:
    from structsvm.readers.trec import Run, write_run

    topics = [
        "_".join((one.query or "").split()) or str(number) for number, one in enumerate(found.sets, start=1)
    ]
    if len(set(topics)) < len(topics):
        twice = next(t for i, t in enumerate(topics) if t in topics[:i])
        raise ValueError(
            f"--run: expected queries that differ, got {twice!r} twice: a run has each topic once"
        )
    rows = [
        (topic, one.ids[d], float(len(own) - rank))
        for topic, one, own in zip(topics, found.sets, chosen, strict=True)
        for rank, d in enumerate(own.tolist())
    ]
    if not rows:
        raise ValueError("--run: expected documents to write, got none: the budget is below every document")
    write_run(Run.from_arrays(*map(list, zip(*rows, strict=True)), tag="SVMDiv"), path)


app.command("train")(stoppable(train))
app.command("apply")(stoppable(apply))
app.command("compare")(stoppable(compare))
