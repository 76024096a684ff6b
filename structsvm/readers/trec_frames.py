"""Runs and judgments from and to data frames and nested dictionaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from structsvm.checks import BadInput
from structsvm.common.frames import frame
from structsvm.readers.trec import ByTopic, rows_of_topics

TOPICS = ("topic", "qid", "query_id", "q_id", "query")
DOCUMENTS = ("docid", "docno", "doc_id", "document")
"""Names of columns in trec_eval, PyTerrier, ir_measures and ranx."""


def column_of(table: Any, what: str, given: str | None, usual: Sequence[str]) -> Any:
    """Return a column of a frame, by its name or by the only usual one that is there."""
    there = list(table.columns)
    names = [name for name in usual if name in there] if given is None else [given]
    if len(names) != 1 or names[0] not in there:
        expected = (
            f"expected the column {given!r}" if given else f"expected one of the columns {', '.join(usual)}"
        )
        raise BadInput(
            "frame", f"{expected} for the {what}, got {', '.join(map(str, there))}", f"name it by {{{what}}}"
        )
    return table[names[0]].to_numpy()


def rows_of_dict(nested: Mapping[Any, Mapping[Any, Any]]) -> tuple[list[Any], list[Any], list[Any]]:
    """Return topics, documents and numbers of ``{topic: {document: number}}``."""
    rows = [
        (topic, docid, value) for topic, documents in nested.items() for docid, value in documents.items()
    ]
    if not rows:
        raise BadInput("nested", "expected topics with documents, got none")
    topics, documents, values = zip(*rows, strict=True)
    return list(topics), list(documents), list(values)


def nested_dict(rows: ByTopic, values: Any) -> dict[str, dict[str, Any]]:
    """Return ``{topic: {document: number}}`` of a run or of judgments."""
    return {
        topic: dict(zip(rows.docid[here].tolist(), values[here].tolist(), strict=True))
        for topic, here in rows_of_topics(rows).items()
    }


def frame_of(rows: ByTopic, **columns: Any) -> Any:
    """Return a pandas frame of a run or of judgments with further columns."""
    return frame({"topic": np.repeat(rows.topics, np.diff(rows.offsets)), "docid": rows.docid, **columns})
