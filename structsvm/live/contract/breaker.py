"""A circuit breaker for engines that fail."""

import time
from collections.abc import Callable

_FAILURES = 5
_REST_S = 10.0


class Breaker:
    """Circuit breaker that opens after several failures in a row and lets one trial request through after a pause."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._n_failures, self._n_failed_trials = 0, 0
        self._until = 0.0

    @property
    def is_open(self) -> bool:
        """Whether requests are withheld from the engine, or a trial is under way."""
        return self._n_failures >= _FAILURES

    def allows(self) -> bool:
        """Return whether a request may be sent; after a pause, only the first of several callers may send one."""
        if not self.is_open:
            return True
        now = self._clock()
        if now < self._until:
            return False
        self._until = now + _REST_S  # wait for the outcome of this trial for a limited time
        return True

    def failed(self) -> None:
        """Count a failure."""
        if self.is_open:
            self._n_failed_trials = min(self._n_failed_trials + 1, 3)
        self._n_failures += 1
        if self.is_open:
            self._until = self._clock() + _REST_S * 2**self._n_failed_trials

    def succeeded(self) -> None:
        """Close the breaker."""
        self._n_failures = self._n_failed_trials = 0
