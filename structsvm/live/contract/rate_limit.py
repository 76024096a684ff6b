"""A rate limit for addresses that call without a key."""

import time
from collections import OrderedDict
from collections.abc import Callable

_ADDRESSES = 10_000
"""Number of addresses kept, in memory only; the least recently active address is dropped."""


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
