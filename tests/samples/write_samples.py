"""Write the samples of logs and of a store that later versions must read: ``python write_samples.py FOLDER``.

The samples in this folder were written by this script at version 0.1 of the record and version 3 of the schema; they
are not written again, because a later version would write its own format. ``tests/online/test_samples.py`` and
``tests/live/test_samples.py`` read them.
"""

import asyncio
import json
import sqlite3
import sys
from pathlib import Path

import msgspec
import numpy as np

from structsvm.live import Service, Settings
from structsvm.live.contract.bodies import Assign, Show
from structsvm.live.store.opening import prepare
from structsvm.online import interleaving
from structsvm.online.clicklog import Click, Impression, read_log, write_log
from structsvm.online.statistics import analyse

PAIR_ONLY = ("balanced", "document_constraints")
METHODS = ("balanced", "document_constraints", "optimized", "probabilistic", "sosm", "team_draft")
CLASSES = ("Balanced", "DocumentConstraints", "Optimized", "Probabilistic", "SOSM", "TeamDraft")
OF_LOG = (
    *("method", "rankers", "n_impressions", "n_clicked", "n_missing_feedback", "n_repeated", "n_identical"),
    *("statistic", "estimand", "cluster", "n_clusters"),
)
OF_REPORT = (
    *("method", "rankers", "n_impressions", "n_clicked", "same", "control", "as_of_seq", "as_of", "pending"),
    *("late", "series", "bandit"),
)
OF_PAIR = ("wins", "losses", "ties", "mean", "a", "b")


def kept(answer, names):
    """Return the figures of an answer that follow from the credits alone."""
    pairs = [{name: pair[name] for name in OF_PAIR} for pair in answer["pairs"]]
    return {name: answer[name] for name in names} | {"pairs": pairs}


def impressions(method, n_rankers, n=24):
    """Yield impressions with all optional fields, in some of the lines."""
    rng = np.random.default_rng(n_rankers)
    names = tuple(f"ranker {chr(97 + i)}" for i in range(n_rankers))
    for k in range(n):
        ids = [f"d{d}" for d in range(7)]
        if k % 6 == 4:
            ids = [("part", d) for d in range(7)]  # ids that JSON has no form for
        if k % 6 == 5:
            ids = list(range(7))
        rankings = [[ids[d] for d in rng.permutation(7)[: 7 - (k % 3 == 2) * i]] for i in range(n_rankers)]
        shown = method.show(rankings, length=4 + k % 3, rng=rng)
        ranks = [r + 1 for r in range(len(shown.documents)) if rng.random() < 0.4]
        clicks = tuple(Click(r, *([round(1.5 * r, 1), 3.25, r == 1] if k % 2 else [])) for r in ranks)
        yield Impression(
            shown.with_impression(k if k % 5 else f"i{k}") if k % 4 else shown,
            None if k == 7 else clicks,
            query=f"q{k % 4}",
            session=k // 3,
            user=f"u{k % 5}",
            rankers=names,
            query_words=2 if k % 8 == 3 else None,
            title_bold=(1,) * len(shown.documents) if k % 8 == 3 else None,
            offset=4 if k % 9 == 8 else 0,
            same=k % 11 == 10,
        )


def write_logs(folder):
    """Write a log of each method, with the credits and the analysis of its impressions."""
    expected = {}
    for name in CLASSES:
        method = getattr(interleaving, name)()
        for n_rankers in (2,) if method.name in PAIR_ONLY else (2, 3):
            path = folder / f"{method.name}_{n_rankers}.jsonl"
            write_log(path, impressions(method, n_rankers))
            log = read_log(path)
            expected[path.name] = {
                "analysis": kept(analyse(log).to_dict(), OF_LOG),
                "by_user": kept(analyse(log, cluster="user").to_dict(), OF_LOG),
                "credit": [method.credit(i.shown, i.clicked).tolist() for i in log.impressions],
                "outcome": [method.outcome(i.shown, i.clicked).tolist() for i in log.impressions],
            }
    return expected


async def write_store(url):
    """Run two experiments: team draft with pages, agreeing rankers and a control, and a bandit of four rankers."""
    service = Service(Settings(url, grace_s=0.0, close_every_s=3600.0))
    await service.start()
    await service.registry.put(
        "drafts",
        {"rankers": ["prod", "new", "third"], "window_s": 60, "share": 0.6, "length": 4, "log_query": True},
    )
    await service.registry.put(
        "duels",
        {
            "kind": "bandit",
            "rankers": ["w", "x", "y", "z"],
            "window_s": 60,
            "method": "optimized",
            "length": 3,
        },
    )
    rng = np.random.default_rng(5)
    for key in ("drafts", "duels"):
        await service.registry.set_state(key, "running")
        names = service.registry.known(key).config["rankers"]
        for k in range(40):
            unit, request = f"u{k % 23}", f"request {k}"
            assigned = await service.assign(key, Assign(request, unit))
            documents = [f"d{d}" for d in range(9)]
            rankings = {n: [documents[d] for d in rng.permutation(9)] for n in names}
            if k % 8 == 7:
                rankings = dict.fromkeys(names, documents)
            options = {"unit": unit, "query": f"words {k % 5}"}
            options["assignment"] = assigned.assignment
            pages = [0, 4] if key == "drafts" and k % 5 == 1 else [0]
            for offset in pages:
                call = Show(request, rankings, 3 + (key == "drafts"), offset, **options)
                shown = await service.show(key, call)
                places = [p for p in range(1, 1 + len(shown.documents)) if rng.random() < 0.4]
                if shown.token and places:
                    events = [{"token": shown.token, "place": p, "dwell_s": 2.5 * p} for p in places]
                    await service.clicks(events)
    service.clock._last += 70_000  # all windows have passed
    service.closer.run()
    for k in range(3):  # open impressions
        orders = {
            n: ["a", "b", "c"][::-1] if n == "new" else ["a", "b", "c"] for n in ("prod", "new", "third")
        }
        await service.show("drafts", Show(f"open {k}", orders))
    expected = {}
    for key in ("drafts", "duels"):
        report = msgspec.to_builtins(await service.report(key))
        expected[key] = {
            "report": kept(report, OF_REPORT),
            "export": [json.loads(line) for line in b"".join(service.export(key)).splitlines()],
            "rows": list(service.rows(key, tokens=False)),
        }
    await service.stop()
    return expected


def main(folder):
    folder.mkdir(exist_ok=True)
    expected = {"logs": write_logs(folder)}
    path = folder / "clicks.db"
    prepare(f"sqlite:///{path}")
    expected["store"] = asyncio.run(write_store(f"sqlite:///{path}"))
    with sqlite3.connect(path) as store:
        (folder / "store.sql").write_text("\n".join(store.iterdump()) + "\n")
    text = json.dumps(expected, separators=(",", ":"))
    (folder / "expected.json").write_text(text + "\n")
    for name in ("clicks.db", "clicks.db-wal", "clicks.db-shm", "clicks.db.secret"):
        (folder / name).unlink(missing_ok=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
