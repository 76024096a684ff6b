"""Measures of rankings of a pool against all judgments."""

from typing import Any

import numpy as np

from structsvm.metrics.evaluation import evaluate_part
from structsvm.queries import row_groups
from structsvm.readers.qrels import Qrels
from structsvm.readers.run_features import Candidates


class PoolJudge:
    """Measure of rankings of a pool; relevant documents that no run retrieved count as missed.

    The values are those of ``evaluate`` for ``judge_run``, whose rows are built only once.
    """

    def __init__(self, pool: Candidates, qrels: Qrels, *, relevance: float = 1.0) -> None:
        self.relevance = relevance
        topic = row_groups(pool.offsets)
        missed, topics = _missed(pool, qrels)
        self._y = np.concatenate((pool.y, missed))
        self._qid = np.concatenate((topic, topics))

    def __call__(self, scores: Any, measure: str = "map") -> np.ndarray:
        """Return the measure of each topic, for scores of the pool's rows; NaN means not retrieved.

        Equal scores are ranked as in trec_eval, by descending docid.
        """
        values = np.full(self._y.shape[0], -np.inf)
        values[: len(scores)] = np.where(np.isnan(scores), -np.inf, scores)
        rules: dict[str, Any] = {"relevance": self.relevance, "ties": "docid"}  # rows are sorted by docid
        return evaluate_part(measure, self._y, values, qid=self._qid, **rules).result.per_query


def _missed(pool: Candidates, qrels: Qrels) -> tuple[np.ndarray, np.ndarray]:
    """Return the grades and topic indices of the documents with a grade above 0 that are not in the pool."""
    judged = qrels.to_dict()
    grades, topics = [], []
    for t, topic in enumerate(pool.topics.tolist()):
        pooled = set(pool.docid[pool.offsets[t] : pool.offsets[t + 1]].tolist())
        for docid, grade in judged[topic].items():
            if grade > 0 and docid not in pooled:
                grades.append(float(grade))
                topics.append(t)
    return np.array(grades), np.array(topics, dtype=np.int64)
