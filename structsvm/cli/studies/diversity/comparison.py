"""Models and fixed methods of choosing, measured on the same labelled sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from structsvm.common.checks import BadInput, check_choice
from structsvm.estimators import baselines
from structsvm.metrics import Comparison, compare
from structsvm.oracles.subtopic_gain import SubtopicGain
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
"""Fixed methods of choosing by name, in the order of their file."""

WITH_LABELS = tuple(name for name, one in METHODS.items() if "labels" in signature(one.predict).parameters)
"""Fixed methods that use the subtopics as input."""


@dataclass(frozen=True, eq=False)
class DiversityResult:
    """Result of :func:`compare_methods`; dictionaries go by method, models first, arrays have an entry per set."""

    labelled: LabelledSets
    k: int
    models: dict[str, DiverseRanker | SVMDiv]
    chosen: dict[str, list[Int]]
    losses: dict[str, Float]
    recalls: dict[str, Float]
    alpha_ndcgs: dict[str, Float]
    degrees: list[Float] | None = None

    @property
    def first(self) -> str:
        """The method that the others are tested against."""
        return next(iter(self.chosen))

    @property
    def seen(self) -> dict[str, int | None]:
        """Number of the sets that each model was trained on; None if its file is too old to say.

        Measures on such sets tell how well the model fits them, not how well it chooses from new ones.
        """
        n_seen: dict[str, int | None] = {}
        for name, model in self.models.items():
            trained_on = getattr(model, "fingerprints_", None)
            known = None if trained_on is None else set(trained_on)
            n_seen[name] = None if known is None else sum(s.fingerprint in known for s in self.labelled.sets)
        return n_seen

    def against(self, name: str) -> Comparison:
        """Compare the first method with another (two-tailed Wilcoxon test over sets); a win is a lower loss."""
        return compare(self.losses[name], self.losses[self.first])


def check_names(models: Iterable[str], methods: Iterable[str]) -> None:
    """Raise ValueError for unknown fixed methods, and for models named like one: the table has one row per name."""
    for name in methods:
        check_choice("method", name, METHODS)
    for name in models:
        if name in METHODS:
            raise BadInput("model", "expected a name that no fixed method has", "give it another", value=name)


def with_subtopics(labelled: LabelledSets) -> LabelledSets:
    """Return the sets in which some document covers a subtopic; the others cannot distinguish methods."""
    covered = [i for i, labels in enumerate(labelled.labels) if (labels > 0).any()]
    columns: Any = labelled
    return LabelledSets(*([column[i] for i in covered] for column in columns))


def compare_methods(
    labelled: LabelledSets,
    models: Mapping[str, DiverseRanker | SVMDiv] | None = None,
    methods: Sequence[str] | None = None,
    k: int = 5,
    *,
    rivals: Mapping[str, Any] | None = None,
    degrees: list[Float] | None = None,
    random_state: int = 0,
) -> DiversityResult:
    """Choose ``k`` documents from each set by models and fixed methods, and measure what they cover.

    ``rivals`` are further selectors, such as a fitted ``MMR``. ``degrees`` are labels of marks, by which is measured
    instead of ``labelled.labels``, all weighing the same.
    """
    models = {} if models is None else dict(models)
    if methods is None:
        methods = [name for name in METHODS if name != "xquad"]
        if not all(candidates.query for candidates in labelled.sets):
            methods.remove("bm25")
    check_names(models, methods)
    if not models and not methods:
        raise BadInput("methods", "expected a method or a model to measure, got none")
    if not labelled.sets or len(with_subtopics(labelled).sets) < len(labelled.sets):
        got = f"got {len(labelled.sets)} of which {len(with_subtopics(labelled).sets)} have one"
        problem = f"expected candidate sets with a covered subtopic each, {got}"
        raise BadInput("labelled", problem, "take with_subtopics(labelled)")
    chosen = {name: model.predict(labelled.sets, k) for name, model in models.items()}
    chosen |= {name: rival.predict(labelled.sets, k) for name, rival in (rivals or {}).items()}
    for name in dict.fromkeys(methods):
        options = {"random_state": random_state} if name == "random" else {}
        labels = {"labels": labelled.labels} if name in WITH_LABELS else {}
        chosen[name] = METHODS[name](k, **options).predict(labelled.sets, **labels)
    losses = ("weighted" if degrees is None else "unweighted", "unweighted", "alpha_ndcg")
    truth = degrees or [np.asarray(matrix > 0, dtype=np.float64) for matrix in labelled.labels]
    gains = [[SubtopicGain(matrix, loss) for matrix in truth] for loss in losses]
    values = {
        name: np.array([[gain.value(r) for gain, r in zip(each, rows, strict=True)] for each in gains])
        for name, rows in chosen.items()
    }
    return DiversityResult(
        labelled, k, models, chosen,
        losses={name: 1.0 - by_loss[0] for name, by_loss in values.items()},
        recalls={name: by_loss[1] for name, by_loss in values.items()},
        alpha_ndcgs={name: by_loss[2] for name, by_loss in values.items()},
        degrees=degrees,
    )  # fmt: skip
