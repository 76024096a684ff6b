"""Files in, :class:`structsvm.queries.QueryData` out.

All text files are read by the same rules. They are plain, gzip, bzip2 or xz, told by their first bytes, and UTF-8; a
byte order mark at the beginning is skipped. Refused, with file and line, are ids that are not UTF-8 or hold a NUL byte,
a byte order mark further down, numbers that are not finite and a line of more than 32 MB. A compressed file with more
than 64 MB of text and more than 200 times its size is refused as a decompression bomb; ``max_expansion=`` of the
readers of LETOR, TREC and candidate files allows more, and so does ``structsvm --max-expansion N ...`` for every
command.

The names below load their module when first used: the text parser is compiled, and ``import structsvm`` stays
light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from structsvm.readers.candidate_sets import (
        LabelledSets,
        judged_candidates,
        read_ambient,
        read_aspects,
        read_candidates,
        write_candidates,
    )
    from structsvm.readers.conversion import convert_letor
    from structsvm.readers.letor import read_letor, write_letor
    from structsvm.readers.pool import Candidates, JudgedRows, candidates, judge_run
    from structsvm.readers.qrels import Qrels, read_qrels, write_qrels
    from structsvm.readers.runs import Run, read_run, write_run
    from structsvm.readers.store import StoreWriter, check_store, open_store, read_queries, write_store
    from structsvm.readers.synthetic import make_ranking, planted_weights, write_ranking_store

__all__ = [
    "Candidates",
    "JudgedRows",
    "LabelledSets",
    "Qrels",
    "Run",
    "StoreWriter",
    "candidates",
    "check_store",
    "convert_letor",
    "judge_run",
    "judged_candidates",
    "make_ranking",
    "open_store",
    "planted_weights",
    "read_ambient",
    "read_aspects",
    "read_candidates",
    "read_letor",
    "read_qrels",
    "read_queries",
    "read_run",
    "write_candidates",
    "write_letor",
    "write_qrels",
    "write_ranking_store",
    "write_run",
    "write_store",
]

_HOME = {
    "read_letor": "letor",
    "write_letor": "letor",
    "StoreWriter": "store",
    "convert_letor": "conversion",
    "check_store": "store",
    "open_store": "store",
    "read_queries": "store",
    "write_store": "store",
    "make_ranking": "synthetic",
    "planted_weights": "synthetic",
    "write_ranking_store": "synthetic",
    "LabelledSets": "candidate_sets",
    "judged_candidates": "candidate_sets",
    "read_ambient": "candidate_sets",
    "read_aspects": "candidate_sets",
    "read_candidates": "candidate_sets",
    "write_candidates": "candidate_sets",
    "Candidates": "pool",
    "JudgedRows": "pool",
    "candidates": "pool",
    "judge_run": "pool",
    "Qrels": "qrels",
    "Run": "runs",
    "read_qrels": "qrels",
    "read_run": "runs",
    "write_qrels": "qrels",
    "write_run": "runs",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
