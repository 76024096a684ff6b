"""From credit to an outcome in [-1, 1] that has mean zero if the credit has."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from structsvm.checks import BadInput


def share_of_largest(
    credit: NDArray[np.float64], n_clicks: int, largest: float | NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the difference in credit per click of each pair of rankers, as a share of the largest possible.

    ``credit`` is (n_rankers,), or of several lists of as many clicks (n_lists, n_rankers), each with its ``largest``.
    """
    # Dividing by the number of clicks and by a bound that is the same for all lists keeps a mean of zero at
    # zero. The sign of the difference need not: a ranker may often gain a little and rarely lose much.
    difference = credit[..., :, None] - credit[..., None, :]
    if n_clicks == 0 or not np.all(largest):
        return np.zeros_like(difference)
    outcome = difference / (n_clicks * np.asarray(largest))[..., None, None]
    if np.abs(outcome).max() > 1 + 1e-9:
        raise BadInput(
            "shown",
            f"expected credits that differ by at most {np.min(largest):g} per click, got {credit.tolist()!r:.80} "
            f"for {n_clicks} clicks",
            "log what show() returns, unchanged",
        )
    # sums of the same terms in another order may differ in the last digits
    outcome[np.abs(outcome) <= 1e-12] = 0.0
    return outcome.clip(-1, 1)
