"""Figures of fits, models and results, on matplotlib axes and in HTML pages.

``axes`` contains the public functions. ``figures`` describes figures as data, ``drawing`` draws them with matplotlib,
and ``pages`` builds self-contained HTML pages of tables and figures.
"""

from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.plots.axes import (
        against_C as against_C,
        differences as differences,
        gap as gap,
        regret as regret,
        step_functions as step_functions,
        weights as weights,
    )

__getattr__, __dir__, __all__ = attach(__name__)
