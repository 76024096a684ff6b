"""Fixtures of the command line tests."""

from contextlib import nullcontext

import pytest

import structsvm.cli


@pytest.fixture(autouse=True)
def compile_in_silence(request, monkeypatch):
    """Leave out messages about compilation, which depend on what has run before."""
    if "test_warm_up" not in request.node.nodeid:
        monkeypatch.setattr(structsvm.cli, "telling", lambda listener: nullcontext())
