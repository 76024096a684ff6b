"""The tables. Every time is the server's, in milliseconds."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
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
    text,
)

VERSION = 3
"""Version of the schema; ``migrations`` brings older stores to it."""

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
