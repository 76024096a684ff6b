"""Click logs of interleaving (``structsvm.online``) as counts."""

from __future__ import annotations

from os import PathLike

from structsvm.checks import BadInput
from structsvm.clicks.batches import Batches
from structsvm.clicks.cells import ClickCells

__all__ = ["cells_of_log"]


def cells_of_log(log: object) -> ClickCells:
    """Count a click log of ``structsvm.online``.

    The coins of interleaving move documents between positions, so such a log determines propensities, as far as the
    rankers differ a little (two unrelated ones connect positions badly).

    Parameters
    ----------
    log : ClickLog or path
        A path is read by :func:`structsvm.online.statistics.read_log`.

    Returns
    -------
    ClickCells
        With sessions. Lists without feedback are left out and counted.

    Raises
    ------
    BadInput
        If an impression has no query.

    Examples
    --------
    >>> from structsvm.online.interleaving import Shown
    >>> from structsvm.online.clicklog import Click, ClickLog, Impression
    >>> shown = Shown("team_draft", ("a", "b"), 2, ((0, 1),))
    >>> cells_of_log(ClickLog.of([Impression(shown, (Click(2),), query="q")]))
    ClickCells(1 queries, 2 rows, 2 cells, 2 shows, 1 clicks)
    """
    from structsvm.online.clicklog import ClickLog, read_log

    if not isinstance(log, ClickLog):
        if not isinstance(log, (str, PathLike)):
            raise BadInput("log", f"expected a ClickLog or a path, got {log!r:.60}")
        log = read_log(log)  # type: ignore[arg-type]
    batches = Batches("log")
    batches.drop("list without feedback", log.n_missing_feedback)
    batches.drop("list without a record", log.n_missing_record)
    for number, impression in enumerate(log.impressions):
        if impression.query is None:
            raise BadInput(
                log.place(number), "expected the id of the query, got none", "log it with the list"
            )
        documents = [str(d) for d in impression.shown.documents]
        batches.add(
            str(impression.query), documents, range(1, len(documents) + 1), impression.clicked.tolist()
        )
    return batches.cells()
