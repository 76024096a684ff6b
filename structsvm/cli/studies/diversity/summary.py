"""Format a comparison as a table, as records, and in words."""

from typing import Any

from structsvm.cli.studies.best import best_said
from structsvm.cli.studies.diversity.comparison import WITH_LABELS, DiversityResult
from structsvm.metrics.significance import leaders
from structsvm.plots import pages

MEASURES = {"unweighted": "subtopic recall", "weighted": "weighted recall", "alpha_ndcg": "alpha-NDCG"}
"""Names of the measures, each of which is one minus the loss that is its key."""


def table(result: DiversityResult) -> tuple[list[pages.Column], list[list[str]]]:
    """Return columns and formatted rows, one per method: means over the sets, and tests against the first method."""
    columns = pages.columns("method", numbers=(*MEASURES.values(), "wins : losses", "p"))
    rows = []
    for entry in as_records(result):
        tested = [""] * 2
        if "p" in entry:
            tested = [f"{entry['wins']} : {entry['losses']}", pages.p_value(entry["p"])]
        rows.append([entry["method"], *(f"{entry['means'][loss]:.3f}" for loss in MEASURES), *tested])
    return columns, rows


def as_records(result: DiversityResult) -> list[dict[str, Any]]:
    """Return the values of the table, unrounded, as plain objects; ``means`` refer to one minus each loss."""
    records = []
    for name, values in result.values.items():
        entry: dict[str, Any] = {
            "method": name,
            "means": {loss: float(values[loss].mean()) for loss in MEASURES},
        }
        if name in result.models:
            entry["trained_on"] = result.seen[name]
        if name != result.first:
            test = result.against(name)
            entry |= {
                "difference": test.mean_difference,
                "wins": test.wins,
                "losses": test.losses,
                "p": test.p_value,
            }
        records.append(entry)
    return records


def headline(result: DiversityResult) -> str:
    """Return the result in words: the best method, the methods that perform equally well, and the sets seen in
    training."""
    # methods that use the subtopics as input are not rivals, unless there are no others
    rivals = [name for name in result.chosen if name not in WITH_LABELS] or list(result.chosen)
    best = leaders({name: result.compared[name] for name in rivals})
    means = {name: f"{result.compared[name].mean():.3f}" for name in rivals}
    blind = "do not know the subtopics and " * (len(rivals) < len(result.chosen))
    n = len(result.labelled.sets)
    text = f"Of {len(rivals)} methods that {blind}choose {result.limit} for each of {n} queries,"
    return " ".join([text, best_said(best, means, MEASURES[result.loss]), *seen_in_training(result)])


def seen_in_training(result: DiversityResult) -> list[str]:
    """Return a sentence for each model that was, or may have been, trained on sets that it is measured on."""
    n = len(result.labelled.sets)
    sentences = []
    for name, seen in result.seen.items():
        if seen is None:
            sentences.append(
                f"The file of {name} does not record its training queries, on which a model performs better "
                "than on new ones."
            )
        elif seen:
            sentences.append(
                f"{name} was trained on {seen if seen < n else 'all'} of these {n} queries: its figures show how well "
                "it fits them, not how well it performs on new ones."
            )
    return sentences
