"""A circuit breaker for failing engines, and a rate limit for addresses that call without a key."""

import time
from collections import OrderedDict
from collections.abc import Callable

_FAILURES = 5
_REST_S = 10.0
_ADDRESSES = 10_000
"""Number of addresses kept, in memory only; the least recently active address is dropped."""


class Breaker:
    """Circuit breaker that opens after several failures in a row and lets one trial request through after a pause."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._row, self._tries = 0, 0
        self._until = 0.0

    @property
    def is_open(self) -> bool:
        """Whether requests are withheld from the engine, or a trial is under way."""
        return self._row >= _FAILURES

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
            self._tries = min(self._tries + 1, 3)
        self._row += 1
        if self.is_open:
            self._until = self._clock() + _REST_S * 2**self._tries

    def succeeded(self) -> None:
        """Close the breaker."""
        self._row = self._tries = 0


class RateLimit:
    """A token bucket per address: ``rate`` calls per second in the long run, ten times as many at once."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._burst = max(1.0, 10 * rate)
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, address: str) -> bool:
        """Return whether an address may call now, and count the call if so."""
        if not self._rate:
            return True
        now = self._clock()
        left, at = self._left.pop(address, (self._burst, now))
        left = min(self._burst, left + self._rate * (now - at))
        may = left >= 1
        self._left[address] = (left - may, now)
        if len(self._left) > _ADDRESSES:
            self._left.popitem(last=False)
        return may
