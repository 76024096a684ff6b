"""Engines that have changed in the configuration file while the service was down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from structsvm.checks import BadInput
from structsvm.live.engines.engine import engine_hashes
from structsvm.live.store.queries import Store


def follow_engines(store: Store, tables: Mapping[str, Any], now: int) -> list[str]:
    """Start a new revision of each experiment whose rankers are others in the configuration file by now.

    Statistics of one ranker must not go on with another's. Experiments whose engines are gone from the file are left as
    they are. Returns what the operator should know, a line each.
    """
    said = []
    for row in store.experiments():
        engines = row.config["engines"]
        if engines is None:
            continue
        try:
            hashes = engine_hashes(engines, tables)
        except BadInput as error:
            if engines[row.config["production"]]["engine"] not in tables:
                said.append(f"{row.key}: {error}; until then its searches are refused (409)")
            elif row.state != "stopped" or row.config["stop"]["on_winner"] == "serve_winner":
                said.append(f"{row.key}: {error}; until then its searches are production's (why=engines)")
            continue
        before = row.config.get("engine_hashes")
        if hashes == before or row.state == "stopped":
            continue
        # revisions of earlier releases have no hashes: nothing is known to have changed
        fresh = before is not None
        store.put(
            row.key, {**row.config, "engine_hashes": hashes}, fresh=fresh, state=row.state, now=now,
            who="configuration file", what="new revision: engines changed" if fresh else "engines noted",
        )  # fmt: skip
        if fresh:
            said.append(f"{row.key}: new revision, as its engines have changed in the configuration file")
    return said
