"""The report of an experiment, its log, and the check that both agree, computed from the store."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from structsvm.common.checks import counted
from structsvm.live.contract.bodies import Bandit as BanditState, NotCompared, Player, Report, Verdict
from structsvm.live.contract.tokens import Secrets, Token
from structsvm.live.counting.closing import Counts
from structsvm.live.counting.guardrails import by_counters
from structsvm.live.store.queries import Store
from structsvm.live.store.records import FORGOTTEN, ClosingProgress, ExperimentRow, StoredImpression
from structsvm.online.clicklog import Click, Impression
from structsvm.protocols import Bandit

_PAGE = 2000
_PIECE = 1 << 16
_LOOKS = 200
"""Number of duels drawn to determine the rankers that a bandit would compare next."""


class Reports:
    """The reports of a store's experiments; the figures of each are kept until more of its impressions are closed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[int, tuple[ClosingProgress, Counts, dict[str, Any]]] = {}

    def of(self, row: ExperimentRow, now: int) -> Report:
        """Return the report of an experiment, as in ``Service.report``."""
        store, config = self._store, row.config
        progress = store.progress(row.id)
        known = self._known.get(row.id)
        if known is None or known[0].version != progress.version:
            counts = Counts.stored(store, row, progress)
            answer = _figures(counts)
            answer["bandit"] = None if counts.policy is None else _bandit(counts, counts.policy)
            answer |= {
                "verdict": _verdict(counts, answer),
                "caution": _caution(config),
                "series": store.series(row.id),
                "same": counts.n_same,
                "control": counts.n_control,
                "as_of_seq": progress.watermark,
                "as_of": counts.last_at,
            }
            known = self._known[row.id] = progress, counts, answer
        _, counts, answer = known
        counters = store.counters(row.id)
        counts.watches.acknowledge(counters)
        prefix = "not_compared:"
        why = {
            name.removeprefix(prefix): n for name, n in sorted(counters.items()) if name.startswith(prefix)
        }
        late, not_compared = store.n_late(row.id), sum(why.values())
        pending = store.n_after(row.id, progress.watermark)
        oldest = store.first_after(row.id, progress.watermark) if pending else None
        due = math.inf if oldest is None else oldest + row.window_ms
        guardrails = counts.watches.report(config["guardrails"])
        guardrails += by_counters(
            config["guardrails"],
            counters,
            late=late,
            clicks=counts.n_clicks,
            not_compared=not_compared,
            shown=counts.n_shown + pending,
        )
        return Report(
            experiment=row.to_dict(),
            **answer,
            pending=pending,
            late=late,
            not_compared=NotCompared(not_compared, why),
            guardrails=guardrails,
            lag_s=max(0.0, (now - due) / 1000),
        )


def _figures(counts: Counts) -> dict[str, Any]:
    """Return the fields of the analysis; empty for a bandit and before the first closed impression."""
    if counts.running is not None and counts.running.n_impressions:
        return counts.running.analysis().to_dict()
    config = counts.config
    return {
        "method": config["method"],
        "rankers": config["rankers"],
        "n_impressions": counts.n_duels,
        "n_clicked": 0,
        "pairs": [],
        "notes": [],
        "alpha": config["alpha"],
        "winner": counts.winner,
    }


def _caution(config: dict[str, Any]) -> str | None:
    """Return a note on the assumption that lists of the same unit are independent; None if it does not matter."""
    if config["kind"] == "bandit" or config["unit"] == "request":
        return None
    unit = config["unit"]
    return (
        f"Each list counts once, as if lists were independent. Where the same {unit}s search often, let each {unit} "
        f"count once: structsvm live export, then structsvm interleave analyse LOG --cluster {unit}."
    )


def _verdict(counts: Counts, figures: dict[str, Any]) -> Verdict:
    """Return the result as one sentence that is valid at every look."""
    running, n_duels = counts.running, counts.n_duels
    if running is None:
        return Verdict(
            counts.winner,
            _sentence_of_bandit(counts, figures["bandit"]) if n_duels else "No duel is closed yet.",
        )
    decision, n = running.decision, running.n_impressions
    if not n:
        return Verdict(None, "No impression is closed yet.")
    if decision is not None:
        at, how = decision["n"], f"at level {running.alpha:g}, at any number of looks"
        return Verdict(
            counts.winner, f"{counts.winner} wins: decided after {at:,} impressions {how}.", decision["p"], at
        )
    sentence = f"Not decided after {counted(',', impression=n)}: "
    differ = any(pair["mean"] for pair in figures["pairs"])
    sentence += f"{figures['leader']} is ahead" if differ else "no ranker is ahead"
    needed = max(pair["always_valid_queries_needed"] or math.inf for pair in figures["pairs"])
    if not math.isinf(needed):
        sentence += f"; at this rate, a decision is expected after about {math.ceil(max(needed, n + 1)):,}"
    return Verdict(None, f"{sentence}.", figures["winner_p_value"])


def _sentence_of_bandit(counts: Counts, bandit: BanditState) -> str:
    from structsvm.online.bandits import BestArm

    policy, names, n = counts.policy, counts.config["rankers"], counts.n_duels
    if not isinstance(policy, BestArm) or not policy.finished:
        in_play = ", ".join(one.name for one in bandit.rankers if one.in_play)
        return f"{bandit.best} is ahead after {n:,} duels; in play: {in_play}."
    if counts.winner is not None:
        share = f"{100 * (0.5 - policy.epsilon):g}% of its duels"
        shown = f"{counts.winner} is best: it wins more than {share} against every other ranker"
    elif policy.top == 1:
        shown = "No ranker is best: each loses to another"
    else:
        best = ", ".join(names[arm] for arm in policy.leaders())
        shown = f"The best {policy.top} are {best}: each of them beats every other ranker"
    error = f"with an error of at most {policy.alpha:g}, at any number of looks"
    return f"{shown}. {n:,} duels show it, {error}."


def _bandit(counts: Counts, policy: Bandit) -> BanditState:
    """Return the state of a bandit; rankers are in play if they appear in newly drawn duels."""
    names = counts.config["rankers"]
    rng = np.random.default_rng(0)
    drawn = np.zeros(len(names))
    for _ in range(_LOOKS):
        arms = set(policy.select(rng).arms)
        for arm in arms:
            drawn[arm] += 1 / len(arms) / _LOOKS
    wins = np.array(counts.wins)
    of_row, of_column = (
        [float(one.sum() - ties / 2) for one, ties in zip(table, counts.ties, strict=True)]
        for table in (wins, wins.T)
    )
    columns = (
        names,
        counts.plays,
        of_row,
        of_column,
        counts.ties,
        [round(share, 12) for share in drawn.tolist()],
        (drawn > 0).tolist(),
    )
    players = [Player(*row) for row in zip(*columns, strict=True)]
    return BanditState(counts.config["policy"], counts.n_duels, names[policy.best()], players, counts.wins)


def lines_of(store: Store, row: ExperimentRow) -> Iterator[bytes]:
    """Yield the closed impressions as a click log, in pieces; ``analyse`` computes the figures of the report from it,
    unless units were forgotten.
    """
    return in_pieces(_impression(row, one).to_dict() for one in _closed(store, row) if one.serve != "control")


def in_pieces(lines: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    """Yield objects as JSON lines, many at a time."""
    parts, size = [], 0
    for line in lines:
        parts.append(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
        size += len(parts[-1])
        if size > _PIECE:
            yield b"".join(parts)
            parts, size = [], 0
    if parts:
        yield b"".join(parts)


def _closed(store: Store, row: ExperimentRow, *, late: bool = False) -> Iterator[StoredImpression]:
    """Return the closed impressions in their order, without those of forgotten units."""
    pages = _pages(store, row.id, store.progress(row.id).watermark, _PAGE, late=late)
    return (one for page in pages for one in page if one.unit != FORGOTTEN)


def _pages(
    store: Store, number: int, upto: int, size: int, *, late: bool
) -> Iterator[list[StoredImpression]]:
    """Yield the impressions of an experiment up to a sequence number, many at a time."""
    after = 0
    while page := store.impressions(number, after, upto, size, late=late):
        yield page
        after = page[-1].seq


def _impression(row: ExperimentRow, one: StoredImpression) -> Impression:
    """Return an impression for a click log, with the first click that counts at each rank."""
    config, names, arms = row.config, tuple(row.config["rankers"]), one.record.arms
    clicks: dict[int, Click] = {}
    for place, action, at, dwell, _ in one.clicks:
        if config["actions"].get(action):
            clicks.setdefault(place, Click(place, at / 1000, dwell))
    # a keyed hash whose key is deleted when the experiment ends
    unit: dict[str, Any] = (
        {} if one.unit is None or config["unit"] == "request" else {config["unit"]: one.unit.hex()}
    )
    return Impression(
        one.record.with_impression(one.id.hex()),
        tuple(clicks.values()),
        one.query,
        **unit,
        rankers=names if arms is None else tuple(names[arm] for arm in arms),
        among=() if arms is None else names,
        same=one.serve == "same",
    )


def rows(store: Store, row: ExperimentRow, secrets: Secrets | None) -> Iterator[dict[str, Any]]:
    """Yield the closed impressions; ``Service.rows`` describes them."""
    for one in _closed(store, row, late=True):
        documents = list(one.record.documents)
        token = Token(row.id, len(documents), one.shown_at, one.id)
        yield {
            "seq": one.seq,
            "token": one.id.hex() if secrets is None else secrets.token(token),
            "shown_at": one.shown_at,
            "serve": one.serve,
            "documents": documents,
            "offset": one.record.offset,
            "query": one.query,
            "clicks": [
                {"place": place, "action": action, "at": at, "dwell_s": dwell, "late": bool(late)}
                for place, action, at, dwell, late in one.clicks
            ],
        }


def check_experiment(
    store: Store, row: ExperimentRow, *, batch: int = 997, tell: Callable[[int], None] = lambda n: None
) -> tuple[int, list[str]]:
    """Recompute the statistics from the impressions; return the number of impressions, and the differences."""
    progress = store.progress(row.id)
    if store.counters(row.id).get("deleted"):
        return 0, []  # impressions were deleted by the retention rule; the statistics remain
    stored = Counts.stored(store, row, progress)
    again = Counts(row.config)
    problems: list[str] = []
    snapshots: list[dict[str, Any]] = []
    n = 0
    for page in _pages(store, row.id, progress.watermark, batch, late=True):
        for one in page:
            for place, action, at, _, late in one.clicks:
                if not 1 <= place <= len(one.record.documents):
                    problems.append(f"impression {one.seq}: a click on rank {place}, beyond its list")
                if not late and at > one.shown_at + row.window_ms:
                    problems.append(f"impression {one.seq}: a {action} after the window, not marked as late")
        timely = [one._replace(clicks=tuple(c for c in one.clicks if not c[4])) for one in page]
        try:
            snapshots += [json.loads(snapshot) for _, snapshot in again.add(timely)]
        except (ValueError, KeyError, IndexError, TypeError) as error:
            problems.append(f"statistics: {error}")
            return n, _titled(row, problems)
        n += len(page)
        tell(n)
    kept, made = json.loads(stored.to_json()), json.loads(again.to_json())
    for side in (kept, made):
        side.pop("watches")  # skip guardrails whose share may have changed in the meantime
        side.pop("decided_at")
    problems += [f"statistics: {text}" for text in _differences(kept, made)]
    problems += [f"series: {text}" for text in _differences(store.series(row.id), snapshots)]
    if stored.policy is not None and again.policy is not None:
        states = [json.loads(policy.to_json()) for policy in (stored.policy, again.policy)]
        problems += [f"bandit: {text}" for text in _differences(*states)]
    if progress.horizon < progress.watermark:
        problems.append(f"the horizon {progress.horizon} is before the watermark {progress.watermark}")
    return n, _titled(row, problems)


def _titled(row: ExperimentRow, problems: Sequence[str]) -> list[str]:
    """Return the first twenty problems with the name of the experiment, and how many more there are."""
    rest = [f"and {len(problems) - 20:,} more problems"] if len(problems) > 20 else []
    return [f"{row.title}: {problem}" for problem in [*problems[:20], *rest]]


def _differences(stored: object, made: object, path: str = "") -> list[str]:
    """Return the differences of two JSON values; numbers other than counts may differ by 1e-8."""
    # bounds that version 0.1 stored are rounded outwards by up to 1e-9 of the range of the statistic
    if isinstance(stored, dict) and isinstance(made, dict) and stored.keys() == made.keys():
        return [text for key in stored for text in _differences(stored[key], made[key], f"{path}.{key}")]
    if isinstance(stored, list) and isinstance(made, list) and len(stored) == len(made):
        pairs = enumerate(zip(stored, made, strict=True))
        return [text for k, (a, b) in pairs for text in _differences(a, b, f"{path}[{k}]")]
    if (
        isinstance(stored, float)
        and isinstance(made, (int, float))
        and math.isclose(stored, made, rel_tol=1e-8, abs_tol=1e-8)
    ):
        return []
    if type(stored) is type(made) and stored == made:
        return []
    return [f"{path.lstrip('.')}: stored {stored!r:.60}, recomputed {made!r:.60}"]
