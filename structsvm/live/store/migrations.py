"""Steps from each version of the schema to the next."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, inspect, text

from structsvm.live.store import schema


def _to_2(connection: Connection) -> None:
    """Add the mark of late clicks, and the horizon that the closer announces before it reads."""
    run = connection.execute
    run(text("ALTER TABLE clicks ADD COLUMN late SMALLINT NOT NULL DEFAULT 0"))
    run(text("ALTER TABLE stats ADD COLUMN horizon BIGINT NOT NULL DEFAULT 0"))
    run(text("UPDATE stats SET horizon = watermark"))
    run(text("ALTER TABLE impressions ADD COLUMN elapsed_ms INTEGER"))
    run(text("ALTER TABLE experiments ADD COLUMN settled SMALLINT NOT NULL DEFAULT 0"))
    if connection.dialect.name == "sqlite":
        window = "json_extract(e.config, '$.window_s')"
    else:
        window = "CAST(CAST(e.config AS json) ->> 'window_s' AS double precision)"
    run(
        text(
            "UPDATE clicks SET late = 1 WHERE EXISTS (SELECT 1 FROM impressions i JOIN experiments e "
            "ON e.id = i.experiment WHERE i.seq = clicks.impression AND "
            f"clicks.at > i.shown_at + 1000 * {window})"
        )
    )
    run(text("CREATE INDEX clicks_late ON clicks (impression) WHERE late = 1"))
    schema.counters.create(connection)


def _to_3(connection: Connection) -> None:
    """Add the chance with which a unit took part, and the units that guardrails have counted."""
    run = connection.execute
    kind = "DOUBLE" if connection.dialect.name == "sqlite" else "DOUBLE PRECISION"
    run(text(f"ALTER TABLE impressions ADD COLUMN chance {kind}"))
    run(text("ALTER TABLE impressions ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0"))
    schema.units.create(connection)
    run(
        text(
            "INSERT INTO units SELECT DISTINCT i.experiment, i.unit, 0 FROM impressions i JOIN stats s "
            "ON s.experiment = i.experiment WHERE i.unit IS NOT NULL AND i.seq <= s.watermark"
        )
    )


STEPS: dict[int, Callable[[Connection], None]] = {1: _to_2, 2: _to_3}
"""The step from each version."""


def version_of(connection: Connection) -> int | None:
    """Return the version of the schema of a store; None for an empty one."""
    if not inspect(connection).has_table("meta"):
        return None
    found = connection.execute(text("SELECT value FROM meta WHERE name = 'schema'")).scalar()
    return None if found is None else int(found)


def migrate(connection: Connection) -> tuple[int | None, int]:
    """Bring a store to the present schema in the caller's transaction; return the versions before and after."""
    before = version_of(connection)
    if before is None:
        schema.tables.create_all(connection)
        connection.execute(schema.meta.insert(), [{"name": "schema", "value": str(schema.VERSION)}])
        return None, schema.VERSION
    if before > schema.VERSION:
        raise ValueError(
            f"store: expected schema version {schema.VERSION} or older, got {before}; update structsvm-ranking"
        )
    for version in range(before, schema.VERSION):
        STEPS[version](connection)
    connection.execute(
        schema.meta.update().where(schema.meta.c.name == "schema"), {"value": str(schema.VERSION)}
    )
    return before, schema.VERSION
