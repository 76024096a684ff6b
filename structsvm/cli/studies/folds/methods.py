"""The methods that can be compared, each as a path over the grid of C on one training set."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

import structsvm
from structsvm import trainers
from structsvm.cli.studies.folds import lightgbm_ranker
from structsvm.common.checks import BadInput
from structsvm.common.compiling import clock
from structsvm.common.names import did_you_mean, plain_name
from structsvm.oracles import LOSSES, get_oracle
from structsvm.protocols import Float
from structsvm.queries import QueryData, dense_column

METHODS = {
    "svm-LOSS": f"structural SVM for {', '.join(LOSSES)}; the name of the loss suffices (map is svm-map)",
    "ranksvm": "pairwise ranking SVM, hinge loss, every query has the same weight",
    "ranksvm-l2": "ranksvm with the squared hinge",
    "ordinal": "ordinal regression SVM",
    "acc": "classification SVM",
    "acc2": "classification SVM with balanced class weights",
    "acc3": "classification SVM on percentiles within the query",
    "acc4": "classification SVM on features scaled to [0, 1] within the query",
    "sgd": "stochastic gradient descent on pairs, lam = 1/C",
    "lcra": "sgd on two random views of the features, trained to agree, lam = 1/C",
    "lambdarank": "LambdaRank for NDCG@10, linear; stops early on the validation part, no C",
    "lambdarank-net": "LambdaRank for NDCG@10 with 32 hidden units; stops early on the validation part, no C",
    "tree-LOSS": "boosted trees whose leaves are weighted jointly by the structural SVM (TreeRanker); tree is tree-map",
    "lightgbm": "LightGBM's LambdaRank, the best of a grid, stopped early on the validation part; no C",
    "best-feature": "the single feature, ascending or descending, that is best on the training part; no C",
}
"""The methods by name, with descriptions."""
STOPPED_EARLY = ("lightgbm", "lambdarank", "lambdarank-net")
"""Methods that choose their settings on the validation queries of each fold."""
WITHOUT_C = (*STOPPED_EARLY, "best-feature")
_OWN_SCALING = ("acc3", "acc4")


@dataclass(frozen=True)
class Training:
    """Training options of a study; each method uses those that apply to it."""

    scale: Any = "none"
    relevance: float = 1.0
    tol: float = 1e-3
    max_passes: int = 1000
    random_state: int = 0
    monotone: tuple[tuple[str, int], ...] = ()
    """Features, by name or by number from 1, with the direction in which scores may move with them; only for methods
    ``svm-LOSS``, ``tree-LOSS`` and ``lightgbm``."""
    positive: bool = False
    """Whether all weights have to be at least 0; only for methods ``svm-LOSS``."""

    @property
    def exact(self) -> dict[str, Any]:
        """The options of methods with a certificate, without the scaling."""
        return {name: getattr(self, name) for name in ("relevance", "tol", "max_passes")}


class Candidate(NamedTuple):
    """A trained model; ``gap`` is None if the method has no certificate."""

    C: float | None
    model: Any
    gap: float | None
    converged: bool
    seconds: float


class OneFeature:
    """Ranking by one column, as a baseline for learning."""

    def __init__(self, feature: int, sign: int, n_features: int) -> None:
        self.coef_ = np.zeros(n_features)
        self.coef_[feature] = sign

    def predict(self, X: Any, *, qid: ArrayLike | None = None) -> Float:
        return np.asarray(X @ self.coef_, dtype=np.float64)


def best_feature(data: QueryData, measure: Callable[[QueryData, Float], float]) -> tuple[int, int]:
    """Return the index of the single feature that ranks best, and its direction.

    The direction is 1 if high values come first, -1 if low ones do.
    """
    best = (-np.inf, 0, 1)
    for j in range(data.n_features):
        values = dense_column(data.X, j)
        if values.min() < values.max():
            best = max(best, *((measure(data, s * values), j, s) for s in (1, -1)), key=lambda b: b[0])
    return best[1], best[2]


def full_name(name: str) -> str:
    """Return the name of a method as in the table: in lower case, with a bare loss as ``svm-LOSS``."""
    if name.endswith("-LOSS"):
        return name
    lower = "lightgbm" if name.lower() == "lambdamart" else name.lower()
    if plain_name(lower).partition("@")[0] in {loss.partition("@")[0] for loss in LOSSES}:
        lower = f"svm-{lower}"
    family, _, loss = lower.partition("-")
    return f"{family}-{plain_name(loss)}" if family in ("svm", "tree") and loss else lower


def check_method(name: str, *, relevance: float = 1.0) -> str:
    """Return ``name`` in full if it is a method; a bare loss is short for ``svm-LOSS``."""
    name = full_name(name)
    if takes_missing(name):
        lightgbm_ranker.check_installed("lightgbm")
    if name == "tree":
        return name
    if name.startswith(("svm-", "tree-")) and not name.endswith("-LOSS"):
        try:
            get_oracle(name.partition("-")[2], relevance=relevance)
        except BadInput as error:
            raise BadInput("method", error.problem, error.remedy, value=name, others=error.others) from None
    elif name not in METHODS or name.endswith("-LOSS"):
        raise BadInput(
            "method",
            f"expected one of {', '.join(METHODS)}",
            did_you_mean(name, (*METHODS, *LOSSES)),
            value=name,
        )
    return name


def measure_of(name: str) -> str | None:
    """Return the measure that belongs to the loss of a method; None for a method without a ranking loss."""
    if name.startswith(("svm-", "tree")):
        return str(structsvm.StructuralRanker(name.partition("-")[2] or "map")._measure())
    if name.startswith(("ranksvm", "sgd", "lcra")):
        return "pairs"
    return "ndcg@10" if name in STOPPED_EARLY else None


def takes_missing(name: str) -> bool:
    """Return whether a method can learn from missing features directly."""
    return name == "lightgbm" or _is_tree(name)


def walk(
    name: str,
    Cs: Sequence[float],
    train: QueryData,
    validation: QueryData,
    options: Training,
    measure: object,
) -> Iterator[Candidate]:
    """Train ``name`` for each C, smallest first; methods without C yield one candidate."""
    started = clock()
    with warnings.catch_warnings():
        # the warnings are redundant, as candidates record whether they converged
        warnings.filterwarnings("ignore", category=UserWarning, message=".*(relative duality gap|onverge).*")
        for C, model in _models(name, Cs, train, validation, options, measure):
            yield _described(C, model, clock() - started)
            started = clock()


def _described(C: float | None, model: object, seconds: float) -> Candidate:
    fits = getattr(model, "fits_", None) or [getattr(model, "fit_", None)]
    fits = [fit for fit in fits if hasattr(fit, "gap")]
    return Candidate(
        C, model, max((fit.gap for fit in fits), default=None), all(fit.converged for fit in fits), seconds
    )


def _models(
    name: str,
    Cs: Sequence[float],
    train: QueryData,
    validation: QueryData,
    options: Training,
    measure: object,
) -> Iterator[tuple[float | None, Any]]:
    if name in WITHOUT_C:
        return iter([(None, _without_C(name, train, validation, options, measure))])
    from structsvm.estimators.structural import model_path

    rows: Any = {"X": train.X, "y": train.y, "Cs": sorted(set(Cs)), "qid": train.qid}
    if name.startswith("svm-") or _is_tree(name):
        models: Iterator[Any] = model_path(_structural(name, train, options), **rows)
    elif name.startswith("ranksvm"):
        squared: Any = "squared_hinge" if name.endswith("-l2") else "hinge"
        pairwise = structsvm.PairwiseSVM(squared, normalize="query", scale=options.scale, **options.exact)
        models = model_path(pairwise, **rows)
    else:
        models = _one_by_one(name, train, rows["Cs"], options)
    return zip(rows["Cs"], models, strict=True)


def _signs(train: QueryData, options: Training) -> dict[int, int]:
    from structsvm.estimators.weight_constraints import numbered_signs

    return numbered_signs(dict(options.monotone), train.n_features, train.feature_names)


def _structural(name: str, train: QueryData, options: Training) -> Any:
    shared: Any = options.exact | {"monotone_constraints": _signs(train, options) or None}
    if _is_tree(name):
        loss = name.removeprefix("tree").removeprefix("-") or "map"
        return structsvm.TreeRanker(loss, random_state=options.random_state, **shared)
    loss = name.removeprefix("svm-")
    return structsvm.StructuralRanker(loss, scale=options.scale, positive=options.positive, **shared)


def _one_by_one(name: str, train: QueryData, grid: Sequence[float], options: Training) -> Iterator[Any]:
    for C in grid:
        model = _separate(name, C, options)
        with warnings.catch_warnings():
            if grid[-1] != C:  # as in a path over C, only the last fit warns that it learned nothing
                warnings.simplefilter("ignore", trainers.NothingLearnedWarning)
            model.fit(train.X, train.y, qid=train.qid)
        yield model


def _separate(name: str, C: float, options: Training) -> Any:
    if name == "ordinal":
        return structsvm.OrdinalSVM(C, scale=options.scale, **options.exact)
    if name in ("sgd", "lcra"):
        descent = structsvm.PairwiseSGD if name == "sgd" else structsvm.CoRegularizedSGD
        return descent(
            lam=1 / C,
            normalize="query",
            scale=options.scale,
            relevance=options.relevance,
            random_state=options.random_state,
        )
    if options.scale != "none" and name not in _OWN_SCALING:
        raise BadInput(
            f"method {name!r}",
            "expected unscaled features, got {scale}",
            "scale the files, or compare acc3 and acc4, which scale within queries",
            others={"scale": options.scale},
        )
    return structsvm.AccuracySVM(name, C, relevance=options.relevance, random_state=options.random_state)


def _is_tree(name: str) -> bool:
    return name == "tree" or name.startswith("tree-")


def _without_C(name: str, train: QueryData, validation: QueryData, options: Training, measure: Any) -> Any:
    if name == "lightgbm":
        return lightgbm_ranker.best_stage(
            train,
            validation,
            measure,
            relevance=options.relevance,
            seed=options.random_state,
            signs=_signs(train, options),
        )
    if name == "best-feature":
        return OneFeature(*best_feature(train, measure), train.n_features)
    scale: Any = "zscore" if options.scale == "none" else options.scale
    model = structsvm.LambdaRank(
        "ndcg@10",
        hidden=(32,) if name.endswith("-net") else (),
        scale=scale,
        relevance=options.relevance,
        random_state=options.random_state,
    )
    return model.fit(train.X, train.y, qid=train.qid, validation=(validation.X, validation.y, validation.qid))
