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
    they are: the proxy says so to whoever searches.
    """
    changed = []
    for row in store.experiments():
        engines = row.config["engines"]
        if engines is None or row.state == "stopped":
            continue
        try:
            hashes = engine_hashes(engines, tables)
        except BadInput:
            continue
        before = row.config.get("engine_hashes")
        if hashes == before:
            continue
        # revisions of earlier releases have no hashes: nothing is known to have changed
        fresh = before is not None
        store.put(
            row.key, {**row.config, "engine_hashes": hashes}, fresh=fresh, state=row.state, now=now,
            who="configuration file", what="new revision: engines changed" if fresh else "engines noted",
        )  # fmt: skip
        if fresh:
            changed.append(row.key)
    return changed
