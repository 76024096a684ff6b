"""The order of the events of a log: every reader that takes a first or last event sorts by it before."""

from typing import Any

import numpy as np

from structsvm.protocols import Int


def by_time(time: Any, *ties: Any) -> Int:
    """Return the order of events by time, then by each array of ``ties``, then by their place in the file.

    Events without a time, given as minus infinity, come first.
    """
    return np.lexsort((*reversed(ties), time))
