"""Corrections of p-values for several comparisons, such as many pairs of rankers or many experiments.

Holm's formula itself is in :mod:`structsvm.metrics.significance`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from structsvm.metrics.significance import holm, p_values
from structsvm.protocols import Float


def benjamini_hochberg(p: ArrayLike) -> Float:
    """Return Benjamini and Hochberg's adjusted p-values, which bound the expected share of false rejections.

    The share is at most alpha for independent or positively dependent comparisons (JRSS B 1995).
    """
    from scipy.stats import false_discovery_control

    values = p_values(p)
    return np.asarray(false_discovery_control(values)) if len(values) else values


CORRECTIONS: dict[str, Callable[[ArrayLike], Float]] = {
    "holm": holm,
    "bh": benjamini_hochberg,
    "none": p_values,  # right for one comparison that was chosen before the data were seen
}
"""Corrections by name."""
