"""Learned fusion of runs, measured on held-out topics beside the single runs and fusions without learning."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from structsvm.common.checks import BadInput, check_whole
from structsvm.common.portable.elementary import geomspace
from structsvm.common.records import plain
from structsvm.estimators.choosing_C import Selection, check_selection, choose_C, crossed_by, select_C
from structsvm.estimators.fusion import FusionModel, fusion_path
from structsvm.estimators.structural import StructuralRanker
from structsvm.features.fusion import FUSIONS
from structsvm.features.scaling import minmax_within
from structsvm.metrics import RunTable, evaluate
from structsvm.metrics.estimates import FEWEST, Estimate, estimate_of
from structsvm.metrics.evaluation import check_distinguishes, distinguishes, evaluate_part
from structsvm.plots import pages
from structsvm.protocols import Float, Int
from structsvm.queries import row_groups
from structsvm.readers.qrels import Qrels
from structsvm.readers.run_features import Candidates, candidates, judge_run
from structsvm.readers.runs import Run

CS = tuple(float(C) for C in geomspace(0.1, 100.0, 7))
"""Values of C tried by default."""

LEARNED = "learned fusion"


@dataclass(frozen=True, eq=False)
class FusionResult:
    """Result of :func:`cross_validate_fusion`.

    ``run`` ranks each judged topic by a model trained without it, and the others by ``model``. ``chosen`` contains the
    C of each fold, selected on the topics of the other folds, and ``curve`` the mean over held-out topics for each of
    ``Cs``. ``table`` compares the runs, measured at full length, and fusions without learning with the learned fusion.
    ``estimate`` has as baseline the run that is best on the topics of the other folds, ``best_on_training``.
    """

    pool: Candidates
    run: Run
    model: FusionModel
    Cs: tuple[float, ...]
    chosen: tuple[float, ...]
    curve: Float
    table: RunTable
    runs: tuple[str, ...]
    best_on_training: tuple[str, ...]
    estimate: Estimate

    def _best_first(self) -> list[str]:
        return sorted(self.table.names, key=lambda name: -self.table.results[name, self.estimate.name].mean)

    def rows(self) -> tuple[list[pages.Column], list[list[str]]]:
        """Return the columns and formatted rows of the table, best system first."""
        numbers = (pages.measure_name(self.estimate.name), "difference", "better/worse", "p", "Holm")
        rows = []
        for name in self._best_first():
            key = name, self.estimate.name
            row = [f"{name} (run)" if name in self.runs else name, f"{self.table.results[key].mean:.4f}"]
            if name == LEARNED:
                row += [""] * 4
            else:
                test, adjusted = (self.table.comparisons or {})[key], (self.table.adjusted or {})[key]
                row += [f"{test.mean_difference:+.4f}", f"{test.wins}/{test.losses}"]
                row += map(pages.p_value, (test.p_value, adjusted))
            rows.append(row)
        return pages.columns("system", numbers=numbers), rows

    def lines(self) -> list[str]:
        """Return the estimate in words."""
        names = list(dict.fromkeys(self.best_on_training))
        by_fold = ", by fold" if len(names) > 1 else ""
        return [
            f"differences from the {LEARNED}; two-tailed Wilcoxon tests over topics, Holm's correction",
            *repr(self.estimate).splitlines(),
            f"baseline: the run that is best on the topics of the other folds, {pages.listed(names)}{by_fold}",
        ]

    def to_dict(self, *, per_query: bool = False) -> dict[str, Any]:
        """Return the result, unrounded, as plain objects."""
        systems = list[dict[str, Any]]()
        for name in self._best_first():
            key = name, self.estimate.name
            systems.append(
                {"name": name, "single_run": name in self.runs, "mean": self.table.results[key].mean}
            )
            if name != LEARNED:
                found = (self.table.comparisons or {})[key]._asdict() | {
                    "holm": (self.table.adjusted or {})[key]
                }
                systems[-1] |= {"difference": found.pop("mean_difference"), **found}
        fit, (_, *fields) = self.model.certificate, self.estimate._fields
        difference = self.estimate.difference
        assert difference is not None
        by_topic = {
            "topics": self.pool.topics,
            "per_query": {name: each.per_query for (name, _), each in self.table.results.items()},
        }
        record = {
            "measure": self.estimate.name,
            "loss": self.model.loss,
            "relevance": self.model.relevance,
            "depth": self.model.depth,
            "n_topics": self.pool.n_topics,
            "n_documents": self.pool.n_rows,
            "runs": self.runs,
            "systems": systems,
            "estimate": {name: getattr(self.estimate, name) for name in fields[:-1]},
            "C": {"grid": self.Cs, "held_out": self.curve, "folds": self.chosen, "final": fit.C},
            "gap": fit.gap,
            "best_on_training": {
                "folds": self.best_on_training,
                "difference": difference.mean_difference,
                "lower": difference.lower,
                "upper": difference.upper,
            },
        }
        return plain(record | (by_topic if per_query else {}))


def cross_validate_fusion(
    runs: Mapping[str, Run],
    qrels: Qrels,
    *,
    Cs: Sequence[float] = CS,
    loss: str = "map",
    relevance: float = 1.0,
    folds: int = 5,
    selection: Selection = "max",
    depth: int = 1000,
    tol: float = 1e-3,
    random_state: int = 0,
    n_jobs: int | None = None,
    callback: Callable[[int], object] | None = None,
) -> FusionResult:
    """Rank every judged topic by a model that was trained, and whose C was selected, on the topics of other folds.

    Each fold trains one path over C on the other topics. The C of a fold is selected by the held-out values of the
    topics of the other folds, so that no further models are trained (as in
    :meth:`structsvm.StructuralRankerCV.estimate`). The final model is trained on all judged topics. The first ``depth``
    documents of each run are pooled, and fusions return ``depth`` documents per topic.
    """
    pool = candidates({name: run.top(depth) for name, run in runs.items()}, qrels, depth=depth)
    known = pool.select(pool.judged)
    check_whole("folds", folds, 2)
    check_selection(selection)
    if known.n_topics < (fewest := max(folds, FEWEST)):
        raise BadInput(
            "qrels",
            f"expected judgments of at least {fewest} topics of the runs for {folds} folds, got {known.n_topics}",
            "judge more topics, or use fewer folds",
        )
    judgments = qrels.to_dict()
    qrels = Qrels.from_dict({topic: judgments[topic] for topic in known.topics.tolist()})
    grid = np.unique([float(C) for C in Cs])
    measure: str = StructuralRanker(loss)._measure()
    options: dict[str, Any] = {"loss": loss, "relevance": relevance, "tol": tol, "n_jobs": n_jobs}
    # each topic is scaled separately, so scaling once is enough for all paths
    scaled = replace(known, scores=minmax_within(known.scores, known.offsets))

    def judged(part: Candidates, scores: ArrayLike) -> Any:
        rows = judge_run(part.to_run(scores).top(depth), qrels, complete=False)
        return evaluate_part(measure, **rows._asdict(), relevance=relevance).result.per_query

    rows = judge_run(known.to_run(np.zeros(known.n_rows)), qrels)
    check_distinguishes(
        "loss", measure, lambda name: distinguishes(name, rows.y_true, rows.qid, relevance=relevance)
    )
    fold = np.empty(known.n_topics, dtype=np.int64)  # does not depend on the order of the topics
    fold[np.argsort(known.topics)] = np.random.default_rng(random_state).permutation(known.n_topics) % folds
    held_out: list[list[Float]] = []

    def parts() -> Iterator[tuple[Int, Float]]:
        for k in range(folds):
            part = scaled.select(fold == k)
            models = fusion_path(scaled.select(fold != k), grid.tolist(), within="data", **options)
            held_out.append([model.predict(part) for model in models])
            yield (
                np.flatnonzero(fold == k),
                np.stack([judged(part, scores) for scores in held_out[-1]], axis=1),
            )

    choice = choose_C(grid, np.ones(fold.size), parts(), selection=selection, callback=callback)
    with choice.training():
        (model,) = fusion_path(known, [choice.C], depth=depth, **options)
    chosen = [select_C(grid, choice.values[fold != k], selection=selection) for k in range(folds)]
    scores, fold_of_row = np.empty(known.n_rows), fold[row_groups(known.offsets)]
    for k, C in enumerate(chosen):
        scores[fold_of_row == k] = held_out[k][int(np.flatnonzero(grid == C)[0])]

    systems = {LEARNED: known.to_run(scores).top(depth), **runs}
    for name, combine in FUSIONS.items():  # a run may have the name of a fusion as its tag
        fused = known.to_run(combine(known.scores, known.offsets)).top(depth)
        systems[f"{name} (of these runs)" if name in systems else name] = fused
    table = evaluate(qrels, systems, [measure], relevance=relevance, ties="docid").against(LEARNED)
    values = {name: table.results[name, measure].per_query for name in runs}

    def best(rest: Any) -> str:
        return max(values, key=lambda name: float(values[name][rest].mean()))

    baseline = crossed_by(lambda rest: values[best(rest)], fold, np.ones(fold.size))
    every = np.empty(pool.n_rows)
    of_known = np.repeat(pool.judged, np.diff(pool.offsets))
    every[of_known] = scores
    if not pool.judged.all():
        every[~of_known] = model.predict(pool.select(~pool.judged))
    return FusionResult(
        pool=known,
        run=pool.to_run(every).top(depth),
        model=model,
        Cs=tuple(grid.tolist()),
        chosen=tuple(chosen),
        curve=choice.values.mean(axis=0),
        table=table,
        runs=tuple(runs),
        best_on_training=tuple(best(fold != k) for k in range(folds)),
        estimate=estimate_of(table.results[LEARNED, measure], baseline=baseline),
    )
