"""Metrics for Prometheus. Labels contain no document, query, unit or request."""

import contextlib
import os
from pathlib import Path
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Metrics:
    """The counters of one worker; ``PROMETHEUS_MULTIPROC_DIR`` combines those of several workers into one response."""

    def __init__(self) -> None:
        self.registry = own = CollectorRegistry()
        self.requests = Histogram(
            "structsvm_live_request_seconds", "Response time.", ("route",), registry=own, buckets=_SECONDS
        )

        def counter(name: str, said: str, *labels: str) -> Counter:
            return Counter(f"structsvm_live_{name}", said, labels, registry=own)

        def gauge(name: str, said: str, mode: Literal["livesum", "livemax"], *labels: str) -> Gauge:
            return Gauge(f"structsvm_live_{name}", said, labels, registry=own, multiprocess_mode=mode)

        self.answers = counter("answers", "Responses by status.", "status")
        self.shown = counter("shown", "Lists by what was served and the reason.", "serve", "why")
        self.clicks = counter("clicks", "Clicks by outcome.", "fate")
        self.not_compared = counter("not_compared", "Requests whose challenger failed.", "why")
        # create these labels at the start, so that rates are defined before the first failure
        for why in ("timeout", "unreachable", "status", "junk"):
            self.not_compared.labels(why)
        self.waiting = gauge("waiting", "Requests that wait for the store.", "livesum")
        self.failing = gauge("store_failing", "1 while the store accepts nothing.", "livemax")
        self.lag = gauge("closer_lag_seconds", "Time that the oldest due impression has waited.", "livemax")
        self.closed = gauge("folded", "Impressions closed by running workers.", "livesum")
        self.backup = gauge("backup_timestamp_seconds", "When the newest backup was made.", "livemax")

        self.alarm = gauge("alarm", "1 while a guardrail has an alarm.", "livemax", "experiment", "guardrail")
        self.decided = gauge("decided", "1 once a ranker has won.", "livemax", "experiment")
        self.state = gauge("state", "1 for the current state.", "livemax", "experiment", "state")

    def text(self) -> bytes:
        """Return the metrics in the text format of Prometheus."""
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return generate_latest(self.registry)
        # keep the counters of workers that died; drop their gauges, such as an alarm, which are outdated
        for pid in processes("gauge_live*"):
            if not _lives(int(pid)):
                with contextlib.suppress(FileNotFoundError):  # another worker has deleted the file
                    mark_process_dead(int(pid))
        every = CollectorRegistry()
        MultiProcessCollector(every)
        return generate_latest(every)


def processes(pattern: str = "*") -> set[str]:
    """Return the ids of the workers that have written metrics; the names of their files end with these ids."""
    return {
        file.stem.rpartition("_")[2] for file in Path(os.environ["PROMETHEUS_MULTIPROC_DIR"]).glob(pattern)
    }


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
