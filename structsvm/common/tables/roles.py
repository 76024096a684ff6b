"""Roles of columns and their usual names: one table for all readers.

A reader first looks for its own name of a role, exactly and then without regard to case, blanks, ``_`` and ``-``; then
for the usual names of the role, in the same way. Several matches are refused. A name given by the user must match
exactly.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from structsvm.common.checks import BadInput
from structsvm.common.files import shorten
from structsvm.common.tables.batches import Table

USUAL = {
    "query": "qid query query_id q topic topic_id user_query search_query search_term query_text keywords",
    "document": "docid document document_id doc docno item item_id product product_id object_id",
    "label": "label grade relevance rel",
    "score": "score",
    "position": "position rank pos place ordinal",
    "clicked": "clicked click clicks is_click is_clicked has_click",
    "impression": "impression impression_id list list_id search_id request_id",
    "team": "team ranker source system config configuration search_config variant",
    "user": "user user_id client client_id customer customer_id",
    "session": "session session_id visit visit_id",
    "a": "a model_a generator_1",
    "b": "b model_b generator_2",
    "winner": "winner preference share",
    "winner_a": "winner_a winner_model_a",
    "winner_b": "winner_b winner_model_b",
    "winner_tie": "winner_tie",
    "question": "question question_id prompt_id",
    "judge": "judge judge_id annotator",
    "time": "time tstamp timestamp",
}
"""Usual column names of each role. All spellings of a name are equal: ``doc_id``, ``DocID`` and ``doc-id``."""

_MAY_BE_OTHERS = {
    "relevance",
    "rel",
    "item",
    "itemid",
    "product",
    "productid",
    "objectid",
    "place",
    "variant",
    "share",
    "userquery",
    "searchquery",
    "searchterm",
    "querytext",
    "keywords",
    "list",
    "listid",
    "searchid",
    "requestid",
    "source",
    "system",
    "config",
    "configuration",
    "searchconfig",
    "client",
    "clientid",
    "customer",
    "customerid",
    "annotator",
}
"""Usual names that may as well be those of other columns, such as features."""

on_guess: ContextVar[Callable[[BadInput], object]] = ContextVar("on_guess", default=lambda guess: None)
"""Function that is told which column was taken for a role although it may be another; the command line prints it."""

_SHOWN = 10
"""Number of columns that an error lists."""


def plain(name: str) -> str:
    """Return a name without case, blanks, ``_`` and ``-``."""
    return re.sub(r"[\s_-]+", "", name).lower()


def find_column(
    role: str,
    names: Sequence[str],
    source: Path | str,
    *,
    own: Sequence[str] = (),
    called: str = "",
    given: str | None = None,
    taken: Collection[str] = (),
    remedy: str = "",
) -> str | None:
    """Return the column of a role, or None if there is none.

    ``own`` are the names that the reader prefers, in order of precedence (default: the role); ``called`` is the name of
    the role in errors (default: the first of them). Columns in ``taken`` have another role, unless they are called
    exactly like one of ``own``. Raise if ``given`` is not a column, or if several columns fit.
    """
    own = own or (role,)
    called = called or own[0]
    if given is not None:
        if given not in names:
            raise without_column(given, called, names, source, remedy)
        return given
    if (exact := next((name for name in own if name in names), None)) is not None:
        return exact
    spelled: dict[str, list[str]] = {}
    for name in names:
        if name not in taken:
            spelled.setdefault(plain(name), []).append(name)
    usual = [plain(name) for name in USUAL[role].split()]
    for words in (*([plain(name)] for name in own), dict.fromkeys(usual)):
        found = [name for word in words for name in spelled.get(word, ())]
        if len(found) > 1:
            raise BadInput(
                source,
                f"expected one column for {called!r}, got {' and '.join(map(shorten, found))}",
                remedy or f"name it with {{{called}}}",
            )
        if found:
            if plain(found[0]) in _MAY_BE_OTHERS and plain(found[0]) not in map(plain, own):
                problem = f"the column {shorten(found[0])} is taken for the {called}"
                on_guess.get()(BadInput(source, problem, remedy or f"name another with {{{called}}}"))
            return found[0]
    return None


def column_of(role: str, names: Sequence[str], source: Path | str, **options: Any) -> str:
    """Return the column of a role as :func:`find_column` does; raise if there is none."""
    found = find_column(role, names, source, **options)
    if found is None:
        called = options.get("called") or (options.get("own") or (role,))[0]
        raise without_column(called, called, names, source, options.get("remedy", ""))
    return found


def find_columns(
    tables: Sequence[Table],
    roles: Mapping[str, str],
    *,
    given: Mapping[str, str],
    needed: Collection[str],
    by_columns: bool = True,
) -> dict[str, str]:
    """Return the columns of several ``roles``, keyed by the names by which a reader calls them, where there are any.

    ``given`` are names that the user stated, with ``by_columns`` in an argument ``columns``, otherwise in an argument
    for each role. Raise if a ``needed`` column is missing, or if a later table lacks a column of the first.
    """
    for called in given:
        if called not in roles:
            raise BadInput("columns", f"expected some of {', '.join(roles)}, got {called!r}")
    found: dict[str, str] = {}
    (first, *others), remedy = tables, ""
    for called, role in roles.items():
        if by_columns:
            few = ", ".join(USUAL[role].split()[:4])
            remedy = f"rename it to a usual name ({few}), or name it with {{columns}}, such as {called}=NAME"
        column = find_column(
            role,
            first.names,
            first.source,
            own=(called,),
            given=given.get(called),
            taken=given.values(),
            remedy=remedy,
        )
        if column is not None:
            found[called] = column
        elif called in needed:
            raise without_column(called, called, first.names, first.source, remedy)
    for table in others:
        for called, column in found.items():
            if column not in table.names:
                raise without_column(column, called, table.names, table.source, remedy)
    return found


def without_column(
    name: str, role: str, names: Sequence[str], source: Path | str, remedy: str = ""
) -> BadInput:
    """Return the error of a table without the column ``name`` of a role."""
    return BadInput(
        source,
        f"expected a column {name!r} for the {role}, got {name_some(names)}",
        remedy or f"name it with {{{role}}}",
    )


def name_some(names: Sequence[str]) -> str:
    """Return column names as text; if there are many, only the first of them."""
    shown = ", ".join(map(shorten, names[:_SHOWN])) or "an empty file"
    return f"{shown}, ... ({len(names)} columns)" if len(names) > _SHOWN else shown
