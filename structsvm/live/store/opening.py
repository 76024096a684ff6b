"""Open a store by its URL."""

import os
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.exc import SQLAlchemyError

from structsvm.common.checks import BadInput
from structsvm.common.extras import extra, needed
from structsvm.live.contract.settings import sqlite_file
from structsvm.live.store import postgres, sqlite
from structsvm.live.store.queries import Store
from structsvm.live.store.rows import HotConnection
from structsvm.live.store.schema import VERSION, migrate, version_of


def open_database(url: str) -> Store:
    """Return the store at ``sqlite:///FILE`` or ``postgresql://...``; no connection is opened yet."""
    path = sqlite_file(url)
    if path is not None:
        return Store(*sqlite.engines(path))
    with needed("PostgreSQL", extra("live-postgres")):
        return Store(*postgres.engines(url))


def connector(url: str) -> Callable[[], HotConnection]:
    """Return a function that opens a connection for the writer."""
    path = sqlite_file(url)
    return (
        partial(postgres.PostgresConnection, url) if path is None else partial(sqlite.SqliteConnection, path)
    )


def prepare(url: str, *, upgrade: bool = False) -> tuple[int | None, int]:
    """Create the tables of an empty store, or check (or ``upgrade``) the schema; return its versions before and
    after."""
    path = sqlite_file(url)
    if path is not None:
        _make_file(path)
    store = open_database(url)
    try:
        with store.writing.begin() as connection:
            before = version_of(connection)
            if before is not None and before < VERSION and not upgrade:
                raise BadInput(
                    "store",
                    f"expected schema version {VERSION}, got {before}",
                    f"back it up, then structsvm live migrate --store {url}",
                )
            migrate(connection, before)
            return before, VERSION
    except (SQLAlchemyError, sqlite3.Error) as error:
        cause = getattr(error, "orig", None) or error
        raise BadInput(
            "store", f"expected a database at {without_password(url)}, got: {cause}".strip()
        ) from None
    finally:
        store.close()


def without_password(url: str) -> str:
    """Return the URL of a store in a form that may be shown."""
    return make_url(url).render_as_string(hide_password=True)


def _make_file(path: Path) -> None:
    if not path.parent.is_dir():
        raise BadInput(
            path, f"expected an existing folder, but '{path.parent}' does not exist", "create it first"
        )
    if path.is_dir():
        raise BadInput(path, "expected the name of a file, got a folder")
    # the file holds data of users, so only its owner may read it
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
