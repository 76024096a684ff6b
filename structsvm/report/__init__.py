"""Self-contained HTML pages: ``html`` builds them, ``charts`` draws their charts."""

from structsvm.report.html import *  # noqa: F403
from structsvm.report.html import __all__ as __all__
