"""The closer: count impressions in the order shown, each after its window has ended, not when clicks arrive.

If clicks on one ranker's documents come later, early outcomes favour the other ranker, and a continuous test could
report a false winner. Therefore impressions count in the order shown, and only after their windows. The closer first
announces a horizon; later clicks on impressions up to it are late. Then it reads these impressions, which can no longer
change, and stores the statistics, unless another closer was faster.
"""

import importlib
import json
import logging
import math
import os
import secrets
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from structsvm.live.contract.clock import Clock
from structsvm.live.contract.config import decides, fresh_bandit
from structsvm.live.counting.guardrails import Watches
from structsvm.live.store.queries import Store
from structsvm.live.store.records import ClosingProgress, ExperimentRow, StoredImpression
from structsvm.online.interleaving.by_name import interleaver
from structsvm.online.interleaving.crediting import credit_lists
from structsvm.online.statistics.running import RunningStatistics
from structsvm.protocols import Bandit, Duel, Float

log = logging.getLogger("structsvm.live")

BATCH = 500
"""Impressions per transaction of the closer: the worker answers requests in between."""

_KNOWN_MS = 10_000
"""Milliseconds after which every worker knows the state of an experiment."""

KILLED_MS = 86_400_000
"""Milliseconds in which a killed experiment may be restarted; after that it is stopped, which deletes its unit key."""

_GROWTH = 1.05
"""Factor between consecutive numbers of impressions in the series, which keeps a few hundred snapshots."""


class Counts:
    """Statistics of the closed impressions of an experiment, continued from its stored ``state`` and ``bandit``."""

    def __init__(self, config: Mapping[str, Any], state: str = "", bandit: str = "") -> None:
        self.config = config
        rankers = config["rankers"]
        kept = json.loads(state) if state else {}
        self.n_same: int = kept.get("same", 0)
        self.n_control: int = kept.get("control", 0)
        self.n_clicks: int = kept.get("clicks", 0)
        self.n_shown: int = kept.get("shown", 0)
        self.last_at: int | None = kept.get("last_at")
        self.decided_at: int | None = kept.get("decided_at")
        self.watches = Watches.from_dict(kept["watches"]) if kept else Watches()
        self.running: RunningStatistics | None = None
        self.policy: Bandit | None = None
        self.n_duels: int = kept.get("duels", 0)
        self.ties: list[int] = kept.get("ties", [0] * len(rankers))
        self.plays: list[int] = kept.get("plays", [0] * len(rankers))
        self.wins: list[list[float]] = kept.get("wins", [])
        if config["kind"] == "bandit":
            self.wins = self.wins or [[0.0] * len(rankers) for _ in rankers]
            self.policy = fresh_bandit(config, bandit)
        elif kept:
            self.running = RunningStatistics.from_json(json.dumps(kept["running"]))
        else:
            self.running = RunningStatistics(
                config["method"], rankers, length=config["length"], alpha=config["alpha"]
            )

    @classmethod
    def stored(cls, store: Store, row: ExperimentRow, progress: ClosingProgress) -> Self:
        """Return the stored statistics of an experiment."""
        return cls(
            row.config, progress.state, store.bandit(row.id)[1] if row.config["kind"] == "bandit" else ""
        )

    @property
    def winner(self) -> str | None:
        """The ranker that has won, at a level that holds at all looks; of the bandits, only ``best`` decides."""
        if self.running is not None:
            return None if self.running.decision is None else self.running.decision["winner"]
        decided = self.policy.decided() if decides(self.policy) else -1
        return None if decided < 0 else self.config["rankers"][decided]

    def to_json(self) -> str:
        """Return the statistics as JSON."""
        kept: dict[str, Any] = {
            "same": self.n_same,
            "control": self.n_control,
            "clicks": self.n_clicks,
            "shown": self.n_shown,
            "last_at": self.last_at,
            "decided_at": self.decided_at,
            "watches": self.watches.to_dict(),
        }
        if self.running is None:
            kept |= {"duels": self.n_duels, "ties": self.ties, "plays": self.plays, "wins": self.wins}
        else:
            kept["running"] = json.loads(self.running.to_json())
        return json.dumps(kept, separators=(",", ":"))

    def add(
        self, impressions: Sequence[StoredImpression], counted: dict[bytes, int] | None = None
    ) -> list[tuple[int, str]]:
        """Count impressions in the order shown; return the snapshots of the series that they complete.

        For the guardrails each unit counts once: ``counted``, which is updated, records the epoch at which each unit
        was counted.
        """
        counted = {} if counted is None else counted
        by_unit = self.config["unit"] != "request"
        guardrails, actions = self.config["guardrails"], self.config["actions"]
        snapshots: list[tuple[int, str]] = []
        rows: list[tuple[StoredImpression, list[int] | None]] = []
        for impression in impressions:
            clicked = sorted({place - 1 for place, action, *_ in impression.clicks if actions.get(action)})
            evidence = impression.record.evidence
            control = impression.serve == "control"
            self.n_clicks += len(impression.clicks)
            self.last_at = impression.shown_at
            elapsed = impression.elapsed_ms
            slow = None if elapsed is None else elapsed > guardrails["slow_ms"]
            unit = impression.unit if by_unit else None
            known = None if unit is None else counted.get(unit)
            if impression.chance is not None and (known is None or known < impression.epoch):
                self.watches.count(control, impression.chance, impression.epoch)
                if known is None:
                    self.watches.compare(control=control, clickless=not clicked, slow=slow)
                if unit is not None:
                    counted[unit] = impression.epoch
            if control:
                self.n_control += 1
                continue
            self.n_shown += 1
            if impression.serve == "same":
                self.n_same += 1
                if self.policy is not None:
                    rows.append((impression, None))
                continue
            if len(evidence) == 1:
                self.watches.add_first(evidence[0][0], impression.record.n_rankers)
            rows.append((impression, clicked))
        if self.running is None:
            self._duel(rows)
        else:
            done = 0
            while done < len(rows):
                following = next_snapshot(self.running.n_impressions)
                part = rows[done : done + following - self.running.n_impressions]
                self.running.add(*_columns(part))
                done += len(part)
                if self.decided_at is None and self.running.decision is not None:
                    # the time of the last impression of the batch in which the decision was made
                    self.decided_at = part[-1][0].shown_at
                if self.running.n_impressions == following:
                    snapshot = {
                        "n": following,
                        "at": part[-1][0].shown_at,
                        "pairs": [
                            {
                                "mean": pair.mean,
                                "lower": pair.always_valid_lower,
                                "upper": pair.always_valid_upper,
                                "p": pair.always_valid_p_value,
                            }
                            for pair in self.running.analysis().pairs
                        ],
                    }
                    snapshots.append((following, json.dumps(snapshot, separators=(",", ":"))))
        self.watches.look(guardrails)
        return snapshots

    def _duel(self, rows: Sequence[tuple[StoredImpression, list[int] | None]]) -> None:
        """Update the policy: the ranker with more credit wins its duel; a coin flip breaks ties (MDB, 3.1).

        The policy ``best`` takes a tie as half a win: coin flips would add noise to its evidence.
        """
        assert self.policy is not None
        by_size: dict[int, list[int]] = {}
        for k, (impression, clicked) in enumerate(rows):
            if clicked is not None:
                by_size.setdefault(impression.record.n_rankers, []).append(k)
        ahead: dict[int, Float] = {}
        halves = hasattr(self.policy, "decided")
        for members in by_size.values():
            credits = credit_lists(interleaver(self.config["method"]), *_columns([rows[k] for k in members]))
            ahead.update(zip(members, np.sign(credits.outcome), strict=True))
        for k, (impression, _) in enumerate(rows):
            arms = impression.record.arms or ()
            duel = Duel(arms, impression.record.note)
            pairs = duel.pairs()
            signs = ahead.get(k, np.zeros(len(pairs)))
            won = (1 + signs) / 2
            tied = [a != b and x == 0 for (a, b), x in zip(pairs, signs, strict=True)]
            if any(tied) and not halves:
                # coin flips derived from the impression's id: a recount gives the same winner
                coins = np.random.default_rng(int.from_bytes(impression.id)).random(len(pairs))
                won[tied] = coins[tied] < 0.5
            self.policy.update(duel, won[0] if len(arms) == 2 else won)
            self.n_duels += 1
            for arm in set(arms):
                self.plays[arm] += 1
            for (a, b), x in zip(pairs, signs.tolist(), strict=True):
                if a == b:
                    continue
                self.wins[a][b] += (1 + x) / 2
                self.wins[b][a] += (1 - x) / 2
                if x == 0:
                    self.ties[a] += 1
                    self.ties[b] += 1


def _columns(rows: Sequence[tuple[StoredImpression, list[int] | None]]) -> tuple[Any, Any, Any]:
    """Return the records of lists, the indices of their clicked documents, and their names."""
    clicked_indices = [clicked or [] for _, clicked in rows]
    return [one.record for one, _ in rows], clicked_indices, [f"impression {one.seq}" for one, _ in rows]


def next_snapshot(n: int) -> int:
    """Return the next number of impressions at which the series has a snapshot."""
    if n < 20:
        return n + 1
    # the grid does not depend on ``n``
    k = math.floor(math.log(n / 20) / math.log(_GROWTH) + 1e-9)
    while (reached := round(20 * _GROWTH**k)) <= n:
        k += 1
    return reached


class Closer:
    """Closes the impressions of all experiments; any number of processes may run a closer.

    An impression is closed ``grace_ms`` after its window. ``failing`` gives, by experiment, the reason why it cannot be
    closed; the others continue.
    """

    def __init__(self, store: Store, clock: Clock, grace_ms: int, every_s: float) -> None:
        self._store, self._clock, self._grace, self._every = store, clock, grace_ms, every_s
        self._stopped: dict[int, int] = {}
        self._owner = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.n_closed = 0
        self.failing: dict[str, str] = {}

    @property
    def alive(self) -> bool:
        """Whether the thread is running."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Start the thread, or restart it if it has died."""
        self._thread = threading.Thread(target=self._run, name="structsvm-closer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread after its current batch."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(10)

    def lags(self, rows: Mapping[int, ExperimentRow]) -> dict[int, float]:
        """Return the seconds that the oldest due impression has waited, by experiment."""
        due = self._clock.now() - self._grace
        return {
            e: max(0.0, (due - at - rows[e].window_ms) / 1000)
            for e, at in self._store.oldest_open().items()
            if e in rows
        }

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            try:
                # import now: the import takes a second, which would delay the start or the first report
                importlib.import_module("scipy.optimize")
                self.run()
                self.failing.pop("", None)
            except Exception as error:  # the database may come back, so the next round tries again
                self._note("", error)

    def run(self) -> int:
        """Close all impressions that are due, experiment by experiment; return their number."""
        n = 0
        for row in self._store.experiments(newest=False):
            if row.closed:
                continue
            try:
                n += self._close(row)
                self.failing.pop(row.title, None)
            except Exception as error:
                self._note(row.title, error)
                self._close_experiment(row)
        self.n_closed += n
        return n

    def _note(self, name: str, error: Exception) -> None:
        if name not in self.failing:
            log.error("structsvm live: cannot close impressions%s: %r", f" of {name}" if name else "", error)
        self.failing[name] = f"{type(error).__name__}: {error}"[:300]

    def _close_experiment(self, row: ExperimentRow) -> None:
        """Close an experiment once every worker knows that it was stopped; stop one that was killed a day ago."""
        now = self._clock.now()
        if row.state == "stopped":
            if now - self._stopped.setdefault(row.id, now) > row.window_ms + self._grace + _KNOWN_MS:
                self._store.close_experiment(row.id)
                self.failing.pop(row.title, None)
        elif row.state == "killed" and now - self._store.changed_at(row.key) > KILLED_MS:
            self._store.set_state(
                row.id, "stopped", now=now, who="closer", reason="killed a day ago and not started again"
            )

    def _close(self, row: ExperimentRow) -> int:
        store, n = self._store, 0
        progress = store.progress(row.id)
        counts: Counts | None = None
        while not self._stop.is_set():
            now = self._clock.now()
            due = now - row.window_ms - self._grace
            if progress.horizon == progress.watermark:
                first = store.first_after(row.id, progress.watermark)
                if first is None:
                    self._close_experiment(row)
                if first is None or first > due or not store.lease("closer", self._owner, now, now + 5000):
                    return n
                horizon = store.announce(row.id, progress.horizon, due, BATCH)
                if horizon == progress.horizon:  # another closer was faster
                    progress, counts = store.progress(row.id), None
                    continue
                progress = progress._replace(horizon=horizon)
            if counts is None:
                counts = Counts.stored(store, row, progress)
            closed = self._count(row, progress, counts)
            if closed is None:
                progress, counts = store.progress(row.id), None
            else:
                n += closed
                progress = ClosingProgress(progress.horizon, progress.horizon, progress.version + 1, "")
        return n

    def _count(self, row: ExperimentRow, progress: ClosingProgress, counts: Counts) -> int | None:
        impressions = self._store.impressions(row.id, progress.watermark, progress.horizon)
        counts.watches.acknowledge(self._store.counters(row.id))
        before = self._store.counted(row.id, {one.unit for one in impressions if one.unit is not None})
        counted = dict(before)
        snapshots = counts.add(impressions, counted)
        fresh = {unit: epoch for unit, epoch in counted.items() if before.get(unit) != epoch}
        bandit = None
        if counts.policy is not None:
            bandit = json.dumps({"policy": counts.policy.to_json(), "wins": counts.wins})
        if not self._store.save_counts(row.id, progress, counts.to_json(), snapshots, bandit, fresh):
            return None
        self._act(row, counts)
        return len(impressions)

    def _act(self, row: ExperimentRow, counts: Counts) -> None:
        """Stop or kill an experiment as its configuration requires."""
        if row.state not in ("running", "paused"):
            return
        stop, to, reason = row.config["stop"], "", ""
        alarms = counts.watches.alarms()
        if alarms and row.config["guardrails"]["on_alarm"] == "kill":
            to, reason = "killed", f"guardrail: {', '.join(alarms)}"
        elif stop["max_impressions"] is not None and counts.n_shown >= stop["max_impressions"]:
            to, reason = "stopped", f"{counts.n_shown} impressions"
        elif stop["on_winner"] != "keep" and counts.winner is not None:
            to, reason = "stopped", f"{counts.winner} has won"
        if to:
            changed = self._store.set_state(row.id, to, now=self._clock.now(), who="closer", reason=reason)
            if changed and to == "killed":
                log.warning("structsvm live: %s was killed: %s", row.title, reason)
