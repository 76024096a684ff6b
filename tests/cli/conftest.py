"""What tests of the command line share."""

from contextlib import nullcontext

import pytest

import structsvm.cli


@pytest.fixture(autouse=True)
def compile_in_silence(request, monkeypatch):
    """Leave out what is said of compilation, which depends on what has run before."""
    if "test_warm_up" not in request.node.nodeid:
        monkeypatch.setattr(structsvm.cli, "telling", lambda listener: nullcontext())
