"""Where impressions, clicks and statistics are kept: SQLite by default, PostgreSQL by URL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.live.store.opening import open_database as open_database
    from structsvm.live.store.queries import Store as Store
    from structsvm.live.store.writer import Writer as Writer

__getattr__, __dir__, __all__ = attach(__name__)
