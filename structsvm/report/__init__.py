"""Self-contained HTML pages: ``figures`` says what is drawn, ``charts`` draws it, ``html`` builds the pages."""

from structsvm.report.html import *  # noqa: F403
from structsvm.report.html import __all__ as __all__
