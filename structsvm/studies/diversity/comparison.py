"""Models and fixed methods of choosing, measured on the same labelled sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any

from structsvm import baselines
from structsvm.checks import BadInput, check_choice
from structsvm.metrics import Comparison, alpha_ndcg, compare, subtopic_recall, weighted_subtopic_loss
from structsvm.protocols import Float, Int
from structsvm.readers.candidate_sets import LabelledSets

if TYPE_CHECKING:
    from structsvm.estimators.diversity import SVMDiv

__all__ = [
    "METHODS", "WITH_LABELS", "DiversityResult", "check_names", "compare_methods", "with_subtopics",
]  # fmt: skip

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
    """Result of :func:`compare_methods`; dictionaries go by method, models first, arrays have an entry per set.

    Attributes
    ----------
    found : LabelledSets
        The sets that were measured on.
    k : int
        Number of documents chosen from each set.
    models : dict of name -> SVMDiv
        The methods that are models.
    chosen : dict of name -> list of ndarray of int64
        The rows chosen from each set, in order.
    losses : dict of name -> ndarray, shape (n_sets,)
        :func:`~structsvm.metrics.weighted_subtopic_loss`.
    recalls : dict of name -> ndarray, shape (n_sets,)
        :func:`~structsvm.metrics.subtopic_recall`.
    alpha_ndcgs : dict of name -> ndarray, shape (n_sets,)
        :func:`~structsvm.metrics.alpha_ndcg` at ``k``.

    Examples
    --------
    See :func:`structsvm.studies.diversity.compare_methods`.
    """

    found: LabelledSets
    k: int
    models: dict[str, SVMDiv]
    chosen: dict[str, list[Int]]
    losses: dict[str, Float]
    recalls: dict[str, Float]
    alpha_ndcgs: dict[str, Float]

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
            n_seen[name] = (
                None
                if trained_on is None
                else sum(candidates.fingerprint in set(trained_on) for candidates in self.found.sets)
            )
        return n_seen

    def against(self, name: str) -> Comparison:
        """Compare the first method with another (two-tailed Wilcoxon test over sets); a win is a lower loss."""
        return compare(self.losses[name], self.losses[self.first])


def check_names(models: Iterable[str], methods: Iterable[str]) -> None:
    """Raise ValueError for unknown fixed methods, and for models named like one: the table has one row per name.

    Examples
    --------
    >>> from structsvm.studies.diversity import check_names
    >>> check_names(["my model"], ["coverage", "mmr"])
    >>> check_names(["coverage"], ["coverage"])
    Traceback (most recent call last):
        ...
    structsvm.checks.BadInput: model='coverage': expected a name that no fixed method has; give it another
    """
    for name in methods:
        check_choice("method", name, METHODS)
    for name in models:
        if name in METHODS:
            raise BadInput("model", "expected a name that no fixed method has", "give it another", value=name)


def with_subtopics(found: LabelledSets) -> LabelledSets:
    """Return the sets in which some document covers a subtopic; the others cannot distinguish methods.

    Examples
    --------
    >>> import numpy as np
    >>> from structsvm import CandidateSet
    >>> from structsvm.readers import LabelledSets
    >>> from structsvm.studies.diversity import with_subtopics
    >>> sets = [CandidateSet(["red rose", "blue sea"], query=name) for name in ("colours", "numbers")]
    >>> found = with_subtopics(LabelledSets(sets, [np.eye(2), np.zeros((2, 1))], [["red", "blue"], ["one"]]))
    >>> [one.query for one in found.sets]
    ['colours']
    """
    covered = [i for i, labels in enumerate(found.labels) if (labels > 0).any()]
    return LabelledSets(
        [found.sets[i] for i in covered],
        [found.labels[i] for i in covered],
        [found.subtopics[i] for i in covered],
    )


def compare_methods(
    found: LabelledSets,
    models: Mapping[str, SVMDiv] | None = None,
    methods: Sequence[str] | None = None,
    k: int = 5,
    *,
    random_state: int = 0,
) -> DiversityResult:
    """Choose ``k`` documents from each set by models and fixed methods, and measure what they cover.

    Parameters
    ----------
    found : LabelledSets
        Sets with a covered subtopic each: see :func:`with_subtopics`.
    models : mapping of name to SVMDiv, optional
        Models under names that no fixed method has.
    methods : sequence of str, optional
        Names of :data:`METHODS`. By default all but xquad, and without bm25 if a set has no query.
    k : int, default=5
    random_state : int, default=0
        Seed of the random choice.

    Returns
    -------
    DiversityResult

    Raises
    ------
    ValueError
        For an unknown method, a model that is named like one, a set without subtopics, no set or no method at all.

    Examples
    --------
    >>> import numpy as np
    >>> from structsvm import CandidateSet
    >>> one = CandidateSet(["red rose", "red red rose", "blue sea"], query="colours")
    >>> found = LabelledSets([one], [np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])], [["red", "blue"]])
    >>> result = compare_methods(found, methods=["coverage", "original"], k=2)
    >>> result.recalls
    {'coverage': array([1.]), 'original': array([0.5])}
    >>> result.against("original").wins
    1
    """
    models = {} if models is None else dict(models)
    if methods is None:
        methods = [name for name in METHODS if name != "xquad"]
        if not all(candidates.query for candidates in found.sets):
            methods.remove("bm25")
    check_names(models, methods)
    if not models and not methods:
        raise BadInput("methods", "expected a method or a model to measure, got none")
    if not found.sets or len(with_subtopics(found).sets) < len(found.sets):
        raise BadInput(
            "found",
            f"expected candidate sets with a covered subtopic each, got {len(found.sets)} of which "
            f"{len(with_subtopics(found).sets)} have one",
            "take with_subtopics(found)",
        )
    chosen = {name: model.predict(found.sets, k) for name, model in models.items()}
    for name in dict.fromkeys(methods):
        options = {"random_state": random_state} if name == "random" else {}
        labels = {"labels": found.labels} if name in WITH_LABELS else {}
        chosen[name] = METHODS[name](k, **options).predict(found.sets, **labels)
    return DiversityResult(
        found, k, models, chosen,
        losses={name: weighted_subtopic_loss(found.labels, rows) for name, rows in chosen.items()},
        recalls={name: subtopic_recall(found.labels, rows) for name, rows in chosen.items()},
        alpha_ndcgs={name: alpha_ndcg(found.labels, rows, k) for name, rows in chosen.items()},
    )  # fmt: skip
