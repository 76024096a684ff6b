"""Comparison of diverse result sets: models and fixed selection methods on the same labelled sets.

The models are in :mod:`structsvm.estimators.diversity`, the
fixed methods in :mod:`structsvm.estimators.baselines`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from structsvm.cli.studies.best import best_said
from structsvm.cli.terminal import table_lines
from structsvm.common.checks import BadInput, check_choice, counted
from structsvm.common.subtopic_gain import COVERAGE_LOSSES, SubtopicGain
from structsvm.estimators import baselines
from structsvm.metrics import Comparison, compare
from structsvm.metrics.significance import leaders
from structsvm.plots import pages
from structsvm.protocols import Float, Int
from structsvm.readers.candidate_sets import LabelledSets

if TYPE_CHECKING:
    from structsvm.estimators.diverse_ranker import DiverseRanker
    from structsvm.estimators.diversity import SVMDiv


METHODS: dict[str, Any] = {
    one.label: one
    for one in vars(baselines).values()
    if isinstance(one, type) and one.__module__ == baselines.__name__ and hasattr(one, "label")
}
"""Fixed selection methods, keyed by name, in the order of ``baselines``."""

WITH_LABELS = tuple(name for name, one in METHODS.items() if "labels" in signature(one.predict).parameters)
"""Fixed methods that use the subtopics as input."""


MEASURES = {"unweighted": "subtopic recall", "weighted": "weighted recall", "alpha_ndcg": "alpha-NDCG"}
"""Names of the measures, each of which is one minus the loss that is its key."""


@dataclass(frozen=True, eq=False)
class DiversityResult:
    """Result of :func:`compare_methods`; dictionaries are keyed by method, models first.

    ``values`` holds, for each method and loss, one minus the loss of each set; methods are compared by ``loss``. Each
    method chooses as much as ``limit`` states, such as "5 documents".
    """

    labelled: LabelledSets
    models: dict[str, DiverseRanker | SVMDiv]
    chosen: dict[str, list[Int]]
    values: dict[str, dict[str, Float]]
    loss: str
    limit: str

    @property
    def first(self) -> str:
        """The method that the others are tested against."""
        return next(iter(self.chosen))

    @property
    def compared(self) -> dict[str, Float]:
        """The values by which methods are compared."""
        return {name: by_loss[self.loss] for name, by_loss in self.values.items()}

    @property
    def seen(self) -> dict[str, int | None]:
        """Number of these sets that each model was trained on; None if its file is too old to record it.

        Measures on such sets show how well the model fits them, not how well it chooses from new sets.
        """
        here = [candidates.fingerprint for candidates in self.labelled.sets]
        trained_on = {name: getattr(model, "fingerprints_", None) for name, model in self.models.items()}
        return {
            name: None if known is None else sum(map(known.__contains__, here))
            for name, known in trained_on.items()
        }

    def against(self, name: str) -> Comparison:
        """Compare the first method with another (two-tailed Wilcoxon test over sets); a win is a higher value."""
        return compare(self.compared[self.first], self.compared[name])

    def rows(self) -> tuple[list[pages.Column], list[list[str]]]:
        """Return columns and formatted rows, one per method: means over the sets, and tests against the first."""
        columns = pages.columns("method", numbers=(*MEASURES.values(), "wins : losses", "p"))
        rows = []
        for entry in self.records():
            tested = (
                [f"{entry['wins']} : {entry['losses']}", pages.p_value(entry["p"])]
                if "p" in entry
                else [""] * 2
            )
            rows.append([entry["method"], *(f"{entry['means'][loss]:.3f}" for loss in MEASURES), *tested])
        return columns, rows

    def records(self) -> list[dict[str, Any]]:
        """Return the values of each row of the table; ``means`` refer to one minus each loss."""
        records = []
        for name, values in self.values.items():
            entry: dict[str, Any] = {
                "method": name,
                "means": {loss: float(values[loss].mean()) for loss in MEASURES},
            }
            if name in self.models:
                entry["trained_on"] = self.seen[name]
            if name != self.first:
                test = self.against(name)
                entry |= {
                    "difference": test.mean_difference,
                    "wins": test.wins,
                    "losses": test.losses,
                    "p": test.p_value,
                }
            records.append(entry)
        return records

    def headline(self) -> str:
        """Return the result in words: the best method, the methods that perform equally well, and the sets seen in
        training."""
        # methods that use the subtopics as input are not rivals, unless there are no others
        rivals = [name for name in self.chosen if name not in WITH_LABELS] or list(self.chosen)
        best = leaders({name: self.compared[name] for name in rivals})
        means = {name: f"{self.compared[name].mean():.3f}" for name in rivals}
        blind = "do not know the subtopics and " if len(rivals) < len(self.chosen) else ""
        n = len(self.labelled.sets)
        text = f"Of {len(rivals)} methods that {blind}choose {self.limit} for each of {n} queries,"
        return " ".join([text, best_said(best, means, MEASURES[self.loss]), *self.seen_in_training()])

    def seen_in_training(self) -> list[str]:
        """Return a sentence for each model that was, or may have been, trained on sets that it is measured on."""
        n = len(self.labelled.sets)
        sentences = []
        for name, seen in self.seen.items():
            if seen is None:
                sentences.append(
                    f"The file of {name} does not record its training queries, on which a model performs better "
                    "than on new ones."
                )
            elif seen:
                sentences.append(
                    f"{name} was trained on {seen if seen < n else 'all'} of these {n} queries: its figures show how "
                    "well it fits them, not how well it performs on new ones."
                )
        return sentences

    def lines(self, n_skipped: int = 0) -> list[str]:
        """Return the table, and the result in words, as lines of text; sets without subtopics were skipped."""
        left_out = f" ({n_skipped} without subtopics left out)" if n_skipped else ""
        return [
            f"{counted(query=len(self.labelled.sets))}{left_out}, {self.limit} per query; wins and p: "
            f"{MEASURES[self.loss]} of {self.first} against the others",
            *table_lines(*self.rows()),
            self.headline(),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the values of the table, unrounded, as plain objects."""
        return {"queries": len(self.labelled.sets), "loss": self.loss, "methods": self.records()}


def check_names(models: Iterable[str], methods: Iterable[str]) -> None:
    """Raise ValueError for unknown fixed methods, and for models with the name of a fixed method: the table has one row
    per name."""
    for name in methods:
        check_choice("method", name, METHODS)
    for name in models:
        if name in METHODS:
            raise BadInput("model", "a fixed method has this name", "choose another", value=name)


def usual_methods(labelled: LabelledSets) -> tuple[list[str], list[str]]:
    """Return the fixed methods for which these sets have all inputs, and a remark on each group left out."""
    wordless = any(one.kind == "similarity" and one.documents is None for one in labelled.sets)
    scored = all(one.features is not None for one in labelled.sets)
    without = {
        "documents have no texts": ("bm25", "coverage", "essential") if wordless else (),
        "a set has no query": () if all(one.query for one in labelled.sets) else ("bm25",),
        "documents have no features": () if scored else ("score",),
    }
    left_out = {"xquad", *(name for names in without.values() for name in names)}
    remarks = [f"{', '.join(names)} left out: {reason}" for reason, names in without.items() if names]
    return [name for name in METHODS if name not in left_out], remarks


def with_subtopics(labelled: LabelledSets) -> LabelledSets:
    """Return the sets in which some document covers a subtopic; the others cannot distinguish methods."""
    covered = [i for i, labels in enumerate(labelled.labels) if (labels > 0).any()]
    return LabelledSets._make([column[i] for i in covered] for column in labelled)


def compare_methods(
    labelled: LabelledSets,
    models: Mapping[str, DiverseRanker | SVMDiv] | None = None,
    methods: Sequence[str] | None = None,
    k: int | None = 5,
    *,
    loss: str = "unweighted",
    costs: Sequence[Any] | None = None,
    budget: float | None = None,
    rivals: Mapping[str, Any] | None = None,
    degrees: list[Float] | None = None,
    random_state: int = 0,
) -> DiversityResult:
    """Choose documents with models and fixed methods, and measure coverage.

    ``labelled`` contains sets with subtopics, as returned by :func:`with_subtopics`. Each method chooses ``k``
    documents or, if ``k`` is None, as many as the budget of ``costs`` allows. ``rivals`` are
    further selectors, such as a fitted ``MMR``. ``degrees`` are labels from marks, used for measuring instead of
    ``labelled.labels``.
    """
    check_choice("loss", loss, COVERAGE_LOSSES)
    models = {} if models is None else dict(models)
    methods = usual_methods(labelled)[0] if methods is None else methods
    check_names(models, methods)
    # each selector has the same limits; the clairvoyant selector maximises the measure itself
    limits: Any = {"k": k, "costs": costs, "budget": budget}
    chosen = {
        name: one.predict(labelled.sets, **limits) for name, one in (models | dict(rivals or {})).items()
    }
    for name in dict.fromkeys(methods):
        options: Any = {"random": {"random_state": random_state}, "clairvoyant": {"loss": loss}}.get(name, {})
        labels = {"labels": labelled.labels} if name in WITH_LABELS else {}
        chosen[name] = METHODS[name](**options).predict(labelled.sets, **limits, **labels)
    truth = [(matrix > 0).astype(np.float64) for matrix in labelled.labels] if degrees is None else degrees
    gains = {one: [SubtopicGain(matrix, one) for matrix in truth] for one in COVERAGE_LOSSES}
    values = {
        name: {
            one: np.array([gain.value(r) for gain, r in zip(each, rows, strict=True)])
            for one, each in gains.items()
        }
        for name, rows in chosen.items()
    }
    limit = "documents" if k is None else f"{k} documents"
    if budget is not None:
        limit = f"{'' if k is None else 'at most '}{limit} with a total cost of at most {budget:g}"
    return DiversityResult(labelled, models, chosen, values, loss, limit)
