"""The clock of the service, which never goes back."""

import threading
import time


class Clock:
    """Milliseconds since 1970 that do not go backwards, whatever the clock of the machine does.

    If the machine's clock is set back, this clock follows the monotonic clock until the machine's clock has caught up.
    """

    def __init__(self) -> None:
        self._last, self._at = 0, self._monotonic()
        self._lock = threading.Lock()  # requests, the closer and the writer have threads of their own

    def keep_above(self, floor: int) -> None:
        """Never return a time before ``floor``, such as that of the last list in the store."""
        with self._lock:
            self._last = max(self._last, floor)

    def now(self) -> int:
        """Return the time in milliseconds."""
        with self._lock:
            # read the wall clock first: in the other order, a pause between the two would put this clock ahead for good
            wall, monotonic = self._wall(), self._monotonic()
            self._last = max(wall, self._last + monotonic - self._at)
            self._at = monotonic
            return self._last

    @staticmethod
    def _wall() -> int:
        return time.time_ns() // 1_000_000

    @staticmethod
    def _monotonic() -> int:
        return time.monotonic_ns() // 1_000_000
