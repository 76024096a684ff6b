"""The tables, and the migrations from earlier versions. All times are the server's, in milliseconds."""

import sqlalchemy as sa

from structsvm.common.checks import BadInput

VERSION = 3
"""Version of the schema; ``migrate`` brings older stores to it."""

tables = sa.MetaData()

_big = sa.BigInteger().with_variant(sa.Integer, "sqlite")  # SQLite autoincrements only INTEGER columns

meta = sa.Table(
    "meta", tables, sa.Column("name", sa.Text, primary_key=True), sa.Column("value", sa.Text, nullable=False)
)

experiments = sa.Table(
    "experiments",
    tables,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("config", sa.Text, nullable=False),
    sa.Column("salt", sa.LargeBinary, nullable=False),  # salt of ids and random draws
    sa.Column("unit_key", sa.LargeBinary),  # key of hashed units; deleted when the experiment stops
    sa.Column("created_at", _big, nullable=False),
    # 1 if the closer has nothing left to do
    sa.Column("settled", sa.SmallInteger, nullable=False, server_default="0"),
    sa.UniqueConstraint("key", "revision"),
)

changes = sa.Table(
    "changes",
    tables,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("at", _big, nullable=False),
    sa.Column("who", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("what", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
)

impressions = sa.Table(
    "impressions",
    tables,
    sa.Column("seq", _big, primary_key=True, autoincrement=True),
    sa.Column("id", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("experiment", sa.Integer, sa.ForeignKey("experiments.id"), nullable=False),
    sa.Column("shown_at", _big, nullable=False),
    sa.Column("unit", sa.LargeBinary),
    sa.Column("serve", sa.Text, nullable=False),  # interleaved, same, control
    sa.Column("record", sa.Text, nullable=False),
    sa.Column("rankings", sa.Text),
    sa.Column("query", sa.Text),
    sa.Column("elapsed_ms", sa.Integer),
    sa.Column("chance", sa.Double),  # probability, when shown, that its unit takes part
    # number of earlier changes of the share
    sa.Column("epoch", sa.Integer, nullable=False, server_default="0"),
    sa.Index("impressions_of", "experiment", "seq"),
)

clicks = sa.Table(
    "clicks",
    tables,
    sa.Column("impression", _big, primary_key=True, autoincrement=False),
    sa.Column("place", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("action", sa.Text, primary_key=True),
    sa.Column("at", _big, nullable=False),
    sa.Column("dwell", sa.Float),
    sa.Column("late", sa.SmallInteger, nullable=False, server_default="0"),
    sa.Index(
        "clicks_late", "impression", sqlite_where=sa.text("late = 1"), postgresql_where=sa.text("late = 1")
    ),
    sqlite_with_rowid=False,
)

units = (
    sa.Table(  # units of closed impressions, each counted once for guardrails; emptied once all are closed
        "units",
        tables,
        sa.Column(
            "experiment", sa.Integer, sa.ForeignKey("experiments.id"), primary_key=True, autoincrement=False
        ),
        sa.Column("unit", sa.LargeBinary, primary_key=True),
        sa.Column("epoch", sa.Integer, nullable=False),
        sqlite_with_rowid=False,
    )
)

stats = sa.Table(
    "stats",
    tables,
    sa.Column(
        "experiment", sa.Integer, sa.ForeignKey("experiments.id"), primary_key=True, autoincrement=False
    ),
    sa.Column("horizon", _big, nullable=False),  # clicks on impressions up to this number are late
    sa.Column("watermark", _big, nullable=False),  # the state includes the impressions up to this number
    sa.Column("version", _big, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
)

series = sa.Table(
    "series",
    tables,
    sa.Column(
        "experiment", sa.Integer, sa.ForeignKey("experiments.id"), primary_key=True, autoincrement=False
    ),
    sa.Column("n", _big, primary_key=True, autoincrement=False),
    sa.Column("snapshot", sa.Text, nullable=False),
)

bandits = sa.Table(
    "bandits",
    tables,
    sa.Column(
        "experiment", sa.Integer, sa.ForeignKey("experiments.id"), primary_key=True, autoincrement=False
    ),
    sa.Column("version", _big, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
)

counters = sa.Table(
    "counters",
    tables,
    sa.Column(
        "experiment", sa.Integer, sa.ForeignKey("experiments.id"), primary_key=True, autoincrement=False
    ),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", _big, nullable=False),
)

keys = sa.Table(
    "keys",
    tables,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("hash", sa.LargeBinary, nullable=False),
    sa.Column("scope", sa.Text, nullable=False),
    sa.Column("created_at", _big, nullable=False),
    sa.Column("last_used_day", sa.Integer),
)


def _to_2(connection: sa.Connection) -> None:
    """Add the mark of late clicks, and the horizon that the closer announces before reading."""
    if connection.dialect.name == "sqlite":
        window = "json_extract(e.config, '$.window_s')"
    else:
        window = "CAST(CAST(e.config AS json) ->> 'window_s' AS double precision)"
    for statement in (
        "ALTER TABLE clicks ADD COLUMN late SMALLINT NOT NULL DEFAULT 0",
        "ALTER TABLE stats ADD COLUMN horizon BIGINT NOT NULL DEFAULT 0",
        "UPDATE stats SET horizon = watermark",
        "ALTER TABLE impressions ADD COLUMN elapsed_ms INTEGER",
        "ALTER TABLE experiments ADD COLUMN settled SMALLINT NOT NULL DEFAULT 0",
        "UPDATE clicks SET late = 1 WHERE EXISTS (SELECT 1 FROM impressions i JOIN experiments e "
        "ON e.id = i.experiment WHERE i.seq = clicks.impression AND "
        f"clicks.at > i.shown_at + 1000 * {window})",
        "CREATE INDEX clicks_late ON clicks (impression) WHERE late = 1",
    ):
        connection.exec_driver_sql(statement)
    counters.create(connection)


def _to_3(connection: sa.Connection) -> None:
    """Add the probability with which a unit took part, and the units that guardrails have counted."""
    kind = "DOUBLE" if connection.dialect.name == "sqlite" else "DOUBLE PRECISION"
    units.create(connection)
    for statement in (
        f"ALTER TABLE impressions ADD COLUMN chance {kind}",
        "ALTER TABLE impressions ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0",
        "INSERT INTO units SELECT DISTINCT i.experiment, i.unit, 0 FROM impressions i JOIN stats s "
        "ON s.experiment = i.experiment WHERE i.unit IS NOT NULL AND i.seq <= s.watermark",
    ):
        connection.exec_driver_sql(statement)


_STEPS = (_to_2, _to_3)
"""Migrations from version 1 on."""


def version_of(connection: sa.Connection) -> int | None:
    """Return the schema version of a store; None for an empty store."""
    if not sa.inspect(connection).has_table("meta"):
        return None
    found = connection.execute(sa.select(meta.c.value).where(meta.c.name == "schema")).scalar()
    return None if found is None else int(found)


def migrate(connection: sa.Connection, before: int | None) -> None:
    """Migrate a store, which may be empty, to the current schema in the caller's transaction."""
    if before is None:
        tables.create_all(connection)
        connection.execute(meta.insert(), [{"name": "schema", "value": str(VERSION)}])
        return
    if before > VERSION:
        raise BadInput(
            "store",
            f"expected schema version {VERSION} or older, got {before}",
            "install the version of structsvm that wrote it, or a later one",
        )
    for step in _STEPS[before - 1 :]:
        step(connection)
    connection.execute(meta.update().where(meta.c.name == "schema"), {"value": str(VERSION)})
