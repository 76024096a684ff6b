"""The demonstration: learn to rank, compare with baselines without learning, and write a page about it.

The task is image retrieval on scikit-learn's digits: the query is an image, the candidates are other images, there is
one feature per pixel (the absolute difference), and images of the same digit are relevant.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import structsvm
from structsvm import metrics
from structsvm.cli.studies.best import best_said
from structsvm.metrics import compare
from structsvm.metrics.significance import leaders
from structsvm.plots import figures, pages
from structsvm.protocols import Float
from structsvm.queries import QueryData
from structsvm.readers.datasets import digit_pairs

# number of images in the training part, and of query images in each part
_N_TRAIN, _N_TRAIN_QUERIES, _N_TEST_QUERIES = 1000, 500, 300
_CS = (0.1, 1.0, 10.0, 100.0)


@dataclass(frozen=True)
class Task:
    """Data of a task, with its baselines."""

    title: str
    description: str
    train: QueryData
    test: QueryData
    baselines: dict[str, Float]


@dataclass(frozen=True)
class System:
    """A ranking of the test queries: scores, average precision per query, and the model if one was learned."""

    name: str
    scores: Float
    per_query: Float
    model: Any = None

    @property
    def mean(self) -> float:
        return float(self.per_query.mean())


@dataclass(frozen=True)
class Outcome:
    """A task and the systems compared: the baselines first, then the learned rankers."""

    task: Task
    systems: tuple[System, ...]

    @property
    def baseline(self) -> System:
        return self.systems[0]

    @property
    def learned(self) -> tuple[System, ...]:
        return tuple(system for system in self.systems if system.model is not None)

    @property
    def best(self) -> System:
        return max(self.learned, key=lambda system: system.mean)


def digits_task(random_state: int = 0) -> Task:
    """Return the task of retrieving images of the same digit.

    No image of the training part, query or candidate, is in the test part.
    """
    order = np.random.default_rng(random_state).permutation(1797)
    train = digit_pairs(order[:_N_TRAIN_QUERIES], order[_N_TRAIN_QUERIES:_N_TRAIN])
    test = digit_pairs(order[_N_TRAIN : _N_TRAIN + _N_TEST_QUERIES], order[_N_TRAIN + _N_TEST_QUERIES :])
    X = test.X.astype(np.float64)
    return Task(
        title="Find the same digit",
        description=(
            f"Image retrieval on scikit-learn's handwritten digits (8 x 8 pixels). {train.n_queries} training queries "
            f"with {_N_TRAIN - _N_TRAIN_QUERIES} candidates each; {test.n_queries} test queries with "
            f"{test.offsets[1]} candidates each, none of which was used in training. One feature per "
            "pixel: the absolute difference between query and candidate. Relevant: the same digit."
        ),
        train=train,
        test=test,
        baselines={
            "Euclidean distance": -np.sqrt((X * X).sum(axis=1)),
            "City-block distance": -X.sum(axis=1),
        },
    )


def run(task: Task, *, n_jobs: int | None = -1, callback: Callable[[str], object] | None = None) -> Outcome:
    """Learn SVM-roc and SVM-map, C chosen by cross-validation over the training queries, and rank the test queries."""

    def tried(name: str, scores: Float, model: object = None) -> System:
        rows = task.test
        values = metrics.evaluate("map", rows.y, scores, qid=rows.qid, docid=rows.docid).per_query
        return System(name, scores, values, model)

    systems = [tried(name, scores) for name, scores in task.baselines.items()]
    for name, loss in (("SVM-roc", "roc"), ("SVM-map", "map")):
        if callback is not None:
            callback(name)
        model = structsvm.StructuralRankerCV(
            loss, _CS, cv=min(3, task.train.n_queries), scoring="map", n_jobs=n_jobs
        )
        model._fixed_grid = True  # suppress the remark on a C at an end of the grid
        model.fit(task.train.X, task.train.y, qid=task.train.qid)
        systems.append(tried(name, model.predict(task.test.X, qid=task.test.qid), model))
    return Outcome(task, tuple(systems))


def results_table(outcome: Outcome) -> tuple[list[pages.Column], list[list[str]]]:
    """Return columns and formatted rows: measure, difference from the baseline, significance, cost of the fit."""
    names = ("MAP", "difference", "better/worse", "p", "C", "gap", "passes", "seconds")
    rows = []
    for system in outcome.systems:
        compared, trained = [""] * 3, [""] * 4
        if system is not outcome.baseline:
            test = compare(system.per_query, outcome.baseline.per_query)
            compared = [
                f"{test.mean_difference:+.4f}",
                f"{test.wins}/{test.losses}",
                pages.p_value(test.p_value),
            ]
        if system.model is not None:
            fit = system.model.fit_
            trained = [f"{fit.C:g}", f"{fit.gap:.0e}", str(fit.n_passes), f"{fit.seconds:.2f}"]
        rows.append([system.name, f"{system.mean:.4f}", *compared, *trained])
    return pages.columns("System", numbers=names), rows


def headline(outcome: Outcome) -> str:
    """Return the result in words, with the models that perform equally well."""
    shown = [outcome.baseline, *outcome.learned]
    best = leaders({system.name: system.per_query for system in shown})
    means = {system.name: f"{system.mean:.4f}" for system in shown}
    return best_said(
        best,
        means,
        f"average precision on {shown[0].per_query.shape[0]} test queries",
        baseline=outcome.baseline.name,
    )


def page(outcome: Outcome) -> str:
    """Return the report, a self-contained HTML document."""
    columns, rows = results_table(outcome)
    learned, task = outcome.learned, outcome.task
    tol, histories = learned[0].model.tol, {s.name: s.model.fit_.history for s in learned}
    return pages.render(
        "cli/studies/demo.html",
        title=task.title,
        lead=headline(outcome),
        task=task,
        columns=columns,
        rows=rows,
        baseline=outcome.baseline.name,
        best=[
            i for i, s in enumerate(outcome.systems) if s.model is not None and s.mean == outcome.best.mean
        ],
        weights=[figures.Matrix(s.model.coef_.reshape(8, 8), f"Weights of {s.name}") for s in learned],
        tol=tol,
        gaps=[figures.gap(histories, x=x, tol=tol) for x in ("passes", "seconds")],
        differences=[
            figures.differences(s.per_query - outcome.baseline.per_query, measure=f"AP, {s.name}")
            for s in learned
        ],
    )
