"""Rankers of this package as learners of PyTerrier pipelines, and fusion and diverse selection as pipeline stages."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone

from structsvm.common.candidates import CandidateSet
from structsvm.common.checks import BadInput
from structsvm.metrics import evaluate
from structsvm.protocols import Float
from structsvm.readers import Run, candidates

try:
    from pyterrier import Transformer  # type: ignore[import-not-found]
except ImportError:

    class Transformer:  # type: ignore[no-redef]
        """Replacement for PyTerrier's class if PyTerrier is not installed; calls ``transform``."""

        def __call__(self, inp: Any) -> Any:
            return self.transform(inp)  # type: ignore[attr-defined]


class PyTerrierRanker(BaseEstimator):
    """Learner for ``pt.ltr.apply_learned_model(learner, form="ltr")``.

    PyTerrier passes a learner the number of documents of each query (``group``), as LightGBM expects it, and validation
    queries, on which this class chooses C. It calls ``predict`` with the documents of many queries and without query
    ids, so that scaling within queries is not possible. With ``form="regression"`` it passes no queries at all:
    this class then refuses to train, whereas a plain ranker would train on all rows as one query, with a
    :class:`~structsvm.SingleQueryWarning`.

    Parameters
    ----------
    estimator : ranker of this package
        Ranker to train, such as ``SVMMap()``; it is cloned, not changed.
    Cs : sequence of float, optional
        Values of C to choose from; None keeps the C of ``estimator``.
    scoring : str, default="map"
        Measure by which C is chosen, with the TREC convention and the ``relevance`` of ``estimator``.

    Attributes
    ----------
    estimator_ : ranker
        Fitted clone of ``estimator``, with the chosen C.

    Examples
    --------
    With PyTerrier this is
    ``pipe = features >> pt.ltr.apply_learned_model(PyTerrierRanker(SVMMap(), Cs=[0.1, 1, 10]), form="ltr")``, which
    calls

    >>> from structsvm import SVMMap
    >>> X, y = np.array([[1.0], [0.0], [0.5], [0.2]]), [1, 0, 1, 0]
    >>> learner = PyTerrierRanker(SVMMap(), Cs=[0.1, 1.0])
    >>> learner.fit(X, y, group=[2, 2], eval_set=[(X, y)], eval_group=[[2, 2]]).predict(X).argmax()
    np.int64(0)
    """

    def __init__(self, estimator: Any, Cs: Sequence[float] | None = None, *, scoring: str = "map") -> None:
        self.estimator = estimator
        self.Cs = Cs
        self.scoring = scoring

    def fit(
        self,
        X: Any,
        y: Any,
        group: Any = None,
        eval_set: Sequence[tuple[Any, Any]] | None = None,
        eval_group: Sequence[Any] | None = None,
    ) -> Self:
        """Train; with several values of C, keep the model that is best on ``eval_set``.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            Rows in the order of their queries.
        y : array-like, shape (n_rows,)
            Labels.
        group : array-like of int, shape (n_queries,)
            Number of documents of each query.
        eval_set : sequence of one pair (X, y), optional
            Validation rows and their labels; required with ``Cs``.
        eval_group : sequence of one array, optional
            The group sizes of ``eval_set``.

        Returns
        -------
        self
        """
        scale = getattr(self.estimator, "scale", "none")
        if str(scale).startswith("query-"):
            raise BadInput(
                "estimator",
                "expected scaling that is the same for all queries, got {scale}",
                "when it predicts, PyTerrier does not tell a learner which query a document belongs to",
                others={"scale": scale},
            )
        qid = _qid(group, len(y), "group")
        if self.Cs is None:
            self.estimator_ = clone(self.estimator).fit(X, y, qid=qid)
            return self
        if not eval_set or not eval_group:
            raise BadInput(
                "eval_set",
                "expected validation queries on which to choose C, got none",
                "pass them or {Cs=None}",
            )
        valid_X, valid_y = eval_set[0]
        valid_qid = _qid(eval_group[0], len(valid_y), "eval_group")
        # in ascending order of C, so that the most regularised of equally good models is kept
        best = -np.inf
        for C in sorted(set(self.Cs)):
            model = clone(self.estimator).set_params(C=C).fit(X, y, qid=qid)
            value = evaluate(
                self.scoring,
                valid_y,
                model.predict(valid_X),
                qid=valid_qid,
                relevance=getattr(model, "relevance", 1.0),  # the same as in training
            ).mean
            if value > best + 1e-12:
                best, self.estimator_ = value, model
        return self

    def predict(self, X: Any) -> Float:
        """Return scores; higher is better.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
            Rows to score.

        Returns
        -------
        ndarray of float64, shape (n_rows,)
            Scores of the rows.
        """
        return np.asarray(self.estimator_.predict(X))


class Fusion(Transformer):
    """PyTerrier stage that fuses the results of several retrievers with a learned model.

    A ``pyterrier.Transformer`` if PyTerrier is installed, so that ``Fusion({...}, model) >> stage`` is a pipeline;
    otherwise a callable on the same frames.

    Parameters
    ----------
    retrievers : mapping of str to transformer
        Retrievers, keyed by the names of the runs that ``model`` fuses.
    model : FusionModel
        Fitted fusion of these runs.

    Examples
    --------
    >>> import pandas as pd
    >>> from structsvm.estimators import fusion_path
    >>> from structsvm.readers import Qrels
    >>> topics = pd.DataFrame({"qid": ["1"], "query": ["red"]})
    >>> one = lambda topics: topics.merge(pd.DataFrame({"qid": ["1"] * 2, "docno": ["a", "b"], "score": [2.0, 1.0]}))
    >>> pool = candidates([Run.from_frame(one(topics), tag="bm25")], Qrels.from_dict({"1": {"b": 1}}))
    >>> (model,) = fusion_path(pool, [1.0])
    >>> Fusion({"bm25": one}, model)(topics)["docno"].tolist()
    ['b', 'a']
    """

    def __init__(self, retrievers: Mapping[str, Callable[[Any], Any]], model: Any) -> None:
        self.retrievers = retrievers
        self.model = model

    def transform(self, inp: Any) -> Any:
        """Return the fused results of the queries of a frame, with its columns, ``docno``, ``score`` and ``rank``."""
        topics = inp.drop_duplicates("qid")
        found = {name: one(topics) for name, one in self.retrievers.items()}
        if all(one.empty for one in found.values()):  # PyTerrier inspects stages with frames without rows
            return topics.head(0).assign(docno="", score=0.0, rank=0)
        pool = candidates([Run.from_frame(one, tag=name) for name, one in found.items()])
        fused = self.model.rank(pool).to_frame().rename(columns={"topic": "qid", "docid": "docno"})
        fused["rank"] -= 1  # PyTerrier counts ranks from 0
        return topics.merge(fused, on="qid")


class Diversify(Transformer):
    """PyTerrier stage that keeps the results of a query chosen by a selector, in the selector's order.

    A ``pyterrier.Transformer`` if PyTerrier is installed, as in ``bm25 % 50 >> get_text >> Diversify(MMR(5))``.

    Parameters
    ----------
    selector : DiverseRanker, SVMDiv, or a method of ``structsvm.estimators.baselines``
        Fitted selector of documents.
    text : str, default="text"
        Column with the texts.
    features : str or None, default="score"
        Column with the document features, each a number or an array; None for a model that was trained without
        features.

    Examples
    --------
    >>> import pandas as pd
    >>> from structsvm.estimators.baselines import MMR
    >>> texts = ["red rose", "red rose", "blue sea"]
    >>> found = pd.DataFrame({"qid": ["1"] * 3, "docno": ["a", "b", "c"], "score": [3.0, 2.9, 1.0], "text": texts})
    >>> Diversify(MMR(2))(found)[["docno", "rank"]].values.tolist()
    [['a', 0], ['c', 1]]
    """

    def __init__(self, selector: Any, *, text: str = "text", features: str | None = "score") -> None:
        self.selector = selector
        self.text = text
        self.features = features

    def transform(self, inp: Any) -> Any:
        """Return the chosen rows of a frame; ``score`` counts down from their number, and ``rank`` up from 0."""
        ranked = inp.sort_values("score", ascending=False, kind="stable")
        parts = [ranked[ranked["qid"] == qid] for qid in inp["qid"].unique()]
        if not parts:  # PyTerrier inspects stages with frames without rows
            return inp.assign(score=0.0, rank=0)
        sets = [
            CandidateSet(
                one[self.text].tolist(),
                query=one["query"].iloc[0] if "query" in one else None,
                features=None if self.features is None else np.vstack(one[self.features].tolist()),
            )
            for one in parts
        ]
        chosen = self.selector.predict(sets)
        kept = [label for one, rows in zip(parts, chosen, strict=True) for label in one.index[rows]]
        ranks = np.concatenate([np.arange(len(rows)) for rows in chosen])
        left = np.concatenate([np.arange(len(rows), 0, -1) for rows in chosen])
        return inp.loc[kept].assign(score=left.astype(np.float64), rank=ranks)


def _qid(group: Any, n_rows: int, argument: str) -> Any:
    if group is None:
        raise BadInput(argument, "expected the number of documents of each query, got none", "use form='ltr'")
    sizes = np.asarray(group)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or sizes.sum() != n_rows:
        raise BadInput(argument, f"expected integers that add up to {n_rows} rows, got {group!r}")
    return np.repeat(np.arange(sizes.shape[0]), sizes)
