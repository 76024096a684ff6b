"""Cells: each is the result of one method on one fold, saved in a small file so that a killed run can be resumed.

A cell holds the whole path over C. On MQ2008 a path of 22 values takes about a hundredth of the time of 22 separate
fits, so saving smaller units would cost more time than it could save after a killed run.
"""

import hashlib
import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from structsvm._version import __version__
from structsvm.cli.paths import write_text
from structsvm.cli.studies.folds.fixed import measure_fixed
from structsvm.cli.studies.folds.folds import Fill, Fold, checksum, load_fold, size_of
from structsvm.cli.studies.folds.methods import (
    STOPPED_EARLY,
    WITHOUT_C,
    Training,
    check_method,
    full_name,
    measure_of,
    takes_missing,
    walk,
)
from structsvm.common.checks import BadInput
from structsvm.common.records import plain
from structsvm.estimators.choosing_C import Selection, check_selection, crossed_by, select_C
from structsvm.metrics import Comparison, compare, holm
from structsvm.metrics.estimates import FEWEST, WIDER, Estimate, estimate_of
from structsvm.metrics.evaluation import bounds_of, check_distinguishes, distinguishes, evaluate_part
from structsvm.metrics.results import EvaluationResult
from structsvm.metrics.significance import Leaders, leaders
from structsvm.protocols import Float
from structsvm.queries import QueryData

_FORMAT = 9  # increase when the content of a cell, or its computation, changes


@dataclass(frozen=True)
class Measures:
    """The measures of a study, and their convention.

    ``report`` is for the test queries. ``select`` chooses C; None means the measure of the loss of each method.
    """

    report: tuple[str, ...]
    select: str | None = None
    convention: str = "trec"
    relevance: float = 1.0
    selection: Selection = "max"

    @property
    def rules(self) -> dict[str, Any]:
        """The arguments of ``evaluate_part`` that all measures share."""
        return {"convention": self.convention, "relevance": self.relevance}

    def choosing(self, method: str) -> str:
        """Return the measure that chooses C of a method; the first of ``report`` if its loss has none."""
        return self.select or measure_of(method) or self.report[0]

    def values(self, name: str, data: QueryData, scores: Float, *, choosing: bool = False) -> Float:
        """Return one value per query.

        Measures are averaged over the orders of tied documents if ``choosing`` is set or the convention is ``"trec"``.
        Otherwise, the convention determines the order of ties, as in the program that it reproduces.
        """
        rules = self.rules | ({"ties": "average"} if choosing else {})
        return evaluate_part(name, data.y, scores, qid=data.qid, **rules).result.per_query

    def undefined(self, name: str, data: QueryData) -> int:
        """Return the number of queries for which a measure is undefined, whatever the scores; their values are 0."""
        values = evaluate_part(
            name, data.y, data.y, qid=data.qid, empty="skip", **self.rules
        ).result.per_query
        return int(np.isnan(values).sum())

    def check(self) -> None:
        """Raise ValueError for an unknown name, before anything is trained."""
        check_selection(self.selection)
        if not self.report:
            raise BadInput("metrics", "expected at least one measure, got none")
        select = () if self.select is None else (self.select,)
        for argument, names in (("select", select), ("metric", self.report)):
            for name in names:
                try:
                    evaluate_part(name, [1, 0], [1.0, 0.0], qid=0, **self.rules)
                except BadInput as error:
                    raise (error.renamed(argument) if error.argument == "metric" else error) from None


def usual_report(methods: Sequence[str]) -> tuple[str, ...]:
    """Return the measures reported by default: map, ndcg@10 and the measures of the losses of the methods."""
    of_losses = (measure_of(full_name(name)) for name in methods)
    return tuple(dict.fromkeys(("map", "ndcg@10", *filter(None, of_losses))))


def result_of(measure: str, values: Float) -> EvaluationResult:
    return EvaluationResult(measure, float(values.mean()), values, np.arange(values.size), bounds_of(measure))


@dataclass(frozen=True)
class MethodResult:
    """The cells of one method, fold by fold."""

    name: str
    cells: tuple[dict[str, Any], ...] = field(repr=False)
    selection: Selection = "max"

    def per_query(self, measure: str) -> Float:
        """Return the values of all test queries, fold after fold."""
        return np.concatenate([cell["test"]["values"][measure] for cell in self.cells])

    def mean(self, measure: str) -> float:
        """Return the mean over all test queries."""
        return float(self.per_query(measure).mean())

    def result(self, measure: str) -> EvaluationResult:
        """Return the values of all test queries as a result."""
        return result_of(measure, self.per_query(measure))

    @property
    def query_ids(self) -> list[str]:
        return [query for cell in self.cells for query in cell["test"]["query_ids"]]

    @property
    def Cs(self) -> tuple[float | None, ...]:
        """C chosen in each fold."""
        return tuple(cell["C"] for cell in self.cells)

    @property
    def gap(self) -> float | None:
        """Largest duality gap of the chosen models."""
        gaps = [cell["gap"] for cell in self.cells]
        return None if None in gaps else max(gaps)

    @property
    def seconds(self) -> float:
        """Training time of all paths, one after the other."""
        return float(sum(cell["seconds"] for cell in self.cells))

    @property
    def unconverged(self) -> int:
        """Number of chosen models that did not reach the tolerance."""
        return sum(not cell["converged"] for cell in self.cells)

    def curve(self) -> tuple[list[float], Float]:
        """Return the grid, and for each C the validation measure averaged over the queries of all folds."""
        return self.cells[0]["grid"], self.validation().mean(axis=0)

    def best(self) -> tuple[float | None, float]:
        """Return the C that ``selection`` chooses on the validation queries of all folds, and its mean on them."""
        grid, means = self.curve()
        chosen = _chosen(grid, self.validation(), self.selection)
        return grid[chosen], float(means[chosen])

    def validation(self) -> Float:
        """Return the validation measure, with one row per query and one column per C."""
        return np.concatenate([cell["validation"] for cell in self.cells])


@dataclass(frozen=True)
class Results:
    """Result of :func:`run`; ``reused`` cells were read from files, ``computed`` cells were trained."""

    methods: tuple[MethodResult, ...]
    measures: Measures
    folds: tuple[str, ...]
    baselines: tuple[str, ...]
    reused: int
    computed: int

    @property
    def selecting(self) -> str:
        """The measures that chose C, separated by commas."""
        trained = [m.name for m in self.methods if m.cells[0]["grid"][0] is not None]
        return ", ".join(dict.fromkeys(map(self.measures.choosing, trained)))

    @property
    def baseline(self) -> str:
        """The first baseline."""
        return self.baselines[0]

    def against_baseline(self, method: MethodResult) -> Comparison:
        """Compare a method with the first baseline by the leading measure (two-tailed Wilcoxon test over queries)."""
        base = next(m for m in self.methods if m.name == self.baseline)
        return compare(*(m.result(self.leading) for m in (method, base)))

    @property
    def constant(self) -> list[str]:
        """The reported measures that no ranking of the test queries changes."""
        cells = self.methods[0].cells
        return [
            name for name in self.measures.report if all(name in cell["test"]["constant"] for cell in cells)
        ]

    @property
    def leading(self) -> str:
        """The measure that names the best method: the first that depends on the ranking of the test queries."""
        return next(
            (name for name in self.measures.report if name not in self.constant), self.measures.report[0]
        )

    @cached_property
    def tests(self) -> "Tests":
        """The paired tests of the methods against the baselines and the best method."""
        return tests_of(
            {(name, m.name): m.result(name) for name in self.measures.report for m in self.methods},
            self.baselines,
            self.leading,
        )


def estimate_of_search(results: Results, baseline: Float | None = None) -> Estimate | None:
    """Estimate the score of the best method of a search on new queries, by crossing over methods and C.

    The queries of each validation part are measured by the method and C that are best on the other parts. A single part
    is divided into five; its models are the same for all, so that the usual standard error applies. None if all methods
    stop early, or for fewer than three queries. ``baseline`` has one value per validation query.
    """
    with_C = [m for m in results.methods if m.cells[0]["grid"][0] is not None]
    methods = with_C or [m for m in results.methods if m.name not in STOPPED_EARLY]
    sizes = [len(cell["validation"]) for cell in results.methods[0].cells]
    if not methods or sum(sizes) < FEWEST:
        return None
    fold = np.repeat(np.arange(len(sizes)), sizes) if len(sizes) > 1 else np.arange(sizes[0]) % _PARTS
    curves = [(m.cells[0]["grid"], m.validation(), m.selection) for m in methods]

    def column(rest: Any) -> Float:
        chosen = [values[:, _chosen(grid, values[rest], by)] for grid, values, by in curves]
        return max(chosen, key=lambda values: float(values[rest].mean()))

    values = crossed_by(column, fold, np.ones(fold.size))
    wider = WIDER if len(sizes) > 1 else 1.0
    with warnings.catch_warnings(action="ignore"):  # the command itself warns about too few queries
        return estimate_of(
            result_of(results.measures.choosing(methods[0].name), values), baseline=baseline, wider=wider
        )


def values_of_baseline(
    baseline: str, folds: Sequence[Fold], measures: Measures, fill: Fill, columns: Mapping[str, Any]
) -> Float:
    """Return the measure of a feature, a model or a run for each validation query."""
    assert measures.select is not None
    _, found = measure_fixed(
        baseline, folds, "validation", (measures.select,), fill, columns, **measures.rules
    )
    return np.concatenate([values[measures.select] for _, values in found])


def _fixed(name: str, folds: Sequence[Fold], plan: "_Plan") -> MethodResult:
    """Return the results of a baseline that is not trained."""
    measures = plan.measures
    name, found = measure_fixed(
        name, folds, "test", measures.report, plan.fill, plan.columns, **measures.rules
    )
    cells = tuple(
        {
            "grid": [None],
            "validation": [[math.nan]],
            "C": None,
            "gap": None,
            "converged": True,
            "seconds": 0.0,
            "test": _tested(part, values),
        }
        for part, values in found
    )
    return MethodResult(name, cells, measures.selection)


_PARTS = 5


class PairedTest(NamedTuple):
    """Comparison of a method with a baseline on the test queries: mean difference, 95 % interval (Student's t), tests.

    All p-values are two-tailed: ``p_value`` is from Wilcoxon's test; ``holm`` is adjusted for all tests of the study.
    """

    measure: str
    method: str
    baseline: str
    difference: float
    lower: float | None
    upper: float | None
    wins: int
    losses: int
    ties: int
    p_value: float
    t_p_value: float
    randomization_p_value: float
    holm: float


class Tests(NamedTuple):
    """The tests of a study, each pair of methods once, with p-values corrected together."""

    pairs: list[PairedTest]
    """Tests of the methods against each baseline, measure by measure."""

    best: Leaders
    """The best method by the leading measure, and the p-values of its differences from the others."""

    n: int
    """Number of tests: distinct combinations of a measure and two methods."""


def tests_of(
    values: Mapping[tuple[str, str], EvaluationResult], baselines: Sequence[str], leading: str
) -> Tests:
    """Compare all methods with the baselines, and the best with all others, given results by measure and method.

    The best is that of the measure ``leading``. Holm's correction is for all tests.
    """
    measures, methods = (list(dict.fromkeys(names)) for names in zip(*values, strict=True))
    best = leaders({name: values[leading, name].per_query for name in methods})
    p_of: dict[tuple[str, frozenset[str]], float] = {}
    pairs = []
    for measure in measures:
        for k, baseline in enumerate(baselines):
            base = values[measure, baseline]
            for method in (name for name in methods if name not in (baseline, *baselines[:k])):
                of_method = values[measure, method]
                test, t = compare(of_method, base), compare(of_method, base, test="t")
                lower, upper = plain((t.lower, t.upper))
                pairs.append(
                    PairedTest(
                        measure=measure,
                        method=method,
                        baseline=baseline,
                        difference=test.mean_difference,
                        lower=lower,
                        upper=upper,
                        wins=test.wins,
                        losses=test.losses,
                        ties=test.ties,
                        p_value=test.p_value,
                        t_p_value=t.p_value,
                        randomization_p_value=compare(of_method, base, test="randomization").p_value,
                        holm=1.0,
                    )
                )
                p_of[measure, frozenset((method, baseline))] = test.p_value
    others = {name: (leading, frozenset((best.first[0], name))) for name in best.p_values}
    for name, pair in others.items():
        if pair not in p_of:
            p_of[pair] = compare(values[leading, best.first[0]], values[leading, name]).p_value
    adjusted = dict(zip(p_of, holm(list(p_of.values())).tolist(), strict=True)) if p_of else {}
    return Tests(
        [t._replace(holm=adjusted[t.measure, frozenset((t.method, t.baseline))]) for t in pairs],
        best._replace(p_values={name: adjusted[pair] for name, pair in others.items()}),
        len(p_of),
    )


def remarks(results: Results) -> list[str]:
    """Return a remark on each method whose C is at an end of the grid, beyond which a better C may lie."""
    found = []
    for m in (m for m in results.methods if len(m.cells[0]["grid"]) >= 3):
        grid = m.cells[0]["grid"]
        curves = [np.asarray(cell["validation"]).mean(axis=0) for cell in m.cells]
        for end, beside, word, verb in ((0, 1, "smallest", "smaller"), (-1, -2, "largest", "larger")):
            at_end = sum(
                cell["C"] == grid[end] and bool(means[end] > means[beside])
                for cell, means in zip(m.cells, curves, strict=True)
            )
            if at_end:
                found.append(
                    f"{m.name}: C = {grid[end]:g}, the {word} of the grid, was chosen in {at_end} of {len(m.cells)} "
                    f"folds: a {verb} C may rank better"
                )
    return found


class _Plan(NamedTuple):
    """The settings that all cells of a study share."""

    grid: list[float]
    measures: Measures
    training: Training
    fill: Fill
    columns: Mapping[str, Any]
    work: Path | None


def run(
    folds: Sequence[Fold],
    methods: Sequence[str],
    Cs: Sequence[float],
    *,
    measures: Measures | None = None,
    training: Training | None = None,
    baseline: str | Sequence[str] | None = None,
    fill: Fill = None,
    columns: Mapping[str, Any] | None = None,
    work: Path | None = None,
    n_jobs: int = 1,
    callback: Callable[[str, str, bool], object] | None = None,
) -> Results:
    """Train each method on each fold for each C, choose C on the validation part, and measure on the test part.

    Without ``measures``, those of :func:`usual_report` are reported. Without ``fill`` missing features are an error,
    unless all methods accept them. A baseline other than the methods is a feature, by name or number from 1, or the
    file of a model or a TREC run.
    """
    training = training or Training()
    tell: Callable[..., object] = callback or (lambda *_: None)
    names = list(dict.fromkeys(methods))
    grid = _checked(names, Cs, training)
    measures = measures or Measures(usual_report(names))
    measures.check()
    asked = [baseline] if isinstance(baseline, str) else baseline or names[:1]
    asked = list(dict.fromkeys(full_name(name) if full_name(name) in names else name for name in asked))
    if work is not None:
        Path(work).mkdir(parents=True, exist_ok=True)
    if fill is None and all(map(takes_missing, names)):
        fill = "keep"
    plan = _Plan(grid, measures, training, fill, columns or {}, None if work is None else Path(work))
    fixed = {name: _fixed(name, folds, plan) for name in asked if name not in names}
    baselines = tuple(fixed[name].name if name in fixed else name for name in asked)
    wanted = {(name, fold.name): (fold, _key(fold, name, plan)) for fold in folds for name in names}
    done: dict[tuple[str, str], dict[str, Any]] = {}
    for cell_name, (_, key) in wanted.items():
        if plan.work is not None and (cell := _found(_file(plan.work, key), key)) is not None:
            done[cell_name] = cell
            tell(*cell_name, True)
    reused = len(done)
    missing = [cell_name for cell_name in wanted if cell_name not in done]
    expected = sum(estimated_seconds(wanted[cell][0], cell[0], len(grid)) for cell in missing)
    n_jobs = n_jobs if expected >= PROCESSES_PAY_FROM else 1
    from joblib import Parallel, delayed

    train = Parallel(n_jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="all")
    for cell_name, cell in train(delayed(_compute)(*wanted[name], name, plan) for name in missing):
        done[cell_name] = cell
        tell(*cell_name, False)
    results = [
        MethodResult(name, tuple(done[name, fold.name] for fold in folds), measures.selection)
        for name in names
    ]
    return Results(
        (*results, *fixed.values()),
        measures,
        tuple(fold.name for fold in folds),
        baselines,
        reused,
        len(missing),
    )


PROCESSES_PAY_FROM = 20.0
"""Estimated training seconds above which several processes are used, as each takes about five seconds to start."""

_SECONDS_PER_MB = {"lcra": 0.1, "lambdarank": 0.2, "lambdarank-net": 0.2}  # measured on MQ2008
_OTHER_SECONDS_PER_MB = 0.01


def estimated_seconds(fold: Fold, name: str, n_Cs: int) -> float:
    """Estimate the training time of a method on a fold to an order of magnitude, by the size of its training files.

    The estimate, and so the number of processes, is the same on every machine.
    """
    queries = [0 if part.queries is None else len(part.queries) for part in fold.parts]
    share = queries[0] / sum(queries) if sum(queries) else 1.0
    megabytes = share * sum(size_of(file) for file in fold.train.files) / 1e6
    rate = _SECONDS_PER_MB.get(name, _OTHER_SECONDS_PER_MB)
    return megabytes * rate * (1 if name in WITHOUT_C else n_Cs)


def _checked(names: Sequence[str], Cs: Sequence[float], training: Training) -> list[float]:
    if not names:
        raise BadInput("methods", "expected at least one, got none")
    for name in names:
        check_method(name, relevance=training.relevance)
    grid = sorted({float(C) for C in Cs})
    if not grid or not all(0 < C < math.inf for C in grid):
        raise BadInput("C", f"expected finite numbers > 0, got {list(Cs)}")
    return grid


def _key(fold: Fold, name: str, plan: _Plan) -> dict[str, Any]:
    """Return everything that a cell depends on, including the version of the package."""
    return {
        "format": _FORMAT,
        "structsvm": __version__,
        "method": name,
        "Cs": list(plan.grid),
        "measures": asdict(plan.measures) | {"report": list(plan.measures.report)},
        "training": asdict(plan.training) | {"monotone": [list(sign) for sign in plan.training.monotone]},
        "fill": None if plan.fill == "keep" else plan.fill,  # studies with other methods share the cell
        "columns": {
            name: list(value) if isinstance(value, tuple) else value for name, value in plan.columns.items()
        },
        "parts": [
            {
                "files": list(map(checksum, part.files)),
                "queries": None if part.queries is None else list(part.queries),
            }
            for part in fold.parts
        ],
    }


def _file(work: Path, key: dict[str, Any]) -> Path:
    name = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:24]
    return work / f"{name}.json"


def _found(path: Path, key: dict[str, Any]) -> dict[str, Any] | None:
    try:
        content: dict[str, dict[str, Any]] = json.loads(path.read_bytes())
        if content["key"] == key:
            return content["cell"]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        pass
    warnings.warn(f"{path}: expected a result, got a damaged file; it is computed again", stacklevel=3)
    return None


def _compute(
    fold: Fold, key: dict[str, Any], cell_name: tuple[str, str], plan: _Plan
) -> tuple[tuple[str, str], dict[str, Any]]:
    """Train one cell and save it; runs in a separate process."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    # with more threads the order of sums could differ, and so could the order of a tie
    with threadpool_limits(1):
        cell = _cell(fold, cell_name[0], plan)
    if plan.work is not None:
        write_text(_file(plan.work, key), json.dumps({"key": key, "cell": cell}, allow_nan=False))
    return cell_name, cell


def _cell(fold: Fold, name: str, plan: _Plan) -> dict[str, Any]:
    measures = plan.measures
    data = load_fold(fold, plan.fill, plan.columns)
    select = measures.choosing(name)
    labels = data.train.y, data.train.qid
    check_distinguishes("select", select, lambda each: distinguishes(each, *labels, **measures.rules))

    def selected(part: QueryData, scores: Float) -> Any:
        return measures.values(select, part, scores, choosing=True).mean()

    check_method(name, relevance=plan.training.relevance)  # load the library before the timing starts
    candidates, per_candidate = [], []
    try:
        for candidate in walk(name, plan.grid, data.train, data.validation, plan.training, selected):
            scores = candidate.model.predict(data.validation.X, qid=data.validation.qid)
            candidates.append(candidate)
            per_candidate.append(measures.values(select, data.validation, scores, choosing=True))
    except ValueError as error:
        if not isinstance(error, BadInput):
            raise BadInput(f"{fold.name}, {name}", f"{error}") from None
        if error.argument == "monotone_constraints":
            raise  # the error concerns an option of the whole study
        raise error.within(f"{fold.name}, {name}") from None
    grid_tried, validation = [candidate.C for candidate in candidates], np.stack(per_candidate, axis=1)
    chosen = candidates[_chosen(grid_tried, validation, measures.selection)]
    tested = None
    if data.test is not None:
        scores = chosen.model.predict(data.test.X, qid=data.test.qid)
        values = {name: measures.values(name, data.test, scores) for name in measures.report}
        labels = data.test.y, data.test.qid
        constant = [name for name in measures.report if not distinguishes(name, *labels, **measures.rules)]
        tested = _tested(data.test, values) | {"constant": constant}
    return {
        "grid": grid_tried,
        "validation": validation.tolist(),
        "undefined": measures.undefined(select, data.validation),
        "C": chosen.C,
        "gap": None if chosen.gap is None else float(chosen.gap),
        "converged": bool(chosen.converged),
        "seconds": sum(candidate.seconds for candidate in candidates),
        "test": tested,
    }


def _chosen(grid: Sequence[float | None], values: Float, selection: Selection) -> int:
    """Return the index of the C to use; a method without C has one candidate."""
    if len(grid) == 1:
        return 0
    return list(grid).index(select_C(np.array(grid, dtype=np.float64), values, selection=selection))


def _tested(test: QueryData, values: Mapping[str, Float]) -> dict[str, Any]:
    return {
        "query_ids": test.query_ids.astype(str).tolist(),
        "values": {name: each.tolist() for name, each in values.items()},
    }
