"""Nested cross-validation of a learned fusion on held-out topics, compared with runs and fusions without learning."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from structsvm.common.checks import BadInput, check_whole
from structsvm.common.portable.elementary import geomspace
from structsvm.estimators.choosing_C import Selection, check_selection, choose_C, select_C
from structsvm.estimators.fusion import FusionModel, fusion_path
from structsvm.estimators.structural import StructuralRanker
from structsvm.features.fusion import FUSIONS
from structsvm.features.scaling import minmax_within
from structsvm.metrics import Comparison, compare
from structsvm.metrics.evaluation import check_distinguishes, distinguishes, evaluate_part
from structsvm.protocols import Float, Int
from structsvm.queries import row_groups
from structsvm.readers.qrels import Qrels
from structsvm.readers.run_features import Candidates

CS = tuple(float(C) for C in geomspace(0.1, 100.0, 7))
"""Values of C tried by default."""

LEARNED = "learned fusion"

_INNER_FOLDS = 3


class PoolJudge:
    """Measure of rankings of a pool against all judgments: a relevant document that no run retrieved counts as
    missed."""

    def __init__(
        self, pool: Candidates, qrels: Qrels, *, relevance: float = 1.0, depth: int | None = None
    ) -> None:
        self.relevance = relevance
        self._depth = depth
        self._offsets = pool.offsets
        self._topic = row_groups(pool.offsets)
        missed, topics = _missed(pool, qrels)
        self._y = np.concatenate((pool.y, missed))
        self._qid = np.concatenate((self._topic, topics))

    def __call__(self, scores: Any, measure: str = "map") -> Float:
        """Return the measure of each topic, for scores of the pool's rows; NaN or minus infinity means not retrieved.

        Equal scores are ranked as in trec_eval, by descending docid.
        """
        rules: dict[str, Any] = {"relevance": self.relevance, "ties": "docid"}  # rows are sorted by docid
        return evaluate_part(measure, self._y, self._padded(scores), qid=self._qid, **rules).result.per_query

    def distinguishes(self, measure: str) -> bool:
        """Return whether a measure differs between rankings of these documents."""
        return distinguishes(measure, self._y, self._qid, relevance=self.relevance, ties="docid")

    def _padded(self, scores: Any) -> Float:
        """Return scores of the rows and of the missed documents; minus infinity for rows not retrieved or too deep."""
        values = np.array(scores, dtype=np.float64)
        values[np.isnan(values)] = -np.inf
        if self._depth is not None and np.diff(self._offsets).max() > self._depth:
            order = _order(values, self._topic)
            rank = np.arange(values.shape[0]) - self._offsets[self._topic]
            values[order[rank >= self._depth]] = -np.inf
        return np.concatenate((values, np.full(self._y.shape[0] - values.shape[0], -np.inf)))


@dataclass(frozen=True, eq=False)
class FusionResult:
    """Result of :func:`cross_validate_fusion`; the topics are the judged topics of the pool, in its order.

    ``scores`` come from models not trained on the topic, ``fold`` is the outer fold of each topic and ``chosen`` its C;
    ``curve`` is the measure of each held-out topic for every C, ``values`` the measure of each topic by system.
    With ``whole_runs`` single runs were measured to a greater depth. ``best_sum`` is the measure of each topic by
    the weighted sum of the ``sum_sizes[k]`` runs that are best on the training topics of fold k: see :func:`_best_sum`.
    """

    pool: Candidates
    scores: Float
    fold: Int
    Cs: tuple[float, ...]
    chosen: tuple[float, ...]
    curve: Float
    model: FusionModel
    measure: str
    values: dict[str, Float]
    runs: tuple[str, ...]
    best_sum: Float
    sum_sizes: tuple[int, ...]
    whole_runs: bool = False

    @property
    def on_training(self) -> tuple[tuple[str, ...], Float]:
        """The run that is best on the training topics of each fold, and its measure of each topic of the fold.

        This run could be chosen in advance; :attr:`best_run` is known only in hindsight.
        """
        held_out = np.empty(self.pool.n_topics)
        names = []
        for k in range(int(self.fold.max()) + 1):
            test = self.fold == k
            names.append(_best_run({name: self.values[name][~test] for name in self.runs}, self.runs))
            held_out[test] = self.values[names[-1]][test]
        return tuple(names), held_out

    @property
    def best_run(self) -> str:
        """The single run with the best mean, chosen on the topics on which it is compared."""
        return _best_run(self.values, self.runs)

    def against(self, name: str) -> Comparison:
        """Compare the learned fusion with a system, by a two-tailed Wilcoxon test over topics."""
        return compare(self.values[LEARNED], self.values[name])


def cross_validate_fusion(
    pool: Candidates,
    qrels: Qrels,
    *,
    Cs: Sequence[float] = CS,
    loss: str = "map",
    relevance: float = 1.0,
    folds: int = 5,
    selection: Selection = "max",
    depth: int | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    callback: Callable[[int, int], object] | None = None,
    whole: Candidates | None = None,
) -> FusionResult:
    """Re-rank every judged topic with a model that was trained, and whose C was chosen, without that topic.

    For each of the ``folds`` outer folds, C is chosen on three folds of the other topics. The final model is trained on
    all judged topics with the C chosen on the outer folds. ``depth`` is the pool depth of the runs; documents at lower
    ranks do not count. ``whole``, if the runs are deeper, is the pool of all their documents, on which single runs are
    measured.
    """
    from joblib import Parallel, delayed

    known = pool.select(pool.judged)
    check_whole("folds", folds, 2)
    check_selection(selection)
    training_topics = known.n_topics - -(-known.n_topics // folds)
    if known.n_topics < folds or training_topics < _INNER_FOLDS:
        expected = f"expected judgments of at least {max(folds, _INNER_FOLDS + 1)} topics of the runs"
        problem = f"{expected} for {folds} x {_INNER_FOLDS} folds, got {known.n_topics}"
        raise BadInput("qrels", problem, "judge more topics, or use fewer folds")
    grid = tuple(sorted({float(C) for C in Cs}))
    measure = StructuralRanker(loss)._measure()
    options: dict[str, Any] = {"loss": loss, "relevance": relevance}
    # each topic is scaled separately, so scaling once is enough for all paths
    scaled = replace(known, scores=minmax_within(known.scores, known.offsets))

    check_distinguishes("loss", measure, PoolJudge(known, qrels, relevance=relevance).distinguishes)

    def held_out(training: Int, test: Int) -> tuple[Float, list[Float]]:
        part = scaled.select(test)
        judge = PoolJudge(part, qrels, relevance=relevance, depth=depth)
        models = fusion_path(scaled.select(training), grid, within="data", **options)
        scores = [model.predict(part) for model in models]
        return np.stack([judge(s, measure) for s in scores], axis=1), scores

    fold, splits = _deal(known.n_topics, folds, np.random.default_rng(random_state))
    parts = []
    run = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator")
    for i, (values, scores) in enumerate(run(delayed(held_out)(*split) for split in splits)):
        parts.append((values, scores if i < folds else []))
        if callback is not None:
            callback(i + 1, len(splits) + 1)

    rows = np.empty(known.n_rows)
    chosen = []
    for k, (_, test) in enumerate(splits[:folds]):
        first = folds + k * _INNER_FOLDS
        inside = np.concatenate([values for values, _ in parts[first : first + _INNER_FOLDS]])
        best = grid.index(select_C(np.array(grid), inside, selection=selection))
        chosen.append(grid[best])
        rows[np.isin(row_groups(known.offsets), test)] = parts[k][1][best]
    outer = ((test, values) for (_, test), (values, _) in zip(splits[:folds], parts[:folds], strict=True))
    choice = choose_C(np.array(grid), np.ones(known.n_topics), outer, selection=selection)
    final = grid[: grid.index(choice.C) + 1]
    *_, model = fusion_path(known, final, depth=depth, n_jobs=n_jobs, **options)
    if callback is not None:
        callback(len(splits) + 1, len(splits) + 1)

    judge = PoolJudge(known, qrels, relevance=relevance, depth=depth)
    systems = {LEARNED: rows} | {name: known.scores[:, i] for i, name in enumerate(known.names)}
    systems |= {  # a run may have the name of a fusion as its tag
        f"{name} (of these runs)" if name in systems else name: combine(known.scores, known.offsets)
        for name, combine in FUSIONS.items()
    }
    judges, ranked = dict.fromkeys(systems, judge), dict(systems)
    if whole is not None:
        alone = whole.select(whole.judged)
        judges |= dict.fromkeys(known.names, PoolJudge(alone, qrels, relevance=relevance))
        ranked |= {name: alone.scores[:, i] for i, name in enumerate(alone.names)}
    values_of = {name: judges[name](ranked[name], measure) for name in systems}
    of_runs = np.stack([values_of[name] for name in known.names])
    best_sum, sizes = _best_sum(scaled, of_runs, fold, judge, measure)
    return FusionResult(
        pool=known,
        scores=rows,
        fold=fold,
        Cs=grid,
        chosen=tuple(chosen),
        curve=choice.values,
        model=model,
        measure=measure,
        values=values_of,
        runs=known.names,
        best_sum=best_sum,
        sum_sizes=sizes,
        whole_runs=whole is not None,
    )


def _deal(n_topics: int, folds: int, rng: np.random.Generator) -> tuple[Int, list[tuple[Int, Int]]]:
    """Divide the topics into outer folds; return the fold of each, and all splits into training and test topics.

    The splits of the outer folds come first, then the inner splits of each.
    """
    fold = rng.permutation(n_topics) % folds
    outer = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(folds)]
    splits = list(outer)
    for training, _ in outer:
        inside = rng.permutation(training.shape[0]) % _INNER_FOLDS
        splits += [(training[inside != j], training[inside == j]) for j in range(_INNER_FOLDS)]
    return fold, splits


def _best_run(values: dict[str, Float], runs: Sequence[str]) -> str:
    return max(runs, key=lambda name: float(values[name].mean()))


def _best_sum(
    scaled: Candidates, values: Float, fold: Int, judge: PoolJudge, measure: str
) -> tuple[Float, tuple[int, ...]]:
    """Return the measure of each topic for a fusion chosen on the training topics, and its number of runs per fold.

    The fusion is the sum of the scaled scores of the m runs that are best on the training topics, each weighted by its
    mean on these topics. Of the Fibonacci numbers and the number of all runs, m is the one with the best measure on
    these topics. ``values`` has one row per run.
    """
    sizes = [m for m in (1, 2, 3, 5, 8, 13, 21, 34, 55, 89) if m < len(values)] + [len(values)]
    found, chosen = np.empty(fold.size), []
    for k in range(int(fold.max()) + 1):
        means = values[:, fold != k].mean(axis=1)
        best = np.argsort(-means, kind="stable")
        sums = []
        for m in sizes:
            some = scaled.scores[:, best[:m]]
            summed = np.nan_to_num(some) @ means[best[:m]]
            sums.append(judge(np.where(np.isnan(some).all(axis=1), np.nan, summed), measure))
        at = int(np.argmax([one[fold != k].mean() for one in sums]))
        found[fold == k] = sums[at][fold == k]
        chosen.append(sizes[at])
    return found, tuple(chosen)


def _order(values: Float, topic: Int) -> Int:
    """Return the rows topic by topic, best first.

    Rows of a pool are sorted by docid, so the last of equal scores comes first.
    """
    return np.lexsort((-np.arange(values.shape[0]), -values, topic))


def _missed(pool: Candidates, qrels: Qrels) -> tuple[Float, Int]:
    """Return the grades and topic indices of the documents with a grade above 0 that are not in the pool."""
    number_of = {topic: t for t, topic in enumerate(qrels.topics.tolist())}
    grades, topics = [np.empty(0)], [np.empty(0, dtype=np.int64)]
    for t, topic in enumerate(pool.topics.tolist()):
        q = number_of[topic]
        judged = slice(qrels.offsets[q], qrels.offsets[q + 1])
        pooled = pool.docid[pool.offsets[t] : pool.offsets[t + 1]]
        missed = (qrels.grades[judged] > 0) & ~np.isin(qrels.docid[judged], pooled)
        grades.append(qrels.grades[judged][missed].astype(np.float64))
        topics.append(np.full(grades[-1].size, t, dtype=np.int64))
    return np.concatenate(grades), np.concatenate(topics)
