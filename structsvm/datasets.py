"""Data sets made on the spot, each with a known answer, and what is in a file that somebody has.

``list_datasets`` names what ``make`` can write; ``describe`` tells kind, counts, labels and oddities of LETOR texts,
stores, TREC runs and judgments, and JSON Lines.
"""

from __future__ import annotations

import inspect
import json
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from structsvm.protocols import Float
from structsvm.queries import QueryData

__all__ = ["Dataset", "Description", "describe", "list_datasets", "make", "make_runs"]

_BLOCK_BYTES = 1 << 20
_ROWS_AT_ONCE = 1 << 15


@dataclass(frozen=True)
class Dataset:
    """Something :func:`make` can write.

    Attributes
    ----------
    name : str
    writes : str
        "file" or "folder".
    summary : str
        What it is, and which answer is known.
    options : dict
        Its options with their defaults.
    """

    name: str
    writes: str
    summary: str
    options: dict[str, Any]


@dataclass(frozen=True)
class Description:
    """What a file holds.

    Attributes
    ----------
    path : str
    kind : {"letor", "store", "run", "qrels", "json-lines"}
    counts : dict of str to int
        Queries, rows, and what else the kind has.
    labels : dict of str to int
        Rows by label; empty where there are none.
    warnings : tuple of str
        What may surprise a trainer or a measure.
    """

    path: str
    kind: str
    counts: dict[str, int]
    labels: dict[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The same, ready for ``json.dumps``."""
        return asdict(self)


def list_datasets() -> tuple[Dataset, ...]:
    """What :func:`make` can write.

    Returns
    -------
    tuple of Dataset

    Examples
    --------
    >>> [dataset.name for dataset in list_datasets()]
    ['ranking', 'ranking-store', 'trec']
    """
    return tuple(
        Dataset(
            name,
            maker.writes,
            maker.summary,
            {p.name: p.default for p in list(inspect.signature(maker.write).parameters.values())[1:]},
        )
        for name, maker in _MAKERS.items()
    )


def make(name: str, path: str | PathLike[str], **options: Any) -> Path:
    """Write a made data set.

    Parameters
    ----------
    name : {"ranking", "ranking-store", "trec"}
        ``"ranking"``: a LETOR text, graded by a noisy linear model (:func:`structsvm.readers.make_ranking`; the true
        weights are those of :func:`structsvm.readers.planted_weights`). ``"ranking-store"``: the same model as a
        memory-mapped store, by default of the size of MSLR-WEB30K (2 GB), written in chunks. ``"trec"``: a folder
        with ``qrels.txt``, ``runs/*.run`` and ``fusion.json``, the weights of the best fusion (:func:`make_runs`).
    path : path
        A file or folder that does not exist yet. It appears when it is complete.
    **options
        Sizes, ``noise`` and ``random_state``: see :func:`list_datasets`. The same options give the same bytes.

    Returns
    -------
    Path
        ``path``.

    Raises
    ------
    ValueError
        For an unknown name or option, a value that is no number, or sizes that make no data.
    FileExistsError
        If something is at ``path``.
    OSError
        If it cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> path = make("ranking", Path(tempfile.mkdtemp(), "train.txt"), n_queries=3, n_docs=10)
    >>> describe(path).counts
    {'queries': 3, 'rows': 30, 'features': 5, 'shortest query': 10, 'longest query': 10}
    """
    if name not in _MAKERS:
        raise ValueError(f"name: expected one of {', '.join(_MAKERS)}, got {name!r}")
    write = _MAKERS[name].write
    known = list(inspect.signature(write).parameters)[1:]
    unknown = [option for option in options if option not in known]
    if unknown:
        raise ValueError(f"{name}: expected options among {', '.join(known)}, got {unknown[0]!r}")
    for option, value in options.items():
        default = inspect.signature(write).parameters[option].default
        whole = isinstance(default, int)
        if isinstance(value, bool) or not isinstance(value, Integral if whole else Real):
            raise ValueError(
                f"{option}: expected {'a whole number' if whole else 'a number'} such as {default}, got {value!r}"
            )
    path = Path(path)
    if path.exists():
        raise FileExistsError(
            f"{path}: expected a new path, got one that is taken; remove it or name another"
        )
    write(path, **options)
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
    """Made TREC runs and judgments whose best fusion is known.

    Each document has a standard normal utility ``u``; the best 5 % of a topic have grade 2, the next 15 % grade 1.
    Run ``r`` sees ``u`` plus normal noise of standard deviation ``s_r`` (evenly spaced from ``best_noise`` to
    ``worst_noise``), on a scale and with a shift of its own. Given the scores, the expected utility is increasing in
    ``sum_r scores_r / (s_r^2 scale_r)`` and its variance is the same for all documents, so no ranking is better in
    expectation than by these weights.

    Parameters
    ----------
    n_topics, n_docs, n_runs : int
        Every run ranks all ``n_docs`` documents of a topic.
    best_noise, worst_noise : float
    random_state : int

    Returns
    -------
    runs : list of structsvm.readers.Run
        Scores rounded to 4 digits after the point.
    qrels : structsvm.readers.Qrels
    weights : ndarray, shape (n_runs,)
        Of the raw scores, scaled to sum to one.

    Raises
    ------
    ValueError
        For counts below 1 or noise that is not positive.

    Examples
    --------
    >>> runs, qrels, weights = make_runs()
    >>> runs[0], qrels
    (Run('system0': 6 topics, 240 rows), Qrels(6 topics, 240 judgments, grades 0: 192, 1: 36, 2: 12))
    """
    from structsvm.readers.trec import Qrels, Run

    for name, count in (("n_topics", n_topics), ("n_docs", n_docs), ("n_runs", n_runs)):
        if count < 1:
            raise ValueError(f"{name}: expected at least 1, got {count}")
    if not (0 < best_noise <= worst_noise < np.inf):
        raise ValueError(
            f"worst_noise: expected 0 < best_noise <= worst_noise, got best_noise={best_noise}, "
            f"worst_noise={worst_noise}"
        )
    rng = np.random.default_rng(random_state)
    utility = rng.standard_normal((n_topics, n_docs))
    rank = np.argsort(np.argsort(-utility, axis=1), axis=1)
    grades = (rank < max(1, round(0.2 * n_docs))).astype(int) + (rank < round(0.05 * n_docs))
    topics = np.repeat(np.arange(1, n_topics + 1), n_docs)
    docid = [f"D{t:03d}-{d:04d}" for t in range(1, n_topics + 1) for d in range(n_docs)]
    noise = np.linspace(best_noise, worst_noise, n_runs)
    scale = 4.0 ** (np.arange(n_runs) % 3)
    runs = []
    for r in range(n_runs):
        seen = utility + noise[r] * rng.standard_normal(utility.shape)
        scores = np.round(scale[r] * seen + 10 * r, 4)
        runs.append(Run.from_arrays(topics, docid, scores.ravel(), tag=f"system{r}"))
    weights = 1.0 / (noise**2 * scale)
    return runs, Qrels.from_arrays(topics, docid, grades.ravel()), weights / weights.sum()


def describe(path: str | PathLike[str], **options: Any) -> Description:
    """Tell what a file holds, by its content.

    Parameters
    ----------
    path : path
        A LETOR or SVMlight text, a TREC run or judgments (judgments by subtopic too), JSON Lines, plain or
        compressed; or the folder of a store.
    **options
        Of :func:`structsvm.readers.read_letor`, for such a text.

    Returns
    -------
    Description

    Raises
    ------
    FileNotFoundError
        If nothing is there.
    ValueError
        If the first line is of no known format, or a later one is not of the first one's.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "qrels.txt")
    >>> _ = path.write_text("301 0 FT-1 1\\n301 0 FT-2 0\\n302 0 FT-3 -2\\n")
    >>> describe(path)
    Description(path='...qrels.txt', kind='qrels', counts={'topics': 2, 'judgments': 3, 'relevant': 1},
      labels={'-2': 1, '0': 1, '1': 1}, warnings=('1 topic has no relevant document', '1 judgment is negative'))
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: expected a file, or the folder of a store, got nothing there")
    if path.is_dir():
        from structsvm.readers.store import open_store

        if not (path / "meta.json").exists():
            held = sum(1 for _ in path.iterdir())
            raise ValueError(
                f"{path}: expected a file, or the folder of a store, got a folder of {held} entries; describe one"
            )
        return _describe_queries(path, "store", open_store(path))
    kind = _recognise(path)
    if kind == "letor":
        from structsvm.readers.letor import read_letor

        return _describe_queries(path, "letor", read_letor(path, **options))
    if options:
        raise ValueError(
            f"{path}: {', '.join(options)}: options of a LETOR text, got a file of kind {kind!r}"
        )
    return {"run": _describe_run, "qrels": _describe_qrels, "json-lines": _describe_json}[kind](path)


def _recognise(path: Path) -> str:
    """The kind of a text, by its first line that is neither blank nor a comment."""
    from structsvm.files import read_blocks
    from structsvm.readers.letor import shorten

    line = b""
    for block in read_blocks(path, _BLOCK_BYTES):
        lines = (piece.strip() for piece in block.tobytes().split(b"\n"))
        line = next((piece for piece in lines if piece and not piece.startswith(b"#")), b"")
        if line:
            break
    else:
        raise ValueError(f"{path}: expected data, got an empty file")
    words = line.split(None, 6)
    if line.startswith(b"{"):
        return "json-lines"
    if len(words) > 1 and re.match(rb"qid:|\d+:", words[1]):
        return "letor"
    if len(words) == 6:
        return "run"
    if len(words) == 4:
        return "qrels"
    raise ValueError(
        f"{path}: expected a LETOR text ('<grade> qid:<id> <k>:<v> ...'), a TREC run (6 columns), TREC judgments "
        f"(4 columns) or JSON Lines, got a file that begins {shorten(line[:200])}"
    )


def _describe_queries(path: Path, kind: str, data: QueryData) -> Description:
    lengths = np.diff(data.offsets)
    best = np.maximum.reduceat(data.y, data.offsets[:-1])
    worst = np.minimum.reduceat(data.y, data.offsets[:-1])
    warnings = [
        _says(int((lengths == 1).sum()), "query has", "queries have", "one document"),
        _says(int((best <= 0).sum()), "query has", "queries have", "no label above 0"),
        _says(int(((best == worst) & (best > 0)).sum()), "query has", "queries have", "equal labels above 0"),
        _says(_count_constant(data), "feature is", "features are", "constant"),
    ]
    counts = {"queries": data.n_queries, "rows": data.n_rows, "features": data.n_features}
    is_csr = sparse.issparse(data.X)
    if is_csr:
        counts["stored values"] = int(data.X.indptr[-1])
    counts |= {"shortest query": int(lengths.min()), "longest query": int(lengths.max())}
    return Description(str(path), kind, counts, _histogram(data.y), tuple(filter(None, warnings)))


def _count_constant(data: QueryData) -> int:
    """Features with one value in all rows; in blocks of rows, as a store may be larger than memory."""
    is_csr = sparse.issparse(data.X)
    low, high = np.full(data.n_features, np.inf), np.full(data.n_features, -np.inf)
    for first in range(0, data.n_rows, _ROWS_AT_ONCE):
        block: Any = data.X[first : first + _ROWS_AT_ONCE]
        if is_csr:
            least, most = block.min(axis=0).toarray().ravel(), block.max(axis=0).toarray().ravel()
        else:
            least, most = block.min(axis=0), block.max(axis=0)
        np.minimum(low, least, out=low)
        np.maximum(high, most, out=high)
    return int((low == high).sum())


def _describe_run(path: Path) -> Description:
    from structsvm.readers.trec import read_run

    run = read_run(path)
    lengths = np.diff(run.offsets)
    same = np.zeros(run.n_rows, dtype=np.bool_)
    same[1:] = run.scores[1:] == run.scores[:-1]
    same[run.offsets[:-1]] = False
    most = int(lengths.max())
    warnings = [
        _says(
            int(same.sum()), "document has", "documents have", "the score of the one before: order by docid"
        ),
        _says(int((lengths < most).sum()), "topic has", "topics have", f"fewer than {most} documents"),
    ]
    counts = {
        "topics": run.n_topics,
        "rows": run.n_rows,
        "shortest topic": int(lengths.min()),
        "longest topic": most,
    }
    return Description(str(path), "run", counts, {}, tuple(filter(None, warnings)))


def _describe_qrels(path: Path) -> Description:
    from structsvm.readers.trec import read_qrels

    try:
        qrels = read_qrels(path)
    except ValueError:  # documents with a judgment for each subtopic; if it is something else, it shows again
        qrels = read_qrels(path, subtopics=True)
    best = np.maximum.reduceat(qrels.grades, qrels.offsets[:-1])
    counts = {
        "topics": qrels.n_topics,
        "judgments": qrels.n_rows,
        "relevant": int((qrels.grades > 0).sum()),
    }
    warnings = [
        _says(int((best <= 0).sum()), "topic has", "topics have", "no relevant document"),
        _says(int((qrels.grades < 0).sum()), "judgment is", "judgments are", "negative"),
    ]
    if qrels.subtopic is not None:
        topic = np.repeat(qrels.topics, np.diff(qrels.offsets))
        counts["subtopics"] = len(set(zip(topic.tolist(), qrels.subtopic.tolist(), strict=True)))
        warnings.append("documents are judged by subtopic: read with subtopics=True")
    return Description(str(path), "qrels", counts, _histogram(qrels.grades), tuple(filter(None, warnings)))


def _describe_json(path: Path) -> Description:
    from structsvm.files import read_blocks
    from structsvm.readers.letor import shorten

    keys: Counter[str] = Counter()
    n_lines = n_records = 0
    for block in read_blocks(path, _BLOCK_BYTES):
        for line in block.tobytes().split(b"\n")[:-1]:
            n_lines += 1
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                record = None
            if not isinstance(record, dict):
                raise ValueError(
                    f"{path}:{n_lines}: expected a JSON object on each line, got {shorten(line[:200])}"
                )
            n_records += 1
            keys.update(record.keys())
    counts = {"records": n_records} | {f"with key {shorten(key)}": n for key, n in keys.most_common(30)}
    some = sum(1 for count in keys.values() if count < n_records)
    warnings = [_says(some, "key is", "keys are", "not in every record")]
    return Description(str(path), "json-lines", counts, {}, tuple(filter(None, warnings)))


def _histogram(values: Any) -> dict[str, int]:
    labels, counts = np.unique(values, return_counts=True)
    return {f"{label:g}": int(count) for label, count in zip(labels.tolist(), counts, strict=True)}


def _says(count: int, one: str, many: str, what: str) -> str:
    """A warning, or nothing where nothing is to be warned of."""
    return f"{count} {one if count == 1 else many} {what}" if count else ""


def _write_ranking(
    path: Path,
    n_queries: int = 20,
    n_docs: int = 15,
    n_features: int = 5,
    noise: float = 0.5,
    grades: int = 3,
    random_state: int = 0,
) -> None:
    from structsvm.readers.letor import write_letor
    from structsvm.readers.synthetic import make_ranking

    data = make_ranking(
        n_queries, n_docs, n_features, noise=noise, grades=grades, dtype=np.float32, random_state=random_state
    )
    write_letor(data, path)


def _write_ranking_store(
    path: Path,
    n_queries: int = 31_000,
    n_docs: int = 120,
    n_features: int = 136,
    noise: float = 0.5,
    grades: int = 5,
    random_state: int = 0,
) -> None:
    from structsvm.readers.synthetic import write_ranking_store

    write_ranking_store(
        path, n_queries, n_docs, n_features, noise=noise, grades=grades, random_state=random_state
    )


def _write_trec(
    path: Path,
    n_topics: int = 6,
    n_docs: int = 40,
    n_runs: int = 3,
    best_noise: float = 0.5,
    worst_noise: float = 1.5,
    random_state: int = 0,
) -> None:
    from structsvm.readers.trec import write_qrels, write_run

    runs, qrels, weights = make_runs(
        n_topics, n_docs, n_runs, best_noise=best_noise, worst_noise=worst_noise, random_state=random_state
    )
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        (part / "runs").mkdir(parents=True)
        for run in runs:
            write_run(run, part / "runs" / f"{run.tag}.run")
        write_qrels(qrels, part / "qrels.txt")
        known = {"best_weights": {run.tag: w for run, w in zip(runs, weights.tolist(), strict=True)}}
        (part / "fusion.json").write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")
        part.rename(path)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


@dataclass(frozen=True)
class _Maker:
    write: Callable[..., None]
    writes: str
    summary: str


_MAKERS = {
    "ranking": _Maker(
        _write_ranking, "file", "graded LETOR text from a noisy linear model; the true weights are known"
    ),
    "ranking-store": _Maker(
        _write_ranking_store,
        "folder",
        "the same model as a memory-mapped store, by default of the size of MSLR-WEB30K (2 GB)",
    ),
    "trec": _Maker(
        _write_trec, "folder", "TREC runs and judgments; the weights of the best fusion are known"
    ),
}
