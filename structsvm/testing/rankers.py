"""``check_ranker``: the properties that a ranking estimator must have besides those that scikit-learn checks."""

import contextlib
import importlib
import importlib.util
import inspect
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from structsvm.protocols import Float
from structsvm.queries import QueryData
from structsvm.testing.require import Requirement


def check_ranker(
    estimator: object,
    *,
    shift_invariant: bool = True,
    order_invariant: bool = True,
    tolerance: float = 0.02,
    random_state: int = 0,
) -> None:
    """Check a ranking estimator: the contract of this package on top of scikit-learn's.

    The estimator ranks unseen queries better than chance. Repeating a fit gives the same bytes, also if queries are
    renamed, if the rows of a query are not contiguous, and for any number of threads. ``fit`` changes neither
    parameters nor input. The estimator accepts float32, frames with a column ``qid`` and, if its tags say so, CSR.
    Copies by clone, pickle and file are equal. ``rank`` agrees with ``predict``. Invalid input raises a ``ValueError``
    that names the input, and leaves a fitted model unchanged.

    Parameters
    ----------
    estimator : estimator
        Unfitted estimator, which is cloned for every fit.
    shift_invariant : bool, default=True
        Whether a constant added to a feature of all documents of a query changes nothing: True for losses of score
        differences, False for pointwise losses.
    order_invariant : bool, default=True
        Whether the order of the documents within a query changes nothing beyond ``tolerance``: False for stochastic
        training.
    tolerance : float, default=0.02
        Largest relative difference of scores between fits of the same problem with data in another order or precision.
        If both fits have a certificate (``fit_``), the certificates are used instead: the weights of two solutions must
        not differ by more than their gaps allow.
    random_state : int, default=0
        Seed of the generated data.

    Examples
    --------
    >>> from structsvm import SVMMap
    >>> check_ranker(SVMMap())
    """
    from sklearn.base import clone

    from structsvm.readers.synthetic import make_ranking

    require = Requirement(type(estimator).__name__)
    data = make_ranking(40, 15, 4, noise=0.3, random_state=random_state)
    for array in (data.X, data.y, data.qid):
        array.flags.writeable = False
    model = clone(estimator)
    before = repr(model.get_params())
    require(model.fit(data.X, data.y, qid=data.qid) is model, "fit does not return self")
    require(repr(model.get_params()) == before, "fit changes parameters")
    require(model.n_features_in_ == 4, f"n_features_in_: expected 4, got {model.n_features_in_}")
    scores = model.predict(data.X, **_qid(model, data.qid))
    require(
        scores.shape == (data.n_rows,) and scores.dtype.kind == "f" and np.isfinite(scores).all(),
        "predict: expected one finite score per row",
    )

    def scores_after(fitted: Any) -> Float:
        return np.asarray(fitted.predict(data.X, **_qid(fitted, data.qid)))

    def same(what: str, X: object, qid: ArrayLike, y: ArrayLike = data.y, **changes: object) -> None:
        other = clone(estimator).set_params(**changes).fit(X, y, qid=qid)
        require((scores_after(other) == scores).all(), f"{what} changes the scores")

    def close(what: str, X: object, qid: ArrayLike = data.qid, y: ArrayLike = data.y) -> None:
        _require_close(model, clone(estimator).fit(X, y, qid=qid), data.X, data.qid, what, require, tolerance)

    # these changes must not affect the model, which must have the same bytes
    same("fitting again", data.X, data.qid)
    same("renaming the queries", data.X, np.array([f"query {q}" for q in data.qid]))
    # the first rows of all queries, then the second rows, and so on
    rank = np.arange(data.n_rows) - np.repeat(data.offsets[:-1], np.diff(data.offsets))
    mixed = np.argsort(rank, kind="stable")
    same("mixing the rows of the queries", data.X[mixed], data.qid[mixed], data.y[mixed])
    if "n_jobs" in model.get_params():
        same("a different number of threads", data.X, data.qid, n_jobs=2)
    # the same problem up to rounding: scores are close, or weights as close as the certificates allow
    if order_invariant:
        rng = np.random.default_rng(random_state)
        order = np.lexsort((rng.random(data.n_rows), data.qid))
        close("permuting the documents of each query", data.X[order], data.qid[order], data.y[order])
    if shift_invariant:
        shift = np.random.default_rng(random_state).normal(size=(data.n_queries, 4))
        close("shifting the features of each query", data.X + shift[data.qid])
    close("float32 features", data.X.astype(np.float32))
    if model.__sklearn_tags__().input_tags.sparse:
        close("a CSR matrix", sparse.csr_array(data.X))
    _check_frames(model, clone(estimator), data, scores, require)
    _check_copies(model, data, scores, require)
    _check_ranking(model, data, scores, require)
    _check_better_than_chance(model, random_state, require)
    _check_refusals(model, estimator, data, require)
    _check_refused_refit(model, data, scores, require)


def _check_frames(model: object, fresh: Any, data: QueryData, scores: Float, require: Requirement) -> None:
    if importlib.util.find_spec("pandas") is None:
        return
    frame = importlib.import_module("pandas").DataFrame(data.X, columns=list("abcd"))
    frame.insert(1, "qid", data.qid)
    fitted = fresh.fit(frame, data.y)
    message = "feature_names_in_: expected the columns of the frame without qid"
    require(list(getattr(fitted, "feature_names_in_", [])) == list("abcd"), message)
    # a frame stores columns contiguously, so that products are added in another order and last digits may differ
    size = float(np.abs(scores).max())
    message = "a frame with a column qid changes the scores"
    require(np.allclose(fitted.predict(frame), scores, rtol=1e-9, atol=1e-9 * size), message)


def _check_copies(model: Any, data: QueryData, scores: Float, require: Requirement) -> None:
    from sklearn.base import clone

    # a clone has only the parameters; pickle and file also have the fitted state
    fresh = clone(model)
    require(
        repr(fresh.get_params()) == repr(model.get_params()) and not hasattr(fresh, "n_features_in_"),
        "a clone of a fitted model: expected its parameters and nothing learned",
    )
    copies = {"pickling": pickle.loads(pickle.dumps(model))}
    if hasattr(model, "save"):
        from structsvm.export.model_file import load

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.npz")
            model.save(path)
            copies["saving and loading"] = load(path)
    for what, copy in copies.items():
        require(type(copy) is type(model), f"{what} gives a {type(copy).__name__}")
        require((copy.predict(data.X, **_qid(copy, data.qid)) == scores).all(), f"{what} changes the scores")
        require(repr(copy.get_params()) == repr(model.get_params()), f"{what} changes the parameters")


def _check_ranking(model: Any, data: QueryData, scores: Float, require: Requirement) -> None:
    ranks = np.asarray(model.rank(data.X, data.qid))
    # rank 1 has the highest score of the query; equal scores rank in the order of their rows
    for first, last in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        expected = np.empty(last - first, dtype=np.int64)
        expected[np.argsort(-scores[first:last], kind="stable")] = np.arange(1, last - first + 1)
        require((ranks[first:last] == expected).all(), "rank does not follow predict within queries")
    score = model.score(data.X, data.y, qid=data.qid)
    require(isinstance(score, float) and np.isfinite(score), f"score: expected a float, got {score!r}")


def _check_better_than_chance(model: Any, random_state: int, require: Requirement) -> None:
    from structsvm.metrics import evaluate
    from structsvm.readers.synthetic import make_ranking

    # the first 40 queries are those of the fit
    unseen = make_ranking(80, 15, 4, noise=0.3, random_state=random_state).select(np.arange(40, 80))
    # the ROC area per query, whose mean must exceed one half by four of its standard errors
    values = evaluate(
        "roc", unseen.y, model.predict(unseen.X, **_qid(model, unseen.qid)), qid=unseen.qid
    ).per_query
    error = values.std(ddof=1) / np.sqrt(values.size)
    require(
        values.mean() > 0.5 + 4 * error,
        f"ROC area of unseen queries: expected more than chance, 0.5 + 4 standard errors of {error:.3f}, "
        f"got {values.mean():.3f}",
    )


def _check_refusals(model: Any, estimator: object, data: QueryData, require: Requirement) -> None:
    from sklearn.base import clone
    from sklearn.exceptions import NotFittedError

    X, y, qid = data.X, data.y, data.qid

    def fit(X: Any = X, y: object = y, qid: object = qid, **changes: Any) -> Callable[[], Any]:
        return lambda: clone(estimator).set_params(**changes).fit(X, y, qid=qid)

    # each case: the kind of invalid input, a call with this input, and a pattern that the error message must match
    missing = [
        ("NaN in X", fit(X=_with(X, (3, 1), np.nan)), r"X\[3, 1\].*NaN"),
        (
            "NaN in predict",
            lambda: model.predict(_with(X, (3, 1), np.nan), **_qid(model, qid)),
            r"X\[3, 1\].*NaN",
        ),
    ]
    cases = [
        *([] if model.__sklearn_tags__().input_tags.allow_nan else missing),
        ("infinity in X", fit(X=_with(X, (3, 1), np.inf)), r"X\[3, 1\].*infinity"),
        ("NaN in y", fit(y=_with(y, 3, np.nan)), r"y\[3\].*NaN"),
        ("text as labels", fit(y=np.where(y > 1, "good", "bad").astype(object)), "y|convert|numeric|string"),
        ("y of a different length", fit(y=y[:-1]), "inconsistent|length|labels"),
        ("qid of a different length", fit(qid=qid[:-1]), "qid"),
        ("missing query ids", fit(qid=_with(qid.astype(float), 3, np.nan)), "qid"),
        ("a vector for X", fit(X=X[:, 0]), "2D|matrix|dimension"),
        ("no rows", fit(X=X[:0], y=y[:0], qid=qid[:0]), "minimum|at least"),
        ("equal labels", fit(y=np.zeros_like(y)), "label"),
        ("a different number of features", lambda: model.predict(X[:, :2], **_qid(model, qid)), "features"),
        (
            "infinity in predict",
            lambda: model.predict(_with(X, (3, 1), np.inf), **_qid(model, qid)),
            "infinity",
        ),
        ("qid of a different length in rank", lambda: model.rank(X, qid[:-1]), "qid"),
        ("y of a different length in score", lambda: model.score(X, y[:-1], qid=qid), "y|length|rows"),
        ("score without qid", lambda: model.score(X, y), "qid"),
    ]
    # options that only some estimators have
    for option, values in {"C": (0.0, -1.0, np.nan, np.inf), "lam": (-1.0, np.nan, np.inf)}.items():
        if option in model.get_params():
            cases += [(f"{option}={v}", fit(**{option: v}), rf"\b{option}\b") for v in values]
    if "scale" in inspect.signature(type(estimator).__init__).parameters:
        cases.append(("scale='none of these'", fit(scale="none of these"), "scale"))
    for what, action, pattern in cases:
        require.refusal(what, action, says=pattern)
    require.refusal("predict before fit", clone(estimator).predict, X, error=NotFittedError)


def _check_refused_refit(model: object, data: QueryData, scores: Float, require: Requirement) -> None:
    # refit on other features with equal labels: the refused fit must not change the model
    fitted = pickle.loads(pickle.dumps(model))
    with contextlib.suppress(ValueError):
        fitted.fit(100 * data.X + 1, np.zeros_like(data.y), qid=data.qid)
    require(
        (fitted.predict(data.X, **_qid(fitted, data.qid)) == scores).all(),
        "a fit that is refused changes the scores of the model that was fitted before",
    )


def _require_close(
    a: Any, b: Any, X: Any, qid: object, what: str, require: Requirement, tolerance: float
) -> None:
    """Require that two fits of the same problem agree."""
    proofs: list[Any] = [getattr(m, "fit_", None) for m in (a, b)]
    if all(hasattr(p, "primal") and hasattr(p, "dual") and hasattr(p, "C") for p in proofs) and hasattr(
        a, "coef_"
    ):
        # strong convexity: 1/2 |w - optimum|^2 <= primal - dual
        distance = float(np.linalg.norm(a.coef_ - b.coef_))
        allowed = float(sum(np.sqrt(2 * max(0.0, p.primal - p.dual)) for p in proofs))
        rounding = 1e-6 * (1 + float(np.linalg.norm(a.coef_)))
        require(
            proofs[0].C == proofs[1].C,
            f"{what} changes the chosen C ({proofs[0].C:g}, {proofs[1].C:g}); check with values of C far apart",
        )
        require(
            distance <= allowed + rounding,
            f"{what} moves the weights by {distance:.3g}, more than the gaps allow ({allowed:.3g})",
        )
        return
    # without certificates, compare scores up to a constant, relative to their spread
    one, other = (m.predict(X, **_qid(m, qid)) for m in (a, b))
    spread = float(np.linalg.norm(one - one.mean()))
    difference = float(np.linalg.norm((one - one.mean()) - (other - other.mean())))
    require(
        difference <= tolerance * spread,
        f"{what} changes the scores by {difference / max(spread, 1e-300):.3g} of their spread, "
        f"tolerance {tolerance:g}",
    )


def _qid(model: Any, qid: object) -> dict[str, Any]:
    """Return the query ids as an argument of ``predict``, if it takes them (for scaling within queries)."""
    return {"qid": qid} if "qid" in inspect.signature(model.predict).parameters else {}


def _with(array: object, index: Any, value: float) -> Any:
    changed = np.array(array)
    changed[index] = value
    return changed
