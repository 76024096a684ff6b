"""Rows for the evaluation of a run, and pools of documents for re-ranking, built from runs and judgments."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.common.checks import BadInput, check_whole, counted, first_few
from structsvm.protocols import Float, Int
from structsvm.queries import choose_groups, offsets_of, warn_user
from structsvm.readers.qrels import Qrels
from structsvm.readers.runs import Run
from structsvm.readers.trec import ByTopic, objects, rows_of_topics

_SEVERAL = 10
"""Minimum number of ranked documents for a warning that none of them is judged."""


Runs = Sequence[Run] | Mapping[str, Run]
"""Runs, named by tag or by key."""


class JudgedRows(NamedTuple):
    """Arguments of :func:`structsvm.metrics.evaluate`, by their names."""

    y_true: Float
    y_score: Float
    qid: NDArray[Any]
    docid: NDArray[Any]
    judged: NDArray[np.bool_]


def judge_run(run: Run, qrels: Qrels, *, complete: bool = True) -> JudgedRows:
    """Return the rows on which a run is evaluated: every retrieved or judged document of the judged topics.

    A retrieved document without a judgment has grade 0; a judged document that was not retrieved has score minus
    infinity. Topics without judgments are dropped.

    Parameters
    ----------
    run : Run
        Run to evaluate.
    qrels : Qrels
        Judgments without subtopics.
    complete : bool, default=True
        Whether judged topics missing from the run are included, with nothing retrieved (``-c`` of trec_eval), so that
        all runs have the same topics. False, the default of trec_eval, includes only topics that are in both.

    Returns
    -------
    named tuple
        Arguments of :func:`structsvm.metrics.evaluate`, by their names ``y_true``, ``y_score``, ``qid``, ``docid`` and
        ``judged``; topics in the order of ``qrels``.

    Raises
    ------
    ValueError
        If the judgments have subtopics, or share no topic with the run.

    Examples
    --------
    >>> from structsvm.metrics import evaluate
    >>> run = Run.from_arrays([1, 1], ["a", "b"], [2.0, 1.0])
    >>> qrels = Qrels.from_arrays([1, 1, 2], ["b", "c", "d"], [1, 1, 1])
    >>> evaluate("map", **judge_run(run, qrels)._asdict()).per_query
    array([0.25, 0.  ])
    """
    grades = _grades_by_topic(qrels)
    ranked = rows_of_topics(run)
    if not grades.keys() & ranked.keys():
        raise BadInput(
            f"run {run.tag!r}",
            "expected at least one judged topic, got none",
            f"the judged topics are {_few(qrels.topics)}, the ranked ones {_few(run.topics)}",
        )
    y: list[float] = []
    s: list[float] = []
    known: list[bool] = []
    docid: list[str] = []
    topics: list[str] = []
    lengths: list[int] = []
    n_ranked, found = 0, False
    for topic, judged in grades.items():
        here = ranked.get(topic, slice(0))
        documents = run.docid[here].tolist()
        if not documents and not complete:
            continue
        missing = sorted(judged.keys() - set(documents))
        y += [judged.get(d, 0) for d in documents]
        y += [judged[d] for d in missing]
        known += [d in judged for d in documents + missing]
        s += run.scores[here].tolist()
        s += [-np.inf] * len(missing)
        docid += documents + missing
        topics.append(topic)
        lengths.append(len(documents) + len(missing))
        n_ranked += len(documents)
        found = found or len(missing) < len(judged)
    if n_ranked >= _SEVERAL and not found:
        topic = next(topic for topic in grades if topic in ranked)
        warn_user(
            f"run {run.tag!r} ranks no judged document; check the ids: topic {topic} has the judged documents "
            f"{_few(sorted(grades[topic]))}, and the ranked ones {_few(run.docid[ranked[topic]])}"
        )
    labels, scores = np.array(y, dtype=np.float64), np.array(s, dtype=np.float64)
    return JudgedRows(
        labels, scores, np.repeat(objects(topics), lengths), objects(docid), np.array(known, dtype=np.bool_)
    )


@dataclass(frozen=True)
class Candidates(ByTopic):
    """Documents of several runs, topic by topic; :func:`candidates` describes the fields."""

    topics: NDArray[Any]
    offsets: Int
    docid: NDArray[Any]
    scores: Float
    y: Float
    judged: NDArray[np.bool_]
    names: tuple[str, ...]

    @property
    def n_runs(self) -> int:
        return len(self.names)

    @cached_property
    def qid(self) -> NDArray[Any]:
        """Return the topic of every row, for ``QueryData.from_arrays(features, c.y, c.qid, docid=c.docid)``."""
        return np.repeat(self.topics, np.diff(self.offsets))

    def select(self, topics: object) -> Self:
        """Return the candidates of some topics (indices or boolean mask), in the order given."""
        chosen, offsets, rows = choose_groups(self.offsets, topics)
        fields: dict[str, Any] = {name: getattr(self, name)[rows] for name in ("docid", "scores", "y")}
        topics, judged = self.topics[chosen], self.judged[chosen]
        return replace(self, topics=topics, offsets=offsets, judged=judged, **fields)

    def select_runs(self, names: Sequence[str]) -> Self:
        """Return the scores of some runs, in the order given, on the same documents."""
        unknown = [name for name in names if name not in self.names]
        if unknown:
            raise BadInput("names", f"expected some of {', '.join(self.names)}, got {unknown[0]!r}")
        columns = [self.names.index(name) for name in names]
        return replace(self, scores=self.scores[:, columns], names=tuple(names))

    def to_run(self, scores: ArrayLike, *, tag: str = "structsvm") -> Run:
        """Rank the candidates by ``scores``, shape (n_rows,), finite or NaN; NaN leaves a candidate out."""
        values = np.asarray(scores, dtype=np.float64)
        if values.shape != (self.n_rows,):
            raise BadInput(
                "scores", f"expected one for each of the {self.n_rows} rows, got shape {values.shape}"
            )
        retrieved = ~np.isnan(values)
        return Run.from_arrays(self.qid[retrieved], self.docid[retrieved], values[retrieved], tag=tag)

    def __repr__(self) -> str:
        topics = f"{counted(topic=self.n_topics)}, {int(self.judged.sum())} judged"
        return f"Candidates({topics}, {counted(row=self.n_rows, run=self.n_runs)})"


def candidates(runs: Runs, qrels: Qrels | None = None, *, depth: int = 1000) -> Candidates:
    """Pool the top documents of several runs, as the thesis does to re-rank them (section 3.3.1).

    The candidates of a topic are the documents that any run ranks among its first ``depth``. A candidate gets the score
    of every run that ranks it, at any rank.

    The topics of all runs are included, in the order of the first run that has them; scores of runs without the topic
    are missing. Topics without judgments are kept for ranking (``judged`` is False). Judged topics without any ranking
    are dropped.

    Parameters
    ----------
    runs : sequence of Run, or mapping of names to Run
        Runs of a sequence are named by their tags; a repeated tag gets a number (``indri``, ``indri#2``).
    qrels : Qrels, optional
        Judgments without subtopics. Default: no topic is judged.
    depth : int, default=1000
        Number of documents taken from the top of each run.

    Returns
    -------
    Candidates
        The pool, which takes little more than ``8 * n_rows * n_runs`` bytes, with the attributes ``topics``;
        ``offsets`` (rows ``offsets[t]:offsets[t + 1]`` are the documents of topic ``t``); ``docid``, ascending within a
        topic; ``qid``, the topic of every row; ``scores``, shape (n_rows, n_runs), NaN if the run lacks the document;
        ``y``, the grades, 0 without a judgment; ``judged``, whether each topic has judgments; and ``names`` of the
        runs, the columns of ``scores``. ``select(topics)`` returns the pool of some topics (indices or boolean mask),
        ``select_runs(names)`` the pool of some runs, and ``to_run(scores)`` the ranking of its rows by scores (NaN
        leaves a row out).

    Examples
    --------
    >>> a = Run.from_arrays([1, 1], ["x", "y"], [2.0, 1.0], tag="a")
    >>> b = Run.from_arrays([1, 1], ["z", "y"], [9.0, 8.0], tag="b")
    >>> pool = candidates([a, b], Qrels.from_arrays([1], ["y"], [1]), depth=1)
    >>> pool.docid.tolist(), pool.scores, pool.y
    (['x', 'z'], array([[ 2., nan],
           [nan,  9.]]), array([0., 0.]))
    >>> candidates([a, b]).docid.tolist()
    ['x', 'y', 'z']
    >>> pool.select(pool.judged).to_run([1.0, 2.0]).docid.tolist()  # only the judged topics, for training
    ['z', 'x']
    """
    check_whole("depth", depth)
    named = runs_by_name(runs)
    names, rankings = tuple(named), list(named.values())
    if not rankings:
        raise BadInput("runs", "expected at least one, got none")
    grades = {} if qrels is None else _grades_by_topic(qrels)
    ranges: dict[str, list[tuple[int, slice]]] = {}
    for r, run in enumerate(rankings):
        for topic, here in rows_of_topics(run).items():
            ranges.setdefault(topic, []).append((r, here))
    if qrels is not None and not grades.keys() & ranges.keys():
        raise BadInput(
            "qrels",
            f"expected judgments of the runs' topics {_few(list(ranges))}, got those of {_few(qrels.topics)}",
        )
    docid: list[str] = []
    y: list[float] = []
    blocks: list[Float] = []
    lengths: list[int] = []
    for topic, places in ranges.items():
        pool: set[str] = set()
        for r, here in places:
            pool.update(rankings[r].docid[here][:depth].tolist())
        documents = sorted(pool)  # sorted, so that the order of the runs does not matter
        row = {document: i for i, document in enumerate(documents)}
        block = np.full((len(documents), len(rankings)), np.nan)
        for r, here in places:
            at = np.array([row.get(d, -1) for d in rankings[r].docid[here].tolist()], dtype=np.int64)
            block[at[at >= 0], r] = rankings[r].scores[here][at >= 0]
        judged = grades.get(topic, {})
        docid += documents
        y += [judged.get(d, 0) for d in documents]
        blocks.append(block)
        lengths.append(len(documents))
    known = np.array([topic in grades for topic in ranges], dtype=np.bool_)
    columns = objects(docid), np.concatenate(blocks), np.array(y, dtype=np.float64)
    return Candidates(objects(list(ranges)), offsets_of(lengths), *columns, known, names)


def _grades_by_topic(qrels: Qrels) -> dict[str, dict[str, int]]:
    if qrels.subtopic is not None:
        raise BadInput(
            "qrels", "expected one grade per document, got judgments by subtopic", "read the ad hoc judgments"
        )
    return qrels.to_dict()


def runs_by_name(runs: Run | Runs) -> dict[str, Run]:
    """Return one or several runs by key or by tag; from the second use on, a tag gets a number."""
    if isinstance(runs, Mapping):
        for name, run in runs.items():
            if not isinstance(run, Run):
                code = "Run.from_dict({topic: {document: score}})" if isinstance(run, Mapping) else ""
                raise BadInput(
                    "runs",
                    f"expected a Run for {str(name)!r:.40}, got {type(run).__name__}",
                    "convert it to a Run",
                    code=code,
                )
        return {str(name): run for name, run in runs.items()}
    used: Counter[str] = Counter()
    named: dict[str, Run] = {}
    for run in [runs] if isinstance(runs, Run) else runs:
        name = run.tag
        while name in named or not used[run.tag]:
            used[run.tag] += 1
            name = run.tag if used[run.tag] == 1 else f"{run.tag}#{used[run.tag]}"
        named[name] = run
    return named


def _few(ids: Any) -> str:
    return first_few((ascii(str(word)[:40]) for word in ids), 3)
