"""Checks that every part of a kind must pass; run them on your own oracle or ranker too.

Each raises an ``AssertionError`` that says what does not hold, and returns nothing when all is well.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import itertools
import pickle
import re
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from structsvm.protocols import Float, Int, Oracle, Separator
from structsvm.queries import QueryData

__all__ = ["check_oracle", "check_ranker"]


def check_oracle(
    oracle: Oracle,
    *,
    shift_invariant: bool = True,
    reference: Callable[[Float, Float], float] | None = None,
    random_state: int = 0,
) -> None:
    """Check a ranking oracle: what trainers rely on (:class:`structsvm.protocols.Oracle`).

    It fills every loss and coefficient; a query's answer does not depend on the queries around it, on earlier calls
    or on other threads; the value is never negative; no output found elsewhere beats the one found here (exact
    oracles); scores in the order of the labels are worth nothing in the end, and equal scores something exactly where
    the oracle says that the labels are informative; permuting documents permutes the problem.

    Parameters
    ----------
    oracle : Oracle
    shift_invariant : bool, default=True
        Whether adding a constant to the scores of a query changes nothing (a joint feature of differences).
    reference : callable, optional
        ``reference(y, scores)``: the value ``max_y loss - scores . coef`` of one short query, by exhaustive search.
    random_state : int, default=0
        Seed of the labels and scores.

    Raises
    ------
    AssertionError
        For the first property that does not hold.

    Examples
    --------
    >>> from structsvm.oracles import get_oracle
    >>> check_oracle(get_oracle("map"))
    """
    name = repr(oracle)
    _require(callable(getattr(oracle, "bind", None)), name, "has no method bind(y, offsets)")
    rng = np.random.default_rng(random_state)
    y, offsets = _labels(rng)
    separator = oracle.bind(y, offsets)
    missing = [a for a in ("exact", "informative", "separate") if not hasattr(separator, a)]
    _require(not missing, name, f"bind returns a separator without {', '.join(missing)}")
    informative = np.asarray(separator.informative)
    n_queries = offsets.shape[0] - 1
    _require(
        informative.shape == (n_queries,) and informative.dtype == np.bool_, name,
        f"informative: expected {n_queries} flags of bool, got {informative.dtype} of shape {informative.shape}",
    )  # fmt: skip
    _require(bool(informative.any()), name, "informative: nothing can be learned from grades -1 to 4")
    lengths = np.diff(offsets)
    points = list(_score_vectors(rng, y, offsets))
    planes = [_separate(separator, s, offsets, name) for s in points]
    for scores, (loss, coef) in zip(points, planes, strict=True):
        value = loss - _per_query(scores * coef, offsets)
        slack = 1e-9 * (1 + _per_query(np.abs(scores * coef), offsets))
        _require(bool((loss >= 0).all()), name, "a loss is negative")
        _require(bool((value >= -slack).all()), name, "the output found is worse than the true one")
        _require(
            not loss[~informative].any() and not coef[np.repeat(~informative, lengths)].any(), name,
            "an uninformative query has a loss or coefficients",
        )  # fmt: skip
        if separator.exact:
            for other_loss, other_coef in planes:
                rival = other_loss - _per_query(scores * other_coef, offsets)
                margin = slack + 1e-9 * _per_query(np.abs(scores * other_coef), offsets)
                worst = int(np.argmax(rival - value - margin))
                _require(
                    bool((rival <= value + margin).all()), name,
                    f"not exact: an output of value {rival[worst]:.12g} exists where {value[worst]:.12g} was found",
                )  # fmt: skip
        if reference is not None:
            for q in np.flatnonzero(lengths <= 6):
                rows = slice(offsets[q], offsets[q + 1])
                expected = reference(y[rows], scores[rows])
                _require(
                    abs(expected - value[q]) <= 1e-9 * (1 + abs(expected)), name,
                    f"value {value[q]:.12g} where the reference gives {expected:.12g}, for y={y[rows]}, "
                    f"scores={scores[rows]}",
                )  # fmt: skip
        if shift_invariant:
            sums = _per_query(coef, offsets)
            _require(
                bool((np.abs(sums) <= 1e-9 * (1 + _per_query(np.abs(coef), offsets))).all()), name,
                "coefficients of a query do not sum to zero: scores may not be shifted",
            )  # fmt: skip
    _check_independence(separator, points[0], planes[0], offsets, name)
    _check_extremes(separator, y, offsets, informative, name)
    order = np.concatenate([rng.permutation(np.arange(a, b)) for a, b in itertools.pairwise(offsets)])
    permuted = _separate(oracle.bind(y[order], offsets), points[0][order], offsets, name)
    before = planes[0][0] - _per_query(points[0] * planes[0][1], offsets)
    after = permuted[0] - _per_query(points[0][order] * permuted[1], offsets)
    _require(
        not separator.exact or bool(np.allclose(before, after, rtol=1e-9, atol=1e-9)), name,
        "the value depends on the order of the documents",
    )  # fmt: skip
    pickle.loads(pickle.dumps(oracle)).bind(
        y, offsets
    )  # an oracle holds settings, so it can be sent elsewhere


def _check_independence(
    separator: Separator, scores: Float, plane: tuple[Float, Float], offsets: Int, name: str
) -> None:
    n_queries = offsets.shape[0] - 1

    def one(q: int) -> bool:
        loss, coef = np.empty(1), np.empty(offsets[q + 1] - offsets[q])
        separator.separate(scores[offsets[q] : offsets[q + 1]], q, q + 1, loss, coef)
        return bool(loss[0] == plane[0][q] and (coef == plane[1][offsets[q] : offsets[q + 1]]).all())

    with ThreadPoolExecutor(4) as pool:
        same = list(pool.map(one, list(range(n_queries))[::-1] * 4))
    _require(
        all(same), name, "a query's answer depends on its neighbours, on earlier calls or on other threads"
    )


def _check_extremes(separator: Separator, y: Float, offsets: Int, informative: Any, name: str) -> None:
    if not separator.exact:
        return
    loss, _ = _separate(separator, np.zeros(y.shape[0]), offsets, name)
    _require(
        bool(((loss > 0) == informative).all()), name, "informative is not where equal scores leave a loss"
    )
    loss, _ = _separate(separator, 1e7 * y, offsets, name)
    _require(
        bool((loss <= 1e-12).all()), name,
        "scores in the order of the labels, by wide margins, still have a loss",
    )  # fmt: skip


def check_ranker(
    estimator: Any,
    *,
    shift_invariant: bool = True,
    order_invariant: bool = True,
    tolerance: float = 0.02,
    random_state: int = 0,
) -> None:
    """Check a ranking estimator: the contract of this package on top of scikit-learn's.

    It orders unseen queries better than chance; the same fit gives the same bytes, whatever the names of the queries,
    whether their rows stand together, and on any number of threads; it leaves its parameters and its input alone,
    takes float32, frames with a column ``qid`` and (where its tags say so) CSR; clones, pickles, saves and loads;
    ranks as it scores; and refuses bad input with a ``ValueError`` that names it.

    Parameters
    ----------
    estimator : estimator
        Unfitted; cloned for every fit.
    shift_invariant : bool, default=True
        Whether a constant added to a feature of all documents of a query changes nothing: true of losses of score
        differences, not of pointwise ones.
    order_invariant : bool, default=True
        Whether the order of the documents within a query changes nothing beyond ``tolerance``: not true of
        stochastic training.
    tolerance : float, default=0.02
        Relative difference of scores allowed between fits of the same problem whose data are ordered or rounded
        differently. Where both carry a certificate (``fit_``) that decides instead: the weights of two solutions are
        no further apart than their gaps allow.
    random_state : int, default=0
        Seed of the generated data.

    Raises
    ------
    AssertionError
        For the first property that does not hold.

    Examples
    --------
    >>> from structsvm import SVMMap
    >>> check_ranker(SVMMap())
    """
    from sklearn.base import clone

    from structsvm.readers.synthetic import make_ranking

    name = type(estimator).__name__
    data = make_ranking(40, 15, 4, noise=0.3, random_state=random_state)
    for array in (data.X, data.y, data.qid):
        array.flags.writeable = False
    model = clone(estimator)
    before = repr(model.get_params())
    _require(model.fit(data.X, data.y, qid=data.qid) is model, name, "fit does not return self")
    _require(repr(model.get_params()) == before, name, "fit changes parameters")
    _require(model.n_features_in_ == 4, name, f"n_features_in_: expected 4, got {model.n_features_in_}")
    scores = model.predict(data.X, **_qid(model, data.qid))
    _require(
        scores.shape == (data.n_rows,) and scores.dtype.kind == "f" and bool(np.isfinite(scores).all()), name,
        "predict: expected one finite score a row",
    )  # fmt: skip

    def scores_after(fitted: Any) -> Float:
        return np.asarray(fitted.predict(data.X, **_qid(fitted, data.qid)))

    def same(what: str, X: Any, qid: Any, y: Any = data.y, **changes: Any) -> None:
        other = clone(estimator).set_params(**changes).fit(X, y, qid=qid)
        _require(bool((scores_after(other) == scores).all()), name, f"{what} changes the scores")

    def close(what: str, X: Any, qid: Any = data.qid, y: Any = data.y) -> None:
        _require_close(model, clone(estimator).fit(X, y, qid=qid), data.X, data.qid, what, name, tolerance)

    same("fitting again", data.X, data.qid)
    same("renaming the queries", data.X, np.array([f"query {q}" for q in data.qid]))
    place = np.arange(data.n_rows) - np.repeat(data.offsets[:-1], np.diff(data.offsets))
    mixed = np.argsort(place, kind="stable")
    same("mixing the rows of the queries", data.X[mixed], data.qid[mixed], data.y[mixed])
    if "n_jobs" in model.get_params():
        same("another number of threads", data.X, data.qid, n_jobs=2)
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
    _check_frames(model, clone(estimator), data, scores, name)
    _check_copies(model, data, scores, name)
    _check_ranking(model, data, scores, name)
    _check_better_than_chance(model, random_state, name)
    _check_refusals(model, estimator, data, name)


def _check_frames(model: Any, fresh: Any, data: QueryData, scores: Float, name: str) -> None:
    if importlib.util.find_spec("pandas") is None:
        return
    frame = importlib.import_module("pandas").DataFrame(data.X, columns=list("abcd"))
    frame.insert(1, "qid", data.qid)
    fitted = fresh.fit(frame, data.y)
    _require(
        list(getattr(fitted, "feature_names_in_", [])) == list("abcd"), name,
        "feature_names_in_: expected the columns of the frame without qid",
    )  # fmt: skip
    # the columns of a frame are contiguous, not its rows: the same products, added up in another order
    size = float(np.abs(scores).max())
    _require(
        bool(np.allclose(fitted.predict(frame), scores, rtol=1e-9, atol=1e-9 * size)), name,
        "a frame with a column qid changes the scores",
    )  # fmt: skip


def _check_copies(model: Any, data: QueryData, scores: Float, name: str) -> None:
    copies = {"pickling": pickle.loads(pickle.dumps(model))}
    if hasattr(model, "save"):
        from structsvm.persistence import load

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.npz")
            model.save(path)
            copies["saving and loading"] = load(path)
    for what, copy in copies.items():
        _require(type(copy) is type(model), name, f"{what} gives a {type(copy).__name__}")
        _require(
            bool((copy.predict(data.X, **_qid(copy, data.qid)) == scores).all()),
            name,
            f"{what} changes the scores",
        )
        _require(repr(copy.get_params()) == repr(model.get_params()), name, f"{what} changes the parameters")


def _check_ranking(model: Any, data: QueryData, scores: Float, name: str) -> None:
    ranks = np.asarray(model.rank(data.X, data.qid))
    for first, last in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        expected = np.empty(last - first, dtype=np.int64)
        expected[np.argsort(-scores[first:last], kind="stable")] = np.arange(1, last - first + 1)
        _require(
            bool((ranks[first:last] == expected).all()), name, "rank does not follow predict within queries"
        )
    score = model.score(data.X, data.y, qid=data.qid)
    _require(isinstance(score, float) and np.isfinite(score), name, f"score: expected a float, got {score!r}")


def _check_better_than_chance(model: Any, random_state: int, name: str) -> None:
    from structsvm.metrics import evaluate
    from structsvm.readers.synthetic import make_ranking

    # the first queries are those of the fit
    unseen = make_ranking(80, 15, 4, noise=0.3, random_state=random_state).select(np.arange(40, 80))
    values = evaluate(
        "roc", unseen.y, model.predict(unseen.X, **_qid(model, unseen.qid)), qid=unseen.qid
    ).per_query
    error = values.std(ddof=1) / np.sqrt(values.size)
    _require(
        bool(values.mean() > 0.5 + 4 * error), name,
        f"ROC area of unseen queries: expected more than chance, 0.5 + 4 standard errors of {error:.3f}, "
        f"got {values.mean():.3f}",
    )  # fmt: skip


def _check_refusals(model: Any, estimator: Any, data: QueryData, name: str) -> None:
    from sklearn.base import clone
    from sklearn.exceptions import NotFittedError

    X, y, qid = data.X, data.y, data.qid

    def fit(X: Any = X, y: Any = y, qid: Any = qid, **changes: Any) -> Callable[[], Any]:
        return lambda: clone(estimator).set_params(**changes).fit(X, y, qid=qid)

    cases = [
        ("NaN in X", fit(X=_with(X, (3, 1), np.nan)), "X.*NaN"),
        ("infinity in X", fit(X=_with(X, (3, 1), np.inf)), "X.*infinity"),
        ("NaN in y", fit(y=_with(y, 3, np.nan)), "y.*NaN"),
        ("labels of text", fit(y=np.where(y > 1, "good", "bad").astype(object)), "y|convert|numeric|string"),
        ("another length of y", fit(y=y[:-1]), "inconsistent|length|labels"),
        ("another length of qid", fit(qid=qid[:-1]), "qid"),
        ("missing query ids", fit(qid=_with(qid.astype(float), 3, np.nan)), "qid"),
        ("a vector for X", fit(X=X[:, 0]), "2D|matrix|dimension"),
        ("no rows", fit(X=X[:0], y=y[:0], qid=qid[:0]), "minimum|at least"),
        ("equal labels", fit(y=np.zeros_like(y)), "label"),
        ("another number of features", lambda: model.predict(X[:, :2], **_qid(model, qid)), "features"),
        ("NaN in predict", lambda: model.predict(_with(X, (3, 1), np.nan), **_qid(model, qid)), "NaN"),
        ("score without qid", lambda: model.score(X, y), "qid"),
    ]  # fmt: skip
    if "C" in model.get_params():
        cases += [(f"C={C}", fit(C=C), r"\bC\b") for C in (0.0, -1.0, np.nan, np.inf)]
    for what, action, pattern in cases:
        try:
            action()
        except ValueError as error:
            _require(
                re.search(pattern, str(error), re.DOTALL) is not None, name,
                f"{what}: expected an error that says {pattern!r}, got {error}",
            )  # fmt: skip
        else:
            raise AssertionError(f"{name}: {what}: expected a ValueError, got none")
    try:
        clone(estimator).predict(X)
    except NotFittedError:
        pass
    else:
        raise AssertionError(f"{name}: predict before fit: expected a NotFittedError, got none")


def _require_close(a: Any, b: Any, X: Any, qid: Any, what: str, name: str, tolerance: float) -> None:
    """Two fits of the same problem."""
    proofs: list[Any] = [getattr(m, "fit_", None) for m in (a, b)]
    if all(hasattr(p, "primal") and hasattr(p, "dual") and hasattr(p, "C") for p in proofs) and hasattr(
        a, "coef_"
    ):
        # strong convexity: 1/2 |w - optimum|^2 <= primal - dual
        distance = float(np.linalg.norm(a.coef_ - b.coef_))
        allowed = float(sum(np.sqrt(2 * max(0.0, p.primal - p.dual)) for p in proofs))
        rounding = 1e-6 * (1 + float(np.linalg.norm(a.coef_)))
        _require(
            proofs[0].C == proofs[1].C, name,
            f"{what} changes the C chosen ({proofs[0].C:g}, {proofs[1].C:g}); check with values of C far apart",
        )  # fmt: skip
        _require(
            distance <= allowed + rounding, name,
            f"{what} moves the weights by {distance:.3g}, more than the gaps allow ({allowed:.3g})",
        )  # fmt: skip
        return
    one, other = (m.predict(X, **_qid(m, qid)) for m in (a, b))
    spread = float(np.linalg.norm(one - one.mean()))
    difference = float(np.linalg.norm((one - one.mean()) - (other - other.mean())))
    _require(
        difference <= tolerance * spread, name,
        f"{what} changes the scores by {difference / max(spread, 1e-300):.3g} of their spread, "
        f"tolerance {tolerance:g}",
    )  # fmt: skip


def _qid(model: Any, qid: Any) -> dict[str, Any]:
    """``predict`` may need the query ids (scaling within queries) or not know them."""
    return {"qid": qid} if "qid" in inspect.signature(model.predict).parameters else {}


def _with(array: Any, place: Any, value: float) -> Any:
    changed = np.array(array)
    changed[place] = value
    return changed


def _labels(rng: np.random.Generator) -> tuple[Float, Int]:
    """Graded queries of many lengths; also single documents, equal labels and negative ones."""
    queries = [rng.integers(-1, 5, n).astype(np.float64) for n in (1, 2, 3, 4, 5, 6, 6, 9, 14, 30, 61)]
    queries += [
        np.zeros(4),
        np.ones(5),
        np.full(3, -1.0),
        np.array([1.0]),
        np.array([0.0, 1.0]),
        np.array([1.0, 0.0]),
    ]
    queries += [(rng.random(n) < 0.2).astype(np.float64) for n in (10, 20, 40)]
    offsets = np.concatenate(([0], np.cumsum([len(q) for q in queries]))).astype(np.int64)
    return np.concatenate(queries), offsets


def _score_vectors(rng: np.random.Generator, y: Float, offsets: Int) -> Iterator[Float]:
    """From untrained to trained, with ties; zeros and the reverse order too."""
    noise = rng.normal(size=len(y))
    yield noise
    yield np.zeros(y.shape[0])
    yield -y
    for size in (0.01, 0.1, 1.0, 10.0):
        for skill in (0.0, 0.05, 0.5, 2.0):
            scores = size * noise[rng.permutation(y.shape[0])] + skill * y
            yield scores
            yield np.asarray(scores.round(1))


def _separate(separator: Separator, scores: Float, offsets: Int, name: str) -> tuple[Float, Float]:
    loss, coef = np.full(offsets.shape[0] - 1, np.nan), np.full(scores.shape[0], np.nan)
    given = scores.copy()
    given.flags.writeable = False
    separator.separate(given, 0, offsets.shape[0] - 1, loss, coef)
    _require(
        bool(np.isfinite(loss).all() and np.isfinite(coef).all()), name, "a loss or coefficient is not filled"
    )
    return loss, coef


def _per_query(values: Float, offsets: Int) -> Float:
    return np.add.reduceat(values, offsets[:-1])


def _require(holds: bool, name: str, message: str) -> None:
    if not holds:
        raise AssertionError(f"{name}: {message}")
