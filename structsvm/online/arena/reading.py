"""Reader of tables with one row per vote."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from structsvm.common.checks import BadInput
from structsvm.common.event_order import by_time
from structsvm.common.files import shorten
from structsvm.common.tables.batches import Role
from structsvm.common.tables.roles import find_column, without_column
from structsvm.online.arena.votes import Votes

_ROLES = ("a", "b", "winner", "question", "judge", "time")
_POSITIONS = {"a": 1.0, "model_a": 1.0, "b": 0.0, "model_b": 0.0}
_TIES = ("tie", "tie (bothbad)", "both", "both_bad", "draw")
_FORMS = "'a', 'b', 'tie', the name of a model or of its column, or the share of a, from 0 to 1"


def read_votes(source: Any, *, columns: Mapping[str, str] | None = None) -> Votes:
    """Read pairwise votes from a table with one row per vote.

    Parameters
    ----------
    source : path, frame or mapping
        CSV, TSV, JSON lines, Parquet, a pandas or polars frame, an Arrow table, or a mapping of columns, with

        ======================= ====================================================================================
        ``a``, ``b``            the models, of which ``a`` was shown first; or ``model_a``, ``model_b``
        ``winner``              ``a``, ``b``, ``tie``, the name of a model or its column, or the share of ``a``
        ``question``, ``judge`` optional: votes on one question (or by one judge) depend on each other
        ``time``                optional: the votes are sorted by time; by default they keep the order of rows
        ======================= ====================================================================================
    columns : mapping of str to str, optional
        Names of columns by role, if they differ from the above, such as ``{"a": "left", "b": "right"}``.

    Returns
    -------
    Votes

    Raises
    ------
    BadInput
        If a winner is unknown, a model is compared with itself, a name or time is missing, or a share is outside
        [0, 1]; the message names the row.

    Examples
    --------
    >>> votes = read_votes({"a": ["x", "y"], "b": ["y", "x"], "winner": ["x", "tie"]})
    >>> votes.models, votes.share
    (['x', 'y'], array([1. , 0.5]))
    """
    from structsvm.common.tables.columns import ids, is_number, numbers, texts, times
    from structsvm.common.tables.opening import open_tables

    first: list[str] = []
    second: list[str] = []
    share: list[float] = []
    more: dict[str, list[Any]] = {"question": [], "judge": [], "time": []}
    unit, used = None, None
    # several tables form one arena, so they need the same columns and times in the same unit
    for table in open_tables(source):
        names = _columns(table, columns or {})
        if used is not None and set(names) != used:
            raise BadInput(table.source, f"expected columns {sorted(used)}, as before, got {sorted(names)}")
        used = set(names)
        roles: dict[str, Role] = {
            name: "time" if role == "time" else "category" for role, name in names.items()
        }
        for batch in table.read(roles):
            a, b = (_models(batch, names[side], texts, ids) for side in "ab")
            # numbers are shares; a text column may mix names, positions and shares
            winner = names["winner"]
            sides = {names["a"].lower(): 1.0, names["b"].lower(): 0.0} | _POSITIONS
            if batch.written is None and is_number(batch.columns[winner].type):
                words: list[Any] = numbers(batch, winner, _FORMS).tolist()
            else:
                words = texts(batch, winner).to_pylist()
            for row, (one, other, word) in enumerate(zip(a, b, words, strict=True)):
                if one == other:
                    raise batch.wrong(row, names["b"], "a different model from column a", repr(other))
                share.append(_share(batch, row, winner, sides, one, other, word))
            first += a
            second += b
            for role in ("question", "judge"):
                if role in names:
                    more[role] += texts(batch, names[role]).to_pylist()
            if "time" in names:
                seconds, unit = times(batch, names["time"], unit)
                if np.isnan(seconds).any():
                    raise batch.wrong(int(np.isnan(seconds).argmax()), names["time"], "a time", "none")
                more["time"] += seconds.tolist()
    # the evidence depends on the order of the votes; models are numbered by first appearance in that order
    order = by_time(more["time"] or np.zeros(len(share)))
    models = list(dict.fromkeys(model for k in order for model in (first[k], second[k])))
    number = {model: k for k, model in enumerate(models)}
    questions, question = _coded([more["question"][k] for k in order] if more["question"] else [])
    return Votes(
        models,
        np.array([number[first[k]] for k in order], dtype=np.int64),
        np.array([number[second[k]] for k in order], dtype=np.int64),
        np.array(share)[order],
        question,
        _coded([more["judge"][k] for k in order] if more["judge"] else [])[1],
        questions,
    )


def _columns(table: Any, given: Mapping[str, str]) -> dict[str, str]:
    """Return the column name of each role that the table contains."""
    for role in given:
        if role not in _ROLES:
            raise BadInput("columns", f"expected keys among {', '.join(_ROLES)}, got {role!r}")
    names = {}
    for role in _ROLES:
        remedy = f"name it with {{columns}}, such as {role}=NAME"
        name = find_column(
            role, table.names, table.source, given=given.get(role), taken=given.values(), remedy=remedy
        )
        if name is not None:
            names[role] = name
        elif role in ("a", "b", "winner"):
            raise without_column(role, role, table.names, table.source, remedy)
    return names


def _models(batch: Any, name: str, texts: Any, ids: Any) -> list[str]:
    """Return the names of the models of a batch; ``ids`` refuses missing and unusable names."""
    ids(batch, name, "a model")
    return texts(batch, name).to_pylist()


def _share(
    batch: Any, row: int, column: str, sides: Mapping[str, float], first: str, second: str, word: Any
) -> float:
    """Return the share that ``first`` won, according to a cell of the column ``winner``."""
    # A cell may be a position, a name or a number. "b" is ambiguous if the model of that name was shown first.
    if isinstance(word, str):
        position = sides.get(word.lower())
        name = 1.0 if word == first else 0.0 if word == second else None
        if name is not None and position is not None and name != position:
            raise batch.wrong(
                row,
                column,
                "one meaning",
                f"{word!r}, a position and the other model's name",
                "write model_a and model_b",
            )
        if name is not None or position is not None:
            return name if name is not None else position  # type: ignore[return-value]
        if word.lower() in _TIES:
            return 0.5
    try:
        share = float(word)
    except ValueError:
        share = np.nan
    if not 0.0 <= share <= 1.0:
        got = shorten(word) if isinstance(word, str) else repr(word)
        raise batch.wrong(row, column, _FORMS, got if word == word and word != "" else "none")
    return share


def _coded(words: list[str]) -> tuple[tuple[str, ...], Any]:
    """Return the distinct words and the code of each entry, or ((), None) if all entries are empty."""
    if not any(words):  # an empty column counts as missing
        return (), None
    known = {word: k for k, word in enumerate(dict.fromkeys(words))}
    codes = np.array([known[word] for word in words], dtype=np.int64)
    missing = np.array([word == "" for word in words])
    # each vote without a word has its own code, since it depends on no other vote
    codes[missing] = len(known) + np.arange(int(missing.sum()))
    return tuple(known), codes
