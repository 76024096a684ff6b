"""A breaker: after several failures in a row an engine is left alone for a while."""

from __future__ import annotations

import time
from collections.abc import Callable

_FAILURES = 5
_REST_S = 10.0


class Breaker:
    """Opens after several failures in a row; after a rest it lets one request try."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._row, self._tries = 0, 0
        self._until = 0.0

    @property
    def is_open(self) -> bool:
        """Whether the engine is left alone, or being tried."""
        return self._row >= _FAILURES

    def allows(self) -> bool:
        """Return whether a request may be sent; of several callers after the rest only the first may."""
        if not self.is_open:
            return True
        now = self._clock()
        if now < self._until:
            return False
        self._until = now + _REST_S  # the outcome of this try is waited for, but not for ever
        return True

    def failed(self) -> None:
        """Count a failure."""
        if self.is_open:
            self._tries = min(self._tries + 1, 3)
        self._row += 1
        if self.is_open:
            self._until = self._clock() + _REST_S * 2**self._tries

    def succeeded(self) -> None:
        """Close it."""
        self._row = self._tries = 0
