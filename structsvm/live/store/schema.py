"""The tables, and the steps to them from each version before. Every time is the server's, in milliseconds."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    inspect,
    select,
    text,
)

VERSION = 3
"""Version of the schema; ``migrate`` brings older stores to it."""

tables = MetaData()

_big = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows in an INTEGER only

meta = Table("meta", tables, Column("name", Text, primary_key=True), Column("value", Text, nullable=False))

experiments = Table(
    "experiments", tables,
    Column("id", Integer, primary_key=True),
    Column("key", Text, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("salt", LargeBinary, nullable=False),  # of ids and draws
    Column("unit_key", LargeBinary),  # of hashed units; deleted when the experiment stops
    Column("created_at", _big, nullable=False),
    Column("settled", SmallInteger, nullable=False, server_default="0"),  # 1: the closer has nothing left to do
    UniqueConstraint("key", "revision"),
)  # fmt: skip

changes = Table(
    "changes", tables,
    Column("id", Integer, primary_key=True),
    Column("at", _big, nullable=False),
    Column("who", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("what", Text, nullable=False),
    Column("reason", Text, nullable=False),
)  # fmt: skip

impressions = Table(
    "impressions", tables,
    Column("seq", _big, primary_key=True, autoincrement=True),
    Column("id", LargeBinary, nullable=False, unique=True),
    Column("experiment", Integer, ForeignKey("experiments.id"), nullable=False),
    Column("shown_at", _big, nullable=False),
    Column("unit", LargeBinary),
    Column("serve", Text, nullable=False),  # interleaved, same, control
    Column("record", Text, nullable=False),
    Column("rankings", Text),
    Column("query", Text),
    Column("elapsed_ms", Integer),
    Column("chance", Double),  # with which its unit took part, as the share was when it was shown
    Column("epoch", Integer, nullable=False, server_default="0"),  # changes of the share before it was shown
    Index("impressions_of", "experiment", "seq"),
)  # fmt: skip

clicks = Table(
    "clicks", tables,
    Column("impression", _big, primary_key=True, autoincrement=False),
    Column("place", Integer, primary_key=True, autoincrement=False),
    Column("action", Text, primary_key=True),
    Column("at", _big, nullable=False),
    Column("dwell", Float),
    Column("late", SmallInteger, nullable=False, server_default="0"),
    Index("clicks_late", "impression", sqlite_where=text("late = 1"), postgresql_where=text("late = 1")),
    sqlite_with_rowid=False,
)  # fmt: skip

units = Table(  # those of closed impressions, as each counts once for guardrails; emptied once all is closed
    "units", tables,
    Column("experiment", Integer, ForeignKey("experiments.id"), primary_key=True, autoincrement=False),
    Column("unit", LargeBinary, primary_key=True),
    Column("epoch", Integer, nullable=False),
    sqlite_with_rowid=False,
)  # fmt: skip

stats = Table(
    "stats", tables,
    Column("experiment", Integer, ForeignKey("experiments.id"), primary_key=True, autoincrement=False),
    Column("horizon", _big, nullable=False),  # clicks on impressions up to it are late
    Column("watermark", _big, nullable=False),  # impressions up to it are in the state
    Column("version", _big, nullable=False),
    Column("state", Text, nullable=False),
)  # fmt: skip

series = Table(
    "series", tables,
    Column("experiment", Integer, ForeignKey("experiments.id"), primary_key=True, autoincrement=False),
    Column("n", _big, primary_key=True, autoincrement=False),
    Column("snapshot", Text, nullable=False),
)  # fmt: skip

bandits = Table(
    "bandits", tables,
    Column("experiment", Integer, ForeignKey("experiments.id"), primary_key=True, autoincrement=False),
    Column("version", _big, nullable=False),
    Column("state", Text, nullable=False),
)  # fmt: skip

counters = Table(
    "counters", tables,
    Column("experiment", Integer, ForeignKey("experiments.id"), primary_key=True, autoincrement=False),
    Column("name", Text, primary_key=True),
    Column("value", _big, nullable=False),
)  # fmt: skip

keys = Table(
    "keys", tables,
    Column("id", Text, primary_key=True),
    Column("hash", LargeBinary, nullable=False),
    Column("scope", Text, nullable=False),
    Column("created_at", _big, nullable=False),
    Column("last_used_day", Integer),
)  # fmt: skip


def _to_2(connection: Connection) -> None:
    """Add the mark of late clicks, and the horizon that the closer announces before it reads."""
    run = connection.exec_driver_sql
    run("ALTER TABLE clicks ADD COLUMN late SMALLINT NOT NULL DEFAULT 0")
    run("ALTER TABLE stats ADD COLUMN horizon BIGINT NOT NULL DEFAULT 0")
    run("UPDATE stats SET horizon = watermark")
    run("ALTER TABLE impressions ADD COLUMN elapsed_ms INTEGER")
    run("ALTER TABLE experiments ADD COLUMN settled SMALLINT NOT NULL DEFAULT 0")
    if connection.dialect.name == "sqlite":
        window = "json_extract(e.config, '$.window_s')"
    else:
        window = "CAST(CAST(e.config AS json) ->> 'window_s' AS double precision)"
    run(
        "UPDATE clicks SET late = 1 WHERE EXISTS (SELECT 1 FROM impressions i JOIN experiments e "
        "ON e.id = i.experiment WHERE i.seq = clicks.impression AND "
        f"clicks.at > i.shown_at + 1000 * {window})"
    )
    run("CREATE INDEX clicks_late ON clicks (impression) WHERE late = 1")
    counters.create(connection)


def _to_3(connection: Connection) -> None:
    """Add the chance with which a unit took part, and the units that guardrails have counted."""
    run = connection.exec_driver_sql
    kind = "DOUBLE" if connection.dialect.name == "sqlite" else "DOUBLE PRECISION"
    run(f"ALTER TABLE impressions ADD COLUMN chance {kind}")
    run("ALTER TABLE impressions ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0")
    units.create(connection)
    run(
        "INSERT INTO units SELECT DISTINCT i.experiment, i.unit, 0 FROM impressions i JOIN stats s "
        "ON s.experiment = i.experiment WHERE i.unit IS NOT NULL AND i.seq <= s.watermark"
    )


_STEPS = (_to_2, _to_3)
"""From version 1 on."""


def version_of(connection: Connection) -> int | None:
    """Return the version of the schema of a store; None for an empty one."""
    if not inspect(connection).has_table("meta"):
        return None
    found = connection.execute(select(meta.c.value).where(meta.c.name == "schema")).scalar()
    return None if found is None else int(found)


def migrate(connection: Connection, before: int | None) -> None:
    """Bring a store of some version, or an empty one, to the present schema in the caller's transaction."""
    if before is None:
        tables.create_all(connection)
        connection.execute(meta.insert(), [{"name": "schema", "value": str(VERSION)}])
        return
    if before > VERSION:
        said = f"expected schema version {VERSION} or older, got {before}; update structsvm-ranking"
        raise ValueError(f"store: {said}")
    for step in _STEPS[before - 1 :]:
        step(connection)
    connection.execute(meta.update().where(meta.c.name == "schema"), {"value": str(VERSION)})
