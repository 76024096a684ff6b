"""``evaluate``: compute a measure, given by name, for many queries at once."""

import math
import numbers
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from structsvm.common.checks import BadInput, check_choice, check_number, check_positive, counted
from structsvm.common.names import did_you_mean, plain_name
from structsvm.metrics.measures import (
    CONVENTIONS,
    MEASURES,
    Convention,
    Measure,
    MeasureOptions,
    pairs_in_order,
    roc_area,
)
from structsvm.metrics.ranks_and_ties import TIES, Ranking, Ties, rank_queries
from structsvm.metrics.results import EvaluationResult
from structsvm.metrics.run_table import RunTable
from structsvm.metrics.tests import UNBOUNDED
from structsvm.protocols import Float
from structsvm.queries import Grouping, group_queries, one_query, refuse_first, warn_user
from structsvm.readers.qrels import Qrels

Empty = Literal["zero", "one", "skip"]
_LARGEST = float(np.finfo(np.float64).max)
_EMPTY_VALUE = {"zero": 0.0, "one": 1.0, "skip": math.nan}
_FRACTION = re.compile(r"[01]?\.?[0-9]+")
_MANY_TIES = 0.1
"""Share of tied pairs above which :func:`evaluate` warns."""


def available_metrics() -> dict[str, str]:
    """Return the names of measures that :func:`evaluate` accepts, and their descriptions.

    Returns
    -------
    dict of str to str
        Descriptions by name; ``@k`` in a name stands for a cutoff, and ``@p`` for a number from 0 to 1.

    Examples
    --------
    >>> sorted(available_metrics())[:3]
    ['bpref', 'dcg', 'dcg@k']
    """
    descriptions = {}
    for name, measure in MEASURES.items():
        if measure.cutoff in ("never", "optional"):
            descriptions[name] = measure.description
        if measure.cutoff != "never":
            suffix = "@p" if measure.cutoff == "fraction" else "@k"
            descriptions[f"{name}{suffix}"] = measure.description
    return descriptions


class _Options(TypedDict, total=False):
    qid: Any
    docid: Any
    judged: Any
    convention: str
    relevance: float
    ties: Ties | None
    empty: Empty
    max_grade: float


@overload
def evaluate(
    name: str | Callable[[Float, Float], float], y_true: Any, y_score: Any, **options: Unpack[_Options]
) -> EvaluationResult: ...
@overload
def evaluate(
    name: list[str] | tuple[str, ...], y_true: Any, y_score: Any, **options: Unpack[_Options]
) -> dict[str, EvaluationResult]: ...
@overload
def evaluate(name: Qrels, y_true: Any, y_score: Sequence[str], **options: Unpack[_Options]) -> RunTable: ...
def evaluate(
    name: Any,
    y_true: Any,
    y_score: Any,
    *,
    qid: Any = None,
    docid: Any = None,
    judged: Any = None,
    convention: str = "trec",
    relevance: float = 1,
    ties: Ties | None = None,
    empty: Empty = "zero",
    max_grade: float = 4,
) -> EvaluationResult | dict[str, EvaluationResult] | RunTable:
    """Compute a ranking measure for each query and its mean, or several measures of TREC runs.

    ``evaluate(qrels, runs, ["map", "ndcg@10"])`` returns a :class:`RunTable` of one or several
    :class:`~structsvm.readers.Run` objects on the judged topics (pass a mapping to give the runs names other than their
    tags). Topics that a run lacks are treated as trec_eval treats them with the option ``-c``. The other parameters
    keep their meaning.

    Parameters
    ----------
    name : str, callable, or list or tuple of these
        ``"map"``, ``"mrr"``, ``"ndcg"``, ``"dcg"``, ``"err"`` (each also with a cutoff: ``"ndcg@10"``),
        ``"precision@k"``, ``"recall@k"``, ``"success@k"`` (the hit rate), ``"pairs"`` (the share of pairs in order),
        ``"roc"``, ``"rprec"``, ``"bpref"``, ``"rbp@0.8"``, ``"iprec@0.1"``, ``"set_precision"``,
        ``"set_recall"`` or ``"set_f"``; :func:`available_metrics` lists them. The names of ir_measures
        (``"nDCG@10"``, ``"AP"``, ``"RR"``, ``"P@5"``, ``"R@100"``, ``"RBP(p=0.8)"``) and of trec_eval
        (``"ndcg_cut_10"``, ``"recip_rank"``, ``"P_5"``, ``"map_cut_10"``) are also accepted, in upper or lower case.
        A list gives one result per measure. A callable ``(y, scores) -> float`` is a custom measure, for which higher
        is better: it receives the labels and scores of the rows of one query, in the given order, and handles ties
        itself; the parameters from ``convention`` on apply only to named measures.
    y_true : array-like of numbers, shape (n_rows,)
        Grades. A row is relevant if its grade is at least ``relevance``; negative grades have no gain, and their
        rows count as not judged.
    y_score : array-like of numbers, shape (n_rows,)
        Scores; higher is better. **Minus infinity marks a row that was not retrieved**: it has no rank, but counts in
        the number of relevant rows and in the best possible ranking, like a judged document that is missing from a TREC
        run.
    qid : array-like of int or str, shape (n_rows,), or int
        Query of each row; rows may be in any order. A single int applies to all rows. None also means a single query,
        with a warning.
    docid : array-like of str or int, shape (n_rows,), optional
        Document ids, used only to break ties as trec_eval does. They are compared as strings: ``"9"`` is greater than
        ``"10"``. If an id is repeated within a query, the later row comes first.
    judged : array-like of bool, shape (n_rows,), optional
        Whether each row has a judgment, used only by ``"bpref"``, which ignores other rows. None means all rows.
    convention : {"trec", "letor4", "letor4_script", "burges"}, default="trec"
        ``"trec"`` agrees with trec_eval 9: gain ``y``, discount ``log2(i + 1)``, and, with docids, scores compared as
        float32 and ties broken by docid. ``"letor4"``: gain ``2**y - 1``, ranks 1 and 2 undiscounted, then ``log2(i)``,
        ties by row. ``"letor4_script"``: like ``"letor4"``, but NDCG@k of a query with fewer than k documents is 0, as
        in the evaluation script of the benchmark. ``"burges"``: gain ``2**y - 1``, discount ``log2(i + 1)``, ties by
        row.
    relevance : float, default=1
        Lowest grade of a relevant row (``-l`` of trec_eval). NDCG, DCG and ERR use the grades and ignore this
        parameter.
    ties : {"average", "docid", "row"}, optional
        Treatment of equal scores. ``"average"``: the mean over all orders of the tied rows, in closed form, so
        that the result does not depend on the order of rows. ``"docid"``: descending docid; without ``docid``
        the row number is the id, so the later row comes first. ``"row"``: the earlier row comes first. The default is
        the rule of the convention, except that ``"trec"`` uses the average without ``docid``. ROC area always uses the
        average.
    empty : {"zero", "one", "skip"}, default="zero"
        Value of a query for which the measure is undefined: without relevant rows (MAP, MRR, precision, recall),
        without positive grades (NDCG, DCG, ERR), or without both classes (ROC area). The default follows trec_eval and
        the LETOR script; LightGBM and XGBoost use ``"one"``, and XGBoost uses ``"zero"`` for names such as ``ndcg@5-``.
        With ``"skip"``, the value is NaN, and is left out of the mean.
    max_grade : float, default=4
        Highest grade of the scale for ERR, whose satisfaction probability is ``(2**y - 1) / 2**max_grade``. It
        is a constant, so that folds without the highest grade remain comparable.

    Returns
    -------
    EvaluationResult, or a dict of them by name for several measures

    Warns
    -----
    SingleQueryWarning
        If ``qid`` is None, so that all rows are ranked as one query.
    UserWarning
        If the measure is undefined for all queries, for example because no row is relevant. Also if more than a tenth
        of the pairs of retrieved rows with different labels have equal scores, unless ``ties`` is given or the measure
        is ROC area.

    Notes
    -----
    Most of the time is spent on sorting the scores within queries; the average of ERR over ties also takes time in
    proportion to the number of tied rows times the cutoff. ERR is defined by Chapelle, Metzler, Zhang and Grinspan
    (CIKM 2009). Averages over ties follow McSherry and Najork (ECIR 2008) for AP, DCG, precision, recall and RR; those
    of ERR use elementary symmetric means. ``"iprec@0.1"`` and ``"bpref"`` have no such average, and require scores
    without ties or a rule for them.

    Examples
    --------
    >>> result = evaluate("map", [1, 0, 1, 0, 0, 1], [3, 2, 1, 3, 2, 1], qid=["a", "a", "a", "b", "b", "b"])
    >>> result.per_query.round(3), round(result.mean, 3)
    (array([0.833, 0.333]), 0.583)

    The same with the names of ir_measures and trec_eval:

    >>> [evaluate(name, [0, 1, 1], [3, 2, 1], qid=0).mean for name in ("RR", "recip_rank", "P@2", "P_2")]
    [0.5, 0.5, 0.5, 0.5]

    Several measures at once:

    >>> {name: result.mean for name, result in evaluate(["map", "p@1"], [0, 1, 1], [3, 2, 1], qid=0).items()}
    {'map': 0.5833333333333333, 'p@1': 0.0}

    A relevant document that the system did not find:

    >>> evaluate("map", [1, 0, 1], [0.9, 0.5, float("-inf")], qid=0).mean
    0.5
    """
    options: dict[str, Any] = {
        "convention": convention,
        "relevance": relevance,
        "ties": ties,
        "empty": empty,
        "max_grade": max_grade,
    }
    if not isinstance(name, str) and hasattr(name, "grades"):
        return _of_runs(name, y_true, [y_score] if isinstance(y_score, str) else list(y_score), options)
    if isinstance(name, (list, tuple)):
        for each in name:
            parse_measure(each)
        qid = one_query(qid, "evaluate")
        return {
            measure_name(each): evaluate(
                each, y_true, y_score, qid=qid, docid=docid, judged=judged, **options
            )
            for each in name
        }
    part = evaluate_part(name, y_true, y_score, qid=qid, docid=docid, judged=judged, **options)
    if part.undefined:
        warn_of_nothing_relevant(name, part.result.per_query.shape[0])
    if ties is None:
        part.warn_of_ties("evaluate")
    _warn_of_swapped(y_true, y_score)
    return part.result


def _warn_of_swapped(y_true: ArrayLike, y_score: ArrayLike) -> None:
    """Warn if labels look like scores (fractional, with more distinct values) and scores like grades."""
    labels, scores = (np.asarray(values, dtype=np.float64) for values in (y_true, y_score))
    if not (labels % 1 != 0).any() or not np.isfinite(scores).all() or scores.min() < 0:
        return
    if not (scores % 1 != 0).any() and np.unique(scores).size < np.unique(labels).size:
        warn_user(
            "evaluate: y_true has fractions, and y_score only integers, with fewer distinct values; pass labels first, "
            "then scores"
        )


def _of_runs(qrels: Qrels, runs: Any, measures: list[str], options: dict[str, Any]) -> RunTable:
    from structsvm.readers.run_features import judge_run, runs_by_name

    for measure in measures:
        parse_measure(measure)
    named = runs_by_name(runs)
    results: dict[tuple[str, str], EvaluationResult] = {}
    for name, run in named.items():
        rows = judge_run(run, qrels)._asdict()
        results |= {(name, measure): evaluate(measure, **rows, **options) for measure in measures}
    return RunTable(tuple(named), tuple(measures), results)


def warn_of_nothing_relevant(name: str, n_queries: int) -> None:
    """Warn that a measure is undefined for all queries."""
    warn_user(
        BadInput(
            "evaluate",
            f"the labels define {name!r} for none of {counted(query=n_queries)}, so that the result is meaningless",
            "check the labels and {relevance}",
        )
    )


def check_distinguishes(
    argument: str, measure: object, distinguishes: Callable[[Any], bool], remedy: str = ""
) -> None:
    """Raise BadInput if a measure has the same value for each query in every order of the rows.

    This is the case for binary measures if all rows are relevant, such as star ratings from 1, or if none is.
    ``distinguishes`` tells whether the values of a measure differ between orders. Without a remedy, the message names
    another measure that does; if none does, the labels order no rows, which training reports.
    """
    if distinguishes(measure):
        return
    if not remedy:
        other = next((name for name in ("pairs", "ndcg@10") if distinguishes(name)), None)
        if other is None:
            return
        remedy = f"choose by {other}, or check {{relevance}}"
    raise BadInput(
        argument,
        "expected a measure that depends on the ranking, but for these labels it has the same value for all",
        remedy,
        value=measure_name(measure),
    )


def distinguishes(measure: Any, y: Any, qid: Any, **options: Any) -> bool:
    """Return whether the values of a measure depend on the order of the rows."""
    return differs(lambda scores: evaluate_part(measure, y, scores, qid=qid, **options).result.per_query, y)


def differs(values: Callable[[Float], Float], y: Any) -> bool:
    """Return whether values differ between the best, the worst and two other orders of rows with labels ``y``."""
    rows = np.arange(len(y), dtype=np.float64)
    # without ties, whose averages are rounded
    best = np.argsort(np.argsort(y, kind="stable"), kind="stable").astype(np.float64)
    some = [values(scores) for scores in (best, -best, rows, -rows)]
    return any((each != some[0]).any() for each in some[1:])


_RULES = {
    "average": "the result is the mean over all orders of these documents",
    "docid": "descending docid decides, as in trec_eval",
    "row": "the earlier row comes first, as the convention specifies",
}


class Part(NamedTuple):
    """Values per query, whether all are undefined, and the ranking with its rule for ties, if ties have an effect."""

    result: EvaluationResult
    undefined: bool
    ranking: Ranking | None
    ties: Ties

    def warn_of_ties(self, what: str) -> None:
        """Warn if many pairs of documents with different labels are tied."""
        share = 0.0 if self.ranking is None else self.ranking.tied_share()
        if share > _MANY_TIES:
            warn_user(
                f"{what}: {100 * share:.0f} % of the pairs of documents with different labels have equal scores; "
                f"{_RULES[self.ties]} (guide, How ties count)"
            )


def evaluate_part(
    name: str | Callable[[Float, Float], float],
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    qid: Any = None,
    docid: Any = None,
    judged: ArrayLike | None = None,
    convention: str = "trec",
    relevance: float = 1,
    ties: Ties | None = None,
    empty: Empty = "zero",
    max_grade: float = 4,
) -> Part:
    """Return the result of :func:`evaluate` without its warnings, possibly for a subset of the queries."""
    measure, suffix = parse_measure(name)
    is_err = measure is MEASURES["err"]
    check_choice("convention", convention, CONVENTIONS)
    check_choice("empty", empty, _EMPTY_VALUE)
    rules = CONVENTIONS[convention]
    if ties is None:
        ties = "average" if rules.ties == "docid" and docid is None else rules.ties
    check_choice("ties", ties, TIES)
    check_positive("relevance", relevance)
    check_number("max_grade", max_grade, 0, 1000, open_end=True)
    grades = _numbers("y_true", y_true)
    scores = _numbers("y_score", y_score)
    n_rows = grades.shape[0]
    if scores.shape[0] != n_rows:
        raise BadInput(
            "y_score", f"expected {n_rows} scores, one for each entry of y_true, got {scores.shape[0]}"
        )
    if n_rows == 0:
        raise BadInput("y_true", "expected at least one row, got none")
    _check_grades(grades, rules, max_grade if is_err else math.inf)
    refuse_first(
        "y_score",
        scores,
        np.isnan(scores) | np.isposinf(scores),
        "a finite number",
        "use minus infinity for a row that was not retrieved",
    )
    if judged is not None and measure is not None and measure.needs_judged:
        known = np.asarray(judged, dtype=np.bool_)
        if known.shape != (n_rows,):
            raise BadInput("judged", f"expected one for each of the {n_rows} rows, got shape {known.shape}")
        grades = np.where(known, grades, -1.0)  # as in trec_eval
    grouping = group_queries(one_query(qid, "evaluate"), n_rows)
    documents = _documents(docid, n_rows)
    if grouping.order is not None:
        grades, scores = grades[grouping.order], scores[grouping.order]
        documents = None if documents is None else documents[grouping.order]
    if measure is None:
        return Part(_by_callable(name, grades, scores, grouping), False, None, ties)
    retrieved = ~np.isneginf(scores)
    key: NDArray[Any] = -scores
    if rules.single_precision and ties != "average":
        with np.errstate(over="ignore"):  # scores beyond float32 become infinite, as in trec_eval
            key = key.astype(np.float32)
    ranking = rank_queries(grades, key, retrieved, grouping.offsets, ties, documents)
    cutoff, fraction = (None, suffix) if isinstance(suffix, float) else (suffix, 0.0)
    values, undefined = measure.compute(
        ranking, MeasureOptions(cutoff, fraction, float(relevance), float(max_grade), rules)
    )
    values[undefined] = _EMPTY_VALUE[empty]
    counted = values[~undefined] if empty == "skip" else values
    mean = float(counted.mean()) if counted.size else math.nan
    result = EvaluationResult(measure_name(name), mean, values, grouping.query_ids, measure.bounds)
    return Part(
        result,
        bool(undefined.all()),
        None if measure.compute in (roc_area, pairs_in_order) else ranking,
        ties,
    )


def _by_callable(measure: Any, grades: Float, scores: Float, grouping: Grouping) -> EvaluationResult:
    """Return the values of a custom measure for the rows of each query."""
    name = measure_name(measure)
    values = np.empty(grouping.query_ids.shape[0])
    for q, (a, b) in enumerate(zip(grouping.offsets[:-1], grouping.offsets[1:], strict=True)):
        value = measure(grades[a:b], scores[a:b])
        if not (isinstance(value, numbers.Real) and math.isfinite(value)):
            raise BadInput(
                name,
                f"expected a finite number from the measure (0 where undefined), got {value!r:.60}",
                at=f", query {grouping.query_ids[q]}",
            )
        values[q] = value
    return EvaluationResult(name, float(values.mean()), values, grouping.query_ids)


def bounds_of(measure: object) -> tuple[float, float]:
    """Return the range of a measure given by name; the range of a function is unknown."""
    named = parse_measure(measure)[0]
    return UNBOUNDED if named is None else named.bounds


def measure_name(measure: object) -> str:
    """Return the name of a measure, which may be a callable."""
    named = measure if hasattr(measure, "__qualname__") else type(measure)
    return measure if isinstance(measure, str) else named.__qualname__.rpartition("<locals>.")[2]


def parse_measure(name: object) -> tuple[Measure | None, float | None]:
    """Return a measure by name, and its cut-off (an int) or fraction (a float); None and None for a function."""
    if callable(name):
        if hasattr(name, "get_metadata_routing"):
            raise BadInput(
                "metric",
                "expected a measure of labels and scores, got a scorer of scikit-learn",
                "pass the name of its measure",
                value=name,
            )
        return None, None
    base, at, depth = plain_name(name).partition("@") if isinstance(name, str) else ("", "", "")
    measure = MEASURES.get(base)
    if measure is None or (at and measure.cutoff == "never"):
        if not isinstance(name, str):
            raise BadInput(
                "metric",
                f"expected the name of a measure or a function first, got {type(name).__name__}",
                "pass the measure first, then labels and scores",
            )
        raise BadInput(
            "metric",
            f"expected one of {', '.join(available_metrics())} (k is an integer)",
            did_you_mean(name, available_metrics()),
            value=name,
        )
    if not at:
        if measure.cutoff == "required":
            raise BadInput("metric", f"{base!r} requires a cutoff, for example '{base}@10'", value=name)
        if measure.cutoff == "fraction":
            raise BadInput("metric", f"{base!r} requires a number, for example '{base}@0.8'", value=name)
        return measure, None
    if measure.cutoff == "fraction":
        if not (_FRACTION.fullmatch(depth) and 0 <= float(depth) <= 1):
            raise BadInput(
                "metric", f"expected a number from 0 to 1 after '@', as in '{base}@0.8'", value=name
            )
        return measure, float(depth)
    if not (depth.isascii() and depth.isdigit() and int(depth) > 0):
        raise BadInput(
            "metric",
            f"expected a positive integer after '@', as in '{base}@10'",
            "give one cutoff per name" if "," in depth else "",
            value=name,
        )
    return measure, int(depth)


def _numbers(argument: str, values: ArrayLike) -> Float:
    array = np.asarray(values)
    if array.ndim != 1:
        raise BadInput(argument, f"expected one number per row (one dimension), got shape {array.shape}")
    try:
        if array.dtype.kind not in "biufO":
            raise TypeError
        with np.errstate(over="ignore"):
            numbers = array.astype(np.float64)
    except (TypeError, ValueError):
        raise BadInput(argument, f"expected numbers, got {array.dtype}: {array[:1].tolist()}") from None
    except OverflowError:  # a Python int
        numbers = np.array([value if abs(value) <= _LARGEST else np.inf for value in array], dtype=np.float64)
    # find values that became infinite by conversion; minus infinity in a float64 array marks rows not retrieved
    infinite = np.flatnonzero(np.isinf(numbers)).tolist() if array.dtype != np.float64 else []
    overflown = next((row for row in infinite if array[row] != float(numbers[row])), None)
    if overflown is not None:
        raise BadInput(
            argument,
            f"expected a number up to {_LARGEST:.2g} in magnitude, got {array[overflown]!s:.60}",
            "scale all values, or take logarithms",
            at=f"[{overflown}]",
        )
    return numbers


def _check_grades(grades: Float, rules: Convention, max_grade: float) -> None:
    refuse_first("y_true", grades, ~np.isfinite(grades), "a finite grade", "grade the row or drop it")
    limit, remedy = rules.largest_grade, "2**y - 1 overflows; use {convention='trec'}"
    refuse_first("y_true", grades, grades > limit, f"a grade <= {limit:g}", remedy)
    refuse_first(
        "y_true", grades, grades > max_grade, f"a grade <= max_grade = {max_grade:g}", "increase {max_grade}"
    )


def _documents(docid: ArrayLike, n_rows: int) -> NDArray[Any] | None:
    if docid is None:
        return None
    ids = np.asarray(docid)
    if ids.shape != (n_rows,):
        raise BadInput("docid", f"expected {n_rows} ids, one for each entry of y_true, got shape {ids.shape}")
    if ids.dtype.kind == "T":  # NumPy's variable-width strings may also contain missing values
        ids = ids.astype(object)
    if ids.dtype.kind == "O":
        missing = np.array([bool(value is None or value != value) for value in ids])
        refuse_first("docid", ids, missing, "a string or an int")
    elif ids.dtype.kind not in "iuUS":
        raise BadInput("docid", f"expected strings or ints, got {ids.dtype}")
    return ids if ids.dtype.kind in "US" else ids.astype(str)
