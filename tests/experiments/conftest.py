"""Fixtures that run scripts as modules."""

import importlib.util
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "experiments"


@pytest.fixture
def load(monkeypatch):
    """Return a function that imports a script by its name, and returns its module."""
    monkeypatch.syspath_prepend(str(FOLDER))

    def load(name):
        spec = importlib.util.spec_from_file_location(f"experiment_{name}", FOLDER / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)  # dataclasses look their module up
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def argv(monkeypatch):
    """Return a function that sets the command line."""
    return lambda text: monkeypatch.setattr(sys, "argv", text.split())
