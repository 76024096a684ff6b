"""``check_selector``: the properties of models and methods that choose documents from candidate sets."""

import copy
import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from structsvm.common.candidates import CandidateSet
from structsvm.testing.require import Requirement


def check_selector(selector: Any, *, greedy: bool = True, random_state: int = 0) -> None:
    """Check a selector: a model such as :class:`~structsvm.DiverseRanker`, or a method without labels.

    ``predict`` chooses distinct documents, as many as asked for or as a budget allows; the choice from a set does not
    depend on the other sets, and a repetition gives the same choice. If the selector has ``fit``, a second fit gives
    the same choices, invalid input raises and leaves the model unchanged, and copies by pickle and file are equal; for
    a trade-off ``C``, ``path`` agrees with ``fit``, and ``score`` with ``losses``.

    Parameters
    ----------
    selector : object
        Unfitted selector.
    greedy : bool, default=True
        Whether fewer documents are always the first of more documents.
    random_state : int, default=0
        Seed of the generated sets.

    Examples
    --------
    >>> from structsvm.estimators.baselines import MMR
    >>> check_selector(MMR())
    """
    require, rng = Requirement(type(selector).__name__), np.random.default_rng(random_state)
    words = [f"w{i}" for i in range(40)]
    sets, labels, costs = [], [], []
    for n in (9, 12, 7, 14, 11, 8):
        texts = [" ".join(rng.choice(words, size=12)) for _ in range(n)]
        sets.append(CandidateSet(texts, features=rng.random((n, 2)), query="w1 w2"))
        labels.append((rng.random((n, 4)) < 0.3).astype(np.int64))
        costs.append(rng.uniform(1.0, 3.0, size=n))
    learns = hasattr(selector, "fit")
    model = copy.deepcopy(selector)
    if learns:
        require(model.fit(sets, labels) is model, "fit does not return self")
    chosen = _choices(model, sets)
    for k in (1, 3, 50):
        lists = _choices(model, sets, k)
        sizes = [min(k, len(one)) for one in sets]
        require([len(rows) for rows in lists] == sizes, f"predict: expected {sizes} documents for k={k}")
        for one, rows in zip(sets, lists, strict=True):
            require(len({*rows, *range(len(one))}) == len(one), "predict: expected indices of documents")
            require(len(set(rows)) == len(rows), "predict: expected distinct documents")
        if greedy and k <= len(chosen[0]):
            require([rows[:k] for rows in chosen] == lists, f"predict: the first {k} documents differ")
    require(_choices(model, sets) == chosen, "predict: a repetition chooses other documents")
    require(
        [*_choices(model, sets[:1]), *_choices(model, sets[1:])] == chosen or not greedy,
        "predict: the choice from a set depends on the other sets",
    )
    for budget in (0.5, 6.0):
        for rows, prices in zip(_choices(model, sets, costs=costs, budget=budget), costs, strict=True):
            require(prices[rows].sum() <= budget * (1 + 1e-9), "predict: the choice exceeds the budget")
    require.refusal("a single set", model.predict, sets[0], error=TypeError, says="list of CandidateSet")
    require.refusal("no set", model.predict, [], says="CandidateSet")
    require.refusal("k=0", model.predict, sets, 0, says="k")
    if learns:
        _check_learning(model, selector, sets, labels, require)


def _check_learning(
    model: Any, fresh: Any, sets: list[CandidateSet], labels: list[Any], require: Requirement
) -> None:
    chosen = _choices(model, sets)
    require(_choices(copy.deepcopy(fresh).fit(sets, labels), sets) == chosen, "a second fit differs")
    more = copy.deepcopy(fresh).fit([*sets, sets[0]], [*labels, 0 * labels[0]])
    require(_choices(more, sets) == chosen, "a set without subtopics changes the model")
    require.refusal("too few labels", model.fit, sets, labels[1:], says="labels")
    require.refusal("labels without subtopics", model.fit, sets, [one * 0 for one in labels], says="labels")
    require(_choices(model, sets) == chosen, "a refused fit changes the model")
    require(_choices(pickle.loads(pickle.dumps(model)), sets) == chosen, "a pickled copy differs")
    if not hasattr(model, "C"):
        return
    [other] = copy.deepcopy(fresh).path(sets, labels, [model.C])
    require(_choices(other, sets) == chosen, "path: differs from fit")
    losses = model.losses(sets, labels)
    require(bool(((losses >= -1e-12) & (losses <= 1 + 1e-12)).all()), "losses: expected values from 0 to 1")
    require(abs(model.score(sets, labels) - (1 - losses.mean())) <= 1e-12, "score: expected 1 - mean loss")
    require(len(model.fingerprints_) == model.n_sets_ == len(sets), "expected a fingerprint of each set")
    reasons = model.explain(sets[0])
    require([one.document for one in reasons] == chosen[0], "explain: expected the documents of predict")
    with tempfile.TemporaryDirectory() as folder:
        from structsvm.export.model_file import load

        model.save(Path(folder) / "model.npz")
        require(_choices(load(Path(folder) / "model.npz"), sets) == chosen, "a loaded copy differs")


def _choices(model: Any, sets: list[CandidateSet], k: int | None = None, **limits: Any) -> list[list[int]]:
    return [rows.tolist() for rows in model.predict(sets, k, **limits)]
