"""The checks of rankers and oracles accept correct ones and detect faults."""

from dataclasses import dataclass
from itertools import combinations, pairwise, permutations

import numpy as np
import pytest

from structsvm import SVMMap, TreeRanker
from structsvm.oracles import AveragePrecision, get_oracle
from structsvm.testing import check_oracle, check_ranker


def exhaustive_map(y, scores):
    """Return the value of the most violated ranking of SVM-map over all permutations."""
    relevant = y >= 1
    n_relevant = int(relevant.sum())
    if n_relevant in (0, len(y)):
        return 0.0
    best = -np.inf
    for ranking in permutations(range(len(y))):
        hits = relevant[list(ranking)]
        precision = np.cumsum(hits) / np.arange(1, len(y) + 1)
        loss = 1 - precision[hits].mean()
        sign = np.sign(np.subtract.outer(np.argsort(ranking), np.argsort(ranking)))  # 1: the row ranks lower
        wrong = (sign + 1)[np.ix_(relevant, ~relevant)]  # 2 for each inverted pair
        apart = np.subtract.outer(scores[relevant], scores[~relevant])
        best = max(best, loss - (wrong * apart).mean())
    return best


def test_an_oracle_is_compared_with_a_reference():
    check_oracle(get_oracle("map"), reference=exhaustive_map)
    with pytest.raises(AssertionError, match="reference"):
        check_oracle(get_oracle("roc"), reference=exhaustive_map)


@dataclass(frozen=True)
class Swaps:
    """The share of relevant documents that are swapped with others, for at most ``most`` swaps."""

    most: int = 99

    def bind(self, y, offsets):
        return SwapsSeparator(self.most, y, offsets)


class SwapsSeparator:
    exact = True
    query_weights = None

    def __init__(self, most, y, offsets):
        self.most, self.offsets = most, offsets
        self.relevant = [y[a:b] >= 1 for a, b in pairwise(offsets)]
        self.informative = np.array([r.any() and not r.all() for r in self.relevant])

    def separate(self, scores, first, last, loss, coef):
        loss[:], coef[:] = 0, 0
        for q in range(first, last):
            a, b = self.offsets[q : q + 2] - self.offsets[first]
            rows, relevant = a + np.argsort(scores[a:b], kind="stable"), self.relevant[q]
            mask = relevant[rows - a]
            pairs = list(zip(rows[mask], rows[~mask][::-1], strict=False))[: self.most]
            n = int(np.cumsum([0.0] + [1 + scores[j] - scores[i] for i, j in pairs]).argmax())
            for i, j in pairs[:n]:
                loss[q - first] += 1 / relevant.sum()
                coef[i], coef[j] = 1 / relevant.sum(), -1 / relevant.sum()


def every_swap(y, scores):
    relevant, others = np.flatnonzero(y >= 1), np.flatnonzero(y < 1)
    values = [
        (n + scores[list(up)].sum() - scores[list(down)].sum()) / len(relevant)
        for n in range(1, min(len(relevant), len(others)) + 1)
        for down in combinations(relevant, n)
        for up in combinations(others, n)
    ]
    return max([0.0, *values])


@pytest.mark.parametrize("seed", range(10))
def test_a_reference_finds_an_oracle_that_looks_at_too_few_outputs(seed):
    check_oracle(Swaps(), reference=every_swap, random_state=seed)
    for most in (1, 2):  # exact among fewer outputs: only a reference tells
        check_oracle(Swaps(most), random_state=seed)
        with pytest.raises(AssertionError, match="where the reference gives"):
            check_oracle(Swaps(most), reference=every_swap, random_state=seed)


@dataclass(frozen=True)
class Spoiled:
    """The oracle of average precision with one fault."""

    fault: str

    def bind(self, y, offsets):
        return SpoiledSeparator(self.fault, get_oracle("map").bind(y, offsets), y, offsets)


class SpoiledSeparator:
    exact = True
    query_weights = None

    def __init__(self, fault, separator, y, offsets):
        self.fault, self.separator, self.y, self.offsets = fault, separator, y, offsets
        self.informative = separator.informative.copy()
        self.calls = 0
        if fault == "informative":
            self.informative[np.argmin(self.informative)] = True
        if fault == "flags":
            self.informative = self.informative.astype(int)

    def separate(self, scores, first, last, loss, coef):
        if self.fault == "lazy":  # the true output: never wrong, never violated
            loss[:], coef[:] = 0, 0
            return
        if self.fault == "shifted":
            scores = scores + 0.01
        if self.fault == "labels only" or (self.fault == "state" and self.calls):
            scores = np.zeros_like(scores)
        self.calls += 1
        self.separator.separate(scores, first, last, loss, coef)
        if self.fault == "unfilled":
            coef[-1] = np.nan
        if self.fault == "scores":
            scores.flags.writeable = True
            scores[0] += 1.0
        if self.fault == "sign":
            coef *= -1
        if self.fault == "sum":
            start = self.offsets[first:last] - self.offsets[first]
            coef[start] += 1e-6
        if self.fault in ("negative", "rounding"):
            loss -= np.where(loss > 0, 1e-3 if self.fault == "negative" else 1.8e-15, 0.0)
        if self.fault == "order":
            coef += 1e-3 * (np.arange(coef.shape[0]) % 2) * (coef != 0)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("informative", "informative"),
        ("flags", "informative"),
        ("lazy", "informative|not exact"),
        ("labels only", "the true output is violated more|not exact"),
        ("state", "the true output is violated more|not exact|earlier calls"),
        ("unfilled", "not filled"),
        ("scores", "the scores were changed"),
        ("sign", r"(the true output is violated more|not exact).*: query \d+, y=\[.*\], scores=\["),
        ("sum", "do not sum to zero|the true output is violated more"),
        ("negative", "a loss is negative: -0.001: query|the true output is violated more"),
        ("order", "do not sum to zero|not exact|order of the documents"),
    ],
)
def test_a_faulty_oracle_is_caught(fault, message):
    with pytest.raises(AssertionError, match=message):
        check_oracle(Spoiled(fault))


def test_rounding_is_no_fault():
    check_oracle(Spoiled("rounding"))


def test_an_object_that_is_no_oracle_is_named():
    with pytest.raises(AssertionError, match="no method bind"):
        check_oracle(object())
    with pytest.raises(AssertionError, match=r"Swaps.*: expected an instance, got the class"):
        check_oracle(Swaps)


def test_a_separator_without_a_part_is_refused_by_fit(monkeypatch):
    monkeypatch.setattr("structsvm.oracles.average_precision.AveragePrecision.bind", lambda *_: object())
    for model in (SVMMap(), TreeRanker(AveragePrecision())):
        with pytest.raises(
            TypeError, match=r"bind\(\) returns a separator without exact, informative, query_weights"
        ):
            model.fit([[1.0], [2.0]], [0, 1], qid=0)


class Changed(SVMMap):
    """Fits like its base, and then changes something."""

    def fit(self, X, y, *, qid=None, sample_weight=None):
        super().fit(X, y, qid=qid, sample_weight=sample_weight)
        self.change(X, qid)
        return self


class NoLearner(Changed):
    def change(self, X, qid):
        self.coef_ = np.ones_like(self.coef_) * np.array([1.0, -1.0, 0.0, 0.0])[: self.coef_.size]


class NamesOfQueries(Changed):
    def change(self, X, qid):
        self.coef_ = self.coef_ * (1 + 1e-3 * (np.asarray(qid).dtype.kind == "U"))


class Pointwise(Changed):
    def change(self, X, qid):
        mean = np.asarray(X.mean(axis=0)).ravel()
        self.coef_ = self.coef_ + mean.round(6)


class Forgiving(SVMMap):
    def predict(self, X, *, qid=None):
        return super().predict(np.nan_to_num(X) if isinstance(X, np.ndarray) else X, qid=qid)


class Careless(SVMMap):
    def score(self, X, y, *, qid=None, sample_weight=None):
        return super().score(X, y, qid=np.zeros(len(y), int) if qid is None else qid)


class Meddling(Changed):
    def change(self, X, qid):
        self.C = 2.0


class Lucky(Changed):
    fits = 0

    def change(self, X, qid):
        Lucky.fits += 1
        self.coef_ = self.coef_ * (1 + 1e-9 * Lucky.fits)


class Seated(Changed):
    def change(self, X, qid):
        first = np.unique(np.asarray(qid), return_index=True)[1]  # the row a query has first
        self.coef_ = self.coef_ + 10 * np.asarray(X, dtype=float)[first].mean(axis=0).round(6)


class Hasty(SVMMap):
    def fit(self, X, y, *, qid=None, sample_weight=None):
        self.unit_ = 100.0 if X.shape[0] and np.asarray(X.max()).max() > 50 else 1.0
        return super().fit(X, y, qid=qid, sample_weight=sample_weight)

    def predict(self, X, *, qid=None):
        return super().predict(X, qid=qid) / getattr(self, "unit_", 1.0)


class Sharing(SVMMap):
    def __sklearn_clone__(self):
        other = SVMMap(**self.get_params())
        other.__class__ = Sharing
        other.__dict__.update(vars(self))
        return other


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (NoLearner(), "chance|saving"),
        (NamesOfQueries(), "renaming the queries"),
        (Pointwise(), "shifting the features"),
        (Forgiving(), "NaN in predict"),
        (Careless(), "score without qid"),
        (Meddling(), "changes parameters"),
        (Lucky(), "fitting again"),
        (Seated(), "permuting the documents"),
        (Hasty(), "a fit that is refused changes the scores"),
        (Sharing(), "clone"),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, SVMMap) else "",
)
def test_a_faulty_ranker_is_caught(estimator, message, monkeypatch):
    monkeypatch.delattr("structsvm.estimators.fitted.Saved.save")  # these classes are not of the package
    with pytest.raises(AssertionError, match=message):
        check_ranker(estimator)


def test_the_class_of_an_oracle_is_no_oracle():
    with pytest.raises(TypeError, match=r"got the class AveragePrecision; pass AveragePrecision\(\)"):
        get_oracle(AveragePrecision)
