"""Conventional names of the columns of click logs."""

from collections.abc import Sequence

from structsvm.common.checks import BadInput

USUAL = {
    "query": "q qid query_id user_query search_query search_term query_text keywords",
    "document": "doc docid doc_id document_id item item_id product product_id object_id",
    "position": "rank pos place ordinal",
    "clicked": "click clicks is_click is_clicked has_click",
}
"""Conventional column names of each role, besides the role itself; case is ignored."""


def guess(role: str, names: Sequence[str], source: str, usual: str | None = None, remedy: str = "") -> str:
    """Return the column whose name fits ``role``; raise an error with ``remedy`` if no column or several fit."""
    if role in names:
        return role
    words = (USUAL[role] if usual is None else usual).split()
    found = [name for name in names if name.strip().lower() in (role, *words)]
    if len(found) == 1:
        return found[0]
    if found:
        raise BadInput(
            source,
            f"expected one column for {role!r}, got {' and '.join(map(repr, found))}",
            remedy or f"name it with {{{role}}}",
        )
    check_columns([role], names, source, remedy)
    raise AssertionError("refused")


def check_columns(names: Sequence[str], found: Sequence[str], source: str, remedy: str = "") -> None:
    """Raise unless ``found`` contains all of ``names``."""
    missing = [repr(name) for name in names if name not in found]
    if missing:
        expected = f"columns {', '.join(missing)}" if len(missing) > 1 else f"a column {missing[0]}"
        shown = ", ".join(found[:10]) or "an empty file"
        remedy = remedy or "name the columns with {query}, {document}, {position}, {clicked}, {session}"
        raise BadInput(source, f"expected {expected}, got {shown}", remedy)
