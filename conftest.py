"""What every test run needs before the package is imported."""

from __future__ import annotations

import os
from pathlib import Path

# Processes that share one cache of compiled code can overwrite each other's entries: each keeps its own.
# It stays on disk, so that the next run does not compile again.
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    os.environ["NUMBA_CACHE_DIR"] = str(Path(__file__).parent / ".pytest_cache" / "numba" / worker)
