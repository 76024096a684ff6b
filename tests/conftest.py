"""What tests of several rooms share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Callable[..., Path]:
    """A file or folder of the public data sets by its name in ``data/README.md``; where it is not, the test is skipped.

    They lie in ``../shared/data`` beside the project, or where the variable ``STRUCTSVM_DATA`` says.
    """
    folder = Path(os.environ.get("STRUCTSVM_DATA", _BESIDE))

    def find(name: str = ".") -> Path:
        path = folder / name
        if not path.exists():
            place = "STRUCTSVM_DATA" if "STRUCTSVM_DATA" in os.environ else "../shared/data"
            pytest.skip(f"needs {name} of the public data sets in {place} (see data/README.md)")
        return path

    return find
