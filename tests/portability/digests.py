"""SHA-256 of what the package computes, by name; ``python digests.py [names]`` prints them as JSON.

The data are integers times powers of two, so that they are the same on every processor themselves.
"""

import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

import structsvm
from structsvm import clicks, metrics, online
from structsvm.online import interleaving as interleavers
from structsvm.online.clicklog import Click, ClickLog, Impression
from structsvm.online.statistics import analyse
from structsvm.oracles import LOSSES, SquaredPairs, get_oracle
from structsvm.trainers import fit_path
from structsvm.trainers.choosing_solver import TRAINERS
from structsvm.trainers.passes import RankingProblem

CASES: dict[str, Callable[[], Any]] = {}
LOSS_NAMES = [loss.replace("@k", "@10") for loss in LOSSES]


def case(function: Callable[[], Any]) -> Callable[[], Any]:
    CASES[function.__name__] = function
    return function


def digest(value: Any) -> str:
    """Digest arrays, numbers and texts, in tuples, lists and dictionaries of any depth."""
    found = hashlib.sha256()

    def add(part: Any) -> None:
        if isinstance(part, dict):
            for key in sorted(part):
                add(key)
                add(part[key])
        elif isinstance(part, (list, tuple)):
            for one in part:
                add(one)
        elif isinstance(part, (str, type(None))):
            found.update(repr(part).encode())
        else:
            array = np.ascontiguousarray(part)
            found.update(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())

    add(value)
    return found.hexdigest()[:16]


def data(
    n_queries: int = 40,
    n_docs: int = 17,
    n_features: int = 21,
    grades: int = 3,
    seed: int = 0,
    dtype: Any = float,
) -> tuple[Any, Any, Any]:
    """Return features, related grades and query ids, sampled as integers."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-256, 257, size=(n_queries * n_docs, n_features))
    utility = X[:, :3].sum(axis=1) - X[:, 3] + rng.integers(-400, 401, size=len(X))
    y = np.digitize(utility, [150, 420, 650][: grades - 1])
    return X.astype(dtype) / 128, y.astype(float), np.repeat(np.arange(n_queries), n_docs)


def fitted(model: Any, X: Any = None, y: Any = None, qid: Any = None, **options: Any) -> Any:
    """Return weights, bounds, passes and scores of a fit."""
    if X is None:
        X, y, qid = data()
    model.fit(X, y, qid=qid, **options)
    out = [model.predict(X, qid=qid)]
    out += [getattr(model, name) for name in ("coef_", "intercept_", "scores_", "C_") if hasattr(model, name)]
    fit = getattr(model, "fit_", None)
    out += [getattr(fit, name) for name in ("primal", "dual", "gap", "n_passes") if hasattr(fit, name)]
    return out


THREADS = 1


@case
def losses() -> Any:
    out = {}
    for loss in LOSS_NAMES:
        for C in (0.1, 30.0):
            out[f"{loss} {C}"] = fitted(structsvm.StructuralRanker(loss, C=C, n_jobs=THREADS))
    return out


@case
def trainers() -> Any:
    out = {}
    for solver in (name for name, trainer in TRAINERS.items() if "hinge" in trainer.supports):
        for sign in (False, True) if "signs" in TRAINERS[solver].supports else (False,):
            out[f"{solver} {sign}"] = fitted(
                structsvm.StructuralRanker("map", solver=solver, positive=sign, n_jobs=THREADS),
                *data(30, 11, 9),
            )
    return out


@case
def formats() -> Any:
    out = {}
    for dtype in (np.float32, np.float64):
        for n_features in (5, 46, 300):
            X, y, qid = data(60, 23, n_features, dtype=dtype)
            out[f"{dtype.__name__} {n_features}"] = fitted(structsvm.SVMMap(C=3, n_jobs=THREADS), X, y, qid)
            X[np.abs(X) < 1.3] = 0
            rows = sparse.csr_matrix(X)
            out[f"csr {dtype.__name__} {n_features}"] = fitted(
                structsvm.SVMMap(C=3, n_jobs=THREADS), rows, y, qid
            )
    return out


@case
def many_queries() -> Any:
    """Fit with threads, a sample that determines the length, Newton's method on planes, and tasks of threads."""
    X, y, qid = data(3000, 9, 12)
    hard = structsvm.StructuralRanker("map", C=300, tol=1e-4, n_jobs=THREADS)
    offsets = np.arange(0, len(y) + 1, 9)
    separator = get_oracle("ndcg@10").bind(y, offsets)
    problem = RankingProblem(X, offsets, separator, weights=separator.query_weights, n_jobs=THREADS)
    problem.chunk = 8  # as of large rows: Newton's method starts on a part of the queries
    assert problem.part(8) is not None
    fit = next(fit_path(problem, [10.0], solver="newton"))
    return [
        *(fitted(model, X, y, qid) for model in (structsvm.SVMRoc(C=1, n_jobs=THREADS), hard)),
        [fit.w, fit.primal, fit.dual, fit.n_passes],
    ]


@case
def paths() -> Any:
    X, y, qid = data(120, 9, 12)
    out = []
    for selection in ("max", "one_se"):
        model = structsvm.StructuralRankerCV(
            "map", Cs=[0.01, 1.0, 50.0], cv=3, selection=selection, n_jobs=THREADS
        )
        out.append(fitted(model, X, y, qid))
    usual = structsvm.StructuralRankerCV("map", cv=2, n_jobs=THREADS)
    return [*out, fitted(usual, X, y, qid), usual.Cs_]


@case
def scaling_and_weights() -> Any:
    X, y, qid = data()
    weight = np.random.default_rng(1).integers(1, 9, size=len(y)) / 4
    scales = ("minmax", "zscore", "query-minmax", "query-zscore")
    out = [fitted(structsvm.StructuralRanker(scale=scale), X, y, qid) for scale in scales]
    out.append(fitted(structsvm.SVMMap(), X, y, qid, sample_weight=weight))
    out.append(structsvm.QueryScaler("percentile").fit_transform(X, qid=qid))
    return out


@case
def pairwise() -> Any:
    out = [fitted(structsvm.PairwiseSVM(C=1.0, n_jobs=THREADS))]
    out.append(fitted(structsvm.PairwiseSVM("squared_hinge", n_jobs=THREADS)))
    X, y, qid = data(6, 300, 7, grades=4)  # queries whose pairs are counted by a tree
    out.append(fitted(structsvm.PairwiseSVM("squared_hinge", C=20), X, y, qid))
    return out


@case
def stochastic() -> Any:
    views = [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [10, 11, 12], [1, 3]]
    X, y, qid = data()
    out = [fitted(structsvm.PairwiseSGD(loss, random_state=0)) for loss in ("hinge", "squared")]
    rows = sparse.csr_matrix(np.where(np.abs(X) < 1.3, 0.0, X))
    out.append(fitted(structsvm.PairwiseSGD(random_state=0), rows, y, qid))
    lcra = structsvm.CoRegularizedSGD(views, k=2, l=1, mu=0.01, loss="squared", random_state=0)
    return [*out, fitted(lcra)]


@case
def lambdarank() -> Any:
    nets = (
        structsvm.LambdaRank(random_state=0, max_epochs=5),
        structsvm.LambdaRank("map", hidden=(9, 4), max_epochs=5, random_state=0),
    )
    return [fitted(net) for net in nets]


@case
def ordinal() -> Any:
    return [fitted(structsvm.OrdinalSVM()), fitted(structsvm.OrdinalSVM(decompose=True))]


@case
def diversity() -> Any:
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(40)]
    sets, labels = [], []
    for _ in range(12):
        texts = [" ".join(words[j] for j in rng.integers(0, 40, size=12)) for _ in range(9)]
        sets.append(structsvm.CandidateSet(texts))
        labels.append((rng.integers(0, 3, size=(9, 5)) == 0).astype(int))
    out = []
    for loss in ("weighted", "alpha_ndcg"):
        model = structsvm.SVMDiv(C=5, k=3, loss=loss).fit(sets, labels)
        out.append([model.coef_, model.fit_.primal, model.fit_.dual, *model.predict(sets)])
    return out


@case
def diverse_selection() -> Any:
    """Return selections from texts with scores, from embeddings, and with weights of one sign."""
    rng = np.random.default_rng(1)
    texts, given, labels = [], [], []
    for _ in range(12):
        words = [" ".join(f"w{j}" for j in rng.integers(0, 30, size=12)) for _ in range(20)]
        vectors = rng.integers(-3, 4, size=(20, 5)) + 0.5
        lengths = np.sqrt((vectors**2).sum(axis=1))
        near = np.array([[(a * b).sum() for b in vectors] for a in vectors]) / lengths / lengths[:, None]
        scores = rng.integers(0, 50, size=(20, 2))
        texts.append(structsvm.CandidateSet(words, features=scores))
        given.append(structsvm.CandidateSet.from_similarity(near, features=scores))
        labels.append((rng.integers(0, 4, size=(20, 5)) == 0).astype(float))
    marks = structsvm.features.soft_subtopics(given, [one[:, 0] for one in labels])
    costs = [rng.integers(1, 9, size=20) for _ in given]
    out: list[Any] = []
    for sets, truth, options in (
        (texts, labels, {"loss": "alpha_ndcg"}),
        (given, marks, {}),
        (given, labels, {"positive": True}),
    ):
        model = structsvm.DiverseRanker(3, **options).fit(sets, truth)
        out.append([model.coef_, model.scale_, model.fit_.primal, model.regrets_])
        out.append(model.predict(sets, costs=costs, budget=17))
    return out


@case
def oracles() -> Any:
    """Return losses and coefficients of one call at given scores."""
    X, y, _ = data(25, 31, 4)
    offsets = np.arange(0, len(y) + 1, 31)
    out = {}
    for name in (*LOSS_NAMES, "squared_pairs"):
        oracle = SquaredPairs() if name == "squared_pairs" else get_oracle(name)
        separator = oracle.bind(y, offsets)
        problem = RankingProblem(X, offsets, separator, n_jobs=THREADS)
        cut = problem.cut(np.array([0.5, 0.25, 0.75, -0.5]))
        out[name] = [cut.loss, cut.joint]
    return out


@case
def measures() -> Any:
    X, y, qid = data(50, 20, 4)
    scores = X[:, 0] + X[:, 1]
    names = ("map", "ndcg@10", "ndcg", "mrr", "precision@5", "err@10")
    return {name: metrics.evaluate(name, y, scores, qid=qid).per_query for name in names}


@case
def bandits() -> Any:
    P = np.array([[8, 9, 10, 11], [7, 8, 10, 9], [6, 6, 8, 12], [5, 7, 4, 8]]) / 16
    out = {}
    for name in online.bandits.NAMES:
        for compiled in (False, True):
            steps = 300 if not compiled else 3000
            form = name if compiled else partial(online.bandits.make, name)
            run = online.simulate(form, P, horizon=steps, seed=1, times=[steps // 2, steps])
            if run.compiled != compiled:  # no compiled form
                continue
            out[f"{name} {compiled}"] = [run.regret, run.winner]
    return out


def cells() -> Any:
    """Return a log of position-based clicks on lists of three rankers, computed from integers."""
    rng = np.random.default_rng(5)
    theta = np.array([64, 48, 32, 20, 12, 8]) / 64
    truth = rng.integers(1, 9, size=(30, 12)) / 8
    orders = np.argsort(-(truth + rng.integers(0, 9, size=(3, 30, 12)) / 8), axis=2, kind="stable")[:, :, :6]
    query = rng.integers(0, 30, 4000)
    shown = orders[rng.integers(0, 3, 4000), query]
    clicked = rng.random(shown.shape) < theta * truth[query[:, None], shown]
    return clicks.ClickCells.from_arrays(
        np.repeat(query, 6),
        shown.ravel(),
        np.tile(np.arange(1, 7), 4000),
        clicked.ravel(),
        session=np.repeat(np.arange(4000), 6),
    )


@case
def click_models() -> Any:
    log, out = cells(), {}
    for name in (
        "CascadeModel",
        "DependentClickModel",
        "SimplifiedDynamicBayesianModel",
        "DynamicBayesianModel",
        "ClickChainModel",
        "PositionBasedModel",
        "UserBrowsingModel",
    ):
        model = getattr(clicks, name)().fit(log)
        out[name] = [
            value for key, value in sorted(vars(model).items()) if isinstance(value, (float, np.ndarray))
        ]
    return out


@case
def propensities() -> Any:
    log = cells()
    found = clicks.harvest(log)
    trust = clicks.trust_bias(log)
    out = [found.theta, *found.interval(), [value for value in trust if isinstance(value, float)]]
    for weighting in ("policy", "ips"):
        weights = clicks.click_weights(log, found, weighting=weighting)
        out.append([value for value in weights if isinstance(value, np.ndarray)])
    return out


@case
def counterfactual() -> Any:
    """Return estimates, and their differences from the log."""
    query, document = np.divmod(np.arange(30 * 12), 12)
    scores = np.random.default_rng(7).integers(0, 64, query.size) / 64
    out = []
    for weighting in ("policy", "ips"):
        found = clicks.evaluate_from_clicks(
            cells(), query, document, scores, weighting=weighting, most_unseen=1.0
        )
        out.append(
            [*found.dcg, *found.logged_dcg, *found.difference, *found.discount, found.effective_sample_size]
        )
    return out


@case
def click_svm() -> Any:
    X, y, qid = data(30, 12, 8)
    weight = np.random.default_rng(2).integers(0, 5, size=len(y)) / 4
    return [fitted(structsvm.ClickSVM(loss=loss), X, weight, qid) for loss in ("pairs", "dcg@5")]


@case
def interleaving() -> Any:
    """Return lists, credit and the analysis of a log, by tests that need no library for their p-values."""
    rankings = {"a": list("abcdefgh"), "b": list("badcfehg")}
    out: dict[str, Any] = {}
    for name in ("TeamDraft", "Balanced", "Probabilistic", "Optimized"):
        rng, interleaver = np.random.default_rng(3), getattr(interleavers, name)()
        two = [rankings["a"], rankings["b"]]
        impressions = []
        for _ in range(60):
            shown = interleaver.show(two, 6, rng)
            ranks = [rank for rank in range(1, 7) if rng.random() < 0.5 / rank]
            impressions.append(
                Impression(shown, tuple(Click(rank) for rank in ranks), rankers=("old", "new"))
            )
        out[name] = [list(map(str, each.shown.documents)) for each in impressions]
        out[f"{name} analysis"] = repr(analyse(ClickLog.of(impressions)).pairs)
    return out


def of_process() -> Iterator[tuple[str, str]]:
    """Digest every case; those whose names are arguments, if there are any."""
    chosen = sys.argv[1:] or list(CASES)
    for name in chosen:
        with warnings.catch_warnings(action="ignore"):
            yield name, digest(CASES[name]())


if __name__ == "__main__":
    print(json.dumps(dict(of_process()), indent=1))
