"""A breaker: after several failures in a row an engine is left alone for a while."""

from __future__ import annotations

import time
from collections.abc import Callable


class Breaker:
    """Opens after ``failures`` in a row; after ``rest_s`` it lets one request try."""

    def __init__(
        self, failures: int = 5, rest_s: float = 10.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.failures, self.rest_s, self._clock = failures, rest_s, clock
        self._row, self._tries = 0, 0
        self._until = 0.0

    @property
    def is_open(self) -> bool:
        """Whether the engine is left alone, or being tried."""
        return self._row >= self.failures

    def allows(self) -> bool:
        """Return whether a request may be sent; of several callers after the rest only the first may."""
        if not self.is_open:
            return True
        now = self._clock()
        if now < self._until:
            return False
        self._until = now + self.rest_s  # the outcome of this try is waited for, but not for ever
        return True

    def failed(self) -> None:
        """Count a failure."""
        if self.is_open:
            self._tries = min(self._tries + 1, 3)
        self._row += 1
        if self.is_open:
            self._until = self._clock() + self.rest_s * 2**self._tries

    def succeeded(self) -> None:
        """Close it."""
        self._row = self._tries = 0
