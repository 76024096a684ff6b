"""Choice of C, cross-validation and comparison tables, for the experiments on diverse result sets."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from structsvm.common.candidates import CandidateSet
from structsvm.estimators.cross_validation import cross_validate_C
from structsvm.features.word_counts import count_words
from structsvm.metrics import compare, weighted_subtopic_loss


def counted(sets: Sequence[CandidateSet], vectorizer: Any = None) -> list[CandidateSet]:
    """Return the sets with their word counts, so that repeated training does not count the words again."""
    out = []
    for one in sets:
        words = count_words(one, vectorizer)
        names = None if words.vocabulary is None else [str(v) for v in words.vocabulary]
        out.append(
            CandidateSet(
                words.text,
                titles=words.title,
                ids=one.ids,
                features=one.features,
                query=one.query,
                vocabulary=names,
            )
        )
    return out


def pick(items: Sequence[Any], rows: Sequence[int]) -> list[Any]:
    return [items[i] for i in rows]


def held_out(
    model: Any, sets: Any, labels: Any, rows: Sequence[int], Cs: Sequence[float], folds: int
) -> np.ndarray:
    """Return the loss of every C on each held-out row of ``rows``, shape (len(Cs), len(rows))."""
    return cross_validate_C(model, pick(sets, rows), pick(labels, rows), Cs, folds=folds).losses.T


def choose_and_fit(
    model: Any, sets: Any, labels: Any, rows: Sequence[int], Cs: Sequence[float], folds: int
) -> Any:
    """Return the model with the best C on held-out ``rows``; ties go to the smaller C."""
    losses = held_out(model, sets, labels, rows, Cs, folds).mean(axis=1)
    C = sorted(Cs)[int(np.argmin(losses))]
    return clone(model).set_params(C=C).fit(pick(sets, rows), pick(labels, rows))


def cross_validated(
    model: Any, sets: Any, labels: Any, Cs: Sequence[float], *, folds: int, inner: int, seed: int
) -> tuple[np.ndarray, list[float]]:
    """Return the loss of each query in its held-out fold, with C chosen on the other folds; and the values of C."""
    order = np.random.default_rng(seed).permutation(len(sets))
    losses, chosen = np.empty(len(sets)), []
    for fold in range(folds):
        test = order[fold::folds].tolist()
        train = [r for i, r in enumerate(order.tolist()) if i % folds != fold]
        fit = choose_and_fit(model, sets, labels, train, Cs, inner)
        chosen.append(fit.C)
        losses[test] = weighted_subtopic_loss(pick(labels, test), fit.predict(pick(sets, test)))
    return losses, chosen


def split_by_query(
    model: Any, sets: Any, labels: Any, Cs: Sequence[float], *, train: int = 12, validate: int = 4, seed: int
) -> dict[str, np.ndarray]:
    """Return each query's loss by a model of ``train`` other queries, with the best C on ``validate`` more; and C."""
    rng = np.random.default_rng(seed)
    losses, chosen = np.empty(len(sets)), []
    for test in range(len(sets)):
        others = rng.permutation(np.delete(np.arange(len(sets)), test))[: train + validate].tolist()
        models = model.path(pick(sets, others[:train]), pick(labels, others[:train]), Cs)
        rest, truth = pick(sets, others[train:]), pick(labels, others[train:])
        best = models[int(np.argmin([weighted_subtopic_loss(truth, m.predict(rest)).mean() for m in models]))]
        chosen.append(best.C)
        losses[test] = weighted_subtopic_loss([labels[test]], best.predict([sets[test]]))[0]
    return {"losses": losses, "C": np.array(chosen)}


def against(ours: np.ndarray, theirs: np.ndarray) -> tuple[str, float]:
    """Return wins, ties and losses of ``ours`` (lower is better), and Wilcoxon's p."""
    result = compare(theirs, ours)
    return f"{result.wins}/{result.ties}/{result.losses}", result.p_value
