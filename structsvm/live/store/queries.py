"""All database queries except the frequent inserts of lists and clicks."""

import json
import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, Select, bindparam, delete, func, select, text, update

from structsvm.live.contract.bodies import WATCHED, Change
from structsvm.live.contract.config import continued, same_meaning
from structsvm.live.store import schema
from structsvm.live.store.postgres import LOCK
from structsvm.live.store.records import (
    ACKNOWLEDGED,
    FORGOTTEN,
    ClosingProgress,
    ExperimentRow,
    StoredImpression,
    duels_of,
    shown_of,
)
from structsvm.protocols import Duel

_e, _i, _c, _s = schema.experiments.c, schema.impressions.c, schema.clicks.c, schema.stats.c
_m, _u, _b, _k = schema.meta.c, schema.units.c, schema.bandits.c, schema.keys.c

_COUNTED = text(
    "INSERT INTO units (experiment, unit, epoch) VALUES (:experiment, :unit, :epoch) "
    "ON CONFLICT (experiment, unit) DO UPDATE SET epoch = excluded.epoch"
)
_ADDED = text(
    "INSERT INTO counters (experiment, name, value) VALUES (:experiment, :name, :n) "
    "ON CONFLICT (experiment, name) DO UPDATE SET value = counters.value + excluded.value"
)
_NEW = text("INSERT INTO meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO NOTHING")
_NUMBERED = text(
    "INSERT INTO meta (name, value) VALUES ('changes', :value) "
    "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
_ORPHANS = text(
    "SELECT count(*) FROM clicks c LEFT JOIN impressions i ON i.seq = c.impression WHERE i.seq IS NULL"
)


class Store:
    """A database: statements of ``reading`` commit separately; transactions of ``writing`` wait for other writers."""

    def __init__(self, reading: Engine, writing: Engine) -> None:
        self.reading, self.writing = reading, writing
        self._is_postgres = writing.dialect.name == "postgresql"

    def close(self) -> None:
        """Close all connections."""
        self.reading.dispose()
        self.writing.dispose()

    def _rows(self, query: Select[Any]) -> Sequence[Any]:
        with self.reading.connect() as connection:
            return connection.execute(query).all()

    def _one(self, query: Select[Any]) -> Any:
        """Return the single value of a query; None if there is no row."""
        with self.reading.connect() as connection:
            return connection.execute(query).scalar()

    def _count(self, *where: Any) -> int:
        """Return the number of rows that satisfy all conditions."""
        return int(self._one(select(func.count()).where(*where)))

    # ---- experiments -------------------------------------------------------------------------------------------

    def change_number(self) -> int:
        """Return a number that grows with every change of an experiment or its state."""
        return int(self._one(select(_m.value).where(_m.name == "changes")) or 0)

    def experiments(self, *, newest: bool = True) -> list[ExperimentRow]:
        """Return all experiments by key and revision; with ``newest`` the last revision of each."""
        with self.reading.connect() as connection:
            return _experiments(connection, newest=newest)

    def put(
        self,
        key: str,
        config: Mapping[str, Any],
        *,
        now: int,
        who: str,
        what: str = "",
        fresh: bool | None = None,
        state: str | None = None,
    ) -> ExperimentRow:
        """Store the configuration of an experiment: in place, or as a new revision if its meaning changes.

        ``fresh`` selects a new revision, which starts in ``state``: by default in that of the last revision if it is
        running or paused, otherwise as a draft.
        """
        with self.writing.begin() as connection:
            found = [row for row in _experiments(connection, newest=True) if row.key == key]
            old = found[0] if found else None
            config = {name: value for name, value in config.items() if name != "epoch"}
            if fresh is None:
                fresh = old is None or old.state == "stopped" or not same_meaning(old.config, config)
            if old is not None and not fresh:
                _set(connection, old.id, config=json.dumps(continued(old.config, config)))
            else:
                if old is not None:
                    _set(connection, old.id, state="stopped", unit_key=None)
                going = old is not None and old.state in ("running", "paused")
                made = connection.execute(
                    schema.experiments.insert()
                    .values(
                        key=key,
                        revision=1 if old is None else old.revision + 1,
                        state=state or (old.state if old is not None and going else "draft"),
                        config=json.dumps(config),
                        salt=secrets.token_bytes(16),
                        unit_key=secrets.token_bytes(16),
                        created_at=now,
                        settled=0,
                    )
                    .returning(_e.id)
                )
                fresh_state = {"experiment": made.scalar_one(), "version": 0, "state": ""}
                connection.execute(schema.stats.insert().values(**fresh_state, horizon=0, watermark=0))
                if config["kind"] == "bandit":
                    connection.execute(schema.bandits.insert().values(fresh_state))
            what = what or ("created" if old is None else "new revision" if fresh else "changed")
            self._log(connection, now, who, key, what, "")
            return next(row for row in _experiments(connection, newest=True) if row.key == key)

    def set_state(self, experiment: int, state: str, *, now: int, who: str, reason: str) -> bool:
        """Set the state of an experiment; stopping deletes the key of its units. Return False if nothing changed."""
        with self.writing.begin() as connection:
            row = connection.execute(select(_e.state, _e.key).where(_e.id == experiment)).one()
            if row.state == state or row.state == "stopped":
                return False
            ended = {"unit_key": None} if state == "stopped" else {}
            _set(connection, experiment, state=state, settled=0, **ended)
            # starting a killed experiment acknowledges the reason for killing it
            if (row.state, state) == ("killed", "running"):
                _add(connection, {(experiment, f"{ACKNOWLEDGED}{name}"): 1 for name in WATCHED})
            self._log(connection, now, who, row.key, f"{row.state} -> {state}", reason)
        return True

    def acknowledge(
        self,
        experiment: int,
        guardrails: Sequence[str],
        counts: Mapping[str, int],
        *,
        now: int,
        who: str,
        reason: str,
    ) -> None:
        """Record that alarms were acknowledged: add to the counters that restart these guardrails."""
        with self.writing.begin() as connection:
            key = connection.execute(select(_e.key).where(_e.id == experiment)).scalar_one()
            _add(connection, {(experiment, name): n for name, n in counts.items()})
            self._log(connection, now, who, key, f"acknowledged {', '.join(guardrails)}", reason)

    def _log(self, connection: Connection, now: int, who: str, key: str, what: str, reason: str) -> None:
        connection.execute(schema.changes.insert().values(at=now, who=who, key=key, what=what, reason=reason))
        number = connection.execute(select(func.max(schema.changes.c.id))).scalar()
        connection.execute(_NUMBERED, {"value": str(number)})

    def changes(self, key: str) -> list[Change]:
        """Return who changed an experiment, when and why; newest first."""
        query = select(schema.changes).where(schema.changes.c.key == key).order_by(schema.changes.c.id.desc())
        return [Change(*row) for row in self._rows(query.limit(100))]

    def changed_at(self, key: str) -> int:
        """Return the time of the last change of an experiment; 0 if never changed."""
        return int(self._one(select(func.max(schema.changes.c.at)).where(schema.changes.c.key == key)) or 0)

    # ---- impressions -------------------------------------------------------------------------------------------

    def last_shown_at(self) -> int:
        """Return the time of the last impression; 0 if there is none."""
        return int(self._one(select(_i.shown_at).order_by(_i.seq.desc()).limit(1)) or 0)

    def documents(self, ids: Sequence[bytes]) -> dict[bytes, list[str]]:
        """Return the documents of impressions, keyed by the ids of the impressions."""
        rows = self._rows(select(_i.id, _i.record).where(_i.id.in_(ids)))
        return {row.id: json.loads(row.record)["documents"] for row in rows}

    def impressions(
        self, experiment: int, after: int, upto: int | None, limit: int | None = None, *, late: bool = False
    ) -> list[StoredImpression]:
        """Return impressions with ``after < seq <= upto`` in their order, with their clicks in the order of time."""
        columns = [_i[name] for name in StoredImpression._fields if name != "clicks"]
        query = select(*columns).where(_i.experiment == experiment, _i.seq > after)
        if upto is not None:
            query = query.where(_i.seq <= upto)
        rows = self._rows(query.order_by(_i.seq).limit(limit))
        if not rows:
            return []
        config = json.loads(self._one(select(_e.config).where(_e.id == experiment)))
        of: dict[int, list[Any]] = {row.seq: [] for row in rows}
        own = _c.impression.between(rows[0].seq, rows[-1].seq), _c.late <= int(late)
        clicked = select(schema.clicks).where(*own)
        for impression, *click in self._rows(clicked.order_by(_c.impression, _c.at, _c.place, _c.action)):
            if impression in of:
                of[impression].append(tuple(click))
        return [
            StoredImpression._make([*row, tuple(of[row.seq])])._replace(record=shown_of(row.record, config))
            for row in rows
        ]

    def n_after(self, experiment: int, seq: int) -> int:
        """Return the number of impressions after ``seq``."""
        return self._count(_i.experiment == experiment, _i.seq > seq)

    def first_after(self, experiment: int, seq: int) -> int | None:
        """Return the time of the first impression after ``seq``; None if there is none."""
        query = select(_i.shown_at).where(_i.experiment == experiment, _i.seq > seq).order_by(_i.seq).limit(1)
        found: int | None = self._one(query)
        return found

    def oldest_open(self) -> dict[int, int]:
        """Return the time of the oldest unclosed impression by experiment, without closed experiments."""
        first = select(_i.shown_at).where(_i.experiment == _s.experiment, _i.seq > _s.watermark)
        oldest = first.order_by(_i.seq).limit(1).scalar_subquery()
        query = select(_s.experiment, oldest).join(schema.experiments, _e.id == _s.experiment)
        return {row[0]: row[1] for row in self._rows(query.where(_e.settled == 0)) if row[1] is not None}

    def n_late(self, experiment: int) -> int:
        """Return the number of late clicks on an experiment's impressions."""
        return self._count(_c.late == 1, _i.seq == _c.impression, _i.experiment == experiment)

    def forget(self, experiment: int, unit: bytes) -> int:
        """Unlink a unit from its impressions, and delete its queries; return the number of impressions.

        The impressions get a common mark, so that exports can leave them out.
        """
        with self.writing.begin() as connection:
            found = connection.execute(
                update(schema.impressions)
                .where(_i.experiment == experiment, _i.unit == unit)
                .values(unit=FORGOTTEN, query=None, rankings=None)
            )
            connection.execute(delete(schema.units).where(_u.experiment == experiment, _u.unit == unit))
        return int(found.rowcount)

    def n_forgotten(self, experiment: int) -> int:
        """Return the number of lists, except those of the control, whose unit was forgotten."""
        return self._count(_i.experiment == experiment, _i.unit == FORGOTTEN, _i.serve != "control")

    def delete_closed(self, before: int) -> int:
        """Delete the impressions of closed experiments whose last impression was shown before a time; return the
        number of impressions."""
        n = 0
        reason = "its impressions are deleted"
        for row in self.experiments(newest=False):
            if row.state == "killed" and self.changed_at(row.key) < before:
                if self.first_after(row.id, self.progress(row.id).watermark) is not None:
                    continue  # the experiment may be started again
                self.set_state(row.id, "stopped", now=before, who="clean", reason=reason)
                self.close_experiment(row.id)
        for (experiment,) in self._rows(select(_e.id).where(_e.settled == 1)):
            own = _i.experiment == experiment
            with self.writing.begin() as connection:
                last = connection.execute(select(func.max(_i.shown_at)).where(own)).scalar()
                if last is None or last >= before:
                    continue
                connection.execute(delete(schema.clicks).where(_c.impression.in_(select(_i.seq).where(own))))
                n += connection.execute(delete(schema.impressions).where(own)).rowcount
                _add(connection, {(experiment, "deleted"): 1})
        return n

    # ---- the closer --------------------------------------------------------------------------------------------

    def progress(self, experiment: int) -> ClosingProgress:
        """Return the progress of the closer."""
        columns = [_s[name] for name in ClosingProgress._fields]
        (row,) = self._rows(select(*columns).where(_s.experiment == experiment))
        return ClosingProgress(*row)

    def announce(self, experiment: int, horizon: int, due: int, limit: int) -> int:
        """Move the horizon over impressions shown up to ``due``, and return it; from now on clicks on them are late.

        The horizon is a sequence number; it stops before the first impression that is not due.
        """
        first = self.first_after(experiment, horizon)
        if first is None or first > due:
            return horizon  # the usual case, without a transaction
        query = select(_i.seq, _i.shown_at).where(_i.experiment == experiment, _i.seq > horizon)
        with self.writing.begin() as connection:
            if self._is_postgres:
                connection.execute(text(f"SELECT pg_advisory_xact_lock({LOCK})"))
            reached = horizon
            for row in connection.execute(query.order_by(_i.seq).limit(limit)):
                if row.shown_at > due:
                    break
                reached = row.seq
            own = update(schema.stats).where(_s.experiment == experiment, _s.horizon == horizon)
            moved = connection.execute(own.values(horizon=reached))
        return reached if moved.rowcount else horizon

    def counted(self, experiment: int, units: Collection[bytes]) -> dict[bytes, int]:
        """Return the ``units`` that have a closed impression, with the epoch of the last impression that counted."""
        known = select(_u.unit, _u.epoch).where(_u.experiment == experiment, _u.unit.in_(units))
        return {row.unit: row.epoch for row in self._rows(known)}

    def save_counts(
        self,
        experiment: int,
        before: ClosingProgress,
        state: str,
        snapshots: Sequence[tuple[int, str]] = (),
        bandit: str | None = None,
        units: Mapping[bytes, int] | None = None,
    ) -> bool:
        """Store the statistics up to the horizon; return False, without storing anything, if another closer was
        faster."""
        now: dict[str, Any] = {"version": before.version + 1, "state": state}
        with self.writing.begin() as connection:
            own = update(schema.stats).where(_s.experiment == experiment, _s.version == before.version)
            if not connection.execute(own.values(now | {"watermark": before.horizon})).rowcount:
                return False
            if snapshots:
                rows = [{"experiment": experiment, "n": n, "snapshot": snapshot} for n, snapshot in snapshots]
                connection.execute(schema.series.insert(), rows)
            if units:
                rows = [{"experiment": experiment, "unit": unit, "epoch": n} for unit, n in units.items()]
                connection.execute(_COUNTED, rows)
            if bandit is not None:
                connection.execute(
                    update(schema.bandits).where(_b.experiment == experiment).values(now | {"state": bandit})
                )
        return True

    def close_experiment(self, experiment: int) -> None:
        """Record that the closer has finished with an experiment."""
        with self.writing.begin() as connection:
            _set(connection, experiment, settled=1, unit_key=None)
            connection.execute(delete(schema.units).where(_u.experiment == experiment))
        if not self._is_postgres:
            with self.reading.connect() as connection:  # deleted rows must not remain in the log, either
                connection.execute(text("PRAGMA wal_checkpoint(TRUNCATE)"))

    def lease(self, name: str, owner: str, now: int, until: int) -> bool:
        """Acquire or renew the lease of a process on a task; return whether it holds the lease. Leases expire."""
        mine = json.dumps({"owner": owner, "until": until})
        found = self._one(select(_m.value).where(_m.name == name))
        if found is not None:
            held = json.loads(found)
            # all leases are shorter than a minute: a later end was written by a clock that was ahead, and is ignored
            if now < held["until"] < now + 60_000:
                if held["owner"] != owner:
                    return False
                if held["until"] - now > (until - now) / 2:  # renewed in its second half only
                    return True
        with self.writing.begin() as connection:
            if found is None:
                taken = connection.execute(_NEW, {"name": name, "value": mine})
            else:
                own = update(schema.meta).where(_m.name == name, _m.value == found)
                taken = connection.execute(own.values(value=mine))
            return bool(taken.rowcount)

    def series(self, experiment: int) -> list[dict[str, Any]]:
        """Return the snapshots of an experiment."""
        query = select(schema.series.c.snapshot).where(schema.series.c.experiment == experiment)
        return [json.loads(row.snapshot) for row in self._rows(query.order_by(schema.series.c.n))]

    def bandit(self, experiment: int) -> tuple[int, str]:
        """Return version and state of a bandit; the state is empty before its first outcomes."""
        (row,) = self._rows(select(_b.version, _b.state).where(_b.experiment == experiment))
        return row.version, row.state

    def duel(self, impression: bytes) -> Duel | None:
        """Return the duel of an impression; None if there is none."""
        rows = self._rows(select(_i.seq, _i.id, _i.record).where(_i.id == impression))
        return next((duel for _, _, duel in duels_of(rows)), None)

    def duels(self, experiment: int, after: int, limit: int) -> list[tuple[int, bytes, Duel]]:
        """Return the duels of the last impressions with ``seq > after``, in their order, each with ``seq`` and id."""
        query = select(_i.seq, _i.id, _i.record).where(_i.experiment == experiment, _i.seq > after)
        return duels_of(self._rows(query.order_by(_i.seq.desc()).limit(limit)))[::-1]

    def bandit_version(self, experiment: int) -> int:
        """Return the version of a bandit."""
        return int(self._one(select(_b.version).where(_b.experiment == experiment)))

    # ---- counters, keys ----------------------------------------------------------------------------------------

    def count(self, counts: Mapping[tuple[int, str], int]) -> None:
        """Add to counters, by experiment and name."""
        with self.writing.begin() as connection:
            _add(connection, counts)

    def counters(self, experiment: int) -> dict[str, int]:
        """Return the counters of an experiment."""
        column = schema.counters.c
        rows = self._rows(select(column.name, column.value).where(column.experiment == experiment))
        return {row.name: row.value for row in rows}

    def add_key(self, identity: str, hashed: bytes, scope: str, now: int) -> None:
        """Store a key."""
        with self.writing.begin() as connection:
            connection.execute(
                schema.keys.insert().values(id=identity, hash=hashed, scope=scope, created_at=now)
            )

    def callers(self) -> list[dict[str, Any]]:
        """Return all keys: id, hash, scope, created_at, last_used_day."""
        return [row._asdict() for row in self._rows(select(schema.keys).order_by(_k.created_at))]

    def delete_key(self, identity: str) -> bool:
        """Delete a key; return False if no key has that id."""
        with self.writing.begin() as connection:
            return bool(connection.execute(delete(schema.keys).where(_k.id == identity)).rowcount)

    def use_keys(self, days: Mapping[str, int]) -> None:
        """Record the day on which keys were last used."""
        own = update(schema.keys).where(_k.id == bindparam("key_id")).values(last_used_day=bindparam("day"))
        with self.writing.begin() as connection:
            connection.execute(own, [{"key_id": key, "day": day} for key, day in days.items()])

    def integrity(self) -> list[str]:
        """Return inconsistencies among the rows."""
        problems = []
        with self.reading.connect() as connection:
            if not self._is_postgres:
                found = connection.execute(text("PRAGMA integrity_check")).scalar()
                if found != "ok":
                    problems.append(f"database: {found}")
            if orphans := connection.execute(_ORPHANS).scalar():
                problems.append(f"{orphans} clicks of missing impressions")
        return problems


def _experiments(connection: Connection, *, newest: bool) -> list[ExperimentRow]:
    rows = [
        ExperimentRow(*row)._replace(config=json.loads(row.config), closed=bool(row.settled))
        for row in connection.execute(select(schema.experiments).order_by(_e.key, _e.revision))
    ]
    return list({row.key: row for row in rows}.values()) if newest else rows


def _set(connection: Connection, experiment: int, **values: Any) -> None:
    connection.execute(update(schema.experiments).where(_e.id == experiment).values(values))


def _add(connection: Connection, counts: Mapping[tuple[int, str], int]) -> None:
    """Add to counters, by experiment and name, always in the same order."""
    connection.execute(
        _ADDED, [{"experiment": e, "name": name, "n": n} for (e, name), n in sorted(counts.items())]
    )
