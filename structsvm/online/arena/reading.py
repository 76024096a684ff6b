"""Reader of tables with one row per vote."""

from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np

from structsvm.common.checks import BadInput
from structsvm.common.event_logs import Dropped, by_time
from structsvm.common.files import shorten
from structsvm.common.tables.batches import Batch, Role
from structsvm.common.tables.columns import id_texts, ids, look, number_of, numbers, texts, times
from structsvm.common.tables.ids import IdColumn
from structsvm.common.tables.opening import open_tables
from structsvm.common.tables.roles import find_columns, without_column
from structsvm.online.arena.votes import Votes

_ONE_HOT = ("winner_a", "winner_b", "winner_tie")
"""Roles of columns of 0 and 1 that stand for a column of winners."""

_ROLES = ("a", "b", "winner", *_ONE_HOT, "question", "judge", "time")
_IDS = ("a", "b", "question", "judge")
_POSITIONS = {"a": 1.0, "model_a": 1.0, "b": 0.0, "model_b": 0.0}
_TIES = frozenset(("tie", "tie (bothbad)", "both", "bothbad", "both_bad", "both bad", "equal", "draw"))
_NONE = frozenset(("", "nan", "null", "error"))
"""Winners of answers of a judge that could not be parsed."""

_FORMS = "'a', 'b', 'tie', the name of a model or of its column, or the share of a, from 0 to 1"


def read_votes(source: object, *, columns: Mapping[str, str] | None = None) -> Votes:
    """Read pairwise votes from a table with one row per vote.

    Parameters
    ----------
    source : path, frame or mapping
        CSV, TSV, JSON lines, Parquet, a pandas or polars frame, an Arrow table, or a mapping of columns, with

        ======================= ====================================================================================
        ``a``, ``b``            the models, of which ``a`` was shown first; or ``model_a``, ``model_b``
        ``winner``              ``a``, ``b``, ``tie``, the name of a model or its column, or the share of ``a``; or one
                                column of 0 and 1 for each: ``winner_a``, ``winner_b`` and, if there, ``winner_tie``;
                                or ``winner_model_a`` and so on
        ``question``, ``judge`` optional: votes on one question (or by one judge) depend on each other
        ``time``                optional: the votes are sorted by time; by default they keep the order of rows
        ======================= ====================================================================================
    columns : mapping of str to str, optional
        Names of columns by role, if they differ from the above, such as ``{"a": "left", "b": "right"}``.

    Returns
    -------
    Votes
        ``dropped`` counts the votes without a winner, which are left out: an empty cell, ``nan``, ``null`` or
        ``error``, as judges leave them whose answer could not be parsed.

    Raises
    ------
    BadInput
        If a winner is unknown or has two meanings, a model is compared with itself, a name or time is missing, or a
        share is outside [0, 1]; the message names the row.

    Notes
    -----
    A cell of ``winner`` means the same in every format. ``both``, ``bothbad``, ``tie (bothbad)``, ``equal`` and
    ``draw`` are ties: that both answers are bad says nothing about their order. Numbers are shares of ``a`` if all are
    from 0 to 1; if all are from 1 to 2, as in AlpacaEval, 1 means ``a``, 2 means ``b`` and 1.5 a tie. Models may be
    numbered: a number that is a model of its row is its name, and refused if it is also a share in favour of the other.

    Examples
    --------
    >>> votes = read_votes({"a": ["x", "y"], "b": ["y", "x"], "winner": ["x", "tie"]})
    >>> votes.models, votes.share
    (['x', 'y'], array([1. , 0.5]))
    """

    arrays: dict[str, list[Any]] = {role: [] for role in _IDS}
    columns_of_ids: dict[str, IdColumn] = {}
    winners: list[tuple[Batch, Mapping[str, str], Mapping[str, float], list[Any]]] = []
    seen: list[float] = []
    unit, used = None, None
    # several tables form one arena, so they need the same columns and times in the same unit
    for table in open_tables(source):
        names = _columns(table, columns or {})
        if used is not None and set(names) != used:
            raise BadInput(table.source, f"expected columns {sorted(used)}, as before, got {sorted(names)}")
        used = set(names)
        if not columns_of_ids:  # a and b hold the same models
            columns_of_ids = {
                role: IdColumn(table.source, names[role], missing=role not in "ab")
                for role in _IDS
                if role in names
            }
            columns_of_ids["b"] = columns_of_ids["a"]
        kinds: dict[str, Role] = {
            **dict.fromkeys(_ONE_HOT, "number"),
            **dict.fromkeys(_IDS, "id"),
            "time": "time",
        }
        for batch in table.read({name: kinds.get(role, "category") for role, name in names.items()}):
            for role, column in columns_of_ids.items():
                what = "a model" if role in "ab" else f"the id of a {role}"
                arrays[role].append(
                    look(column, ids(batch, names[role], what, missing=role not in "ab"), batch)
                )
            sides = {names["a"].lower(): 1.0, names["b"].lower(): 0.0} | _POSITIONS
            if "winner" in names:
                words = texts(batch, names["winner"]).to_pylist()
            else:
                words = _one_hot(batch, {role: names[role] for role in _ONE_HOT if role in names})
            winners.append((batch, names, sides, words))
            if "time" in names:
                seconds, unit = times(batch, names["time"], unit)
                if np.isnan(seconds).any():
                    raise batch.wrong(int(np.isnan(seconds).argmax()), names["time"], "a time", "none")
                seen += seconds.tolist()
    read = {role: id_texts(column, arrays[role]) for role, column in columns_of_ids.items()}
    first, second = read.get("a", []), read.get("b", [])
    share = np.array(_shares(winners, list(zip(first, second, strict=True))))
    dropped = Dropped()
    dropped.count("vote without a winner", np.isnan(share).sum())
    # the evidence depends on the order of the votes; models are numbered by first appearance in that order
    order = by_time(seen or np.zeros(len(share)))
    order = order[~np.isnan(share[order])]
    models = list(dict.fromkeys(model for k in order for model in (first[k], second[k])))
    index = {model: k for k, model in enumerate(models)}
    questions, question = _coded([read["question"][k] for k in order] if "question" in read else [])
    judges, judge = _coded([read["judge"][k] for k in order] if "judge" in read else [])
    return Votes(
        models=models,
        first=np.array([index[first[k]] for k in order], dtype=np.int64),
        second=np.array([index[second[k]] for k in order], dtype=np.int64),
        share=share[order],
        question=question,
        judge=judge,
        questions=questions,
        dropped=dropped,
        judges=judges,
    )


def _columns(table: Any, given: Mapping[str, str]) -> dict[str, str]:
    """Return the column name of each role that the table contains."""
    names = find_columns([table], {role: role for role in _ROLES}, given=given, needed=("a", "b"))
    if "winner" not in names and not {"winner_a", "winner_b"} <= set(names):
        raise without_column(
            "winner", "winner", table.names, table.source, "name it with {columns}, such as winner=NAME"
        )
    return {role: name for role, name in names.items() if role not in _ONE_HOT or "winner" not in names}


def _one_hot(batch: Batch, names: Mapping[str, str]) -> list[float]:
    """Return the outcome of each row (1, 0 or 0.5) from one-hot columns of winners; NaN if all are 0 or missing."""

    marks = np.nan_to_num([numbers(batch, name, "0 or 1") for name in names.values()])
    for name, values in zip(names.values(), marks, strict=True):
        batch.refuse_first(~np.isin(values, (0, 1)), name, "0 or 1", values)
    if (several := marks.sum(axis=0) > 1).any():
        row = int(several.argmax())
        last = [name for name, value in zip(names.values(), marks[:, row], strict=True) if value][-1]
        raise batch.wrong(row, last, "one winner per row", "another 1")
    return list(np.select(list(marks == 1), [1.0, 0.0, 0.5][: len(marks)], np.nan).tolist())


def _shares(
    winners: list[tuple[Batch, Mapping[str, str], Mapping[str, float], list[Any]]],
    pairs: list[tuple[str, str]],
) -> list[float]:
    """Return the share that the first model of each pair won, NaN without a winner.

    What a number means depends on all numbers of the column.
    """
    cells = [word for *_, words in winners for word in words]
    scale = _scale(cells, pairs)
    share = []
    rest = iter(zip(cells, pairs, strict=True))
    for batch, names, sides, words in winners:
        column = names.get("winner", "")
        for row, (cell, (first, second)) in enumerate(islice(rest, len(words))):
            if first == second:
                raise batch.wrong(row, names["b"], "a different model from column a", repr(second))
            if not isinstance(cell, str):
                share.append(cell)
                continue
            word = cell.lower()
            won = 1.0 if _same(cell, first) else 0.0 if _same(cell, second) else None
            meaning = sides.get(word, scale.get(cell))
            if won is not None and meaning is not None and won != meaning:
                raise batch.wrong(
                    row,
                    column,
                    f"one meaning, not both {'a position' if word in sides else 'a share'} and the name of the "
                    "other model",
                    repr(cell),
                    "write model_a and model_b",
                )
            won = won if won is not None else meaning
            if won is None and word not in _TIES | _NONE:
                raise batch.wrong(row, column, _FORMS, shorten(cell))
            share.append(won if won is not None else 0.5 if word in _TIES else np.nan)
    return share


def _scale(cells: list[Any], pairs: list[tuple[str, str]]) -> dict[str, float]:
    """Return the share that each number of the column of winners means."""

    parsed = {cell: number_of(cell) for cell in set(cells) if isinstance(cell, str)}
    values = {cell: value for cell, value in parsed.items() if value is not None and not np.isnan(value)}
    if values and min(values.values()) >= 1 and max(values.values()) <= 2:
        return {cell: 2.0 - value for cell, value in values.items()}
    shares = {cell: value for cell, value in values.items() if 0 <= value <= 1}
    other = values.keys() - shares.keys()
    named = [
        any(_same(c, model) for model in pair) for c, pair in zip(cells, pairs, strict=True) if c in other
    ]
    # some numbers can only be models, such as 5 of models 1 to 5: so no number is a share
    return {} if named and all(named) else shares


def _same(cell: str, model: str) -> bool:
    """Return whether a cell is the name of a model; 1.0, as pandas writes a column with gaps, is 1."""
    return cell == model or _whole(cell) == _whole(model)


def _whole(word: str) -> str:
    digits = word.removesuffix(".0")
    return digits if digits.isdigit() else word


def _coded(words: list[str]) -> tuple[tuple[str, ...], Any]:
    """Return the distinct words and the code of each entry, or ((), None) if all entries are empty."""
    if not any(words):  # an empty column counts as missing
        return (), None
    known = {word: k for k, word in enumerate(dict.fromkeys(words))}
    codes = np.array([known[word] for word in words], dtype=np.int64)
    missing = np.array([word == "" for word in words])
    # each vote with an empty entry gets a code of its own, since it shares no question or judge with another vote
    codes[missing] = len(known) + np.arange(int(missing.sum()))
    return tuple(known), codes
