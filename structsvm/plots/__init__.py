"""Figures of fits, models and results, on matplotlib axes and in HTML pages.

``axes`` contains the public functions. ``figures`` describes figures as data, ``drawing`` draws them with matplotlib,
and ``pages`` builds self-contained HTML pages of tables and figures.
"""

from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.plots.axes import against_C as against_C
    from structsvm.plots.axes import differences as differences
    from structsvm.plots.axes import gap as gap
    from structsvm.plots.axes import regret as regret
    from structsvm.plots.axes import step_functions as step_functions
    from structsvm.plots.axes import weights as weights

__getattr__, __dir__, __all__ = attach(__name__)
