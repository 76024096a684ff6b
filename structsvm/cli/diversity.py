"""``structsvm diversify``: learn to choose documents that cover different subtopics, apply the models, and compare
methods."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import structsvm
from structsvm import estimators, features, readers
from structsvm.cli import paths
from structsvm.cli.files import split_names
from structsvm.cli.groups import Group
from structsvm.cli.options import AsJson, Jobs, MaybeOutput, Output, Seed, Selection, Tol, known, parse_grid
from structsvm.cli.terminal import GapProgress, bar, emit, group, note
from structsvm.common.checks import BadInput, check_choice, counted

if TYPE_CHECKING:
    from structsvm.estimators.diverse_ranker import DiverseRanker
    from structsvm.estimators.diversity import SVMDiv
    from structsvm.features.word_features import Level
    from structsvm.protocols import Int
    from structsvm.readers.candidate_sets import LabelledSets

    Selector = DiverseRanker | SVMDiv

Sets = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help='JSON Lines: {"query", "documents": [{"id", "text", "embedding", "title", "subtopics", "features", '
        '"cost"}]}; a document has a text, an embedding or both; features are scores, higher is better. - is the '
        "standard input.",
        callback=paths.stdin_as_path,
    ),
]

Marks = Annotated[
    str,
    typer.Option(
        callback=known(lambda: MARKS),
        help="Meaning of the subtopics of a document. subtopics: its topics. judged: a document with subtopics was "
        "judged useful, one without was not. clicks: a document with subtopics was clicked.",
    ),
]
MARKS = ("subtopics", "judged", "clicks")
_SELECTORS = ("diverse", "svmdiv")

Budget = Annotated[
    float | None,
    "Maximum total cost of the chosen documents; without costs, a document costs its number of words. With --k both "
    "limits hold.",
]

_NUMBERS: dict[str, Any] = {"count": int, "share": float, "top_tfidf": int, "neighbours": float}
"""The parameters that levels take; ``appears`` and ``title`` take none."""


@dataclass(frozen=True)
class ChoiceOfC(Group):
    """C, or the values from which cross-validation chooses it."""

    C: Annotated[
        str,
        "Trade-off; if several are given, as a,b,c or low:high:number (evenly on a log scale), cross-validation "
        "over the queries chooses one.",
    ] = "1"
    folds: Annotated[int, "Number of folds for the choice among several values of C."] = 5
    selection: Selection = "max"

    @property
    def grid(self) -> list[float]:
        """The values of C, ascending."""
        return sorted(set(parse_grid(self.C)))

    def choose(self, model: Selector, found: LabelledSets) -> float:
        """Return the only C, or the one that cross-validation chooses; a bar on the terminal counts folds."""
        if len(self.grid) == 1:
            return self.grid[0]
        selection: Any = self.selection
        with bar("choosing C", counts=True) as shown:
            task = shown.add_task("choosing C", total=self.folds)
            held_out = estimators.cross_validate_C(
                model,
                found.sets,
                found.labels,
                self.grid,
                folds=self.folds,
                selection=selection,
                callback=lambda done, _: shown.update(task, completed=done),
            )
        for C, loss in zip(held_out.Cs.tolist(), held_out.means.tolist(), strict=True):
            typer.echo(f"C={C:<8g} loss {loss:.4f} on held-out sets")
        return held_out.C


@dataclass(frozen=True)
class OfSVMDiv(Group):
    """Options for SVM-div only."""

    level: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LEVEL",
            help="When a word counts: appears, title, count:3, share:.05, top_tfidf:5, neighbours:.2; repeat for more. "
            "Or levels by name: neighbours (the default), svm-div, svm-div2 (svmdiv).",
        ),
    ] = None
    feature: Annotated[list[str] | None, "Feature to add: rank, centroid; repeat for both (svmdiv)."] = None
    prediction: Annotated[str, "greedy or swap (svmdiv)."] = "greedy"
    jobs: Jobs = -1


def train(
    data: Sets,
    output: Annotated[Output, "The model to write (.npz)."],
    k: Annotated[int, "-k Number of documents to choose."] = 5,
    *,
    choice: ChoiceOfC,
    method: Annotated[
        str,
        typer.Option(
            callback=known(lambda: _SELECTORS),
            help="diverse: learn what to choose next, from relevance, similarity and coverage; svmdiv: the SVM-div of "
            "Yue's thesis, which learns the benefit of covering a word.",
        ),
    ] = "diverse",
    marks: Marks = "subtopics",
    loss: Annotated[
        str | None,
        "unweighted: share of subtopics missed; weighted: the same, weighted by numbers of documents; alpha_ndcg. "
        "(default: unweighted; for svmdiv weighted)",
    ] = None,
    rounds: Annotated[
        int | None,
        "Rounds that also train on the model's own choices. (default: 2; with --marks clicks 0; not for svmdiv)",
    ] = None,
    positive: Annotated[bool, "Allow no negative weights or word benefits."] = False,
    only: OfSVMDiv,
    seed: Annotated[Seed, "Seed for breaking ties (diverse)."] = 0,
    tol: Tol = 1e-3,
) -> None:
    """Learn from the labelled sets of DATA which documents to choose, and write the model.

    Ctrl-C stops training after the current pass and saves the best model so far (exit code 130).
    """
    paths.check_model_output(output, [paths.check_input(data)])
    levels = _levels(only.level) if only.level else None
    _ = choice.grid
    of_svmdiv = {"--level": levels, "--feature": only.feature, "--prediction": only.prediction != "greedy"}
    of_diverse = {"--rounds": rounds is not None, "--marks": marks != "subtopics"}
    for option, given in (of_svmdiv if method == "diverse" else of_diverse).items():
        if given:
            other = "svmdiv" if method == "diverse" else "diverse"
            raise BadInput(option, f"applies only to --method {other}")

    found = readers.read_candidates(data)
    options: Any = {} if loss is None else {"loss": loss}
    if method == "diverse":
        if rounds is None:
            rounds = 0 if marks == "clicks" else 2
        found = _marked(found, marks)
        options |= {"positive": positive, "rounds": rounds, "random_state": seed}
        model: Selector = structsvm.DiverseRanker(k, tol=tol, **options)
    else:
        options |= {
            "levels": levels or "neighbours",
            "document_features": tuple(only.feature or ()),
            "positive": "benefits" if positive else False,
            "prediction": only.prediction,
            "n_jobs": only.jobs,
        }
        model = structsvm.SVMDiv(k=k, tol=tol, **options)
    model.C = choice.choose(model, found)
    with GapProgress(tol, output) as progress:
        model.callback = progress
        model.fit(found.sets, found.labels)
    progress.check(model.fit_)
    model.save(output)

    fit = model.fit_
    unused = f" ({model.n_uninformative_} uninformative)" if model.n_uninformative_ else ""
    documents = sum(map(len, found.sets))
    described = (
        f"levels: {', '.join(map(str, model.levels_))}"
        if isinstance(model, structsvm.SVMDiv)
        else f"{counted(feature=len(model.coef_))} of {counted(step=model.n_steps_)}"
    )
    estimate = "" if fit.certified else ", estimated: the search for violated outputs is not exact"
    measured = f"{model.loss} loss" if method == "diverse" else "weighted subtopic loss"
    emit(
        [
            f"data       {len(found.sets)} candidate sets, {documents} documents{unused}",
            f"model      {type(model).__name__}, C={model.C:g}, k={k}, {described}",
            f"objective  {fit.primal:.6g} (dual {fit.dual:.6g}, relative gap {fit.gap:.1e}{estimate})",
            f"loss       {1 - model.score(found.sets, found.labels):.4f} on these sets ({measured})",
            f"written    {output}",
        ]
    )
    progress.conclude(fit, "raise --tol")


def apply(
    model: Annotated[Path, "<MODEL> A model that 'diversify train' wrote."],
    data: Sets,
    output: Annotated[MaybeOutput, "JSON Lines to write: the documents chosen, and why."] = None,
    run: Annotated[Path | None, "TREC run to write."] = None,
    k: Annotated[int | None, "-k Number of documents. (default: as in training; any with --budget)"] = None,
    budget: Budget = None,
    words: Annotated[int, typer.Option(min=0, help="Number of words named per document (svmdiv).")] = 5,
    jobs: Jobs = -1,
) -> None:
    """Choose documents from each set of DATA; labels are not required.

    In the run a topic is the query with '_' for blanks, or the number of the set; scores count down from the number
    of documents chosen. Texts without words count as one word of the budget.
    """
    if output is None and run is None:
        raise BadInput("expected --output, --run or both, got neither", "there is nothing to write")
    paths.check_outputs(
        {"--output": output, "--run": run}, [paths.check_input(model), paths.check_input(data)]
    )

    chooser = _load(model)
    more: Any = {}
    if isinstance(chooser, structsvm.SVMDiv):
        chooser.n_jobs, more = jobs, {"n_words": words}
    found = readers.read_candidates(data)
    costs = _costs(found, budget)
    chosen = chooser.predict(found.sets, k, costs=costs, budget=budget)
    if run is not None:
        _write_run(found, chosen, run, type(chooser).__name__)
    if output is not None:
        lines = []
        for one, prices in zip(found.sets, costs or repeat(None), strict=False):
            reasons: Any = chooser.explain(one, k, costs=prices, budget=budget, **more)
            query = {} if one.query is None else {"query": one.query}
            chosen_here = [_described(rank, reason, prices) for rank, reason in enumerate(reasons, start=1)]
            lines.append(json.dumps(query | {"chosen": chosen_here}, ensure_ascii=False))
        paths.write_lines(output, lines)
    typer.echo(f"{sum(map(len, chosen))} documents chosen from {len(chosen)} candidate sets")


def compare(
    data: Sets,
    model: Annotated[list[Path] | None, "-m A model; repeat for more. It is named after its file."] = None,
    method: Annotated[
        list[str] | None,
        "{selections}; separate several by commas, or repeat. score: the documents with the largest first feature. "
        "(default: each except xquad, if the documents have the texts, queries and features that it needs)",
    ] = None,
    tune: Annotated[
        Path | None,
        "Labelled sets on which MMR chooses its trade-off, for a fair comparison (row 'tuned mmr').",
    ] = None,
    marks: Marks = "subtopics",
    loss: Annotated[
        str,
        "Measure of the comparison: unweighted (subtopic recall, the share of a query's subtopics that the chosen "
        "documents cover), weighted by the number of their documents, or alpha_ndcg.",
    ] = "unweighted",
    k: Annotated[
        int | None,
        "-k Number of documents to choose. (default: as in the first model, else 5; any number with --budget)",
    ] = None,
    budget: Budget = None,
    seed: Annotated[Seed, "Seed of the random choice."] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure models and fixed methods on the labelled sets of DATA.

    Wins, losses and p (Wilcoxon, two-tailed, over the queries) compare the first model with the others or, without a
    model, the first method. With --marks the marked documents are to be covered, and similar documents count once.
    """
    paths.check_input(data)
    models = {path.stem: _load(paths.check_input(path)) for path in model or ()}
    if k is None and budget is None:
        k = next((one.k for one in models.values()), 5)
    method = list(split_names(method or ()))
    if len(models) < len(model or ()):
        raise BadInput("--model", "expected files with different names, got the same name twice")

    from structsvm.cli.studies.diversity import (
        MEASURES,
        check_names,
        compare_methods,
        usual_methods,
        with_subtopics,
    )

    check_choice("loss", loss, MEASURES)
    check_names(models, method)
    read = readers.read_candidates(data)
    found = with_subtopics(read)
    if not found.sets:
        raise BadInput(
            data,
            "expected documents with subtopics, got none",
            "only measures need subtopics; use apply without them",
        )
    if not method:
        method, remarks = usual_methods(found)
        for remark in remarks:
            note(remark)
    rivals: dict[str, Any] = {}
    if tune is not None:
        sets = readers.read_candidates(paths.check_input(tune))
        # if sets have a single subtopic, MMR would learn that one document is enough;
        # the subtopic is then a mark of useful documents, as with --marks judged
        marked = marks
        if marks == "subtopics" and all(len(names) < 2 for names in sets.subtopics):
            note(
                f"{tune}: no set has more than one subtopic, which is treated as a mark (as with --marks judged)"
            )
            marked = "judged"
        sets = _marked(sets, marked)
        rivals["tuned mmr"] = estimators.baselines.MMR(k or 5).fit(
            sets.sets, sets.labels, k, loss=loss, costs=_costs(sets, budget), budget=budget
        )
    more: Any = {
        "rivals": rivals,
        "degrees": None if marks == "subtopics" else _marked(found, marks).labels,
        "random_state": seed,
    }
    result = compare_methods(
        found, models, method, k, loss=loss, costs=_costs(found, budget), budget=budget, **more
    )
    skipped = len(read.sets) - len(found.sets)
    emit(result.lines(skipped), result.to_dict() | {"skipped": skipped, "k": k, "budget": budget}, as_json)


def _described(rank: int, reason: Any, prices: Any) -> dict[str, Any]:
    """Return what is written about a document that was chosen."""
    cost = {} if prices is None else {"cost": float(prices[reason.document])}
    by_words = isinstance(reason.words, list)  # the reasons of SVM-div
    why = {"words": list(map(list, reason.words))} if by_words else {"parts": dict(reason.parts)}
    return {"id": reason.id, "rank": rank, "gain": reason.gain, **cost, **why}


def _levels(texts: list[str]) -> list[Level] | str:
    from structsvm.features.word_features import NAMED_LEVELS

    [*beside, last] = texts
    return last if last in NAMED_LEVELS and not beside else [_level(text) for text in texts]


def _level(text: str) -> Level:
    name, colon, value = text.partition(":")
    try:
        numbers = [_NUMBERS[name](value)] if colon else []
        if not colon and name not in ("appears", "title"):
            raise ValueError
    except (KeyError, ValueError):
        raise BadInput(
            f"--level {text}",
            "expected appears, title, count:3, share:.05, top_tfidf:5 or neighbours:.2, or one name of levels",
        ) from None
    level: Level = getattr(features.Level, name)(*numbers)
    return level


def _marked(found: LabelledSets, marks: str) -> LabelledSets:
    """Return the labels as degrees of coverage, from subtopics or from marks."""
    if marks == "subtopics":
        return found._replace(labels=[(labels > 0).astype(float) for labels in found.labels])
    marked = [(labels > 0).any(axis=1) for labels in found.labels]
    return found._replace(labels=features.soft_subtopics(found.sets, marked, complete=marks == "judged"))


def _load(path: Path) -> Selector:
    model = structsvm.load(path)
    if not isinstance(model, (structsvm.DiverseRanker, structsvm.SVMDiv)):
        raise BadInput(
            path,
            f"expected a DiverseRanker or an SVMDiv, got a {type(model).__name__}",
            "train one with: structsvm diversify train",
        )
    return model


def _costs(found: LabelledSets, budget: float | None) -> list[Any] | None:
    """Return the stated cost of each document, or else its number of words, at least 1, as costs must be positive."""
    if budget is None:
        return None
    if stated := [one.costs for one in found.sets if one.costs is not None]:
        if len(stated) < len(found.sets):
            raise BadInput("--budget", f"expected costs in all sets or in none, got {len(stated)} with costs")
        return stated
    texts = [one.texts if one.documents is None else one.documents.texts for one in found.sets]
    if any(one is None for one in texts):
        raise BadInput(
            "--budget",
            "expected documents with a cost, or texts whose words are counted, got embeddings alone",
        )
    return [[max(1, len(t.split() if isinstance(t, str) else t)) for t in one] for one in texts]


def _write_run(found: LabelledSets, chosen: list[Int], path: Path, tag: str) -> None:
    topics = [
        "_".join((one.query or "").split()) or str(number) for number, one in enumerate(found.sets, start=1)
    ]
    if len(set(topics)) < len(topics):
        twice = next(t for i, t in enumerate(topics) if t in topics[:i])
        raise BadInput("--run", f"expected distinct queries, got {twice!r} twice: a run has each topic once")
    rows = [
        (topic, s.ids[d], float(len(own) - k))
        for topic, s, own in zip(topics, found.sets, chosen, strict=True)
        for k, d in enumerate(own.tolist())
    ]
    if not rows:
        raise BadInput("--run", "expected documents to write, got none: the budget is below every cost")
    readers.write_run(readers.Run.from_arrays(*map(list, zip(*rows, strict=True)), tag=tag), path)


app = group(
    "Choose documents that cover different subtopics: train, apply, compare methods.",
    train,
    apply,
    compare,
)
