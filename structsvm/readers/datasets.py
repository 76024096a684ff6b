"""Data sets to try: synthetic ones, for each of which the correct answer is known, and real ones."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structsvm import readers  # its names load on first use
from structsvm.common.checks import BadInput, check_choice, check_positive, check_whole
from structsvm.common.extras import needed
from structsvm.common.files import AnyPath, destination, new_folder
from structsvm.protocols import Float
from structsvm.queries import QueryData


def digit_pairs(queries: NDArray[np.int64], candidates: NDArray[np.int64]) -> QueryData:
    """Return the task of finding images of the same digit among the candidates.

    The features are the absolute differences of the pixels, and a candidate with the same digit is relevant.
    """
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = (digits.images / 16.0).reshape(-1, 64).astype(np.float32)
    X = np.abs(images[queries][:, None, :] - images[candidates][None, :, :]).reshape(-1, 64)
    y = (digits.target[queries][:, None] == digits.target[candidates][None, :]).astype(np.float64).ravel()
    names = tuple(f"pixel {i},{j}" for i in range(1, 9) for j in range(1, 9))
    return QueryData.from_arrays(X, y, np.repeat(queries, candidates.shape[0]), feature_names=names)


def write_digits(path: Path, *, n_queries: int, n_docs: int, random_state: int) -> None:
    """Write the task for random images of scikit-learn's digits as LETOR text."""
    for name, value in (("n_queries", n_queries), ("n_docs", n_docs)):
        check_whole(name, value, 1, 800)
    order = np.random.default_rng(random_state).permutation(1797)
    readers.write_letor(digit_pairs(order[:n_queries], order[n_queries : n_queries + n_docs]), path)


def write_ir_dataset(path: Path, *, id: str) -> None:
    """Write the judgments, and the run if there is one, of a data set of ir_datasets."""
    with needed("ir_datasets", "ir-datasets"):
        import ir_datasets  # type: ignore[import-not-found]
    try:
        found: Any = ir_datasets.load(id)
    except KeyError:
        raise BadInput(
            "id", "expected a name of ir_datasets, such as 'msmarco-passage/trec-dl-2020/judged'", value=id
        ) from None
    if not found.has_qrels():
        raise BadInput("id", "expected a data set with judgments", value=id)
    with new_folder(path) as part:
        judged = zip(*((q.query_id, q.doc_id, q.relevance) for q in found.qrels_iter()), strict=True)
        readers.write_qrels(readers.Qrels.from_arrays(*judged), part / "qrels.txt")
        if found.has_scoreddocs():
            scored = zip(*((s.query_id, s.doc_id, s.score) for s in found.scoreddocs_iter()), strict=True)
            (part / "runs").mkdir()
            run = readers.Run.from_arrays(*scored, tag="scoreddocs")
            readers.write_run(run, part / "runs" / "scoreddocs.run")


__all__ = ["Dataset", "list_datasets", "make_dataset", "make_runs"]


@dataclass(frozen=True)
class Dataset:
    """A data set that :func:`make_dataset` can write."""

    name: str
    writes: str
    summary: str
    options: dict[str, Any]

    def lines(self) -> list[str]:
        """Return the fields as lines of text."""
        options = " ".join(f"{key}={value}" for key, value in self.options.items())
        return [f"{self.name} ({self.writes}): {self.summary}", f"    {options}"]


def list_datasets() -> tuple[Dataset, ...]:
    """Return the data sets that :func:`make_dataset` can write.

    Returns
    -------
    tuple of Dataset
        Each with ``name``; ``writes``, "file" or "folder"; ``summary``, including the true solution where it is
        known; and ``options``, a dict of the options with their defaults.

    Examples
    --------
    >>> [dataset.name for dataset in list_datasets()]
    ['ranking', 'ranking-store', 'trec', 'digits', 'ir_datasets']
    >>> first = list_datasets()[0]
    >>> first.writes, sorted(first.options)[:3]
    ('file', ['grades', 'n_docs', 'n_features'])
    """
    return tuple(replace(dataset, options=dict(dataset.options)) for dataset, _ in _MAKERS.values())


def make_dataset(name: str, path: AnyPath, **options: object) -> Path:
    """Write a synthetic or a real data set.

    Parameters
    ----------
    name : {"ranking", "ranking-store", "trec", "digits", "ir_datasets"}
        ``"ranking"``: LETOR text, graded by a noisy linear model (:func:`structsvm.readers.make_ranking`; the true
        weights are those of ``structsvm.readers.synthetic.planted_weights``). ``"ranking-store"``: the same model as a
        memory-mapped store, by default of the size of MSLR-WEB30K (2 GB), written in chunks. ``"trec"``: a folder
        with ``qrels.txt``, ``runs/*.run`` and ``fusion.json``, the weights of the best fusion (:func:`make_runs`).
        ``"digits"``: LETOR text, in which images of scikit-learn's digits are ranked by their pixels.
        ``"ir_datasets"``: a folder with ``qrels.txt``, and ``runs/scoreddocs.run`` if there is a run, of the data set
        ``id`` of the package ir_datasets, such as ``"msmarco-passage/trec-dl-2020/judged"``.
    path : path
        A file or folder that does not exist yet. It is created only when it is complete.
    **options
        Sizes, ``noise`` and ``random_state``: see :func:`list_datasets`. The same options give the same bytes.

    Returns
    -------
    Path
        ``path``.

    Raises
    ------
    ValueError
        For an unknown name or option, a value that is not a number, or impossible sizes.
    FileExistsError
        If ``path`` exists.
    OSError
        If the data set cannot be written.

    Examples
    --------
    >>> from structsvm.readers import describe
    >>> describe(make_dataset("ranking", "train.txt", n_queries=3, n_docs=10)).counts
    {'queries': 3, 'rows': 30, 'features': 5, 'shortest query': 10, 'longest query': 10}
    """
    check_choice("name", name, _MAKERS)
    dataset, write = _MAKERS[name]
    for option in options:
        if option not in dataset.options:
            raise BadInput(name, f"expected options among {', '.join(dataset.options)}, got {option!r}")
    check_whole("random_state", options.get("random_state", 0), 0)
    path = Path(path)
    destination(path)  # raises for an impossible path before any work
    if path.exists():
        raise FileExistsError(f"{path}: expected a new path, got one that exists; remove it or name another")
    write(path, **{**dataset.options, **options})
    return path


def make_runs(
    n_topics: int = 6,
    n_docs: int = 40,
    n_runs: int = 3,
    *,
    best_noise: float = 0.5,
    worst_noise: float = 1.5,
    random_state: int = 0,
) -> tuple[list[Any], Any, Float]:
    """Return synthetic TREC runs and judgments whose best fusion is known.

    Each document has a standard normal utility ``u``; the best 5 % of a topic have grade 2, the next 15 % grade 1.
    Run ``r`` sees ``u`` plus normal noise of standard deviation ``s_r`` (evenly spaced from ``best_noise`` to
    ``worst_noise``), with its own scale and shift. Given the scores, the expected utility is increasing in
    ``sum_r scores_r / (s_r^2 scale_r)`` and its variance is the same for all documents, so in expectation no ranking is
    better than the one with these weights.

    Parameters
    ----------
    n_topics, n_docs, n_runs : int
        Numbers of topics, of documents per topic and of runs; every run ranks all documents of a topic.
    best_noise, worst_noise : float
        Standard deviations of the noise of the first and the last run.
    random_state : int
        Seed.

    Returns
    -------
    runs : list of structsvm.readers.Run
        Scores are rounded to 4 decimals.
    qrels : structsvm.readers.Qrels
        Grades of all documents.
    weights : ndarray, shape (n_runs,)
        Best weights of the raw scores, scaled to sum to one.

    Examples
    --------
    >>> runs, qrels, weights = make_runs()
    >>> runs[0], qrels
    (Run('system0': 6 topics, 240 rows), Qrels(6 topics, 240 judgments, grades 0: 192, 1: 36, 2: 12))
    """
    for name, count in (("n_topics", n_topics), ("n_docs", n_docs), ("n_runs", n_runs)):
        check_whole(name, count)
    check_positive("best_noise", best_noise)
    check_positive("worst_noise", worst_noise)
    if best_noise > worst_noise:
        raise BadInput(
            "worst_noise",
            f"expected 0 < best_noise <= worst_noise, got best_noise={best_noise}, worst_noise={worst_noise}",
        )
    rng = np.random.default_rng(random_state)
    utility = rng.standard_normal((n_topics, n_docs))
    best_first = np.argsort(-utility, axis=1, kind="stable")
    rank = np.argsort(best_first, axis=1, kind="stable")
    grades = (rank < max(1, round(0.2 * n_docs))).astype(int) + (rank < round(0.05 * n_docs))
    topics = np.repeat(np.arange(1, n_topics + 1), n_docs)
    docid = [f"D{t:03d}-{d:04d}" for t in range(1, n_topics + 1) for d in range(n_docs)]
    noise = np.linspace(best_noise, worst_noise, n_runs)
    scale = np.array([1.0, 4.0, 16.0])[np.arange(n_runs) % 3]
    runs = []
    for r in range(n_runs):
        noisy = utility + noise[r] * rng.standard_normal(utility.shape)
        scores = np.round(scale[r] * noisy + 10 * r, 4)
        runs.append(readers.Run.from_arrays(topics, docid, scores.ravel(), tag=f"system{r}"))
    weights = 1.0 / (noise**2 * scale)
    return runs, readers.Qrels.from_arrays(topics, docid, grades.ravel()), weights / weights.sum()


def _write_trec(path: Path, **options: Any) -> None:
    runs, qrels, weights = make_runs(**options)
    with new_folder(path) as part:
        (part / "runs").mkdir()
        for run in runs:
            readers.write_run(run, part / "runs" / f"{run.tag}.run")
        readers.write_qrels(qrels, part / "qrels.txt")
        answer = {"best_weights": {run.tag: w for run, w in zip(runs, weights.tolist(), strict=True)}}
        (part / "fusion.json").write_text(json.dumps(answer, indent=2) + "\n", encoding="utf-8")


_RANKING = {"n_queries": 20, "n_docs": 15, "n_features": 5, "noise": 0.5, "grades": 3, "random_state": 0}
_STORE = _RANKING | {"n_queries": 31_000, "n_docs": 120, "n_features": 136, "grades": 5}
_TREC = {
    "n_topics": 6,
    "n_docs": 40,
    "n_runs": 3,
    "best_noise": 0.5,
    "worst_noise": 1.5,
    "random_state": 0,
}

_MADE: tuple[tuple[Dataset, Callable[..., None]], ...] = (
    (
        Dataset(
            "ranking",
            "file",
            "graded LETOR text from a noisy linear model; the true weights are known",
            _RANKING,
        ),
        lambda path, **options: readers.write_letor(readers.make_ranking(**options, dtype=np.float32), path),
    ),
    (
        Dataset(
            "ranking-store",
            "folder",
            "the same model as a memory-mapped store, by default of the size of MSLR-WEB30K (2 GB)",
            _STORE,
        ),
        lambda path, **options: readers.write_ranking_store(path, **options),
    ),
    (
        Dataset("trec", "folder", "TREC runs and judgments; the weights of the best fusion are known", _TREC),
        _write_trec,
    ),
    (
        Dataset(
            "digits",
            "file",
            "handwritten digits of scikit-learn (UCI, Alpaydin and Kaynak): find images of the same digit; LETOR text",
            {"n_queries": 100, "n_docs": 50, "random_state": 0},
        ),
        write_digits,
    ),
    (
        Dataset(
            "ir_datasets",
            "folder",
            "judgments and run of a data set of the package ir_datasets, which downloads it from its authors",
            {"id": ""},
        ),
        write_ir_dataset,
    ),
)
_MAKERS = {dataset.name: (dataset, write) for dataset, write in _MADE}
