"""A fitted click model as a user of ``structsvm.online``: the documents of one query are its grades."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from structsvm.checks import BadInput
from structsvm.online.users.click_tables import ClickTables, TableClicks
from structsvm.protocols import Float, Int

if TYPE_CHECKING:
    from structsvm.clicks.cells import ClickCells


@dataclass(frozen=True, eq=False)
class TableUser(TableClicks):
    """Simulated user by tables of shape (n_documents, longest); a "grade" is the number of a document.

    Attributes
    ----------
    click_table, stop_after_click, stop_after_skip : ndarray of float64, shape (n_documents, longest)
        As in ``ClickTables`` of ``structsvm.online``.
    """

    click_table: Float
    stop_after_click: Float
    stop_after_skip: Float

    def tables(self, length: int) -> ClickTables:
        """Return the model as tables for lists of ``length`` documents."""
        longest = self.click_table.shape[1]
        if length > longest:
            raise BadInput("length", f"expected at most {longest} documents, as in the log", value=length)
        return ClickTables(
            *(t[:, :length] for t in (self.click_table, self.stop_after_click, self.stop_after_skip))
        )


def rows_of_query(cells: ClickCells, query: Any) -> Int:
    """Return the rows of the query with this id; raise if the log has none."""
    at = np.flatnonzero(cells.query_ids == query)
    if at.shape[0] != 1:
        raise BadInput("query", "expected the id of a query of the log", value=query)
    return np.arange(cells.offsets[at[0]], cells.offsets[at[0] + 1])
